//! The two documents: a result with everything that proves it, and one user's entry. Written by the
//! service, read by the verifier, which takes exactly these fields.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    candidate::entries::{Hash, OpenEntry},
    http::openapi,
    kernel::{ActivityId, PrizeId, UserId},
};

pub(super) const PROOF_FORMAT: &str = "luckybag/proof/v1";
pub(super) const ENTRY_FORMAT: &str = "luckybag/entry/v1";

/// `GET …/proof`. It holds nothing that cannot be checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Proof {
    pub(super) format: String,
    #[schema(value_type = ActivityId)]
    pub(super) activity_id: Id,
    #[schema(value_type = openapi::Hex32)]
    pub(super) commitment: Hex32,
    #[schema(value_type = openapi::Hex32)]
    pub(super) seed: Hex32,
    /// The canonical JSON text that was committed to.
    pub(super) rules: String,
    #[schema(value_type = openapi::Hex32)]
    pub(super) rules_hash: Hex32,
    pub(super) score_rule_version: u32,
    pub(super) entries_count: u64,
    /// The hash of the Merkle tree over the entries.
    #[schema(value_type = openapi::Hex32)]
    pub(super) entries_tree: Hex32,
    /// Binds the tree to the activity and to the number of entries.
    #[schema(value_type = openapi::Hex32)]
    pub(super) entries_root: Hex32,
    /// 1 for the draw, one more for each redraw.
    pub(super) round: u32,
    /// The lowest score that won in round 1; `None` when nobody did.
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Option<f64>, required)]
    pub(super) cutoff_score: Option<Score>,
    /// Every win of every round, by seat and round.
    pub(super) winners: Vec<Winner>,
    /// Rounds 2 and up.
    pub(super) redraws: Vec<Redraw>,
}

/// One win, whether it still holds or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ProvenWin)]
pub(super) struct Winner {
    pub(super) seat: u32,
    pub(super) round: u32,
    #[schema(value_type = UserId)]
    pub(super) user_id: Id,
    #[schema(value_type = f64)]
    pub(super) score: Score,
    pub(super) prize_rank: u32,
    #[schema(value_type = PrizeId)]
    pub(super) prize_id: Id,
    #[serde(deserialize_with = "given")]
    #[schema(required)]
    pub(super) revoked_in_round: Option<u32>,
    pub(super) entry: Opening,
}

/// Where a winner's entry stands, and how its leaf is made and leads to the tree's hash. What a
/// winner's entry says needs no telling: joined and eligible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = EntryOpening)]
pub(super) struct Opening {
    pub(super) index: u64,
    #[schema(value_type = openapi::Hex32)]
    pub(super) salt: Hex32,
    #[schema(value_type = Vec<openapi::Hex32>)]
    pub(super) path: Vec<Hex32>,
}

/// A later round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ProvenRedraw)]
pub(super) struct Redraw {
    pub(super) round: u32,
    /// Whose wins it took back, in ascending order.
    pub(super) seats: Vec<u32>,
}

/// `GET …/proof/me`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EntryProof {
    pub(super) format: String,
    #[schema(value_type = ActivityId)]
    pub(super) activity_id: Id,
    #[schema(value_type = openapi::Hex32)]
    pub(super) entries_root: Hex32,
    pub(super) entries_count: u64,
    pub(super) entry: Entry,
    #[schema(value_type = f64)]
    pub(super) score: Score,
    /// The seat of whoever won, also when the win was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) rank: Option<u32>,
}

/// What a user's entry says, and how it leads to the root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Entry {
    #[schema(value_type = UserId)]
    pub(super) user_id: Id,
    pub(super) index: u64,
    #[schema(value_type = openapi::Hex32)]
    pub(super) salt: Hex32,
    pub(super) status: String,
    #[serde(deserialize_with = "given")]
    #[schema(required)]
    pub(super) reason: Option<String>,
    #[serde(deserialize_with = "given")]
    #[schema(required)]
    pub(super) eligibility: Option<String>,
    #[schema(value_type = Vec<openapi::Hex32>)]
    pub(super) path: Vec<Hex32>,
}

/// `null` must be said.
fn given<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

impl From<OpenEntry> for Opening {
    fn from(entry: OpenEntry) -> Self {
        Self {
            index: entry.index,
            salt: Hex32(entry.salt.0),
            path: entry.path.into_iter().map(Hex32).collect(),
        }
    }
}

/// The hashes of a path.
pub(super) fn hashes(path: &[Hex32]) -> Vec<Hash> {
    path.iter().map(|hash| hash.0).collect()
}

/// 32 bytes as 64 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hex32(pub(super) [u8; 32]);

impl Serialize for Hex32 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Hex32 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; 32];
        let is_lower = !text.bytes().any(|digit| digit.is_ascii_uppercase());
        if is_lower && hex::decode_to_slice(&text, &mut bytes).is_ok() {
            Ok(Self(bytes))
        } else {
            Err(D::Error::custom("this is not 64 lower-case hex digits"))
        }
    }
}

/// An id as a decimal string, and in no other form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(pub(super) u64);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let id: crate::kernel::UserId = text.parse().map_err(D::Error::custom)?;
        Ok(Self(id.0))
    }
}

/// A score, read and written to the last bit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Score(pub(super) f64);

impl Serialize for Score {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde_json by itself may lose the last bit.
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let score = text.get().parse().ok();
        score
            .filter(|score| (0.0..1.0).contains(score))
            .map(Self)
            .ok_or_else(|| D::Error::custom("this is not a number from 0 up to 1"))
    }
}
