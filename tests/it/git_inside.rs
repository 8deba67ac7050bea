//! What an agent leaves where the service reads in its own process: in repositories inside a worktree, in submodules, in an
//! entry. Nobody waits for it, and it is not taken into memory.

use crate::git_commit::request;
use crate::git_lab::{Lab, branch, known};
use crate::support::alone::{peak, ran_alone};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use treewarden::model::Probe;

/// More than any file that is read as a whole. It takes no room on the disk.
const LONG: u64 = 600 << 20;

const PATIENCE: Duration = Duration::from_secs(20);

type Trap = (&'static str, Box<dyn Fn(&Path)>);

fn pipe(at: &Path) {
    let _ = fs::remove_file(at);
    assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
}

fn long(at: &Path) {
    let _ = fs::remove_file(at);
    fs::File::create(at).unwrap().set_len(LONG).unwrap();
}

/// The answer; where there is none in time, whoever waits at a pipe is let go, so that the test ends.
async fn in_time<T>(why: &str, root: &Path, answer: impl Future<Output = T>) -> T {
    if let Ok(answer) = tokio::time::timeout(PATIENCE, answer).await {
        return answer;
    }
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => pending.push(entry.path()),
                kind if kind.is_fifo() => {
                    drop(fs::OpenOptions::new().read(true).write(true).open(entry.path()));
                    fs::remove_file(entry.path()).unwrap();
                }
                _ => {}
            }
        }
    }
    panic!("{why}: no answer")
}

fn copied(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

fn traps(pipe_elsewhere: PathBuf) -> [Trap; 10] {
    let includes = move |own: &Path| {
        let config = fs::read_to_string(own.join("config")).unwrap();
        let text = format!("{config}[Include]\n\tpath = {}\n", pipe_elsewhere.display());
        fs::write(own.join("config"), text).unwrap();
    };
    let linked = |own: &Path| {
        pipe(&own.join("a-pipe"));
        fs::remove_file(own.join("index")).unwrap();
        symlink("a-pipe", own.join("index")).unwrap();
    };
    [
        ("the index is a pipe", Box::new(|own| pipe(&own.join("index")))),
        ("the index leads to a pipe", Box::new(linked)),
        ("packed refs are a pipe", Box::new(|own| pipe(&own.join("packed-refs")))),
        ("a ref is a pipe", Box::new(|own| pipe(&own.join("refs/heads/x")))),
        ("a log is a pipe", Box::new(|own| pipe(&own.join("logs/HEAD")))),
        ("HEAD is a pipe", Box::new(|own| pipe(&own.join("HEAD")))),
        ("the configuration is a pipe", Box::new(|own| pipe(&own.join("config")))),
        ("the configuration includes a pipe", Box::new(includes)),
        ("an endless index", Box::new(|own| long(&own.join("index")))),
        ("endless packed refs", Box::new(|own| long(&own.join("packed-refs")))),
    ]
}

#[tokio::test]
async fn what_lies_in_a_repository_inside_holds_nobody_up() {
    if ran_alone("git_inside::what_lies_in_a_repository_inside_holds_nobody_up") {
        return;
    }
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let (sub, good) = (path.join("sub"), lab.path("good"));
    lab.run(&path, &["init", "-q", "sub"]);
    lab.commit(&sub, "s", "1\n");
    lab.run(&path, &["add", "sub"]);
    lab.run(&path, &["commit", "-qm", "sub"]);
    copied(&sub.join(".git"), &good);
    let elsewhere = lab.path("pipe");
    pipe(&elsewhere);
    let before = peak();
    for (why, set) in traps(elsewhere) {
        let lay = || {
            copied(&good, &sub.join(".git"));
            set(&sub.join(".git"));
        };
        lay();
        let work = in_time(why, &lab.root, worktree.submodule_work()).await;
        assert!(matches!(&work, Probe::Unknown(doubt) if doubt.contains("read")), "{why}: {work:?}");
        // A pipe may have been taken away meanwhile.
        lay();
        let nested = in_time(why, &lab.root, worktree.nested_repositories()).await;
        assert!(matches!(&nested, Probe::Unknown(_)), "{why}: {nested:?}");
        // Git itself reads that of a submodule, and ends there.
        if why.contains("configuration") {
            continue;
        }
        // What git finds is committed all the same.
        fs::write(path.join("new"), why).unwrap();
        in_time(why, &lab.root, worktree.commit_all(&request("b"))).await.unwrap().unwrap();
        known(in_time(why, &lab.root, worktree.status()).await);
    }
    copied(&good, &sub.join(".git"));
    assert_eq!(known(worktree.submodule_work().await), ["sub"]);
    // The same where submodules of a worktree are.
    for (why, set) in traps(lab.path("pipe")).into_iter().filter(|(why, _)| !why.contains("index")) {
        let module = repository.directory().join("worktrees/b/modules/m");
        fs::create_dir_all(module.parent().unwrap()).unwrap();
        copied(&good, &module);
        set(&module);
        let work = in_time(why, &lab.root, worktree.submodule_work()).await;
        assert!(matches!(&work, Probe::Unknown(_)), "{why}: {work:?}");
    }
    assert!(peak() - before < LONG / 2, "read as a whole");
}

#[tokio::test]
async fn an_endless_index_is_not_read_and_made_anew() {
    if ran_alone("git_inside::an_endless_index_is_not_read_and_made_anew") {
        return;
    }
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let index = repository.directory().join("worktrees/b/index");
    let before = peak();
    fs::write(path.join("new"), "n\n").unwrap();
    long(&index);
    assert!(worktree.keep("refs/treewarden/trash/1", 1000).await.is_err(), "an index that nobody can copy");
    fs::remove_file(path.join(".git")).unwrap();
    known(worktree.validity().await);
    assert!(worktree.repair(&branch("b")).await.unwrap());
    assert_eq!(known(worktree.status().await).untracked, 1);
    assert!(fs::metadata(&index).unwrap().len() < LONG);
    assert!(peak() - before < LONG / 2, "read as a whole");
}

#[tokio::test]
async fn a_head_that_is_none_holds_nobody_up() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (_, worktree) = lab.worktree(&repository, "b").await;
    let head = repository.directory().join("worktrees/b/HEAD");
    for set in [pipe, long] {
        set(&head);
        assert!(in_time("HEAD", &lab.root, worktree.head()).await.is_err());
    }
}
