//! Checks of single values, shared by everything that is validated here.

use std::fmt;

use super::PrizeKind;
use crate::http::FieldErrors;

pub(super) const TITLE_MAX_CHARS: usize = 100;
pub(super) const IMAGE_MAX_CHARS: usize = 500;
pub(super) const REASON_MAX_CHARS: usize = 255;

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
    fault_of_characters(text, steers).or_else(|| fault_of_length(text, max_chars))
}

/// Text of several lines with 1 to `max_chars` characters.
pub(super) fn fault_of_text(text: &str, max_chars: usize) -> Option<String> {
    let steers_a_text = |c| steers(c) && c != '\n' && c != '\t';
    fault_of_characters(text, steers_a_text).or_else(|| fault_of_length(text, max_chars))
}

fn fault_of_characters(text: &str, is_refused: impl Fn(char) -> bool) -> Option<String> {
    let control = text.chars().find(|&c| is_refused(c))?;
    Some(format!(
        "this must not hold the control character {}",
        control_name(control)
    ))
}

/// Whether a character is no text but an order to whatever shows it: to break the line, to steer the
/// terminal, or to turn the direction of what follows, which may be somebody else's text. Scripts
/// that run from right to left need none of them; marks and joiners, which only touch their
/// neighbours, are text.
fn steers(c: char) -> bool {
    let breaks_line = matches!(c, '\u{2028}' | '\u{2029}');
    let turns_direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || breaks_line || turns_direction
}

/// Whether nothing is seen of a character: it is white space, or Unicode lets it be ignored.
fn is_invisible(c: char) -> bool {
    let is_ignorable = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    );
    c.is_whitespace() || is_ignorable
}

fn fault_of_length(text: &str, max_chars: usize) -> Option<String> {
    if text.chars().all(is_invisible) {
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
