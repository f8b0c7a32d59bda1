//! Who takes a seat, round after round, until nobody is left.

use serde_json::{Value, json};

use super::{REASON, drawn_bag, number, standings, until_all_tell};
use crate::harness::{Api, Bag, World, eventually};

/// An answer in short.
#[derive(Debug, PartialEq)]
struct Told {
    round: u64,
    /// Seat and user.
    revoked: Vec<(u64, u64)>,
    /// Seat, user and prize.
    replaced: Vec<(u64, u64, String)>,
    empty: Vec<u64>,
}

fn told(answer: &Value) -> Told {
    let list = |name: &str| answer[name].as_array().expect("a list").clone();
    let seat = |value: &Value| value["seat"].as_u64().expect("a seat");
    let user = |value: &Value| number(&value["userId"]);
    let prize = |value: &Value| value["prize"]["name"].as_str().expect("a name").to_owned();
    let revoked = list("revoked");
    let replaced = list("replaced");
    let empty = list("emptySeats");
    Told {
        round: answer["round"].as_u64().expect("a round"),
        revoked: revoked.iter().map(|one| (seat(one), user(one))).collect(),
        replaced: replaced
            .iter()
            .map(|one| (seat(one), user(one), prize(one)))
            .collect(),
        empty: empty
            .iter()
            .map(|seat| seat.as_u64().expect("a seat"))
            .collect(),
    }
}

/// Revokes whoever holds these seats, twice, and answers what was told.
async fn redraw_seats(world: &World, api: &Api, bag: &Bag, seats: &[u32]) -> Value {
    let mut ids = Vec::new();
    for seat in seats {
        ids.push(world.holder(bag, *seat).await.id);
    }
    let answer = api.redraw(bag, &ids).await.expect(200);
    let before = world.wins(bag.id).await;
    ids.reverse();
    assert_eq!(api.redraw(bag, &ids).await.expect(200), answer, "a repeat");
    assert_eq!(world.wins(bag.id).await, before, "a repeat wrote");
    assert_eq!(answer["activityId"], bag.id.to_string());
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seat_goes_to_the_next_who_never_won_until_nobody_is_left() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = drawn_bag(&world, &api, 5).await;
    let best = standings(&world, &bag).await;
    let cutoff = api.drawn(&bag).await["cutoffScore"].clone();
    let mug = |seat: u64, user: u64| (seat, user, "Mug".to_owned());

    let second = redraw_seats(&world, &api, &bag, &[2]).await;
    assert_eq!(
        told(&second),
        Told {
            round: 2,
            revoked: vec![(2, best[1])],
            replaced: vec![mug(2, best[3])],
            empty: vec![]
        }
    );
    assert_eq!(world.handed_out(&bag).await, (3, 0));

    let third = redraw_seats(&world, &api, &bag, &[2]).await;
    assert_eq!(
        told(&third),
        Told {
            round: 3,
            revoked: vec![(2, best[3])],
            replaced: vec![mug(2, best[4])],
            empty: vec![]
        }
    );

    let fourth = redraw_seats(&world, &api, &bag, &[2]).await;
    assert_eq!(
        told(&fourth),
        Told {
            round: 4,
            revoked: vec![(2, best[4])],
            replaced: vec![],
            empty: vec![2]
        }
    );
    assert_eq!(world.handed_out(&bag).await, (2, 0), "one piece is back");
    assert_eq!(world.holders(&bag).await, [(1, best[0]), (3, best[2])]);

    let fifth = redraw_seats(&world, &api, &bag, &[3, 1]).await;
    assert_eq!(
        told(&fifth),
        Told {
            round: 5,
            revoked: vec![(1, best[0]), (3, best[2])],
            replaced: vec![],
            empty: vec![1, 3]
        }
    );
    assert_eq!(world.handed_out(&bag).await, (0, 0), "all pieces are back");

    assert_all_revoked(&api, &bag, &best, &cutoff).await;
    for answer in [&second, &third, &fourth] {
        // Nothing is forgotten: each round still gets its answer.
        let ids = [number(&answer["revoked"][0]["winRecordId"])];
        assert_eq!(api.redraw(&bag, &ids).await.expect(200), *answer);
    }
    assert_audited(&api, &bag, &[&second, &third, &fourth, &fifth]).await;
    world.nothing_owed().await;

    process.stop().await;
    world.end().await;
}

async fn assert_all_revoked(api: &Api, bag: &Bag, best: &[u64], cutoff: &Value) {
    let everybody: Vec<(u64, &str)> = best.iter().map(|user| (*user, "revoked")).collect();
    until_all_tell(std::slice::from_ref(api), bag, &everybody).await;
    // That of the detail, which the process remembers for a moment.
    let result = eventually("the last round", async || {
        let result = api.result(bag, best[1]).await;
        if result["round"] == 5 {
            Ok(result)
        } else {
            Err(result)
        }
    })
    .await;
    assert_eq!((&result["round"], result.get("win")), (&json!(5), None));
    assert_eq!(result["cutoffScore"], *cutoff, "that of the draw");
    assert_eq!(api.winners(bag).await, [0_u64; 0]);
}

/// The audit says who revoked whom and why, and who took the seats.
async fn assert_audited(api: &Api, bag: &Bag, answers: &[&Value]) {
    let path = bag.path("/audit?limit=200");
    let records = api.get(&api.operator(), &path).await.expect(200);
    let records = records["items"].as_array().expect("a list").clone();
    let redraws: Vec<&Value> = records
        .iter()
        .filter(|record| record["action"] == "activity.redraw")
        .collect();
    assert_eq!(redraws.len(), answers.len());
    for (record, answer) in redraws.iter().zip(answers) {
        assert_eq!(record["actor"], "user:1", "{record}");
        let detail = &record["detail"];
        assert_eq!(detail["reason"], REASON, "{record}");
        assert_eq!(detail["round"], answer["round"], "{record}");
        assert_eq!(detail["revoked"], answer["revoked"], "{record}");
        assert_eq!(detail["emptySeats"], answer["emptySeats"], "{record}");
        let taken: Vec<Value> = answer["replaced"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| {
                json!({
                    "winRecordId": one["winRecordId"],
                    "userId": one["userId"],
                    "seat": one["seat"],
                })
            })
            .collect();
        assert_eq!(detail["replaced"], json!(taken), "{record}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn seats_of_one_round_take_the_next_in_ascending_order_as_far_as_they_go() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = drawn_bag(&world, &api, 5).await;
    let best = standings(&world, &bag).await;

    let answer = redraw_seats(&world, &api, &bag, &[3, 1, 2]).await;

    let Told {
        revoked,
        replaced,
        empty,
        ..
    } = told(&answer);
    assert_eq!(revoked, [(1, best[0]), (2, best[1]), (3, best[2])]);
    assert_eq!(
        replaced,
        [
            (1, best[3], "Phone".to_owned()),
            (2, best[4], "Mug".to_owned())
        ]
    );
    assert_eq!(empty, [3]);
    assert_eq!(world.handed_out(&bag).await, (2, 0));
    let wins = world.wins(bag.id).await;
    let taken = wins.iter().find(|win| win.user_id == best[3]);
    let taken = taken.expect("a record");
    assert_eq!((taken.seat, taken.round, taken.prize_rank), (1, 2, 1));
    assert_eq!(taken.prize_id, wins[0].prize_id);
    let score = world.entrants(bag.id).await[3].score.value();
    assert_eq!(taken.score.to_bits(), score.to_bits());

    process.stop().await;
    world.end().await;
}

/// Absent participants are passed over, and so are rejected ones.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_eligible_take_a_seat() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = drawn_bag(&world, &api, 7).await;
    let best = standings(&world, &bag).await;
    // As they would have been at the freeze: one had left, one was rejected.
    world
        .execute(&format!(
            "UPDATE activity SET presence_rule = 'forfeit' WHERE id = {}",
            bag.id
        ))
        .await;
    world
        .execute(&format!(
            "INSERT INTO presence (activity_id, user_id, last_leave_at) \
             SELECT activity_id, user_id, accepted_at FROM participation WHERE user_id = {}",
            best[3]
        ))
        .await;
    world
        .execute(&format!(
            "UPDATE participation SET status = 'rejected', reason = 'blocked' WHERE user_id = {}",
            best[4]
        ))
        .await;

    let answer = redraw_seats(&world, &api, &bag, &[1, 2, 3]).await;

    let Told {
        replaced, empty, ..
    } = told(&answer);
    let users: Vec<u64> = replaced.iter().map(|(_, user, _)| *user).collect();
    assert_eq!(users, [best[5], best[6]]);
    assert_eq!(empty, [3]);

    process.stop().await;
    world.end().await;
}
