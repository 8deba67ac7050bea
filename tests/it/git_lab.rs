//! A throw-away laboratory: a remote, a clone in which people work, and the service's own git on top. Calls made through
//! [`Lab::run`] are what people and agents do; everything else goes through the crate.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};
use treewarden::git::{FetchRequest, Git, GitSettings, Repository, Worktree};
use treewarden::model::*;

pub struct Lab {
    pub root: PathBuf,
    pub git: Git,
    _temp: tempfile::TempDir,
}

pub fn branch(name: &str) -> BranchName {
    BranchName::new(name).unwrap()
}

impl Lab {
    /// A remote `r.git` whose branch `main` has a file `f` with `1`, and a `.gitignore` for `.env` and `target/`.
    pub fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::write(
            root.join("gitconfig"),
            "[user]\n name = T\n email = t@example.org\n[init]\n defaultBranch = main\n[advice]\n detachedHead = false\n\
             [protocol \"file\"]\n allow = always\n",
        )
        .unwrap();
        let settings = GitSettings {
            local_remotes: true,
            pipe_pause: Duration::from_millis(100),
            ..GitSettings::new("git", root.join("state"))
        };
        let lab = Self { git: Git::new(settings).unwrap(), root, _temp: temp };
        lab.run(&lab.root, &["init", "-q", "--bare", "r.git"]);
        lab.run(&lab.root, &["init", "-q", "people"]);
        let people = lab.path("people");
        fs::write(people.join("f"), "1\n").unwrap();
        fs::write(people.join(".gitignore"), ".env\ntarget/\n").unwrap();
        lab.run(&people, &["add", "."]);
        lab.run(&people, &["commit", "-qm", "base"]);
        lab.run(&people, &["remote", "add", "origin", lab.path("r.git").to_str().unwrap()]);
        lab.run(&people, &["push", "-q", "origin", "main"]);
        lab
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn command(&self, directory: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.current_dir(directory).args(args).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &self.root).env("LC_ALL", "C");
        command.env("GIT_CONFIG_GLOBAL", self.root.join("gitconfig")).env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    pub fn try_run(&self, directory: &Path, args: &[&str]) -> Output {
        self.command(directory, args).output().unwrap()
    }

    /// Standard output of a call that succeeds, without the final line feed.
    pub fn run(&self, directory: &Path, args: &[&str]) -> String {
        let output = self.try_run(directory, args);
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    pub fn sha(&self, directory: &Path, name: &str) -> CommitSha {
        CommitSha::new(&self.run(directory, &["rev-parse", name])).unwrap()
    }

    /// People commit one file and push the branch they are on.
    pub fn people_commit(&self, file: &str, content: &str) -> CommitSha {
        let people = self.path("people");
        let sha = self.commit(&people, file, content);
        self.run(&people, &["push", "-q", "-f", "origin", "HEAD"]);
        sha
    }

    pub fn commit(&self, directory: &Path, file: &str, content: &str) -> CommitSha {
        fs::write(directory.join(file), content).unwrap();
        self.run(directory, &["add", "--", file]);
        self.run(directory, &["commit", "-qm", &format!("{file}: {}", content.trim_end())]);
        self.sha(directory, "HEAD")
    }

    /// The canonical repository, fetched.
    pub async fn repository(&self) -> Repository {
        let repository = self.git.repository(self.path("repos/c.git"));
        repository.ensure(self.path("r.git").to_str().unwrap()).await.unwrap();
        self.fetch(&repository).await;
        repository
    }

    pub async fn fetch(&self, repository: &Repository) {
        let request = FetchRequest { branches: true, extra: vec![] };
        repository.fetch(&request, None).await.unwrap();
    }

    pub async fn main_tip(&self, repository: &Repository) -> CommitSha {
        repository.tip("refs/remotes/origin/main").await.unwrap().unwrap()
    }

    /// A worktree `worktrees/<name>` on a new branch `<name>`.
    pub async fn worktree(&self, repository: &Repository, name: &str) -> (PathBuf, Worktree) {
        let path = self.path("worktrees").join(name);
        let start = WorktreeStart::NewBranch(self.main_tip(repository).await);
        repository.add_worktree(&path, &branch(name), &start).await.unwrap();
        (path.clone(), repository.worktree(path))
    }
}

/// The answer of a probe that must have one.
pub fn known<T: std::fmt::Debug>(probe: Probe<T>) -> T {
    match probe {
        Probe::Known(answer) => answer,
        Probe::Unknown(why) => panic!("no answer: {why}"),
    }
}
