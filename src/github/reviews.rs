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
    /// Absent for what is not handed in.
    pub written_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct PartShape {
    id: i64,
    user: Option<UserShape>,
    body: Option<String>,
    pull_request_review_id: Option<i64>,
    path: Option<String>,
    line: Option<i64>,
    original_line: Option<i64>,
    diff_hunk: Option<String>,
    /// Of a comment.
    created_at: Option<chrono::DateTime<chrono::Utc>>,
    /// Of a review.
    submitted_at: Option<chrono::DateTime<chrono::Utc>>,
}

impl From<PartShape> for ReviewPart {
    fn from(shape: PartShape) -> Self {
        let id = CommentId(shape.id);
        ReviewPart {
            author: shape.user.map(Person::from),
            body: shape.body.unwrap_or_default(),
            source: match shape.path {
                None => MessageSource::Review { id },
                Some(path) => MessageSource::ReviewComment {
                    id,
                    review: shape.pull_request_review_id.map(CommentId),
                    path,
                    line: shape.line.or(shape.original_line),
                    diff_hunk: shape.diff_hunk.unwrap_or_default(),
                },
            },
            written_at: shape.created_at.or(shape.submitted_at).map(Timestamp::new),
        }
    }
}

/// Those with words. A review needs none where it has comments on lines.
fn with_words(shapes: impl IntoIterator<Item = PartShape>) -> Vec<ReviewPart> {
    shapes.into_iter().map(ReviewPart::from).filter(|part| !part.body.trim().is_empty()).collect()
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
        Ok(with_words(std::iter::once(text).chain(comments)))
    }

    /// The texts of the newest reviews of a pull request (100 at most), oldest first.
    pub async fn review_texts(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
    ) -> Result<Vec<ReviewPart>, GithubError> {
        Ok(with_words(self.read_newest(repository, &format!("/repos/{name}/pulls/{number}/reviews")).await?))
    }

    /// The newest comments on lines of a pull request (100 at most), newest first.
    pub async fn line_comments(
        &self,
        repository: RepositoryId,
        name: &RepoName,
        number: ThreadNumber,
    ) -> Result<Vec<ReviewPart>, GithubError> {
        let path = format!("/repos/{name}/pulls/{number}/comments?sort=created&direction=desc");
        Ok(with_words(self.read_page(repository, &path, 1).await?.0))
    }
}
