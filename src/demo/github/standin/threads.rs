//! Issues, pull requests and what is written on them.

use super::Standin;
use crate::demo::github::{
    actions::{
        merge::MergeMethod,
        pulls::NewPull,
        reviews::LineComment,
        threads::{ReactionTarget, ThreadEdit},
    },
    refusal::Refusal,
    view::{CheckRunView, CommentView, IssueView, PullView, ReactionView},
};

/// A pull request to be opened by a test.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenPull<'a> {
    pub title: &'a str,
    pub body: &'a str,
    /// `branch`, or `owner:branch` for a fork.
    pub head: &'a str,
    /// Empty: the default branch.
    pub base: &'a str,
    pub draft: bool,
}

impl Standin {
    /// Returns the number.
    pub fn open_issue(&self, repository: &str, login: &str, title: &str, body: &str) -> Result<i64, Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.world().open_issue(id, actor, title, body, &[])
    }

    /// Returns the number.
    pub async fn open_pull(&self, repository: &str, login: &str, pull: OpenPull<'_>) -> Result<i64, Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        let base = match pull.base {
            "" => self.hub.world().repository(id)?.default_branch.clone(),
            base => base.to_owned(),
        };
        let (title, body, head) = (pull.title.to_owned(), pull.body.to_owned(), pull.head.to_owned());
        self.hub.open_pull(id, actor, NewPull { title, body, head, base, draft: pull.draft }).await
    }

    /// Changes title or body of an issue or pull request; None leaves it.
    pub fn edit(
        &self,
        repository: &str,
        login: &str,
        number: i64,
        title: Option<&str>,
        body: Option<&str>,
    ) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        let (title, body) = (title.map(str::to_owned), body.map(str::to_owned));
        self.hub.world().edit_thread(id, number, actor, ThreadEdit { title, body, ..ThreadEdit::default() })
    }

    pub fn set_labels(&self, repository: &str, login: &str, number: i64, labels: &[&str]) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        self.hub.world().set_labels(id, number, actor, &labels)
    }

    pub fn close(&self, repository: &str, login: &str, number: i64) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.world().set_open(id, number, actor, false, None)
    }

    /// Answers with the issue's number in the repository `to`.
    pub fn transfer(&self, repository: &str, login: &str, number: i64, to: &str) -> Result<i64, Refusal> {
        let (id, actor, to) = (self.repository_id(repository)?, self.person(login), self.repository_id(to)?);
        self.hub.world().transfer_issue(id, number, actor, to)
    }

    pub fn reopen(&self, repository: &str, login: &str, number: i64) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.world().set_open(id, number, actor, true, None)
    }

    /// Ends (or begins) the draft state of a pull request.
    pub fn set_draft(&self, repository: &str, login: &str, number: i64, draft: bool) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.world().set_draft(id, number, actor, draft)
    }

    /// Merges; returns the commit the base branch is at then. Drafts and conflicts are refused.
    pub async fn merge(
        &self,
        repository: &str,
        login: &str,
        number: i64,
        method: MergeMethod,
    ) -> Result<String, Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.merge_pull(id, number, actor, method, None).await
    }

    /// Ties a pull request to an issue of the same repository by hand, as the sidebar does.
    pub fn link(&self, repository: &str, pull: i64, issue: i64) -> Result<(), Refusal> {
        let id = self.repository_id(repository)?;
        self.hub.world().links.push((id, pull, issue));
        Ok(())
    }

    /// Comments on an issue or pull request; returns the comment's id.
    pub fn comment(&self, repository: &str, login: &str, number: i64, body: &str) -> Result<i64, Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.world().comment(id, number, actor, body)
    }

    pub fn edit_comment(&self, repository: &str, login: &str, comment: i64, body: &str) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.world().edit_comment(id, comment, actor, body)
    }

    pub fn delete_comment(&self, repository: &str, login: &str, comment: i64) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.world().delete_comment(id, comment, actor)
    }

    /// Submits a review with `COMMENT`, `APPROVE` or `REQUEST_CHANGES`; returns its id.
    pub fn review(&self, repository: &str, login: &str, number: i64, event: &str, body: &str) -> Result<i64, Refusal> {
        self.review_of_lines(repository, login, number, (event, body), &[])
    }

    /// Like [`Standin::review`], with comments: path, line, text.
    pub fn review_of_lines(
        &self,
        repository: &str,
        login: &str,
        number: i64,
        (event, body): (&str, &str),
        comments: &[(&str, i64, &str)],
    ) -> Result<i64, Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        let comments = comments.iter().map(|(path, line, body)| LineComment {
            body: (*body).to_owned(),
            path: (*path).to_owned(),
            line: Some(*line),
            in_reply_to: None,
        });
        self.hub.world().review(id, number, actor, event, body, comments.collect())
    }

    pub fn delete_line_comment(&self, repository: &str, login: &str, comment: i64) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.world().delete_line_comment(id, comment, actor)
    }

    pub fn edit_line_comment(&self, repository: &str, login: &str, comment: i64, body: &str) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.world().edit_line_comment(id, comment, actor, body)
    }

    /// Comments on a line of a pull request's diff; returns the review comment's id.
    pub fn line_comment(
        &self,
        repository: &str,
        login: &str,
        number: i64,
        (path, line): (&str, i64),
        body: &str,
    ) -> Result<i64, Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        let (path, body) = (path.to_owned(), body.to_owned());
        let comment = LineComment { body, path, line: Some(line), in_reply_to: None };
        self.hub.world().line_comment(id, number, actor, comment)
    }

    /// Answers a comment on a line, where it stands.
    pub fn reply_to_line(
        &self,
        repository: &str,
        login: &str,
        number: i64,
        (earlier, path, line): (i64, &str, i64),
        body: &str,
    ) -> Result<i64, Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        let (path, body) = (path.to_owned(), body.to_owned());
        let comment = LineComment { body, path, line: Some(line), in_reply_to: Some(earlier) };
        self.hub.world().line_comment(id, number, actor, comment)
    }

    /// An issue, or a pull request seen as one.
    pub fn issue(&self, repository: &str, number: i64) -> Result<IssueView, Refusal> {
        let world = self.hub.world();
        let id = world.repository_named(repository)?.id;
        Ok(world.issue_view(world.thread(id, number)?))
    }

    pub fn pull(&self, repository: &str, number: i64) -> Result<PullView, Refusal> {
        let world = self.hub.world();
        world.pull_view(world.repository_named(repository)?, number)
    }

    /// All pull requests, by number.
    pub fn pulls(&self, repository: &str) -> Result<Vec<PullView>, Refusal> {
        let world = self.hub.world();
        let place = world.repository_named(repository)?;
        let numbers = place.threads.values().filter(|thread| thread.pull.is_some()).map(|thread| thread.number);
        numbers.map(|number| world.pull_view(place, number)).collect()
    }

    /// Comments of an issue or pull request, oldest first.
    pub fn comments(&self, repository: &str, number: i64) -> Result<Vec<CommentView>, Refusal> {
        let world = self.hub.world();
        let comments = &world.repository_named(repository)?.comments;
        let here = comments.values().filter(|comment| comment.thread == number);
        Ok(here.map(|comment| world.comment_view(comment)).collect())
    }

    /// Reactions on an issue's or pull request's own text.
    pub fn reactions(&self, repository: &str, number: i64) -> Result<Vec<ReactionView>, Refusal> {
        self.reactions_on(repository, ReactionTarget::Thread(number))
    }

    pub fn comment_reactions(&self, repository: &str, comment: i64) -> Result<Vec<ReactionView>, Refusal> {
        self.reactions_on(repository, ReactionTarget::Comment(comment))
    }

    pub fn line_comment_reactions(&self, repository: &str, comment: i64) -> Result<Vec<ReactionView>, Refusal> {
        self.reactions_on(repository, ReactionTarget::ReviewComment(comment))
    }

    /// Check runs, oldest first.
    pub fn check_runs(&self, repository: &str) -> Result<Vec<CheckRunView>, Refusal> {
        let world = self.hub.world();
        Ok(world.repository_named(repository)?.check_runs.values().map(CheckRunView::from).collect())
    }

    /// Somebody presses a button below a check run, by its identifier; none: GitHub's own "Re-run".
    pub fn press(
        &self,
        repository: &str,
        login: &str,
        check_run: i64,
        identifier: Option<&str>,
    ) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.world().press_check_run(id, check_run, actor, identifier)
    }

    fn reactions_on(&self, repository: &str, target: ReactionTarget) -> Result<Vec<ReactionView>, Refusal> {
        let id = self.repository_id(repository)?;
        let mut world = self.hub.world();
        let reactions = world.reactions_mut(id, target)?.clone();
        Ok(world.reaction_views(&reactions))
    }
}
