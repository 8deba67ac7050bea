//! `treewarden env`: looks at environments at any time; removes one, and brings one back, while no service runs, by the verbs of
//! the panel and of the commands in threads.

mod find;

use super::commands::{end, last_look, one_off, open_store, say};
use super::door::Door;
use super::{Core, StartError};
use crate::cli::{EnvCommand, EnvRemove};
use crate::config::Config;
use crate::decide::cleanup::Keep;
use crate::model::*;
use crate::orchestrator::{restore::Restored, sweep::Swept};
use crate::reply::{bytes, cleanup, count, days, disk};
use crate::store::{Schema, Store, StoreError};
use crate::telemetry::Redactor;
use anyhow::bail;
use secrecy::ExposeSecret;
use std::process::ExitCode;

/// Who asks, in receipts and in the audit log.
const ACTOR: &str = "cli";

pub(super) async fn run(config: &Config, redactor: &Redactor, command: &EnvCommand) -> anyhow::Result<ExitCode> {
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
    match command {
        EnvCommand::List => looked(config, async |store| list(config, store).await).await,
        EnvCommand::Show { name } => looked(config, async |store| show(config, store, name).await).await,
        EnvCommand::Remove(asked) => {
            let named =
                looked(config, async |store| Named::of(config, store, find::foremost(store, &asked.name).await?).await);
            remove(config, redactor, asked, &named.await?).await
        }
        EnvCommand::Restore { name } => {
            let named =
                looked(config, async |store| Named::of(config, store, find::removed_last(store, name).await?).await);
            restore(config, redactor, &named.await?).await
        }
    }
}

/// Opens the database for a look.
async fn looked<T>(config: &Config, look: impl AsyncFnOnce(&Store) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let store = open_store(config).await?;
    let seen = look(&store).await;
    store.close().await;
    seen
}

async fn list(config: &Config, store: &Store) -> anyhow::Result<ExitCode> {
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
    Ok(ExitCode::SUCCESS)
}

async fn show(config: &Config, store: &Store, name: &str) -> anyhow::Result<ExitCode> {
    let named = Named::of(config, store, find::foremost(store, name).await?).await?;
    let environment = &named.environment;
    say(format_args!("id        {}", environment.id));
    say(format_args!("work      {}", environment.work));
    say(format_args!("branch    {}", environment.branch));
    let state = match environment.state {
        EnvironmentState::Destroyed => "removed".to_owned(),
        state => state.to_string(),
    };
    say(format_args!("state     {state}"));
    say(format_args!("path      {}", environment.path.display()));
    say(format_args!("base      {}", environment.base.as_ref().map(ToString::to_string).unwrap_or_default()));
    say(format_args!("active    {}", environment.last_activity_at));
    if let Some(used) = environment.metadata.disk.filter(|_| environment.state != EnvironmentState::Destroyed) {
        say(format_args!("takes     {}", disk::of_worktree(&used)));
    }
    for why in why_kept(environment) {
        say(format_args!("kept      {why}"));
    }
    for step in environment.metadata.next_steps.iter().filter(|_| environment.state == EnvironmentState::Active) {
        say(format_args!("next      {step}"));
    }
    if let Some(receipt) = store.receipt_of(environment.id).await? {
        let by = receipt.details.actor.as_ref().map(|actor| format!(", by {actor}")).unwrap_or_default();
        let trigger = receipt.trigger.as_str().replace('_', " ");
        say(format_args!("removed   {}: {}", receipt.created_at, receipt.details.proof));
        say(format_args!("trigger   {trigger}{by}"));
        named.receipt(&receipt.details).into_iter().for_each(say);
    }
    Ok(ExitCode::SUCCESS)
}

/// An environment with what people call it and its repository.
struct Named {
    environment: Environment,
    /// `octo/hello#issue-42`.
    name: String,
    codebase: String,
    repository: std::path::PathBuf,
}

impl Named {
    async fn of(config: &Config, store: &Store, environment: Environment) -> anyhow::Result<Self> {
        let codebase = store.load_codebase(environment.codebase).await?;
        let (codebase, directory) =
            codebase.map(|codebase| (codebase.name.to_string(), codebase.repository_dir)).unwrap_or_default();
        let name = format!("{codebase}#{}", environment.work);
        Ok(Self { environment, name, codebase, repository: config.home.join("repos").join(directory) })
    }

    /// What is left of it, and where.
    fn receipt(&self, details: &ReceiptDetails) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(own) = details.commits {
            let subjects: String = details.subjects.iter().map(|subject| format!("; {subject}")).collect();
            lines.push(format!("commits   {} of its own{subjects}", count(own, "commit")));
        }
        if let Some(tip) = &details.tip {
            let becomes = if details.branch_deleted { "deleted" } else { "kept" };
            lines.push(format!("last      {tip}; its branch {} is {becomes}", details.branch));
        }
        lines.extend(details.bytes_freed.map(|freed| format!("freed     {}", bytes(freed))));
        if let (Some(name), Some(until)) = (&details.safety_ref, details.kept_until) {
            let what = match (details.only_ignored, details.rescued) {
                (true, _) => "files that git ignores".to_owned(),
                (false, 0) => "what was not committed".to_owned(),
                (false, files) => format!("what was not committed, and {} that git ignores", count(files, "file")),
            };
            lines.push(format!("trash     {what}, until {}, in {name}", until.date()));
        }
        lines.extend(
            details.held_up.as_ref().map(|why| format!("held up   its files are still in the trash directory: {why}")),
        );
        let branch = match cleanup::restore_command(details, &self.repository) {
            Some(command) => format!("only its branch: {command}"),
            None => "a mention in its thread goes on on the branch".to_owned(),
        };
        lines.push(match details.released {
            true => format!("restore   {branch}"),
            false => format!(
                "restore   /worktree restore {} in a thread of the repository, the panel, or, without a service that runs, \
                 treewarden env restore {}; {branch}",
                self.environment.work, self.environment.id
            ),
        });
        lines
    }

    /// The orchestrator, as long as no service has it.
    async fn core(&self, config: &Config, redactor: &Redactor, command: &str) -> anyhow::Result<Core> {
        let page = format!("/environments/{}", self.environment.id);
        // Where the service listens, this command's own settings do not say.
        let panel = config.public_url.clone().or_else(|| Some(Door::read(&config.home).ok()?.url));
        let page = panel.map_or(format!("{page} there"), |panel| format!("{panel}{page}"));
        let meanwhile =
            format!("While it runs, its panel does this: {page}. So does {command} in a thread of {}.", self.codebase);
        one_off(config, redactor, "What is merged, and what comes back, is asked of GitHub", &meanwhile).await
    }
}

async fn remove(config: &Config, redactor: &Redactor, asked: &EnvRemove, named: &Named) -> anyhow::Result<ExitCode> {
    let (id, name) = (named.environment.id, &named.name);
    let option = if asked.force { " --force" } else { "" };
    let core = named.core(config, redactor, &format!("/worktree remove {}{option}", named.environment.work)).await?;
    let orchestrator = &core.orchestrator;
    let swept = async {
        if !asked.dry_run {
            orchestrator.follow_move().await?;
        }
        match (asked.dry_run, asked.force) {
            (true, force) => orchestrator.foresee(id, force, Trigger::Cli, ACTOR).await,
            (false, true) => orchestrator.remove_by_force(id, Trigger::Cli, ACTOR).await,
            (false, false) => orchestrator.remove(id, Trigger::Cli, ACTOR).await,
        }
    };
    let (mut swept, trash_for) = (swept.await, orchestrator.trash_for());
    if !asked.dry_run {
        last_look(&core).await;
        // That may have found more.
        if let (Ok(Swept::Removed(details)), Ok(Some(receipt))) =
            (&mut swept, orchestrator.store().receipt_of(id).await)
        {
            **details = receipt.details;
        }
    }
    end(core).await;
    let unchanged = if asked.dry_run { "Nothing was changed." } else { "Nothing was removed." };
    match swept? {
        Swept::Removed(details) => {
            let verb = if asked.dry_run { "would go" } else { "removed " };
            say(format_args!("{verb}  {name}: {}", details.proof));
            named.receipt(&details).into_iter().for_each(say);
            if asked.dry_run {
                say(unchanged);
            }
            Ok(ExitCode::SUCCESS)
        }
        Swept::Gone => {
            say(format_args!("gone      {name}: {}", cleanup::ghost()));
            Ok(ExitCode::SUCCESS)
        }
        Swept::Kept(reasons) => {
            for reason in &reasons {
                say(format_args!("kept      {name}: {}", cleanup::sentence(reason)));
            }
            match reasons.iter().all(Keep::fits_the_trash) {
                true => say(format_args!(
                    "{unchanged} With --force, what is not committed goes to the trash for {} days.",
                    days(trash_for)
                )),
                false => {
                    let steps: String = cleanup::next_steps(&reasons).iter().map(|step| format!(" {step}")).collect();
                    say(format_args!("{unchanged}{steps}"));
                }
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn restore(config: &Config, redactor: &Redactor, named: &Named) -> anyhow::Result<ExitCode> {
    let name = &named.name;
    let core = named.core(config, redactor, &format!("/worktree restore {}", named.environment.work)).await?;
    let restored = async {
        core.orchestrator.follow_move().await?;
        core.orchestrator.restore(named.environment.id, ACTOR).await
    };
    let restored = restored.await;
    end(core).await;
    Ok(match restored? {
        Restored::Back(back, notes) => {
            say(format_args!("restored  {name}: on branch {}, in {}", back.branch, back.path.display()));
            notes.into_iter().for_each(say);
            ExitCode::SUCCESS
        }
        Restored::Before(back) => {
            say(format_args!("there     {name}: it was brought back before, in {}", back.path.display()));
            ExitCode::SUCCESS
        }
        Restored::Occupied(environment) => {
            let work = &environment.work;
            say(match environment.state {
                EnvironmentState::Removing => {
                    format!("kept      {name}: {work} is still being removed; `env show` says what holds it up")
                }
                _ => format!("kept      {name}: there is another worktree for {work} by now; remove that one first"),
            });
            say("Nothing was changed.");
            ExitCode::FAILURE
        }
        Restored::NeverRemoved => {
            say(format_args!("kept      {name}: there is nothing left to bring back, or it is back already"));
            say("Nothing was changed.");
            ExitCode::FAILURE
        }
    })
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
