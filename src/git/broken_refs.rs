//! Refs that git cannot read, as somebody leaves them who writes into the repository by hand, or a loss of power. One of
//! them makes every fetch fail, and with `packed-refs` nothing at all can be read. They are looked for after something
//! failed: all refs are looked at. Only names of other refs and links, of which git does not complain, are looked for before
//! it would write through them.
//!
//! A branch is put back to where its reflog has it last. What was there is kept under [`ASIDE`] in the repository. Git's own
//! locks are taken, and what is there then counts: a git at work is in nobody's way, and a lock that a killed one left is not
//! in ours.

use super::error::GitError;
use super::lock::{Lock, is_lock};
use super::own_files::REFS;
use super::whole::refuse_other_refs;
use super::{canonical, loose_objects, own_files, plain_file, small_file, write_whole};
use crate::model::CommitSha;
use crate::plain_file::Links;
use git2::{ObjectType, Odb, Oid, Reference};
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirEntry},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Has a directory for each time that anything was set aside, and in that the paths as in the repository.
pub(super) const ASIDE: &str = "treewarden-broken";

pub(super) const PACKED: &str = "packed-refs";

/// More than any number of refs takes.
const MOST_PACKED: u64 = 512 * 1024 * 1024;

/// More than git wrote into a file that somebody made longer than that.
const MOST_WRITTEN: u64 = 64 * 1024 * 1024;

/// How much of a reflog's end is read.
const LOG_END: u64 = 64 * 1024;

/// There from before anything is taken away that may hold refs until what it held was brought back.
pub(super) const LOST: &str = "treewarden-lost-refs";

/// Whoever mends: another one would take for gone what is being brought back.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How many files are looked at where a link leads: that may be anywhere.
const MOST_BEHIND_LINK: usize = 20_000;

/// Puts right what git cannot read of the refs; answers whether anything was changed, so that another try is worth it.
pub(super) fn mend(repository: &Path) -> bool {
    try_mend(repository).unwrap_or_else(|error| {
        tracing::error!(git.directory = %repository.display(), %error, "refs that cannot be read were not put right");
        false
    })
}

/// A question to libgit2, asked again if it could not be read for the refs. It does not say which object it could not read.
pub(super) fn mending<T>(repository: &Path, ask: impl Fn() -> Result<T, GitError>) -> Result<T, GitError> {
    match ask() {
        Err(GitError::Unreadable(_)) if loose_objects::mend_empty(repository) | mend(repository) => ask(),
        answer => answer,
    }
}

fn try_mend(repository: &Path) -> Result<bool, GitError> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    refuse_other_refs(repository)?;
    if !own_files::is_made(repository) {
        return Ok(false);
    }
    let aside = repository.join(ASIDE).join(uuid::Uuid::now_v7().to_string());
    let objects = Objects::open(repository)?;
    let refs = Refs { repository, aside, objects, changed: Cell::default(), somebody_is_at_one: Cell::default() };
    let mark = repository.join(LOST);
    // What an earlier try did not come to, or a kill kept from it.
    let were_lost = own_files::look(&mark)?.is_some();
    let (loose_are_lost, packed_are_lost) = (refs.mend_directories()? || were_lost, refs.mend_packed()?);
    if loose_are_lost || packed_are_lost {
        refs.bring_back(loose_are_lost)?;
        if !refs.somebody_is_at_one.get() {
            own_files::gone(fs::remove_file(&mark), "removing", &mark)?;
        }
    }
    refs.mend_loose(&repository.join("refs"))?;
    Ok(refs.changed.get())
}

struct Refs<'a> {
    repository: &'a Path,
    aside: PathBuf,
    objects: Objects,
    changed: Cell<bool>,
    /// A lock of git's was in the way: it is for the next try.
    somebody_is_at_one: Cell<bool>,
}

impl Refs<'_> {
    /// Without the first two git does not even take it for a repository; through links it would read and write elsewhere.
    /// True: what they held is lost.
    fn mend_directories(&self) -> Result<bool, GitError> {
        let mut lost = false;
        for name in REFS {
            let path = self.repository.join(name);
            let is_there = match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() => continue,
                Ok(_) => true,
                Err(error) if is_absence(&error) => false,
                Err(error) => return Err(GitError::file("looking at", &path, &error)),
            };
            if !is_there && !["refs", "refs/heads"].contains(&name) {
                continue;
            }
            let led_to = directory_behind(&path);
            self.write_down_loss()?;
            if is_there {
                self.set_aside(&path)?;
            }
            fs::create_dir(&path).map_err(|error| GitError::file("making", &path, &error))?;
            self.note(&path);
            self.take_over(led_to, &path);
            lost = true;
        }
        for path in files_below(&self.repository.join("refs"))? {
            let led_to = directory_behind(&path);
            let was_one = || self.repository.join("logs").join(self.name(&path)).is_dir();
            if led_to.is_some() || (was_one() && self.state(&path)? == State::Broken) {
                self.write_down_loss()?;
                self.set_aside(&path)?;
                self.note(&path);
                self.take_over(led_to, &path);
                lost = true;
            }
        }
        Ok(lost)
    }

    /// Before anything is taken away, so that what it held is brought back whatever happens in between.
    fn write_down_loss(&self) -> Result<(), GitError> {
        match own_files::look(&self.repository.join(LOST))? {
            Some(_) => Ok(()),
            None => write_whole(&self.repository.join(LOST), b""),
        }
    }

    /// The refs where a link led, which may be all that there is of them: whoever made it may have moved them there. What the
    /// remote has is not believed; and refs elsewhere in this repository are there already.
    fn take_over(&self, led_to: Option<PathBuf>, place: &Path) {
        let Some(led_to) = led_to else { return };
        let there = led_to.display();
        tracing::warn!(path = %place.display(), "it was a link to {there}");
        if led_to.starts_with(canonical(&self.repository.join("refs"))) {
            return;
        }
        for file in some_below(&led_to, MOST_BEHIND_LINK) {
            let path = place.join(file.strip_prefix(&led_to).unwrap_or(&file));
            let name = self.name(&path);
            let text = small_file(&file).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let id = text.as_deref().and_then(id_at_start).filter(|(_, rest)| *rest == "\n").map(|(id, _)| id);
            let Some(id) = id.filter(|id| !name.starts_with("refs/remotes/") && self.objects.has(&name, id)) else {
                continue;
            };
            let put = || Ok(is_name(&name) && self.state(&path)? == State::Absent && self.put(&path, &id)?);
            if let Err::<bool, GitError>(error) = put() {
                tracing::warn!(path = %file.display(), %error, "a ref behind a link was not taken over");
            }
        }
    }

    fn lock(&self, path: &Path) -> Result<Option<Lock>, GitError> {
        let lock = Lock::take(self.repository, path)?;
        self.somebody_is_at_one.set(self.somebody_is_at_one.get() || lock.is_none());
        Ok(lock)
    }

    /// Makes a ref where there is none; false where there is one, or somebody is at it.
    fn put(&self, path: &Path, id: &CommitSha) -> Result<bool, GitError> {
        let Some(mut lock) = self.lock(path)? else { return Ok(false) };
        if self.state(path)? != State::Absent {
            return Ok(false);
        }
        lock.write(format!("{id}\n").as_bytes())?;
        lock.commit()?;
        self.note(path);
        Ok(true)
    }

    /// The lines that git can read, and whose objects are here, stay. True: others were there.
    fn mend_packed(&self) -> Result<bool, GitError> {
        let path = self.repository.join(PACKED);
        if self.read_packed(&path)?.is_none_or(|packed| packed.is_whole) {
            return Ok(false);
        }
        let Some(mut lock) = Lock::take(self.repository, &path)? else { return Ok(false) };
        let Some(packed) = self.read_packed(&path)?.filter(|packed| !packed.is_whole) else { return Ok(false) };
        lock.write(&packed.text())?;
        self.write_down_loss()?;
        self.keep(&path)?;
        lock.commit()?;
        self.note(&path);
        Ok(true)
    }

    fn read_packed(&self, path: &Path) -> Result<Option<Packed>, GitError> {
        let Some(mut packed) = read_packed(path)? else { return Ok(None) };
        let all = packed.refs.len();
        packed.refs.retain(|name, id| self.objects.has(name, id));
        packed.is_whole &= packed.refs.len() == all;
        Ok(Some(packed))
    }

    /// Branches that are nowhere come back by their reflogs; where their files were lost, also those that had moved since
    /// they were packed, and the remote's, which are asked for before the next fetch.
    fn bring_back(&self, loose_are_lost: bool) -> Result<(), GitError> {
        let packed = self.read_packed(&self.repository.join(PACKED))?.map(|packed| packed.refs).unwrap_or_default();
        let logs = self.repository.join("logs");
        let mut logged = files_below(&logs.join("refs/heads"))?;
        if loose_are_lost {
            logged.extend(files_below(&logs.join("refs/remotes"))?);
        }
        for log in logged {
            let Some(name) = log.strip_prefix(&logs).ok().and_then(Path::to_str) else { continue };
            let path = self.repository.join(name);
            let is_here = match packed.get(name) {
                Some(id) => !loose_are_lost || self.last_logged(&path)?.is_none_or(|last| last == *id),
                None => false,
            };
            if !is_here {
                self.mend_ref(&path)?;
            }
        }
        Ok(())
    }

    fn mend_loose(&self, refs: &Path) -> Result<(), GitError> {
        for path in files_below(refs)? {
            if !is_lock(&path) && self.state(&path)? == State::Broken {
                self.mend_ref(&path)?;
            }
        }
        Ok(())
    }

    /// For a ref that is broken, or that is nowhere although it has a reflog, which git deletes before a branch.
    fn mend_ref(&self, path: &Path) -> Result<(), GitError> {
        let Some(mut lock) = self.lock(path)? else { return Ok(()) };
        let state = self.state(path)?;
        let last = match state {
            State::Good => return Ok(()),
            State::Absent | State::Broken => self.last_logged(path)?,
        };
        match last {
            Some(id) => {
                lock.write(format!("{id}\n").as_bytes())?;
                if state == State::Broken {
                    self.keep(path)?;
                }
                lock.commit()?;
            }
            None if state == State::Broken => self.set_aside(path)?,
            None => return Ok(()),
        }
        self.note(path);
        Ok(())
    }

    fn state(&self, path: &Path) -> Result<State, GitError> {
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if is_absence(&error) => return Ok(State::Absent),
            Err(error) => return Err(GitError::file("looking at", path, &error)),
        };
        let says_something = if meta.is_symlink() {
            // Git once wrote the names of other refs so.
            false
        } else {
            match small_file(path) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes);
                    match text.strip_prefix("ref:") {
                        // One that is another name of one would be moved, pushed and judged in its stead.
                        Some(other) => is_default(&self.name(path), other),
                        None => match id_at_start(&text) {
                            Some((id, rest)) => {
                                (rest.is_empty() || rest.trim_start() != rest)
                                    && self.objects.has(&self.name(path), &id)
                            }
                            None => false,
                        },
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => false,
                Err(error) if is_absence(&error) => return Ok(State::Absent),
                Err(error) => return Err(GitError::file("reading", path, &error)),
            }
        };
        Ok(if says_something && is_name(&self.name(path)) { State::Good } else { State::Broken })
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.repository).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Where the reflog has it last, or had it before that, as far as the commit is here.
    fn last_logged(&self, path: &Path) -> Result<Option<CommitSha>, GitError> {
        let name = self.name(path);
        let logged = self.logged(&name)?;
        let Some((before, last)) = logged.first().cloned() else { return Ok(None) };
        let named = small_file(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let named = named.as_deref().and_then(|text| text.strip_prefix("ref:")).map(str::trim);
        // Git logs it as a move when a branch becomes the name of another one: to where that one was.
        let became_a_name = match named {
            Some(other) => self.logged(other)?.iter().any(|(_, id)| *id == last),
            None => false,
        };
        let id = before.filter(|_| became_a_name).unwrap_or(last);
        let earlier = logged.into_iter().skip(1).map(|(_, id)| id);
        Ok([id].into_iter().chain(earlier).find(|id| self.objects.has(&name, id)))
    }

    /// What the end of a reflog says, newest first: from where, if from anywhere, and to where.
    fn logged(&self, name: &str) -> Result<Vec<(Option<CommitSha>, CommitSha)>, GitError> {
        let log = self.repository.join("logs").join(name);
        if !is_name(name) || !log.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            return Ok(Vec::new());
        }
        let end = plain_file::read_end(&log, Links::Refuse, LOG_END)
            .map_err(|error| GitError::file("reading", &log, &error))?;
        let text = String::from_utf8_lossy(&end);
        // The first line may be a part of one.
        let moves = text.lines().rev().filter_map(|line| {
            let (before, rest) = line.split_at_checked(40)?;
            Some((id_at_start(before).map(|(id, _)| id), id_at_start(rest.strip_prefix(' ')?)?.0))
        });
        Ok(moves.collect())
    }

    fn set_aside(&self, path: &Path) -> Result<(), GitError> {
        let kept = self.kept(path)?;
        fs::rename(path, &kept).map_err(|error| GitError::file("setting aside", path, &error))
    }

    /// Gives what stands there a second name. What is no file can have one only.
    fn keep(&self, path: &Path) -> Result<(), GitError> {
        let kept = self.kept(path)?;
        let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
        match is_file && fs::hard_link(path, &kept).is_ok() {
            true => Ok(()),
            false => self.set_aside(path),
        }
    }

    fn kept(&self, path: &Path) -> Result<PathBuf, GitError> {
        let kept = self.aside.join(path.strip_prefix(self.repository).unwrap_or(path));
        let parent = kept.parent().unwrap_or(&self.aside);
        fs::create_dir_all(parent).map_err(|error| GitError::file("making", parent, &error))?;
        Ok(kept)
    }

    fn note(&self, path: &Path) {
        self.changed.set(true);
        let (name, aside) = (self.name(path), self.aside.display());
        tracing::warn!(git.directory = %self.repository.display(), git.mended = %name, "git could not read it: put right; what was there, if anything, is in {aside}");
    }
}

struct Objects {
    all: Odb<'static>,
    /// Some were taken away, and the next fetch may bring them: what leads to one that is not here is left.
    are_lacking: bool,
}

impl Objects {
    /// An error where they cannot be seen: nothing counts as lost then.
    fn open(repository: &Path) -> Result<Self, GitError> {
        let place = repository.join("objects");
        for path in [&place, &place.join("pack")] {
            fs::read_dir(path).map_err(|error| GitError::file("reading", path, &error))?;
        }
        let objects = Odb::new()?;
        objects.add_disk_alternate(&place.to_string_lossy())?;
        Ok(Self { all: objects, are_lacking: loose_objects::are_lacking(repository) })
    }

    /// What a ref of this name may lead to: a branch leads to a commit.
    fn has(&self, name: &str, id: &CommitSha) -> bool {
        let Ok(id) = Oid::from_str(id.as_str()) else { return false };
        match is_branch(name) {
            true => self.all.read_header(id).map_or(self.are_lacking, |(_, kind)| kind == ObjectType::Commit),
            false => self.are_lacking || self.all.exists(id),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    /// Or nothing that git would stop at.
    Good,
    Broken,
}

/// `packed-refs`, as far as git can read it.
struct Packed {
    refs: BTreeMap<String, CommitSha>,
    is_whole: bool,
}

impl Packed {
    /// `# pack-refs with: <traits>`, then `<id> <ref>`, and after a tag `^<the id it leads to>`. The last are not kept: git
    /// finds out by itself.
    fn read(bytes: &[u8]) -> Self {
        let (mut refs, mut is_whole) = (BTreeMap::new(), bytes.is_empty() || bytes.ends_with(b"\n"));
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').peekable();
        lines.next_if(|line| line.starts_with(b"# pack-refs with:"));
        let mut may_be_peeled = false;
        for line in lines {
            let text = String::from_utf8_lossy(line);
            let entry = id_at_start(&text).and_then(|(id, rest)| Some((id, rest.strip_prefix(' ')?.trim_end())));
            match entry.filter(|(_, name)| line.ends_with(b"\n") && name.starts_with("refs/") && is_name(name)) {
                Some((id, name)) => {
                    is_whole &= text.len() == name.len() + id.as_str().len() + 2;
                    refs.insert(name.to_owned(), id);
                    may_be_peeled = true;
                }
                None => {
                    let peeled = text.strip_prefix('^').and_then(id_at_start).is_some_and(|(_, rest)| rest == "\n");
                    is_whole &= peeled && may_be_peeled;
                    may_be_peeled = false;
                }
            }
        }
        Self { refs, is_whole }
    }

    fn text(&self) -> Vec<u8> {
        let lines = self.refs.iter().map(|(name, id)| format!("{id} {name}\n"));
        // libgit2 tells the traits by the spaces around them.
        ["# pack-refs with: sorted \n".to_owned()].into_iter().chain(lines).collect::<String>().into_bytes()
    }
}

fn read_packed(path: &Path) -> Result<Option<Packed>, GitError> {
    match fs::symlink_metadata(path) {
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(GitError::file("looking at", path, &error)),
        Ok(meta) if !meta.is_file() => Ok(Some(Packed { refs: BTreeMap::new(), is_whole: false })),
        Ok(_) => match plain_file(path, MOST_PACKED) {
            Ok(bytes) => Ok(Some(Packed::read(&bytes))),
            // Far too long: what git wrote is at its beginning.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let mut bytes = Vec::new();
                let read = plain_file::open(path, Links::Refuse)
                    .and_then(|file| file.take(MOST_WRITTEN).read_to_end(&mut bytes));
                read.map_err(|error| GitError::file("reading", path, &error))?;
                Ok(Some(Packed { is_whole: false, ..Packed::read(&bytes) }))
            }
            Err(error) => Err(GitError::file("reading", path, &error)),
        },
    }
}

/// An object's id, which is not all zeroes, and what follows it. Git reads capitals, too.
pub(super) fn id_at_start(text: &str) -> Option<(CommitSha, &str)> {
    let (id, rest) = text.split_at_checked(40)?;
    let id = CommitSha::new(&id.to_ascii_lowercase()).ok().filter(|id| id.as_str().bytes().any(|byte| byte != b'0'))?;
    Some((id, rest))
}

/// Here, or as the remote has it.
pub(super) fn is_branch(name: &str) -> bool {
    name.starts_with("refs/heads/") || (name.starts_with("refs/remotes/") && remote_of_head(name).is_none())
}

/// The remote of `refs/remotes/<remote>/HEAD`.
fn remote_of_head(name: &str) -> Option<&str> {
    name.strip_prefix("refs/remotes/")?.strip_suffix("/HEAD").filter(|remote| !remote.contains('/'))
}

/// Whether a ref that names `other` says which branch of a remote is its default, as every clone of git's does, and its newer
/// fetches. Git writes nothing through it, and we do not read it. All other names of refs are somebody's.
fn is_default(name: &str, other: &str) -> bool {
    let other = other.trim();
    let is_of = |remote: &str| other.starts_with(&format!("refs/remotes/{remote}/")) && remote_of_head(other).is_none();
    remote_of_head(name).is_some_and(is_of) && is_name(other)
}

/// Before a fetch, which would write through them, or stop at them: refs that are names of others, links, and what else is no
/// file are put right. Unlike of everything else here git does not complain of them. Answers whether there were any; an error
/// while there is one that cannot be put right.
pub(super) fn mend_names(repository: &Path) -> Result<bool, GitError> {
    mend_what(repository, || first_name(repository))
}

/// The same before a single ref is written (or for a directory of refs): of what is on the way to it.
pub(super) fn mend_way(repository: &Path, name: &str) -> Result<bool, GitError> {
    mend_what(repository, || first_on_way(repository, name))
}

fn mend_what(repository: &Path, first: impl Fn() -> Result<Option<String>, GitError>) -> Result<bool, GitError> {
    if first()?.is_none() {
        return Ok(false);
    }
    mend(repository);
    match first()? {
        None => Ok(true),
        Some(name) => Err(GitError::Unreadable(format!(
            "{name} is another name of a ref, or no file or directory of refs, which could not be put right just now; nothing \
             was changed, and it is tried again with the next request"
        ))),
    }
}

fn first_name(repository: &Path) -> Result<Option<String>, GitError> {
    for path in files_below(&repository.join("refs"))?.into_iter().filter(|path| !is_lock(path)) {
        let name = path.strip_prefix(repository).unwrap_or(&path).to_string_lossy().into_owned();
        let is_no_file = own_files::look(&path)?.is_some_and(|meta| !meta.is_file());
        let names_another = |bytes: Vec<u8>| {
            String::from_utf8_lossy(&bytes).strip_prefix("ref:").is_some_and(|other| !is_default(&name, other))
        };
        if is_no_file || small_file(&path).is_ok_and(names_another) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The directories, and the ref itself, which git may find as a directory, too.
fn first_on_way(repository: &Path, name: &str) -> Result<Option<String>, GitError> {
    let mut above: Vec<&Path> = Path::new(name).ancestors().filter(|way| !way.as_os_str().is_empty()).collect();
    above.reverse();
    for way in above {
        // A file is another ref, of which git does complain.
        let is_odd = |meta: fs::Metadata| {
            !meta.is_dir() && (!meta.is_file() || REFS.iter().any(|directory| way == Path::new(directory)))
        };
        if own_files::look(&repository.join(way))?.is_some_and(is_odd) {
            return Ok(Some(way.to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

fn is_name(name: &str) -> bool {
    // It would be cut at a zero.
    !name.contains('\0') && Reference::is_valid_name(name)
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Where a link leads, if that is a directory.
fn directory_behind(path: &Path) -> Option<PathBuf> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
    fs::canonicalize(path).ok().filter(|behind| is_link && behind.is_dir())
}

/// Everything below that is no directory. What vanishes meanwhile was none of it.
fn files_below(directory: &Path) -> Result<BTreeSet<PathBuf>, GitError> {
    let (mut found, mut directories) = (BTreeSet::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        match fs::read_dir(&directory) {
            Ok(entries) => sort_out(entries.flatten(), &mut found, &mut directories),
            Err(error) if is_absence(&error) => {}
            Err(error) => return Err(GitError::file("reading", &directory, &error)),
        }
    }
    Ok(found)
}

/// The same where that may be anything, as far as it can be read, until there are `most`, of them or of directories.
fn some_below(directory: &Path, most: usize) -> BTreeSet<PathBuf> {
    let (mut found, mut directories, mut looked_at) = (BTreeSet::new(), vec![directory.to_owned()], 0);
    while let Some(directory) = directories.pop().filter(|_| looked_at.max(found.len()) <= most) {
        looked_at += 1;
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        sort_out(entries.take(most), &mut found, &mut directories);
    }
    found
}

fn sort_out(entries: impl Iterator<Item = DirEntry>, files: &mut BTreeSet<PathBuf>, directories: &mut Vec<PathBuf>) {
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => directories.push(entry.path()),
            Ok(_) => drop(files.insert(entry.path())),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_branch_of_a_remote_has_another_name() {
        let main = "refs/remotes/origin/main";
        assert!(is_default("refs/remotes/origin/HEAD", &format!(" {main}\n")));
        assert!(!is_branch("refs/remotes/origin/HEAD"));
        for name in ["refs/remotes/origin/main/HEAD", "refs/remotes/HEAD", "refs/remotes/origin/x", "refs/heads/x/HEAD"]
        {
            assert!(!is_default(name, main) && is_branch(name), "{name}");
        }
        for other in
            ["refs/heads/b", "refs/remotes/other/x", "refs/remotes/origin/HEAD", "refs/remotes/origin/a..b", ""]
        {
            assert!(!is_default("refs/remotes/origin/HEAD", other), "{other}");
        }
        assert!(!is_default("refs/x/HEAD", main));
    }

    #[test]
    fn of_packed_refs_the_lines_stay_that_git_can_read() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let good = format!("# pack-refs with: peeled fully-peeled sorted \n{a} refs/heads/x\n{b} refs/tags/t\n^{a}\n");
        for whole in ["", &good, "# pack-refs with: sorted \n"] {
            assert!(Packed::read(whole.as_bytes()).is_whole, "{whole:?}");
        }
        let kept = format!("# pack-refs with: sorted \n{a} refs/heads/x\n{b} refs/tags/t\n");
        let spoilt = [
            format!("{good}garbage\n"),
            format!("{good}{a} refs/heads/cut"),
            format!("{good}{a} refs/heads/a..b\n"),
            format!("{good}{a} elsewhere\n"),
            format!("{good}{} refs/heads/none\n", "0".repeat(40)),
            format!("{good}^{a}\n"),
            format!("^{a}\n{good}"),
            format!("{good}\0\0\0\0"),
            format!("\n{good}"),
            good.replace('\n', "\r\n"),
        ];
        for text in spoilt {
            let read = Packed::read(text.as_bytes());
            assert!(!read.is_whole, "{text:?}");
            assert_eq!(String::from_utf8(read.text()).unwrap(), kept, "{text:?}");
            assert!(Packed::read(&read.text()).is_whole);
        }
    }
}
