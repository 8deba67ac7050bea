//! The mark by which the directory of worktrees is recognised. An empty directory where a file system should be mounted
//! looks as if all worktrees were gone; it lacks the mark, so that nobody takes it for that.

use super::IsolationError;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Lies in the base.
const MARK: &str = ".treewarden";

/// What the base must be marked with, and where that is remembered.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    id: String,
    memory: PathBuf,
}

impl Mark {
    /// Marks a base that is new, and refuses one that was marked before and is not any more. `memory` is a file on the
    /// home's file system.
    pub fn of(base: &Path, memory: &Path) -> Result<Self, IsolationError> {
        let failed = |error: io::Error| IsolationError::files("marking", base, &error);
        let remembered = read(memory).map_err(failed)?;
        // Base and id; a base that was configured anew is a new one.
        let remembered = remembered.as_deref().and_then(|text| text.split_once('\n'));
        let known = remembered.filter(|(path, _)| Path::new(path) == base).map(|(_, id)| id.trim().to_owned());
        let present = read(&base.join(MARK)).map_err(failed)?.map(|id| id.trim().to_owned());
        let id = match (known, present) {
            (Some(known), present) => {
                let mark = Self { id: known, memory: memory.to_owned() };
                return if present.as_ref() == Some(&mark.id) { Ok(mark) } else { Err(mark.out_of_sight(base)) };
            }
            (None, Some(present)) => present,
            (None, None) => uuid::Uuid::now_v7().to_string(),
        };
        fs::write(base.join(MARK), format!("{id}\n")).map_err(failed)?;
        fs::write(memory, format!("{}\n{id}\n", base.display())).map_err(failed)?;
        Ok(Self { id, memory: memory.to_owned() })
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
}
