//! `treewarden demo`: the whole story, for real, on this machine: a stand-in for GitHub, real git over HTTP, the embedded
//! database, a toy agent. Each step is told, checked, and linked.

use super::{
    Service,
    commands::{is_heard, say, stop_signal},
};
use crate::cli::Demo;
use crate::config::{Config, Flags};
use crate::demo::github::{CommentView, MergeMethod, PullView, Standin, StandinOptions};
use crate::model::*;
use crate::store::Store;
use crate::telemetry::{self, LogFormat, Redactor};
use anyhow::{Context, anyhow, ensure};
use secrecy::ExposeSecret;
use std::{
    future::Future,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use uuid::Uuid;

const REPOSITORY: &str = "octo/hello";
const PERSON: &str = "ann";
/// A step that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A directory that goes when the demo ends.
struct Playground(PathBuf);

impl Drop for Playground {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub async fn play(demo: &Demo, terminal: bool) -> anyhow::Result<ExitCode> {
    let playground = Playground(std::env::temp_dir().join(format!("treewarden-demo-{}", Uuid::new_v4().simple())));
    std::fs::create_dir_all(&playground.0).context("the demo needs a temporary directory")?;
    telemetry::start("warn", LogFormat::Text, Redactor::new([]))?;

    let mut options = StandinOptions::new(playground.0.join("github"));
    options.visitor = PERSON.to_owned();
    let standin = Standin::start(options).await?;
    let config = settings(&playground, &standin, demo)?;
    let service = Service::start(&config).await?;
    let secret = config.github.app.as_ref().and_then(|app| app.webhook_secret.clone()).unwrap_or_default();
    standin.set_webhook(&format!("http://{}/webhooks/github", service.address), secret);

    say("Treewarden, playing its whole story on this machine.\n");
    say(format_args!("  Open the panel: {}\n", service.login_link()));
    let told = tell(&standin, &service).await;
    match &told {
        Ok(()) => say("\nEvery step was checked against git, the database and the stand-in. The end."),
        Err(error) => {
            say(format_args!("\nThe story broke off: {error:#}"));
            explain(&service).await;
        }
    }
    // Staying up for somebody who cannot read the links would be for ever.
    let still_up = format!("\nStill up. Write `@{} <request>` yourself:", service.slug());
    let held = demo.holds(terminal) && is_heard(still_up);
    if held {
        say(format_args!("  {}/{REPOSITORY}", standin.web_url()));
        say(format_args!("  Panel: {}", service.login_link()));
        say("Ctrl-C ends it and removes everything it made.");
        stop_signal()?.await?;
    }
    service.stop().await;
    standin.stop();
    if !held {
        say("Everything has ended, so these links lead nowhere now. With `--hold`, the demo stays up to look around.");
    }
    Ok(if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The same settings a real installation has, read the same way.
fn settings(playground: &Playground, standin: &Standin, demo: &Demo) -> anyhow::Result<Config> {
    let program = std::env::current_exe().context("the demo's agent is this program")?;
    let home = playground.0.join("home");
    let flags = Flags { home: Some(home), listen: demo.listening.listen.clone(), ..Flags::default() };
    let key = standin.private_key_pem();
    let env = |name: &str| match name {
        "TREEWARDEN_LISTEN" => Some("127.0.0.1:0".to_owned()),
        "GITHUB_API_URL" => Some(standin.api_url()),
        "GITHUB_WEB_URL" => Some(standin.web_url()),
        "GITHUB_APP_ID" => Some(standin.app_id().to_string()),
        "GITHUB_APP_PRIVATE_KEY" => Some(key.expose_secret().to_owned()),
        "GITHUB_WEBHOOK_SECRET" => Some(Uuid::new_v4().simple().to_string()),
        "TREEWARDEN_AGENT_COMMAND" => Some(format!("'{}' demo-agent", program.display())),
        // The toy agent is this program itself.
        "TREEWARDEN_SANDBOX" => Some("off".to_owned()),
        "PATH" => std::env::var("PATH").ok(),
        _ => None,
    };
    Config::load(&flags, env, |path| std::fs::read_to_string(path)).map_err(|problems| anyhow!("{problems}"))
}

async fn tell(standin: &Standin, service: &Service) -> anyhow::Result<()> {
    let web = standin.web_url();
    let panel = |page: &str| format!("{}/{page}", service.public_url);
    let deliveries = panel("deliveries");
    let store = service.orchestrator.store();

    let files = [("README.md", "# hello\n\nA small repository.\n")];
    standin.create_repository(REPOSITORY, &files).await?;
    standin.set_permission(REPOSITORY, PERSON, Permission::Write)?;
    let issue = standin.open_issue(REPOSITORY, PERSON, "Greet people", "We should greet people who come by.")?;
    until("the delivery of the issue", || async { Ok(store.list_deliveries(10, 0).await?.pop()) }).await?;
    step(1, &format!("{PERSON} opens issue #{issue}, \"Greet people\""), &deliveries);
    also(&format!("{web}/{REPOSITORY}/issues/{issue}"));

    let request = format!("@{} add a greeting", service.slug());
    let asked = standin.comment(REPOSITORY, PERSON, issue, &request)?;
    step(2, &format!("{PERSON} writes: {request}"), &deliveries);
    until("the eyes reaction", || async {
        let reactions = standin.comment_reactions(REPOSITORY, asked)?;
        Ok(reactions.iter().any(|reaction| reaction.content == "eyes").then_some(()))
    })
    .await?;
    let run = newest_run(store).await?;
    step(3, "Treewarden has seen it: 👀", &panel(&format!("runs/{}", run.id)));

    let environment = until("the worktree", || async {
        let run = newest_run(store).await?;
        ensure!(run.state != RunState::Failed, "the run failed: {}", run.reason.unwrap_or_default());
        let live = store.live_environments(None).await?;
        Ok(live.into_iter().find(|environment| environment.state == EnvironmentState::Active))
    })
    .await?;
    let on = checked_out(&environment.path).context("the worktree is not a linked worktree")?;
    ensure!(on == environment.branch.full_ref(), "the worktree is on {on}");
    ensure!(environment.branch.as_str() == format!("issue-{issue}"), "the branch is called {}", environment.branch);
    let link = panel(&format!("environments/{}", environment.id));
    step(4, &format!("A worktree of its own, on branch {}", environment.branch), &link);

    let status = finished_status(standin, issue, "Working in isolated branch `issue-1`").await?;
    let run = newest_run(store).await?;
    ensure!(run.state == RunState::Succeeded, "the run ended as {}", run.state);
    ensure!(run.environment == Some(environment.id), "the run was somewhere else");
    let log = tokio::fs::read_to_string(service.orchestrator.log_path(run.id)).await.context("there is no log")?;
    ensure!(log.contains("editing files"), "the log does not say what the agent did: {log}");
    let run_page = panel(&format!("runs/{}", run.id));
    step(5, "The agent worked there; what it said is in its log", &run_page);

    let pull = run.outcome.pull_request.context("no pull request was opened")?.0;
    let opened = standin.pull(REPOSITORY, pull)?;
    ensure!(opened.body.contains(&format!("Fixes #{issue}")), "the pull request does not link the issue");
    let pushed = run.outcome.pushed.as_ref().context("nothing was pushed")?;
    ensure!(opened.head_sha == pushed.as_str(), "the remote is not where the comment says");
    ensure!(opened.draft && opened.open, "the pull request is no open draft");
    let truth = verified(&status, &opened)?;
    step(6, &format!("Committed, pushed, draft pull request #{pull} opened"), &run_page);
    also(&format!("{web}/{REPOSITORY}/pull/{pull}"));
    also(truth);

    let again = format!("@{} please also greet in French", service.slug());
    standin.comment(REPOSITORY, PERSON, pull, &again)?;
    step(7, &format!("On the pull request {PERSON} writes: {again}"), &deliveries);
    let status = finished_status(standin, pull, "Reusing worktree from issue #1").await?;
    let live = store.live_environments(None).await?;
    ensure!(live.len() == 1 && live[0].id == environment.id, "the pull request got a worktree of its own");
    let moved = standin.pull(REPOSITORY, pull)?;
    ensure!(moved.head_sha != opened.head_sha, "no new commit is on the pull request");
    let pushed = newest_run(store).await?.outcome.pushed.context("nothing was pushed")?;
    ensure!(moved.head_sha == pushed.as_str(), "the remote is not where the comment says");
    verified(&status, &moved)?;
    let program = standin.file(REPOSITORY, "issue-1", "hello.sh").await?.unwrap_or_default();
    ensure!(program.contains("Hello") && program.contains("Bonjour"), "the pull request lacks a greeting: {program}");
    let short = pushed.short();
    step(8, &format!("The same worktree served both; its second commit, {short}, is on the pull request"), &link);

    standin.set_draft(REPOSITORY, PERSON, pull, false)?;
    standin.merge(REPOSITORY, PERSON, pull, MergeMethod::Squash).await?;
    ensure!(!standin.issue(REPOSITORY, issue)?.open, "the issue is still open");
    ensure!(!standin.pull(REPOSITORY, pull)?.open, "the pull request is still open");
    step(9, &format!("{PERSON} squash-merges #{pull}; that closes issue #{issue}"), &deliveries);
    let receipt = until("the receipt", || async { Ok(store.receipt_of(environment.id).await?) }).await?;
    ensure!(!environment.path.exists(), "the worktree is still there");
    ensure!(receipt.details.branch_deleted, "the merged branch was kept");
    step(10, &format!("The worktree is gone: {}", receipt.details.proof), &link);
    let tip = receipt.details.tip.context("the receipt names no commit")?;
    ensure!(tip == pushed, "the receipt names another commit");
    also(&format!("receipt: last commit {tip}"));
    Ok(())
}

/// What keeps worktrees, as the panel shows it too.
async fn explain(service: &Service) {
    for environment in service.orchestrator.store().live_environments(None).await.unwrap_or_default() {
        say(format_args!(
            "  {} is {}: {}",
            environment.branch,
            environment.state,
            environment.metadata.kept_because.join("; ")
        ));
    }
}

/// What happened, and its page in the panel.
fn step(number: u32, text: &str, page: &str) {
    say(format_args!("  {number:>2}.  {text}"));
    also(page);
}

fn also(line: &str) {
    say(format_args!("       {line}"));
}

async fn newest_run(store: &Store) -> anyhow::Result<Run> {
    store.list_runs(Default::default(), 1, 0).await?.pop().context("no run was recorded")
}

/// The ref that HEAD of a linked worktree names, read as git wrote it (gitrepository-layout(5)).
fn checked_out(worktree: &Path) -> anyhow::Result<String> {
    let link = std::fs::read_to_string(worktree.join(".git"))?;
    let directory = link.trim_end().strip_prefix("gitdir: ").context("its .git names no directory")?;
    let head = std::fs::read_to_string(worktree.join(directory).join("HEAD"))?;
    Ok(head.trim_end().strip_prefix("ref: ").context("its HEAD is detached")?.to_owned())
}

/// The line with which a status comment ends; it has to name what the stand-in has.
fn verified<'a>(status: &'a CommentView, pull: &PullView) -> anyhow::Result<&'a str> {
    let visible = status.body.lines().rev().find(|line| !line.is_empty() && !line.starts_with("<!--"));
    let truth =
        visible.filter(|line| line.starts_with("**Verified")).context("the comment ends with nothing verified")?;
    for fact in [format!("/commit/{})", pull.head_sha), format!("pull request #{}", pull.number)] {
        ensure!(truth.contains(&fact), "{fact} is not verified: {truth}");
    }
    Ok(truth)
}

/// The bot's status comment with this first line, once it says that the run is done.
async fn finished_status(standin: &Standin, number: i64, opening: &str) -> anyhow::Result<CommentView> {
    until("the final status comment", || async {
        let comments = standin.comments(REPOSITORY, number)?;
        let own = comments.into_iter().filter(|comment| comment.via_app && comment.body.contains(opening));
        let ended = own.into_iter().find(|comment| !comment.body.starts_with(['🕐', '🌱', '🤖', '📦']));
        if let Some(comment) = &ended {
            ensure!(comment.body.starts_with('✅'), "the run did not succeed: {}", comment.body);
        }
        Ok(ended)
    })
    .await
}

/// Looks again and again until there is an answer.
async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        ensure!(tokio::time::Instant::now() < deadline, "{what} did not come within {} s", PATIENCE.as_secs());
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
