//! An outgoing event in the `CloudEvents` 1.0 JSON envelope.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Value, json};

use crate::{
    infra::broker::{Outgoing, Target},
    kernel::{Timestamp, format_timestamp},
};

/// What outgoing events exist: the routing keys of the events exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    ActivityOpened,
    ActivityDrawn,
    ActivityCancelled,
    JoinAccepted,
    ParticipationUpdated,
    ResultWon,
    ResultNotWon,
    ResultRevoked,
    ProofPublished,
}

impl EventKind {
    pub const ALL: [Self; 9] = [
        Self::ActivityOpened,
        Self::ActivityDrawn,
        Self::ActivityCancelled,
        Self::JoinAccepted,
        Self::ParticipationUpdated,
        Self::ResultWon,
        Self::ResultNotWon,
        Self::ResultRevoked,
        Self::ProofPublished,
    ];

    /// Past tense, also the routing key.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ActivityOpened => "activity.opened",
            Self::ActivityDrawn => "activity.drawn",
            Self::ActivityCancelled => "activity.cancelled",
            Self::JoinAccepted => "join.accepted",
            Self::ParticipationUpdated => "participation.updated",
            Self::ResultWon => "result.won",
            Self::ResultNotWon => "result.not_won",
            Self::ResultRevoked => "result.revoked",
            Self::ProofPublished => "proof.published",
        }
    }
}

impl Serialize for EventKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| D::Error::custom(format!("{word} is not an event that goes out")))
    }
}

/// Something that happened, told to whoever listens on the events exchange.
///
/// Delivered at least once; a consumer drops repeats by `id`.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The same for every repeat of this event.
    pub id: String,
    pub kind: EventKind,
    /// Grows with every change of the fields of `data`, which docs/events.md and its samples list.
    pub schema_version: u32,
    pub at: Timestamp,
    pub data: Value,
}

impl Event {
    /// The message for the events exchange.
    pub fn into_outgoing(self) -> Outgoing {
        let body = json!({
            "specversion": "1.0",
            "id": self.id,
            "source": "luckybag",
            "type": self.kind.as_str(),
            "time": format_timestamp(self.at),
            "datacontenttype": "application/json",
            "schemaversion": self.schema_version,
            "data": self.data,
        });
        let kind = self.kind.as_str();
        Outgoing::new(
            Target::Events(kind),
            self.id,
            kind,
            body.to_string().into_bytes(),
        )
    }
}
