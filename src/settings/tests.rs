use std::{error::Error, fmt::Write as _};

use secrecy::ExposeSecret;

use super::*;
use crate::kernel::UserId;

fn load(variables: &[(&str, &str)]) -> Result<Settings, String> {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::load_from(None, variables).map_err(|error| {
        let mut text = error.to_string();
        if let Some(source) = error.source() {
            write!(text, ": {source}").unwrap();
        }
        text
    })
}

fn fault(variable: &str, value: &str) -> String {
    load(&[(variable, value)]).expect_err(variable)
}

#[test]
fn the_defaults_alone_are_a_valid_configuration() {
    let settings = load(&[]).unwrap();

    assert_eq!(settings.namespace, "lb");
    assert_eq!(settings.server.ops_bind, None);
    assert_eq!(settings.draw.lease_secs.get(), 15);
    assert!(settings.auth.signing_secret.expose_secret().is_empty());
}

#[test]
fn a_variable_keeps_its_text_where_the_key_is_text() {
    let secret = "0123456789012345678901234567890123456789";
    let settings = load(&[
        ("LUCKYBAG__AUTH__SIGNING_SECRET", secret),
        ("LUCKYBAG__AUTH__ISSUER", "0123"),
        ("LUCKYBAG__NAMESPACE", "007"),
        ("LUCKYBAG__MYSQL__MIGRATE", "false"),
        ("LUCKYBAG__DRAW__LEASE_SECS", "30"),
        ("LUCKYBAG__CANDIDATE__TRIM_FLOOR", "0.5"),
    ])
    .unwrap();

    assert_eq!(settings.auth.signing_secret.expose_secret(), secret);
    assert_eq!(settings.auth.issuer.as_deref(), Some("0123"));
    assert_eq!(settings.namespace, "007");
    assert!(!settings.mysql.migrate);
    assert_eq!(settings.draw.lease_secs.get(), 30);
    assert!((settings.candidate.trim_floor - 0.5).abs() < f64::EPSILON);
}

#[test]
fn a_client_that_takes_nothing_is_given_up_while_a_stop_still_waits_for_it() {
    for (send, grace, holds) in [("9", "20", true), ("10", "20", false), ("8", "16", false)] {
        let loaded = load(&[
            ("LUCKYBAG__SERVER__SEND_TIMEOUT_SECS", send),
            ("LUCKYBAG__SERVER__SHUTDOWN_GRACE_SECS", grace),
        ]);
        match loaded {
            Ok(_) => assert!(holds, "{send} of {grace}"),
            Err(fault) => {
                assert!(!holds, "{fault}");
                assert!(fault.contains("server.send_timeout_secs"), "{fault}");
            }
        }
    }
}

#[test]
fn a_list_in_a_variable_is_separated_by_commas() {
    let settings = load(&[("LUCKYBAG__ACTIVITY__REVIEW_EXEMPT_HOSTS", "7, 8")]).unwrap();

    assert_eq!(
        settings.activity.review_exempt_hosts,
        [UserId(7), UserId(8)]
    );
}

#[test]
fn proxies_are_addresses_or_ranges() {
    let list = "10.0.0.0/8, 192.0.2.1, fd00::/8";
    let settings = load(&[("LUCKYBAG__SERVER__TRUSTED_PROXIES", list)]).unwrap();

    let holds = |address: &str| {
        let address = address.parse().unwrap();
        let ranges = &settings.server.trusted_proxies;
        ranges.iter().any(|range| range.contains(address))
    };
    assert!(["10.9.8.7", "192.0.2.1", "fd00::1"].into_iter().all(holds));
    assert!(!["11.0.0.1", "192.0.2.2", "fe80::1"].into_iter().any(holds));
}

#[test]
fn an_unknown_key_is_an_error_that_names_it() {
    assert!(fault("LUCKYBAG__DRAW__LEESE_SECS", "3").contains("leese_secs"));
    assert!(fault("LUCKYBAG__DRAWS__LEASE_SECS", "3").contains("draws"));
    assert!(fault("LUCKYBAG__LEASE_SECS", "3").contains("lease_secs"));
}

#[test]
fn variables_outside_the_prefix_are_left_alone() {
    load(&[
        ("LUCKYBAG_CONFIG", "x"),
        ("LUCKYBAG", "x"),
        ("LUCKY__DRAW__X", "x"),
    ])
    .unwrap();
}

#[test]
fn a_value_of_the_wrong_type_is_an_error_that_names_the_key() {
    for (variable, value, key) in [
        ("LUCKYBAG__DRAW__LEASE_SECS", "soon", "draw.lease_secs"),
        ("LUCKYBAG__DRAW__LEASE_SECS", "0", "draw.lease_secs"),
        ("LUCKYBAG__DRAW__LEASE_SECS", "-1", "draw.lease_secs"),
        ("LUCKYBAG__DRAW__CONCURRENCY", "1.5", "draw.concurrency"),
        ("LUCKYBAG__SWEEPER__ENABLED", "maybe", "sweeper.enabled"),
        ("LUCKYBAG__SERVER__BIND", "nowhere", "server.bind"),
        ("LUCKYBAG__SERVER__OPS_BIND", "nowhere", "server.ops_bind"),
        (
            "LUCKYBAG__ACTIVITY__REVIEW_EXEMPT_HOSTS",
            "007",
            "activity.review_exempt_hosts",
        ),
        ("LUCKYBAG__LOG__FORMAT", "xml", "log.format"),
        (
            "LUCKYBAG__SERVER__TRUSTED_PROXIES",
            "10.0.0.0/8, proxy",
            "server.trusted_proxies",
        ),
        ("LUCKYBAG__LIMITS__IP_BURST", "0", "limits.ip_burst"),
        ("LUCKYBAG__DRAW", "x", "draw"),
    ] {
        let fault = fault(variable, value);
        assert!(fault.contains(key), "{variable}={value}: {fault}");
    }
}

#[test]
fn rules_between_keys_are_checked_and_every_fault_is_named() {
    let fault = load(&[
        ("LUCKYBAG__NAMESPACE", "Lucky Bag"),
        ("LUCKYBAG__AUTH__SIGNING_SECRET", "short"),
        ("LUCKYBAG__AUTH__JWKS_URL", "http://keys.example/jwks.json"),
        ("LUCKYBAG__AUTH__JWKS_LEAST_PAUSE_SECS", "301"),
        ("LUCKYBAG__STREAM__PARTITIONS", "65"),
        ("LUCKYBAG__DRAW__LEASE_RENEW_SECS", "8"),
        ("LUCKYBAG__DRAW__DRAIN_MAX_SECS", "29"),
        ("LUCKYBAG__CANDIDATE__TRIM_FLOOR", "1"),
        ("LUCKYBAG__JOIN__QUEUE_LIMIT", "1"),
        ("LUCKYBAG__REDIS__URL", "http://localhost"),
        ("LUCKYBAG__LOG__FILTER", "info,=="),
        (
            "LUCKYBAG__TELEMETRY__OTLP_ENDPOINT",
            "http://127.0.0.1:4318",
        ),
        ("LUCKYBAG__TELEMETRY__OTLP_SAMPLE_RATIO", "1.1"),
        ("LUCKYBAG__TELEMETRY__OTLP_SERVICE_NAME", ""),
        ("LUCKYBAG__SERVER__OPS_BIND", "127.0.0.1:8080"),
        ("LUCKYBAG__SERVER__TRUSTED_PROXIES", "10.0.0.0/8, ::/0"),
        ("LUCKYBAG__MYSQL__MAX_CONNECTIONS", "27"),
        ("LUCKYBAG__LIMITS__USER_PER_SECOND", "1000001"),
    ])
    .expect_err("none of it is valid");

    for key in [
        "namespace",
        "auth.signing_secret",
        "auth.jwks_url",
        "auth.jwks_least_pause_secs",
        "stream.partitions",
        "draw.lease_renew_secs",
        "draw.drain_limit_secs",
        "candidate.trim_floor",
        "join.queue_limit",
        "redis.url",
        "log.filter",
        "telemetry.otlp_endpoint",
        "telemetry.otlp_sample_ratio",
        "telemetry.otlp_service_name",
        "server.ops_bind",
        "server.trusted_proxies",
        "limits.mysql_concurrency",
        "limits.user_per_second",
    ] {
        assert!(fault.contains(key), "{key} in {fault}");
    }
    assert!(!fault.contains("short"));
}

#[test]
fn a_file_lies_between_the_defaults_and_the_variables() {
    let file = std::env::temp_dir().join(format!("luckybag-settings-{}.conf", std::process::id()));
    std::fs::write(&file, "[draw]\nlease_secs = 40\nconcurrency = 2\n").unwrap();
    let variable = ("LUCKYBAG__DRAW__CONCURRENCY".to_owned(), "3".to_owned());

    let settings = Settings::load_from(Some(&file), std::iter::once(variable)).unwrap();
    std::fs::write(&file, "[draw]\nlease = 40\n").unwrap();
    let unknown = Settings::load_from(Some(&file), std::iter::empty()).unwrap_err();
    std::fs::remove_file(&file).unwrap();
    let missing = Settings::load_from(Some(&file), std::iter::empty()).unwrap_err();

    assert_eq!(
        (
            settings.draw.lease_secs.get(),
            settings.draw.concurrency.get()
        ),
        (40, 3)
    );
    assert!(unknown.source().unwrap().to_string().contains("`lease`"));
    assert!(
        missing
            .source()
            .unwrap()
            .to_string()
            .contains("luckybag-settings")
    );
}

#[test]
fn the_masked_configuration_is_complete_readable_and_without_secrets() {
    let settings = load(&[
        (
            "LUCKYBAG__AUTH__SIGNING_SECRET",
            "hunter2-hunter2-hunter2-hunter2-hunter2",
        ),
        ("LUCKYBAG__MYSQL__URL", "mysql://app:hunter2@db:3306/bag"),
        (
            "LUCKYBAG__TELEMETRY__OTLP_ENDPOINT",
            "https://traces:4318/v1/traces?api_key=hunter2",
        ),
    ])
    .unwrap();

    let masked = settings.masked();

    assert!(!masked.contains("hunter2") && !format!("{settings:?}").contains("hunter2"));
    assert!(
        masked.contains(r#"url = "mysql://app:********@db:3306/bag""#),
        "{masked}"
    );
    assert!(
        masked.contains("\n[draw]\n") && masked.contains("\nlease_secs = 15\n"),
        "{masked}"
    );
    let again: config::Config = config::Config::builder()
        .add_source(config::File::from_str(&masked, config::FileFormat::Toml))
        .build()
        .unwrap();
    assert_eq!(again.get_string("namespace").unwrap(), "lb");
}

#[test]
fn data_is_kept_for_ever_or_at_least_as_long_as_something_needs_it() {
    let participations = "LUCKYBAG__RETENTION__PARTICIPATIONS_DAYS";
    let wins = "LUCKYBAG__RETENTION__WIN_RECORDS_DAYS";
    let cooldown = "LUCKYBAG__CANDIDATE__COOLDOWN_SECS";

    for good in [
        &[(participations, "0"), (wins, "0"), (cooldown, "4294967295")][..],
        &[(participations, "8"), (wins, "31")],
        &[(wins, "365"), (cooldown, "31536000")],
        &[(wins, "4294967295")],
        &[(participations, "400"), (wins, "400")],
        &[(participations, "400"), (wins, "0")],
    ] {
        load(good).expect("valid");
    }
    for (bad, key) in [
        (
            &[(participations, "7")][..],
            "retention.participations_days",
        ),
        (&[(wins, "30")], "retention.win_records_days"),
        (
            &[(participations, "400"), (wins, "399")],
            "retention.win_records_days",
        ),
        (
            &[(participations, "0"), (wins, "36500")],
            "retention.win_records_days",
        ),
        (
            &[(wins, "365"), (cooldown, "31536001")],
            "retention.win_records_days",
        ),
    ] {
        let fault = load(bad).expect_err(key);
        assert!(fault.contains(key), "{fault}");
    }
}
