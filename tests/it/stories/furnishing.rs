//! What a new worktree gets beside its checkout, and what people are told about it.

use crate::support::world::{ANN, REPO, World, git};
use std::fs;
use treewarden::{demo::github::MergeMethod, model::*};

async fn put(world: &World, path: &str, text: &str) {
    world.standin.push_commit(REPO, ANN, "main", "Prepare", &[(path, Some(text))]).await.unwrap();
}

#[tokio::test]
async fn files_the_operator_keeps_are_copied_and_told_and_no_reason_to_keep_a_worktree() {
    let world = World::new().await;
    let kept = world.home().join("copy").join(REPO);
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join(".env"), "KEY=secret\n").unwrap();
    fs::write(kept.join("unasked"), "x\n").unwrap();
    fs::create_dir(kept.join("config")).unwrap();
    for name in ["config/one.key", "config/two.key", "config/one.txt"] {
        fs::write(kept.join(name), format!("{name}\n")).unwrap();
    }
    put(&world, ".worktreeinclude", "# what the work needs\n/config/*.key\n!two.key\n").await;
    put(&world, REPO_SETTINGS_FILE, "pull_request: open\ncopy: [.env, other.json]\n").await;
    let issue = world.worked_issue("add a greeting").await;
    let status = world.status(issue);
    assert!(status.starts_with('✅'), "{status}");
    let said =
        "Copied into the worktree: `.env`, `config/one.key`. Asked for, but not kept on this server: `other.json`.";
    assert!(status.contains(said), "{status}");
    let environment = world.environment().await;
    assert_eq!(fs::read_to_string(environment.path.join(".env")).unwrap(), "KEY=secret\n");
    assert_eq!(fs::read_to_string(environment.path.join("config/one.key")).unwrap(), "config/one.key\n");
    for name in ["unasked", "config/two.key", "config/one.txt"] {
        assert!(!environment.path.join(name).exists(), "{name}");
    }
    for name in [".env", "config/one.key"] {
        assert_eq!(world.remote_file("issue-1", name).await, None, "{name}");
    }
    // Told once.
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(!world.status(issue).contains("Copied"), "{}", world.status(issue));

    // A fork's code gets to see none of it.
    let (pull, _) = world.pull_from_fork("far").await;
    world.approve(pull).await;
    world.ask(pull, "agent:noop");
    world.settle().await;
    assert!(world.status(pull).contains("not copied into the worktree of a fork's pull request"));
    let environments = world.environments().await;
    let fork = environments.iter().find(|live| live.metadata.fork_head.is_some()).unwrap();
    assert!(!fork.path.join(".env").exists());

    let number = world.pull_of("issue-1").number;
    world.standin.merge(REPO, ANN, number, MergeMethod::Squash).await.unwrap();
    world.settle().await;
    assert!(!environment.path.exists(), "{:?}", world.environments().await);
    world.end().await;
}

#[tokio::test]
async fn submodules_are_there_and_one_that_cannot_be_fetched_is_told() {
    let world = World::new().await;
    // Ann adds two submodules: the repository itself, which the token is for, and one that does not exist.
    let people = world.dir.path().join("people");
    let mut repositories = fs::read_dir(world.dir.path().join("github/repositories")).unwrap();
    let bare = repositories.next().unwrap().unwrap().path();
    git(world.dir.path(), &["clone", "-q", bare.to_str().unwrap(), people.to_str().unwrap()]);
    let itself = world.standin.branch_tip(REPO, "main").await.unwrap().unwrap();
    let addresses = "[submodule \"lib\"]\n\tpath = lib\n\turl = ../hello.git\n\
                     [submodule \"gone\"]\n\tpath = gone\n\turl = ../gone.git\n";
    fs::write(people.join(".gitmodules"), addresses).unwrap();
    for path in ["lib", "gone"] {
        git(&people, &["update-index", "--add", "--cacheinfo", &format!("160000,{itself},{path}")]);
    }
    git(&people, &["add", ".gitmodules"]);
    git(&people, &["commit", "-qm", "Submodules"]);
    git(&people, &["push", "-q", "origin", "HEAD:main"]);

    let issue = world.worked_issue("add a greeting").await;
    let status = world.status(issue);
    assert!(status.starts_with('✅'), "{status}");
    assert!(status.contains("Submodules that could not be fetched and are left empty: `gone` ("), "{status}");
    let environment = world.environment().await;
    assert_eq!(fs::read_to_string(environment.path.join("lib/README.md")).unwrap(), "# hello\n");

    // What is made inside one goes nowhere with a push, and that is said.
    git(&environment.path.join("lib"), &["commit", "-q", "--allow-empty", "-m", "Inside"]);
    world.ask(issue, "add a note");
    world.settle().await;
    let said = "the submodule `lib` holds work of its own that is on no remote";
    assert!(world.status(issue).contains(said), "{}", world.status(issue));
    world.ask(issue, "/status");
    world.settle().await;
    let answer = world.answer(issue);
    assert!(answer.contains(said) && !answer.contains("- clean"), "{answer}");
    git(&environment.path.join("lib"), &["reset", "-q", "--hard", "HEAD~1"]);
    world.standin.close(REPO, ANN, issue).unwrap();
    world.settle().await;
    assert!(environment.path.exists(), "the commit is in the submodule's reflog only");
    world.end().await;
}

#[tokio::test]
async fn what_lfs_keeps_is_downloaded_and_what_is_new_is_pushed() {
    if !crate::git_lfs::installed() {
        return;
    }
    const HELLO: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    let pointer =
        |oid: &str, size| format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n");
    let world = World::new().await;
    let objects = world.standin.git_dir(REPO).unwrap().join("lfs/objects");
    fs::create_dir_all(&objects).unwrap();
    fs::write(objects.join(HELLO), "hello\n").unwrap();
    put(&world, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n").await;
    put(&world, "a.bin", &pointer(HELLO, 6)).await;
    let issue = world.worked_issue("agent:noop").await;
    assert!(!world.status(issue).contains("Git LFS"), "{}", world.status(issue));
    let place = world.environment().await.path;
    assert_eq!(fs::read_to_string(place.join("a.bin")).unwrap(), "hello\n");

    fs::write(place.join("new.bin"), "new\n").unwrap();
    world.ask(issue, "add a greeting");
    world.settle().await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && !status.contains("Git LFS"), "{status}");
    let pushed = world.remote_file("issue-1", "new.bin").await.unwrap();
    let oid = pushed.lines().find_map(|line| line.strip_prefix("oid sha256:")).unwrap_or_else(|| panic!("{pushed}"));
    assert_eq!((pushed.as_str(), fs::read(objects.join(oid)).unwrap().as_slice()), (&*pointer(oid, 4), &b"new\n"[..]));
    assert_eq!(world.remote_file("issue-1", "a.bin").await, Some(pointer(HELLO, 6)));
    world.end().await;
}

#[tokio::test]
async fn what_lfs_cannot_take_stays_here_and_is_told() {
    if !crate::git_lfs::installed() {
        return;
    }
    let world = World::new().await;
    let to =
        |digit: &str| format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 9\n", digit.repeat(64));
    put(&world, ".gitattributes", "*.bin filter=lfs\n").await;
    let issue = world.worked_issue("agent:noop").await;
    let place = world.environment().await.path;
    let asked = async || {
        world.ask(issue, "add a note");
        world.settle().await;
        world.status(issue)
    };
    // As tools that handle such files have it in their tests.
    fs::write(place.join("pointer.txt"), to("1")).unwrap();
    assert!(asked().await.starts_with('✅'));
    assert_eq!(world.remote_file("issue-1", "pointer.txt").await, Some(to("1")));

    fs::write(place.join("made-up.bin"), to("2")).unwrap();
    let status = asked().await;
    let said = "not pushed: commits on `issue-1` hold 1 pointer of Git LFS, such as `made-up.bin`";
    assert!(status.contains(said), "{status}");
    fs::write(place.join("made-up.bin"), "made\n").unwrap();
    git(&place, &["add", "made-up.bin"]);
    git(&place, &["commit", "-q", "--amend", "--no-edit"]);
    assert!(asked().await.starts_with('✅'));
    assert!(world.remote_file("issue-1", "made-up.bin").await.unwrap().starts_with("version "));

    fs::write(place.join("raw.bin"), "raw\n").unwrap();
    let without = ["-c", "filter.lfs.process=", "-c", "filter.lfs.clean=", "-c", "filter.lfs.required=false"];
    git(&place, &[&without[..], &["add", "raw.bin"]].concat());
    git(&place, &[&without[..], &["commit", "-qm", "raw"]].concat());
    let status = asked().await;
    let said = "not pushed: commits on `issue-1` hold 1 file that Git LFS is to keep, such as `raw.bin`";
    assert!(status.contains(said), "{status}");
    assert_eq!(world.remote_file("issue-1", "raw.bin").await, None);
    world.end().await;
}

#[tokio::test]
async fn a_pointer_that_stays_one_is_told_and_the_work_goes_on() {
    let world = World::new().await;
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 9\n", "1".repeat(64));
    put(&world, ".gitattributes", "*.bin filter=lfs\n").await;
    put(&world, "a.bin", &pointer).await;
    let issue = world.worked_issue("add a greeting").await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("Git LFS"), "{status}");
    let environment = world.environment().await;
    assert_eq!(fs::read_to_string(environment.path.join("a.bin")).unwrap(), pointer);
    assert_eq!(world.pull_of("issue-1").commits.len(), 1);

    // The repository may do without.
    put(&world, REPO_SETTINGS_FILE, "lfs: false\n").await;
    let second = world.worked_issue("add a greeting").await;
    assert!(!world.status(second).contains("Git LFS"), "{}", world.status(second));
    world.end().await;
}
