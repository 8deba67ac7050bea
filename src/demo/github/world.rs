//! Everything the stand-in knows, in one place behind one lock: look-ups, ids, the clock, and the door through which
//! webhook events leave.
//!
//! Synchronous and in memory: nothing here waits, so the lock is never held across an await. What git knows (commits,
//! trees) is not repeated here beyond the shas that GitHub's answers contain.

use super::{
    actions::registration::Pending,
    auth::{AppIdentity, Sessions},
    model::*,
    post::{PostOffice, Sent},
    refusal::Refusal,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};

pub(super) struct World {
    /// `http://127.0.0.1:<port>`, without a slash at the end.
    pub base: String,
    pub app: AppIdentity,
    pub sessions: Sessions,
    pub post: PostOffice,
    pub accounts: BTreeMap<i64, Account>,
    pub repositories: BTreeMap<i64, Repository>,
    /// Former full names in lower case, of repositories that have another name now.
    pub former_names: HashMap<String, i64>,
    /// Paths by repository id that a redirect named.
    pub led_to: HashSet<String>,
    pub installations: BTreeMap<i64, Installation>,
    /// Largest page GraphQL gives, so that tests can make clients turn pages.
    pub graphql_page: usize,
    /// Pull requests tied to issues by hand: (repository, pull request, issue).
    pub links: Vec<(i64, i64, i64)>,
    /// Codes of Apps whose secrets were not handed over yet.
    pub pending: HashMap<String, Pending>,
    /// New repositories are given to the App at once.
    pub gives_itself: bool,
    /// By how much its clock is ahead of everybody else's.
    pub ahead: chrono::TimeDelta,
    /// What happens is told to nobody.
    pub muted: bool,
    last_id: i64,
}

impl World {
    pub fn new(base: String, app: AppIdentity, post: PostOffice) -> Self {
        let bot = Account { id: app.bot, login: format!("{}[bot]", app.slug), kind: AccountKind::Bot };
        Self {
            base,
            last_id: app.bot,
            accounts: BTreeMap::from([(bot.id, bot)]),
            app,
            post,
            sessions: Sessions::default(),
            repositories: BTreeMap::new(),
            former_names: HashMap::new(),
            led_to: HashSet::new(),
            installations: BTreeMap::new(),
            graphql_page: 100,
            links: Vec::new(),
            pending: HashMap::new(),
            gives_itself: true,
            ahead: chrono::TimeDelta::zero(),
            muted: false,
        }
    }

    /// One sequence for all kinds of ids, so that mixing two kinds up never works by chance.
    pub fn new_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// GitHub's timestamps have whole seconds.
    pub fn now(&self) -> Moment {
        chrono::SubsecRound::trunc_subsecs(self.clock(), 0)
    }

    /// To the last digit: tokens end by it.
    pub fn clock(&self) -> Moment {
        chrono::Utc::now() + self.ahead
    }

    pub fn api(&self) -> String {
        format!("{}/api/v3", self.base)
    }

    pub fn bot(&self) -> Actor {
        Actor { account: self.app.bot, via_app: true }
    }

    pub fn find_account(&self, login: &str) -> Option<&Account> {
        self.accounts.values().find(|account| account.login.eq_ignore_ascii_case(login))
    }

    /// The account of that login, made as a plain user when it is new.
    pub fn ensure_account(&mut self, login: &str) -> i64 {
        if let Some(account) = self.find_account(login) {
            return account.id;
        }
        let kind = if login.ends_with("[bot]") { AccountKind::Bot } else { AccountKind::User };
        let id = self.new_id();
        self.accounts.insert(id, Account { id, login: login.to_owned(), kind });
        id
    }

    /// The login of an account; GitHub's name for those it no longer knows.
    pub fn login(&self, account: i64) -> &str {
        self.accounts.get(&account).map_or("ghost", |account| account.login.as_str())
    }

    pub fn full_name(&self, repository: &Repository) -> String {
        format!("{}/{}", self.login(repository.owner), repository.name)
    }

    pub fn find_repository(&self, full_name: &str) -> Option<&Repository> {
        self.repositories.values().find(|repository| self.full_name(repository).eq_ignore_ascii_case(full_name))
    }

    pub fn repository_named(&self, full_name: &str) -> Result<&Repository, Refusal> {
        self.find_repository(full_name).ok_or_else(|| Refusal::missing(format!("repository {full_name}")))
    }

    pub fn repository(&self, id: i64) -> Result<&Repository, Refusal> {
        self.repositories.get(&id).ok_or_else(|| Refusal::missing(format!("repository {id}")))
    }

    pub fn repository_mut(&mut self, id: i64) -> Result<&mut Repository, Refusal> {
        self.repositories.get_mut(&id).ok_or_else(|| Refusal::missing(format!("repository {id}")))
    }

    pub fn thread(&self, repository: i64, number: i64) -> Result<&Thread, Refusal> {
        let found = self.repository(repository)?.threads.get(&number);
        found.ok_or_else(|| Refusal::missing(format!("#{number}")))
    }

    pub fn thread_mut(&mut self, repository: i64, number: i64) -> Result<&mut Thread, Refusal> {
        let found = self.repository_mut(repository)?.threads.get_mut(&number);
        found.ok_or_else(|| Refusal::missing(format!("#{number}")))
    }

    pub fn pull(&self, repository: i64, number: i64) -> Result<(&Thread, &Pull), Refusal> {
        let thread = self.thread(repository, number)?;
        let pull = thread.pull.as_ref();
        Ok((thread, pull.ok_or_else(|| Refusal::missing(format!("pull request #{number}")))?))
    }

    pub fn pull_mut(&mut self, repository: i64, number: i64) -> Result<&mut Pull, Refusal> {
        let pull = self.thread_mut(repository, number)?.pull.as_mut();
        pull.ok_or_else(|| Refusal::missing(format!("pull request #{number}")))
    }

    /// Notes that something about a thread changed now.
    pub fn touch(&mut self, repository: i64, number: i64) {
        let now = self.now();
        if let Ok(thread) = self.thread_mut(repository, number) {
            thread.updated_at = now;
        }
    }

    /// The installation that reaches a repository.
    pub fn installation_of(&self, repository: i64) -> Option<&Installation> {
        self.installations.values().find(|installation| installation.repositories.contains(&repository))
    }

    /// Sends an event about a repository, if an installation reaches it. `details` are the fields beside `action`,
    /// `repository`, `installation` and `sender`.
    pub fn emit(&mut self, repository: i64, actor: Actor, event: &str, action: Option<&str>, details: Value) {
        let Ok(about) = self.repository(repository) else { return };
        let Some(installation) = self.installation_of(repository).filter(|i| !i.suspended) else { return };
        let installation = installation.id;
        let mut body = details;
        body["repository"] = self.repository_json(about);
        if self.accounts.get(&about.owner).is_some_and(|owner| owner.kind == AccountKind::Organization) {
            body["organization"] = self.account_json(about.owner);
        }
        body["installation"] = json!({ "id": installation, "node_id": self.node_id("Installation", installation) });
        body["sender"] = self.account_json(actor.account);
        self.dispatch(event, action, Some(installation), Some(repository), body);
    }

    /// Hands a finished body to the post office, unless the App did not ask for such events; `action` becomes its first field.
    pub fn dispatch(
        &mut self,
        event: &str,
        action: Option<&str>,
        installation: Option<i64>,
        repository: Option<i64>,
        mut body: Value,
    ) {
        if self.muted || !self.app.hears(event) {
            return;
        }
        if let Some(action) = action {
            body["action"] = json!(action);
        }
        let (id, now) = (self.new_id(), self.clock());
        let sent = Sent { event, action, installation, repository, body: body.to_string().into_bytes() };
        self.post.accept(id, sent, now);
    }
}
