//! Environments and runs as rows of a list, used by several pages.

use crate::model::*;
use crate::reply::{disk, status::in_words};
use crate::store::Store;
use crate::web::view::{Links, Mark, Prose, When, ago};
use crate::web::{WebState, error::WebError};
use std::collections::HashMap;

/// Characters that a list shows of a request or of a run's end.
const EXCERPT: usize = 120;

/// All codebases and the moment of the request: what every row is seen against.
pub struct Catalog<'a> {
    pub state: &'a WebState,
    codebases: HashMap<CodebaseId, Codebase>,
    pub now: Timestamp,
}

impl<'a> Catalog<'a> {
    pub async fn load(state: &'a WebState) -> Result<Self, WebError> {
        let codebases = state.inner.store.list_codebases().await?;
        let codebases = codebases.into_iter().map(|codebase| (codebase.id, codebase)).collect();
        Ok(Self { state, codebases, now: state.now() })
    }

    /// By name.
    pub fn codebases(&self) -> Vec<&Codebase> {
        let mut codebases: Vec<&Codebase> = self.codebases.values().collect();
        codebases.sort_by(|a, b| a.name.cmp(&b.name));
        codebases
    }

    pub fn named(&self, name: &str) -> Option<&Codebase> {
        self.codebases.values().find(|codebase| codebase.name.to_string() == name)
    }

    /// By GitHub's id.
    pub fn by_github(&self, id: RepositoryId) -> Option<&Codebase> {
        self.codebases.values().find(|codebase| codebase.github_id() == Some(id))
    }

    pub fn store(&self) -> &Store {
        &self.state.inner.store
    }

    pub fn name(&self, id: CodebaseId) -> String {
        self.codebases.get(&id).map(|codebase| codebase.name.to_string()).unwrap_or_default()
    }

    pub fn is_disconnected(&self, id: CodebaseId) -> bool {
        self.codebases.get(&id).is_some_and(|codebase| !codebase.connected)
    }

    /// `None`: it is not on GitHub, or not known.
    pub fn links(&self, id: CodebaseId) -> Option<Links> {
        let codebase = self.codebases.get(&id)?;
        match codebase.host {
            Host::Github { .. } => Some(Links::new(&self.state.inner.web_url, &codebase.name)),
            Host::Local { .. } => None,
        }
    }
}

/// An issue, pull request or conversation, linked to GitHub where that is possible.
pub struct Thread {
    pub icon: &'static str,
    /// `#42`, or the name of work that has no number.
    pub label: String,
    /// Empty when it is not known.
    pub title: String,
    pub url: Option<String>,
}

impl Thread {
    pub fn of_conversation(catalog: &Catalog, conversation: &Conversation) -> Self {
        let title = catalog.state.shown(&conversation.title);
        match &conversation.thread {
            ThreadId::Numbered { kind, number } => {
                let links = catalog.links(conversation.codebase);
                let url = links.map(|links| links.thread(*kind, *number));
                Self { icon: icon(*kind), label: format!("#{number}"), title, url }
            }
            ThreadId::Named(name) => {
                Self { icon: "branch", label: catalog.state.shown(name.as_str()), title, url: None }
            }
        }
    }

    /// What an environment is for; the title is that of its conversation.
    pub async fn of_work(catalog: &Catalog<'_>, codebase: CodebaseId, work: &Work) -> Result<Self, WebError> {
        let kind = match work.kind {
            WorkKind::Issue => Some(ThreadKind::Issue),
            WorkKind::PullRequest | WorkKind::Review => Some(ThreadKind::PullRequest),
            WorkKind::Thread | WorkKind::Task => None,
        };
        let number = work.thread();
        let Some((kind, number)) = kind.zip(number) else {
            return Ok(Self {
                icon: "branch",
                label: catalog.state.shown(&work.to_string()),
                title: String::new(),
                url: None,
            });
        };
        let conversation = catalog.state.inner.store.find_conversation(codebase, number).await?;
        Ok(Self {
            icon: icon(kind),
            label: format!("#{number}"),
            title: conversation.map(|conversation| catalog.state.shown(&conversation.title)).unwrap_or_default(),
            url: catalog.links(codebase).map(|links| links.thread(kind, number)),
        })
    }
}

fn icon(kind: ThreadKind) -> &'static str {
    match kind {
        ThreadKind::Issue => "issue",
        ThreadKind::PullRequest => "pull",
    }
}

/// One environment in a list.
pub struct EnvironmentRow {
    pub id: EnvironmentId,
    pub codebase: String,
    /// The App reaches its codebase no more.
    pub disconnected: bool,
    pub thread: Thread,
    pub branch: String,
    pub mark: Mark,
    pub live: bool,
    pub pinned: bool,
    pub age: When,
    pub activity: When,
    pub kept_because: Vec<Prose>,
    /// What its files take, and when that was measured; of live ones only.
    pub size: Option<(String, When)>,
}

impl EnvironmentRow {
    pub async fn load(catalog: &Catalog<'_>, environment: &Environment) -> Result<Self, WebError> {
        let live = environment.state != EnvironmentState::Destroyed;
        let reasons = environment.metadata.kept_because.iter().filter(|_| live);
        Ok(Self {
            id: environment.id,
            codebase: catalog.name(environment.codebase),
            disconnected: live && catalog.is_disconnected(environment.codebase),
            thread: Thread::of_work(catalog, environment.codebase, &environment.work).await?,
            branch: catalog.state.shown(environment.branch.as_str()),
            mark: environment.state.into(),
            live,
            pinned: environment.pinned,
            age: ago(environment.created_at, catalog.now),
            activity: ago(environment.last_activity_at, catalog.now),
            size: environment.metadata.disk.filter(|_| live).map(|used| (disk::size(&used), ago(used.at, catalog.now))),
            kept_because: reasons.map(|why| catalog.state.prose(why)).collect(),
        })
    }
}

/// One run in a list.
pub struct RunRow {
    pub id: RunId,
    pub codebase: String,
    pub thread: Thread,
    pub requester: String,
    /// The beginning of the request; empty when the thread itself was the request.
    pub asked: String,
    pub mark: Mark,
    /// Why it ended as it did: the beginning of what its thread says too.
    pub why: Option<Prose>,
    pub live: bool,
    pub when: When,
    pub took: Option<String>,
}

impl RunRow {
    pub async fn load(catalog: &Catalog<'_>, run: &Run) -> Result<Self, WebError> {
        let thread = match catalog.state.inner.store.load_conversation(run.conversation).await {
            Ok(Some(conversation)) => Thread::of_conversation(catalog, &conversation),
            Err(error) if !error.is_corrupt() => return Err(error.into()),
            Ok(None) | Err(_) => Thread { icon: "issue", label: String::new(), title: String::new(), url: None },
        };
        let end = run.ended_at.unwrap_or(catalog.now);
        Ok(Self {
            id: run.id,
            codebase: catalog.name(run.codebase),
            thread,
            requester: run.request.requester.login.clone(),
            asked: excerpt(&catalog.state.shown(&run.request.text)),
            mark: run.state.into(),
            why: run.reason.as_deref().map(|why| beginning(&catalog.state.shown(why))),
            live: !run.state.is_final(),
            when: ago(run.created_at, catalog.now),
            took: run.started_at.map(|start| in_words(end.since(start))),
        })
    }

    pub async fn load_all(catalog: &Catalog<'_>, runs: &[Run]) -> Result<Vec<Self>, WebError> {
        let mut rows = Vec::with_capacity(runs.len());
        for run in runs {
            rows.push(Self::load(catalog, run).await?);
        }
        Ok(rows)
    }
}

/// Of the first line.
fn beginning(shown: &str) -> Prose {
    Prose::of_shown(&excerpt(shown.lines().next().unwrap_or_default()))
}

fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(EXCERPT).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
