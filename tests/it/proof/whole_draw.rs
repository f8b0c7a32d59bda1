//! A draw with everybody in it, from the commitment to the verified proof.

use serde_json::{Value, json};

use super::{
    staying,
    verifiers::{TestFile, assert_verified, python, rust, verify, verify_stdin},
};
use crate::harness::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_real_draw_is_proven_to_winners_losers_and_everybody_else() {
    let world = World::new().await;
    let process = world.serve().await;
    let amqp = world.amqp().await;
    let exchange = world.topology().events_exchange();
    let mut published = amqp.listen(&exchange, "proof.published").await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&staying(8001)).await;
    let committed = api.get(&api.viewer(1), &bag.path("")).await.expect(200);

    let cast = world.cast(&api, &bag).await;
    let proof = api.proof(&bag).await;

    let shown: Value = serde_json::from_str(&proof).unwrap();
    assert_eq!(shown["commitment"], committed["commitment"]);
    let rules: Value = serde_json::from_str(shown["rules"].as_str().unwrap()).unwrap();
    assert_eq!(rules, committed["rules"]);
    assert_eq!(shown["entriesCount"], 7, "late ones are no entries");
    let seats = shown["winners"].as_array().unwrap().iter();
    let users: Vec<u64> = seats
        .map(|winner| winner["userId"].as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(users, cast.winners);
    assert_verified((&proof, None));
    check_entries(&api, &bag, &cast, &proof).await;
    check_command(&proof, &api.entry(&bag, cast.losers[0]).await);

    let event = published.next().await;
    assert_eq!(event["data"]["activityId"], bag.id.to_string());
    assert_eq!(event["data"]["entriesRoot"], shown["entriesRoot"]);
    assert_eq!(event["data"]["entriesCount"], 7);
    let detail = api.get(&api.viewer(1), &bag.path("")).await.expect(200);
    assert_eq!(detail["proofPublishedAt"], event["data"]["publishedAt"]);
    let audited = api
        .get(&api.operator(), &bag.path("/audit?limit=200"))
        .await
        .expect(200);
    let actions = audited["items"].as_array().unwrap().iter();
    let published = actions.filter(|entry| entry["action"] == "proof.publish");
    assert_eq!(published.count(), 1, "{audited}");

    amqp.close().await;
    process.stop().await;
    world.end().await;
}

async fn check_entries(
    api: &crate::harness::Api,
    bag: &crate::harness::Bag,
    cast: &super::Cast,
    proof: &str,
) {
    let shown = async |user: u64| -> Value {
        let entry = api.entry(bag, user).await;
        assert_verified((proof, Some(&entry)));
        serde_json::from_str(&entry).unwrap()
    };
    for (seat, winner) in (1..).zip(&cast.winners) {
        let entry = shown(*winner).await;
        assert_eq!(entry["rank"], seat);
        assert_eq!(entry["entry"]["eligibility"], "eligible");
    }
    for loser in &cast.losers {
        let entry = shown(*loser).await;
        assert!(entry.get("rank").is_none(), "{entry}");
        assert_eq!(entry["entry"]["eligibility"], "eligible");
    }
    let absent = shown(cast.absent).await;
    assert_eq!(absent["entry"]["status"], "joined");
    assert_eq!(absent["entry"]["eligibility"], "absent");
    let rejected = shown(cast.rejected).await;
    assert_eq!(rejected["entry"]["status"], "rejected");
    assert_eq!(rejected["entry"]["reason"], "blocked");
    assert_eq!(rejected["entry"]["eligibility"], json!(null));
    api.no_entry(bag, cast.late).await;
    api.no_entry(bag, 4_711).await;
    // Somebody else's entry is not told to be another's.
    let own = shown(cast.absent).await;
    let others = shown(cast.rejected).await;
    assert_ne!(own["entry"]["salt"], others["entry"]["salt"]);
}

/// The command line, with its exit codes.
fn check_command(proof: &str, entry: &str) {
    let (proof_file, entry_file) = (TestFile::new(proof), TestFile::new(entry));
    let alone = verify(&[proof_file.name()]);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    assert_eq!(alone.stderr, "");
    assert!(alone.stdout.contains("7 entries"), "{}", alone.stdout);
    assert!(alone.stdout.contains("2 of 2 seats"), "{}", alone.stdout);
    let with_entry = verify(&[proof_file.name(), "--entry", entry_file.name()]);
    assert_eq!(with_entry.code, Some(0), "{with_entry:?}");
    assert!(
        with_entry
            .stdout
            .starts_with(&alone.stdout.trim_end().to_owned())
    );
    let from_stdin = verify_stdin(&proof_file);
    assert_eq!(from_stdin.code, Some(0), "{from_stdin:?}");
    assert_eq!(from_stdin.stdout, alone.stdout);

    let tampered = TestFile::new(&proof.replace("\"round\":1,\"cutoff", "\"round\":2,\"cutoff"));
    let refused = verify(&[tampered.name()]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_eq!(refused.stdout, "");
    assert!(refused.stderr.contains("round: "), "{refused:?}");
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    let swapped = verify(&[entry_file.name(), "--entry", proof_file.name()]);
    assert_eq!(swapped.code, Some(1), "{swapped:?}");
    assert!(swapped.stderr.contains("format: "), "{swapped:?}");
    for (args, code) in [
        (&["/nowhere/proof.json"][..], 1),
        (&[], 2),
        (&[proof_file.name(), "--entry"], 2),
        (&[proof_file.name(), entry_file.name()], 2),
    ] {
        let refused = verify(args);
        assert_eq!(refused.code, Some(code), "{args:?}: {refused:?}");
        assert_eq!(refused.stdout, "", "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redrawn_seats_are_proven_until_nobody_is_left() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&staying(8001)).await;
    let cast = world.cast(&api, &bag).await;
    let before = api.proof(&bag).await;

    // Three eligible ones are left: they take the seats in turn, then seat 2 stays empty.
    for (round, seats) in [(2, &[2][..]), (3, &[1, 2]), (4, &[2])] {
        api.take_back(&world, &bag, seats).await;
        let proof = api.proof_of_round(&bag, round).await;

        assert_verified((&proof, None));
        for user in cast.winners.iter().chain(&cast.losers) {
            let entry = api.entry(&bag, *user).await;
            assert_verified((&proof, Some(&entry)));
        }
    }
    let last = api.proof(&bag).await;
    let shown: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(shown["winners"].as_array().unwrap().len(), 5);
    assert_eq!(shown["redraws"][2], json!({ "round": 4, "seats": [2] }));

    // An entry that has won meanwhile does not go with the older proof, nor the other way round.
    let promoted: u64 = world
        .wins(bag.id)
        .await
        .iter()
        .find(|w| w.round == 2)
        .unwrap()
        .user_id;
    let entry = api.entry(&bag, promoted).await;
    let pair = (before.as_str(), Some(entry.as_str()));
    for said in [&rust(pair), &python(&[pair])[0]] {
        assert!(said.starts_with("entry file: rank: "), "{said}");
    }

    process.stop().await;
    world.end().await;
}
