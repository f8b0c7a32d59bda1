//! The service's own selection, from the shards in Redis, in the draws that the statistics judge.

use luckybag::{activity, candidate::SelectionPath, infra::mysql::sql};
use sea_orm::ConnectionTrait;

use super::draws::{ALL, CROWD, Draw};
use crate::{
    harness::World,
    selection::{Rig, eligible, end},
};

/// Those who take part here: every draw fills the pool anew for each of them.
const ENTRANTS: usize = 100;
const SEATS: u32 = 20;
/// How many of all draws are repeated in each test.
const REPEATED: usize = 100;

impl Rig<'_> {
    /// The same rows under another seed, and the pool filled with what follows from it.
    async fn reseed(&mut self, seed: [u8; 32]) {
        let values = [seed.to_vec().into(), self.id.into()];
        let text = "UPDATE activity SET seed = ? WHERE id = ?";
        self.world.db.execute_raw(sql(text, values)).await.unwrap();
        self.refresh().await;
        self.candidates.rebuild(self.id).await.unwrap();
    }

    async fn shard_by(&mut self, word: &str) {
        let text = format!(
            "UPDATE activity SET shard_by = '{word}' WHERE id = {}",
            self.id
        );
        self.world.execute(&text).await;
        self.refresh().await;
        self.count().await;
    }

    async fn refresh(&mut self) {
        let found = activity::find(&self.world.db, self.id).await;
        self.activity = found.unwrap().expect("the activity");
    }
}

async fn the_pool_gives_the_winners_of_the_rule(shard_by: &str, draws: &[Draw]) {
    let world = World::new().await;
    let entrants = eligible(CROWD.users[..ENTRANTS].iter().copied());
    let mut rig = Box::pin(Rig::of(&world, draws[0].seed, entrants)).await;
    rig.shard_by(shard_by).await;

    for (number, draw) in draws.iter().enumerate() {
        rig.reseed(draw.seed).await;
        let selected = rig.select(SEATS).await;

        assert_eq!(selected.path, SelectionPath::Fast, "draw {number}");
        let ruled = draw.winners(ENTRANTS, SEATS as usize);
        assert_eq!(selected.ranked, ruled, "draw {number}");
    }
    end(world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_sharded_by_low_bits_gives_the_winners_of_the_rule() {
    Box::pin(the_pool_gives_the_winners_of_the_rule(
        "lowBits",
        &ALL[..REPEATED],
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_with_mixed_shards_gives_the_winners_of_the_rule() {
    let draws = &ALL[REPEATED..][..REPEATED];
    Box::pin(the_pool_gives_the_winners_of_the_rule("mixed", draws)).await;
}
