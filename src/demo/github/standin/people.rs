//! People, their permissions and tokens, and the App's installations.

use super::{Level, Standin};
use crate::{
    demo::github::{auth::Grant, refusal::Refusal},
    model::Permission,
};

impl Standin {
    /// The numeric id of an account; an unknown login becomes a new user (`…[bot]`: a bot of another App).
    pub fn user(&self, login: &str) -> i64 {
        self.hub.world().ensure_account(login)
    }

    /// Deletes a person's account. What it wrote stays, by nobody.
    pub fn remove_account(&self, login: &str) {
        let mut world = self.hub.world();
        if let Some(id) = world.find_account(login).map(|account| account.id) {
            world.accounts.remove(&id);
        }
    }

    /// Makes an account an organization.
    pub fn make_organization(&self, login: &str) {
        let mut world = self.hub.world();
        let id = world.ensure_account(login);
        if let Some(account) = world.accounts.get_mut(&id) {
            account.kind = crate::demo::github::model::AccountKind::Organization;
        }
    }

    pub fn set_permission(&self, repository: &str, login: &str, permission: Permission) -> Result<(), Refusal> {
        let mut world = self.hub.world();
        let (id, account) = (world.repository_named(repository)?.id, world.ensure_account(login));
        world.set_permission(id, account, permission)
    }

    /// The number that stays when a person takes another login.
    pub fn user_number(&self, login: &str) -> i64 {
        self.hub.world().ensure_account(login)
    }

    /// A token for a person, as OAuth would give it; also the password for git.
    pub fn user_token(&self, login: &str) -> String {
        let mut world = self.hub.world();
        let account = world.ensure_account(login);
        world.sessions.issue_person(account)
    }

    /// A token of the App for one repository with all its permissions, as `access_tokens` would give it.
    pub fn installation_token(&self, repository: &str) -> Result<String, Refusal> {
        let mut world = self.hub.world();
        let id = world.repository_named(repository)?.id;
        let installation = world.installation_of(id).ok_or_else(|| Refusal::missing("installation"))?.id;
        let grant = Grant {
            installation,
            repositories: Some([id].into()),
            permissions: world.app.permissions.clone(),
            expires_at: world.clock() + chrono::TimeDelta::hours(1),
        };
        Ok(world.sessions.issue_grant(grant))
    }

    /// The installation that reaches a repository.
    pub fn installation_id(&self, repository: &str) -> Result<i64, Refusal> {
        let world = self.hub.world();
        let id = world.repository_named(repository)?.id;
        Ok(world.installation_of(id).ok_or_else(|| Refusal::missing("installation"))?.id)
    }

    /// Gives the App a repository; new repositories are given to it at once.
    pub fn grant_repository(&self, repository: &str) -> Result<(), Refusal> {
        let mut world = self.hub.world();
        let id = world.repository_named(repository)?.id;
        world.grant_repository(id).map(drop)
    }

    /// Takes a repository away from the App.
    pub fn withdraw_repository(&self, repository: &str) -> Result<(), Refusal> {
        let mut world = self.hub.world();
        let id = world.repository_named(repository)?.id;
        world.withdraw_repository(id)
    }

    /// Suspends or unsuspends the installation of a repository's owner.
    pub fn suspend_installation(&self, repository: &str, suspended: bool) -> Result<(), Refusal> {
        let id = self.installation_id(repository)?;
        self.hub.world().suspend(id, suspended)
    }

    /// The owner of a repository's installation has granted only these permissions (like `("issues", "write")`).
    pub fn limit_permissions(&self, repository: &str, permissions: &[(&str, &str)]) -> Result<(), Refusal> {
        let id = self.installation_id(repository)?;
        let known = permissions.iter().filter_map(|(area, level)| Some(((*area).to_owned(), Level::parse(level)?)));
        self.hub.world().set_granted(id, Some(known.collect()))
    }

    /// The owner accepts what the App asks for.
    pub fn accept_permissions(&self, repository: &str) -> Result<(), Refusal> {
        let id = self.installation_id(repository)?;
        self.hub.world().set_granted(id, None)
    }

    /// Removes the App from a repository's owner.
    pub fn uninstall(&self, repository: &str) -> Result<(), Refusal> {
        let id = self.installation_id(repository)?;
        self.hub.world().uninstall(id)
    }
}
