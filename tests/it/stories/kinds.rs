//! Repositories of every kind, with everything a worktree goes through on each: those whose refs, history or objects are
//! kept in another way than usual, on the remote or here.

use crate::support::world::{ANN, REPO, World, git};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use treewarden::demo::github::MergeMethod;

/// A world whose `main` has a history.
async fn world_with_history() -> World {
    let world = World::new().await;
    for n in 1..=3 {
        let text = format!("{n}\n");
        world.standin.push_commit(REPO, ANN, "main", "Count", &[("count.txt", Some(&text))]).await.unwrap();
    }
    world
}

fn remote(world: &World) -> PathBuf {
    world.standin.git_dir(REPO).unwrap()
}

/// Work on a new issue, and what commands say of it. Answers with the issue.
async fn works(world: &World, words: &str) -> i64 {
    let issue = world.worked_issue(words).await;
    let status = world.status(issue);
    assert!(status.starts_with('✅') && status.contains("**Verified"), "{status}");
    let branch = format!("issue-{issue}");
    assert_eq!(world.remote_tip(&branch).await, world.local_tip(&branch).await);
    for command in ["/status", "/worktree orphans"] {
        world.ask(issue, command);
        world.settle().await;
        assert!(world.answer(issue).contains(&format!("`{branch}`")), "{command}: {}", world.answer(issue));
    }
    assert!(world.answer(issue).contains("All of them are mine."), "{}", world.answer(issue));
    issue
}

async fn merges(world: &World, issue: i64) {
    let pull = world.pull_of(&format!("issue-{issue}")).number;
    world.merge(pull, MergeMethod::Merge).await;
}

/// From a mention to a worktree that is gone again.
async fn lives(world: &World, words: &str) {
    let issue = works(world, words).await;
    let place = world.environment().await.path;
    merges(world, issue).await;
    assert!(world.environments().await.is_empty(), "{:?}", world.answers(issue).pop());
    assert!(!place.exists());
    assert_eq!(git(&world.canonical().await, &["worktree", "list"]).lines().count(), 1);
}

/// Moves a repository without reflogs and worktrees to another ref format; false, and said, where git cannot do that.
fn migrated(repository: &Path, format: &str) -> bool {
    let format = format!("--ref-format={format}");
    let migrate = Command::new("git").arg("-C").arg(repository).args(["refs", "migrate", &format]).output().unwrap();
    if !migrate.status.success() {
        eprintln!("skipped: this git cannot move refs to another format (2.46 can)");
    }
    migrate.status.success()
}

#[tokio::test]
async fn a_remote_with_reftables() {
    let world = world_with_history().await;
    if migrated(&remote(&world), "reftable") {
        assert!(remote(&world).join("reftable").is_dir());
        lives(&world, "add a greeting").await;
    }
    world.end().await;
}

#[tokio::test]
async fn a_repository_here_with_reftables_is_refused_as_it_is_and_welcome_again_in_the_other_format() {
    let world = world_with_history().await;
    lives(&world, "add a greeting").await;
    let canonical = world.canonical().await;
    // Some versions of git move no reflogs.
    fs::remove_dir_all(canonical.join("logs")).unwrap();
    if migrated(&canonical, "reftable") {
        let kept = |canonical: &Path| {
            (git(canonical, &["for-each-ref"]), fs::read_to_string(canonical.join("config")).unwrap())
        };
        let before = kept(&canonical);
        let issue = world.issue();
        world.ask(issue, "add a note");
        world.settle().await;
        let status = world.status(issue);
        assert!(status.starts_with("❌ **Failed**"), "{status}");
        for told in ["reftable", "Nothing was changed", "git refs migrate --ref-format=files", "[home]/repos"] {
            assert!(status.contains(told), "{told}: {status}");
        }
        assert_eq!(kept(&canonical), before, "nothing was lost");
        assert!(world.environments().await.is_empty());

        assert!(migrated(&canonical, "files"));
        world.ask(issue, "add a note");
        world.settle().await;
        assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    }
    world.end().await;
}

/// What is merged could not be told there. What is whole here stays whole, whatever becomes of the remote.
#[tokio::test]
async fn a_remote_that_is_shallow() {
    let world = world_with_history().await;
    let cut_off = async || {
        fs::write(remote(&world).join("shallow"), format!("{}\n", world.remote_tip("main").await.unwrap())).unwrap();
    };
    cut_off().await;
    let issue = world.worked_issue("add a greeting").await;
    let status = world.status(issue);
    assert!(status.starts_with("❌ **Failed**"), "{status}");
    assert!(status.contains("history is cut off") && status.contains("git fetch --unshallow"), "{status}");
    assert!(world.environments().await.is_empty());

    fs::remove_file(remote(&world).join("shallow")).unwrap();
    let issue = works(&world, "add a greeting").await;
    assert_eq!(git(&world.canonical().await, &["rev-parse", "--is-shallow-repository"]), "false");
    cut_off().await;
    merges(&world, issue).await;
    assert!(world.environments().await.is_empty(), "{:?}", world.answers(issue).pop());
    lives(&world, "add a note").await;
    world.end().await;
}

/// As `git fetch --depth` in a worktree leaves it.
#[tokio::test]
async fn a_repository_here_that_became_shallow() {
    let world = world_with_history().await;
    let issue = works(&world, "add a greeting").await;
    let canonical = world.canonical().await;
    let address = format!("file://{}", remote(&world).display());
    let cut = ["fetch", "-q", "--no-tags", "--depth=1", &address, "+refs/heads/*:refs/remotes/origin/*"];
    git(&canonical, &cut);
    assert_eq!(git(&canonical, &["rev-parse", "--is-shallow-repository"]), "true");
    merges(&world, issue).await;
    assert!(world.environments().await.is_empty(), "{:?}", world.answers(issue).pop());
    assert_eq!(git(&canonical, &["rev-parse", "--is-shallow-repository"]), "false");

    git(&canonical, &cut);
    assert_eq!(git(&canonical, &["rev-parse", "--is-shallow-repository"]), "true");
    lives(&world, "add a note").await;
    world.end().await;
}

#[tokio::test]
async fn a_remote_that_is_partial() {
    let world = world_with_history().await;
    let (remote, whole) = (remote(&world), world.dir.path().join("whole.git"));
    fs::rename(&remote, &whole).unwrap();
    git(&whole, &["config", "uploadpack.allowFilter", "true"]);
    let (from, to) = (format!("file://{}", whole.display()), remote.to_str().unwrap());
    git(world.dir.path(), &["clone", "-q", "--bare", "--filter=blob:none", &from, to]);
    let issue = world.worked_issue("add a greeting").await;
    let status = world.status(issue);
    assert!(status.contains("partial clone") && status.contains("git fetch --refetch --no-filter"), "{status}");
    git(&remote, &["fetch", "-q", "--refetch", "--no-filter", "origin"]);
    world.ask(issue, "agent:noop");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    world.end().await;
}

/// Its history began anew: nothing of a branch is merged, and nothing is in doubt.
#[tokio::test]
async fn a_default_branch_that_shares_nothing_with_the_work() {
    let world = world_with_history().await;
    let issue = works(&world, "add a greeting").await;
    let remote = remote(&world);
    let tree = git(&remote, &["rev-parse", "main^{tree}"]);
    let name = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"];
    let fresh = git(&remote, &[&name[..], &["commit-tree", "-m", "Begin anew", tree.trim()]].concat());
    git(&remote, &["update-ref", "refs/heads/main", fresh.trim()]);
    world.ask(issue, "add a note");
    world.settle().await;
    assert!(world.status(issue).starts_with('✅'), "{}", world.status(issue));
    world.ask(issue, &format!("/worktree remove issue-{issue}"));
    world.settle().await;
    assert!(world.answer(issue).starts_with("🧹") && world.environments().await.is_empty(), "{}", world.answer(issue));
    assert!(world.local_tip("issue-1").await.is_some(), "what is not merged stays");
    world.end().await;
}

/// As `git clone --filter` makes one, without the settings by which git would ask for what is missing.
#[tokio::test]
async fn a_repository_here_that_lacks_files_contents() {
    let world = world_with_history().await;
    lives(&world, "add a greeting").await;
    let (canonical, remote) = (world.canonical().await, remote(&world));
    git(&remote, &["config", "uploadpack.allowFilter", "true"]);
    let partial = world.dir.path().join("partial.git");
    let address = format!("file://{}", remote.display());
    git(world.dir.path(), &["clone", "-q", "--bare", "--filter=blob:none", &address, partial.to_str().unwrap()]);
    fs::remove_dir_all(canonical.join("objects")).unwrap();
    fs::rename(partial.join("objects"), canonical.join("objects")).unwrap();
    let missing = || git(&canonical, &["rev-list", "--objects", "--all", "--missing=print"]).contains('?');
    assert!(missing());

    lives(&world, "add a note").await;
    assert!(!missing(), "everything is here again");
    let packs = fs::read_dir(canonical.join("objects/pack")).unwrap();
    assert!(packs.flatten().all(|pack| pack.path().extension() != Some("promisor".as_ref())), "and known to be");
    world.end().await;
}

#[tokio::test]
async fn a_remote_that_offers_to_leave_things_out() {
    let world = world_with_history().await;
    git(&remote(&world), &["config", "uploadpack.allowFilter", "true"]);
    lives(&world, "add a greeting").await;
    let canonical = world.canonical().await;
    assert!(!git(&canonical, &["rev-list", "--objects", "--all", "--missing=print"]).contains('?'));
    world.end().await;
}

/// As an agent without a sandbox may leave it for everybody else.
#[tokio::test]
async fn a_repository_here_into_which_somebody_wrote_anything() {
    let world = world_with_history().await;
    let issue = works(&world, "add a greeting").await;
    let (canonical, tip) = (world.canonical().await, world.local_tip("issue-1").await.unwrap());
    git(&canonical, &["pack-refs", "--all"]);
    let packed = fs::read_to_string(canonical.join("packed-refs")).unwrap();
    let spoil = || {
        fs::write(canonical.join("packed-refs"), format!("{packed}garbage\n")).unwrap();
        fs::write(canonical.join("shallow"), format!("{tip}\n")).unwrap();
        for name in ["heads/issue-1", "heads/stray", "remotes/origin/main"] {
            let file = canonical.join("refs").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "garbage\n").unwrap();
        }
    };
    spoil();
    let other = works(&world, "add a note").await;
    assert_eq!(world.local_tip("issue-1").await, Some(tip.clone()));
    spoil();
    for issue in [issue, other] {
        merges(&world, issue).await;
    }
    assert!(world.environments().await.is_empty(), "{:?}", world.answers(issue).pop());
    world.end().await;
}
