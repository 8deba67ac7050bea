//! What the command line asks for. Each command answers with the process's exit code.

use super::lock::LockError;
use super::{Core, Service, StartError, doctor, hangup::hung_up, import, look::take, program, say, story, wall_clock};
use crate::cli::{Cli, Command, EnvCommand};
use crate::config::{Config, Reads};
use crate::decide::cleanup::Keep;
use crate::model::*;
use crate::orchestrator::sweep::Pass;
use crate::reply::{cleanup, disk};
use crate::store::{EnvironmentFilter, Schema, Store, StoreError};
use crate::telemetry::{self, Redactor};
use anyhow::{Context, anyhow, bail};
use secrecy::ExposeSecret;
use std::{
    collections::BTreeSet,
    fmt::Display,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};
use tokio::signal::unix::{SignalKind, signal};

/// Carries a command out.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let flags = cli.flags().context("the current directory is not readable")?;
    let reads = match &cli.command {
        Command::DemoAgent => return Ok(crate::demo::agent::main()),
        Command::Demo(demo) => return story::play(demo, std::io::stdin().is_terminal()).await,
        Command::Doctor { json } => return doctor::examine(&flags, *json).await,
        Command::Serve(_) | Command::Migrate | Command::Cleanup { .. } | Command::Import(_) => Reads::All,
        Command::Say(_) => Reads::Home,
        Command::Env { .. } => Reads::Database,
    };
    let config = Config::from_process_for(&flags, reads).map_err(|problems| anyhow!("{problems}"))?;
    telemetry::start(&config.log, config.log_format, Redactor::new(&config.secrets()))?;
    match cli.command {
        Command::Serve(_) => serve(&config).await,
        Command::Migrate => {
            let _taken = take(&config).await?;
            let store = open_store(&config).await?;
            let migrated = store.migrate().await;
            store.close().await;
            migrated.map_err(StartError::Store)?;
            say("The database has this version's schema.");
            Ok(ExitCode::SUCCESS)
        }
        Command::Cleanup { dry_run } => clean_up(&config, dry_run).await,
        Command::Say(asked) => say::run(&config, &asked).await,
        Command::Import(asked) => import::import(&config, &asked).await,
        Command::Env { command } => environments(&config, &command).await,
        Command::DemoAgent | Command::Demo(_) | Command::Doctor { .. } => bail!("handled above"),
    }
}

/// Prints a line. When nobody reads any more, that is no failure of what the line is about: `| head` took what it wanted.
pub(super) fn say(line: impl Display) {
    is_heard(line);
}

/// Prints a line; false when nobody reads any more. Names and texts of others may be in it.
pub(super) fn is_heard(line: impl Display) -> bool {
    writeln!(io::stdout().lock(), "{}", written_out(&line.to_string(), TERMINAL_LINES)).is_ok()
}

async fn open_store(config: &Config) -> Result<Store, StartError> {
    Ok(Store::open(config.database_url.expose_secret()).await?)
}

async fn serve(config: &Config) -> anyhow::Result<ExitCode> {
    for name in &config.ignored {
        tracing::warn!(variable = %name, "this variable is named like a setting and is none; it is ignored");
    }
    for name in config.without_effect() {
        tracing::warn!(variable = %name, "this setting is set, but has no effect in this version");
    }
    if config.home_overruled {
        tracing::warn!(path = %config.home.display(), "TREEWARDEN_HOME does not count, since TREEWARDEN_CONTAINER is on");
    }
    for name in config.agent.iter().flat_map(|agent| &agent.unset) {
        tracing::warn!(variable = %name, "TREEWARDEN_AGENT_ENV names a variable that is not set; the agent goes without it");
    }
    if let Some(Err(error)) = config.agent.as_ref().map(program::look) {
        tracing::warn!(%error, "no agent can be started; treewarden doctor, with the settings of the service, says what mends it");
    }
    let mut service = match Service::start(config).await {
        Err(StartError::Lock(error @ LockError::Taken(_))) => bail!("{error} Its panel is there meanwhile."),
        started => started?,
    };
    let stop = stop_signal()?;
    say(format_args!("Treewarden listens on http://{}", service.address));
    match config.github.app {
        Some(_) => say(format_args!("GitHub delivers to {}/webhooks/github", service.public_url)),
        None => say("No GitHub App is configured: it works for repositories on this machine only."),
    }
    if config.local {
        say("On this machine, speak to it with: treewarden say \"…\"");
    }
    say(format_args!("Panel, one-time link (this machine only, good for an hour): {}", service.login_link()));
    let displaced = tokio::select! {
        stopped = stop => stopped.map(|()| None)?,
        error = service.displaced() => Some(error),
    };
    let all = service.stop().await;
    if !all {
        say("Some runs had not ended; the next start takes care of them. Nothing is lost.");
    }
    if let Some(error) = displaced {
        bail!(
            "The connection that held the database was lost, and {error}. This one has ended, so that no two are at work."
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Ready at the first SIGTERM, SIGINT or SIGHUP from now on: whoever reads that the service is there may stop it at once.
pub(super) fn stop_signal() -> anyhow::Result<impl Future<Output = anyhow::Result<()>>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            result = hung_up() => result?,
        }
        Ok(())
    })
}

async fn clean_up(config: &Config, dry_run: bool) -> anyhow::Result<ExitCode> {
    let core = match Core::build(config, "", None, wall_clock()).await {
        Ok(core) => core,
        Err(StartError::Lock(error @ (LockError::Taken(_) | LockError::Shared(_)))) => {
            bail!("{error} The panel's cleanup page does the same.")
        }
        Err(StartError::NoApp) => bail!(
            "No settings of a service were found, so nothing was looked at or removed (home: {}). A cleanup asks GitHub what is \
             merged: give it the service's settings, by --home or --config and the same environment variables. Of a service \
             without GitHub, TREEWARDEN_LOCAL=on is one of them.",
            config.home.display()
        ),
        Err(error) => return Err(error.into()),
    };
    if !dry_run {
        core.orchestrator.follow_move().await?;
    }
    let report = core.orchestrator.pass(&Pass::everywhere(Trigger::Cli, dry_run, "cli")).await;
    core.orchestrator.store().close().await;
    let report = report?;
    let verb = if dry_run { "would go" } else { "removed" };
    for line in &report.lines {
        let name = line.name();
        match &line.result {
            ReportResult::Removed(why) => say(format_args!("{verb}  {name}: {why}")),
            ReportResult::Kept(reasons) => say(format_args!("kept     {name}: {}", reasons.join("; "))),
            ReportResult::Failed(why) => say(format_args!("failed   {name}: {why}")),
        }
        line.notes.iter().for_each(|note| say(format_args!("disk     {name}: {note}")));
    }
    let looked_at = report.lines.len();
    say(format_args!("{looked_at} {} looked at.", if looked_at == 1 { "worktree was" } else { "worktrees were" }));
    let failed = report.lines.iter().any(|line| matches!(line.result, ReportResult::Failed(_)));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn environments(config: &Config, command: &EnvCommand) -> anyhow::Result<ExitCode> {
    // Looking must not change what an older service, which may be running, works with.
    match Store::schema(config.database_url.expose_secret()).await.map_err(StartError::Store)? {
        Schema::Current => {}
        Schema::Missing => bail!(
            "There is no database of Treewarden here yet (home: {}); the first `treewarden serve` makes it.",
            config.home.display()
        ),
        Schema::Older { found, known } => bail!(
            "The database was made by an older Treewarden (schema {found}; this one uses {known}). Nothing was changed. \
             Ask the program that made it, or stop the service and run `treewarden migrate`."
        ),
        Schema::Newer { found, known } => {
            return Err(StartError::Store(StoreError::NewerSchema { found, known }).into());
        }
    }
    let store = open_store(config).await?;
    let shown = show_environments(config, &store, command).await;
    store.close().await;
    shown
}

async fn show_environments(config: &Config, store: &Store, command: &EnvCommand) -> anyhow::Result<ExitCode> {
    match command {
        EnvCommand::List => {
            let live = store.live_environments(None).await?;
            if live.is_empty() {
                say(format_args!("No environment (home: {}).", config.home.display()));
            }
            let mut rows = Vec::new();
            for environment in live {
                let codebase = store.load_codebase(environment.codebase).await?;
                let name = codebase.map(|codebase| codebase.name.to_string()).unwrap_or_default();
                rows.push([
                    environment.id.to_string(),
                    format!("{name}#{}", environment.work),
                    environment.branch.to_string(),
                    environment.state.to_string(),
                    environment.metadata.disk.as_ref().map(disk::size).unwrap_or_else(|| "?".to_owned()),
                    environment.created_at.to_string(),
                ]);
            }
            if !rows.is_empty() {
                rows.insert(0, ["id", "name", "branch", "state", "on disk", "made"].map(str::to_owned));
            }
            in_columns(&rows).into_iter().for_each(say);
        }
        EnvCommand::Show { name } => {
            let environment = find_environment(store, name).await?;
            say(format_args!("id        {}", environment.id));
            say(format_args!("work      {}", environment.work));
            say(format_args!("branch    {}", environment.branch));
            say(format_args!("state     {}", environment.state));
            say(format_args!("path      {}", environment.path.display()));
            say(format_args!("base      {}", environment.base.as_ref().map(ToString::to_string).unwrap_or_default()));
            say(format_args!("active    {}", environment.last_activity_at));
            if let Some(used) = environment.metadata.disk.filter(|_| environment.state != EnvironmentState::Destroyed) {
                say(format_args!("takes     {}", disk::of_worktree(&used)));
            }
            for why in why_kept(&environment) {
                say(format_args!("kept      {why}"));
            }
            if let Some(receipt) = store.receipt_of(environment.id).await? {
                say(format_args!("removed   {}: {}", receipt.created_at, receipt.details.proof));
                if let (Some(name), Some(until)) = (&receipt.details.safety_ref, receipt.details.kept_until) {
                    say(format_args!("trash     what was not committed, until {}, in {name}", until.date()));
                }
                let codebase = store.load_codebase(environment.codebase).await?;
                let repository = codebase.map(|codebase| config.home.join("repos").join(codebase.repository_dir));
                let branch = match cleanup::restore_command(&receipt.details, &repository.unwrap_or_default()) {
                    Some(command) => format!("only its branch: {command}"),
                    None => "a mention in its thread goes on on the branch".to_owned(),
                };
                match receipt.details.released {
                    true => say(format_args!("restore   {branch}")),
                    false => say(format_args!(
                        "restore   /worktree restore {} in a thread of the repository, or the panel; {branch}",
                        environment.work
                    )),
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Each row as a line, its cells below those of the one before.
fn in_columns<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let length = |text: &String| text.chars().count();
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| length(&row[column])).max().unwrap_or_default());
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A line for each reason; one that says so where nobody has looked yet.
fn why_kept(environment: &Environment) -> Vec<String> {
    match environment.state {
        EnvironmentState::Destroyed => Vec::new(),
        EnvironmentState::Creating | EnvironmentState::Removing => vec![cleanup::sentence(&Keep::InTransition)],
        EnvironmentState::Active if environment.metadata.kept_because.is_empty() => {
            vec![cleanup::not_examined()]
        }
        EnvironmentState::Active => environment.metadata.kept_because.clone(),
    }
}

/// By id, as `owner/name#issue-42` or with its branch after the `#`, or by a thread as `owner/name#42` or `owner/name#<conversation>`; by its work alone where
/// that is in one repository only. Live ones come before removed ones, of which the newest counts.
async fn find_environment(store: &Store, name: &str) -> anyhow::Result<Environment> {
    let none = || anyhow!("No environment is called {name}. `env list` shows the live ones by their names.");
    if let Ok(id) = name.parse() {
        return store.load_environment(id).await?.ok_or_else(none);
    }
    let Some((repository, work)) = name.split_once('#') else {
        let filter = EnvironmentFilter { codebase: None, live_only: false, search: name.to_owned() };
        let mut called = store.list_environments(&filter, u32::MAX, 0).await?;
        called.retain(|one| one.work.to_string() == name || one.branch.as_str() == name);
        let codebases: BTreeSet<_> = called.iter().map(|one| one.codebase).collect();
        return match codebases.len() {
            0 | 1 => foremost(called).ok_or_else(none),
            many => Err(anyhow!(
                "{many} repositories have an environment {name}: ask for owner/name#{name}, as `env list` shows the live ones."
            )),
        };
    };
    let codebase = match repository.parse::<RepoName>() {
        Ok(repository) => store.find_codebase(&repository).await?,
        Err(_) => None,
    };
    let codebase = codebase.ok_or_else(|| {
        anyhow!(
            "No repository is called {repository}. It goes by owner/name, and one on this machine by _local/name; `env list` shows \
             the live environments with theirs."
        )
    })?;
    let thread = work.parse().ok().map(ThreadNumber);
    if let Some(number) = thread {
        let uses = store.find_conversation(codebase.id, number).await?.and_then(|thread| thread.environment);
        if let Some(id) = uses {
            return store.load_environment(id).await?.ok_or_else(none);
        }
    }
    if let Ok(name) = ThreadName::new(work)
        && let Some(thread) = store.find_named_thread(PlatformKind::Local, &name).await?
        && thread.codebase == codebase.id
        && let Some(id) = thread.environment
    {
        return store.load_environment(id).await?.ok_or_else(none);
    }
    let filter = EnvironmentFilter { codebase: Some(codebase.id), live_only: false, search: work.to_owned() };
    let mut called = store.list_environments(&filter, u32::MAX, 0).await?;
    let is_called = |one: &Environment| one.work.to_string() == work || one.branch.as_str() == work;
    called.retain(|one| is_called(one) || thread.is_some() && one.work.thread() == thread);
    foremost(called).ok_or_else(none)
}

fn foremost(called: Vec<Environment>) -> Option<Environment> {
    let live = called.iter().position(|environment| environment.state != EnvironmentState::Destroyed);
    called.into_iter().nth(live.unwrap_or(0))
}
