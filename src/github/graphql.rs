//! What only GraphQL tells: which issues a pull request closes, and the other way round; and what became of many
//! branches at once.

use super::auth::{Access, Scope};
use super::client::{InstallationClient, UNNAMED_WAIT};
use super::error::GithubError;
use crate::model::*;
use serde::Deserialize;
use serde_json::{Value, json};

const CLOSING_ISSUES: &str = include_str!("queries/closing_issues.graphql");
const CLOSING_PULL_REQUESTS: &str = include_str!("queries/closing_pull_requests.graphql");
/// A thread with more links than this many pages of 50 is cut off.
const MAX_PAGES: usize = 10;
/// Branches in one question.
const BRANCHES: usize = 100;
/// Pull requests of one branch that are looked through, the newest first.
const PULLS: usize = 20;

/// An issue or pull request at the other end of a closing reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedThread {
    pub repository: RepositoryId,
    /// Absent where GitHub's word for it is none that we accept.
    pub name: Option<RepoName>,
    pub number: ThreadNumber,
}

/// A branch of the repository itself at a commit, and what it was to be merged into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedHead {
    pub head: BranchName,
    pub sha: CommitSha,
    pub base: BranchName,
}

#[derive(Deserialize)]
struct MergedPulls {
    nodes: Vec<Option<MergedPull>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MergedPull {
    number: i64,
    head_ref_oid: String,
    base_ref_name: String,
    is_cross_repository: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    nodes: Vec<Option<Node>>,
    page_info: PageInfo,
}

#[derive(Deserialize)]
struct Node {
    number: i64,
    repository: NodeRepository,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeRepository {
    database_id: i64,
    name_with_owner: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    has_next_page: bool,
    end_cursor: Option<String>,
}

impl InstallationClient {
    /// The issues this pull request will close.
    pub async fn closing_issues(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
    ) -> Result<Vec<LinkedThread>, GithubError> {
        let at = "/data/repository/pullRequest/closingIssuesReferences";
        self.linked(repository, name, number, CLOSING_ISSUES, at).await
    }

    /// The pull requests that will close this issue.
    pub async fn closing_pull_requests(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
    ) -> Result<Vec<LinkedThread>, GithubError> {
        let at = "/data/repository/issue/closedByPullRequestsReferences";
        self.linked(repository, name, number, CLOSING_PULL_REQUESTS, at).await
    }

    /// For each the pull request that merged exactly this commit of this branch into its base, of the last twenty that
    /// were merged of a branch of that name. One request for a hundred of them; where GitHub does not answer that, for
    /// fewer and fewer, and no more once it answers for nothing.
    pub async fn merged_pull_requests(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        wanted: &[MergedHead],
    ) -> Vec<Result<Option<ThreadNumber>, GithubError>> {
        let mut found = Vec::new();
        let mut pending: Vec<&[MergedHead]> = wanted.chunks(BRANCHES).rev().collect();
        let mut failed_alone = false;
        while let Some(some) = pending.pop() {
            match self.merged_of(repository, name, some).await {
                Ok(answers) => {
                    failed_alone = false;
                    found.extend(answers);
                }
                Err(GithubError::Server { .. } | GithubError::BadAnswer(_)) if some.len() > 1 => {
                    let (first, second) = some.split_at(some.len() / 2);
                    pending.extend([second, first]);
                }
                // It may be about this branch alone.
                Err(error @ (GithubError::Server { .. } | GithubError::BadAnswer(_))) if !failed_alone => {
                    failed_alone = true;
                    found.push(Err(error));
                }
                Err(error) => {
                    let left = some.len() + pending.iter().map(|some| some.len()).sum::<usize>();
                    found.extend(vec![Err(error); left]);
                    break;
                }
            }
        }
        found
    }

    async fn merged_of(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        wanted: &[MergedHead],
    ) -> Result<Vec<Result<Option<ThreadNumber>, GithubError>>, GithubError> {
        let access = Access { repository: Some(repository), scope: Scope::Merges };
        let mut variables = json!({"owner": name.owner(), "name": name.name()});
        for (number, wanted) in wanted.iter().enumerate() {
            variables[format!("head{number}")] = json!(wanted.head);
        }
        let body = json!({"query": merged_query(wanted.len()), "variables": variables});
        let answer = self.ask(access, &body).await?;
        if answer.pointer("/data/repository").is_none_or(Value::is_null) {
            return Err(refusal(&answer));
        }
        let of = |(number, wanted): (usize, &MergedHead)| {
            let pulls = answer.pointer(&format!("/data/repository/of{number}")).filter(|pulls| !pulls.is_null());
            let pulls = pulls.ok_or_else(|| refusal(&answer))?;
            let pulls = MergedPulls::deserialize(pulls).map_err(|error| GithubError::BadAnswer(error.to_string()))?;
            let exact = |pull: &&MergedPull| {
                !pull.is_cross_repository
                    && pull.head_ref_oid == wanted.sha.as_str()
                    && pull.base_ref_name == wanted.base.as_str()
            };
            Ok(pulls.nodes.iter().flatten().find(exact).map(|pull| ThreadNumber(pull.number)))
        };
        Ok(wanted.iter().enumerate().map(of).collect())
    }

    /// An answer, which may lack some or all of what was asked for.
    async fn ask(&self, access: Access, body: &Value) -> Result<Value, GithubError> {
        let answer: Value = self.graphql_request(access, body).await?.json()?;
        match refusal(&answer) {
            limited @ GithubError::RateLimited { .. } => self.noted(Err(limited)),
            _ => Ok(answer),
        }
    }

    async fn linked(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
        query: &str,
        at: &str,
    ) -> Result<Vec<LinkedThread>, GithubError> {
        let access = Access { repository: Some(repository), scope: Scope::Read };
        let mut found = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let variables = json!({"owner": name.owner(), "name": name.name(), "number": number, "cursor": cursor});
            let answer = self.ask(access, &json!({"query": query, "variables": variables})).await?;
            let page = answer.pointer(at).filter(|page| !page.is_null()).ok_or_else(|| refusal(&answer))?;
            let page = Page::deserialize(page).map_err(|error| GithubError::BadAnswer(error.to_string()))?;
            found.extend(page.nodes.into_iter().flatten().map(|node| LinkedThread {
                repository: RepositoryId(node.repository.database_id),
                name: node.repository.name_with_owner.and_then(|name| name.parse().ok()),
                number: ThreadNumber(node.number),
            }));
            cursor = page.page_info.end_cursor.filter(|_| page.page_info.has_next_page);
            if cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

/// One field for each branch, all of the same shape.
fn merged_query(branches: usize) -> String {
    let mut query = "query MergedPullRequests($owner: String!, $name: String!".to_owned();
    for number in 0..branches {
        query += &format!(", $head{number}: String!");
    }
    query += ") {\n  repository(owner: $owner, name: $name) {\n";
    for number in 0..branches {
        query += &format!(
            "    of{number}: pullRequests(headRefName: $head{number}, states: MERGED, first: {PULLS}, orderBy: {{field: \
             UPDATED_AT, direction: DESC}}) {{ nodes {{ number headRefOid baseRefName isCrossRepository }} }}\n"
        );
    }
    query += "  }\n}\n";
    query
}

/// Sorts an answer without the data we asked for. GraphQL sends its errors with status 200.
fn refusal(answer: &Value) -> GithubError {
    let first = |field: &str| answer.pointer(&format!("/errors/0/{field}")).and_then(Value::as_str);
    let message = first("message").unwrap_or("no data").to_owned();
    match first("type") {
        Some("NOT_FOUND") => GithubError::NotFound(message),
        Some("FORBIDDEN") => GithubError::Forbidden(message),
        Some("RATE_LIMITED") => GithubError::RateLimited { retry_after: UNNAMED_WAIT },
        Some(_) | None => GithubError::BadAnswer(message),
    }
}
