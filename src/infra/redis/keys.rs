//! Builds every Redis key the service uses.

use std::fmt;

use uuid::Uuid;

use crate::kernel::{ActivityId, PrizeId, RoomId, UserId};

/// One of the 16 parts of an activity's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u8);

impl Shard {
    /// How many shards a pool has.
    pub const COUNT: u8 = 16;

    /// The shard of a number: its low four bits.
    pub const fn of(number: u64) -> Self {
        Self((number & 15) as u8)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// 0 to 15.
    pub const fn index(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Builds every Redis key the service uses.
///
/// The namespace keeps environments, and parallel tests, apart. Where a key carries a hash tag, the
/// tag is the whole name of another key: Redis Cluster then puts the two into one slot, and one
/// script may touch both.
#[derive(Clone, Debug)]
pub struct Keys {
    namespace: String,
}

impl Keys {
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
        }
    }

    /// String, JSON: an activity's public detail with its version; `null` for an unknown id.
    /// Lives 3 days once final, to drawAt + 2 s before that; `null` 60 s.
    pub fn activity(&self, id: ActivityId) -> String {
        format!("{}:activity:{id}", self.namespace)
    }

    /// Hash prize id → prize JSON. Lives as long as the detail.
    pub fn prize(&self, id: ActivityId) -> String {
        format!("{}:prize:{id}", self.namespace)
    }

    /// Hash activity id → 1 while open, 0 after. Lives until the latest drawAt + 7 days.
    pub fn room(&self, id: RoomId) -> String {
        format!("{}:room:{id}", self.namespace)
    }

    /// String `1`: a join was accepted and not yet processed. Lives 1800 s.
    pub fn join_request(&self, id: ActivityId, user: UserId) -> String {
        format!("{}:join:request:{id}:{user}", self.namespace)
    }

    /// String `1`: a join was processed. Lives 1800 s.
    pub fn join_done(&self, id: ActivityId, user: UserId) -> String {
        format!("{}:join:done:{id}:{user}", self.namespace)
    }

    /// String, JSON: what a user's participation is. Lives 1 day, or to drawAt + 1 day if later.
    pub fn user_state(&self, id: ActivityId, user: UserId) -> String {
        format!("{}:user:state:{id}:{user}", self.namespace)
    }

    /// Set of user ids that passed the admission filters: the participants that are shown. Lives to
    /// the draw + 7 days.
    pub fn partake(&self, id: ActivityId, shard: Shard) -> String {
        format!("{}:partake:{id}:{shard}", self.namespace)
    }

    /// Sorted set user id → score: one shard of the pool. Lives to the draw + 7 days.
    pub fn candidate(&self, id: ActivityId, shard: Shard) -> String {
        format!("{}:candidate:{id}:{shard}", self.namespace)
    }

    /// Hash user id → revision its score was computed from, and `sum`, the sum of them; in the slot
    /// of its candidate shard and with its life.
    pub fn revision(&self, id: ActivityId, shard: Shard) -> String {
        format!("{}:rev:{{{}}}", self.namespace, self.candidate(id, shard))
    }

    /// String: who draws. For observers, decides nothing. Lives 600 s.
    pub fn draw_lock(&self, id: ActivityId) -> String {
        format!("{}:draw:lock:{id}", self.namespace)
    }

    /// String, a win record id: the user is in the cool-down. For readers, decides nothing. Lives
    /// as long as the cool-down.
    pub fn win_period(&self, user: UserId) -> String {
        format!("{}:win:period:{user}", self.namespace)
    }

    /// Hash win record id → winner JSON, and `-` = {round, rows}, with `revoked`, the wins that were taken
    /// back, once there are some. Lives 2 days.
    pub fn win_list(&self, id: ActivityId) -> String {
        format!("{}:win:list:{id}", self.namespace)
    }

    /// The same as [`Keys::win_list`] for one prize, without `revoked`.
    pub fn win_list_of_prize(&self, id: ActivityId, prize: PrizeId) -> String {
        format!("{}:win:list:{id}:{prize}", self.namespace)
    }

    /// Hash: a list that is being built beside `list_key`, in its slot, by the one who calls itself
    /// `builder`. Lives 60 s.
    pub fn under_construction(&self, list_key: &str, builder: Uuid) -> String {
        format!("{}:tmp:{{{list_key}}}:{builder}", self.namespace)
    }

    /// String, JSON: a user's win record. Lives 2 days.
    pub fn win_user(&self, id: ActivityId, user: UserId) -> String {
        format!("{}:win:user:{id}:{user}", self.namespace)
    }

    /// String: one process is refilling the cache entry `key`. Lives 3 s; 10 s for a pool, which its
    /// first shard stands for.
    pub fn mutex(&self, key: &str) -> String {
        format!("{}:mutex:{key}", self.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_names_that_downstream_systems_read() {
        let keys = Keys::new("lb");
        let (id, user, shard) = (ActivityId(12), UserId(23), Shard::of(23));

        let all = [
            keys.activity(id),
            keys.prize(id),
            keys.room(RoomId(8)),
            keys.join_request(id, user),
            keys.join_done(id, user),
            keys.user_state(id, user),
            keys.partake(id, shard),
            keys.candidate(id, shard),
            keys.revision(id, shard),
            keys.draw_lock(id),
            keys.win_period(user),
            keys.win_list(id),
            keys.win_list_of_prize(id, PrizeId(4)),
            keys.under_construction(&keys.win_list(id), Uuid::nil()),
            keys.win_user(id, user),
            keys.mutex("lb:activity:12"),
        ];

        assert_eq!(
            all,
            [
                "lb:activity:12",
                "lb:prize:12",
                "lb:room:8",
                "lb:join:request:12:23",
                "lb:join:done:12:23",
                "lb:user:state:12:23",
                "lb:partake:12:7",
                "lb:candidate:12:7",
                "lb:rev:{lb:candidate:12:7}",
                "lb:draw:lock:12",
                "lb:win:period:23",
                "lb:win:list:12",
                "lb:win:list:12:4",
                "lb:tmp:{lb:win:list:12}:00000000-0000-0000-0000-000000000000",
                "lb:win:user:12:23",
                "lb:mutex:lb:activity:12",
            ]
        );
    }

    #[test]
    fn two_builders_of_a_list_share_no_key_and_are_both_in_its_slot() {
        let keys = Keys::new("lb");
        let list = keys.win_list(ActivityId(12));
        let [one, other] = [1, 2].map(|name| keys.under_construction(&list, Uuid::from_u128(name)));

        assert_ne!(one, other);
        let slot = |key: &str| fred::util::redis_keyslot(key.as_bytes());
        assert_eq!([slot(&one), slot(&other)], [slot(&list); 2]);
    }
}
