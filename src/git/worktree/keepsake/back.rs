//! The way back of a keepsake into a new worktree.

use super::{IGNORED, INDEX, MODES, RIGHTS};
use crate::git::history::oid;
use crate::git::worktree::{Worktree, path_of};
use crate::git::{GitError, blocking, mode, place};
use crate::model::CommitSha;
use git2::{Delta, ObjectType, Oid, Tree};
use std::{
    collections::HashMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

/// Files that are written between two looks at the time limit.
const AT_ONCE: usize = 100;

impl Worktree {
    /// Puts what [`Worktree::keep`] kept back into a worktree in which nobody has worked yet; repeatable. What was staged
    /// is staged again. Answers with the files that the branch has changed since, which are left to people.
    pub async fn bring_back(&self, keepsake: &CommitSha) -> Result<Vec<String>, GitError> {
        let entry = self.entry().await?;
        let Some(head) = self.head().await?.sha else {
            return Err(GitError::refused("the worktree's branch has no commit any more"));
        };
        let (id, at) = (oid(keepsake)?, oid(&head)?);
        let plan = self.repository.read(move |repository| plan(repository, id, at)).await?;
        let (files, gone) = (self.files.clone(), plan.gone);
        blocking(move || {
            let root = place::open_root(&files).map_err(|error| GitError::file("opening", &files, &error))?;
            for path in &gone {
                place::remove(&root, path).map_err(|error| GitError::file("removing", path, &error))?;
                place::prune(&root, path);
            }
            Ok(())
        })
        .await?;
        let mut blobs = plan.files;
        while !blobs.is_empty() {
            let later = blobs.split_off(blobs.len().min(AT_ONCE));
            let (files, now) = (self.files.clone(), std::mem::replace(&mut blobs, later));
            self.repository.read(move |repository| write_all(repository, &files, &now)).await?;
        }
        if !plan.index.is_empty() {
            let call = self.raw_call(&entry, "update-index", None).await?;
            call.args(["--replace", "-z", "--index-info"]).input(plan.index).ok().await?;
        }
        Ok(plan.left)
    }
}

fn write_all(repository: &git2::Repository, files: &Path, blobs: &[Blob]) -> Result<(), GitError> {
    let root = place::open_root(files).map_err(|error| GitError::file("opening", files, &error))?;
    for Blob { path, id, mode } in blobs {
        let blob = repository.find_blob(*id)?;
        let written = match *mode {
            mode::LINK => place::link(&root, path, OsStr::from_bytes(blob.content())),
            mode => place::write(&root, path, blob.content(), mode & RIGHTS),
        };
        written.map_err(|error| GitError::file("writing", path, &error))?;
    }
    Ok(())
}

struct Blob {
    path: PathBuf,
    id: Oid,
    /// [`mode::LINK`], or the file's rights.
    mode: u32,
}

/// What is to be done to a checkout.
struct Plan {
    gone: Vec<PathBuf>,
    files: Vec<Blob>,
    index: Vec<u8>,
    /// For people.
    left: Vec<String>,
}

fn plan(repository: &git2::Repository, keepsake: Oid, head: Oid) -> Result<Plan, GitError> {
    let commit = repository.find_commit(keepsake)?;
    let (base, beside) = (commit.parent(0)?, commit.parent(1)?.tree()?);
    let note = |name: &str| -> Result<Vec<u8>, GitError> {
        let entry = beside.get_name(name).ok_or_else(|| GitError::Unreadable(format!("a keepsake has no {name}")))?;
        Ok(repository.find_blob(entry.id())?.content().to_vec())
    };
    let modes = modes(&note(MODES)?);
    let mode_of = |path: &Path, recorded: u32| match recorded {
        mode::LINK => mode::LINK,
        _ => modes.get(path).copied().unwrap_or(recorded & RIGHTS),
    };
    let (then, now) = (base.tree()?, repository.find_commit(head)?.tree()?);
    let mut plan = Plan { gone: Vec::new(), files: Vec::new(), index: note(INDEX)?, left: Vec::new() };
    for delta in repository.diff_tree_to_tree(Some(&then), Some(&commit.tree()?), None)?.deltas() {
        let (old, new) = (delta.old_file(), delta.new_file());
        let path = path_of(new.path_bytes().or(old.path_bytes()).unwrap_or_default());
        let recorded = u32::from(new.mode());
        match delta.status() {
            Delta::Deleted if is_same(&then, &now, &path) => plan.gone.push(path),
            Delta::Deleted if found(&now, &path).is_none() => {}
            Delta::Added | Delta::Modified | Delta::Typechange if is_same(&then, &now, &path) => {
                plan.files.push(Blob { mode: mode_of(&path, recorded), id: new.id(), path });
            }
            _ => plan.left.push(path.display().to_string()),
        }
    }
    let mut pending: Vec<_> = beside.get_name(IGNORED).map(|entry| (PathBuf::new(), entry.id())).into_iter().collect();
    while let Some((directory, id)) = pending.pop() {
        for entry in repository.find_tree(id)?.iter() {
            let path = directory.join(path_of(entry.name_bytes()));
            let recorded = u32::try_from(entry.filemode()).unwrap_or_default();
            match entry.kind() {
                Some(ObjectType::Tree) => pending.push((path, entry.id())),
                _ if is_same(&then, &now, &path) => {
                    plan.files.push(Blob { mode: mode_of(&path, recorded), id: entry.id(), path });
                }
                _ => plan.left.push(path.display().to_string()),
            }
        }
    }
    let staged = std::mem::take(&mut plan.index);
    for record in staged.split_inclusive(|byte| *byte == 0) {
        let tab = record.iter().position(|byte| *byte == b'\t').map_or(0, |tab| tab + 1);
        let path = path_of(record[tab..].strip_suffix(b"\0").unwrap_or(&record[tab..]));
        match is_same(&then, &now, &path) {
            true => plan.index.extend_from_slice(record),
            false => plan.left.push(path.display().to_string()),
        }
    }
    plan.left.sort();
    plan.left.dedup();
    let mut paths = plan.gone.iter().chain(plan.files.iter().map(|file| &file.path));
    match paths.find(|path| !stays_inside(path)) {
        Some(path) => Err(GitError::refused(format!(
            "a keepsake names {}, which no checkout has, so somebody made or changed it; nothing was brought back, the \
                 keepsake stays, and `git show` with its commit in the service's repository shows what is in it",
            path.display()
        ))),
        None => Ok(plan),
    }
}

/// Whoever can write objects and refs of the repository can write a keepsake, too, with any names in its trees.
fn stays_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git")))
}

/// Whether two trees have the same, or nothing, at a path, and neither has a file where one of its directories is.
fn is_same(then: &Tree<'_>, now: &Tree<'_>, path: &Path) -> bool {
    path.ancestors().filter(|part| !part.as_os_str().is_empty()).all(|part| {
        let is_tree = |found: Option<(Oid, u32)>| found.is_none_or(|(_, mode)| mode == mode::DIRECTORY);
        let (before, after) = (found(then, part), found(now, part));
        // Other things in the same directory are nobody's business here.
        before == after || (part != path && is_tree(before) && is_tree(after))
    })
}

fn found(tree: &Tree<'_>, path: &Path) -> Option<(Oid, u32)> {
    let entry = tree.get_path(path).ok()?;
    Some((entry.id(), u32::try_from(entry.filemode()).unwrap_or_default()))
}

/// `<mode> TAB <path> NUL`
fn modes(note: &[u8]) -> HashMap<PathBuf, u32> {
    let lines = note.split(|byte| *byte == 0).filter_map(|line| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let mode = u32::from_str_radix(std::str::from_utf8(&line[..tab]).ok()?, 8).ok()?;
        Some((path_of(&line[tab + 1..]), mode))
    });
    lines.collect()
}
