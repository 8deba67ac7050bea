//! Questions to the store, git and GitHub, answered as facts for `decide`. Nothing is changed here but caches.

use super::{Orchestrator, StepError, host::OnGithub, retry};
use crate::command::closing;
use crate::decide::cleanup::{
    BranchFacts, Lineage, MergeProof, Occasion, OwnWork, RemovalFacts, WorkInProgress, own_work,
};
use crate::decide::create::{BaseFacts, other_base};
use crate::decide::resolve::{Candidate, LinkedCandidate, PullFacts, Remote, ResolveFacts, Stray, branch_name};
use crate::git::{GitError, Repository, Worktree};
use crate::github::PullRequest;
use crate::isolation::Maker;
use crate::model::*;
use crate::reply::commands::Seen;
use crate::store::StoreError;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Mutex,
    time::Duration,
};

/// Permissions are asked again after this.
const PERMISSION_AGE: Duration = Duration::from_secs(120);

/// Of people who may write.
#[derive(Default)]
pub(super) struct PermissionCache {
    known: Mutex<HashMap<(RepositoryId, UserId), (Permission, Timestamp)>>,
}

impl PermissionCache {
    fn fresh(&self, key: (RepositoryId, UserId), now: Timestamp) -> Option<Permission> {
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        known.retain(|_, (_, at)| now.since(*at) < PERMISSION_AGE);
        known.get(&key).map(|(permission, _)| *permission)
    }

    fn remember(&self, key: (RepositoryId, UserId), permission: Permission, now: Timestamp) {
        // Somebody may be about to be given what is missing, and mentions the bot again right then.
        if permission >= Permission::Write {
            self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(key, (permission, now));
        }
    }
}

/// How the remote is seen.
pub(super) enum View {
    /// As it is just now, or why that is not known; only so may anything be removed.
    Fetched(Probe<()>),
    /// As the last fetch left it, with nobody asked: to tell people what there is.
    AsItIs,
}

/// The work a thread stands for.
pub(super) fn work_of(conversation: &Conversation) -> Work {
    Work::of_thread(&conversation.thread)
}

/// Whether the thread is the one that an environment was made for.
fn is_own(conversation: &Conversation, work: &Work) -> bool {
    match work.thread() {
        // A review has the number of its pull request.
        Some(number) => conversation.thread.number() == Some(number),
        None => work_of(conversation) == *work,
    }
}

/// The ref under which a pull request's head is kept.
pub(super) fn pull_ref(number: ThreadNumber) -> String {
    format!("refs/treewarden/pr/{number}")
}

impl Orchestrator {
    /// The thread that a piece of work stands for, if it was ever met; a task belongs to whoever uses it.
    pub(super) async fn thread_of_work(
        &self,
        codebase: CodebaseId,
        work: &Work,
    ) -> Result<Option<Conversation>, StoreError> {
        if let Some(number) = work.thread() {
            return self.store().find_conversation(codebase, number).await;
        }
        match (work.kind, ThreadName::new(&work.id)) {
            (WorkKind::Thread, Ok(name)) => {
                let thread = self.store().find_named_thread(PlatformKind::Local, &name).await?;
                Ok(thread.filter(|thread| thread.codebase == codebase))
            }
            _ => Ok(None),
        }
    }

    /// What GitHub lets this person do on the codebase: at most two minutes old, or just asked for when it is less than to
    /// write.
    pub(super) async fn permission(&self, codebase: &Codebase, person: &Person) -> Result<Permission, StepError> {
        // Nobody but the person of this machine speaks about what is on it only, and they are not asked about here.
        let Some(github) = self.on_github(codebase)? else { return Ok(Permission::None) };
        let key = (github.id, person.id);
        let now = self.now();
        if let Some(permission) = self.inner.permissions.fresh(key, now) {
            return Ok(permission);
        }
        let permission = github.client.permission(github.id, github.name, person).await?;
        self.inner.permissions.remember(key, permission, now);
        Ok(permission)
    }

    /// Everything the choice of an environment depends on. The canonical repository has just been fetched.
    pub(super) async fn gather_resolve_facts(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        repository: &Repository,
        pull: Option<&PullRequest>,
        settings: &RepoSettings,
        delivery: InboxId,
    ) -> Result<ResolveFacts, StepError> {
        let work = work_of(conversation);
        let current = match conversation.environment {
            Some(id) => self.store().load_environment(id).await?,
            None => None,
        };
        let same_work = self.store().find_live_environment(codebase.id, &work).await?;
        let (links, links_unknown) = self.links(codebase, conversation, pull).await?;
        let examined = async |environment: Option<Environment>| match environment {
            Some(environment) => Some(self.candidate(repository, environment).await),
            None => None,
        };
        let (current, same_work) = (examined(current).await, examined(same_work).await);
        let has_place = current.iter().chain(&same_work).any(Candidate::is_valid);
        let strays = match has_place {
            true => Vec::new(),
            false => self.strays(repository).await?,
        };
        let mut linked = Vec::new();
        for link in &links {
            let Some(environment) = self.store().find_live_environment(codebase.id, link).await? else { continue };
            let contains_head = match pull {
                Some(pull) => contains(repository, &environment.branch, &pull.head_sha).await,
                None => Probe::Known(false),
            };
            let candidate = self.candidate(repository, environment).await;
            // It costs much, and is asked for only where it may matter.
            let may_make_way = match pull {
                Some(pull) if !has_place && !pull.is_fork() && candidate.is_valid() => {
                    self.may_make_way(codebase, repository, &candidate.environment, &pull.head).await?
                }
                Some(_) | None => false,
            };
            linked.push(LinkedCandidate { candidate, contains_head, may_make_way });
        }
        let on_remote = async |branch: Option<&BranchName>| match branch {
            Some(branch) => Ok::<_, StepError>(repository.tip(&branch.remote_ref()).await?.is_some()),
            None => Ok(false),
        };
        let (last_branch, merged_branches) = match pull {
            None if !has_place => self.branches_before(codebase, repository, settings, &work).await?,
            None | Some(_) => (None, Vec::new()),
        };
        Ok(ResolveFacts {
            work,
            pull: match pull {
                Some(pull) => Some(pull_facts(repository, pull).await?),
                None => None,
            },
            default_branch: codebase.default_branch.clone(),
            remote: self.remote(codebase, repository).await?,
            settings: settings.clone(),
            named_base_exists: on_remote(settings.base.as_ref()).await?,
            legacy: self.legacy(conversation, repository).await?,
            strays,
            current,
            same_work,
            linked,
            last_branch,
            merged_branches,
            made_way: match pull {
                Some(_) => self.made_way(delivery).await?,
                None => None,
            },
            links,
            links_unknown,
        })
    }

    /// What the last fetch brought.
    pub(super) async fn remote(&self, codebase: &Codebase, repository: &Repository) -> Result<Remote, GitError> {
        let has_default = match &codebase.default_branch {
            Some(default) => repository.tip(&default.remote_ref()).await?.is_some(),
            None => false,
        };
        Ok(match has_default {
            true => Remote::WithDefault,
            false if repository.has_remote_branches().await? => Remote::WithoutDefault,
            false => Remote::Empty,
        })
    }

    /// Where a conversation worked before it was imported.
    async fn legacy(&self, conversation: &Conversation, repository: &Repository) -> Result<Option<Stray>, StepError> {
        let Some(path) = self.store().legacy_path(conversation.id).await? else { return Ok(None) };
        let strays = self.strays(repository).await?;
        Ok(strays.into_iter().find(|stray| stray.path == path))
    }

    /// Worktrees of a repository, on a branch, that no live environment has.
    pub(super) async fn strays(&self, repository: &Repository) -> Result<Vec<Stray>, StepError> {
        let live = self.store().live_environments(None).await?;
        let provider = &self.parts().provider;
        let mut strays = Vec::new();
        for entry in provider.list(repository).await? {
            let known = live.iter().any(|environment| entry.is_at(&environment.path));
            // A missing one of ours is no obstacle: its place is made anew.
            let ours_and_gone = entry.prunable && !provider.is_outside(&entry.path);
            let Some(branch) = entry.branch.clone().filter(|_| !known && !ours_and_gone) else { continue };
            self.hide_if_outside(&entry.path);
            let worktree = repository.worktree(&entry.path);
            let entangled = |environment: &Environment| {
                environment.path.starts_with(&entry.path) || entry.path.starts_with(&environment.path)
            };
            let validity = match live.iter().any(entangled) {
                true => Probe::Unknown("it lies inside another one, or around it".to_owned()),
                false => provider.health(repository, &entry.path, Maker::Others).await,
            };
            let (foreign_lock, clean) = match validity == Probe::Known(Validity::Valid) {
                true => (worktree.foreign_lock().await, is_clean(&worktree).await),
                false => (Probe::Known(None), Probe::Unknown("there is no worktree to look at".to_owned())),
            };
            strays.push(Stray { path: entry.path, branch, validity, foreign_lock, clean });
        }
        Ok(strays)
    }

    async fn candidate(&self, repository: &Repository, environment: Environment) -> Candidate {
        let validity = self.health(repository, &environment).await;
        Candidate { environment, validity }
    }

    /// Work that a closing reference connects to this thread, in this repository. GitHub is asked first; when it cannot
    /// answer, which is said, the texts are read.
    async fn links(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        pull: Option<&PullRequest>,
    ) -> Result<(Vec<Work>, bool), StepError> {
        let (Ok(Some(OnGithub { client, id, name, .. })), Some(number)) =
            (self.on_github(codebase), conversation.thread.number())
        else {
            return Ok((Vec::new(), false));
        };
        let kind = if pull.is_some() { WorkKind::Issue } else { WorkKind::PullRequest };
        let asked = retry::patiently(|| async {
            Ok(match pull {
                Some(_) => client.closing_issues(id, name, number).await?,
                None => client.closing_pull_requests(id, name, number).await?,
            })
        });
        let asked = asked.await;
        let unknown = asked.is_err();
        let mut numbers: Vec<ThreadNumber> = match asked {
            Ok(threads) => {
                threads.iter().filter(|thread| thread.repository == id).map(|thread| thread.number).collect()
            }
            Err(error) => {
                tracing::warn!(codebase.name = %name, error = %error, "closing references not answered, reading the text");
                Vec::new()
            }
        };
        // Of a pull request into another base than the default branch, GitHub never says that it closes an issue.
        if let Some(pull) = pull.filter(|pull| unknown || codebase.default_branch.as_ref() != Some(&pull.base)) {
            numbers.extend(closing::references(&pull.body, name));
        }
        let mut links: Vec<Work> = numbers.into_iter().map(|number| Work { kind, id: number.to_string() }).collect();
        if pull.is_none() {
            links.extend(self.noted_links(codebase, &work_of(conversation)).await?);
        }
        let mut seen = HashSet::new();
        links.retain(|link| seen.insert(link.clone()));
        Ok((links, unknown))
    }

    /// Pull requests into another base than the default branch that close this work, as their environments noted.
    async fn noted_links(&self, codebase: &Codebase, work: &Work) -> Result<Vec<Work>, StepError> {
        let live = self.store().live_environments(Some(codebase.id)).await?;
        let notes = live.into_iter().filter(|environment| {
            environment.base != codebase.default_branch
                && environment.work.kind == WorkKind::PullRequest
                && environment.metadata.links.contains(work)
        });
        Ok(notes.map(|environment| environment.work).collect())
    }

    /// Everything a removal depends on.
    pub(super) async fn removal_facts(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environment: &Environment,
        occasion: Occasion,
        view: &View,
    ) -> Result<RemovalFacts, StoreError> {
        let validity = self.health(repository, environment).await;
        let usable = validity == Probe::Known(Validity::Valid);
        let worktree = repository.worktree(&environment.path);
        let conversations = self.store().conversations_of(environment.id).await?;
        let held = self.store().held_conversations_of(environment.id).await?;
        // A task is the work of the thread that has used it for the longest.
        let own = match environment.work.kind {
            WorkKind::Task => conversations.first().map(|conversation| conversation.id),
            WorkKind::Issue | WorkKind::PullRequest | WorkKind::Review | WorkKind::Thread => {
                let own = conversations.iter().find(|conversation| is_own(conversation, &environment.work));
                own.map(|conversation| conversation.id)
            }
        };
        let others = conversations
            .iter()
            .filter(|conversation| conversation.state == ThreadState::Open && Some(conversation.id) != own);
        Ok(RemovalFacts {
            now: self.now(),
            occasion,
            environment: environment.clone(),
            busy: self.store().environment_is_busy(environment.id).await?,
            held_on: held.iter().map(|conversation| conversation.platform).collect(),
            threads_closed: held.is_empty()
                && !conversations.is_empty()
                && conversations.iter().all(|conversation| conversation.state != ThreadState::Open),
            open_conversations: others.map(|conversation| conversation.thread.clone()).collect(),
            foreign_lock: if usable { worktree.foreign_lock().await } else { Probe::Known(None) },
            work: match usable {
                true => work_in_progress(&worktree).await,
                false => Probe::Unknown("there is no worktree to look at".to_owned()),
            },
            branch: match view {
                View::Fetched(Probe::Unknown(why)) => {
                    Probe::Unknown(format!("the repository could not be fetched: {why}"))
                }
                View::Fetched(Probe::Known(())) => {
                    self.branch_facts(codebase, repository, environment, true).await.into()
                }
                View::AsItIs => self.branch_facts(codebase, repository, environment, false).await.into(),
            },
            fetched: matches!(view, View::Fetched(_)),
            validity,
            stale_after: self.settings().stale_after,
        })
    }

    async fn branch_facts(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environment: &Environment,
        ask_github: bool,
    ) -> Result<BranchFacts, StepError> {
        let missing = |what: String| StepError::Refused(what);
        let branch = &environment.branch;
        let tip = repository
            .tip(&branch.full_ref())
            .await?
            .ok_or_else(|| missing(format!("the branch {branch} no longer exists here")))?;
        let recorded = environment.base.as_ref();
        let recorded_exists = match recorded {
            Some(base) => repository.tip(&base.remote_ref()).await?.is_some(),
            None => false,
        };
        let default = codebase.default_branch.as_ref();
        let other = other_base(&BaseFacts { recorded, recorded_exists, pull: None, named: None, default });
        let base = other.or(recorded).cloned().ok_or_else(|| missing("no base branch is known".to_owned()))?;
        let base_tip = repository
            .tip(&base.remote_ref())
            .await?
            .ok_or_else(|| missing(format!("the base {base} no longer exists on the remote")))?;
        let (ahead, _) = repository.ahead_behind(&tip, &base_tip).await?;
        let newest = repository.log(&base_tip, &tip, 1).await?;
        let last_commit = newest.first().map(|commit| commit.committed_at);
        let moved = environment.start.as_ref() != Some(&tip);
        let base_stood_there = ahead == 0 && moved && repository.stood_at(&base_tip, &tip).await?;
        let began_ahead = environment.metadata.began_ahead;
        match own_work(Lineage { ahead, moved, began_ahead, base_stood_there }) {
            OwnWork::None => return Ok(BranchFacts { tip, last_commit, has_own_commits: false, merged: None }),
            OwnWork::IfMerged => {
                let merged = match ask_github {
                    true => self.merged_by_github(codebase, branch, &tip, &base).await?,
                    false => None,
                };
                return Ok(BranchFacts { tip, last_commit, has_own_commits: merged.is_some(), merged });
            }
            OwnWork::Some => {}
        }
        let merged = self.merge_proof(codebase, repository, branch, &tip, base, &base_tip, ahead, ask_github).await?;
        Ok(BranchFacts { tip, last_commit, has_own_commits: true, merged })
    }

    /// Cheapest proof first; GitHub is asked last.
    #[expect(clippy::too_many_arguments, reason = "two ends of one comparison, by name and by commit")]
    async fn merge_proof(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        branch: &BranchName,
        tip: &CommitSha,
        base: BranchName,
        base_tip: &CommitSha,
        ahead: u64,
        ask_github: bool,
    ) -> Result<Option<MergeProof>, StepError> {
        if ahead == 0 {
            return Ok(Some(MergeProof::Ancestor { base }));
        }
        // Commits that cancel each other out add nothing to the base without ever having been merged.
        if !repository.net_diff_empty(base_tip, tip).await? && repository.merge_adds_nothing(base_tip, tip).await? {
            return Ok(Some(MergeProof::ContentInBase { base }));
        }
        match ask_github {
            true => self.merged_by_github(codebase, branch, tip, &base).await,
            false => Ok(None),
        }
    }

    /// The branch that this work had last, if something on it is not merged, and else those of its names on which all is.
    async fn branches_before(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        settings: &RepoSettings,
        work: &Work,
    ) -> Result<(Option<BranchName>, Vec<BranchName>), StepError> {
        let mut merged = Vec::new();
        let Some(base) = settings.base.as_ref().or(codebase.default_branch.as_ref()) else { return Ok((None, merged)) };
        let Some(base_tip) = repository.tip(&base.remote_ref()).await? else { return Ok((None, merged)) };
        if let Some(last) = self.store().find_last_environment(codebase.id, work).await? {
            let branch = last.branch;
            let here = repository.tip(&branch.full_ref()).await?.is_some();
            let there = repository.tip(&branch.remote_ref()).await?.is_some();
            if (here || there) && !self.is_merged(codebase, repository, &branch, base, &base_tip).await? {
                return Ok((Some(branch), merged));
            }
        }
        loop {
            // A name that cannot be is refused when it is chosen.
            let Ok(branch) = settings.branch(&branch_name(work, merged.len())) else { return Ok((None, merged)) };
            if !self.is_merged(codebase, repository, &branch, base, &base_tip).await? {
                return Ok((None, merged));
            }
            merged.push(branch);
        }
    }

    /// Whether all there is of a branch, here and on the remote, was merged. One that has nothing of its own was only if
    /// GitHub says so: it may be fresh.
    async fn is_merged(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        branch: &BranchName,
        base: &BranchName,
        base_tip: &CommitSha,
    ) -> Result<bool, StepError> {
        let here = repository.tip(&branch.full_ref()).await?;
        let there = repository.tip(&branch.remote_ref()).await?;
        let tips: BTreeSet<CommitSha> = here.into_iter().chain(there).collect();
        for tip in &tips {
            let (ahead, _) = repository.ahead_behind(tip, base_tip).await?;
            let proof = retry::patiently(|| async {
                match ahead {
                    0 => self.merged_by_github(codebase, branch, tip, base).await,
                    _ => {
                        let base = base.clone();
                        self.merge_proof(codebase, repository, branch, tip, base, base_tip, ahead, true).await
                    }
                }
            });
            if proof.await?.is_none() {
                return Ok(false);
            }
        }
        Ok(!tips.is_empty())
    }

    async fn merged_by_github(
        &self,
        codebase: &Codebase,
        branch: &BranchName,
        tip: &CommitSha,
        base: &BranchName,
    ) -> Result<Option<MergeProof>, StepError> {
        let Some(github) = self.on_github(codebase)? else { return Ok(None) };
        let merged = github.client.merged_pull_request(github.id, github.name, branch, tip, base).await?;
        Ok(merged.map(|number| MergeProof::PullRequest { number }))
    }

    /// What `/status` shows of an environment.
    pub(super) async fn look_at(&self, codebase: &Codebase, environment: &Environment) -> Seen {
        let repository = self.repository(codebase);
        let ahead_behind = async {
            let Some(base) = &environment.base else { return Ok(None) };
            let tip = repository.tip(&environment.branch.full_ref()).await?;
            let base = repository.tip(&base.remote_ref()).await?;
            match (tip, base) {
                (Some(tip), Some(base)) => repository.ahead_behind(&tip, &base).await.map(Some),
                _ => Ok::<_, GitError>(None),
            }
        };
        let worktree = repository.worktree(&environment.path);
        let dirty = worktree.status().await.map(|status| status.tracked + status.untracked + status.conflicted);
        let on_branch = Probe::from(worktree.head().await).map(|head| head.branch);
        let submodules = worktree.submodule_work().await;
        Seen { ahead_behind: ahead_behind.await.into(), dirty, submodules, on_branch }
    }
}

/// Nothing uncommitted, and nothing under way that a commit would end.
async fn is_clean(worktree: &Worktree) -> Probe<bool> {
    match (worktree.status().await, worktree.operation_in_progress().await) {
        (Probe::Known(status), Probe::Known(operation)) => Probe::Known(status.is_clean() && operation.is_none()),
        (Probe::Unknown(why), _) | (_, Probe::Unknown(why)) => Probe::Unknown(why),
    }
}

async fn contains(repository: &Repository, branch: &BranchName, commit: &CommitSha) -> Probe<bool> {
    let answer = async {
        match repository.tip(&branch.full_ref()).await? {
            Some(tip) => repository.is_ancestor(commit, &tip).await,
            None => Ok(false),
        }
    };
    answer.await.into()
}

async fn pull_facts(repository: &Repository, pull: &PullRequest) -> Result<PullFacts, StepError> {
    let head_gone = !pull.is_fork() && !pull.head_renamed && repository.tip(&pull.head.remote_ref()).await?.is_none();
    Ok(PullFacts {
        number: pull.number,
        head: pull.head.clone(),
        head_sha: pull.head_sha.clone(),
        fork: pull.is_fork(),
        head_gone,
        head_renamed: pull.head_renamed,
        base: pull.base.clone(),
    })
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
    let status = known!(worktree.status().await);
    Probe::Known(WorkInProgress {
        on_branch: head.branch,
        changed: status.tracked + status.conflicted,
        untracked: status.untracked,
        operation: known!(worktree.operation_in_progress().await),
        hidden_changes: known!(worktree.hidden_changes().await),
        submodules: known!(worktree.submodule_work().await),
        nested: known!(worktree.nested_repositories().await),
        ignored: known!(worktree.ignored_work().await).iter().map(|path| path.display().to_string()).collect(),
    })
}
