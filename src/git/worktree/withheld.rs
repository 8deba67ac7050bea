//! What no commit of the service takes in although it is staged or changed: files that the service itself copied in,
//! under whatever name, and submodules that would go back. And whether commits that others made here hold such copies.

use super::Worktree;
use super::status::path_of;
use crate::git::copies::{Known, Manifest};
use crate::git::history::oid;
use crate::git::refs::fetched_tips;
use crate::git::registry::AdminEntry;
use crate::git::{GitError, blocking, mode};
use crate::model::CommitSha;
use git2::{Delta, FileMode, Oid, Repository as Objects, Tree, TreeWalkMode, TreeWalkResult};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Of larger ones than this that were changed, only the place is known.
const MOST_REMEMBERED: u64 = 1024 * 1024;

/// One path whose entry in the index is not HEAD's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Staged {
    before: (u32, Oid),
    now: (u32, Oid),
    path: PathBuf,
}

impl Staged {
    fn is_gone(&self) -> bool {
        self.now.0 == 0
    }
}

impl Worktree {
    /// Puts those entries of the index that no commit of ours takes in back to what HEAD has. The files stay as they are.
    pub(super) async fn withhold(&self, entry: &AdminEntry, head: &CommitSha) -> Result<(), GitError> {
        let call = self.call(entry, "diff-index").await?.slow();
        let call = call.args(["--cached", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none", "-z"]);
        let staged = parse(&call.args([head.as_str(), "--"]).ok().await?)?;
        let (copies, head) = (self.copies().await?, oid(head)?);
        let (links, files): (Vec<_>, Vec<_>) =
            staged.into_iter().filter(|staged| !staged.is_gone()).partition(|staged| staged.now.0 == mode::SUBMODULE);
        let mut back = self
            .repository
            .read(move |objects| {
                let tree = objects.find_commit(head)?.tree()?;
                let mut back = Vec::new();
                for staged in &files {
                    if copies.hold(objects, std::slice::from_ref(&tree), &staged.path, staged.now.1)? {
                        back.push(staged.clone());
                    }
                }
                Ok(back)
            })
            .await?;
        for link in links.into_iter().filter(|link| link.before.0 == mode::SUBMODULE) {
            if self.goes_back(head, &link.path, link.before.1, link.now.1).await? {
                back.push(link);
            }
        }
        if back.is_empty() {
            return Ok(());
        }
        // `<mode> <id> TAB <path>`; mode 0 takes the entry out.
        let lines = back.iter().flat_map(|staged| {
            let (mode, id) = staged.before;
            [format!("{mode:o} {id}\t").as_bytes(), staged.path.as_os_str().as_encoded_bytes(), b"\0"].concat()
        });
        let call = self.call(entry, "update-index").await?.args(["-z", "--index-info"]);
        call.input(lines.collect()).ok().await.map(drop)
    }

    /// Whether a submodule would be recorded at a commit that it was recorded at before, or that the recorded one grew
    /// from. Merges and rebases move what is recorded and leave the checkout where it was, and so does `git add --all` after
    /// them: taken for a change, that would silently undo what people did. Nothing tells it from somebody who does want an
    /// older commit; who does has to commit that themselves, which is never touched. New commits pass; where the submodule does
    /// not have the recorded one, nobody can tell, and that counts as going back.
    async fn goes_back(&self, head: Oid, path: &Path, recorded: Oid, checkout: Oid) -> Result<bool, GitError> {
        let place = self.files.join(path);
        let submodule = place.clone();
        let grew_from = self.look_inside(&submodule, move || {
            // Started by nothing: libgit2 runs no program that the submodule's configuration may name.
            let Ok(submodule) = super::contents::open(&place) else { return Ok(false) };
            Ok(submodule.graph_descendant_of(recorded, checkout).unwrap_or(true))
        });
        if grew_from.await.unwrap_or(true) {
            return Ok(true);
        }
        let path = path.to_owned();
        self.repository
            .read(move |objects| {
                let mut walk = objects.revwalk()?;
                walk.push(head)?;
                for commit in walk {
                    let entry = objects.find_commit(commit?)?.tree()?.get_path(&path);
                    if entry.is_ok_and(|entry| entry.id() == checkout) {
                        return Ok(true);
                    }
                }
                Ok(false)
            })
            .await
    }

    async fn copies(&self) -> Result<Copied, GitError> {
        let (places, repository) = (self.copies_of_branch().await?, self.repository.directory().to_owned());
        blocking(move || Ok(Copied { places, known: Known::load(&repository)? })).await
    }

    /// Files that the service copied in and that commits made here hold, by the names they have there. What the remote has
    /// already is no news. Whoever pushes such commits gives away what was meant to stay on this server.
    pub async fn copies_in_commits(&self) -> Result<Vec<PathBuf>, GitError> {
        let Some(head) = self.head().await?.sha else { return Ok(Vec::new()) };
        let (copies, head) = (self.copies().await?, oid(&head)?);
        if copies.is_empty() {
            return Ok(Vec::new());
        }
        let (found, blobs) = self
            .repository
            .read(move |objects| {
                let (mut found, mut blobs) = (BTreeSet::new(), Vec::new());
                let mut walk = objects.revwalk()?;
                walk.push(head)?;
                for fetched in fetched_tips(objects)? {
                    let (_, tip) = fetched?;
                    // One that is not here hides nothing.
                    if objects.find_commit(tip).is_ok() {
                        walk.hide(tip)?;
                    }
                }
                for commit in walk {
                    for (path, blob) in copies.brought_by(objects, &objects.find_commit(commit?)?)? {
                        found.insert(path);
                        if objects.odb()?.read_header(blob)?.0 as u64 <= MOST_REMEMBERED {
                            blobs.push(objects.find_blob(blob)?.content().to_owned());
                        }
                    }
                }
                Ok((found.into_iter().collect(), blobs))
            })
            .await?;
        // One that was changed is known by its place here only, and another branch may take it in.
        if !blobs.is_empty() {
            let repository = self.repository.directory().to_owned();
            let _turn = self.repository.turn().await;
            blocking(move || Known::add_contents(&repository, &blobs)).await?;
        }
        Ok(found)
    }
}

/// How copies are known again: by where they are, and by what is in them.
struct Copied {
    places: Manifest,
    known: Known,
}

impl Copied {
    fn is_empty(&self) -> bool {
        self.places.is_empty() && self.known.is_empty()
    }

    /// Whether a blob at `path` is a copy that none of the trees before had.
    fn hold(&self, objects: &Objects, before: &[Tree<'_>], path: &Path, blob: Oid) -> Result<bool, GitError> {
        let here_before = before.iter().any(|tree| tree.get_path(path).is_ok());
        if self.places.has(path) && !here_before {
            return Ok(true);
        }
        // An agent's may be as large as it likes.
        let length = objects.odb()?.read_header(blob)?.0 as u64;
        let is_known = self.known.may_hold(length) && self.known.holds(objects.find_blob(blob)?.content());
        Ok(is_known && !has_blob(before, blob)?)
    }

    /// The copies that this very commit adds.
    fn brought_by(&self, objects: &Objects, commit: &git2::Commit<'_>) -> Result<Vec<(PathBuf, Oid)>, GitError> {
        let tree = commit.tree()?;
        let before = commit.parents().map(|parent| parent.tree()).collect::<Result<Vec<_>, _>>()?;
        let mut brought = Vec::new();
        for delta in objects.diff_tree_to_tree(before.first(), Some(&tree), None)?.deltas() {
            let file = delta.new_file();
            let Some(path) = file.path_bytes().map(path_of).filter(|_| delta.status() != Delta::Deleted) else {
                continue;
            };
            if file.mode() != FileMode::Commit && self.hold(objects, &before, &path, file.id())? {
                brought.push((path, file.id()));
            }
        }
        Ok(brought)
    }
}

/// Whether a blob is anywhere in the trees.
fn has_blob(trees: &[Tree<'_>], blob: Oid) -> Result<bool, GitError> {
    for tree in trees {
        let mut found = false;
        let walked = tree.walk(TreeWalkMode::PreOrder, |_, entry| {
            found |= entry.id() == blob;
            if found { TreeWalkResult::Abort } else { TreeWalkResult::Ok }
        });
        if found {
            return Ok(true);
        }
        walked?;
    }
    Ok(false)
}

/// `:<mode> <mode> <id> <id> <status> NUL <path> NUL`, as git-diff-index(1) describes `--raw -z`.
fn parse(output: &[u8]) -> Result<Vec<Staged>, GitError> {
    let odd = || GitError::Unreadable("git listed an odd difference".to_owned());
    let fields: Vec<&[u8]> = output.split(|byte| *byte == 0).filter(|field| !field.is_empty()).collect();
    let records = fields.chunks(2).map(|record| {
        let [facts, path] = record else { return None };
        let facts: Vec<&str> = std::str::from_utf8(facts).ok()?.strip_prefix(':')?.split(' ').collect();
        let [before, now, before_id, now_id, _] = facts[..] else { return None };
        let mode = |text| u32::from_str_radix(text, 8).ok();
        Some(Staged {
            before: (mode(before)?, Oid::from_str(before_id).ok()?),
            now: (mode(now)?, Oid::from_str(now_id).ok()?),
            path: path_of(path),
        })
    });
    records.map(|record| record.ok_or_else(odd)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_understood_whatever_the_names() {
        let (one, two) = ("1".repeat(40), "0".repeat(40));
        let output = format!(":160000 160000 {one} {one} M\0sub\0:000000 100644 {two} {one} A\0a b\nc\0");
        let parsed = parse(output.as_bytes()).unwrap();
        assert!(parsed[0].now.0 == mode::SUBMODULE && parsed[0].path == Path::new("sub"));
        assert!(parsed[1].before.0 == 0 && !parsed[1].is_gone() && parsed[1].path == Path::new("a b\nc"));
        for odd in ["x\0y\0", ":100644 100644 1 2 M\0"] {
            assert!(parse(odd.as_bytes()).is_err(), "{odd}");
        }
    }
}
