//! What one client has been told, as the id of an event.

use std::fmt;

use crate::kernel::ActivityId;

/// What one client knows of an activity. Its text is the `id` of each event, so that the
/// `Last-Event-ID` of a client that connects again says what need not be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    activity_id: ActivityId,
    /// Of the last `status`.
    pub(super) version: u32,
    /// Of the last `drawn`.
    pub(super) round: u32,
    /// Of the last `participants`.
    pub(super) count: Option<u64>,
}

impl Told {
    /// What a client knows that comes for the first time. Versions begin at 1.
    pub(super) fn nothing(activity_id: ActivityId) -> Self {
        Self {
            activity_id,
            version: 0,
            round: 0,
            count: None,
        }
    }

    /// What a client says it knows; nothing when that is not about this activity, or not from us.
    pub(super) fn read(activity_id: ActivityId, last_event_id: Option<&str>) -> Self {
        last_event_id
            .and_then(Self::parse)
            .filter(|told| told.activity_id == activity_id)
            .unwrap_or_else(|| Self::nothing(activity_id))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let told = Self {
            activity_id: parts.next()?.parse().ok()?,
            version: parts.next()?.parse().ok()?,
            round: parts.next()?.parse().ok()?,
            count: match parts.next()? {
                "-" => None,
                count => Some(count.parse().ok()?),
            },
        };
        parts.next().is_none().then_some(told)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            activity_id,
            version,
            round,
            count,
        } = self;
        write!(f, "{activity_id}.{version}.{round}.")?;
        match count {
            Some(count) => count.fmt(f),
            None => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ActivityId = ActivityId(77);

    #[test]
    fn what_was_told_reads_back_from_the_id_of_an_event() {
        for (text, version, round, count) in [
            ("77.1.0.-", 1, 0, None),
            ("77.4294967295.2.700000", u32::MAX, 2, Some(700_000)),
        ] {
            let told = Told::read(ID, Some(text));

            assert_eq!(
                (told.version, told.round, told.count),
                (version, round, count)
            );
            assert_eq!(told.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_about_this_activity_counts_for_nothing() {
        let odd = [
            "",
            "78.5.1.3",
            "77",
            "77.1.0",
            "77.1.0.-.1",
            "77.-1.0.1",
            "77.4294967296.0.1",
        ];
        let odd = odd.into_iter().map(Some).chain([None]);
        for text in odd {
            assert_eq!(Told::read(ID, text), Told::nothing(ID), "{text:?}");
        }
    }
}
