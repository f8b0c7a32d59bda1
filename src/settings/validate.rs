//! Rules that one key's type cannot say. All faults are named at once.

use std::{fmt::Display, net::IpAddr, str::FromStr};

use hyper::Uri;
use lapin::uri::AMQPUri;
use secrecy::{ExposeSecret, SecretString};
use sqlx::mysql::MySqlConnectOptions;
use tracing_subscriber::EnvFilter;

use super::{
    proxies::ProxyRange,
    sections::{
        AuthSettings, DrawSettings, RetentionSettings, ServerSettings, Settings, TelemetrySettings,
    },
};

/// Shortest HS256 secret: as long as the hash, RFC 7518 section 3.2.
const SHORTEST_SECRET_BYTES: usize = 32;

/// Connections that callers of the API may never take: draws, admission, the outbox and the sweeper
/// need some at any time.
const RESERVED_CONNECTIONS: usize = 4;

/// Calls a second that no process could answer anyway.
const HIGHEST_RATE: u32 = 1_000_000;

/// What is wrong, each fault with the key it is about.
pub(super) fn faults(settings: &Settings) -> Vec<String> {
    let checks = [
        namespace(&settings.namespace),
        server(&settings.server),
        send_timeout(&settings.server),
        trusted_proxies(&settings.server),
        filter(&settings.log.filter),
        otlp_endpoint(&settings.telemetry),
        sample_ratio(settings.telemetry.otlp_sample_ratio),
        service_name(&settings.telemetry.otlp_service_name),
        url(
            "mysql.url",
            &settings.mysql.url,
            &["mysql", "mariadb"],
            MySqlConnectOptions::from_str,
        ),
        admin_database(settings),
        url(
            "redis.url",
            &settings.redis.url,
            &REDIS_SCHEMES,
            fred::types::config::Config::from_url,
        ),
        url(
            "rabbitmq.url",
            &settings.rabbitmq.url,
            &["amqp", "amqps"],
            AMQPUri::from_str,
        ),
        partitions(settings.stream.partitions),
        secret(&settings.auth.signing_secret),
        jwks_url(&settings.auth),
        jwks_pauses(&settings.auth),
        queue(
            settings.join.batch_max.get(),
            settings.join.queue_limit.get(),
        ),
        trim_floor(settings.candidate.trim_floor),
        lease(&settings.draw),
        drain(&settings.draw),
        mysql_concurrency(settings),
        rate("limits.user_per_second", settings.limits.user_per_second),
        rate("limits.ip_per_second", settings.limits.ip_per_second),
        participations_life(settings.retention.participations_days),
        win_records_life(
            settings.retention.win_records_days,
            settings.candidate.cooldown_secs,
        ),
        order_of_lives(&settings.retention),
    ];
    checks.into_iter().filter_map(Result::err).collect()
}

const REDIS_SCHEMES: [&str; 6] = [
    "redis",
    "rediss",
    "redis-sentinel",
    "rediss-sentinel",
    "redis-cluster",
    "rediss-cluster",
];

type Check = Result<(), String>;

fn check(holds: impl FnOnce() -> bool, fault: impl Into<String>) -> Check {
    if holds() { Ok(()) } else { Err(fault.into()) }
}

fn namespace(namespace: &str) -> Check {
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
    };
    check(
        || (1..=32).contains(&namespace.len()) && namespace.bytes().all(is_allowed),
        "`namespace` is 1 to 32 characters of a-z, 0-9, `_` and `-`",
    )
}

fn server(server: &ServerSettings) -> Check {
    check(
        || server.bind.port() == 0 || server.ops_bind != Some(server.bind),
        "`server.ops_bind` is empty or differs from `server.bind`",
    )
}

/// A stop waits half of its time for requests in hand, and those end with the clients that take nothing.
fn send_timeout(server: &ServerSettings) -> Check {
    let (send, grace) = (server.send_timeout_secs, server.shutdown_grace_secs);
    check(
        || send.get().saturating_mul(2) < grace.get(),
        "`server.send_timeout_secs` is less than half of `server.shutdown_grace_secs`",
    )
}

fn trusted_proxies(server: &ServerSettings) -> Check {
    let is_everything = |range: &ProxyRange| range.is_everything();
    check(
        || !server.trusted_proxies.iter().any(is_everything),
        "`server.trusted_proxies` names the proxies, not every address there is",
    )
}

fn filter(filter: &str) -> Check {
    match EnvFilter::builder().parse(filter) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("`log.filter`: {error}")),
    }
}

/// The whole address: what belongs to it differs from collector to collector.
fn otlp_endpoint(telemetry: &TelemetrySettings) -> Check {
    let url = telemetry.otlp_endpoint.expose_secret();
    if url.is_empty() {
        return Ok(());
    }
    let uri = url.parse::<Uri>().unwrap_or_default();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    check(
        || {
            matches!(uri.scheme_str(), Some("https" | "http"))
                && !authority.is_empty()
                && uri.path() != "/"
        },
        "`telemetry.otlp_endpoint` is empty or the complete URL that takes traces, such as \
         http://127.0.0.1:4318/v1/traces",
    )?;
    check(
        || !authority.contains('@'),
        "`telemetry.otlp_endpoint` has no user and no password: put them into a header by \
         OTEL_EXPORTER_OTLP_HEADERS",
    )
}

fn sample_ratio(ratio: f64) -> Check {
    check(
        || (0.0..=1.0).contains(&ratio),
        "`telemetry.otlp_sample_ratio` is 0 to 1",
    )
}

fn service_name(name: &str) -> Check {
    check(
        || (1..=100).contains(&name.chars().count()) && !name.contains(char::is_control),
        "`telemetry.otlp_service_name` is 1 to 100 characters, none of them a control character",
    )
}

/// Checks a URL with the parser of the client that is going to use it.
fn url<T, E: Display>(
    key: &str,
    url: &SecretString,
    schemes: &[&str],
    parse: impl Fn(&str) -> Result<T, E>,
) -> Check {
    let url = url.expose_secret();
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    check(
        || scheme.is_some_and(|scheme| schemes.contains(&scheme)),
        format!("`{key}` starts with {}://", schemes.join(":// or ")),
    )?;
    parse(url).map(|_| ()).map_err(|error| {
        // A parser that repeats the URL in its error would show the password.
        let error = error.to_string().replace(url, "this URL");
        format!("`{key}`: {error} (is a special character of the password percent-encoded?)")
    })
}

/// A second set of tables in the database of the service would be no copy.
fn admin_database(settings: &Settings) -> Check {
    let admin = &settings.admin_database;
    if !admin.is_on() {
        return Ok(());
    }
    url(
        "admin_database.url",
        &admin.url,
        &["mysql", "mariadb"],
        MySqlConnectOptions::from_str,
    )?;
    let place = |url: &SecretString| {
        let options = MySqlConnectOptions::from_str(url.expose_secret()).ok()?;
        let database = options.get_database().map(str::to_owned);
        Some((options.get_host().to_owned(), options.get_port(), database))
    };
    let names_one = place(&admin.url).is_some_and(|(_, _, database)| database.is_some());
    check(
        || names_one && place(&admin.url) != place(&settings.mysql.url),
        "`admin_database.url` names a database, and another than `mysql.url`",
    )
}

fn partitions(partitions: u16) -> Check {
    check(
        || (1..=64).contains(&partitions),
        "`stream.partitions` is 1 to 64",
    )
}

fn secret(secret: &SecretString) -> Check {
    let length = secret.expose_secret().len();
    check(
        || length == 0 || length >= SHORTEST_SECRET_BYTES,
        format!("`auth.signing_secret` is empty or at least {SHORTEST_SECRET_BYTES} bytes long"),
    )
}

/// Keys that anybody on the way can exchange let everybody in.
fn jwks_url(auth: &AuthSettings) -> Check {
    let url = auth.jwks_url.expose_secret();
    if url.is_empty() {
        return Ok(());
    }
    let uri = url.parse::<Uri>().unwrap_or_default();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    check(
        || matches!(uri.scheme_str(), Some("https" | "http")) && !authority.is_empty(),
        "`auth.jwks_url` is a complete https:// URL",
    )?;
    check(
        || !authority.contains('@'),
        "`auth.jwks_url` has no user and no password: none are sent",
    )?;
    check(
        || {
            uri.scheme_str() == Some("https")
                || auth.jwks_allow_http
                || is_loopback(uri.host().unwrap_or_default())
        },
        "`auth.jwks_url` is https://, but for loopback or with `auth.jwks_allow_http`",
    )
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || IpAddr::from_str(address).is_ok_and(|address| address.is_loopback())
}

fn jwks_pauses(auth: &AuthSettings) -> Check {
    check(
        || auth.jwks_least_pause_secs <= auth.jwks_refresh_secs,
        "`auth.jwks_least_pause_secs` is at most `auth.jwks_refresh_secs`",
    )
}

fn queue(batch_max: usize, queue_limit: usize) -> Check {
    check(
        || batch_max <= queue_limit,
        "`join.batch_max` is at most `join.queue_limit`",
    )
}

fn trim_floor(floor: f64) -> Check {
    check(
        || (0.0..1.0).contains(&floor),
        "`candidate.trim_floor` is at least 0 and below 1",
    )
}

fn lease(draw: &DrawSettings) -> Check {
    check(
        || draw.lease_renew_secs.duration() * 2 <= draw.lease_secs.duration(),
        "`draw.lease_renew_secs` is at most half of `draw.lease_secs`",
    )
}

fn drain(draw: &DrawSettings) -> Check {
    check(
        || draw.drain_limit_secs <= draw.drain_max_secs,
        "`draw.drain_limit_secs` is at most `draw.drain_max_secs`",
    )
}

fn mysql_concurrency(settings: &Settings) -> Check {
    let connections = settings.mysql.max_connections.get();
    let for_callers = settings.limits.mysql_concurrency.get();
    check(
        || usize::try_from(connections).is_ok_and(|all| all >= for_callers + RESERVED_CONNECTIONS),
        format!(
            "`limits.mysql_concurrency` leaves at least {RESERVED_CONNECTIONS} of \
             `mysql.max_connections` to draws and admission"
        ),
    )
}

fn rate(key: &str, per_second: u32) -> Check {
    check(
        || per_second <= HIGHEST_RATE,
        format!("`{key}` is at most {HIGHEST_RATE}; 0 is no limit"),
    )
}

/// Shortest life of participations: the pool in Redis lives for 7 days after the draw.
const SHORTEST_LIFE_DAYS: u32 = 8;

fn participations_life(days: u32) -> Check {
    check(
        || days == 0 || days >= SHORTEST_LIFE_DAYS,
        "`retention.participations_days` is 0 or at least 8",
    )
}

/// Longest cool-down that an activity may ask for.
const LONGEST_COOLDOWN_DAYS: u32 = 30;

fn win_records_life(days: u32, cooldown_secs: u32) -> Check {
    let day_secs = 24 * 60 * 60;
    check(
        || {
            days == 0
                || (days > LONGEST_COOLDOWN_DAYS && days.saturating_mul(day_secs) >= cooldown_secs)
        },
        "`retention.win_records_days` is 0 or at least 31 and as long as `candidate.cooldown_secs`",
    )
}

/// While participants are there, whoever has won must be known: a redraw passes them over.
fn order_of_lives(retention: &RetentionSettings) -> Check {
    // The longest life is none.
    let [participations, win_records] = [retention.participations_days, retention.win_records_days]
        .map(|days| if days == 0 { u32::MAX } else { days });
    check(
        || win_records >= participations,
        "`retention.win_records_days` is at least `retention.participations_days`; 0 is for ever",
    )
}
