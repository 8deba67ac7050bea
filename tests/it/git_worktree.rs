//! Worktrees: adding, examining, committing, on real ones, in the situations that cost others their work.

use crate::git_commit::request;
use crate::git_lab::{Lab, branch, known};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
};
use treewarden::git::{GitError, LOCK_REASON, Status};
use treewarden::model::*;

fn status(tracked: u64, untracked: u64, conflicted: u64) -> Status {
    Status { tracked, untracked, conflicted }
}

#[tokio::test]
async fn a_new_worktree_is_clean_locked_and_tracks_nothing() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "feat/b").await;
    // BR-026, BR-070
    assert_eq!(lab.run(&path, &["status", "--porcelain", "--ignored"]), "");
    assert!(!lab.try_run(&path, &["config", "branch.feat/b.merge"]).status.success());
    assert_eq!(known(worktree.validity().await), Validity::Valid);
    assert_eq!(known(worktree.foreign_lock().await), None);
    let entries = repository.worktrees().await.unwrap();
    assert!(entries[0].bare);
    assert_eq!(entries[1].path, path);
    assert_eq!(entries[1].branch, Some(branch("feat/b")));
    assert_eq!(entries[1].locked.as_deref(), Some(LOCK_REASON));
    lab.commit(&path, "x", "1\n");
    for default in ["nothing", "current", "upstream", "simple", "matching"] {
        lab.try_run(&path, &["-c", &format!("push.default={default}"), "push", "-q"]);
    }
    assert_eq!(repository.remote_branch(&branch("main"), None).await.unwrap(), Some(lab.main_tip(&repository).await));
}

#[tokio::test]
async fn what_stands_at_the_path_is_never_touched_and_a_failed_try_leaves_nothing() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let path = lab.path("worktrees/w");
    let start = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("precious"), "p").unwrap();
    // BR-047, BR-063
    let refused = repository.add_worktree(&path, &branch("new"), &start).await;
    assert_eq!(refused, Err(GitError::PathExists(path.clone())));
    assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), "p");
    // One that fails inside git: the parent is a file.
    let under = lab.path("worktrees/w/precious/x");
    assert!(repository.add_worktree(&under, &branch("new"), &start).await.is_err());
    assert_eq!(repository.tip("refs/heads/new").await.unwrap(), None);
    assert_eq!(repository.worktrees().await.unwrap().len(), 1);
    fs::remove_dir_all(&path).unwrap();
    repository.add_worktree(&path, &branch("new"), &start).await.unwrap();
}

#[tokio::test]
async fn an_existing_branch_is_continued_and_never_reset() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let work = lab.commit(&path, "x", "1\n");
    let second = lab.path("worktrees/second");
    let elsewhere = repository.add_worktree(&second, &branch("b"), &WorktreeStart::Existing).await;
    assert!(elsewhere.is_err(), "checked out already");
    fs::remove_dir_all(&path).unwrap();
    // BR-066, BR-202
    assert_eq!(known(worktree.validity().await), Validity::Missing);
    repository.unregister(&path).await.unwrap();
    let start = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
    let refused = repository.add_worktree(&path, &branch("b"), &start).await;
    assert!(matches!(refused, Err(GitError::Refused { .. })), "{refused:?}");
    repository.add_worktree(&path, &branch("b"), &WorktreeStart::Existing).await.unwrap();
    let head = worktree.head().await.unwrap();
    assert_eq!((head.branch, head.sha), (Some(branch("b")), Some(work)));
    let missing = repository.add_worktree(&second, &branch("none"), &WorktreeStart::Existing).await;
    assert!(matches!(missing, Err(GitError::NotFound(_))));
}

#[tokio::test]
async fn the_default_branch_itself_can_be_worked_on() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "main").await;
    let first = worktree.head().await.unwrap();
    // BR-089, BR-077: fetching goes beside it, and what is new is seen there only.
    let newer = lab.people_commit("new", "1\n");
    lab.fetch(&repository).await;
    assert_eq!(lab.main_tip(&repository).await, newer);
    assert_eq!(worktree.head().await.unwrap(), first);
    worktree.fast_forward(&branch("main"), &newer).await.unwrap();
    assert_eq!(repository.tip("refs/heads/main").await.unwrap(), Some(newer));
    assert!(path.join("new").exists());
}

#[tokio::test]
async fn a_tag_of_the_same_name_does_not_lead_astray() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "v1").await;
    let work = lab.commit(&path, "x", "1\n");
    lab.run(&path, &["tag", "v1", "HEAD~1"]);
    fs::remove_dir_all(&path).unwrap();
    repository.unregister(&path).await.unwrap();
    repository.add_worktree(&path, &branch("v1"), &WorktreeStart::Existing).await.unwrap();
    assert_eq!(worktree.head().await.unwrap().sha, Some(work.clone()));
    assert!(path.join("x").exists());
    repository.push(&branch("v1"), None).await.unwrap();
    assert_eq!(repository.remote_branch(&branch("v1"), None).await.unwrap(), Some(work));
}

#[tokio::test]
async fn only_the_one_entry_is_unregistered_and_only_ours() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (mine, _) = lab.worktree(&repository, "mine").await;
    let (away, _) = lab.worktree(&repository, "away").await;
    let (theirs, worktree) = lab.worktree(&repository, "theirs").await;
    lab.run(repository.directory(), &["worktree", "unlock", theirs.to_str().unwrap()]);
    lab.run(repository.directory(), &["worktree", "lock", "--reason", "keep for demo", theirs.to_str().unwrap()]);
    assert_eq!(known(worktree.foreign_lock().await).as_deref(), Some("keep for demo"));
    assert_eq!(repository.unregister(&mine).await, Err(GitError::PathExists(mine.clone())));
    for path in [&mine, &away, &theirs] {
        fs::rename(path, path.with_extension("moved")).unwrap();
    }
    // BR-045, BR-052
    assert!(matches!(repository.unregister(&theirs).await, Err(GitError::Refused { .. })));
    repository.unregister(&mine).await.unwrap();
    repository.unregister(&mine).await.unwrap();
    let paths: Vec<_> = repository.worktrees().await.unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, [repository.directory().to_owned(), away.clone(), theirs.clone()]);
    // A stray prune spares what is merely out of sight.
    lab.run(repository.directory(), &["worktree", "prune", "--expire=now"]);
    fs::rename(away.with_extension("moved"), &away).unwrap();
    assert_eq!(lab.run(&away, &["status", "--porcelain"]), "");
}

/// The quick look at the registry and git's own list: where git knows of one, it says so.
#[tokio::test]
async fn a_worktree_at_a_place_or_on_a_branch_is_found_without_git() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    fs::create_dir(lab.path("real")).unwrap();
    symlink(lab.path("real"), lab.path("link")).unwrap();
    let (place, free) = (lab.path("link/w"), branch("free"));
    let asked =
        async |path: &Path, branch: Option<&BranchName>| repository.may_have_worktree(path, branch).await.unwrap();
    assert!(!asked(&place, Some(&branch("b"))).await);
    let start = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
    repository.add_worktree(&place, &branch("b"), &start).await.unwrap();
    let elsewhere = lab.path("elsewhere");
    assert!(!asked(&elsewhere, Some(&free)).await);
    assert!(!asked(&elsewhere, None).await);
    assert!(asked(&elsewhere, Some(&branch("b"))).await);
    for spelling in [place.clone(), lab.path("real/w"), lab.path("link/w/")] {
        assert!(asked(&spelling, None).await, "{}", spelling.display());
    }
    // Out of sight, or on no branch: still at its place.
    lab.run(&place, &["checkout", "-q", "--detach"]);
    assert!(!asked(&elsewhere, Some(&branch("b"))).await);
    fs::rename(lab.path("real/w"), lab.path("real/moved")).unwrap();
    assert!(asked(&place, None).await);
    // A HEAD that says nothing may be anything.
    let entry = repository.directory().join("worktrees/w/HEAD");
    for spoilt in ["", "garbage\n", "ref: refs/heads/..\n"] {
        fs::write(&entry, spoilt).unwrap();
        assert!(asked(&elsewhere, Some(&free)).await, "{spoilt:?}");
    }
    fs::remove_file(&entry).unwrap();
    assert!(asked(&elsewhere, Some(&free)).await);
}

#[tokio::test]
async fn odd_paths_are_listed_as_they_are() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    for (number, name) in [&b"a\nb"[..], b"s p", b"q\"q", b"x\xffy"].into_iter().enumerate() {
        let path = lab.path("worktrees").join(OsStr::from_bytes(name));
        let start = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
        repository.add_worktree(&path, &branch(&format!("b{number}")), &start).await.unwrap();
        // BR-100
        assert!(repository.worktrees().await.unwrap().iter().any(|entry| entry.path == path));
        assert!(known(repository.worktree(&path).status().await).is_clean());
        fs::remove_dir_all(&path).unwrap();
        assert!(repository.worktrees().await.unwrap().iter().any(|entry| entry.path == path));
        repository.unregister(&path).await.unwrap();
    }
}

#[tokio::test]
async fn a_base_reached_through_a_link_is_one_place() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    fs::create_dir(lab.path("real")).unwrap();
    symlink(lab.path("real"), lab.path("link")).unwrap();
    let path = lab.path("link/w");
    let start = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
    repository.add_worktree(&path, &branch("b"), &start).await.unwrap();
    // BR-054
    let entries = repository.worktrees().await.unwrap();
    assert!(entries[1].is_at(&path) && entries[1].path == lab.path("real/w"));
    for spelling in [path.clone(), lab.path("real/w"), lab.path("link/w/")] {
        assert_eq!(known(repository.worktree(spelling).validity().await), Validity::Valid);
    }
    fs::remove_dir_all(&path).unwrap();
    repository.unregister(&path).await.unwrap();
    assert_eq!(repository.worktrees().await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_what_belongs_together_is_valid() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (one, _) = lab.worktree(&repository, "one").await;
    let (two, _) = lab.worktree(&repository, "two").await;
    let validity = async |path: &Path| known(repository.worktree(path).validity().await);
    // BR-087 and friends: things that merely look right.
    let clone = lab.path("worktrees/clone");
    lab.run(&lab.root, &["clone", "-q", lab.path("r.git").to_str().unwrap(), clone.to_str().unwrap()]);
    assert_eq!(validity(&clone).await, Validity::Foreign);
    let link = lab.path("worktrees/link");
    symlink(&one, &link).unwrap();
    assert_eq!(validity(&link).await, Validity::Foreign);
    fs::write(lab.path("worktrees/file"), "").unwrap();
    assert_eq!(validity(&lab.path("worktrees/file")).await, Validity::Foreign);
    assert_eq!(validity(&lab.path("worktrees/none")).await, Validity::Missing);
    // A worktree that was turned to its neighbour.
    let neighbours = fs::read_to_string(two.join(".git")).unwrap();
    fs::write(one.join(".git"), neighbours).unwrap();
    assert_eq!(validity(&one).await, Validity::Foreign);
    // Replaced by a link to its neighbour.
    fs::rename(&one, lab.path("aside")).unwrap();
    symlink(&two, &one).unwrap();
    assert_eq!(validity(&one).await, Validity::Foreign);
    assert_eq!(validity(&two).await, Validity::Valid);
    // Another repository has the same worktree names.
    let other = lab.git.repository(lab.path("repos/other.git"));
    other.ensure(lab.path("r.git").to_str().unwrap()).await.unwrap();
    assert_eq!(known(other.worktree(&two).validity().await), Validity::Foreign);
    assert!(matches!(other.worktree(&two).status().await, Probe::Unknown(_)));
}

#[tokio::test]
async fn everything_uncommitted_is_counted_whatever_it_is_called() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    assert!(known(worktree.status().await).is_clean());
    for name in [&b"\xc3\xa4"[..], b"x\xffy", b"n\nl", b"q\"q"] {
        fs::write(path.join(OsStr::from_bytes(name)), "").unwrap();
    }
    lab.run(&path, &["mv", "f", "g"]);
    // BR-007: a setting that hides what is untracked, BR-101
    lab.run(&path, &["config", "status.showUntrackedFiles", "no"]);
    assert_eq!(known(worktree.status().await), status(2, 4, 0));
    let nested = path.join("nested");
    fs::create_dir(&nested).unwrap();
    lab.run(&nested, &["init", "-q"]);
    lab.commit(&nested, "x", "1\n");
    assert_eq!(known(worktree.status().await), status(2, 5, 0));
    assert_eq!(known(worktree.nested_repositories().await), ["nested"]);
    // A bare one counts, whatever it is called, unless it is committed, as for tests.
    for name in ["fixture", "cloned"] {
        lab.run(&path, &["init", "-q", "--bare", name]);
    }
    for name in ["objects", "refs"] {
        fs::write(path.join("fixture").join(name).join("kept"), "").unwrap();
    }
    lab.run(&path, &["add", "fixture"]);
    assert_eq!(known(worktree.nested_repositories().await), ["cloned", "nested"]);
}

#[tokio::test]
async fn asking_changes_nothing() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let index = repository.directory().join("worktrees/b/index");
    // A touched file makes a plain status rewrite the index (BR-058).
    fs::write(path.join("f"), "1\n").unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(&index).unwrap().set_modified(old).unwrap();
    let before = fs::read(&index).unwrap();
    assert!(known(worktree.status().await).is_clean());
    known(worktree.hidden_changes().await);
    known(worktree.ignored_work().await);
    known(worktree.submodule_work().await);
    assert_eq!(fs::metadata(&index).unwrap().modified().unwrap(), old);
    assert_eq!(fs::read(&index).unwrap(), before);
}

#[tokio::test]
async fn ignored_files_outside_caches_are_work() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::create_dir_all(path.join("target/debug")).unwrap();
    fs::write(path.join("target/debug/x"), "").unwrap();
    assert!(known(worktree.ignored_work().await).is_empty());
    fs::create_dir(path.join("sub")).unwrap();
    fs::write(path.join("sub/.env"), "SECRET=1").unwrap();
    fs::write(path.join("kept"), "").unwrap();
    // BR-006
    let ignored = known(worktree.ignored_work().await);
    assert_eq!(ignored, [PathBuf::from("sub/.env")]);
    // A directory of people's that has the name of a cache.
    let source = path.join("services/target");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("main"), "").unwrap();
    lab.run(&path, &["add", "-f", "services/target/main"]);
    fs::write(source.join(".env"), "SECRET=2").unwrap();
    assert_eq!(known(worktree.ignored_work().await), ["services/target/.env", "sub/.env"].map(PathBuf::from));
    // Nor is one in which nothing is tracked yet, or nothing is to be.
    for place in ["deploy/venv", "other/venv"] {
        fs::create_dir_all(path.join(place)).unwrap();
        fs::write(path.join(place).join(".env"), "SECRET=3").unwrap();
    }
    fs::write(path.join("deploy/venv/main"), "").unwrap();
    let ignored = known(worktree.ignored_work().await);
    let work = ["deploy/venv/.env", "other/venv/.env", "services/target/.env", "sub/.env"];
    assert_eq!(ignored, work.map(PathBuf::from));
    // What a tool marks is its own.
    fs::write(path.join("other/venv/pyvenv.cfg"), "").unwrap();
    fs::write(path.join(".gitignore"), "venv/\n.env\n").unwrap();
    assert_eq!(known(worktree.ignored_work().await), ["services/target/.env", "sub/.env"].map(PathBuf::from));
}

#[tokio::test]
async fn edits_hidden_by_index_flags_are_found() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    for flag in ["--skip-worktree", "--assume-unchanged"] {
        let (path, worktree) = lab.worktree(&repository, &flag[2..]).await;
        lab.run(&path, &["update-index", flag, "f"]);
        assert!(!known(worktree.hidden_changes().await), "{flag}");
        fs::write(path.join("f"), "local\n").unwrap();
        // BR-009
        assert!(known(worktree.status().await).is_clean());
        assert!(known(worktree.hidden_changes().await), "{flag}");
    }
}

#[tokio::test]
async fn an_open_operation_is_seen_although_the_files_are_clean() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    lab.commit(&path, "g1", "1\n");
    lab.commit(&path, "g2", "2\n");
    assert_eq!(known(worktree.operation_in_progress().await), None);
    // BR-008
    let mut rebase = lab.command(&path, &["rebase", "-q", "-i", "HEAD~2"]);
    rebase.env("GIT_SEQUENCE_EDITOR", "sed -i 1abreak").output().unwrap();
    assert!(known(worktree.status().await).is_clean());
    assert_eq!(known(worktree.operation_in_progress().await).as_deref(), Some("rebase"));
    assert_eq!(worktree.head().await.unwrap().branch, None);
    assert!(matches!(worktree.commit_all(&request("b")).await, Err(GitError::Unfinished(_))));
    lab.run(&path, &["rebase", "--abort"]);
    lab.run(&path, &["switch", "-q", "-c", "other", "HEAD~1"]);
    fs::write(path.join("g2"), "other\n").unwrap();
    lab.run(&path, &["add", "."]);
    lab.run(&path, &["commit", "-qm", "other"]);
    assert!(!lab.try_run(&path, &["merge", "-q", "b"]).status.success());
    assert_eq!(known(worktree.operation_in_progress().await).as_deref(), Some("merge"));
    assert_eq!(known(worktree.status().await).conflicted, 1);
}

/// What a merge put aside is in no file, and in no ref that git shows.
#[tokio::test]
async fn what_git_put_aside_for_a_merge_is_seen_and_kept() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    lab.run(&path, &["switch", "-q", "-c", "other"]);
    lab.commit(&path, "g", "other\n");
    lab.run(&path, &["switch", "-q", "b"]);
    lab.commit(&path, "g", "1\n");
    fs::write(path.join("f"), "not committed\n").unwrap();
    assert!(!lab.try_run(&path, &["merge", "--squash", "--autostash", "-q", "other"]).status.success());
    fs::write(path.join("g"), "resolved\n").unwrap();
    lab.run(&path, &["add", "g"]);
    let aside = lab.sha(&path, "MERGE_AUTOSTASH");
    let operation = known(worktree.operation_in_progress().await).unwrap();
    assert!(operation.contains("put aside"), "{operation}");
    assert!(matches!(worktree.commit_all(&request("b")).await, Err(GitError::Unfinished(_))));
    fs::remove_dir_all(&path).unwrap();
    repository.unregister(&path).await.unwrap();
    let kept = format!("refs/treewarden/archive/commits/{aside}");
    assert_eq!(lab.sha(repository.directory(), &kept), aside);
}

#[tokio::test]
async fn what_git_put_aside_for_a_rebase_is_kept() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    for (name, backend) in [("b", "--merge"), ("c", "--apply")] {
        let (path, worktree) = lab.worktree(&repository, name).await;
        let base = lab.sha(&path, "HEAD");
        lab.commit(&path, "g", "1\n");
        lab.run(&path, &["switch", "-q", "-c", &format!("{name}-other"), base.as_str()]);
        let onto = lab.commit(&path, "g", "other\n");
        lab.run(&path, &["switch", "-q", name]);
        fs::write(path.join("f"), format!("not committed in {name}\n")).unwrap();
        assert!(!lab.try_run(&path, &["rebase", "-q", backend, "--autostash", onto.as_str()]).status.success());
        assert!(known(worktree.operation_in_progress().await).is_some());
        let directory = lab.run(&path, &["rev-parse", "--absolute-git-dir"]);
        let aside = format!("{directory}/rebase-{}/autostash", backend.trim_start_matches('-'));
        let aside = fs::read_to_string(aside).unwrap().trim().to_owned();
        fs::remove_dir_all(&path).unwrap();
        repository.unregister(&path).await.unwrap();
        let kept = format!("refs/treewarden/archive/commits/{aside}");
        assert_eq!(lab.sha(repository.directory(), &kept).as_str(), aside);
    }
}

#[tokio::test]
async fn what_is_in_the_stash_is_counted_with_its_branch() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    let (beside, _) = lab.worktree(&repository, "beside").await;
    let (b, other) = (branch("b"), branch("beside"));
    assert_eq!(repository.stashed_on(&b).await.unwrap(), 0);
    for words in [&["stash", "-q"][..], &["stash", "push", "-q", "-m", "parser: half"]] {
        fs::write(path.join("f"), "put aside\n").unwrap();
        lab.run(&path, words);
    }
    fs::write(beside.join("f"), "put aside\n").unwrap();
    lab.run(&beside, &["stash", "-q"]);
    assert_eq!((repository.stashed_on(&b).await.unwrap(), repository.stashed_on(&other).await.unwrap()), (2, 1));
    lab.run(&beside, &["stash", "pop", "-q"]);
    assert_eq!((repository.stashed_on(&b).await.unwrap(), repository.stashed_on(&other).await.unwrap()), (2, 0));
    // What is no list is none of git's.
    let list = repository.directory().join("logs/refs/stash");
    fs::remove_file(&list).unwrap();
    fs::create_dir(&list).unwrap();
    assert_eq!(repository.stashed_on(&b).await.unwrap(), 0);
}

#[tokio::test]
async fn submodules_are_looked_into() {
    let lab = Lab::new();
    let people = lab.path("people");
    lab.run(&lab.root, &["init", "-q", "s"]);
    lab.commit(&lab.path("s"), "s", "1\n");
    lab.run(&people, &["submodule", "-q", "add", lab.path("s").to_str().unwrap(), "sub"]);
    lab.run(&people, &["commit", "-qm", "sub"]);
    lab.run(&people, &["push", "-q", "origin", "main"]);
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    assert!(known(worktree.submodule_work().await).is_empty(), "not initialised");
    lab.run(&path, &["submodule", "-q", "update", "--init"]);
    let sub = path.join("sub");
    assert!(known(worktree.submodule_work().await).is_empty());
    assert!(known(worktree.nested_repositories().await).is_empty());
    fs::write(sub.join("new"), "").unwrap();
    assert_eq!(known(worktree.submodule_work().await), ["sub"]);
    fs::remove_file(sub.join("new")).unwrap();
    fs::write(sub.join("s"), "2\n").unwrap();
    assert_eq!(known(worktree.submodule_work().await), ["sub"]);
    lab.run(&sub, &["checkout", "-q", "s"]);
    lab.run(&sub, &["update-index", "--skip-worktree", "s"]);
    assert_eq!(known(worktree.submodule_work().await), ["sub"]);
    lab.run(&sub, &["update-index", "--no-skip-worktree", "s"]);
    fs::rename(&sub, lab.path("aside")).unwrap();
    fs::write(&sub, "something else in its place").unwrap();
    assert_eq!(known(worktree.submodule_work().await), ["sub"]);
    fs::remove_file(&sub).unwrap();
    fs::rename(lab.path("aside"), &sub).unwrap();
    // BR-010: a commit on a branch that is not checked out, kept by nothing but the admin entry.
    lab.run(&sub, &["switch", "-q", "-c", "x"]);
    lab.commit(&sub, "z", "1\n");
    lab.run(&sub, &["checkout", "-q", "--detach", "HEAD~1"]);
    assert!(known(worktree.status().await).is_clean());
    assert_eq!(known(worktree.submodule_work().await), ["sub"]);
    lab.run(&path, &["submodule", "-q", "deinit", "-f", "--all"]);
    assert_eq!(known(worktree.submodule_work().await), ["sub"]);
}

#[tokio::test]
async fn a_question_that_git_cannot_answer_is_a_doubt() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::write(repository.directory().join("worktrees/b/index"), "garbage").unwrap();
    assert!(matches!(worktree.status().await, Probe::Unknown(_)));
    assert!(matches!(worktree.hidden_changes().await, Probe::Unknown(_)));
    fs::remove_dir_all(&path).unwrap();
    assert!(matches!(worktree.status().await, Probe::Unknown(_)));
    assert!(matches!(worktree.nested_repositories().await, Probe::Unknown(_)));
}

/// Anybody who can commit could otherwise stop every delivery and removal for good.
#[tokio::test]
async fn attributes_and_patterns_that_git_passes_over_are_no_doubt() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::create_dir(path.join("sub")).unwrap();
    fs::write(path.join("sub/new"), "").unwrap();
    let long = format!("{} text\n", "a".repeat(2100));
    for (name, content) in [
        (".gitattributes", "!*.c text\n"),
        (".gitattributes", long.as_str()),
        (".gitattributes", "f -te!xt\n"),
        ("sub/.gitattributes", "[attr]x text\n"),
    ] {
        fs::write(path.join(name), content).unwrap();
        assert_eq!(known(worktree.status().await), status(0, 2, 0), "{name}: {content:.20}");
        known(worktree.ignored_work().await);
        assert_eq!(worktree.pull_lfs(None, std::time::Duration::from_secs(60)).await.unwrap(), Lfs::default());
        fs::remove_file(path.join(name)).unwrap();
    }
    fs::remove_file(path.join(".gitignore")).unwrap();
    for name in [".gitattributes", ".gitignore"] {
        std::os::unix::fs::symlink("f", path.join(name)).unwrap();
    }
    assert_eq!(known(worktree.status().await), status(1, 2, 0));
}

/// BR-102: the registry as read from disk is the one git lists.
#[tokio::test]
async fn the_registry_agrees_with_git() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (plain, _) = lab.worktree(&repository, "plain").await;
    let (detached, _) = lab.worktree(&repository, "detached").await;
    lab.run(&detached, &["checkout", "-q", "--detach"]);
    let (missing, _) = lab.worktree(&repository, "missing").await;
    fs::remove_dir_all(&missing).unwrap();
    let (unlocked, _) = lab.worktree(&repository, "unlocked").await;
    lab.run(repository.directory(), &["worktree", "unlock", unlocked.to_str().unwrap()]);
    fs::remove_dir_all(&unlocked).unwrap();
    let (orphan, _) = lab.worktree(&repository, "orphan").await;
    lab.run(&orphan, &["checkout", "-q", "--orphan", "fresh"]);
    for entry in repository.worktrees().await.unwrap().into_iter().filter(|entry| !entry.bare) {
        let worktree = repository.worktree(&entry.path);
        let head = worktree.head().await.unwrap();
        assert_eq!((head.branch, head.sha), (entry.branch, entry.head), "{}", entry.path.display());
        let there = entry.path.exists();
        assert_eq!(known(worktree.validity().await) == Validity::Valid, there, "{}", entry.path.display());
        assert_eq!(entry.prunable, entry.path == unlocked);
        assert!(worktree.is_registered().await.unwrap());
    }
    assert!(!repository.worktree(plain.join("f")).is_registered().await.unwrap());
}
