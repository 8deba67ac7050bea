//! What no commit of the service takes in although it is staged or changed: files that the service itself copied in,
//! under whatever name, files that are too large, and submodules that would go back. And whether commits that others made here hold such copies.

use super::Worktree;
use super::status::path_of;
use crate::git::copies::{Known, Manifest};
use crate::git::history::oid;
use crate::git::new_files::{COMMITS_AT_ONCE, NewFile, blobs_in, new_files, parents_of};
use crate::git::registry::AdminEntry;
use crate::git::{GitError, blocking, mode};
use crate::model::{CommitSha, NotTaken, NotTakenBecause};
use git2::{FileMode, Oid, Repository as Objects, Tree};
use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Of larger ones than this that were changed, only the place is known, and of more than this at once.
const MOST_REMEMBERED: u64 = 1024 * 1024;
const MOST_AT_ONCE: usize = 32;

/// Of those that may hold what a copy held, this much is read in one go.
const BYTES_AT_ONCE: u64 = 32 * 1024 * 1024;

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

/// An entry of the index that no commit of ours takes in.
pub(super) struct HeldBack(Staged, NotTakenBecause);

impl From<HeldBack> for NotTaken {
    fn from(HeldBack(Staged { path, .. }, why): HeldBack) -> Self {
        NotTaken { path, why }
    }
}

impl Worktree {
    /// Those of the worktree's own index, or of another one.
    pub(super) async fn held_back(
        &self,
        entry: &AdminEntry,
        index: Option<&Path>,
        head: &CommitSha,
    ) -> Result<Vec<HeldBack>, GitError> {
        let call = self.indexed(entry, "diff-index", index).await?.slow();
        let call = call.args(["--cached", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none", "-z"]);
        let staged = parse(&call.args([head.as_str(), "--"]).ok().await?)?;
        let (copies, head) = (Arc::new(self.copies().await?), oid(head)?);
        let (links, files): (Vec<_>, Vec<_>) =
            staged.into_iter().filter(|staged| !staged.is_gone()).partition(|staged| staged.now.0 == mode::SUBMODULE);
        let known = self.known_among(&copies, files.iter().map(|staged| staged.now.1).collect()).await?;
        let most = self.most_bytes();
        let mut held = self
            .repository
            .read(move |objects| {
                let before = [objects.find_commit(head)?.tree()?];
                let had = if known.is_empty() { HashSet::new() } else { blobs_in(&before)? };
                let mut held = Vec::new();
                for staged in &files {
                    let blob = staged.now.1;
                    let bytes = objects.odb()?.read_header(blob)?.0 as u64;
                    if bytes > most {
                        let why = NotTakenBecause::TooLarge { bytes, most };
                        held.push(HeldBack(staged.clone(), why));
                        continue;
                    }
                    let holds_one = known.contains(&blob) && !had.contains(&blob);
                    if holds_one || copies.comes_to(&before, &staged.path) {
                        held.push(HeldBack(staged.clone(), NotTakenBecause::Copy));
                    }
                }
                Ok(held)
            })
            .await?;
        for link in links.into_iter().filter(|link| link.before.0 == mode::SUBMODULE) {
            if self.goes_back(head, &link.path, link.before.1, link.now.1).await? {
                held.push(HeldBack(link, NotTakenBecause::GoesBack));
            }
        }
        Ok(held)
    }

    /// Puts those entries of the index back to what HEAD has, and answers with what they are about. The files stay as they
    /// are.
    pub(super) async fn withhold(&self, entry: &AdminEntry, head: &CommitSha) -> Result<Vec<NotTaken>, GitError> {
        let held = self.held_back(entry, None, head).await?;
        if !held.is_empty() {
            // `<mode> <id> TAB <path>`; mode 0 takes the entry out.
            let lines = held.iter().flat_map(|HeldBack(Staged { before: (mode, id), path, .. }, _)| {
                [format!("{mode:o} {id}\t").as_bytes(), path.as_os_str().as_encoded_bytes(), b"\0"].concat()
            });
            let call = self.call(entry, "update-index").await?.args(["-z", "--index-info"]);
            call.input(lines.collect()).ok().await?;
        }
        Ok(held.into_iter().map(Into::into).collect())
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
        let (copies, head) = (Arc::new(self.copies().await?), oid(&head)?);
        if copies.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = BTreeSet::new();
        for some in self.made_here(head).await?.chunks(COMMITS_AT_ONCE) {
            let commits = some.to_vec();
            let mut new = self.repository.read(move |objects| new_files(objects, &commits)).await?;
            new.retain(|new| new.mode != FileMode::Commit);
            let known = self.known_among(&copies, new.iter().map(|new| new.blob).collect()).await?;
            let places = copies.clone();
            let copied = self.repository.read(move |objects| places.copied(objects, &new, &known));
            let (copied, changed) = copied.await?;
            found.extend(copied);
            // One that was changed is known by its place here only, and another branch may take it in.
            if !changed.is_empty() {
                let repository = self.repository.directory().to_owned();
                let _turn = self.repository.turn().await;
                blocking(move || Known::add_contents(&repository, &changed)).await?;
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Those of the blobs that hold what a copy held. Each is read once, however many names it has, and others have their turn
    /// in between.
    async fn known_among(&self, copies: &Arc<Copied>, blobs: BTreeSet<Oid>) -> Result<HashSet<Oid>, GitError> {
        let (mut known, mut rest) = (HashSet::new(), Vec::from_iter(blobs));
        while !rest.is_empty() {
            let (copies, some) = (copies.clone(), rest);
            let (found, left) = self
                .repository
                .read(move |objects| {
                    let (mut found, mut read, mut at) = (Vec::new(), 0, 0);
                    while at < some.len() && read < BYTES_AT_ONCE {
                        let blob = some[at];
                        // An agent's may be as large as it likes.
                        let length = objects.odb()?.read_header(blob)?.0 as u64;
                        if copies.known.may_hold(length) {
                            read += length;
                            found.extend(copies.known.holds(objects.find_blob(blob)?.content()).then_some(blob));
                        }
                        at += 1;
                    }
                    Ok((found, some[at..].to_vec()))
                })
                .await?;
            known.extend(found);
            rest = left;
        }
        Ok(known)
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

    /// Whether something new is where a copy is.
    fn comes_to(&self, before: &[Tree<'_>], path: &Path) -> bool {
        self.places.has(path) && !before.iter().any(|tree| tree.get_path(path).is_ok())
    }

    /// Those that are copies, and what is in some of those that are known by their place.
    fn copied(
        &self,
        objects: &Objects,
        new: &[NewFile],
        known: &HashSet<Oid>,
    ) -> Result<(Vec<PathBuf>, Vec<Vec<u8>>), GitError> {
        let (mut paths, mut changed) = (Vec::new(), BTreeSet::new());
        for of_commit in new.chunk_by(|one, next| one.commit == next.commit) {
            let before = parents_of(objects, of_commit[0].commit)?;
            let is_any_known = of_commit.iter().any(|new| known.contains(&new.blob));
            let had = if is_any_known { blobs_in(&before)? } else { HashSet::new() };
            for NewFile { path, blob, .. } in of_commit {
                let is_known = known.contains(blob);
                // One that merely moved is there already.
                if (!is_known || had.contains(blob)) && !self.comes_to(&before, path) {
                    continue;
                }
                paths.push(path.clone());
                let is_small = objects.odb()?.read_header(*blob)?.0 as u64 <= MOST_REMEMBERED;
                if !is_known && changed.len() < MOST_AT_ONCE && is_small {
                    changed.insert(*blob);
                }
            }
        }
        let contents = changed.into_iter().map(|blob| Ok(objects.find_blob(blob)?.content().to_owned()));
        Ok((paths, contents.collect::<Result<_, GitError>>()?))
    }
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
