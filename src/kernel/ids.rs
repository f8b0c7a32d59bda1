//! Typed ids: 1 to 2^63−1, decimal without leading zeros, strings in JSON.

use std::{fmt, str::FromStr};

use rand::RngExt;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

use super::Timestamp;

/// The largest id: 2^63−1, so that an id also fits a signed 64-bit integer.
pub const MAX_ID: u64 = i64::MAX as u64;

/// Text or number that is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id is a whole number from 1 to 9223372036854775807 without leading zeros")]
pub struct InvalidId;

fn parse_id(text: &str) -> Result<u64, InvalidId> {
    let is_canonical = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_canonical {
        return Err(InvalidId);
    }
    text.parse().map_err(|_| InvalidId).and_then(check_id)
}

fn check_id(id: u64) -> Result<u64, InvalidId> {
    if (1..=MAX_ID).contains(&id) {
        Ok(id)
    } else {
        Err(InvalidId)
    }
}

/// Accepts an id as a JSON string or integer: JavaScript cannot hold all of them as numbers.
struct IdVisitor;

impl de::Visitor<'_> for IdVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id from 1 to 9223372036854775807, as a string or an integer")
    }

    fn visit_u64<E: de::Error>(self, id: u64) -> Result<u64, E> {
        check_id(id).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, id: i64) -> Result<u64, E> {
        u64::try_from(id)
            .map_err(|_| InvalidId)
            .and_then(check_id)
            .map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, id: &str) -> Result<u64, E> {
        parse_id(id).map_err(E::custom)
    }
}

/// How an id is written in JSON.
fn id_schema(description: &str) -> RefOr<Schema> {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^[1-9][0-9]{0,18}$"))
        .description(Some(description.trim()))
        .examples(["7265187412320780288"]);
    Schema::Object(schema.build()).into()
}

macro_rules! id {
    (#[doc = $doc:literal] $name:ident) => {
        #[doc = $doc]
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, sea_orm::DeriveValueType,
        )]
        pub struct $name(pub u64);

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                id_schema($doc)
            }
        }

        impl ToSchema for $name {}

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse_id(text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(IdVisitor).map(Self)
            }
        }
    };
}

id!(/// One giveaway in one live room.
    ActivityId);
id!(/// A person: the viewer, host or operator a token speaks for.
    UserId);
id!(/// A live room.
    RoomId);
id!(/// A prize of the library, or a private one of a single activity.
    PrizeId);
id!(/// The durable record that a user won a prize.
    WinRecordId);

/// Spreads an id over all 64 bits: the finalizer of `SplitMix64` (Steele, Lea, Flood 2014).
///
/// Ids of many generators have low bits that hardly vary, so partitions are taken from this.
pub const fn mix(id: u64) -> u64 {
    let mut z = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An id that sorts by time: milliseconds since 2024 above 22 low bits of the caller's choice.
///
/// Unique as long as the low bits of one millisecond are; fits 2^63 until the year 2093.
pub fn time_ordered_id(now: Timestamp, low_bits: u32) -> u64 {
    const LOW_BITS: u32 = 22;
    /// 2024-01-01T00:00:00Z.
    const EPOCH_MS: i64 = 1_704_067_200_000;

    let millis = u64::try_from(now.timestamp_millis() - EPOCH_MS).unwrap_or(0);
    let low_bits = u64::from(low_bits) & ((1 << LOW_BITS) - 1);
    (((millis << LOW_BITS) | low_bits) & MAX_ID).max(1)
}

/// A time-ordered id with random low bits; two of one millisecond may collide, so whoever inserts it
/// tries again on a duplicate key.
pub fn random_id(now: Timestamp) -> u64 {
    time_ordered_id(now, rand::rng().random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_canonical_decimal_up_to_2_63_minus_1() {
        for good in ["1", "7", "9007199254740993", "9223372036854775807"] {
            assert_eq!(
                good.parse::<UserId>().map(|id| id.to_string()),
                Ok(good.to_owned())
            );
        }
        for bad in [
            "",
            "0",
            "007",
            "-1",
            "+1",
            " 1",
            "1.0",
            "1e3",
            "9223372036854775808",
        ] {
            assert_eq!(bad.parse::<UserId>(), Err(InvalidId), "{bad:?}");
        }
    }

    #[test]
    fn an_id_is_read_from_a_string_or_an_integer_and_written_as_a_string() {
        let both: Vec<UserId> =
            serde_json::from_str(r#"["9007199254740993", 9007199254740992]"#).unwrap();

        assert_eq!(
            both,
            [UserId(9_007_199_254_740_993), UserId(9_007_199_254_740_992)]
        );
        assert_eq!(
            serde_json::to_string(&both[0]).unwrap(),
            r#""9007199254740993""#
        );
        for bad in [
            "0",
            "-1",
            "1.5",
            "9223372036854775808",
            "18446744073709551616",
            "\"007\"",
            "null",
            "true",
        ] {
            assert!(serde_json::from_str::<UserId>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn mix_is_the_first_output_of_splitmix64_with_the_id_as_seed() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn a_later_id_is_greater_whatever_its_low_bits() {
        let at = |ms: i64| Timestamp::from_timestamp_millis(1_900_000_000_000 + ms).unwrap();

        assert!(time_ordered_id(at(0), u32::MAX) < time_ordered_id(at(1), 0));
        assert!(time_ordered_id(at(0), 1) < time_ordered_id(at(0), 2));
        assert_eq!(time_ordered_id(Timestamp::UNIX_EPOCH, 0), 1);
    }
}
