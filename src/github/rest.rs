//! Single questions and requests over REST, in our words. Source: GitHub's REST API reference, version 2022-11-28.

use super::auth::{Access, Scope};
use super::client::{Answer, InstallationClient};
use super::error::GithubError;
use crate::model::*;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

/// Lists are followed over at most this many pages.
const MAX_PAGES: usize = 20;

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
pub struct PullRequest {
    pub number: ThreadNumber,
    pub title: String,
    pub body: String,
    pub state: ThreadState,
    pub head: BranchName,
    pub head_sha: CommitSha,
    /// Absent when the repository the head came from is gone.
    pub head_repository: Option<RepositoryId>,
    pub base: BranchName,
    pub base_repository: RepositoryId,
}

impl PullRequest {
    /// The head lives elsewhere, or its repository is gone: nothing can be pushed to it.
    pub fn is_fork(&self) -> bool {
        self.head_repository != Some(self.base_repository)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueInfo {
    pub number: ThreadNumber,
    pub title: String,
    pub body: String,
    pub labels: Vec<String>,
    pub author: Option<String>,
    pub state: ThreadState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentInfo {
    pub id: CommentId,
    /// Absent for a deleted account.
    pub author: Option<Person>,
    pub body: String,
}

/// A pull request to open.
#[derive(Clone, Copy, Debug)]
pub struct NewPullRequest<'a> {
    pub head: &'a BranchName,
    pub base: &'a BranchName,
    pub title: &'a str,
    pub body: &'a str,
    pub draft: bool,
}

#[derive(Deserialize)]
struct RepositoryShape {
    id: i64,
    full_name: String,
    default_branch: Option<String>,
    archived: Option<bool>,
    clone_url: String,
}

#[derive(Deserialize)]
struct IdShape {
    id: i64,
}

#[derive(Deserialize)]
struct SideShape {
    #[serde(rename = "ref")]
    name: String,
    sha: String,
    repo: Option<IdShape>,
}

#[derive(Deserialize)]
struct PullShape {
    number: i64,
    title: Option<String>,
    body: Option<String>,
    state: String,
    merged_at: Option<String>,
    head: SideShape,
    base: SideShape,
}

#[derive(Deserialize)]
struct UserShape {
    id: i64,
    login: String,
    #[serde(rename = "type")]
    kind: Option<String>,
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
}

#[derive(Deserialize)]
struct CommentShape {
    id: i64,
    user: Option<UserShape>,
    body: Option<String>,
}

impl TryFrom<PullShape> for PullRequest {
    type Error = GithubError;
    fn try_from(shape: PullShape) -> Result<Self, GithubError> {
        let bad = |error: InvalidName| GithubError::BadAnswer(error.to_string());
        let state = match (shape.state.as_str(), shape.merged_at) {
            (_, Some(_)) => ThreadState::Merged,
            ("open", None) => ThreadState::Open,
            (_, None) => ThreadState::Closed,
        };
        let base_repository = shape.base.repo.ok_or_else(|| GithubError::BadAnswer("no base repository".to_owned()))?;
        Ok(PullRequest {
            number: ThreadNumber(shape.number),
            title: shape.title.unwrap_or_default(),
            body: shape.body.unwrap_or_default(),
            state,
            head: BranchName::new(&shape.head.name).map_err(bad)?,
            head_sha: CommitSha::new(&shape.head.sha).map_err(bad)?,
            head_repository: shape.head.repo.map(|repository| RepositoryId(repository.id)),
            base: BranchName::new(&shape.base.name).map_err(bad)?,
            base_repository: RepositoryId(base_repository.id),
        })
    }
}

impl From<CommentShape> for CommentInfo {
    fn from(shape: CommentShape) -> Self {
        let author = shape.user.map(|user| Person {
            id: UserId(user.id),
            is_bot: user.kind.as_deref().is_some_and(|kind| kind != "User"),
            login: user.login,
        });
        CommentInfo { id: CommentId(shape.id), author, body: shape.body.unwrap_or_default() }
    }
}

fn access(repository: RepositoryId, scope: Scope) -> Access {
    Access { repository: Some(repository), scope }
}

/// Percent-encodes one path segment or query value.
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => (byte as char).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

impl InstallationClient {
    async fn read(&self, repository: RepositoryId, path: &str) -> Result<Answer, GithubError> {
        self.request(access(repository, Scope::Read), Method::GET, path, None).await
    }

    async fn write(
        &self,
        repository: RepositoryId,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Answer, GithubError> {
        self.request(access(repository, Scope::Talk), method, path, Some(body)).await
    }

    /// A list over all its pages. The next page is taken from the `Link` header, but only its path: requests never leave
    /// the configured host.
    async fn read_all<T: serde::de::DeserializeOwned>(
        &self,
        repository: RepositoryId,
        path: &str,
    ) -> Result<Vec<T>, GithubError> {
        let mut items = Vec::new();
        let separator = if path.contains('?') { '&' } else { '?' };
        for page in 1..=MAX_PAGES {
            let answer = self.read(repository, &format!("{path}{separator}per_page=100&page={page}")).await?;
            items.extend(answer.json::<Vec<T>>()?);
            let link = answer.headers.get("link").and_then(|value| value.to_str().ok()).unwrap_or_default();
            if !link.contains("rel=\"next\"") {
                break;
            }
        }
        Ok(items)
    }

    /// By its id, which stays through renames.
    pub async fn repository(&self, id: RepositoryId) -> Result<RepositoryInfo, GithubError> {
        let shape: RepositoryShape = self.read(id, &format!("/repositories/{id}")).await?.json()?;
        let bad = |error: InvalidName| GithubError::BadAnswer(error.to_string());
        Ok(RepositoryInfo {
            id: RepositoryId(shape.id),
            name: shape.full_name.parse().map_err(bad)?,
            default_branch: shape.default_branch.and_then(|name| BranchName::new(&name).ok()),
            archived: shape.archived.unwrap_or_default(),
            clone_url: shape.clone_url,
        })
    }

    pub async fn pull_request(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
    ) -> Result<PullRequest, GithubError> {
        self.read(repository, &format!("/repos/{name}/pulls/{number}")).await?.json::<PullShape>()?.try_into()
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
            author: shape.user.map(|user| user.login),
            state: if shape.state == "open" { ThreadState::Open } else { ThreadState::Closed },
        })
    }

    /// Oldest first.
    pub async fn comments(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
    ) -> Result<Vec<CommentInfo>, GithubError> {
        let path = format!("/repos/{name}/issues/{number}/comments");
        let shapes: Vec<CommentShape> = self.read_all(repository, &path).await?;
        Ok(shapes.into_iter().map(CommentInfo::from).collect())
    }

    /// What GitHub lets a person do; nobody it does not know has any permission.
    pub async fn permission(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        login: &str,
    ) -> Result<Permission, GithubError> {
        let path = format!("/repos/{name}/collaborators/{}/permission", encode(login));
        let answer: Value = match self.read(repository, &path).await {
            Ok(answer) => answer.json()?,
            Err(GithubError::NotFound(_)) => return Ok(Permission::None),
            Err(error) => return Err(error),
        };
        // `role_name` tells triage and maintain apart; custom roles are only known by their base, `permission`.
        let known = |field: &str| answer[field].as_str().and_then(|text| text.parse().ok());
        known("role_name")
            .or_else(|| known("permission"))
            .ok_or_else(|| GithubError::BadAnswer("no permission".to_owned()))
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
        };
        let path = format!("/repos/{name}/{target}/reactions");
        self.write(repository, Method::POST, &path, &json!({"content": content})).await.map(drop)
    }

    pub async fn create_comment(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
        body: &str,
    ) -> Result<CommentId, GithubError> {
        let path = format!("/repos/{name}/issues/{number}/comments");
        let created: IdShape = self.write(repository, Method::POST, &path, &json!({"body": body})).await?.json()?;
        Ok(CommentId(created.id))
    }

    pub async fn update_comment(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        id: CommentId,
        body: &str,
    ) -> Result<(), GithubError> {
        let path = format!("/repos/{name}/issues/comments/{id}");
        self.write(repository, Method::PATCH, &path, &json!({"body": body})).await.map(drop)
    }

    /// The comment by `author` that carries `marker`; markers in anybody else's comments count for nothing.
    pub async fn find_comment(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
        marker: &str,
        author: UserId,
    ) -> Result<Option<CommentId>, GithubError> {
        let comments = self.comments(repository, name, number).await?;
        let own = |comment: &&CommentInfo| comment.author.as_ref().is_some_and(|person| person.id == author);
        Ok(comments.iter().filter(own).find(|comment| comment.body.contains(marker)).map(|comment| comment.id))
    }

    /// The open pull request whose head is this branch of the repository itself.
    pub async fn find_open_pull_request(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        head: &BranchName,
    ) -> Result<Option<PullRequest>, GithubError> {
        let found = self.pull_requests_of(repository, name, head, "open").await?;
        Ok(found.into_iter().next())
    }

    /// The pull request that merged exactly this commit of this branch.
    pub async fn merged_pull_request(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        head: &BranchName,
        sha: &CommitSha,
    ) -> Result<Option<ThreadNumber>, GithubError> {
        let found = self.pull_requests_of(repository, name, head, "closed").await?;
        let exact = |pull: &&PullRequest| pull.state == ThreadState::Merged && pull.head_sha == *sha && !pull.is_fork();
        Ok(found.iter().find(exact).map(|pull| pull.number))
    }

    async fn pull_requests_of(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        head: &BranchName,
        state: &str,
    ) -> Result<Vec<PullRequest>, GithubError> {
        let head_query = encode(&format!("{}:{head}", name.owner()));
        let path = format!("/repos/{name}/pulls?state={state}&head={head_query}");
        let shapes: Vec<PullShape> = self.read_all(repository, &path).await?;
        let pulls: Result<Vec<PullRequest>, _> = shapes.into_iter().map(PullRequest::try_from).collect();
        Ok(pulls?.into_iter().filter(|pull| pull.head == *head).collect())
    }

    pub async fn create_pull_request(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        new: &NewPullRequest<'_>,
    ) -> Result<ThreadNumber, GithubError> {
        let body = json!({
            "head": new.head, "base": new.base, "title": new.title, "body": new.body, "draft": new.draft,
        });
        let answer = self.write(repository, Method::POST, &format!("/repos/{name}/pulls"), &body).await?;
        Ok(ThreadNumber(answer.json::<PullShape>()?.number))
    }
}
