//! A row of either engine, read by column name and kind. NULL is `None`.

use super::super::{StoreError, corrupt};
use crate::model::Timestamp;
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{Row as _, postgres::PgRow, sqlite::SqliteRow, types::Json};
use uuid::Uuid;

pub(in crate::store) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
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
}
