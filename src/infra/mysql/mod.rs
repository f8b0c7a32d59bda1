//! The shared `MySQL` pool, its migrations, its clock, and what it takes to retry a transaction.

mod clock;
mod limit;
mod meta;
mod migrate;
mod pool;
mod retry;

pub use clock::{ClockUncertain, DatabaseClock, DatabaseTime};
pub use limit::within_limit;
pub use meta::settle_fact;
pub use migrate::{MigrateError, migrate};
pub use pool::{MySqlOptions, connect_lazy, is_galera, ping};
pub use retry::{TransactionRetry, is_bad_data, is_unavailable};

use sea_orm::{DbBackend, Statement, Value};

/// A statement with bound values, for what the entity API cannot say.
pub fn sql<I>(text: impl Into<String>, values: I) -> Statement
where
    I: IntoIterator<Item = Value>,
{
    Statement::from_sql_and_values(DbBackend::MySql, text, values)
}

/// `(?, ?), (?, ?)`: the placeholders of `rows` rows with `columns` columns each.
pub fn placeholders(rows: usize, columns: usize) -> String {
    let row = format!("({})", vec!["?"; columns].join(", "));
    vec![row; rows].join(", ")
}
