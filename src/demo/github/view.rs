//! What tests and the demo see of the world: copies with logins instead of ids.

use super::{
    model::{CheckRun, Comment, Reaction, Repository, Thread},
    refusal::Refusal,
    world::World,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReactionView {
    pub author: String,
    /// `eyes`, `confused`, …
    pub content: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentView {
    pub id: i64,
    pub author: String,
    /// Written by the App's bot with an installation token.
    pub via_app: bool,
    pub body: String,
    pub reactions: Vec<ReactionView>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueView {
    pub number: i64,
    pub title: String,
    pub body: String,
    pub author: String,
    pub open: bool,
    pub state_reason: Option<String>,
    pub labels: Vec<String>,
    pub reactions: Vec<ReactionView>,
    pub is_pull: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullView {
    pub number: i64,
    pub title: String,
    pub body: String,
    pub author: String,
    pub open: bool,
    pub draft: bool,
    /// `owner/name` of the head repository; None once it was deleted.
    pub head_repository: Option<String>,
    pub head_branch: String,
    pub head_sha: String,
    pub base_branch: String,
    pub commits: Vec<String>,
    pub changed_files: u64,
    pub mergeable: bool,
    /// The commit on the base branch, when it was merged.
    pub merged_as: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRunView {
    pub id: i64,
    pub name: String,
    pub head_sha: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub external_id: Option<String>,
    pub details_url: Option<String>,
    pub title: String,
    pub summary: String,
    /// Identifiers of its buttons.
    pub actions: Vec<String>,
}

impl World {
    pub(super) fn issue_view(&self, thread: &Thread) -> IssueView {
        IssueView {
            number: thread.number,
            title: thread.title.clone(),
            body: thread.body.clone(),
            author: self.login(thread.author.account).to_owned(),
            open: thread.open,
            state_reason: thread.state_reason.clone(),
            labels: thread.labels.iter().map(|label| label.name.clone()).collect(),
            reactions: self.reaction_views(&thread.reactions),
            is_pull: thread.pull.is_some(),
        }
    }

    pub(super) fn pull_view(&self, repository: &Repository, number: i64) -> Result<PullView, Refusal> {
        let (thread, pull) = self.pull(repository.id, number)?;
        let head = pull.head_repository.and_then(|id| self.repositories.get(&id));
        Ok(PullView {
            number,
            title: thread.title.clone(),
            body: thread.body.clone(),
            author: self.login(thread.author.account).to_owned(),
            open: thread.open,
            draft: pull.draft,
            head_repository: head.map(|head| self.full_name(head)),
            head_branch: pull.head_branch.clone(),
            head_sha: pull.head_sha.clone(),
            base_branch: pull.base_branch.clone(),
            commits: pull.commits.clone(),
            changed_files: pull.stat.files,
            mergeable: pull.mergeable,
            merged_as: pull.merged.as_ref().map(|merged| merged.commit.clone()),
        })
    }

    pub(super) fn comment_view(&self, comment: &Comment) -> CommentView {
        CommentView {
            id: comment.id,
            author: self.login(comment.author.account).to_owned(),
            via_app: comment.author.via_app,
            body: comment.body.clone(),
            reactions: self.reaction_views(&comment.reactions),
        }
    }

    pub(super) fn reaction_views(&self, reactions: &[Reaction]) -> Vec<ReactionView> {
        let view = |reaction: &Reaction| ReactionView {
            author: self.login(reaction.author).to_owned(),
            content: reaction.content.clone(),
        };
        reactions.iter().map(view).collect()
    }
}

impl From<&CheckRun> for CheckRunView {
    fn from(check: &CheckRun) -> Self {
        Self {
            id: check.id,
            name: check.name.clone(),
            head_sha: check.head_sha.clone(),
            status: check.status.clone(),
            conclusion: check.conclusion.clone(),
            external_id: check.external_id.clone(),
            details_url: check.details_url.clone(),
            title: check.output["title"].as_str().unwrap_or_default().to_owned(),
            summary: check.output["summary"].as_str().unwrap_or_default().to_owned(),
            actions: check.actions.iter().map(|action| action.identifier.clone()).collect(),
        }
    }
}
