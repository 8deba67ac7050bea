//! File systems that are mounted below a directory. A rename takes them along, and a deletion would go into them: what they
//! hold is somewhere else. Linux only.

use super::IsolationError;
use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

const MOUNTS: &str = "/proc/self/mountinfo";

/// Where something is mounted below a directory, or right there.
pub(super) fn inside(directory: &Path) -> io::Result<Option<PathBuf>> {
    let directory = match directory.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        canonical => canonical?,
    };
    match fs::read(MOUNTS) {
        Ok(text) => Ok(mounted(&text).find(|place| place.starts_with(&directory))),
        // Not on Linux.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn refuse_inside(directory: &Path) -> Result<(), IsolationError> {
    match inside(directory).map_err(|error| IsolationError::files("looking at", directory, &error))? {
        Some(place) => Err(IsolationError::MountInside(place)),
        None => Ok(()),
    }
}

/// `<id> <parent> <device> <root> <place> …`, as proc(5) describes it.
fn mounted(text: &[u8]) -> impl Iterator<Item = PathBuf> {
    text.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped)
}

/// Spaces and the like stand there as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [first, more @ ..] = rest {
        let code = more.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &more[3..] } else { more };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_with_any_name() {
        let text = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 22 0:33 / /a\\040b\\134c rw - tmpfs none rw\n";
        let places: Vec<_> = mounted(text).collect();
        assert_eq!(places, [Path::new("/"), Path::new("/a b\\c")]);
    }

    #[test]
    fn what_is_mounted_is_found_from_above_and_not_from_beside() {
        assert_eq!(inside(Path::new("/proc")).unwrap().as_deref(), Some(Path::new("/proc")));
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(inside(directory.path()).unwrap(), None);
        assert_eq!(inside(&directory.path().join("gone")).unwrap(), None);
    }
}
