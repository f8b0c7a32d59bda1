//! Time as a value: services take a clock, everything below them takes the time.

use chrono::{DateTime, SecondsFormat, Utc};

/// A point in time in UTC.
pub type Timestamp = DateTime<Utc>;

/// The wall clock of this machine. Decides nothing about a draw: that is the database's clock.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the wall clock"
    )]
    fn now(&self) -> Timestamp {
        Utc::now()
    }
}

/// Cuts to milliseconds, the resolution of every stored and shown time.
///
/// `MySQL` 8 rounds what `MariaDB` cuts, so everything is cut before it is written or compared. A
/// leap second, which neither can hold, becomes the second after it.
pub fn truncate_to_millis(at: Timestamp) -> Timestamp {
    Timestamp::from_timestamp_millis(at.timestamp_millis()).unwrap_or(at)
}

/// RFC 3339 in UTC with milliseconds, the API's form.
pub fn format_timestamp(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Serialises a time as RFC 3339 with milliseconds: `#[serde(with = "kernel::to_millis")]`.
pub mod to_millis {
    use chrono::DateTime;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::{Timestamp, format_timestamp, truncate_to_millis};

    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_timestamp(*at))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        DateTime::parse_from_rfc3339(&text)
            .map(|at| truncate_to_millis(at.to_utc()))
            .map_err(|_| D::Error::custom("a time is RFC 3339, such as 2026-01-31T20:00:00.000Z"))
    }

    /// The same for a time that may be absent.
    pub mod option {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        use super::super::Timestamp;

        #[derive(Deserialize, Serialize)]
        #[serde(transparent)]
        struct Millis(#[serde(with = "super")] Timestamp);

        pub fn serialize<S: Serializer>(at: &Option<Timestamp>, s: S) -> Result<S::Ok, S::Error> {
            at.map(Millis).serialize(s)
        }

        pub fn deserialize<'de, D>(deserializer: D) -> Result<Option<Timestamp>, D::Error>
        where
            D: Deserializer<'de>,
        {
            Ok(Option::<Millis>::deserialize(deserializer)?.map(|millis| millis.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_to_milliseconds_and_a_leap_second_is_the_one_after_it() {
        for (given, kept) in [
            ("2026-01-31T20:00:00.123999Z", "2026-01-31T20:00:00.123Z"),
            ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999Z"),
            ("2016-12-31T23:59:60.500Z", "2017-01-01T00:00:00.500Z"),
        ] {
            let at = DateTime::parse_from_rfc3339(given).unwrap().to_utc();
            assert_eq!(format_timestamp(truncate_to_millis(at)), kept);
        }
    }
}
