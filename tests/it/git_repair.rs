//! Ties between a worktree and its repository that somebody cut: files are never taken for gone, and what can be mended is.

use crate::git_lab::{Lab, branch, known};
use std::{fs, path::Path};
use treewarden::git::{CommitRequest, Git, GitError, GitSettings, Ident, Repository};
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

/// Each damage to the ties of a worktree at `path` with the registration `entry`, and what the worktree counts as then.
/// What a killed `git init` left beside its place is in nobody's way.
#[tokio::test]
async fn a_repository_that_was_half_made_is_made_anew() {
    let lab = Lab::new();
    let left = lab.path("repos/.again.git.new");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("config.lock"), "").unwrap();
    let settings = GitSettings { local_remotes: true, ..GitSettings::new("git", lab.path("state")) };
    let repository = Git::new(settings).unwrap().repository(lab.path("repos/again.git"));
    repository.ensure(lab.path("r.git").to_str().unwrap()).await.unwrap();
    assert!(!left.exists() && lab.path("repos/again.git/HEAD").exists());
}

#[tokio::test]
async fn what_ties_a_worktree_to_its_repository_is_mended() {
    type Damage = fn(entry: &Path, path: &Path);
    let damages: [(&str, Validity, Damage); 5] = [
        ("all registrations were deleted", Validity::Broken, |entry, _| {
            fs::remove_dir_all(entry.parent().unwrap()).unwrap();
        }),
        // What is left looks like a checkout that was killed; who has it in a row knows better.
        ("its marks were taken away", Validity::Broken, |entry, _| {
            fs::remove_file(entry.join("treewarden-complete")).unwrap();
            fs::remove_file(entry.join("index")).unwrap();
        }),
        ("the registration was turned elsewhere", Validity::Broken, |entry, _| {
            fs::write(entry.join("gitdir"), "/somewhere/else/.git\n").unwrap();
        }),
        ("the link was deleted", Validity::Broken, |_, path| fs::remove_file(path.join(".git")).unwrap()),
        // Nothing else is wrong, and whoever asked is told that something was.
        ("a file of git's own says nothing", Validity::Valid, |entry, _| {
            fs::write(entry.join("ORIG_HEAD"), "garbage\n").unwrap();
        }),
    ];
    for (what, counts_as, damage) in damages {
        let lab = Lab::new();
        let repository = lab.repository().await;
        let (path, tip) = at_work(&lab, &repository).await;
        damage(&repository.directory().join("worktrees/b"), &path);
        assert_eq!(validity(&repository, &path).await, counts_as, "{what}");
        assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap(), "{what}");
        as_before(&lab, &repository, &path, &tip).await;
    }
}

/// What is no entry stops nobody, and what git would read to its end is none of its business.
#[tokio::test]
async fn odd_things_among_the_registrations_stop_nobody() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    let registry = repository.directory().join("worktrees");
    fs::write(registry.join("stray"), "x").unwrap();
    std::os::unix::fs::symlink("loop", registry.join("loop")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(registry.join("pipe")).status().unwrap();
    assert!(made.success());
    assert!(!repository.may_have_worktree(&lab.path("none"), Some(&branch("none"))).await.unwrap());
    for name in ["commondir", "gitdir", "HEAD", "locked"] {
        fs::File::options().write(true).open(registry.join("b").join(name)).unwrap().set_len(200 << 30).unwrap();
        lab.worktree(&repository, &format!("beside-{name}")).await;
    }
    fs::remove_file(registry.join("b/treewarden-complete")).unwrap();
    fs::remove_file(registry.join("b/commondir")).unwrap();
    fs::create_dir(registry.join("b/commondir")).unwrap();
    lab.worktree(&repository, "beside").await;
    assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap());
    for name in ["stray", "loop", "pipe"] {
        fs::remove_file(registry.join(name)).unwrap();
    }
    as_before(&lab, &repository, &path, &tip).await;
}

#[tokio::test]
async fn a_lock_that_was_taken_off_is_put_on_again() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    lab.run(repository.directory(), &["worktree", "unlock", path.to_str().unwrap()]);
    assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap());
    as_before(&lab, &repository, &path, &tip).await;
    // Somebody else's stays.
    lab.run(repository.directory(), &["worktree", "unlock", path.to_str().unwrap()]);
    lab.run(repository.directory(), &["worktree", "lock", "--reason", "mine", path.to_str().unwrap()]);
    assert!(!repository.worktree(&path).repair(&branch("b")).await.unwrap());
    assert_eq!(known(repository.worktree(&path).foreign_lock().await).as_deref(), Some("mine"));
}

/// A hand deleted the worktree, and a program that still ran made its own files at the path again.
/// The worktrees may lie on another file system than the repository, where no second name can be given.
#[tokio::test]
async fn a_link_that_says_nothing_is_kept_on_whichever_file_system() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = elsewhere.path().join("b");
    let start = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
    repository.add_worktree(&path, &branch("b"), &start).await.unwrap();
    let entry = repository.directory().join("worktrees/b");
    let spoil: [fn(&Path); 2] = [
        |link| fs::write(link, "garbage\n").unwrap(),
        |link| std::os::unix::fs::symlink("/nowhere/at/all", link).unwrap(),
    ];
    for spoil in spoil {
        fs::remove_file(path.join(".git")).unwrap();
        spoil(&path.join(".git"));
        assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap());
        assert_eq!(validity(&repository, &path).await, Validity::Valid);
    }
    let kept = fs::read_dir(entry).unwrap().flatten().map(|file| file.path());
    let kept: Vec<_> = kept.filter(|path| path.to_string_lossy().contains("treewarden-broken-.git")).collect();
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().any(|path| fs::read_to_string(path).is_ok_and(|text| text == "garbage\n")));
    assert!(kept.iter().any(|path| fs::read_link(path).is_ok_and(|target| target == Path::new("/nowhere/at/all"))));
}

#[tokio::test]
async fn a_directory_that_was_made_anew_is_not_taken_for_the_worktree() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = at_work(&lab, &repository).await;
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("dev.log"), "x\n").unwrap();
    assert_eq!(validity(&repository, &path).await, Validity::Foreign);
    assert!(!repository.worktree(&path).repair(&branch("b")).await.unwrap());
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "nothing was put there");
}

/// What was kept of a file in the admin entry of `b`.
fn kept(repository: &Repository, name: &str) -> Vec<Vec<u8>> {
    let entry = repository.directory().join("worktrees/b");
    let files = fs::read_dir(entry).unwrap().map(|file| file.unwrap().path());
    let prefix = format!("treewarden-broken-{name}-");
    let files = files.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with(&prefix));
    files.map(|file| fs::read(file).unwrap()).collect()
}

#[tokio::test]
async fn a_head_that_says_nothing_is_put_back_on_the_branch() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    let head = repository.directory().join("worktrees/b/HEAD");
    for content in [&b""[..], b"garbage\n", b"\0\0\0\0\0\0\0\0", b"ref: refs/heads/\0\n", b"ref: elsewhere\n"] {
        fs::write(&head, content).unwrap();
        assert_eq!(validity(&repository, &path).await, Validity::Broken, "{content:?}");
        assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap(), "{content:?}");
        as_before(&lab, &repository, &path, &tip).await;
        assert!(content.is_empty() || kept(&repository, "HEAD").iter().any(|kept| kept == content), "{content:?}");
    }
    assert_eq!(kept(&repository, "HEAD").len(), 4);
    fs::remove_file(&head).unwrap();
    assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap());
    as_before(&lab, &repository, &path, &tip).await;
}

#[tokio::test]
async fn a_head_that_may_have_been_elsewhere_is_left() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = at_work(&lab, &repository).await;
    let entry = repository.directory().join("worktrees/b");
    let (worktree, head) = (repository.worktree(&path), entry.join("HEAD"));
    let left = async |why: &str, on: &str| {
        fs::write(&head, "garbage\n").unwrap();
        assert!(!worktree.repair(&branch(on)).await.unwrap(), "{why}");
        assert_eq!(validity(&repository, &path).await, Validity::Broken, "{why}");
        assert_eq!(fs::read_to_string(&head).unwrap(), "garbage\n", "{why}");
        fs::write(&head, "ref: refs/heads/b\n").unwrap();
    };
    left("no such branch", "never").await;
    fs::write(entry.join("BISECT_LOG"), "").unwrap();
    left("a bisect, which works on a detached HEAD", "b").await;
    fs::remove_file(entry.join("BISECT_LOG")).unwrap();
    // Git takes a branch for free that no readable HEAD names.
    fs::write(&head, "garbage\n").unwrap();
    let other = lab.path("other");
    lab.run(repository.directory(), &["worktree", "add", "-q", other.to_str().unwrap(), "b"]);
    left("checked out elsewhere", "b").await;
    lab.run(repository.directory(), &["worktree", "remove", other.to_str().unwrap()]);
    lab.run(&path, &["switch", "-q", "--detach"]);
    lab.commit(&path, "alone", "1\n");
    left("its last commit is not on the branch", "b").await;
    assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), "precious\n");
}

#[tokio::test]
async fn an_index_that_is_not_as_git_wrote_it_is_made_anew() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    let entry = repository.directory().join("worktrees/b");
    let index = entry.join("index");
    let good = fs::read(&index).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut unwritten = good.clone();
    unwritten[good.len() / 2..].fill(0);
    for content in [&b""[..], b"garbage", &[0; 300], &good[..good.len() / 2], &flipped, &unwritten] {
        fs::write(&index, content).unwrap();
        assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap(), "{content:?}");
        as_before(&lab, &repository, &path, &tip).await;
        assert!(content.is_empty() || kept(&repository, "index").iter().any(|kept| kept == content));
    }
    // Both at once, as after a loss of power, and on a branch that is not the environment's.
    for file in ["index", "HEAD"] {
        fs::write(entry.join(file), "").unwrap();
    }
    assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap());
    as_before(&lab, &repository, &path, &tip).await;
    lab.run(&path, &["switch", "-q", "-c", "drifted"]);
    fs::write(&index, "garbage").unwrap();
    assert!(repository.worktree(&path).repair(&branch("never")).await.unwrap());
    assert_eq!(repository.worktree(&path).head().await.unwrap().branch, Some(branch("drifted")));
    assert_eq!(lab.run(&path, &["status", "--porcelain"]), " M f\n?? precious");
}

#[tokio::test]
async fn an_index_of_any_kind_that_git_writes_is_left() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = at_work(&lab, &repository).await;
    let index = repository.directory().join("worktrees/b/index");
    for kind in [
        &["update-index", "--index-version", "4"][..],
        &["-c", "index.skipHash=true", "update-index", "--index-version", "2"],
        &["update-index", "--split-index"],
        &["rm", "-q", "-r", "--cached", "."],
    ] {
        lab.run(&path, kind);
        let before = fs::read(&index).unwrap();
        assert!(!repository.worktree(&path).repair(&branch("b")).await.unwrap(), "{kind:?}");
        assert_eq!(fs::read(&index).unwrap(), before);
    }
}

#[tokio::test]
async fn a_registration_that_leads_to_another_repository_is_led_back() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    let common = repository.directory().join("worktrees/b/commondir");
    for content in ["", "/somewhere/else\n"] {
        fs::write(&common, content).unwrap();
        assert_eq!(validity(&repository, &path).await, Validity::Broken);
        assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap());
        as_before(&lab, &repository, &path, &tip).await;
    }
}

/// Git stumbles over it as over a creation that was killed in its first moments; somebody has worked in it, though.
#[tokio::test]
async fn a_registration_that_lost_everything_is_no_leftover() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = at_work(&lab, &repository).await;
    let entry = repository.directory().join("worktrees/b");
    for mark in ["index", "treewarden-complete"] {
        fs::remove_file(entry.join(mark)).unwrap();
    }
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    for file in ["HEAD", "commondir"] {
        fs::write(entry.join(file), "").unwrap();
    }
    fs::File::open(&entry).unwrap().set_modified(past).unwrap();
    assert_eq!(repository.worktrees().await.unwrap().len(), 2, "nobody else is stopped");
    assert!(entry.join("logs/HEAD").exists());
    assert!(repository.worktree(&path).repair(&branch("b")).await.unwrap());
    assert_eq!(validity(&repository, &path).await, Validity::Valid);
    assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), "precious\n");
}

/// Without anything that says so: commits on no branch, and a rebase under way, are not what a killed creation leaves.
#[tokio::test]
async fn an_entry_that_lost_its_marks_and_its_ties_keeps_what_it_holds() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = at_work(&lab, &repository).await;
    lab.run(&path, &["checkout", "-q", "--detach"]);
    let loose = lab.commit(&path, "loose", "1\n");
    let entry = repository.directory().join("worktrees/b");
    fs::create_dir(entry.join("rebase-merge")).unwrap();
    fs::write(entry.join("rebase-merge/git-rebase-todo"), "pick\n").unwrap();
    for name in ["treewarden-complete", "index", "commondir"] {
        fs::remove_file(entry.join(name)).unwrap();
    }
    fs::remove_dir_all(entry.join("logs")).unwrap();
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    fs::File::open(&entry).unwrap().set_modified(past).unwrap();
    lab.worktree(&repository, "beside").await;
    assert_eq!(repository.worktrees().await.unwrap().len(), 3, "nobody else is stopped");
    assert!(entry.join("rebase-merge/git-rebase-todo").exists());
    assert_eq!(fs::read_to_string(entry.join("HEAD")).unwrap().trim(), loose.as_str());
    assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), "precious\n");
    // Nor when its files are gone, too, and it is taken out.
    fs::remove_dir_all(&path).unwrap();
    repository.unregister(&path).await.unwrap();
    let kept = format!("refs/treewarden/archive/commits/{loose}");
    assert_eq!(lab.run(repository.directory(), &["rev-parse", &kept]), loose.as_str());
}

/// However long the reflog is.
#[tokio::test]
async fn what_was_given_up_last_is_pinned() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let log = repository.directory().join("worktrees/b/logs/HEAD");
    let line = format!("{0} {0} a <a@b> 0 +0000\t{1}\n", worktree.head().await.unwrap().sha.unwrap(), "x".repeat(1000));
    let before = fs::read_to_string(&log).unwrap();
    fs::write(&log, before + &line.repeat(6000)).unwrap();
    let given_up = lab.commit(&path, "own", "1\n");
    lab.run(&path, &["reset", "-q", "--hard", "HEAD~"]);
    fs::remove_dir_all(&path).unwrap();
    repository.unregister(&path).await.unwrap();
    let kept = format!("refs/treewarden/archive/commits/{given_up}");
    assert_eq!(lab.sha(repository.directory(), &kept), given_up);
}

/// An agent can make a file of any length, which takes no disk and hours to read.
#[tokio::test]
async fn a_file_of_another_length_is_not_read() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    fs::File::options().write(true).open(path.join("f")).unwrap().set_len(1 << 40).unwrap();
    let status = tokio::time::timeout(std::time::Duration::from_secs(20), worktree.status()).await;
    assert_eq!(known(status.unwrap()).tracked, 1);
    lab.run(&path, &["update-index", "--skip-worktree", "f"]);
    let hidden = tokio::time::timeout(std::time::Duration::from_secs(20), worktree.hidden_changes()).await;
    assert!(known(hidden.unwrap()));
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
async fn a_repository_of_its_own_in_a_worktree_is_named_and_left_alone() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    let (link, entry) = (path.join(".git"), repository.directory().join("worktrees/b"));
    let worktree = repository.worktree(&path);
    fs::remove_file(&link).unwrap();
    lab.run(&path, &["init", "-q"]);
    lab.run(&path, &["commit", "-q", "--allow-empty", "-m", "theirs"]);
    // Nor when the registration is as a killed creation leaves it, or as a loss of power does.
    let spoil =
        [("HEAD", Some("garbage")), ("index", None), ("treewarden-complete", None), ("commondir", Some("/elsewhere"))];
    let whole: Vec<_> = fs::read_dir(&entry).unwrap().flatten().map(|file| file.path()).collect();
    let whole: Vec<_> =
        whole.into_iter().filter(|file| file.is_file()).map(|f| (f.clone(), fs::read(f).unwrap())).collect();
    for (name, content) in spoil {
        let file = entry.join(name);
        match content {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        assert_eq!(validity(&repository, &path).await, Validity::OwnRepository, "{name}");
        assert!(!worktree.is_half_made().await.unwrap(), "{name}");
        assert!(!worktree.repair(&branch("b")).await.unwrap(), "{name}");
        assert!(repository.unregister(&path).await.is_err(), "{name}");
    }
    assert_eq!(lab.run(&path, &["log", "--format=%s"]), "theirs");
    assert_eq!(fs::read_to_string(path.join("precious")).unwrap(), "precious\n");
    // As the sentence says: it is moved away, and that is all.
    whole.into_iter().for_each(|(file, content)| fs::write(file, content).unwrap());
    fs::rename(&link, lab.path("aside")).unwrap();
    assert!(worktree.repair(&branch("b")).await.unwrap());
    as_before(&lab, &repository, &path, &tip).await;
}

/// There may be commits in it, even where no file is.
#[tokio::test]
async fn a_repository_without_files_is_not_nothing() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    fs::remove_dir_all(&path).unwrap();
    lab.run(&lab.root, &["init", "-q", path.to_str().unwrap()]);
    assert_eq!(validity(&repository, &path).await, Validity::OwnRepository);
    fs::remove_dir_all(repository.directory().join("worktrees")).unwrap();
    assert_eq!(validity(&repository, &path).await, Validity::Foreign);
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
