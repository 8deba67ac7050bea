//! The end of a soak: disk, git and database agree, and everything in the ledger is where somebody finds it.

use super::ALL;
use super::ledger::{Note, blob, git, plain_git};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use treewarden::{demo::github::Standin, model::*, store::Store};

/// Keepsakes have what git ignores below this.
const IGNORED: &str = "ignored/";
/// First signs of a status comment whose run is not over.
const NOT_THE_LAST_WORD: [char; 4] = ['🕐', '🌱', '🤖', '📦'];
const MOST_THREADS: i64 = 100_000;

pub struct End<'a> {
    pub standin: &'a Standin,
    pub store: &'a Store,
    /// The service's.
    pub home: &'a Path,
    pub notes: &'a [Note],
    pub since: Timestamp,
}

/// What is wrong.
#[derive(Default)]
pub struct Findings {
    /// Commits and files that are nowhere.
    pub lost: Vec<String>,
    /// Whatever else does not agree.
    pub wrong: Vec<String>,
}

/// What refs, logs of the stash, and worktrees of a codebase reach here and on the remote: objects with the first name
/// they have there.
type Reached = BTreeMap<String, String>;

impl End<'_> {
    pub async fn verify(&self) -> Findings {
        let mut findings = Findings::default();
        let live = self.store.live_environments(None).await.expect("rows");
        let (mut reached, mut canonicals) = (BTreeMap::new(), BTreeMap::new());
        let mut known = BTreeSet::new();
        for codebase in self.store.list_codebases().await.expect("rows") {
            let name = codebase.name.to_string();
            let canonical = self.home.join("repos").join(&codebase.repository_dir);
            let own: Vec<&Environment> = live.iter().filter(|one| one.codebase == codebase.id).collect();
            self.worktrees(&mut findings, &name, &canonical, &own);
            known.extend(own.iter().map(|one| one.path.clone()));
            // One that nothing was ever made from is not there.
            if canonical.exists() || !own.is_empty() {
                self.repository(&mut findings, &name, &canonical);
            }
            let remote = self.standin.git_dir(&name).expect("a repository");
            let mut objects = reach(&remote);
            objects.extend(reach(&canonical));
            reached.insert(name.clone(), objects);
            canonicals.insert(name.clone(), canonical);
            self.comments(&mut findings, &name);
        }
        for directory in directories_of_worktrees(&self.home.join("worktrees")) {
            if !known.contains(&directory) {
                findings.wrong.push(format!("{} is nobody's", directory.display()));
            }
        }
        for entry in fs::read_dir(self.home.join("trash")).into_iter().flatten().flatten() {
            findings.wrong.push(format!("{} is left in the trash", entry.path().display()));
        }
        self.rows(&mut findings, &live).await;
        for missed in self.notes(&mut findings, &reached, &known) {
            let trail = self.trail(missed, &canonicals).await;
            findings.lost.push(trail);
        }
        findings
    }

    /// All that is known of a file that is not found.
    async fn trail(&self, missed: &Note, canonicals: &BTreeMap<String, PathBuf>) -> String {
        let Note::File { codebase, place, name, blob, at } = missed else { return format!("{missed:?}") };
        let mut trail = vec![format!("file {name} of {} ({codebase}, {blob}), noted at {at}", place.display())];
        // Where it was noted before its environment was active, nobody had been told of the place.
        let audit = self.store.list_audit(ALL).await.expect("rows");
        let environments = self.store.list_environments(&Default::default(), ALL, 0).await.expect("rows");
        for one in environments.iter().filter(|one| one.path == *place) {
            trail.push(format!("{one:?}"));
            trail.push(format!("{:?}", self.store.receipt_of(one.id).await));
            let (id, work) = (one.id.to_string(), format!("{codebase}#{}", one.work));
            let is_about = |row: &&AuditEntry| row.subject == work || row.subject == id || row.detail == id;
            trail.extend(audit.iter().rev().filter(is_about).map(|row| format!("{row:?}")));
        }
        let is_there = |note: &&Note| match note {
            Note::File { place: there, name: called, .. } => there == place && called == name,
            Note::Replaced { blob: replaced } => replaced == blob,
            Note::Wandered { place: there } => there == place,
            Note::Commit { .. } | Note::LetGo { .. } | Note::Nested { .. } => false,
        };
        trail.extend(self.notes.iter().filter(is_there).map(|note| format!("{note:?}")));
        let entries = fs::read_dir(place).map(|all| all.flatten().map(|entry| entry.file_name()).collect::<Vec<_>>());
        trail.push(format!(
            "there: {entries:?}, with {:?}",
            fs::read(place.join(name)).map(|bytes| super::ledger::blob(&bytes))
        ));
        let find = format!("--find-object={blob}");
        // Without the object, no index and no keepsake has ever had it: it was gone before anything was kept.
        for arguments in [
            &["cat-file", "-t", blob][..],
            &["log", "--all", "-m", "--format=%H %cI %D %s", "--name-status", &find],
            &["for-each-ref", "--format=%(refname) %(objectname)", "refs/treewarden/", "refs/heads/"],
            &["fsck", "--no-reflogs", "--unreachable", "--connectivity-only"],
            &["worktree", "list", "--porcelain"],
        ] {
            let said = canonicals.get(codebase).and_then(|canonical| git(canonical, arguments));
            trail.push(format!("git {}: {}", arguments.join(" "), said.unwrap_or_else(|| "failed".to_owned())));
        }
        trail.join("\n      ")
    }

    fn repository(&self, findings: &mut Findings, name: &str, canonical: &Path) {
        let sound = plain_git(canonical).args(["fsck", "--connectivity-only", "--no-dangling"]).output();
        let sound = sound.expect("git runs");
        if !sound.status.success() {
            findings.wrong.push(format!("{name}: fsck: {}", String::from_utf8_lossy(&sound.stderr)));
        }
        for entry in fs::read_dir(canonical.join("treewarden-removed")).into_iter().flatten().flatten() {
            findings.wrong.push(format!("{name}: {} is left of a removed worktree", entry.path().display()));
        }
    }

    fn worktrees(&self, findings: &mut Findings, name: &str, canonical: &Path, live: &[&Environment]) {
        let mut registered = registered(canonical);
        for environment in live {
            let path = &environment.path;
            let branch = registered.remove(path);
            let wandered = || self.notes.iter().any(|note| matches!(note, Note::Wandered { place } if place == path));
            let is =
                |what: &str| format!("{name}#{}: {what} ({}, {})", environment.work, environment.id, path.display());
            match branch {
                None => findings.wrong.push(is("not registered")),
                Some(branch) if branch != environment.branch.full_ref() && !wandered() => {
                    findings.wrong.push(is(&format!("on {branch}, not {}", environment.branch)));
                }
                Some(_) => {}
            }
            let common = git(path, &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
            if common.map(PathBuf::from).as_deref() != Some(canonical) {
                findings.wrong.push(is("no worktree of its repository"));
            }
            if environment.state != EnvironmentState::Active {
                findings.wrong.push(is(&format!("still {} ({:?})", environment.state, environment.metadata)));
            }
        }
        let rest = registered.into_keys().map(|path| format!("{name}: no row for the worktree {}", path.display()));
        findings.wrong.extend(rest);
    }

    fn comments(&self, findings: &mut Findings, name: &str) {
        for number in 1..MOST_THREADS {
            if self.standin.issue(name, number).is_err() {
                return;
            }
            let mut markers = BTreeSet::new();
            for comment in self.standin.comments(name, number).expect("comments") {
                if !comment.via_app {
                    continue;
                }
                let marker = comment.body.lines().find(|line| line.starts_with("<!-- treewarden:")).unwrap_or_default();
                if !markers.insert(marker.to_owned()) {
                    findings.wrong.push(format!("{name}#{number}: said twice: {}", comment.body));
                }
                if comment.body.starts_with(NOT_THE_LAST_WORD) {
                    findings.wrong.push(format!("{name}#{number}: not the last word: {}", comment.body));
                }
            }
        }
    }

    async fn rows(&self, findings: &mut Findings, live: &[Environment]) {
        let unfinished = self.store.unfinished().await.expect("an answer");
        if !unfinished.is_empty() {
            findings.wrong.push(format!("left: {unfinished:?}"));
        }
        for row in self.store.failed_outgoing(self.since, 20).await.expect("rows") {
            findings.wrong.push(format!("not sent: {} ({:?})", row.key, row.last_error));
        }
        for delivery in self.store.failed_deliveries(self.since, 20).await.expect("rows") {
            findings.wrong.push(format!("not handled: {} ({:?})", delivery.event, delivery.reason));
        }
        let mut places = BTreeSet::new();
        for environment in live.iter().filter(|one| !places.insert(&one.path)) {
            findings.wrong.push(format!("two rows for {}", environment.path.display()));
        }
    }

    /// Answers with the files that are nowhere.
    fn notes(
        &self,
        findings: &mut Findings,
        reached: &BTreeMap<String, Reached>,
        live: &BTreeSet<PathBuf>,
    ) -> Vec<&Note> {
        let mut missed = Vec::new();
        let nothing = Reached::new();
        let of = |codebase: &String| reached.get(codebase).unwrap_or(&nothing);
        let replaced: BTreeSet<&String> = self.notes.iter().filter_map(replaced).collect();
        let let_go: BTreeSet<&String> = self.notes.iter().filter_map(let_go).collect();
        for note in self.notes {
            match note {
                Note::Commit { codebase, sha } => {
                    if !of(codebase).contains_key(sha) && !let_go.contains(sha) {
                        findings.lost.push(format!("commit {sha} of {codebase}"));
                    }
                }
                Note::File { codebase, place, name, blob, .. } => {
                    let kept = of(codebase).get(blob).is_some_and(|at| at.strip_prefix(IGNORED).unwrap_or(at) == name);
                    let there = live.contains(place) && lies_there(place, name, blob);
                    if !kept && !there && !replaced.contains(blob) {
                        missed.push(note);
                    }
                }
                Note::Nested { place, name, blob } => {
                    if !live.contains(place) || !lies_there(place, name, blob) {
                        findings.lost.push(format!("file {name} of {} ({blob})", place.display()));
                    }
                }
                Note::LetGo { .. } | Note::Replaced { .. } | Note::Wandered { .. } => {}
            }
        }
        missed
    }
}

fn replaced(note: &Note) -> Option<&String> {
    match note {
        Note::Replaced { blob } => Some(blob),
        Note::Commit { .. } | Note::LetGo { .. } | Note::File { .. } | Note::Nested { .. } | Note::Wandered { .. } => {
            None
        }
    }
}

fn let_go(note: &Note) -> Option<&String> {
    match note {
        Note::LetGo { sha } => Some(sha),
        Note::Commit { .. }
        | Note::Replaced { .. }
        | Note::File { .. }
        | Note::Nested { .. }
        | Note::Wandered { .. } => None,
    }
}

fn lies_there(place: &Path, name: &str, sha: &str) -> bool {
    fs::read(place.join(name)).is_ok_and(|bytes| blob(&bytes) == sha)
}

fn reach(repository: &Path) -> Reached {
    let stashed = git(repository, &["log", "-g", "--format=%H", "refs/stash", "--"]).unwrap_or_default();
    let mut arguments = vec!["rev-list", "--objects", "--all"];
    arguments.extend(stashed.lines());
    let output = plain_git(repository).args(arguments).output().expect("git runs");
    // Half an answer would look like a loss. One that nothing was ever made from is not there.
    let whole = output.status.success() || !repository.exists();
    assert!(whole, "{}: {}", repository.display(), String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let with_name = |line: &str| {
        let (sha, name) = line.split_once(' ').unwrap_or((line, ""));
        (sha.to_owned(), name.to_owned())
    };
    text.lines().map(with_name).collect()
}

/// Worktrees that git knows, with the full names of their branches; empty for none.
fn registered(canonical: &Path) -> BTreeMap<PathBuf, String> {
    let output = plain_git(canonical).args(["worktree", "list", "--porcelain", "-z"]).output().expect("git runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut found = BTreeMap::new();
    for entry in text.split("\0\0") {
        let field = |name: &str| entry.split('\0').find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        if let Some(path) = field("worktree ").filter(|_| !entry.split('\0').any(|line| line == "bare")) {
            found.insert(PathBuf::from(path), field("branch ").unwrap_or_default());
        }
    }
    found
}

/// Two levels below: owners, repositories.
fn directories_of_worktrees(base: &Path) -> Vec<PathBuf> {
    let below = |all: Vec<PathBuf>| -> Vec<PathBuf> {
        let entries = all.iter().filter_map(|path| fs::read_dir(path).ok());
        entries.flatten().flatten().map(|entry| entry.path()).collect()
    };
    let owners = below(vec![base.to_owned()]).into_iter().filter(|path| !is_hidden(path)).collect();
    below(below(owners))
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
