//! A service whose App's credentials lie sealed in its database.

use super::doctor::complaints;
use super::*;
use crate::support::world::git;
use secrecy::SecretString;
use std::{fs, os::unix::fs::PermissionsExt};
use treewarden::store::{AppSecrets, Sealer, StoredApp};

const KEY: &str = "0123456789abcdef0123456789abcdef";

impl Installation {
    /// With nothing of the App in the environment.
    fn without_credentials(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        for name in ["GITHUB_APP_ID", "GITHUB_APP_PRIVATE_KEY", "GITHUB_WEBHOOK_SECRET"] {
            command.env_remove(name);
        }
        command
    }

    fn key_file(&self) -> std::path::PathBuf {
        self.dir.path().join("home/secret.key")
    }

    /// The stand-in's App, as a set-up would leave it.
    async fn with_stored_app(self) -> Self {
        assert!(self.run(&["migrate"]).await.status.success());
        fs::write(self.key_file(), KEY).unwrap();
        fs::set_permissions(self.key_file(), fs::Permissions::from_mode(0o600)).unwrap();
        let secrets = AppSecrets {
            private_key: self.standin.private_key_pem(),
            webhook_secret: SecretString::from("a secret of the test"),
            client_secret: self.standin.client_secret(),
        };
        let sealer = Sealer::new(&SecretString::from(KEY));
        let (id, slug, client) = (self.standin.app_id(), self.standin.app_slug(), self.standin.client_id());
        let stored = StoredApp::seal(id, &slug, &client, &secrets, &sealer);
        let store = self.store().await;
        assert!(store.save_app(&stored, Timestamp::new(chrono::Utc::now())).await.unwrap());
        store.close().await;
        self
    }
}

#[tokio::test]
async fn stored_credentials_start_a_service_and_serve_every_command() {
    let installation = Installation::new().await.with_stored_app().await;
    let serving = installation.serve_with(installation.without_credentials(&["serve"])).await;
    installation.ask("add a greeting");
    until_succeeded(&installation.store().await, 1).await;
    assert_eq!(complaints(installation.without_credentials(&["doctor"])).await, []);
    serving.stop().await;
    let cleanup = output_of(installation.without_credentials(&["cleanup", "--dry-run"])).await;
    assert!(cleanup.status.success() && text(&cleanup.stdout).contains("octo/hello#issue-1"), "{cleanup:?}");
}

#[tokio::test]
async fn credentials_that_do_not_open_stop_the_start_and_are_not_passed_over() {
    let installation = Installation::new().await.with_stored_app().await;
    let key = installation.key_file();
    let refused = async |change: &dyn Fn(&mut Command)| {
        let mut serve = installation.without_credentials(&["serve"]);
        change(&mut serve);
        let output = output_of(serve).await;
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains("Nothing was begun"), "{output:?}");
        assert!(told.contains(&format!("@{}", installation.standin.app_slug())), "{told}");
        let mut doctor = installation.without_credentials(&["doctor"]);
        change(&mut doctor);
        let wrong = complaints(doctor).await;
        (told, wrong.into_iter().map(|(what, _, mend)| format!("{what}: {mend}")).collect::<Vec<_>>())
    };
    let as_it_is = |_: &mut Command| {};

    let other = |command: &mut Command| {
        command.env("TREEWARDEN_SECRET_KEY", "f".repeat(32));
    };
    let (told, mends) = refused(&other).await;
    assert!(told.contains("sealed with another key than that of TREEWARDEN_SECRET_KEY"), "{told}");
    assert!(!told.contains(&"f".repeat(32)), "{told}");
    let mend = "github: export TREEWARDEN_SECRET_KEY='<the key that sealed the credentials>'";
    assert_eq!(mends, [mend]);

    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let (told, mends) = refused(&as_it_is).await;
    assert!(told.contains(&format!("{} holds a key and can be read by others (mode 644)", key.display())), "{told}");
    assert_eq!(mends, [format!("github: chmod 600 {}", key.display())]);

    fs::rename(&key, key.with_extension("kept")).unwrap();
    let (told, mends) = refused(&as_it_is).await;
    assert!(told.contains(&format!("{}, which holds their key, is not there", key.display())), "{told}");
    assert_eq!(mends, [format!("github: install -b -m 600 '<its backup>' {}", key.display())]);
    assert!(!key.exists(), "no other key is made in its place");
    fs::rename(key.with_extension("kept"), &key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    installation.serve_with(installation.without_credentials(&["serve"])).await.stop().await;
}

/// The settings were lost, or the App was forgotten: what waits goes on waiting, for the App.
#[tokio::test]
async fn without_an_app_what_is_of_github_waits_for_one() {
    let installation = Installation::new().await;
    let mut one_at_once = installation.command(&["serve"]);
    one_at_once.env("MAX_CONCURRENT_RUNS", "1");
    let serving = installation.serve_with(one_at_once).await;
    let ended = installation.ask("agent:sleep=600");
    let store = installation.store().await;
    let states = async || runs(&store).await.iter().map(|run| run.state).collect::<Vec<_>>();
    until("an agent at work", || async { (states().await == [RunState::Running]).then_some(()) }).await;
    let queued = installation.ask("add a greeting");
    until("a run behind it", || async { (states().await.len() == 2).then_some(()) }).await;
    serving.signal(Signal::KILL);
    serving.ended().await;

    let here = installation.dir.path().join("here");
    fs::create_dir(&here).unwrap();
    git(&here, &["init", "--quiet", "--initial-branch=main"]);
    git(&here, &["commit", "--quiet", "--allow-empty", "-m", "Begin"]);
    let mut without = installation.without_credentials(&["serve"]);
    without.env("TREEWARDEN_LOCAL", "on");
    let serving = installation.serve_with(without).await;
    let mut say = installation.without_credentials(&["say", "add a greeting"]);
    say.current_dir(&here);
    let said = output_of(say).await;
    assert!(said.status.success(), "what is of this machine goes on: {said:?}");
    let waiting = runs(&store).await.into_iter().find(|run| run.state == RunState::Queued);
    assert!(waiting.is_some(), "{:?}", states().await);
    serving.stop().await;

    let serving = installation.serve().await;
    until_succeeded(&store, 2).await;
    let last = |issue| installation.standin.comments(REPO, issue).unwrap().pop().unwrap().body;
    assert!(last(queued).starts_with('✅'), "{}", last(queued));
    assert!(last(ended).starts_with("⚡ **Interrupted**"), "{}", last(ended));
    serving.stop().await;
}

/// Wherever both are, and whatever became of the key.
#[tokio::test]
async fn the_environment_counts_before_what_is_stored() {
    let installation = Installation::new().await.with_stored_app().await;
    fs::remove_file(installation.key_file()).unwrap();
    let doctor = installation.run(&["doctor"]).await;
    let told = format!("not what the set-up stored of @{}", installation.standin.app_slug());
    assert!(doctor.status.success() && text(&doctor.stdout).contains(&told), "{doctor:?}");
    let serving = installation.serve().await;
    installation.ask("add a greeting");
    until_succeeded(&installation.store().await, 1).await;
    serving.stop().await;
    // A half of it is no reason to take the other half from the database.
    let mut half = installation.command(&["serve"]);
    half.env_remove("GITHUB_WEBHOOK_SECRET");
    let refused = output_of(half).await;
    assert!(!refused.status.success() && text(&refused.stderr).contains("GITHUB_WEBHOOK_SECRET"), "{refused:?}");
}

#[tokio::test]
async fn an_app_that_is_gone_is_forgotten_on_request_only() {
    let installation = Installation::new().await.with_stored_app().await;
    installation.standin.faults().inject(Some("GET"), "/app", 1, treewarden::demo::github::Fault::Status(401));
    let refused = output_of(installation.without_credentials(&["serve"])).await;
    let told = text(&refused.stderr);
    assert!(!refused.status.success() && told.contains("`treewarden disconnect` forgets it"), "{told}");
    assert!(!told.contains("GITHUB_APP_ID"), "nothing of that is set: {told}");
    let disconnected = output_of(installation.without_credentials(&["disconnect"])).await;
    let told = format!("The App @{} is forgotten here.", installation.standin.app_slug());
    assert!(disconnected.status.success() && text(&disconnected.stdout).starts_with(&told), "{disconnected:?}");
    let again = output_of(installation.without_credentials(&["disconnect"])).await;
    assert!(again.status.success() && text(&again.stdout).starts_with("No App is stored here."), "{again:?}");
    let cleanup = output_of(installation.without_credentials(&["cleanup"])).await;
    assert!(text(&cleanup.stderr).contains("No settings of a service were found"), "{cleanup:?}");
    installation.serve_with(installation.without_credentials(&["serve"])).await.stop().await;
}
