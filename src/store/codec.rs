//! How our types become parameters and come back from columns, once for all tables. A column that does not hold what its
//! type can be made from is an error that names the column, never a default.

use super::db::Row;
use super::sql::{Param, ToParam};
use super::{StoreError, corrupt};
use crate::model::*;
use serde::de::DeserializeOwned;
use std::path::PathBuf;

/// A row of a table as the struct that stands for it.
pub(super) trait FromRow: Sized {
    fn from_row(row: &Row) -> Result<Self, StoreError>;
}

/// A type that a column can hold.
pub(super) trait Column: Sized {
    /// `None` for NULL.
    fn read(row: &Row, column: &str) -> Result<Option<Self>, StoreError>;
}

impl Row {
    /// A column that is never NULL.
    pub fn get<T: Column>(&self, column: &str) -> Result<T, StoreError> {
        T::read(self, column)?.ok_or_else(|| corrupt(column, "it is empty"))
    }

    pub fn maybe<T: Column>(&self, column: &str) -> Result<Option<T>, StoreError> {
        T::read(self, column)
    }

    pub fn get_json<T: DeserializeOwned>(&self, column: &str) -> Result<T, StoreError> {
        self.maybe_json(column)?.ok_or_else(|| corrupt(column, "it is empty"))
    }

    pub fn maybe_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>, StoreError> {
        self.json(column)?
            .map(|value| serde_json::from_value(value).map_err(|error| corrupt(column, error)))
            .transpose()
    }
}

macro_rules! plain {
    ($($type:ty: $variant:ident, $read:ident;)*) => {$(
        impl ToParam for $type {
            const NULL: Param = Param::$variant(None);
            fn to_param(&self) -> Param {
                Param::$variant(Some(self.clone()))
            }
        }

        impl Column for $type {
            fn read(row: &Row, column: &str) -> Result<Option<Self>, StoreError> {
                row.$read(column)
            }
        }
    )*};
}

plain! {
    String: Text, text;
    i64: Integer, integer;
    bool: Bool, boolean;
    Timestamp: Time, time;
    Vec<u8>: Bytes, bytes;
}

impl ToParam for str {
    const NULL: Param = Param::Text(None);
    fn to_param(&self) -> Param {
        Param::Text(Some(self.to_owned()))
    }
}

macro_rules! row_ids {
    ($($type:ident),* $(,)?) => {$(
        impl ToParam for $type {
            const NULL: Param = Param::Id(None);
            fn to_param(&self) -> Param {
                Param::Id(Some(self.0))
            }
        }

        impl Column for $type {
            fn read(row: &Row, column: &str) -> Result<Option<Self>, StoreError> {
                Ok(row.id(column)?.map(Self))
            }
        }
    )*};
}

row_ids!(
    CodebaseId,
    ConversationId,
    EnvironmentId,
    RunId,
    SessionId,
    OutboxId,
    InboxId,
    ReceiptId,
    ReportId,
    AuditId,
    LocalMessageId,
);

macro_rules! numbers {
    ($($type:ident),* $(,)?) => {$(
        impl ToParam for $type {
            const NULL: Param = Param::Integer(None);
            fn to_param(&self) -> Param {
                Param::Integer(Some(self.0))
            }
        }

        impl Column for $type {
            fn read(row: &Row, column: &str) -> Result<Option<Self>, StoreError> {
                Ok(row.integer(column)?.map(Self))
            }
        }
    )*};
}

numbers!(InstallationId, RepositoryId, UserId, CommentId, ThreadNumber);

macro_rules! texts {
    ($($type:ident by $parse:expr),* $(,)?) => {$(
        impl ToParam for $type {
            const NULL: Param = Param::Text(None);
            fn to_param(&self) -> Param {
                Param::Text(Some(self.to_string()))
            }
        }

        impl Column for $type {
            fn read(row: &Row, column: &str) -> Result<Option<Self>, StoreError> {
                let parse: fn(&str) -> Result<Self, _> = $parse;
                row.text(column)?.map(|text| parse(&text).map_err(|error| corrupt(column, error))).transpose()
            }
        }
    )*};
}

texts!(
    RepoName by str::parse,
    ThreadName by ThreadName::new,
    BranchName by BranchName::new,
    CommitSha by CommitSha::new,
    PlatformKind by str::parse,
    ThreadKind by str::parse,
    ThreadState by str::parse,
    CodebaseMode by str::parse,
    Reach by str::parse,
    WorkKind by str::parse,
    EnvironmentState by str::parse,
    RunState by str::parse,
    InboxState by str::parse,
    OutboxState by str::parse,
    Trigger by str::parse,
);

/// Paths are made by this program from checked names and are text; a home with other bytes in its path is refused at
/// start, before anything is stored.
impl ToParam for PathBuf {
    const NULL: Param = Param::Text(None);
    fn to_param(&self) -> Param {
        Param::Text(Some(self.to_string_lossy().into_owned()))
    }
}

impl Column for PathBuf {
    fn read(row: &Row, column: &str) -> Result<Option<Self>, StoreError> {
        Ok(row.text(column)?.map(PathBuf::from))
    }
}
