//! `luckybag token`.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use luckybag::{
    http::{AuthError, NewToken, Role, issue_token},
    kernel::{Clock, RoomId, SystemClock, UserId},
    settings::AuthSettings,
};

/// Whom the token speaks for, and what for.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// The user id that the token speaks for.
    #[arg(long = "user", value_name = "ID")]
    user: UserId,

    /// What the bearer may do; several are separated by commas.
    #[arg(long = "role", value_name = "ROLE", value_delimiter = ',', value_parser = role_parser())]
    roles: Vec<Role>,

    /// A room that the bearer hosts; may be given several times.
    #[arg(long = "room", value_name = "ID", value_delimiter = ',')]
    rooms: Vec<RoomId>,

    /// How long the token is valid, such as 30s, 15m, 1h or 7d.
    #[arg(long, default_value = "1h", value_parser = parse_duration)]
    ttl: Duration,
}

impl TokenArgs {
    /// Signs the token; refused when no signing key is configured.
    pub(super) fn issue(self, settings: &AuthSettings) -> Result<String, AuthError> {
        let token = NewToken {
            user_id: self.user,
            roles: self.roles,
            rooms: self.rooms,
            ttl: self.ttl,
        };
        issue_token(settings, &token, SystemClock.now())
    }
}

fn role_parser() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::name))
        .try_map(|name| Role::of_name(&name).ok_or("this is not a role"))
}

/// A whole number and its unit.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("a duration is a whole number with s, m, h or d, such as 1h".to_owned()),
    };
    digits
        .parse::<u32>()
        .map(|count| Duration::from_secs(u64::from(count) * seconds))
        .map_err(|error| format!("{error} in {digits:?}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        for (text, seconds) in [("30s", 30), ("15m", 900), ("1h", 3600), ("7d", 604_800)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "1", "h", "-1h", "1.5h", "1w", "4294967296s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_line_is_checked_before_anything_runs() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));

        parse("luckybag token --user 7 --role host,operator --room 1 --room 2 --ttl 5m").unwrap();
        for bad in [
            "luckybag",
            "luckybag dance",
            "luckybag token",
            "luckybag token --user 007",
            "luckybag token --user 7 --role king",
            "luckybag token --user 7 --room 0",
            "luckybag token --user 7 --ttl soon",
        ] {
            assert_eq!(parse(bad).expect_err(bad).exit_code(), 2, "{bad}");
        }
    }
}
