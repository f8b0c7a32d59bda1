//! `luckybag dead`.

use std::num::NonZeroUsize;

use serde::Serialize;
use serde_json::{Value, value::RawValue};

use luckybag::{
    app::{self, AppError},
    infra::broker::DeadLetter,
    settings::Settings,
};

/// What to do with what could not be handled.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DeadCommand {
    /// Show what could not be handled, the oldest first; all of it stays.
    List(ListArgs),
    /// Send all of it to the queues it came from once more.
    Replay,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Most messages to show.
    #[arg(long, value_name = "N", default_value = "100")]
    limit: NonZeroUsize,

    /// Print one JSON array.
    #[arg(long)]
    json: bool,
}

impl DeadCommand {
    /// Does it, and answers what to print.
    pub(super) async fn run(self, settings: Settings) -> Result<String, AppError> {
        match self {
            Self::List(args) => {
                let letters = app::dead_letters(settings, args.limit.get()).await?;
                Ok(args.form(&letters))
            }
            Self::Replay => {
                let replayed = app::replay_dead(settings).await?;
                Ok(format!("sent again: {replayed}"))
            }
        }
    }
}

impl ListArgs {
    fn form(&self, letters: &[DeadLetter]) -> String {
        if self.json {
            let views: Vec<LetterView<'_>> = letters.iter().map(LetterView::of).collect();
            // Texts, and JSON that was read as such, always have a JSON form.
            return serde_json::to_string_pretty(&views).unwrap_or_default();
        }
        if letters.is_empty() {
            return "nothing".to_owned();
        }
        let lines: Vec<String> = letters.iter().map(as_text).collect();
        lines.join("\n")
    }
}

/// A dead letter as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LetterView<'a> {
    message_id: Option<&'a str>,
    kind: Option<&'a str>,
    origin: Option<&'a str>,
    reason: Option<&'a str>,
    /// As it was sent if it is JSON, else as text.
    body: Box<RawValue>,
}

impl<'a> LetterView<'a> {
    fn of(letter: &'a DeadLetter) -> Self {
        let text = String::from_utf8_lossy(&letter.body);
        let body = RawValue::from_string(text.clone().into_owned());
        Self {
            message_id: letter.message_id.as_deref(),
            kind: letter.kind.as_deref(),
            origin: letter.origin.as_deref(),
            reason: letter.reason.as_deref(),
            body: body.unwrap_or_else(|_| quoted(&text)),
        }
    }
}

fn quoted(text: &str) -> Box<RawValue> {
    let json = Value::String(text.to_owned()).to_string();
    RawValue::from_string(json).unwrap_or_default()
}

/// Two lines: where it came from and why it is here, and the beginning of its body.
fn as_text(letter: &DeadLetter) -> String {
    const BODY_CHARS: usize = 300;
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
    let body = String::from_utf8_lossy(&letter.body);
    let body: String = body.chars().take(BODY_CHARS).collect();
    let lines = [
        format!(
            "{} {} {}: {}",
            or_unknown(&letter.origin),
            or_unknown(&letter.kind),
            or_unknown(&letter.message_id),
            or_unknown(&letter.reason)
        ),
        format!("    {body}"),
    ];
    lines.map(|line| printable(&line)).join("\n")
}

/// What others sent must not steer the terminal.
fn printable(line: &str) -> String {
    line.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(body: &[u8]) -> DeadLetter {
        DeadLetter {
            message_id: Some("m-1".to_owned()),
            kind: None,
            reason: Some("it makes\nno sense".to_owned()),
            origin: Some("lb.v1.stream.0".to_owned()),
            body: body.to_vec(),
        }
    }

    #[test]
    fn a_letter_is_two_lines_that_cannot_steer_the_terminal() {
        let args = ListArgs {
            limit: NonZeroUsize::MIN,
            json: false,
        };

        let text = args.form(&[letter(b"\x1b[2J{\xff}")]);

        assert_eq!(
            text,
            "lb.v1.stream.0 ? m-1: it makes no sense\n     [2J{\u{fffd}}"
        );
        assert_eq!(args.form(&[]), "nothing");
    }

    #[test]
    fn a_body_is_shown_as_json_if_it_is_json_and_as_text_if_not() {
        let args = ListArgs {
            limit: NonZeroUsize::MIN,
            json: true,
        };

        let json = args.form(&[letter(br#"{"id":9223372036854775807}"#), letter(b"{")]);

        let shown: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(shown[0]["body"]["id"], 9_223_372_036_854_775_807_u64);
        assert_eq!(shown[1]["body"], "{");
        assert_eq!(shown[1]["kind"], Value::Null);
        assert_eq!(args.form(&[]), "[]");
    }
}
