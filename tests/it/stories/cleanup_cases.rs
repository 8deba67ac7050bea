//! A pass over everything judges by what git and GitHub say: what became of each branch, and when somebody last worked on it.

use super::commands::answered;
use crate::support::world::{ANN, REPO, World, git};
use std::{collections::BTreeMap, fs, path::Path};
use treewarden::{
    demo::github::{MergeMethod, OpenPull},
    model::*,
};

/// A worktree of its own, made on request in a thread that goes on elsewhere afterwards.
async fn made(world: &World, thread: i64, words: &str) -> Environment {
    let branch = words.split(' ').next().unwrap();
    answered(world, thread, &format!("/worktree create {words}")).await;
    let made = world.environments().await.into_iter().find(|live| live.branch.as_str() == branch);
    made.unwrap_or_else(|| panic!("{words}: {}", world.answer(thread)))
}

/// A commit of Ann's that gives a file this text.
fn commit(path: &Path, file: &str, text: &str) {
    fs::write(path.join(file), text).unwrap();
    git(path, &["add", file]);
    git(path, &["commit", "-qm", &format!("{file} is {text:?}")]);
}

/// Ann pushes what the worktree has.
fn push(world: &World, environment: &Environment) {
    let remote = world.standin.git_dir(REPO).unwrap();
    let branch = environment.branch.full_ref();
    git(&environment.path, &["push", "-q", "-f", remote.to_str().unwrap(), &format!("HEAD:{branch}")]);
}

/// Ann's pull request for what the worktree has.
async fn pull(world: &World, environment: &Environment, base: &str) -> i64 {
    push(world, environment);
    let head = environment.branch.as_str();
    let open = OpenPull { title: "Work", body: "", head, base, ..OpenPull::default() };
    world.standin.open_pull(REPO, ANN, open).await.unwrap()
}

/// What people do to branches of the remote, in a clone of theirs that is on `main`.
fn people(world: &World) -> std::path::PathBuf {
    let (clone, remote) = (world.dir.path().join("people"), world.standin.git_dir(REPO).unwrap());
    if !clone.exists() {
        git(world.dir.path(), &["clone", "-q", remote.to_str().unwrap(), clone.to_str().unwrap()]);
    }
    git(&clone, &["fetch", "-q", "--prune"]);
    git(&clone, &["checkout", "-q", "-B", "main", "origin/main"]);
    clone
}

/// By branch, what a pass says.
fn results(report: CleanupReport) -> BTreeMap<String, ReportResult> {
    report.lines.into_iter().map(|line| (line.branch, line.result)).collect()
}

/// BR-016, BR-018, BR-028, BR-029, BR-030, BR-031, BR-036, BR-038, BR-039: what a pass finds merged goes with its branch, and
/// nothing else does. Nothing here moves a branch of the service's own repository but its fetches.
#[tokio::test]
async fn a_pass_removes_exactly_what_is_proven_to_be_merged() {
    const MERGED: &[(&str, &str)] = &[
        ("squash-one", "everything `squash-one` changes is in `main`"),
        ("squash-many", "everything `squash-many` changes is in `main`"),
        ("rebased", "everything `rebased` changes is in `main`"),
        ("merge-commit", "`merge-commit` is merged into `main`"),
        ("by-hand", "everything `by-hand` changes is in `main`"),
        ("into-dev", "`into-dev` is merged into `dev`"),
        ("moved-on", "merged exactly this commit of `moved-on`"),
    ];
    const KEPT: &[&str] = &["fresh", "closed", "reused", "went-on", "cancelled", "reverted", "elsewhere", "unpushed"];
    let world = World::new().await;
    world.standin.push_commit(REPO, ANN, "dev", "Dev", &[("dev.txt", Some("1\n"))]).await.unwrap();
    let thread = world.issue();
    let mut all = BTreeMap::new();
    for name in MERGED.iter().map(|(name, _)| *name).chain(KEPT.iter().copied()) {
        let words = if name == "into-dev" { format!("{name} --base dev") } else { name.to_owned() };
        let environment = made(&world, thread, &words).await;
        let file = format!("{name}.txt");
        if name != "fresh" {
            commit(&environment.path, &file, "1\n");
        }
        if name != "squash-one" && name != "fresh" {
            commit(&environment.path, &file, if name == "cancelled" { "" } else { "2\n" });
        }
        all.insert(name, environment);
    }
    git(&all["cancelled"].path, &["rm", "-q", "cancelled.txt"]);
    git(&all["cancelled"].path, &["commit", "-qm", "Take it back"]);
    for (name, base, method) in [
        ("squash-one", "main", MergeMethod::Squash),
        ("squash-many", "main", MergeMethod::Squash),
        ("rebased", "main", MergeMethod::Rebase),
        ("merge-commit", "main", MergeMethod::Merge),
        ("into-dev", "dev", MergeMethod::Merge),
        ("moved-on", "main", MergeMethod::Squash),
        ("reused", "main", MergeMethod::Squash),
        ("went-on", "main", MergeMethod::Squash),
        ("elsewhere", "dev", MergeMethod::Merge),
    ] {
        let pull = pull(&world, &all[name], base).await;
        world.merge(pull, method).await;
    }
    // Closed without a merge, and its branch deleted: `[gone]` proves nothing.
    let closed = pull(&world, &all["closed"], "main").await;
    world.standin.close(REPO, ANN, closed).unwrap();
    world.standin.delete_branch(REPO, ANN, "closed").await.unwrap();
    // The name has another story now, and a pull request that waits.
    git(&all["reused"].path, &["reset", "-q", "--hard", all["reused"].start.as_ref().unwrap().as_str()]);
    commit(&all["reused"].path, "another.txt", "1\n");
    pull(&world, &all["reused"], "main").await;
    commit(&all["went-on"].path, "later.txt", "1\n");
    push(&world, &all["by-hand"]);
    push(&world, &all["reverted"]);
    let clone = people(&world);
    for name in ["by-hand", "reverted"] {
        git(&clone, &["merge", "-q", "--squash", &format!("origin/{name}")]);
        git(&clone, &["commit", "-qm", name]);
    }
    git(&clone, &["revert", "--no-edit", "HEAD"]);
    // The same lines are other ones by now: only GitHub knows.
    commit(&clone, "moved-on.txt", "another\n");
    git(&clone, &["push", "-q", "origin", "main"]);
    world.settle().await;

    let tips: BTreeMap<_, _> =
        all.iter().map(|(name, one)| (*name, git(&one.path, &["rev-parse", "HEAD"]))).collect();
    let mut results = results(world.pass().await);
    world.settle().await;
    for (name, proof) in MERGED {
        let result = results.remove(*name);
        assert!(matches!(&result, Some(ReportResult::Removed(why)) if why.contains(proof)), "{name}: {result:?}");
        assert!(!all[name].path.exists() && world.local_tip(name).await.is_none(), "{name}");
        // Whatever becomes of the branch, its commits stay.
        let kept = git(&world.canonical().await, &["rev-parse", &format!("refs/treewarden/archive/{}", all[name].id)]);
        assert_eq!(kept, tips[name], "{name}");
    }
    for name in KEPT {
        let result = results.remove(*name);
        let still = ReportResult::Kept(vec!["work goes on: it is neither merged nor stale".to_owned()]);
        assert_eq!(result, Some(still), "{name}");
        assert_eq!(world.local_tip(name).await.as_ref(), Some(&tips[name]), "{name}");
        assert_eq!(git(&all[name].path, &["status", "--porcelain"]), "", "{name}");
    }
    assert!(results.is_empty(), "{results:?}");
    world.end().await;
}
