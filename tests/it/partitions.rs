//! Changing the number of partitions of the stream while an activity is open.

use std::{collections::BTreeSet, time::Duration};

use chrono::TimeDelta;
use luckybag::{
    candidate::{JoinRequest, StreamMessage, partition_of},
    infra::broker::{Broker, Queue, Topology},
    kernel::UserId,
};
use sea_orm::{ConnectionTrait, TransactionTrait};
use serde_json::{Value, json};

use crate::harness::{
    Api, Bag, BagSpec, Process, Proxies, World, eventually, keep_alive, named_down,
    nothing_happens_for, presence,
};

const SEATS: u32 = 7;

/// Leaving suspends, so that what is told before and after the change belongs together.
fn pausing_bag() -> BagSpec {
    BagSpec {
        winners: SEATS,
        extra: json!({ "presenceRule": "pause" }),
        ..BagSpec::waiting()
    }
}

impl World {
    /// Joins that were accepted and have not been handled: they wait in the stream.
    async fn leave_joins_waiting(
        &self,
        bag: &Bag,
        users: impl IntoIterator<Item = u64>,
        partitions: u16,
    ) {
        let (broker, stop) = self.broker_of(partitions).await;
        self.send_joins(&broker, bag, users).await;
        stop.cancel();
    }

    /// Sends them all at once, each to its partition as this broker knows them.
    async fn send_joins(&self, broker: &Broker, bag: &Bag, users: impl IntoIterator<Item = u64>) {
        let partitions = broker.topology().partitions();
        let accepted_at = self.now().await - TimeDelta::seconds(1);
        let message = |user_id: UserId| {
            let join = JoinRequest {
                activity_id: bag.id,
                user_id,
                device_id: None,
                completed_tasks: Vec::new(),
                accepted_at,
                request_id: format!("r-{user_id}"),
            };
            let message = StreamMessage::Joins { joins: vec![join] };
            let partition = partition_of(user_id, partitions);
            message.into_outgoing(partition, format!("m-{user_id}"))
        };
        let messages = users.into_iter().map(UserId).map(message).collect();
        for sent in broker.publish_all(messages).await {
            sent.expect("confirmed");
        }
    }

    async fn joined(&self, bag: &Bag) -> usize {
        self.participants(bag, "joined").await.len()
    }

    async fn settled_partitions(&self) -> i64 {
        self.number("SELECT CAST(value AS SIGNED) FROM meta WHERE name = 'stream_partitions'")
            .await
    }

    /// Changes the number behind the back of a process, which ends by itself and says why.
    async fn ends_by_the_change(&self, process: Process) {
        let change = "UPDATE meta SET value = '4' WHERE name = 'stream_partitions'";
        self.execute(change).await;

        let status = process.exit_status().await;
        assert_eq!(status.code(), Some(1), "{}", process.log_tail());
        let last = process.log_lines().pop().expect("an error");
        assert!(last.contains("this installation has 4"), "{last}");
    }

    async fn end_with_partitions(self, most: u16) {
        let amqp = self.amqp().await;
        amqp.delete_all(&Topology::new(&self.namespace, most)).await;
        amqp.close().await;
        self.end().await;
    }
}

async fn tell(world: &World, api: &Api, bag: &Bag, users: &[u64], kind: &str) {
    let now = world.now().await;
    let events: Vec<Value> = users
        .iter()
        .map(|user| presence(bag, *user, kind, now))
        .collect();
    api.report("presence", &events).await;
    let state = if kind == "leave" {
        "absent"
    } else {
        "eligible"
    };
    for user in users {
        api.becomes(bag, *user, state).await;
    }
}

/// Sixty join and ten of them leave; ten more joins wait while the number is changed; then two come
/// back, two others leave, and thirty more join.
async fn nobody_is_lost(from: u16, to: u16) {
    let world = World::new().await;
    let (old, new) = (from.to_string(), to.to_string());
    // What Redis does not take in time is put there a little later.
    let patient = ("REDIS__COMMAND_TIMEOUT_MS", "5000");
    let before = [("STREAM__PARTITIONS", old.as_str()), patient];
    let after = [("STREAM__PARTITIONS", new.as_str()), patient];
    let process = world.serve_with(&before).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&pausing_bag()).await;
    api.join_all(&bag, 1..=60).await;
    api.settled(&bag, 60).await;
    let left: Vec<u64> = (1..=10).collect();
    tell(&world, &api, &bag, &left, "leave").await;

    let command = format!("partitions {to}");
    let refused = world.operate(&command, &before).await;
    assert!(
        refused.complaint().contains("stop every process"),
        "{refused:?}"
    );
    process.stop().await;
    world.leave_joins_waiting(&bag, 61..=70, from).await;
    let changed = world.operate(&command, &before).await;
    let told = format!("the stream had {from} partitions and has {to} now");
    assert!(changed.printed().starts_with(&told), "{changed:?}");
    assert_eq!(world.joined(&bag).await, 70, "what waited was not handled");
    for partition in to..from {
        let left = world.topology().queue_name(Queue::Stream(partition));
        assert!(!world.has_queue(&left).await, "{left} is no more");
    }
    let again = world.operate(&command, &after).await;
    assert!(again.printed().contains("already"), "{again:?}");

    let outdated = world.spawn(&before).exit_status().await;
    assert_eq!(outdated.code(), Some(1));
    let process = world.serve_with(&after).await;
    let api = world.api(&process).await;
    tell(&world, &api, &bag, &[1, 2], "enter").await;
    tell(&world, &api, &bag, &[11, 12], "leave").await;
    api.join_all(&bag, 71..=100).await;
    assert_drawn_among_all(&world, &bag, &(3..=12).collect()).await;

    process.stop().await;
    world.end_with_partitions(from.max(to)).await;
}

/// A hundred joined, and the best of those who are there won.
async fn assert_drawn_among_all(world: &World, bag: &Bag, absent: &BTreeSet<u64>) {
    const ELIGIBLE: &str = "SELECT CAST(eligible_count AS SIGNED) FROM activity WHERE id = ID";

    world.draw_soon(&[*bag]).await;
    world.all_drawn(&[*bag]).await;
    let entrants = world.entrants(bag.id).await;
    assert_eq!(entrants.len(), 100);
    let best: Vec<u64> = entrants
        .iter()
        .map(|entrant| entrant.user_id.0)
        .filter(|user| !absent.contains(user))
        .take(SEATS as usize)
        .collect();
    let wins = world.wins(bag.id).await;
    let won: Vec<u64> = wins.iter().map(|win| win.user_id).collect();
    assert_eq!(won, best);
    assert_eq!(world.number_of(bag.id, ELIGIBLE).await, 90);
    world.check_pool(bag).await.expect("the pool is whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_lost_when_partitions_become_fewer() {
    nobody_is_lost(4, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_lost_when_partitions_become_more() {
    nobody_is_lost(4, 8).await;
}

/// Its consumers are in the broker's books for a moment longer than it lives.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_about_to_end_is_waited_for() {
    let world = World::new().await;
    let process = world.serve().await;
    let amqp = world.amqp().await;
    world.served(&amqp).await;
    let mut change = Box::pin(world.operate("partitions 4", &[]));

    tokio::select! {
        early = &mut change => panic!("it did not wait: {early:?}"),
        () = nothing_happens_for(Duration::from_secs(2)) => (),
    }
    process.kill().await;

    let changed = change.await;
    assert!(changed.printed().contains("has 4 now"), "{changed:?}");
    amqp.close().await;
    world.end_with_partitions(4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_stays_while_messages_cannot_be_handled() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    process.stop().await;
    world.leave_joins_waiting(&bag, 1..=5, 2).await;

    let holdup = world.db.begin().await.expect("MySQL answers");
    let lock = format!("SELECT id FROM activity WHERE id = {} FOR UPDATE", bag.id);
    holdup.execute_unprepared(&lock).await.expect("locked");
    let refused = tokio::select! {
        refused = world.operate("partitions 4 --wait 1", &[]) => refused,
        () = keep_alive(&holdup) => unreachable!("it never ends"),
    };
    holdup.rollback().await.expect("unlocked");

    let complaint = refused.complaint();
    assert!(
        complaint.contains("could not be handled in 1 s"),
        "{complaint}"
    );
    assert_eq!(world.settled_partitions().await, 2);
    let process = world.serve().await;
    eventually("what waited to be handled", async || {
        match world.joined(&bag).await {
            5 => Ok(()),
            joined => Err(joined),
        }
    })
    .await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_missed_the_change_ends_by_itself() {
    let world = World::new().await;
    let fresh = world.operate("partitions 4", &[]).await;
    assert!(
        fresh.complaint().contains("set stream.partitions"),
        "{fresh:?}"
    );
    let process = world.serve().await;

    world.ends_by_the_change(process).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_sends_in_the_old_way_just_after_the_change_is_not_lost() {
    let world = World::new().await;
    let four = [("STREAM__PARTITIONS", "4")];
    let process = world.serve_with(&four).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    process.stop().await;
    // Connected before: what comes long after the change finds its queue removed.
    let (broker, stop) = world.broker_of(4).await;

    let late = async {
        eventually("the number to be changed", async || {
            match world.settled_partitions().await {
                2 => Ok(()),
                other => Err(other),
            }
        })
        .await;
        world.send_joins(&broker, &bag, 1..=40).await;
        stop.cancel();
    };
    let (changed, ()) = tokio::join!(world.operate("partitions 2", &four), late);

    changed.printed();
    assert_eq!(world.joined(&bag).await, 40);
    world.end_with_partitions(4).await;
}

/// It agreed on the number, and waits for another server when the number is changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_starting_when_the_number_is_changed_ends_by_itself() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    proxies.redis.refuse();
    let process = world.spawn(&proxies.changes());
    named_down(&process.url().await, 503, &["redis"]).await;
    eventually("the number to be settled", async || {
        let settled = "SELECT COUNT(*) FROM meta WHERE name = 'stream_partitions'";
        match world.number(settled).await {
            1 => Ok(()),
            other => Err(other),
        }
    })
    .await;

    world.ends_by_the_change(process).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_set_aside_from_a_partition_that_is_no_more_can_be_sent_again() {
    let world = World::new().await;
    let (four, two) = ([("STREAM__PARTITIONS", "4")], [("STREAM__PARTITIONS", "2")]);
    let process = world.serve_with(&four).await;
    let amqp = world.amqp().await;
    let queue = |partition| world.topology().queue_name(Queue::Stream(partition));
    let dead = world.topology().queue_name(Queue::Dead);
    let is_set_aside = async || {
        eventually("a dead letter", async || {
            match amqp.look(&dead).await.waiting {
                1 => Ok(()),
                waiting => Err(waiting),
            }
        })
        .await;
    };
    amqp.put(&queue(3), b"no message of ours").await;
    is_set_aside().await;
    process.stop().await;
    world.operate("partitions 2", &four).await.printed();

    let replayed = world.operate("dead replay", &two).await;

    assert_eq!(replayed.printed(), "sent again: 1");
    assert_eq!(amqp.look(&queue(1)).await.waiting, 1);
    let process = world.serve_with(&two).await;
    is_set_aside().await;
    process.stop().await;
    amqp.close().await;
    world.end_with_partitions(4).await;
}
