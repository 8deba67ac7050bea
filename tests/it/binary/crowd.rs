//! Strangers who open connections and say nothing, more of them than the service may open files.

use super::{Installation, PATIENCE, PROGRAM};
use tokio::{io::AsyncWriteExt, net::TcpStream, process::Command, time::timeout};

/// Enough for the work, and far fewer than the strangers.
const DESCRIPTORS: &str = "ulimit -n 160 && exec \"$0\" serve";
const STRANGERS: usize = 400;

#[tokio::test]
async fn silent_strangers_keep_no_delivery_and_no_panel_from_being_answered() {
    let installation = Installation::new().await;
    let command = installation.command(&["serve"]);
    let mut bounded = Command::new("sh");
    bounded.args(["-c", DESCRIPTORS, PROGRAM]).env_clear().kill_on_drop(true);
    for (name, value) in command.as_std().get_envs() {
        bounded.env(name, value.unwrap());
    }
    let serving = installation.serve_with(bounded).await;
    let address = serving.url.strip_prefix("http://").unwrap();
    let mut strangers = Vec::new();
    for _ in 0..STRANGERS {
        let mut stranger = TcpStream::connect(address).await.unwrap();
        // One that was shown out already says nothing more.
        let _ = stranger.write_all(b"POST /webhooks/github HTTP/1.1\r\nHost: localhost\r\n").await;
        strangers.push(stranger);
    }
    installation.ask("add a greeting");
    timeout(PATIENCE, installation.standin.settled()).await.expect("deliveries are not answered");
    for delivery in installation.standin.deliveries() {
        assert_eq!(delivery.outcome.unwrap().status_code, 202, "{}", delivery.event);
    }
    assert_eq!(serving.get("/login").await.0, 200);
    assert_eq!(serving.get("/readyz").await.0, 200);
    serving.stop().await;
    drop(strangers);
}
