//! What people see of orphans, and what they can do about them: adopt one, or have it removed.

use super::super::super::{Orchestrator, StepError, scan::View};
use super::super::{Cause, Swept};
use super::{Found, sentences};
use crate::decide::cleanup::Occasion;
use crate::decide::orphans::{Class, Stays, Verdict, against_adoption, only_once_adopted, removable_from, verdict};
use crate::decide::resolve::{Block, Remote};
use crate::git::Repository;
use crate::model::*;
use crate::reply::{blocked::blocked, cleanup, orphans as words};
use std::path::PathBuf;

/// Most of them that are looked at for a page or an answer.
const MOST: usize = 100;

/// One of them, as people see it.
#[derive(Clone, Debug)]
pub struct Orphan {
    /// What it is, in a word or two.
    pub kind: &'static str,
    /// Below the directory for worktrees, or where else it is.
    pub place: String,
    pub branch: Option<BranchName>,
    /// When something last happened in it, as far as that is known.
    pub touched: Option<Timestamp>,
    /// Why it stays, or why the next pass takes it away.
    pub reasons: Vec<String>,
    pub goes: bool,
    pub may_be_adopted: bool,
    pub may_be_removed: bool,
    /// Only with what is not committed in it, which goes to the trash.
    pub only_by_force: bool,
    /// Not yet, but from then on, should nothing happen in it until then.
    pub removable_from: Option<Timestamp>,
    /// Once it is adopted only.
    pub removable_once_adopted: bool,
}

/// What became of a wish about one of them.
#[derive(Clone, Debug)]
pub enum ByHand {
    Adopted(Box<Environment>),
    Removed(EnvironmentId, Box<ReceiptDetails>),
    /// It is an environment now, and something keeps it.
    Kept(Box<Environment>, Vec<String>),
    /// Only a registration was left, and is taken out.
    TakenOut,
    Stays(Vec<String>),
    /// Nothing of that name is there, or it has an environment.
    Gone,
}

impl Orchestrator {
    /// How many there are, without a look at any of them.
    pub async fn count_orphans(&self, codebase: &Codebase) -> Result<usize, StepError> {
        Ok(self.look_for_strays(codebase).await?.found.len())
    }

    /// The same without those that are somebody else's: they wait for nobody.
    pub async fn count_waiting(&self, codebase: &Codebase) -> Result<usize, StepError> {
        let found = self.look_for_strays(codebase).await?.found;
        Ok(found.iter().filter(|one| one.class != Class::Foreign).count())
    }

    /// What no environment has, as the last fetch left it, and how many more there are.
    pub async fn orphans(&self, codebase: &Codebase) -> Result<(Vec<Orphan>, usize), StepError> {
        // Nobody outside of this machine is asked for it.
        let codebase = &match &codebase.host {
            Host::Local { .. } => self.with_default_branch(codebase).await.0,
            Host::Github { .. } => codebase.clone(),
        };
        let (repository, strays) = (self.repository(codebase), self.look_for_strays(codebase).await?);
        let mut orphans = Vec::new();
        for found in strays.found.iter().take(MOST) {
            let seen = (Occasion::Pass, &View::AsItIs);
            let facts = self.orphan_facts(codebase, &repository, found, &strays.places, seen).await?;
            let may = |occasion| !matches!(verdict(&facts.clone().on(occasion)), Verdict::Stay(_));
            let (may_be_removed, by_force) = (may(Occasion::Named), may(Occasion::Forced));
            let (goes, reasons) = match verdict(&facts) {
                Verdict::Stay(stays) => (false, sentences(&stays)),
                Verdict::TakeOut => (true, vec![words::taken_out()]),
                Verdict::Remove(removal) => {
                    let branch = found.branch.as_ref();
                    (true, branch.map(|branch| cleanup::proof(&removal, branch)).into_iter().collect())
                }
            };
            orphans.push(Orphan {
                kind: words::kind(found.class),
                place: self.place_of_stray(found),
                branch: found.branch.clone(),
                touched: facts.touched.known().copied(),
                reasons,
                goes,
                may_be_adopted: against_adoption(&facts).is_empty(),
                may_be_removed,
                only_by_force: by_force && !may_be_removed,
                removable_from: removable_from(&facts),
                removable_once_adopted: only_once_adopted(&facts),
            });
        }
        Ok((orphans, strays.found.len().saturating_sub(MOST)))
    }

    fn place_of_stray(&self, found: &Found) -> String {
        let below = found.path.strip_prefix(&self.settings().worktree_base);
        below.unwrap_or(&found.path).display().to_string()
    }

    /// The one at a place, as [`Orphan`] names it. Two that look alike are none.
    async fn stray_at(&self, codebase: &Codebase, place: &str) -> Result<Option<(Found, Vec<PathBuf>)>, StepError> {
        let strays = self.look_for_strays(codebase).await?;
        let mut there = strays.found.into_iter().filter(|found| self.place_of_stray(found) == place);
        let found = there.next().filter(|_| there.next().is_none());
        Ok(found.map(|found| (found, strays.places)))
    }

    /// Gives the worktree at a place a row, so that people can go on in it, and cleanup looks after it.
    pub async fn adopt_orphan(&self, codebase: &Codebase, place: &str, actor: &str) -> Result<ByHand, StepError> {
        let Some((found, places)) = self.stray_at(codebase, place).await? else { return Ok(ByHand::Gone) };
        let (codebase, untold) = self.with_default_branch(codebase).await;
        let (codebase, repository) = (&codebase, self.repository(&codebase));
        let seen = (Occasion::Named, &View::AsItIs);
        let facts = self.orphan_facts(codebase, &repository, &found, &places, seen).await?;
        let removal = match (against_adoption(&facts), facts.removal) {
            (against, Some(removal)) if against.is_empty() => removal,
            (against, _) => return Ok(ByHand::Stays(sentences(&against))),
        };
        if removal.environment.base.is_none() {
            return Err(match untold {
                Some(error) => StepError::Refused(words::no_base(&error.to_string())),
                None => StepError::Refused(blocked(&self.no_base(codebase, &repository).await?)),
            });
        }
        let asked = self.store().load_repo_settings(codebase.id).await?.unwrap_or_default().in_force;
        let limit = asked.worktree_limit(self.settings().environment_limit);
        let environment = self.give_row(codebase, &repository, &removal.environment, limit).await?;
        let subject = format!("{}#{}", codebase.name, environment.work);
        self.audit(actor, "environment.adopted", &subject, &environment.path.display().to_string()).await;
        Ok(ByHand::Adopted(Box::new(environment)))
    }

    /// Why there is nothing that it could be compared with.
    async fn no_base(&self, codebase: &Codebase, repository: &Repository) -> Result<Block, StepError> {
        Ok(match self.remote(codebase, repository).await? {
            Remote::Empty => Block::EmptyRepository,
            Remote::WithDefault | Remote::WithoutDefault => Block::NoDefaultBranch(codebase.default_branch.clone()),
        })
    }

    /// Removes what is at a place, as a person wants it; `force`: what is not committed goes to the trash.
    pub async fn remove_orphan(
        &self,
        codebase: &Codebase,
        place: &str,
        force: bool,
        trigger: Trigger,
        actor: &str,
    ) -> Result<ByHand, StepError> {
        let Some((found, places)) = self.stray_at(codebase, place).await? else { return Ok(ByHand::Gone) };
        let codebase = &self.with_default_branch(codebase).await.0;
        let repository = self.repository(codebase);
        let view = self.view_of(codebase).await;
        let occasion = if force { Occasion::Forced } else { Occasion::Named };
        let facts = self.orphan_facts(codebase, &repository, &found, &places, (occasion, &view)).await?;
        let would_be = match (verdict(&facts), facts.removal) {
            (Verdict::Stay(stays), _) => return Ok(ByHand::Stays(sentences(&stays))),
            (Verdict::TakeOut, _) => {
                self.take_out(codebase, &repository, &found, actor).await?;
                return Ok(ByHand::TakenOut);
            }
            (Verdict::Remove(_), Some(removal)) => removal.environment,
            (Verdict::Remove(_), None) => return Ok(ByHand::Stays(sentences(&[Stays::NoBranch]))),
        };
        let environment = self.give_row(codebase, &repository, &would_be, u32::MAX).await?;
        let cause = Cause { occasion, trigger, actor, tell: None, asked_in: None, answered: None, only: None };
        Ok(match self.remove_fetched(codebase, environment.id, &cause, &view).await? {
            Swept::Removed(details) => ByHand::Removed(environment.id, details),
            Swept::Gone => ByHand::Gone,
            Swept::Kept(reasons) => {
                ByHand::Kept(Box::new(environment), reasons.iter().map(cleanup::sentence).collect())
            }
        })
    }
}
