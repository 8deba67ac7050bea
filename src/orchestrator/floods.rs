//! How many messages each person writes, counted in memory: a start forgets it.

use super::{
    Orchestrator, StepError,
    intake::{Handled, ignored, is_stop_request},
};
use crate::command::grammar::Request;
use crate::decide::flood::{FloodFacts, Heed, MOST_MESSAGES, heed};
use crate::model::*;
use crate::reply::not_taken_up;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Minutes in which so long nothing more was counted are forgotten.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Of one person in one repository, in one minute since 1970.
type Minute = (RepositoryId, UserId, i64);

#[derive(Default)]
pub(super) struct Floods {
    counted: Mutex<HashMap<Minute, (u32, Timestamp)>>,
}

impl Floods {
    /// Counts one more. Answers with how many there are.
    fn count(&self, minute: Minute, now: Timestamp) -> u32 {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|_, (_, last)| now.since(*last) < REMEMBERED);
        let (number, last) = counted.entry(minute).or_insert((0, now));
        *last = now;
        *number += 1;
        *number
    }
}

impl Orchestrator {
    /// Whether a message (or a press) that was written then is taken up, or its author writes too many of them. Nobody is asked. By when
    /// it was written: what comes late, after the service was down, comes all at once.
    pub(super) fn heed(
        &self,
        delivery: &Delivery,
        (repository, author): (RepositoryId, &Person),
        written: Timestamp,
        request: &Request,
        needs: &Needs,
    ) -> Heed {
        // It was taken up before.
        if delivery.tries > 1 {
            return Heed::Hear;
        }
        let may_ask = needs.met_by(author, self.permission_known(repository, author.id));
        let stops = is_stop_request(request);
        let minute = (repository, author.id, minute_of(written));
        let nth = if may_ask && stops { 0 } else { self.inner.floods.count(minute, self.now()) };
        heed(FloodFacts { nth, may_ask, stops })
    }

    pub(super) async fn tell_of_flood(&self, message: &Message, written: Timestamp) -> Result<Handled, StepError> {
        let (codebase, conversation) = self.thread(&message.thread).await?;
        let author = &message.author;
        let key = format!("flood/{}/{}/{}", conversation.id, author.id, minute_of(written));
        let body = not_taken_up::too_many_messages(&author.login, MOST_MESSAGES, &key);
        self.comment(key, &codebase, &conversation, body).await?;
        ignore_flood(author)
    }
}

pub(super) fn ignore_flood(author: &Person) -> Result<Handled, StepError> {
    ignored(format!("more than {MOST_MESSAGES} messages of {} within a minute", author.login))
}

fn minute_of(moment: Timestamp) -> i64 {
    moment.unix() / 60
}
