//! Repositories, issues, permissions and reactions over REST, and the ways in which all REST requests are made. Source:
//! GitHub's REST API reference, version 2022-11-28.

use super::auth::{Access, Scope};
use super::client::{Answer, Github, InstallationClient};
use super::error::GithubError;
use crate::model::*;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) const PAGE_SIZE: usize = 100;
/// Lists are followed over at most this many pages.
pub(super) const MAX_PAGES: usize = 20;

/// What GitHub says of the refs of a repository without a commit, with status 409.
const EMPTY: &str = "Git Repository is empty";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryInfo {
    pub id: RepositoryId,
    pub name: RepoName,
    pub default_branch: Option<BranchName>,
    pub archived: bool,
    /// Without credentials.
    pub clone_url: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueInfo {
    pub number: ThreadNumber,
    pub title: String,
    pub body: String,
    pub labels: Vec<String>,
    /// Absent for a deleted account.
    pub author: Option<Person>,
    pub state: ThreadState,
    /// Every pull request is an issue, too.
    pub kind: ThreadKind,
}

#[derive(Deserialize)]
struct RepositoryShape {
    id: i64,
    full_name: String,
    default_branch: Option<String>,
    archived: Option<bool>,
}

#[derive(Deserialize)]
struct ListShape {
    repositories: Vec<RepositoryShape>,
}

#[derive(Deserialize)]
struct RefShape {
    /// In full.
    #[serde(rename = "ref")]
    name: String,
    object: ObjectShape,
}

#[derive(Deserialize)]
struct ObjectShape {
    sha: String,
}

#[derive(Deserialize)]
pub(super) struct IdShape {
    pub id: i64,
}

#[derive(Deserialize)]
pub(super) struct UserShape {
    pub id: i64,
    pub login: String,
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

impl From<UserShape> for Person {
    fn from(user: UserShape) -> Self {
        let is_bot = user.kind.as_deref().is_some_and(|kind| kind != "User");
        Person { id: UserId(user.id), login: user.login, is_bot }
    }
}

#[derive(Deserialize)]
struct LabelShape {
    name: Option<String>,
}

#[derive(Deserialize)]
struct IssueShape {
    number: i64,
    title: Option<String>,
    body: Option<String>,
    state: String,
    user: Option<UserShape>,
    #[serde(default)]
    labels: Vec<LabelShape>,
    pull_request: Option<serde::de::IgnoredAny>,
}

pub(super) fn access(repository: RepositoryId, scope: Scope) -> Access {
    Access { repository: Some(repository), scope }
}

fn too_many() -> GithubError {
    GithubError::BadAnswer("more repositories than can be looked through".to_owned())
}

/// The number of the last page of a list, as far as GitHub names it on this one.
pub(super) fn pages_of(answer: &Answer, page: usize) -> usize {
    last_page(answer.headers.get("link").and_then(|value| value.to_str().ok()).unwrap_or_default(), page)
}

/// The last page's number from a `Link` header; long lists may name only the next one.
fn last_page(link: &str, page: usize) -> usize {
    let named = |rel: &str| {
        let entry = link.split(',').find(|entry| entry.contains(&format!("rel=\"{rel}\"")))?;
        let query = entry.split(['<', '>']).nth(1)?.split_once('?')?.1;
        query.split('&').find_map(|pair| pair.strip_prefix("page="))?.parse().ok()
    };
    let next = link.contains("rel=\"next\"").then_some(page + 1);
    named("last").or(next).unwrap_or(page).max(page)
}

impl Github {
    /// A repository of which only a name is known, which may be an old one, and the installation that reaches it. Source:
    /// "Get a repository installation for the authenticated app".
    pub async fn find_repository(&self, name: &RepoName) -> Result<(InstallationId, RepositoryInfo), GithubError> {
        let found: IdShape = self.as_app(Method::GET, &format!("/repos/{name}/installation"), None).await?.json()?;
        let client = self.installation(InstallationId(found.id));
        let any = Access { repository: None, scope: Scope::Metadata };
        let answer = client.request(any, Method::GET, &format!("/repos/{name}"), None).await?;
        Ok((client.id, client.described(answer.json()?)?))
    }
}

impl InstallationClient {
    pub(super) async fn read(&self, repository: RepositoryId, path: &str) -> Result<Answer, GithubError> {
        self.read_by(repository, Scope::Read, path).await
    }

    async fn read_by(&self, repository: RepositoryId, scope: Scope, path: &str) -> Result<Answer, GithubError> {
        self.request(access(repository, scope), Method::GET, path, None).await
    }

    /// Comments and reactions.
    pub(super) async fn write(
        &self,
        repository: RepositoryId,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Answer, GithubError> {
        self.request(access(repository, Scope::Talk), method, path, Some(body)).await
    }

    /// A list over all its pages. The `Link` header only says whether there is a next one; its address is ours, so that
    /// requests never leave the configured host.
    pub(super) async fn read_all<T: serde::de::DeserializeOwned>(
        &self,
        repository: RepositoryId,
        path: &str,
    ) -> Result<Vec<T>, GithubError> {
        let mut items = Vec::new();
        for page in 1..=MAX_PAGES {
            let (more, last) = self.read_page::<T>(repository, path, page).await?;
            items.extend(more);
            if page >= last {
                break;
            }
        }
        Ok(items)
    }

    /// The newest entries (100 at most) of a list that GitHub gives oldest first, as it gives it.
    pub(super) async fn read_newest<T: serde::de::DeserializeOwned>(
        &self,
        repository: RepositoryId,
        path: &str,
    ) -> Result<Vec<T>, GithubError> {
        let (mut items, last) = self.read_page(repository, path, 1).await?;
        // They are on the last two pages, the last one being partly filled.
        if last > 2 {
            items = self.read_page(repository, path, last - 1).await?.0;
        }
        if last > 1 {
            items.extend(self.read_page::<T>(repository, path, last).await?.0);
        }
        Ok(items.split_off(items.len().saturating_sub(PAGE_SIZE)))
    }

    /// One page of a list and the number of the last one, as far as GitHub names it.
    pub(super) async fn read_page<T: serde::de::DeserializeOwned>(
        &self,
        repository: RepositoryId,
        path: &str,
        page: usize,
    ) -> Result<(Vec<T>, usize), GithubError> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let answer = self.read(repository, &format!("{path}{separator}per_page={PAGE_SIZE}&page={page}")).await?;
        Ok((answer.json()?, pages_of(&answer, page)))
    }

    /// The repository with this id, which stays through renames; `name` is what it was called when it was last heard of.
    /// GitHub describes no question by id: a name that leads nowhere, or to another repository by now, is looked for among
    /// all that the installation reaches.
    pub async fn repository(&self, id: RepositoryId, name: &RepoName) -> Result<RepositoryInfo, GithubError> {
        let named = match self.read_by(id, Scope::Metadata, &format!("/repos/{name}")).await {
            Ok(answer) => Some(answer.json::<RepositoryShape>()?).filter(|shape| shape.id == id.0),
            Err(GithubError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        match named {
            Some(shape) => self.described(shape),
            None => self.described(self.listed(id).await?),
        }
    }

    /// Everything that the installation reaches.
    pub async fn repositories(&self) -> Result<Vec<RepositoryInfo>, GithubError> {
        let any = Access { repository: None, scope: Scope::Metadata };
        let mut found = Vec::new();
        for page in 1..=MAX_PAGES {
            let (shapes, last) = self.reached(any, page).await?;
            for shape in shapes {
                found.push(self.described(shape)?);
            }
            if page >= last {
                return Ok(found);
            }
        }
        Err(too_many())
    }

    /// With a token for one repository the list is short.
    async fn listed(&self, id: RepositoryId) -> Result<RepositoryShape, GithubError> {
        for page in 1..=MAX_PAGES {
            let (shapes, last) = self.reached(access(id, Scope::Metadata), page).await?;
            if let Some(shape) = shapes.into_iter().find(|shape| shape.id == id.0) {
                return Ok(shape);
            }
            if page >= last {
                return Err(GithubError::NotFound("this repository".to_owned()));
            }
        }
        Err(too_many())
    }

    /// One page, and the number of the last one. Source: "List repositories accessible to the app installation".
    async fn reached(&self, access: Access, page: usize) -> Result<(Vec<RepositoryShape>, usize), GithubError> {
        let path = format!("/installation/repositories?per_page={PAGE_SIZE}&page={page}");
        let answer = self.request(access, Method::GET, &path, None).await?;
        let last = pages_of(&answer, page);
        Ok((answer.json::<ListShape>()?.repositories, last))
    }

    fn described(&self, shape: RepositoryShape) -> Result<RepositoryInfo, GithubError> {
        let bad = |error: InvalidName| GithubError::BadAnswer(error.to_string());
        let name: RepoName = shape.full_name.parse().map_err(bad)?;
        Ok(RepositoryInfo {
            id: RepositoryId(shape.id),
            default_branch: shape.default_branch.and_then(|name| BranchName::new(&name).ok()),
            archived: shape.archived.unwrap_or_default(),
            clone_url: self.github.clone_url(&name),
            name,
        })
    }

    pub async fn issue(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
    ) -> Result<IssueInfo, GithubError> {
        let shape: IssueShape = self.read(repository, &format!("/repos/{name}/issues/{number}")).await?.json()?;
        Ok(IssueInfo {
            number: ThreadNumber(shape.number),
            title: shape.title.unwrap_or_default(),
            body: shape.body.unwrap_or_default(),
            labels: shape.labels.into_iter().filter_map(|label| label.name).collect(),
            author: shape.user.map(Person::from),
            state: if shape.state == "open" { ThreadState::Open } else { ThreadState::Closed },
            kind: if shape.pull_request.is_some() { ThreadKind::PullRequest } else { ThreadKind::Issue },
        })
    }

    /// What GitHub lets a person do. Whoever took over a login has no permission: people are known by their id. An answer
    /// that is none, "Not Found" among them, says nothing of anybody: those who may do nothing are told so by name.
    pub async fn permission(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        person: &Person,
    ) -> Result<Permission, GithubError> {
        let path = format!("/repos/{name}/collaborators/{}/permission", percent_encoded(&person.login));
        let answer: Value = self.read_by(repository, Scope::Metadata, &path).await?.json()?;
        let id =
            answer["user"]["id"].as_i64().ok_or_else(|| GithubError::BadAnswer("nobody's permission".to_owned()))?;
        if id != person.id.0 {
            return Ok(Permission::None);
        }
        // `role_name` tells triage and maintain apart; custom roles are only known by their base, `permission`.
        let known = |field: &str| answer[field].as_str().and_then(|text| text.parse().ok());
        known("role_name")
            .or_else(|| known("permission"))
            .ok_or_else(|| GithubError::BadAnswer("no permission".to_owned()))
    }

    /// Where a branch stands on GitHub; absent when there is none of that name.
    pub async fn branch_tip(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        branch: &BranchName,
    ) -> Result<Option<CommitSha>, GithubError> {
        let path = format!("/repos/{name}/git/ref/heads/{}", branch.in_address());
        let found: RefShape = match self.read_by(repository, Scope::Fetch, &path).await {
            Ok(answer) => answer.json()?,
            Err(GithubError::NotFound(_)) => return Ok(None),
            Err(GithubError::Invalid(why)) if why.starts_with(EMPTY) => return Ok(None),
            Err(error) => return Err(error),
        };
        CommitSha::new(&found.object.sha).map(Some).map_err(|error| GithubError::BadAnswer(error.to_string()))
    }

    /// The branches on GitHub whose names begin like this one's, by their names: it itself, those below it, and others.
    pub async fn branches_like(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        branch: &BranchName,
    ) -> Result<BTreeMap<String, CommitSha>, GithubError> {
        let path = format!("/repos/{name}/git/matching-refs/heads/{}", branch.in_address());
        // This list comes whole; GitHub describes no pages of it.
        let found: Vec<RefShape> = match self.read_by(repository, Scope::Fetch, &path).await {
            Ok(answer) if pages_of(&answer, 1) > 1 => {
                return Err(GithubError::BadAnswer("a part of a list".to_owned()));
            }
            Ok(answer) => answer.json()?,
            Err(GithubError::Invalid(why)) if why.starts_with(EMPTY) => Vec::new(),
            Err(error) => return Err(error),
        };
        let bad = |error: InvalidName| GithubError::BadAnswer(error.to_string());
        let tip = |found: RefShape| {
            let name = found.name.strip_prefix("refs/heads/").unwrap_or(&found.name).to_owned();
            Ok((name, CommitSha::new(&found.object.sha).map_err(bad)?))
        };
        found.into_iter().map(tip).collect()
    }

    /// Adding the same reaction twice changes nothing.
    pub async fn react(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
        source: &MessageSource,
        content: &str,
    ) -> Result<(), GithubError> {
        let target = match source {
            // Reviews take no reactions over REST; the thread itself does.
            MessageSource::ThreadBody | MessageSource::Review { .. } => format!("issues/{number}"),
            MessageSource::IssueComment { id } => format!("issues/comments/{id}"),
            MessageSource::ReviewComment { id, .. } => format!("pulls/comments/{id}"),
            MessageSource::Local => return Err(GithubError::NotFound("the message".to_owned())),
        };
        let path = format!("/repos/{name}/{target}/reactions");
        // Whatever else comes with a success is not GitHub's word for it.
        let _: IdShape = self.write(repository, Method::POST, &path, &json!({"content": content})).await?.json()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_page_is_read_from_the_link_header() {
        let link = r#"<https://h/api/v3/x?per_page=100&page=2>; rel="next", <https://h/api/v3/x?per_page=100&page=7>; rel="last""#;
        assert_eq!(last_page(link, 1), 7);
        assert_eq!(last_page(r#"<https://h/x?after=abc>; rel="next""#, 3), 4);
        assert_eq!(last_page(r#"<https://h/x?page=1>; rel="prev", <https://h/x?page=1>; rel="first""#, 2), 2);
        assert_eq!(last_page("", 1), 1);
    }

    #[test]
    fn odd_texts_cannot_leave_their_place_in_a_path() {
        assert_eq!(percent_encoded("a/../b?c#d e[bot]ä"), "a%2F..%2Fb%3Fc%23d%20e%5Bbot%5D%C3%A4");
    }
}
