//! The pool in Redis never decides more than MySQL says: whatever state it is in, the selection is
//! the one that follows from the rows.

use std::{collections::BTreeMap, sync::Arc};

use chrono::TimeDelta;
use fred::interfaces::{HashesInterface, KeysInterface, SortedSetsInterface};
use luckybag::{
    activity::{self, Activity, Seed},
    candidate::{CandidateDeps, CandidateService, Selection, SelectionPath, Standing},
    infra::{
        broker::{Broker, BrokerOptions},
        mysql::{DatabaseClock, placeholders, sql},
        redis::Shard,
    },
    kernel::{ActivityId, Clock, SystemClock, Timestamp, UserId, truncate_to_millis},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use sea_orm::{ConnectionTrait, Value};
use secrecy::ExposeSecret;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::harness::{BagSpec, CONFIRM_TIMEOUT, World};

const TASK: &str = "follow";
const FLOOR: f64 = 0.9;

/// One participant as the test knows it, apart from anything that the service computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entrant {
    user_id: u64,
    is_absent: bool,
    is_finished: bool,
    place: Place,
    /// Of its row.
    revision: u64,
}

/// Where admission put somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Pooled,
    Trimmed,
}

/// An open activity with its rows, made without the service, and the service over it.
pub(crate) struct Rig<'w> {
    pub(crate) world: &'w World,
    pub(crate) id: ActivityId,
    pub(crate) candidates: CandidateService,
    pub(crate) activity: Activity,
    seed: Seed,
    entrants: Vec<Entrant>,
    accepted_at: Timestamp,
}

impl<'w> Rig<'w> {
    pub(crate) async fn of(world: &'w World, seed: [u8; 32], entrants: Vec<Entrant>) -> Self {
        let id = ActivityId(rand::random::<u32>().into());
        let accepted_at = truncate_to_millis(SystemClock.now()) - TimeDelta::minutes(1);
        insert_activity(world, id, seed, accepted_at).await;
        let activity = activity::find(&world.db, id).await.unwrap().unwrap();
        let rig = Self {
            candidates: service(world).await,
            seed: Seed::new(seed),
            world,
            id,
            activity,
            entrants,
            accepted_at,
        };
        rig.insert_entrants().await;
        rig.count().await;
        rig.candidates.rebuild(rig.id).await.unwrap();
        rig
    }

    async fn insert(&self, table: &str, columns: &str, rows: Vec<Vec<Value>>) {
        for rows in rows.chunks(500) {
            let places = placeholders(rows.len(), rows[0].len());
            let text = format!("INSERT INTO {table} ({columns}) VALUES {places}");
            let values = rows.iter().flatten().cloned();
            self.world.db.execute_raw(sql(text, values)).await.unwrap();
        }
    }

    async fn insert_entrants(&self) {
        let at = self.accepted_at;
        let of = |entrant: &Entrant| -> [Value; 2] { [self.id.into(), entrant.user_id.into()] };
        let participations = self.entrants.iter().map(|entrant| {
            let more: [Value; 6] = [
                "joined".into(),
                (entrant.place == Place::Trimmed).into(),
                at.into(),
                "r".into(),
                entrant.revision.into(),
                at.into(),
            ];
            of(entrant).into_iter().chain(more).collect()
        });
        self.insert(
            "participation",
            "activity_id, user_id, status, is_trimmed, accepted_at, request_id, revision, \
             created_at",
            participations.collect(),
        )
        .await;
        let absent = self.entrants.iter().filter(|entrant| entrant.is_absent);
        let left = absent.map(|entrant| of(entrant).into_iter().chain([at.into()]).collect());
        self.insert(
            "presence",
            "activity_id, user_id, last_leave_at",
            left.collect(),
        )
        .await;
        let finished = self.entrants.iter().filter(|entrant| entrant.is_finished);
        let done = finished.map(|entrant| {
            let more: [Value; 2] = [TASK.into(), at.into()];
            of(entrant).into_iter().chain(more).collect()
        });
        self.insert(
            "task_completion",
            "activity_id, user_id, task_id, completed_at",
            done.collect(),
        )
        .await;
    }

    /// Writes `pool_count` as admission would have left it.
    pub(crate) async fn count(&self) {
        let mut counts: BTreeMap<u8, [u64; 3]> = BTreeMap::new();
        for entrant in &self.entrants {
            let [pooled, trimmed, revisions] = counts
                .entry(self.activity.shard_of(UserId(entrant.user_id)).index())
                .or_default();
            if entrant.place == Place::Trimmed {
                *trimmed += 1;
            } else {
                *pooled += 1;
                *revisions += entrant.revision;
            }
        }
        let old = format!("DELETE FROM pool_count WHERE activity_id = {}", self.id);
        self.world.execute(&old).await;
        let rows = counts.into_iter().map(|(shard, numbers)| {
            let key: [Value; 3] = [self.id.into(), 0_u16.into(), shard.into()];
            key.into_iter().chain(numbers.map(Value::from)).collect()
        });
        self.insert(
            "pool_count",
            "activity_id, stream_partition, shard, pooled, trimmed, revision_sum",
            rows.collect(),
        )
        .await;
    }

    /// Everybody who is eligible, best first: the rule once more, in the plainest words.
    fn reference(&self) -> Vec<Standing> {
        let eligible = self
            .entrants
            .iter()
            .filter(|entrant| !entrant.is_absent && entrant.is_finished);
        let mut ranked: Vec<Standing> = eligible
            .map(|entrant| Standing::of(&self.seed, UserId(entrant.user_id)))
            .collect();
        ranked.sort_by(Standing::rank);
        ranked
    }

    /// Selects, and asserts that the selection is the reference's; answers how it was made.
    async fn assert_right(&self, count: u32, case: &str) -> SelectionPath {
        let selected = self.select(count).await;
        let mut best = self.reference();
        assert_eq!(selected.eligible_count, best.len() as u64, "{case}");
        assert_eq!(selected.joined_count, self.entrants.len() as u64, "{case}");
        best.truncate(count.try_into().unwrap());
        assert_eq!(selected.ranked, best, "{case}");
        selected.path
    }

    pub(crate) async fn select(&self, count: u32) -> Selection {
        let selection = self.candidates.select(&self.activity, count).await;
        selection.expect("a selection")
    }

    fn shard_key(&self, user_id: u64) -> String {
        self.world.keys().candidate(self.id, Shard::of(user_id))
    }

    fn revision_key(&self, user_id: u64) -> String {
        self.world.keys().revision(self.id, Shard::of(user_id))
    }
}

async fn insert_activity(world: &World, id: ActivityId, seed: [u8; 32], at: Timestamp) {
    let text = "INSERT INTO activity (id, kind, room_id, host_id, title, winner_count, tasks, \
         presence_rule, one_entry_per_device, shard_by, cooldown_secs, trim_after, trim_floor, \
         status, start_at, draw_at, seed, commitment, rules, created_at, updated_at) VALUES \
         (?, 'luckyBag', ?, 2, 'a bag', 5, ?, 'pause', FALSE, 'lowBits', 0, 10, ?, 'open', ?, ?, \
         ?, ?, '{}', ?, ?)";
    let tasks = format!(r#"[{{"taskId":"{TASK}","title":"Follow the host"}}]"#);
    let values: [Value; 10] = [
        id.into(),
        id.into(),
        tasks.into(),
        FLOOR.into(),
        at.into(),
        (at + TimeDelta::hours(1)).into(),
        seed.to_vec().into(),
        seed.to_vec().into(),
        at.into(),
        at.into(),
    ];
    world.db.execute_raw(sql(text, values)).await.unwrap();
}

pub(crate) async fn service(world: &World) -> CandidateService {
    let settings = world.settings();
    let clock = Arc::new(DatabaseClock::new(world.db.clone()));
    clock.sample().await.unwrap();
    CandidateService::new(CandidateDeps {
        db: world.db.clone(),
        redis: world.redis.clone(),
        // Selecting sends nothing.
        broker: Broker::new(BrokerOptions {
            url: settings.rabbitmq.url.expose_secret().to_owned(),
            namespace: settings.namespace.clone(),
            partitions: settings.stream.partitions,
            confirm_timeout: CONFIRM_TIMEOUT,
        }),
        clock,
        settings: settings.candidate,
        join: settings.join,
        partitions: settings.stream.partitions,
        mysql_reads: Arc::new(Semaphore::new(8)),
    })
}

pub(crate) async fn end(world: World) {
    world.forget_redis().await;
    world.end().await;
}

/// Entrants that are all eligible.
pub(crate) fn eligible(users: impl Iterator<Item = u64>) -> Vec<Entrant> {
    users
        .map(|user_id| Entrant {
            user_id,
            is_absent: false,
            is_finished: true,
            place: Place::Pooled,
            revision: 1,
        })
        .collect()
}

/// Users over the whole range of ids, about half of them eligible.
fn mixed(rng: &mut StdRng, count: usize) -> Vec<Entrant> {
    let mut users: BTreeMap<u64, Entrant> = BTreeMap::new();
    while users.len() < count {
        let bits = rng.random_range(4..63_u32);
        let user_id = rng.random_range(1..=(1_u64 << bits));
        users.insert(
            user_id,
            Entrant {
                user_id,
                is_absent: rng.random_bool(0.3),
                is_finished: rng.random_bool(0.7),
                place: Place::Pooled,
                revision: rng.random_range(1..9),
            },
        );
    }
    users.into_values().collect()
}

/// Leaves the low scores of the later ones out of the pool, as admission does.
fn trim(seed: [u8; 32], entrants: &mut [Entrant], keep: usize) {
    let seed = Seed::new(seed);
    for entrant in entrants.iter_mut().skip(keep) {
        let score = Standing::of(&seed, UserId(entrant.user_id)).score.value();
        if score < FLOOR {
            entrant.place = Place::Trimmed;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_of_any_kind_give_the_winners_that_the_rows_give() {
    let world = World::new().await;
    for round in 0..6_u64 {
        let mut rng = StdRng::seed_from_u64(round);
        let seed: [u8; 32] = rng.random();
        let mut entrants = mixed(&mut rng, 60 + 150 * usize::try_from(round).unwrap());
        if round % 2 == 1 {
            trim(seed, &mut entrants, 10);
        }
        let rig = Rig::of(&world, seed, entrants).await;

        for count in [0, 1, 2, 7, 40, 2_000] {
            let case = format!("round {round}, {count} seats");
            let path = rig.assert_right(count, &case).await;
            if round % 2 == 0 {
                assert_eq!(
                    path,
                    SelectionPath::Fast,
                    "{case}: nothing speaks against it"
                );
            } else if count == 2_000 {
                assert_eq!(path, SelectionPath::Exact, "{case}: the trimmed count too");
            }
            let exact = rig.candidates.select_exact(&rig.activity, count).await;
            assert_eq!(exact.unwrap().ranked, rig.select(count).await.ranked);
        }
    }
    end(world).await;
}

/// Spoils the pool of a rig in one way; the reference has been kept right.
async fn assert_noticed(rig: &Rig<'_>, what: &str) {
    for count in [1, 5, 60] {
        let path = rig.assert_right(count, what).await;
        assert_eq!(
            path,
            SelectionPath::Exact,
            "{what}, {count} seats: not noticed"
        );
    }
    rig.candidates.rebuild(rig.id).await.unwrap();
    let path = rig.assert_right(5, what).await;
    assert_eq!(path, SelectionPath::Fast, "{what}: rebuilt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_not_what_it_should_be_is_noticed_and_decides_nothing() {
    let world = World::new().await;
    let rig = Rig::of(&world, [3; 32], eligible(1..=300)).await;
    let redis = &rig.world.redis;
    let best = rig.reference()[0].user_id.0;
    let worst = rig.reference()[299].user_id.0;
    assert_eq!(rig.assert_right(5, "untouched").await, SelectionPath::Fast);

    let _: i64 = redis.unlink(rig.shard_key(best)).await.unwrap();
    assert_noticed(&rig, "a shard is gone").await;

    let _: i64 = redis.unlink(rig.revision_key(worst)).await.unwrap();
    assert_noticed(&rig, "the revisions of a shard are gone").await;

    let both = vec![rig.shard_key(worst), rig.revision_key(worst)];
    let _: i64 = redis.unlink(both).await.unwrap();
    assert_noticed(&rig, "a shard and its revisions are gone").await;

    rig.world.forget_redis().await;
    assert_noticed(&rig, "all of Redis is gone").await;

    let member = |user: u64, score: f64| vec![(score, user.to_string())];
    let raised = member(worst, 0.999_999);
    let _: i64 = redis
        .zadd(rig.shard_key(worst), None, None, false, false, raised)
        .await
        .unwrap();
    assert_noticed(&rig, "a score is raised").await;

    let stranger = 16_000 + (best & 15);
    let score = Standing::of(&rig.seed, UserId(stranger)).score.value();
    let _: i64 = redis
        .zadd(
            rig.shard_key(best),
            None,
            None,
            false,
            false,
            member(stranger, score),
        )
        .await
        .unwrap();
    assert_noticed(&rig, "a stranger is in it").await;

    let _: i64 = redis
        .zrem(rig.shard_key(worst), worst.to_string())
        .await
        .unwrap();
    assert_noticed(&rig, "a member is gone").await;

    let _: i64 = redis
        .hincrby(rig.revision_key(worst), "sum", -1)
        .await
        .unwrap();
    assert_noticed(&rig, "a change has not been shown").await;

    end(world).await;
}

/// A stranger in the place of a member leaves every count as it was.
#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_never_joined_does_not_win_by_being_in_the_pool() {
    let world = World::new().await;
    let rig = Rig::of(&world, [4; 32], eligible(1..=200)).await;
    let redis = &rig.world.redis;
    let best = rig.reference()[0];
    let stranger = (10_000..1_000_000)
        .find(|user| Standing::of(&rig.seed, UserId(*user)).rank(&best).is_lt())
        .unwrap();
    let score = Standing::of(&rig.seed, UserId(stranger)).score.value();
    let in_its_shard = |user: &u64| Shard::of(*user) == Shard::of(stranger);
    let loser = (1..=200).find(in_its_shard).unwrap();

    let key = rig.shard_key(stranger);
    let _: i64 = redis.zrem(&key, loser.to_string()).await.unwrap();
    let _: i64 = redis
        .zadd(
            &key,
            None,
            None,
            false,
            false,
            vec![(score, stranger.to_string())],
        )
        .await
        .unwrap();
    assert_noticed(&rig, "a stranger in the place of a member").await;

    end(world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_say_not_eligible_count_more_than_a_pool_that_says_eligible() {
    let world = World::new().await;
    let mut rig = Rig::of(&world, [5; 32], eligible(1..=250)).await;
    let best: Vec<u64> = rig.reference().iter().map(|best| best.user_id.0).collect();
    let position = |rig: &Rig<'_>, user: u64| {
        rig.entrants
            .iter()
            .position(|entrant| entrant.user_id == user)
            .unwrap()
    };

    // The pool shows neither; the counts do not say that it is behind.
    let left_at = rig.accepted_at;
    rig.insert(
        "presence",
        "activity_id, user_id, last_leave_at",
        vec![vec![rig.id.into(), best[0].into(), left_at.into()]],
    )
    .await;
    let gone = position(&rig, best[0]);
    rig.entrants[gone].is_absent = true;
    assert_noticed(&rig, "the best has left").await;
    let text = format!("DELETE FROM task_completion WHERE user_id = {}", best[1]);
    rig.world.execute(&text).await;
    let unfinished = position(&rig, best[1]);
    rig.entrants[unfinished].is_finished = false;
    assert_noticed(&rig, "the second has not finished").await;

    // Somebody comes back, and nobody but the counts says so.
    let text = format!("DELETE FROM presence WHERE user_id = {}", best[0]);
    rig.world.execute(&text).await;
    rig.world
        .execute(&format!(
            "UPDATE participation SET revision = 2 WHERE user_id = {}",
            best[0]
        ))
        .await;
    rig.entrants[gone].is_absent = false;
    rig.entrants[gone].revision = 2;
    rig.count().await;
    assert_noticed(&rig, "the best has come back").await;
    assert_eq!(rig.select(1).await.ranked[0].user_id.0, best[0]);

    end(world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trimming_never_changes_who_wins() {
    let world = World::new().await;
    let seed = [6; 32];
    let mut entrants = eligible(1..=2_000);
    trim(seed, &mut entrants, 10);
    let trimmed = entrants
        .iter()
        .filter(|entrant| entrant.place == Place::Trimmed);
    assert!(trimmed.count() > 1_500, "most are not in the pool");
    let rig = Rig::of(&world, seed, entrants).await;
    let above = rig
        .reference()
        .iter()
        .filter(|best| best.score.value() >= FLOOR)
        .count();
    let above = u32::try_from(above).unwrap();

    assert_eq!(
        rig.assert_right(above, "all above").await,
        SelectionPath::Fast
    );
    let path = rig.assert_right(above + 1, "one below").await;
    assert_eq!(path, SelectionPath::Exact, "a trimmed one may be the next");

    // Most of those above the floor have left.
    let mut entrants = eligible(1..=2_000);
    trim(seed, &mut entrants, 10);
    for entrant in &mut entrants {
        entrant.is_absent = entrant.place == Place::Pooled && entrant.user_id % 8 != 0;
    }
    let rig = Rig::of(&world, seed, entrants).await;
    for count in [1, 10, 100, 1_000] {
        rig.assert_right(count, "most have left").await;
    }
    end(world).await;
}

/// The same with real joins: two participants are pooled whatever their score, and hardly another.
#[tokio::test(flavor = "multi_thread")]
async fn what_admission_keeps_out_of_the_pool_wins_all_the_same() {
    const JOINS: u64 = 60;
    let world = World::new().await;
    let process = world
        .serve_with(&[
            ("CANDIDATE__TRIM_AFTER", "2"),
            ("CANDIDATE__TRIM_FLOOR", "0.9"),
        ])
        .await;
    let api = world.api(&process).await;
    let spec = |room: u64, winners, shard_by| BagSpec {
        room,
        winners,
        extra: json!({ "shardBy": shard_by }),
        ..BagSpec::waiting()
    };
    let specs = [
        spec(1, 1, "lowBits"),
        spec(2, 30, "lowBits"),
        spec(3, 1, "mixed"),
        spec(4, 30, "mixed"),
    ];

    let bags = api.open_bags(&specs).await;
    for bag in &bags {
        // Ids of which only the high bits vary, as some generators make them.
        let user = |number: u64| (bag.room * 1_000 + number) << 16;
        api.join_all(bag, (0..3).map(user)).await;
        api.settled(bag, user(2)).await;
        api.join_all(bag, (3..JOINS).map(user)).await;
    }
    world.draw_soon(&bags).await;
    world.all_drawn(&bags).await;

    for bag in &bags {
        world.assert_drawn_once(bag).await;
        assert_eq!(world.entrants(bag.id).await.len() as u64, JOINS);
        let trimmed = "SELECT COUNT(*) FROM participation WHERE activity_id = ID AND is_trimmed";
        assert!(world.number_of(bag.id, trimmed).await > 30, "not trimmed");
    }

    process.stop().await;
    world.end().await;
}
