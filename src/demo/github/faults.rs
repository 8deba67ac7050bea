//! Things that go wrong on demand: a test says what, for which requests and how often. Without rules, nothing goes wrong.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// Whether a path begins so, or is that very one where a `$` ends it.
fn fits(path: &str, prefix: &str) -> bool {
    prefix.strip_suffix('$').map_or_else(|| path.starts_with(prefix), |whole| path == whole)
}

/// How a request goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers with this status and does nothing.
    Status(u16),
    /// 403 with `Retry-After`, as for too many writes in a short time; nothing is done.
    SecondaryLimit { retry_after: u64 },
    /// 429 with `Retry-After`; nothing is done.
    TooManyRequests { retry_after: u64 },
    /// 403 as when the hour's requests are used up; the next hour begins in so many seconds. Nothing is done.
    PrimaryLimit { reset: u64 },
    /// A page for people where JSON was due; nothing is done.
    Html { status: u16 },
    /// No body at all; nothing is done.
    Empty { status: u16 },
    /// JSON that ends too early, though it is as long as the answer says; nothing is done.
    Truncated { status: u16 },
    /// Does what was asked, then the connection breaks before the answer is complete.
    CutAfterApplying,
    /// Does what was asked, then stays silent so long before it answers 504.
    HangAfterApplying(Duration),
}

/// What becomes of a webhook delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryFate {
    Sent,
    /// Never reaches the receiver; the log shows a failed delivery, which can be redelivered.
    Dropped,
    /// Sent twice with the same id.
    Duplicated,
}

struct Rule {
    method: Option<String>,
    prefix: String,
    left: u32,
    fault: Fault,
}

/// A request that is held up at the door: it is handled, as things are then, once this is dropped.
pub struct Held {
    arrived: oneshot::Receiver<()>,
    _go_on: oneshot::Sender<()>,
}

impl Held {
    /// Until the request has come.
    pub async fn arrived(&mut self) {
        // An error: the rule was forgotten, and nothing will come.
        let _ = (&mut self.arrived).await;
    }
}

/// The other end of a [`Held`].
pub(super) struct Hold {
    method: String,
    prefix: String,
    arrived: oneshot::Sender<()>,
    go_on: oneshot::Receiver<()>,
}

impl Hold {
    pub(super) async fn wait(self) {
        let _ = self.arrived.send(());
        // The other end is only ever dropped.
        let _ = self.go_on.await;
    }
}

#[derive(Default)]
struct Rules {
    requests: Vec<Rule>,
    holds: Vec<Hold>,
    drop: u32,
    duplicate: u32,
}

/// The switches; shared by all handles of one stand-in.
#[derive(Default)]
pub struct Faults {
    rules: Mutex<Rules>,
}

impl Faults {
    /// The next `times` requests with this method (`None`: any) whose path starts with `prefix` go wrong. Paths of the
    /// API are written without `/api/v3` (`/repos/octo/hello/issues`), those of git as they are
    /// (`/octo/hello.git/git-receive-pack`), GraphQL's is `/api/graphql`. A `$` after it means this path and none below it.
    pub fn inject(&self, method: Option<&str>, prefix: &str, times: u32, fault: Fault) {
        let rule = Rule { method: method.map(str::to_owned), prefix: prefix.to_owned(), left: times, fault };
        self.rules().requests.push(rule);
    }

    /// Holds up the next request with this method whose path starts with `prefix` (as in [`Faults::inject`]).
    pub fn hold(&self, method: &str, prefix: &str) -> Held {
        let ((here, arrived), (_go_on, go_on)) = (oneshot::channel(), oneshot::channel());
        let (method, prefix) = (method.to_owned(), prefix.to_owned());
        self.rules().holds.push(Hold { method, prefix, arrived: here, go_on });
        Held { arrived, _go_on }
    }

    /// The next `count` webhook deliveries never arrive.
    pub fn drop_deliveries(&self, count: u32) {
        self.rules().drop += count;
    }

    /// The next `count` webhook deliveries arrive twice.
    pub fn duplicate_deliveries(&self, count: u32) {
        self.rules().duplicate += count;
    }

    /// Forgets every rule.
    pub fn clear(&self) {
        *self.rules() = Rules::default();
    }

    /// How often rules could still strike; a test may check that all its faults happened.
    pub fn left(&self) -> u32 {
        let rules = self.rules();
        rules.requests.iter().map(|rule| rule.left).sum::<u32>()
            + rules.holds.len() as u32
            + rules.drop
            + rules.duplicate
    }

    pub(super) fn holds(&self, method: &str, path: &str) -> Option<Hold> {
        let mut rules = self.rules();
        let held = |hold: &Hold| hold.method.eq_ignore_ascii_case(method) && fits(path, &hold.prefix);
        let place = rules.holds.iter().position(held)?;
        Some(rules.holds.remove(place))
    }

    pub(super) fn strike(&self, method: &str, path: &str) -> Option<Fault> {
        let mut rules = self.rules();
        let struck = |rule: &&mut Rule| {
            let method_fits = rule.method.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(method));
            rule.left > 0 && method_fits && fits(path, &rule.prefix)
        };
        let rule = rules.requests.iter_mut().find(struck)?;
        rule.left -= 1;
        Some(rule.fault.clone())
    }

    pub(super) fn fate(&self) -> DeliveryFate {
        let mut rules = self.rules();
        if rules.drop > 0 {
            rules.drop -= 1;
            return DeliveryFate::Dropped;
        }
        if rules.duplicate > 0 {
            rules.duplicate -= 1;
            return DeliveryFate::Duplicated;
        }
        DeliveryFate::Sent
    }

    fn rules(&self) -> std::sync::MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
