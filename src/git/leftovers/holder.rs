//! Whether a process on this machine may still hold what looks left behind: it has it open, or it is a git at work in the
//! repository. Git closes a lock file long before it lets go of it, so looking at open files is not enough.
//!
//! By `/proc`, as proc(5) describes it; where there is none, nobody is seen. Neither are processes of other machines and
//! containers. A git whose whereabouts are hidden (another user's) counts when the leftover belongs to its user: nobody
//! else can have made it.

use super::super::canonical;
use std::{
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

/// A process, apart from some, and which of the leftovers it may hold. `grounds`: the repository and its worktrees.
pub(super) fn find(leftovers: &[PathBuf], grounds: &[PathBuf], apart_from: &[u32]) -> Option<(PathBuf, u32)> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let processes = processes.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    processes.filter(|(id, _)| !apart_from.contains(id)).find_map(|(id, process)| {
        let held = opened(&process, leftovers).or_else(|| claimed(&process, leftovers, grounds));
        held.map(|path| (path.clone(), id))
    })
}

/// The leftover that it has open, or in which it has a file open.
fn opened<'a>(process: &Path, leftovers: &'a [PathBuf]) -> Option<&'a PathBuf> {
    let files = fs::read_dir(process.join("fd")).ok()?.flatten();
    let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.find_map(|target| leftovers.iter().find(|leftover| target.starts_with(leftover)))
}

/// A leftover that may be its own, when it is a git.
fn claimed<'a>(process: &Path, leftovers: &'a [PathBuf], grounds: &[PathBuf]) -> Option<&'a PathBuf> {
    if !is_git(process) {
        return None;
    }
    match whereabouts(process) {
        Ok(places) => {
            let here = places.iter().any(|place| grounds.iter().any(|ground| place.starts_with(ground)));
            leftovers.first().filter(|_| here)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let user = owner(process)?;
            leftovers.iter().find(|leftover| owner(leftover) == Some(user))
        }
        // It has ended.
        Err(_) => None,
    }
}

/// `<id> (<name>) <state> …`; a process that has ended, and that nobody has waited for, is still listed.
fn is_git(process: &Path) -> bool {
    let stat = fs::read(process.join("stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    let Some((head, tail)) = stat.rsplit_once(") ") else { return false };
    let name = head.split_once('(').map_or("", |(_, name)| name);
    (name == "git" || name.starts_with("git-")) && !tail.starts_with(['Z', 'X'])
}

/// Its current directory, and the repositories it was told to work in.
fn whereabouts(process: &Path) -> io::Result<Vec<PathBuf>> {
    let current = fs::read_link(process.join("cwd"))?;
    let mut places = vec![current.clone()];
    for (file, prefix) in [("environ", &b"GIT_DIR="[..]), ("cmdline", b"--git-dir=")] {
        let texts = fs::read(process.join(file)).unwrap_or_default();
        let told = texts.split(|byte| *byte == 0).filter_map(|text| text.strip_prefix(prefix));
        places.extend(told.map(|place| canonical(&current.join(OsStr::from_bytes(place)))));
    }
    Ok(places)
}

fn owner(path: &Path) -> Option<u32> {
    fs::symlink_metadata(path).ok().map(|meta| meta.uid())
}
