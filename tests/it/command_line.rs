//! Commands and configuration, which others script against.

use std::{fs, path::PathBuf};

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use crate::{
    harness::{Finished, World, luckybag},
    proxy::free_address,
};

const SECRET: &str = "0123456789012345678901234567890123456789";
const DEFAULTS: &str = include_str!("../../config/default.toml");
const KEY: (&str, &str) = ("LUCKYBAG__AUTH__SIGNING_SECRET", SECRET);

#[test]
fn a_token_says_for_whom_what_for_and_how_long() {
    let line = "token --user 42 --role host,operator --room 8001 --room 8002 --ttl 15m";
    let issuer = ("LUCKYBAG__AUTH__ISSUER", "0123");
    let audience = ("LUCKYBAG__AUTH__AUDIENCE", "bags");

    let claims = claims(&run(line, &[KEY, issuer, audience]));

    assert_eq!(claims["sub"], "42");
    assert_eq!(claims["roles"], json!(["host", "operator"]));
    assert_eq!(claims["rooms"], json!(["8001", "8002"]));
    assert_eq!(claims["iss"], "0123");
    assert_eq!(claims["aud"], "bags");
    assert_eq!(lifetime_secs(&claims), 15 * 60);
}

#[test]
fn a_token_speaks_for_a_viewer_for_an_hour_unless_told_otherwise() {
    let claims = claims(&run("token --user 9223372036854775807", &[KEY]));

    assert_eq!(claims["sub"], "9223372036854775807");
    assert_eq!(claims["roles"], json!([]));
    assert_eq!(claims.get("rooms"), None);
    assert_eq!(lifetime_secs(&claims), 60 * 60);
}

#[test]
fn a_token_is_refused_without_a_key_and_for_nobody() {
    let no_key = refused(&run("token --user 7", &[]));
    assert!(no_key.contains(KEY.0), "{no_key}");
    for line in [
        "token",
        "token --user 0",
        "token --user 007",
        "token --user -1",
        "token --user 9223372036854775808",
        "token --user 7 --role king",
        "token --user 7 --room x",
        "token --user 7 --ttl 1",
    ] {
        refused(&run(line, &[KEY]));
    }
}

#[test]
fn help_lists_every_command_and_an_unknown_one_is_refused() {
    let help = succeeded(&run("--help", &[]));
    for command in [
        "serve",
        "migrate",
        "token",
        "check-config",
        "rebuild",
        "dead",
        "partitions",
        "user",
        "verify",
        "demo",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        succeeded(&run(&format!("{command} --help"), &[]));
    }
    let version = succeeded(&run("--version", &[]));
    assert_eq!(
        version.trim(),
        concat!("luckybag ", env!("CARGO_PKG_VERSION"))
    );
    for line in [
        "",
        "dance",
        "--dance",
        "serve --dance",
        "serve now",
        "demo --url",
        "rebuild",
        "rebuild 007",
        "dead",
        "dead list --limit few",
        "dead replay now",
        "user",
        "user export",
        "user erase 0",
    ] {
        let usage = refused(&run(line, &[KEY]));
        assert!(
            usage.contains("--help") || usage.contains("Usage"),
            "{line}: {usage}"
        );
    }
}

#[test]
fn check_config_shows_what_is_in_force_without_the_secrets() {
    let shown = succeeded(&run(
        "check-config",
        &[
            KEY,
            ("LUCKYBAG__MYSQL__URL", "mysql://bag:hunter2@db:3306/bag"),
            ("LUCKYBAG__REDIS__URL", "rediss://:hunter2@cache:6379/0"),
            (
                "LUCKYBAG__RABBITMQ__URL",
                "amqp://bag:hunter2@mq:5672/%2f?heartbeat=10",
            ),
            ("LUCKYBAG__DRAW__LEASE_SECS", "31"),
        ],
    ));

    for line in [
        r#"namespace = "lb""#,
        "lease_secs = 31",
        r#"url = "mysql://bag:********@db:3306/bag""#,
        r#"url = "rediss://:********@cache:6379/0""#,
        r#"url = "amqp://bag:********@mq:5672/%2f?heartbeat=10""#,
        r#"signing_secret = "********""#,
    ] {
        assert!(
            shown.lines().any(|shown| shown == line),
            "{line} in {shown}"
        );
    }
    assert!(
        !shown.contains("hunter2") && !shown.contains(SECRET),
        "{shown}"
    );
}

/// The keys of a configuration, in the order of the alphabet.
fn keys_of(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut keys: Vec<&str> = lines
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .collect();
    keys.sort_unstable();
    keys
}

#[test]
fn what_check_config_prints_is_a_configuration() {
    let changed = [
        ("LUCKYBAG__NAMESPACE", "other"),
        ("LUCKYBAG__LOG__FILTER", "info,luckybag=debug"),
        ("LUCKYBAG__DRAW__LEASE_SECS", "31"),
        ("LUCKYBAG__CANDIDATE__TRIM_FLOOR", "0.25"),
        ("LUCKYBAG__ACTIVITY__REVIEW_REQUIRED", "false"),
        ("LUCKYBAG__SERVER__TRUSTED_PROXIES", "10.0.0.0/8, ::1"),
    ];
    let shown = succeeded(&run("check-config", &changed));
    let file = ConfigFile::new(&shown);

    assert_eq!(keys_of(&shown), keys_of(DEFAULTS));
    assert_ne!(shown, succeeded(&run("check-config", &[])));
    assert_eq!(succeeded(&run("check-config", &[file.variable()])), shown);
}

#[test]
fn a_file_overrides_the_defaults_and_a_variable_the_file() {
    let file = ConfigFile::new(
        "namespace = \"from_file\"\n[draw]\nlease_secs = 33\n[join]\nbatch_max = 17\n",
    );

    let shown = succeeded(&run(
        "check-config",
        &[file.variable(), ("LUCKYBAG__DRAW__LEASE_SECS", "44")],
    ));

    for line in [
        "namespace = \"from_file\"",
        "lease_secs = 44",
        "batch_max = 17",
    ] {
        assert!(
            shown.lines().any(|shown| shown == line),
            "{line} in {shown}"
        );
    }
}

#[test]
fn a_configuration_that_cannot_be_meant_is_refused_by_the_name_of_its_key() {
    let unknown_key = ConfigFile::new("[draw]\nleese_secs = 3\n");
    let unknown_section = ConfigFile::new("[draws]\nlease_secs = 3\n");
    let wrong_type = ConfigFile::new("[draw]\nlease_secs = \"soon\"\n");
    let not_toml = ConfigFile::new("[draw\n");
    for (variable, named) in [
        (unknown_key.variable(), "leese_secs"),
        (unknown_section.variable(), "draws"),
        (wrong_type.variable(), "draw.lease_secs"),
        (not_toml.variable(), not_toml.name()),
        (
            ("LUCKYBAG_CONFIG", "/nowhere/bag.toml"),
            "/nowhere/bag.toml",
        ),
        (("LUCKYBAG__DRAW__LEESE_SECS", "3"), "leese_secs"),
        (("LUCKYBAG__LOG__FILTER", "info,=,"), "log.filter"),
        (
            ("LUCKYBAG__MYSQL__URL", "mysql://u:hunter2@h:port/bag"),
            "mysql.url",
        ),
        (
            ("LUCKYBAG__MYSQL__URL", "postgres://u:hunter2@h/bag"),
            "mysql.url",
        ),
        (
            ("LUCKYBAG__REDIS__URL", "redis://:hunter2@h:99999"),
            "redis.url",
        ),
        (
            ("LUCKYBAG__RABBITMQ__URL", "amqp://u:hunter2@h:port"),
            "rabbitmq.url",
        ),
        (
            ("LUCKYBAG__AUTH__SIGNING_SECRET", "hunter2"),
            "auth.signing_secret",
        ),
    ] {
        for command in ["check-config", "serve", "migrate", "token --user 7"] {
            let error = refused(&run(command, &[variable]));

            assert!(error.contains(named), "{command}, {variable:?}: {error}");
            assert!(!error.contains("hunter2"), "{command}: {error}");
            assert_eq!(error.lines().count(), 1, "{command}: {error}");
        }
    }
}

#[test]
fn every_fault_of_a_configuration_is_named_at_once() {
    let error = refused(&run(
        "check-config",
        &[
            ("LUCKYBAG__NAMESPACE", "A B"),
            ("LUCKYBAG__STREAM__PARTITIONS", "65"),
            ("LUCKYBAG__DRAW__LEASE_SECS", "1"),
        ],
    ));

    for named in ["namespace", "stream.partitions", "draw.lease_renew_secs"] {
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn a_command_whose_server_is_away_fails_and_says_which() {
    let nobody = free_address();
    let mysql = format!("mysql://root@{nobody}/bag");

    let rabbitmq = format!("amqp://{nobody}/%2f");

    let migrate = run("migrate", &[("LUCKYBAG__MYSQL__URL", &mysql)]);
    let dead = ["list", "replay"].map(|command| {
        let variables = [("LUCKYBAG__RABBITMQ__URL", rabbitmq.as_str())];
        run(&format!("dead {command}"), &variables)
    });
    let demo = run(&format!("demo --url http://{nobody}"), &[KEY]);

    assert_eq!(migrate.code, Some(1), "{migrate:?}");
    assert!(migrate.stderr.contains("MySQL"), "{migrate:?}");
    for dead in dead {
        assert_eq!(dead.code, Some(1), "{dead:?}");
        assert!(dead.stderr.contains("broker"), "{dead:?}");
    }
    assert_eq!(demo.code, Some(1), "{demo:?}");
    assert!(demo.stderr.contains(&nobody.to_string()), "{demo:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_plays_a_giveaway_to_its_end() {
    let world = World::new().await;
    // As it is by default: the story has its review, and all its viewers one address.
    let rates = World::default_rates();
    let mut changes = vec![("ACTIVITY__REVIEW_REQUIRED", "true")];
    changes.extend(rates.iter().map(|(key, value)| (*key, value.as_str())));
    let process = world.serve_with(&changes).await;
    let url = process.url().await;

    let demo = luckybag(&["demo", "--url", &url], world.variables());

    let story = succeeded(&demo);
    for told in [
        "in review",
        "participants, each counted once",
        "too late: 50 × 409 activity_closed",
        "10 × won",
    ] {
        assert!(story.contains(told), "{told} in\n{story}");
    }
    let seats = |prize: &str| {
        let is_seat = |line: &&str| line.contains("seat") && line.contains(prize);
        story.lines().filter(is_seat).count()
    };
    assert_eq!((seats("Headphones"), seats("Coupon")), (1, 9), "{story}");
    assert!(!story.contains("in_review"), "{story}");
    process.stop().await;
    world.end().await;
}

/// Runs a command line with these variables alone.
fn run(line: &str, variables: &[(&str, &str)]) -> Finished {
    let args: Vec<&str> = line.split_whitespace().collect();
    luckybag(&args, variables.iter().copied())
}

/// What a command printed; nothing went wrong.
#[track_caller]
fn succeeded(finished: &Finished) -> String {
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stderr, "", "{finished:?}");
    finished.stdout.clone()
}

/// What a command complained about: the caller's fault, and nothing for a pipe behind it.
#[track_caller]
fn refused(finished: &Finished) -> String {
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert_eq!(finished.stdout, "", "{finished:?}");
    finished.stderr.clone()
}

/// The claims of the one token that was printed.
#[track_caller]
fn claims(finished: &Finished) -> Value {
    let token = succeeded(finished);
    let mut validation = Validation::new(Algorithm::HS256);
    validation.validate_aud = false;
    let key = DecodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::decode(token.trim_end(), &key.expect("a key"), &validation)
        .expect("a token")
        .claims
}

fn lifetime_secs(claims: &Value) -> i64 {
    let at = |claim: &str| claims[claim].as_i64().expect("a time");
    at("exp") - at("iat")
}

/// A configuration file for as long as a test needs it.
struct ConfigFile(PathBuf);

impl ConfigFile {
    fn new(text: &str) -> Self {
        let name = format!("luckybag-{:016x}.toml", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).expect("a configuration file");
        Self(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }

    fn variable(&self) -> (&str, &str) {
        ("LUCKYBAG_CONFIG", self.name())
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}
