//! Reviews of pull requests: the text and the comments on lines that were handed in together.

use super::client::InstallationClient;
use super::error::GithubError;
use super::rest::UserShape;
use crate::model::*;
use serde::Deserialize;

/// One of the texts that make a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewPart {
    /// Absent for a deleted account.
    pub author: Option<Person>,
    pub body: String,
    pub source: MessageSource,
}

#[derive(Deserialize)]
struct PartShape {
    id: i64,
    user: Option<UserShape>,
    body: Option<String>,
    path: Option<String>,
    line: Option<i64>,
    original_line: Option<i64>,
    diff_hunk: Option<String>,
}

impl InstallationClient {
    /// The text of a review, if it has one, then its comments on lines, as GitHub lists them.
    pub async fn review_parts(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
        review: CommentId,
    ) -> Result<Vec<ReviewPart>, GithubError> {
        let path = format!("/repos/{name}/pulls/{number}/reviews/{review}");
        let text: PartShape = self.read(repository, &path).await?.json()?;
        let comments: Vec<PartShape> = self.read_all(repository, &format!("{path}/comments")).await?;
        let parts = std::iter::once(text).chain(comments).map(|shape| ReviewPart {
            author: shape.user.map(Person::from),
            body: shape.body.unwrap_or_default(),
            source: match shape.path {
                None => MessageSource::Review { id: CommentId(shape.id) },
                Some(path) => MessageSource::ReviewComment {
                    id: CommentId(shape.id),
                    review: Some(review),
                    path,
                    line: shape.line.or(shape.original_line),
                    diff_hunk: shape.diff_hunk.unwrap_or_default(),
                },
            },
        });
        Ok(parts.filter(|part| !part.body.trim().is_empty()).collect())
    }
}
