//! What an activity is.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Status;
use crate::{
    infra::redis::Shard,
    kernel::{ActivityId, PrizeId, RoomId, Timestamp, UserId, mix},
};

/// One giveaway in one room, as stored.
#[derive(Clone, Debug)]
pub struct Activity {
    pub id: ActivityId,
    pub room_id: RoomId,
    pub host_id: UserId,
    pub title: String,
    /// What the host says about who may take part; shown, not evaluated.
    pub conditions: Option<String>,
    /// The sum of the prizes' quantities: 1 to 10,000.
    pub winner_count: u32,
    /// Best prize first.
    pub prizes: Vec<ActivityPrize>,
    /// What a participant has to do before drawAt.
    pub tasks: Vec<Task>,
    pub presence_rule: PresenceRule,
    pub one_entry_per_device: bool,
    pub shard_by: ShardBy,
    /// How long a win keeps its winner out of this activity; zero when it does not.
    pub cooldown: Duration,
    /// Past this many participants only scores from `trim_floor` on enter the pool.
    pub trim_after: u64,
    pub trim_floor: f64,
    pub status: Status,
    /// Counted from the opening; `None` when `draw_at` was given.
    pub countdown: Option<Duration>,
    /// Before the opening the scheduled start, if any; from then on the real one.
    pub start_at: Option<Timestamp>,
    /// Fixed for good at the opening.
    pub draw_at: Option<Timestamp>,
    pub drawn_at: Option<Timestamp>,
    /// Why it was rejected or cancelled, or why the last scheduled opening failed.
    pub status_reason: Option<String>,
    /// Made at the opening and secret until the proof is published.
    pub seed: Option<Seed>,
    /// SHA-256 over the seed and the rules; public from the opening on.
    pub commitment: Option<[u8; 32]>,
    /// Canonical JSON of the rules, fixed at the opening.
    pub rules: Option<String>,
    /// Final figures, known once drawn.
    pub joined_count: Option<u64>,
    pub eligible_count: Option<u64>,
    pub cutoff_score: Option<f64>,
    /// When the proof was published; from then on the seed is public.
    pub proof_published_at: Option<Timestamp>,
    /// Since when its participants are past their life, so that nothing is told of them any more.
    pub participants_removed_at: Option<Timestamp>,
    /// The same for its win records.
    pub wins_removed_at: Option<Timestamp>,
    /// 0 before the draw, 1 for the draw, one more for each redraw.
    pub round: u32,
    /// One more with every change of the row.
    pub version: u32,
    pub created_at: Timestamp,
}

impl Activity {
    /// The part of the pool that holds `user`.
    pub fn shard_of(&self, user: UserId) -> Shard {
        self.shard_by.shard_of(user)
    }
}

/// A prize of an activity and how many of it are handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityPrize {
    /// 1 for the best prize.
    pub rank: u32,
    pub prize_id: PrizeId,
    pub name: String,
    pub kind: PrizeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub image: Option<String>,
    /// 1 to 1,000.
    pub quantity: u32,
}

/// Whether a prize is shipped or handed over inside the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PrizeKind {
    Physical,
    Virtual,
}

/// Something a participant has to do; how far a user is with it is the task system's business.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Task {
    pub task_id: String,
    pub title: String,
}

impl Task {
    /// What an id of a task looks like, for whoever sent another.
    pub const ID_FORM: &str = "a task id is 1 to 64 characters of A-Z a-z 0-9 _ . -";

    /// Whether a task may have this id.
    pub fn is_id(text: &str) -> bool {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        (1..=64).contains(&text.len()) && text.bytes().all(is_allowed)
    }
}

/// What leaving the room does to a participant's eligibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PresenceRule {
    /// Nothing.
    Ignore,
    /// It is suspended until the return.
    Pause,
    /// It is lost for good.
    Forfeit,
}

/// How users are spread over the 16 shards of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ShardBy {
    /// By the low four bits of the user id.
    LowBits,
    /// By the low four bits of the mixed user id, for ids whose low bits do not vary.
    Mixed,
}

impl ShardBy {
    pub fn shard_of(self, user: UserId) -> Shard {
        match self {
            Self::LowBits => Shard::of(user.0),
            Self::Mixed => Shard::of(mix(user.0)),
        }
    }
}

/// Gives each of the enums its stored word and the way back.
macro_rules! stored_words {
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            /// The stored and shown word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

stored_words!(PrizeKind { Physical = "physical", Virtual = "virtual" });
stored_words!(PresenceRule { Ignore = "ignore", Pause = "pause", Forfeit = "forfeit" });
stored_words!(ShardBy { LowBits = "lowBits", Mixed = "mixed" });

/// The secret from which every score of an activity follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

// Who knows the seed knows the winners, so it must not slip into a log.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(secret)")
    }
}
