//! Repositories that are in the home and that no row knows, as after a database that was lost. One on this machine is met
//! again where its own files prove which it is. Of those on GitHub only GitHub can tell: how many directories lie there is
//! said until it sends something.

use super::Orchestrator;
use crate::git::address_of;
use crate::model::*;
use crate::store::{NewLocalCodebase, StoreError};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// A repository that the database has not heard from, and where its worktrees are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unheard {
    /// `owner/name`, as its directories are called.
    pub name: String,
    /// In the directory where its worktrees are made.
    pub directories: usize,
    /// Where it is on this machine, as its canonical repository says.
    pub path: Option<PathBuf>,
}

impl Orchestrator {
    /// Those with anything that may be a worktree, by name. Costs no process.
    pub async fn unheard(&self) -> Result<Vec<Unheard>, StoreError> {
        let mut unheard = self.not_heard_of().await?;
        unheard.retain(|one| one.directories > 0);
        Ok(unheard)
    }

    async fn not_heard_of(&self) -> Result<Vec<Unheard>, StoreError> {
        let heard = self.store().list_codebases().await?.into_iter();
        let heard: HashSet<String> = heard.map(|codebase| codebase.repository_dir).collect();
        let (repositories, base) = (self.settings().home.join("repos"), &self.settings().worktree_base);
        let mut unheard = Vec::new();
        for owner in directories_in(&repositories) {
            for name in directories_in(&repositories.join(&owner)) {
                let Some(name) = name.strip_suffix(".git") else { continue };
                let name = format!("{owner}/{name}");
                let directory = format!("{name}.git");
                let directories = directories_in(&base.join(&name)).len();
                if !heard.contains(&directory) {
                    let address = address_of(&repositories.join(directory)).map(PathBuf::from);
                    unheard.push(Unheard { name, directories, path: address.filter(|path| path.is_absolute()) });
                }
            }
        }
        unheard.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(unheard)
    }

    /// Gives those on this machine their rows again, also where nothing but branches is left: else another repository of the
    /// same name would take over its directory. What fails is told by what is still unheard of afterwards.
    pub(super) async fn meet_again(&self) {
        let unheard = self.not_heard_of().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "what the database has not heard of is not known; the next pass looks again");
            Vec::new()
        });
        for unheard in unheard {
            let Some(new) = self.proven(&unheard).await else { continue };
            match self.store().upsert_local_codebase(new, self.now()).await {
                Ok(codebase) => {
                    tracing::info!(codebase.name = %codebase.name, "a repository on this machine is met again: the database did not know it");
                    self.audit("treewarden", "codebase.met", &codebase.name.to_string(), "").await;
                }
                Err(error) => tracing::warn!(codebase.name = %unheard.name, %error, "a repository is not met again"),
            }
        }
    }

    /// A repository of that name is where the canonical one was copied from, and is what worktrees there are made for.
    async fn proven(&self, Unheard { name, path, .. }: &Unheard) -> Option<NewLocalCodebase> {
        let (name, path): (RepoName, _) = (name.parse().ok()?, path.clone()?);
        let main = self.parts().git.main_repository(&path).await.ok()?;
        let is_called_so = name.is_of_directory(&main);
        (main == path && is_called_so).then_some(NewLocalCodebase { path, name, default_branch: None })
    }
}

/// By name; none where they cannot be read. Hidden ones are the service's own.
fn directories_in(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let names = entries.flatten().filter(is_directory).filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}
