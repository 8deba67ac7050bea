//! What is in a repository, as far as comments and the panel link to it: a commit, the files of a branch, the difference
//! between two branches.

use super::{
    diff::{self, FileDiff},
    markdown, page, refused,
};
use crate::demo::github::{Hub, git::CommitInfo, refusal::Refusal};
use askama::Template;
use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use std::sync::Arc;

/// Files whose text a page shows; the others are named only.
const SHOWN: usize = 50;
/// A text beyond this, in bytes, is not shown.
const LONGEST: usize = 64 * 1024;

#[derive(Template)]
#[template(path = "demo/commit.html")]
struct CommitPage {
    title: String,
    full_name: String,
    commit: CommitInfo,
    /// The commit's message as HTML.
    message: String,
    diff: Vec<FileDiff>,
}

#[derive(Template)]
#[template(path = "demo/tree.html")]
struct TreePage {
    title: String,
    full_name: String,
    commit: String,
    short: String,
    /// Each with its text, if that is shown.
    files: Vec<(String, Option<String>)>,
}

#[derive(Template)]
#[template(path = "demo/compare.html")]
struct ComparePage {
    title: String,
    full_name: String,
    diff: Vec<FileDiff>,
}

type Place = Path<(String, String, String)>;

pub(super) async fn commit(State(hub): State<Arc<Hub>>, Path((owner, repo, sha)): Place) -> Response {
    match hub.commit_page(&format!("{owner}/{repo}"), &sha).await {
        Ok(shown) => page(StatusCode::OK, &shown),
        Err(refusal) => refused(&refusal),
    }
}

pub(super) async fn tree(State(hub): State<Arc<Hub>>, Path((owner, repo, revision)): Place) -> Response {
    match hub.tree_page(&format!("{owner}/{repo}"), &revision).await {
        Ok(shown) => page(StatusCode::OK, &shown),
        Err(refusal) => refused(&refusal),
    }
}

pub(super) async fn compare(State(hub): State<Arc<Hub>>, Path((owner, repo, range)): Place) -> Response {
    match hub.compare_page(&format!("{owner}/{repo}"), &range).await {
        Ok(shown) => page(StatusCode::OK, &shown),
        Err(refusal) => refused(&refusal),
    }
}

impl Hub {
    async fn commit_page(&self, full_name: &str, sha: &str) -> Result<CommitPage, Refusal> {
        let (id, full_name) = self.place(full_name)?;
        let sha = self.commit_called(id, sha).await?;
        let commit = self.git.commit(id, &sha).await?;
        let diff = diff::files(&self.git.diff_of(id, &sha).await?);
        let subject = commit.message.lines().next().unwrap_or_default();
        let (title, message) = (format!("{subject} · {}", &sha[..7]), markdown::plain(&commit.message));
        Ok(CommitPage { title, full_name, commit, message, diff })
    }

    async fn tree_page(&self, full_name: &str, revision: &str) -> Result<TreePage, Refusal> {
        let (id, full_name) = self.place(full_name)?;
        let commit = self.revision(id, revision).await?;
        let mut files = Vec::new();
        for name in self.git.files(id, &commit).await? {
            let text = match files.len() < SHOWN {
                true => self.git.file(id, &commit, &name).await?,
                false => None,
            };
            files.push((name, text.filter(|text| text.len() <= LONGEST && !text.contains('\0'))));
        }
        Ok(TreePage {
            title: format!("{full_name} at {revision}"),
            full_name,
            short: commit[..7].to_owned(),
            commit,
            files,
        })
    }

    async fn compare_page(&self, full_name: &str, range: &str) -> Result<ComparePage, Refusal> {
        let (id, full_name) = self.place(full_name)?;
        let (base, head) = range.split_once("...").ok_or_else(|| Refusal::missing(range))?;
        let (from, to) = (self.revision(id, base).await?, self.revision(id, head).await?);
        let diff = diff::files(&self.git.diff(id, &from, &to).await?);
        Ok(ComparePage { title: format!("{base}...{head}"), full_name, diff })
    }

    /// Id of a repository, and its name as it is spelled.
    fn place(&self, full_name: &str) -> Result<(i64, String), Refusal> {
        let world = self.world();
        let place = world.repository_named(full_name)?;
        Ok((place.id, world.full_name(place)))
    }

    /// The commit of a branch, or of a commit id.
    async fn revision(&self, repository: i64, name: &str) -> Result<String, Refusal> {
        match self.git.commit_of(repository, &format!("refs/heads/{name}")).await? {
            Some(tip) => Ok(tip),
            None => self.commit_called(repository, name).await,
        }
    }

    /// The commit with that id, which may be cut short; names mean nothing here.
    async fn commit_called(&self, repository: i64, sha: &str) -> Result<String, Refusal> {
        let missing = || Refusal::missing(format!("commit {sha}"));
        if sha.len() < 7 || !sha.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(missing());
        }
        self.git.commit_of(repository, sha).await?.ok_or_else(missing)
    }
}
