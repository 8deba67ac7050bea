//! Whether what GitHub has for the service gets here: its deliveries, and by git what is in a repository. It is looked at where
//! nothing is wrong with the App.

use super::{Finding, Scratch, fine, wrong};
use crate::app::connection::client;
use crate::app::doctor::mend::open;
use crate::config::Config;
use crate::git::{Git, GitError, GitSettings};
use crate::store::{Reachable, Store};
use secrecy::ExposeSecret;

/// Of a service whose App is connected. A database that cannot be asked has a line of its own.
pub(super) async fn look(config: &Config) -> Vec<Finding> {
    let url = config.database_url.expose_secret();
    let arrived = Store::has_deliveries(url).await.ok().map(|has| match has {
        true => fine("deliveries", "what GitHub tells comes in"),
        false => fine("deliveries", "nothing has come from GitHub yet; installing the App makes it tell something"),
    });
    let reachable = Store::some_reachable(url).await.ok().flatten();
    let read = match &reachable {
        Some(repository) => read(config, repository).await,
        None => None,
    };
    arrived.into_iter().chain(read).collect()
}

/// By the same token that a fetch has.
async fn read(config: &Config, repository: &Reachable) -> Option<Finding> {
    let app = config.github.app.as_ref()?;
    let github = client(&config.github, app).ok()?;
    let name = &repository.name;
    let page = format!("{}/{name}", config.github.web_url);
    let refused = |why: String| wrong("git", format!("{name} is not read by git: {why}"), open(&page));
    let credential = match github.installation(repository.installation).git_credential(repository.id, false).await {
        Ok(credential) => credential,
        Err(error) => return Some(refused(error.to_string())),
    };
    // That there is no place for it is said where git is looked at.
    let scratch = Scratch::make("doctor").ok()?;
    let asked = async {
        let proxy = config.github.proxy.clone();
        let git = Git::new(GitSettings { proxy, ..GitSettings::new("git", scratch.path().join("git")) })?;
        let there = git.repository(scratch.path().join("asked.git"));
        there.ensure(&github.clone_url(name)).await?;
        there.remote_head(Some(&credential)).await
    };
    let outcome: Result<_, GitError> = asked.await;
    Some(match outcome {
        Ok(_) => fine("git", format!("{name} is read with a token of its own")),
        Err(error) => refused(error.to_string()),
    })
}
