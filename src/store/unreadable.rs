//! Rows that cannot be read: a column does not hold what its type is made from (changed by hand, damaged, or of a shape
//! this program does not know). One such row must not stand in the way of all others.
//!
//! - A queue gives it up ([`take`]): the row is marked as failed with the column's name as reason, and the next one is
//!   served.
//! - A list for people leaves it out and goes on with the ones behind it (`Db::fetch_readable`).
//! - Everything else is strict: what a decision rests on is whole, or an error.

use super::StoreError;
use super::codec::FromRow;
use super::db::{RawId, Row, Tx};
use super::sql::Sql;
use crate::model::Timestamp;

/// A row that cannot be read, by its id.
pub(super) struct Unreadable {
    /// An error where not even the id can be told.
    pub id: Result<RawId, StoreError>,
    pub why: StoreError,
}

/// A row of a queue. While somebody has it, it is in a state of its own.
pub(super) trait Queued: FromRow {
    const TABLE: &'static str;

    /// Marks the row `$1` that somebody has as failed because of `$2`, at `$3`, and ends the claim.
    fn give_up() -> Sql;
}

/// What [`take`] took.
pub(super) struct Taken<T> {
    pub rows: Vec<T>,
    /// Those that were given up.
    pub unreadable: Vec<RawId>,
}

impl<T> Taken<T> {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.unreadable.is_empty()
    }
}

/// Runs an `UPDATE … RETURNING *` that takes rows of a queue. Those that cannot be read are given up in the same
/// transaction: nobody else changes them in between.
pub(super) async fn take<T: Queued>(tx: &mut Tx, sql: Sql, now: Timestamp) -> Result<Taken<T>, StoreError> {
    let mut taken = Taken { rows: Vec::new(), unreadable: Vec::new() };
    for row in tx.fetch_each::<T>(sql).await? {
        match row {
            Ok(row) => taken.rows.push(row),
            Err(Unreadable { id, why }) => {
                let id = id?;
                // A row that stayed would be taken again and again.
                if tx.execute(T::give_up().bind(&id).bind(why.to_string()).bind(now)).await? == 0 {
                    return Err(why);
                }
                tracing::error!(row.table = T::TABLE, row.id = %id, error = %why, "row given up: it cannot be read");
                taken.unreadable.push(id);
            }
        }
    }
    Ok(taken)
}

/// A row as what it stands for.
pub(super) fn read<T: FromRow>(row: &Row) -> Result<T, Unreadable> {
    T::from_row(row).map_err(|why| Unreadable { id: row.raw_id(), why })
}

/// Those rows that can be read; the others are only logged.
pub(super) fn readable<T: FromRow>(rows: &[Row]) -> impl Iterator<Item = T> {
    rows.iter().filter_map(|row| match read(row) {
        Ok(row) => Some(row),
        Err(Unreadable { id, why }) => {
            let id = id.map_or_else(|error| error.to_string(), |id| id.to_string());
            tracing::warn!(row.id = %id, error = %why, "row left out of a list: it cannot be read");
            None
        }
    })
}
