//! What the index says beyond `git status`: entries flagged so that git does not look at their files, and submodules.

use super::Worktree;
use super::commit::list_of;
use super::status::quiet;
use crate::git::own_files::look;
use crate::git::registry::AdminEntry;
use crate::git::{GitError, LARGEST, mode, open_plain, refuse_large};
use crate::model::Probe;
use crate::plain_file::{self, Links};
use aws_lc_rs::digest;
use git2::{IndexEntryExtendedFlag, IndexEntryFlag, ObjectType, Oid};
use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs,
    io::{self, BufRead, BufReader, Read},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::PermissionsExt,
    },
    path::{Path, PathBuf},
};

/// One entry, as `git ls-files -v --stage -z` has a line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// `assume-unchanged`: a lower-case tag.
    assumed: bool,
    /// `skip-worktree`: tag S. Sparse checkouts set it on files that are not there.
    skipped: bool,
    mode: u32,
    pub id: Oid,
    pub path: PathBuf,
}

/// Files looked for to tell whether a directory is a worktree's.
const SAMPLE: usize = 500;

/// Sizes in the index file: signature, version and number of entries; the checksum at its end; more zeroes than git
/// ever writes before that.
const HEADER: usize = 12;
const CHECKSUM: u64 = 20;
const PADDING: usize = 64;

/// Whether a directory holds at least half of the files an index names, as far as a good number of them tell. An index
/// that cannot be read, or names nothing, speaks against nobody.
pub(super) fn is_of(index: &Path, directory: &Path) -> bool {
    if refuse_large(index).is_err() {
        return true;
    }
    let Ok(index) = git2::Index::open(index) else { return true };
    let every = index.len().div_ceil(SAMPLE).max(1);
    let (mut looked_at, mut there) = (0, 0);
    for entry in index.iter().step_by(every) {
        looked_at += 1;
        there += usize::from(fs::symlink_metadata(directory.join(OsStr::from_bytes(&entry.path))).is_ok());
    }
    there * 2 >= looked_at
}

impl IndexEntry {
    pub fn is_submodule(&self) -> bool {
        self.mode == mode::SUBMODULE
    }
}

impl Worktree {
    /// Whether edits are hidden from `git status` by skip-worktree or assume-unchanged.
    pub async fn hidden_changes(&self) -> Probe<bool> {
        Probe::from(self.hidden_paths().await).map(|paths| !paths.is_empty())
    }

    /// The files with such edits, relative.
    pub(in crate::git) async fn hidden_paths(&self) -> Result<Vec<PathBuf>, GitError> {
        self.hidden_by(&self.index().await?).await
    }

    pub(super) async fn hidden_by(&self, index: &[IndexEntry]) -> Result<Vec<PathBuf>, GitError> {
        let flagged = index.iter().filter(|entry| (entry.assumed || entry.skipped) && !entry.is_submodule());
        let flagged: Vec<IndexEntry> = flagged.cloned().collect();
        if flagged.is_empty() {
            return Ok(Vec::new());
        }
        let files = self.files.clone();
        let lengths = self.lengths_of(flagged.iter().map(|entry| entry.id).collect()).await?;
        self.look_inside(&self.files, move || {
            let mut hidden = Vec::new();
            for entry in flagged {
                if differs(&lengths, &entry, &files)? {
                    hidden.push(entry.path);
                }
            }
            Ok(hidden)
        })
        .await
    }

    /// Takes the mark of what is not checked out from files that are there, as git does wherever it knows that a
    /// checkout is sparse: git-sparse-checkout(1). Ours does not, since it reads no worktree's own configuration.
    pub(super) async fn show_what_is_there(&self, entry: &AdminEntry) -> Result<(), GitError> {
        if !look(&entry.directory.join("info/sparse-checkout"))?.is_some_and(|meta| meta.is_file()) {
            return Ok(());
        }
        let mut skipped = self.index().await?;
        skipped.retain(|entry| entry.skipped && !entry.is_submodule());
        let files = self.files.clone();
        let there = self.look_inside(&self.files, move || {
            let there = skipped.into_iter().filter(|entry| files.join(&entry.path).symlink_metadata().is_ok());
            Ok(there.map(|entry| entry.path).collect::<Vec<_>>())
        });
        let there = there.await?;
        if there.is_empty() {
            return Ok(());
        }
        match self.unskip(entry, &there).await {
            Err(error) if self.repository.clear_leftovers(Some(&entry.directory), &error).await? => {
                self.unskip(entry, &there).await
            }
            result => result,
        }
    }

    async fn unskip(&self, entry: &AdminEntry, paths: &[PathBuf]) -> Result<(), GitError> {
        let call = self.call(entry, "update-index").await?.args(["--no-skip-worktree", "-z", "--stdin"]);
        call.input(list_of(paths)).ok().await.map(drop)
    }

    /// Every entry of the index. No process is started where libgit2 can read it: it knows no split and no sparse
    /// index.
    pub(super) async fn index(&self) -> Result<Vec<IndexEntry>, GitError> {
        let entry = self.entry().await?;
        let index = entry.directory.join("index");
        match self.look_inside(&entry.directory, move || read(&index)).await {
            Ok(entries) => Ok(entries),
            Err(_) => self.listed_index(&entry).await,
        }
    }

    async fn listed_index(&self, entry: &AdminEntry) -> Result<Vec<IndexEntry>, GitError> {
        let call = self.call(entry, "ls-files").await?.args(["-v", "--stage", "--full-name", "-z"]);
        let output = quiet(call.run().await?)?;
        let lines = output.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        lines.map(|line| parse(line).ok_or_else(|| odd(line))).collect()
    }
}

fn read(index: &Path) -> Result<Vec<IndexEntry>, GitError> {
    refuse_large(index).map_err(|error| GitError::file("reading", index, &error))?;
    let entries = git2::Index::open(index)?;
    Ok(entries.iter().map(IndexEntry::from).collect())
}

impl From<git2::IndexEntry> for IndexEntry {
    fn from(entry: git2::IndexEntry) -> Self {
        Self {
            assumed: entry.flags & IndexEntryFlag::VALID.bits() != 0,
            skipped: entry.flags_extended & IndexEntryExtendedFlag::SKIP_WORKTREE.bits() != 0,
            mode: entry.mode,
            id: entry.id,
            path: PathBuf::from(OsString::from_vec(entry.path)),
        }
    }
}

fn odd(line: &[u8]) -> GitError {
    GitError::Unreadable(format!("git listed an odd index entry: {}", String::from_utf8_lossy(line)))
}

/// `<tag> <mode> <object> <stage> TAB <path>`
fn parse(line: &[u8]) -> Option<IndexEntry> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let (facts, path) = (std::str::from_utf8(&line[..tab]).ok()?, &line[tab + 1..]);
    let mut facts = facts.split(' ');
    let (tag, mode, id) = (facts.next()?, facts.next()?, facts.next()?);
    Some(IndexEntry {
        assumed: tag.starts_with(|tag: char| tag.is_ascii_lowercase()),
        skipped: tag.eq_ignore_ascii_case("S"),
        mode: u32::from_str_radix(mode, 8).ok()?,
        id: Oid::from_str(id).ok()?,
        path: PathBuf::from(OsString::from_vec(path.to_owned())),
    })
}

/// Whether the file is not what the index says. Line-ending conversions count as a difference: doubt is dirty.
fn differs(lengths: &Lengths, entry: &IndexEntry, root: &Path) -> Result<bool, GitError> {
    let path = root.join(&entry.path);
    let meta = match fs::symlink_metadata(&path) {
        Ok(meta) => meta,
        // Not there: that is what skip-worktree is for.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(!entry.skipped);
        }
        Err(error) => return Err(GitError::file("looking at", &path, &error)),
    };
    if meta.is_symlink() {
        let target = fs::read_link(&path).map_err(|error| GitError::file("looking at", &path, &error))?;
        let same = entry.mode == mode::LINK && blob(target.as_os_str())? == entry.id;
        return Ok(!same);
    }
    if !meta.is_file() || entry.mode == mode::LINK {
        return Ok(true);
    }
    let executable = meta.permissions().mode() & 0o100 != 0;
    Ok(executable != (entry.mode == mode::EXECUTABLE) || !lengths.is_blob(&path, entry.id)?)
}

/// How long the contents of blobs are, in bytes; without those that are not here.
pub(super) struct Lengths(HashMap<Oid, u64>);

impl Worktree {
    pub(super) async fn lengths_of(&self, blobs: Vec<Oid>) -> Result<Lengths, GitError> {
        let lengths = move |objects: &git2::Repository| {
            let odb = objects.odb()?;
            let known = blobs.iter().filter_map(|blob| Some((*blob, odb.read_header(*blob).ok()?.0 as u64)));
            Ok(Lengths(known.collect()))
        };
        self.repository.read(lengths).await
    }
}

impl Lengths {
    /// Whether a file holds exactly what the blob does. A file of another length does not, and is not read: an agent
    /// can make one of any length without any disk.
    pub fn is_blob(&self, path: &Path, blob: Oid) -> Result<bool, GitError> {
        let failed = |error: io::Error| GitError::file("reading", path, &error);
        let file = match plain_file::open(path, Links::Refuse) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(false),
            opened => opened.map_err(failed)?,
        };
        let length = file.metadata().map_err(failed)?.len();
        Ok(self.0.get(&blob) == Some(&length) && blob_of(file, length).map_err(failed)? == blob)
    }
}

/// The id of the blob that holds the next `length` bytes.
pub(in crate::git) fn blob_of(file: fs::File, length: u64) -> io::Result<Oid> {
    let mut sum = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    sum.update(format!("blob {length}\0").as_bytes());
    let mut content = BufReader::new(file.take(length));
    loop {
        let part = content.fill_buf()?;
        if part.is_empty() {
            break;
        }
        sum.update(part);
        let read = part.len();
        content.consume(read);
    }
    Oid::from_bytes(sum.finish().as_ref()).map_err(io::Error::other)
}

fn blob(content: &OsStr) -> Result<Oid, GitError> {
    Ok(Oid::hash_object(ObjectType::Blob, content.as_bytes())?)
}

/// Whether an index is as git wrote it: its signature and version, and at its end the checksum of the rest, or zeroes
/// where git was told to leave that out (gitformat-index(5)). Git itself looks at the checksum in `git fsck` only, and
/// takes what a loss of power left for entries. One that is not there is an empty one.
pub(super) fn is_whole(path: &Path) -> io::Result<bool> {
    let (file, length) = match open_plain(path, LARGEST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(false),
        opened => opened?,
    };
    let Some(length) = length.checked_sub(CHECKSUM) else { return Ok(false) };
    let mut content = BufReader::new(file).take(length);
    let mut header = [0; HEADER];
    if let Err(error) = content.read_exact(&mut header) {
        return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(false) } else { Err(error) };
    }
    let mut sum = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    sum.update(&header);
    let mut zeroes = 0;
    loop {
        let part = content.fill_buf()?;
        if part.is_empty() {
            break;
        }
        sum.update(part);
        let at_its_end = part.iter().rev().take_while(|byte| **byte == 0).count();
        zeroes = if at_its_end == part.len() { zeroes + at_its_end } else { at_its_end };
        let read = part.len();
        content.consume(read);
    }
    let mut checksum = [0; CHECKSUM as usize];
    content.into_inner().read_exact(&mut checksum)?;
    let known = header.starts_with(b"DIRC\0\0\0") && matches!(header[7], 2..=4);
    // Blocks that never reached the disk are zeroes, too; no entry and no extension ends with as many.
    let left_out = checksum == [0; CHECKSUM as usize] && zeroes < PADDING;
    Ok(known && (left_out || sum.finish().as_ref() == checksum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let id = "0123456789012345678901234567890123456789";
        let of = |line: String| parse(line.as_bytes());
        let plain = of(format!("H 100644 {id} 0\ta b")).unwrap();
        assert!(!plain.assumed && !plain.skipped && plain.path == Path::new("a b"));
        assert!(of(format!("h 100644 {id} 0\tf")).unwrap().assumed);
        assert!(of(format!("S 100644 {id} 0\tf")).unwrap().skipped);
        let both = of(format!("s 100644 {id} 0\tf")).unwrap();
        assert!(both.assumed && both.skipped);
        assert!(of(format!("H 160000 {id} 0\tsub")).unwrap().is_submodule());
        assert!(of("H 100644".into()).is_none());
    }
}
