//! What somebody wrote over who reached the repository: refs, `packed-refs`, the list of commits at which history ends. None of
//! it stops anybody, and nothing of what was there is lost.

use crate::git_lab::{Lab, branch};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use treewarden::git::{FetchRequest, Git, GitSettings, Repository};
use treewarden::model::*;

type Spoil = fn(&Path);
type SpoilText = fn(Vec<u8>) -> Vec<u8>;

/// A worktree `b` with a commit of its own.
async fn at_work(lab: &Lab, repository: &Repository) -> (PathBuf, CommitSha) {
    let (path, _) = lab.worktree(repository, "b").await;
    let tip = lab.commit(&path, "own", "1\n");
    (path, tip)
}

/// What was set aside of this path.
fn kept(repository: &Repository, name: &str) -> Vec<PathBuf> {
    let times = fs::read_dir(repository.directory().join("treewarden-broken")).into_iter().flatten().flatten();
    times.map(|time| time.path().join(name)).filter(|path| path.symlink_metadata().is_ok()).collect()
}

/// Everything that rests on refs, from the service's side; then git itself has nothing to say.
async fn all_goes_on(lab: &Lab, repository: &Repository, why: &str) {
    let new = lab.people_commit("f", &format!("{why}\n"));
    repository
        .fetch(&FetchRequest { branches: true, extra: vec![] }, None)
        .await
        .unwrap_or_else(|e| panic!("{why}: {e}"));
    assert_eq!(lab.main_tip(repository).await, new, "{why}");
    let base = repository.tip("refs/remotes/origin/main").await.unwrap().unwrap();
    assert!(repository.is_ancestor(&base, &new).await.unwrap(), "{why}");
    let path = lab.path("worktrees").join("new");
    repository.add_worktree(&path, &branch("new"), &WorktreeStart::NewBranch(new.clone())).await.unwrap();
    fs::remove_dir_all(&path).unwrap();
    repository.unregister(&path).await.unwrap();
    assert!(repository.delete_branch(&branch("new"), &new).await.unwrap(), "{why}");
    for question in [&["rev-list", "--all", "--quiet"][..], &["for-each-ref"]] {
        let output = lab.try_run(repository.directory(), question);
        assert!(output.status.success() && output.stderr.is_empty(), "{why}: {question:?} {output:?}");
    }
}

/// BR-078: two names of one file would be one branch, and neither what it says it is.
#[tokio::test]
async fn on_a_disk_that_folds_case_a_branch_is_in_the_way_of_the_same_in_other_letters() {
    for folds_case in [true, false] {
        let lab = Lab::new();
        let settings = GitSettings { local_remotes: true, ..GitSettings::new("git", lab.path("other-state")) };
        let git = Git::new(GitSettings { folds_case: Some(folds_case), ..settings }).unwrap();
        let repository = git.repository(lab.path("repos/c.git"));
        repository.ensure(lab.path("r.git").to_str().unwrap()).await.unwrap();
        lab.run(&lab.path("people"), &["push", "-q", "origin", "main:Fix/A", "main:other"]);
        lab.fetch(&repository).await;
        lab.run(repository.directory(), &["branch", "Here", "refs/remotes/origin/main"]);
        for (asked, there, always) in [
            ("fix/a", Some("Fix/A"), false),
            ("Fix/b", None, false),
            ("fix/b", Some("Fix/A"), false),
            ("here", Some("Here"), false),
            ("HERE/too", Some("Here"), false),
            ("Here/too", Some("Here"), true),
            ("Fix", Some("Fix/A"), true),
            ("Fix/A", None, false),
        ] {
            let found = repository.branch_in_the_way(&branch(asked)).await.unwrap();
            assert_eq!(found.as_deref(), there.filter(|_| folds_case || always), "{asked}, {folds_case}");
        }
    }
}

#[tokio::test]
async fn a_branch_that_holds_no_commit_is_put_back() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, tip) = at_work(&lab, &repository).await;
    let file = repository.directory().join("refs/heads/b");
    let spoil: [(&str, Spoil); 9] = [
        ("garbage", |file| fs::write(file, "garbage\n").unwrap()),
        ("empty", |file| fs::write(file, "").unwrap()),
        ("zeroes", |file| fs::write(file, [0; 41]).unwrap()),
        ("no commit", |file| fs::write(file, format!("{}\n", "0".repeat(40))).unwrap()),
        ("a name of nothing", |file| fs::write(file, "ref: \n").unwrap()),
        ("a link", |file| {
            fs::remove_file(file).unwrap();
            std::os::unix::fs::symlink("/etc/hostname", file).unwrap();
        }),
        // Asked for by name, it is an id like any other; a fetch finds out.
        ("a commit that is nowhere", |file| fs::write(file, format!("{}\n", "1".repeat(40))).unwrap()),
        ("no commit but a tree", |file| {
            let repository = file.ancestors().nth(3).unwrap();
            let mut git = std::process::Command::new("git");
            let tree = git.arg("-C").arg(repository).args(["rev-parse", "refs/remotes/origin/main^{tree}"]).output();
            fs::write(file, tree.unwrap().stdout).unwrap();
        }),
        ("another name", |file| fs::write(file, "ref: refs/remotes/origin/main\n").unwrap()),
    ];
    for (count, (why, spoil)) in spoil.into_iter().enumerate() {
        spoil(&file);
        // A question about it, or anything that looks at all refs, finds it out.
        match count % 3 {
            0 if count < 6 => assert_eq!(repository.tip("refs/heads/b").await.unwrap().as_ref(), Some(&tip), "{why}"),
            1 => assert_eq!(repository.worktree(&path).head().await.unwrap().sha.as_ref(), Some(&tip), "{why}"),
            _ => {}
        }
        all_goes_on(&lab, &repository, why).await;
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{tip}\n"), "{why}");
        assert_eq!(kept(&repository, "refs/heads/b").len(), count + 1, "{why}");
    }
    let kept = kept(&repository, "refs/heads/b");
    assert!(kept.iter().any(|file| fs::read(file).is_ok_and(|content| content == b"garbage\n")), "{kept:?}");
}

/// Git would fetch into the branch that it names, and work would begin at somebody else's.
#[tokio::test]
async fn a_branch_of_the_remote_that_names_another_branch_is_put_back() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (_, tip) = at_work(&lab, &repository).await;
    let main = lab.main_tip(&repository).await;
    lab.run(repository.directory(), &["symbolic-ref", "refs/remotes/origin/main", "refs/heads/b"]);
    assert_eq!(repository.tip("refs/remotes/origin/main").await.unwrap(), Some(main));
    lab.run(repository.directory(), &["symbolic-ref", "refs/remotes/origin/main", "refs/heads/b"]);
    all_goes_on(&lab, &repository, "after a fetch").await;
    assert_eq!(repository.tip("refs/heads/b").await.unwrap(), Some(tip));
}

/// Git passes over such a name when it takes out what the remote has not, and stops where one is in the place of a directory.
#[tokio::test]
async fn a_ref_that_is_another_name_of_one_stops_nobody_and_is_not_written_through() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (_, tip) = at_work(&lab, &repository).await;
    let directory = repository.directory();
    lab.run(&lab.path("people"), &["push", "-q", "origin", "HEAD:refs/pull/7/head"]);
    let pull = FetchRequest { branches: true, extra: vec![("refs/pull/7/head".into(), "refs/treewarden/pr/7".into())] };
    for name in [
        "refs/remotes/origin/HEAD",
        "refs/remotes/origin/zz/HEAD",
        "refs/remotes/origin/main/HEAD",
        "refs/remotes/HEAD",
        "refs/remotes/other/x",
        "refs/treewarden/pr/7",
        "refs/treewarden/pr/7/HEAD",
        "refs/treewarden/archive/x",
        "refs/tags/x",
        "refs/x/HEAD",
    ] {
        let before = repository.restored();
        // Where there is a ref on the way it is in the way.
        for above in Path::new(name).ancestors().skip(1).filter(|above| directory.join(above).is_file()) {
            lab.run(directory, &["update-ref", "-d", above.to_str().unwrap()]);
        }
        lab.run(directory, &["symbolic-ref", name, "refs/heads/b"]);
        repository.fetch(&pull, None).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(repository.restored().since(&before), ["refs"], "{name}");
        all_goes_on(&lab, &repository, name).await;
        assert_eq!(repository.tip("refs/heads/b").await.unwrap().as_ref(), Some(&tip), "{name}");
        assert!(repository.tip("refs/treewarden/pr/7").await.unwrap().is_some(), "{name}");
        assert_eq!(fs::read_to_string(&kept(&repository, name)[0]).unwrap(), "ref: refs/heads/b\n", "{name}");
    }
}

#[tokio::test]
async fn a_ref_that_cannot_be_put_back_is_set_aside() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (_, tip) = at_work(&lab, &repository).await;
    let directory = repository.directory();
    let gone = "1".repeat(40);
    for (name, log) in [
        ("refs/heads/never", None),
        ("refs/heads/lost", Some(format!("{tip} {gone} T <t@example.org> 1 +0000\tcommit: x\n"))),
        ("refs/heads/a..b", None),
        ("refs/remotes/origin/main", None),
        ("refs/treewarden/archive/x", None),
        ("refs/replace/x", None),
    ] {
        let (file, logged) = (directory.join(name), directory.join("logs").join(name));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "garbage\n").unwrap();
        let _ = fs::remove_file(&logged);
        if let Some(log) = log {
            fs::write(&logged, log).unwrap();
        }
        all_goes_on(&lab, &repository, name).await;
        assert_eq!(kept(&repository, name).len(), 1, "{name}");
        assert_eq!(fs::read_to_string(&kept(&repository, name)[0]).unwrap(), "garbage\n");
    }
    assert_eq!(repository.tip("refs/heads/lost").await.unwrap(), None);
    assert_eq!(repository.tip("refs/heads/b").await.unwrap(), Some(tip));
}

#[tokio::test]
async fn what_git_can_read_and_what_it_is_at_work_on_is_left() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (_, tip) = at_work(&lab, &repository).await;
    let directory = repository.directory();
    lab.run(directory, &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    fs::write(directory.join("refs/heads/capitals"), format!("{}\n", tip.as_str().to_uppercase())).unwrap();
    fs::write(directory.join("refs/heads/b.lock"), "").unwrap();
    fs::write(directory.join("refs/heads/spoilt"), "garbage\n").unwrap();
    lab.fetch(&repository).await;
    assert!(fs::read_to_string(directory.join("refs/remotes/origin/HEAD")).unwrap().starts_with("ref: "));
    assert_eq!(repository.tip("refs/heads/capitals").await.unwrap(), Some(tip));
    assert!(directory.join("refs/heads/b.lock").exists() && !directory.join("refs/heads/spoilt").exists());
    assert_eq!(fs::read_dir(directory.join("treewarden-broken")).unwrap().count(), 1);

    // Somebody is writing it at this moment.
    fs::write(directory.join("refs/heads/b"), "garbage\n").unwrap();
    assert!(repository.tip("refs/heads/b").await.is_err());
    assert_eq!(fs::read_to_string(directory.join("refs/heads/b")).unwrap(), "garbage\n");
}

/// What was lost while somebody was at it comes back when they are done.
#[tokio::test]
async fn a_branch_that_is_being_written_is_brought_back_after_that() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (_, tip) = at_work(&lab, &repository).await;
    let directory = repository.directory();
    lab.run(directory, &["pack-refs", "--all"]);
    fs::write(directory.join("packed-refs"), "garbage\n").unwrap();
    let lock = directory.join("refs/heads/b.lock");
    fs::create_dir_all(directory.join("refs/heads")).unwrap();
    fs::write(&lock, "").unwrap();
    assert_eq!(repository.tip("refs/heads/b").await.unwrap(), None);
    assert!(directory.join("treewarden-lost-refs").exists());
    fs::remove_file(&lock).unwrap();
    assert_eq!(repository.tip("refs/heads/b").await.unwrap(), Some(tip));
    assert!(!directory.join("treewarden-lost-refs").exists());
}

/// A git that was killed lets go of nothing.
#[tokio::test]
async fn a_lock_that_was_left_behind_keeps_nothing_spoilt() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (_, tip) = at_work(&lab, &repository).await;
    let main = lab.main_tip(&repository).await;
    let directory = repository.directory();
    let left = |name: &str| {
        let lock = directory.join(name);
        // Not opened here: a program that another test starts just then would hold it for a moment.
        assert!(Command::new("touch").args(["-d", "1 minute ago"]).arg(&lock).status().unwrap().success());
        lock
    };
    fs::write(directory.join("refs/heads/b"), "garbage\n").unwrap();
    let lock = left("refs/heads/b.lock");
    assert_eq!(repository.tip("refs/heads/b").await.unwrap().as_ref(), Some(&tip));
    assert!(!lock.exists());

    fs::write(directory.join("packed-refs"), "garbage\n").unwrap();
    let lock = left("packed-refs.lock");
    lab.fetch(&repository).await;
    assert!(!lock.exists());

    fs::write(directory.join("shallow"), format!("{tip}\n")).unwrap();
    let lock = left("shallow.lock");
    assert!(repository.is_ancestor(&main, &tip).await.unwrap());
    assert!(!lock.exists() && !directory.join("shallow").exists());
}

#[tokio::test]
async fn packed_refs_keep_what_git_can_read() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (_, tip) = at_work(&lab, &repository).await;
    let packed = repository.directory().join("packed-refs");
    let main = lab.main_tip(&repository).await;
    assert!(repository.set_ref("refs/treewarden/archive/x", &main, None).await.unwrap());
    let spoil: [(&str, SpoilText); 6] = [
        ("a line more", |text| [text, b"garbage\n".to_vec()].concat()),
        ("a line less", |text| {
            let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.ends_with(b"refs/heads/b\n"));
            [lines.collect::<Vec<_>>().concat(), b"<<<<<<< HEAD\n".to_vec()].concat()
        }),
        ("its end", |text| text[..text.len() - 5].to_vec()),
        ("zeroes behind", |text| [text, vec![0; 100]].concat()),
        ("all of it", |_| b"garbage\n".to_vec()),
        ("a commit that is nowhere", |text| {
            [text, format!("{} refs/treewarden/archive/y\n", "1".repeat(40)).into_bytes()].concat()
        }),
    ];
    for (count, (why, spoil)) in spoil.into_iter().enumerate() {
        lab.run(repository.directory(), &["pack-refs", "--all"]);
        let spoilt = spoil(fs::read(&packed).unwrap());
        fs::write(&packed, &spoilt).unwrap();
        if count % 2 == 0 {
            assert_eq!(repository.tip("refs/heads/b").await.unwrap().as_ref(), Some(&tip), "{why}");
        }
        all_goes_on(&lab, &repository, why).await;
        assert_eq!(repository.tip("refs/heads/b").await.unwrap().as_ref(), Some(&tip), "{why}");
        assert!(kept(&repository, "packed-refs").iter().any(|file| fs::read(file).unwrap() == spoilt), "{why}");
        let archived = repository.tip("refs/treewarden/archive/x").await.unwrap();
        // What has no reflog is in what was set aside only.
        assert_eq!(archived.is_some(), !["all of it", "its end"].contains(&why), "{why}");
        repository.set_ref("refs/treewarden/archive/x", &main, None).await.unwrap();
    }
    // Longer than anybody could read it, which takes no disk.
    lab.run(repository.directory(), &["pack-refs", "--all"]);
    fs::File::options().write(true).open(&packed).unwrap().set_len(3 << 30).unwrap();
    all_goes_on(&lab, &repository, "a huge one").await;
    assert_eq!(repository.tip("refs/heads/b").await.unwrap().as_ref(), Some(&tip));
    assert!(repository.tip("refs/treewarden/archive/x").await.unwrap().is_some());
    fs::remove_file(&packed).unwrap();
    fs::create_dir_all(packed.join("deep/er")).unwrap();
    all_goes_on(&lab, &repository, "a directory").await;
}

#[tokio::test]
async fn a_repository_whose_directory_of_refs_is_a_file_comes_back() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (_, tip) = at_work(&lab, &repository).await;
    lab.run(repository.directory(), &["pack-refs", "--all"]);
    for (name, packed) in [("refs/heads", true), ("refs", true), ("refs/heads", false), ("refs", false)] {
        let path = repository.directory().join(name);
        if !packed {
            // Only their reflogs know of loose ones.
            fs::remove_file(repository.directory().join("packed-refs")).unwrap();
        }
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "garbage\n").unwrap();
        assert_eq!(repository.tip("refs/heads/b").await.unwrap().as_ref(), Some(&tip), "{name}");
        all_goes_on(&lab, &repository, name).await;
        lab.run(repository.directory(), &["pack-refs", "--all"]);
    }
}

#[tokio::test]
async fn history_that_somebody_cut_off_here_goes_on() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    lab.people_commit("n", "1\n");
    lab.fetch(&repository).await;
    let (path, tip) = at_work(&lab, &repository).await;
    let main = lab.main_tip(&repository).await;
    let shallow = repository.directory().join("shallow");
    let blob = lab.run(&path, &["rev-parse", "HEAD:f"]);
    let nowhere = "1".repeat(40);
    for content in ["garbage\n", "", "\0\0\0", &format!("{tip}\n"), &format!("{main}\n{nowhere}\ngarbage\n"), &blob] {
        fs::write(&shallow, content).unwrap();
        assert_eq!(repository.ahead_behind(&tip, &main).await.unwrap(), (1, 0), "{content:?}");
        assert!(!shallow.exists(), "{content:?}");
        fs::write(&shallow, content).unwrap();
        lab.fetch(&repository).await;
        assert!(!shallow.exists() && repository.is_whole().unwrap(), "{content:?}");
    }
    fs::create_dir_all(shallow.join("deep/er")).unwrap();
    lab.fetch(&repository).await;
    std::os::unix::fs::symlink(path.join("f"), &shallow).unwrap();
    lab.fetch(&repository).await;
    assert!(!shallow.exists() && path.join("f").exists());
    // Somebody is changing it at this moment.
    fs::write(&shallow, format!("{tip}\n")).unwrap();
    fs::write(shallow.with_extension("lock"), "").unwrap();
    assert!(repository.is_ancestor(&main, &tip).await.is_err() && shallow.exists());
}

#[tokio::test]
async fn history_that_does_end_stays_a_doubt_until_it_is_fetched() {
    let lab = Lab::new();
    for number in 2..5 {
        lab.people_commit("f", &format!("{number}\n"));
    }
    let remote = format!("file://{}", lab.path("r.git").display());
    lab.run(&lab.root, &["clone", "-q", "--bare", "--depth", "1", &remote, "repos/s.git"]);
    let repository = lab.git.repository(lab.path("repos/s.git"));
    repository.ensure(&remote).await.unwrap();
    let (shallow, tip) =
        (repository.directory().join("shallow"), repository.tip("refs/heads/main").await.unwrap().unwrap());
    let truth = fs::read_to_string(&shallow).unwrap();
    fs::write(&shallow, format!("garbage\n{truth}")).unwrap();
    assert!(repository.is_ancestor(&tip, &tip).await.is_err());
    assert_eq!(fs::read_to_string(&shallow).unwrap(), truth, "only what git cannot read was taken out");
    lab.fetch(&repository).await;
    assert!(repository.is_ancestor(&tip, &tip).await.unwrap() && !shallow.exists());
}
