//! Comments of issues and pull requests: reading the newest, writing one, finding one again.

use super::client::InstallationClient;
use super::error::GithubError;
use super::rest::{IdShape, UserShape};
use crate::model::*;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentInfo {
    pub id: CommentId,
    /// Absent for a deleted account.
    pub author: Option<Person>,
    pub body: String,
    pub created_at: Timestamp,
}

#[derive(Deserialize)]
struct CommentShape {
    id: i64,
    user: Option<UserShape>,
    body: Option<String>,
    created_at: chrono::DateTime<chrono::Utc>,
}

impl From<CommentShape> for CommentInfo {
    fn from(shape: CommentShape) -> Self {
        CommentInfo {
            id: CommentId(shape.id),
            author: shape.user.map(Person::from),
            body: shape.body.unwrap_or_default(),
            created_at: Timestamp::new(shape.created_at),
        }
    }
}

impl InstallationClient {
    /// The newest comments of a thread (100 at most), oldest first.
    pub async fn comments(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
    ) -> Result<Vec<CommentInfo>, GithubError> {
        let path = format!("/repos/{name}/issues/{number}/comments");
        let newest: Vec<CommentShape> = self.read_newest(repository, &path).await?;
        Ok(newest.into_iter().map(CommentInfo::from).collect())
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
        let changed: IdShape = self.write(repository, Method::PATCH, &path, &json!({"body": body})).await?.json()?;
        match changed.id == id.0 {
            true => Ok(()),
            false => Err(GithubError::BadAnswer("another comment".to_owned())),
        }
    }

    /// The comment by `author` that carries `marker`, written at `since` or later; markers in anybody else's comments count
    /// for nothing.
    pub async fn find_comment(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
        marker: &str,
        author: UserId,
        since: Timestamp,
    ) -> Result<Option<CommentId>, GithubError> {
        let path = format!("/repos/{name}/issues/{number}/comments?since={since}");
        let shapes: Vec<CommentShape> = self.read_all(repository, &path).await?;
        let mut own = shapes.iter().filter(|shape| shape.user.as_ref().is_some_and(|user| user.id == author.0));
        let found = own.find(|shape| shape.body.as_deref().is_some_and(|body| body.contains(marker)));
        Ok(found.map(|shape| CommentId(shape.id)))
    }
}
