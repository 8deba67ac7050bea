//! The App gains or loses its access to repositories.

use super::intake::{Handled, done, ignored};
use super::{Orchestrator, StepError};
use crate::decide::access::{Change, KnownPlace, Said, SeenInstallation, SeenRepository, after, compare};
use crate::github::RepositoryInfo;
use crate::model::*;
use crate::reply::{self, access};
use crate::store::{NewCodebase, StoreError};
use std::time::Duration;

/// How far back, and how many at most, what could not be said while access was gone is said after all.
const MISSED_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
const MISSED: u32 = 500;

/// How long a start waits for GitHub to say what the App reaches.
const AT_START: Duration = Duration::from_secs(5);
/// Where GitHub itself is; an Enterprise Server has its Apps at another address.
const PUBLIC: &str = "https://github.com";

/// What of a look is believed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    All,
    /// Only that something is reached.
    Gains,
}

fn place_of(codebase: &Codebase) -> Option<KnownPlace> {
    match codebase.host {
        Host::Github { id, installation } => Some(KnownPlace {
            codebase: codebase.id,
            repository: id,
            installation,
            name: codebase.name.clone(),
            reach: codebase.reach,
        }),
        Host::Local { .. } => None,
    }
}

fn as_seen(RepositoryInfo { id, name, default_branch, archived, .. }: RepositoryInfo) -> SeenRepository {
    SeenRepository { id, name, default_branch, archived }
}

fn is_all_found(known: &[KnownPlace], seen: &[SeenInstallation]) -> bool {
    let lists: Vec<_> = seen.iter().filter_map(|installation| installation.repositories.known()).flatten().collect();
    known.iter().all(|place| place.reach == Reach::Deleted || lists.iter().any(|seen| seen.id == place.repository))
}

impl Orchestrator {
    pub(super) async fn access_changed(
        &self,
        installation: InstallationId,
        access: Access,
    ) -> Result<Handled, StepError> {
        let asks_anew = !matches!(access, Access::Repository { .. });
        let handled = self.access_said(installation, access).await?;
        // It says more than the event: who else is there, and what its owner has not granted.
        if asks_anew && let Err(error) = self.look(Trust::Gains).await {
            tracing::warn!(%error, "what the App reaches could not be looked at after an event; the hourly look does");
        }
        Ok(handled)
    }

    async fn access_said(&self, installation: InstallationId, access: Access) -> Result<Handled, StepError> {
        match access {
            Access::Granted => {
                let regained = self.said_of_all(installation, Said::Granted).await?;
                self.tell_what_was_missed(&regained).await?;
                done("the installation gives access")
            }
            Access::Suspended => {
                self.said_of_all(installation, Said::Suspended).await?;
                done("the installation is suspended; work is kept")
            }
            Access::Uninstalled => {
                self.said_of_all(installation, Said::Uninstalled).await?;
                done("the installation is gone; work is kept")
            }
            Access::Repository { id, fate } => {
                let codebase = self.store().find_codebase_by_github(id).await?;
                let Some(codebase) = codebase else { return ignored("nothing is known of this repository") };
                if self.take_note(&codebase, Said::Of(fate)).await? && fate == Fate::Unarchived {
                    self.tell_what_was_missed(&[codebase.id]).await?;
                }
                done(match fate {
                    Fate::Archived => "the repository is archived; work is kept",
                    Fate::Unarchived => "the repository is no longer archived",
                    Fate::Deleted => "the repository is deleted; work is kept",
                })
            }
            Access::Repositories { added, removed } => {
                let mut regained = Vec::new();
                for (id, _) in &removed {
                    let codebase = self.store().find_codebase_by_github(*id).await?;
                    // One that was transferred may be reached through another installation already.
                    if let Some(codebase) = codebase.filter(|own| own.installation() == Some(installation)) {
                        self.take_note(&codebase, Said::Removed).await?;
                    }
                }
                for (github_id, name) in &added {
                    if self.store().find_codebase_by_github(*github_id).await?.is_some() {
                        let (github_id, name) = (*github_id, self.present_name(*github_id, installation, name).await?);
                        let new = NewCodebase { github_id, installation, name, default_branch: None, reached: true };
                        regained.push(self.store().upsert_codebase(new, self.now()).await?.id);
                    }
                }
                self.tell_what_was_missed(&regained).await?;
                let plural = if added.len() == 1 { "repository" } else { "repositories" };
                done(format!("{} {plural} added, {} removed; work is kept", added.len(), removed.len()))
            }
        }
    }

    /// Of each codebase of an installation. Answers with those that are reached again.
    async fn said_of_all(&self, installation: InstallationId, said: Said) -> Result<Vec<CodebaseId>, StepError> {
        let mut regained = Vec::new();
        for codebase in self.store().list_codebases().await? {
            if codebase.installation() == Some(installation) {
                self.take_note(&codebase, said).await?;
                // Also where it was reached all the time: what waits for a permission is tried at once.
                regained.extend(after(codebase.reach, said).is_connected().then_some(codebase.id));
            }
        }
        Ok(regained)
    }

    /// Whether that changed anything.
    async fn take_note(&self, codebase: &Codebase, said: Said) -> Result<bool, StepError> {
        let mut known = codebase.clone();
        loop {
            if self.set_reach(&known, after(known.reach, said)).await? {
                return Ok(true);
            }
            // Another event may have come in between, and either may be the one that counts.
            match self.store().load_codebase(codebase.id).await? {
                Some(now) if now.reach != known.reach => known = now,
                Some(_) | None => return Ok(false),
            }
        }
    }

    /// Whether that changed anything; what is not as it was known is left as it is.
    pub(super) async fn set_reach(&self, codebase: &Codebase, reach: Reach) -> Result<bool, StepError> {
        let changed = self.store().set_reach(codebase.id, codebase.reach, reach, self.now()).await?;
        if changed {
            tracing::info!(codebase.name = %codebase.name, codebase.access = %reach, "access to a repository changed; work is kept");
            self.audit("github", "codebase.access", &codebase.name.to_string(), reach.as_str()).await;
        }
        Ok(changed)
    }

    /// Asks GitHub what the App reaches, and puts right what no event said. What GitHub does not say changes nothing.
    pub async fn look_at_access(&self) -> Result<(), StepError> {
        self.look(Trust::All).await
    }

    /// The same before anything is begun. A GitHub that is down keeps no service from starting.
    pub async fn look_at_access_at_start(&self) {
        match tokio::time::timeout(AT_START, self.look_at_access()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "GitHub did not say what the App reaches; the hourly look asks again")
            }
            Err(_) => tracing::warn!("GitHub took too long to say what the App reaches; the hourly look asks again"),
        }
    }

    async fn look(&self, trust: Trust) -> Result<(), StepError> {
        let Some(github) = self.github() else { return Ok(()) };
        let known: Vec<KnownPlace> = self.store().list_codebases().await?.iter().filter_map(place_of).collect();
        if known.is_empty() {
            return Ok(());
        }
        let all = github.installations().await?;
        let installations = Installations { seen_at: Some(self.now()), all };
        self.store().save_installations(&installations, self.now()).await?;
        let mut all = installations.all;
        let is_own = |installed: &Installed| known.iter().any(|place| place.installation == installed.id);
        all.sort_by_key(|installed| !is_own(installed));
        let mut seen: Vec<SeenInstallation> = Vec::new();
        for installed in all {
            // Others matter only for what is not where it was.
            if !is_own(&installed) && is_all_found(&known, &seen) {
                break;
            }
            let repositories = match installed.suspended {
                true => Probe::Known(Vec::new()),
                false => github.installation(installed.id).repositories().await.into(),
            };
            let repositories = repositories.map(|all: Vec<RepositoryInfo>| all.into_iter().map(as_seen).collect());
            seen.push(SeenInstallation { id: installed.id, suspended: installed.suspended, repositories });
        }
        let mut regained = Vec::new();
        for change in compare(&known, &seen) {
            regained.extend(self.put_right(&known, change, trust).await?);
        }
        self.tell_what_was_missed(&regained).await
    }

    /// Answers with the codebase where it is reached again. What changed while GitHub was asked is left to the next look.
    async fn put_right(
        &self,
        known: &[KnownPlace],
        change: Change,
        trust: Trust,
    ) -> Result<Option<CodebaseId>, StepError> {
        let (Change::Reached { codebase: id, .. } | Change::Lost { codebase: id, .. }) = &change;
        let Some(codebase) = self.store().load_codebase(*id).await? else { return Ok(None) };
        if !known.iter().any(|place| Some(place) == place_of(&codebase).as_ref()) {
            return Ok(None);
        }
        match change {
            // What GitHub lists may be older than the event that was just handled.
            Change::Lost { .. } if trust == Trust::Gains => Ok(None),
            Change::Lost { reach, .. } => {
                self.set_reach(&codebase, reach).await?;
                Ok(None)
            }
            Change::Reached { installation, seen, .. } => {
                let new = NewCodebase {
                    github_id: seen.id,
                    installation,
                    name: seen.name,
                    default_branch: seen.default_branch,
                    reached: !seen.archived,
                };
                let now = self.store().upsert_codebase(new, self.now()).await?;
                if seen.archived {
                    self.set_reach(&now, Reach::Archived).await?;
                } else {
                    self.audit("github", "codebase.access", &now.name.to_string(), now.reach.as_str()).await;
                }
                Ok(Some(now.id))
            }
        }
    }

    /// Why GitHub refuses something in a codebase, and what to do, by what is so at this moment. `None`: nobody knows.
    pub(super) async fn refusal_explained(&self, codebase: &Codebase) -> Option<String> {
        if let Err(error) = self.look_at_access().await {
            tracing::warn!(codebase.name = %codebase.name, %error, "GitHub did not say why it refuses");
        }
        self.explained(codebase).await.ok().flatten()
    }

    async fn explained(&self, codebase: &Codebase) -> Result<Option<String>, StoreError> {
        let Some(now) = self.store().load_codebase(codebase.id).await? else { return Ok(None) };
        let page = self.access_page(&now).await?;
        if let Some(told) = access::refused(&now.name, now.reach, page.as_deref()) {
            return Ok(Some(told));
        }
        let installations = self.store().load_installations().await?;
        let own = installations.find(now.installation()).filter(|own| !own.missing_permissions.is_empty());
        Ok(own.map(|own| access::permissions_missing(&now.name, &own.missing_permissions, &own.page)))
    }

    /// Where on GitHub somebody ends what keeps the App from a codebase; absent where nobody can, or nobody knows.
    pub async fn access_page(&self, codebase: &Codebase) -> Result<Option<String>, StoreError> {
        let web = &self.settings().web_url;
        Ok(match codebase.reach {
            Reach::Whole | Reach::Deleted | Reach::NameTaken => None,
            Reach::Archived => Some(format!("{web}/{}/settings", codebase.name)),
            Reach::Uninstalled => {
                let pages = if web == PUBLIC { "apps" } else { "github-apps" };
                Some(format!("{web}/{pages}/{}/installations/new", self.identity().slug))
            }
            Reach::Suspended | Reach::NotSelected | Reach::Lost => {
                let installations = self.store().load_installations().await?;
                installations.find(codebase.installation()).map(|own| own.page.clone())
            }
        })
    }

    /// Runs that ended while GitHub let nobody write there left comments that say they are at work. What is still tried
    /// waits no longer.
    async fn tell_what_was_missed(&self, codebases: &[CodebaseId]) -> Result<(), StepError> {
        for codebase in codebases {
            if self.store().hurry_outgoing(*codebase, self.now()).await? > 0 {
                self.inner.wake.outgoing.notify_one();
            }
        }
        let failed = match codebases {
            [] => Vec::new(),
            _ => self.store().failed_outgoing(self.now().minus(MISSED_FOR), MISSED).await?,
        };
        let told = |row: &&OutboxRow| codebases.contains(&row.codebase) && reply::status::run_of(&row.key).is_some();
        for row in failed.iter().filter(told) {
            if self.store().send_again(row, self.now()).await? {
                self.inner.wake.outgoing.notify_one();
            }
        }
        Ok(())
    }
}
