//! `/approve`, and what keeps an agent from meeting a fork's commit that nobody approved.
//!
//! GitHub is asked where the pull request stands before anything is fetched, after the fetch, and once more right before the
//! agent starts, together with the worktree: somebody may push at any moment.

use super::{Orchestrator, StepError, prepare::Prepared};
use crate::decide::approve::{ForkFacts, ForkWorktree, Grant, grant, hold};
use crate::git::{GitError, Repository};
use crate::github::PullRequest;
use crate::model::*;
use crate::reply::approval;
use std::collections::BTreeSet;

impl Orchestrator {
    /// `/approve`. The answer, as Markdown.
    pub(super) async fn approve(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        named: &CommitSha,
        by: &Person,
    ) -> Result<String, StepError> {
        let pull = self.pull_request_of(codebase, conversation).await?;
        let fork_head = pull.filter(PullRequest::is_fork).map(|pull| pull.head_sha);
        let granted = grant(named, fork_head.as_ref());
        if granted == Grant::Approved {
            let approval = Approval {
                conversation: conversation.id,
                head: named.clone(),
                approver: by.id,
                login: by.login.clone(),
                approved_at: self.now(),
                ended_at: None,
            };
            self.store().put_approval(&approval).await?;
            self.audit_within(codebase.id, &conversation.thread, &by.login, "pull.approved", named.as_str()).await;
        }
        Ok(approval::answer(&granted, named, &self.identity().slug))
    }

    /// A push ends the approval of the commit it went away from, also when another one brings that commit back.
    pub(super) async fn end_approval(
        &self,
        conversation: &Conversation,
        before: &CommitSha,
        head: &CommitSha,
        by: &str,
    ) -> Result<bool, StepError> {
        let ended = self.store().end_approval(conversation.id, before, self.now()).await?;
        if ended {
            let detail = format!("{before}, {head} was pushed");
            let thread = &conversation.thread;
            self.audit_within(conversation.codebase, thread, by, "pull.approval_ended", &detail).await;
        }
        Ok(ended)
    }

    /// Refuses a fork's pull request whose head is not approved.
    pub(super) async fn demand_approval(
        &self,
        conversation: &Conversation,
        pull: &PullRequest,
    ) -> Result<(), StepError> {
        match pull.is_fork() {
            true => self.demand(Some(conversation), pull, None, None).await,
            false => Ok(()),
        }
    }

    /// The last look before the agent starts: at the thread's own pull request, and at the one whose worktree this is.
    pub(super) async fn demand_approval_of_worktree(&self, prepared: &Prepared) -> Result<(), StepError> {
        let Prepared { codebase, conversation, repository, environment, pull, .. } = prepared;
        let own = pull.as_ref().filter(|pull| pull.is_fork()).map(|pull| pull.number);
        let theirs = environment.work.thread().filter(|_| environment.metadata.fork_head.is_some());
        for number in own.into_iter().chain(theirs).collect::<BTreeSet<_>>() {
            let pull = self.fetch_pull_request(codebase, number).await?;
            let has_its_files = environment.work.thread() == Some(number);
            let worktree = match has_its_files {
                true => Some(fork_worktree(repository, environment, &pull.head_sha).await?),
                false => None,
            };
            let elsewhere = (conversation.thread.number() != Some(number)).then_some(number);
            let thread = self.store().find_conversation(codebase.id, number).await?;
            self.demand(thread.as_ref(), &pull, worktree, elsewhere).await?;
        }
        Ok(())
    }

    /// `elsewhere`: it is not the pull request of the thread that is answered.
    async fn demand(
        &self,
        thread: Option<&Conversation>,
        pull: &PullRequest,
        worktree: Option<ForkWorktree>,
        elsewhere: Option<ThreadNumber>,
    ) -> Result<(), StepError> {
        let approval = match thread {
            Some(thread) => self.store().load_approval(thread.id).await?,
            None => None,
        };
        // A push that was not heard of ends it as well.
        if let (Some(thread), Some(given)) = (thread, &approval)
            && given.head != pull.head_sha
        {
            self.end_approval(thread, &given.head, &pull.head_sha, "treewarden").await?;
        }
        match hold(ForkFacts { head: pull.head_sha.clone(), approval, worktree }) {
            None => Ok(()),
            Some(hold) => Err(StepError::Refused(approval::held(&hold, elsewhere, &self.identity().slug))),
        }
    }
}

async fn fork_worktree(
    repository: &Repository,
    environment: &Environment,
    head: &CommitSha,
) -> Result<ForkWorktree, GitError> {
    let at = repository.worktree(&environment.path).head().await?.sha;
    let holds_head = match &at {
        Some(at) => match repository.is_ancestor(head, at).await {
            // Not here at all.
            Err(GitError::NotFound(_)) => false,
            answer => answer?,
        },
        None => false,
    };
    Ok(ForkWorktree { at, put_at: put_at(repository, environment).await?, holds_head })
}

/// The last commit of the fork's that its worktree was put at. What was noted before an environment ended is known by the ref.
pub(super) async fn put_at(repository: &Repository, environment: &Environment) -> Result<Option<CommitSha>, GitError> {
    match &environment.metadata.agreed {
        Some(commit) => Ok(Some(commit.clone())),
        None => repository.tip(&fork_mark(&environment.branch)).await,
    }
}

/// Notes that a branch was put at this commit of a fork's.
pub(super) async fn mark_fork(
    repository: &Repository,
    branch: &BranchName,
    commit: &CommitSha,
) -> Result<(), GitError> {
    let mark = fork_mark(branch);
    let before = repository.tip(&mark).await?;
    if before.as_ref() == Some(commit) || repository.set_ref(&mark, commit, before.as_ref()).await? {
        return Ok(());
    }
    Err(GitError::moved_meanwhile(mark))
}

/// The ref by which a branch that was made from a fork's pull request is known for as long as the repository is.
pub(super) fn fork_mark(branch: &BranchName) -> String {
    format!("refs/treewarden/fork/{branch}")
}
