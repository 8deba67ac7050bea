//! What is said on this machine: how it comes in, and how it is handled. From there on it goes the way of every message.
//!
//! Whoever may read the service's home may say what they like here: the web room lets nobody else in.

use super::{
    Orchestrator, StepError, commands,
    intake::{Handled, answer_key, done, ignored, is_stop},
    lanes::Place,
};
use crate::command::{grammar, mention};
use crate::decide::admit::Admission;
use crate::git::GitError;
use crate::model::*;
use crate::platform::local;
use crate::reply::{delivery, not_begun, not_taken_up, staged};
use crate::store::{NewDelivery, NewLocalCodebase, NewLocalMessage, NewNamedThread, StoreError};
use crate::telemetry::field::EFFECT;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A conversation as it is just now.
pub struct SeenConversation {
    pub codebase: Option<RepoName>,
    pub state: ThreadState,
    /// Something is under way that will be told here.
    pub busy: bool,
    pub messages: Vec<LocalMessage>,
}

/// Why a message is not taken. Each is a sentence for the person; nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    #[error(
        "{0} is not a repository that Treewarden knows. One on this machine is named by its absolute path, one on GitHub as \
         owner/name"
    )]
    UnknownCodebase(String),
    #[error(
        "there is no git repository at {path} that can be worked on: {why}. Name another one by its path as `codebase` (`treewarden say`: `--codebase PATH`, or go there)",
        path = .path.display()
    )]
    NoRepository { path: PathBuf, why: String },
    #[error("there is no conversation {0}")]
    UnknownConversation(ThreadName),
    #[error(
        "there is no conversation {0} yet: name a repository to begin it with as `codebase` (`treewarden say`: `--codebase`)"
    )]
    NothingToBeginWith(ThreadName),
    #[error("the conversation {name} is about {codebase}; another repository needs another conversation")]
    OtherCodebase { name: ThreadName, codebase: RepoName },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("it could not be written down: {0}")]
    Unwritable(#[from] local::BadMessage),
}

/// What a message names. Nothing is written down of a new one before it is the conversation's.
enum Named {
    Known(Codebase),
    New(NewLocalCodebase),
}

impl Named {
    fn name(self) -> RepoName {
        match self {
            Named::Known(known) => known.name,
            Named::New(new) => new.name,
        }
    }
}

impl Orchestrator {
    /// A message as a delivery. `codebase` is a name or an absolute path, and may be left out when the conversation is known;
    /// `id` makes it the same message when it comes again.
    pub async fn message_from_here(
        &self,
        name: ThreadName,
        codebase: Option<&str>,
        text: String,
        id: Option<&str>,
    ) -> Result<NewDelivery, NotTaken> {
        let known = self.store().find_named_thread(PlatformKind::Local, &name).await?;
        let named = match codebase {
            Some(named) => Some(self.codebase_called(named).await?),
            None => None,
        };
        let codebase = match (known.map(|known| known.codebase), named) {
            (None, None) => return Err(NotTaken::NothingToBeginWith(name)),
            (None, Some(named)) => {
                let codebase = match named {
                    Named::Known(known) => known.id,
                    Named::New(new) => self.store().upsert_local_codebase(new, self.now()).await?.id,
                };
                // From now on the conversation is known, also to what is said before this is handled.
                let thread = LocalThread { codebase, name: name.clone() };
                self.begun(&thread, &text).await?.codebase
            }
            (Some(codebase), None) => codebase,
            (Some(codebase), Some(named)) => {
                if !matches!(&named, Named::Known(known) if known.id == codebase) {
                    let own = self.store().load_codebase(codebase).await?;
                    let codebase = own.map_or_else(|| named.name(), |own| own.name);
                    return Err(NotTaken::OtherCodebase { name, codebase });
                }
                codebase
            }
        };
        let guid = match id {
            Some(id) => {
                let both = Sha256::new().chain_update(name.as_str()).chain_update([0]).chain_update(id).finalize();
                format!("local-{}", &hex::encode(both)[..32])
            }
            None => format!("local-{}", Uuid::now_v7()),
        };
        let out_of_turn = is_stop(&self.without_mention(&text));
        let event = LocalEvent::Said { thread: LocalThread { codebase, name }, text, at: self.now() };
        self.delivery_from_here(&event, guid, out_of_turn)
    }

    /// Whether it is answered at once, whatever else is under way.
    pub fn is_command_here(&self, text: &str) -> bool {
        !matches!(grammar::parse(&self.without_mention(text)), grammar::Request::Agent(_))
    }

    /// Nobody else is spoken to here, but people are used to saying whom they mean.
    fn without_mention(&self, text: &str) -> String {
        mention::find(text, &self.identity().slug).unwrap_or_else(|| text.to_owned())
    }

    /// The end of a conversation as a delivery.
    pub async fn closing_from_here(&self, name: ThreadName) -> Result<NewDelivery, NotTaken> {
        let Some(known) = self.store().find_named_thread(PlatformKind::Local, &name).await? else {
            return Err(NotTaken::UnknownConversation(name));
        };
        let event = LocalEvent::Closed { thread: LocalThread { codebase: known.codebase, name } };
        self.delivery_from_here(&event, format!("local-{}", Uuid::now_v7()), false)
    }

    /// What was written in a conversation after a number. `None`: there is no such conversation.
    pub async fn look_at_conversation(
        &self,
        name: &ThreadName,
        after: i64,
        most: u32,
    ) -> Result<Option<SeenConversation>, StoreError> {
        let known = self.store().find_named_thread(PlatformKind::Local, name).await?;
        let key = local::conversation_key(name);
        // First, so that what was under way and is over by now has left its message.
        let activity = self.store().local_activity(&key, known.as_ref().map(|known| known.id)).await?;
        let Some(known) = known else {
            // It may have been made just now.
            let comes =
                !activity.is_over() || self.store().find_named_thread(PlatformKind::Local, name).await?.is_some();
            let waits = SeenConversation { codebase: None, state: ThreadState::Open, busy: true, messages: Vec::new() };
            return Ok(comes.then_some(waits));
        };
        let codebase = self.store().load_codebase(known.codebase).await?;
        let messages = self.store().local_messages(known.id, after, most).await?;
        let busy = !activity.is_over();
        Ok(Some(SeenConversation {
            codebase: codebase.map(|codebase| codebase.name),
            state: known.state,
            busy,
            messages,
        }))
    }

    fn delivery_from_here(&self, event: &LocalEvent, guid: String, out_of_turn: bool) -> Result<NewDelivery, NotTaken> {
        Ok(NewDelivery {
            event: local::EVENT.to_owned(),
            conversation_key: Some(local::conversation_key(&event.thread().name)),
            out_of_turn,
            body: local::body_of(event)?,
            // What makes it the same is its id, not its words: those may be said again.
            body_key: guid.clone(),
            guid,
            ignored_because: None,
            at: self.now(),
        })
    }

    /// By name, or by the path of a repository on this machine or of any worktree of it.
    async fn codebase_called(&self, called: &str) -> Result<Named, NotTaken> {
        if called.starts_with('/') {
            return self.codebase_at(Path::new(called)).await;
        }
        let known = match called.parse() {
            Ok(name) => self.store().find_codebase(&name).await?,
            Err(_) => None,
        };
        known.map(Named::Known).ok_or_else(|| NotTaken::UnknownCodebase(called.to_owned()))
    }

    /// A worktree of ours is its codebase's; everything else is a codebase of its own, met here for the first time or again.
    async fn codebase_at(&self, path: &Path) -> Result<Named, NotTaken> {
        let not_here = |error: GitError| NotTaken::NoRepository { path: path.to_owned(), why: error.to_string() };
        let main = self.parts().git.main_repository(path).await.map_err(not_here)?;
        for codebase in self.store().list_codebases().await? {
            let own = self.repository_path(&codebase);
            if own.canonicalize().is_ok_and(|own| own == main) {
                return Ok(Named::Known(codebase));
            }
        }
        let known = self.store().find_codebase_by_path(&main).await?;
        let new = || NewLocalCodebase { name: RepoName::of_directory(&main), path: main.clone(), default_branch: None };
        Ok(known.map_or_else(|| Named::New(new()), Named::Known))
    }

    pub(super) async fn happened_here(
        &self,
        delivery: &Delivery,
        event: LocalEvent,
        place: &mut Place,
    ) -> Result<Handled, StepError> {
        match event {
            LocalEvent::Said { thread, text, at } => self.said(delivery, &thread, text, at, place).await,
            LocalEvent::Closed { thread } => self.closed_here(delivery, &thread, place).await,
        }
    }

    async fn said(
        &self,
        delivery: &Delivery,
        thread: &LocalThread,
        text: String,
        at: Timestamp,
        place: &mut Place,
    ) -> Result<Handled, StepError> {
        let (codebase, conversation) = self.thread_here(thread, &text).await?;
        if codebase.id != conversation.codebase {
            return ignored("the conversation began about another repository meanwhile");
        }
        let message = NewLocalMessage {
            id: LocalMessageId(delivery.id.0),
            conversation: conversation.id,
            author: Some(LOCAL_PERSON.to_owned()),
            answers: None,
            body: self.redact(&text),
        };
        self.store().write_local_message(&message, self.now()).await?;
        tracing::debug!(target: EFFECT, { conversation.id = %conversation.id }, "message shown");
        let text = self.without_mention(&text);
        let request = grammar::parse(&text);
        let goes_on = match &request {
            grammar::Request::Agent(_) => true,
            grammar::Request::Command(_, command) => commands::ties(command),
            grammar::Request::Unknown { .. } => false,
        };
        if goes_on && conversation.state != ThreadState::Open {
            self.store().set_conversation_state(conversation.id, ThreadState::Open, None, self.now()).await?;
            self.audit_within(codebase.id, &thread.name, LOCAL_PERSON, "thread.reopened", "").await;
        }
        let person = Person { id: UserId(0), login: LOCAL_PERSON.to_owned(), is_bot: false };
        // Whoever reads the home of the service may do everything that it may.
        let admission = self.admission(codebase.mode, &conversation, &request, &person, Permission::Admin).await?;
        match admission {
            // Whoever speaks here runs the service, and waits for an answer.
            Admission::Off => {
                let key = answer_key(delivery, &conversation, &MessageSource::Local);
                self.comment(key.clone(), &codebase, &conversation, staged::off_here(&key)).await?;
                ignored("the repository is switched off")
            }
            Admission::Refuse => {
                let key = answer_key(delivery, &conversation, &MessageSource::Local);
                let body = not_taken_up::refusal_here(&key);
                self.comment(key, &codebase, &conversation, body).await?;
                ignored("the settings leave this to people with a login")
            }
            Admission::TooMany => self.too_many(&codebase, &conversation).await,
            Admission::Welcome | Admission::Staged => {
                let asked = RunRequest {
                    requester: person,
                    text,
                    source: MessageSource::Local,
                    url: String::new(),
                    written_at: Some(at),
                    review: None,
                };
                if admission == Admission::Staged {
                    return Box::pin(self.foretell(delivery, &codebase, &conversation, &asked, &request, place)).await;
                }
                self.welcome(delivery, &codebase, &conversation, asked, request, place).await
            }
        }
    }

    /// The thread with its codebase, made by the first thing that is said in it.
    pub(super) async fn thread_here(
        &self,
        thread: &LocalThread,
        text: &str,
    ) -> Result<(Codebase, Conversation), StepError> {
        let codebase = self.store().load_codebase(thread.codebase).await?;
        let codebase = codebase.ok_or_else(|| StepError::Refused(not_begun::thread_unknown()))?;
        Ok((codebase, self.begun(thread, text).await?))
    }

    async fn begun(&self, thread: &LocalThread, text: &str) -> Result<Conversation, StoreError> {
        let new = NewNamedThread {
            platform: PlatformKind::Local,
            codebase: thread.codebase,
            name: thread.name.clone(),
            title: delivery::title_of(&self.redact(text)),
        };
        self.store().upsert_named_thread(new, self.now()).await
    }

    /// What was said is forgotten; its worktree goes by the rules of every closed thread, and what is said about that stays.
    async fn closed_here(
        &self,
        delivery: &Delivery,
        thread: &LocalThread,
        place: &mut Place,
    ) -> Result<Handled, StepError> {
        let Some(conversation) = self.store().find_named_thread(PlatformKind::Local, &thread.name).await? else {
            return ignored("there is no such conversation");
        };
        // A second try must not take back what the first one said.
        if delivery.attempts <= 1 || conversation.state == ThreadState::Open {
            self.store().forget_local_messages(conversation.id).await?;
        }
        self.store().set_conversation_state(conversation.id, ThreadState::Closed, None, self.now()).await?;
        tracing::debug!(target: EFFECT, { conversation.id = %conversation.id }, "thread closed");
        self.audit_within(conversation.codebase, &thread.name, LOCAL_PERSON, "thread.closed", "").await;
        place.step_aside().await?;
        done(self.close_conversation(conversation.id).await?)
    }
}
