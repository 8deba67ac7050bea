//! Mends what ties a worktree's files to the repository, when an agent (or a hand that slipped) has cut it. Files are never
//! touched: what differs from the branch afterwards is what differed before.

use super::super::registry::{self, AdminEntry, LOCK_REASON};
use super::super::{GitError, blocking};
use super::{Worktree, belongs};
use crate::model::BranchName;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

impl Worktree {
    /// Writes the `.git` file, or the admin entry, of a worktree of ours anew, on `branch`. False: there is nothing to
    /// mend, or not enough left to mend it with; then nothing was changed.
    pub async fn repair(&self, branch: &BranchName) -> Result<bool, GitError> {
        let (worktree, branch) = (self.clone(), branch.clone());
        self.repository.to_the_end(async move { worktree.mend(&branch).await }).await
    }

    async fn mend(&self, branch: &BranchName) -> Result<bool, GitError> {
        let _turn = self.repository.turn().await;
        if self.repository.tip(&branch.full_ref()).await?.is_none() {
            return Ok(false);
        }
        let (repository, path, wanted) = (self.repository.directory().to_owned(), self.path.clone(), branch.clone());
        let Some(made) = blocking(move || mend(&repository, &path, &wanted)).await? else { return Ok(false) };
        tracing::warn!(git.directory = %self.path.display(), "the worktree's registration was mended");
        if made {
            // The index as the branch has it; the files stay as they are.
            self.call(&self.entry().await?, "read-tree").await?.arg("HEAD").ok().await?;
        }
        Ok(true)
    }
}

/// What was mended: true when the entry had to be made anew, and has no index yet.
fn mend(repository: &Path, path: &Path, branch: &BranchName) -> Result<Option<bool>, GitError> {
    let link = path.join(".git");
    if let Some(entry) = registry::find(repository, path)? {
        // Registered: only the way back may be missing. Anything else at its place is somebody's.
        let absent = fs::symlink_metadata(&link).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if absent && belongs(&entry, repository) && !entry.is_half_made()? {
            write(&link, &format!("gitdir: {}\n", entry.directory.display()))?;
            return Ok(Some(false));
        }
        return Ok(None);
    }
    let registry = repository.join("worktrees");
    let Some(directory) = registry::linked_from(path).filter(|linked| linked.parent() == Some(&registry)) else {
        return Ok(None);
    };
    let entry = AdminEntry { directory };
    if entry.directory.exists() {
        if entry.lock()?.as_deref() != Some(LOCK_REASON) || serves_another(&entry, path) {
            return Ok(None);
        }
        write(&entry.directory.join("commondir"), "../..\n")?;
        write(&entry.directory.join("gitdir"), &format!("{}\n", link.display()))?;
        return Ok(Some(false));
    }
    fs::create_dir_all(&entry.directory).map_err(|error| GitError::file("making", &entry.directory, &error))?;
    let lines = [
        ("locked", LOCK_REASON.to_owned()),
        ("commondir", "../..\n".to_owned()),
        ("HEAD", format!("ref: {}\n", branch.full_ref())),
        (registry::COMPLETE, String::new()),
        ("gitdir", format!("{}\n", link.display())),
    ];
    for (name, text) in lines {
        write(&entry.directory.join(name), &text)?;
    }
    Ok(Some(true))
}

/// Whether the entry is registered for another worktree that is there and names it.
fn serves_another(entry: &AdminEntry, path: &Path) -> bool {
    let other = entry.git_file().and_then(|file| file.parent().map(PathBuf::from));
    other.is_some_and(|other| {
        other != path && registry::linked_from(&other).as_deref() == Some(entry.directory.as_path())
    })
}

fn write(path: &Path, text: &str) -> Result<(), GitError> {
    fs::write(path, text).map_err(|error| GitError::file("writing", path, &error))
}
