//! Which environment a name of the command line stands for.

use crate::model::*;
use crate::store::{EnvironmentFilter, Store};
use anyhow::anyhow;
use std::collections::BTreeSet;

/// By id, as `owner/name#issue-42` or with its branch after the `#`, or by a thread as `owner/name#42` or
/// `owner/name#<conversation>`; by its work alone where that is in one repository only. Live ones come before removed ones, of
/// which the newest counts.
pub(super) async fn foremost(store: &Store, name: &str) -> anyhow::Result<Environment> {
    let found = match used_by(store, name).await? {
        Some(used) => Some(used),
        None => {
            let called = called(store, name).await?;
            let live = called.iter().position(|environment| environment.state != EnvironmentState::Destroyed);
            called.into_iter().nth(live.unwrap_or(0))
        }
    };
    found.ok_or_else(|| none(name))
}

/// By the same names: the one that was removed last. One that only went missing left no receipt, and nothing to bring back.
pub(super) async fn removed_last(store: &Store, name: &str) -> anyhow::Result<Environment> {
    let called = called(store, name).await?;
    if called.is_empty() {
        return Err(none(name));
    }
    let mut removed = None;
    for environment in called.into_iter().filter(|one| one.state == EnvironmentState::Destroyed) {
        if store.receipt_of(environment.id).await?.is_some() {
            return Ok(environment);
        }
        removed = removed.or(Some(environment));
    }
    removed.ok_or_else(|| {
        anyhow!("{name} is there, and no earlier one of that name was removed: nothing is to be brought back. Nothing was changed.")
    })
}

fn none(name: &str) -> anyhow::Error {
    anyhow!("No environment is called {name}. `env list` shows the live ones by their names.")
}

async fn codebase(store: &Store, repository: &str) -> anyhow::Result<Codebase> {
    let codebase = match repository.parse::<RepoName>() {
        Ok(repository) => store.find_codebase(&repository).await?,
        Err(_) => None,
    };
    codebase.ok_or_else(|| {
        anyhow!(
            "No repository is called {repository}. It goes by owner/name, and one on this machine by _local/name; `env list` shows \
             the live environments with theirs."
        )
    })
}

/// That of the thread which the name stands for.
async fn used_by(store: &Store, name: &str) -> anyhow::Result<Option<Environment>> {
    let Some((repository, work)) = name.split_once('#') else { return Ok(None) };
    let codebase = codebase(store, repository).await?;
    let mut uses = None;
    if let Ok(number) = work.parse() {
        let thread = store.find_conversation(codebase.id, ThreadNumber(number)).await?;
        uses = thread.and_then(|thread| thread.environment);
    }
    if uses.is_none()
        && let Ok(name) = ThreadName::new(work)
        && let Some(thread) = store.find_named_thread(PlatformKind::Local, &name).await?
        && thread.codebase == codebase.id
    {
        uses = thread.environment;
    }
    match uses {
        Some(id) => Ok(store.load_environment(id).await?),
        None => Ok(None),
    }
}

/// All that are called so, of one repository, the newest first.
async fn called(store: &Store, name: &str) -> anyhow::Result<Vec<Environment>> {
    if let Ok(id) = name.parse() {
        return Ok(store.load_environment(id).await?.into_iter().collect());
    }
    let Some((repository, work)) = name.split_once('#') else {
        let filter = EnvironmentFilter { codebase: None, live_only: false, search: name.to_owned() };
        let mut called = store.list_environments(&filter, u32::MAX, 0).await?;
        called.retain(|one| one.work.to_string() == name || one.branch.as_str() == name);
        let codebases: BTreeSet<_> = called.iter().map(|one| one.codebase).collect();
        return match codebases.len() {
            0 | 1 => Ok(called),
            many => Err(anyhow!(
                "{many} repositories have an environment {name}: ask for owner/name#{name}, as `env list` shows the live ones."
            )),
        };
    };
    let codebase = codebase(store, repository).await?;
    let thread = work.parse().ok().map(ThreadNumber);
    let filter = EnvironmentFilter { codebase: Some(codebase.id), live_only: false, search: work.to_owned() };
    let mut called = store.list_environments(&filter, u32::MAX, 0).await?;
    let is_called = |one: &Environment| one.work.to_string() == work || one.branch.as_str() == work;
    called.retain(|one| is_called(one) || thread.is_some() && one.work.thread() == thread);
    Ok(called)
}
