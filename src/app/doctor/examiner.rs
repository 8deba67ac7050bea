//! The examination for whoever asks the running service: its panel, and threads. It is made once a minute at most, however many
//! ask.

use super::{Asked, Finding, everything};
use crate::config::{Config, Flags};
use crate::model::{Check, Examination, Timestamp};
use crate::orchestrator::{Clock, Examine};
use crate::store::{Store, StoredApp};
use futures::FutureExt;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Mutex, task::JoinError};

const GOOD_FOR: Duration = Duration::from_secs(60);

struct Examiner {
    config: Config,
    store: Store,
    clock: Clock,
    last: Mutex<Option<Last>>,
}

struct Last {
    made: Instant,
    /// An App that was connected since is worth another look.
    app: Option<StoredApp>,
    found: Examination,
}

/// By the settings of the service, with the App that its database holds by then.
pub(in crate::app) fn examiner(config: &Config, store: &Store, clock: Clock) -> Examine {
    let (config, store) = (config.clone(), store.clone());
    let examiner = Arc::new(Examiner { config, store, clock, last: Mutex::default() });
    Arc::new(move || {
        let examiner = examiner.clone();
        // In a task of its own: whoever asked may go before it ends, and the next one wants it as well.
        let looking = examiner.clone();
        let task = tokio::spawn(async move { looking.found().await });
        async move { task.await.unwrap_or_else(|error| broken_off(&error, (examiner.clock)())) }.boxed()
    })
}

impl Examiner {
    async fn found(&self) -> Examination {
        let mut last = self.last.lock().await;
        // Of a database that does not answer, the examination tells.
        let app = self.store.load_app().await.ok().flatten();
        if let Some(last) = &*last
            && last.made.elapsed() < GOOD_FOR
            && last.app == app
        {
            return last.found.clone();
        }
        let asked = Asked::here(&Flags { home: Some(self.config.home.clone()), ..Flags::default() });
        let findings = Box::pin(everything(&self.config, &asked)).await;
        let found = Examination { at: (self.clock)(), checks: findings.into_iter().map(Check::from).collect() };
        *last = Some(Last { made: Instant::now(), app, found: found.clone() });
        found
    }
}

fn broken_off(error: &JoinError, at: Timestamp) -> Examination {
    tracing::error!(%error, "the examination broke off");
    let seen = "the look at the rest broke off; the log says why".to_owned();
    Examination { at, checks: vec![Check { what: "the rest", fine: false, seen, mend: None, account: None }] }
}

impl From<Finding> for Check {
    fn from(finding: Finding) -> Self {
        let Finding { what, fine, seen, mend, account } = finding;
        Check { what, fine, seen, mend: mend.map(|mend| mend.line().to_owned()), account }
    }
}
