//! File systems that are mounted below a directory, and places where it is mounted itself. A rename takes the former along,
//! and a deletion would go into them: what they hold is somewhere else. Through the latter people go on writing, whatever it
//! is called. Linux only.

use super::IsolationError;
use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// One line of `mountinfo`.
pub(super) struct Mount {
    /// `<major>:<minor>`.
    pub device: String,
    /// The directory of that file system which is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    place: PathBuf,
}

/// The mounts that a process sees, given its directory in `/proc`. What cannot be read has none.
pub(super) fn of(process: &Path) -> Vec<Mount> {
    fs::read(process.join("mountinfo")).map(|text| mounted(&text).collect()).unwrap_or_default()
}

/// Where a path lies: the device, and the place in its file system.
pub(super) fn on_disk(mounts: &[Mount], path: &Path) -> Option<(String, PathBuf)> {
    // What is mounted later covers what was there.
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.place));
    let mount = above.max_by_key(|mount| mount.place.components().count())?;
    let below = path.strip_prefix(&mount.place).ok()?;
    Some((mount.device.clone(), mount.root.join(below)))
}

/// What speaks against taking a directory away: something is mounted below it, or right there, or it or a part of it is mounted.
pub(super) fn touching(directory: &Path) -> io::Result<Option<IsolationError>> {
    let directory = match directory.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        canonical => canonical?,
    };
    match fs::read("/proc/self/mountinfo") {
        Ok(text) => Ok(touches(mounted(&text).collect(), &directory)),
        // Not on Linux.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn touches(mounts: Vec<Mount>, directory: &Path) -> Option<IsolationError> {
    let on_disk = on_disk(&mounts, directory);
    mounts.into_iter().find_map(|Mount { device, root, place }| {
        let shows = on_disk.as_ref().is_some_and(|(ours, at)| device == *ours && root.starts_with(at));
        match place.starts_with(directory) {
            true => Some(IsolationError::MountInside(place)),
            false => shows.then_some(IsolationError::MountedAt(place)),
        }
    })
}

pub(super) fn refuse(directory: &Path) -> Result<(), IsolationError> {
    touching(directory).map_err(|error| IsolationError::files("looking at", directory, &error))?.map_or(Ok(()), Err)
}

/// `<id> <parent> <device> <root> <place> …`, as proc(5) describes it.
fn mounted(text: &[u8]) -> impl Iterator<Item = Mount> {
    text.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let device = String::from_utf8_lossy(fields.next()?).into_owned();
        Some(Mount { device, root: unescaped(fields.next()?), place: unescaped(fields.next()?) })
    })
}

/// Spaces and the like stand there as a backslash and three octal digits.
pub(super) fn unescaped(text: &[u8]) -> PathBuf {
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
        let places: Vec<_> = mounted(text).map(|mount| mount.place).collect();
        assert_eq!(places, [Path::new("/"), Path::new("/a b\\c")]);
    }

    #[test]
    fn a_place_on_disk_is_that_of_the_last_mount_above_it() {
        let text = b"22 1 8:1 / / rw - ext4 x rw\n40 22 8:2 /of/it /a rw - ext4 y rw\n41 22 8:3 / /a rw - ext4 z rw\n";
        let mounts: Vec<_> = mounted(text).collect();
        let on_disk = |path: &str| on_disk(&mounts, Path::new(path)).unwrap();
        assert_eq!(on_disk("/a/b"), ("8:3".to_owned(), PathBuf::from("/b")));
        assert_eq!(on_disk("/ab/c"), ("8:1".to_owned(), PathBuf::from("/ab/c")));
        assert_eq!(super::on_disk(&mounts[1..2], Path::new("/a/b")), Some(("8:2".to_owned(), "/of/it/b".into())));
        assert_eq!(super::on_disk(&[], Path::new("/a")), None);
    }

    #[test]
    fn what_is_mounted_is_found_from_above_and_not_from_beside() {
        assert_eq!(touching(Path::new("/proc")).unwrap(), Some(IsolationError::MountInside("/proc".into())));
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(touching(directory.path()).unwrap(), None);
        assert_eq!(touching(&directory.path().join("gone")).unwrap(), None);
    }

    #[test]
    fn where_a_directory_is_mounted_itself_is_found() {
        let touched = |line: &str, directory: &str| {
            let text = format!("22 1 8:1 / / rw - ext4 x rw\n23 22 8:2 /data /home rw - ext4 y rw\n{line}\n");
            touches(mounted(text.as_bytes()).collect(), Path::new(directory))
        };
        let preview = Some(IsolationError::MountedAt("/srv/preview".into()));
        for root in ["/data/trees/one", "/data/trees/one/web"] {
            assert_eq!(touched(&format!("40 22 8:2 {root} /srv/preview rw - ext4 y rw"), "/home/trees/one"), preview);
        }
        // What lies above it, beside it, or on another disk.
        for (device, root) in [("8:2", "/data/trees"), ("8:2", "/data/trees/one-b"), ("8:1", "/data/trees/one")] {
            assert_eq!(touched(&format!("40 22 {device} {root} /srv/preview rw - ext4 y rw"), "/home/trees/one"), None);
        }
    }
}
