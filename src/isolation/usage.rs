//! How much a directory takes on the disk. The walk follows no link, stays on the file system it begins on, and ends after
//! a while: what it could not see makes the answer "at least so much".

use super::{IsolationError, trash::can_be_emptied};
use crate::git::LooksBare;
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    collections::HashMap,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// A tree that takes longer is measured in part.
const PATIENCE: Duration = Duration::from_secs(300);
const LONG_PATIENCE: Duration = Duration::from_secs(3600);
/// What it takes beyond that to say so. A walk that does not is stuck in a call, as on a network that does not answer.
const MARGIN: Duration = Duration::from_secs(10);
/// What `stat(2)` counts blocks in.
const BLOCK: u64 = 512;
/// Of a thread that yields to everybody else, also on the disk where the scheduler there goes by it, and still gets on where
/// agents keep all processors busy.
const NICE: i32 = 10;

/// What a walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of allocated blocks, each file once.
    pub bytes: u64,
    /// What deleting it frees: without files that have a name elsewhere, too.
    pub freed: u64,
    /// Everything was looked at.
    pub whole: bool,
    /// What could not be looked at, other than a closed directory of our own, which can be opened when it is deleted.
    pub unseen: Option<PathBuf>,
    /// What lies in it that is a repository or worktree, or looks like one.
    pub repository: Option<PathBuf>,
    /// A directory that could not be emptied, with its owner.
    pub obstacle: Option<(PathBuf, u32)>,
}

impl Usage {
    fn has_not_seen(&mut self, place: &Path) {
        self.whole = false;
        self.unseen.get_or_insert_with(|| place.to_owned());
    }
}

/// Measures a directory off the threads that serve people. One that is not there takes nothing. `None`: the walk does not
/// come to its end.
pub async fn measure(directory: &Path) -> Result<Option<Usage>, IsolationError> {
    let place = directory.to_owned();
    walked(directory, PATIENCE + MARGIN, move |given_up| walk(&place, PATIENCE, given_up)).await
}

/// The same where somebody waits for it, and nothing goes on before everything was looked at.
pub(super) fn survey(directory: &Path) -> Usage {
    walk(directory, LONG_PATIENCE, &AtomicBool::new(false))
}

/// Walks whose end nobody waits for any more. One at a time for each place: threads do not pile up.
static STUCK: Mutex<Vec<(PathBuf, Weak<AtomicBool>)>> = Mutex::new(Vec::new());

async fn walked(
    directory: &Path,
    patience: Duration,
    walk: impl FnOnce(&AtomicBool) -> Usage + Send + 'static,
) -> Result<Option<Usage>, IsolationError> {
    let stuck = || STUCK.lock().unwrap_or_else(PoisonError::into_inner);
    stuck().retain(|(_, walk)| walk.strong_count() > 0);
    if stuck().iter().any(|(place, _)| place == directory) {
        return Ok(None);
    }
    let given_up = Arc::new(AtomicBool::new(false));
    let (_at_the_end, told) = (GiveUp(given_up.clone()), Arc::downgrade(&given_up));
    let (send, receive) = tokio::sync::oneshot::channel();
    // A thread of its own: being nice cannot be taken back.
    let thread = move || {
        let _ = rustix::process::setpriority_process(None, NICE);
        let _ = send.send(walk(&given_up));
    };
    let started = std::thread::Builder::new().name("measure".to_owned()).spawn(thread);
    started.map_err(|error| IsolationError::Unknown(error.to_string()))?;
    match tokio::time::timeout(patience, receive).await {
        Ok(Ok(usage)) => Ok(Some(usage)),
        Ok(Err(_)) => Err(IsolationError::Unknown("the measuring has ended early".to_owned())),
        Err(_) => {
            tracing::warn!(path = %directory.display(), "the measuring of a directory does not end; is a mount in it out of reach?");
            stuck().push((directory.to_owned(), told));
            Ok(None)
        }
    }
}

/// Ends the walk when nobody waits for it any more.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn walk(root: &Path, patience: Duration, given_up: &AtomicBool) -> Usage {
    let deadline = Instant::now() + patience;
    let is_over = || Instant::now() >= deadline || given_up.load(Ordering::Relaxed);
    let mut usage = Usage { whole: true, ..Usage::default() };
    let device = match fs::symlink_metadata(root) {
        Ok(top) => top.dev(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return usage,
        Err(_) => {
            usage.has_not_seen(root);
            return usage;
        }
    };
    // Names seen of files that have several: how many, of how many, and what each takes.
    let mut shared: HashMap<u64, (_, _, u64)> = HashMap::new();
    let mut pending = vec![root.to_owned()];
    'walk: while let Some(directory) = pending.pop() {
        if is_over() {
            usage.has_not_seen(&directory);
            break;
        }
        let mut note_obstacle = |owner: u32| {
            if usage.obstacle.is_none() && !can_be_emptied(&directory, owner) {
                usage.obstacle = Some((directory.clone(), owner));
            }
        };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let handle = match rustix::fs::open(&directory, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(error) => {
                let _ = fs::symlink_metadata(&directory).map(|meta| note_obstacle(meta.uid()));
                match error {
                    Errno::ACCESS => usage.whole = false,
                    _ => usage.has_not_seen(&directory),
                }
                continue;
            }
        };
        let (Ok(own), Ok(entries)) = (rustix::fs::fstat(&handle), Dir::read_from(&handle)) else {
            usage.has_not_seen(&directory);
            continue;
        };
        if own.st_dev != device {
            usage.has_not_seen(&directory);
            continue;
        }
        note_obstacle(own.st_uid);
        let mut looks_bare = LooksBare::default();
        let blocks = |stat: &rustix::fs::Stat| u64::try_from(stat.st_blocks).unwrap_or_default() * BLOCK;
        (usage.bytes, usage.freed) = (usage.bytes + blocks(&own), usage.freed + blocks(&own));
        for entry in entries {
            if is_over() {
                usage.has_not_seen(&directory);
                break 'walk;
            }
            let Ok(entry) = entry else {
                usage.has_not_seen(&directory);
                break;
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let path = || directory.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
            if (name.to_bytes() == b".git" && directory != root) || looks_bare.with(name.to_bytes()) {
                usage.repository.get_or_insert_with(|| directory.clone());
            }
            let Ok(stat) = rustix::fs::statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) else {
                usage.has_not_seen(&directory);
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
        let given_up = walk(&root, PATIENCE, &AtomicBool::new(true));
        assert_eq!((given_up.whole, given_up.unseen.as_deref()), (false, Some(root.as_path())), "nobody waits for it");
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let Usage { whole, obstacle, unseen, .. } = measured(&root);
        assert_eq!((whole, obstacle, unseen), (is_root, None, None), "our own can be opened");
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        // A link in the place of the directory itself.
        symlink(&root, temp.path().join("link")).unwrap();
        assert!(!measured(&temp.path().join("link")).whole);
        assert!(measured(&root.join("file/below")).unseen.is_some(), "it is not known not to be there");
    }

    #[test]
    fn patience_ends_in_the_middle_of_a_directory() {
        let temp = tempfile::tempdir().unwrap();
        (0..5000).for_each(|number| fs::write(temp.path().join(number.to_string()), "").unwrap());
        assert!(measured(temp.path()).whole);
        assert!(!walk(temp.path(), Duration::from_micros(300), &AtomicBool::new(false)).whole);
    }

    #[tokio::test]
    async fn a_walk_that_is_stuck_holds_up_nobody() {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let (place, patience) = (Path::new("/stuck"), Duration::from_millis(20));
        let walk = move |given_up: &AtomicBool| {
            let _ = wait.recv();
            Usage { whole: !given_up.load(Ordering::Relaxed), ..Usage::default() }
        };
        assert_eq!(walked(place, patience, walk).await.unwrap(), None);
        assert_eq!(walked(place, patience, |_| unreachable!()).await.unwrap(), None, "none beside it");
        drop(go_on);
        let whole = || Usage { whole: true, ..Usage::default() };
        while walked(place, PATIENCE, move |_| whole()).await.unwrap() != Some(whole()) {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn repositories_inside_are_seen() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("pkg/x")).unwrap();
        fs::write(temp.path().join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(measured(temp.path()).repository, None, "its own link");
        fs::write(temp.path().join("pkg/x/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(measured(temp.path()).repository, Some(temp.path().join("pkg/x")));
        let bare = tempfile::tempdir().unwrap();
        fs::create_dir_all(bare.path().join("dep/objects")).unwrap();
        fs::create_dir_all(bare.path().join("dep/refs")).unwrap();
        assert_eq!(measured(bare.path()).repository, None);
        fs::write(bare.path().join("dep/HEAD"), "ref: refs/heads/main").unwrap();
        assert_eq!(measured(bare.path()).repository, Some(bare.path().join("dep")));
        assert_eq!(measured(&bare.path().join("dep")).repository, Some(bare.path().join("dep")));
    }
}
