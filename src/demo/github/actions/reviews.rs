//! Reviews of pull requests and the comments on lines that belong to them.

use crate::demo::github::{
    model::{Actor, Review, ReviewComment},
    refusal::Refusal,
    world::World,
};
use serde_json::{Value, json};

/// A comment on a line of the diff.
#[derive(Clone, Debug, serde::Deserialize)]
pub(in crate::demo::github) struct LineComment {
    pub body: String,
    pub path: String,
    #[serde(default)]
    pub line: Option<i64>,
    #[serde(default)]
    pub in_reply_to: Option<i64>,
}

impl World {
    /// Submits a review; `event` is `APPROVE`, `REQUEST_CHANGES` or `COMMENT`. Emits the review, then its comments.
    pub fn review(
        &mut self,
        repository: i64,
        number: i64,
        actor: Actor,
        event: &str,
        body: &str,
        comments: Vec<LineComment>,
    ) -> Result<i64, Refusal> {
        let state = match event {
            "APPROVE" => "APPROVED",
            "REQUEST_CHANGES" => "CHANGES_REQUESTED",
            "COMMENT" => "COMMENTED",
            _ => return Err(Refusal::invalid(format!("{event} is not an event of a review"))),
        };
        if state != "APPROVED" && body.trim().is_empty() && comments.is_empty() {
            return Err(Refusal::invalid("Body can't be blank"));
        }
        let commit = self.pull(repository, number)?.1.head_sha.clone();
        let (id, submitted_at) = (self.new_id(), self.now());
        let (state, body) = (state.to_owned(), body.to_owned());
        let review = Review { id, thread: number, author: actor, body, state, commit, submitted_at };
        self.repository_mut(repository)?.reviews.insert(id, review.clone());
        self.touch(repository, number);
        let place = self.repository(repository)?;
        let (thread, pull) = self.pull(repository, number)?;
        let details = json!({
            "review": self.review_json(place, &review, true),
            "pull_request": self.pull_json(place, thread, pull),
        });
        self.emit(repository, actor, "pull_request_review", Some("submitted"), details);
        for comment in comments {
            self.add_line_comment(repository, &review, comment)?;
        }
        Ok(id)
    }

    /// A single comment on a line, which GitHub wraps into a review of its own.
    pub fn line_comment(
        &mut self,
        repository: i64,
        number: i64,
        actor: Actor,
        comment: LineComment,
    ) -> Result<i64, Refusal> {
        if comment.body.trim().is_empty() {
            return Err(Refusal::invalid("Body can't be blank"));
        }
        let review = self.review(repository, number, actor, "COMMENT", "", vec![comment])?;
        let comments = &self.repository(repository)?.review_comments;
        let made = comments.values().find(|comment| comment.review == review);
        made.map(|comment| comment.id).ok_or_else(|| Refusal::missing("review comment"))
    }

    /// Deletes a comment on a line; with the last one goes a review that has no text.
    pub fn delete_line_comment(&mut self, repository: i64, id: i64, actor: Actor) -> Result<(), Refusal> {
        let gone = self.repository_mut(repository)?.review_comments.remove(&id);
        let gone = gone.ok_or_else(|| Refusal::missing(format!("review comment {id}")))?;
        let place = self.repository_mut(repository)?;
        let is_last = place.review_comments.values().all(|comment| comment.review != gone.review);
        if is_last && place.reviews.get(&gone.review).is_some_and(|review| review.body.trim().is_empty()) {
            place.reviews.remove(&gone.review);
        }
        self.emit_line_comment(repository, &gone, actor, "deleted", json!({}))
    }

    pub fn edit_line_comment(&mut self, repository: i64, id: i64, actor: Actor, body: &str) -> Result<(), Refusal> {
        let now = self.now();
        let comment = self.repository_mut(repository)?.review_comments.get_mut(&id);
        let comment = comment.ok_or_else(|| Refusal::missing(format!("review comment {id}")))?;
        let before = std::mem::replace(&mut comment.body, body.to_owned());
        comment.updated_at = now;
        let comment = comment.clone();
        let changes = json!({ "changes": { "body": { "from": before } } });
        self.emit_line_comment(repository, &comment, actor, "edited", changes)
    }

    fn add_line_comment(&mut self, repository: i64, review: &Review, comment: LineComment) -> Result<(), Refusal> {
        let (id, now) = (self.new_id(), self.now());
        let made = ReviewComment {
            id,
            thread: review.thread,
            review: review.id,
            author: review.author,
            diff_hunk: comment.line.map_or(String::new(), |line| format!("@@ -{line},1 +{line},1 @@")),
            body: comment.body,
            path: comment.path,
            line: comment.line,
            commit: review.commit.clone(),
            in_reply_to: comment.in_reply_to,
            reactions: Vec::new(),
            created_at: now,
            updated_at: now,
        };
        self.repository_mut(repository)?.review_comments.insert(id, made.clone());
        self.emit_line_comment(repository, &made, review.author, "created", json!({}))
    }

    fn emit_line_comment(
        &mut self,
        repository: i64,
        comment: &ReviewComment,
        actor: Actor,
        action: &str,
        mut details: Value,
    ) -> Result<(), Refusal> {
        let place = self.repository(repository)?;
        let (thread, pull) = self.pull(repository, comment.thread)?;
        details["comment"] = self.review_comment_json(place, comment);
        details["pull_request"] = self.pull_json(place, thread, pull);
        self.emit(repository, actor, "pull_request_review_comment", Some(action), details);
        Ok(())
    }
}
