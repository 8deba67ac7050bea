//! What the command line asks for. Each command answers with the process's exit code.

use super::lock::LockError;
use super::{
    Core, Service, StartError, demand_app, doctor, env, hangup::hung_up, import, look::take, program, say, secret_key,
    story, wall_clock,
};
use crate::cli::{Cli, Command, EnvCommand};
use crate::config::{Config, Reads};
use crate::model::*;
use crate::orchestrator::sweep::Pass;
use crate::reply::report;
use crate::store::{Schema, Store};
use crate::telemetry::{self, Redactor};
use anyhow::{Context, anyhow, bail};
use secrecy::ExposeSecret;
use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Carries a command out.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let flags = cli.flags().context("the current directory is not readable")?;
    let reads = match &cli.command {
        Command::DemoAgent => return Ok(crate::demo::agent::main()),
        Command::Demo(demo) => return story::play(demo, std::io::stdin().is_terminal()).await,
        Command::Doctor { json } => return doctor::examine(&flags, *json).await,
        Command::Serve(_) | Command::Migrate | Command::Disconnect | Command::Cleanup { .. } | Command::Import(_) => {
            Reads::All
        }
        Command::Say(_) => Reads::Home,
        Command::Env { command: EnvCommand::Remove(_) | EnvCommand::Restore { .. } } => Reads::All,
        Command::Env { command: EnvCommand::List | EnvCommand::Show { .. } } => Reads::Database,
    };
    let config = Config::from_process_for(&flags, reads).map_err(|problems| anyhow!("{problems}"))?;
    let redactor = Redactor::new(&config.secrets());
    telemetry::start(&config.log, config.log_format, redactor.clone())?;
    match cli.command {
        Command::Serve(_) => serve(&config, &redactor).await,
        Command::Migrate => {
            let _taken = take(&config).await?;
            let store = open_store(&config).await?;
            let migrated = store.migrate().await;
            store.close().await;
            migrated.map_err(StartError::Store)?;
            say("The database has this version's schema.");
            Ok(ExitCode::SUCCESS)
        }
        Command::Disconnect => disconnect(&config).await,
        Command::Cleanup { dry_run } => clean_up(&config, &redactor, dry_run).await,
        Command::Say(asked) => say::run(&config, &asked).await,
        Command::Import(asked) => import::import(&config, &redactor, &asked).await,
        Command::Env { command } => env::run(&config, &redactor, &command).await,
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

pub(super) async fn open_store(config: &Config) -> Result<Store, StartError> {
    Ok(Store::open(config.database_url.expose_secret()).await?)
}

async fn disconnect(config: &Config) -> anyhow::Result<ExitCode> {
    if Store::schema(config.database_url.expose_secret()).await.map_err(StartError::Store)? == Schema::Missing {
        say(format_args!("No App is stored: there is no database for {}. Nothing was made.", config.home.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let _taken = take(config).await?;
    let store = open_store(config).await?;
    let forgotten = async {
        store.migrate().await?;
        let forgotten = store.forget_app().await?;
        if let Some(slug) = &forgotten {
            store.append_audit("cli", "app.forgotten", slug, "the next start opens the set-up", wall_clock()()).await?;
        }
        Ok(forgotten)
    };
    let forgotten = forgotten.await.map_err(StartError::Store);
    store.close().await;
    let forgotten = forgotten?;
    // Another App gets a key of its own: this one may have got out.
    secret_key::forget(config)?;
    say(match forgotten {
        Some(slug) => format!(
            "The App @{slug} is forgotten here. On GitHub it stays: delete it there, unless something else works by it."
        ),
        None => "No App is stored here. One that the settings name is none of the set-up's.".to_owned(),
    });
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: &Config, redactor: &Redactor) -> anyhow::Result<ExitCode> {
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
    let mut service = match Service::start_with(config, wall_clock(), redactor).await {
        Err(StartError::Lock(error @ LockError::Taken(_))) => bail!("{error} Its panel is there meanwhile."),
        started => started?,
    };
    let stop = stop_signal()?;
    say(format_args!("Treewarden listens on http://{}", service.address));
    match (service.is_connected(), service.fetches_deliveries()) {
        (true, false) => say(format_args!("GitHub delivers to {}/webhooks/github", service.public_url)),
        (true, true) => say("GitHub is asked for deliveries every ten seconds; none is let in."),
        (false, _) if config.local => {
            say(
                "No GitHub App is connected: it works for repositories on this machine only. The panel's /setup connects one.",
            );
        }
        (false, _) => {
            let port = service.address.port();
            say("No GitHub App is connected yet. The link below leads to the page that makes one, in a minute.");
            say(format_args!(
                "From another machine, forward the port first: ssh -L {port}:127.0.0.1:{port} <this machine>"
            ));
        }
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

/// What a command needs that changes something, with the database and the home to itself. `asks`: why it needs the settings of
/// a service. `meanwhile`: what does the same while one runs.
pub(super) async fn one_off(config: &Config, redactor: &Redactor, asks: &str, meanwhile: &str) -> anyhow::Result<Core> {
    let core = async {
        demand_app(config).await?;
        Core::build(config, "", redactor, wall_clock()).await
    };
    match core.await {
        Ok(core) => Ok(core),
        Err(StartError::Lock(error @ (LockError::Taken(_) | LockError::Shared(_)))) => bail!("{error} {meanwhile}"),
        Err(StartError::NoApp) => bail!(
            "No settings of a service were found, so nothing was looked at or removed (home: {}). {asks}: give it the service's \
             settings, by --home or --config and the same environment variables. Of a service without GitHub, \
             TREEWARDEN_LOCAL=on is one of them.",
            config.home.display()
        ),
        Err(error) => Err(error.into()),
    }
}

/// Looks at the files of what was removed for the last time, so that they may be deleted. No service does.
pub(super) async fn last_look(core: &Core) {
    if let Err(error) = core.orchestrator.look_through_trash(&CancellationToken::new()).await {
        tracing::warn!(%error, "removed files not looked at; they stay in the trash, and the next start does so");
    }
}

/// Ends it, once what goes on by itself has come to its end, and the files that may be deleted are off the disk.
pub(super) async fn end(core: Core) {
    core.orchestrator.rest().await;
    core.orchestrator.empty_trash().await;
    core.orchestrator.store().close().await;
}

async fn clean_up(config: &Config, redactor: &Redactor, dry_run: bool) -> anyhow::Result<ExitCode> {
    let asks = "A cleanup asks GitHub what is merged";
    let core = one_off(config, redactor, asks, "The panel's cleanup page does the same.").await?;
    if !dry_run {
        core.orchestrator.follow_move().await?;
    }
    let report = core.orchestrator.pass(&Pass::everywhere(Trigger::Cli, dry_run, "cli")).await;
    if !dry_run {
        last_look(&core).await;
    }
    end(core).await;
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
    say(report::sum(&report));
    Ok(if report.sums().failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
