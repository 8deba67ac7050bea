//! GitHub as a platform: comments, reactions, check runs and pull requests.

use super::{Platform, SendError};
use crate::github::{GithubError, InstallationClient, NewPullRequest, Wire};
use crate::model::*;
use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// GitHub's clock and ours may differ by this much when a comment is looked for by its time.
const CLOCK_SLACK: Duration = Duration::from_secs(3600);
const MENDING_PAUSE: Duration = Duration::from_secs(300);

/// The repository that is written to.
#[derive(Clone, Copy)]
struct Place<'a> {
    id: RepositoryId,
    name: &'a RepoName,
}

#[derive(Clone, Copy)]
struct WantedComment<'a> {
    number: ThreadNumber,
    body: &'a str,
    marker: &'a str,
}

pub struct GithubPlatform {
    wire: Wire,
    /// Installations that were warned about: they do not let the App write check runs.
    without_checks: Mutex<HashSet<InstallationId>>,
}

impl GithubPlatform {
    pub fn new(wire: Wire) -> Self {
        Self { wire, without_checks: Mutex::default() }
    }

    /// A comment that exists once: what an earlier try left, or what GitHub does not know for a moment, is found again by its
    /// marker.
    async fn comment(
        &self,
        client: &InstallationClient,
        Place { id, name }: Place<'_>,
        row: &OutboxRow,
        comment: &WantedComment<'_>,
    ) -> Result<i64, GithubError> {
        let WantedComment { number, body, marker } = *comment;
        let mut may_be_there = row.attempts > 1;
        if let Some(known) = row.remote_id {
            match client.update_comment(id, name, CommentId(known), body).await {
                // Where somebody deleted it, it is said again; but GitHub also says so for a moment of one that is there.
                Err(GithubError::NotFound(_)) => may_be_there = true,
                outcome => return outcome.map(|()| known),
            }
        }
        if may_be_there {
            let (bot, since) = (self.wire.identity().bot.id, row.created_at.minus(CLOCK_SLACK));
            if let Some(found) = client.find_comment(id, name, number, marker, bot, since).await? {
                return client.update_comment(id, name, found, body).await.map(|()| found.0);
            }
        }
        client.create_comment(id, name, number, body).await.map(|comment| comment.0)
    }

    /// A check run that exists once on its commit, found again like a comment. Absent where the installation has not let the
    /// App write check runs (yet): the comment says the same.
    async fn check_run(
        &self,
        client: &InstallationClient,
        Place { id, name }: Place<'_>,
        row: &OutboxRow,
        check: &CheckRun,
    ) -> Result<Option<i64>, GithubError> {
        let mut may_be_there = row.attempts > 1;
        if let Some(known) = row.remote_id {
            match client.update_check_run(id, name, known, check).await {
                Err(GithubError::NotFound(_)) => may_be_there = true,
                outcome => return outcome.map(|()| Some(known)),
            }
        }
        let found = match may_be_there {
            true => client.find_check_run(id, name, check, self.wire.identity().app_id).await,
            false => Ok(None),
        };
        let made = match found {
            Ok(Some(found)) => client.update_check_run(id, name, found, check).await.map(|()| found),
            Ok(None) => client.create_check_run(id, name, check).await,
            Err(error) => Err(error),
        };
        match made {
            Err(GithubError::Forbidden(why)) if row.remote_id.is_none() => {
                self.warn_without_checks(client, name, &why);
                Ok(None)
            }
            made => made.map(Some),
        }
    }

    /// Once for each installation.
    fn warn_without_checks(&self, client: &InstallationClient, name: &RepoName, why: &str) {
        let mut warned = self.without_checks.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(client.id()) {
            tracing::warn!(
                installation.id = %client.id(), codebase.name = %name, error = why,
                "no check runs are shown: the installation does not let the App write them; its owner can accept that"
            );
        }
    }

    async fn pull_request(
        &self,
        client: &InstallationClient,
        place: Place<'_>,
        row: &OutboxRow,
        new: &NewPullRequest<'_>,
    ) -> Result<i64, GithubError> {
        if let Some(number) = row.remote_id {
            return Ok(number);
        }
        if let Some(made) = self.made_before(client, place, row.attempts, new).await? {
            return Ok(made);
        }
        let Place { id, name } = place;
        let created = match client.create_pull_request(id, name, new).await {
            // Not every plan has drafts, and GitHub says so in no other way; an open pull request is better than none.
            Err(GithubError::Invalid(_)) if new.draft => {
                client.create_pull_request(id, name, &NewPullRequest { draft: false, ..*new }).await
            }
            created => created,
        };
        match created {
            Ok(number) => Ok(number.0),
            // An earlier try whose answer was lost may be seen only now; asked as if this had been another try.
            Err(GithubError::Invalid(why)) => {
                let made = self.made_before(client, place, row.attempts + 1, new).await?;
                made.ok_or(GithubError::Invalid(why))
            }
            Err(error) => Err(error),
        }
    }

    /// The open pull request of this branch, whoever opened it; after a try without an answer also the one that this try
    /// opened and somebody has merged or closed meanwhile: nobody else writes this very text.
    async fn made_before(
        &self,
        client: &InstallationClient,
        Place { id, name }: Place<'_>,
        attempts: i64,
        new: &NewPullRequest<'_>,
    ) -> Result<Option<i64>, GithubError> {
        if attempts <= 1 {
            let open = client.find_open_pull_request(id, name, new.head).await?;
            return Ok(open.map(|pull| pull.number.0));
        }
        let pulls = client.find_pull_requests(id, name, new.head).await?;
        let open = pulls.iter().find(|pull| pull.state == ThreadState::Open);
        let ours = || pulls.iter().find(|pull| same_text(&pull.body, new.body));
        Ok(open.or_else(ours).map(|pull| pull.number.0))
    }
}

/// GitHub changes line ends, and takes space off the ends.
fn same_text(stored: &str, wanted: &str) -> bool {
    stored.trim().lines().eq(wanted.trim().lines())
}

#[async_trait::async_trait]
impl Platform for GithubPlatform {
    async fn send(&self, codebase: &Codebase, row: &OutboxRow) -> Result<Option<i64>, SendError> {
        let (id, installation) = match codebase.host {
            Host::Github { id, installation } => (id, installation),
            Host::Local { .. } => return Err(SendError::Permanent("the repository is not on GitHub".to_owned())),
        };
        let place = Place { id, name: &codebase.name };
        let Some(github) = self.wire.github() else {
            return Err(SendError::Permanent("no GitHub App is configured".to_owned()));
        };
        let client = github.installation(installation);
        // What a question met holds for what is written as well.
        if let Some(after) = client.limited_for() {
            let why = GithubError::RateLimited { retry_after: after }.to_string();
            return Err(SendError::Limited { after, why });
        }
        let sent = match &row.outgoing {
            Outgoing::React { number, source, content } => {
                match client.react(place.id, place.name, *number, source, content).await {
                    // The message was deleted meanwhile: there is nobody left to be told.
                    Err(GithubError::NotFound(_)) => Ok(None),
                    outcome => outcome.map(|()| None),
                }
            }
            Outgoing::Comment { number, body, marker } => {
                let wanted = WantedComment { number: *number, body, marker };
                self.comment(&client, place, row, &wanted).await.map(Some)
            }
            Outgoing::Message { .. } => {
                return Err(SendError::Permanent("the conversation is not on GitHub".to_owned()));
            }
            Outgoing::PullRequest { head, base, title, body, draft } => {
                let new = NewPullRequest { head, base, title, body, draft: *draft };
                self.pull_request(&client, place, row, &new).await.map(Some)
            }
            Outgoing::CheckRun(check) => self.check_run(&client, place, row, check).await,
        };
        sent.map_err(|error| match error {
            // Somebody has to mend the App's key or clock; what there is to say waits for it.
            GithubError::Unauthorized => SendError::Retry { after: Some(MENDING_PAUSE), why: error.to_string() },
            GithubError::RateLimited { retry_after } => {
                SendError::Limited { after: retry_after, why: error.to_string() }
            }
            // Where GitHub said that the App lost the repository, a refusal is the last word until it says something else.
            error
                if error.is_transient()
                    || error.is_refusal() && codebase.connected && codebase.reach != Reach::Archived =>
            {
                SendError::Retry { after: None, why: error.to_string() }
            }
            error => SendError::Permanent(error.to_string()),
        })
    }
}
