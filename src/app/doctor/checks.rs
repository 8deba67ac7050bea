//! What the panel's set-up page shows of the examination: the App with its permissions, git, and the agent.

use super::{Asked, Finding, agent, git, github};
use crate::app::credentials::load;
use crate::config::{Config, Flags};
use crate::model::Check;
use crate::store::Store;
use crate::web::Checks;
use futures::FutureExt;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// A page that loads itself again asks GitHub no more often.
const GOOD_FOR: Duration = Duration::from_secs(15);

/// Looks when it is asked, unless it has just done so.
pub(in crate::app) fn checks(config: &Config, store: &Store) -> Checks {
    let (config, store) = (Arc::new(config.clone()), store.clone());
    let last: Arc<Mutex<Option<(Instant, Vec<Check>)>>> = Arc::default();
    Box::new(move || {
        let (config, store, last) = (config.clone(), store.clone(), last.clone());
        async move {
            let mut last = last.lock().await;
            if let Some((at, checks)) = &*last
                && at.elapsed() < GOOD_FOR
            {
                return checks.clone();
            }
            let checks = look(&config, &store).await;
            *last = Some((Instant::now(), checks.clone()));
            checks
        }
        .boxed()
    })
}

async fn look(config: &Config, store: &Store) -> Vec<Check> {
    let asked = Asked::here(&Flags { home: Some(config.home.clone()), ..Flags::default() });
    let mut checks = match load(config, store).await {
        Ok(completed) => github(&completed, &asked).await.into_iter().map(Check::from).collect(),
        Err(error) => vec![Check { what: "github", fine: false, seen: error.to_string(), mend: None }],
    };
    let rest = [git(&asked).await].into_iter().chain(agent(config, &asked));
    checks.extend(rest.map(Check::from));
    checks
}

impl From<Finding> for Check {
    fn from(finding: Finding) -> Self {
        let Finding { what, fine, seen, mend } = finding;
        Check { what, fine, seen, mend: mend.map(|mend| mend.line().to_owned()) }
    }
}
