//! Shows the configuration without its secrets.

use std::fmt::Write as _;

use secrecy::{ExposeSecret, SecretString};
use serde::Serializer;
use serde_json::Value;

use super::sections::Settings;

const MASK: &str = "********";

impl Settings {
    /// The effective configuration as TOML, secrets and passwords inside URLs masked.
    pub fn masked(&self) -> String {
        let Ok(Value::Object(settings)) = serde_json::to_value(self) else {
            return String::new();
        };
        let (sections, top_level): (Vec<_>, Vec<_>) =
            settings.iter().partition(|(_, value)| value.is_object());

        let mut text = String::new();
        for (key, value) in top_level {
            push_line(&mut text, key, value);
        }
        for (name, section) in sections {
            push_section(&mut text, name, section);
        }
        text
    }
}

fn push_section(text: &mut String, name: &str, section: &Value) {
    text.push_str("\n[");
    text.push_str(name);
    text.push_str("]\n");
    for (key, value) in section.as_object().into_iter().flatten() {
        push_line(text, key, value);
    }
}

/// JSON's numbers, strings, booleans and lists of them are TOML as they are.
fn push_line(text: &mut String, key: &str, value: &Value) {
    // Writing to a string cannot fail.
    writeln!(text, "{key} = {value}").unwrap_or_default();
}

/// Serialises a secret as a mask, an empty one as empty.
pub(super) fn secret<S: Serializer>(
    secret: &SecretString,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if secret.expose_secret().is_empty() {
        ""
    } else {
        MASK
    })
}

/// Serialises a URL with its passwords masked.
pub(super) fn url<S: Serializer>(url: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&mask_url(url.expose_secret()))
}

/// The same for one that may be empty.
pub(super) fn optional_url<S: Serializer>(
    address: &SecretString,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if address.expose_secret().is_empty() {
        serializer.serialize_str("")
    } else {
        url(address, serializer)
    }
}

/// Masks rather too much than too little: a password may hold any character, unescaped too.
fn mask_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return MASK.to_owned();
    };
    let (user_info, place) = match rest.rsplit_once('@') {
        Some((user_info, place)) => (Some(user_info), place),
        None => (None, rest),
    };
    let (host, query) = match place.split_once('?') {
        Some((host, query)) => (host, Some(query)),
        None => (place, None),
    };

    let mut masked = format!("{scheme}://");
    if let Some(user_info) = user_info {
        masked.push_str(&mask_user_info(user_info));
        masked.push('@');
    }
    masked.push_str(host);
    if let Some(query) = query {
        masked.push('?');
        masked.push_str(&mask_query(query));
    }
    masked
}

fn mask_user_info(user_info: &str) -> String {
    match user_info.split_once(':') {
        Some((user, _)) => format!("{user}:{MASK}"),
        None => user_info.to_owned(),
    }
}

fn mask_query(query: &str) -> String {
    let masked: Vec<String> = query.split('&').map(mask_parameter).collect();
    masked.join("&")
}

fn mask_parameter(parameter: &str) -> String {
    let Some((name, _)) = parameter.split_once('=') else {
        return parameter.to_owned();
    };
    let lower = name.to_lowercase();
    let is_secret = ["pass", "secret", "token", "key"]
        .iter()
        .any(|word| lower.contains(word));
    if is_secret {
        format!("{name}={MASK}")
    } else {
        parameter.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_inside_a_url_is_masked_whatever_it_holds() {
        for (url, masked) in [
            (
                "mysql://root@127.0.0.1:3306/luckybag",
                "mysql://root@127.0.0.1:3306/luckybag",
            ),
            ("mysql://a:pw@h:1/db", "mysql://a:********@h:1/db"),
            ("redis://:p@ss/w?rd@h:1/0", "redis://:********@h:1/0"),
            (
                "redis-sentinel://u:pw@h:1/0?sentinelServiceName=m&sentinelPassword=pw",
                "redis-sentinel://u:********@h:1/0?sentinelServiceName=m&sentinelPassword=********",
            ),
            ("hunter2", "********"),
        ] {
            assert_eq!(mask_url(url), masked);
        }
    }
}
