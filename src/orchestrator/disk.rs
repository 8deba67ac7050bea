//! The disk: what environments and repositories take, measured while nobody waits for it; caches that idle ones give
//! up; and what follows when a codebase takes more than it may.
//!
//! Nothing is measured on the way of a webhook or a page: they read what is remembered. A measurement comes after each
//! run and each pass, one at a time.

use super::sweep::Pass;
use super::workers::unwinding;
use super::{Orchestrator, StepError};
use crate::decide::disk::{Reclaim, ReclaimFacts, Spare, Standing, reclaim, standing};
use crate::git::Repository;
use crate::isolation::{IsolationError, ReclaimRequest, Reclaimed, Usage, measure};
use crate::model::*;
use crate::reply::disk;
use crate::store::StoreError;
use crate::telemetry::field::EFFECT;
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// As the audit log calls what happens because of the disk.
const ACTOR: &str = "disk";

/// What is to be measured: a codebase with all that is in it, or one environment.
type Wanted = (CodebaseId, Option<EnvironmentId>);

#[derive(Default)]
pub(super) struct DiskWatch {
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<HashSet<Wanted>>,
    /// Codebases that take too much, and for which a pass was begun because of that; when it ended.
    over: Mutex<HashMap<CodebaseId, Option<Timestamp>>>,
    /// Caches in the trash that nothing goes on with, and that the log has told of.
    told: Mutex<HashSet<PathBuf>>,
}

impl DiskWatch {
    /// False when it is waited for already.
    fn begin(&self, wanted: Wanted) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted)
    }

    /// What is asked for from now on is measured once more.
    fn is_begun(&self, wanted: Wanted) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&wanted);
    }

    /// Whether it takes too much since just now.
    fn is_new(&self, codebase: CodebaseId, over: bool) -> bool {
        let mut known = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        match over {
            true if known.contains_key(&codebase) => false,
            true => known.insert(codebase, None).is_none(),
            false => {
                known.remove(&codebase);
                false
            }
        }
    }

    /// The pass that was begun because of that has run.
    fn has_passed(&self, codebase: CodebaseId, at: Timestamp) {
        let mut known = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(passed) = known.get_mut(&codebase) {
            *passed = Some(at);
        }
    }

    /// When it ended, if it has.
    fn passed(&self, codebase: CodebaseId) -> Option<Timestamp> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).get(&codebase).copied().flatten()
    }
}

/// What became of the caches of an environment.
#[derive(Default)]
struct Outcome {
    notes: Vec<String>,
    freed: u64,
}

impl Outcome {
    fn of(reclaimed: &Reclaimed, dry_run: bool) -> Self {
        let Reclaimed { gone, stay } = reclaimed;
        let mut notes = Vec::new();
        if !gone.is_empty() {
            notes.push(disk::reclaimed(gone, dry_run));
        }
        let stay: Vec<_> = stay.iter().map(|(path, why)| (path.clone(), why.to_string())).collect();
        notes.extend(disk::stay(&stay));
        Self { notes, freed: gone.iter().map(|cache| cache.frees).sum() }
    }
}

impl Orchestrator {
    /// What takes how much of a codebase, and where it stands against its marks.
    pub async fn disk_of(&self, codebase: CodebaseId) -> Result<(DiskShares, Standing), StoreError> {
        let shares = self.store().disk_shares(codebase).await?;
        let standing = standing(&shares, self.settings().disk_marks);
        Ok((shares, standing))
    }

    /// The same in a line, and whether that is more than it should be; `None` while nothing is known.
    pub async fn told_of_disk(&self, codebase: CodebaseId) -> Result<Option<(String, bool)>, StoreError> {
        let (shares, standing) = self.disk_of(codebase).await?;
        let line = disk::of_repository(&shares, standing, self.inner.disk.passed(codebase));
        Ok(line.map(|line| (line, standing.is_over())))
    }

    /// Has one environment, or a whole codebase, measured in the background.
    pub(super) fn measure_soon(&self, codebase: CodebaseId, only: Option<EnvironmentId>) {
        if !self.inner.disk.begin((codebase, only)) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let measured = async {
                let _one_at_a_time = this.inner.disk.turn.lock().await;
                this.inner.disk.is_begun((codebase, only));
                this.measure(codebase, only).await
            };
            let measured = match measured.await {
                Ok(()) => this.keep_to_marks(codebase).await,
                failed => failed,
            };
            if let Err(error) = measured
                && !this.is_stopping()
            {
                tracing::warn!(%error, "what is on the disk was not measured; the next pass has it measured");
            }
        });
    }

    fn is_stopping(&self) -> bool {
        self.inner.work.is_closed()
    }

    async fn measure(&self, codebase: CodebaseId, only: Option<EnvironmentId>) -> Result<(), StepError> {
        let Some(codebase) = self.store().load_codebase(codebase).await? else { return Ok(()) };
        for environment in self.store().live_environments(Some(codebase.id)).await? {
            if self.is_stopping() {
                return Ok(());
            }
            let is_wanted = only.is_none_or(|only| only == environment.id);
            // What is being made or removed is another size in a moment, and what lies elsewhere is somebody else's.
            if !is_wanted || environment.state != EnvironmentState::Active || self.is_outside(&environment) {
                continue;
            }
            if let Some(used) = self.measured(&environment.path).await? {
                self.store().remember_disk_use(environment.id, used).await?;
            }
        }
        if only.is_none()
            && !self.is_stopping()
            && let Some(used) = self.measured(self.repository(&codebase).directory()).await?
        {
            self.store().save_repository_use(codebase.id, used).await?;
        }
        Ok(())
    }

    /// `None`: nothing came of it, and what is known stays.
    async fn measured(&self, directory: &Path) -> Result<Option<DiskUse>, StepError> {
        let usage = measure(directory).await?;
        Ok(usage.map(|Usage { bytes, whole, .. }| DiskUse { bytes, whole, at: self.now() }))
    }

    /// A codebase that has come over its soft mark gets a pass of its own, once until it is below again.
    async fn keep_to_marks(&self, codebase: CodebaseId) -> Result<(), StepError> {
        let (shares, standing) = self.disk_of(codebase).await?;
        if !self.inner.disk.is_new(codebase, standing.is_over()) || self.is_stopping() {
            return Ok(());
        }
        let told = disk::of_repository(&shares, standing, None).unwrap_or_default();
        let name = self.store().load_codebase(codebase).await?.map(|codebase| codebase.name.to_string());
        tracing::warn!(codebase.name = %name.unwrap_or_default(), reason = %told, "a repository takes much of the disk; a pass over it begins");
        let this = self.clone();
        self.inner.work.spawn(async move {
            match unwinding(this.pass_over_mark(codebase)).await {
                Ok(true) => return this.inner.disk.has_passed(codebase, this.now()),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "the pass over a repository that takes much failed; it is begun again")
                }
            }
            // With the next measurement.
            this.inner.disk.is_new(codebase, false);
        });
        Ok(())
    }

    /// Whether it was begun.
    async fn pass_over_mark(&self, codebase: CodebaseId) -> Result<bool, StepError> {
        let stop = &self.inner.stopping;
        // Else another service has the database, or may soon.
        if stop.is_cancelled() || !self.may_claim(self.settings().lease).await {
            return Ok(false);
        }
        let pass = Pass { codebase: Some(codebase), stop: Some(stop), ..Pass::everywhere(Trigger::Disk, false, ACTOR) };
        self.pass(&pass).await.map(|_| true)
    }

    /// The part of a pass over one codebase that is about the disk. What it tells stands beside what became of the
    /// worktrees.
    pub(super) async fn look_after_disk(&self, codebase: &Codebase, pass: &Pass<'_>, lines: &mut Vec<ReportLine>) {
        if pass.only.is_some() {
            return;
        }
        if let Err(error) = self.reclaim_and_note(codebase, pass, lines).await {
            tracing::warn!(codebase.name = %codebase.name, %error, "a pass could not look after the disk; the next one does");
        }
        if !pass.dry_run {
            self.measure_soon(codebase.id, None);
        }
    }

    async fn reclaim_and_note(
        &self,
        codebase: &Codebase,
        pass: &Pass<'_>,
        lines: &mut Vec<ReportLine>,
    ) -> Result<(), StepError> {
        let (mut shares, _) = self.disk_of(codebase.id).await?;
        // In a dry run they are still there.
        let goes = |line: &ReportLine| matches!(line.result, ReportResult::Removed(_)).then_some(line.environment);
        let going: HashSet<_> = lines.iter().filter_map(goes).flatten().collect();
        shares.worktrees.retain(|(id, ..)| !going.contains(id));
        let marks = self.settings().disk_marks;
        let mut live = self.store().live_environments(Some(codebase.id)).await?;
        // Who was idle for the longest is the first.
        live.sort_by_key(|environment| environment.last_activity_at);
        for environment in live {
            if pass.stop.is_some_and(|stop| stop.is_cancelled()) {
                return Ok(());
            }
            let over = standing(&shares, marks).is_over();
            let Some(line) = lines.iter_mut().rfind(|line| line.environment == Some(environment.id)) else { continue };
            if !matches!(line.result, ReportResult::Kept(_)) || self.is_put_off(environment.id) {
                continue;
            }
            match self.reclaim_one(codebase, &environment, over, pass).await {
                Ok(outcome) => {
                    line.notes.extend(outcome.notes);
                    line.bytes_reclaimed += outcome.freed;
                    let mine = shares.worktrees.iter_mut().find(|(id, ..)| *id == environment.id);
                    if let Some((.., Some(used))) = mine {
                        used.bytes = used.bytes.saturating_sub(outcome.freed);
                    }
                }
                Err(error) => line.notes.push(disk::spared(&Spare::CannotVerify(error.to_string()))),
            }
        }
        self.note_left_in_trash(codebase, lines).await?;
        let Some(note) = disk::noted(&shares, standing(&shares, marks)) else { return Ok(()) };
        let largest = shares.largest().map(|(id, ..)| id);
        match lines.iter_mut().rfind(|line| line.environment.is_some() && line.environment == largest) {
            Some(line) => line.notes.push(note),
            None => lines.push(about_all_of(codebase, note)),
        }
        Ok(())
    }

    /// Caches in the trash that nothing goes on with, as when an older database was restored.
    async fn note_left_in_trash(&self, codebase: &Codebase, lines: &mut Vec<ReportLine>) -> Result<(), StepError> {
        for (id, place) in self.parts().provider.caches_in_trash()? {
            let environment = self.store().load_environment(id).await?;
            let goes_on =
                |one: &Environment| one.state != EnvironmentState::Destroyed && one.metadata.reclaiming.is_some();
            // One that was just being reclaimed is not there any more.
            if environment.as_ref().is_some_and(goes_on) || place.symlink_metadata().is_err() {
                continue;
            }
            let note = disk::left_in_trash(&place);
            if self.inner.disk.told.lock().unwrap_or_else(PoisonError::into_inner).insert(place.clone()) {
                tracing::warn!(path = %place.display(), "a cache stays in the trash; nothing goes on with it");
            }
            if environment.is_some_and(|environment| environment.codebase == codebase.id) {
                match lines.iter_mut().rfind(|line| line.environment == Some(id)) {
                    Some(line) => line.notes.push(note),
                    None => lines.push(about_all_of(codebase, note)),
                }
            }
        }
        Ok(())
    }

    async fn reclaim_one(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        over_soft: bool,
        pass: &Pass<'_>,
    ) -> Result<Outcome, StepError> {
        let repository = self.repository(codebase);
        if !pass.dry_run && environment.metadata.reclaiming.is_some() {
            let finished = self.finish_reclaim(codebase, &repository, environment.id).await?;
            if finished.half_way().is_some() {
                return Ok(Outcome::of(&finished, false));
            }
        }
        if !pass.dry_run && codebase.mode != CodebaseMode::On {
            return Ok(Outcome::default());
        }
        match self.may_reclaim(&repository, environment, over_soft).await? {
            Reclaim::No => return Ok(Outcome::default()),
            Reclaim::Yes => {}
            Reclaim::Spare(why) => return Ok(self.spared(&repository, environment, why).await),
        }
        let provider = &self.parts().provider;
        let Reclaimed { gone: caches, stay } = match provider.reclaimable(&repository, &environment.path).await {
            Ok(reclaimable) if pass.dry_run || reclaimable.gone.is_empty() => {
                return Ok(Outcome::of(&reclaimable, pass.dry_run));
            }
            Ok(reclaimable) => reclaimable,
            Err(error) => return Ok(self.spared(&repository, environment, as_spare(error)).await),
        };
        // From here on no run can bind itself to it; what was measured holds while nobody came in between.
        let _lease = self.inner.leases.take(environment.id).await;
        let Some(mut now) = self.store().load_environment(environment.id).await? else { return Ok(Outcome::default()) };
        let is_idle = now.last_activity_at == environment.last_activity_at && now.metadata.reclaiming.is_none();
        if !is_idle || self.may_reclaim(&repository, &now, over_soft).await? != Reclaim::Yes {
            return Ok(Outcome::default());
        }
        now.metadata.reclaiming = Some(PendingReclaim { directories: caches, actor: pass.actor.to_owned() });
        let now = self.store().update_environment(&now).await?;
        tracing::debug!(target: EFFECT, { environment.id = %now.id }, "reclaim journalled");
        match self.take_caches(codebase, &repository, now, false).await {
            Ok((mut reclaimed, _)) => {
                reclaimed.stay.extend(stay);
                Ok(Outcome::of(&reclaimed, false))
            }
            Err(StepError::Isolation(error)) => Ok(self.spared(&repository, environment, as_spare(error)).await),
            Err(error) => Err(error),
        }
    }

    async fn may_reclaim(
        &self,
        repository: &Repository,
        environment: &Environment,
        over_soft: bool,
    ) -> Result<Reclaim, StepError> {
        let reclaim_after = self.settings().reclaim_after;
        if reclaim_after.is_none() {
            return Ok(Reclaim::No);
        }
        Ok(reclaim(&ReclaimFacts {
            now: self.now(),
            environment,
            busy: self.store().environment_is_busy(environment.id, None).await?,
            reclaim_after,
            over_soft,
            validity: self.health(repository, environment).await,
            foreign_lock: repository.worktree(&environment.path).foreign_lock().await,
        }))
    }

    /// What is said of caches that stay; nothing where there are none.
    async fn spared(&self, repository: &Repository, environment: &Environment, why: Spare) -> Outcome {
        let caches = repository.worktree(&environment.path).reclaimable_caches().await;
        let has_none = caches.is_ok_and(|caches| caches.is_empty());
        let notes = if has_none { Vec::new() } else { vec![disk::spared(&why)] };
        Outcome { notes, freed: 0 }
    }

    /// Brings to its end what a kill or a failure left of a reclaim: what was moved goes, all else stays.
    pub(super) async fn finish_reclaim(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        id: EnvironmentId,
    ) -> Result<Reclaimed, StepError> {
        let _lease = self.inner.leases.take(id).await;
        let Some(environment) = self.store().load_environment(id).await? else { return Ok(Reclaimed::default()) };
        match environment.state {
            EnvironmentState::Active => Ok(self.take_caches(codebase, repository, environment, true).await?.0),
            // A removal goes on with it by itself.
            EnvironmentState::Creating | EnvironmentState::Removing | EnvironmentState::Destroyed => {
                Ok(Reclaimed::default())
            }
        }
    }

    /// The same before a removal, under the lease: what is half-way to the trash would be nobody's afterwards. Answers
    /// with the row as it is then, and what is in the way.
    pub(super) async fn finish_reclaim_first(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        environment: Environment,
    ) -> Result<(Environment, Option<IsolationError>), StepError> {
        // Without its files nothing can go back any more.
        if environment.metadata.reclaiming.is_none() || self.parts().provider.removal_begun(environment.id) {
            return Ok((environment, None));
        }
        match self.take_caches(codebase, repository, environment.clone(), true).await {
            Ok((reclaimed, environment)) => Ok((environment, reclaimed.half_way().cloned())),
            Err(StepError::Isolation(error)) => Ok((environment, Some(error))),
            Err(error) => Err(error),
        }
    }

    /// Under the environment's lease. Answers also with the row as it is then. What is half-way stays written down.
    async fn take_caches(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        mut environment: Environment,
        begun_only: bool,
    ) -> Result<(Reclaimed, Environment), StepError> {
        let Some(pending) = environment.metadata.reclaiming.take() else {
            return Ok((Reclaimed::default(), environment));
        };
        let (directories, path) = (pending.directories.clone(), environment.path.clone());
        let request = ReclaimRequest { environment: environment.id, path, directories, begun_only };
        let reclaimed = self.parts().provider.reclaim(repository, &request).await?;
        let gone = &reclaimed.gone;
        if !gone.is_empty() {
            let subject = format!("{}#{}", codebase.name, environment.work);
            self.audit(&pending.actor, "environment.reclaimed", &subject, &disk::reclaimed(gone, false)).await;
            tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "reclaim written down");
        }
        let freed: u64 = gone.iter().map(|cache| cache.frees).sum();
        if let Some(used) = &mut environment.metadata.disk {
            used.bytes = used.bytes.saturating_sub(freed);
        }
        if let Some(error) = reclaimed.half_way() {
            tracing::warn!(environment.id = %environment.id, %error, "a cache is half-way to the trash; the next pass tries again");
            environment.metadata.reclaiming = Some(pending);
        }
        let environment = self.store().update_environment(&environment).await?;
        let this = self.clone();
        tokio::spawn(async move { this.empty_trash().await });
        if !gone.is_empty() {
            // The last measurement may be older than what was built.
            self.measure_soon(codebase.id, Some(environment.id));
        }
        Ok((reclaimed, environment))
    }

    /// Refuses a new worktree while the codebase takes more than its hard mark, and what is merged does not make room.
    /// Answers with how many went for it.
    pub(super) async fn fits_on_disk(&self, codebase: &Codebase) -> Result<usize, StepError> {
        if self.settings().disk_marks.hard.is_none() {
            return Ok(0);
        }
        match self.disk_of(codebase.id).await?.1 {
            Standing::Within | Standing::OverSoft(_) => return Ok(0),
            Standing::OverHard(_) => {}
        }
        let room = self.make_room(codebase).await?;
        match self.disk_of(codebase.id).await? {
            (_, Standing::Within | Standing::OverSoft(_)) => Ok(room.merged),
            (shares, Standing::OverHard(mark)) => {
                // Somebody may have made room by hand.
                self.measure_soon(codebase.id, None);
                Err(StepError::Refused(disk::over_hard_mark(&codebase.name, &shares, mark)))
            }
        }
    }
}

/// A line of a report that is about no worktree in particular.
fn about_all_of(codebase: &Codebase, note: String) -> ReportLine {
    ReportLine::of(&codebase.name, None, codebase.name.to_string(), ReportResult::Kept(vec![note]))
}

fn as_spare(error: IsolationError) -> Spare {
    match error {
        IsolationError::InUse(process) => Spare::InUse(process),
        IsolationError::Locked(reason) => Spare::Locked(reason),
        error => Spare::CannotVerify(error.to_string()),
    }
}
