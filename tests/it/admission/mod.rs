//! What admission, the pool and the selection promise, against real servers.

mod rig;
mod rolled_back;
mod trimming;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fred::interfaces::{KeysInterface, SetsInterface, SortedSetsInterface};
use luckybag::{
    candidate::{
        BarrierPass, Eligibility, JoinRequest, LateReason, PresenceKind, RejectReason,
        SelectionPath, StreamConsumer, StreamMessage, TaskEvent, Verdict as JoinVerdict,
    },
    infra::{
        broker::{Delivery, OrderedHandler, Queue, Verdict},
        mysql::{self, DatabaseClock, MySqlOptions},
        redis::Shard,
    },
    kernel::UserId,
    settings::Settings,
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

use self::rig::{BAG, Bag, Rig, again, env, eventually, first_delivery, ranked, service, users};
use crate::{harness::nothing_happens_for, proxy::Proxy};

#[tokio::test(flavor = "multi_thread")]
async fn a_join_is_counted_once_however_often_it_is_delivered() {
    let rig = Rig::start(Bag::default()).await;
    let message = first_delivery(rig.joins(1..=300));

    for delivery in [message.clone(), again(&message), again(&message)] {
        assert_eq!(
            rig.consumer.handle(vec![delivery]).await.unwrap(),
            [Verdict::Ack]
        );
    }
    rig.handle(vec![rig.joins(200..=400), rig.joins(1..=10)])
        .await;

    assert_eq!(rig.count("SELECT COUNT(*) FROM participation").await, 400);
    assert_eq!(
        rig.count("SELECT CAST(MAX(revision) AS SIGNED) FROM participation")
            .await,
        1
    );
    rig.assert_counts_add_up().await;
    assert_eq!(rig.candidates.participant_count(BAG).await.unwrap(), 400);
    rig.assert_selects(SelectionPath::Fast).await;
    assert_eq!(users(&rig.select(400).await), ranked(1..=400));
    let done: Option<String> = rig
        .redis
        .get(rig.keys().join_done(BAG, UserId(3)))
        .await
        .unwrap();
    assert_eq!(done.as_deref(), Some("1"));
    let partakers: i64 = rig
        .redis
        .scard(rig.keys().partake(BAG, Shard::of(3)))
        .await
        .unwrap();
    assert_eq!(partakers, 25);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_reject_and_the_first_verdict_stays() {
    let rig = Rig::start(Bag {
        one_entry_per_device: true,
        ..Bag::default()
    })
    .await;
    rig.given_what_filters_know().await;
    let on_device = |user, device: &str| JoinRequest {
        device_id: Some(device.to_owned()),
        ..rig.join(user)
    };
    let after_the_draw = JoinRequest {
        accepted_at: rig.at(3_600_100),
        ..rig.join(7)
    };
    let joins = vec![
        on_device(1, "a"),
        on_device(2, "b"),
        on_device(3, "c"),
        on_device(4, "d"),
        on_device(5, "shared"),
        on_device(6, "shared"),
        after_the_draw,
        on_device(8, &"x".repeat(65)),
        JoinRequest {
            device_id: None,
            ..rig.join(9)
        },
        on_device(3, "another"),
    ];

    rig.handle(vec![StreamMessage::Joins { joins }]).await;
    rig.handle(vec![StreamMessage::Joins {
        joins: vec![on_device(10, "shared"), on_device(5, "shared")],
    }])
    .await;
    rig.run("DELETE FROM deny_list", vec![]).await;
    rig.handle(vec![rig.joins(1..=2)]).await;

    for (user, verdict) in [
        (1, JoinVerdict::Rejected(RejectReason::Blocked)),
        (2, JoinVerdict::Rejected(RejectReason::Blocked)),
        (3, JoinVerdict::Joined),
        (4, JoinVerdict::Rejected(RejectReason::Cooldown)),
        (5, JoinVerdict::Joined),
        (6, JoinVerdict::Rejected(RejectReason::DuplicateDevice)),
        (7, JoinVerdict::Late(LateReason::Closed)),
        (8, JoinVerdict::Rejected(RejectReason::Invalid)),
        (9, JoinVerdict::Rejected(RejectReason::Invalid)),
        (10, JoinVerdict::Rejected(RejectReason::DuplicateDevice)),
    ] {
        assert_eq!(rig.verdict(user).await, verdict, "user {user}");
    }
    rig.assert_counts_add_up().await;
    rig.assert_selects(SelectionPath::Fast).await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_bad_is_set_aside_alone() {
    let rig = Rig::start(Bag::default()).await;
    let body = serde_json::json!({"v": 1, "kind": "joins", "joins": [
        rig.join(1),
        {"activityId": "77", "userId": "nobody"},
        {"activityId": "78", "userId": "2", "acceptedAt": "2026-01-31T20:00:00.000Z"},
        {"activityId": "77", "userId": "3", "acceptedAt": "soon"},
        rig.join(4),
    ]});
    let mixed = Delivery {
        body: body.to_string().into_bytes(),
        ..first_delivery(rig.joins([]))
    };
    let nonsense = Delivery {
        body: b"{]".to_vec(),
        ..first_delivery(rig.joins([]))
    };

    let verdicts = rig
        .consumer
        .handle(vec![nonsense, mixed, first_delivery(rig.joins([5]))])
        .await
        .unwrap();

    assert!(
        matches!(&verdicts[0], Verdict::DeadLetter { reason } if reason.contains("not a message"))
    );
    assert_eq!(verdicts[1..], [Verdict::Ack, Verdict::Ack]);
    for user in [1, 4, 5] {
        assert_eq!(rig.verdict(user).await, JoinVerdict::Joined);
    }
    assert_eq!(
        rig.verdict(3).await,
        JoinVerdict::Rejected(RejectReason::Invalid)
    );
    let dead = rig.dead_letters().await;
    assert_eq!(dead.len(), 2, "{dead:?}");
    assert_eq!(dead[0].1["joins"][0]["userId"], "nobody");
    assert!(dead[1].0.contains("does not exist"), "{dead:?}");
    assert_eq!(dead[1].1["joins"][0]["userId"], "2");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_culprit_that_the_database_refuses_is_found_and_its_neighbours_are_admitted() {
    let rig = Rig::start(Bag::default()).await;
    rig.run(
        "ALTER TABLE participation ADD CONSTRAINT odd CHECK (user_id <> 13)",
        vec![],
    )
    .await;

    rig.handle(vec![rig.joins(1..=20)]).await;

    assert_eq!(rig.count("SELECT COUNT(*) FROM participation").await, 19);
    rig.assert_counts_add_up().await;
    let dead = rig.dead_letters().await;
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0].1["joins"][0]["userId"], "13");
    rig.assert_selects(SelectionPath::Fast).await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_and_unfinished_tasks_suspend_and_both_are_undone() {
    let rig = Rig::start(Bag {
        tasks: r#"[{"taskId": "follow", "title": "Follow"}]"#,
        ..Bag::default()
    })
    .await;
    let finishes = |user, task: &str| StreamMessage::Tasks {
        events: vec![TaskEvent {
            activity_id: BAG,
            user_id: UserId(user),
            task_id: task.to_owned(),
            completed_at: rig.at(20),
        }],
    };
    let goes = |user, kind, ms| StreamMessage::Presence {
        events: vec![rig.presence(user, kind, ms)],
    };

    // A completion and a leave that come before the join count all the same.
    rig.handle(vec![
        finishes(2, "follow"),
        goes(3, PresenceKind::Leave, 50),
    ])
    .await;
    rig.handle(vec![rig.joins(1..=3), finishes(1, "dance")])
        .await;
    assert_eq!(rig.eligibility(1).await, Some(Eligibility::TasksUnfinished));
    assert_eq!(rig.eligibility(2).await, Some(Eligibility::Eligible));
    assert_eq!(
        rig.eligibility(3).await,
        Some(Eligibility::AbsentAndTasksUnfinished)
    );

    rig.handle(vec![finishes(1, "follow"), finishes(3, "follow")])
        .await;
    rig.handle(vec![
        goes(2, PresenceKind::Leave, 60),
        goes(3, PresenceKind::Enter, 70),
    ])
    .await;
    assert_eq!(rig.eligibility(1).await, Some(Eligibility::Eligible));
    assert_eq!(rig.eligibility(2).await, Some(Eligibility::Absent));
    assert_eq!(rig.eligibility(3).await, Some(Eligibility::Eligible));
    let score: Option<f64> = rig
        .redis
        .zscore(rig.keys().candidate(BAG, Shard::of(2)), "2")
        .await
        .unwrap();
    assert_eq!(score, Some(-1.0));

    // An older enter changes nothing, a newer one does.
    rig.handle(vec![goes(2, PresenceKind::Enter, 55)]).await;
    assert_eq!(rig.eligibility(2).await, Some(Eligibility::Absent));
    rig.handle(vec![goes(2, PresenceKind::Enter, 80)]).await;
    assert_eq!(rig.eligibility(2).await, Some(Eligibility::Eligible));
    rig.assert_counts_add_up().await;
    rig.assert_selects(SelectionPath::Fast).await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_freeze_joins_are_late_and_events_change_nothing() {
    let rig = Rig::start(Bag::default()).await;
    rig.handle(vec![rig.joins(1..=3)]).await;
    let before = rig.select(10).await;
    rig.set_status("drawing").await;

    let leave = rig.presence(1, PresenceKind::Leave, 500);
    rig.handle(vec![
        rig.joins(3..=4),
        StreamMessage::Presence {
            events: vec![leave],
        },
    ])
    .await;

    assert_eq!(rig.verdict(3).await, JoinVerdict::Joined);
    assert_eq!(rig.verdict(4).await, JoinVerdict::Late(LateReason::Closed));
    assert_eq!(rig.eligibility(1).await, Some(Eligibility::Eligible));
    assert_eq!(rig.select(10).await, before);
    rig.set_status("cancelled").await;
    rig.handle(vec![rig.joins([5])]).await;
    assert_eq!(
        rig.verdict(5).await,
        JoinVerdict::Late(LateReason::Cancelled)
    );
    rig.assert_counts_add_up().await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_counts_on_its_first_delivery_and_after_everything_before_it() {
    let rig = Rig::start(Bag::default()).await;
    let barrier = |draw_token| {
        let pass = BarrierPass {
            activity_id: BAG,
            draw_token,
        };
        first_delivery(StreamMessage::Barrier { passes: vec![pass] })
    };

    let run = vec![
        first_delivery(rig.joins([1])),
        barrier(1),
        again(&barrier(2)),
        barrier(1),
    ];
    let verdicts = rig.consumer.handle(run).await.unwrap();

    assert_eq!(verdicts, vec![Verdict::Ack; 4]);
    assert_eq!(rig.candidates.barriers_passed(BAG, 1).await.unwrap(), [0]);
    assert!(
        rig.candidates
            .barriers_passed(BAG, 2)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(rig.candidates.admitted_total().await.unwrap() > 0);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_consumers_of_one_partition_at_once_do_no_harm() {
    let rig = Rig::start(Bag {
        one_entry_per_device: true,
        ..Bag::default()
    })
    .await;
    let stream: Vec<Delivery> = (0..40)
        .map(|part| {
            let users = (part * 10)..(part * 10 + 40);
            let joins = users.clone().map(|user| JoinRequest {
                device_id: Some(format!("shared by two {}", user / 2)),
                ..rig.join(user + 1)
            });
            let leaves = users.map(|user| {
                rig.presence(user + 1, PresenceKind::Leave, i64::try_from(user).unwrap())
            });
            if part % 2 == 0 {
                StreamMessage::Joins {
                    joins: joins.collect(),
                }
            } else {
                StreamMessage::Presence {
                    events: leaves.collect(),
                }
            }
        })
        .map(first_delivery)
        .collect();
    let other = StreamConsumer::new(rig.candidates.clone(), 0, rig.stop.clone());

    let handle = async |consumer: &StreamConsumer| {
        for run in stream.chunks(3) {
            consumer.handle(run.to_vec()).await.unwrap();
        }
    };
    tokio::join!(handle(&rig.consumer), handle(&other));

    let users = rig.count("SELECT COUNT(*) FROM participation").await;
    assert_eq!(users, 420);
    rig.assert_counts_add_up().await;
    let exact = rig.select_exact(1_000).await;
    assert_eq!(rig.select(1_000).await.ranked, exact.ranked);
    rig.end().await;
}

/// Whatever the stream brings, in whatever portions and however often: both paths agree.
#[tokio::test(flavor = "multi_thread")]
async fn both_paths_agree_after_any_stream() {
    for (seed, presence_rule) in [(1, "pause"), (2, "forfeit"), (3, "ignore")] {
        let rig = Rig::start(Bag {
            presence_rule,
            tasks: r#"[{"taskId": "follow", "title": "Follow"}]"#,
            trim_after: 20,
            trim_floor: 0.3,
            ..Bag::default()
        })
        .await;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut stream = Vec::new();
        for _ in 0..60 {
            let mut user = || rng.random_range(1..200_u64);
            let message = match stream.len() % 3 {
                0 => rig.joins([user(), user(), user(), user()]),
                1 => StreamMessage::Presence {
                    events: vec![
                        rig.presence(user(), PresenceKind::Leave, i64::try_from(user()).unwrap()),
                        rig.presence(user(), PresenceKind::Enter, i64::try_from(user()).unwrap()),
                    ],
                },
                _ => StreamMessage::Tasks {
                    events: (0..20)
                        .map(|_| TaskEvent {
                            activity_id: BAG,
                            user_id: UserId(user()),
                            task_id: "follow".to_owned(),
                            completed_at: rig.at(30),
                        })
                        .collect(),
                },
            };
            stream.push(first_delivery(message));
        }
        let mut with_repeats: Vec<Delivery> = stream.clone();
        with_repeats.shuffle(&mut rng);
        with_repeats.extend(stream.iter().map(again));

        for run in with_repeats.chunks(5) {
            rig.consumer.handle(run.to_vec()).await.unwrap();
        }

        rig.assert_counts_add_up().await;
        assert!(
            rig.count("SELECT COUNT(*) FROM participation WHERE is_trimmed")
                .await
                > 0
        );
        for count in [1, 5, 1_000] {
            let (selected, exact) = (rig.select(count).await, rig.select_exact(count).await);
            assert_eq!(selected.ranked, exact.ranked);
            assert_eq!(selected.eligible_count, exact.eligible_count);
            assert_eq!(selected.joined_count, exact.joined_count);
        }
        assert_eq!(rig.select(1).await.path, SelectionPath::Fast);
        assert_eq!(rig.select(1_000).await.path, SelectionPath::Exact);
        rig.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_was_tampered_with_changes_no_winner() {
    let rig = Rig::start(Bag::default()).await;
    rig.handle(vec![rig.joins(1..=200)]).await;
    rig.assert_selects(SelectionPath::Fast).await;
    let best = ranked(1..=200)[0];
    let shard = Shard::of(best);
    let pool = rig.keys().candidate(BAG, shard);

    let () = rig.redis.zrem(&pool, best.to_string()).await.unwrap();
    rig.assert_selects(SelectionPath::Exact).await;
    // While another process is at it, this one leaves the pool alone.
    let claim = rig.keys().mutex(&rig.keys().candidate(BAG, Shard::of(0)));
    let () = rig.redis.set(&claim, "1", None, None, false).await.unwrap();
    assert_eq!(rig.candidates.rebuild(BAG).await.unwrap(), None);
    rig.assert_selects(SelectionPath::Exact).await;
    let () = rig.redis.del(&claim).await.unwrap();
    assert_eq!(rig.candidates.rebuild(BAG).await.unwrap(), Some(200));
    rig.assert_selects(SelectionPath::Fast).await;

    let () = rig
        .redis
        .zadd(
            &pool,
            None,
            None,
            false,
            false,
            (0.999_99, best.to_string()),
        )
        .await
        .unwrap();
    rig.assert_selects(SelectionPath::Exact).await;
    let () = rig
        .redis
        .del(rig.keys().revision(BAG, shard))
        .await
        .unwrap();
    rig.assert_selects(SelectionPath::Exact).await;
    rig.candidates.rebuild(BAG).await.unwrap();
    rig.assert_selects(SelectionPath::Fast).await;

    for shard in Shard::all() {
        let () = rig
            .redis
            .del(rig.keys().candidate(BAG, shard))
            .await
            .unwrap();
        let () = rig
            .redis
            .del(rig.keys().revision(BAG, shard))
            .await
            .unwrap();
    }
    rig.assert_selects(SelectionPath::Exact).await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn participants_are_counted_once_and_again_when_redis_loses_them() {
    let rig = Rig::start(Bag::default()).await;
    let count = async || rig.candidates.participant_count(BAG).await.unwrap();
    // Again and in any order, as after a death between the pool and the ack.
    for joins in [1..=60, 41..=100, 1..=60] {
        rig.handle(vec![rig.joins(joins)]).await;
    }
    assert_eq!(count().await, 100);

    let lost = rig.keys().partake(BAG, Shard::of(3));
    let () = rig.redis.del(&lost).await.unwrap();
    assert_eq!(count().await, 100);
    eventually("Redis knows them again", async || {
        rig.candidates.rebuild_lagging().await.unwrap();
        let known: u64 = rig.redis.scard(&lost).await.unwrap();
        known > 0
    })
    .await;
    assert_eq!(count().await, 100);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_joins_are_admitted_and_later_shown() {
    let upstream = env("LUCKYBAG__REDIS__URL").replace("redis://", "");
    let proxy = Proxy::start(upstream).await;
    let rig = Rig::with(Bag::default(), &format!("redis://{}", proxy.addr())).await;
    rig.handle(vec![rig.joins(1..=50)]).await;
    rig.assert_selects(SelectionPath::Fast).await;
    proxy.stall();
    let started_at = Instant::now();

    for part in 0..10 {
        rig.handle(vec![rig.joins((51 + part * 10)..(61 + part * 10))])
            .await;
    }

    // Two seconds, and then Redis is left alone; the 16 shards one after another would take minutes.
    assert!(
        started_at.elapsed() < Duration::from_mins(1),
        "{:?}",
        started_at.elapsed()
    );
    assert_eq!(rig.count("SELECT COUNT(*) FROM participation").await, 150);
    assert_eq!(users(&rig.select(150).await), ranked(1..=150));
    assert_eq!(rig.verdict(150).await, JoinVerdict::Joined);
    assert_eq!(rig.candidates.participant_count(BAG).await.unwrap(), 150);

    proxy.resume();
    eventually("the pool has been rebuilt", async || {
        rig.candidates.rebuild_lagging().await.is_ok()
            && rig.select(150).await.path == SelectionPath::Fast
    })
    .await;
    rig.assert_selects(SelectionPath::Fast).await;
    assert_eq!(rig.candidates.participant_count(BAG).await.unwrap(), 150);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_lost_everything_is_filled_again() {
    let rig = Rig::start(Bag::default()).await;
    rig.handle(vec![rig.joins(1..=100)]).await;
    assert_eq!(rig.candidates.rebuild_lagging().await.unwrap(), 0);
    for shard in Shard::all() {
        let () = rig
            .redis
            .del(rig.keys().candidate(BAG, shard))
            .await
            .unwrap();
        let () = rig
            .redis
            .del(rig.keys().revision(BAG, shard))
            .await
            .unwrap();
    }
    let () = rig
        .redis
        .set(
            rig.keys().user_state(BAG, UserId(1)),
            "{",
            None,
            None,
            false,
        )
        .await
        .unwrap();

    eventually("the pool is right again", async || {
        rig.candidates.rebuild_lagging().await.unwrap();
        rig.select(5).await.path == SelectionPath::Fast
    })
    .await;

    assert_eq!(rig.verdict(1).await, JoinVerdict::Joined);
    rig.assert_selects(SelectionPath::Fast).await;
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_readers_keeps_neither_the_stream_nor_the_draw_from_mysql() {
    let rig = Rig::start(Bag::default()).await;
    rig.handle(vec![rig.joins(1..=10)]).await;
    let crowd = rig.mysql_reads.acquire_many(8).await.unwrap();
    let stranger = || rig.candidates.participant(BAG, UserId(99));

    let refused = stranger().await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused:?}");
    // Redis has this one.
    assert_eq!(rig.verdict(1).await, JoinVerdict::Joined);
    rig.handle(vec![rig.joins(11..=20)]).await;
    rig.assert_selects(SelectionPath::Fast).await;

    drop(crowd);
    assert_eq!(stranger().await.unwrap(), None);
    rig.handle(vec![rig.joins(99..=99)]).await;
    assert_eq!(rig.verdict(99).await, JoinVerdict::Joined);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_mysql_the_stream_is_held_and_then_goes_on() {
    let rig = Rig::start(Bag::default()).await;
    let url = env("LUCKYBAG__MYSQL__URL");
    let (user, server) = url.rsplit_once('@').unwrap();
    let proxy = Proxy::start(server.split_once('/').unwrap().0).await;
    let through_proxy = mysql::connect_lazy(&MySqlOptions {
        url: &format!("{user}@{}/{}", proxy.addr(), rig.name),
        max_connections: 2,
        acquire_timeout: Duration::from_millis(500),
    })
    .unwrap();
    let clock = Arc::new(DatabaseClock::new(rig.db.clone()));
    let settings = Settings::load().unwrap();
    let candidates = service(
        &settings,
        &through_proxy,
        &rig.redis,
        &rig.broker,
        &clock,
        &rig.mysql_reads,
    );
    let consumer = StreamConsumer::new(candidates, 0, rig.stop.clone());
    let pass = BarrierPass {
        activity_id: BAG,
        draw_token: 1,
    };
    let run = vec![
        first_delivery(rig.joins(1..=20)),
        first_delivery(StreamMessage::Barrier { passes: vec![pass] }),
    ];
    proxy.refuse();
    proxy.cut();

    let handling = consumer.handle(run.clone());
    let back_later = async {
        nothing_happens_for(Duration::from_millis(1_500)).await;
        assert_eq!(rig.count("SELECT COUNT(*) FROM participation").await, 0);
        proxy.resume();
    };
    let (verdicts, ()) = tokio::join!(handling, back_later);

    assert_eq!(verdicts.unwrap(), [Verdict::Ack, Verdict::Ack]);
    assert_eq!(rig.candidates.barriers_passed(BAG, 1).await.unwrap(), [0]);
    rig.assert_counts_add_up().await;
    assert!(rig.dead_letters().await.is_empty());

    // A stop ends the hold and leaves the messages to the next consumer.
    proxy.refuse();
    proxy.cut();
    rig.stop.cancel();
    assert_eq!(consumer.handle(run).await, None);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_way_through_the_broker() {
    let rig = Rig::start(Bag::default()).await;
    let consumer = StreamConsumer::new(rig.candidates.clone(), 0, rig.supervisor.stop_token());
    let (broker, stop) = (rig.broker.clone(), rig.supervisor.stop_token());
    rig.supervisor.spawn("stream", async move {
        broker.consume_ordered(0, Arc::new(consumer), stop).await;
    });

    for part in 0..20_u64 {
        let joins = rig.joins((part * 100 + 1)..=(part * 100 + 100));
        let message = joins.into_outgoing(0, format!("m-{part}"));
        rig.broker.publish(message).await.unwrap();
    }
    let pass = BarrierPass {
        activity_id: BAG,
        draw_token: 1,
    };
    let barrier = StreamMessage::Barrier { passes: vec![pass] };
    rig.broker
        .publish(barrier.into_outgoing(0, "b".to_owned()))
        .await
        .unwrap();

    eventually("the barrier has passed", async || {
        !rig.candidates
            .barriers_passed(BAG, 1)
            .await
            .unwrap()
            .is_empty()
    })
    .await;
    assert_eq!(rig.count("SELECT COUNT(*) FROM participation").await, 2_000);
    rig.assert_selects(SelectionPath::Fast).await;
    eventually("the queue is empty", async || {
        rig.broker.queue_depth(Queue::Stream(0)).await.unwrap() == 0
    })
    .await;
    rig.end().await;
}
