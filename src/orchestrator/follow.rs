//! Bringing a worktree to where its branch is on the remote, or saying what is in the way.

use super::approve::{mark_fork, put_at};
use super::{Orchestrator, StepError};
use crate::decide::follow::{Follow, FollowFacts, ForkFollowFacts, follow, follow_fork, was_deleted};
use crate::git::{GitError, Repository};
use crate::github::PullRequest;
use crate::model::*;
use crate::reply::remote;

impl Orchestrator {
    /// Takes new commits of the branch's remote in, when that is a plain fast-forward of a clean worktree; otherwise a note
    /// says what is in the way.
    pub(super) async fn follow_remote(
        &self,
        repository: &Repository,
        environment: Environment,
        pull: Option<&PullRequest>,
    ) -> Result<(Environment, Option<String>), StepError> {
        let environment = match pull.filter(|pull| environment.work.thread() == Some(pull.number)) {
            Some(pull) if environment.metadata.lost_head.is_some() => {
                match self.follow_head(repository, environment, &pull.head_sha).await? {
                    (environment, None) => environment,
                    told => return Ok(told),
                }
            }
            Some(_) | None => environment,
        };
        let remote = match (&environment.metadata.fork_head, pull) {
            // Another thread may have been linked to a fork's worktree.
            (Some(_), Some(pull)) if environment.work.thread() == Some(pull.number) => Some(pull.head_sha.clone()),
            (Some(_), _) => return Ok((environment, None)),
            (None, _) => repository.tip(&environment.branch.remote_ref()).await?,
        };
        let branch = environment.branch.clone();
        let local = repository.tip(&branch.full_ref()).await?;
        let deleted = was_deleted(environment.metadata.agreed.as_ref(), remote.as_ref());
        let (Some(remote), Some(local)) = (remote, local) else {
            return match deleted {
                true => Ok((environment, Some(remote::deleted_on_the_remote(&branch)))),
                false => self.follow_base(repository, environment).await,
            };
        };
        if remote == local {
            return Ok((self.arrived(repository, environment, remote).await?, None));
        }
        let remote_is_in = repository.is_ancestor(&remote, &local).await?;
        let is_in_remote = repository.is_ancestor(&local, &remote).await?;
        let follow = match environment.metadata.fork_head {
            Some(_) => {
                let put_at = put_at(repository, &environment).await?;
                follow_fork(ForkFollowFacts {
                    is_on_top: remote_is_in && put_at.as_ref() == Some(&remote),
                    is_in_head: is_in_remote,
                    is_where_put: put_at.as_ref() == Some(&local),
                })
            }
            None => follow(FollowFacts {
                remote_is_in,
                is_in_remote,
                is_where_seen: environment.metadata.agreed.as_ref() == Some(&local),
                dropped: dropped(repository, &environment, &remote).await?.is_some(),
            }),
        };
        let worktree = repository.worktree(&environment.path);
        let keep = format!("refs/treewarden/before/{}/{local}", environment.id);
        let (moved, note) = match follow {
            Follow::Stay => return Ok((environment, None)),
            Follow::FastForward => (worktree.fast_forward(&branch, &remote).await, None),
            Follow::Move => {
                let note = remote::moved_along(&branch, &local, &remote);
                (worktree.move_aside(&branch, &local, &remote, &keep).await, Some(note))
            }
            Follow::SetAside => {
                let note = remote::set_aside(&branch, &local, &remote, &keep);
                (worktree.move_aside(&branch, &local, &remote, &keep).await, Some(note))
            }
            Follow::TakenBack => return Ok((environment, Some(remote::not_moved_back(&branch)))),
            Follow::Diverged => {
                let (ours, theirs) = repository.ahead_behind(&local, &remote).await?;
                (Err(GitError::Refused { reason: remote::diverged(ours, theirs) }), None)
            }
        };
        match moved {
            Ok(()) => Ok((self.arrived(repository, environment, remote).await?, note)),
            Err(GitError::Refused { reason }) => Ok((environment, Some(remote::cannot_follow(&branch, &reason)))),
            Err(error) => Err(error.into()),
        }
    }

    /// A branch that nobody has worked on goes along when its base is rewritten.
    async fn follow_base(
        &self,
        repository: &Repository,
        environment: Environment,
    ) -> Result<(Environment, Option<String>), StepError> {
        let (branch, metadata) = (environment.branch.clone(), &environment.metadata);
        let is_own = !metadata.began_ahead && metadata.fork_head.is_none() && metadata.lost_head.is_none();
        let (Some(base), Some(start)) = (environment.base.clone(), environment.start.clone().filter(|_| is_own)) else {
            return Ok((environment, None));
        };
        if repository.tip(&branch.full_ref()).await?.as_ref() != Some(&start)
            || repository.taken_off(&base, &start).await? == 0
        {
            return Ok((environment, None));
        }
        let Some(there) = repository.tip(&base.remote_ref()).await? else { return Ok((environment, None)) };
        let keep = format!("refs/treewarden/before/{}/{start}", environment.id);
        match repository.worktree(&environment.path).move_aside(&branch, &start, &there, &keep).await {
            Ok(()) => {
                let moved = |environment: &mut Environment| environment.start = Some(there.clone());
                Ok((self.changed(environment, moved).await?, Some(remote::base_rewritten(&base, &branch))))
            }
            Err(GitError::Refused { reason }) => {
                Ok((environment, Some(remote::base_not_followed(&base, &branch, &reason))))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A pull request's head that is not worked on itself may go on all the same.
    async fn follow_head(
        &self,
        repository: &Repository,
        environment: Environment,
        head: &CommitSha,
    ) -> Result<(Environment, Option<String>), StepError> {
        let branch = environment.branch.clone();
        let Some(local) = repository.tip(&branch.full_ref()).await? else { return Ok((environment, None)) };
        let has_it = match repository.is_ancestor(head, &local).await {
            // It was pushed after the fetch, and comes with the next one.
            Err(GitError::NotFound(_)) => true,
            answer => answer?,
        };
        if has_it {
            return Ok((environment, None));
        }
        let moved = match repository.is_ancestor(&local, head).await? {
            true => repository.worktree(&environment.path).fast_forward(&branch, head).await,
            false => {
                let (ours, theirs) = repository.ahead_behind(&local, head).await?;
                Err(GitError::Refused { reason: remote::diverged(ours, theirs) })
            }
        };
        match moved {
            Ok(()) => {
                let put_there = |environment: &mut Environment| environment.metadata.lost_head = Some(head.clone());
                Ok((self.changed(environment, put_there).await?, None))
            }
            Err(GitError::Refused { reason }) => Ok((environment, Some(remote::head_not_taken_in(&reason)))),
            Err(error) => Err(error.into()),
        }
    }

    /// The worktree is where its remote is.
    async fn arrived(
        &self,
        repository: &Repository,
        environment: Environment,
        head: CommitSha,
    ) -> Result<Environment, StepError> {
        if environment.metadata.fork_head.is_some() {
            mark_fork(repository, &environment.branch, &head).await?;
        }
        self.note_agreement(environment, head).await
    }

    /// The branch is where its remote is; of a fork's, this run and later ones name the commit that is looked at.
    pub(super) async fn note_agreement(
        &self,
        environment: Environment,
        head: CommitSha,
    ) -> Result<Environment, StepError> {
        self.changed(environment, |environment| {
            let metadata = &mut environment.metadata;
            if metadata.agreed.as_ref() != Some(&head) {
                metadata.agreed = Some(head.clone());
                metadata.fork_head = metadata.fork_head.take().map(|_| head.clone());
            }
        })
        .await
    }
}

/// The commit at which the remote's branch was last seen, when that is not part of it any more.
pub(super) async fn dropped(
    repository: &Repository,
    environment: &Environment,
    remote: &CommitSha,
) -> Result<Option<CommitSha>, GitError> {
    let Some(seen) = &environment.metadata.agreed else { return Ok(None) };
    match repository.is_ancestor(seen, remote).await {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some(seen.clone())),
        // Gone altogether: nothing here can bring it back.
        Err(GitError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
