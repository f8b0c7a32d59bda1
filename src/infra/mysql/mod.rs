//! The shared `MySQL` pool, its migrations, its clock, and what it takes to retry a transaction.

mod clock;
mod limit;
mod meta;
mod migrate;
mod pool;
mod retry;

pub use clock::{ClockUncertain, DatabaseClock, DatabaseTime};
pub use limit::{
    NoOutcome, answer, change_in_turn, read_in_turn, read_patiently, read_turn, within_limit,
};
pub use meta::{STREAM_PARTITIONS, change_fact, find_fact, settle_fact};
pub use migrate::{MigrateError, migrate, migrate_admin};
pub use pool::{MySqlOptions, connect_lazy, connection_counts, is_galera, ping};
pub use retry::{
    TransactionRetry, is_bad_data, is_key_contended, is_table_missing, is_unavailable,
};

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

/// `(?, …)` for the items, whose values go to the end of `values`.
///
/// The length is rounded up to a power of two by repeating the last item: each length is a
/// statement of its own for the server, and only so many stay prepared.
pub fn in_list<T: Clone + Into<Value>>(items: &[T], values: &mut Vec<Value>) -> String {
    let padded_len = items.len().next_power_of_two();
    let padding = items.last().into_iter().cycle();
    values.extend(
        items
            .iter()
            .chain(padding)
            .take(padded_len)
            .cloned()
            .map(Into::into),
    );
    placeholders(1, padded_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_few_different_lengths() {
        let mut values = vec![Value::from(7_u64)];

        assert_eq!(in_list(&[1_u64, 2, 3], &mut values), "(?, ?, ?, ?)");
        assert_eq!(values, [7_u64, 1, 2, 3, 3].map(Value::from));
    }
}
