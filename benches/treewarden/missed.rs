//! Part `missed`: 1,000 deliveries that were answered by somebody else while the service was away, and how long it takes after
//! a start until all of them are in the inbox. What matters is what GitHub is asked for meanwhile: beside the time, it
//! prints how many requests that took, and the most in any minute.

use super::{SECRET, Service};
use secrecy::SecretString;
use std::time::{Duration, Instant};
use treewarden::demo::github::{Standin, StandinOptions};

const REPOSITORY: &str = "octo/missed";
const MISSED: usize = 1_000;
/// All of it takes less than that, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(900);
const MINUTE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub async fn measure() {
    let root = std::env::temp_dir().join(format!("treewarden-bench-{}-missed", std::process::id()));
    std::fs::create_dir_all(&root).expect("a directory");
    let standin = Standin::start(StandinOptions::new(root.join("github"))).await.expect("the stand-in");
    standin.create_repository(REPOSITORY, &[("README.md", "# missed\n")]).await.expect("a repository");
    let start = || Service::start(&root.join("home"), &root.join("stamps"), &standin);
    // Nothing from before the first start is fetched.
    let service = start();
    service.ready().await;
    drop(service);
    standin.set_webhook(&format!("{}/nobody", standin.web_url()), SecretString::from(SECRET));
    let issue = standin.open_issue(REPOSITORY, "ann", "Measure", "").expect("an issue");
    for number in 1..MISSED {
        standin.comment(REPOSITORY, "ann", issue, &format!("Remark {number}")).expect("a comment");
    }
    standin.settled().await;

    let (begin, before) = (Instant::now(), standin.requests().len());
    let service = start();
    service.ready().await;
    let mut counts = vec![(begin, before)];
    while service.metric("treewarden_missed_deliveries_total{result=\"fetched\"}").await < MISSED as f64 {
        assert!(begin.elapsed() < PATIENCE, "they do not come");
        tokio::time::sleep(LOOK_AGAIN).await;
        counts.push((Instant::now(), standin.requests().len()));
    }
    let requests = counts.last().map_or(0, |(_, count)| count - before);
    println!(
        "{MISSED} missed deliveries, until all came:{:>6.0} s   ({requests} requests, at most {} in a minute)",
        begin.elapsed().as_secs_f64(),
        most_in_a_minute(&counts)
    );
    standin.stop();
    drop(service);
    let _ = std::fs::remove_dir_all(&root);
}

fn most_in_a_minute(counts: &[(Instant, usize)]) -> usize {
    let within = |(place, (from, before)): (usize, &(Instant, usize))| {
        let minute = counts[place..].iter().take_while(|(at, _)| at.duration_since(*from) <= MINUTE);
        minute.map(|(_, count)| count - before).max().unwrap_or_default()
    };
    counts.iter().enumerate().map(within).max().unwrap_or_default()
}
