//! Whom a codebase is asked about, and where its branches come from and go to. This is the one place that knows that some
//! repositories are on GitHub and others on this machine only.

use super::{Orchestrator, StepError, gather, retry};
use crate::git::{FetchRequest, GitError, Repository};
use crate::github::{InstallationClient, PullRequest};
use crate::model::*;
use crate::reply::{not_begun, remote};
use crate::store::{NewCodebase, NewLocalCodebase};
use crate::telemetry::field::EFFECT;
use std::path::{Path, PathBuf};

/// A codebase on GitHub, and who asks about it there.
pub(super) struct OnGithub<'a> {
    pub client: InstallationClient,
    pub id: RepositoryId,
    pub name: &'a RepoName,
    installation: InstallationId,
}

enum Keeper<'a> {
    Github(OnGithub<'a>),
    /// A repository on this machine.
    Local(&'a Path),
}

impl Orchestrator {
    fn keeper<'a>(&self, codebase: &'a Codebase) -> Result<Keeper<'a>, StepError> {
        match &codebase.host {
            Host::Github { id, installation } => {
                let github = self.github().ok_or_else(|| StepError::Refused(not_begun::no_app()))?;
                let client = github.installation(*installation);
                let (id, installation) = (*id, *installation);
                Ok(Keeper::Github(OnGithub { client, id, name: &codebase.name, installation }))
            }
            Host::Local { path } => Ok(Keeper::Local(path)),
        }
    }

    /// `None`: it is on this machine only, and there is nobody to ask.
    pub(super) fn on_github<'a>(&self, codebase: &'a Codebase) -> Result<Option<OnGithub<'a>>, StepError> {
        Ok(match self.keeper(codebase)? {
            Keeper::Github(github) => Some(github),
            Keeper::Local(_) => None,
        })
    }

    /// An error when GitHub knows a branch that the git server did not name: a login page, or nothing at all, with status 200
    /// looks to git like a repository without branches.
    pub(super) async fn demand_absence(&self, codebase: &Codebase, branch: &BranchName) -> Result<(), StepError> {
        let Some(github) = self.on_github(codebase)? else { return Ok(()) };
        match github.client.branch_tip(github.id, github.name, branch).await? {
            None => Ok(()),
            Some(_) => Err(GitError::Unreachable(remote::not_named(branch)).into()),
        }
    }

    pub(super) fn repository(&self, codebase: &Codebase) -> Repository {
        let directory = self.repository_path(codebase);
        match &codebase.host {
            Host::Github { .. } => self.parts().git.repository(directory),
            Host::Local { path } => self.parts().git.repository_of(directory, path),
        }
    }

    /// Where the canonical repository lies.
    pub fn repository_path(&self, codebase: &Codebase) -> PathBuf {
        self.settings().home.join("repos").join(&codebase.repository_dir)
    }

    /// The pull request that a conversation is, as GitHub has it at this moment.
    pub(super) async fn pull_request_of(
        &self,
        codebase: &Codebase,
        conversation: &Conversation,
    ) -> Result<Option<PullRequest>, StepError> {
        match conversation.thread.pull_request() {
            Some(number) => self.fetch_pull_request(codebase, number).await.map(Some),
            None => Ok(None),
        }
    }

    /// A pull request as GitHub has it at this moment.
    pub(super) async fn fetch_pull_request(
        &self,
        codebase: &Codebase,
        number: ThreadNumber,
    ) -> Result<PullRequest, StepError> {
        let github = self.on_github(codebase)?.ok_or_else(|| StepError::Refused(not_begun::no_app()))?;
        retry::patiently(|| async { Ok(github.client.pull_request(github.id, github.name, number).await?) }).await
    }

    /// The codebase with its present name and default branch, and where to clone it from.
    pub(super) async fn refreshed(&self, codebase: &Codebase) -> Result<(Codebase, String), StepError> {
        let github = match self.keeper(codebase)? {
            Keeper::Github(github) => github,
            Keeper::Local(path) => return self.refreshed_here(codebase, path).await,
        };
        let info = github.client.repository(github.id, github.name).await?;
        if info.archived {
            self.set_reach(codebase, Reach::Archived).await?;
            return Err(StepError::Refused(not_begun::archived(&info.name)));
        }
        let new = NewCodebase {
            github_id: info.id,
            installation: github.installation,
            name: info.name,
            default_branch: info.default_branch,
            reached: true,
        };
        Ok((self.store().upsert_codebase(new, self.now()).await?, info.clone_url))
    }

    /// The codebase with its default branch, asked for where nobody has said it yet, as after a database that was lost; and
    /// why it could not be told. What is known stays.
    pub(super) async fn with_default_branch(&self, codebase: &Codebase) -> (Codebase, Option<StepError>) {
        match &codebase.default_branch {
            Some(_) => (codebase.clone(), None),
            None => match self.refreshed(codebase).await {
                Ok((now, _)) => (now, None),
                Err(error) => (codebase.clone(), Some(error)),
            },
        }
    }

    /// New work starts from the branch that was checked out there when the repository was met first, for as long as that
    /// exists: people who look at a result by checking it out do not mean to change that.
    async fn refreshed_here(&self, codebase: &Codebase, path: &Path) -> Result<(Codebase, String), StepError> {
        let source = here(path)?;
        let repository = self.repository(codebase);
        repository.ensure(&source).await?;
        let default = match &codebase.default_branch {
            Some(known) if repository.remote_branch(known, None).await?.is_some() => Some(known.clone()),
            Some(_) | None => repository.remote_head(None).await?,
        };
        let new = NewLocalCodebase { path: path.to_owned(), name: codebase.name.clone(), default_branch: default };
        Ok((self.store().upsert_local_codebase(new, self.now()).await?, source))
    }

    /// Where to fetch from now, also from a repository that takes nothing any more.
    pub(super) async fn source(&self, codebase: &Codebase) -> Result<String, StepError> {
        match self.keeper(codebase)? {
            Keeper::Github(github) => Ok(github.client.repository(github.id, github.name).await?.clone_url),
            Keeper::Local(path) => here(path),
        }
    }

    /// Brings the canonical repository up to date: all branches, and one pull request's head.
    pub(super) async fn fetch(
        &self,
        codebase: &Codebase,
        repository: &Repository,
        clone_url: &str,
        pull: Option<ThreadNumber>,
    ) -> Result<(), StepError> {
        tracing::debug!(target: EFFECT, { codebase.name = %codebase.name }, "fetch");
        repository.ensure(clone_url).await?;
        let pulls = pull.map(|number| (format!("refs/pull/{number}/head"), gather::pull_ref(number)));
        let request = &FetchRequest { branches: true, extra: pulls.into_iter().collect() };
        self.with_credential(codebase, false, |credential| async move {
            repository.fetch(request, credential.as_ref()).await
        })
        .await?;
        if let Some(default) = &codebase.default_branch
            && !repository.has_remote_branches().await?
        {
            self.demand_absence(codebase, default).await?;
        }
        if let Err(error) = repository.note_fetch(self.now()).await {
            tracing::warn!(codebase.name = %codebase.name, %error, "the time of the fetch was not noted");
        }
        Ok(())
    }

    /// One operation on the remote. A token that ended before its hour is replaced once; a repository on this machine wants
    /// none.
    pub(super) async fn with_credential<T, F>(
        &self,
        codebase: &Codebase,
        push: bool,
        operation: impl Fn(Option<Credential>) -> F,
    ) -> Result<T, StepError>
    where
        F: Future<Output = Result<T, GitError>>,
    {
        let Some(OnGithub { client, id, .. }) = self.on_github(codebase)? else { return Ok(operation(None).await?) };
        let credential = client.git_credential(id, push).await?;
        match operation(Some(credential.clone())).await {
            Err(GitError::AuthFailed) => {
                client.forget_git_credential(id, push, &credential).await;
                let renewed = client.git_credential(id, push).await?;
                Ok(operation(Some(renewed)).await?)
            }
            outcome => Ok(outcome?),
        }
    }
}

fn here(path: &Path) -> Result<String, StepError> {
    match (path.to_str(), path.is_dir()) {
        (Some(text), true) => Ok(text.to_owned()),
        _ => Err(StepError::Refused(not_begun::repository_not_here(path))),
    }
}
