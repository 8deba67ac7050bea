//! Disks that take `Fix` and `fix` for one name, as those of a Mac and of Windows do. Git keeps a branch in a file of its
//! name, so that there two branches may be one, and neither what it says it is.

use super::error::GitError;
use std::{fs, path::Path};

/// Whether the disk under `directory` does: tried with a file, since nothing says it.
pub(super) fn is_folded(directory: &Path) -> Result<bool, GitError> {
    let name = format!("probe-{}", uuid::Uuid::now_v7());
    let probe = directory.join(&name);
    fs::File::create_new(&probe).map_err(|error| GitError::file("making", &probe, &error))?;
    let seen = directory.join(name.to_uppercase()).symlink_metadata();
    fs::remove_file(&probe).map_err(|error| GitError::file("removing", &probe, &error))?;
    Ok(seen.is_ok())
}

/// Whether two names cannot both be kept on such a disk: one is the other in other letters, or stands where a directory of
/// the other is, or both have a directory that is the same in other letters. A name is not in its own way.
pub(super) fn collide(one: &str, other: &str) -> bool {
    let (mut ones, mut others) = (one.split('/'), other.split('/'));
    loop {
        match (ones.next(), others.next()) {
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => return one.to_lowercase() == other.to_lowercase(),
            (None, None) => return false,
            (None, Some(_)) | (Some(_), None) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_case_only_is_one_there() {
        for (one, other) in
            [("Fix/A", "fix/a"), ("fix/A", "fix/a"), ("Fix/a", "fix/b"), ("a", "a/b"), ("A/b", "a"), ("Ä", "ä")]
        {
            assert!(collide(one, other) && collide(other, one), "{one} {other}");
        }
        for (one, other) in [("fix/a", "fix/a"), ("fix/a", "fix/b"), ("fix-a", "fix/a"), ("a", "ab"), ("A", "b")] {
            assert!(!collide(one, other) && !collide(other, one), "{one} {other}");
        }
    }

    #[test]
    fn the_disk_is_asked_and_nothing_is_left_on_it() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("a"), "").unwrap();
        let both = fs::File::create_new(temp.path().join("A")).is_ok();
        assert_eq!(is_folded(temp.path()).unwrap(), !both);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), if both { 2 } else { 1 });
        assert!(is_folded(&temp.path().join("missing")).is_err());
    }
}
