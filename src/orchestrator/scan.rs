//! One look at the environments of a codebase, as everything that judges them takes it: passes, the limit, `/status`,
//! the panel, and the removal of one. What can be asked about all of them at once is asked once.

use super::{Orchestrator, gather};
use crate::decide::cleanup::{Class, Ignored, Occasion, RemovalFacts, WorkInProgress, classify};
use crate::git::{self, Repository, Worktree};
use crate::isolation::MOST_IGNORED;
use crate::model::*;
use crate::store::StoreError;
use futures::{StreamExt, stream};
use std::collections::{HashMap, HashSet};

/// Worktrees that are looked at together: what takes long is git on a disk, and what comes between its processes waits.
pub(super) const FILES_AT_ONCE: usize = 4;
/// The same where only a few small files are read.
const PLACES_AT_ONCE: usize = 8;

/// How the remote is seen.
#[derive(Clone)]
pub(super) enum View {
    /// As it is just now, or why that is not known; only so may anything be removed.
    Fetched(Probe<()>),
    /// As the last fetch left it, with nobody asked: to tell people what there is.
    AsItIs,
}

/// Which worktrees' files are looked at, which takes longer than all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Of those that would go if they held nothing: what files hold is one more reason to keep, and nothing else.
    Candidates,
    /// Of those, and of those in which something has happened since the last look; of the others is told what was seen
    /// then.
    News,
    All,
}

/// Who uses an environment.
#[derive(Default)]
struct Uses {
    conversations: Vec<Conversation>,
    held: Vec<HeldConversation>,
    busy: bool,
}

impl Orchestrator {
    /// Everything a removal depends on.
    pub(super) async fn removal_facts(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environment: &Environment,
        occasion: Occasion,
        view: &View,
    ) -> Result<RemovalFacts, StoreError> {
        let one = vec![environment.clone()];
        let view = std::future::ready(view.clone());
        let mut facts = Box::pin(self.scan(codebase, repository, one, occasion, view, Depth::All)).await;
        facts.pop().unwrap_or_else(|| Err(StoreError::Failed("nothing was looked at".to_owned())))
    }

    /// The same of many environments of the codebase, in their order. What is wrong with one of them is an answer about
    /// that one only. What needs no `view` does not wait for it.
    pub(super) async fn scan(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environments: Vec<Environment>,
        occasion: Occasion,
        view: impl Future<Output = View>,
        depth: Depth,
    ) -> Vec<Result<RemovalFacts, StoreError>> {
        let places = environments.iter().map(|one| self.place(repository, one));
        let branches = async {
            let view = view.await;
            let branches = self.branches(codebase, repository, &environments, &view).await;
            (branches, matches!(view, View::Fetched(_)))
        };
        let (uses, places, (branches, fetched)) =
            tokio::join!(self.uses(codebase, &environments), in_their_order(places, PLACES_AT_ONCE), branches);
        let now = self.now_at_least();
        let beside_files = environments.into_iter().zip(uses).zip(places).zip(branches);
        let beside_files = beside_files.map(|(((environment, uses), (validity, foreign_lock)), branch)| {
            let Uses { conversations, held, busy } = uses?;
            let own = own_user(&environment, &conversations);
            let others = conversations
                .iter()
                .filter(|conversation| conversation.state == ThreadState::Open && Some(conversation.id) != own);
            Ok(RemovalFacts {
                now,
                occasion,
                mode: codebase.mode,
                busy,
                held_on: held.iter().map(|conversation| conversation.platform).collect(),
                threads_closed: held.is_empty()
                    && !conversations.is_empty()
                    && conversations.iter().all(|conversation| conversation.state != ThreadState::Open),
                open_conversations: others.map(|conversation| conversation.thread.clone()).collect(),
                foreign_lock,
                work: Probe::Known(WorkInProgress::nothing(&environment.branch)),
                branch: branch.facts,
                github_silent: branch.github_silent,
                fetched,
                validity,
                stale_after: self.settings().stale_after,
                environment,
            })
        });
        in_their_order(beside_files.map(|facts| self.with_files(repository, facts, depth)), FILES_AT_ONCE).await
    }

    async fn with_files(
        &self,
        repository: &Repository,
        facts: Result<RemovalFacts, StoreError>,
        depth: Depth,
    ) -> Result<RemovalFacts, StoreError> {
        let mut facts = facts?;
        let seen = match depth {
            Depth::All => None,
            Depth::Candidates | Depth::News if is_candidate(&facts) => None,
            Depth::Candidates => return Ok(facts),
            Depth::News => self.inner.looks.last(&facts.environment, facts.now),
        };
        facts.work = match seen {
            Some(seen) => Probe::Known(seen),
            None => {
                let work = work_facts(repository, &facts).await;
                if let Probe::Known(seen) = &work {
                    self.inner.looks.remember(facts.environment.id, facts.now, seen.clone());
                }
                work
            }
        };
        Ok(facts)
    }

    /// Whether a worktree is there, and who locked it.
    async fn place(
        &self,
        repository: &Repository,
        environment: &Environment,
    ) -> (Probe<Validity>, Probe<Option<String>>) {
        let validity = self.health(repository, environment).await;
        let foreign_lock = match validity == Probe::Known(Validity::Valid) {
            true => repository.worktree(&environment.path).foreign_lock().await,
            false => Probe::Known(None),
        };
        (validity, foreign_lock)
    }

    async fn uses(&self, codebase: &Codebase, environments: &[Environment]) -> Vec<Result<Uses, StoreError>> {
        if environments.len() > 1
            && let Ok(mut uses) = self.uses_of_live(codebase.id).await
        {
            return environments.iter().map(|one| Ok(uses.remove(&one.id).unwrap_or_default())).collect();
        }
        // Where a row cannot be read, each by itself.
        let mut all = Vec::new();
        for environment in environments {
            all.push(self.uses_of(environment.id).await);
        }
        all
    }

    async fn uses_of_live(&self, codebase: CodebaseId) -> Result<HashMap<EnvironmentId, Uses>, StoreError> {
        let mut uses: HashMap<EnvironmentId, Uses> = HashMap::new();
        for conversation in self.store().conversations_of_live(codebase).await? {
            if let Some(id) = conversation.environment {
                uses.entry(id).or_default().conversations.push(conversation);
            }
        }
        for held in self.store().held_conversations_of_live(codebase).await? {
            if let Some(id) = held.environment {
                uses.entry(id).or_default().held.push(held);
            }
        }
        let busy: HashSet<EnvironmentId> = self.store().busy_environments(codebase).await?;
        for id in busy {
            uses.entry(id).or_default().busy = true;
        }
        Ok(uses)
    }

    async fn uses_of(&self, id: EnvironmentId) -> Result<Uses, StoreError> {
        Ok(Uses {
            conversations: self.store().conversations_of(id).await?,
            held: self.store().held_conversations_of(id).await?,
            busy: self.store().environment_is_busy(id, None).await?,
        })
    }
}

/// All answers, of at most so many at once. One that takes long keeps no other waiting.
pub(super) async fn in_their_order<T>(pieces: impl Iterator<Item = impl Future<Output = T>>, at_once: usize) -> Vec<T> {
    let pieces = pieces.enumerate().map(async |(at, piece)| (at, piece.await)).collect::<Vec<_>>();
    let mut answers: Vec<_> = stream::iter(pieces).buffer_unordered(at_once).collect().await;
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// The thread whose work it is, among those that use it: a task is that of the one that has used it for the longest.
fn own_user(environment: &Environment, users: &[Conversation]) -> Option<ConversationId> {
    let own = match environment.work.kind {
        WorkKind::Task => users.first(),
        WorkKind::Issue | WorkKind::PullRequest | WorkKind::Review | WorkKind::Thread => {
            users.iter().find(|user| gather::is_own(user, &environment.work))
        }
    };
    own.map(|user| user.id)
}

fn is_candidate(facts: &RemovalFacts) -> bool {
    match classify(facts) {
        Class::Merged | Class::Stale => true,
        Class::Ghost | Class::Active => false,
    }
}

/// What its files hold.
async fn work_facts(repository: &Repository, facts: &RemovalFacts) -> Probe<WorkInProgress> {
    match facts.validity == Probe::Known(Validity::Valid) {
        true => Box::pin(work_in_progress(&repository.worktree(&facts.environment.path))).await,
        false => Probe::Unknown("there is no worktree to look at".to_owned()),
    }
}

fn ignored(found: git::Ignored) -> Ignored {
    let git::Ignored { files, bytes, largest } = found;
    Ignored { files, bytes, most: MOST_IGNORED, largest: largest.map(|path| path.display().to_string()) }
}

async fn work_in_progress(worktree: &Worktree) -> Probe<WorkInProgress> {
    /// Takes the answer out of a probe, or ends with the doubt.
    macro_rules! known {
        ($probe:expr) => {
            match $probe {
                Probe::Known(answer) => answer,
                Probe::Unknown(why) => return Probe::Unknown(why),
            }
        };
    }
    let head = known!(Probe::from(worktree.head().await));
    let (status, found) = known!(worktree.uncommitted().await);
    let inside = known!(worktree.inside().await);
    let stashed = match &head.branch {
        Some(branch) => known!(Probe::from(worktree.repository().stashed_on(branch).await)),
        None => 0,
    };
    Probe::Known(WorkInProgress {
        on_branch: head.branch,
        changed: status.tracked + status.conflicted,
        untracked: status.untracked,
        operation: known!(worktree.operation_in_progress().await),
        hidden_changes: inside.hidden_changes,
        submodules: inside.submodule_work,
        nested: inside.nested_repositories,
        ignored: ignored(found),
        stashed,
    })
}
