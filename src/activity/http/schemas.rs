//! Schemas of bodies that are read field by field, and of text that is passed on as it is.
#![expect(dead_code, reason = "they describe what other types read and write")]

use std::borrow::Cow;

use serde::Deserialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::super::{ActivityForm, LibraryPrizeForm, PresenceRule, PrizeKind, ShardBy, Task};
use crate::{
    http::openapi::{AnyId, Moment},
    kernel::{ActivityId, PrizeId, RoomId},
};

/// An activity to be created. Either `countdownSeconds` or `drawAt` is there.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewActivity {
    #[schema(value_type = AnyId)]
    room_id: String,
    #[schema(min_length = 1, max_length = 100)]
    title: String,
    #[schema(min_length = 1, max_length = 2000)]
    conditions: Option<String>,
    /// Best first; at most 10,000 winners in all.
    #[schema(min_items = 1, max_items = 100)]
    prizes: Vec<NewPrize>,
    #[schema(max_items = 20)]
    tasks: Option<Vec<Task>>,
    /// What leaving the room does to an entry; `ignore` unless said.
    presence_rule: Option<PresenceRule>,
    /// `false` unless said.
    one_entry_per_device: Option<bool>,
    /// Which bits of a user id spread participants; `lowBits` unless said.
    shard_by: Option<ShardBy>,
    /// For how long a winner of another activity may not join; a setting says what it is otherwise.
    #[schema(minimum = 0, maximum = 2_592_000)]
    cooldown_seconds: Option<u64>,
    /// From the opening to the draw.
    #[schema(minimum = 5, maximum = 2_592_000)]
    countdown_seconds: Option<u64>,
    /// Opens it by itself, once it is ready; up to a year ahead.
    #[schema(value_type = Option<Moment>)]
    start_at: Option<String>,
    /// In place of a countdown: 5 s to 30 days ahead.
    #[schema(value_type = Option<Moment>)]
    draw_at: Option<String>,
}

/// The changes of a draft; what is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ActivityChanges {
    #[schema(min_length = 1, max_length = 100)]
    title: Option<String>,
    /// `null` removes them.
    #[schema(min_length = 1, max_length = 2000)]
    conditions: Option<String>,
    /// In place of all that it has; best first.
    #[schema(min_items = 1, max_items = 100)]
    prizes: Option<Vec<NewPrize>>,
    /// In place of all that it has.
    #[schema(max_items = 20)]
    tasks: Option<Vec<Task>>,
    presence_rule: Option<PresenceRule>,
    one_entry_per_device: Option<bool>,
    shard_by: Option<ShardBy>,
    #[schema(minimum = 0, maximum = 2_592_000)]
    cooldown_seconds: Option<u64>,
    /// In place of `drawAt`.
    #[schema(minimum = 5, maximum = 2_592_000)]
    countdown_seconds: Option<u64>,
    /// `null` removes it.
    #[schema(value_type = Option<Moment>)]
    start_at: Option<String>,
    /// In place of the countdown.
    #[schema(value_type = Option<Moment>)]
    draw_at: Option<String>,
}

/// A prize of the library (`prizeId`), or a private one (`name`, `kind` and perhaps `image`).
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewPrize {
    #[schema(value_type = Option<AnyId>)]
    prize_id: Option<String>,
    #[schema(min_length = 1, max_length = 100)]
    name: Option<String>,
    kind: Option<PrizeKind>,
    #[schema(min_length = 1, max_length = 500)]
    image: Option<String>,
    /// So many win one.
    #[schema(minimum = 1, maximum = 1000)]
    quantity: u32,
}

/// A prize for the library.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewLibraryPrize {
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    kind: PrizeKind,
    #[schema(min_length = 1, max_length = 500)]
    image: Option<String>,
    /// What one piece is worth.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    value_cents: Option<u64>,
    /// How many there are in all; `null` is without end.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    stock_total: Option<u64>,
}

/// The changes of a prize of the library; what is left out stays, and `null` removes a value.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LibraryPrizeChanges {
    #[schema(min_length = 1, max_length = 100)]
    name: Option<String>,
    kind: Option<PrizeKind>,
    #[schema(min_length = 1, max_length = 500)]
    image: Option<String>,
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    value_cents: Option<u64>,
    /// Not less than what is reserved and issued.
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    stock_total: Option<u64>,
}

/// What the commitment binds, as RFC 8785 canonical JSON: take the bytes as they come.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(super) struct Rules {
    activity_id: ActivityId,
    cooldown_seconds: u64,
    #[schema(value_type = Moment)]
    draw_at: String,
    one_entry_per_device: bool,
    presence_rule: PresenceRule,
    prizes: Vec<RulesPrize>,
    room_id: RoomId,
    score_rule_version: u32,
    shard_by: ShardBy,
    tasks: Vec<Task>,
    winner_count: u32,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct RulesPrize {
    kind: PrizeKind,
    name: String,
    prize_id: PrizeId,
    quantity: u32,
    rank: u32,
}

/// A form has the schema of the changes; what creates a thing names its own.
macro_rules! described_by {
    ($form:ty, $schema:ty) => {
        impl PartialSchema for $form {
            fn schema() -> RefOr<Schema> {
                <$schema>::schema()
            }
        }

        impl ToSchema for $form {
            fn name() -> Cow<'static, str> {
                <$schema>::name()
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                <$schema>::schemas(schemas);
            }
        }
    };
}

described_by!(ActivityForm, ActivityChanges);
described_by!(LibraryPrizeForm, LibraryPrizeChanges);
