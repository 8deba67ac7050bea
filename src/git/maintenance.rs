//! Upkeep of a canonical repository: what is new is packed, and now and then everything, so that it does not become slow and
//! large. Never is anything dropped: agents, indexes and stashes hold objects that no ref names, and what was removed is
//! promised for its time. So there is no `gc`, no `prune`, no `repack` that leaves out what nothing leads to, and no `worktree
//! prune`. Nor is a commit graph, or an index of many packs, written: git believes both without looking, and what an agent
//! puts there is taken out ([`super::own_files`]).
//!
//! Objects are packed beside everybody's work, since git takes an old pack away only once the new one is in its place, and who
//! misses one looks again. Only refs are packed in the repository's turn.

use super::error::GitError;
use super::packs::clear_unfinished;
use super::refs::LASTING;
use super::repository::Repository;
use super::{blocking, own_files::PACKS};
use crate::model::ObjectStore;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// One thread and little memory, beside the agents; and no bitmaps, which git believes as it does a commit graph.
const MODEST: &[&str] =
    &[LASTING, "pack.threads=1", "pack.windowMemory=64m", "pack.deltaCacheSize=64m", "repack.writeBitmaps=false"];

impl Repository {
    /// Counts. Refuses where objects lie elsewhere, behind a link: nothing is taken away there.
    pub async fn object_store(&self) -> Result<ObjectStore, GitError> {
        let directory = self.directory().to_owned();
        blocking(move || count(&directory)).await
    }

    /// Takes refs that have a file each together into one. Their logs stay.
    pub async fn pack_refs(&self) -> Result<(), GitError> {
        let repository = self.clone();
        self.to_the_end(async move {
            let _turn = repository.turn().await;
            match repository.pack_refs_now().await {
                Err(error) if repository.clear_leftovers(None, &error).await? => repository.pack_refs_now().await,
                packed => packed,
            }
        })
        .await
    }

    async fn pack_refs_now(&self) -> Result<(), GitError> {
        let call = self.bare_call_with(&[LASTING], "pack-refs").await?;
        call.arg("--all").ok().await.map(drop)
    }

    /// Packs what is new: objects with a file each, whether or not anything leads to them, and small packs, so that each is at
    /// least twice the next. git-repack(1), `--geometric`: "without respect to their reachability".
    pub async fn pack_new(&self) -> Result<(), GitError> {
        self.repack(&["--geometric=2"]).await
    }

    /// Packs everything into one. git-repack(1), `--keep-unreachable`: what nothing leads to is put behind it, loose or packed.
    pub async fn pack_everything(&self) -> Result<(), GitError> {
        self.repack(&["-a", "--keep-unreachable"]).await
    }

    async fn repack(&self, how: &[&str]) -> Result<(), GitError> {
        // It lacks something that the next fetch brings.
        if !self.is_whole()? {
            return Err(GitError::refused("the repository is not whole; the next fetch makes it so"));
        }
        let directory = self.directory().to_owned();
        blocking(move || {
            count(&directory)?;
            clear_unfinished(&directory, SystemTime::now());
            Ok(())
        })
        .await?;
        let call = self.bare_call_with(MODEST, "repack").await?.slow().gently();
        // `-d` takes away what is in the new pack, and nothing else; `-n` writes nothing for dumb servers.
        call.args(["-d", "-q", "-n"]).args(how).ok().await.map(drop)
    }
}

fn count(repository: &Path) -> Result<ObjectStore, GitError> {
    let objects = repository.join("objects");
    let mut store = ObjectStore { free_bytes: free(repository)?, ..ObjectStore::default() };
    refuse_link(&objects)?;
    for (path, _) in inside(&objects)? {
        let is_fan_out = path
            .file_name()
            .is_some_and(|name| name.len() == 2 && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit));
        if !is_fan_out {
            continue;
        }
        refuse_link(&path)?;
        for (_, meta) in inside(&path)? {
            store.loose += 1;
            store.loose_bytes += meta.len();
        }
    }
    refuse_link(&repository.join(PACKS))?;
    for (path, meta) in inside(&repository.join(PACKS))? {
        store.pack_bytes += meta.len();
        if path.extension() == Some("pack".as_ref()) {
            store.packs += 1;
            store.largest_bytes = store.largest_bytes.max(meta.len());
        }
    }
    Ok(store)
}

fn refuse_link(path: &Path) -> Result<(), GitError> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => Err(GitError::refused(format!(
            "{} is a link: what lies behind it is not the service's to pack, and is left as it is",
            path.display()
        ))),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What vanishes meanwhile is packed, or somebody's.
fn inside(directory: &Path) -> Result<Vec<(PathBuf, fs::Metadata)>, GitError> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?))).collect()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(GitError::file("reading", directory, &error)),
    }
}

fn free(directory: &Path) -> Result<u64, GitError> {
    let told =
        rustix::fs::statvfs(directory).map_err(|error| GitError::file("looking at", directory, &error.into()))?;
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}
