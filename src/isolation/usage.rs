//! How much a directory takes on the disk. The walk follows no link, stays on the file system it begins on, and ends after
//! a while: what it could not see makes the answer "at least so much".

use super::IsolationError;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::{
    collections::HashMap,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// A tree that takes longer is measured in part.
const PATIENCE: Duration = Duration::from_secs(300);
/// What `stat(2)` counts blocks in.
const BLOCK: u64 = 512;
/// Of a thread that yields to everybody else, also on the disk where the scheduler there goes by it.
const NICEST: i32 = 19;

/// What a walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of allocated blocks, each file once.
    pub bytes: u64,
    /// What deleting it frees: without files that have a name elsewhere, too.
    pub freed: u64,
    /// Everything was looked at.
    pub whole: bool,
    /// What lies in it that is a repository or worktree, or looks like one.
    pub repository: Option<PathBuf>,
}

/// Measures a directory off the threads that serve people. One that is not there takes nothing.
pub async fn measure(directory: &Path) -> Result<Usage, IsolationError> {
    let directory = directory.to_owned();
    let given_up = GiveUp::default();
    let told = given_up.0.clone();
    let (send, receive) = tokio::sync::oneshot::channel();
    // A thread of its own: being nice cannot be taken back.
    let walk = move || {
        let _ = rustix::process::setpriority_process(None, NICEST);
        let _ = send.send(walk(&directory, PATIENCE, &told));
    };
    let started = std::thread::Builder::new().name("measure".to_owned()).spawn(walk);
    started.map_err(|error| IsolationError::Unknown(error.to_string()))?;
    receive.await.map_err(|_| IsolationError::Unknown("the measuring has ended early".to_owned()))
}

/// Ends the walk when nobody waits for it any more.
#[derive(Default)]
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn walk(root: &Path, patience: Duration, given_up: &AtomicBool) -> Usage {
    let deadline = Instant::now() + patience;
    let mut usage = Usage { whole: true, ..Usage::default() };
    let Ok(top) = fs::symlink_metadata(root) else { return Usage { whole: !root.exists(), ..usage } };
    let device = std::os::unix::fs::MetadataExt::dev(&top);
    // Names seen of files that have several: how many, of how many, and what each takes.
    let mut shared: HashMap<u64, (_, _, u64)> = HashMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        if Instant::now() >= deadline || given_up.load(Ordering::Relaxed) {
            usage.whole = false;
            break;
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let Ok(handle) = rustix::fs::open(&directory, flags, Mode::empty()) else {
            usage.whole = false;
            continue;
        };
        let (Ok(own), Ok(entries)) = (rustix::fs::fstat(&handle), Dir::read_from(&handle)) else {
            usage.whole = false;
            continue;
        };
        if own.st_dev != device {
            usage.whole = false;
            continue;
        }
        let blocks = |stat: &rustix::fs::Stat| u64::try_from(stat.st_blocks).unwrap_or_default() * BLOCK;
        (usage.bytes, usage.freed) = (usage.bytes + blocks(&own), usage.freed + blocks(&own));
        for entry in entries {
            let Ok(entry) = entry else {
                usage.whole = false;
                break;
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let path = || directory.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
            if name.to_bytes() == b".git" && directory != root {
                usage.repository.get_or_insert_with(|| directory.clone());
            }
            let Ok(stat) = rustix::fs::statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) else {
                usage.whole = false;
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                pending.push(path());
                continue;
            }
            let takes = blocks(&stat);
            let names = stat.st_nlink;
            if names > 1 {
                let (seen, ..) = shared.entry(stat.st_ino).or_insert((0, names, takes));
                *seen += 1;
                if *seen > 1 {
                    continue;
                }
                usage.bytes += takes;
            } else {
                (usage.bytes, usage.freed) = (usage.bytes + takes, usage.freed + takes);
            }
        }
    }
    let all_names_here = shared.values().filter(|(seen, names, _)| seen >= names);
    usage.freed += all_names_here.map(|(_, _, takes)| takes).sum::<u64>();
    usage
}

/// Whether something is mounted at or below a directory: a rename would take it along, and a deletion would empty it. What
/// cannot be known counts as a mount.
pub(super) fn has_mount(directory: &Path) -> bool {
    match fs::read("/proc/self/mountinfo") {
        Ok(table) => mounted_at(&table).any(|place| place.starts_with(directory)),
        Err(_) => true,
    }
}

/// The fifth field of each line, as proc(5) describes it, with blanks and the like written in octal.
fn mounted_at(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    let fields = table.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    fields.map(|field| {
        let (mut plain, mut rest) = (Vec::new(), field);
        while let Some((first, after)) = rest.split_first() {
            let octal = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| str::from_utf8(digits).ok());
            match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
                Some(byte) => (plain.push(byte), rest = &after[3..]).0,
                None => (plain.push(*first), rest = after).0,
            }
        }
        PathBuf::from(std::ffi::OsStr::from_bytes(&plain))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn measured(root: &Path) -> Usage {
        walk(root, PATIENCE, &AtomicBool::new(false))
    }

    #[test]
    fn allocated_blocks_count_once_and_links_lead_nowhere() {
        let temp = tempfile::tempdir().unwrap();
        let (root, beside) = (temp.path().join("root"), temp.path().join("beside"));
        fs::create_dir_all(root.join("deep/er")).unwrap();
        fs::create_dir(&beside).unwrap();
        let empty = measured(&root);
        assert!(empty.whole);
        fs::write(root.join("deep/er/file"), vec![1; 1_000_000]).unwrap();
        fs::write(beside.join("large"), vec![1; 5_000_000]).unwrap();
        symlink(&beside, root.join("out")).unwrap();
        symlink(&root, root.join("deep/round")).unwrap();
        let one = measured(&root);
        assert!(one.whole && (1_000_000..1_200_000).contains(&(one.bytes - empty.bytes)), "{one:?}");
        assert_eq!(one.bytes, one.freed);
        // A sparse one takes what was written.
        fs::File::create(root.join("sparse")).unwrap().set_len(1 << 40).unwrap();
        assert!(measured(&root).bytes - one.bytes < 100_000);
        // A second name here costs nothing; one elsewhere keeps the file when this one goes.
        fs::hard_link(root.join("deep/er/file"), root.join("again")).unwrap();
        let two = measured(&root);
        assert!(two.bytes - one.bytes < 100_000 && two.freed == two.bytes, "{two:?}");
        fs::hard_link(root.join("again"), beside.join("third")).unwrap();
        let three = measured(&root);
        assert!(three.bytes == two.bytes && two.freed - three.freed >= 1_000_000, "{three:?}");
    }

    #[test]
    fn what_cannot_be_seen_makes_it_at_least_so_much() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        assert_eq!(measured(&root), Usage { whole: true, ..Usage::default() });
        fs::create_dir_all(root.join("closed")).unwrap();
        fs::write(root.join("file"), "x").unwrap();
        assert!(!walk(&root, Duration::ZERO, &AtomicBool::new(false)).whole, "it took too long");
        assert!(!walk(&root, PATIENCE, &AtomicBool::new(true)).whole, "nobody waits for it");
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(measured(&root).whole, is_root);
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        // A link in the place of the directory itself.
        symlink(&root, temp.path().join("link")).unwrap();
        assert!(!measured(&temp.path().join("link")).whole);
    }

    #[test]
    fn repositories_inside_are_seen() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("pkg/x")).unwrap();
        fs::write(temp.path().join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(measured(temp.path()).repository, None, "its own link");
        fs::write(temp.path().join("pkg/x/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(measured(temp.path()).repository, Some(temp.path().join("pkg/x")));
    }

    #[test]
    fn mounts_are_found_by_their_places() {
        let table = b"22 1 0:21 / /proc rw - proc proc rw\n30 1 8:1 / /srv/my\\040disk/x rw - ext4 /dev/sda1 rw\n";
        let places: Vec<_> = mounted_at(table).collect();
        assert_eq!(places, [PathBuf::from("/proc"), PathBuf::from("/srv/my disk/x")]);
        assert!(has_mount(Path::new("/")));
        assert!(!has_mount(tempfile::tempdir().unwrap().path()));
    }
}
