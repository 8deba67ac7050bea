//! Deliveries that came while the program was not there, with the program itself and a kill that it cannot notice.

use super::{Installation, until};
use crate::support::world::REPO;
use rustix::process::Signal;
use std::{collections::BTreeSet, net::TcpListener};

#[tokio::test]
async fn after_a_kill_it_fetches_what_it_missed_and_nothing_from_before_its_first_start() {
    let installation = Installation::new().await;
    let standin = &installation.standin;
    // As people have it: the same address at each start, and a proxy in front that answers when nobody is behind it. No
    // other test listens on this address, so that nobody takes the port in between.
    let address = TcpListener::bind("127.0.0.77:0").unwrap().local_addr().unwrap();
    let hook = |url: &str| standin.set_webhook(url, "a secret of the test".to_owned().into());
    let (proxy, service) = (format!("{}/nobody", standin.web_url()), format!("http://{address}/webhooks/github"));
    let serve = async || {
        hook(&service);
        let mut command = installation.command(&["serve"]);
        command.env("TREEWARDEN_LISTEN", address.to_string());
        installation.serve_with(command).await
    };
    let asked_while_away = async || {
        hook(&proxy);
        let issue = installation.ask("add a greeting");
        standin.settled().await;
        assert_eq!(standin.deliveries().pop().unwrap().outcome.unwrap().status_code, 404);
        issue
    };
    let tip = async |issue: i64| standin.branch_tip(REPO, &format!("issue-{issue}")).await.unwrap();

    let before = asked_while_away().await;
    // GitHub tells times to the second: what came in the very second of the first start counts as after it.
    let ended = standin.deliveries().pop().unwrap().outcome.unwrap().delivered_at.timestamp();
    until("the next second", || async { (chrono::Utc::now().timestamp() > ended).then_some(()) }).await;
    let serving = serve().await;
    let first = installation.ask("add a greeting");
    until("the first work", || tip(first)).await;
    serving.signal(Signal::KILL);
    serving.ended().await;

    let missed = asked_while_away().await;
    let serving = serve().await;
    until("the work that was missed", || tip(missed)).await;
    assert_eq!(tip(before).await, None);
    // What GitHub told of the first work's push and pull request may have been on its way when the kill came.
    let asked = |event: &str| matches!(event, "issues" | "issue_comment");
    let requests = standin.requests();
    let ids: BTreeSet<i64> = requests
        .iter()
        .filter_map(|request| request.path.strip_prefix("/app/hook/deliveries/")?.parse().ok())
        .collect();
    let fetched = standin.deliveries().into_iter().filter(|record| ids.contains(&record.id) && asked(&record.event));
    let fetched: Vec<_> = fetched.collect();
    assert_eq!(fetched.len(), 2, "the issue and the comment: {fetched:?}");
    serving.stop().await;
}
