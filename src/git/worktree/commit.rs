//! Turning files into commits, by plumbing only: no hook, editor, template or signature program has a part in it, and
//! refs move by compare-and-swap.

use super::keepsake::copy_index;
use super::status::{Change, Kind};
use super::{Head, Worktree};
use crate::git::command::Call;
use crate::git::history::oid;
use crate::git::own_files::look;
use crate::git::registry::AdminEntry;
use crate::git::{GitError, blocking};
use crate::model::{BranchName, CommitSha, NotTaken, NotTakenBecause};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// How often staging is tried by ever smaller parts; what is refused after that is left out as it is.
const MOST_TRIES: usize = 1000;

/// More than GitHub takes of one file. Source: its documentation, "About large files on GitHub".
const MOST_BYTES: u64 = 100 * 1024 * 1024;

/// The same of one that LFS keeps, on any plan. Source: "About Git Large File Storage".
const MOST_LFS_BYTES: u64 = 5 * 1024 * 1024 * 1024;

/// As in "Unable to process path x" and "BOM is required in 'x' if …".
fn is_named(stderr: &str, path: &Path) -> bool {
    let path = path.to_string_lossy();
    stderr.lines().any(|line| line.strip_suffix(&*path).is_some_and(|begin| begin.ends_with("path ")))
        || stderr.contains(&format!("'{path}'"))
}

/// The words of git's `lockfile.c` and `read-cache.c`.
fn is_about_index(stderr: &str) -> bool {
    [".lock': ", "index file"].iter().any(|words| stderr.contains(words))
}

/// What makes a commit.
pub(super) const COMMIT: &str = "commit-tree";

/// A name and an address, as commits show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    pub name: String,
    pub email: String,
}

impl Ident {
    /// Characters that end a field of a commit are left out.
    fn cleaned(text: &str) -> String {
        let text: String = text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect();
        if text.trim().is_empty() { "unknown".to_owned() } else { text.trim().to_owned() }
    }
}

/// A commit of everything that is not committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    pub message: String,
    pub author: Ident,
    pub committer: Ident,
    pub co_authors: Vec<Ident>,
    /// The branch it is meant for; nothing is committed when the worktree is on another.
    pub branch: BranchName,
}

impl CommitRequest {
    fn full_message(&self) -> String {
        let mut message = format!("{}\n", self.message.trim_end());
        for (index, person) in self.co_authors.iter().enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            let (name, email) = (Ident::cleaned(&person.name), Ident::cleaned(&person.email));
            message.push_str(&format!("{gap}Co-authored-by: {name} <{email}>\n"));
        }
        message
    }
}

/// What a commit takes in, and what it does not.
struct ToStage {
    /// What differs from HEAD and is to be brought into the index.
    changed: Vec<PathBuf>,
    /// What may not be looked at or is too large.
    not_taken: Vec<NotTaken>,
    /// The index lacks something that HEAD has. It is left like that: what git ignores would not be added by anybody.
    anything_is_taken_out: bool,
}

impl Worktree {
    /// Commits all changes and untracked files to the branch. `None`: there is nothing to commit. Repositories that lie
    /// inside stay untracked: a commit would keep none of their content. What the service copied in stays out, staged or
    /// renamed, and a submodule is never put back to a commit it was recorded at before. What git does not take is left out
    /// ([`Worktree::not_taken`]).
    pub async fn commit_all(&self, request: &CommitRequest) -> Result<Option<CommitSha>, GitError> {
        let entry = self.entry().await?;
        if let Some(operation) = self.known_operation().await? {
            return Err(GitError::Unfinished(format!("a {operation} is in progress in the worktree")));
        }
        let head = self.head().await?;
        if head.branch.as_ref() != Some(&request.branch) {
            return Err(GitError::refused(format!("the worktree is not on the branch {}", request.branch)));
        }
        // A branch without a commit was deleted under the worktree: a commit on it would have no history.
        if head.sha.is_none() {
            return Err(GitError::refused(format!("the branch {} has no commit any more", request.branch)));
        }
        // Without an index everything would look taken out.
        if look(&entry.directory.join("index"))?.is_none()
            && let Some(head) = &head.sha
        {
            self.call(&entry, "read-tree").await?.arg(head.as_str()).ok().await?;
        }
        self.show_what_is_there(&entry).await?;
        let Some(tree) = self.stage(&entry, &head).await? else { return Ok(None) };
        let people = (&request.author, &request.committer);
        let parents: Vec<_> = head.sha.iter().collect();
        let call = self.call(&entry, COMMIT).await?;
        let commit = commit(call, &tree, &parents, people, &request.full_message()).await?;
        let full = request.branch.full_ref();
        let _turn = self.repository.turn().await;
        let moved = self.repository.set_ref_in_turn(&full, &commit, head.sha.as_ref()).await?;
        match moved {
            true => Ok(Some(commit)),
            false => Err(GitError::moved_meanwhile(format_args!("the branch {}", request.branch))),
        }
    }

    /// Moves `branch` and the files to a later commit. Refuses when the worktree is on another branch, anything is
    /// uncommitted or in the way, an operation is in progress, or the branch has commits that `to` has not. Submodules stay
    /// where they are until [`Worktree::bring_submodules_along`].
    pub async fn fast_forward(&self, branch: &BranchName, to: &CommitSha) -> Result<(), GitError> {
        let (worktree, branch, to) = (self.clone(), branch.clone(), to.clone());
        self.repository.to_the_end(async move { worktree.move_forward(&branch, &to).await }).await
    }

    async fn move_forward(&self, branch: &BranchName, to: &CommitSha) -> Result<(), GitError> {
        let (entry, from) = self.movable(branch).await?;
        if !self.repository.is_ancestor(&from, to).await? {
            return Err(GitError::refused("the branch has commits of its own"));
        }
        self.repository.restore_way(&branch.full_ref()).await?;
        let _turn = self.repository.turn().await;
        let merged = match self.merge(&entry, to).await {
            Err(error) if self.repository.clear_leftovers(Some(&entry.directory), &error).await? => {
                self.merge(&entry, to).await
            }
            result => result,
        };
        self.or_in_the_way(merged, branch, &from).await
    }

    async fn merge(&self, entry: &AdminEntry, to: &CommitSha) -> Result<(), GitError> {
        let call = self.call(entry, "merge").await?.slow();
        let call = call.args(["--ff-only", "--quiet", "--no-stat", "--no-autostash", "--no-overwrite-ignore"]);
        call.args(["--end-of-options", to.as_str()]).ok().await.map(drop)
    }

    /// Moves `branch` and the files from `from` to any other commit, and keeps `from` under `keep`. Refuses when the
    /// worktree is on another branch or commit, anything is uncommitted or in the way, or an operation is in progress.
    /// Submodules stay where they are until [`Worktree::bring_submodules_along`].
    pub async fn move_aside(
        &self,
        branch: &BranchName,
        from: &CommitSha,
        to: &CommitSha,
        keep: &str,
    ) -> Result<(), GitError> {
        let (worktree, branch, from, to, keep) =
            (self.clone(), branch.clone(), from.clone(), to.clone(), keep.to_owned());
        let moved = async move { worktree.move_over(&branch, &from, &to, &keep).await };
        self.repository.to_the_end(moved).await
    }

    async fn move_over(
        &self,
        branch: &BranchName,
        from: &CommitSha,
        to: &CommitSha,
        keep: &str,
    ) -> Result<(), GitError> {
        let (entry, at) = self.movable(branch).await?;
        if at != *from {
            return Err(GitError::moved_meanwhile(format_args!("the branch {branch}")));
        }
        self.repository.set_ref(keep, from, None).await?;
        if self.repository.tip(keep).await?.as_ref() != Some(from) {
            return Err(GitError::refused(format!("{keep} holds something else")));
        }
        self.repository.restore_way(&branch.full_ref()).await?;
        let _turn = self.repository.turn().await;
        // Once more, now that nothing else of ours can move it.
        if self.head().await?.sha.as_ref() != Some(from) {
            return Err(GitError::moved_meanwhile(format_args!("the branch {branch}")));
        }
        let moved = match self.check_out(&entry, branch, to).await {
            Err(error) if self.repository.clear_leftovers(Some(&entry.directory), &error).await? => {
                self.check_out(&entry, branch, to).await
            }
            result => result,
        };
        self.or_in_the_way(moved, branch, from).await
    }

    /// Git looks at all places before it writes to one: with everything still at `from`, it is a file that git ignores which
    /// it did not want to overwrite.
    async fn or_in_the_way(
        &self,
        moved: Result<(), GitError>,
        branch: &BranchName,
        from: &CommitSha,
    ) -> Result<(), GitError> {
        match moved {
            Err(GitError::Failed { status: Some(1), stderr, .. })
                if self.movable(branch).await.is_ok_and(|(_, at)| at == *from) =>
            {
                Err(GitError::refused(format!("a file that git ignores lies in the place of one of theirs ({stderr})")))
            }
            result => result,
        }
    }

    async fn check_out(&self, entry: &AdminEntry, branch: &BranchName, to: &CommitSha) -> Result<(), GitError> {
        let call = self.call(entry, "checkout").await?.slow();
        let call =
            call.args(["--quiet", "--no-track", "--no-overwrite-ignore", "-B", branch.as_str(), to.as_str(), "--"]);
        call.ok().await.map(drop)
    }

    /// The commit of a worktree on `branch` in which nothing is unfinished.
    async fn movable(&self, branch: &BranchName) -> Result<(AdminEntry, CommitSha), GitError> {
        let entry = self.entry().await?;
        let head = self.head().await?;
        let status = self.known_status().await.map_err(|error| match error {
            GitError::Unreadable(why) => GitError::refused(format!("not all of its files can be looked at: {why}")),
            error => error,
        })?;
        let Some(at) = head.sha.filter(|_| head.branch.as_ref() == Some(branch)) else {
            return Err(GitError::refused(format!("the worktree is not on the branch {branch}")));
        };
        if !status.is_clean() || self.known_operation().await?.is_some() {
            return Err(GitError::refused("the worktree has uncommitted changes"));
        }
        Ok((entry, at))
    }

    /// What [`Worktree::commit_all`] leaves behind since the service may not read it, git cannot convert it, it is too large, or it is withheld.
    pub async fn not_taken(&self) -> Result<Vec<NotTaken>, GitError> {
        let entry = self.entry().await?;
        let ToStage { changed, mut not_taken, .. } = self.to_be_staged(&entry).await?;
        if !changed.is_empty() {
            let scratch = self.repository.scratch()?;
            let index = scratch.path().join("index");
            let (from, to) = (entry.directory.join("index"), index.clone());
            blocking(move || copy_index(&from, &to)).await?;
            not_taken.extend(self.take_in(&entry, Some(&index), changed).await?);
            if let Some(head) = self.head().await?.sha {
                not_taken.extend(self.held_back(&entry, Some(&index), &head).await?.into_iter().map(Into::into));
            }
        }
        Ok(not_taken)
    }

    async fn to_be_staged(&self, entry: &AdminEntry) -> Result<ToStage, GitError> {
        // By names, not by `git add --all`, which runs git inside submodules, with configuration an agent can write.
        let (changes, mut closed) = self.changes_in_sight(entry).await?;
        // Not every operation that leaves them leaves a file by which it is known: `git stash pop` does not.
        if let Some(Change { path, .. }) = changes.iter().find(|change| change.kind == Kind::Conflicted) {
            return Err(GitError::Unfinished(format!(
                "there are conflicts in {} that nobody has resolved (`git add` says that one is)",
                path.display()
            )));
        }
        // Copies are out of sight already, unless somebody changed what git ignores.
        let copies = self.copies_of_branch().await?;
        let is_copy = |change: &Change| change.kind == Kind::Untracked && copies.has(&change.path);
        let (taken_out, changes): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| change.kind == Kind::TakenOut);
        let changes = changes.into_iter().filter(|change| !is_copy(change)).map(|change| change.path);
        let mut changed: Vec<_> = changes.filter(|path| !is_repository(path)).collect();
        // A branch goes out, so nothing is in it as a blob that LFS is to keep.
        let blobs = self.not_pointers(&changed).await?;
        changed.retain(|path| !blobs.contains(path));
        closed.extend(self.take_out_large(&mut changed).await?);
        Ok(ToStage { changed, not_taken: closed, anything_is_taken_out: !taken_out.is_empty() })
    }

    /// How large a file may be that a commit takes in; a repository on this machine takes any.
    pub(super) fn most_bytes(&self) -> u64 {
        if self.repository.is_of_this_machine() { u64::MAX } else { MOST_BYTES }
    }

    /// Nobody waits until git has read what no remote takes.
    async fn take_out_large(&self, changed: &mut Vec<PathBuf>) -> Result<Vec<NotTaken>, GitError> {
        let (files, paths, most) = (self.files.clone(), changed.clone(), self.most_bytes());
        let lengths = move || {
            let length = |path: &Path| fs::symlink_metadata(files.join(path)).ok().filter(|meta| meta.is_file());
            let lengths = paths.into_iter().filter_map(|path| Some((length(&path)?.len(), path)));
            Ok(lengths.filter(|(bytes, _)| *bytes > most).collect::<Vec<_>>())
        };
        let large = blocking(lengths).await?;
        let paths: Vec<_> = large.iter().map(|(_, path)| path.clone()).collect();
        let kept = self.kept_by_lfs(&paths).await?;
        let most_of = |path: &PathBuf| if kept.contains(path) { MOST_LFS_BYTES } else { most };
        let large = large.into_iter().map(|(bytes, path)| {
            let why = NotTakenBecause::TooLarge { bytes, most: most_of(&path) };
            (bytes > most_of(&path), NotTaken { path, why })
        });
        let large: Vec<_> = large.filter_map(|(is_too_large, large)| is_too_large.then_some(large)).collect();
        let out: HashSet<&Path> = large.iter().map(|large| &*large.path).collect();
        changed.retain(|path| !out.contains(&**path));
        Ok(large)
    }

    /// Stages everything and answers with the tree; `None` when it is HEAD's.
    async fn stage(&self, entry: &AdminEntry, head: &Head) -> Result<Option<String>, GitError> {
        let ToStage { changed, anything_is_taken_out, .. } = self.to_be_staged(entry).await?;
        if changed.is_empty() && !anything_is_taken_out {
            return Ok(None);
        }
        let mut left: Vec<NotTaken> = self.take_in(entry, None, changed).await?;
        if let Some(head) = &head.sha {
            left.extend(self.withhold(entry, head).await?);
        }
        for NotTaken { path, why } in left {
            tracing::warn!(path = %path.display(), reason = ?why, "not committed; it stays in the worktree");
        }
        let output = self.call(entry, "write-tree").await?.ok().await?;
        let tree = String::from_utf8_lossy(&output).trim_end().to_owned();
        let Some(sha) = &head.sha else { return Ok(Some(tree)) };
        let id = oid(sha)?;
        let present = self.repository.read(move |repository| Ok(repository.find_commit(id)?.tree_id())).await?;
        Ok((present.to_string() != tree).then_some(tree))
    }

    /// Everything in sight that differs from HEAD, repositories inside apart.
    pub(in crate::git) async fn changed_paths(&self) -> Result<Vec<PathBuf>, GitError> {
        let (changes, _) = self.changes_in_sight(&self.entry().await?).await?;
        Ok(changes.into_iter().map(|change| change.path).filter(|path| !is_repository(path)).collect())
    }

    /// Brings paths into the index, and answers with those that git refuses: with one of them it takes none, and it is tried
    /// again by halves.
    async fn take_in(
        &self,
        entry: &AdminEntry,
        index: Option<&Path>,
        paths: Vec<PathBuf>,
    ) -> Result<Vec<NotTaken>, GitError> {
        let mut pending: Vec<Vec<PathBuf>> = [paths].into_iter().filter(|paths| !paths.is_empty()).collect();
        let (mut not_taken, mut tries) = (Vec::new(), 0);
        while let Some(mut paths) = pending.pop() {
            tries += 1;
            let result = match self.update_index(entry, index, &paths).await {
                Err(error) if self.repository.clear_leftovers(Some(&entry.directory), &error).await? => {
                    self.update_index(entry, index, &paths).await
                }
                result => result,
            };
            match result {
                Ok(()) => {}
                // It mostly says which.
                Err(GitError::Failed { status: Some(_), stderr, .. })
                    if paths.len() > 1
                        && tries < MOST_TRIES
                        && !is_about_index(&stderr)
                        && paths.iter().any(|path| is_named(&stderr, path)) =>
                {
                    let (named, others) = paths.into_iter().partition::<Vec<_>, _>(|path| is_named(&stderr, path));
                    pending.extend(named.into_iter().map(|path| vec![path]).chain([others]));
                }
                // The index itself: no file is to blame.
                Err(GitError::Failed { command, status, stderr }) if is_about_index(&stderr) => {
                    return Err(GitError::Failed { command, status, stderr });
                }
                // It has read them, and ended by itself.
                Err(GitError::Failed { status: Some(_), .. }) if paths.len() > 1 && tries < MOST_TRIES => {
                    let half = paths.split_off(paths.len() / 2);
                    pending.extend([half, paths]);
                }
                Err(GitError::Failed { status: Some(_), stderr, .. }) => {
                    let why = NotTakenBecause::GitRefuses(self.told_outside(&GitError::refused(stderr)));
                    not_taken.extend(paths.into_iter().map(|path| NotTaken { path, why: why.clone() }));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(not_taken)
    }

    async fn update_index(&self, entry: &AdminEntry, index: Option<&Path>, paths: &[PathBuf]) -> Result<(), GitError> {
        let files = self.files.clone();
        let paths = paths.to_vec();
        let (there, gone): (Vec<_>, Vec<_>) =
            blocking(move || Ok(paths.into_iter().partition(|path| is_there(&files, path)))).await?;
        // What is gone first: where a directory became a link, git looks for its files behind the link.
        for (arguments, paths) in [(&["--force-remove"][..], gone), (&["--add", "--remove", "--replace"], there)] {
            if !paths.is_empty() {
                let call = self.indexed(entry, "update-index", index).await?.slow();
                call.args(arguments).args(["-z", "--stdin"]).input(list_of(&paths)).ok().await?;
            }
        }
        Ok(())
    }
}

/// Carries out a call of [`COMMIT`].
pub(super) async fn commit(
    call: Call<'_>,
    tree: &str,
    parents: &[&CommitSha],
    (author, committer): (&Ident, &Ident),
    message: &str,
) -> Result<CommitSha, GitError> {
    let call = call.env("GIT_AUTHOR_NAME", Ident::cleaned(&author.name));
    let call = call.env("GIT_AUTHOR_EMAIL", Ident::cleaned(&author.email));
    let call = call.env("GIT_COMMITTER_NAME", Ident::cleaned(&committer.name));
    let call = call.env("GIT_COMMITTER_EMAIL", Ident::cleaned(&committer.email));
    let parents = parents.iter().flat_map(|sha| ["-p", sha.as_str()]);
    let output = call.args(parents).args(["-F", "-", tree]).input(message.as_bytes().to_vec()).ok().await?;
    let sha = String::from_utf8_lossy(&output);
    CommitSha::new(sha.trim_end()).map_err(|error| GitError::Unreadable(error.to_string()))
}

/// Whether a path leads to something, through directories only.
pub(in crate::git) fn is_there(files: &Path, path: &Path) -> bool {
    let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    let through =
        parents.into_iter().all(|parent| fs::symlink_metadata(files.join(parent)).is_ok_and(|meta| meta.is_dir()));
    through && fs::symlink_metadata(files.join(path)).is_ok()
}

/// `git status` marks repositories inside by a final slash.
pub(super) fn is_repository(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

pub(super) fn list_of(paths: &[PathBuf]) -> Vec<u8> {
    paths.iter().flat_map(|path| [path.as_os_str().as_encoded_bytes(), b"\0"].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn co_authors_are_trailers_that_cannot_break_the_message() {
        let ident = |name: &str| Ident { name: name.into(), email: "a@b".into() };
        let request = CommitRequest {
            message: "Do it\n\n".into(),
            author: ident("bot"),
            committer: ident("bot"),
            co_authors: vec![ident("ann"), ident("eve\n<x>")],
            branch: BranchName::new("b").unwrap(),
        };
        let message = "Do it\n\nCo-authored-by: ann <a@b>\nCo-authored-by: evex <a@b>\n";
        assert_eq!(request.full_message(), message);
    }
}
