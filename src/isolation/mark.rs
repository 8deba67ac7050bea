//! The mark by which the directory of worktrees is recognised. An empty directory where a file system should be mounted
//! looks as if all worktrees were gone; it lacks the mark, so that nobody takes it for that.

use super::IsolationError;
use crate::plain_file::{self, Links};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Lies in the base.
const MARK: &str = ".treewarden";

/// Longer than a mark, or a memory of many moves.
const MOST: u64 = 1024 * 1024;

/// What the base must be marked with, and where that is remembered: the base, the mark, the home itself, and where the base
/// was before, as long as not everything has followed.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    id: String,
    memory: PathBuf,
    /// Where the base was when it was seen last and before, if it, or the home, was elsewhere.
    pub moved_from: Vec<PathBuf>,
}

/// What a start has to write down.
#[derive(PartialEq, Eq)]
enum News {
    Nothing,
    Moved,
    New,
}

/// The directory that had the worktrees when it was seen last, when another, unmarked one is to have them now.
pub(super) fn left_behind(base: &Path, memory: &Path) -> io::Result<Option<PathBuf>> {
    let remembered = read(memory)?;
    let before = remembered.as_deref().and_then(|text| text.lines().next()).map(PathBuf::from);
    let is_marked = base.join(MARK).exists();
    let real = base.canonicalize().unwrap_or_else(|_| base.to_owned());
    Ok(before.filter(|before| *before != real && !is_marked))
}

/// What a base is marked with.
pub(super) fn present(base: &Path) -> io::Result<Option<String>> {
    Ok(read(&base.join(MARK))?.map(|id| id.trim().to_owned()))
}

impl Mark {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Marks a base that is new, and refuses one that was marked before and is not any more. `memory` is a file on the
    /// home's file system.
    pub fn of(base: &Path, memory: &Path) -> Result<Self, IsolationError> {
        let (mark, news) = Self::found(base, memory)?;
        if news == News::New {
            let written = whole(&base.join(MARK), &format!("{}\n", mark.id));
            written.map_err(|error| IsolationError::files("marking", base, &error))?;
        }
        // Before anything follows, so that a second move finds the way from every place.
        if news != News::Nothing {
            mark.remember(base, &mark.moved_from)?;
        }
        Ok(mark)
    }

    /// Whether [`Mark::of`] would refuse; writes nothing.
    pub fn look(base: &Path, memory: &Path) -> Result<(), IsolationError> {
        Self::found(base, memory).map(drop)
    }

    fn found(base: &Path, memory: &Path) -> Result<(Self, News), IsolationError> {
        let remembered = read(memory).map_err(|error| IsolationError::files("reading", memory, &error))?;
        let mut lines = remembered.as_deref().unwrap_or_default().lines();
        let (before, known, home) = (lines.next().map(PathBuf::from), lines.next().map(str::trim), lines.next());
        let former: Vec<PathBuf> = lines.map(PathBuf::from).collect();
        let present = present(base).map_err(|error| match base.join(MARK).is_dir() {
            true => IsolationError::MarkTaken(base.to_owned()),
            false => IsolationError::files("reading", &base.join(MARK), &error),
        })?;
        let mut mark = Self { id: String::new(), memory: memory.to_owned(), moved_from: Vec::new() };
        match (before, known) {
            (Some(before), Some(known)) if before == base || present.as_deref() == Some(known) => {
                mark.id = known.to_owned();
                mark.check(base)?;
                let home_is_elsewhere = home.is_some_and(|home| Path::new(home) != mark.home());
                mark.moved_from = former;
                if before != base || home_is_elsewhere {
                    mark.moved_from.insert(0, before);
                }
                // Versions before this one remembered no home.
                let told = mark.moved_from.is_empty() && home.is_some();
                Ok((mark, if told { News::Nothing } else { News::Moved }))
            }
            // What is there and says nothing was lost on the way to the disk: an empty base would look like a new one.
            (None, _) | (Some(_), None) if remembered.is_some() && present.is_none() => Err(mark.out_of_sight(base)),
            // New, or configured anew.
            _ => {
                let new = base.join(MARK).with_extension("new");
                if new.symlink_metadata().is_ok_and(|there| there.is_dir()) {
                    let error = io::Error::from(io::ErrorKind::IsADirectory);
                    return Err(IsolationError::files("marking", &new, &error));
                }
                mark.id = present.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
                Ok((mark, News::New))
            }
        }
    }

    fn home(&self) -> &Path {
        self.memory.parent().unwrap_or(&self.memory)
    }

    /// Writes down where everything is, and where what has not followed yet may still seem to be.
    pub fn remember(&self, base: &Path, former: &[PathBuf]) -> Result<(), IsolationError> {
        let mut text = format!("{}\n{}\n{}\n", base.display(), self.id, self.home().display());
        former.iter().for_each(|former| text.push_str(&format!("{}\n", former.display())));
        whole(&self.memory, &text).map_err(|error| IsolationError::files("marking", base, &error))
    }

    pub fn check(&self, base: &Path) -> Result<(), IsolationError> {
        match present(base) {
            Ok(Some(id)) if id == self.id => Ok(()),
            _ => Err(self.out_of_sight(base)),
        }
    }

    fn out_of_sight(&self, base: &Path) -> IsolationError {
        let (memory, has_mark) = (self.memory.clone(), base.join(MARK).symlink_metadata().is_ok());
        match !has_mark && holds_something(base) {
            true => IsolationError::Unmarked { base: base.to_owned(), memory },
            false => IsolationError::OutOfSight { base: base.to_owned(), memory },
        }
    }
}

/// Besides a trash, or what a file system has of its own.
fn holds_something(base: &Path) -> bool {
    let is_own = |name: &[u8]| name.starts_with(b".") || name == b"lost+found";
    let mut entries = fs::read_dir(base).into_iter().flatten().flatten();
    entries.any(|entry| !is_own(entry.file_name().as_encoded_bytes()))
}

/// All of it is on the disk, or what was there before.
fn whole(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    // A pipe would be waited for.
    let _ = fs::remove_file(&new);
    let mut file = fs::File::create_new(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match plain_file::read_text(path, Links::Follow, MOST) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_known_again_and_an_empty_one_in_its_place_is_not() {
        let temp = tempfile::tempdir().unwrap();
        let (base, memory) = (temp.path().join("base"), temp.path().join("mark"));
        fs::create_dir(&base).unwrap();
        let mark = Mark::of(&base, &memory).unwrap();
        assert_eq!(Mark::of(&base, &memory).unwrap().id, mark.id);
        mark.check(&base).unwrap();

        fs::rename(&base, temp.path().join("unmounted")).unwrap();
        fs::create_dir(&base).unwrap();
        assert!(matches!(mark.check(&base), Err(IsolationError::OutOfSight { .. })));
        assert!(matches!(Mark::look(&base, &memory), Err(IsolationError::OutOfSight { .. })));
        assert!(matches!(Mark::of(&base, &memory), Err(IsolationError::OutOfSight { .. })));
        assert_eq!(fs::read_dir(&base).unwrap().count(), 0, "it stays unmarked");

        fs::remove_dir(&base).unwrap();
        fs::rename(temp.path().join("unmounted"), &base).unwrap();
        mark.check(&base).unwrap();
        // Its files came along, and the mark did not.
        fs::create_dir(base.join("octo")).unwrap();
        fs::remove_file(base.join(MARK)).unwrap();
        assert!(matches!(mark.check(&base), Err(IsolationError::Unmarked { .. })));
        assert!(matches!(Mark::look(&base, &memory), Err(IsolationError::Unmarked { .. })));
        fs::remove_file(&memory).unwrap();
        let mark = Mark::of(&base, &memory).unwrap();
        mark.check(&base).unwrap();
        assert!(base.join("octo").is_dir());
        // Another base by configuration, and a home that was made anew.
        let other = temp.path().join("other");
        fs::create_dir(&other).unwrap();
        assert_ne!(Mark::of(&other, &memory).unwrap().id, mark.id);
        assert_eq!(Mark::of(&base, &temp.path().join("new")).unwrap().id, mark.id);
    }

    #[test]
    fn a_base_that_was_moved_is_known_by_its_mark_until_it_is_remembered() {
        let temp = tempfile::tempdir().unwrap();
        let home = |name: &str| temp.path().join(name);
        let of = |name: &str| Mark::of(&home(name).join("base"), &home(name).join("mark")).unwrap();
        fs::create_dir_all(home("old/base")).unwrap();
        let nothing: [PathBuf; 0] = [];
        assert_eq!(of("old").moved_from, nothing);
        assert_eq!(of("old").moved_from, nothing);
        fs::rename(home("old"), home("new")).unwrap();
        assert_eq!(of("new").moved_from, [home("old/base")]);
        // Nothing has followed yet when it is moved on, and back.
        fs::rename(home("new"), home("third")).unwrap();
        assert_eq!(of("third").moved_from, [home("new/base"), home("old/base")]);
        fs::rename(home("third"), home("old")).unwrap();
        assert_eq!(of("old").moved_from, ["third/base", "new/base", "old/base"].map(home));
        of("old").remember(&home("old/base"), &[]).unwrap();
        assert_eq!(of("old").moved_from, nothing);
        // The home alone, without its base.
        fs::create_dir(home("new")).unwrap();
        fs::rename(home("old/mark"), home("new/mark")).unwrap();
        let moved = Mark::of(&home("old/base"), &home("new/mark")).unwrap();
        assert_eq!(moved.moved_from, [home("old/base")]);
        moved.remember(&home("old/base"), &[]).unwrap();
        // A memory that says nothing, and an empty directory.
        fs::write(home("new/mark"), "").unwrap();
        fs::create_dir(home("new/base")).unwrap();
        assert!(matches!(Mark::of(&home("new/base"), &home("new/mark")), Err(IsolationError::OutOfSight { .. })));
        // As earlier versions wrote it.
        fs::write(home("old/mark"), format!("{}\n{}\n", home("old/base").display(), moved.id)).unwrap();
        assert_eq!(of("old").moved_from, nothing);
    }
}
