//! The trash: where removed worktrees go, by a rename, before anything of them is deleted.
//!
//! `<id>` holds files that are still to be looked at, or whose removal may even be undone; so does `<id>.cache-<number>`, of a
//! worktree that stays. `<id>.done` is deleted. All walks stay on
//! real directories and follow no link, whatever a leftover process does to the tree meanwhile.

use super::IsolationError;
use crate::model::EnvironmentId;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use std::{
    ffi::CString,
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

const DONE: &str = "done";

#[derive(Clone, Debug)]
pub(super) struct Trash {
    root: PathBuf,
}

impl Trash {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where an environment's files are while its removal is under way.
    pub fn place(&self, id: EnvironmentId) -> PathBuf {
        self.root.join(id.to_string())
    }

    fn done(&self, id: EnvironmentId) -> PathBuf {
        self.place(id).with_extension(DONE)
    }

    /// What waits at another place is found by nobody.
    pub fn refuse_others(&self, mut places: impl Iterator<Item = PathBuf>) -> Result<(), IsolationError> {
        let waits = |place: &PathBuf| {
            let other = Trash::new(place.clone());
            *place != self.root && other.has_any().unwrap_or_else(|error| error.kind() != io::ErrorKind::NotFound)
        };
        match places.find(waits) {
            Some(other) => Err(IsolationError::TrashElsewhere { other, trash: self.root.clone() }),
            None => Ok(()),
        }
    }

    /// Whether anything is here that may not be deleted.
    fn has_any(&self) -> io::Result<bool> {
        let names = fs::read_dir(&self.root)?.map(|entry| entry.map(|entry| PathBuf::from(entry.file_name())));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        let waits = |name: &PathBuf| {
            let id = name.file_stem().and_then(|stem| stem.to_str()?.parse::<EnvironmentId>().ok());
            id.is_some() && name.extension() != Some(DONE.as_ref())
        };
        Ok(names.iter().any(waits))
    }

    /// Whether files that may not be deleted are here under a name. What cannot be looked at may be.
    pub fn has(&self, name: &str) -> bool {
        !fs::symlink_metadata(self.root.join(name)).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Whose files are here that may not be deleted.
    pub fn waiting(&self) -> io::Result<Vec<EnvironmentId>> {
        let names = fs::read_dir(&self.root)?.collect::<io::Result<Vec<_>>>()?;
        Ok(names.into_iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }

    /// Where a cache of a place that stays is, from its rename until it is certain that nobody misses it. `number` is its place in
    /// the list that was written down.
    pub fn place_of_cache(&self, id: EnvironmentId, number: usize) -> PathBuf {
        self.place(id).with_extension(format!("cache-{number}"))
    }

    /// Where it is from then on.
    pub fn released_cache(&self, id: EnvironmentId, number: usize) -> PathBuf {
        self.place(id).with_extension(format!("cache-{number}.{DONE}"))
    }

    pub fn release_cache(&self, id: EnvironmentId, number: usize) -> io::Result<()> {
        let place = self.place_of_cache(id, number);
        match fs::rename(&place, self.released_cache(id, number)) {
            // An earlier one is not deleted yet.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => self.discard(&place),
            result => result,
        }
    }

    /// Caches that may not be deleted, and whose they are.
    pub fn caches(&self) -> io::Result<Vec<(EnvironmentId, PathBuf)>> {
        let mut caches = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            let id = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            let is_cache = path.extension().is_some_and(|kind| kind.as_encoded_bytes().starts_with(b"cache-"));
            caches.extend(id.filter(|_| is_cache).map(|id| (id, path)));
        }
        Ok(caches)
    }

    /// From here on the files may be deleted.
    pub fn release(&self, id: EnvironmentId) -> io::Result<()> {
        match fs::rename(self.place(id), self.done(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Takes something that holds nobody's work straight to what is deleted.
    pub fn discard(&self, path: &Path) -> io::Result<()> {
        let name = PathBuf::from(uuid::Uuid::now_v7().to_string()).with_extension(DONE);
        super::way::relocate(path, &self.root.join(name))
    }

    /// Deletes everything that was released. What cannot be deleted stays, and does not stop the rest.
    pub fn empty(&self) -> io::Result<()> {
        let mut first_error = None;
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path.extension() != Some(DONE.as_ref()) {
                continue;
            }
            if let Err(error) = super::mounts::touching(&path).and_then(|mounted| match mounted {
                // What is in there is somewhere else, and nobody's trash.
                Some(mounted) => Err(io::Error::other(mounted.to_string())),
                None => delete(&path),
            }) {
                tracing::warn!(path = %path.display(), error = %error, "trash not emptied");
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}

pub(super) fn can_be_emptied(directory: &Path, owner: u32) -> bool {
    let me = rustix::process::geteuid().as_raw();
    let access = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    // The mode of our own directories can be changed.
    me == 0 || owner == me || rustix::fs::access(directory, access).is_ok()
}

/// Deletes a tree of any depth with two open directories at a time: directories found inside are first moved up beside
/// it, under numbers of their own. A tree that is gone already is fine.
fn delete(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("not a path in the trash"));
    };
    let trash = rustix::fs::open(parent, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut pending = vec![CString::new(name.as_encoded_bytes())?];
    while let Some(name) = pending.pop() {
        let Some(directory) = open_real(&trash, &name)? else {
            // Not a directory (any more): a file or a link, taken away as such.
            unlink(&trash, &name, AtFlags::empty())?;
            continue;
        };
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let inner = entry.file_name();
            if matches!(inner.to_bytes(), b"." | b"..") || unlink(&directory, inner, AtFlags::empty()).is_ok() {
                continue;
            }
            // Moving a directory needs write permission on itself, too.
            drop(open_real(&directory, inner)?);
            let moved = CString::new(format!("{}.{DONE}", uuid::Uuid::now_v7()))?;
            rustix::fs::renameat(&directory, inner, &trash, &moved)?;
            pending.push(moved);
        }
        unlink(&trash, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Opens a real directory, never through a link, after giving its owner all rights on it. `None`: it is no directory.
fn open_real(parent: &OwnedFd, name: &std::ffi::CStr) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP | rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mode = rustix::fs::fstat(&handle)?.st_mode & 0o7777;
    if mode & 0o700 != 0o700 {
        super::way::set_mode(&handle, mode | 0o700)?;
    }
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(Some(rustix::fs::openat(&handle, c".", flags, Mode::empty())?))
}

fn unlink(parent: &OwnedFd, name: &std::ffi::CStr, flags: AtFlags) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, name, flags) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn trash() -> (tempfile::TempDir, Trash) {
        let temp = tempfile::tempdir().unwrap();
        let trash = Trash::new(temp.path().join("trash"));
        fs::create_dir(&trash.root).unwrap();
        (temp, trash)
    }

    #[test]
    fn links_are_taken_away_and_their_targets_stay() {
        let (temp, trash) = trash();
        let shared = temp.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::write(shared.join("keep"), "k").unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o500)).unwrap();
        let tree = temp.path().join("tree");
        fs::create_dir_all(tree.join("closed/inner")).unwrap();
        fs::write(tree.join("closed/inner/f"), "12345").unwrap();
        symlink(&shared, tree.join("link")).unwrap();
        symlink(&shared, tree.join("closed/link")).unwrap();
        fs::set_permissions(tree.join("closed/inner"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(tree.join("closed"), fs::Permissions::from_mode(0o555)).unwrap();
        trash.discard(&tree).unwrap();
        trash.empty().unwrap();
        assert_eq!(fs::read_dir(&trash.root).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(shared.join("keep")).unwrap(), "k");
        assert_eq!(fs::metadata(&shared).unwrap().permissions().mode() & 0o777, 0o500);
    }

    #[test]
    fn only_what_was_released_is_deleted() {
        let (_temp, trash) = trash();
        let id = EnvironmentId(uuid::Uuid::now_v7());
        fs::create_dir(trash.place(id)).unwrap();
        trash.empty().unwrap();
        assert!(trash.place(id).is_dir());
        trash.release(id).unwrap();
        trash.release(id).unwrap();
        trash.empty().unwrap();
        trash.empty().unwrap();
        assert_eq!(fs::read_dir(&trash.root).unwrap().count(), 0);
    }

    #[test]
    fn caches_are_listed_until_they_are_released() {
        let (_temp, trash) = trash();
        let id = EnvironmentId(uuid::Uuid::now_v7());
        fs::create_dir(trash.place(id)).unwrap();
        for again in [false, true] {
            fs::create_dir_all(trash.place_of_cache(id, 10).join("inside")).unwrap();
            assert_eq!(trash.caches().unwrap(), [(id, trash.place_of_cache(id, 10))]);
            assert_eq!(trash.waiting().unwrap(), [id]);
            trash.release_cache(id, 10).unwrap();
            assert!(trash.caches().unwrap().is_empty() && trash.released_cache(id, 10).exists(), "{again}");
        }
        trash.empty().unwrap();
        assert_eq!(fs::read_dir(&trash.root).unwrap().count(), 1);
    }

    #[test]
    fn a_very_deep_tree_is_no_trouble() {
        let (temp, trash) = trash();
        let top = temp.path().join("deep");
        fs::create_dir(&top).unwrap();
        let mut here = rustix::fs::open(&top, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&here, c"directory", Mode::RWXU).unwrap();
            here = rustix::fs::openat(&here, c"directory", OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        }
        drop(here);
        trash.discard(&top).unwrap();
        trash.empty().unwrap();
        assert_eq!(fs::read_dir(&trash.root).unwrap().count(), 0);
    }
}
