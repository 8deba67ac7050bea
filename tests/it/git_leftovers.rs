//! Locks that look left behind and are not: as long as a process may hold one, it stays, and people are told whom to ask.

use crate::git_lab::{Lab, branch};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime},
};
use treewarden::git::{GitError, Repository};

/// A ref whose lock is held, or left behind, for longer than any git needs it.
const NAME: &str = "refs/heads/held";

struct Held {
    lab: Lab,
    repository: Repository,
    lock: PathBuf,
    holder: Child,
}

/// A git that holds the ref's lock until it is told to go on.
fn preparing(mut git: Command, lab: &Lab) -> Child {
    let mut child = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let tip = lab.sha(&lab.path("people"), "main");
    write!(child.stdin.as_mut().unwrap(), "start\nupdate {NAME} {tip}\nprepare\n").unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line == "prepare: ok"));
    child
}

impl Held {
    async fn new(holder: impl FnOnce(&Lab, &Repository, &Path) -> Child) -> Self {
        let lab = Lab::new();
        let repository = lab.repository().await;
        lab.worktree(&repository, "b").await;
        let lock = repository.directory().join(format!("{NAME}.lock"));
        let holder = holder(&lab, &repository, &lock);
        age(&lock);
        Self { lab, repository, lock, holder }
    }

    async fn step(&self) -> Result<bool, GitError> {
        let tip = self.lab.main_tip(&self.repository).await;
        self.repository.set_ref(NAME, &tip, None).await
    }

    /// The lock stays while the process lives, and goes when it was killed.
    async fn stays_until_the_end(mut self) {
        let before = fs::metadata(&self.lock).unwrap().modified().unwrap();
        let error = self.step().await.unwrap_err();
        assert_eq!(error, GitError::Held { path: self.lock.clone(), process: self.holder.id() });
        assert!(error.is_transient());
        let sentence = error.to_string();
        assert!(sentence.contains(self.lock.to_str().unwrap()), "{sentence}");
        assert!(sentence.contains(&format!("process {} ", self.holder.id())), "{sentence}");
        assert_eq!(fs::metadata(&self.lock).unwrap().modified().unwrap(), before);
        // No git cleans up after this.
        self.holder.kill().unwrap();
        self.holder.wait().unwrap();
        assert!(self.lock.exists());
        assert!(self.step().await.unwrap());
        assert!(!self.lock.exists());
    }
}

fn age(lock: &Path) {
    let past = SystemTime::now() - Duration::from_secs(60);
    fs::File::options().append(true).open(lock).unwrap().set_modified(past).unwrap();
}

/// They wait at the same time.
#[tokio::test]
async fn a_lock_that_somebody_may_hold_stays_until_the_process_ends() {
    let in_the_repository =
        Held::new(|lab, repository, _| preparing(lab.command(repository.directory(), &["update-ref", "--stdin"]), lab));
    let in_a_worktree =
        Held::new(|lab, _, _| preparing(lab.command(&lab.path("worktrees/b"), &["update-ref", "--stdin"]), lab));
    let by_its_environment = Held::new(|lab, repository, _| {
        let mut git = lab.command(&lab.root, &["update-ref", "--stdin"]);
        git.env("GIT_DIR", repository.directory());
        preparing(git, lab)
    });
    let by_its_arguments = Held::new(|lab, _, _| {
        preparing(lab.command(&lab.root, &["--git-dir=repos/c.git", "update-ref", "--stdin"]), lab)
    });
    let by_an_open_file = Held::new(|_, _, lock| {
        let file = fs::File::create(lock).unwrap();
        Command::new("sleep").arg("600").current_dir("/").stdin(file).spawn().unwrap()
    });
    tokio::join!(
        async { in_the_repository.await.stays_until_the_end().await },
        async { in_a_worktree.await.stays_until_the_end().await },
        async { by_its_environment.await.stays_until_the_end().await },
        async { by_its_arguments.await.stays_until_the_end().await },
        async { by_an_open_file.await.stays_until_the_end().await },
    );
}

#[tokio::test]
async fn a_lock_that_is_let_go_meanwhile_is_no_failure() {
    let mut held =
        Held::new(|lab, repository, _| preparing(lab.command(repository.directory(), &["update-ref", "--stdin"]), lab))
            .await;
    let mut input = held.holder.stdin.take().unwrap();
    let step = held.step();
    let end = async {
        writeln!(input, "abort").unwrap();
        drop(input);
    };
    assert!(tokio::join!(step, end).0.unwrap());
    assert!(held.holder.wait().unwrap().success());
}

#[tokio::test]
async fn a_git_elsewhere_and_another_program_here_hold_nothing() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    let lock = repository.directory().join(format!("{NAME}.lock"));
    fs::write(&lock, "").unwrap();
    age(&lock);
    let mut elsewhere = preparing(lab.command(&lab.path("people"), &["update-ref", "--stdin"]), &lab);
    let mut here = Command::new("sleep").arg("600").current_dir(&path).spawn().unwrap();
    let tip = lab.main_tip(&repository).await;
    assert!(repository.set_ref(NAME, &tip, None).await.unwrap());
    for process in [&mut elsewhere, &mut here] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    assert_eq!(repository.tip(&branch("held").full_ref()).await.unwrap(), Some(tip));
}
