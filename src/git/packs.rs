//! Packs and their indexes. Git takes an index for what it says, so that a spoilt one of an agent's hides everybody's objects,
//! or stops every question. It is made anew from its pack, and what stood there is kept.

use super::Stamp;
use super::error::GitError;
use super::own_files::{PACKS, set_aside};
use crate::plain_file::{self, Links};
use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

/// gitformat-pack(5): what an index of version 2 begins with, then 256 counts of objects; for each object an id, a checksum and
/// a place, and a longer place for those that are far in; then the pack's checksum and its own.
const INDEX_HEAD: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
const FANOUT: usize = 256 * 4;
const PER_OBJECT: u64 = 20 + 4 + 4;
const FAR_PLACE: u64 = 8;
const CHECKSUM: u64 = 20;

/// `PACK`, the version, and how many objects there are.
const PACK_HEAD: usize = 12;

/// Longer than anybody writes at one file.
const UNFINISHED: Duration = Duration::from_secs(24 * 3600);

/// How packs and their indexes are made: nobody is to write them.
const MODE: u32 = 0o444;

/// Those that were found good, by the name of their index, as index and pack were then.
#[derive(Default)]
pub(super) struct Packs {
    good: Mutex<HashMap<OsString, Stamps>>,
    /// What killed processes left behind was cleared since the start.
    cleared: AtomicBool,
}

type Stamps = (Option<Stamp>, Option<Stamp>);

impl Packs {
    /// Makes indexes anew that do not belong to their packs, and puts packs aside that are none. Answers with what was wrong.
    pub fn put_right(&self, repository: &Path) -> Result<Option<&'static str>, GitError> {
        if !self.cleared.swap(true, Ordering::Relaxed) {
            clear_unfinished(repository, SystemTime::now());
        }
        let directory = repository.join(PACKS);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            // It is put right elsewhere.
            Err(_) => return Ok(None),
        };
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut seen, mut found) = (HashMap::new(), None);
        for entry in entries.flatten().filter(|entry| entry.path().extension() == Some(OsStr::new("idx"))) {
            let (index, name) = (entry.path(), entry.file_name());
            let pack = index.with_extension("pack");
            let stamps = (Stamp::of(&index), Stamp::of(&pack));
            // An index alone is passed over by git; a repack takes the pack away first, or another process did.
            if stamps.0.is_none() || stamps.1.is_none() {
                continue;
            }
            if good.get(&name) != Some(&stamps) && !is_pair(&index, &pack) {
                mend(repository, &index, &pack)?;
                found = Some(PACKS);
                continue;
            }
            seen.insert(name, stamps);
        }
        *good = seen;
        Ok(found)
    }
}

/// What git calls files that are yet to be whole, and a repack the packs that are yet to be put in their place.
const UNFINISHED_NAMES: [&[u8]; 2] = [b"tmp_", b".tmp-"];

/// Takes out what git did not finish writing long ago, as git-prune(1) does: nothing here runs that.
pub(super) fn clear_unfinished(repository: &Path, now: SystemTime) {
    let objects = repository.join("objects");
    if !fs::symlink_metadata(&objects).is_ok_and(|meta| meta.is_dir()) {
        return;
    }
    let inside = fs::read_dir(&objects).into_iter().flatten().flatten();
    let inside = inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for file in inside.flat_map(|directory| fs::read_dir(directory.path()).into_iter().flatten().flatten()) {
        let age = file.metadata().and_then(|meta| meta.modified()).map(|changed| now.duration_since(changed));
        let name = file.file_name();
        let is_unfinished = UNFINISHED_NAMES.iter().any(|begin| name.as_encoded_bytes().starts_with(begin));
        if is_unfinished && matches!(age, Ok(Ok(age)) if age > UNFINISHED) {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// Whether both are what they should be and belong together, as far as their ends tell. Where that cannot be seen, nothing
/// speaks against them.
fn is_pair(index: &Path, pack: &Path) -> bool {
    let answer = || {
        let (Some(index), Some(pack)) = (plain(index)?, plain(pack)?) else { return Ok(false) };
        let Some((objects, checksum)) = pack_says(&pack)? else { return Ok(false) };
        let (length, mut head) = (index.metadata()?.len(), [0; INDEX_HEAD.len() + FANOUT]);
        index.read_exact_at(&mut head, 0)?;
        let counts: Vec<u32> = head[INDEX_HEAD.len()..].chunks_exact(4).map(number).collect();
        let least = head.len() as u64 + u64::from(objects) * PER_OBJECT + 2 * CHECKSUM;
        let is_index = head.starts_with(&INDEX_HEAD)
            && counts.is_sorted()
            && counts.last() == Some(&objects)
            && (least..=least + u64::from(objects) * FAR_PLACE).contains(&length);
        Ok::<_, io::Error>(is_index && checksum_at(&index, length - 2 * CHECKSUM)? == checksum)
    };
    answer().unwrap_or_else(|error| error.kind() != io::ErrorKind::UnexpectedEof)
}

/// How many objects a pack says it has, and its checksum. Absent: it is none.
fn pack_says(pack: &fs::File) -> io::Result<Option<(u32, [u8; CHECKSUM as usize])>> {
    let (length, mut head) = (pack.metadata()?.len(), [0; PACK_HEAD]);
    pack.read_exact_at(&mut head, 0)?;
    let is_pack = head.starts_with(b"PACK") && matches!(number(&head[4..8]), 2 | 3);
    match is_pack && length >= PACK_HEAD as u64 + CHECKSUM {
        true => Ok(Some((number(&head[8..]), checksum_at(pack, length - CHECKSUM)?))),
        false => Ok(None),
    }
}

fn checksum_at(file: &fs::File, place: u64) -> io::Result<[u8; CHECKSUM as usize]> {
    let mut checksum = [0; CHECKSUM as usize];
    file.read_exact_at(&mut checksum, place).map(|()| checksum)
}

/// Four bytes, the highest first.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// Absent: what stands there is no file.
fn plain(path: &Path) -> io::Result<Option<fs::File>> {
    match plain_file::open(path, Links::Refuse) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(error),
    }
}

fn mend(repository: &Path, index: &Path, pack: &Path) -> Result<(), GitError> {
    set_aside_file(repository, index)?;
    // An index of its own, and a copy under the same name where that is the pack's own.
    let made = || -> Result<(), Box<dyn std::error::Error>> {
        let mut from = plain(pack)?.ok_or("no plain file")?;
        let directory = pack.parent().unwrap_or(repository);
        let mut indexer = git2::Indexer::new(None, directory, MODE, false)?;
        io::copy(&mut from, &mut indexer)?;
        indexer.commit()?;
        Ok(())
    };
    match made() {
        Ok(()) => tracing::warn!(path = %index.display(), "the index of a pack was made anew"),
        Err(error) => {
            set_aside_file(repository, pack)?;
            tracing::error!(path = %pack.display(), %error, "a pack is damaged, and was set aside");
        }
    }
    Ok(())
}

fn set_aside_file(repository: &Path, path: &Path) -> Result<(), GitError> {
    let (name, meta) = (path.strip_prefix(repository).unwrap_or(path), fs::symlink_metadata(path));
    match meta {
        Ok(meta) => set_aside(repository, name, &meta),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(GitError::file("looking at", path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_finishes_goes_and_all_else_stays() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join("objects").join(name);
        for directory in ["pack", "ab"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        let names = ["pack/tmp_pack_x", "pack/.tmp-7-pack-x.pack", "ab/tmp_obj_y", "pack/pack-1.pack", "ab/cd"];
        for name in names {
            fs::write(path(name), "x").unwrap();
        }
        let left = || names.map(|name| path(name).exists());
        let now = SystemTime::now();
        clear_unfinished(temp.path(), now);
        assert_eq!(left(), [true; 5]);
        clear_unfinished(temp.path(), now + UNFINISHED * 2);
        assert_eq!(left(), [false, false, false, true, true]);
    }
}
