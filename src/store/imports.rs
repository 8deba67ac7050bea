//! Rows that come from another installation, all in one transaction: either the whole plan is here afterwards, or nothing
//! of it. What is here already is never changed by it, so that a plan can be carried out again and again.
//!
//! A worktree that is to become an environment when it is first used waits under `legacy/<conversation>` in `settings`.

use super::codebases::{upsert_in, upsert_local_in};
use super::codec::FromRow;
use super::db::{Row, Tx};
use super::environments;
use super::sql::{new_id, sql};
use super::{Answer, Inserted, NewCodebase, NewEnvironment, NewLocalCodebase, Store, StoreError};
use crate::model::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::HashMap, path::Path, path::PathBuf};

const LEGACY: &str = "legacy/";

#[derive(Serialize, Deserialize)]
struct Waiting {
    path: PathBuf,
}

fn key(conversation: ConversationId) -> String {
    format!("{LEGACY}{conversation}")
}

impl FromRow for LegacyPath {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        let key: String = row.get("key")?;
        let value: Value = row.get_json("value").unwrap_or_default();
        let conversation = key.strip_prefix(LEGACY).and_then(|id| id.parse().ok());
        let path = serde_json::from_value::<Waiting>(value).ok().map(|waiting| waiting.path);
        Ok(LegacyPath { known: conversation.zip(path), key })
    }
}

impl Store {
    /// Carries a plan out. Without `keep` everything is undone again, and the answer says what would have become of it.
    pub async fn import(&self, plan: &ImportPlan, keep: bool, now: Timestamp) -> Result<Imported, StoreError> {
        let mut tx = self.db.begin().await?;
        let mut pass =
            Pass { tx: &mut tx, mode: self.first_mode, now, codebases: HashMap::new(), environments: HashMap::new() };
        let mut imported = Imported::default();
        for new in &plan.codebases {
            imported.codebases.push(pass.codebase(new).await?);
        }
        for new in &plan.environments {
            imported.environments.push(pass.environment(new).await?);
        }
        let mut places = Vec::new();
        for new in &plan.conversations {
            let (outcome, place) = pass.conversation(new).await?;
            imported.conversations.push(outcome);
            places.push(place);
        }
        for new in &plan.sessions {
            let place = places.get(new.conversation).copied().flatten();
            imported.sessions.push(pass.session(new, place).await?);
        }
        if keep {
            pass.record(&imported).await?;
            tx.commit().await?;
        }
        Ok(imported)
    }

    /// Where a conversation that was imported without an environment worked before.
    pub async fn legacy_path(&self, conversation: ConversationId) -> Result<Option<PathBuf>, StoreError> {
        let sql = sql!("SELECT key, value FROM settings WHERE key = $1");
        let row: Option<LegacyPath> = self.db.fetch_optional(sql.bind(key(conversation))).await?;
        Ok(row.and_then(|row| row.known).map(|(_, path)| path))
    }

    /// It became an environment, or never will.
    pub async fn clear_legacy_path(&self, conversation: ConversationId) -> Result<(), StoreError> {
        self.clear_legacy(&key(conversation)).await
    }

    /// Everything that waits to become an environment, readable or not.
    pub async fn legacy_paths(&self) -> Result<Vec<LegacyPath>, StoreError> {
        self.db.fetch_all(sql!("SELECT key, value FROM settings WHERE key LIKE 'legacy/%' ORDER BY key")).await
    }

    /// Makes a path that waits the environment of its conversation, which has none, and waits no more. Without `keep`
    /// everything is undone again. Something else in the way: it waits on.
    pub async fn settle_legacy(
        &self,
        conversation: ConversationId,
        new: &EnvironmentImport,
        keep: bool,
        now: Timestamp,
    ) -> Result<Import, StoreError> {
        let mut tx = self.db.begin().await?;
        let mut pass =
            Pass { tx: &mut tx, mode: self.first_mode, now, codebases: HashMap::new(), environments: HashMap::new() };
        let outcome = pass.environment(new).await?;
        // Several threads may have worked at one place.
        let Some(environment) = pass.environments.get(&new.path).map(|environment| environment.id) else {
            return Ok(outcome);
        };
        for sql in [
            sql!("UPDATE conversations SET environment_id = $2 WHERE id = $1 AND environment_id IS NULL"),
            sql!("UPDATE held_conversations SET environment_id = $2 WHERE id = $1 AND environment_id IS NULL"),
        ] {
            tx.execute(sql.bind(conversation).bind(environment)).await?;
        }
        tx.execute(sql!("DELETE FROM settings WHERE key = $1").bind(key(conversation))).await?;
        let sql =
            sql!("INSERT INTO audit_log (id, actor, action, subject, detail, at) VALUES ($1, $2, $3, $4, $5, $6)");
        let sql = sql.bind(new_id::<AuditId>()).bind("cli").bind("import.settled").bind(new.work.to_string());
        tx.execute(sql.bind(new.path.display().to_string()).bind(now)).await?;
        if keep {
            tx.commit().await?;
        }
        Ok(Import::Taken)
    }

    pub async fn clear_legacy(&self, key: &str) -> Result<(), StoreError> {
        let sql = sql!("DELETE FROM settings WHERE key = $1 AND key LIKE 'legacy/%'");
        self.db.execute(sql.bind(key)).await.map(drop)
    }
}

/// The row that a conversation became, and the planned environment when it points to that.
type Placed = (ConversationId, EnvironmentId);

struct Pass<'a> {
    tx: &'a mut Tx,
    /// What codebases start in.
    mode: CodebaseMode,
    now: Timestamp,
    codebases: HashMap<RepositoryId, Codebase>,
    environments: HashMap<PathBuf, Environment>,
}

impl Pass<'_> {
    async fn codebase(&mut self, new: &CodebaseImport) -> Result<Import, StoreError> {
        let RepositoryFacts { host, name, default_branch } = new.repository.clone();
        let id = host.repository();
        if self.known_codebase(id).await?.is_some_and(|codebase| codebase.connected) {
            return Ok(Import::Present);
        }
        let codebase = match host {
            Host::Github { id: github_id, installation } => {
                let new = NewCodebase { github_id, installation, name, default_branch, reached: true };
                upsert_in(self.tx, &new, self.mode, self.now).await?
            }
            Host::Local { path } => {
                let new = NewLocalCodebase { path, name, default_branch };
                upsert_local_in(self.tx, &new, self.mode, self.now).await?
            }
        };
        self.codebases.insert(id, codebase);
        Ok(Import::Taken)
    }

    async fn known_codebase(&mut self, id: RepositoryId) -> Result<Option<Codebase>, StoreError> {
        if !self.codebases.contains_key(&id) {
            let sql = sql!("SELECT * FROM codebases WHERE github_id = $1");
            let Some(found) = self.tx.fetch_optional(sql.bind(id)).await? else { return Ok(None) };
            self.codebases.insert(id, found);
        }
        Ok(self.codebases.get(&id).cloned())
    }

    async fn environment(&mut self, new: &EnvironmentImport) -> Result<Import, StoreError> {
        let Some(codebase) = self.known_codebase(new.repository).await? else { return Ok(Import::Dangling) };
        let wanted = NewEnvironment {
            codebase: codebase.id,
            work: new.work.clone(),
            branch: new.branch.clone(),
            path: new.path.clone(),
            base: None,
            provider: "worktree".to_owned(),
            metadata: new.metadata.clone(),
        };
        self.tx.execute(sql!("UPDATE codebases SET connected = connected WHERE id = $1").bind(codebase.id)).await?;
        // The worktree is there, whatever the limit says.
        let (other, same_work) = match environments::in_the_way(self.tx, &wanted, u32::MAX).await? {
            None | Some(Inserted::LimitReached { .. } | Inserted::Created(_)) => {
                let life = (new.created_at, new.last_activity_at);
                let made = environments::insert(self.tx, &wanted, EnvironmentState::Active, life).await?;
                self.environments.insert(new.path.clone(), made);
                return Ok(Import::Taken);
            }
            Some(Inserted::Exists(other)) => (other, true),
            Some(Inserted::BranchTaken(other)) => (other, false),
        };
        if other.path != new.path || other.codebase != codebase.id {
            return Ok(Import::InTheWay(format!("the environment {}, at {}", other.work, other.path.display())));
        }
        let outcome = match same_work {
            true => Import::Present,
            false => Import::InTheWay(format!("the environment {}, in the same worktree", other.work)),
        };
        self.environments.insert(new.path.clone(), other);
        Ok(outcome)
    }

    async fn conversation(&mut self, new: &ConversationImport) -> Result<(Import, Option<Placed>), StoreError> {
        match &new.thread {
            ThreadImport::Github(thread) => {
                let Some(codebase) = self.known_codebase(thread.repository).await? else {
                    return Ok((Import::Dangling, None));
                };
                let known = self.thread(codebase.id, thread.number).await?;
                let here = match &known {
                    Some(known) => known.clone(),
                    None => self.insert_thread(codebase.id, thread, new).await?,
                };
                let planned = self.environment_of(new, Some(codebase.id));
                // What it points to here is newer than what it pointed to there.
                if let (None, Some(environment)) = (here.environment, planned) {
                    let sql = sql!("UPDATE conversations SET environment_id = $2 WHERE id = $1");
                    self.tx.execute(sql.bind(here.id).bind(environment)).await?;
                }
                let environment = here.environment.or(planned);
                let changed = self.remember(new, here.id, environment).await?
                    || environment != here.environment
                    || known.is_none();
                // The agent's memory is of the worktree it had there.
                let placed =
                    planned.filter(|planned| environment == Some(*planned)).map(|environment| (here.id, environment));
                Ok((if changed { Import::Taken } else { Import::Present }, placed))
            }
            ThreadImport::Held { platform, thread, repository } => {
                let codebase = match repository {
                    Some(repository) => self.known_codebase(*repository).await?.map(|codebase| codebase.id),
                    None => None,
                };
                let environment = self.environment_of(new, codebase);
                self.held(new, *platform, thread, codebase, environment).await.map(|outcome| (outcome, None))
            }
        }
    }

    /// The planned environment, when it is one of the thread's repository.
    fn environment_of(&self, new: &ConversationImport, codebase: Option<CodebaseId>) -> Option<EnvironmentId> {
        match &new.place {
            PlaceImport::Environment(path) => self.environments.get(path),
            PlaceImport::Nothing | PlaceImport::Legacy(_) => None,
        }
        .filter(|environment| Some(environment.codebase) == codebase)
        .map(|environment| environment.id)
    }

    async fn thread(&mut self, codebase: CodebaseId, number: ThreadNumber) -> Result<Option<Conversation>, StoreError> {
        let sql = sql!("SELECT * FROM conversations WHERE platform = $1 AND codebase_id = $2 AND number = $3");
        self.tx.fetch_optional(sql.bind(PlatformKind::Github).bind(codebase).bind(number)).await
    }

    async fn insert_thread(
        &mut self,
        codebase: CodebaseId,
        thread: &GithubThread,
        new: &ConversationImport,
    ) -> Result<Conversation, StoreError> {
        let sql = sql!(
            "INSERT INTO conversations (id, platform, codebase_id, kind, number, title, state, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             RETURNING *"
        );
        let sql = sql
            .bind(new_id::<ConversationId>())
            .bind(PlatformKind::Github)
            .bind(codebase)
            .bind(thread.kind)
            .bind(thread.number)
            .bind(&thread.title)
            .bind(thread.state)
            .bind(new.created_at)
            .bind(new.last_activity_at);
        self.tx.fetch_one(sql).await
    }

    async fn held(
        &mut self,
        new: &ConversationImport,
        platform: PlatformKind,
        thread: &str,
        codebase: Option<CodebaseId>,
        environment: Option<EnvironmentId>,
    ) -> Result<Import, StoreError> {
        // Taken over since.
        let sql = sql!("SELECT * FROM conversations WHERE platform = $1 AND thread = $2");
        let here: Option<Conversation> = self.tx.fetch_optional(sql.bind(platform).bind(thread)).await?;
        if here.is_some() {
            return Ok(Import::Present);
        }
        let sql = sql!("SELECT * FROM held_conversations WHERE platform = $1 AND thread = $2");
        let known: Option<HeldConversation> = self.tx.fetch_optional(sql.bind(platform).bind(thread)).await?;
        let after = match &known {
            Some(known) => {
                let (codebase, environment) = (known.codebase.or(codebase), known.environment.or(environment));
                let sql = sql!(
                    "UPDATE held_conversations SET codebase_id = $2, environment_id = $3 WHERE id = $1 RETURNING *"
                );
                self.tx.fetch_one(sql.bind(known.id).bind(codebase).bind(environment)).await?
            }
            None => {
                let sql = sql!(
                    "INSERT INTO held_conversations
                         (id, platform, thread, codebase_id, environment_id, created_at, last_activity_at)
                     VALUES ($1, $2, $3, $4, $5, $6, $7)
                     RETURNING *"
                );
                let sql = sql
                    .bind(new_id::<ConversationId>())
                    .bind(platform)
                    .bind(thread)
                    .bind(codebase)
                    .bind(environment)
                    .bind(new.created_at)
                    .bind(new.last_activity_at);
                self.tx.fetch_one::<HeldConversation>(sql).await?
            }
        };
        let changed = self.remember(new, after.id, after.environment).await? || known.as_ref() != Some(&after);
        Ok(if changed { Import::Taken } else { Import::Present })
    }

    /// Writes down where the conversation worked, unless it has an environment; false when that is written already.
    async fn remember(
        &mut self,
        new: &ConversationImport,
        conversation: ConversationId,
        environment: Option<EnvironmentId>,
    ) -> Result<bool, StoreError> {
        let PlaceImport::Legacy(path) = &new.place else { return Ok(false) };
        if environment.is_some() || self.waits(conversation, path).await? {
            return Ok(false);
        }
        let sql = sql!(
            "INSERT INTO settings (key, value, updated_at) VALUES ($1, $2, $3)
             ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"
        );
        let waiting = Waiting { path: path.clone() };
        self.tx.execute(sql.bind(key(conversation)).bind_json(&waiting)?.bind(self.now)).await?;
        Ok(true)
    }

    async fn waits(&mut self, conversation: ConversationId, path: &Path) -> Result<bool, StoreError> {
        let sql = sql!("SELECT key, value FROM settings WHERE key = $1");
        let row: Option<LegacyPath> = self.tx.fetch_optional(sql.bind(key(conversation))).await?;
        Ok(row.and_then(|row| row.known).is_some_and(|(_, known)| known == path))
    }

    /// One that was known once, also if it was closed since, is not opened again.
    async fn session(&mut self, new: &SessionImport, placed: Option<Placed>) -> Result<Import, StoreError> {
        let Some((conversation, environment)) = placed else { return Ok(Import::Dangling) };
        let sql = sql!(
            "SELECT count(*) AS answer FROM sessions
             WHERE environment_id = $1 AND conversation_id = $2 AND external_id = $3"
        );
        let sql = sql.bind(environment).bind(conversation).bind(&new.external_id);
        let known: Answer = self.tx.fetch_one(sql).await?;
        if known.0 > 0 {
            return Ok(Import::Present);
        }
        let sql = sql!(
            "SELECT count(*) AS answer FROM sessions
             WHERE conversation_id = $1 AND environment_id = $2 AND closed_at IS NULL"
        );
        let open: Answer = self.tx.fetch_one(sql.bind(conversation).bind(environment)).await?;
        if open.0 > 0 {
            return Ok(Import::InTheWay("a session that was opened here".to_owned()));
        }
        let sql = sql!(
            "INSERT INTO sessions (id, conversation_id, environment_id, agent, external_id, opened_at)
             VALUES ($1, $2, $3, $4, $5, $6)"
        );
        let sql = sql
            .bind(new_id::<SessionId>())
            .bind(conversation)
            .bind(environment)
            .bind(&new.agent)
            .bind(&new.external_id)
            .bind(new.opened_at);
        self.tx.execute(sql).await?;
        Ok(Import::Taken)
    }

    /// The audit log hears of an import that changed something.
    async fn record(&mut self, imported: &Imported) -> Result<(), StoreError> {
        let taken = |rows: &[Import]| rows.iter().filter(|outcome| **outcome == Import::Taken).count();
        let Imported { codebases, environments, conversations, sessions } = imported;
        let counts = [codebases, environments, conversations, sessions].map(|rows| taken(rows));
        if counts.iter().all(|count| *count == 0) {
            return Ok(());
        }
        let [codebases, environments, conversations, sessions] = counts;
        let detail = format!(
            "codebases {codebases}, environments {environments}, conversations {conversations}, sessions {sessions}"
        );
        let sql =
            sql!("INSERT INTO audit_log (id, actor, action, subject, detail, at) VALUES ($1, $2, $3, $4, $5, $6)");
        let sql = sql.bind(new_id::<AuditId>()).bind("cli").bind("import.done").bind("older database");
        self.tx.execute(sql.bind(detail).bind(self.now)).await.map(drop)
    }
}
