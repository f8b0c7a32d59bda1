//! The kinds of outbox rows and how their bodies are stored.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Event, EventKind};
use crate::{
    infra::broker::{DelayRung, Outgoing, Target},
    kernel::{ActivityId, Timestamp, WinRecordId, format_timestamp, to_millis},
};

/// One thing that a transaction owes.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An event for the events exchange.
    Publish(Event),
    /// A draw that waits on the delay ladder until its time.
    Draw(DrawMessage),
    /// Bring what Redis shows of an activity up to date; `what` names the registered projection.
    /// `version` tells one change from the next, the projection itself reads `MySQL` again.
    Project {
        what: &'static str,
        activity_id: ActivityId,
        version: u32,
    },
    /// Copy an activity and its win records to the admin database, as of `version` or later.
    CopyActivity {
        activity_id: ActivityId,
        version: u32,
    },
    /// Copy one win record there; `change` tells one change of it from the next.
    CopyWin {
        activity_id: ActivityId,
        win_record_id: WinRecordId,
        change: &'static str,
    },
}

/// Which relay works a row off, and what a dead server holds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Publish,
    Project,
    AdminCopy,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Publish, Self::Project, Self::AdminCopy];

    /// The stored word, also in metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Project => "project",
            Self::AdminCopy => "adminCopy",
        }
    }
}

/// Asks whoever receives it to draw an activity once `draw_at` has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrawMessage {
    pub activity_id: ActivityId,
    #[serde(with = "to_millis")]
    pub draw_at: Timestamp,
}

impl DrawMessage {
    /// The `type` of the message.
    pub const KIND: &'static str = "draw";

    /// The message for the longest rung of the delay ladder that fits into `left`; for the draw
    /// queue itself when less than the shortest rung is left.
    pub fn into_outgoing(self, left: Duration) -> Outgoing {
        let target = DelayRung::longest_within(left).map_or(Target::Draw, Target::Delay);
        let body = json!({
            "activityId": self.activity_id,
            "drawAt": format_timestamp(self.draw_at),
        });
        let id = format!("draw:{}", self.activity_id);
        Outgoing::new(target, id, Self::KIND, body.to_string().into_bytes())
    }
}

/// The stored form of an [`Entry`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "entry",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum StoredEntry {
    Publish {
        id: String,
        kind: EventKind,
        schema_version: u32,
        #[serde(with = "to_millis")]
        at: Timestamp,
        data: Value,
    },
    Draw(DrawMessage),
    Project {
        what: String,
        activity_id: ActivityId,
    },
    AdminCopy {
        activity_id: ActivityId,
        /// The whole activity when it is missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        win_record_id: Option<WinRecordId>,
    },
}

impl Entry {
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Publish(_) | Self::Draw(_) => Kind::Publish,
            Self::Project { .. } => Kind::Project,
            Self::CopyActivity { .. } | Self::CopyWin { .. } => Kind::AdminCopy,
        }
    }

    /// What makes a repeat of this row recognisable while the first one waits.
    pub(super) fn dedupe_key(&self) -> String {
        match self {
            Self::Publish(event) => format!("event:{}", event.id),
            Self::Draw(draw) => {
                format!(
                    "draw:{}:{}",
                    draw.activity_id,
                    draw.draw_at.timestamp_millis()
                )
            }
            Self::Project {
                what,
                activity_id,
                version,
            } => {
                format!("project:{what}:{activity_id}:{version}")
            }
            Self::CopyActivity {
                activity_id,
                version,
            } => format!("copy:activity:{activity_id}:{version}"),
            Self::CopyWin {
                activity_id: _,
                win_record_id,
                change,
            } => format!("copy:win:{win_record_id}:{change}"),
        }
    }

    pub(super) fn to_stored(&self) -> StoredEntry {
        match self.clone() {
            Self::Publish(event) => StoredEntry::Publish {
                id: event.id,
                kind: event.kind,
                schema_version: event.schema_version,
                at: event.at,
                data: event.data,
            },
            Self::Draw(draw) => StoredEntry::Draw(draw),
            Self::Project {
                what,
                activity_id,
                version: _,
            } => StoredEntry::Project {
                what: what.to_owned(),
                activity_id,
            },
            Self::CopyActivity {
                activity_id,
                version: _,
            } => StoredEntry::AdminCopy {
                activity_id,
                win_record_id: None,
            },
            Self::CopyWin {
                activity_id,
                win_record_id,
                change: _,
            } => StoredEntry::AdminCopy {
                activity_id,
                win_record_id: Some(win_record_id),
            },
        }
    }
}
