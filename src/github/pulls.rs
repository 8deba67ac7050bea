//! Pull requests: reading one, finding one by its branch, opening one.

use super::auth::Scope;
use super::client::InstallationClient;
use super::error::GithubError;
use super::moment;
use super::rest::{IdShape, access};
use crate::model::*;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

/// Where there are more open pull requests than on so many pages, the older ones are not looked through for a text.
const TEXT_PAGES: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    pub number: ThreadNumber,
    pub title: String,
    pub body: String,
    pub state: ThreadState,
    /// Absent also when GitHub's words for it are not understood.
    pub merged_at: Option<Timestamp>,
    /// Of a merged one, too.
    pub closed_at: Option<Timestamp>,
    /// A branch whose name we do not accept is called by GitHub's own ref for it, `pull/<n>/head`.
    pub head: BranchName,
    /// So it is.
    pub head_renamed: bool,
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
struct SideShape {
    #[serde(rename = "ref")]
    name: String,
    sha: String,
    repo: Option<IdShape>,
}

#[derive(Deserialize)]
struct TextShape {
    number: i64,
    body: Option<String>,
}

#[derive(Deserialize)]
struct PullShape {
    number: i64,
    title: Option<String>,
    body: Option<String>,
    state: String,
    merged_at: Option<String>,
    closed_at: Option<String>,
    head: SideShape,
    base: SideShape,
}

impl TryFrom<PullShape> for PullRequest {
    type Error = GithubError;
    fn try_from(shape: PullShape) -> Result<Self, GithubError> {
        let bad = |error: InvalidName| GithubError::BadAnswer(error.to_string());
        let merged_at = shape.merged_at.as_deref();
        let state = match (shape.state.as_str(), merged_at) {
            (_, Some(_)) => ThreadState::Merged,
            ("open", None) => ThreadState::Open,
            (_, None) => ThreadState::Closed,
        };
        let base_repository = shape.base.repo.ok_or_else(|| GithubError::BadAnswer("no base repository".to_owned()))?;
        let head_repository = shape.head.repo.map(|repository| RepositoryId(repository.id));
        let head = BranchName::new(&shape.head.name).ok();
        let head_renamed = head.is_none();
        let head = head.map_or_else(|| BranchName::new(&format!("pull/{}/head", shape.number)), Ok);
        Ok(PullRequest {
            number: ThreadNumber(shape.number),
            title: shape.title.unwrap_or_default(),
            body: shape.body.unwrap_or_default(),
            state,
            merged_at: moment(merged_at),
            closed_at: moment(shape.closed_at.as_deref()),
            head: head.map_err(bad)?,
            head_renamed,
            head_sha: CommitSha::new(&shape.head.sha).map_err(bad)?,
            head_repository,
            base: BranchName::new(&shape.base.name).map_err(bad)?,
            base_repository: RepositoryId(base_repository.id),
        })
    }
}

impl InstallationClient {
    pub async fn pull_request(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
    ) -> Result<PullRequest, GithubError> {
        self.read(repository, &format!("/repos/{name}/pulls/{number}")).await?.json::<PullShape>()?.try_into()
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

    /// Every pull request whose head is or was this branch of the repository itself.
    pub async fn find_pull_requests(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        head: &BranchName,
    ) -> Result<Vec<PullRequest>, GithubError> {
        self.pull_requests_of(repository, name, head, "all").await
    }

    /// The texts of the open pull requests, the newest first, as far as three pages of them go.
    pub async fn texts_of_open_pull_requests(
        &self,
        repository: RepositoryId,
        name: &RepoName,
    ) -> Result<Vec<(ThreadNumber, String)>, GithubError> {
        let mut texts = Vec::new();
        for page in 1..=TEXT_PAGES {
            let path = format!("/repos/{name}/pulls?state=open");
            let (shapes, last) = self.read_page::<TextShape>(repository, &path, page).await?;
            texts.extend(shapes.into_iter().map(|shape| (ThreadNumber(shape.number), shape.body.unwrap_or_default())));
            if page >= last {
                break;
            }
        }
        Ok(texts)
    }

    /// Those whose head is the branch of the repository itself: GitHub's filter knows the owner only, who may have a fork, too.
    async fn pull_requests_of(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        head: &BranchName,
        state: &str,
    ) -> Result<Vec<PullRequest>, GithubError> {
        let head_query = percent_encoded(&format!("{}:{head}", name.owner()));
        let path = format!("/repos/{name}/pulls?state={state}&head={head_query}");
        let shapes: Vec<PullShape> = self.read_all(repository, &path).await?;
        // Into a branch whose name we do not accept, none of ours goes; whatever else is not understood is an error.
        let known = shapes.into_iter().filter(|shape| BranchName::new(&shape.base.name).is_ok());
        let pulls: Result<Vec<PullRequest>, _> = known.map(PullRequest::try_from).collect();
        Ok(pulls?.into_iter().filter(|pull| pull.head == *head && !pull.is_fork()).collect())
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
        let (access, path) = (access(repository, Scope::Propose), format!("/repos/{name}/pulls"));
        let answer = self.request(access, Method::POST, &path, Some(&body)).await?;
        Ok(ThreadNumber(answer.json::<PullShape>()?.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn pull(change: impl FnOnce(&mut Value)) -> Result<PullRequest, GithubError> {
        let side = |name: &str| json!({"ref": name, "sha": "a".repeat(40), "repo": {"id": 1}});
        let mut shape =
            json!({"number": 7, "title": null, "body": null, "state": "open", "head": side("x"), "base": side("main")});
        change(&mut shape);
        serde_json::from_value::<PullShape>(shape).unwrap().try_into()
    }

    #[test]
    fn a_head_whose_repository_is_gone_is_a_fork() {
        assert!(!pull(|_| ()).unwrap().is_fork());
        assert!(pull(|shape| shape["head"]["repo"] = Value::Null).unwrap().is_fork());
        assert!(pull(|shape| shape["head"]["repo"]["id"] = json!(2)).unwrap().is_fork());
    }

    #[test]
    fn the_name_of_a_forks_branch_cannot_be_in_the_way() {
        let odd = |shape: &mut Value| shape["head"]["ref"] = json!("--upload-pack=x");
        let own = pull(odd).unwrap();
        assert!(own.head_renamed && !own.is_fork(), "{own:?}");
        let fork = pull(|shape| {
            odd(shape);
            shape["head"]["repo"] = Value::Null;
        });
        assert_eq!(fork.unwrap().head.as_str(), "pull/7/head");
    }

    #[test]
    fn merged_is_more_than_closed() {
        let state = |state: &str, merged_at: Value| {
            let changed = pull(|shape| {
                shape["state"] = json!(state);
                shape["merged_at"] = merged_at;
            });
            changed.unwrap().state
        };
        assert_eq!(state("open", Value::Null), ThreadState::Open);
        assert_eq!(state("closed", Value::Null), ThreadState::Closed);
        assert_eq!(state("closed", json!("2026-01-01T00:00:00Z")), ThreadState::Merged);
    }
}
