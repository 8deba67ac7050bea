//! Whether a start would get the home and the directory of worktrees, looked at without taking either; and, beside a
//! service that runs, whether it runs with the settings that are looked at.

use super::super::{
    door::Door,
    lock::{HomeLock, LockError, Standing},
    look::Places,
};
use super::{Asked, Finding, fine, mend, wrong};
use crate::config::{Config, Origin};
use std::{io, net::TcpListener, path::Path};

/// The service and its directory of worktrees.
pub(super) async fn look(config: &Config, asked: &Asked) -> Vec<Finding> {
    // What is no directory, or cannot be looked into, is what is said about the home.
    let Ok(places) = Places::resolved(config) else { return Vec::new() };
    let home = places.home();
    let service = match HomeLock::look(&config.home, &config.worktree_base) {
        Ok(Standing::Free) => fine("service", "none runs on this home, or in its directory of worktrees"),
        Ok(Standing::Running) => {
            let others = other_settings(config, places.before().ok().flatten().as_deref());
            if let Some(finding) = started_otherwise(config, &others, asked) {
                // The worktrees are where that one has them.
                return vec![finding];
            }
            fine("service", format!("one runs on {}; nothing speaks against these being its settings", home.display()))
        }
        Err(error) => locked(&error, config, home, asked),
    };
    vec![service, worktrees(&places, config, asked).await]
}

fn locked(error: &LockError, config: &Config, home: &Path, asked: &Asked) -> Finding {
    let mend = match error {
        LockError::Shared(shared) => mend::apart(shared, config, home, asked),
        LockError::Unusable { path, error } if error.kind() == io::ErrorKind::InvalidData => mend::aside(path, asked),
        LockError::Unusable { path, .. } => mend::writable(path, asked),
        LockError::Taken(_) => mend::run(asked.again()),
    };
    wrong("service", error.to_string(), mend)
}

async fn worktrees(places: &Places, config: &Config, asked: &Asked) -> Finding {
    let base = &places.base;
    match places.look(config).await {
        Ok(()) if base.exists() => fine("worktrees", format!("{} is their directory", base.display())),
        Ok(()) => fine("worktrees", format!("{} is made by the first start", base.display())),
        Err(error) => wrong("worktrees", error.to_string(), mend::worktrees(&error, base, config, asked)),
    }
}

/// A setting of the service that runs, as far as it shows: what speaks for it, and its value.
struct Other {
    seen: String,
    variable: &'static str,
    value: String,
}

fn other_settings(config: &Config, before: Option<&Path>) -> Vec<Other> {
    let mut others = Vec::new();
    let door = Door::read(&config.home).ok();
    let address = door.as_ref().and_then(|door| door.url.strip_prefix("http://")).unwrap_or("<host>:<port>");
    let wanted = config.listen.to_string();
    // Any port is right where any will do.
    let seen = match TcpListener::bind(&wanted) {
        _ if config.listen.port == 0 => None,
        Ok(_) => Some(format!("nothing listens on {wanted}")),
        Err(_) if !listens_there(config) => Some(format!("it does not listen on {wanted}")),
        Err(_) => None,
    };
    if let Some(seen) = seen {
        others.push(Other { seen, variable: "TREEWARDEN_LISTEN", value: address.to_owned() });
    }
    let there = Door::exists(&config.home);
    if there != config.local {
        let (seen, value) = match there {
            true => ("it takes messages of this machine", "on"),
            false => ("it takes no messages of this machine", "off"),
        };
        others.push(Other { seen: seen.to_owned(), variable: "TREEWARDEN_LOCAL", value: value.to_owned() });
    }
    if let Some(before) = before {
        let value = before.display().to_string();
        others.push(Other { seen: format!("its worktrees are in {value}"), variable: "WORKTREE_BASE", value });
    }
    others
}

fn started_otherwise(config: &Config, others: &[Other], asked: &Asked) -> Option<Finding> {
    if others.is_empty() {
        return None;
    }
    let seen: Vec<&str> = others.iter().map(|other| &*other.seen).collect();
    let seen = format!(
        "what runs on {} has other settings than those looked at here, or is a command: {}. A start beside it is refused",
        config.home.display(),
        seen.join("; ")
    );
    let values: Vec<(&str, &str)> = others.iter().map(|other| (other.variable, &*other.value)).collect();
    Some(wrong("service", seen, asked.again_with(&values)))
}

/// Where every value that is not a default came from: another shell has other ones.
pub(super) fn looked_at(config: &Config) -> String {
    let of_environment = |origin: &Origin| *origin == Origin::Environment;
    let names: Vec<&str> =
        config.given.iter().filter(|(_, origin)| of_environment(origin)).map(|(name, _)| *name).collect();
    let file = match &config.file {
        Some(file) => file.display().to_string(),
        None => format!("no file ({} is not there)", config.home.join("treewarden.toml").display()),
    };
    let environment = match names.is_empty() {
        true => "nothing in this environment".to_owned(),
        false => format!("in this environment {}", names.join(", ")),
    };
    format!("looked at: {file}; {environment}")
}

/// Whether the service of this home is the one that listens where it is to; its door says where it does.
fn listens_there(config: &Config) -> bool {
    let port = |url: &str| url.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    HomeLock::is_held(&config.home)
        && Door::read(&config.home).map_or(true, |door| port(&door.url) == Some(config.listen.port))
}

/// Whether the service could listen where it is to.
pub(super) fn address(config: &Config, asked: &Asked) -> Finding {
    let mend = || mend::address(&config.listen, asked);
    let wanted = config.listen.to_string();
    match TcpListener::bind(&wanted) {
        Ok(_) => fine("address", format!("{wanted} can be listened on")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && listens_there(config) => {
            fine("address", format!("{wanted} is in use by the service, which runs on this home"))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let seen = format!(
                "{wanted} is in use by another program; a proxy that forwards to it has to be told of another port, too"
            );
            wrong("address", seen, mend())
        }
        Err(error) => wrong("address", format!("{wanted} cannot be listened on: {error}"), mend()),
    }
}
