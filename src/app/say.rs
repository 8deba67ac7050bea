//! `treewarden say`: hands a message to the running service over loopback, and shows what comes of it.
//!
//! Progress goes to standard error, the answer to standard output, so that a script reads the answer only.

use super::{commands::say, door::Door, lock::HomeLock};
use crate::cli::Say;
use crate::config::Config;
use crate::model::terminal_text;
use anyhow::{Context, anyhow, bail};
use reqwest::{Client, RequestBuilder, StatusCode};
use secrecy::ExposeSecret;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{collections::BTreeMap, io, path::Path, process::ExitCode, time::Duration, time::Instant};
use uuid::Uuid;

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
const AGAIN: &str = "Ask again in a moment; a message that was taken is kept.";
/// About a message of which nobody knows whether it was taken.
const MAYBE_TAKEN: &str = "It may have been taken all the same: see whether the panel, or treewarden env list, shows its work \
                           before you say it again.";
/// How often a message is handed over when the answer to it is lost; its id makes it the same one.
const TRIES: u32 = 3;
/// How long it may take to look whether the worktree of a conversation goes.
const CLOSING: Duration = Duration::from_secs(20);
/// One request; the answer of an agent takes as many of them as it takes.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct Taken {
    /// Of the message.
    id: String,
    conversation: String,
    /// It is answered at once, whatever else is under way.
    command: bool,
}

#[derive(Deserialize)]
struct Seen {
    busy: bool,
    after: i64,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    id: String,
    author: String,
    answers: Option<String>,
    text: String,
    written: i64,
    run: Option<String>,
    handling: Option<String>,
}

struct Service {
    http: Client,
    door: Door,
}

pub async fn run(config: &Config, asked: &Say) -> anyhow::Result<ExitCode> {
    let door = open_door(&config.home).map_err(|why| anyhow!(why))?;
    let http = Client::builder().no_proxy().timeout(PATIENCE).redirect(reqwest::redirect::Policy::none()).build()?;
    let service = Service { http, door };
    if asked.close {
        let name = asked.conversation.as_deref().context("--close needs --conversation")?;
        let _: Value = service.answer(service.to(Client::delete).query(&[("conversation", name)]), AGAIN).await?;
        say(format_args!(
            "The conversation {name} is closed, and what was said can no longer be read in it. Its worktree goes when nothing \
             would be lost."
        ));
        for text in service.last_words(name).await? {
            say(terminal_text(text.trim_end()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let text = match asked.text.join(" ") {
        stdin if stdin == "-" => io::read_to_string(io::stdin()).context("standard input is not readable")?,
        text => text,
    };
    let message = json!({
        "id": Uuid::new_v4().to_string(),
        "text": text,
        "conversation": asked.conversation,
        "codebase": codebase(asked, service.knows(asked.conversation.as_deref()).await?)?,
    });
    let taken = service.hand_over(&message).await?;
    let Taken { id, conversation, command } = &taken;
    if asked.no_wait {
        say(conversation);
        return Ok(ExitCode::SUCCESS);
    }
    if asked.conversation.is_none() {
        eprintln!("Conversation {conversation}; go on with: treewarden say --conversation {conversation} \"…\"");
    }
    tokio::select! {
        answered = service.follow(conversation, id, !command) => answered,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            match command {
                true => eprintln!("Not waited for any more; the command is carried out. Its answer will be at /local/messages."),
                false => eprintln!(
                    "Not waited for any more; what was asked goes on. Its answer will be on the run's page in the panel, and \
                     at /local/messages. To end it: treewarden say --conversation {conversation} /stop"
                ),
            }
            Ok(ExitCode::from(INTERRUPTED))
        }
    }
}

/// What a shell expects of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// As the service understands it: a path is absolute, a name is a name. Without any, a new conversation is about the
/// repository of the current directory; one that is `known` has its own.
fn codebase(asked: &Say, known: bool) -> anyhow::Result<Option<String>> {
    let path = match &asked.codebase {
        None if known => return Ok(None),
        None => Path::new("."),
        Some(named) => {
            let path = Path::new(named);
            // `octo/hello` is a name unless something is there.
            if !named.starts_with(['/', '.', '~']) && !path.exists() {
                if !named.contains('/') {
                    bail!(
                        "There is no directory {named} here, and a repository on GitHub is named owner/name. Nothing was sent."
                    );
                }
                return Ok(Some(named.clone()));
            }
            path
        }
    };
    let path = std::path::absolute(path).context("the current directory is not readable")?;
    Ok(Some(path.to_str().context("the path of the repository is no text")?.to_owned()))
}

/// Of a service that runs: at the address of one that has ended, anybody may listen by now.
fn open_door(home: &Path) -> Result<Door, String> {
    let (door, runs, home) = (Door::read(home), HomeLock::is_held(home), home.display());
    match door {
        Ok(door) if runs => Ok(door),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("{home}/local.json cannot be read: {error}. Only the user of the service may speak to it."))
        }
        Err(_) if runs => Err(format!(
            "The service on {home} takes no messages of this machine, so nothing was sent. Start it again with \
             TREEWARDEN_LOCAL=on."
        )),
        Ok(_) | Err(_) => Err(format!(
            "No service runs on {home}, so nothing was sent. Start it with TREEWARDEN_LOCAL=on and an agent (see \"Without GitHub\" in the README). If it has \
             another home, name that with --home."
        )),
    }
}

/// The whole answer: one that breaks off is lost like one that never came.
async fn whole(request: RequestBuilder) -> reqwest::Result<(StatusCode, Vec<u8>)> {
    let answer = request.send().await?;
    Ok((answer.status(), answer.bytes().await?.to_vec()))
}

impl Service {
    fn to(&self, method: impl Fn(&Client, String) -> RequestBuilder) -> RequestBuilder {
        method(&self.http, format!("{}/local/messages", self.door.url)).bearer_auth(self.door.token.expose_secret())
    }

    /// Whether there is a conversation of that name.
    async fn knows(&self, conversation: Option<&str>) -> anyhow::Result<bool> {
        let Some(name) = conversation else { return Ok(false) };
        let asked = self.to(Client::get).query(&[("conversation", name)]).send().await;
        // What else is wrong comes to light with the message itself.
        Ok(asked.is_ok_and(|answer| answer.status() != StatusCode::NOT_FOUND))
    }

    /// What the service says about the worktree of a conversation that was closed: that it was kept, and why. Nothing while
    /// an agent is still at work in it.
    async fn last_words(&self, conversation: &str) -> anyhow::Result<Vec<String>> {
        let until = Instant::now() + CLOSING;
        while Instant::now() < until {
            let query = [("conversation", conversation), ("after", "0")];
            let seen: Seen = self.answer(self.to(Client::get).query(&query), AGAIN).await?;
            if !seen.busy {
                let own = seen.messages.into_iter().filter(|one| one.author == "treewarden");
                return Ok(own.map(|one| one.text).collect());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(Vec::new())
    }

    /// Says it again while the answer is lost. Where nobody listens, nothing was said.
    async fn hand_over(&self, message: &Value) -> anyhow::Result<Taken> {
        let request = || self.to(Client::post).json(message);
        let mut lost = false;
        for _ in 1..TRIES {
            match whole(request()).await {
                Ok((status, body)) => return self.understood(status, &body),
                Err(error) if error.is_connect() && !lost => break,
                Err(_) => lost = true,
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.answer(request(), if lost { MAYBE_TAKEN } else { AGAIN }).await
    }

    /// `advice`: what to do when nobody answers.
    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder, advice: &str) -> anyhow::Result<T> {
        let url = &self.door.url;
        let (status, body) = whole(request).await.map_err(|error| match error.is_connect() {
            true => anyhow!("Nothing answers at {url}: the service is just starting or stopping. {advice}"),
            false => anyhow!("The service at {url} did not answer: {error}. {advice}"),
        })?;
        self.understood(status, &body)
    }

    fn understood<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> anyhow::Result<T> {
        let url = &self.door.url;
        if status.is_success() {
            return serde_json::from_slice(body)
                .context("the service answered with something else; is it another version?");
        }
        let told: Value = serde_json::from_slice(body).unwrap_or_default();
        match (status, told["error"].as_str()) {
            (StatusCode::NOT_FOUND, Some(why)) if !why.starts_with("Nothing was done") => {
                bail!("The service at {url} takes no messages of this machine: start it with TREEWARDEN_LOCAL=on.")
            }
            (_, Some(why)) => bail!("{}", terminal_text(why)),
            (status, None) => bail!("The service at {url} refused ({status})."),
        }
    }

    /// Shows what the service says to the message, and what it says by itself from then on; until there is an answer, or,
    /// when it `waits` for an agent, nothing is under way any more.
    async fn follow(&self, conversation: &str, message: &str, waits: bool) -> anyhow::Result<ExitCode> {
        let stored = format!(
            "The message is stored: do not say it again. What had not begun, the next start begins; what had, it tells of in the \
             conversation. treewarden say --conversation {conversation} /status shows how it stands."
        );
        // In the order in which they came, as they were written last.
        let (mut said, mut order) = (BTreeMap::new(), Vec::new());
        let (mut after, mut mine, mut shown) = (0, None, String::new());
        loop {
            let query = [("conversation", conversation.to_owned()), ("after", after.to_string())];
            let seen: Seen = self.answer(self.to(Client::get).query(&query), &stored).await?;
            after = seen.after;
            for one in seen.messages {
                if one.id == message {
                    mine = Some(one.written);
                    continue;
                }
                let others = one.answers.as_deref().is_some_and(|answered| answered != message);
                if one.author != "treewarden" || mine.is_none() || others {
                    continue;
                }
                let text = terminal_text(&one.text);
                let progress = text.lines().next().unwrap_or_default().to_owned();
                if seen.busy && waits && progress != shown {
                    eprintln!("{progress}");
                    shown = progress;
                }
                if said.insert(one.id.clone(), text).is_none() {
                    order.push(one.id);
                }
            }
            if !seen.busy || (!waits && !order.is_empty()) {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let mine = mine.context("The conversation was closed before the answer could be read.")?;
        let well = self.went_well(conversation, (message, mine), waits, &stored).await?;
        for id in &order {
            say(said[id].trim_end());
        }
        Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Whether a message, written at a number, came to a good end: what is refused, or asks an agent and leads to no run, did
    /// not. An answer can be read a little before its message counts as handled.
    async fn went_well(
        &self,
        conversation: &str,
        (message, written): (&str, i64),
        waits: bool,
        advice: &str,
    ) -> anyhow::Result<bool> {
        let query = [("conversation", conversation.to_owned()), ("after", (written - 1).to_string())];
        loop {
            let seen: Seen = self.answer(self.to(Client::get).query(&query), advice).await?;
            let mine = seen.messages.into_iter().find(|one| one.id == message);
            let (run, handling) = mine.map_or((None, None), |mine| (mine.run, mine.handling));
            match handling.as_deref() {
                Some("received" | "claimed") => tokio::time::sleep(LOOK_AGAIN).await,
                Some("ignored" | "failed") => return Ok(false),
                _ => return Ok(run.map_or(!waits, |state| state == "succeeded")),
            }
        }
    }
}
