//! Making, forking, renaming and deleting repositories, and who may do what in them.

use crate::{
    demo::github::{
        Hub,
        model::{Actor, Repository},
        refusal::Refusal,
        world::World,
    },
    model::{Permission, RepoName},
};
use serde_json::json;
use std::collections::BTreeMap;

impl Hub {
    /// A repository with one commit of `files` on `main` (none: empty), which the App may reach.
    pub async fn create_repository(&self, name: &RepoName, files: &[(&str, &str)]) -> Result<i64, Refusal> {
        let (id, owner) = {
            let mut world = self.world();
            let owner = world.ensure_account(name.owner());
            (world.add_repository(owner, name.name(), "main", None)?, owner)
        };
        self.git.init(id, "main").await?;
        {
            let mut world = self.world();
            if world.gives_itself {
                world.grant_repository(id)?;
            }
        }
        if !files.is_empty() {
            let files: Vec<_> = files.iter().map(|(path, text)| (*path, Some(*text))).collect();
            self.commit(id, Actor::person(owner), "main", "Initial commit", &files).await?;
        }
        Ok(id)
    }

    /// A fork below `owner`'s account, with all branches of the original.
    pub async fn fork_repository(&self, original: i64, owner: i64) -> Result<i64, Refusal> {
        let (id, default) = {
            let mut world = self.world();
            let parent = world.repository(original)?;
            let (name, default) = (parent.name.clone(), parent.default_branch.clone());
            (world.add_repository(owner, &name, &default, Some(original))?, default)
        };
        self.git.init(id, &default).await?;
        self.move_refs(id, Actor::person(owner), self.git.fetch(id, original, "+refs/heads/*:refs/heads/*")).await?;
        Ok(id)
    }

    /// Deletes a repository with all it has; pull requests from it stay, without a head repository.
    pub async fn delete_repository(&self, repository: i64) -> Result<(), Refusal> {
        let _gate = self.refs.lock().await;
        {
            let mut world = self.world();
            let owner = world.repository(repository)?.owner;
            world.emit(repository, Actor::person(owner), "repository", Some("deleted"), json!({}));
            if world.installation_of(repository).is_some() {
                world.withdraw_repository(repository)?;
            }
            world.repositories.remove(&repository);
            world.former_names.retain(|_, id| *id != repository);
            let threads = world.repositories.values_mut().flat_map(|place| place.threads.values_mut());
            for pull in threads.filter_map(|thread| thread.pull.as_mut()) {
                if pull.head_repository == Some(repository) {
                    pull.head_repository = None;
                }
            }
        }
        self.git.remove(repository).await
    }

    pub async fn protect_branch(&self, repository: i64, branch: &str, protected: bool) -> Result<(), Refusal> {
        let refs: Vec<String> = {
            let mut world = self.world();
            let branches = &mut world.repository_mut(repository)?.protected;
            if protected {
                branches.insert(branch.to_owned());
            } else {
                branches.remove(branch);
            }
            branches.iter().map(|branch| format!("refs/heads/{branch}")).collect()
        };
        self.git.set_protected(repository, &refs).await
    }

    pub async fn set_default_branch(&self, repository: i64, branch: &str) -> Result<(), Refusal> {
        self.git.set_head(repository, branch).await?;
        let mut world = self.world();
        let place = world.repository_mut(repository)?;
        let from = std::mem::replace(&mut place.default_branch, branch.to_owned());
        let actor = Actor::person(place.owner);
        let details = json!({ "changes": { "default_branch": { "from": from } } });
        world.emit(repository, actor, "repository", Some("edited"), details);
        Ok(())
    }
}

impl World {
    /// Gives a repository another name; the old one leads to it until somebody takes it.
    pub fn rename_repository(&mut self, repository: i64, name: &str) -> Result<(), Refusal> {
        let place = self.repository(repository)?;
        let (owner, from, former) = (place.owner, place.name.clone(), self.full_name(place));
        self.refuse_taken_name(owner, name)?;
        self.repository_mut(repository)?.name = name.to_owned();
        self.former_names.insert(former.to_ascii_lowercase(), repository);
        self.forget_former_name(owner, name);
        let details = json!({ "changes": { "repository": { "name": { "from": from } } } });
        self.emit(repository, Actor::person(owner), "repository", Some("renamed"), details);
        Ok(())
    }

    /// Gives a repository to another account, where the App reaches it if it is installed.
    pub fn transfer_repository(&mut self, repository: i64, to: i64) -> Result<(), Refusal> {
        let place = self.repository(repository)?;
        let (from, name, former) = (place.owner, place.name.clone(), self.full_name(place));
        self.refuse_taken_name(to, &name)?;
        self.repository_mut(repository)?.owner = to;
        let threads = self.repositories.values_mut().flat_map(|place| place.threads.values_mut());
        for pull in threads.filter_map(|thread| thread.pull.as_mut()) {
            if pull.head_repository == Some(repository) {
                pull.head_owner = to;
            }
        }
        self.former_names.insert(former.to_ascii_lowercase(), repository);
        self.forget_former_name(to, &name);
        for installation in self.installations.values_mut() {
            match installation.account == to {
                true => installation.repositories.insert(repository),
                false => installation.repositories.remove(&repository),
            };
        }
        let details = json!({ "changes": { "owner": { "from": { "user": self.account_json(from) } } } });
        self.emit(repository, Actor::person(to), "repository", Some("transferred"), details);
        Ok(())
    }

    pub fn archive_repository(&mut self, repository: i64, archived: bool) -> Result<(), Refusal> {
        let place = self.repository_mut(repository)?;
        place.archived = archived;
        let actor = Actor::person(place.owner);
        let action = if archived { "archived" } else { "unarchived" };
        self.emit(repository, actor, "repository", Some(action), json!({}));
        Ok(())
    }

    pub fn set_permission(&mut self, repository: i64, account: i64, permission: Permission) -> Result<(), Refusal> {
        self.repository_mut(repository)?.permissions.insert(account, permission);
        Ok(())
    }

    fn add_repository(
        &mut self,
        owner: i64,
        name: &str,
        default_branch: &str,
        fork_of: Option<i64>,
    ) -> Result<i64, Refusal> {
        self.refuse_taken_name(owner, name)?;
        self.forget_former_name(owner, name);
        let (id, now) = (self.new_id(), self.now());
        let repository = Repository {
            id,
            owner,
            name: name.to_owned(),
            default_branch: default_branch.to_owned(),
            fork_of,
            archived: false,
            empty: true,
            permissions: BTreeMap::new(),
            protected: Default::default(),
            threads: BTreeMap::new(),
            comments: BTreeMap::new(),
            reviews: BTreeMap::new(),
            review_comments: BTreeMap::new(),
            check_runs: BTreeMap::new(),
            created_at: now,
            pushed_at: now,
        };
        self.repositories.insert(id, repository);
        Ok(id)
    }

    fn refuse_taken_name(&self, owner: i64, name: &str) -> Result<(), Refusal> {
        match self.find_repository(&format!("{}/{name}", self.login(owner))) {
            Some(_) => Err(Refusal::invalid("name already exists on this account")),
            None => Ok(()),
        }
    }

    fn forget_former_name(&mut self, owner: i64, name: &str) {
        let name = format!("{}/{name}", self.login(owner)).to_ascii_lowercase();
        self.former_names.remove(&name);
    }
}
