//! Removing environments: for a closed thread, on request, and in passes over all of them.
//!
//! One sequence serves every trigger: facts, verdict, journal (`removing`), then [`finish`]: the provider's removal and
//! the receipt. What was journalled is finished by the next start ([`super::recover`]). One that goes for another's
//! sake is asked more before ([`make_way`], [`retire`]).

mod before;
mod finish;
mod foresee;
mod last_look;
mod make_way;
mod orphans;
mod receipt;
mod retire;

pub(super) use finish::{TRASH, trash_ref};
pub(super) use last_look::LastLooks;
pub use orphans::{ByHand, Orphan};
pub(super) use retire::Retired;

use super::{
    Orchestrator, StepError, gather,
    proofs::RUNS,
    retry,
    scan::{Depth, FILES_AT_ONCE, View, in_their_order},
};
use crate::decide::cleanup::{
    Class, Keep, Occasion, Removal, RemovalFacts, Verdict, classify, concerns, dated_ahead, passed_over, verdict,
};
use crate::git::Repository;
use crate::model::*;
use crate::reply::cleanup;
use crate::store::{RunFilter, StoreError};
use before::Ready;
use futures::FutureExt;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// How often a removal is decided about, when others write its row meanwhile.
const DECISIONS: u32 = 4;

/// The outbox key under which a closed thread is told what became of an environment.
fn told_under(environment: EnvironmentId, conversation: ConversationId) -> String {
    format!("cleanup/{environment}/{conversation}")
}

fn as_line(receipt: Receipt, repository: Option<String>) -> ReportLine {
    let ReceiptDetails { branch, proof, bytes_freed, .. } = receipt.details;
    let (environment, result) = (Some(receipt.environment), ReportResult::Removed(proof));
    ReportLine { environment, repository, branch, result, bytes_freed, bytes_reclaimed: 0, notes: Vec::new() }
}

/// Why an environment is looked at, by whom, and which closed thread is to be told.
struct Cause<'a> {
    occasion: Occasion,
    trigger: Trigger,
    actor: &'a str,
    tell: Option<ConversationId>,
    /// The delivery it is for.
    asked_in: Option<InboxId>,
    /// The thread whose command asked for it.
    answered: Option<ConversationId>,
    /// It goes only as one of this class.
    only: Option<Class>,
}

/// The command that asked for it, and the thread that is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub delivery: &'a Delivery,
    pub thread: ConversationId,
}

/// A look at many environments with none in particular in mind.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'a> {
    pub trigger: Trigger,
    /// Decides, and changes nothing.
    pub dry_run: bool,
    pub actor: &'a str,
    /// `None`: all of them.
    pub codebase: Option<CodebaseId>,
    /// Those of a class, and those that something keeps from being of it. `None`: of every class.
    pub only: Option<Class>,
    /// No further environment is looked at once this is cancelled.
    pub(super) stop: Option<&'a CancellationToken>,
    /// The command that asked for it.
    pub(super) asked: Option<Asked<'a>>,
}

impl<'a> Pass<'a> {
    /// Over everything there is.
    pub fn everywhere(trigger: Trigger, dry_run: bool, actor: &'a str) -> Self {
        Self { trigger, dry_run, actor, codebase: None, only: None, stop: None, asked: None }
    }
}

/// What making room at the limit led to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// Removed.
    pub merged: usize,
    /// Rows that were closed.
    pub ghosts: usize,
    pub left: Census,
}

/// What became of one environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swept {
    Removed(Box<ReceiptDetails>),
    Kept(Vec<Keep>),
    /// Its worktree was gone already; the row is closed now.
    Gone,
}

impl Orchestrator {
    /// Removes an environment when nothing would be lost; otherwise says every reason to keep it.
    pub async fn remove(&self, id: EnvironmentId, trigger: Trigger, actor: &str) -> Result<Swept, StepError> {
        self.remove_named(id, Occasion::Named, trigger, actor, None).await
    }

    /// The same, with what is not committed going to the trash.
    pub async fn remove_by_force(&self, id: EnvironmentId, trigger: Trigger, actor: &str) -> Result<Swept, StepError> {
        self.remove_named(id, Occasion::Forced, trigger, actor, None).await
    }

    /// The same, for a command in a delivery.
    pub(super) async fn remove_named(
        &self,
        id: EnvironmentId,
        occasion: Occasion,
        trigger: Trigger,
        actor: &str,
        asked: Option<Asked<'_>>,
    ) -> Result<Swept, StepError> {
        let Some(environment) = self.store().load_environment(id).await? else { return Ok(Swept::Gone) };
        let Some(codebase) = self.store().load_codebase(environment.codebase).await? else { return Ok(Swept::Gone) };
        let view = self.view_of(&codebase).await;
        let (asked_in, answered) = (asked.map(|asked| asked.delivery.id), asked.map(|asked| asked.thread));
        let cause = Cause { occasion, trigger, actor, tell: None, asked_in, answered, only: None };
        self.remove_fetched(&codebase, id, &cause, &view).await
    }

    /// Looks at all live environments of a codebase, and then decides about one after the other, and about what no
    /// environment has. The report is stored, also of a pass that was stopped half-way.
    pub async fn pass(&self, pass: &Pass<'_>) -> Result<CleanupReport, StepError> {
        let started_at = self.now();
        if pass.codebase.is_none() && !pass.dry_run {
            self.meet_again().await;
        }
        let codebases = self.store().list_codebases().await?;
        let only = codebases.iter().find(|codebase| pass.codebase == Some(codebase.id));
        let only = only.map(|codebase| codebase.name.to_string());
        let removed = self.passed_before(pass).await?.into_iter();
        let mut lines: Vec<_> = removed.map(|receipt| as_line(receipt, only.clone())).collect();
        let mut strays_seen = BTreeMap::new();
        let stopped = || pass.stop.is_some_and(CancellationToken::is_cancelled);
        for codebase in codebases {
            if stopped() {
                break;
            }
            if pass.codebase.is_some_and(|only| only != codebase.id) {
                continue;
            }
            let mut codebase = self.with_default_branch(&codebase).await.0;
            // What a command foresees is what it would do.
            if pass.dry_run && pass.trigger == Trigger::Command {
                codebase.mode = CodebaseMode::On;
            }
            if !pass.dry_run && pass.only.is_none() && codebase.mode == CodebaseMode::On {
                self.empty_expired(&codebase).await;
            }
            lines.extend(self.unreadable(&codebase).await?);
            let line = |environment: &Environment, result, bytes_freed| {
                let branch = environment.branch.to_string();
                ReportLine { bytes_freed, ..ReportLine::of(&codebase.name, Some(environment.id), branch, result) }
            };
            let environments = self.store().live_environments(Some(codebase.id)).await?;
            let (environments, left_alone) = self.apart_from_put_off(environments, pass);
            let lines_left = left_alone.into_iter().map(|(environment, result)| line(&environment, result, None));
            lines.extend(lines_left);
            let view = self.fetched(&codebase).boxed().shared();
            let (strays, seen) = tokio::join!(
                self.look_for_strays(&codebase),
                self.scan_until_stopped(&codebase, &environments, pass, view.clone())
            );
            let has_work = !environments.is_empty() || strays.as_ref().is_ok_and(|strays| strays.have_work());
            let view = if has_work && !stopped() { view.await } else { View::AsItIs };
            let passed = environments.iter().zip(seen).map(async |(environment, facts)| {
                if stopped() {
                    return None;
                }
                let passed = self.pass_one_patiently(&codebase, environment, facts, pass, &view).await;
                passed.map(|(result, bytes_freed)| line(environment, result, bytes_freed))
            });
            // Those that change nothing are in nobody's way.
            let at_once = if pass.dry_run { FILES_AT_ONCE } else { 1 };
            lines.extend(in_their_order(passed, at_once).await.into_iter().flatten());
            let over_strays = self.pass_over_strays(&codebase, strays, pass, &view, &mut strays_seen);
            lines.extend(Box::pin(over_strays).await);
            Box::pin(self.look_after_disk(&codebase, pass, &mut lines)).await;
        }
        if pass.codebase.is_none() && !stopped() {
            match self.unheard().await {
                Ok(unheard) => {
                    self.count_strays(&strays_seen, &unheard);
                    lines.extend(unheard.iter().map(orphans::unheard_line));
                }
                Err(error) => lines.push(orphans::unheard_unknown(&error)),
            }
        }
        let id = ReportId(uuid::Uuid::now_v7());
        let Pass { trigger, dry_run, .. } = *pass;
        let report = CleanupReport { id, trigger, dry_run, lines, started_at, ended_at: self.now() };
        self.store().insert_report(&report).await?;
        Ok(report)
    }

    /// It only looks: where the pass is stopped, nothing was seen.
    async fn scan_until_stopped(
        &self,
        codebase: &Codebase,
        environments: &[Environment],
        pass: &Pass<'_>,
        view: impl Future<Output = View>,
    ) -> Vec<Result<RemovalFacts, StoreError>> {
        if environments.is_empty() {
            return Vec::new();
        }
        let (repository, all) = (self.repository(codebase), environments.to_vec());
        let seen = Box::pin(self.scan(codebase, &repository, all, Occasion::Pass, view, depth_of(pass)));
        match pass.stop {
            Some(stop) => stop.run_until_cancelled(seen).await.unwrap_or_default(),
            None => seen.await,
        }
    }

    /// Nothing can be known of these, nor are they touched.
    async fn unreadable(&self, codebase: &Codebase) -> Result<Vec<ReportLine>, StepError> {
        let unreadable = self.store().unreadable_environments(codebase.id).await?.into_iter();
        let line = |(environment, why): (EnvironmentId, StoreError)| {
            // Its branch is in the row.
            let (branch, result) = (environment.to_string(), ReportResult::Failed(why.to_string()));
            ReportLine::of(&codebase.name, Some(environment), branch, result)
        };
        Ok(unreadable.map(line).collect())
    }

    /// What the very command that asks removed before a crash kept it from saying so.
    pub(super) async fn removed_before(&self, delivery: &Delivery) -> Result<Vec<Receipt>, StepError> {
        if delivery.attempts <= 1 {
            return Ok(Vec::new());
        }
        let mut removed = self.store().receipts_for(delivery.id).await?;
        // A run of the same message may have had a worktree taken away, too.
        removed.retain(|receipt| receipt.trigger != Trigger::MadeWay);
        Ok(removed)
    }

    /// The same for a command about all environments of a codebase: what a start after the crash removed in its stead
    /// counts, too.
    async fn passed_before(&self, pass: &Pass<'_>) -> Result<Vec<Receipt>, StepError> {
        let delivery = pass.asked.map(|asked| asked.delivery).filter(|delivery| delivery.attempts > 1);
        let Some(delivery) = delivery else { return Ok(Vec::new()) };
        let mut removed = self.store().receipts_for(delivery.id).await?;
        for receipt in self.store().scheduled_since(delivery.received_at).await? {
            let environment = self.store().load_environment(receipt.environment).await?;
            if environment.is_some_and(|environment| Some(environment.codebase) == pass.codebase) {
                removed.push(receipt);
            }
        }
        Ok(removed)
    }

    /// What became of one, or would, and how many bytes that freed. `None`: the class that is looked for does not
    /// concern it.
    pub(super) async fn pass_one(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        mut facts: RemovalFacts,
        pass: &Pass<'_>,
        view: &View,
    ) -> Result<Option<(ReportResult, Option<u64>)>, StepError> {
        let id = facts.environment.id;
        if !pass.dry_run && codebase.mode == CodebaseMode::On {
            facts = self.mended_facts(codebase, repository, facts, view).await?;
        }
        if pass.only.is_some_and(|only| !concerns(&facts, only)) {
            return Ok(None);
        }
        let environment = facts.environment.clone();
        let Pass { trigger, actor, asked, only, .. } = *pass;
        let (occasion, asked_in) = (Occasion::Pass, asked.map(|asked| asked.delivery.id));
        let cause = Cause { occasion, trigger, actor, tell: None, asked_in, answered: None, only };
        let swept = match (pass.dry_run, verdict(&facts)) {
            (true, _) => self.foreseen(repository, &facts, &cause).await,
            (false, Verdict::Keep(reasons)) => {
                let _lease = self.inner.leases.take(id).await;
                self.keep(facts.environment, reasons, Vec::new()).await?
            }
            (false, Verdict::Remove(_) | Verdict::Ghost) => self.remove_fetched(codebase, id, &cause, view).await?,
        };
        Ok(Some(match swept {
            Swept::Removed(details) => (ReportResult::Removed(details.proof), details.bytes_freed),
            // Somebody else may have been faster; the receipt knows why.
            Swept::Gone => match self.store().receipt_of(id).await? {
                Some(Receipt { details, .. }) => (ReportResult::Removed(details.proof), details.bytes_freed),
                None => (ReportResult::Removed(cleanup::ghost()), None),
            },
            Swept::Kept(reasons) => {
                self.note_in_pass(&environment, pass, view, &reasons);
                (ReportResult::Kept(reasons.iter().map(cleanup::sentence).collect()), None)
            }
        }))
    }

    /// The facts of a worktree after it was mended, where it is broken, or could not be looked at: its index may be
    /// spoilt.
    async fn mended_facts(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        facts: RemovalFacts,
        view: &View,
    ) -> Result<RemovalFacts, StoreError> {
        let is_well = matches!((&facts.validity, &facts.work), (Probe::Known(Validity::Valid), Probe::Known(_)));
        match !is_well && self.mended(repository, &facts.environment, &facts.validity).await {
            true => self.removal_facts(codebase, repository, &facts.environment, facts.occasion, view).await,
            false => Ok(facts),
        }
    }

    /// At the limit: whatever makes room goes, and what stays is counted. One that fails is one that stays.
    pub(super) async fn make_room(&self, codebase: &Codebase) -> Result<Room, StepError> {
        let (repository, view) = (self.repository(codebase), self.fetched(codebase).await);
        let (occasion, trigger) = (Occasion::Pass, Trigger::Limit);
        let cause = Cause { occasion, trigger, actor: "limit", tell: None, asked_in: None, answered: None, only: None };
        let mut room = Room::default();
        let live = self.store().live_environments(Some(codebase.id)).await?;
        let known = std::future::ready(view.clone());
        for facts in self.scan(codebase, &repository, live, occasion, known, Depth::Candidates).await {
            let facts = match facts {
                Ok(facts) => self.mended_facts(codebase, &repository, facts, &view).await,
                Err(error) => Err(error),
            };
            let facts = match facts {
                Ok(facts) => facts,
                Err(error) => {
                    tracing::warn!(codebase.name = %codebase.name, %error, "not known, and not removed to make room");
                    Class::Active.count_in(&mut room.left);
                    continue;
                }
            };
            let environment = &facts.environment;
            let class = classify(&facts);
            // As what it makes room, and as nothing that it has become meanwhile.
            let cause = Cause { only: Some(class), ..cause };
            let gone = class.makes_room()
                && match self.remove_fetched(codebase, environment.id, &cause, &view).await {
                    Ok(Swept::Removed(_) | Swept::Gone) => true,
                    Ok(Swept::Kept(_)) => false,
                    Err(error) => {
                        tracing::warn!(environment.id = %environment.id, %error, "not removed to make room");
                        false
                    }
                };
            match (class, gone) {
                (Class::Merged, true) => room.merged += 1,
                (Class::Stale | Class::Ghost | Class::Active, true) => room.ghosts += 1,
                (class, false) => class.count_in(&mut room.left),
            }
        }
        Ok(room)
    }

    /// What there is of each class in a codebase, as the last fetch left it and at most half a minute old.
    pub async fn census(&self, codebase: &Codebase) -> Result<Census, StoreError> {
        let now = self.now();
        let environments = self.store().live_environments(Some(codebase.id)).await?;
        if let Some(census) = self.inner.censuses.fresh(codebase.id, environments.len(), now) {
            return Ok(census);
        }
        let repository = self.repository(codebase);
        let (occasion, view) = (Occasion::Pass, std::future::ready(View::AsItIs));
        let mut census = Census::default();
        for facts in self.scan(codebase, &repository, environments, occasion, view, Depth::Candidates).await {
            // What cannot be known stays.
            facts.map_or(Class::Active, |facts| classify(&facts)).count_in(&mut census);
        }
        self.inner.censuses.remember(codebase.id, census, now);
        Ok(census)
    }

    /// A closed thread lets go of its environment: removed when nobody else uses it and nothing would be lost. Answers
    /// with what was done, for the inbox.
    pub(super) async fn close_conversation(&self, id: ConversationId) -> Result<String, StepError> {
        let Some(conversation) = self.store().load_conversation(id).await? else { return Ok("unknown thread".into()) };
        if conversation.state == ThreadState::Open {
            return Ok("the thread was opened again".into());
        }
        let own_work = gather::work_of(&conversation);
        let pointed_to = match conversation.environment {
            Some(environment) => self.store().load_environment(environment).await?,
            None => None,
        };
        // A thread that was given another worktree leaves the one of its own work behind.
        let own = self.store().find_live_environment(conversation.codebase, &own_work).await?;
        let own = own.filter(|own| Some(own.id) != conversation.environment);
        let active = pointed_to.into_iter().chain(own).filter(|found| found.state == EnvironmentState::Active);
        let mut done = Vec::new();
        for environment in active {
            done.push(self.let_go(&conversation, &environment).await?);
        }
        Ok(if done.is_empty() { "no worktree belongs to this thread".to_owned() } else { done.join("; ") })
    }

    async fn let_go(&self, conversation: &Conversation, environment: &Environment) -> Result<String, StepError> {
        let id = conversation.id;
        let users = self.store().conversations_of(environment.id).await?;
        if users.iter().any(|user| user.id != id && user.state == ThreadState::Open) {
            self.leave_worktree(id).await?;
            return Ok("the worktree is still used by another open thread".into());
        }
        let Some(codebase) = self.store().load_codebase(conversation.codebase).await? else {
            return Ok("unknown repository".into());
        };
        let key = told_under(environment.id, id);
        let (occasion, trigger) = (Occasion::Closed, Trigger::ThreadClosed);
        let actor = match conversation.platform {
            PlatformKind::Local => LOCAL_PERSON,
            PlatformKind::Github | PlatformKind::Slack | PlatformKind::Discord | PlatformKind::Telegram => "webhook",
        };
        let cause = Cause { occasion, trigger, actor, tell: Some(id), asked_in: None, answered: None, only: None };
        let view = self.fetched(&codebase).await;
        match self.remove_fetched(&codebase, environment.id, &cause, &view).await? {
            Swept::Removed(details) => Ok(format!("worktree removed: {}", details.proof)),
            Swept::Kept(reasons) if reasons.contains(&Keep::Busy) => Ok("waits for the run that is live".into()),
            Swept::Kept(_) if codebase.mode == CodebaseMode::Off => Ok("the repository is switched off".into()),
            Swept::Kept(reasons) => {
                let Environment { work, branch, .. } = environment;
                let body = cleanup::kept(work, branch, &reasons, self.settings().trash_for, &key);
                self.comment(key, &codebase, conversation, body).await?;
                Ok("worktree kept, with the reasons in the thread".into())
            }
            Swept::Gone => Ok("the worktree was gone already".into()),
        }
    }

    /// As it is now where there is somebody to ask; else the branch stays.
    async fn view_of(&self, codebase: &Codebase) -> View {
        match can_be_asked(codebase) {
            true => self.fetched(codebase).await,
            false => View::AsItIs,
        }
    }

    /// A fresh view of the remote; a failure is a doubt that keeps everything.
    async fn fetched(&self, codebase: &Codebase) -> View {
        let fetch = retry::patiently(|| async {
            let source = self.source(codebase).await?;
            self.fetch(codebase, &self.repository(codebase), &source, None).await
        });
        View::Fetched(fetch.await.into())
    }

    /// A row that was written meanwhile, as by a run that ends, is decided about anew; from its journal on it is gone
    /// on with.
    async fn remove_fetched(
        &self,
        codebase: &Codebase,
        id: EnvironmentId,
        cause: &Cause<'_>,
        view: &View,
    ) -> Result<Swept, StepError> {
        for _ in 1..DECISIONS {
            match Box::pin(self.remove_as_it_is(codebase, id, cause, view)).await {
                Err(error) if retry::is_conflict(&error) && self.is_active(id).await? => {}
                swept => return swept,
            }
        }
        Box::pin(self.remove_as_it_is(codebase, id, cause, view)).await
    }

    async fn is_active(&self, id: EnvironmentId) -> Result<bool, StepError> {
        let environment = self.store().load_environment(id).await?;
        Ok(environment.is_some_and(|environment| environment.state == EnvironmentState::Active))
    }

    async fn remove_as_it_is(
        &self,
        codebase: &Codebase,
        id: EnvironmentId,
        cause: &Cause<'_>,
        view: &View,
    ) -> Result<Swept, StepError> {
        // From here until the row is journalled no run can bind itself to the environment.
        let _lease = self.inner.leases.take(id).await;
        let Some(environment) = self.store().load_environment(id).await? else { return Ok(Swept::Gone) };
        if environment.state == EnvironmentState::Destroyed {
            return Ok(Swept::Gone);
        }
        // As it is by now: a pass takes long.
        let mode = self.mode_of(codebase).await?;
        let codebase = &Codebase { mode, ..codebase.clone() };
        let repository = self.repository(codebase);
        // One that is only broken is judged whole.
        self.validity(&repository, &environment).await;
        let facts = self.removal_facts(codebase, &repository, &environment, cause.occasion, view).await?;
        match verdict(&facts) {
            Verdict::Keep(reasons) => self.keep(environment, reasons, passed_over(&facts)).await,
            Verdict::Ghost => {
                self.close_without_worktree(&repository, &environment).await?;
                Ok(Swept::Gone)
            }
            // What could not be known a moment ago is known now, and nobody asked for this.
            Verdict::Remove(_) if cause.only.is_some_and(|only| classify(&facts) != only) => {
                Ok(Swept::Kept(vec![Keep::CannotVerify(cleanup::changed_meanwhile())]))
            }
            Verdict::Remove(removal) => {
                // What cannot be kept keeps everything, before the first step.
                let ready = match Box::pin(self.make_ready(&repository, &environment, &removal)).await? {
                    Ok(ready) => ready,
                    Err(reason) => return self.keep(environment, vec![reason], passed_over(&facts)).await,
                };
                let tell = match facts.fetched {
                    true => self.to_be_told(&environment, cause).await?,
                    false => None,
                };
                let environment = self.journal(environment, &removal, ready, cause, tell).await?;
                Box::pin(self.finish_removal(codebase, &repository, environment, cause.actor)).await
            }
        }
    }

    /// Closes the row of a worktree that is not there. Its registration goes first, which keeps what only that held;
    /// what cannot be taken out keeps the row.
    pub(super) async fn close_without_worktree(
        &self,
        repository: &Repository,
        environment: &Environment,
    ) -> Result<(), StepError> {
        if self.is_outside(environment) {
            repository.release_worktree(&environment.path).await?;
        } else if std::fs::symlink_metadata(&environment.path).is_err() {
            repository.unregister(&environment.path).await?;
        }
        let users = self.store().conversations_of(environment.id).await?;
        self.store().destroy_environment(environment, None, self.now()).await?;
        let why = "the worktree was gone";
        self.audit_within(environment.codebase, &environment.work, "treewarden", "environment.stale", why).await;
        self.forget_all(users).await
    }

    /// The thread that hears of a removal: the one that was closed, else the one the work belongs to; not the one in
    /// which a command named it, which is answered.
    async fn to_be_told(
        &self,
        environment: &Environment,
        cause: &Cause<'_>,
    ) -> Result<Option<ConversationId>, StepError> {
        if cause.tell.is_some() {
            return Ok(cause.tell);
        }
        let own = self.own_thread(environment).await?;
        Ok(own.filter(|own| Some(*own) != cause.answered))
    }

    /// The thread an environment's work belongs to, else the one that has used it for the longest.
    async fn own_thread(&self, environment: &Environment) -> Result<Option<ConversationId>, StepError> {
        let users = self.store().conversations_of(environment.id).await?;
        let own = users.iter().find(|user| gather::work_of(user) == environment.work).or(users.first());
        if let Some(conversation) = own {
            return Ok(Some(conversation.id));
        }
        Ok(self.thread_of_work(environment.codebase, &environment.work).await?.map(|thread| thread.id))
    }

    /// The reasons are remembered, so that the panel shows them, together with those that are not said `beside` them. A
    /// row in transition belongs to whoever creates or removes it: writing here would make their next write stale.
    async fn keep(
        &self,
        mut environment: Environment,
        reasons: Vec<Keep>,
        beside: Vec<Keep>,
    ) -> Result<Swept, StepError> {
        let words = beside.iter().chain(&reasons).map(cleanup::sentence).collect();
        let explained = EnvironmentMetadata {
            kept_because: words,
            next_steps: cleanup::next_steps(&reasons),
            beyond_force: reasons.iter().any(Keep::is_beyond_force),
            dated_ahead: self.dated_ahead(&environment).await?,
            ..environment.metadata.clone()
        };
        if environment.state == EnvironmentState::Active && environment.metadata != explained {
            environment.metadata = explained;
            match self.store().update_environment(&environment).await {
                // It only explains: whoever wrote meanwhile knows more.
                Err(error) if error.is_conflict() => {}
                written => drop(written?),
            }
        }
        Ok(Swept::Kept(reasons))
    }

    async fn dated_ahead(&self, environment: &Environment) -> Result<Option<DatedAhead>, StoreError> {
        let (now, activity) = (self.now(), environment.last_activity_at);
        if activity <= now {
            return Ok(None);
        }
        let runs = self.store().list_runs(RunFilter::Environment(environment.id), RUNS, 0).await?;
        let ends = runs.into_iter().map(|run| run.ended_at.unwrap_or(run.created_at));
        Ok(dated_ahead(environment.metadata.dated_ahead, activity, ends.filter(|end| *end <= now).max(), now))
    }

    async fn journal(
        &self,
        mut environment: Environment,
        removal: &Removal,
        ready: Ready,
        cause: &Cause<'_>,
        tell: Option<ConversationId>,
    ) -> Result<Environment, StepError> {
        environment.metadata.removal = Some(pending(&environment, removal, ready, cause, tell));
        environment.state = EnvironmentState::Removing;
        Ok(self.store().update_environment(&environment).await?)
    }
}

/// Whoever asks for a pass wants to know all that is in the way now; what comes by itself looks where something
/// happened.
fn depth_of(pass: &Pass<'_>) -> Depth {
    match pass.trigger {
        Trigger::Command | Trigger::Button | Trigger::Panel | Trigger::Cli => Depth::All,
        Trigger::Schedule
        | Trigger::Startup
        | Trigger::ThreadClosed
        | Trigger::Limit
        | Trigger::Disk
        | Trigger::MadeWay => Depth::News,
    }
}

/// What is written down of a removal before its first step.
fn pending(
    environment: &Environment,
    removal: &Removal,
    ready: Ready,
    cause: &Cause<'_>,
    tell: Option<ConversationId>,
) -> PendingRemoval {
    PendingRemoval {
        trigger: cause.trigger,
        tell,
        tip: removal.tip.clone(),
        delete_branch: removal.delete_branch,
        keep_work: removal.keep_work,
        kept: ready.kept,
        rescued: removal.rescued,
        bytes: ready.bytes,
        proof: cleanup::proof(removal, &environment.branch),
        asked_in: cause.asked_in,
        actor: Some(cause.actor.to_owned()),
        successor: None,
        stuck: None,
    }
}

/// Whether there still is somebody to ask for how the remote is. What cannot be looked at may be there.
fn can_be_asked(codebase: &Codebase) -> bool {
    codebase.connected
        && match &codebase.host {
            Host::Github { .. } => true,
            Host::Local { path } => path.try_exists().unwrap_or(true),
        }
}
