//! `treewarden import`: reads an older database, asks GitHub and the disk about what it names, has `decide` choose, and
//! writes what was chosen in one transaction. It can be run again and again: what is here already stays as it is.

mod gather;
mod report;

use super::lock::LockError;
use super::{
    StartError,
    commands::say,
    connection, credentials,
    look::{self, Taken},
    scratch::Scratch,
    wall_clock,
};
use crate::cli::Import as Asked;
use crate::config::Config;
use crate::decide::import::{self as choice, Choice, Waiting};
use crate::git::{Git, GitSettings};
use crate::github::Github;
use crate::model::*;
use crate::reply;
use crate::store::{Schema, Store, StoreError, load_old_data};
use crate::telemetry::Redactor;
use anyhow::{anyhow, bail};
use gather::Sources;
use report::{Report, TAKEN, Waits};
use secrecy::ExposeSecret;
use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

pub async fn import(config: &Config, redactor: &Redactor, asked: &Asked) -> anyhow::Result<ExitCode> {
    // What cannot be read is known before anything of ours is touched.
    let old = match &asked.from {
        Some(url) => Some(load_old_data(url).await?),
        None => None,
    };
    let scratch =
        Scratch::make("import").map_err(|(place, error)| anyhow!("{} cannot be made: {error}", place.display()))?;
    let taken = match asked.dry_run {
        true => None,
        false => Some(take(config).await?),
    };
    let store = open(config, asked.dry_run, &scratch).await?;
    let report = carry_out((config, redactor), asked, old.as_ref(), &store, &scratch).await;
    store.close().await;
    drop(taken);
    let report = report?;
    match asked.json {
        true => say(serde_json::to_string_pretty(&report)?),
        false => report.print(),
    }
    Ok(ExitCode::SUCCESS)
}

async fn take(config: &Config) -> anyhow::Result<Taken> {
    match look::take(config).await {
        Ok(taken) => Ok(taken),
        Err(StartError::Lock(error @ (LockError::Taken(_) | LockError::Shared(_)))) => {
            bail!("{error} Beside it, only `import --dry-run` can be run.")
        }
        Err(error) => Err(error.into()),
    }
}

/// A dry run works on what is there, or on an empty database that nobody sees.
async fn open(config: &Config, dry_run: bool, scratch: &Scratch) -> anyhow::Result<Store> {
    let url = config.database_url.expose_secret();
    if !dry_run {
        return Ok(migrated(url).await?.starting_in(config.mode));
    }
    match Store::schema(url).await.map_err(StartError::Store)? {
        Schema::Current => Ok(Store::open(url).await.map_err(StartError::Store)?),
        Schema::Missing => Ok(migrated(&format!("sqlite://{}", scratch.path().join("empty.db").display())).await?),
        Schema::Older { found, known } => bail!(
            "The database was made by an older Treewarden (schema {found}; this one uses {known}). Nothing was changed. \
             Stop the service and run `treewarden migrate`, then ask again."
        ),
        Schema::Newer { found, known } => Err(StartError::Store(StoreError::NewerSchema { found, known }).into()),
    }
}

async fn migrated(url: &str) -> Result<Store, StartError> {
    let store = Store::open(url).await?;
    if let Err(error) = store.migrate().await {
        store.close().await;
        return Err(error.into());
    }
    Ok(store)
}

async fn carry_out(
    (config, redactor): (&Config, &Redactor),
    asked: &Asked,
    old: Option<&OldData>,
    store: &Store,
    scratch: &Scratch,
) -> anyhow::Result<Report> {
    let sources = Sources {
        config,
        store,
        // Nothing is fetched here: wherever a repository came from, its worktrees can be looked at.
        git: Git::new(GitSettings {
            local_remotes: true,
            looks_only: asked.dry_run,
            ..GitSettings::new("git", scratch.path().join("git"))
        })?,
        github: github(config, redactor, store).await?,
        codebases: store.list_codebases().await?,
    };
    let mut report = Report { stage: old.map(|old| old.stage), dry_run: asked.dry_run, ..Report::default() };
    if let Some(old) = old {
        let facts = sources.facts(old, wall_clock()()).await?;
        let Choice { mut plan, notes, skipped, unclean } = choice::choose(old, &facts);
        for environment in plan.environments.iter_mut().filter(|environment| unclean.contains(&environment.path)) {
            environment.metadata.untold.push(reply::opening::adopted_unclean(&environment.branch));
        }
        let imported = store.import(&plan, !asked.dry_run, facts.now).await?;
        let not_locked = match asked.dry_run {
            true => BTreeMap::new(),
            false => lock_taken(&sources, &plan, &imported).await,
        };
        report.add(&plan, &notes, &skipped, &imported, &not_locked);
    }
    if asked.backfill {
        // Also what was imported just now.
        let sources = Sources { codebases: store.list_codebases().await?, ..sources };
        for waits in store.legacy_paths().await? {
            report.waiting.push(look_again(&sources, &waits, asked.dry_run).await?);
        }
    }
    Ok(report)
}

/// Locks the worktrees of environments that were taken as ours are. Answers with those that could not be, and why.
async fn lock_taken(sources: &Sources<'_>, plan: &ImportPlan, imported: &Imported) -> BTreeMap<PathBuf, String> {
    let mut not_locked = BTreeMap::new();
    for (environment, became) in plan.environments.iter().zip(&imported.environments) {
        if *became == Import::Taken
            && let Err(why) = sources.claim(environment).await
        {
            not_locked.insert(environment.path.clone(), why.to_string());
        }
    }
    not_locked
}

async fn github(config: &Config, redactor: &Redactor, store: &Store) -> anyhow::Result<Option<Github>> {
    let at = credentials::load(config, store, redactor).await?.github;
    Ok(at.app.as_ref().map(|app| connection::client(&at, app)).transpose()?)
}

/// Makes a path its conversation's environment, as a first use would; keeps one that is in doubt, and forgets one that can
/// never become an environment.
async fn look_again(sources: &Sources<'_>, waits: &LegacyPath, dry_run: bool) -> anyhow::Result<Waits> {
    let (store, now) = (sources.store, wall_clock()());
    let forgotten = async |about: String, why: choice::Skip| -> anyhow::Result<Waits> {
        let why = reply::import::sentence(&why);
        if !dry_run {
            store.clear_legacy(&waits.key).await?;
            store.append_audit("cli", "import.forgotten", &waits.key, &why, now).await?;
        }
        Ok(Waits { about, outcome: "forgotten", note: Some(why) })
    };
    let Some((id, path)) = &waits.known else {
        return forgotten(waits.key.clone(), choice::Skip::Column("path")).await;
    };
    let about = path.to_string_lossy().into_owned();
    let kept = |note: String| Ok(Waits { about: about.clone(), outcome: "kept", note: Some(note) });
    let place = sources.place(&about, std::iter::empty()).await;
    match choice::waiting(sources.waits(*id).await?.as_ref(), &about, &place) {
        Waiting::Hopeless(why) => forgotten(about, why).await,
        Waiting::Doubtful(why) => kept(reply::import::plain(&why)),
        Waiting::Ready(mut environment, unclean) => {
            if unclean {
                environment.metadata.untold.push(reply::opening::adopted_unclean(&environment.branch));
            }
            let settle = async |keep| store.settle_legacy(*id, &environment, keep, now).await;
            let mut became = settle(false).await?;
            // A worktree is locked for a row that is not refused.
            if !dry_run && became == Import::Taken {
                if let Err(why) = sources.claim(&environment).await {
                    return kept(reply::import::plain(&why.to_string()));
                }
                became = settle(true).await?;
            }
            match became {
                Import::InTheWay(what) => kept(reply::import::sentence(&choice::Skip::InTheWay(what))),
                Import::Dangling => kept(reply::import::sentence(&choice::Skip::NoCodebase)),
                Import::Taken | Import::Present => Ok(Waits { about, outcome: TAKEN, note: None }),
            }
        }
    }
}
