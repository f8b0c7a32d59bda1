//! What MySQL says about a draw, and what it has to say by the rule.

use std::time::Duration;

use fred::interfaces::{KeysInterface, LuaInterface};
use luckybag::{
    activity::Seed,
    candidate::Standing,
    infra::mysql::sql,
    kernel::{ActivityId, UserId},
};
use sea_orm::{ConnectionTrait, DatabaseTransaction, FromQueryResult};

use super::{Bag, World, eventually};

/// A win as stored.
#[derive(Clone, Debug, PartialEq, FromQueryResult)]
pub(crate) struct Win {
    pub(crate) id: u64,
    pub(crate) user_id: u64,
    pub(crate) seat: u32,
    pub(crate) round: u32,
    pub(crate) prize_id: u64,
    pub(crate) prize_rank: u32,
    pub(crate) score: f64,
    pub(crate) status: String,
}

impl World {
    /// The activity's secret.
    pub(crate) async fn seed(&self, id: ActivityId) -> Seed {
        let row = self
            .db
            .query_one_raw(sql("SELECT seed FROM activity WHERE id = ?", [id.into()]))
            .await
            .expect("the activity is read")
            .expect("the activity exists");
        let bytes: Vec<u8> = row.try_get("", "seed").expect("it was opened");
        Seed::new(bytes.try_into().expect("32 bytes"))
    }

    /// Everybody who joined, best first; all of them are eligible where an activity asks for
    /// nothing.
    pub(crate) async fn entrants(&self, id: ActivityId) -> Vec<Standing> {
        let rows = self
            .db
            .query_all_raw(sql(
                "SELECT user_id FROM participation WHERE activity_id = ? AND status = 'joined'",
                [id.into()],
            ))
            .await
            .expect("the participations are read");
        let seed = self.seed(id).await;
        let mut entrants: Vec<Standing> = rows
            .iter()
            .map(|row| row.try_get("", "user_id").expect("a user id"))
            .map(|user_id| Standing::of(&seed, UserId(user_id)))
            .collect();
        entrants.sort_by(Standing::rank);
        entrants
    }

    /// All wins of an activity, by seat.
    pub(crate) async fn wins(&self, id: ActivityId) -> Vec<Win> {
        Win::find_by_statement(sql(
            "SELECT id, user_id, seat, round, prize_id, prize_rank, score, status \
             FROM win_record WHERE activity_id = ? ORDER BY seat, round",
            [id.into()],
        ))
        .all(&self.db)
        .await
        .expect("the wins are read")
    }

    /// Makes every open activity due in a moment: joins that were accepted are still before it.
    /// Its delayed message is far away, so it takes the sweeper to draw it.
    pub(crate) async fn draw_soon(&self, bags: &[Bag]) {
        self.execute(
            "UPDATE activity SET draw_at = NOW(3) + INTERVAL 300000 MICROSECOND \
             WHERE status = 'open'",
        )
        .await;
        for bag in bags {
            let copy = self.keys().activity(bag.id);
            let _: i64 = self.redis.unlink(copy).await.expect("forgotten");
        }
    }

    /// The same for this one alone.
    pub(crate) async fn draw_alone_soon(&self, bag: &Bag) {
        self.execute(&format!(
            "UPDATE activity SET draw_at = NOW(3) + INTERVAL 300000 MICROSECOND WHERE id = {}",
            bag.id
        ))
        .await;
        let copy = self.keys().activity(bag.id);
        let _: i64 = self.redis.unlink(copy).await.expect("forgotten");
    }

    /// Waits until these activities are drawn.
    pub(crate) async fn all_drawn(&self, bags: &[Bag]) {
        let ids: Vec<String> = bags.iter().map(|bag| bag.id.to_string()).collect();
        let undrawn = format!(
            "SELECT COUNT(*) FROM activity WHERE status <> 'drawn' AND id IN ({})",
            ids.join(", ")
        );
        eventually("all to be drawn", async || {
            match self.number(&undrawn).await {
                0 => Ok(()),
                left => Err(format!("{left} left")),
            }
        })
        .await;
    }

    /// Waits until the proof of a drawn activity is published.
    pub(crate) async fn published(&self, id: ActivityId) {
        const PENDING: &str =
            "SELECT COUNT(*) FROM activity WHERE id = ID AND proof_published_at IS NULL";
        eventually("the proof", async || {
            match self.number_of(id, PENDING).await {
                0 => Ok(()),
                pending => Err(pending),
            }
        })
        .await;
    }

    /// Asserts that an activity was drawn once and in time: the one set of winners that follows
    /// from its seed, one seat each in the order of scores, one audit row, stock settled.
    pub(crate) async fn assert_drawn_once(&self, bag: &Bag) {
        const SETTLED: &str = "SELECT COUNT(*) FROM activity WHERE id = ID AND status = 'drawn' \
             AND round = 1 AND drawn_at >= draw_at AND lease_until IS NULL";
        const SEATS: &str = "SELECT CAST(winner_count AS SIGNED) FROM activity WHERE id = ID";
        const AUDITED: &str =
            "SELECT COUNT(*) FROM audit WHERE activity_id = ID AND action = 'activity.draw'";
        const UNSETTLED: &str = "SELECT COUNT(*) FROM prize p \
             JOIN activity_prize a ON a.prize_id = p.id \
             WHERE a.activity_id = ID AND p.is_private AND (p.reserved <> 0 OR p.issued <> \
             (SELECT COUNT(*) FROM win_record w WHERE w.activity_id = ID AND w.prize_id = p.id))";

        let id = bag.id;
        assert_eq!(self.number_of(id, SETTLED).await, 1, "{id} is not settled");

        let wins = self.wins(id).await;
        let seats = usize::try_from(self.number_of(id, SEATS).await).expect("a count");
        let expected: Vec<_> = self.entrants(id).await.into_iter().take(seats).collect();
        let won: Vec<_> = wins.iter().map(|win| (win.user_id, win.score)).collect();
        let best: Vec<_> = expected
            .iter()
            .map(|best| (best.user_id.0, best.score.value()))
            .collect();
        assert_eq!(won, best, "{id} has other winners than its seed says");
        for (number, win) in (1..).zip(&wins) {
            assert_eq!((win.seat, win.round), (number, 1), "{win:?}");
            assert_eq!(win.status, "won", "{win:?}");
        }

        assert_eq!(self.number_of(id, AUDITED).await, 1, "{id}: audit rows");
        let unsettled = self.number_of(id, UNSETTLED).await;
        assert_eq!(unsettled, 0, "the stock of {id} does not add up");
    }

    /// The number that `query` gives for the activity that it calls `ID`.
    pub(crate) async fn number_of(&self, id: ActivityId, query: &str) -> i64 {
        self.number(&query.replace("ID", &id.to_string())).await
    }

    /// Waits until everything that was committed has been told and shown.
    pub(crate) async fn nothing_owed(&self) {
        const OWED: &str = "SELECT (SELECT COUNT(*) FROM outbox) \
             + (SELECT COUNT(*) FROM notify_progress WHERE is_done = FALSE)";
        eventually("nothing to be owed", async || {
            match self.number(OWED).await {
                0 => Ok(()),
                owed => Err(format!("{owed} owed")),
            }
        })
        .await;
    }

    /// Takes everything of this world out of Redis, and the scripts that Redis knows.
    pub(crate) async fn forget_redis(&self) {
        let client = self.redis.next();
        let mut cursor = "0".to_owned();
        let pattern = format!("{}:*", self.namespace);
        loop {
            let page: (String, Vec<String>) = client
                .scan_page(cursor, pattern.as_str(), Some(1_000), None)
                .await
                .expect("a page of keys");
            if !page.1.is_empty() {
                let _: i64 = client.unlink(page.1).await.expect("the keys are removed");
            }
            cursor = page.0;
            if cursor == "0" {
                break;
            }
        }
        client
            .script_flush(false)
            .await
            .expect("the scripts are forgotten");
    }
}

/// The server ends a transaction in which it hears nothing for long; never ends itself.
pub(crate) async fn keep_alive(held: &DatabaseTransaction) {
    loop {
        held.execute_unprepared("SELECT 1").await.expect("held");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
