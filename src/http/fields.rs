//! Collects every fault of a request before it is refused.

use std::fmt;

use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;

/// What is wrong with one field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldFault {
    /// The field's JSON path such as `prizes[0].quantity`, or a parameter's name.
    pub field: String,
    pub message: String,
}

/// The faults found so far; a request is refused with all of them at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors(Vec<FieldFault>);

impl FieldErrors {
    pub fn new() -> Self {
        Self::default()
    }

    /// Names a fault. One field may have several.
    pub fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldFault {
            field: field.into(),
            message: message.into(),
        });
    }

    /// Keeps the value, or names the fault and returns nothing.
    pub fn check<T, E: fmt::Display>(
        &mut self,
        field: impl Into<String>,
        result: Result<T, E>,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(field, error.to_string());
                None
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn faults(&self) -> &[FieldFault] {
        &self.0
    }

    /// Refuses the request with `422 invalid_request` if there was any fault.
    pub fn into_result(self) -> Result<(), Problem> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Problem::invalid(self))
        }
    }

    pub(super) fn into_faults(self) -> Vec<FieldFault> {
        self.0
    }
}

/// Longest part of a message or name that may come from the caller, in characters.
const LONGEST_ECHO: usize = 200;

const UNKNOWN: &str = "this field is not known";
const MISSING: &str = "this field is required";

impl FieldErrors {
    /// Names a field that is not known.
    pub fn add_unknown(&mut self, field: &str) {
        self.add(shorten(field), UNKNOWN);
    }

    /// Names a field that has to be there and is not.
    pub fn add_missing(&mut self, field: impl Into<String>) {
        self.add(field, MISSING);
    }

    /// Names the fault that serde found at `path`.
    pub(super) fn add_serde(&mut self, path: &serde_path_to_error::Path, message: &str) {
        let path = path.to_string();
        let parent = if path == "." { "" } else { path.as_str() };
        let (field, message) = match named_field(message) {
            Some((name, fault)) => (join(parent, name), fault),
            None if parent.is_empty() => ("body".to_owned(), message),
            None => (parent.to_owned(), message),
        };
        self.add(shorten(&field), shorten(message));
    }
}

/// The field that serde's message is about when the path leads only to its parent.
fn named_field(message: &str) -> Option<(&str, &'static str)> {
    for (start, fault) in [
        ("unknown field `", UNKNOWN),
        ("missing field `", MISSING),
        ("duplicate field `", "this field is given twice"),
    ] {
        if let Some(rest) = message.strip_prefix(start) {
            let end = rest.find("`, ").or_else(|| rest.rfind('`'))?;
            return Some((&rest[..end], fault));
        }
    }
    None
}

fn join(parent: &str, name: &str) -> String {
    let is_there = parent
        .strip_suffix(name)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if is_there {
        parent.to_owned()
    } else if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(LONGEST_ECHO) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
