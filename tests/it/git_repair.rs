//! Ties between a worktree and its repository that somebody cut: files are never taken for gone, and what can be mended is.

use crate::git_lab::{Lab, branch, known};
use std::{fs, path::Path};
use treewarden::git::{CommitRequest, GitError, Ident, Repository};
use treewarden::model::*;

async fn validity(repository: &Repository, path: &Path) -> Validity {
    known(repository.worktree(path).validity().await)
}

/// A worktree `b` with a commit, a changed file and a new one.
async fn at_work(lab: &Lab, repository: &Repository) -> (std::path::PathBuf, CommitSha) {
    let (path, worktree) = lab.worktree(repository, "b").await;
    lab.commit(&path, "own", "1\n");
    fs::write(path.join("f"), "changed\n").unwrap();
    fs::write(path.join("precious"), "precious\n").unwrap();
    (path, worktree.head().await.unwrap().sha.unwrap())
}

/// The same files, changes, branch and commit as before; and git itself agrees.
async fn as_before(lab: &Lab, repository: &Repository, path: &Path, tip: &CommitSha) {
    assert_eq!(validity(repository, path).await, Validity::Valid);
    assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), "precious\n");
    assert_eq!(lab.run(path, &["status", "--porcelain"]), " M f\n?? precious");
    let head = repository.worktree(path).head().await.unwrap();
    assert_eq!((head.branch, head.sha.as_ref()), (Some(branch("b")), Some(tip)));
    let listed = lab.run(repository.directory(), &["worktree", "list", "--porcelain"]);
    assert!(
        listed.contains(&format!("worktree {}\n", path.display())) && listed.contains("locked treewarden"),
        "{listed}"
    );
    assert!(!repository.worktree(path).repair(&branch("b")).await.unwrap(), "nothing is left to mend");
}

#[tokio::test]
async fn a_registration_that_was_deleted_is_made_again() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    fs::remove_dir_all(repository.directory().join("worktrees")).unwrap();
    assert_eq!(validity(&repository, &path).await, Validity::Broken);
    assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap());
    as_before(&lab, &repository, &path, &tip).await;
}

#[tokio::test]
async fn a_registration_that_was_turned_elsewhere_is_turned_back() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    let entry = repository.directory().join("worktrees/b");
    fs::write(entry.join("gitdir"), "/somewhere/else/.git\n").unwrap();
    assert_eq!(validity(&repository, &path).await, Validity::Broken);
    assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap());
    as_before(&lab, &repository, &path, &tip).await;
}

#[tokio::test]
async fn a_link_that_was_deleted_is_written_again() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    fs::remove_file(path.join(".git")).unwrap();
    assert_eq!(validity(&repository, &path).await, Validity::Broken);
    assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap());
    as_before(&lab, &repository, &path, &tip).await;
}

#[tokio::test]
async fn what_is_not_certain_is_not_mended() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = at_work(&lab, &repository).await;
    let (other, _) = lab.worktree(&repository, "other").await;
    // The branch is gone as well.
    fs::remove_dir_all(repository.directory().join("worktrees/b")).unwrap();
    assert!(!repository.worktree(&path).repair(&branch("never")).await.unwrap());
    assert_eq!(validity(&repository, &path).await, Validity::Broken);
    // Its link names the entry of a neighbour that is well.
    fs::copy(other.join(".git"), path.join(".git")).unwrap();
    assert!(!repository.worktree(&path).repair(&branch("b")).await.unwrap());
    assert_eq!(validity(&repository, &other).await, Validity::Valid);
    // A repository of somebody's own stands where the link was.
    fs::remove_file(path.join(".git")).unwrap();
    lab.run(&path, &["init", "-q"]);
    assert!(!repository.worktree(&path).repair(&branch("b")).await.unwrap());
    assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), "precious\n");
}

#[tokio::test]
async fn a_repository_that_is_out_of_sight_is_a_doubt() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    let aside = lab.path("aside.git");
    fs::rename(repository.directory(), &aside).unwrap();
    assert!(matches!(repository.worktree(&path).validity().await, Probe::Unknown(_)));
    fs::rename(&aside, repository.directory()).unwrap();
    as_before(&lab, &repository, &path, &tip).await;
}

#[tokio::test]
async fn hooks_that_were_planted_are_taken_out() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let hooks = repository.directory().join("hooks");
    fs::create_dir(&hooks).unwrap();
    fs::write(hooks.join("post-checkout"), "#!/bin/sh\ntouch pwned\n").unwrap();
    repository.restore_config().await.unwrap();
    assert!(!hooks.exists());
    std::os::unix::fs::symlink(lab.path("people"), &hooks).unwrap();
    repository.restore_config().await.unwrap();
    assert!(!hooks.exists() && lab.path("people/f").exists());
}

#[tokio::test]
async fn nothing_is_committed_without_its_history() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = at_work(&lab, &repository).await;
    lab.run(&path, &["update-ref", "-d", "refs/heads/b"]);
    let person = || Ident { name: "T".into(), email: "t@example.org".into() };
    let request = CommitRequest {
        message: "Work".into(),
        author: person(),
        committer: person(),
        co_authors: vec![],
        branch: branch("b"),
    };
    assert!(matches!(repository.worktree(&path).commit_all(&request).await, Err(GitError::Refused { .. })));
    assert_eq!(repository.tip("refs/heads/b").await.unwrap(), None);
}

#[tokio::test]
async fn commits_that_only_the_worktree_holds_outlive_its_registration() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    lab.run(&path, &["switch", "-q", "--detach"]);
    let detached = lab.commit(&path, "alone", "1\n");
    lab.run(&path, &["switch", "-q", "b"]);
    let amended = lab.commit(&path, "draft", "1\n");
    lab.run(&path, &["commit", "-q", "--amend", "-m", "better"]);
    lab.run(&path, &["update-ref", "refs/worktree/mine", detached.as_str()]);
    // And one on which its HEAD still stands.
    lab.run(&path, &["switch", "-q", "--detach"]);
    let current = lab.commit(&path, "current", "1\n");
    fs::remove_dir_all(&path).unwrap();
    repository.unregister(&path).await.unwrap();
    for sha in [&detached, &amended, &current] {
        let kept = repository.tip(&format!("refs/treewarden/archive/commits/{sha}")).await.unwrap();
        assert_eq!(kept.as_ref(), Some(sha));
    }
    let kept = lab.run(repository.directory(), &["for-each-ref", "refs/treewarden/archive/commits/"]);
    assert_eq!(kept.lines().count(), 3, "what a branch reaches needs none: {kept}");
}

#[tokio::test]
async fn odd_files_in_the_registration_are_doubts() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    let lock = repository.directory().join("worktrees/b/locked");
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &lock).unwrap();
    assert!(matches!(repository.worktree(&path).foreign_lock().await, Probe::Unknown(_)));
    fs::remove_file(&lock).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&lock).status().unwrap().success());
    assert!(matches!(repository.worktree(&path).foreign_lock().await, Probe::Unknown(_)));
}
