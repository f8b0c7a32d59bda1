//! Migrations only add, so that an older version goes on working on a newer schema.

use std::{fs, path::Path};

/// Each folder, and up to which migration of it they were there before the first version that could be
/// upgraded from.
const FIRST_VERSIONS: [(&str, u32); 2] = [("migrations", 31), ("migrations/admin", 2)];

#[test]
fn migrations_only_add() {
    for (folder, first_version) in FIRST_VERSIONS {
        assert_only_add(folder, first_version);
    }
}

fn assert_only_add(folder: &str, first_version: u32) {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    for file in fs::read_dir(files).expect(folder) {
        let path = file.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let number: u32 = name[..4].parse().expect("a number");
        if number > first_version {
            let text = fs::read_to_string(&path).expect("a migration");
            if let Err(fault) = only_adds(&text) {
                panic!("{folder}/{name}: {fault}: an older version could not go on beside it");
            }
        }
    }
}

#[test]
fn what_takes_away_or_asks_for_more_is_noticed() {
    for good in [
        "-- why\nCREATE TABLE IF NOT EXISTS a (b INT NOT NULL);",
        "ALTER TABLE a ADD COLUMN b INT NULL, ADD INDEX c (b);",
        "ALTER TABLE a ADD COLUMN b INT NOT NULL DEFAULT 0;",
        "ALTER TABLE a ADD COLUMN b INT GENERATED ALWAYS AS (c) STORED;",
    ] {
        only_adds(good).unwrap_or_else(|fault| panic!("{good}: {fault}"));
    }
    for bad in [
        "DROP TABLE a;",
        "ALTER TABLE a DROP COLUMN b;",
        "ALTER TABLE a ADD COLUMN b INT NULL, DROP COLUMN c;",
        "ALTER TABLE a RENAME TO b;",
        "ALTER TABLE a MODIFY COLUMN b INT NULL;",
        "ALTER TABLE a ADD COLUMN b INT NOT NULL;",
        "ALTER TABLE a ADD UNIQUE KEY b (c);",
        "UPDATE a SET b = 1;",
    ] {
        only_adds(bad).expect_err(bad);
    }
}

/// What a migration does beyond adding.
fn only_adds(text: &str) -> Result<(), String> {
    let code: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("--"))
        .collect();
    for statement in code.join(" ").split(';').map(str::trim) {
        let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        if statement.is_empty() || statement.starts_with("CREATE TABLE IF NOT EXISTS ") {
            continue;
        }
        let Some(rest) = statement.strip_prefix("ALTER TABLE ") else {
            return Err(format!(
                "`{statement}` is neither CREATE TABLE nor ALTER TABLE"
            ));
        };
        let (_, changes) = rest.split_once(' ').unwrap_or_default();
        top_level(changes).into_iter().try_for_each(adds)?;
    }
    Ok(())
}

fn adds(change: &str) -> Result<(), String> {
    let optional = [" NULL", " DEFAULT ", " GENERATED "];
    let may_be_left_out = |column: &str| {
        let column = column.replace("NOT NULL", "");
        optional.iter().any(|word| column.contains(word))
    };
    match change.strip_prefix("ADD ") {
        Some(index) if index.starts_with("INDEX ") || index.starts_with("KEY ") => Ok(()),
        Some(column) if column.starts_with("COLUMN ") && may_be_left_out(column) => Ok(()),
        Some(_) | None => Err(format!(
            "`{change}` does more than adding what may be left out"
        )),
    }
}

/// The parts between the commas that are in no brackets.
fn top_level(changes: &str) -> Vec<&str> {
    let mut depth = 0;
    changes
        .split(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ',' && depth == 0
        })
        .map(str::trim)
        .collect()
}
