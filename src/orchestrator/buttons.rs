//! The buttons below check runs: what a press asks for is done by the same verbs as what is written, for whoever may ask.
//!
//! A press that comes twice does nothing more: a run ends once, is asked for again once, and its worktree goes once.

use super::{
    Orchestrator, StepError,
    commands::Wanted,
    floods::ignore_flood,
    intake::{Handled, SWITCHED_OFF, done, ignored},
    lanes::Place,
    sweep::Asked,
};
use crate::command::grammar::{self, Request};
use crate::decide::admit::Admission;
use crate::decide::flood::Heed;
use crate::model::*;
use crate::reply::{self, check, staged};

/// A run, and where it was asked for.
pub(super) type Known = (Codebase, Conversation, Run);

impl Orchestrator {
    pub(super) async fn pressed(
        &self,
        delivery: &Delivery,
        press: &Press,
        place: &mut Place,
    ) -> Result<Handled, StepError> {
        let (codebase, conversation, run) = match self.run_pressed(press).await? {
            Ok(known) => known,
            Err(why) => return ignored(why),
        };
        // What it takes to write the same.
        let request = match press.button {
            Button::Stop => grammar::parse("/stop"),
            Button::Retry => Request::Agent(run.request.text.clone()),
            Button::CleanUp => grammar::parse("/worktree remove"),
        };
        let needs = self.needs(&request);
        match self.heed(delivery, (press.repository.id, &press.by), delivery.received_at, &request, &needs) {
            Heed::Hear => {}
            Heed::Tell | Heed::Ignore => return ignore_flood(&press.by),
        }
        let permission = self.permission_for(&codebase, &press.by, &needs).await?;
        match self.admission(codebase.mode, &conversation, &request, &press.by, permission).await? {
            Admission::Off => ignored(SWITCHED_OFF),
            Admission::Staged => {
                let slug = &self.identity().slug;
                self.answer(delivery, &codebase, &conversation, &staged::button(&codebase.name, slug)).await?;
                done("the repository is staged")
            }
            Admission::Refuse => self.refuse(&codebase, &conversation, &press.by, &needs).await,
            Admission::TooMany => self.too_many(&codebase, &conversation).await,
            Admission::Welcome => match press.button {
                Button::Stop => match self.stop_run(run.id, &press.by.login).await? {
                    true => done(format!("run {} is to stop", run.id)),
                    false => done(format!("run {} was over already", run.id)),
                },
                Button::Retry => self.retry(delivery, &codebase, &conversation, run, &press.by).await,
                Button::CleanUp => {
                    place.step_aside().await?;
                    self.clean_up(delivery, &codebase, &conversation, &run, &press.by).await
                }
            },
        }
    }

    /// The run that a press is about, unless it counts for nothing, whoever made it up.
    pub(super) async fn run_pressed(&self, press: &Press) -> Result<Result<Known, &'static str>, StepError> {
        let identity = self.identity();
        if press.by.is_bot || press.by.id == identity.bot.id {
            return Ok(Err("it was pressed by a bot"));
        }
        if press.app != identity.app_id {
            return Ok(Err("it is the check run of another App"));
        }
        let run = self.store().load_run(press.run).await?;
        let known = self.store().find_codebase_by_github(press.repository.id).await?;
        let (Some(run), Some(codebase)) = (run, known) else {
            return Ok(Err("its run is not known"));
        };
        if run.codebase != codebase.id {
            return Ok(Err("its run is of another repository"));
        }
        let conversation = self.store().load_conversation(run.conversation).await?;
        let codebase = self.codebase_of(&press.repository).await?;
        Ok(conversation.map(|conversation| (codebase, conversation, run)).ok_or("its thread is not known any more"))
    }

    /// The same request once more, by whoever pressed. A press on a run that was asked for again already is spent, unless nothing
    /// began: such a run has no button of its own.
    async fn retry(
        &self,
        delivery: &Delivery,
        codebase: &Codebase,
        conversation: &Conversation,
        run: Run,
        by: &Person,
    ) -> Result<Handled, StepError> {
        let same = self.store().runs_of_message(conversation.id, &run.request.source).await?;
        let is_spent = |later: &Run| {
            let began = !later.state.is_final() || later.outcome.pull_head.is_some();
            later.id > run.id && later.delivery != delivery.id && began
        };
        if same.iter().any(is_spent) {
            return done("it was asked for again before");
        }
        let live = self.store().live_run_of(conversation.id).await?.filter(|live| live.delivery != delivery.id);
        if !run.state.is_final() || live.is_some() {
            self.answer(delivery, codebase, conversation, &check::at_work()).await?;
            return done("not asked for again: a run of this thread is live");
        }
        if self.is_taken_back(codebase, &run.request.source).await? {
            self.answer(delivery, codebase, conversation, &check::taken_back()).await?;
            return done("not asked for again: the message has been deleted since");
        }
        let request = RunRequest { requester: by.clone(), ..run.request };
        self.queue(delivery, codebase, conversation, request).await
    }

    /// The worktree of the run, as by `/worktree remove` in its thread.
    async fn clean_up(
        &self,
        delivery: &Delivery,
        codebase: &Codebase,
        conversation: &Conversation,
        run: &Run,
        by: &Person,
    ) -> Result<Handled, StepError> {
        let asked = Asked { delivery, thread: conversation.id };
        let wanted = Wanted { name: None, force: false, dry_run: false, trigger: Trigger::Button };
        // As it is by now.
        let bound = self.store().load_conversation(conversation.id).await?.and_then(|thread| thread.environment);
        let is_its_own = run.environment.is_some() && run.environment == bound;
        let text = match is_its_own || !self.removed_before(delivery).await?.is_empty() {
            true => self.remove_by_name(asked, codebase, conversation, wanted, by).await?,
            false => check::no_worktree(),
        };
        self.answer(delivery, codebase, conversation, &text).await?;
        done("answered the button `Clean up`")
    }

    async fn answer(
        &self,
        delivery: &Delivery,
        codebase: &Codebase,
        conversation: &Conversation,
        text: &str,
    ) -> Result<(), StepError> {
        let key = format!("answer/{}", delivery.id);
        self.comment(key.clone(), codebase, conversation, reply::commands::answer(text, &key)).await
    }
}
