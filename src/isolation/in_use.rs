//! Whether a process works below a directory: it is its current directory or its root, or has a file there open or mapped
//! into its memory, or sees it mounted where it is. Linux only; what cannot be seen (other users' processes) is not counted,
//! and neither are the service's own git processes: they end by themselves. Nor is a process that is about to become one:
//! between its birth and its program it has all files open that we have.

use super::mounts;
use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The id of some process that works at or below `directory`, apart from some.
pub(super) fn user_of(directory: &Path, apart_from: &[u32]) -> Option<u32> {
    let own = std::process::id();
    let searched = Searched::new(directory);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id != own && !apart_from.contains(id)).find(|id| {
        let process = Path::new("/proc").join(id.to_string());
        searched.is_used_by(&process) && !is_ours(&process, own)
    })
}

/// A directory, by its name here and by its place in its file system, which a container may know by another name.
struct Searched<'a> {
    directory: &'a Path,
    namespace: Option<PathBuf>,
    on_disk: Option<(String, PathBuf)>,
}

impl<'a> Searched<'a> {
    fn new(directory: &'a Path) -> Self {
        let ours = Path::new("/proc/self");
        let on_disk = mounts::on_disk(&mounts::of(ours), directory);
        Self { directory, namespace: namespace(ours), on_disk }
    }

    fn is_used_by(&self, process: &Path) -> bool {
        let namespace = namespace(process);
        // Another user's process does not say; it does say what it sees mounted.
        let elsewhere = namespace.is_none() || namespace != self.namespace;
        let mounts = if elsewhere { mounts::of(process) } else { Vec::new() };
        if mounts.iter().any(|mount| self.holds(&mount.device, &mount.root)) {
            return true;
        }
        let leads_there = |place: &Path| match elsewhere {
            true => mounts::on_disk(&mounts, place).is_some_and(|(device, place)| self.holds(&device, &place)),
            false => place.starts_with(self.directory),
        };
        let link_leads_there = |link: &Path| fs::read_link(link).is_ok_and(|place| leads_there(&place));
        let opened = |files: fs::ReadDir| files.flatten().any(|file| link_leads_there(&file.path()));
        ["cwd", "root"].iter().any(|link| link_leads_there(&process.join(link)))
            || fs::read_dir(process.join("fd")).is_ok_and(opened)
            || fs::read(process.join("maps")).is_ok_and(|maps| mapped(&maps).any(|place| leads_there(&place)))
    }

    fn holds(&self, device: &str, place: &Path) -> bool {
        self.on_disk.as_ref().is_some_and(|(ours, directory)| ours == device && place.starts_with(directory))
    }
}

/// Which mounts a process sees.
fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/mnt")).ok()
}

/// `<addresses> <permissions> <offset> <device> <inode> <file>`, as proc(5) describes it: only a line break is escaped.
fn mapped(maps: &[u8]) -> impl Iterator<Item = PathBuf> {
    let files =
        maps.split(|byte| *byte == b'\n').filter_map(|line| Some(&line[line.iter().position(|byte| *byte == b'/')?..]));
    files.map(|file| match file.windows(4).any(|bytes| bytes == br"\012") {
        true => mounts::unescaped(file),
        false => PathBuf::from(OsStr::from_bytes(file)),
    })
}

/// `<id> (git) <state> <parent> …`, as proc(5) describes it. What cannot be read any more has ended.
fn is_ours(process: &Path, own: u32) -> bool {
    let Ok(stat) = fs::read_to_string(process.join("stat")) else { return true };
    let Some((head, tail)) = stat.rsplit_once(") ") else { return false };
    let is_child = tail.split(' ').nth(1) == Some(own.to_string().as_str());
    is_child && (head.ends_with("(git") || is_about_to_start(process))
}

/// It still has our own command line.
fn is_about_to_start(process: &Path) -> bool {
    let line = fs::read(process.join("cmdline"));
    line.is_ok_and(|line| fs::read("/proc/self/cmdline").is_ok_and(|own| own == line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::way::tests::as_another_user;
    use std::process::{Command, Stdio};

    /// As a container of root's is to a service that is not root.
    #[test]
    fn a_container_of_another_user_is_seen() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let script = "mount --bind \"$0\" \"$1\" && cd \"$1\" && echo there && exec sleep 600";
        let mut container = Command::new("unshare");
        container.args(["--mount", "sh", "-c", script]).args([directory.path(), elsewhere.path()]).current_dir("/");
        let mut container = container.stdout(Stdio::piped()).spawn().unwrap();
        let mut word = String::new();
        std::io::Read::read_to_string(&mut std::io::Read::take(container.stdout.as_mut().unwrap(), 5), &mut word)
            .unwrap();
        let seen = as_another_user(|| user_of(directory.path(), &[]));
        container.kill().unwrap();
        container.wait().unwrap();
        // Only root may make one here, and only to others it is another user's.
        match word.is_empty() {
            true => eprintln!("not checked: this machine allows no mount namespaces"),
            false => assert_eq!(seen, Some(container.id())),
        }
    }

    #[test]
    fn mapped_files_are_read_with_any_name() {
        let maps = b"00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/a b\n\
            35b1800000-35b1820000 rw-s 00000000 08:02 135522 /tmp/a\\012b (deleted)\n\
            f2c6ff8c000-7f2c7078c000 rw-p 00000000 00:00 0 [stack]\n7f-8f rw-p 00000000 00:00 0\n";
        let places: Vec<_> = mapped(maps).collect();
        assert_eq!(places, [Path::new("/usr/bin/a b"), Path::new("/tmp/a\nb (deleted)")]);
    }
}
