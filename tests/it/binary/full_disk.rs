//! A disk that is full, for real: the service lives in a mount namespace of its own, with its home on a file system of a
//! few megabytes. Where the machine allows no such namespace, these tests say so and check nothing.

use super::{Installation, PROGRAM, Serving, runs, until, until_succeeded};
use crate::support::namespace::{may_mount, unshare};
use crate::support::world::REPO;
use std::{
    fs::File,
    io::{ErrorKind, Write},
    path::PathBuf,
};
use treewarden::{model::*, store::Store};

const SMALL: &str = "mount -t tmpfs -o size=24m,mode=0700 tmpfs \"$0\" && exec \"$@\"";

/// The home as the service sees it.
struct Home(PathBuf);

impl Home {
    fn of(serving: &Serving, installation: &Installation) -> Self {
        let root = PathBuf::from(format!("/proc/{}/root", serving.process.id().unwrap()));
        Self(root.join(installation.dir.path().join("home").strip_prefix("/").unwrap()))
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// To the last byte.
    fn fill(&self) {
        let mut filler = File::create(self.filler()).unwrap();
        let mut size = 1 << 20;
        while size > 0 {
            match filler.write_all(&vec![7; size]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => size /= 2,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Installation {
    async fn serve_on_a_small_disk(&self, database: Option<&str>) -> Serving {
        let home = self.dir.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let mut command = self.command(&["serve"]);
        if let Some(database) = database {
            command.env("DATABASE_URL", database);
        }
        let mut inside = tokio::process::Command::new("unshare");
        inside.args(unshare()).args(["sh", "-c", SMALL]).arg(home).arg(PROGRAM).arg("serve");
        inside.env_clear().kill_on_drop(true);
        for (name, value) in command.as_std().get_envs() {
            inside.env(name, value.unwrap());
        }
        self.serve_with(inside).await
    }

    fn deliveries_answered(&self, status: u16) -> Vec<i64> {
        let all = self.standin.deliveries().into_iter();
        all.filter(|record| record.outcome.as_ref().unwrap().status_code == status).map(|record| record.id).collect()
    }
}

#[tokio::test]
async fn what_cannot_be_stored_is_not_taken_and_can_be_sent_again() {
    if !may_mount() {
        return;
    }
    let installation = Installation::new().await;
    let serving = installation.serve_on_a_small_disk(None).await;
    let home = Home::of(&serving, &installation);
    home.fill();
    let issue = installation.ask("add a greeting");
    installation.standin.settled().await;
    let refused = installation.deliveries_answered(503);
    assert!(!refused.is_empty(), "a full disk took everything");
    assert_eq!(serving.get("/healthz").await.0, 200);
    let (status, report) = serving.get("/readyz").await;
    assert!(status == 503 && report.contains("\"inbox\":\"failing\""), "{status} {report}");

    home.free();
    until("readiness without a delivery", || async { (serving.get("/readyz").await.0 == 200).then_some(()) }).await;
    for id in refused {
        installation.standin.redeliver(id).unwrap();
    }
    installation.standin.settled().await;
    let branch = format!("issue-{issue}");
    until("the work on GitHub", || async { installation.standin.branch_tip(REPO, &branch).await.unwrap() }).await;
    serving.stop().await;
}

/// A service whose home is on a small disk, and its database elsewhere.
async fn on_a_small_disk(installation: &Installation) -> (Serving, Store, Home) {
    let database = format!("sqlite://{}", installation.dir.path().join("elsewhere.db").display());
    let serving = installation.serve_on_a_small_disk(Some(&database)).await;
    let store = Store::open(&database).await.unwrap();
    let home = Home::of(&serving, installation);
    (serving, store, home)
}

#[tokio::test]
async fn a_worktree_without_room_is_told_and_the_next_mention_works() {
    if !may_mount() {
        return;
    }
    let installation = Installation::new().await;
    let (serving, store, home) = on_a_small_disk(&installation).await;
    home.fill();
    let issue = installation.ask("add a greeting");
    let failed =
        until("a run that failed", || async { runs(&store).await.pop().filter(|run| run.state == RunState::Failed) })
            .await;
    let reason = failed.reason.unwrap();
    assert!(reason.contains("disk is full"), "{reason}");
    let status = until("the failure in the thread", || async {
        let comments = installation.standin.comments(REPO, issue).unwrap();
        comments.into_iter().map(|comment| comment.body).find(|body| body.contains("Failed"))
    });
    assert!(status.await.contains("disk is full"));
    assert!(store.live_environments(None).await.unwrap().is_empty(), "a row without a worktree");

    home.free();
    installation
        .standin
        .comment(REPO, "ann", issue, &format!("@{} try again", installation.standin.app_slug()))
        .unwrap();
    until_succeeded(&store, 1).await;
    assert!(installation.standin.branch_tip(REPO, &format!("issue-{issue}")).await.unwrap().is_some());
    serving.stop().await;
}

/// What is not committed has to be kept before anything goes.
#[tokio::test]
async fn a_removal_without_room_loses_nothing_and_is_done_later() {
    if !may_mount() {
        return;
    }
    let installation = Installation::new().await;
    let (serving, store, home) = on_a_small_disk(&installation).await;
    let issue = installation.ask("add a greeting");
    until_succeeded(&store, 1).await;
    let environment = store.live_environments(None).await.unwrap().pop().unwrap();
    let path = home.0.join(environment.path.strip_prefix(installation.dir.path().join("home")).unwrap());
    std::fs::write(path.join("notes"), "of hours\n").unwrap();
    let comments = || installation.standin.comments(REPO, issue).unwrap();
    let remove = async || {
        let before = comments().len();
        let words = format!("@{} /worktree remove --force", installation.standin.app_slug());
        installation.standin.comment(REPO, "ann", issue, &words).unwrap();
        let answer = || async { comments().into_iter().skip(before + 1).map(|comment| comment.body).next() };
        until("the answer", answer).await
    };
    home.fill();
    let refused = remove().await;
    assert!(refused.contains("disk is full") && refused.contains("Nothing was removed"), "{refused}");
    assert_eq!(std::fs::read_to_string(path.join("notes")).unwrap(), "of hours\n");
    assert_eq!(store.live_environments(None).await.unwrap().len(), 1);

    home.free();
    let gone = remove().await;
    assert!(gone.starts_with("🧹") && gone.contains("What was not committed is kept"), "{gone}");
    assert!(!path.exists());
    let trash = home.0.join("trash");
    until("the files to go", || async { trash.read_dir().unwrap().next().is_none().then_some(()) }).await;
    serving.stop().await;
}
