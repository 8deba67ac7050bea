//! The mark by which the directory of worktrees is recognised. An empty directory where a file system should be mounted
//! looks as if all worktrees were gone; it lacks the mark, so that nobody takes it for that.

use super::IsolationError;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Lies in the base.
const MARK: &str = ".treewarden";

/// What the base must be marked with, and where that is remembered: the base, the mark, and the home itself.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    id: String,
    memory: PathBuf,
    /// Where the base was when it was seen last, if it, or the home, was elsewhere.
    pub moved_from: Option<PathBuf>,
}

impl Mark {
    /// Marks a base that is new, and refuses one that was marked before and is not any more. `memory` is a file on the
    /// home's file system.
    pub fn of(base: &Path, memory: &Path) -> Result<Self, IsolationError> {
        let failed = |error: io::Error| IsolationError::files("marking", base, &error);
        let remembered = read(memory).map_err(failed)?;
        let mut lines = remembered.as_deref().unwrap_or_default().lines();
        let (before, known, home) = (lines.next().map(Path::new), lines.next().map(str::trim), lines.next());
        let present = read(&base.join(MARK)).map_err(failed)?.map(|id| id.trim().to_owned());
        let mut mark = Self { id: String::new(), memory: memory.to_owned(), moved_from: None };
        match (before, known) {
            (Some(before), Some(known)) if before == base || present.as_deref() == Some(known) => {
                mark.id = known.to_owned();
                mark.check(base)?;
                let home_is_elsewhere = home.is_some_and(|home| Path::new(home) != mark.home());
                mark.moved_from = (before != base || home_is_elsewhere).then(|| before.to_owned());
                // Versions before this one remembered no home.
                if mark.moved_from.is_none() && home.is_none() {
                    mark.remember(base)?;
                }
            }
            // New, or configured anew.
            _ => {
                mark.id = present.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
                fs::write(base.join(MARK), format!("{}\n", mark.id)).map_err(failed)?;
                mark.remember(base)?;
            }
        }
        Ok(mark)
    }

    fn home(&self) -> &Path {
        self.memory.parent().unwrap_or(&self.memory)
    }

    /// Everything is known to be where it is now.
    pub fn remember(&self, base: &Path) -> Result<(), IsolationError> {
        let text = format!("{}\n{}\n{}\n", base.display(), self.id, self.home().display());
        fs::write(&self.memory, text).map_err(|error| IsolationError::files("marking", base, &error))
    }

    pub fn check(&self, base: &Path) -> Result<(), IsolationError> {
        match read(&base.join(MARK)) {
            Ok(Some(id)) if id.trim() == self.id => Ok(()),
            _ => Err(self.out_of_sight(base)),
        }
    }

    fn out_of_sight(&self, base: &Path) -> IsolationError {
        IsolationError::OutOfSight { base: base.to_owned(), memory: self.memory.clone() }
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
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
        assert!(matches!(Mark::of(&base, &memory), Err(IsolationError::OutOfSight { .. })));
        assert_eq!(fs::read_dir(&base).unwrap().count(), 0, "it stays unmarked");

        fs::remove_dir(&base).unwrap();
        fs::rename(temp.path().join("unmounted"), &base).unwrap();
        mark.check(&base).unwrap();
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
        assert_eq!(of("old").moved_from, None);
        assert_eq!(of("old").moved_from, None);
        fs::rename(home("old"), home("new")).unwrap();
        for _ in 0..2 {
            assert_eq!(of("new").moved_from, Some(home("old/base")));
        }
        of("new").remember(&home("new/base")).unwrap();
        assert_eq!(of("new").moved_from, None);
        // The home alone, without its base.
        let text = fs::read_to_string(home("new/mark")).unwrap();
        fs::create_dir(home("third")).unwrap();
        fs::write(home("third/mark"), text).unwrap();
        let moved = Mark::of(&home("new/base"), &home("third/mark")).unwrap();
        assert_eq!(moved.moved_from, Some(home("new/base")));
        // As earlier versions wrote it.
        fs::write(home("new/mark"), format!("{}\n{}\n", home("new/base").display(), moved.id)).unwrap();
        assert_eq!(of("new").moved_from, None);
    }
}
