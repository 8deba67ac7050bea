//! The settings of a repository: read from its default branch as last fetched, from nowhere else, and remembered, so that
//! the last good ones stay in force while the file is broken.

use super::{Orchestrator, StepError};
use crate::git::{Content, Repository};
use crate::model::*;
use crate::reply;
use crate::repo_settings::{self, MAX_BYTES};

impl Orchestrator {
    /// What is in force now. What was learned is written down; that a file is broken is said in the thread, once for each
    /// version of it.
    pub(super) async fn repo_settings(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        conversation: &Conversation,
    ) -> Result<RepoSettings, StepError> {
        let known = {
            // One after the other: what was read later is written later.
            let _turn = self.inner.repo_settings.lock().await;
            let before = self.store().load_repo_settings(codebase.id).await?;
            let now = self.look_up_settings(codebase, repository, before.as_ref()).await?;
            if before.unwrap_or_default() != now {
                tracing::info!(codebase.name = %codebase.name, settings.broken = now.problem.is_some(), "settings file read");
                self.store().save_repo_settings(codebase.id, &now, self.now()).await?;
            }
            now
        };
        if let (Some(file), Some(problem)) = (&known.file, &known.problem) {
            let key = format!("settings/{}/{file}", conversation.id);
            let body = reply::repo_settings::settings_broken(problem, &known.in_force, &key);
            let marker = crate::reply::marker(&key);
            let comment = Outgoing::text(conversation, body, marker);
            self.say(key, codebase.id, Some(conversation.id), comment).await?;
        }
        Ok(known.in_force)
    }

    /// What the file says, given what was known before. Changes nothing. A good file that was read before is not read
    /// again; a broken one is, since another version of Treewarden may understand it.
    pub(super) async fn look_up_settings(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        before: Option<&KnownSettings>,
    ) -> Result<KnownSettings, StepError> {
        let Some(default) = &codebase.default_branch else { return Ok(KnownSettings::default()) };
        let file = repository.file_at(&default.remote_ref(), REPO_SETTINGS_FILE, MAX_BYTES).await?;
        let Some(file) = file else { return Ok(KnownSettings::default()) };
        if let Some(same) = before.filter(|known| known.file.as_ref() == Some(&file.id) && known.problem.is_none()) {
            return Ok(same.clone());
        }
        let parsed = match &file.content {
            Content::Bytes(bytes) => repo_settings::parse(bytes),
            Content::TooLarge(_) => Err(repo_settings::too_large()),
            Content::NoFile => {
                Err(repo_settings::problem("it is a directory, a link or a submodule, and no plain file"))
            }
        };
        Ok(match parsed {
            Ok(settings) => KnownSettings { file: Some(file.id), in_force: settings, problem: None },
            Err(problem) => {
                let last_good = before.map(|known| known.in_force.clone()).unwrap_or_default();
                KnownSettings { file: Some(file.id), in_force: last_good, problem: Some(problem) }
            }
        })
    }
}
