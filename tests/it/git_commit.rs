//! What worktrees hold becomes commits: deliveries, fast-forwards.

use crate::git_lab::{Lab, branch, known};
use std::{fs, os::unix::fs::symlink, path::Path};
use treewarden::git::{CommitRequest, GitError, Ident, Status};
use treewarden::model::{NotTaken, NotTakenBecause, Probe};

pub fn request(on: &str) -> CommitRequest {
    let bot = Ident { name: "warden[bot]".into(), email: "1+warden[bot]@example.org".into() };
    let ann = Ident { name: "ann".into(), email: "ann@example.org".into() };
    CommitRequest {
        message: "Do the work".into(),
        author: bot.clone(),
        committer: bot,
        co_authors: vec![ann],
        branch: branch(on),
    }
}

#[tokio::test]
async fn a_sparse_worktree_is_clean_and_commits_no_deletions() {
    let lab = Lab::new();
    fs::create_dir(lab.path("people/a")).unwrap();
    fs::create_dir(lab.path("people/z")).unwrap();
    lab.people_commit("a/x", "1\n");
    lab.people_commit("z/y", "1\n");
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "s").await;
    // BR-095
    lab.run(&path, &["sparse-checkout", "set", "a"]);
    assert!(!path.join("z").exists());
    assert!(known(worktree.status().await).is_clean());
    assert!(!known(worktree.hidden_changes().await));
    fs::write(path.join("a/x"), "2\n").unwrap();
    worktree.commit_all(&request("s")).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["diff", "--name-status", "HEAD~1", "HEAD"]), "M\ta/x");
    assert_eq!(worktree.keep("refs/treewarden/trash/s", 1000).await.unwrap(), None);
    let (full, _) = lab.worktree(&repository, "v").await;
    assert!(full.join("z/y").exists());
}

#[tokio::test]
async fn everything_is_committed_once_on_the_right_branch() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    assert_eq!(worktree.commit_all(&request("b")).await.unwrap(), None);
    fs::write(path.join("f"), "2\n").unwrap();
    fs::write(path.join("-odd name"), "").unwrap();
    fs::write(path.join(".env"), "SECRET").unwrap();
    let nested = path.join("nested");
    fs::create_dir(&nested).unwrap();
    lab.run(&nested, &["init", "-q"]);
    lab.commit(&nested, "x", "1\n");
    let sha = worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert_eq!(repository.tip("refs/heads/b").await.unwrap(), Some(sha.clone()));
    assert_eq!(
        lab.run(&path, &["show", "--name-status", "--format=%an|%cn|%s|%(trailers)", "HEAD"])
            .lines()
            .collect::<Vec<_>>(),
        ["warden[bot]|warden[bot]|Do the work|Co-authored-by: ann <ann@example.org>", "", "", "A\t-odd name", "M\tf"]
    );
    assert_eq!(
        known(worktree.status().await),
        Status { untracked: 1, ..Status::default() },
        "only the repository inside is left"
    );
    assert_eq!(worktree.commit_all(&request("b")).await.unwrap(), None);
    // BR-015
    lab.run(&path, &["switch", "-q", "-c", "other"]);
    fs::write(path.join("f"), "3\n").unwrap();
    assert!(matches!(worktree.commit_all(&request("b")).await, Err(GitError::Refused { .. })));
    assert_eq!(repository.tip("refs/heads/b").await.unwrap(), Some(sha));
}

/// Nor one that no remote would take, whoever staged it, nor directories deeper than any path may be long.
#[tokio::test]
async fn what_is_too_large_or_too_deep_keeps_nothing_else_from_being_committed() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let grown = |name: &str, bytes| fs::File::create(path.join(name)).unwrap().set_len(bytes).unwrap();
    let (most, deep) = (100 << 20, "d".repeat(200));
    grown("staged.img", most + 1);
    lab.run(&path, &["add", "staged.img"]);
    grown("disk.img", 2 << 40);
    fs::create_dir(path.join(&deep)).unwrap();
    // The whole is longer than a path may be, no part of it is.
    for _ in 0..24 {
        let below = path.join("below");
        fs::create_dir(&below).unwrap();
        fs::rename(path.join(&deep), below.join(&deep)).unwrap();
        fs::rename(below, path.join(&deep)).unwrap();
    }
    fs::write(path.join("good.txt"), "good\n").unwrap();
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["show", "--name-status", "--format=", "HEAD"]), "A\tgood.txt");
    let mut left = worktree.not_taken().await.unwrap();
    left.sort_by(|one, other| one.path.cmp(&other.path));
    let [in_the_deep, disk, staged] = &left[..] else { panic!("{left:?}") };
    assert!(in_the_deep.path.starts_with(&deep), "{left:?}");
    assert_eq!(in_the_deep.why, NotTakenBecause::GitRefuses("File name too long".to_owned()));
    for (left, name, bytes) in [(disk, "disk.img", 2 << 40), (staged, "staged.img", most + 1)] {
        let why = NotTakenBecause::TooLarge { bytes, most };
        assert_eq!(*left, NotTaken { path: name.into(), why });
    }
    assert!(matches!(worktree.status().await, Probe::Unknown(_)), "it stays a doubt for a removal");
}

/// Whoever says `git rm --cached` of a file wants it out, and what git ignores nobody adds again.
#[tokio::test]
async fn what_was_taken_out_of_the_index_stays_out_where_git_ignores_it() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    for name in ["config.env", "other.env"] {
        lab.commit(&path, name, "SECRET=1\n");
    }
    let shown = || lab.run(&path, &["show", "--name-status", "--format=", "HEAD"]);
    fs::write(path.join(".gitignore"), "*.env\n").unwrap();
    lab.run(&path, &["rm", "-q", "--cached", "config.env"]);
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert_eq!(shown(), "M\t.gitignore\nD\tconfig.env");
    // Also when there is nothing else.
    lab.run(&path, &["rm", "-q", "--cached", "other.env"]);
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert_eq!(shown(), "D\tother.env");
    assert!(path.join("config.env").exists() && path.join("other.env").exists());
    // As `git add --all` does.
    lab.run(&path, &["rm", "-q", "--cached", "f"]);
    assert_eq!(worktree.commit_all(&request("b")).await.unwrap(), None);
}

#[tokio::test]
async fn a_lost_index_takes_nothing_out() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::write(path.join(".gitignore"), "*.env\n").unwrap();
    fs::write(path.join("config.env"), "kept on purpose\n").unwrap();
    lab.run(&path, &["add", "--force", ".gitignore", "config.env"]);
    lab.run(&path, &["commit", "-qm", "Ignored, and here"]);
    fs::remove_file(repository.directory().join("worktrees/b/index")).unwrap();
    fs::write(path.join("new.txt"), "new\n").unwrap();
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["show", "--name-status", "--format=", "HEAD"]), "A\tnew.txt");
}

/// What GitHub does not take, a repository on this machine does.
#[tokio::test]
async fn a_repository_on_this_machine_takes_files_of_any_size() {
    let lab = Lab::new();
    let people = lab.path("people");
    let repository = lab.git.repository_of(lab.path("copies/c.git"), &people);
    repository.ensure(people.to_str().unwrap()).await.unwrap();
    lab.fetch(&repository).await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::File::create(path.join("disk.img")).unwrap().set_len((100 << 20) + 1).unwrap();
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["show", "--name-status", "--format=", "HEAD"]), "A\tdisk.img");
}

/// One file that git cannot convert keeps nothing else from being committed, also of the files that it stands between.
#[tokio::test]
async fn what_git_does_not_take_is_left_out_and_named() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::write(path.join(".gitattributes"), "*.txt working-tree-encoding=UTF-16\n").unwrap();
    for name in ["a.rs", "b.txt", "c.rs", "y.txt", "z.rs"] {
        fs::write(path.join(name), "plain\n").unwrap();
    }
    fs::remove_file(path.join("f")).unwrap();
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    let changes = lab.run(&path, &["show", "--name-status", "--format=", "HEAD"]);
    assert_eq!(changes.lines().collect::<Vec<_>>(), ["A\t.gitattributes", "A\ta.rs", "A\tc.rs", "D\tf", "A\tz.rs"]);

    let mut left = worktree.not_taken().await.unwrap();
    left.sort_by(|one, other| one.path.cmp(&other.path));
    for (left, name) in left.iter().zip(["b.txt", "y.txt"]) {
        assert!(
            left.path == Path::new(name)
                && matches!(&left.why, NotTakenBecause::GitRefuses(words) if words.contains("BOM is required")),
            "{left:?}"
        );
    }
    assert_eq!(left.len(), 2, "{left:?}");
    // What is not committed is a reason to keep the worktree.
    assert_eq!(known(worktree.status().await), Status { untracked: 2, ..Status::default() });
    assert_eq!(worktree.commit_all(&request("b")).await.unwrap(), None, "nor does it keep the next commit");
    fs::write(path.join("a.rs"), "more\n").unwrap();
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    // With the cause gone it is a file like any other.
    fs::remove_file(path.join(".gitattributes")).unwrap();
    assert!(worktree.not_taken().await.unwrap().is_empty());
    assert_eq!(known(worktree.status().await), Status { tracked: 1, untracked: 2, ..Status::default() });
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert!(known(worktree.status().await).is_clean());
}

#[tokio::test]
async fn fast_forwarding_never_costs_work() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let new = lab.people_commit("g", "1\n");
    lab.fetch(&repository).await;
    let refused = |result: Result<(), GitError>| assert!(matches!(result, Err(GitError::Refused { .. })), "{result:?}");
    fs::write(path.join("g"), "mine\n").unwrap();
    refused(worktree.fast_forward(&branch("b"), &new).await);
    assert_eq!(fs::read_to_string(path.join("g")).unwrap(), "mine\n");
    fs::remove_file(path.join("g")).unwrap();
    worktree.fast_forward(&branch("b"), &new).await.unwrap();
    assert_eq!(fs::read_to_string(path.join("g")).unwrap(), "1\n");
    assert_eq!(repository.tip("refs/heads/b").await.unwrap(), Some(new));
    // What git ignores here, somebody may have committed there.
    fs::write(path.join(".env"), "mine\n").unwrap();
    fs::write(lab.path("people").join(".env"), "theirs\n").unwrap();
    lab.run(&lab.path("people"), &["add", "-f", ".env"]);
    let with_ignored = lab.people_commit("later", "1\n");
    lab.fetch(&repository).await;
    refused(worktree.fast_forward(&branch("b"), &with_ignored).await);
    assert_eq!(fs::read_to_string(path.join(".env")).unwrap(), "mine\n");
    assert!(known(worktree.status().await).is_clean() && !path.join("later").exists());
    // BR-108
    lab.run(&lab.path("people"), &["reset", "-q", "--hard", "HEAD~1"]);
    lab.run(&lab.path("people"), &["commit", "-q", "--amend", "-m", "rewritten"]);
    let rewritten = lab.people_commit("h", "1\n");
    lab.fetch(&repository).await;
    let own = lab.commit(&path, "own", "1\n");
    refused(worktree.fast_forward(&branch("b"), &rewritten).await);
    assert_eq!(worktree.head().await.unwrap().sha, Some(own));
}

#[tokio::test]
async fn moving_aside_never_costs_work_and_keeps_what_was_there() {
    let lab = Lab::new();
    lab.people_commit(".gitignore", "*.log\n");
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let old = lab.commit(&path, "old", "1\n");
    let people = lab.path("people");
    fs::write(people.join("kept.log"), "theirs\n").unwrap();
    lab.run(&people, &["add", "-f", "kept.log"]);
    let new = lab.people_commit("new", "1\n");
    lab.fetch(&repository).await;
    let (b, keep) = (branch("b"), "refs/treewarden/before/e/c");
    let refused = |result: Result<(), GitError>| assert!(matches!(result, Err(GitError::Refused { .. })), "{result:?}");

    refused(worktree.move_aside(&b, &new, &new, keep).await);
    fs::write(path.join("old"), "edited\n").unwrap();
    refused(worktree.move_aside(&b, &old, &new, keep).await);
    lab.run(&path, &["checkout", "-q", "old"]);
    fs::write(path.join("kept.log"), "mine, ignored\n").unwrap();
    refused(worktree.move_aside(&b, &old, &new, keep).await);
    assert_eq!(fs::read_to_string(path.join("kept.log")).unwrap(), "mine, ignored\n");
    assert_eq!(worktree.head().await.unwrap().sha, Some(old.clone()));
    fs::remove_file(path.join("kept.log")).unwrap();

    worktree.move_aside(&b, &old, &new, keep).await.unwrap();
    assert_eq!(repository.tip("refs/heads/b").await.unwrap(), Some(new));
    assert_eq!(repository.tip(keep).await.unwrap(), Some(old));
    assert!(!path.join("old").exists() && path.join("new").exists());
    assert!(known(worktree.status().await).is_clean());
}

#[tokio::test]
async fn files_that_became_directories_and_back_are_committed() {
    let lab = Lab::new();
    fs::create_dir(lab.path("people/d")).unwrap();
    lab.people_commit("d/x", "1\n");
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::remove_file(path.join("f")).unwrap();
    fs::create_dir(path.join("f")).unwrap();
    fs::write(path.join("f/inside"), "").unwrap();
    fs::remove_dir_all(path.join("d")).unwrap();
    fs::write(path.join("d"), "").unwrap();
    symlink("f/inside", path.join("link")).unwrap();
    // Staged by the agent, then taken back in the files.
    fs::write(path.join("staged"), "").unwrap();
    lab.run(&path, &["add", "staged"]);
    fs::remove_file(path.join("staged")).unwrap();
    lab.run(&path, &["rm", "-q", "--cached", ".gitignore"]);
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert!(known(worktree.status().await).is_clean());
    assert_eq!(lab.run(&path, &["status", "--porcelain"]), "");
    assert_eq!(lab.run(&path, &["ls-files"]), ".gitignore\nd\nf/inside\nlink");
}

#[tokio::test]
async fn line_ends_that_git_would_write_differently_are_nobodys_change() {
    let lab = Lab::new();
    let people = lab.path("people");
    // A file with CRLF was committed before the attribute that says LF: git calls it modified as soon as it looks.
    fs::write(people.join("old.txt"), "one\r\ntwo\r\n").unwrap();
    lab.run(&people, &["add", "."]);
    lab.run(&people, &["commit", "-qm", "old"]);
    fs::write(people.join(".gitattributes"), "*.txt text eol=lf\n").unwrap();
    lab.run(&people, &["add", ".gitattributes"]);
    lab.run(&people, &["commit", "-qm", "attributes"]);
    lab.run(&people, &["push", "-q", "origin", "main"]);
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    // The same bytes with another time, so that git has to look inside.
    fs::write(path.join("old.txt"), "one\r\ntwo\r\n").unwrap();
    assert!(lab.run(&path, &["status", "--porcelain"]).contains("old.txt"));
    assert!(known(worktree.status().await).is_clean());
    assert_eq!(worktree.commit_all(&request("b")).await.unwrap(), None);

    fs::write(path.join("f"), "2\n").unwrap();
    let sha = worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["show", "--name-only", "--format=", sha.as_str()]), "f");
    fs::write(path.join("old.txt"), "one\r\nthree\r\n").unwrap();
    assert_eq!(known(worktree.status().await), Status { tracked: 1, ..Status::default() });
}

#[tokio::test]
async fn a_directory_that_became_a_link_is_committed() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    for name in ["a/one", "other/one"] {
        fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
        fs::write(path.join(name), "1\n").unwrap();
    }
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    fs::remove_dir_all(path.join("a")).unwrap();
    std::os::unix::fs::symlink("other", path.join("a")).unwrap();
    let sha = worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["show", "--name-status", "--format=", sha.as_str()]), "A\ta\nD\ta/one");
    assert!(known(worktree.status().await).is_clean());
}

/// Git itself commits none either, and what a `git stash pop` leaves is no operation that a file tells of.
#[tokio::test]
async fn conflicts_that_nobody_resolved_are_not_committed() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::write(path.join("f"), "mine\n").unwrap();
    lab.run(&path, &["stash", "-q"]);
    lab.commit(&path, "f", "theirs\n");
    assert!(!lab.try_run(&path, &["stash", "pop", "-q"]).status.success());
    fs::write(path.join("new"), "work\n").unwrap();
    let refused = worktree.commit_all(&request("b")).await.unwrap_err().to_string();
    assert!(refused.contains("conflicts in f that nobody has resolved"), "{refused}");
    fs::write(path.join("f"), "both\n").unwrap();
    lab.run(&path, &["add", "f"]);
    worktree.commit_all(&request("b")).await.unwrap().unwrap();
    assert_eq!(lab.run(&path, &["show", "--format=", "--name-only", "HEAD"]), "f\nnew");
}
