//! Accounts, the App, installations, repositories.

use super::iso;
use crate::demo::github::{
    auth::{Grant, Permissions},
    model::{AccountKind, Installation, Repository},
    world::World,
};
use crate::model::Permission;
use serde_json::{Value, json};

impl World {
    pub fn account_json(&self, id: i64) -> Value {
        let Some(account) = self.accounts.get(&id) else { return Value::Null };
        let page = match account.kind {
            AccountKind::Bot => format!("{}/apps/{}", self.base, account.login.trim_end_matches("[bot]")),
            AccountKind::User | AccountKind::Organization => format!("{}/{}", self.base, account.login),
        };
        let url = format!("{}/users/{}", self.api(), account.login);
        json!({
            "login": account.login,
            "id": id,
            "node_id": self.node_id(account.kind.as_str(), id),
            "avatar_url": format!("{}/-/avatar.svg", self.base),
            "gravatar_id": "",
            "url": url,
            "html_url": page,
            "followers_url": format!("{url}/followers"),
            "following_url": format!("{url}/following{{/other_user}}"),
            "gists_url": format!("{url}/gists{{/gist_id}}"),
            "starred_url": format!("{url}/starred{{/owner}}{{/repo}}"),
            "subscriptions_url": format!("{url}/subscriptions"),
            "organizations_url": format!("{url}/orgs"),
            "repos_url": format!("{url}/repos"),
            "events_url": format!("{url}/events{{/privacy}}"),
            "received_events_url": format!("{url}/received_events"),
            "type": account.kind.as_str(),
            "user_view_type": "public",
            "site_admin": false,
        })
    }

    pub fn app_json(&self) -> Value {
        let somebody = || self.accounts.values().find(|account| account.kind != AccountKind::Bot).map(|a| a.id);
        let owner = self.app.owner.or_else(somebody);
        json!({
            "id": self.app.id,
            "client_id": self.app.client_id,
            "slug": self.app.slug,
            "node_id": self.node_id("App", self.app.id),
            "owner": owner.map_or(Value::Null, |id| self.account_json(id)),
            "name": self.app.name,
            "description": "",
            "external_url": self.base,
            "html_url": format!("{}/apps/{}", self.base, self.app.slug),
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
            "permissions": permissions_json(&self.app.permissions),
            "events": self.app.events,
        })
    }

    pub fn installation_json(&self, installation: &Installation) -> Value {
        let account = self.accounts.get(&installation.account);
        let suspended = installation.suspended.then(|| iso(installation.created_at));
        json!({
            "id": installation.id,
            "node_id": self.node_id("Installation", installation.id),
            "client_id": self.app.client_id,
            "account": self.account_json(installation.account),
            "repository_selection": "selected",
            "access_tokens_url": format!("{}/app/installations/{}/access_tokens", self.api(), installation.id),
            "repositories_url": format!("{}/installation/repositories", self.api()),
            "html_url": format!("{}/settings/installations/{}", self.base, installation.id),
            "app_id": self.app.id,
            "app_slug": self.app.slug,
            "target_id": installation.account,
            "target_type": account.map_or("User", |account| account.kind.as_str()),
            "permissions": permissions_json(self.granted_to(installation)),
            "events": self.app.events,
            "created_at": iso(installation.created_at),
            "updated_at": iso(installation.created_at),
            "single_file_name": null,
            "has_multiple_single_files": false,
            "single_file_paths": [],
            "suspended_by": null,
            "suspended_at": suspended,
        })
    }

    pub fn grant_json(&self, token: &str, grant: &Grant) -> Value {
        let mut body = json!({
            "token": token,
            "expires_at": iso(grant.expires_at),
            "permissions": permissions_json(&grant.permissions),
            "repository_selection": "selected",
        });
        if let Some(chosen) = &grant.repositories {
            let repositories = chosen.iter().filter_map(|id| self.repositories.get(id));
            body["repositories"] = repositories.map(|repository| self.repository_json(repository)).collect();
        }
        body
    }

    pub fn repository_json(&self, repository: &Repository) -> Value {
        let full_name = self.full_name(repository);
        let page = format!("{}/{full_name}", self.base);
        let mut owner = self.account_json(repository.owner);
        // Push events carry the owner's name as well.
        owner["name"] = json!(self.login(repository.owner));
        json!({
            "id": repository.id,
            "node_id": self.node_id("R", repository.id),
            "name": repository.name,
            "full_name": full_name,
            "private": true,
            "visibility": "private",
            "owner": owner,
            "html_url": page,
            "description": null,
            "fork": repository.fork_of.is_some(),
            "url": format!("{}/repos/{full_name}", self.api()),
            "clone_url": format!("{page}.git"),
            "git_url": format!("{page}.git"),
            "ssh_url": null,
            "homepage": null,
            "size": i64::from(!repository.empty),
            "language": null,
            "default_branch": repository.default_branch,
            "archived": repository.archived,
            "disabled": false,
            "has_issues": true,
            "allow_forking": true,
            "open_issues_count": repository.threads.values().filter(|thread| thread.open).count(),
            "topics": [],
            "created_at": iso(repository.created_at),
            "updated_at": iso(repository.pushed_at),
            "pushed_at": iso(repository.pushed_at),
        })
    }

    /// The short form of installation events.
    pub fn repository_stub(&self, repository: &Repository) -> Value {
        json!({
            "id": repository.id,
            "node_id": self.node_id("R", repository.id),
            "name": repository.name,
            "full_name": self.full_name(repository),
            "private": true,
        })
    }

    /// `GET /repos/{owner}/{repo}/collaborators/{login}/permission`: the old four words, and the role beside them.
    pub fn permission_json(&self, account: i64, permission: Permission) -> Value {
        let word = match permission {
            Permission::None => "none",
            Permission::Read | Permission::Triage => "read",
            Permission::Write | Permission::Maintain => "write",
            Permission::Admin => "admin",
        };
        let mut user = self.account_json(account);
        user["role_name"] = json!(permission.as_str());
        json!({ "permission": word, "role_name": permission.as_str(), "user": user })
    }

    /// `OWNER`, `COLLABORATOR` or `NONE`: what an author is to a repository.
    pub fn association(&self, repository: &Repository, account: i64) -> &'static str {
        match repository.permission_of(account) {
            _ if account == repository.owner => "OWNER",
            Permission::None | Permission::Read => "NONE",
            Permission::Triage | Permission::Write | Permission::Maintain | Permission::Admin => "COLLABORATOR",
        }
    }
}

fn permissions_json(permissions: &Permissions) -> Value {
    permissions.iter().map(|(area, level)| (area.clone(), json!(level.as_str()))).collect()
}
