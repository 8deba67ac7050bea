//! How it ends: by which signals, and what it leaves in the home.

use super::{Installation, PROGRAM, output_of, runs, text, until, until_succeeded};
use crate::support::postgres::Database;
use rustix::process::Signal;
use tokio::{io::AsyncWriteExt, net::TcpStream, process::Command};
use treewarden::{model::*, store::Store};

impl Installation {
    /// The database is closed: nothing of it is outside its one file.
    fn database_is_whole(&self) -> bool {
        let home = self.dir.path().join("home");
        home.join("treewarden.db").exists() && !home.join("treewarden.db-wal").exists()
    }
}

#[tokio::test]
async fn after_a_stop_the_database_file_alone_is_a_backup() {
    let installation = Installation::new().await;
    let serving = installation.serve().await;
    installation.ask("add a greeting");
    let store = installation.store().await;
    until_succeeded(&store, 1).await;
    // What GitHub tells of the pull request comes after the run has ended.
    installation.standin.settled().await;
    until_succeeded(&store, 1).await;
    store.close().await;
    serving.stop().await;
    assert!(installation.database_is_whole());

    let backup = installation.dir.path().join("backup.db");
    std::fs::copy(installation.dir.path().join("home/treewarden.db"), &backup).unwrap();
    let copy = Store::open(&format!("sqlite://{}", backup.display())).await.unwrap();
    assert_eq!(runs(&copy).await.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Succeeded]);
    assert!(copy.unfinished().await.unwrap().is_empty());
    assert_eq!(copy.live_environments(None).await.unwrap().len(), 1);
    copy.close().await;
}

#[tokio::test]
async fn it_serves_on_postgresql_and_goes_on_after_a_stop() {
    let Some(database) = Database::create().await else { return };
    let installation = Installation::new().await;
    let command = |arguments: &[&str]| {
        let mut command = installation.command(arguments);
        command.env("DATABASE_URL", &database.url);
        command
    };
    assert!(output_of(command(&["migrate"])).await.status.success());
    let serving = installation.serve_with(command(&["serve"])).await;
    assert_eq!(serving.get("/readyz").await.0, 200);
    installation.ask("agent:sleep=1 add a greeting");
    let store = Store::open(&database.url).await.unwrap();
    until("an agent at work", || async { runs(&store).await.pop().filter(|run| run.process.is_some()) }).await;
    serving.stop().await;
    let ended = runs(&store).await;
    assert_eq!(ended.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Succeeded], "{ended:?}");

    let serving = installation.serve_with(command(&["serve"])).await;
    let second = output_of(command(&["serve"])).await;
    assert!(text(&second.stderr).contains("Another Treewarden runs"), "{second:?}");
    installation.ask("add a greeting");
    until_succeeded(&store, 2).await;
    installation.standin.settled().await;
    until_succeeded(&store, 2).await;
    serving.stop().await;
    let list = output_of(command(&["env", "list"])).await;
    assert!(list.status.success() && text(&list.stdout).contains("octo/hello#issue-1"), "{list:?}");
    let doctor = output_of(command(&["doctor"])).await;
    assert!(doctor.status.success() && text(&doctor.stdout).contains("this version's schema"), "{doctor:?}");
    assert!(!installation.dir.path().join("home/treewarden.db").exists());
    store.close().await;
    database.drop().await;
}

#[tokio::test]
async fn every_command_leaves_the_database_in_one_file() {
    let installation = Installation::new().await;
    let commands: [&[&str]; 4] =
        [&["migrate"], &["env", "list"], &["env", "show", "nobody"], &["cleanup", "--dry-run"]];
    for command in commands {
        let output = installation.run(command).await;
        assert!(output.status.code().is_some() && installation.database_is_whole(), "{command:?} {output:?}");
    }
}

/// Two databases would take each other's worktrees for nobody's.
#[tokio::test]
async fn two_homes_do_not_share_a_directory_of_worktrees() {
    let installation = Installation::new().await;
    let base = installation.dir.path().join("trees");
    let mut first = installation.command(&["serve"]);
    first.env("WORKTREE_BASE", &base);
    let serving = installation.serve_with(first).await;
    let link = installation.dir.path().join("link");
    std::os::unix::fs::symlink(installation.dir.path().join("home"), &link).unwrap();
    for shared in [base.clone(), base.join("octo/hello"), link.join("worktrees")] {
        let mut second = installation.command(&["serve"]);
        second.env("WORKTREE_BASE", &shared).env("TREEWARDEN_HOME", installation.dir.path().join("other"));
        let output = output_of(second).await;
        assert!(
            !output.status.success() && text(&output.stderr).contains("with a home of its own, works in"),
            "{shared:?} {output:?}"
        );
    }
    serving.stop().await;
}

#[tokio::test]
async fn a_start_that_comes_to_nothing_leaves_the_database_in_one_file() {
    let installation = Installation::new().await;
    let mut stranger = installation.command(&["serve"]);
    stranger.env("GITHUB_APP_ID", (installation.standin.app_id() + 1).to_string());
    let output = output_of(stranger).await;
    assert!(text(&output.stderr).contains("GitHub did not say which App this is"), "{output:?}");
    assert!(!output.status.success() && installation.database_is_whole());
}

#[tokio::test]
async fn a_hangup_stops_it_as_gently_as_a_request() {
    let installation = Installation::new().await;
    // Also where the tests themselves were started with `nohup`.
    let mut hearing = Command::new("env");
    hearing.args(["--default-signal=HUP", PROGRAM, "serve"]).env_clear().kill_on_drop(true);
    for (name, value) in installation.command(&["serve"]).as_std().get_envs() {
        hearing.env(name, value.unwrap());
    }
    let serving = installation.serve_with(hearing).await;
    installation.ask("agent:sleep=6 add a greeting");
    let store = installation.store().await;
    until("an agent at work", || async { runs(&store).await.pop().filter(|run| run.process.is_some()) }).await;
    serving.signal(Signal::HUP);
    assert_eq!(serving.ended().await, Some(0));
    let ended = runs(&store).await;
    assert_eq!(ended.iter().map(|run| run.state).collect::<Vec<_>>(), [RunState::Succeeded], "{ended:?}");
}

#[tokio::test]
async fn started_with_nohup_it_outlives_the_terminal() {
    let installation = Installation::new().await;
    let command = installation.command(&["serve"]);
    let mut deaf = Command::new("sh");
    deaf.args(["-c", "trap '' HUP && exec \"$0\" serve", PROGRAM]).env_clear().kill_on_drop(true);
    for (name, value) in command.as_std().get_envs() {
        deaf.env(name, value.unwrap());
    }
    let serving = installation.serve_with(deaf).await;
    serving.signal(Signal::HUP);
    installation.ask("add a greeting");
    let store = installation.store().await;
    until_succeeded(&store, 1).await;
    assert_eq!(serving.get("/readyz").await.0, 200);
    serving.stop().await;
}

#[tokio::test]
async fn strangers_who_never_finish_a_request_do_not_change_how_it_ends() {
    let installation = Installation::new().await;
    let serving = installation.serve().await;
    let mut stranger = TcpStream::connect(serving.url.strip_prefix("http://").unwrap()).await.unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    assert_eq!(serving.get("/healthz").await.0, 200);
    serving.stop().await;
    assert!(installation.database_is_whole());
    let again = installation.run(&["env", "list"]).await;
    assert!(again.status.success(), "{}", text(&again.stderr));
}
