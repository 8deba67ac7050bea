//! The disk: what environments and repositories take, measured while nobody waits for it; caches that idle ones give up; and
//! what follows when a codebase takes more than it may.
//!
//! Nothing is measured on the way of a webhook or a page: they read what is remembered. A measurement comes after each run
//! and each pass, one at a time.

use super::sweep::Pass;
use super::{Orchestrator, StepError};
use crate::decide::disk::{Reclaim, ReclaimFacts, Spare, Standing, reclaim, standing};
use crate::git::Repository;
use crate::isolation::{IsolationError, ReclaimRequest, measure};
use crate::model::*;
use crate::reply::disk;
use crate::store::StoreError;
use crate::telemetry::field::EFFECT;
use std::{
    collections::HashSet,
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
    /// Codebases that take too much, and for which a pass was begun because of that.
    over: Mutex<HashSet<CodebaseId>>,
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
            true => known.insert(codebase),
            false => {
                known.remove(&codebase);
                false
            }
        }
    }
}

/// What became of the caches of an environment.
struct Outcome {
    note: String,
    freed: u64,
}

impl Orchestrator {
    /// What takes how much of a codebase, and where it stands against its marks.
    pub async fn disk_of(&self, codebase: CodebaseId) -> Result<(DiskShares, Standing), StoreError> {
        let shares = self.store().disk_shares(codebase).await?;
        let standing = standing(&shares, self.settings().disk_marks);
        Ok((shares, standing))
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
            let usage = measure(&environment.path).await?;
            let used = DiskUse { bytes: usage.bytes, whole: usage.whole, at: self.now() };
            self.store().remember_disk_use(environment.id, used).await?;
        }
        if only.is_none() && !self.is_stopping() {
            let usage = measure(self.repository(&codebase).directory()).await?;
            let used = DiskUse { bytes: usage.bytes, whole: usage.whole, at: self.now() };
            self.store().save_repository_use(codebase.id, used).await?;
        }
        Ok(())
    }

    /// A codebase that has come over its soft mark gets a pass of its own, once until it is below again.
    async fn keep_to_marks(&self, codebase: CodebaseId) -> Result<(), StepError> {
        let (shares, standing) = self.disk_of(codebase).await?;
        if !self.inner.disk.is_new(codebase, standing.is_over()) || self.is_stopping() {
            return Ok(());
        }
        let told = disk::of_repository(&shares, standing).unwrap_or_default();
        let name = self.store().load_codebase(codebase).await?.map(|codebase| codebase.name.to_string());
        tracing::warn!(codebase.name = %name.unwrap_or_default(), reason = %told, "a repository takes much of the disk; a pass over it begins");
        let pass = Pass { codebase: Some(codebase), ..Pass::everywhere(Trigger::Disk, false, ACTOR) };
        self.pass(&pass).await.map(drop)
    }

    /// The part of a pass over one codebase that is about the disk. What it tells stands beside what became of the worktrees.
    pub(super) async fn look_after_disk(&self, codebase: &Codebase, pass: &Pass<'_>, lines: &mut [ReportLine]) {
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
        lines: &mut [ReportLine],
    ) -> Result<(), StepError> {
        let (mut shares, _) = self.disk_of(codebase.id).await?;
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
                Ok(Some(outcome)) => {
                    line.notes.push(outcome.note);
                    let mine = shares.worktrees.iter_mut().find(|(id, ..)| *id == environment.id);
                    if let Some((.., Some(used))) = mine {
                        used.bytes = used.bytes.saturating_sub(outcome.freed);
                    }
                }
                Ok(None) => {}
                Err(error) => line.notes.push(disk::spared(&Spare::CannotVerify(error.to_string()))),
            }
        }
        if let Some(note) = disk::noted(&shares, standing(&shares, marks)) {
            let largest = shares.largest().map(|(id, ..)| id);
            let at = lines.iter().rposition(|line| line.environment.is_some() && line.environment == largest);
            if let Some(line) = at.and_then(|at| lines.get_mut(at)) {
                line.notes.push(note);
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
    ) -> Result<Option<Outcome>, StepError> {
        let repository = self.repository(codebase);
        if !pass.dry_run && environment.metadata.reclaiming.is_some() {
            self.finish_reclaim(codebase, &repository, environment.id).await?;
        }
        match self.may_reclaim(&repository, environment, over_soft).await? {
            Reclaim::No => return Ok(None),
            Reclaim::Yes => {}
            Reclaim::Spare(why) => return Ok(self.spared(&repository, environment, why).await),
        }
        let provider = &self.parts().provider;
        let caches = match provider.reclaimable(&repository, &environment.path).await {
            Ok(caches) => caches,
            Err(error) => return Ok(self.spared(&repository, environment, as_spare(error)).await),
        };
        if caches.is_empty() {
            return Ok(None);
        }
        if pass.dry_run {
            let freed = caches.iter().map(|cache| cache.frees).sum();
            return Ok(Some(Outcome { note: disk::reclaimed(&caches, true), freed }));
        }
        // From here on no run can bind itself to it; what was measured holds while nobody came in between.
        let _lease = self.inner.leases.take(environment.id).await;
        let Some(mut now) = self.store().load_environment(environment.id).await? else { return Ok(None) };
        let is_idle = now.last_activity_at == environment.last_activity_at;
        if !is_idle || self.may_reclaim(&repository, &now, over_soft).await? != Reclaim::Yes {
            return Ok(None);
        }
        now.metadata.reclaiming = Some(PendingReclaim { directories: caches, actor: pass.actor.to_owned() });
        let now = self.store().update_environment(&now).await?;
        tracing::debug!(target: EFFECT, { environment.id = %now.id }, "reclaim journalled");
        let gone = match self.take_caches(codebase, &repository, now, false).await {
            Ok(gone) => gone,
            Err(StepError::Isolation(error)) => {
                return Ok(self.spared(&repository, environment, as_spare(error)).await);
            }
            Err(error) => return Err(error),
        };
        let freed = gone.iter().map(|cache| cache.frees).sum();
        Ok((!gone.is_empty()).then(|| Outcome { note: disk::reclaimed(&gone, false), freed }))
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
    async fn spared(&self, repository: &Repository, environment: &Environment, why: Spare) -> Option<Outcome> {
        let caches = repository.worktree(&environment.path).reclaimable_caches().await;
        let has_none = caches.is_ok_and(|caches| caches.is_empty());
        (!has_none).then(|| Outcome { note: disk::spared(&why), freed: 0 })
    }

    /// Brings to its end what a kill or a failure left of a reclaim: what was moved goes, all else stays.
    pub(super) async fn finish_reclaim(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        id: EnvironmentId,
    ) -> Result<(), StepError> {
        let _lease = self.inner.leases.take(id).await;
        let Some(environment) = self.store().load_environment(id).await? else { return Ok(()) };
        match environment.state {
            EnvironmentState::Active => self.take_caches(codebase, repository, environment, true).await.map(drop),
            EnvironmentState::Creating | EnvironmentState::Removing | EnvironmentState::Destroyed => Ok(()),
        }
    }

    /// Under the environment's lease. Answers with what is gone.
    async fn take_caches(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        mut environment: Environment,
        begun_only: bool,
    ) -> Result<Vec<CacheDirectory>, StepError> {
        let Some(pending) = environment.metadata.reclaiming.take() else { return Ok(Vec::new()) };
        let PendingReclaim { directories, actor } = pending;
        let request =
            ReclaimRequest { environment: environment.id, path: environment.path.clone(), directories, begun_only };
        let gone = self.parts().provider.reclaim(repository, &request).await?;
        if !gone.is_empty() {
            let subject = format!("{}#{}", codebase.name, environment.work);
            self.audit(&actor, "environment.reclaimed", &subject, &disk::reclaimed(&gone, false)).await;
            tracing::debug!(target: EFFECT, { environment.id = %environment.id }, "reclaim written down");
        }
        let freed: u64 = gone.iter().map(|cache| cache.frees).sum();
        if let Some(used) = &mut environment.metadata.disk {
            used.bytes = used.bytes.saturating_sub(freed);
        }
        self.store().update_environment(&environment).await?;
        Ok(gone)
    }

    /// Refuses a new worktree while the codebase takes more than its hard mark, and what is merged does not make room. Answers
    /// with how many went for it.
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

fn as_spare(error: IsolationError) -> Spare {
    match error {
        IsolationError::InUse(process) => Spare::InUse(process),
        IsolationError::Locked(reason) => Spare::Locked(reason),
        error => Spare::CannotVerify(error.to_string()),
    }
}
