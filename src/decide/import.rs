//! What of an older database is taken over, and why the rest is not. Rows are judged one by one: one that is not understood
//! never keeps the others away, and nothing that is missing is made up.

mod facts;
mod read;
mod waiting;

pub use facts::{Facts, Place, PullHead, Skip, ThreadFacts, Unreached, Waits};
pub use waiting::{Waiting, waiting};

use super::resolve::may_be_a_forks;
use crate::model::*;
use read::{Address, text, time};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// The choice. Each conversation of the plan has a note of why its old place is not taken along, if so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub plan: ImportPlan,
    pub notes: Vec<Option<Skip>>,
    pub skipped: Vec<(OldName, Skip)>,
    /// Paths of environments that hold something uncommitted, which the next run publishes.
    pub unclean: BTreeSet<PathBuf>,
}

/// The repositories that rows speak of.
pub fn repositories(old: &OldData, web_host: &str) -> BTreeSet<RepoName> {
    let addresses =
        old.codebases.iter().filter_map(|row| match read::address(text(row, "repository_url")?, web_host) {
            Address::Ours(name) => Some(name),
            Address::OtherHost(_) | Address::Local | Address::Odd => None,
        });
    addresses.chain(github_threads(old).map(|(name, _)| name)).collect()
}

/// The repositories on this machine that rows speak of, by their paths.
pub fn local_repositories(old: &OldData, web_host: &str) -> BTreeSet<String> {
    old.codebases.iter().filter_map(|row| local(row, web_host)).map(str::to_owned).collect()
}

/// A codebase that is not on any host, by its path.
fn local<'a>(row: &'a OldRow, web_host: &str) -> Option<&'a str> {
    let Some(url) = text(row, "repository_url") else { return text(row, "default_cwd") };
    match read::address(url, web_host) {
        Address::Local => Some(url.strip_prefix("file://").unwrap_or(url)),
        Address::Ours(_) | Address::OtherHost(_) | Address::Odd => None,
    }
}

/// The threads of repositories that are known.
pub fn threads(old: &OldData, facts: &Facts) -> BTreeSet<(RepositoryId, ThreadNumber)> {
    let known = |name: &RepoName| facts.repositories.get(&key(name)).and_then(|known| known.as_ref().ok());
    github_threads(old).filter_map(|(name, number)| Some((known(&name)?.id(), number))).collect()
}

/// The paths that rows speak of.
pub fn paths(old: &OldData) -> BTreeSet<String> {
    let own = old.conversations.iter().filter_map(|row| legacy_path(row, old.stage));
    let rows = old.environments.iter().filter_map(|row| text(row, "working_path"));
    own.chain(rows).map(str::to_owned).collect()
}

/// How a repository's name is looked up.
pub fn key(name: &RepoName) -> String {
    name.to_string().to_ascii_lowercase()
}

fn github_threads(old: &OldData) -> impl Iterator<Item = (RepoName, ThreadNumber)> {
    let github = old.conversations.iter().filter(|row| text(row, "platform_type") == Some("github"));
    github.filter_map(|row| read::thread(text(row, "platform_conversation_id")?))
}

/// The path that a conversation itself names.
fn legacy_path(row: &OldRow, stage: OldStage) -> Option<&str> {
    let older = text(row, "worktree_path");
    match stage {
        OldStage::Paths => older,
        OldStage::Providers => text(row, "isolation_env_id").or(older),
        OldStage::Environments => text(row, "isolation_env_id_legacy").or(older),
    }
}

/// Chooses. Total: every row of the source is in the plan or among what is skipped.
pub fn choose(old: &OldData, facts: &Facts) -> Choice {
    let mut chooser =
        Chooser { old, facts, choice: Choice::default(), codebases: BTreeMap::new(), conversations: BTreeMap::new() };
    chooser.codebases();
    let environments = chooser.environments();
    chooser.conversations(&environments);
    chooser.sessions();
    chooser.choice
}

/// A worktree that can be used, at its real path.
struct Found {
    path: PathBuf,
    branch: BranchName,
    unclean: bool,
}

fn usable(
    path: &str,
    place: &Place,
    repository: Option<RepositoryId>,
    recorded: Option<&BranchName>,
) -> Result<Found, Skip> {
    let named = path.to_owned();
    match place {
        Place::Nothing => Err(Skip::WorktreeGone(named)),
        Place::NoWorktree => Err(Skip::NoWorktree(named)),
        Place::Link => Err(Skip::Link(named)),
        Place::Elsewhere { branch, fetched } => {
            let branch = branch.clone().or_else(|| recorded.cloned());
            let fetched = repository.and_then(|repository| fetched.get(&repository).cloned());
            let fetched = fetched.unwrap_or_else(|| Probe::Unknown("its repository was never fetched here".to_owned()));
            Err(Skip::WorkStays { path: named, branch, fetched })
        }
        Place::Broken(owner) if repository != Some(*owner) => Err(Skip::OtherRepository(named)),
        Place::Broken(_) => Err(Skip::Broken(named)),
        Place::AtHome { repository: owner, .. } if repository != Some(*owner) => Err(Skip::OtherRepository(named)),
        Place::AtHome { branch, .. } => Err(Skip::AtHome { path: named, branch: branch.clone() }),
        Place::OnDefault(branch) => Err(Skip::OtherBranch { path: named, branch: branch.clone() }),
        Place::Outside => Err(Skip::Outside(named)),
        Place::Locked(why) => Err(Skip::Locked { path: named, why: why.clone() }),
        Place::Unclear(why) => Err(Skip::Unclear { path: named, why: why.clone() }),
        Place::Usable { repository: owner, .. } if repository != Some(*owner) => Err(Skip::OtherRepository(named)),
        Place::Usable { branch: None, .. } => Err(Skip::Detached(named)),
        // No comment could show it.
        Place::Usable { branch: Some(branch), .. } if !branch.is_showable() => {
            Err(Skip::OtherBranch { path: named, branch: branch.clone() })
        }
        Place::Usable { path, branch: Some(branch), unclean, .. } => {
            Ok(Found { path: path.clone(), branch: branch.clone(), unclean: *unclean })
        }
    }
}

type Environments = BTreeMap<String, Result<EnvironmentImport, Skip>>;

struct Chooser<'a> {
    old: &'a OldData,
    facts: &'a Facts,
    choice: Choice,
    /// By the older id.
    codebases: BTreeMap<String, RepositoryFacts>,
    /// Places in the plan, by the older id.
    conversations: BTreeMap<String, usize>,
}

impl<'a> Chooser<'a> {
    fn skip(&mut self, name: OldName, why: Skip) {
        self.choice.skipped.push((name, why));
    }

    fn codebases(&mut self) {
        for (at, row) in self.old.codebases.iter().enumerate() {
            let found = self.codebase(row);
            let about = found.as_ref().ok().map(|found| found.name.to_string());
            let about = about.or_else(|| text(row, "name").map(str::to_owned)).unwrap_or_default();
            let name = name(OldTable::Codebases, at, row, about);
            match found {
                Ok(repository) => {
                    self.codebases.insert(name.id.to_ascii_lowercase(), repository.clone());
                    self.choice.plan.codebases.push(CodebaseImport { row: Some(name), repository });
                }
                Err(why) => self.skip(name, why),
            }
        }
    }

    fn codebase(&self, row: &OldRow) -> Result<RepositoryFacts, Skip> {
        if let Some(path) = local(row, &self.facts.web_host) {
            return match self.facts.local.get(path) {
                Some(Ok(repository)) => Ok(repository.clone()),
                Some(Err(why)) => Err(Skip::NoRepository { path: path.to_owned(), why: why.clone() }),
                None => Err(Skip::NoAddress),
            };
        }
        let url = text(row, "repository_url").ok_or(Skip::NoAddress)?;
        match read::address(url, &self.facts.web_host) {
            Address::Ours(name) => self.repository(&name).cloned(),
            Address::OtherHost(host) => Err(Skip::OtherHost(host)),
            Address::Local => Err(Skip::NoAddress),
            Address::Odd => Err(Skip::Column("repository_url")),
        }
    }

    fn repository(&self, name: &RepoName) -> Result<&'a RepositoryFacts, Skip> {
        match self.facts.repositories.get(&key(name)) {
            Some(Ok(repository)) => Ok(repository),
            Some(Err(why)) => Err(Skip::Unreached(why.clone())),
            None => Err(Skip::NoCodebase),
        }
    }

    fn codebase_of(&self, row: &OldRow) -> Option<&RepositoryFacts> {
        self.codebases.get(&text(row, "codebase_id")?.to_ascii_lowercase())
    }

    fn place(&self, path: &str) -> Place {
        let unseen = || Place::Unclear("it was not looked at".to_owned());
        self.facts.places.get(path).cloned().unwrap_or_else(unseen)
    }

    /// Rows of stage three, by their id.
    fn environments(&mut self) -> Environments {
        let mut found = Environments::new();
        for (at, row) in self.old.environments.iter().enumerate() {
            let about = [text(row, "workflow_type"), text(row, "workflow_id")].map(Option::unwrap_or_default).join(" ");
            let name = name(OldTable::IsolationEnvironments, at, row, about);
            let id = name.id.to_ascii_lowercase();
            let environment = self.environment(row, name.clone());
            match &environment {
                Ok(environment) => self.choice.plan.environments.push(environment.clone()),
                Err(why) => self.skip(name, why.clone()),
            }
            found.insert(id, environment);
        }
        found
    }

    fn environment(&mut self, row: &OldRow, name: OldName) -> Result<EnvironmentImport, Skip> {
        match text(row, "status") {
            Some("active") => {}
            Some("destroyed") => return Err(Skip::Destroyed),
            _ => return Err(Skip::Column("status")),
        }
        worktree_provider(text(row, "provider"))?;
        let repository = self.codebase_of(row).ok_or(Skip::NoCodebase)?.id();
        let kind =
            text(row, "workflow_type").and_then(|kind| kind.parse().ok()).ok_or(Skip::Column("workflow_type"))?;
        let work = text(row, "workflow_id").and_then(|id| read::work(kind, id)).ok_or(Skip::Column("workflow_id"))?;
        let path = text(row, "working_path").ok_or(Skip::Column("working_path"))?;
        let recorded = text(row, "branch_name").and_then(|branch| BranchName::new(branch).ok());
        let Found { path, branch, unclean } = usable(path, &self.place(path), Some(repository), recorded.as_ref())?;
        // Which commits would be a fork's, only its thread knows when it is used.
        if may_be_a_forks(&branch) {
            return Err(Skip::ForksBranch { path: path.display().to_string(), branch });
        }
        self.choice.unclean.extend(unclean.then(|| path.clone()));
        let created_at = time(row, "created_at").unwrap_or(self.facts.now);
        let began_on = text(row, "created_by_platform").and_then(|platform| platform.parse().ok());
        let metadata = EnvironmentMetadata { links: read::links(text(row, "metadata")), ..migrated(began_on) };
        let last_activity_at = self.last_activity(&name.id).unwrap_or(created_at).max(created_at);
        Ok(EnvironmentImport { row: name, repository, work, branch, path, metadata, created_at, last_activity_at })
    }

    /// The latest of all conversations that point to an environment.
    fn last_activity(&self, environment: &str) -> Option<Timestamp> {
        let users = self
            .old
            .conversations
            .iter()
            .filter(|row| text(row, "isolation_env_id").is_some_and(|id| id.eq_ignore_ascii_case(environment)));
        users.filter_map(last_activity).max()
    }

    fn conversations(&mut self, environments: &Environments) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for (at, row) in self.old.conversations.iter().enumerate() {
            let thread_id = text(row, "platform_conversation_id").unwrap_or_default().to_owned();
            let name = name(OldTable::Conversations, at, row, thread_id);
            let thread = match self.thread(row) {
                Ok(thread) => thread,
                Err(why) => {
                    self.skip(name, why);
                    continue;
                }
            };
            let same = match &thread {
                ThreadImport::Github(thread) => format!("github {}#{}", thread.repository, thread.number),
                ThreadImport::Held { platform, thread, .. } => format!("{platform} {thread}"),
            };
            if let Some(first) = seen.get(&same).cloned() {
                self.skip(name, Skip::Twin(first));
                continue;
            }
            seen.insert(same, name.id.clone());
            let (place, note) = self.place_of(row, &thread, environments);
            let created_at = time(row, "created_at").unwrap_or(self.facts.now);
            let last_activity_at = last_activity(row).unwrap_or(created_at);
            let conversation = ConversationImport { row: name, thread, place, created_at, last_activity_at };
            let id = conversation.row.id.to_ascii_lowercase();
            self.conversations.insert(id, self.choice.plan.conversations.len());
            self.choice.plan.conversations.push(conversation);
            self.choice.notes.push(note);
        }
    }

    fn thread(&mut self, row: &OldRow) -> Result<ThreadImport, Skip> {
        let platform = text(row, "platform_type").ok_or(Skip::Column("platform_type"))?;
        let id = text(row, "platform_conversation_id").ok_or(Skip::Column("platform_conversation_id"))?;
        let platform = platform.parse().map_err(|_| Skip::UnknownPlatform(platform.to_owned()))?;
        match platform {
            PlatformKind::Local | PlatformKind::Slack | PlatformKind::Discord | PlatformKind::Telegram => {
                let repository = self.codebase_of(row).map(RepositoryFacts::id);
                return Ok(ThreadImport::Held { platform, thread: id.to_owned(), repository });
            }
            PlatformKind::Github => {}
        }
        let (name, number) = read::thread(id).ok_or(Skip::Column("platform_conversation_id"))?;
        let repository = self.repository(&name)?;
        let facts = match self.facts.threads.get(&(repository.id(), number)) {
            Some(None) => return Err(Skip::ThreadGone),
            Some(Some(facts)) => facts.clone(),
            // The next event about it says what it really is.
            None => ThreadFacts { kind: self.kind(row), title: String::new(), state: ThreadState::Open },
        };
        let known = |codebase: &CodebaseImport| codebase.repository.id() == repository.id();
        if !self.choice.plan.codebases.iter().any(known) {
            self.choice.plan.codebases.push(CodebaseImport { row: None, repository: repository.clone() });
        }
        let ThreadFacts { kind, title, state } = facts;
        Ok(ThreadImport::Github(GithubThread { repository: repository.id(), number, kind, title, state }))
    }

    /// What the worktree was made for tells issues from pull requests, where GitHub was not asked.
    fn kind(&self, row: &OldRow) -> ThreadKind {
        let environment = text(row, "isolation_env_id");
        let environment =
            self.old.environments.iter().find(|other| {
                text(other, "id").zip(environment).is_some_and(|(one, two)| one.eq_ignore_ascii_case(two))
            });
        match environment.and_then(|environment| text(environment, "workflow_type")) {
            Some("pr" | "review") => ThreadKind::PullRequest,
            _ => ThreadKind::Issue,
        }
    }

    fn place_of(
        &mut self,
        row: &OldRow,
        thread: &ThreadImport,
        environments: &Environments,
    ) -> (PlaceImport, Option<Skip>) {
        let repository = match thread {
            ThreadImport::Github(thread) => Some(thread.repository),
            ThreadImport::Held { repository, .. } => *repository,
        };
        let mut lost = None;
        if self.old.stage == OldStage::Environments
            && let Some(id) = text(row, "isolation_env_id")
        {
            match environments.get(&id.to_ascii_lowercase()) {
                Some(Ok(environment)) if Some(environment.repository) == repository => {
                    return (PlaceImport::Environment(environment.path.clone()), None);
                }
                Some(Ok(environment)) => {
                    let path = environment.path.display().to_string();
                    return (PlaceImport::Nothing, Some(Skip::OtherRepository(path)));
                }
                Some(Err(Skip::ForksBranch { path, .. })) => return (PlaceImport::Legacy(path.into()), None),
                Some(Err(why @ Skip::Broken(path))) => return (PlaceImport::Legacy(path.into()), Some(why.clone())),
                Some(Err(why)) => return (PlaceImport::Nothing, Some(why.clone())),
                None => lost = Some(Skip::NoEnvironmentRow(id.to_owned())),
            }
        }
        let Some(path) = legacy_path(row, self.old.stage) else { return (PlaceImport::Nothing, lost) };
        let found = worktree_provider(text(row, "isolation_provider"))
            .and_then(|()| usable(path, &self.place(path), repository, None));
        match (found, thread) {
            (Err(why @ Skip::Broken(_)), _) => (PlaceImport::Legacy(path.into()), Some(why)),
            (Err(why), _) => (PlaceImport::Nothing, Some(why)),
            (Ok(found), ThreadImport::Github(thread))
                if self.old.stage == OldStage::Providers && !may_be_a_forks(&found.branch) =>
            {
                let path = found.path.clone();
                self.environment_from(row, thread, found);
                (PlaceImport::Environment(path), None)
            }
            (Ok(found), _) => (PlaceImport::Legacy(found.path), None),
        }
    }

    /// In stage two a path and a thread say enough for an environment. Several threads may share one.
    fn environment_from(&mut self, row: &OldRow, thread: &GithubThread, found: Found) {
        let Found { path, branch, unclean } = found;
        let created_at = time(row, "created_at").unwrap_or(self.facts.now);
        let last_activity_at = last_activity(row).unwrap_or(created_at).max(created_at);
        let planned = &mut self.choice.plan.environments;
        if let Some(shared) = planned.iter_mut().find(|planned| planned.path == path) {
            shared.last_activity_at = shared.last_activity_at.max(last_activity_at);
            return;
        }
        let kind = match thread.kind {
            ThreadKind::Issue => WorkKind::Issue,
            ThreadKind::PullRequest => WorkKind::PullRequest,
        };
        let work = read::work_named(&branch).unwrap_or_else(|| Work { kind, id: thread.number.to_string() });
        let id = path.display().to_string();
        self.choice.unclean.extend(unclean.then(|| path.clone()));
        planned.push(EnvironmentImport {
            row: OldName { table: OldTable::IsolationEnvironments, id, about: work.to_string() },
            repository: thread.repository,
            work,
            branch,
            path,
            metadata: migrated(None),
            created_at,
            last_activity_at,
        });
    }

    /// The newest active one of each conversation.
    fn sessions(&mut self) {
        let mut newest: BTreeMap<usize, usize> = BTreeMap::new();
        for at in 0..self.old.sessions.len() {
            let Ok(session) = self.session(at) else { continue };
            let best = newest.entry(session.conversation).or_insert(at);
            if self.session(*best).is_ok_and(|best| best.opened_at < session.opened_at) {
                *best = at;
            }
        }
        for (at, row) in self.old.sessions.iter().enumerate() {
            match self.session(at) {
                Ok(session) if newest.get(&session.conversation) == Some(&at) => {
                    self.choice.plan.sessions.push(session);
                }
                Ok(_) => self.skip(session_name(at, row), Skip::NewerSession),
                Err(why) => self.skip(session_name(at, row), why),
            }
        }
    }

    fn session(&self, at: usize) -> Result<SessionImport, Skip> {
        let row = &self.old.sessions[at];
        if read::truth(row, "active") == Some(false) {
            return Err(Skip::NotActive);
        }
        let external_id = text(row, "assistant_session_id").ok_or(Skip::Column("assistant_session_id"))?.to_owned();
        let agent = text(row, "ai_assistant_type").ok_or(Skip::Column("ai_assistant_type"))?.to_owned();
        let id = text(row, "conversation_id").ok_or(Skip::Column("conversation_id"))?;
        let conversation = self.conversations.get(&id.to_ascii_lowercase()).copied().ok_or(Skip::NoConversation)?;
        let ConversationImport { thread, place, .. } = &self.choice.plan.conversations[conversation];
        match (thread, place) {
            (ThreadImport::Held { platform, .. }, _) => return Err(Skip::NoAdapter(*platform)),
            (ThreadImport::Github(_), PlaceImport::Nothing | PlaceImport::Legacy(_)) => {
                return Err(Skip::NoEnvironment);
            }
            (ThreadImport::Github(_), PlaceImport::Environment(_)) => {}
        }
        let opened_at = time(row, "started_at").unwrap_or(self.facts.now);
        Ok(SessionImport { row: session_name(at, row), conversation, agent, external_id, opened_at })
    }
}

fn name(table: OldTable, at: usize, row: &OldRow, about: String) -> OldName {
    let id = text(row, "id").map_or_else(|| format!("(row {})", at + 1), str::to_owned);
    OldName { table, id, about }
}

fn session_name(at: usize, row: &OldRow) -> OldName {
    let about = text(row, "ai_assistant_type").unwrap_or_default().to_owned();
    name(OldTable::Sessions, at, row, about)
}

fn last_activity(row: &OldRow) -> Option<Timestamp> {
    ["last_activity_at", "updated_at"].iter().filter_map(|column| time(row, column)).max()
}

fn worktree_provider(provider: Option<&str>) -> Result<(), Skip> {
    match provider {
        None | Some("worktree") => Ok(()),
        Some(other) => Err(Skip::OtherProvider(other.to_owned())),
    }
}

/// Whoever made the branch, it was not this installation.
fn migrated(began_on: Option<PlatformKind>) -> EnvironmentMetadata {
    let created_by = began_on.filter(|platform| *platform != PlatformKind::Github);
    EnvironmentMetadata { migrated: true, foreign_branch: true, created_by, ..EnvironmentMetadata::default() }
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
