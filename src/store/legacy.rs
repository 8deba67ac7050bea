//! The older schema, as it was before Treewarden: tables `remote_agent_…`, in three stages. It is only read.
//!
//! Its tables may be in a database of their own or beside ours; no statement of it is in the list of this program's
//! statements, because our tables do not have its columns.

use super::db::{Foreign, ForeignError};
use crate::model::*;
use std::path::PathBuf;

pub(super) const PREFIX: &str = "remote_agent_";

/// Columns that are asked for, the one that rows are known by first. `true`: without it the table is not the one we know.
type Columns = &'static [(&'static str, bool)];

const CODEBASES: Columns =
    &[("id", true), ("name", false), ("repository_url", true), ("default_cwd", false), ("created_at", false)];
const CONVERSATIONS: Columns = &[
    ("id", true),
    ("platform_type", true),
    ("platform_conversation_id", true),
    ("codebase_id", true),
    ("worktree_path", false),
    ("isolation_env_id", false),
    ("isolation_env_id_legacy", false),
    ("isolation_provider", false),
    ("last_activity_at", false),
    ("created_at", false),
    ("updated_at", false),
];
const ENVIRONMENTS: Columns = &[
    ("id", true),
    ("codebase_id", true),
    ("workflow_type", true),
    ("workflow_id", true),
    ("working_path", true),
    ("branch_name", true),
    ("status", true),
    ("provider", false),
    ("created_by_platform", false),
    ("metadata", false),
    ("created_at", false),
];
const SESSIONS: Columns = &[
    ("id", true),
    ("conversation_id", true),
    ("assistant_session_id", true),
    ("ai_assistant_type", false),
    ("active", false),
    ("started_at", false),
];

/// Why a database cannot be imported from. Nothing was changed, there or here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LegacyError {
    #[error("--from is not usable: {0}. Expected sqlite://<path> or postgres://<user>@<host>/<database>")]
    Url(&'static str),
    #[error("there is no file {}. Nothing was imported; look at the path after --from", .0.display())]
    NoFile(PathBuf),
    #[error("what --from names is not a SQLite database. Nothing was imported")]
    NoDatabase,
    #[error("the database to import from cannot be read ({0}). Nothing was imported")]
    Unreadable(String),
    #[error(
        "the database to import from has none of the older tables (remote_agent_conversations, remote_agent_codebases, …). \
         Nothing was imported; is it the right one?"
    )]
    NoTables,
    #[error("the database to import from lacks {}. Nothing was imported; import from a complete copy", .0.join(", "))]
    Incomplete(Vec<String>),
    #[error(
        "the database to import from is of a form this version does not know: {0}. Nothing was imported. It may be newer \
         than the forms that can be imported"
    )]
    UnknownStage(String),
}

/// Reads everything an import is about from the database this URL names, as it is at one moment.
pub async fn load_old_data(url: &str) -> Result<OldData, LegacyError> {
    let explain = |error| match error {
        ForeignError::Url(why) => LegacyError::Url(why),
        ForeignError::NoFile => LegacyError::NoFile(super::Store::file(url).unwrap_or("".as_ref()).to_owned()),
        ForeignError::NoDatabase => LegacyError::NoDatabase,
        ForeignError::Failed(why) => LegacyError::Unreadable(why),
    };
    let mut database = Foreign::open(url).await.map_err(explain)?;
    let data = read(&mut database).await;
    database.close().await;
    data.map_err(|error| match error {
        Failure::Foreign(error) => explain(error),
        Failure::Legacy(error) => error,
    })
}

enum Failure {
    Foreign(ForeignError),
    Legacy(LegacyError),
}

impl From<ForeignError> for Failure {
    fn from(error: ForeignError) -> Self {
        Failure::Foreign(error)
    }
}

impl From<LegacyError> for Failure {
    fn from(error: LegacyError) -> Self {
        Failure::Legacy(error)
    }
}

fn wanted(table: OldTable) -> Columns {
    match table {
        OldTable::Codebases => CODEBASES,
        OldTable::Conversations => CONVERSATIONS,
        OldTable::IsolationEnvironments => ENVIRONMENTS,
        OldTable::Sessions => SESSIONS,
    }
}

async fn read(database: &mut Foreign) -> Result<OldData, Failure> {
    let mut found = Vec::new();
    for table in OldTable::ALL {
        found.push((table, database.columns(&format!("{PREFIX}{table}")).await?));
    }
    let stage = stage(&found)?;
    let mut rows = Vec::new();
    for (table, there) in &found {
        let columns = wanted(*table).iter().map(|(name, _)| *name);
        let columns: Vec<&'static str> = columns.filter(|name| there.iter().any(|column| column == name)).collect();
        rows.push(match there.is_empty() {
            true => Vec::new(),
            false => database.rows(&format!("{PREFIX}{table}"), &columns).await?.into_iter().map(OldRow).collect(),
        });
    }
    let [codebases, conversations, environments, sessions] = rows.try_into().expect("one for each table");
    Ok(OldData { stage, codebases, conversations, environments, sessions })
}

/// From the columns of each table to how far the schema had come; an absent table has none.
fn stage(found: &[(OldTable, Vec<String>)]) -> Result<OldStage, LegacyError> {
    let columns = |table| found.iter().find(|(name, _)| *name == table).map_or(&[][..], |(_, columns)| columns);
    if found.iter().all(|(_, columns)| columns.is_empty()) {
        return Err(LegacyError::NoTables);
    }
    let has = |name: &str| columns(OldTable::Conversations).iter().any(|column| column == name);
    let environments = !columns(OldTable::IsolationEnvironments).is_empty();
    let needed = |table| table != OldTable::IsolationEnvironments || has("isolation_env_id_legacy");
    let missing = found.iter().filter(|(table, columns)| columns.is_empty() && needed(*table));
    let missing: Vec<String> = missing.map(|(table, _)| format!("the table {PREFIX}{table}")).collect();
    if !missing.is_empty() {
        return Err(LegacyError::Incomplete(missing));
    }
    for (table, there) in found.iter().filter(|(_, columns)| !columns.is_empty()) {
        if let Some((name, _)) = wanted(*table).iter().find(|(name, must)| *must && !there.iter().any(|c| c == name)) {
            return Err(LegacyError::UnknownStage(format!("{PREFIX}{table} has no column {name}")));
        }
    }
    // Where the work is, is what must not be misread.
    let about_places = |name: &&String| name.starts_with("worktree_") || name.starts_with("isolation_");
    let known = |name: &str| CONVERSATIONS.iter().any(|(column, _)| *column == name);
    if let Some(other) = columns(OldTable::Conversations).iter().filter(about_places).find(|name| !known(name)) {
        return Err(LegacyError::UnknownStage(format!("{PREFIX}conversations has a column {other}")));
    }
    match (environments, has("isolation_env_id"), has("worktree_path")) {
        (true, true, _) => Ok(OldStage::Environments),
        (true, false, _) => Err(LegacyError::UnknownStage(format!("{PREFIX}conversations names no environment"))),
        (false, true, _) => Ok(OldStage::Providers),
        (false, false, true) => Ok(OldStage::Paths),
        (false, false, false) => {
            Err(LegacyError::UnknownStage(format!("{PREFIX}conversations says nothing about worktrees")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(conversations: &[&str], environments: bool) -> Vec<(OldTable, Vec<String>)> {
        let columns = |table| wanted(table).iter().filter(|(_, must)| *must).map(|(name, _)| (*name).to_owned());
        let mut found: Vec<_> = OldTable::ALL.map(|table| (table, columns(table).collect::<Vec<_>>())).into();
        found[1].1.extend(conversations.iter().map(|name| (*name).to_owned()));
        if !environments {
            found[2].1.clear();
        }
        found
    }

    #[test]
    fn stages_are_told_by_their_columns() {
        assert_eq!(stage(&tables(&["worktree_path"], false)), Ok(OldStage::Paths));
        let providers = ["worktree_path", "isolation_env_id", "isolation_provider"];
        assert_eq!(stage(&tables(&providers, false)), Ok(OldStage::Providers));
        let both = ["worktree_path", "isolation_env_id", "isolation_env_id_legacy", "last_activity_at"];
        assert_eq!(stage(&tables(&both, true)), Ok(OldStage::Environments));
        assert_eq!(stage(&tables(&["isolation_env_id"], true)), Ok(OldStage::Environments), "legacy columns dropped");
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let nothing: Vec<_> = OldTable::ALL.map(|table| (table, Vec::new())).into();
        assert_eq!(stage(&nothing), Err(LegacyError::NoTables));
        let half = stage(&tables(&["isolation_env_id", "isolation_env_id_legacy"], false));
        assert_eq!(
            half,
            Err(LegacyError::Incomplete(vec!["the table remote_agent_isolation_environments".to_owned()]))
        );
        let mut without = tables(&["worktree_path"], false);
        without[3].1.clear();
        assert!(matches!(stage(&without), Err(LegacyError::Incomplete(_))));
        for unknown in
            [tables(&["isolation_workspace_id", "isolation_env_id"], true), tables(&[], false), tables(&[], true)]
        {
            assert!(matches!(stage(&unknown), Err(LegacyError::UnknownStage(_))), "{unknown:?}");
        }
        let mut odd = tables(&["isolation_env_id"], true);
        odd[2].1.retain(|name| name != "working_path");
        assert!(matches!(stage(&odd), Err(LegacyError::UnknownStage(_))));
    }
}
