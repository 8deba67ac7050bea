//! GitHub as a platform: comments, reactions and pull requests.

use super::{Platform, SendError};
use crate::github::{AppIdentity, Github, GithubError, InstallationClient, NewPullRequest};
use crate::model::*;

pub struct GithubPlatform {
    github: Github,
    identity: AppIdentity,
}

impl GithubPlatform {
    pub fn new(github: Github, identity: AppIdentity) -> Self {
        Self { github, identity }
    }

    /// A comment that exists once: an earlier try without an answer is found again by its marker.
    async fn comment(
        &self,
        client: &InstallationClient,
        codebase: &Codebase,
        row: &OutboxRow,
        number: ThreadNumber,
        body: &str,
        marker: &str,
    ) -> Result<i64, GithubError> {
        let (id, name) = (codebase.github_id, &codebase.name);
        let mut known = row.remote_id.map(CommentId);
        if known.is_none() && row.attempts > 1 {
            known = client.find_comment(id, name, number, marker, self.identity.bot.id).await?;
        }
        if let Some(comment) = known {
            match client.update_comment(id, name, comment, body).await {
                // Somebody deleted it: say it again.
                Err(GithubError::NotFound(_)) => {}
                outcome => return outcome.map(|()| comment.0),
            }
        }
        client.create_comment(id, name, number, body).await.map(|comment| comment.0)
    }

    async fn pull_request(
        &self,
        client: &InstallationClient,
        codebase: &Codebase,
        row: &OutboxRow,
        new: &NewPullRequest<'_>,
    ) -> Result<i64, GithubError> {
        if let Some(number) = row.remote_id {
            return Ok(number);
        }
        let (id, name) = (codebase.github_id, &codebase.name);
        if let Some(open) = client.find_open_pull_request(id, name, new.head).await? {
            return Ok(open.number.0);
        }
        client.create_pull_request(id, name, new).await.map(|number| number.0)
    }
}

#[async_trait::async_trait]
impl Platform for GithubPlatform {
    fn kind(&self) -> PlatformKind {
        PlatformKind::Github
    }

    async fn send(&self, codebase: &Codebase, row: &OutboxRow) -> Result<Option<i64>, SendError> {
        let client = self.github.installation(codebase.installation);
        let sent = match &row.outgoing {
            Outgoing::React { number, source, content } => {
                client.react(codebase.github_id, &codebase.name, *number, source, content).await.map(|()| None)
            }
            Outgoing::Comment { number, body, marker } => {
                self.comment(&client, codebase, row, *number, body, marker).await.map(Some)
            }
            Outgoing::PullRequest { head, base, title, body, draft } => {
                let new = NewPullRequest { head, base, title, body, draft: *draft };
                self.pull_request(&client, codebase, row, &new).await.map(Some)
            }
        };
        sent.map_err(|error| match error.is_transient() {
            true => SendError::Retry { after: error.retry_after(), why: error.to_string() },
            false => SendError::Permanent(error.to_string()),
        })
    }
}
