//! A keepsake: all that a worktree holds and its branch does not, as a commit under a ref of ours, and the way back.
//!
//! The commit's tree is the checkout with everything uncommitted and untracked in it, and its first parent is HEAD, so
//! people can look at it and take from it with git alone. Its second parent holds the rest, which no tree of a checkout
//! can hold: `ignored/` the files that git ignores and no tool rebuilds, `index` what was staged (as `git update-index
//! --index-info` takes it), `staged/` the contents that only the index had, and `modes` the files' modes. Contents are kept
//! byte for byte, whatever attributes say of them. Files, index and branch stay exactly as they are meanwhile.

mod back;

use super::Worktree;
use super::caches::is_cache_inside;
use super::commit::{COMMIT, Ident, commit, is_repository, is_there, list_of};
use super::status::{Change, Kind, path_of, quiet};
use crate::git::history::oid;
use crate::git::own_files::PACKS;
use crate::git::refs::LASTING;
use crate::git::registry::AdminEntry;
use crate::git::{GitError, blocking, mode, refuse_large};
use crate::model::{CommitSha, Probe};
use git2::Oid;
use std::{
    collections::{BTreeSet, HashSet},
    fs, io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

/// Whom a keepsake is by.
const KEEPER: (&str, &str) = ("Treewarden", "treewarden@localhost");
const MESSAGE: &str = "Uncommitted work, kept before the worktree was removed\n";
const BESIDE: &str = "What else was there: ignored files, the index, modes\n";

/// A removal ends with the files gone, so their contents have to be on the disk. And any name that the disk has may be
/// in a tree.
const SETTINGS: &[&str] = &[LASTING, "core.protectNTFS=false", "core.protectHFS=false"];

/// Each content has a file of its own first, and is in the pack by the end, which is on the disk: to wait for the disk
/// after each of many files would take longer than all the rest.
const PASSING: &[&str] = &["core.fsync=none"];

/// What stands for "not there" in the format of `git update-index --index-info`.
const NOTHING: &str = "0 0000000000000000000000000000000000000000";

const IGNORED: &str = "ignored";
const INDEX: &str = "index";
const MODES: &str = "modes";
const STAGED: &str = "staged";

const MEGABYTE: u64 = 1024 * 1024;

/// Largest single file that is kept.
const MOST_BYTES: u64 = 256 * MEGABYTE;

/// A mode without what only concerns other users' rights to become this one.
const RIGHTS: u32 = 0o777;

impl Worktree {
    /// Keeps everything that no commit of the branch holds, known caches apart, under `full_ref`. `None`: there is
    /// nothing. When all is as the ref has it already, that commit is the answer. Refuses where a repository lies
    /// inside or a submodule stands elsewhere, what git takes for its own (`.GIT`), and more than `most_ignored` bytes
    /// of ignored files: then it is [`GitError::NotKeepable`]; whatever else fails may not fail the next time.
    pub async fn keep(&self, full_ref: &str, most_ignored: u64) -> Result<Option<CommitSha>, GitError> {
        if !full_ref.starts_with("refs/treewarden/") {
            return Err(GitError::refused(format!("{full_ref} is no place for a keepsake")));
        }
        let entry = self.entry().await?;
        let Some(head) = self.head().await?.sha else {
            return Err(GitError::refused("the worktree's branch has no commit any more"));
        };
        let scratch = self.repository.scratch()?;
        let found = self.find(&entry, scratch.path(), most_ignored).await?;
        let staged = self.staged(&entry, &head).await?;
        if found.is_empty() && staged.is_empty() {
            return Ok(None);
        }
        let tree = self.tree_of_checkout(&entry, scratch.path(), &found).await?;
        let beside = self.tree_beside(&entry, scratch.path(), &found, &staged).await?;
        let before = self.repository.tip(full_ref).await?;
        if let Some(before) = &before
            && self.is_keepsake(before, &head, &tree, &beside).await?
        {
            self.demand_whole(before).await?;
            return Ok(Some(before.clone()));
        }
        let keeper = Ident { name: KEEPER.0.to_owned(), email: KEEPER.1.to_owned() };
        let call = self.raw_call(&entry, COMMIT, None).await?;
        let beside = commit(call, &beside, &[], (&keeper, &keeper), BESIDE).await?;
        let call = self.raw_call(&entry, COMMIT, None).await?;
        let commit = commit(call, &tree, &[&head, &beside], (&keeper, &keeper), MESSAGE).await?;
        // Before the ref: what has one is on the disk, and is not written again.
        self.pack(&commit).await?;
        match self.repository.set_ref(full_ref, &commit, before.as_ref()).await? {
            true => {}
            // Another removal is under way.
            false => return Err(GitError::moved_meanwhile(full_ref)),
        }
        self.demand_whole(&commit).await?;
        Ok(Some(commit))
    }

    /// Whether [`Worktree::keep`] would find something, or refuse. Writes nothing.
    pub async fn would_keep(&self, most_ignored: u64) -> Result<bool, GitError> {
        let entry = self.entry().await?;
        let Some(head) = self.head().await?.sha else {
            return Err(GitError::refused("the worktree's branch has no commit any more"));
        };
        let scratch = self.repository.scratch()?;
        let found = self.find(&entry, scratch.path(), most_ignored).await?;
        Ok(!(found.is_empty() && self.staged(&entry, &head).await?.is_empty()))
    }

    /// Contents are not on the disk before this, and anybody's `git prune` that began before the ref was there may still take
    /// what has a file of its own; never a pack. Without a window, nothing is held in memory to be compared.
    async fn pack(&self, keepsake: &CommitSha) -> Result<(), GitError> {
        let call = self.repository.call("rev-list").await?.slow();
        let call = call.args(["--objects", "--no-object-names", keepsake.as_str(), "--not", &format!("{keepsake}^1")]);
        let objects = call.ok().await.map_err(GitError::of_what_was_just_written)?;
        let call = self.repository.bare_call_with(SETTINGS, "pack-objects").await?.slow();
        let packs = self.repository.directory().join(PACKS).join("pack");
        call.args(["-q", "--window=0"])
            .arg(packs)
            .input(objects)
            .ok()
            .await
            .map(drop)
            .map_err(GitError::of_what_was_just_written)
    }

    async fn demand_whole(&self, keepsake: &CommitSha) -> Result<(), GitError> {
        let call = self.repository.call("rev-list").await?.slow();
        let call = call.args(["--objects", "--quiet", keepsake.as_str(), "--not", &format!("{keepsake}^1")]);
        call.ok().await.map(drop).map_err(GitError::of_what_was_just_written)
    }

    async fn raw_call(
        &self,
        entry: &AdminEntry,
        name: &str,
        index: Option<&Path>,
    ) -> Result<crate::git::command::Call<'_>, GitError> {
        let call = self.repository.call_with(&entry.directory, &self.files, SETTINGS, name).await?.slow();
        Ok(match index {
            Some(index) => call.env("GIT_INDEX_FILE", index),
            None => call,
        })
    }

    /// Everything that differs from HEAD in the files, also behind flags of the index, and every ignored file.
    async fn find(&self, entry: &AdminEntry, scratch: &Path, most_ignored: u64) -> Result<Found, GitError> {
        let index = scratch.join("index");
        let (from, to) = (entry.directory.join("index"), index.clone());
        blocking(move || copy_index(&from, &to)).await?;
        let hidden = self.hidden_paths().await?;
        for flag in ["--no-skip-worktree", "--no-assume-unchanged"].iter().filter(|_| !hidden.is_empty()) {
            let call = self.indexed(entry, "update-index", Some(&index)).await?;
            call.args([flag, "-z", "--stdin"]).input(list_of(&hidden)).ok().await?;
        }
        let changes = self.changes(entry, Some(&index)).await?;
        let mut ignored = self.ignored_files(Inside::Refuse).await?;
        ignored.extend(self.files_in_place_of_others(&changes, &ignored).await?);
        let bytes: u64 = ignored.iter().map(|file| file.size).sum();
        if bytes > most_ignored {
            let example = ignored.iter().max_by_key(|file| file.size).map(|file| file.path.display().to_string());
            return Err(GitError::NotKeepable(format!(
                "git ignores {} MB of files here, more than the {} MB that are kept; the largest is {}, and what is not \
                 needed can be deleted or moved away",
                bytes / MEGABYTE,
                most_ignored / MEGABYTE,
                example.unwrap_or_default()
            )));
        }
        let (files, list) = (self.files.clone(), self.list());
        blocking(move || {
            let copies = list.load()?;
            let mut found = Found { ignored, ..Found::default() };
            for Change { kind, path, .. } in changes {
                if is_repository(&path) {
                    return Err(GitError::NotKeepable(format!("a repository lies in {}", path.display())));
                }
                if !is_there(&files, &path) {
                    found.gone.push(path);
                } else if kind != Kind::Untracked || !copies.accounts_for(&files, &path) {
                    match look(&files, path)? {
                        // It is read as a whole when it comes back.
                        Look::File(Kept { path, size, .. }) if size > MOST_BYTES => {
                            return Err(GitError::NotKeepable(format!(
                                "{} has {} MB, more than the {} MB that are kept of one file; move it away",
                                path.display(),
                                size / MEGABYTE,
                                MOST_BYTES / MEGABYTE
                            )));
                        }
                        Look::File(file) => found.changed.push(file),
                        // From the trash it could not be asked any more.
                        Look::Directory(path) if files.join(&path).join(".git").exists() => {
                            let path = path.display();
                            return Err(GitError::NotKeepable(format!(
                                "the submodule {path} stands at another commit than the branch says, which the trash cannot \
                                 keep; commit that, or put it back"
                            )));
                        }
                        // What is in a plain directory is listed by itself.
                        Look::Directory(path) | Look::Other(path) => found.gone.push(path),
                    }
                }
            }
            Ok(found)
        })
        .await
    }

    /// What a keepsake would hold of the listed files. A repository among them is the answer to another question.
    pub(super) async fn ignored_among(&self, listed: Vec<PathBuf>) -> Result<Ignored, GitError> {
        let files = self.files_among(listed, Inside::PassOver).await?;
        Ok(Ignored {
            files: files.len() as u64,
            bytes: files.iter().map(|file| file.size).sum(),
            largest: files.into_iter().max_by_key(|file| file.size).map(|file| file.path),
        })
    }

    async fn ignored_files(&self, inside: Inside) -> Result<Vec<Kept>, GitError> {
        match self.ignored_work().await {
            Probe::Known(listed) => self.files_among(listed, inside).await,
            Probe::Unknown(why) => Err(GitError::Unreadable(why)),
        }
    }

    /// Files that git ignores in directories which stand where it has a file: it lists neither these directories nor
    /// what they hold.
    async fn files_in_place_of_others(&self, changes: &[Change], ignored: &[Kept]) -> Result<Vec<Kept>, GitError> {
        let listed: HashSet<PathBuf> =
            changes.iter().map(|change| &change.path).chain(ignored.iter().map(|file| &file.path)).cloned().collect();
        let tracked = changes.iter().filter(|change| change.kind != Kind::Untracked).map(|change| change.path.clone());
        let (files, tracked) = (self.files.clone(), tracked.collect::<Vec<_>>());
        let stand_there = blocking(move || {
            // What lies behind a link that was put on the way there is somebody else's; submodules are another question.
            let is_directory = |path: &PathBuf| {
                is_there(&files, path) && files.join(path).symlink_metadata().is_ok_and(|meta| meta.is_dir())
            };
            Ok(tracked
                .into_iter()
                .filter(|path| is_directory(path) && !files.join(path).join(".git").exists())
                .collect())
        });
        let found = self.files_among(stand_there.await?, Inside::Refuse).await?;
        Ok(found.into_iter().filter(|file| !listed.contains(&file.path)).collect())
    }

    /// The files that are listed, or lie in a directory that is.
    async fn files_among(&self, listed: Vec<PathBuf>, inside: Inside) -> Result<Vec<Kept>, GitError> {
        let (files, list) = (self.files.clone(), self.list());
        blocking(move || {
            let copies = list.load()?;
            let mut found = Vec::new();
            // Those that are listed are in no cache.
            let mut pending: Vec<(PathBuf, bool)> = listed.into_iter().map(|path| (path, true)).collect();
            while let Some((path, is_listed)) = pending.pop() {
                if path.file_name() == Some(".git".as_ref()) {
                    match inside {
                        Inside::PassOver => continue,
                        Inside::Refuse => {
                            return Err(GitError::NotKeepable(format!("a repository lies in {}", path.display())));
                        }
                    }
                }
                match look(&files, path)? {
                    Look::File(file) if !copies.accounts_for(&files, &file.path) => found.push(file),
                    Look::Directory(path) if is_listed || !is_cache_inside(&files, &path) => {
                        let failed = |error: io::Error| GitError::file("reading", &path, &error);
                        for inner in fs::read_dir(files.join(&path)).map_err(failed)? {
                            pending.push((path.join(inner.map_err(failed)?.file_name()), false));
                        }
                    }
                    Look::File(_) | Look::Directory(_) | Look::Other(_) => {}
                }
            }
            found.sort_by(|one, other| one.path.cmp(&other.path));
            Ok(found)
        })
        .await
    }

    /// What the index has and HEAD has not.
    async fn staged(&self, entry: &AdminEntry, head: &CommitSha) -> Result<Staged, GitError> {
        let call = self.call(entry, "diff-index").await?.slow();
        let call = call.args(["--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none"]);
        let diff = quiet(call.args([head.as_str(), "--"]).run().await?)?;
        let call = self.call(entry, "ls-files").await?.slow().args(["--unmerged", "--full-name", "-z"]);
        staged(&diff, &quiet(call.run().await?)?)
    }

    /// The tree of the checkout as it is.
    async fn tree_of_checkout(&self, entry: &AdminEntry, scratch: &Path, found: &Found) -> Result<String, GitError> {
        let index = scratch.join("index");
        let ids = self.write_contents(entry, scratch, &found.changed).await?;
        let mut lines = Vec::new();
        for path in &found.gone {
            push_line(&mut lines, NOTHING, path);
        }
        for (file, id) in found.changed.iter().zip(&ids) {
            push_line(&mut lines, &format!("{:o} {id}", file.mode()), &file.path);
        }
        if !lines.is_empty() {
            self.fill_index(entry, &index, "--replace", lines).await?;
        }
        self.write_tree(entry, &index).await
    }

    async fn tree_beside(
        &self,
        entry: &AdminEntry,
        scratch: &Path,
        found: &Found,
        staged: &Staged,
    ) -> Result<String, GitError> {
        let mut modes = Vec::new();
        for file in found.changed.iter().chain(&found.ignored).filter(|file| !file.is_link()) {
            push_line(&mut modes, &format!("{:o}", file.rights & RIGHTS), &file.path);
        }
        let (index, directory, texts) = (scratch.join("beside"), scratch.to_owned(), [staged.index.clone(), modes]);
        let notes = blocking(move || {
            let note = |name: &str, bytes: &[u8]| {
                let path = directory.join(name);
                fs::write(&path, bytes).map_err(|error| GitError::file("writing", &path, &error))?;
                Ok::<_, GitError>(Kept { path, size: 0, rights: 0o644, target: None })
            };
            let [index, modes] = &texts;
            Ok(vec![note(INDEX_NOTE, index)?, note(MODES, modes)?])
        })
        .await?;
        let notes = self.write_contents(entry, scratch, &notes).await?;
        let ids = self.write_contents(entry, scratch, &found.ignored).await?;
        let mut lines = Vec::new();
        for (name, id) in [INDEX, MODES].iter().zip(&notes) {
            push_line(&mut lines, &format!("{:o} {id}", mode::FILE), Path::new(name));
        }
        for id in &staged.contents {
            push_line(&mut lines, &format!("{:o} {id}", mode::FILE), &Path::new(STAGED).join(id));
        }
        for (file, id) in found.ignored.iter().zip(&ids) {
            push_line(&mut lines, &format!("{:o} {id}", file.mode()), &Path::new(IGNORED).join(&file.path));
        }
        self.fill_index(entry, &index, "--add", lines).await?;
        self.write_tree(entry, &index).await
    }

    async fn fill_index(&self, entry: &AdminEntry, index: &Path, how: &str, lines: Vec<u8>) -> Result<(), GitError> {
        let call = self.raw_call(entry, "update-index", Some(index)).await?;
        match quiet(call.args([how, "-z", "--index-info"]).input(lines).run().await?) {
            Ok(_) => Ok(()),
            // A path that git takes for its own is only remarked on.
            Err(GitError::Unreadable(remarks)) => {
                Err(GitError::NotKeepable(format!("git takes a name for its own: {remarks}")))
            }
            Err(error) => Err(error),
        }
    }

    async fn write_tree(&self, entry: &AdminEntry, index: &Path) -> Result<String, GitError> {
        let output = self.raw_call(entry, "write-tree", Some(index)).await?.ok().await?;
        Ok(String::from_utf8_lossy(&output).trim_end().to_owned())
    }

    /// Writes contents as they are, and answers with their ids, in the same order.
    async fn write_contents(
        &self,
        entry: &AdminEntry,
        scratch: &Path,
        files: &[Kept],
    ) -> Result<Vec<String>, GitError> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let (directory, kept) = (scratch.to_owned(), files.to_vec());
        // What a link leads to is its content; git would read what is there.
        let list = blocking(move || {
            let mut list = Vec::new();
            for (number, file) in kept.iter().enumerate() {
                let path = match &file.target {
                    Some(target) => {
                        let path = directory.join(format!("link-{number}"));
                        fs::write(&path, target.as_os_str().as_bytes())
                            .map_err(|error| GitError::file("writing", &path, &error))?;
                        path
                    }
                    None => file.path.clone(),
                };
                quote_into(&mut list, &path);
            }
            Ok(list)
        })
        .await?;
        let call = self.repository.call_with(&entry.directory, &self.files, PASSING, "hash-object").await?.slow();
        let output = call.args(["-w", "--no-filters", "--stdin-paths"]).input(list).ok().await?;
        let ids: Vec<String> = String::from_utf8_lossy(&output).lines().map(str::to_owned).collect();
        match ids.len() == files.len() {
            true => Ok(ids),
            false => Err(GitError::Unreadable("git did not answer for every file".to_owned())),
        }
    }

    async fn is_keepsake(
        &self,
        commit: &CommitSha,
        head: &CommitSha,
        tree: &str,
        beside: &str,
    ) -> Result<bool, GitError> {
        let (id, head, tree, beside) = (oid(commit)?, oid(head)?, Oid::from_str(tree)?, Oid::from_str(beside)?);
        self.repository
            .read(move |repository| {
                let commit = repository.find_commit(id)?;
                let is_beside = |parent: git2::Commit<'_>| parent.tree_id() == beside;
                Ok(commit.tree_id() == tree
                    && commit.parent_ids().eq([head, commit.parent_id(1).unwrap_or(head)])
                    && commit.parent(1).is_ok_and(is_beside))
            })
            .await
    }
}

/// The name of a note's file in the scratch directory, where `index` is taken.
const INDEX_NOTE: &str = "index-info";

/// Files that git ignores, outside known caches, and that are no unchanged copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    pub files: u64,
    pub bytes: u64,
    pub largest: Option<PathBuf>,
}

/// What becomes of a repository among ignored files.
#[derive(Clone, Copy)]
enum Inside {
    Refuse,
    PassOver,
}

/// A file that is kept.
#[derive(Clone, Debug)]
struct Kept {
    path: PathBuf,
    size: u64,
    rights: u32,
    /// Of a link.
    target: Option<PathBuf>,
}

impl Kept {
    fn is_link(&self) -> bool {
        self.target.is_some()
    }

    /// As git records it.
    fn mode(&self) -> u32 {
        match (self.is_link(), self.rights & 0o100 != 0) {
            (true, _) => mode::LINK,
            (false, true) => mode::EXECUTABLE,
            (false, false) => mode::FILE,
        }
    }
}

/// Paths are relative.
#[derive(Debug, Default)]
struct Found {
    changed: Vec<Kept>,
    gone: Vec<PathBuf>,
    ignored: Vec<Kept>,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty() && self.ignored.is_empty()
    }
}

enum Look {
    File(Kept),
    Directory(PathBuf),
    /// A pipe, a socket, a device: it has no content.
    Other(PathBuf),
}

fn look(files: &Path, path: PathBuf) -> Result<Look, GitError> {
    let whole = files.join(&path);
    let failed = |error: io::Error| GitError::file("looking at", &path, &error);
    let meta = fs::symlink_metadata(&whole).map_err(failed)?;
    if meta.is_dir() {
        return Ok(Look::Directory(path));
    }
    if !meta.is_file() && !meta.is_symlink() {
        return Ok(Look::Other(path));
    }
    let target = if meta.is_symlink() { Some(fs::read_link(&whole).map_err(failed)?) } else { None };
    Ok(Look::File(Kept { size: meta.len(), rights: meta.permissions().mode(), target, path }))
}

/// With its times: git compares them with those of the files to know which it has to read again.
pub(super) fn copy_index(from: &Path, to: &Path) -> Result<(), GitError> {
    let copied = refuse_large(from).and_then(|()| fs::copy(from, to)).and_then(|_| {
        let times = fs::FileTimes::new().set_modified(fs::metadata(from)?.modified()?);
        fs::File::options().write(true).open(to)?.set_times(times)
    });
    match copied {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(GitError::file("reading", from, &error)),
        _ => Ok(()),
    }
}

/// What the index has and HEAD has not.
#[derive(Debug, Default, PartialEq, Eq)]
struct Staged {
    /// As `git update-index --index-info` takes it.
    index: Vec<u8>,
    /// Ids of the contents in it.
    contents: BTreeSet<String>,
}

impl Staged {
    fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn note(&mut self, mode: &str, id: &str, stage: &str, path: &[u8]) {
        push_line(&mut self.index, &format!("{mode} {id} {stage}"), &path_of(path));
        if u32::from_str_radix(mode, 8) != Ok(mode::SUBMODULE) {
            self.contents.insert(id.to_owned());
        }
    }
}

/// From `:<mode> <mode> <id> <id> <status> NUL <path> NUL` of git-diff-index(1), and `<mode> <id> <stage> TAB <path>
/// NUL` of git-ls-files(1).
fn staged(diff: &[u8], unmerged: &[u8]) -> Result<Staged, GitError> {
    let odd = |record: &[u8]| {
        GitError::Unreadable(format!("git said something odd of the index: {}", String::from_utf8_lossy(record)))
    };
    let mut found = Staged::default();
    let mut records = diff.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    while let Some(record) = records.next() {
        let path = records.next().ok_or_else(|| odd(record))?;
        let text = std::str::from_utf8(record).map_err(|_| odd(record))?;
        match text.split(' ').collect::<Vec<_>>()[..] {
            [_, mode, _, id, "A" | "M" | "T"] => found.note(mode, id, "0", path),
            [_, _, _, _, "D" | "U"] => push_line(&mut found.index, NOTHING, &path_of(path)),
            _ => return Err(odd(record)),
        }
    }
    for record in unmerged.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
        let tab = record.iter().position(|byte| *byte == b'\t').ok_or_else(|| odd(record))?;
        let text = std::str::from_utf8(&record[..tab]).map_err(|_| odd(record))?;
        match text.split(' ').collect::<Vec<_>>()[..] {
            [mode, id, stage] => found.note(mode, id, stage, &record[tab + 1..]),
            _ => return Err(odd(record)),
        }
    }
    Ok(found)
}

/// `<facts> TAB <path> NUL`
fn push_line(lines: &mut Vec<u8>, facts: &str, path: &Path) {
    lines.extend_from_slice(facts.as_bytes());
    lines.push(b'\t');
    lines.extend_from_slice(path.as_os_str().as_bytes());
    lines.push(0);
}

/// A line with a path in the quotes of C, which git takes for any bytes.
fn quote_into(list: &mut Vec<u8>, path: &Path) {
    list.push(b'"');
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => list.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => list.push(*byte),
            byte => list.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    list.extend_from_slice(b"\"\n");
}
