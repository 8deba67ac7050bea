//! What GitHub, our database and the disk say about what the rows name. Nothing is changed, and git is not run.

use crate::config::Config;
use crate::decide::import::{self as choice, Facts, Place, ThreadFacts, Unreached};
use crate::git::{Git, Outside};
use crate::github::{Github, GithubError};
use crate::model::*;
use crate::store::Store;
use anyhow::anyhow;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// How many questions GitHub is asked at a time.
const AT_A_TIME: usize = 8;

pub(super) struct Sources<'a> {
    pub config: &'a Config,
    pub store: &'a Store,
    pub git: Git,
    /// Absent while no App is configured.
    pub github: Option<Github>,
    /// Those that are here already.
    pub codebases: Vec<Codebase>,
}

impl Sources<'_> {
    pub async fn facts(&self, old: &OldData, now: Timestamp) -> anyhow::Result<Facts> {
        let web_host = web_host(&self.config.github.web_url);
        let mut facts =
            Facts { now, repositories: BTreeMap::new(), threads: BTreeMap::new(), places: BTreeMap::new(), web_host };
        for name in choice::repositories(old, &facts.web_host) {
            facts.repositories.insert(choice::key(&name), self.repository(&name).await?);
        }
        let known = facts.repositories.values().flatten().map(|found| (found.github_id, found.clone()));
        let known: BTreeMap<RepositoryId, RepositoryFacts> = known.collect();
        let threads: Vec<_> = choice::threads(old, &facts).into_iter().collect();
        for some in threads.chunks(AT_A_TIME) {
            let asked = some.iter().map(|(repository, number)| self.thread(&known[repository], *number));
            for (key, answer) in some.iter().zip(futures::future::join_all(asked).await) {
                if let Some(answer) = answer? {
                    facts.threads.insert(*key, answer);
                }
            }
        }
        for path in choice::paths(old) {
            let place = self.place(&path).await;
            facts.places.insert(path, place);
        }
        Ok(facts)
    }

    /// As it is known here, else as GitHub knows it.
    async fn repository(&self, name: &RepoName) -> anyhow::Result<Result<RepositoryFacts, Unreached>> {
        let here = self.store.find_codebase(name).await?;
        if let Some(codebase) = here.filter(|codebase| codebase.connected)
            && let Host::Github { id: github_id, installation } = codebase.host
        {
            let Codebase { name, default_branch, .. } = codebase;
            return Ok(Ok(RepositoryFacts { github_id, installation, name, default_branch }));
        }
        let Some(github) = &self.github else { return Ok(Err(Unreached::NoApp)) };
        match github.find_repository(name).await {
            Ok((installation, info)) => Ok(Ok(RepositoryFacts {
                github_id: info.id,
                installation,
                name: info.name,
                default_branch: info.default_branch,
            })),
            Err(GithubError::NotFound(_)) => Ok(Err(Unreached::NotInstalled)),
            Err(GithubError::Forbidden(why) | GithubError::Invalid(why)) => Ok(Err(Unreached::Refused(why))),
            Err(error) => Err(nothing_imported(&error)),
        }
    }

    /// The outer `None`: nobody could be asked.
    async fn thread(
        &self,
        repository: &RepositoryFacts,
        number: ThreadNumber,
    ) -> anyhow::Result<Option<Option<ThreadFacts>>> {
        if let Some(codebase) = self.codebases.iter().find(|known| known.github_id() == Some(repository.github_id))
            && let Some(known) = self.store.find_conversation(codebase.id, number).await?
            && let ThreadId::Numbered { kind, .. } = known.thread
        {
            let Conversation { title, state, .. } = known;
            return Ok(Some(Some(ThreadFacts { kind, title, state })));
        }
        let Some(github) = &self.github else { return Ok(None) };
        let client = github.installation(repository.installation);
        match client.issue(repository.github_id, &repository.name, number).await {
            Ok(issue) => Ok(Some(Some(ThreadFacts { kind: issue.kind, title: issue.title, state: issue.state }))),
            Err(GithubError::NotFound(_)) => Ok(Some(None)),
            Err(GithubError::Forbidden(_) | GithubError::Invalid(_)) => Ok(None),
            Err(error) => Err(nothing_imported(&error)),
        }
    }

    /// What stands at a path.
    pub async fn place(&self, path: &str) -> Place {
        let path = Path::new(path);
        if !path.is_absolute() {
            return Place::Unclear("it is not an absolute path".to_owned());
        }
        match Outside::look_at(path).await {
            Err(error) => Place::Unclear(error.to_string()),
            Ok(Outside::Nothing) => Place::Nothing,
            Ok(Outside::NoCheckout) => Place::NoWorktree,
            Ok(Outside::Checkout { common, branch }) => match self.codebase_at(&common) {
                Some((codebase, directory)) => self.own_worktree(codebase, &directory, path, branch).await,
                None => Place::Elsewhere { branch },
            },
        }
    }

    fn codebase_at(&self, common: &Path) -> Option<(&Codebase, PathBuf)> {
        let repositories = self.config.home.join("repos");
        let places = self.codebases.iter().map(|codebase| (codebase, repositories.join(&codebase.repository_dir)));
        places.into_iter().find(|(_, place)| fs::canonicalize(place).is_ok_and(|place| place == common))
    }

    async fn own_worktree(
        &self,
        codebase: &Codebase,
        directory: &Path,
        path: &Path,
        branch: Option<BranchName>,
    ) -> Place {
        let (real, base) = match (fs::canonicalize(path), fs::canonicalize(&self.config.worktree_base)) {
            (Ok(real), Ok(base)) => (real, base),
            (Err(error), _) => return Place::Unclear(error.to_string()),
            (_, Err(_)) => return Place::Outside,
        };
        if real == base || !real.starts_with(&base) {
            return Place::Outside;
        }
        let worktree = self.git.repository(directory).worktree(&real);
        match worktree.validity().await {
            Probe::Known(Validity::Valid) => {}
            Probe::Known(Validity::Missing) => return Place::Nothing,
            Probe::Known(Validity::Broken | Validity::OwnRepository | Validity::Foreign) => {
                return Place::Elsewhere { branch };
            }
            Probe::Unknown(why) => return Place::Unclear(why),
        }
        match worktree.foreign_lock().await {
            Probe::Known(None) => {}
            Probe::Known(Some(why)) => return Place::Locked(why),
            Probe::Unknown(why) => return Place::Unclear(why),
        }
        // What is not committed would be published with the first run.
        match worktree.status().await {
            Probe::Known(status) if status.is_clean() => {}
            Probe::Known(_) => return Place::Elsewhere { branch },
            Probe::Unknown(why) => return Place::Unclear(why),
        }
        match worktree.head().await {
            Ok(head) if head.branch == codebase.default_branch => Place::Elsewhere { branch },
            Ok(head) => match codebase.github_id() {
                Some(repository) => Place::Usable { repository, path: real, branch: head.branch },
                None => Place::Elsewhere { branch },
            },
            Err(error) => Place::Unclear(error.to_string()),
        }
    }

    /// Of a conversation here, held or not: its repository, and whether it has an environment.
    pub async fn conversation(&self, id: ConversationId) -> anyhow::Result<Option<(Option<RepositoryId>, bool)>> {
        let (codebase, environment) = match self.store.load_conversation(id).await? {
            Some(thread) => (Some(thread.codebase), thread.environment),
            None => match self.store.held_conversations().await?.into_iter().find(|held| held.id == id) {
                Some(held) => (held.codebase, held.environment),
                None => return Ok(None),
            },
        };
        let codebase = self.codebases.iter().find(|known| Some(known.id) == codebase);
        Ok(Some((codebase.and_then(Codebase::github_id), environment.is_some())))
    }
}

fn nothing_imported(error: &GithubError) -> anyhow::Error {
    anyhow!("{error}. Nothing was imported; run the same again when that is mended.")
}

/// `github.com` of `https://github.com/`.
fn web_host(url: &str) -> String {
    let after = url.split_once("://").map_or(url, |(_, rest)| rest);
    after.split('/').next().unwrap_or_default().to_ascii_lowercase()
}
