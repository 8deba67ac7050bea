//! A pass that meets something wrong in the second of three worktrees: that one is kept with its reason, which everybody is
//! told alike; the others go as usual; and nothing is lost.

use super::{closing::Program, commands::answered};
use crate::support::{
    tree::tree,
    world::{ANN, REPO, World, git},
};
use rustix::fs::{Mode, OFlags};
use std::{
    fs,
    io::Read,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};
use treewarden::{demo::github::Fault, model::*};

/// Three issues, each with a worktree that holds a commit of its own and has been left alone for long.
struct Three {
    world: World,
    issues: Vec<i64>,
    environments: Vec<Environment>,
}

impl Three {
    async fn left_alone() -> Self {
        let world = World::new().await;
        let (mut issues, mut environments) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let issue = world.worked_issue("agent:noop").await;
            let environment = world.environments().await.into_iter().find(|live| live.work.id == issue.to_string());
            let environment = environment.unwrap();
            fs::write(environment.path.join("work.txt"), format!("work of {issue}\n")).unwrap();
            git(&environment.path, &["add", "work.txt"]);
            git(&environment.path, &["commit", "-qm", "Work"]);
            issues.push(issue);
            environments.push(environment);
        }
        world.days_pass(15);
        Self { world, issues, environments }
    }

    fn middle(&self) -> &Path {
        &self.environments[1].path
    }

    /// The directory of the second one's registration.
    async fn entry(&self) -> PathBuf {
        self.world.canonical().await.join("worktrees").join(self.middle().file_name().unwrap())
    }

    /// Every branch, by the files on disk: what is wrong may be what git stumbles over.
    async fn tip(&self, which: usize) -> Option<String> {
        self.world.local_tip(self.environments[which].branch.as_str()).await
    }

    /// A pass keeps the second one because of `why`, and says so everywhere; the first and the third go, with their branches
    /// kept; asked by name, it is kept as well.
    async fn keeps_the_middle(&self, why: &str) {
        let (world, before) = (&self.world, tree(self.middle()));
        let tips = [self.tip(0).await, self.tip(1).await, self.tip(2).await];
        let report = world.pass().await;
        world.settle().await;
        let [first, second, third] = of_environments(&report)[..] else { panic!("{report:?}") };
        for (line, which) in [(first, 0), (third, 2)] {
            assert!(matches!(line.result, ReportResult::Removed(_)), "{line:?}");
            assert!(!self.environments[which].path.exists(), "{line:?}");
        }
        let ReportResult::Kept(reasons) = &second.result else { panic!("{second:?}") };
        assert!(reasons.iter().any(|reason| reason.contains(why)), "{why} in {reasons:?}");
        assert!(!reasons.iter().any(|reason| reason.contains("no worktree to look at")), "{reasons:?}");

        let panel = world.page("/environments").await;
        assert!(panel.contains(&why.replace('`', "")), "{why} in {panel}");
        let status = answered(world, self.issues[1], "/status").await;
        assert!(status.contains(why), "{why} in {status}");
        let by_name = format!("/worktree remove issue-{}", self.issues[1]);
        let refused = answered(world, self.issues[0], &by_name).await;
        assert!(refused.contains("is kept") && refused.contains(why), "{why} in {refused}");
        assert!(refused.contains("Nothing was removed."), "{refused}");

        assert_eq!(tree(self.middle()), before);
        assert_eq!([self.tip(0).await, self.tip(1).await, self.tip(2).await], tips);
        let live = world.environment().await;
        assert_eq!((live.id, live.state), (self.environments[1].id, EnvironmentState::Active));
    }

    /// With the cause gone it goes as the others did.
    async fn then_removes_it(self) {
        let tip = self.tip(1).await;
        // What failed is left alone for some hours.
        self.world.days_pass(1);
        let report = self.world.pass().await;
        let lines = of_environments(&report);
        assert!(matches!(lines[..], [line] if matches!(line.result, ReportResult::Removed(_))), "{report:?}");
        assert!(!self.middle().exists());
        assert_eq!(self.tip(1).await, tip);
        self.world.end().await;
    }
}

/// What was put aside beside them is nobody's, and has lines of its own.
fn of_environments(report: &CleanupReport) -> Vec<&ReportLine> {
    report.lines.iter().filter(|line| line.environment.is_some()).collect()
}

#[tokio::test]
async fn a_directory_that_is_missing_is_a_ghost() {
    let three = Three::left_alone().await;
    let tips = [three.tip(0).await, three.tip(1).await, three.tip(2).await];
    fs::remove_dir_all(three.middle()).unwrap();
    let report = three.world.pass().await;
    let removed = |line: &ReportLine| matches!(line.result, ReportResult::Removed(_));
    assert!(report.lines.len() == 3 && report.lines.iter().all(removed), "{report:?}");
    assert_eq!(report.lines[1].result, ReportResult::Removed("its worktree was gone already".to_owned()));
    assert_eq!([three.tip(0).await, three.tip(1).await, three.tip(2).await], tips);
    three.world.end().await;
}

/// It is made anew from HEAD, and nothing differs from that: so the worktree goes like the others.
#[tokio::test]
async fn an_index_that_is_spoilt() {
    let three = Three::left_alone().await;
    let tips = [three.tip(0).await, three.tip(1).await, three.tip(2).await];
    fs::write(three.entry().await.join("index"), "garbage").unwrap();
    let report = three.world.pass().await;
    let removed = |line: &&ReportLine| matches!(line.result, ReportResult::Removed(_));
    assert_eq!(of_environments(&report).into_iter().filter(removed).count(), 3, "{report:?}");
    assert_eq!([three.tip(0).await, three.tip(1).await, three.tip(2).await], tips);
    three.world.end().await;
}

#[tokio::test]
async fn a_file_in_its_place() {
    let three = Three::left_alone().await;
    let aside = three.middle().with_extension("aside");
    fs::rename(three.middle(), &aside).unwrap();
    fs::write(three.middle(), "precious\n").unwrap();
    three.keeps_the_middle("something that Treewarden did not make stands at its path").await;
    assert!(aside.join("work.txt").exists());
    fs::remove_file(three.middle()).unwrap();
    fs::rename(&aside, three.middle()).unwrap();
    three.then_removes_it().await;
}

#[tokio::test]
async fn a_link_in_its_place() {
    let three = Three::left_alone().await;
    let shared = three.world.dir.path().join("shared");
    fs::rename(three.middle(), &shared).unwrap();
    let before = tree(&shared);
    symlink(&shared, three.middle()).unwrap();
    three.keeps_the_middle("something that Treewarden did not make stands at its path").await;
    assert_eq!(tree(&shared), before);
    fs::remove_file(three.middle()).unwrap();
    fs::rename(&shared, three.middle()).unwrap();
    three.then_removes_it().await;
}

/// One of its own, and a worktree of another one.
#[tokio::test]
async fn another_repository_in_its_place() {
    let three = Three::left_alone().await;
    let (other, aside) = (three.world.dir.path().join("other"), three.middle().with_extension("aside"));
    fs::rename(three.middle(), &aside).unwrap();
    git(three.world.dir.path(), &["init", "-q", other.to_str().unwrap()]);
    git(&other, &["commit", "-q", "--allow-empty", "-m", "Theirs"]);
    git(&other, &["worktree", "add", "-q", "-b", "theirs", three.middle().to_str().unwrap()]);
    fs::write(three.middle().join("precious"), "theirs\n").unwrap();
    three.keeps_the_middle("something that Treewarden did not make stands at its path").await;
    git(&other, &["worktree", "remove", "--force", three.middle().to_str().unwrap()]);
    git(three.world.dir.path(), &["clone", "-q", other.to_str().unwrap(), three.middle().to_str().unwrap()]);
    let report = three.world.pass().await;
    let why = "somebody made a repository of its own in it";
    assert!(
        matches!(&report.lines[0].result, ReportResult::Kept(reasons) if reasons[0].starts_with(why)),
        "{report:?}"
    );
    assert!(three.middle().join(".git/HEAD").is_file());
    fs::remove_dir_all(three.middle()).unwrap();
    fs::rename(&aside, three.middle()).unwrap();
    three.then_removes_it().await;
}

/// What can be tied again is, and goes with the rest; nothing of it is lost on the way.
#[tokio::test]
async fn a_registration_that_is_missing() {
    let three = Three::left_alone().await;
    let (entry, aside) = (three.entry().await, three.world.dir.path().join("entry"));
    fs::write(three.middle().join("precious.txt"), "precious\n").unwrap();
    fs::rename(&entry, &aside).unwrap();
    three.keeps_the_middle("uncommitted work: 1 untracked file").await;
    fs::remove_file(three.middle().join("precious.txt")).unwrap();
    three.then_removes_it().await;
}

/// BR-052
#[tokio::test]
async fn a_lock_of_somebody_else() {
    let three = Three::left_alone().await;
    let entry = three.entry().await;
    fs::write(entry.join("locked"), "keep for demo\n").unwrap();
    three.keeps_the_middle("somebody else locked it: keep for demo").await;
    fs::write(entry.join("locked"), "treewarden").unwrap();
    three.then_removes_it().await;
}

/// As a loss of power, or a hand that slipped, leaves it: it is mended as far as its files tell how it was.
#[tokio::test]
async fn a_registration_that_is_corrupt() {
    let three = Three::left_alone().await;
    let entry = three.entry().await;
    fs::write(three.middle().join("precious.txt"), "precious\n").unwrap();
    for file in ["HEAD", "index", "commondir", "gitdir"] {
        fs::write(entry.join(file), "garbage").unwrap();
    }
    three.keeps_the_middle("uncommitted work: 1 untracked file").await;
    fs::remove_file(three.middle().join("precious.txt")).unwrap();
    three.then_removes_it().await;
}

#[tokio::test]
async fn a_head_that_leads_nowhere() {
    let three = Three::left_alone().await;
    let head = three.entry().await.join("HEAD");
    fs::write(&head, "ref: refs/heads/never\n").unwrap();
    three.keeps_the_middle("but stands on `never`").await;
    fs::write(&head, format!("ref: refs/heads/issue-{}\n", three.issues[1])).unwrap();
    three.then_removes_it().await;
}

/// BR-013: not even root can look into it, for its path is longer than any that a program may name.
#[tokio::test]
async fn a_directory_that_nobody_can_read() {
    let three = Three::left_alone().await;
    let name = "d".repeat(250);
    let mut directory = rustix::fs::open(three.middle(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    for _ in 0..20 {
        rustix::fs::mkdirat(&directory, &name, Mode::RWXU).unwrap();
        directory = rustix::fs::openat(&directory, &name, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    }
    three.keeps_the_middle("could not open directory").await;
    assert!(rustix::fs::fstat(&directory).unwrap().st_nlink > 0, "it is still there");
    drop(directory);
    fs::remove_dir_all(three.middle().join(&name)).unwrap();
    three.then_removes_it().await;
}

#[tokio::test]
async fn a_worktree_inside_another() {
    let three = Three::left_alone().await;
    let inner = three.middle().join("inner");
    let canonical = three.world.canonical().await;
    git(&canonical, &["worktree", "add", "-q", "-b", "inner", inner.to_str().unwrap(), "refs/remotes/origin/main"]);
    fs::write(inner.join("precious"), "theirs\n").unwrap();
    three.keeps_the_middle("another repository lies inside, at `inner`").await;
    git(&canonical, &["worktree", "remove", "--force", inner.to_str().unwrap()]);
    three.then_removes_it().await;
}

/// As tools of agents keep what they have cloned, in a directory that git ignores.
#[tokio::test]
async fn a_bare_repository_inside() {
    let three = Three::left_alone().await;
    fs::write(three.middle().join(".gitignore"), "*.log\ntarget/\n").unwrap();
    git(three.middle(), &["commit", "-qam", "Ignore what is built"]);
    let inner = three.middle().join("target/cloned.git");
    git(three.middle(), &["init", "-q", "--bare", inner.to_str().unwrap()]);
    three.keeps_the_middle("another repository lies inside, at `target/cloned.git`").await;
    fs::remove_dir_all(&inner).unwrap();
    three.then_removes_it().await;
}

/// Holds a file open until the story ends.
fn held(file: &Path) -> Program {
    let mut command = Command::new("sh");
    command.args(["-c", "exec 9<\"$0\"; echo; exec sleep 600"]).arg(file).stdout(Stdio::piped());
    let mut program = Program(command.spawn().unwrap());
    program.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    program
}

/// The lock of an index that somebody holds, and the same left behind.
#[tokio::test]
async fn a_lock_on_the_index() {
    let three = Three::left_alone().await;
    let lock = three.entry().await.join("index.lock");
    fs::write(&lock, "half an index").unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&lock).unwrap().set_modified(long_ago).unwrap();
    let holder = held(&lock);
    three.keeps_the_middle(&format!("process {} ", holder.0.id())).await;
    assert_eq!(fs::read_to_string(&lock).unwrap(), "half an index");
    drop(holder);
    three.then_removes_it().await;
}

/// A directory that is at two places; it ends with the story.
pub struct Mount(PathBuf);

impl Mount {
    /// `None`, and said: this machine lets nobody mount anything.
    pub fn of(directory: &Path, place: &Path) -> Option<Self> {
        let tried = Command::new("mount").arg("--bind").args([directory, place]).output();
        if !tried.is_ok_and(|output| output.status.success()) {
            eprintln!("not checked: this machine allows no mounts");
            return None;
        }
        Some(Self(place.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().unwrap();
    }
}

/// In a directory that git ignores and that any tool fills again: its files are those of another place.
#[tokio::test]
async fn a_mount_inside() {
    let three = Three::left_alone().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let precious = elsewhere.path().join("precious");
    fs::write(&precious, "everybody's\n").unwrap();
    fs::write(three.middle().join(".gitignore"), "*.log\ntarget/\n").unwrap();
    git(three.middle(), &["commit", "-qam", "Ignore what is built"]);
    let place = three.middle().join("target");
    fs::create_dir(&place).unwrap();
    let Some(mount) = Mount::of(elsewhere.path(), &place) else { return three.world.end().await };
    three.keeps_the_middle("a file system is mounted in it").await;
    drop(mount);
    three.then_removes_it().await;
    assert_eq!(fs::read_to_string(precious).unwrap(), "everybody's\n");
}

/// Whoever works at the other place writes into it under another name.
#[tokio::test]
async fn a_worktree_that_is_mounted_elsewhere() {
    let three = Three::left_alone().await;
    let preview = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::of(three.middle(), preview.path()) else { return three.world.end().await };
    three.keeps_the_middle("it, or a part of it, is mounted at").await;
    drop(mount);
    three.then_removes_it().await;
}

/// BR-017: what cannot be fetched is judged by nothing older, not even where it looks merged.
#[tokio::test]
async fn a_remote_out_of_reach() {
    let three = Three::left_alone().await;
    let (world, merged) = (&three.world, three.tip(0).await.unwrap());
    let remote = world.standin.git_dir(REPO).unwrap();
    git(&three.environments[0].path, &["push", "-q", remote.to_str().unwrap(), &format!("{merged}:refs/heads/main")]);
    // A mention elsewhere brings that here.
    world.worked_issue("agent:noop").await;
    let before: Vec<_> = three.environments.iter().map(|one| tree(&one.path)).collect();
    world.standin.faults().inject(Some("GET"), "/octo/hello.git/", u32::MAX, Fault::Status(502));
    let report = world.pass().await;
    let why = "it could not be checked: the repository could not be fetched";
    for line in &report.lines {
        let cannot = |reasons: &Vec<String>| reasons.iter().any(|reason| reason.starts_with(why));
        assert!(matches!(&line.result, ReportResult::Kept(reasons) if cannot(reasons)), "{line:?}");
    }
    assert_eq!(report.lines.len(), 4);
    let panel = world.page("/environments").await;
    assert_eq!(panel.matches(why).count(), 4, "{panel}");
    let after: Vec<_> = three.environments.iter().map(|one| tree(&one.path)).collect();
    assert_eq!(after, before);

    world.standin.faults().clear();
    let report = world.pass().await;
    world.settle().await;
    for (line, environment) in report.lines.iter().zip(&three.environments) {
        assert!(matches!(line.result, ReportResult::Removed(_)), "{line:?}");
        assert!(!environment.path.exists(), "{line:?}");
    }
    assert_eq!(world.environments().await.len(), 1, "the one of just now");
    three.world.end().await;
}

/// A worktree with a commit of its own on each of these branches, by its base.
async fn based_on(world: &World, branches: &[(&str, &str)]) -> Vec<Environment> {
    let thread = world.issue();
    let mut made = Vec::new();
    for (branch, base) in branches {
        answered(world, thread, &format!("/worktree create {branch} --base {base}")).await;
        let live = world.environments().await.into_iter().find(|live| live.branch.as_str() == *branch).unwrap();
        fs::write(live.path.join(format!("{branch}.txt")), "work\n").unwrap();
        git(&live.path, &["add", "."]);
        git(&live.path, &["commit", "-qm", "Work"]);
        made.push(live);
    }
    made
}

/// Nothing is proven against a base that is not there, and its branch is no reason to look elsewhere for a proof.
#[tokio::test]
async fn a_base_that_was_deleted() {
    let world = World::new().await;
    world.standin.push_commit(REPO, ANN, "dev", "Dev", &[("dev.txt", Some("1\n"))]).await.unwrap();
    let made = based_on(&world, &[("first", "dev"), ("middle", "main"), ("third", "dev")]).await;
    let tip = git(&made[1].path, &["rev-parse", "HEAD"]);
    world.days_pass(15);
    git(&world.standin.git_dir(REPO).unwrap(), &["update-ref", "-d", "refs/heads/main"]);
    let report = world.pass().await;
    let [first, middle, third] = &report.lines[..] else { panic!("{report:?}") };
    for line in [first, third] {
        assert!(matches!(line.result, ReportResult::Removed(_)), "{line:?}");
    }
    let why = "the base main no longer exists on the remote";
    assert!(matches!(&middle.result, ReportResult::Kept(reasons) if reasons[0].contains(why)), "{middle:?}");
    assert!(world.page("/environments").await.contains(why));
    let thread = world.issue();
    let refused = answered(&world, thread, "/worktree remove middle").await;
    assert!(refused.contains(why) && refused.contains("Nothing was removed."), "{refused}");
    assert_eq!(world.local_tip("middle").await, Some(tip));
    assert!(made[1].path.join("middle.txt").exists());
    world.end().await;
}

/// GitHub says where everything goes now; what is merged there is merged.
#[tokio::test]
async fn a_base_that_was_renamed() {
    let world = World::new().await;
    let made = based_on(&world, &[("first", "main"), ("middle", "main")]).await;
    let remote = world.standin.git_dir(REPO).unwrap();
    git(&made[0].path, &["push", "-q", remote.to_str().unwrap(), "HEAD:refs/heads/first"]);
    world.standin.push_commit(REPO, ANN, "trunk", "Renamed", &[("first.txt", Some("work\n"))]).await.unwrap();
    world.standin.set_default_branch(REPO, "trunk").await.unwrap();
    world.standin.delete_branch(REPO, ANN, "main").await.unwrap();
    world.issue();
    world.settle().await;
    let report = world.pass().await;
    let [first, middle] = &report.lines[..] else { panic!("{report:?}") };
    let proof = "everything `first` changes is in `trunk`".to_owned();
    assert_eq!(first.result, ReportResult::Removed(proof));
    assert!(matches!(&middle.result, ReportResult::Kept(_)), "{middle:?}");
    assert!(made[1].path.join("middle.txt").exists() && !made[0].path.exists());
    world.end().await;
}
