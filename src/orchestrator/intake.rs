//! One delivery becomes what it leads to: a run, an answer, a removal, a changed row, or nothing with a reason.

use super::{
    Orchestrator, StepError, commands,
    floods::ignore_flood,
    lanes::Place,
    lease::{Here, holding},
    mode::asks,
    retry::{self, outlasting},
    workers::unwinding,
};
use crate::command::{grammar, mention};
use crate::decide::admit::{Admission, AdmitFacts, admit, is_heard, passed_over};
use crate::decide::authority::REQUESTS;
use crate::decide::flood::Heed;
use crate::github::{GithubError, payload};
use crate::model::*;
use crate::platform::local;
use crate::reply::{self, agent_text::parts, not_taken_up};
use crate::store::{DeliveryEnd, NewCodebase, NewConversation, NewRun};
use crate::telemetry::{field::EFFECT, metric};
use std::{iter, time::Duration};

pub(super) const NOT_MENTIONED: &str = "the bot is not mentioned";
const DELETED: &str = "the comment has been deleted since";
pub(super) const SWITCHED_OFF: &str = "the repository is switched off";
pub(super) const HANDLED_BEFORE: &str = "this message led to a run or an answer before";

/// Deliveries that are claimed together at most: writing it down costs the same for one as for all of them.
const TOGETHER: u32 = 16;
/// Runs counted by the loop breaker.
const RECENT: Duration = Duration::from_secs(600);

pub(super) enum Handled {
    Done(String),
    Ignored(String),
}

pub(super) fn done(note: impl Into<String>) -> Result<Handled, StepError> {
    Ok(Handled::Done(note.into()))
}

pub(super) fn ignored(reason: impl Into<String>) -> Result<Handled, StepError> {
    Ok(Handled::Ignored(reason.into()))
}

impl Orchestrator {
    /// Waits until it may be handled, and claims the next delivery. What comes along with it waits for its place once it is
    /// claimed. None when none is due, or the service stops.
    pub(super) async fn claim_next_deliveries(&self) -> Result<Vec<(Here<Delivery>, Option<Place>)>, StepError> {
        let Some(place) = self.inner.lanes.enter().await else { return Ok(Vec::new()) };
        let Some(_claiming) = self.claiming().await else { return Ok(Vec::new()) };
        let claimed = self.store().claim_deliveries(self.node(), self.now(), self.settings().lease, TOGETHER).await?;
        let places = iter::once(Some(place)).chain(iter::repeat_with(|| None));
        Ok(claimed.into_iter().map(|delivery| self.inner.deliveries_at_work.enter(delivery)).zip(places).collect())
    }

    /// Claims the next request to stop, whatever else waits.
    pub(super) async fn claim_next_stop(&self) -> Result<Option<(Here<Delivery>, Option<Place>)>, StepError> {
        let Some(place) = self.inner.lanes.enter_out_of_turn().await else { return Ok(None) };
        let Some(_claiming) = self.claiming().await else { return Ok(None) };
        let delivery = self.store().claim_delivery_out_of_turn(self.node(), self.now(), self.settings().lease).await?;
        Ok(delivery.map(|delivery| (self.inner.deliveries_at_work.enter(delivery), Some(place))))
    }

    /// Handles a claimed delivery, at its place if it has one already, and writes down how it ended. Dropping this future
    /// leaves it to the next start.
    pub(super) async fn take_in(&self, delivery: Here<Delivery>, place: Option<Place>) {
        if let Err(error) = self.handle_and_finish(&delivery, place).await {
            tracing::error!(delivery.guid = %delivery.guid, %error, "its end could not be written; it is repeated");
        }
        // The next one of its conversation is due now.
        self.delivery_arrived(delivery.out_of_turn);
    }

    async fn handle_and_finish(&self, delivery: &Delivery, place: Option<Place>) -> Result<(), StepError> {
        tracing::debug!(target: EFFECT, { delivery.guid = %delivery.guid }, "delivery claimed");
        let handled = match retry::may_be_handled(delivery) {
            true => holding!(
                self,
                unwinding(self.handle(delivery, place)),
                self.store().renew_delivery(delivery, self.now().plus(self.settings().lease))
            ),
            false => Err(StepError::Refused(not_taken_up::cut_short(delivery.tries - 1))),
        };
        let now = self.now();
        let (end, result) = match handled {
            Ok(Handled::Done(note)) => (DeliveryEnd::Done(note), "done"),
            Ok(Handled::Ignored(reason)) => (DeliveryEnd::Ignored(reason), "ignored"),
            Err(StepError::Stopping) => (DeliveryEnd::GivenBack, "given back"),
            Err(error) => match retry::delivery_again(delivery, &error, now) {
                Some(at) => (DeliveryEnd::Retry { reason: error.to_string(), at }, "retried"),
                None => {
                    tracing::error!(delivery.guid = %delivery.guid, %error, "delivery given up");
                    // It may be what could not be handled that cannot be told of either.
                    if retry::may_be_told(delivery)
                        && let Err(error) = unwinding(self.tell_given_up(delivery, &error)).await
                    {
                        tracing::error!(delivery.guid = %delivery.guid, %error, "the person could not be told");
                    }
                    (DeliveryEnd::Failed(error.to_string()), "failed")
                }
            },
        };
        metrics::counter!(metric::DELIVERIES, "result" => result).increment(1);
        let Delivery { guid, event, .. } = delivery;
        tracing::info!(target: EFFECT, { delivery.guid = %guid, delivery.event = %event, result }, "delivery handled");
        outlasting!(self.inbox().finish(delivery, end.clone(), now))?;
        tracing::debug!(target: EFFECT, { delivery.guid = %guid }, "delivery finished");
        Ok(())
    }

    /// The place is free again before the end is written down.
    async fn handle(&self, delivery: &Delivery, place: Option<Place>) -> Result<Handled, StepError> {
        let place = &mut match place {
            Some(place) => place,
            None => {
                let place = self.inner.lanes.enter_for(delivery).await.ok_or(StepError::Stopping)?;
                // What was claimed long before is not begun either, once nothing is claimed any more.
                self.claiming().await.map(drop).ok_or(StepError::Stopping)?;
                place
            }
        };
        let event = match understand(delivery) {
            Ok(event) => event,
            Err(why) => return ignored(why),
        };
        match event {
            Event::Local(event) => self.happened_here(delivery, event, place).await,
            Event::Nothing(reason) => ignored(reason),
            Event::Written(message) => {
                let (review, at) = (message.source.review(), message.written_at.unwrap_or(delivery.received_at));
                self.written(delivery, message, at, review, place).await
            }
            Event::Edited { message, previous, editor } => {
                // An edit counts only when it newly addresses the bot, and only by the author.
                let slug = &self.identity().slug;
                let before = previous.as_deref().is_none_or(|text| mention::find(text, slug).is_some());
                if before || editor.id != message.author.id {
                    return ignored("the edit does not newly mention the bot, or is by somebody else");
                }
                // A run that has not begun reads the review as it is then; any other answered it without this.
                let run = match (message.source.review(), self.known_thread(&message.thread).await?) {
                    (Some(review), Some((_, conversation))) => {
                        self.store().run_of_review(conversation.id, review).await?
                    }
                    _ => None,
                };
                let review = run.filter(|run| run.state == RunState::Queued).and(message.source.review());
                self.written(delivery, message, delivery.received_at, review, place).await
            }
            Event::Deleted { thread, source, author } => {
                // What programs write leads to nothing, and some delete much of it.
                if author.is_some_and(|author| author.is_bot) {
                    return ignored("it was written by a bot");
                }
                self.store().note_deleted(thread.repository.id, &source, self.now()).await?;
                self.deleted(delivery, &thread, &source).await
            }
            Event::Closed { thread, merged_head, by } => self.closed(&thread, merged_head, &by, place).await,
            Event::Reopened { thread, by } => self.reopened(&thread, &by).await,
            Event::Transferred { thread, to, by } => self.transferred(&thread, to, &by, place).await,
            Event::HeadMoved { thread, before, head, by } => self.head_moved(&thread, before, &head, &by).await,
            Event::Pressed(press) => Box::pin(self.pressed(delivery, &press, place)).await,
            Event::Renamed { repository } => {
                self.codebase_of(&repository).await?;
                done(format!("the repository is called {} now", repository.name))
            }
            Event::Installation { installation, access } => self.access_changed(installation, access).await,
        }
    }

    pub(super) async fn codebase_of(&self, repository: &RepositoryRef) -> Result<Codebase, StepError> {
        let new = NewCodebase {
            github_id: repository.id,
            installation: repository.installation,
            name: self.present_name(repository.id, repository.installation, &repository.name).await?,
            default_branch: repository.default_branch.clone(),
            reached: false,
        };
        Ok(self.store().upsert_codebase(new, self.now()).await?)
    }

    /// What a delivery calls a repository, unless another one is known by that name: one of the two lost it, and GitHub says
    /// what this one is called now. A delivery may be older than a rename.
    pub(super) async fn present_name(
        &self,
        repository: RepositoryId,
        installation: InstallationId,
        said: &RepoName,
    ) -> Result<RepoName, StepError> {
        let known = self.store().find_codebase(said).await?;
        let is_anothers = known
            .is_some_and(|known| known.connected && matches!(known.host, Host::Github { id, .. } if id != repository));
        match self.github().filter(|_| is_anothers) {
            Some(github) => Ok(github.installation(installation).repository(repository, said).await?.name),
            None => Ok(said.clone()),
        }
    }

    pub(super) async fn thread(&self, thread: &ThreadRef) -> Result<(Codebase, Conversation), StepError> {
        let codebase = self.codebase_of(&thread.repository).await?;
        let new = NewConversation {
            platform: PlatformKind::Github,
            codebase: codebase.id,
            kind: thread.kind,
            number: thread.number,
            title: self.redact(&thread.title),
            state: thread.state,
        };
        let conversation = self.store().upsert_conversation(new, self.now()).await?;
        Ok((codebase, conversation))
    }

    /// A thread that the bot has to do with: it met the bot before, or its work has a worktree. Nothing is made for others.
    pub(super) async fn known_thread(&self, thread: &ThreadRef) -> Result<Option<(Codebase, Conversation)>, StepError> {
        let Some(codebase) = self.store().find_codebase_by_github(thread.repository.id).await? else { return Ok(None) };
        let work = Work::of_thread(&ThreadId::Numbered { kind: thread.kind, number: thread.number });
        let met = self.store().find_conversation(codebase.id, thread.number).await?.is_some();
        if !met && self.store().find_live_environment(codebase.id, &work).await?.is_none() {
            return Ok(None);
        }
        Ok(Some(self.thread(thread).await?))
    }

    /// `at`: when it was written, or edited.
    async fn written(
        &self,
        delivery: &Delivery,
        message: Message,
        at: Timestamp,
        review: Option<CommentId>,
        place: &mut Place,
    ) -> Result<Handled, StepError> {
        let identity = self.identity();
        let Some(text) = mention::find(&message.body, &identity.slug) else {
            return ignored(NOT_MENTIONED);
        };
        // Bots are turned away before GitHub is asked or a row is made.
        if let Some(why) = self.passed_over(&message) {
            return ignored(why);
        }
        let request = grammar::parse(&text);
        let needs = self.needs(&request);
        let known = self.store().find_codebase_by_github(message.thread.repository.id).await?;
        if known.is_some_and(|codebase| !is_heard(codebase.mode, asks(&request))) {
            return ignored(SWITCHED_OFF);
        }
        let who = (message.thread.repository.id, &message.author);
        match self.heed(delivery, who, at, &request, &needs) {
            Heed::Hear => {}
            Heed::Tell => return self.tell_of_flood(&message, at).await,
            Heed::Ignore => return ignore_flood(&message.author),
        }
        // Its deletion may have arrived first, or be the reason why it was late.
        if self.store().was_deleted(message.thread.repository.id, &message.source).await? {
            return ignored(DELETED);
        }
        let (codebase, conversation) = self.thread(&message.thread).await?;
        if self.was_handled(delivery, &conversation, &message.source).await? {
            return ignored(HANDLED_BEFORE);
        }
        let permission = self.permission_for(&codebase, &message.author, &needs).await?;
        match self.admission(codebase.mode, &conversation, &request, &message.author, permission).await? {
            Admission::Off => ignored(SWITCHED_OFF),
            Admission::Refuse => {
                self.react(delivery, &codebase, &message, "confused").await?;
                self.refuse(&codebase, &conversation, &message.author, &needs).await
            }
            Admission::TooMany => self.too_many(&codebase, &conversation).await,
            admission @ (Admission::Welcome | Admission::Staged) => {
                self.react(delivery, &codebase, &message, "eyes").await?;
                let Message { author, source, url, written_at, .. } = message;
                let asked = RunRequest { requester: author, text, source, url, written_at, review };
                if admission == Admission::Staged {
                    return Box::pin(self.foretell(delivery, &codebase, &conversation, &asked, &request, place)).await;
                }
                self.welcome(delivery, &codebase, &conversation, asked, request, place).await
            }
        }
    }

    /// One explanation for each person and thread.
    pub(super) async fn refuse(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
        person: &Person,
        needs: &Needs,
    ) -> Result<Handled, StepError> {
        let key = format!("refusal/{}/{}", conversation.id, person.id);
        let body = not_taken_up::refusal(&person.login, needs, &key);
        self.comment(key, codebase, conversation, body).await?;
        ignored(format!("{} may not: this needs {}", person.login, not_taken_up::needed(needs)))
    }

    /// Whether the message that asks was deleted.
    pub(super) async fn is_taken_back(&self, codebase: &Codebase, source: &MessageSource) -> Result<bool, StepError> {
        match codebase.host {
            Host::Github { id, .. } => Ok(self.store().was_deleted(id, source).await?),
            Host::Local { .. } => Ok(false),
        }
    }

    /// Whether a message led to something already: it does so once, however often it is delivered or edited. A run of this
    /// very delivery is looked after further; an answer is the last that comes of a command.
    pub(super) async fn was_handled(
        &self,
        delivery: &Delivery,
        conversation: &Conversation,
        source: &MessageSource,
    ) -> Result<bool, StepError> {
        let key = answer_key(delivery, conversation, source);
        let runs = match source {
            // Its delivery is the message.
            MessageSource::Local => Vec::new(),
            MessageSource::ThreadBody
            | MessageSource::IssueComment { .. }
            | MessageSource::Review { .. }
            | MessageSource::ReviewComment { .. } => self.store().runs_of_message(conversation.id, source).await?,
        };
        Ok(runs.iter().any(|run| run.delivery != delivery.id)
            || self.store().load_outgoing_by_key(&key).await?.is_some())
    }

    pub(super) async fn admission(
        &self,
        mode: CodebaseMode,
        conversation: &Conversation,
        request: &grammar::Request,
        person: &Person,
        permission: Permission,
    ) -> Result<Admission, StepError> {
        Ok(admit(&AdmitFacts {
            person,
            permission,
            needs: self.needs(request),
            // Commands start no run, and `/stop` is what ends a loop.
            recent_runs: match request {
                grammar::Request::Agent(_) => {
                    self.store().recent_runs(conversation.id, self.now().minus(RECENT)).await?
                }
                grammar::Request::Command(..) | grammar::Request::Unknown { .. } => 0,
            },
            mode,
            asks: asks(request),
        }))
    }

    pub(super) fn needs(&self, request: &grammar::Request) -> Needs {
        let (name, usual) = match request {
            grammar::Request::Agent(_) => (REQUESTS, Permission::Write),
            grammar::Request::Command(entry, _) => (entry.name, entry.needs),
            grammar::Request::Unknown { .. } => (grammar::HELP.name, grammar::HELP.needs),
        };
        self.settings().authority.needs(name, usual)
    }

    pub(super) async fn too_many(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
    ) -> Result<Handled, StepError> {
        let window = self.now().unix() / RECENT.as_secs() as i64;
        let key = format!("loop/{}/{window}", conversation.id);
        self.comment(key.clone(), codebase, conversation, not_taken_up::too_many_runs(&key)).await?;
        ignored("too many runs in this thread within ten minutes")
    }

    fn passed_over(&self, message: &Message) -> Option<&'static str> {
        passed_over(&message.author, &self.identity().bot, reply::carries_marker(&message.body))
    }

    /// What somebody who may ask asked for.
    pub(super) async fn welcome(
        &self,
        delivery: &Delivery,
        codebase: &Codebase,
        conversation: &Conversation,
        asked: RunRequest,
        request: grammar::Request,
        place: &mut Place,
    ) -> Result<Handled, StepError> {
        let key = answer_key(delivery, conversation, &asked.source);
        match request {
            grammar::Request::Unknown { given, hint } => {
                let body = reply::commands::unknown_command(&given, &hint, &key);
                self.comment(key, codebase, conversation, body).await?;
                match hint {
                    grammar::Hint::Usage(_) => done("told how a command is used"),
                    grammar::Hint::None | grammar::Hint::Nearest(_) => done("answered an unknown command"),
                }
            }
            grammar::Request::Command(entry, command) => {
                if commands::takes_long(&command) {
                    place.step_aside().await?;
                }
                // As it is now, however long it waited for its place, and after a crash between the answer and the end of
                // its delivery.
                if self.was_handled(delivery, conversation, &asked.source).await? {
                    return done(HANDLED_BEFORE);
                }
                if commands::changes(&command) && self.store().is_stopped(delivery.id).await? {
                    return done(format!("{} was stopped before it began", entry.name));
                }
                if self.is_taken_back(codebase, &asked.source).await? {
                    return ignored(DELETED);
                }
                let mut text = self.command(delivery, &command, codebase, conversation, &asked.requester).await?;
                if grammar::says_more(&asked.text) {
                    text = format!("{}\n\n{}", text.trim(), reply::commands::nothing_else(entry.name));
                }
                self.comment(key.clone(), codebase, conversation, reply::commands::answer(&text, &key)).await?;
                done(format!("answered {}", entry.name))
            }
            grammar::Request::Agent(text) => {
                if let Some(review) = asked.review
                    && let Some(run) = self.store().run_of_review(conversation.id, review).await?
                    && run.delivery != delivery.id
                    && run.request.requester.id == asked.requester.id
                {
                    return done(format!("run {} answers the whole review", run.id));
                }
                // Here, so that no page, commit or pull request can forget it.
                let request = RunRequest { text: self.redact(&text), ..asked };
                self.queue(delivery, codebase, conversation, request).await
            }
        }
    }

    /// A run of this delivery waits in the queue, and its thread is told.
    pub(super) async fn queue(
        &self,
        delivery: &Delivery,
        codebase: &Codebase,
        conversation: &Conversation,
        request: RunRequest,
    ) -> Result<Handled, StepError> {
        let new = NewRun { codebase: codebase.id, conversation: conversation.id, delivery: delivery.id, request };
        let run = self.store().insert_run(new, self.now()).await?;
        tracing::debug!(target: EFFECT, { run.id = %run.id }, "run queued");
        // Asked after the run is there: a request to stop marks this delivery before it looks for runs, and a deletion is
        // written down, so that one of the two sees the other.
        if self.store().is_stopped(delivery.id).await? || self.is_taken_back(codebase, &run.request.source).await? {
            self.stop_run(run.id, "treewarden").await?;
            return done(format!("run {}, stopped before it began", run.id));
        }
        if run.state == RunState::Queued {
            self.publish(&run, None).await?;
        }
        let subject = format!("{}#{}", codebase.name, conversation.thread);
        self.audit(&run.request.requester.login, "run.requested", &subject, &run.id.to_string()).await;
        self.inner.wake.runs.notify_one();
        done(format!("run {}", run.id))
    }

    async fn react(
        &self,
        delivery: &Delivery,
        codebase: &Codebase,
        message: &Message,
        content: &str,
    ) -> Result<(), StepError> {
        let outgoing = Outgoing::React {
            number: message.thread.number,
            source: message.source.clone(),
            content: content.to_owned(),
        };
        self.say(format!("react/{}/{content}", delivery.id), codebase.id, None, outgoing).await?;
        Ok(())
    }

    /// One comment in the conversation's thread, recognised by `key`, or several where it is too long for one.
    pub(super) async fn comment(
        &self,
        key: String,
        codebase: &Codebase,
        conversation: &Conversation,
        body: String,
    ) -> Result<(), StepError> {
        // Before it is parted: half a secret is none that anybody knows.
        let parts = parts::of_comment(&key, self.cleaned(&body)).into_iter().map(|(key, body)| {
            let outgoing = Outgoing::text(conversation, body, reply::marker(&key));
            self.new_outgoing(key, codebase.id, Some(conversation.id), outgoing)
        });
        Ok(self.ask_to_send_all(&parts.collect::<Vec<_>>()).await?)
    }

    /// Tells the thread that its delivery could not be handled, when it was addressed to the bot at all.
    async fn tell_given_up(&self, delivery: &Delivery, error: &StepError) -> Result<(), StepError> {
        let (thread, message) = match understand(delivery) {
            Ok(Event::Written(message) | Event::Edited { message, .. }) => {
                let named = mention::find(&message.body, &self.identity().slug).is_some();
                if !named || self.passed_over(&message).is_some() {
                    return Ok(());
                }
                (self.thread(&message.thread).await?, Some(message))
            }
            Ok(Event::Local(LocalEvent::Said { thread, text, .. })) => (self.thread_here(&thread, &text).await?, None),
            Ok(Event::Pressed(press)) => match self.run_pressed(&press).await? {
                Ok((codebase, conversation, _)) => ((codebase, conversation), None),
                Err(_) => return Ok(()),
            },
            _ => return Ok(()),
        };
        let (codebase, conversation) = thread;
        if codebase.mode == CodebaseMode::Off {
            return Ok(());
        }
        match (error, message) {
            (StepError::PermissionUnknown { error, .. }, Some(message)) => {
                self.permission_stays_unknown(delivery, &codebase, &conversation, &message, error).await
            }
            (error, _) => {
                let key = format!("answer/{}", delivery.id);
                let body = not_taken_up::gave_up(&error.to_string(), &key);
                self.comment(key, &codebase, &conversation, body).await
            }
        }
    }

    /// One explanation per person and thread, as for those who may not: it may be a stranger who asks again and again.
    async fn permission_stays_unknown(
        &self,
        delivery: &Delivery,
        codebase: &Codebase,
        conversation: &Conversation,
        message: &Message,
        error: &GithubError,
    ) -> Result<(), StepError> {
        self.react(delivery, codebase, message, "confused").await?;
        let key = format!("unknown/{}/{}", conversation.id, message.author.id);
        let body = not_taken_up::permission_unknown(&message.author.login, &error.to_string(), &key);
        self.comment(key, codebase, conversation, body).await
    }
}

/// A delivery in our words, whichever platform it is from.
fn understand(delivery: &Delivery) -> Result<Event, String> {
    match delivery.event.as_str() {
        local::EVENT => local::understand(&delivery.body).map_err(|error| error.to_string()),
        event => payload::understand(event, &delivery.body).map_err(|error| error.to_string()),
    }
}

/// The outbox key of the answer to a message, which has one, whatever delivery brings it. On this machine the delivery is
/// the message.
pub(super) fn answer_key(delivery: &Delivery, conversation: &Conversation, source: &MessageSource) -> String {
    let thread = conversation.id;
    match source {
        MessageSource::Local => format!("answer/{}", delivery.id),
        MessageSource::ThreadBody => format!("answer/{thread}/text"),
        MessageSource::IssueComment { id } => format!("answer/{thread}/comment/{id}"),
        MessageSource::Review { id } => format!("answer/{thread}/review/{id}"),
        MessageSource::ReviewComment { id, .. } => format!("answer/{thread}/review-comment/{id}"),
    }
}

pub(super) fn is_stop(text: &str) -> bool {
    is_stop_request(&grammar::parse(text))
}

pub(super) fn is_stop_request(request: &grammar::Request) -> bool {
    matches!(request, grammar::Request::Command(_, grammar::Command::Stop))
}
