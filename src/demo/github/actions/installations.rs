//! Installing the App on accounts, giving it repositories and taking them away.

use crate::demo::github::{
    auth::Permissions,
    model::{Actor, Installation},
    refusal::Refusal,
    world::World,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl World {
    /// Gives the App access to a repository; the owner's installation is made when there is none.
    pub fn grant_repository(&mut self, repository: i64) -> Result<i64, Refusal> {
        let owner = self.repository(repository)?.owner;
        let Some(there) = self.installations.values().find(|i| i.account == owner).map(|i| i.id) else {
            return Ok(self.install(owner, BTreeSet::from([repository])));
        };
        let added = self.installations.get_mut(&there).is_some_and(|i| i.repositories.insert(repository));
        if added {
            self.emit_selection(there, "added", repository);
        }
        Ok(there)
    }

    /// Takes a repository away from the installation.
    pub fn withdraw_repository(&mut self, repository: i64) -> Result<(), Refusal> {
        let installation = self.installation_of(repository).ok_or_else(|| Refusal::missing("installation"))?.id;
        self.emit_selection(installation, "removed", repository);
        if let Some(installation) = self.installations.get_mut(&installation) {
            installation.repositories.remove(&repository);
        }
        Ok(())
    }

    pub fn suspend(&mut self, installation: i64, suspended: bool) -> Result<(), Refusal> {
        let found = self.installations.get_mut(&installation).ok_or_else(|| Refusal::missing("installation"))?;
        found.suspended = suspended;
        let actor = Actor::person(found.account);
        self.emit_installation(installation, actor, if suspended { "suspend" } else { "unsuspend" });
        Ok(())
    }

    pub fn uninstall(&mut self, installation: i64) -> Result<(), Refusal> {
        let found = self.installations.get(&installation).ok_or_else(|| Refusal::missing("installation"))?;
        let actor = Actor::person(found.account);
        self.emit_installation(installation, actor, "deleted");
        self.installations.remove(&installation);
        self.sessions.grants.retain(|_, grant| grant.installation != installation);
        Ok(())
    }

    /// The owner grants only these permissions, or with `None` all that the App asks for.
    pub fn set_granted(&mut self, installation: i64, permissions: Option<Permissions>) -> Result<(), Refusal> {
        let found = self.installations.get_mut(&installation).ok_or_else(|| Refusal::missing("installation"))?;
        let accepted = permissions.is_none();
        found.permissions = permissions;
        let actor = Actor::person(found.account);
        if accepted {
            self.emit_installation(installation, actor, "new_permissions_accepted");
        }
        Ok(())
    }

    /// What an installation may do.
    pub fn granted_to<'a>(&'a self, installation: &'a Installation) -> &'a Permissions {
        installation.permissions.as_ref().unwrap_or(&self.app.permissions)
    }

    /// Installs the App on an account, on repositories of it.
    pub fn install_on(&mut self, account: i64, repositories: BTreeSet<i64>) -> Result<i64, Refusal> {
        let its_own = |id: &i64| self.repository(*id).is_ok_and(|repository| repository.owner == account);
        if repositories.is_empty() || !repositories.iter().all(its_own) {
            return Err(Refusal::invalid("Choose repositories of this account"));
        }
        if self.installations.values().any(|installation| installation.account == account) {
            return Err(Refusal::invalid("The App is installed on this account already"));
        }
        Ok(self.install(account, repositories))
    }

    fn install(&mut self, account: i64, repositories: BTreeSet<i64>) -> i64 {
        let (id, created_at) = (self.new_id(), self.now());
        self.installations
            .insert(id, Installation { id, account, repositories, suspended: false, permissions: None, created_at });
        self.emit_installation(id, Actor::person(account), "created");
        id
    }

    fn emit_installation(&mut self, id: i64, actor: Actor, action: &str) {
        let Some(installation) = self.installations.get(&id) else { return };
        let repositories = installation.repositories.iter().filter_map(|id| self.repositories.get(id));
        let body = json!({
            "installation": self.installation_json(installation),
            "repositories": repositories.map(|repository| self.repository_stub(repository)).collect::<Vec<_>>(),
            "requester": null,
            "sender": self.account_json(actor.account),
        });
        self.dispatch("installation", Some(action), Some(id), None, body);
    }

    fn emit_selection(&mut self, id: i64, action: &str, repository: i64) {
        let (Some(installation), Ok(place)) = (self.installations.get(&id), self.repository(repository)) else {
            return;
        };
        let stub = json!([self.repository_stub(place)]);
        let none: Value = json!([]);
        let (added, removed) = if action == "added" { (stub, none) } else { (none, stub) };
        let body = json!({
            "installation": self.installation_json(installation),
            "repository_selection": "selected",
            "repositories_added": added,
            "repositories_removed": removed,
            "requester": null,
            "sender": self.account_json(installation.account),
        });
        self.dispatch("installation_repositories", Some(action), Some(id), None, body);
    }
}
