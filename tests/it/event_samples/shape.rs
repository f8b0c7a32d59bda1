//! The fields of a JSON object with their types, as a table of docs/events.md lists them.

use std::collections::{BTreeMap, BTreeSet};

use chrono::DateTime;
use serde_json::Value;

/// By path, such as `prizes[].name`.
#[derive(Debug)]
pub(super) struct Shape {
    fields: BTreeMap<String, Type>,
}

#[derive(Clone, Debug)]
struct Type {
    word: String,
    may_be_null: bool,
    may_be_absent: bool,
}

impl Shape {
    /// The rows of the first table in a text: "| `path` | type | meaning |".
    pub(super) fn of_table(text: &str) -> Self {
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        let mut fields = BTreeMap::new();
        for row in rows {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let path = cells[1].trim_matches('`').to_owned();
            let known = fields.insert(path, Type::parse(cells[2]));
            assert!(known.is_none(), "{row}: the field is listed twice");
        }
        assert!(!fields.is_empty(), "no table of fields in:\n{text}");
        Self { fields }
    }

    /// Asserts that a value has exactly these fields, each of its type.
    #[track_caller]
    pub(super) fn assert_is(&self, value: &Value, what: &str) {
        let mut faults = Vec::new();
        self.check_object(value, "", &mut faults);
        assert!(
            faults.is_empty(),
            "{what} is not what docs/events.md says; if its fields changed, raise its schema \
             version and bring page and sample up to date:\n{}\n{value:#}",
            faults.join("\n")
        );
    }

    /// Asserts that each field of the table is in the value, also those that may be absent.
    #[track_caller]
    pub(super) fn assert_shown_by(&self, value: &Value, what: &str) {
        let mut shown = BTreeSet::new();
        collect_paths(value, "", &mut shown);
        let missing = self.without(&shown);
        assert!(
            missing.is_empty(),
            "the sample of {what} does not show {missing:?}"
        );
    }

    /// Asserts that each field of the table has had a value in one of these, also those that may be
    /// null or absent.
    #[track_caller]
    pub(super) fn assert_told_by(&self, values: &[Value], what: &str) {
        let mut told = BTreeSet::new();
        for value in values {
            collect_paths(&without_nulls(value), "", &mut told);
        }
        let missing = self.without(&told);
        assert!(missing.is_empty(), "{what} has never told {missing:?}");
    }

    /// The fields that are not among these.
    fn without(&self, paths: &BTreeSet<String>) -> Vec<&String> {
        let fields = self.fields.keys();
        fields.filter(|path| !paths.contains(*path)).collect()
    }

    fn check_object(&self, value: &Value, prefix: &str, faults: &mut Vec<String>) {
        let Some(object) = value.as_object() else {
            faults.push(format!("{prefix} is no object"));
            return;
        };
        for (path, kind) in self.direct_fields(prefix) {
            let name = &path[prefix.len()..];
            if !object.contains_key(name) && !kind.may_be_absent {
                faults.push(format!("{path} is missing"));
            }
        }
        for (name, value) in object {
            self.check(value, &format!("{prefix}{name}"), faults);
        }
    }

    fn check(&self, value: &Value, path: &str, faults: &mut Vec<String>) {
        let Some(kind) = self.fields.get(path) else {
            faults.push(format!("{path} is not in the table"));
            return;
        };
        if !kind.allows(value) {
            faults.push(format!("{path} is not: {kind:?}"));
        }
        let inner = format!("{path}.");
        if value.is_object() && self.direct_fields(&inner).next().is_some() {
            self.check_object(value, &inner, faults);
        }
        let item = format!("{path}[]");
        for value in value.as_array().into_iter().flatten() {
            if self.fields.contains_key(&item) {
                self.check(value, &item, faults);
            } else {
                self.check_object(value, &format!("{item}."), faults);
            }
        }
    }

    /// The fields directly below a prefix: "" or one that ends with a dot.
    fn direct_fields<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Type)> {
        self.fields.iter().filter_map(move |(path, kind)| {
            let name = path.strip_prefix(prefix)?;
            (!name.contains(['.', '['])).then_some((path.as_str(), kind))
        })
    }
}

impl Type {
    fn parse(text: &str) -> Self {
        let mut words = text.split(" or ");
        let word = words.next().expect("a type").to_owned();
        let others: Vec<&str> = words.collect();
        assert!(
            others.iter().all(|word| ["null", "absent"].contains(word)),
            "{text}: not a type"
        );
        Self {
            word,
            may_be_null: others.contains(&"null"),
            may_be_absent: others.contains(&"absent"),
        }
    }

    fn allows(&self, value: &Value) -> bool {
        if value.is_null() {
            return self.may_be_null;
        }
        let text = value.as_str();
        match self.word.as_str() {
            "id" => text.is_some_and(is_id),
            "text" => text.is_some(),
            "time" => text.is_some_and(is_time),
            "hex" => text.is_some_and(is_hex),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "flag" => value.is_boolean(),
            "object" => value.is_object(),
            "list" => value.is_array(),
            other => panic!("{other}: no type of docs/events.md"),
        }
    }
}

fn is_id(text: &str) -> bool {
    text.parse::<u64>()
        .is_ok_and(|id| (1..=u64::MAX / 2).contains(&id) && id.to_string() == text)
}

fn is_time(text: &str) -> bool {
    text.len() == "2026-01-31T20:00:00.000Z".len()
        && text.ends_with('Z')
        && DateTime::parse_from_rfc3339(text).is_ok()
}

fn is_hex(text: &str) -> bool {
    text.len().is_multiple_of(2)
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The value without fields that are null.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            other.clone()
        }
    }
}

fn collect_paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                found.insert(path.clone());
                collect_paths(value, &path, found);
            }
        }
        Value::Array(items) => {
            let path = format!("{path}[]");
            for item in items {
                found.insert(path.clone());
                collect_paths(item, &path, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}
