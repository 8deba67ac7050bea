//! Repositories and their branches.

use super::Standin;
use crate::{demo::github::refusal::Refusal, model::RepoName};
use std::path::PathBuf;

impl Standin {
    /// A private repository the App is installed on, with one commit of `files` on `main` (none: empty). Its owner is a
    /// user with all rights; others have none until `set_permission`.
    pub async fn create_repository(&self, full_name: &str, files: &[(&str, &str)]) -> Result<i64, Refusal> {
        let name: RepoName = full_name.parse().map_err(|error| Refusal::invalid(format!("{error}")))?;
        self.hub.create_repository(&name, files).await
    }

    /// A fork below `login`'s account; returns its full name. The App is not installed there.
    pub async fn fork(&self, repository: &str, login: &str) -> Result<String, Refusal> {
        let (original, owner) = (self.repository_id(repository)?, self.user(login));
        let fork = self.hub.fork_repository(original, owner).await?;
        let world = self.hub.world();
        Ok(world.full_name(world.repository(fork)?))
    }

    pub async fn delete_repository(&self, repository: &str) -> Result<(), Refusal> {
        self.hub.delete_repository(self.repository_id(repository)?).await
    }

    /// Gives a repository another name (without owner); the id stays.
    pub fn rename_repository(&self, repository: &str, name: &str) -> Result<(), Refusal> {
        let mut world = self.hub.world();
        let id = world.repository_named(repository)?.id;
        world.rename_repository(id, name)
    }

    /// Gives a repository to another account; the id stays. The App reaches it there where it is installed.
    pub fn transfer_repository(&self, repository: &str, to: &str) -> Result<(), Refusal> {
        let mut world = self.hub.world();
        let (id, to) = (world.repository_named(repository)?.id, world.ensure_account(to));
        world.transfer_repository(id, to)
    }

    pub fn archive(&self, repository: &str, archived: bool) -> Result<(), Refusal> {
        let mut world = self.hub.world();
        let id = world.repository_named(repository)?.id;
        world.archive_repository(id, archived)
    }

    pub async fn protect_branch(&self, repository: &str, branch: &str, protected: bool) -> Result<(), Refusal> {
        self.hub.protect_branch(self.repository_id(repository)?, branch, protected).await
    }

    pub async fn set_default_branch(&self, repository: &str, branch: &str) -> Result<(), Refusal> {
        self.hub.set_default_branch(self.repository_id(repository)?, branch).await
    }

    pub fn repository(&self, repository: &str) -> Result<i64, Refusal> {
        self.repository_id(repository)
    }

    /// `http://127.0.0.1:<port>/owner/name.git`.
    pub fn clone_url(&self, repository: &str) -> String {
        format!("{}/{repository}.git", self.url())
    }

    /// The bare repository on disk, for tests that look with their own git.
    pub fn git_dir(&self, repository: &str) -> Result<PathBuf, Refusal> {
        Ok(self.hub.git.dir(self.repository_id(repository)?))
    }

    /// Pushes one commit as `login`: files with content are written, others deleted. A new branch starts at the default
    /// branch. Returns the commit.
    pub async fn push_commit(
        &self,
        repository: &str,
        login: &str,
        branch: &str,
        message: &str,
        files: &[(&str, Option<&str>)],
    ) -> Result<String, Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.commit(id, actor, branch, message, files).await
    }

    /// Points a branch to any commit of the repository, as a forced push does.
    pub async fn force_branch(&self, repository: &str, login: &str, branch: &str, to: &str) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.reset_branch(id, actor, branch, Some(to)).await
    }

    pub async fn delete_branch(&self, repository: &str, login: &str, branch: &str) -> Result<(), Refusal> {
        let (id, actor) = (self.repository_id(repository)?, self.person(login));
        self.hub.reset_branch(id, actor, branch, None).await
    }

    pub async fn branches(&self, repository: &str) -> Result<Vec<String>, Refusal> {
        Ok(self.hub.git.branches(self.repository_id(repository)?).await?.into_keys().collect())
    }

    /// The commit a branch is at.
    pub async fn branch_tip(&self, repository: &str, branch: &str) -> Result<Option<String>, Refusal> {
        self.hub.git.commit_of(self.repository_id(repository)?, &format!("refs/heads/{branch}")).await
    }

    /// A file's text on a branch or at a commit.
    pub async fn file(&self, repository: &str, revision: &str, path: &str) -> Result<Option<String>, Refusal> {
        self.hub.git.file(self.repository_id(repository)?, revision, path).await
    }
}
