//! Checks of single values, shared by everything that is validated here.

use std::fmt;

use super::{PrizeKind, form::Field};
use crate::http::FieldErrors;

pub(super) const TITLE_MAX_CHARS: usize = 100;
pub(super) const IMAGE_MAX_CHARS: usize = 500;
pub(super) const REASON_MAX_CHARS: usize = 255;

const REQUIRED: &str = "this field is required";

/// The value of a field that must be there; nothing and a fault otherwise.
pub(super) fn required<T: serde::de::DeserializeOwned>(
    field: &Field,
    name: impl fmt::Display,
    errors: &mut FieldErrors,
) -> Option<T> {
    if !field.has_value() {
        errors.add(name.to_string(), REQUIRED);
    }
    field.read(name, errors)
}

/// One line of text with 1 to `max_chars` characters.
pub fn line(
    text: Option<String>,
    name: impl fmt::Display,
    max_chars: usize,
    errors: &mut FieldErrors,
) -> Option<String> {
    let text = text?;
    match fault_of_line(&text, max_chars) {
        None => Some(text),
        Some(fault) => {
            errors.add(name.to_string(), fault);
            None
        }
    }
}

fn fault_of_line(text: &str, max_chars: usize) -> Option<String> {
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Some(format!(
            "this must not hold the control character {}",
            control_name(control)
        ));
    }
    fault_of_length(text, max_chars)
}

/// Text of several lines with 1 to `max_chars` characters.
pub(super) fn fault_of_text(text: &str, max_chars: usize) -> Option<String> {
    let is_refused = |c: &char| c.is_control() && *c != '\n' && *c != '\t';
    if let Some(control) = text.chars().find(is_refused) {
        return Some(format!(
            "this must not hold the control character {}",
            control_name(control)
        ));
    }
    fault_of_length(text, max_chars)
}

fn fault_of_length(text: &str, max_chars: usize) -> Option<String> {
    if text.trim().is_empty() {
        return Some("this must not be empty".to_owned());
    }
    let is_too_long = text.chars().nth(max_chars).is_some();
    is_too_long.then(|| format!("this is longer than {max_chars} characters"))
}

fn control_name(control: char) -> String {
    match control {
        '\0' => "NUL".to_owned(),
        '\t' => "TAB".to_owned(),
        '\n' => "LF".to_owned(),
        '\r' => "CR".to_owned(),
        '\x1b' => "ESC".to_owned(),
        '\x7f' => "DEL".to_owned(),
        other => format!("U+{:04X}", u32::from(other)),
    }
}

/// A kind of prize, by its word.
pub(super) fn prize_kind(
    word: Option<String>,
    name: impl fmt::Display,
    errors: &mut FieldErrors,
) -> Option<PrizeKind> {
    let kind = PrizeKind::parse(&word?);
    if kind.is_none() {
        errors.add(name.to_string(), "this is \"physical\" or \"virtual\"");
    }
    kind
}

/// A whole number within bounds.
pub(super) fn within(
    number: Option<u64>,
    bounds: std::ops::RangeInclusive<u64>,
    name: impl fmt::Display,
    errors: &mut FieldErrors,
) -> Option<u64> {
    let number = number?;
    if bounds.contains(&number) {
        return Some(number);
    }
    let (least, most) = bounds.into_inner();
    errors.add(
        name.to_string(),
        format!("this is a whole number from {least} to {most}"),
    );
    None
}

/// Why something was refused or cancelled: one line of at most 255 characters.
pub fn reason(text: Option<String>, errors: &mut FieldErrors) -> Option<String> {
    line(text, "reason", REASON_MAX_CHARS, errors)
}
