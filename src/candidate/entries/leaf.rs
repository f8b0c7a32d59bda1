//! One entry and its leaf. Pure.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::tree::Hash;
use crate::{
    activity::LeafKey,
    candidate::{Eligibility, RejectReason, Rules, UserRows, Verdict},
    kernel::{ActivityId, UserId},
};

const LEAF: u8 = 0;
const DOMAIN: &[u8] = b"luckybag/entry/v1";

/// What a participation was at the freeze. Late ones are no entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryState {
    Joined(Eligibility),
    Rejected(RejectReason),
}

impl EntryState {
    /// What every winner was.
    pub const ELIGIBLE: Self = Self::Joined(Eligibility::Eligible);

    const ALL: [Self; 9] = [
        Self::ELIGIBLE,
        Self::Joined(Eligibility::Absent),
        Self::Joined(Eligibility::TasksUnfinished),
        Self::Joined(Eligibility::AbsentAndTasksUnfinished),
        Self::Joined(Eligibility::Forfeited { is_finished: true }),
        Self::Rejected(RejectReason::Blocked),
        Self::Rejected(RejectReason::Cooldown),
        Self::Rejected(RejectReason::DuplicateDevice),
        Self::Rejected(RejectReason::Invalid),
    ];

    /// `None` for whoever is no entry.
    pub fn of(rules: &Rules, rows: &UserRows) -> Option<Self> {
        match rows.participation.as_ref()?.verdict {
            Verdict::Joined => rules.eligibility(rows).map(Self::Joined),
            Verdict::Rejected(reason) => Some(Self::Rejected(reason)),
            Verdict::Late(_) => None,
        }
    }

    /// Status, reason and eligibility in words, as a user is shown them.
    pub const fn as_words(self) -> (&'static str, Option<&'static str>, Option<&'static str>) {
        match self {
            Self::Joined(eligibility) => ("joined", None, Some(eligibility.as_str())),
            Self::Rejected(reason) => {
                let (status, reason) = Verdict::Rejected(reason).as_words();
                (status, reason, None)
            }
        }
    }

    /// `None` when the three words do not go together.
    pub fn parse(status: &str, reason: Option<&str>, eligibility: Option<&str>) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_words() == (status, reason, eligibility))
    }

    /// Status, reason and eligibility as a leaf holds them.
    const fn codes(self) -> [u8; 3] {
        match self {
            Self::Joined(eligibility) => [1, 0, eligibility_code(eligibility)],
            Self::Rejected(reason) => [2, reason_code(reason), 0],
        }
    }
}

const fn reason_code(reason: RejectReason) -> u8 {
    match reason {
        RejectReason::Blocked => 1,
        RejectReason::Cooldown => 2,
        RejectReason::DuplicateDevice => 3,
        RejectReason::Invalid => 4,
    }
}

const fn eligibility_code(eligibility: Eligibility) -> u8 {
    match eligibility {
        Eligibility::Eligible => 1,
        Eligibility::Absent => 2,
        Eligibility::TasksUnfinished => 3,
        Eligibility::AbsentAndTasksUnfinished => 4,
        Eligibility::Forfeited { .. } => 5,
    }
}

/// What keeps others from finding a user's leaf by trying out user ids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub [u8; 32]);

impl Salt {
    /// HMAC-SHA-256(leaf key, user id as u64 big-endian).
    pub fn of(key: &LeafKey, user_id: UserId) -> Self {
        // HMAC fills a key shorter than a block up with zeros.
        let mut padded = [0; 64];
        padded[..32].copy_from_slice(&key.bytes());
        let mut mac = Hmac::<Sha256>::new(&padded.into());
        mac.update(&user_id.0.to_be_bytes());
        Self(mac.finalize().into_bytes().into())
    }
}

// It is for its user, not for a log.
impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(secret)")
    }
}

/// SHA-256(0x00 ‖ "luckybag/entry/v1" ‖ activity id ‖ salt ‖ user id ‖ status ‖ reason ‖
/// eligibility), ids as u64 big-endian, the last three a byte each.
pub fn leaf_hash(activity_id: ActivityId, salt: &Salt, user_id: UserId, state: EntryState) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update([LEAF]);
    hasher.update(DOMAIN);
    hasher.update(activity_id.0.to_be_bytes());
    hasher.update(salt.0);
    hasher.update(user_id.0.to_be_bytes());
    hasher.update(state.codes());
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_words_of_every_state_read_back_and_its_codes_are_its_own() {
        let mut codes = BTreeSet::new();
        for state in EntryState::ALL {
            let (status, reason, eligibility) = state.as_words();
            assert_eq!(EntryState::parse(status, reason, eligibility), Some(state));
            assert!(codes.insert(state.codes()), "{state:?}");
        }
        for (status, reason, eligibility) in [
            ("joined", None, None),
            ("joined", Some("blocked"), None),
            ("joined", Some("blocked"), Some("eligible")),
            ("rejected", None, Some("eligible")),
            ("rejected", None, None),
            ("rejected", Some("closed"), None),
            ("late", Some("closed"), None),
        ] {
            let parsed = EntryState::parse(status, reason, eligibility);
            assert_eq!(parsed, None, "{status} {reason:?} {eligibility:?}");
        }
    }

    #[test]
    fn a_leaf_changes_with_each_of_its_values_and_is_the_documented_one() {
        let key = LeafKey::new(std::array::from_fn(|i| u8::try_from(i).unwrap()));
        let salt = Salt::of(&key, UserId(12_345));
        let leaf = leaf_hash(ActivityId(7), &salt, UserId(12_345), EntryState::ELIGIBLE);

        assert_eq!(
            (hex::encode(salt.0), hex::encode(leaf)),
            (
                "91ba8f5ca5a40488ebee84a3c7b595e7f93d1f57ab0cd851230269c097bd3dc1".to_owned(),
                "ccaa337f5f8c005f50d15098ea3949e12154954f14ee8343138530bc73f34e96".to_owned(),
            )
        );
        let other_salt = Salt::of(&key, UserId(12_346));
        let rejected = EntryState::Rejected(RejectReason::Blocked);
        for other in [
            leaf_hash(ActivityId(8), &salt, UserId(12_345), EntryState::ELIGIBLE),
            leaf_hash(
                ActivityId(7),
                &other_salt,
                UserId(12_345),
                EntryState::ELIGIBLE,
            ),
            leaf_hash(ActivityId(7), &salt, UserId(12_346), EntryState::ELIGIBLE),
            leaf_hash(ActivityId(7), &salt, UserId(12_345), rejected),
        ] {
            assert_ne!(other, leaf);
        }
    }
}
