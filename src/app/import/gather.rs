//! What GitHub, our database and the disk say about what the rows name. Nothing is changed, but for what git would stumble over
//! in a repository of ours, which is put right before it is asked there; a dry run leaves that, too.

use crate::config::Config;
use crate::decide::import::{self as choice, Facts, Place, PullHead, ThreadFacts, Unreached, Waits};
use crate::git::{Git, GitError, Head, Outside, Uncommitted, Worktree};
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
        let mut facts = Facts {
            now,
            web_host,
            repositories: BTreeMap::new(),
            local: BTreeMap::new(),
            threads: BTreeMap::new(),
            places: BTreeMap::new(),
        };
        for name in choice::repositories(old, &facts.web_host) {
            facts.repositories.insert(choice::key(&name), self.repository(&name).await?);
        }
        for path in choice::local_repositories(old, &facts.web_host) {
            let found = self.local(&path).await;
            facts.local.insert(path, found);
        }
        let known = facts.repositories.values().flatten().map(|found| (found.id(), found.clone()));
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
            let place = self.place(&path, facts.local.values().flatten()).await;
            facts.places.insert(path, place);
        }
        Ok(facts)
    }

    /// As it is known here, else as GitHub knows it.
    async fn repository(&self, name: &RepoName) -> anyhow::Result<Result<RepositoryFacts, Unreached>> {
        let here = self.store.find_codebase(name).await?;
        if let Some(codebase) = here.filter(|codebase| codebase.connected)
            && codebase.github_id().is_some()
        {
            let Codebase { host, name, default_branch, .. } = codebase;
            return Ok(Ok(RepositoryFacts { host, name, default_branch }));
        }
        let Some(github) = &self.github else { return Ok(Err(Unreached::NoApp)) };
        match github.find_repository(name).await {
            Ok((installation, info)) => Ok(Ok(RepositoryFacts {
                host: Host::Github { id: info.id, installation },
                name: info.name,
                default_branch: info.default_branch,
            })),
            Err(GithubError::NotFound(_)) => Ok(Err(Unreached::NotInstalled)),
            Err(GithubError::Forbidden(why) | GithubError::Invalid(why)) => Ok(Err(Unreached::Refused(why))),
            Err(error) => Err(nothing_imported(&error)),
        }
    }

    /// As it would be met by its path: a repository of this user, and of a linked worktree the one it is linked to.
    async fn local(&self, path: &str) -> Result<RepositoryFacts, String> {
        if !path.starts_with('/') {
            return Err("its path is not absolute".to_owned());
        }
        let path = self.git.main_repository(path.as_ref()).await.map_err(|error| error.to_string())?;
        if let Some((own, _)) = self.codebase_at(&path) {
            let Codebase { host, name, default_branch, .. } = own.clone();
            return Ok(RepositoryFacts { host, name, default_branch });
        }
        let name = RepoName::of_directory(&path);
        Ok(RepositoryFacts { host: Host::Local { path }, name, default_branch: None })
    }

    /// The outer `None`: nobody could be asked.
    async fn thread(
        &self,
        repository: &RepositoryFacts,
        number: ThreadNumber,
    ) -> anyhow::Result<Option<Option<ThreadFacts>>> {
        if let Some(codebase) = self.codebases.iter().find(|known| known.host == repository.host)
            && let Some(known) = self.store.find_conversation(codebase.id, number).await?
            && let ThreadId::Numbered { kind, .. } = known.thread
        {
            let Conversation { title, state, .. } = known;
            return Ok(Some(Some(ThreadFacts { kind, title, state })));
        }
        let Some(github) = &self.github else { return Ok(None) };
        let Host::Github { id, installation } = repository.host else { return Ok(None) };
        match github.installation(installation).issue(id, &repository.name, number).await {
            Ok(issue) => Ok(Some(Some(ThreadFacts { kind: issue.kind, title: issue.title, state: issue.state }))),
            Err(GithubError::NotFound(_)) => Ok(Some(None)),
            Err(GithubError::Forbidden(_) | GithubError::Invalid(_)) => Ok(None),
            Err(error) => Err(nothing_imported(&error)),
        }
    }

    /// What stands at a path; `local`: repositories on this machine.
    pub async fn place(&self, path: &str, local: impl Iterator<Item = &RepositoryFacts>) -> Place {
        let path = Path::new(path);
        if !path.is_absolute() {
            return Place::Unclear("it is not an absolute path".to_owned());
        }
        match Outside::look_at(path).await {
            Err(error) => Place::Unclear(error.to_string()),
            Ok(Outside::Nothing) => Place::Nothing,
            Ok(Outside::Link) => Place::Link,
            Ok(Outside::NoCheckout) => self.cut_off(path).await.unwrap_or(Place::NoWorktree),
            Ok(Outside::Checkout { common, branch, tip }) => {
                if let Some((codebase, directory)) = self.codebase_at(&common) {
                    let own = self.own_worktree(codebase, &directory, path).await;
                    return match own {
                        Some(place) => place,
                        None => self.elsewhere(branch, tip.as_ref()).await,
                    };
                }
                let keeps = |local: &&RepositoryFacts| match &local.host {
                    Host::Local { path } => common == *path || common == path.join(".git"),
                    Host::Github { .. } => false,
                };
                match { local }.find(keeps) {
                    Some(local) => Place::AtHome { repository: local.id(), branch },
                    None => self.elsewhere(branch, tip.as_ref()).await,
                }
            }
        }
    }

    /// Only our own repositories are asked whether a fetch has brought the commit.
    async fn elsewhere(&self, branch: Option<BranchName>, tip: Option<&CommitSha>) -> Place {
        let mut fetched = BTreeMap::new();
        for codebase in &self.codebases {
            let directory = self.directory(codebase);
            if !directory.exists() {
                continue;
            }
            let answer = match tip {
                Some(tip) => self.git.repository(directory).was_fetched(tip).await.into(),
                None => Probe::Unknown("the commit that it stands at could not be read".to_owned()),
            };
            fetched.insert(codebase.host.repository(), answer);
        }
        Place::Elsewhere { branch, fetched }
    }

    /// A worktree of ours that does not lead to its repository any more.
    async fn cut_off(&self, path: &Path) -> Option<Place> {
        let (real, base) = (fs::canonicalize(path).ok()?, fs::canonicalize(&self.config.worktree_base).ok()?);
        if real == base || !real.starts_with(&base) {
            return None;
        }
        for codebase in &self.codebases {
            let worktree = self.git.repository(self.directory(codebase)).worktree(&real);
            if worktree.validity().await == Probe::Known(Validity::Broken) {
                return Some(Place::Broken(codebase.host.repository()));
            }
        }
        None
    }

    pub fn directory(&self, codebase: &Codebase) -> PathBuf {
        self.config.home.join("repos").join(&codebase.repository_dir)
    }

    fn codebase_at(&self, common: &Path) -> Option<(&Codebase, PathBuf)> {
        let places = self.codebases.iter().map(|codebase| (codebase, self.directory(codebase)));
        places.into_iter().find(|(_, place)| fs::canonicalize(place).is_ok_and(|place| place == common))
    }

    /// `None`: it leads to the repository, which has another one registered there, or none.
    async fn own_worktree(&self, codebase: &Codebase, directory: &Path, path: &Path) -> Option<Place> {
        let (real, base) = match (fs::canonicalize(path), fs::canonicalize(&self.config.worktree_base)) {
            (Ok(real), Ok(base)) => (real, base),
            (Err(error), _) => return Some(Place::Unclear(error.to_string())),
            (_, Err(_)) => return Some(Place::Outside),
        };
        if real == base || !real.starts_with(&base) {
            return Some(Place::Outside);
        }
        let worktree = self.git.repository(directory).worktree(&real);
        match worktree.validity().await {
            Probe::Known(Validity::Valid) => Some(usable_one(codebase, &worktree, real).await),
            Probe::Known(Validity::Missing) => Some(Place::Nothing),
            Probe::Known(Validity::Broken) => Some(Place::Broken(codebase.host.repository())),
            Probe::Known(Validity::OwnRepository | Validity::Foreign) => None,
            Probe::Unknown(why) => Some(Place::Unclear(why)),
        }
    }

    /// What is known of a conversation here, held or not, whose place of old waits.
    pub async fn waits(&self, id: ConversationId) -> anyhow::Result<Option<Waits>> {
        if let Some(held) = self.store.held_conversations().await?.into_iter().find(|held| held.id == id) {
            let codebase = self.codebases.iter().find(|known| Some(known.id) == held.codebase);
            return Ok(Some(Waits {
                work: Work { kind: WorkKind::Thread, id: held.thread },
                repository: codebase.map(|codebase| codebase.host.repository()),
                has_environment: held.environment.is_some(),
                pull: None,
                bases: self.bases(codebase).await?,
                created_at: held.created_at,
                last_activity_at: held.last_activity_at,
            }));
        }
        let Some(thread) = self.store.load_conversation(id).await? else { return Ok(None) };
        let codebase = self.codebases.iter().find(|known| known.id == thread.codebase);
        let pull = match (codebase, &thread.thread) {
            (Some(codebase), ThreadId::Numbered { kind: ThreadKind::PullRequest, number }) => {
                Some(self.pull_head(codebase, *number).await?)
            }
            (Some(_) | None, ThreadId::Numbered { .. } | ThreadId::Named(_)) => None,
        };
        Ok(Some(Waits {
            work: Work::of_thread(&thread.thread),
            repository: codebase.map(|codebase| codebase.host.repository()),
            has_environment: thread.environment.is_some(),
            pull,
            bases: self.bases(codebase).await?,
            created_at: thread.created_at,
            last_activity_at: thread.updated_at,
        }))
    }

    /// Locks its worktree as one of ours.
    pub async fn claim(&self, environment: &EnvironmentImport) -> Result<(), GitError> {
        let its = |codebase: &&Codebase| codebase.host.repository() == environment.repository;
        let Some(codebase) = self.codebases.iter().find(its) else { return Ok(()) };
        let repository = self.git.repository(self.directory(codebase));
        repository.claim_worktree(&environment.path, &environment.branch, Uncommitted::Keep).await
    }

    /// As the repository's settings were seen last.
    async fn bases(&self, codebase: Option<&Codebase>) -> anyhow::Result<Vec<BranchName>> {
        let Some(codebase) = codebase else { return Ok(Vec::new()) };
        let known = self.store.load_repo_settings(codebase.id).await?;
        Ok(codebase.default_branch.clone().into_iter().chain(known.and_then(|known| known.in_force.base)).collect())
    }

    async fn pull_head(&self, codebase: &Codebase, number: ThreadNumber) -> anyhow::Result<Probe<PullHead>> {
        let (Some(github), Host::Github { id, installation }) = (&self.github, &codebase.host) else {
            return Ok(Probe::Unknown("there is no App to ask GitHub with about its pull request".to_owned()));
        };
        match github.installation(*installation).pull_request(*id, &codebase.name, number).await {
            Ok(pull) => {
                let open = pull.state == ThreadState::Open;
                let takes_results = open && !pull.is_fork() && !pull.head_renamed;
                Ok(Probe::Known(PullHead { head: pull.head, base: pull.base, takes_results }))
            }
            Err(error) => Ok(Probe::Unknown(error.to_string())),
        }
    }
}

/// What a whole worktree of ours is good for.
async fn usable_one(codebase: &Codebase, worktree: &Worktree, real: PathBuf) -> Place {
    match worktree.foreign_lock().await {
        Probe::Known(None) => {}
        Probe::Known(Some(why)) => return Place::Locked(why),
        Probe::Unknown(why) => return Place::Unclear(why),
    }
    match worktree.operation_in_progress().await {
        Probe::Known(None) => {}
        Probe::Known(Some(operation)) => return Place::Unclear(format!("a {operation} is in progress in it")),
        Probe::Unknown(why) => return Place::Unclear(why),
    }
    let unclean = match worktree.status().await {
        Probe::Known(status) if status.conflicted > 0 => {
            return Place::Unclear("it holds conflicts".to_owned());
        }
        Probe::Known(status) => !status.is_clean(),
        Probe::Unknown(why) => return Place::Unclear(why),
    };
    match worktree.head().await {
        Ok(Head { branch: Some(branch), .. }) if codebase.default_branch.as_ref() == Some(&branch) => {
            Place::OnDefault(branch)
        }
        Ok(head) => Place::Usable { repository: codebase.host.repository(), path: real, branch: head.branch, unclean },
        Err(error) => Place::Unclear(error.to_string()),
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
