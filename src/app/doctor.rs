//! `treewarden doctor`: one line for each thing that has to be right, and for what is not, the one command that mends it.

use crate::config::{Config, Flags, Sandbox};
use crate::git::{Git, GitSettings};
use crate::github::{Github, GithubSettings};
use crate::store::Store;
use secrecy::ExposeSecret;
use serde::Serialize;
use std::{path::Path, process::ExitCode};

/// One line of the examination.
#[derive(Serialize)]
struct Finding {
    what: &'static str,
    fine: bool,
    /// What was seen.
    seen: String,
    /// The command that mends it; empty when there is nothing to mend.
    #[serde(skip_serializing_if = "String::is_empty")]
    mend: String,
}

fn fine(what: &'static str, seen: impl Into<String>) -> Finding {
    Finding { what, fine: true, seen: seen.into(), mend: String::new() }
}

fn wrong(what: &'static str, seen: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { what, fine: false, seen: seen.into(), mend: mend.into() }
}

/// The oldest git that has everything used here (`merge-tree --write-tree`).
const OLDEST_GIT: (u32, u32) = (2, 38);

pub async fn examine(flags: &Flags, json: bool) -> anyhow::Result<ExitCode> {
    let mut findings = Vec::new();
    match Config::from_process(flags) {
        Err(problems) => {
            findings.extend(
                problems
                    .0
                    .iter()
                    .map(|problem| wrong("settings", problem.to_string(), format!("export {}=…", problem.setting))),
            );
        }
        Ok(config) => {
            findings.push(fine("settings", "every value is understood"));
            findings.push(home(&config));
            findings.push(git(&config.home).await);
            findings.push(database(&config).await);
            findings.push(github(&config).await);
            findings.push(agent(&config));
            findings.push(sandbox(&config));
        }
    }
    let healthy = findings.iter().all(|finding| finding.fine);
    if json {
        println!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        for finding in &findings {
            let sign = if finding.fine { "✔" } else { "✘" };
            println!("{sign} {:<9} {}", finding.what, finding.seen);
            if !finding.mend.is_empty() {
                println!("            mend: {}", finding.mend);
            }
        }
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn home(config: &Config) -> Finding {
    match config.prepare_home() {
        Ok(()) => fine("home", format!("{} is ours alone", config.home.display())),
        Err(error) => wrong("home", error.to_string(), format!("chmod 700 {}", config.home.display())),
    }
}

async fn git(home: &Path) -> Finding {
    const INSTALL: &str = "apt-get install git (2.38 or newer)";
    let version = match Git::new(GitSettings::new("git", home.join("git"))) {
        Ok(git) => git.version().await,
        Err(error) => Err(error),
    };
    match version {
        Err(error) => wrong("git", error.to_string(), INSTALL),
        Ok(version) => {
            let mut numbers = version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u32>().ok());
            let found = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
            match found >= OLDEST_GIT {
                true => fine("git", version),
                false => wrong("git", format!("{version} is too old"), INSTALL),
            }
        }
    }
}

async fn database(config: &Config) -> Finding {
    let checked = async {
        let store = Store::open(config.database_url.expose_secret()).await?;
        store.migrate().await?;
        store.ping().await
    };
    match checked.await {
        Ok(()) => fine("database", "answers, and has this version's schema"),
        Err(error) => {
            wrong("database", error.to_string(), "export DATABASE_URL=sqlite:///var/lib/treewarden/treewarden.db")
        }
    }
}

async fn github(config: &Config) -> Finding {
    let Some(app) = &config.github.app else {
        let mend = "export GITHUB_APP_ID=… GITHUB_APP_PRIVATE_KEY_FILE=… GITHUB_WEBHOOK_SECRET=…";
        return wrong("github", "no App is configured", mend);
    };
    let settings = GithubSettings {
        app_id: app.app_id,
        private_key_pem: app.private_key.clone(),
        api_url: config.github.api_url.clone(),
        web_url: config.github.web_url.clone(),
        timeout: None,
    };
    let identity = match Github::new(&settings) {
        Ok(github) => github.app().await,
        Err(error) => Err(error),
    };
    match identity {
        Ok(identity) => fine("github", format!("this is the App @{}", identity.slug)),
        Err(error) => wrong("github", error.to_string(), format!("curl -sS {}/zen", config.github.api_url)),
    }
}

fn agent(config: &Config) -> Finding {
    let Some(agent) = &config.agent else {
        return wrong("agent", "none is configured", "export TREEWARDEN_AGENT_COMMAND='<program> <arguments>'");
    };
    let program = &agent.argv[0];
    let path = agent.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.expose_secret().to_owned());
    let found = match program.contains('/') {
        true => Path::new(program).is_file(),
        false => path.unwrap_or_default().split(':').any(|dir| Path::new(dir).join(program).is_file()),
    };
    match found {
        true => fine("agent", format!("{program} is there")),
        false => wrong("agent", format!("{program} is not on PATH"), format!("command -v {program}")),
    }
}

fn sandbox(config: &Config) -> Finding {
    match config.sandbox {
        Sandbox::Off => fine("sandbox", "off, as written: agents run as the user of this service"),
        Sandbox::Strict | Sandbox::Basic if config.agent.is_none() => fine("sandbox", "not needed without an agent"),
        Sandbox::Strict | Sandbox::Basic => {
            let seen = "this version cannot confine agents; the service will not start with one";
            wrong("sandbox", seen, "export TREEWARDEN_SANDBOX=off")
        }
    }
}
