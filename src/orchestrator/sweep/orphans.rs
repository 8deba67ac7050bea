//! What is on the disk and no live row knows. A worktree that is to go is taken in hand first, with a row of its own, and then
//! removed like any other: whatever happens in between, it is an environment, or was one and has a receipt.

mod by_hand;

pub use by_hand::{ByHand, Orphan};

use super::super::{Orchestrator, StepError, create, create::Creation, prepare::Notes, scan::View, unheard::Unheard};
use super::{Cause, Pass, Swept};
use crate::decide::cleanup::{Class as Removable, Occasion};
use crate::decide::orphans::{self, Class, OrphanFacts, Stays, Verdict, verdict};
use crate::git::Repository;
use crate::model::*;
use crate::reply::{cleanup, not_begun, orphans as words};
use crate::store::{Inserted, NewEnvironment, StoreError};
use crate::telemetry::{field::EFFECT, metric};
use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

/// Something that no live row knows.
#[derive(Clone, Debug)]
pub(in crate::orchestrator) struct Found {
    path: PathBuf,
    class: Class,
    /// Absent when detached.
    branch: Option<BranchName>,
}

impl Found {
    /// Its branch, else the name of its directory.
    fn name(&self) -> String {
        match &self.branch {
            Some(branch) => branch.to_string(),
            None => self.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

/// All of that in a codebase, and the places of every worktree there is.
#[derive(Debug, Default)]
pub(in crate::orchestrator) struct Strays {
    pub found: Vec<Found>,
    places: Vec<PathBuf>,
}

impl Strays {
    /// Whether any of them may have to be compared with the remote.
    pub fn have_work(&self) -> bool {
        self.found.iter().any(|one| one.class == Class::Orphan)
    }
}

fn sentences(stays: &[Stays]) -> Vec<String> {
    stays.iter().map(words::sentence).collect()
}

impl Orchestrator {
    /// Costs no process where there is none.
    pub(in crate::orchestrator) async fn look_for_strays(&self, codebase: &Codebase) -> Result<Strays, StepError> {
        let (repository, folder) = (self.repository(codebase), self.folder_on_disk(codebase));
        // The disk before the rows: a creation writes its row first, and a removal closes it last.
        let mut places = repository.registered_places().await?;
        let there = children(&folder);
        let there = there.map_err(|error| StepError::Refused(words::unreadable(&codebase.name, &error)))?;
        let live = self.store().live_places().await?;
        let known: HashSet<&PathBuf> = live.iter().collect();
        let mut found = Vec::new();
        if places.iter().any(|place| !known.contains(place)) {
            for entry in self.parts().provider.list(&repository).await? {
                if known.contains(&entry.path) || live.iter().any(|path| entry.is_at(path)) {
                    continue;
                }
                let class = if self.parts().provider.is_outside(&entry.path) {
                    self.hide_if_outside(&entry.path);
                    Class::Foreign
                } else if is_nowhere(&entry.path) {
                    Class::Registration
                } else {
                    Class::Orphan
                };
                found.push(Found { path: entry.path, class, branch: entry.branch });
            }
        }
        places.extend(live);
        // A directory with a worktree further down is only a way to that.
        let ways: HashSet<&Path> = places.iter().flat_map(|place| place.ancestors()).collect();
        let unregistered = there.into_iter().filter(|path| !ways.contains(path.as_path()));
        found.extend(unregistered.map(|path| Found { path, class: Class::Unregistered, branch: None }));
        Ok(Strays { found, places })
    }

    /// The newest row that had this very place and branch.
    async fn former(&self, codebase: &Codebase, found: &Found) -> Result<Option<Environment>, StepError> {
        let Some(branch) = &found.branch else { return Ok(None) };
        let rows = self.store().environments_called(codebase.id, branch.as_str()).await?;
        Ok(rows.into_iter().find(|row| row.branch == *branch && row.path == found.path))
    }

    async fn orphan_facts(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        found: &Found,
        places: &[PathBuf],
        (occasion, view): (Occasion, &View),
    ) -> Result<OrphanFacts, StepError> {
        let provider = &self.parts().provider;
        let traces = match found.class {
            Class::Orphan | Class::Registration => repository.worktree(&found.path).traces().await.into(),
            Class::Unregistered | Class::Foreign => Probe::Unknown("it is not looked at".to_owned()),
        };
        let former = self.former(codebase, found).await?;
        let of_row = |row: &Environment| row.destroyed_at.unwrap_or(row.last_activity_at).max(row.last_activity_at);
        let touched = traces
            .clone()
            .map(|traces| former.as_ref().map(of_row).map_or(traces.touched, |at| at.max(traces.touched)));
        let is_other =
            |place: &PathBuf| *place != found.path && (place.starts_with(&found.path) || found.path.starts_with(place));
        let (mut branch_taken, mut strangers, mut removal) = (false, false, None);
        if let (Class::Orphan, Some(branch)) = (found.class, &found.branch) {
            let would_be = self.would_be(codebase, found, branch, former.as_ref(), touched.known().copied()).await?;
            branch_taken = self.store().find_live_environment_on(codebase.id, branch).await?.is_some();
            strangers = create::is_a_forks(repository, branch).await? && would_be.metadata.fork_head.is_none();
            removal = Some(self.removal_facts(codebase, repository, &would_be, occasion, view).await?);
        }
        Ok(OrphanFacts {
            class: found.class,
            occasion,
            mode: codebase.mode,
            now: self.now(),
            clock_jumped: self.inner.steady.jumped(),
            made_at: traces.known().and_then(|traces| traces.made_at),
            made_by_us: traces.map(|traces| traces.made_by_us),
            known_since: codebase.created_at,
            touched,
            entangled: places.iter().any(is_other),
            surrounded: found.path.parent().is_some_and(Path::is_dir),
            used_by: match found.class {
                Class::Orphan => provider.user_of(&found.path).await,
                Class::Registration | Class::Unregistered | Class::Foreign => Probe::Known(None),
            },
            branch: found.branch.clone(),
            branch_taken,
            strangers,
            removal,
        })
    }

    /// The environment that a worktree would be, with the work that no live one has.
    async fn would_be(
        &self,
        codebase: &Codebase,
        found: &Found,
        branch: &BranchName,
        former: Option<&Environment>,
        touched: Option<Timestamp>,
    ) -> Result<Environment, StepError> {
        let settings = self.store().load_repo_settings(codebase.id).await?.unwrap_or_default().in_force;
        let prefix = settings.branch_prefix.as_ref().map(BranchPrefix::as_str).unwrap_or_default();
        let mut work = Work::on_branch(branch);
        for likely in orphans::works(branch, prefix, former.map(|former| &former.work)) {
            if self.store().find_live_environment(codebase.id, &likely).await?.is_none() {
                work = likely;
                break;
            }
        }
        let at = touched.unwrap_or_else(|| self.now());
        let base = former.and_then(|former| former.base.clone()).or(settings.base);
        Ok(Environment {
            id: EnvironmentId(uuid::Uuid::now_v7()),
            codebase: codebase.id,
            work,
            branch: branch.clone(),
            path: found.path.clone(),
            state: EnvironmentState::Active,
            base: base.or_else(|| codebase.default_branch.clone()),
            start: None,
            pinned: false,
            provider: self.parts().provider.name().to_owned(),
            metadata: orphans::metadata(former.map(|former| &former.metadata)),
            version: 0,
            created_at: at,
            last_activity_at: at,
            destroyed_at: None,
        })
    }

    /// Gives a worktree the row that it would have. What is in it stays as it is.
    async fn give_row(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        would_be: &Environment,
        limit: u32,
    ) -> Result<Environment, StepError> {
        let Environment { work, branch, path, base, provider, metadata, .. } = would_be.clone();
        let new = NewEnvironment { codebase: codebase.id, work, branch, path, base, provider, metadata };
        let journalled = match self.store().insert_environment(new, limit, self.now()).await? {
            Inserted::Created(environment) => environment,
            Inserted::Exists(_) | Inserted::BranchTaken(_) => return Err(StepError::Refused(words::taken_meanwhile())),
            Inserted::LimitReached { live } => {
                let (census, stale_after) = (self.census(codebase).await?, self.settings().stale_after);
                return Err(StepError::Refused(not_begun::limit_reached(&codebase.name, live, &census, stale_after)));
            }
        };
        tracing::debug!(target: EFFECT, { environment.id = %journalled.id }, "adoption journalled");
        let _lease = self.inner.leases.take(journalled.id).await;
        let Some(environment) = self.store().load_environment(journalled.id).await? else { return Ok(journalled) };
        if environment.state != EnvironmentState::Creating {
            return Ok(environment);
        }
        let settings = self.store().load_repo_settings(codebase.id).await?.unwrap_or_default().in_force;
        let creation = Creation { codebase, repository, settings: &settings, thread: None, told_later: false };
        self.finish_creation(&creation, environment, &mut Notes::default()).await
    }

    /// Takes out what is left of a worktree in git's registry, for `actor`.
    async fn take_out(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        found: &Found,
        actor: &str,
    ) -> Result<(), StepError> {
        // Only where the directory of the worktrees is in sight, and nothing has appeared at the place.
        self.parts().provider.clear(repository, &found.path).await?;
        tracing::debug!(target: EFFECT, { path = %found.path.display() }, "registration of an orphan taken out");
        let subject = format!("{}#{}", codebase.name, found.name());
        self.audit(actor, "registration.removed", &subject, &found.path.display().to_string()).await;
        Ok(())
    }

    /// The lines of a pass about what no environment has.
    pub(super) async fn pass_over_strays(
        &self,
        codebase: &Codebase,
        strays: Result<Strays, StepError>,
        pass: &Pass<'_>,
        view: &View,
        counts: &mut BTreeMap<Class, usize>,
    ) -> Vec<ReportLine> {
        let line = |environment, branch, result, bytes_freed| ReportLine {
            bytes_freed,
            ..ReportLine::of(&codebase.name, environment, branch, result)
        };
        match pass.only {
            None | Some(Removable::Merged) => {}
            Some(Removable::Stale | Removable::Ghost | Removable::Active) => return Vec::new(),
        }
        let strays = match strays {
            Ok(strays) => strays,
            Err(error) if pass.only.is_none() => {
                return vec![line(None, words::unseen(), ReportResult::Failed(error.to_string()), None)];
            }
            Err(_) => return Vec::new(),
        };
        let mut lines = Vec::new();
        for found in &strays.found {
            if pass.stop.is_some_and(|stop| stop.is_cancelled()) {
                break;
            }
            *counts.entry(found.class).or_default() += 1;
            // Nobody asked about what is somebody else's, and nothing can be done about it.
            if found.class == Class::Foreign {
                continue;
            }
            let (environment, result, bytes_freed) =
                match self.pass_over(codebase, found, &strays.places, pass, view).await {
                    Ok(Some(passed)) => passed,
                    Ok(None) => continue,
                    // One failing never stops the pass.
                    Err(error) => (None, ReportResult::Failed(error.to_string()), None),
                };
            if !pass.dry_run && matches!(result, ReportResult::Removed(_)) {
                *counts.entry(found.class).or_default() -= 1;
            }
            lines.push(line(environment, found.name(), result, bytes_freed));
        }
        lines
    }

    /// `None`: a pass over one class is not about it.
    async fn pass_over(
        &self,
        codebase: &Codebase,
        found: &Found,
        places: &[PathBuf],
        pass: &Pass<'_>,
        view: &View,
    ) -> Result<Option<(Option<EnvironmentId>, ReportResult, Option<u64>)>, StepError> {
        let repository = self.repository(codebase);
        let facts = self.orphan_facts(codebase, &repository, found, places, (Occasion::Pass, view)).await?;
        let decided = verdict(&facts);
        if pass.only.is_some() && !matches!(decided, Verdict::Remove(_)) {
            return Ok(None);
        }
        let kept = |mut reasons: Vec<String>| {
            reasons.insert(0, words::heading(found.class));
            ReportResult::Kept(reasons)
        };
        Ok(Some(match (decided, facts.removal) {
            (Verdict::Stay(stays), _) => (None, kept(sentences(&stays)), None),
            (Verdict::TakeOut, _) => {
                if !pass.dry_run {
                    self.take_out(codebase, &repository, found, pass.actor).await?;
                }
                (None, ReportResult::Removed(words::taken_out()), None)
            }
            (Verdict::Remove(_), Some(facts)) if pass.dry_run => {
                let result = match self.foreseen(&repository, &facts, &cause(pass)).await {
                    Swept::Removed(details) => ReportResult::Removed(words::removed(&details.proof)),
                    Swept::Gone => ReportResult::Removed(cleanup::ghost()),
                    Swept::Kept(reasons) => kept(reasons.iter().map(cleanup::sentence).collect()),
                };
                (None, result, None)
            }
            (Verdict::Remove(_), Some(facts)) => {
                let environment = self.give_row(codebase, &repository, &facts.environment, u32::MAX).await?;
                let cause = cause(pass);
                let (result, freed) = match self.remove_fetched(codebase, environment.id, &cause, view).await? {
                    Swept::Removed(details) => {
                        (ReportResult::Removed(words::removed(&details.proof)), details.bytes_freed)
                    }
                    Swept::Gone => (ReportResult::Removed(cleanup::ghost()), None),
                    Swept::Kept(reasons) => (kept(reasons.iter().map(cleanup::sentence).collect()), None),
                };
                (Some(environment.id), result, freed)
            }
            (Verdict::Remove(_), None) => (None, kept(sentences(&[Stays::NoBranch])), None),
        }))
    }

    /// Tells the metrics what a pass over everything saw.
    pub(super) fn count_strays(&self, counts: &BTreeMap<Class, usize>, unheard: &[Unheard]) {
        for class in Class::ALL {
            let count = counts.get(&class).copied().unwrap_or_default();
            metrics::gauge!(metric::ORPHANS, "kind" => words::label(class)).set(count as f64);
        }
        let directories: usize = unheard.iter().map(|unheard| unheard.directories).sum();
        metrics::gauge!(metric::ORPHANS, "kind" => words::UNHEARD).set(directories as f64);
    }
}

/// Why a pass takes one away: its work is merged, and nothing else.
fn cause<'a>(pass: &Pass<'a>) -> Cause<'a> {
    let Pass { trigger, actor, asked, .. } = *pass;
    Cause {
        occasion: Occasion::Pass,
        trigger,
        actor,
        tell: None,
        asked_in: asked.map(|asked| asked.delivery.id),
        answered: asked.map(|asked| asked.thread),
        only: Some(Removable::Merged),
    }
}

/// What a pass says of a repository that the database has not heard from.
pub(super) fn unheard_line(unheard: &Unheard) -> ReportLine {
    let why = words::unheard(unheard.directories, unheard.path.as_deref());
    beside_all(unheard.name.clone(), ReportResult::Kept(vec![why]))
}

/// What it says where that cannot be known.
pub(super) fn unheard_unknown(error: &StoreError) -> ReportLine {
    beside_all(words::UNHEARD.to_owned(), ReportResult::Failed(error.to_string()))
}

/// A line about no repository that the database knows.
fn beside_all(branch: String, result: ReportResult) -> ReportLine {
    let (environment, repository, notes) = (None, None, Vec::new());
    ReportLine { environment, repository, branch, result, bytes_freed: None, bytes_reclaimed: 0, notes }
}

/// Whether nothing is at a path; what cannot be looked at may be there.
fn is_nowhere(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// What lies in a directory, which need not be there.
fn children(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}
