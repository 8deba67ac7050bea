//! What can go wrong between this program and its database, in sentences for people.

/// Why the store could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("DATABASE_URL is not usable: {0}. Expected sqlite://<path> or postgres://<user>@<host>/<database>")]
    Url(String),
    #[error("the database cannot be reached ({0}). Nothing that was stored is lost")]
    Unavailable(String),
    /// PostgreSQL answers, and has no such database, or nobody of that name who may log in.
    #[error("the database cannot be reached ({why}). Nothing that was stored is lost")]
    Lacks { what: Lacking, why: String },
    #[error("the database is busy and did not get to this in time. Nothing is lost; the step can be repeated")]
    Busy,
    #[error(
        "the database's disk is full. Nothing that was stored is lost; free some space, then the step can be repeated"
    )]
    DiskFull,
    #[error(
        "the database was made by a newer Treewarden (schema {found}; this one knows up to {known}). \
         Nothing was changed. Start the newer version, or restore a backup made before the upgrade"
    )]
    NewerSchema { found: i64, known: i64 },
    /// With who that is.
    #[error(
        "another Treewarden works with this database ({0}), and a database has one service. Nothing was changed. Stop that one, or \
         give this one a database of its own, with DATABASE_URL"
    )]
    InUse(String),
    /// With the names of its tables.
    #[error(
        "the database belongs to another program: it has tables{}, and none of Treewarden's. Nothing was changed. Give Treewarden \
         a database of its own, with DATABASE_URL", some(.0)
    )]
    OtherProgram(Vec<String>),
    /// With the names of the tables that are not there any more.
    #[error("the database lacks tables{} that Treewarden had made in it. Nothing was changed. Put its backup back", some(.0))]
    Incomplete(Vec<String>),
    #[error(
        "the database lets its user {user} make no tables in its schema {schema}. Nothing was changed. Its owner allows it: \
         GRANT USAGE, CREATE ON SCHEMA \"{schema}\" TO \"{user}\""
    )]
    NoTables { schema: String, user: String },
    #[error("the database could not be brought up to date: {0}. What was there before is unchanged")]
    Migration(String),
    #[error("the database holds something unreadable in {what}: {why}. It is left as it is")]
    Corrupt { what: String, why: String },
    /// Another writer was first, or a live row already stands where this one would.
    #[error("this was changed by someone else in the meantime ({0}). Nothing was overwritten; look again and repeat")]
    Conflict(String),
    #[error("more deliveries arrive than can be stored. This one was not taken; it has to be sent again")]
    Full,
    #[error("the database refused: {0}")]
    Failed(String),
}

/// What a PostgreSQL lacks before anybody can work with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    Database,
    Role,
    /// The role is there.
    RightToLogIn,
}

impl StoreError {
    /// A row that this program cannot make sense of.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, StoreError::Corrupt { .. })
    }

    /// The same step may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            StoreError::Unavailable(_)
            | StoreError::Lacks { .. }
            | StoreError::Busy
            | StoreError::DiskFull
            | StoreError::Full => true,
            StoreError::Url(_)
            | StoreError::NewerSchema { .. }
            | StoreError::InUse(_)
            | StoreError::OtherProgram(_)
            | StoreError::Incomplete(_)
            | StoreError::NoTables { .. }
            | StoreError::Migration(_)
            | StoreError::Corrupt { .. }
            | StoreError::Conflict(_)
            | StoreError::Failed(_) => false,
        }
    }

    /// The world moved on: read again and decide again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, StoreError::Conflict(_))
    }
}

/// A few of the names, in brackets.
fn some(names: &[String]) -> String {
    const ENOUGH: usize = 3;
    let shown = names.iter().take(ENOUGH).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => String::new(),
        1..=ENOUGH => format!(" ({shown})"),
        _ => format!(" ({shown}, …)"),
    }
}

/// A column that does not hold what it should.
pub(super) fn corrupt(what: &str, why: impl ToString) -> StoreError {
    StoreError::Corrupt { what: format!("column {what}"), why: why.to_string() }
}
