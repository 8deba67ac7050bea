//! After the agent: the service commits what is left, pushes without force, opens the pull request, and reads back what
//! is true. Each step looks first whether it was done already, so a restart repeats all of them safely.

use super::{Orchestrator, StepError, follow::dropped, outbox::Sent, prepare::Prepared, retry};
use crate::decide::cleanup::Keep;
use crate::decide::deliver::{Proposal, PullState, Push, PushFacts, Withheld, proposal, push};
use crate::git::{CommitRequest, GitError, Ident, PushOutcome, Rejection, Status, Worktree};
use crate::github::PullRequest;
use crate::model::*;
use crate::reply::{
    cleanup, delivery, furnished, run_end,
    status::{pull_key, run_of_pull},
    undelivered,
};
use crate::telemetry::field::EFFECT;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a run waits for its pull request to be opened before it ends without one.
const PULL_REQUEST_WAIT: Duration = Duration::from_secs(120);
/// Messages that a start looks through for pull requests that opened late.
const LATE: u32 = 500;

/// A commit that takes longer after a request to stop (an agent left very much) is given up; its files stay.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// How far delivering went.
pub(super) enum Delivered {
    ToItsEnd,
    /// Somebody asked to stop in time. What was done until then stays.
    Stopped,
}

/// What was there when the remote was asked.
struct OnRemote {
    /// The branch's commit.
    there: Option<CommitSha>,
    default: Option<BranchName>,
}

impl Orchestrator {
    /// Delivers the work of a run; what was verified is written into `run.outcome`. A request to stop is heeded as long as
    /// there is something left that people would see.
    pub(super) async fn deliver(
        &self,
        run: &mut Run,
        prepared: &Prepared,
        cancel: &CancellationToken,
    ) -> Result<Delivered, StepError> {
        let (repository, environment) = (&prepared.repository, &prepared.environment);
        let branch = &environment.branch;
        repository.restore_config().await?;
        // An agent may have deleted the ref its work stands on; what it changed is in the files.
        if repository.tip(&branch.full_ref()).await?.is_none()
            && let Some(head) = &run.outcome.head_before
        {
            tracing::warn!(run.id = %run.id, environment.branch = %branch, "the branch was deleted during the run; it is restored");
            repository.set_ref(&branch.full_ref(), head, None).await?;
        }
        // What stands there now may be anybody's.
        match self.validity(repository, environment).await {
            Probe::Known(Validity::Valid) => {}
            Probe::Known(Validity::Missing) => return Err(StepError::Refused(run_end::environment_lost())),
            Probe::Known(Validity::Broken | Validity::OwnRepository | Validity::Foreign) => {
                run.outcome.not_pushed_because = Some(undelivered::place_taken());
                return Ok(Delivered::ToItsEnd);
            }
            Probe::Unknown(why) => return Err(GitError::Unreadable(why).into()),
        }
        let worktree = repository.worktree(&environment.path);
        let head = worktree.head().await?;
        if head.branch.as_ref() != Some(branch) {
            run.outcome.not_pushed_because = Some(undelivered::branch_drift(branch, head.branch.as_ref()));
            return Ok(Delivered::ToItsEnd);
        }
        effect(run, "commit");
        let request = self.commit_request(run, prepared);
        let committed = tokio::select! {
            biased;
            committed = worktree.commit_all(&request) => committed,
            () = stopped_long_ago(cancel) => return Ok(Delivered::Stopped),
        };
        match committed {
            Ok(_) => {}
            Err(GitError::Unfinished(what)) => {
                run.outcome.not_pushed_because = Some(undelivered::unfinished(&what));
                return Ok(Delivered::ToItsEnd);
            }
            Err(error) => return Err(error.into()),
        }
        effect(run, "committed");
        let kept = furnished::kept_from_lfs(&worktree.kept_from_lfs().await?);
        run.outcome.left_behind = match kept {
            Some(kept) => Some(kept),
            None => left_behind(&worktree).await,
        };
        match repository.stashed_on(branch).await {
            Ok(number) => run.outcome.stashed = number,
            // What is committed goes out all the same.
            Err(error) => {
                let doubt = || cleanup::sentence(&Keep::CannotVerify(error.to_string()));
                run.outcome.left_behind.get_or_insert_with(doubt);
            }
        }
        let tip =
            repository.tip(&branch.full_ref()).await?.ok_or_else(|| StepError::Refused(run_end::environment_lost()))?;
        run.outcome.head_after = Some(tip.clone());
        let mut ahead = self.reckon(run, prepared, &tip).await?;
        let from_fork = environment.metadata.fork_head.is_some();
        let nothing_done = ahead == Some(0) && run.outcome.head_before.as_ref() == Some(&tip);
        // A fork's commits go nowhere, so nothing is asked about them.
        let on_remote = if nothing_done || (from_fork && ahead.is_some()) {
            OnRemote { there: None, default: prepared.codebase.default_branch.clone() }
        } else {
            // What the last fetch brought may have been taken away or moved since, by this agent or another one.
            let asked = retry::patiently(|| self.on_the_remote(run, prepared)).await?;
            ahead = self.reckon(run, prepared, &tip).await?;
            asked
        };
        match ahead {
            None => run.outcome.not_pushed_because = Some(undelivered::base_gone()),
            // Nothing is to be delivered, unless that is since it was dropped here.
            Some(0) => {
                if let Some(there) = &on_remote.there
                    && let (_, dropped @ 1..) = repository.ahead_behind(&tip, there).await?
                {
                    run.outcome.not_pushed_because = Some(undelivered::dropped_here(branch, dropped));
                }
            }
            Some(_) => return self.push_and_propose(run, prepared, &worktree, (tip, on_remote), cancel).await,
        }
        Ok(Delivered::ToItsEnd)
    }

    /// What the branch at `tip` has that its base lacks, as the last fetch left that; it goes into the outcome. `None`: there is
    /// no base.
    async fn reckon(&self, run: &mut Run, prepared: &Prepared, tip: &CommitSha) -> Result<Option<u64>, StepError> {
        let (repository, environment) = (&prepared.repository, &prepared.environment);
        (run.outcome.commits, run.outcome.files_changed) = (None, None);
        let Some(name) = &environment.base else { return Ok(None) };
        let Some(base) = repository.tip(&name.remote_ref()).await? else { return Ok(None) };
        let (ahead, _) = repository.ahead_behind(tip, &base).await?;
        // A head that is not to be worked on is somebody else's until there is work on top of it. Nor did anybody work on what
        // only the base once had.
        let is_others = environment.metadata.lost_head.as_ref() == Some(tip);
        let has_moved = ![&run.outcome.head_before, &environment.start].iter().any(|at| at.as_ref() == Some(tip));
        if ahead == 0 || is_others || (!has_moved && repository.taken_off(name, tip).await? == ahead) {
            return Ok(Some(0));
        }
        run.outcome.commits = Some(ahead);
        run.outcome.files_changed = Some(repository.diff_stat(&base, tip).await?.files);
        Ok(Some(ahead))
    }

    async fn push_and_propose(
        &self,
        run: &mut Run,
        prepared: &Prepared,
        worktree: &Worktree,
        (tip, on_remote): (CommitSha, OnRemote),
        cancel: &CancellationToken,
    ) -> Result<Delivered, StepError> {
        let environment = &prepared.environment;
        let branch = &environment.branch;
        let facts = self.push_facts(run, prepared, worktree, (tip, on_remote), cancel).await?;
        match push(facts) {
            Push::Go => {}
            Push::NothingNew => return Ok(Delivered::ToItsEnd),
            Push::Withheld(why) => {
                run.outcome.not_pushed_because = Some(undelivered::withheld(&why, branch));
                return Ok(match why {
                    Withheld::Stopped => Delivered::Stopped,
                    Withheld::Fork | Withheld::Default | Withheld::Base | Withheld::Deleted | Withheld::NotOn(_) => {
                        Delivered::ToItsEnd
                    }
                    Withheld::OffBase { .. } | Withheld::TakenBack | Withheld::Copies(_) | Withheld::Blobs(_) => {
                        Delivered::ToItsEnd
                    }
                });
            }
        }
        effect(run, "push");
        let pushed = retry::patiently(|| self.push(prepared)).await?;
        effect(run, "push answered");
        match pushed {
            PushOutcome::Pushed(_) | PushOutcome::UpToDate(_) => {}
            // A push whose answer was lost is refused when it is repeated.
            PushOutcome::Rejected { .. }
                if retry::patiently(|| self.read_back(prepared))
                    .await
                    .is_ok_and(|there| there == run.outcome.head_after) => {}
            PushOutcome::Rejected { reason } => {
                run.outcome.not_pushed_because = Some(match reason {
                    Rejection::CheckedOut => undelivered::checked_out(branch),
                    Rejection::NameOf(other) => undelivered::name_of(branch, &other),
                    Rejection::NonFastForward => undelivered::newer_on_the_remote(branch),
                    Rejection::Protected => undelivered::protected(branch),
                    Rejection::Workflows => undelivered::workflows_changed(branch),
                    Rejection::NoObjects(paths) => furnished::without_objects(branch, &paths),
                    Rejection::Other(words) => undelivered::push_rejected(branch, &words),
                });
                return Ok(Delivered::ToItsEnd);
            }
        }
        run.outcome.pushed = retry::patiently(|| async {
            let there = self.read_back(prepared).await?;
            if there.is_none() {
                self.demand_absence(&prepared.codebase, branch).await?;
            }
            Ok(there)
        })
        .await?;
        let Some(pushed) = &run.outcome.pushed else {
            run.outcome.not_pushed_because = Some(undelivered::gone_after_the_push(branch));
            return Ok(Delivered::ToItsEnd);
        };
        self.note_agreement(environment.clone(), pushed.clone()).await?;
        effect(run, "pull request");
        self.ensure_pull_request(run, prepared, cancel).await
    }

    async fn push_facts(
        &self,
        run: &Run,
        prepared: &Prepared,
        worktree: &Worktree,
        (tip, OnRemote { there, default }): (CommitSha, OnRemote),
        cancel: &CancellationToken,
    ) -> Result<PushFacts, StepError> {
        let environment = &prepared.environment;
        let branch = Some(&environment.branch);
        let off_base = match &environment.base {
            Some(base) => match prepared.repository.published_again(base, &tip).await? {
                0 => None,
                commits => Some((base.clone(), commits)),
            },
            None => None,
        };
        Ok(PushFacts {
            from_fork: environment.metadata.fork_head.is_some(),
            is_default: default.as_ref() == branch,
            is_base: prepared.settings.base.as_ref() == branch,
            was_there: run.outcome.remote_before.is_some(),
            agreed: environment.metadata.agreed.clone(),
            taken_back: brings_back(prepared, &tip, there.as_ref()).await?,
            off_base,
            copies: worktree.copies_in_commits().await?,
            blobs: worktree.blobs_for_lfs_in_commits().await?,
            stop: cancel.is_cancelled(),
            mode: self.mode_of(&prepared.codebase).await?,
            tip,
            there,
        })
    }

    /// Somebody's name and address in commits.
    pub(super) fn ident(&self, person: &Person) -> Ident {
        let host = noreply_host(&self.settings().web_url);
        let email = match self.github() {
            Some(_) => format!("{}+{}@{host}", person.id, person.login),
            None => format!("{}@localhost", person.login),
        };
        Ident { name: person.login.clone(), email }
    }

    fn commit_request(&self, run: &Run, prepared: &Prepared) -> CommitRequest {
        let bot = &self.identity().bot;
        CommitRequest {
            message: delivery::commit_message(&run.request, &prepared.conversation),
            author: self.ident(bot),
            committer: self.ident(bot),
            co_authors: match run.request.source {
                // Nobody knows an address of whoever is at this machine, and none is made up.
                MessageSource::Local => Vec::new(),
                MessageSource::ThreadBody
                | MessageSource::IssueComment { .. }
                | MessageSource::Review { .. }
                | MessageSource::ReviewComment { .. } => vec![self.ident(&run.request.requester)],
            },
            branch: prepared.environment.branch.clone(),
        }
    }

    /// Fetches from where the repository is now: it may have been renamed while the agent was at work.
    async fn on_the_remote(&self, run: &Run, prepared: &Prepared) -> Result<OnRemote, StepError> {
        let (repository, branch) = (&prepared.repository, &prepared.environment.branch);
        let (codebase, clone_url) = self.refreshed(&prepared.codebase).await?;
        self.fetch(&codebase, repository, &clone_url, None).await?;
        let there = repository.tip(&branch.remote_ref()).await?;
        if there.is_none() && run.outcome.remote_before.is_some() {
            self.demand_absence(&codebase, branch).await?;
        }
        Ok(OnRemote { there, default: codebase.default_branch })
    }

    /// The token is asked for just before the push: one that has expired, or soon does, is replaced then.
    async fn push(&self, prepared: &Prepared) -> Result<PushOutcome, StepError> {
        let codebase = &prepared.codebase;
        let (repository, branch) = (&prepared.repository, &prepared.environment.branch);
        let worktree = &repository.worktree(&prepared.environment.path);
        self.with_credential(codebase, true, |credential| async move {
            // Objects first: a commit whose pointers lead nowhere is no good to anybody.
            match worktree.push_lfs(branch, credential.as_ref()).await? {
                missing if missing.is_empty() => repository.push(branch, credential.as_ref()).await,
                missing => Ok(PushOutcome::Rejected { reason: Rejection::NoObjects(missing) }),
            }
        })
        .await
    }

    async fn read_back(&self, prepared: &Prepared) -> Result<Option<CommitSha>, StepError> {
        let codebase = &prepared.codebase;
        let (repository, branch) = (&prepared.repository, &prepared.environment.branch);
        let read =
            |credential: Option<Credential>| async move { repository.remote_branch(branch, credential.as_ref()).await };
        self.with_credential(codebase, false, read).await
    }

    /// Whether the branch's content is all in the base; a question that has no answer is a no.
    async fn adds_nothing(&self, prepared: &Prepared, base: &BranchName) -> bool {
        let (repository, branch) = (&prepared.repository, &prepared.environment.branch);
        let tips = (repository.tip(&base.remote_ref()).await, repository.tip(&branch.full_ref()).await);
        let (Ok(Some(base)), Ok(Some(tip))) = tips else { return false };
        repository.merge_adds_nothing(&base, &tip).await.unwrap_or(false)
    }

    /// The pull request of this branch: the one that is open, or what the repository asks for.
    async fn ensure_pull_request(
        &self,
        run: &mut Run,
        prepared: &Prepared,
        cancel: &CancellationToken,
    ) -> Result<Delivered, StepError> {
        let environment = &prepared.environment;
        let codebase = &prepared.codebase;
        // Whoever has the repository finds the branch in it.
        let Some(github) = &self.on_github(codebase)? else { return Ok(Delivered::ToItsEnd) };
        // As it is now: a person may have merged or closed it while the agent was at work.
        if let Some(pull) = prepared.pull.as_ref().filter(|pull| pull.head == environment.branch && !pull.is_fork())
            && self.fetch_pull_request(codebase, pull.number).await?.state == ThreadState::Open
        {
            run.outcome.pull_request = Some(pull.number);
            return Ok(Delivered::ToItsEnd);
        }
        let known = retry::patiently(|| async {
            Ok(github.client.find_pull_requests(github.id, github.name, &environment.branch).await?)
        });
        let known: Vec<_> = known
            .await?
            .into_iter()
            .map(|PullRequest { number, state, merged_at, closed_at, head_sha: head, .. }| PullState {
                number,
                state,
                merged_at,
                closed_at,
                head,
            })
            .collect();
        let over = match proposal(&known, run.outcome.pushed.as_ref(), run.started_at) {
            Proposal::HasIt(number) => {
                run.outcome.pull_request = Some(number);
                return Ok(Delivered::ToItsEnd);
            }
            Proposal::MergedMeanwhile(number) => Some(undelivered::merged_meanwhile(number, &environment.branch)),
            Proposal::ClosedMeanwhile(number) => Some(undelivered::closed_meanwhile(number, &environment.branch)),
            Proposal::ToBeMade => None,
        };
        let Some(base) = environment.base.clone() else { return Ok(Delivered::ToItsEnd) };
        // What was merged before needs no review again.
        if self.adds_nothing(prepared, &base).await {
            return Ok(Delivered::ToItsEnd);
        }
        if over.is_some() {
            run.outcome.not_pushed_because = over;
            return Ok(Delivered::ToItsEnd);
        }
        let draft = match prepared.settings.pull_request {
            PullRequestMode::Draft => true,
            PullRequestMode::Open => false,
            PullRequestMode::Link => {
                run.outcome.to_open_into = Some(base);
                return Ok(Delivered::ToItsEnd);
            }
            PullRequestMode::Never => return Ok(Delivered::ToItsEnd),
        };
        let key = pull_key(run.id);
        // One that a try before a restart asked for is opened, whatever is asked now.
        if cancel.is_cancelled() && self.store().load_outgoing_by_key(&key).await?.is_none() {
            run.outcome.not_pushed_because = Some(undelivered::stopped_before_pull_request());
            return Ok(Delivered::Stopped);
        }
        let outgoing = Outgoing::PullRequest {
            head: environment.branch.clone(),
            base,
            title: delivery::pull_request_title(&prepared.conversation),
            body: delivery::pull_request_body(run, &prepared.conversation, &environment.work),
            draft,
        };
        self.say(key.clone(), codebase.id, Some(run.conversation), outgoing).await?;
        match self.wait_until_sent(&key, PULL_REQUEST_WAIT).await? {
            Sent::Yes(number) => run.outcome.pull_request = number.map(ThreadNumber),
            Sent::Never(why) => run.outcome.not_pushed_because = Some(undelivered::pull_request_refused(&why)),
            Sent::NotYet(why) => run.outcome.not_pushed_because = Some(undelivered::no_pull_request_yet(&why)),
        }
        Ok(Delivered::ToItsEnd)
    }

    /// Brings a run that ended while its pull request was not open yet up to date with what became of that: the run's
    /// outcome and its status comment. Does nothing for one that is still live, which looks itself, here, when it ended.
    pub(super) async fn late_pull_request(&self, id: RunId) -> Result<(), StepError> {
        let Some(row) = self.store().load_outgoing_by_key(&pull_key(id)).await? else { return Ok(()) };
        let run = self.store().load_run(id).await?;
        let Some(mut run) = run.filter(|run| run.state.is_final()) else { return Ok(()) };
        let before = run.outcome.clone();
        match row.state {
            OutboxState::Pending | OutboxState::Sending => return Ok(()),
            OutboxState::Sent => {
                run.outcome.pull_request = row.remote_id.map(ThreadNumber);
                run.outcome.not_pushed_because = None;
            }
            OutboxState::Failed => {
                let why = row.last_error.unwrap_or_default();
                run.outcome.not_pushed_because = Some(undelivered::pull_request_refused(&why));
            }
        }
        if run.outcome != before {
            // In this order: what is not written down yet is looked at again with the next start.
            self.publish(&run, None).await?;
            self.store().correct_outcome(&run).await?;
        }
        Ok(())
    }

    /// The same for what a crash kept from being told.
    pub(super) async fn late_pull_requests(&self) -> Result<(), StepError> {
        for row in self.store().list_outgoing(LATE).await? {
            if let Some(run) = run_of_pull(&row.key) {
                self.late_pull_request(run).await?;
            }
        }
        Ok(())
    }
}

/// Whether a push would bring back commits that people took off the branch on the remote, which is `there` now.
async fn brings_back(prepared: &Prepared, tip: &CommitSha, there: Option<&CommitSha>) -> Result<bool, StepError> {
    let Some(there) = there else { return Ok(false) };
    match dropped(&prepared.repository, &prepared.environment, there).await? {
        Some(seen) => Ok(prepared.repository.is_ancestor(&seen, tip).await?),
        None => Ok(false),
    }
}

/// What git would not commit, most of the time a repository of its own inside, and what no push of ours brings anywhere.
async fn left_behind(worktree: &Worktree) -> Option<String> {
    let reason = match (worktree.submodule_work().await, worktree.status().await) {
        (Probe::Known(submodules), _) if !submodules.is_empty() => Keep::SubmoduleWork(submodules[0].clone()),
        (Probe::Known(_), Probe::Known(status)) if status.is_clean() => return None,
        (Probe::Known(_), Probe::Known(Status { tracked, conflicted, untracked, .. })) => {
            match worktree.nested_repositories().await {
                Probe::Known(nested) if !nested.is_empty() => Keep::NestedRepository(nested[0].clone()),
                Probe::Known(_) | Probe::Unknown(_) => {
                    Keep::UncommittedChanges { changed: tracked + conflicted, untracked }
                }
            }
        }
        (Probe::Unknown(why), _) | (_, Probe::Unknown(why)) => Keep::CannotVerify(why),
    };
    let not_taken = match matches!(reason, Keep::UncommittedChanges { .. } | Keep::CannotVerify(_)) {
        true => worktree.not_taken().await.unwrap_or_default(),
        false => Vec::new(),
    };
    Some(furnished::not_taken(&not_taken).unwrap_or_else(|| cleanup::sentence(&reason)))
}

/// Where GitHub's own addresses for commits are, which lead to an account and nowhere else: `users.noreply.` before the
/// host of its pages. Source: "Setting your commit email address", also that of GitHub Enterprise Server.
fn noreply_host(web_url: &str) -> String {
    let host = web_url.split_once("://").map_or(web_url, |(_, rest)| rest);
    let host = host.split(['/', ':']).next().unwrap_or_default();
    format!("users.noreply.{host}")
}

async fn stopped_long_ago(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(STOP_GRACE).await;
}

fn effect(run: &Run, what: &'static str) {
    tracing::info!(target: EFFECT, { run.id = %run.id }, "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_the_github_that_is_worked_with() {
        assert_eq!(noreply_host("https://github.com"), "users.noreply.github.com");
        assert_eq!(noreply_host("https://git.example.org:8443/"), "users.noreply.git.example.org");
        assert_eq!(noreply_host("https://acme.ghe.com"), "users.noreply.acme.ghe.com");
    }
}
