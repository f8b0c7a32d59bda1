//! Hundreds of activities that are drawn in one moment, and everything that their users do.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use chrono::TimeDelta;
use fred::interfaces::KeysInterface;
use futures_util::{StreamExt, stream};
use luckybag::{
    candidate::partition_of,
    infra::broker::Queue,
    kernel::{Timestamp, UserId, format_timestamp, truncate_to_millis},
};
use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};

use super::{
    model::{Deed, Join, Millis},
    plan::{BagPlan, Denial, PARTITIONS, Planner, TASKS, UserPlan, When},
    stream::{Item, Streams, body_of, shuffled},
};
use crate::harness::{Amqp, Api, Bag, BagSpec, World, eventually};

/// Where waves take place.
pub(super) struct Stage<'a> {
    pub(super) world: &'a World,
    pub(super) amqp: &'a Amqp,
    pub(super) api: &'a Api,
    /// Whether the process believes what the app says about tasks.
    pub(super) trusts_the_app: bool,
}

/// Activities that share their drawAt.
pub(super) struct Wave {
    pub(super) plans: Vec<BagPlan>,
    pub(super) bags: Vec<Bag>,
    pub(super) draw_at: Timestamp,
    /// Wins from before: who and when, relative to drawAt.
    pub(super) earlier_wins: Vec<(u64, Millis)>,
    /// What comes before the draw.
    pub(super) streams: Streams,
    /// What comes after it.
    pub(super) afterwards: Streams,
    pub(super) began_at: Timestamp,
}

/// No wave is drawn earlier than this after its drawAt is known.
const SHORTEST_LEAD: Duration = Duration::from_secs(20);
const JOINS_AT_ONCE: usize = 32;
const AFTERWARDS_A_MESSAGE: usize = 60;

impl Stage<'_> {
    /// Opens the activities and lets those join who are the first; fixes drawAt when that is done,
    /// so that a busy machine has the time it needs.
    pub(super) async fn open(&self, planner: &mut Planner<'_>, bag_count: u64) -> Wave {
        let plans = planner.bags(bag_count);
        self.world.execute("DELETE FROM deny_list").await;
        let began_at = self.world.now().await;
        let opening = Instant::now();
        let specs: Vec<BagSpec> = plans.iter().map(spec_of).collect();
        let bags = self.api.open_bags(&specs).await;
        self.set_trimming(&plans, &bags).await;
        self.join(&plans, &bags, When::BeforeAll).await;
        self.settled(&plans, &bags).await;
        let lead = opening.elapsed().max(SHORTEST_LEAD);

        let draw_at = self.world.now().await + TimeDelta::from_std(lead).expect("seconds");
        let draw_at = truncate_to_millis(draw_at);
        let earlier_wins = self.earlier_wins(draw_at).await;
        let streams = shuffled(&plans, planner.rng);
        let afterwards = afterwards(&plans, &streams, planner.rng);
        let wave = Wave {
            plans,
            bags,
            draw_at,
            earlier_wins,
            streams,
            afterwards,
            began_at,
        };
        self.fix_draw_at(&wave).await;
        self.deny(&wave).await;
        self.let_win_elsewhere(&wave).await;
        wave
    }

    async fn set_trimming(&self, plans: &[BagPlan], bags: &[Bag]) {
        for (plan, bag) in plans.iter().zip(bags) {
            if let Some((after, floor)) = plan.trim {
                let id = bag.id;
                self.world
                    .execute(&format!(
                        "UPDATE activity SET trim_after = {after}, trim_floor = {floor} \
                         WHERE id = {id}"
                    ))
                    .await;
            }
        }
    }

    /// Joins through the API; a user's own come one after another.
    pub(super) async fn join(&self, plans: &[BagPlan], bags: &[Bag], when: When) {
        let joining = through_http(plans, when);
        stream::iter(joining)
            .for_each_concurrent(JOINS_AT_ONCE, |(bag, user)| async move {
                for (device, finished) in user.http.iter().flat_map(|http| &http.bodies) {
                    let body = json!({ "deviceId": device, "completedTasks": finished });
                    let answer = self.api.try_join(&bags[bag], user.user, Some(body)).await;
                    answer.expect(202);
                }
            })
            .await;
    }

    /// Waits until those who joined first have their verdicts.
    async fn settled(&self, plans: &[BagPlan], bags: &[Bag]) {
        let expected = through_http(plans, When::BeforeAll).len();
        let expected = i64::try_from(expected).expect("a count");
        let count = format!(
            "SELECT COUNT(*) FROM participation WHERE activity_id IN ({})",
            ids_of(bags)
        );
        eventually("the first joins to be settled", async || {
            let settled = self.world.number(&count).await;
            if settled == expected {
                Ok(())
            } else {
                Err((settled, expected))
            }
        })
        .await;
    }

    async fn fix_draw_at(&self, wave: &Wave) {
        let millis = wave.draw_at.timestamp_millis();
        self.world
            .execute(&format!(
                "UPDATE activity SET draw_at = FROM_UNIXTIME({millis} / 1000) \
                 WHERE id IN ({})",
                ids_of(&wave.bags)
            ))
            .await;
        for bag in &wave.bags {
            let copy = self.world.keys().activity(bag.id);
            let _: i64 = self.world.redis.unlink(copy).await.expect("forgotten");
        }
        // Every other one is told to draw by a message, too, as it would be.
        let queue = self.world.topology().queue_name(Queue::Draw);
        for bag in wave.bags.iter().step_by(2) {
            let due = json!({ "activityId": bag.id, "drawAt": format_timestamp(wave.draw_at) });
            self.amqp.put(&queue, due.to_string().as_bytes()).await;
        }
    }

    async fn deny(&self, wave: &Wave) {
        let mut entries = BTreeSet::new();
        for (bag, plan) in wave.bags.iter().zip(&wave.plans) {
            for user in &plan.users {
                entries.extend(user.denial.map(|denial| match denial {
                    Denial::Everywhere => (0, user.user),
                    Denial::Here => (bag.id.0, user.user),
                    Denial::Elsewhere => (bag.id.0 - 1, user.user),
                }));
            }
        }
        let rows: Vec<String> = entries
            .iter()
            .map(|(scope, user)| format!("({scope}, {user}, 1, NOW(3))"))
            .collect();
        self.world
            .execute(&format!(
                "INSERT INTO deny_list (scope, user_id, created_by, created_at) VALUES {}",
                rows.join(", ")
            ))
            .await;
    }

    async fn let_win_elsewhere(&self, wave: &Wave) {
        // Ids that no activity has; each win is its own activity's.
        let first = self.world.number("SELECT COUNT(*) FROM win_record").await + 1;
        let wins = wave.plans.iter().flat_map(|plan| &plan.users);
        let wins = wins.filter_map(|user| Some((user.user, user.win?)));
        let rows: Vec<String> = (first..)
            .zip(wins)
            .map(|(id, (user, win))| {
                let status = if win.is_revoked { "revoked" } else { "won" };
                let at = wave.draw_at.timestamp_millis() + win.at;
                format!(
                    "({id}, {id}, {user}, 1, 1, 1, 1, 0.5, '{status}', 'pending', \
                     FROM_UNIXTIME({at} / 1000))"
                )
            })
            .collect();
        self.world
            .execute(&format!(
                "INSERT INTO win_record (id, activity_id, user_id, seat, round, prize_id, \
                 prize_rank, score, status, fulfilment, drawn_at) VALUES {}",
                rows.join(", ")
            ))
            .await;
    }

    /// Fills the partitions with everything that happens before the draw.
    pub(super) async fn fill(&self, wave: &Wave) {
        self.put(wave, &wave.streams).await;
    }

    async fn put(&self, wave: &Wave, streams: &Streams) {
        for (partition, messages) in streams {
            let queue = self.world.topology().queue_name(Queue::Stream(*partition));
            for message in messages {
                let body = body_of(message, &wave.bags, wave.draw_at);
                self.amqp.put(&queue, &body).await;
            }
            // The broker answers on a channel in order: then it has all of them.
            self.amqp.look(&queue).await;
        }
    }

    /// What was put into the stream was there before drawAt: this is what the comparison rests on.
    pub(super) async fn assert_before_draw(&self, wave: &Wave) {
        let now = self.world.now().await;
        let late = now - wave.draw_at;
        assert!(
            now < wave.draw_at,
            "the machine was too busy: filled {late} late"
        );
    }

    /// Waits as long as anything goes on: a busy machine takes its time.
    async fn all_drawn(&self, wave: &Wave) {
        let undrawn = format!(
            "SELECT COUNT(*) FROM activity WHERE status <> 'drawn' AND id IN ({})",
            ids_of(&wave.bags)
        );
        let rows = "SELECT (SELECT COUNT(*) FROM participation) + (SELECT COUNT(*) FROM presence) \
             + (SELECT COUNT(*) FROM task_completion) \
             + (SELECT CAST(COALESCE(SUM(revision_sum), 0) AS SIGNED) FROM pool_count)";
        let progress = async || {
            (
                self.world.number(&undrawn).await,
                self.world.number(rows).await,
            )
        };
        self.world.until(wave.draw_at).await;
        let mut last = progress().await;
        while last.0 > 0 {
            let before = last;
            last = eventually("the draws to go on", async || {
                let now = progress().await;
                if now == before { Err(now) } else { Ok(now) }
            })
            .await;
        }
    }

    /// Waits for the draws, then lets come what comes too late.
    pub(super) async fn drawn(&self, wave: &Wave) {
        self.all_drawn(wave).await;
        self.put(wave, &wave.afterwards).await;
        let marks: Vec<String> = marks().map(|(_, user)| user.to_string()).collect();
        let handled = format!(
            "SELECT COUNT(*) FROM participation WHERE activity_id = {} AND user_id IN ({})",
            wave.bags[0].id,
            marks.join(", ")
        );
        eventually("what comes too late to be handled", async || {
            let handled = self.world.number(&handled).await;
            if handled == i64::from(PARTITIONS) {
                Ok(())
            } else {
                Err(handled)
            }
        })
        .await;
    }
}

/// The activity as it is created; it becomes due when the wave does.
fn spec_of(plan: &BagPlan) -> BagSpec {
    let tasks: Vec<Value> = TASKS[..plan.task_count]
        .iter()
        .map(|task| json!({ "taskId": task, "title": task }))
        .collect();
    BagSpec {
        room: plan.room,
        winners: plan.winners,
        extra: json!({
            "presenceRule": plan.leaving.word(),
            "tasks": tasks,
            "oneEntryPerDevice": plan.one_entry_per_device,
            "shardBy": if plan.is_mixed { "mixed" } else { "lowBits" },
            "cooldownSeconds": plan.cooldown_secs,
        }),
        ..BagSpec::waiting()
    }
}

pub(super) fn ids_of(bags: &[Bag]) -> String {
    let ids: Vec<String> = bags.iter().map(|bag| bag.id.to_string()).collect();
    ids.join(", ")
}

fn through_http(plans: &[BagPlan], when: When) -> Vec<(usize, &UserPlan)> {
    let users = plans
        .iter()
        .enumerate()
        .flat_map(|(bag, plan)| plan.users.iter().map(move |user| (bag, user)));
    users
        .filter(|(_, user)| user.http.as_ref().is_some_and(|http| http.when == when))
        .collect()
}

/// A user of each partition whose late join shows that everything before it was handled.
fn marks() -> impl Iterator<Item = (u16, u64)> {
    (0..PARTITIONS).map(|partition| {
        let user = (900_000_000..900_001_000)
            .find(|user| partition_of(UserId(*user), PARTITIONS) == partition)
            .expect("some user is there");
        (partition, user)
    })
}

/// What comes after the draw: news of things that were in time, new and known.
fn afterwards(plans: &[BagPlan], streams: &Streams, rng: &mut StdRng) -> Streams {
    let mut afterwards: Streams = BTreeMap::new();
    for (partition, messages) in streams {
        let again = messages.iter().filter(|_| rng.random_range(0..3) == 0);
        afterwards
            .entry(*partition)
            .or_default()
            .extend(again.cloned());
    }
    // By partition and kind; the joins last, and the marks last of them.
    let mut late: BTreeMap<(u16, u8), Vec<Item>> = BTreeMap::new();
    let mut come = |bag: usize, user: u64, deed: Deed| {
        let kind = match deed {
            Deed::Enter { .. } | Deed::Leave { .. } => 0,
            Deed::Task { .. } => 1,
            Deed::Join(_) => 2,
        };
        let partition = partition_of(UserId(user), PARTITIONS);
        let of_kind = late.entry((partition, kind)).or_default();
        of_kind.push(Item { bag, user, deed });
    };
    for (bag, plan) in plans.iter().enumerate() {
        for user in &plan.users {
            come(bag, user.user, Deed::Leave { at: -5 });
            come(bag, user.user, Deed::Enter { at: -1 });
            if let Some(task) = TASKS[..plan.task_count].first() {
                let name = (*task).to_owned();
                come(bag, user.user, Deed::Task { name, at: -5 });
            }
        }
        if let Some(user) = plan.latecomer {
            come(bag, user, join_in_time());
        }
    }
    for (_, user) in marks() {
        come(0, user, join_in_time());
    }
    for ((partition, _), items) in late {
        let messages = items.chunks(AFTERWARDS_A_MESSAGE).map(<[Item]>::to_vec);
        afterwards.entry(partition).or_default().extend(messages);
    }
    afterwards
}

fn join_in_time() -> Deed {
    Deed::Join(Join {
        accepted_at: -10,
        device: Some("a phone of its own".to_owned()),
        finished: vec![],
        flaw: None,
    })
}
