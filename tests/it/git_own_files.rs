//! What an agent leaves in the place of git's own files: links, pipes, directories, garbage. It is put right before anything is
//! asked, and harms nobody else.

use crate::git_lab::{Lab, branch, known};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};
use treewarden::git::{CommitRequest, Ident};
use treewarden::model::{Validity, WorktreeStart};

type Spoil<'a> = Box<dyn Fn() + 'a>;

fn request(name: &str, words: &str) -> CommitRequest {
    let ident = Ident { name: "bot".into(), email: "bot@example.org".into() };
    let (message, branch) = (words.to_owned(), branch(name));
    CommitRequest { message, author: ident.clone(), committer: ident, co_authors: vec![], branch }
}

/// Whatever stands in the place of git's own files, nobody else is harmed, and everything goes on.
#[tokio::test]
async fn what_stands_in_the_place_of_gits_files_is_put_right() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    let common = repository.directory().to_owned();
    let victim = lab.path("victim");
    fs::write(&victim, "precious\n").unwrap();
    let link = |name: &str| {
        let _ = fs::remove_file(common.join(name));
        let _ = fs::remove_dir_all(common.join(name));
        std::os::unix::fs::symlink(&victim, common.join(name)).unwrap();
    };
    let pipe = |name: &str| {
        let _ = fs::remove_file(common.join(name));
        assert!(std::process::Command::new("mkfifo").arg(common.join(name)).status().unwrap().success());
    };
    let text = |name: &str, content: &[u8]| {
        fs::create_dir_all(common.join(name).parent().unwrap()).unwrap();
        fs::write(common.join(name), content).unwrap();
    };
    let instead = |name: &str| {
        let _ = fs::remove_file(common.join(name));
        let _ = fs::remove_dir_all(common.join(name));
        fs::create_dir_all(common.join(name).join("deep")).unwrap();
    };
    let spoil: Vec<(&str, Spoil<'_>)> = vec![
        ("HEAD is a pipe", Box::new(|| pipe("HEAD"))),
        ("HEAD is a link", Box::new(|| link("HEAD"))),
        ("HEAD is a directory", Box::new(|| instead("HEAD"))),
        ("HEAD is gone", Box::new(|| fs::remove_file(common.join("HEAD")).unwrap())),
        ("HEAD is no text", Box::new(|| text("HEAD", b"\xff\xfe"))),
        ("HEAD names no branch", Box::new(|| text("HEAD", b"ref: refs/heads/a b..c\n"))),
        ("HEAD leads out", Box::new(|| text("HEAD", b"ref: refs/heads/../../config\n"))),
        (
            "info is a link",
            Box::new(|| {
                let _ = fs::remove_dir_all(common.join("info"));
                link("info");
            }),
        ),
        (
            "info/exclude is a link",
            Box::new(|| {
                fs::create_dir_all(common.join("info")).unwrap();
                link("info/exclude");
            }),
        ),
        ("info/exclude is a pipe", Box::new(|| pipe("info/exclude"))),
        ("info/exclude is a directory", Box::new(|| instead("info/exclude"))),
        ("everything is ignored", Box::new(|| text("info/exclude", b"*\n"))),
        (
            "files are written in another encoding",
            Box::new(|| {
                text("info/attributes", b"* working-tree-encoding=UTF-16\n");
            }),
        ),
        ("an index of packs is garbage", Box::new(|| text("objects/pack/multi-pack-index", b"garbage\n"))),
        (
            "there are no packs",
            Box::new(|| {
                let aside = lab.path("aside").join(uuid::Uuid::now_v7().to_string());
                fs::create_dir_all(aside.parent().unwrap()).unwrap();
                fs::rename(common.join("objects/pack"), &aside).unwrap();
                for pack in fs::read_dir(&aside)
                    .unwrap()
                    .flatten()
                    .filter(|file| file.path().extension() == Some("pack".as_ref()))
                {
                    let pack = fs::File::open(pack.path()).unwrap();
                    let mut git = lab.command(&common, &["unpack-objects", "-q"]);
                    assert!(git.stdin(pack).status().unwrap().success());
                }
            }),
        ),
        (
            "logs are a file",
            Box::new(|| {
                let _ = fs::remove_dir_all(common.join("logs"));
                text("logs", b"");
            }),
        ),
        (
            "info is closed",
            Box::new(|| {
                instead("info");
                fs::set_permissions(common.join("info"), fs::Permissions::from_mode(0o000)).unwrap();
            }),
        ),
        (
            "hooks are closed, and there is no place for them",
            Box::new(|| {
                instead("hooks");
                fs::set_permissions(common.join("hooks/deep"), fs::Permissions::from_mode(0o000)).unwrap();
                let _ = fs::remove_dir_all(common.join("treewarden-broken"));
                text("treewarden-broken", b"x");
            }),
        ),
        (
            "info about objects is a link",
            Box::new(|| {
                let _ = fs::remove_dir_all(common.join("objects/info"));
                fs::create_dir_all(lab.path("elsewhere")).unwrap();
                fs::write(lab.path("elsewhere/alternates"), "").unwrap();
                std::os::unix::fs::symlink(lab.path("elsewhere"), common.join("objects/info")).unwrap();
            }),
        ),
        (
            "there is no room for new objects",
            Box::new(|| {
                for number in 0..=255 {
                    let directory = format!("objects/{number:02x}");
                    match (common.join(&directory).exists(), number % 3) {
                        (true, _) => {}
                        (false, 0) => pipe(&directory),
                        (false, 1) => link(&directory),
                        (false, _) => text(&directory, b"x"),
                    }
                }
            }),
        ),
        ("what is set aside is a link", Box::new(|| link("treewarden-broken"))),
    ];
    for (number, (why, spoil)) in spoil.iter().enumerate() {
        spoil();
        let name = format!("new-{number}.txt");
        fs::write(path.join(&name), "é\n").unwrap();
        let request = request("b", why);
        let committed = repository.worktree(&path).commit_all(&request).await.unwrap_or_else(|e| panic!("{why}: {e}"));
        let committed = committed.unwrap_or_else(|| panic!("{why}: nothing was seen"));
        let content = lab.run(&common, &["cat-file", "blob", &format!("{committed}:{name}")]);
        assert_eq!(content, "é", "{why}");
        lab.people_commit("f", &format!("{why}\n"));
        lab.fetch(&repository).await;
        let other = lab.path("worktrees").join(format!("other-{number}"));
        let main = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
        repository
            .add_worktree(&other, &branch(&format!("other-{number}")), &main)
            .await
            .unwrap_or_else(|e| panic!("{why}: {e}"));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n", "{why}");
        let elsewhere = lab.path("elsewhere");
        assert!(!elsewhere.exists() || elsewhere.join("alternates").exists(), "{why}: nothing is taken out there");
    }
}

/// Git waits at a pipe for ever; it is let go on.
#[tokio::test]
async fn pipes_hold_nobody_up() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    let pipe = |path: std::path::PathBuf| {
        let _ = fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    };
    // In a worktree, those that git does not read stay.
    let own = pipe(path.join("own"));
    for name in [".gitignore", ".gitattributes"] {
        let there = pipe(path.join(name));
        fs::write(path.join(format!("beside{name}")), "x\n").unwrap();
        let status = known(repository.worktree(&path).status().await);
        // Whoever waited at it goes on a moment before it is taken away.
        let until = Instant::now() + Duration::from_secs(10);
        while there.exists() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(status.untracked > 0 && !there.exists(), "{name}");
    }
    assert!(own.exists());
    fs::remove_file(&own).unwrap();
    repository.worktree(&path).commit_all(&request("b", "beside")).await.unwrap().unwrap();
    let tip = repository.tip("refs/heads/b").await.unwrap();
    // A link to one is as good.
    let linked = |path: std::path::PathBuf| {
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(pipe(lab.path("pipe")), &path).unwrap();
        path
    };
    for (name, is_linked) in [("refs/heads/b", false), ("logs/refs/heads/b", false), ("logs/refs/heads/b", true)] {
        let there = repository.directory().join(name);
        let there = if is_linked { linked(there) } else { pipe(there) };
        lab.people_commit("f", &format!("{name} {is_linked}\n"));
        lab.fetch(&repository).await;
        fs::write(path.join("more"), format!("{name} {is_linked}")).unwrap();
        repository.worktree(&path).commit_all(&request("b", name)).await.unwrap().unwrap();
        // Whoever waited at it goes on a moment before the file has its place.
        let is_file = || fs::symlink_metadata(&there).is_ok_and(|meta| meta.is_file());
        let until = Instant::now() + Duration::from_secs(10);
        while !is_file() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(is_file(), "{name}");
    }
    assert!(
        repository.is_ancestor(&tip.unwrap(), &repository.tip("refs/heads/b").await.unwrap().unwrap()).await.unwrap()
    );
}

/// An index of a pack is made anew from it, and what stood there is kept; only a pack that is none is lost.
#[tokio::test]
async fn a_spoilt_index_of_a_pack_takes_nobodys_objects_away() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, _) = lab.worktree(&repository, "b").await;
    let packs = repository.directory().join("objects/pack");
    let named = |ending: &str| {
        let files = fs::read_dir(&packs).unwrap().map(|file| file.unwrap().path());
        files.filter(|file| file.extension() == Some(ending.as_ref())).collect::<Vec<_>>()
    };
    let garbage = |file: &std::path::Path, text: &[u8]| {
        let _ = fs::remove_file(file);
        fs::write(file, text).unwrap();
    };
    lab.people_commit("f", "another\n");
    lab.fetch(&repository).await;
    lab.run(repository.directory(), &["repack", "-adq"]);
    let tip = lab.main_tip(&repository).await;
    let victim = lab.path("victim");
    fs::write(&victim, "precious\n").unwrap();
    let whole = fs::read(&named("idx")[0]).unwrap();
    let spoils: [(&str, Spoil); 5] = [
        ("garbage", Box::new(|| garbage(&named("idx")[0], b"garbage"))),
        ("nothing", Box::new(|| garbage(&named("idx")[0], b""))),
        ("cut off", Box::new(|| garbage(&named("idx")[0], &whole[..whole.len() - 30]))),
        (
            "a link",
            Box::new(|| {
                let index = named("idx").remove(0);
                fs::remove_file(&index).unwrap();
                std::os::unix::fs::symlink(&victim, index).unwrap();
            }),
        ),
        (
            "another's, without and with a pack",
            Box::new(|| {
                garbage(&packs.join("pack-1.idx"), b"garbage");
                garbage(&packs.join("pack-2.idx"), b"garbage");
                garbage(&packs.join("pack-2.pack"), b"garbage");
            }),
        ),
    ];
    for (number, (why, spoil)) in spoils.iter().enumerate() {
        spoil();
        let before = repository.restored();
        assert_eq!(repository.tip("refs/remotes/origin/main").await, Ok(Some(tip.clone())), "{why}");
        assert!(repository.is_ancestor(&tip, &tip).await.unwrap(), "{why}");
        assert_eq!(repository.restored().since(&before), ["objects/pack"], "{why}");
        fs::write(path.join("new"), format!("{number}\n")).unwrap();
        repository.worktree(&path).commit_all(&request("b", why)).await.unwrap().unwrap();
        lab.fetch(&repository).await;
        lab.run(repository.directory(), &["cat-file", "commit", tip.as_str()]);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n", "{why}");
    }
    let kept = fs::read_dir(repository.directory().join("treewarden-broken")).unwrap().count();
    assert!(kept >= spoils.len(), "{kept}");
    let before = repository.restored();
    repository.is_ancestor(&tip, &tip).await.unwrap();
    assert_eq!(repository.restored().since(&before), [""; 0], "nothing is left to be put right");
}

/// As a loss of power leaves them: empty, or with something else in them. What the remote has comes again with the next fetch,
/// at the latest after something failed for it, and what stood there is kept.
#[tokio::test]
async fn a_damaged_object_is_fetched_again() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let mut number = 0;
    for what in ["^{commit}", "^{tree}", ":f"] {
        for content in ["", "garbage"] {
            number += 1;
            let why = format!("{what} {content:?}");
            lab.people_commit("f", &why);
            lab.fetch(&repository).await;
            let id = lab.run(repository.directory(), &["rev-parse", &format!("origin/main{what}")]);
            let file = repository.directory().join("objects").join(&id[..2]).join(&id[2..]);
            fs::remove_file(&file).unwrap();
            fs::write(&file, content).unwrap();
            // What is new builds upon it.
            lab.people_commit("g", &why);
            lab.fetch(&repository).await;
            let (name, path) = (branch(&format!("b{number}")), lab.path("worktrees").join(format!("b{number}")));
            let start = WorktreeStart::NewBranch(lab.main_tip(&repository).await);
            if repository.add_worktree(&path, &name, &start).await.is_err() {
                lab.fetch(&repository).await;
                repository.add_worktree(&path, &name, &start).await.expect(&why);
            }
            assert_eq!(fs::read_to_string(path.join("f")).unwrap(), why);
            lab.run(repository.directory(), &["fsck", "--connectivity-only"]);
            let kept = named(&repository.directory().join("treewarden-broken"), &id[2..]).into_iter();
            assert_eq!(kept.map(|kept| fs::read_to_string(kept).unwrap()).collect::<Vec<_>>(), [content], "{why}");
        }
    }
    assert!(!repository.directory().join("treewarden-lacks-objects").exists(), "all was fetched");
}

/// Git makes plain files there, and whatever else stands there would be in everybody's way.
#[tokio::test]
async fn what_stands_in_the_place_of_a_lock_holds_nobody_up() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let common = repository.directory().to_owned();
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let entry = fs::read_to_string(path.join(".git")).unwrap();
    let index_lock = std::path::Path::new(entry.trim().strip_prefix("gitdir: ").unwrap()).join("index.lock");
    let origin_lock = common.join("refs/remotes/origin/main.lock");
    fs::create_dir_all(common.join("packed-refs.lock/deep")).unwrap();
    fs::create_dir(&origin_lock).unwrap();
    fs::create_dir(&index_lock).unwrap();
    lab.people_commit("g", "more\n");
    lab.fetch(&repository).await;
    fs::write(path.join("new"), "work\n").unwrap();
    worktree.commit_all(&request("b", "work")).await.unwrap().unwrap();
    std::os::unix::fs::symlink("nowhere", &origin_lock).unwrap();
    lab.people_commit("g", "again\n");
    lab.fetch(&repository).await;
    assert_eq!(lab.main_tip(&repository).await, lab.sha(&lab.path("people"), "HEAD"));
    assert!(!index_lock.exists() && origin_lock.symlink_metadata().is_err());
}

/// What was written last is what is lost, all of it at once: a branch whose commits are on the remote is not given up for that.
#[tokio::test]
async fn what_a_loss_of_power_left_empty_comes_again() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    for number in 0..3 {
        fs::write(path.join(format!("new{number}")), format!("{number}\n")).unwrap();
        worktree.commit_all(&request("b", "work")).await.unwrap().unwrap();
    }
    repository.push(&branch("b"), None).await.unwrap();
    let tip = repository.tip("refs/heads/b").await.unwrap().unwrap();
    let objects = repository.directory().join("objects");
    let listed =
        lab.run(repository.directory(), &["rev-list", "--objects", "refs/heads/b", "^refs/remotes/origin/main"]);
    let files = listed.lines().map(|line| objects.join(&line[..2]).join(&line[2..40]));
    let files: Vec<_> = files.filter(|file| file.exists()).collect();
    assert!(files.len() >= 8, "{listed}");
    for file in &files {
        fs::remove_file(file).unwrap();
        fs::write(file, "").unwrap();
    }
    lab.people_commit("g", "more\n");
    lab.fetch(&repository).await;
    assert_eq!(lab.run(repository.directory(), &["rev-parse", "refs/heads/b"]), tip.as_str());
    lab.run(repository.directory(), &["fsck", "--connectivity-only"]);
    assert!(known(worktree.status().await).is_clean());
}

/// The files of this name below.
fn named(directory: &std::path::Path, name: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => named(&path, name),
        false if path.file_name() == Some(name.as_ref()) => vec![path],
        false => vec![],
    });
    found.collect()
}

/// Nothing that stands in the place of what git keeps about one worktree holds anybody up, is written through, or costs work.
#[tokio::test]
async fn what_stands_in_the_place_of_gits_files_about_a_worktree_is_put_right() {
    let names = [
        "HEAD",
        "index",
        "commondir",
        "gitdir",
        "locked",
        "ORIG_HEAD",
        "MERGE_HEAD",
        "rebase-merge",
        "logs",
        "logs/HEAD",
        "logs/ORIG_HEAD",
        "MERGE_MSG",
        ".git",
    ];
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let (entry, people) = (repository.directory().join("worktrees/b"), lab.path("people"));
    let outside = Outside::new(&lab);
    for (name, kind) in names.iter().flat_map(|name| INSTEAD.iter().map(move |kind| (*name, *kind))) {
        let why = format!("{name}: {kind:?}");
        match (name, kind) {
            // Somebody's, or what git writes.
            (".git", Instead::Directory | Instead::LinkToDirectory) => continue,
            ("rebase-merge" | "logs", Instead::Directory) => continue,
            _ => {}
        }
        fs::write(path.join("f"), &why).unwrap();
        fs::write(path.join("precious"), &why).unwrap();
        let at = if name == ".git" { path.join(name) } else { entry.join(name) };
        let _ = fs::remove_file(&at).or_else(|_| fs::remove_dir_all(&at));
        outside.put(kind, &at);
        // Others first: nobody has looked at this one.
        repository.worktrees().await.unwrap_or_else(|e| panic!("{why}: {e}"));
        worktree.repair(&branch("b")).await.unwrap_or_else(|e| panic!("{why}: {e}"));
        assert_eq!(known(worktree.validity().await), Validity::Valid, "{why}");
        assert_eq!(known(worktree.foreign_lock().await), None, "{why}");
        assert_eq!(known(worktree.operation_in_progress().await), None, "{why}");
        assert_eq!(repository.worktrees().await.unwrap().len(), 2, "{why}");
        let committed = worktree.commit_all(&request("b", &why)).await.unwrap_or_else(|e| panic!("{why}: {e}"));
        let committed = committed.unwrap_or_else(|| panic!("{why}: nothing was seen"));
        assert_eq!(lab.run(&people, &["fetch", "-q", repository.directory().to_str().unwrap(), "b"]), "");
        assert_eq!(lab.run(&people, &["show", "FETCH_HEAD:precious"]), why);
        lab.run(&people, &["reset", "-q", "--hard", committed.as_str()]);
        let later = lab.people_commit("later", &why);
        lab.fetch(&repository).await;
        worktree.fast_forward(&branch("b"), &later).await.unwrap_or_else(|e| panic!("{why}: {e}"));
        assert!(!worktree.repair(&branch("b")).await.unwrap(), "{why}: nothing is left to mend");
        outside.is_untouched(&why);
    }
    fs::remove_dir_all(&path).unwrap();
    fs::remove_file(entry.join("logs/HEAD")).unwrap();
    outside.put(Instead::Link, &entry.join("logs/HEAD"));
    repository.unregister(&path).await.unwrap();
    outside.is_untouched("removed");
}

/// Everybody's logs are written to by every git.
#[tokio::test]
async fn no_log_of_the_repository_is_written_through_a_link() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let outside = Outside::new(&lab);
    for name in ["logs/refs/heads/b", "logs/refs/remotes/origin/main", "logs/refs/heads", "logs"] {
        for kind in [Instead::Link, Instead::DeadLink, Instead::LinkToDirectory] {
            let why = format!("{name}: {kind:?}");
            let at = repository.directory().join(name);
            let _ = fs::remove_file(&at).or_else(|_| fs::remove_dir_all(&at));
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            outside.put(kind, &at);
            lab.people_commit("f", &why);
            lab.fetch(&repository).await;
            fs::write(path.join("new"), &why).unwrap();
            worktree.commit_all(&request("b", &why)).await.unwrap().unwrap();
            outside.is_untouched(&why);
        }
    }
}

/// Git reads and writes refs through links, also those of everybody else.
#[tokio::test]
async fn no_ref_is_written_through_a_link_and_none_is_lost_by_one() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "fix/b").await;
    let kept = lab.commit(&path, "kept", "1\n");
    let directory = repository.directory().to_owned();
    lab.run(&directory, &["branch", "fix/kept", kept.as_str()]);
    lab.run(&directory, &["tag", "t", kept.as_str()]);
    assert!(repository.set_ref("refs/treewarden/archive/x", &kept, None).await.unwrap());
    let outside = Outside::new(&lab);
    // Not all that there is of them was packed, and some has moved since.
    lab.run(&directory, &["pack-refs", "--all"]);
    assert!(repository.set_ref("refs/treewarden/archive/y", &kept, None).await.unwrap());
    let names = [
        "refs",
        "refs/heads",
        "refs/heads/fix",
        "refs/remotes",
        "refs/remotes/origin",
        "refs/tags",
        "refs/treewarden",
        "refs/treewarden/archive",
    ];
    for (number, (name, kind)) in
        names.iter().flat_map(|name| INSTEAD.iter().map(move |kind| (*name, *kind))).enumerate()
    {
        let why = format!("{name}: {kind:?}");
        if kind == Instead::Directory {
            continue;
        }
        fs::write(path.join("kept"), &why).unwrap();
        let tip = worktree.commit_all(&request("fix/b", &why)).await.unwrap().unwrap();
        let at = directory.join(name);
        fs::create_dir_all(&at).unwrap();
        let moved = lab.path("moved").join(number.to_string());
        fs::create_dir_all(moved.parent().unwrap()).unwrap();
        fs::rename(&at, &moved).unwrap();
        match kind {
            // Everything is there still, through the link.
            Instead::LinkToDirectory => {
                // Git could make no lock for this one.
                fs::write(moved.join("n".repeat(253)), format!("{kept}\n")).unwrap();
                std::os::unix::fs::symlink(&moved, &at).unwrap();
            }
            kind => outside.put(kind, &at),
        }
        let before = repository.restored();
        let new = lab.people_commit("f", &why);
        // Whichever comes first.
        match number % 2 {
            0 => lab.fetch(&repository).await,
            _ => drop(repository.set_ref(&format!("refs/treewarden/run/{number}"), &kept, None).await.unwrap()),
        }
        lab.fetch(&repository).await;
        let restored = repository.restored().since(&before);
        assert!(restored == ["refs"] || restored == [name], "{why}: {restored:?}");
        assert_eq!(lab.main_tip(&repository).await, new, "{why}");
        assert_eq!(repository.tip("refs/heads/fix/b").await.unwrap(), Some(tip), "{why}");
        assert_eq!(repository.tip("refs/heads/fix/kept").await.unwrap().as_ref(), Some(&kept), "{why}");
        assert_eq!(repository.tip("refs/tags/t").await.unwrap().as_ref(), Some(&kept), "{why}");
        assert_eq!(repository.tip("refs/treewarden/archive/x").await.unwrap().as_ref(), Some(&kept), "{why}");
        // Only what stood there knew of it.
        let other = repository.tip("refs/treewarden/archive/y").await.unwrap();
        assert!(other.is_some() || kind != Instead::LinkToDirectory, "{why}");
        let _ = repository.set_ref("refs/treewarden/archive/y", &kept, None).await.unwrap();
        assert!(at.symlink_metadata().unwrap().is_dir(), "{why}");
        outside.is_untouched(&why);
        let run = format!("run/{number}");
        assert!(!moved.join(&run).exists() && !moved.join("treewarden").join(&run).exists(), "{why}");
    }

    // As a kill leaves it, between what was taken away and what is brought back.
    let tip = repository.tip("refs/heads/fix/b").await.unwrap();
    let mark = directory.join("treewarden-lost-refs");
    assert!(tip.is_some() && !mark.exists());
    fs::write(&mark, "").unwrap();
    fs::remove_dir_all(directory.join("refs/heads/fix")).unwrap();
    assert_eq!(repository.tip("refs/heads/fix/b").await.unwrap(), tip);
    assert_eq!(repository.tip("refs/heads/fix/kept").await.unwrap(), Some(kept));
    assert!(!mark.exists());
}

/// A fetch would take out there what the remote has not, and put back what it has.
#[tokio::test]
async fn a_link_in_the_place_of_what_the_remote_has_takes_nobodys_branch_away() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    let own = lab.commit(&path, "own", "1\n");
    repository.push(&branch("b"), None).await.unwrap();
    let later = lab.commit(&path, "own", "2\n");
    let (other, _) = lab.worktree(&repository, "never-pushed").await;
    let directory = repository.directory();
    let heads = directory.join("refs/heads");
    for name in ["refs/remotes", "refs/remotes/origin", "refs/remotes/origin/x"] {
        let at = directory.join(name);
        let _ = fs::remove_dir_all(&at);
        let evil = lab.path("evil");
        let _ = fs::remove_dir_all(&evil);
        fs::create_dir(&evil).unwrap();
        std::os::unix::fs::symlink(&heads, evil.join("origin")).unwrap();
        std::os::unix::fs::symlink(if name == "refs/remotes" { &evil } else { &heads }, &at).unwrap();
        lab.people_commit("f", name);
        lab.fetch(&repository).await;
        assert_eq!(repository.tip("refs/heads/b").await.unwrap().as_ref(), Some(&later), "{name}");
        assert!(repository.tip("refs/heads/never-pushed").await.unwrap().is_some(), "{name}");
        assert_eq!(repository.tip("refs/heads/main").await.unwrap(), None, "{name}");
        assert_eq!(repository.tip("refs/remotes/origin/b").await.unwrap().as_ref(), Some(&own), "{name}");
        assert!(evil.join("origin").symlink_metadata().unwrap().is_symlink(), "{name}");
        for path in [&path, &other] {
            assert!(repository.worktree(path).head().await.unwrap().sha.is_some(), "{name}");
        }
    }
    assert!(known(worktree.status().await).is_clean());
}

/// Git puts the log of a ref in no place where there are other logs.
#[tokio::test]
async fn a_directory_in_the_place_of_a_log_stops_nobody() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    for name in ["logs/refs/remotes/origin/main", "logs/refs/heads/b"] {
        let at = repository.directory().join(name);
        fs::remove_file(&at).unwrap();
        fs::create_dir(&at).unwrap();
        fs::write(at.join("x"), "").unwrap();
        let new = lab.people_commit("f", name);
        lab.fetch(&repository).await;
        assert_eq!(lab.main_tip(&repository).await, new, "{name}");
        fs::write(path.join("new"), name).unwrap();
        worktree.commit_all(&request("b", name)).await.unwrap().unwrap();
        assert!(at.is_file(), "{name}");
    }
}

/// With paths in conflict nobody can say that there is no merge.
#[tokio::test]
async fn a_merge_that_was_made_unreadable_is_left_to_people() {
    let lab = Lab::new();
    let repository = lab.repository().await;
    let (path, worktree) = lab.worktree(&repository, "b").await;
    lab.commit(&path, "f", "ours\n");
    lab.people_commit("f", "theirs\n");
    lab.fetch(&repository).await;
    assert!(!lab.try_run(&path, &["merge", "-q", "origin/main"]).status.success());
    let at = repository.directory().join("worktrees/b/MERGE_HEAD");
    fs::remove_file(&at).unwrap();
    Outside::new(&lab).put(Instead::Pipe, &at);
    assert!(!worktree.repair(&branch("b")).await.unwrap());
    assert_eq!(known(worktree.operation_in_progress().await).as_deref(), Some("merge"));
    assert!(worktree.commit_all(&request("b", "no")).await.is_err());
    assert!(fs::read_to_string(path.join("f")).unwrap().contains("<<<<<<<"));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    Pipe,
    Link,
    DeadLink,
    LinkToDirectory,
    LinkToPipe,
    Directory,
}

const INSTEAD: [Instead; 6] = [
    Instead::Pipe,
    Instead::Link,
    Instead::DeadLink,
    Instead::LinkToDirectory,
    Instead::LinkToPipe,
    Instead::Directory,
];

/// What an agent would like to have written by somebody else.
struct Outside {
    file: std::path::PathBuf,
    absent: std::path::PathBuf,
    directory: std::path::PathBuf,
    pipe: std::path::PathBuf,
}

impl Outside {
    fn new(lab: &Lab) -> Self {
        let [file, absent, directory, pipe] = ["victim", "absent", "victims", "pipe"].map(|name| lab.path(name));
        fs::write(&file, "precious\n").unwrap();
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("HEAD"), "precious\n").unwrap();
        Self { file, absent, directory, pipe }
    }

    fn put(&self, kind: Instead, at: &std::path::Path) {
        let pipe =
            |at: &std::path::Path| assert!(std::process::Command::new("mkfifo").arg(at).status().unwrap().success());
        let link = |to: &std::path::Path| std::os::unix::fs::symlink(to, at).unwrap();
        match kind {
            Instead::Pipe => pipe(at),
            Instead::Link => link(&self.file),
            Instead::DeadLink => link(&self.absent),
            Instead::LinkToDirectory => link(&self.directory),
            Instead::LinkToPipe => {
                let _ = fs::remove_file(&self.pipe);
                pipe(&self.pipe);
                link(&self.pipe);
            }
            Instead::Directory => {
                fs::create_dir(at).unwrap();
                fs::write(at.join("deep"), "x").unwrap();
            }
        }
    }

    fn is_untouched(&self, why: &str) {
        assert_eq!(fs::read_to_string(&self.file).unwrap(), "precious\n", "{why}");
        assert_eq!(fs::read_to_string(self.directory.join("HEAD")).unwrap(), "precious\n", "{why}");
        assert_eq!(fs::read_dir(&self.directory).unwrap().count(), 1, "{why}");
        assert!(!self.absent.exists(), "{why}");
    }
}
