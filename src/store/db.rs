//! The one door to the database. Only this file and the ones below `db/` know that there are two engines: SQLite in a
//! file, and PostgreSQL. Everything else hands over a [`Sql`] and gets [`Row`]s.
//!
//! On SQLite one connection writes and a few read, so that writers queue here instead of failing with "locked", and a
//! transaction begins as a writing one. On PostgreSQL transactions are `READ COMMITTED`: a conditional `UPDATE` looks at
//! its condition again after it has waited for another writer's row.

mod alone;
mod failure;
mod foreign;
mod lock;
mod open;
mod row;

pub use alone::Alone;
pub(super) use alone::{lock_file, take, taken_by};
pub(super) use foreign::{Foreign, ForeignError};
pub use lock::Holder;
pub(super) use lock::holder;
pub(super) use open::{
    a_delivery, known_disk, live_paths, not_a_file, reachable, schema, sqlite_path, stored_app, versions,
};
pub(super) use row::{RawId, Row};

use super::codec::FromRow;
use super::sql::{Param, Sql};
use super::unreadable::{self, Unreadable};
use super::{StoreError, corrupt};
use crate::model::Timestamp;
use failure::explain;
use sqlx::{
    Executor, PgPool, Postgres, SqlSafeStr, Sqlite, SqlitePool, Transaction, postgres::PgArguments, query::Query,
    sqlite::SqliteArguments, types::Json,
};

/// The open database.
pub(super) enum Db {
    Sqlite { read: SqlitePool, write: SqlitePool },
    Postgres(PgPool),
}

/// A transaction; dropping it undoes it.
pub(super) enum Tx {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

impl Db {
    /// How many rows were touched.
    pub async fn execute(&self, sql: Sql) -> Result<u64, StoreError> {
        match self {
            Db::Sqlite { write, .. } => sqlite(sql).execute(write).await.map(|done| done.rows_affected()),
            Db::Postgres(pool) => postgres(sql).execute(pool).await.map(|done| done.rows_affected()),
        }
        .map_err(explain)
    }

    pub async fn fetch_optional<T: FromRow>(&self, sql: Sql) -> Result<Option<T>, StoreError> {
        Ok(self.fetch_all(sql).await?.into_iter().next())
    }

    pub async fn fetch_one<T: FromRow>(&self, sql: Sql) -> Result<T, StoreError> {
        self.fetch_optional(sql).await?.ok_or_else(missing)
    }

    /// Runs to the end before it answers: a changing statement is over, and its change durable, with its last row.
    pub async fn fetch_all<T: FromRow>(&self, sql: Sql) -> Result<Vec<T>, StoreError> {
        decode(&self.rows(sql).await?)
    }

    /// A list for people: up to `limit` rows from row `offset` on, which are the last two parameters and bound here. Rows
    /// that cannot be read are logged and left out, and those behind them take their place, so that only the end of the
    /// table makes the list short.
    pub async fn fetch_readable<T: FromRow>(&self, sql: Sql, limit: u32, offset: u32) -> Result<Vec<T>, StoreError> {
        let (limit, mut offset) = (limit as usize, i64::from(offset));
        let mut found = Vec::new();
        loop {
            let missing = limit - found.len();
            let rows = self.rows(sql.clone().bind(missing as i64).bind(offset)).await?;
            found.extend(unreadable::readable(&rows));
            offset += rows.len() as i64;
            if rows.len() < missing || found.len() == limit {
                return Ok(found);
            }
        }
    }

    /// Each row by itself, read or not.
    pub async fn fetch_each<T: FromRow>(&self, sql: Sql) -> Result<Vec<Result<T, Unreadable>>, StoreError> {
        Ok(self.rows(sql).await?.iter().map(unreadable::read).collect())
    }

    async fn rows(&self, sql: Sql) -> Result<Vec<Row>, StoreError> {
        match self {
            Db::Sqlite { read, write } => {
                let pool = if sql.only_reads() { read } else { write };
                sqlite(sql).fetch_all(pool).await.map(|rows| rows.into_iter().map(Row::Sqlite).collect())
            }
            Db::Postgres(pool) => {
                postgres(sql).fetch_all(pool).await.map(|rows| rows.into_iter().map(Row::Postgres).collect())
            }
        }
        .map_err(explain)
    }

    pub async fn begin(&self) -> Result<Tx, StoreError> {
        match self {
            Db::Sqlite { write, .. } => write.begin_with("BEGIN IMMEDIATE").await.map(Tx::Sqlite),
            Db::Postgres(pool) => pool.begin().await.map(Tx::Postgres),
        }
        .map_err(explain)
    }

    /// Has the engine parse a text and resolve its names, without running it.
    pub async fn prepare(&self, text: &'static str) -> Result<(), StoreError> {
        match self {
            Db::Sqlite { write, .. } => write.prepare(text.into_sql_str()).await.map(drop),
            Db::Postgres(pool) => pool.prepare(text.into_sql_str()).await.map(drop),
        }
        .map_err(explain)
    }

    /// Waits for what is under way and closes every connection.
    pub async fn close(&self) {
        match self {
            Db::Sqlite { read, write } => {
                read.close().await;
                write.close().await;
            }
            Db::Postgres(pool) => pool.close().await,
        }
    }
}

impl Tx {
    pub async fn execute(&mut self, sql: Sql) -> Result<u64, StoreError> {
        match self {
            Tx::Sqlite(tx) => sqlite(sql).execute(&mut **tx).await.map(|done| done.rows_affected()),
            Tx::Postgres(tx) => postgres(sql).execute(&mut **tx).await.map(|done| done.rows_affected()),
        }
        .map_err(explain)
    }

    pub async fn fetch_all<T: FromRow>(&mut self, sql: Sql) -> Result<Vec<T>, StoreError> {
        decode(&self.rows(sql).await?)
    }

    /// Each row by itself, read or not.
    pub async fn fetch_each<T: FromRow>(&mut self, sql: Sql) -> Result<Vec<Result<T, Unreadable>>, StoreError> {
        Ok(self.rows(sql).await?.iter().map(unreadable::read).collect())
    }

    async fn rows(&mut self, sql: Sql) -> Result<Vec<Row>, StoreError> {
        match self {
            Tx::Sqlite(tx) => {
                sqlite(sql).fetch_all(&mut **tx).await.map(|rows| rows.into_iter().map(Row::Sqlite).collect())
            }
            Tx::Postgres(tx) => {
                postgres(sql).fetch_all(&mut **tx).await.map(|rows| rows.into_iter().map(Row::Postgres).collect())
            }
        }
        .map_err(explain)
    }

    pub async fn fetch_optional<T: FromRow>(&mut self, sql: Sql) -> Result<Option<T>, StoreError> {
        Ok(self.fetch_all(sql).await?.into_iter().next())
    }

    pub async fn fetch_one<T: FromRow>(&mut self, sql: Sql) -> Result<T, StoreError> {
        self.fetch_optional(sql).await?.ok_or_else(missing)
    }

    /// Returns after the engine has made the changes durable.
    pub async fn commit(self) -> Result<(), StoreError> {
        match self {
            Tx::Sqlite(tx) => tx.commit().await,
            Tx::Postgres(tx) => tx.commit().await,
        }
        .map_err(explain)
    }
}

fn decode<T: FromRow>(rows: &[Row]) -> Result<Vec<T>, StoreError> {
    rows.iter().map(T::from_row).collect()
}

fn missing() -> StoreError {
    corrupt("count", "a statement that always answers with a row gave none")
}

fn sqlite(sql: Sql) -> Query<'static, Sqlite, SqliteArguments> {
    sql.params.into_iter().fold(sqlx::query(sql.text), |query, param| match param {
        Param::Text(value) => query.bind(value),
        Param::Integer(value) => query.bind(value),
        Param::Bool(value) => query.bind(value),
        Param::Id(value) => query.bind(value.map(|id| id.to_string())),
        Param::Time(value) => query.bind(value.map(sortable)),
        Param::Json(value) => query.bind(value.map(|json| json.to_string())),
        Param::Bytes(value) => query.bind(value),
    })
}

fn postgres(sql: Sql) -> Query<'static, Postgres, PgArguments> {
    sql.params.into_iter().fold(sqlx::query(sql.text), |query, param| match param {
        Param::Text(value) => query.bind(value),
        Param::Integer(value) => query.bind(value),
        Param::Bool(value) => query.bind(value),
        Param::Id(value) => query.bind(value),
        Param::Time(value) => query.bind(value.map(Timestamp::datetime)),
        Param::Json(value) => query.bind(value.map(Json)),
        Param::Bytes(value) => query.bind(value),
    })
}

/// Always the same length, so that comparing the texts compares the times.
fn sortable(time: Timestamp) -> String {
    time.datetime().format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
