//! A row of either engine, read by column name and kind. NULL is `None`.

use super::super::sql::{Param, ToParam};
use super::super::{StoreError, corrupt};
use crate::model::Timestamp;
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{Row as _, postgres::PgRow, sqlite::SqliteRow, types::Json};
use std::fmt;
use uuid::Uuid;

pub(in crate::store) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// A row's id as it is stored, whether or not it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum RawId {
    Text(String),
    Uuid(Uuid),
}

/// The same column, read in each engine's own way.
macro_rules! read {
    ($row:expr, $column:expr, $sqlite:ty, $postgres:ty) => {
        match $row {
            Row::Sqlite(row) => row.try_get::<Option<$sqlite>, _>($column).map(|value| value.map(Either::Sqlite)),
            Row::Postgres(row) => row.try_get::<Option<$postgres>, _>($column).map(|value| value.map(Either::Postgres)),
        }
        .map_err(|error| corrupt($column, error))
    };
}

enum Either<S, P> {
    Sqlite(S),
    Postgres(P),
}

impl<T> Either<T, T> {
    fn same(self) -> T {
        match self {
            Either::Sqlite(value) | Either::Postgres(value) => value,
        }
    }
}

impl Row {
    pub fn text(&self, column: &str) -> Result<Option<String>, StoreError> {
        Ok(read!(self, column, String, String)?.map(Either::same))
    }

    pub fn integer(&self, column: &str) -> Result<Option<i64>, StoreError> {
        Ok(read!(self, column, i64, i64)?.map(Either::same))
    }

    pub fn boolean(&self, column: &str) -> Result<Option<bool>, StoreError> {
        Ok(read!(self, column, bool, bool)?.map(Either::same))
    }

    pub fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(read!(self, column, Vec<u8>, Vec<u8>)?.map(Either::same))
    }

    pub fn time(&self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        Ok(read!(self, column, DateTime<Utc>, DateTime<Utc>)?.map(Either::same).map(Timestamp::new))
    }

    pub fn id(&self, column: &str) -> Result<Option<Uuid>, StoreError> {
        match read!(self, column, String, Uuid)? {
            Some(Either::Sqlite(text)) => text.parse().map(Some).map_err(|error| corrupt(column, error)),
            Some(Either::Postgres(id)) => Ok(Some(id)),
            None => Ok(None),
        }
    }

    pub fn json(&self, column: &str) -> Result<Option<Value>, StoreError> {
        match read!(self, column, String, Json<Value>)? {
            Some(Either::Sqlite(text)) => serde_json::from_str(&text).map(Some).map_err(|error| corrupt(column, error)),
            Some(Either::Postgres(Json(value))) => Ok(Some(value)),
            None => Ok(None),
        }
    }

    /// The column `id`, as it is.
    pub fn raw_id(&self) -> Result<RawId, StoreError> {
        match read!(self, "id", String, Uuid)? {
            Some(Either::Sqlite(text)) => Ok(RawId::Text(text)),
            Some(Either::Postgres(id)) => Ok(RawId::Uuid(id)),
            None => Err(corrupt("id", "it is empty")),
        }
    }
}

impl RawId {
    /// None where it is no id.
    pub fn known<T: From<Uuid>>(&self) -> Option<T> {
        match self {
            RawId::Text(text) => text.parse::<Uuid>().ok().map(T::from),
            RawId::Uuid(id) => Some((*id).into()),
        }
    }
}

impl ToParam for RawId {
    const NULL: Param = Param::Id(None);
    fn to_param(&self) -> Param {
        match self {
            RawId::Text(text) => Param::Text(Some(text.clone())),
            RawId::Uuid(id) => Param::Id(Some(*id)),
        }
    }
}

impl fmt::Display for RawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RawId::Text(text) => f.write_str(text),
            RawId::Uuid(id) => id.fmt(f),
        }
    }
}
