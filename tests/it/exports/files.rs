//! The content of both files against what MySQL says.

use luckybag::{
    candidate::Standing,
    kernel::{Timestamp, UserId, format_timestamp},
};
use sea_orm::{ConnectionTrait, FromQueryResult, Value};
use serde_json::{Value as Json, json};

use super::Export;
use crate::harness::{Api, Bag, BagSpec, World};
use luckybag::infra::mysql::sql;

const HOSTILE: [&str; 19] = [
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@x",
    "\tafter a tab",
    "\rafter a CR",
    "say \"hi\", then; go",
    "two\r\nlines",
    "＝1+1",
    " =HYPERLINK(\"http://x\")",
    "'quoted'",
    "中文礼物",
    "🎁 emoji",
    "0012",
    "Mug;=1+1;x",
    "Mug\t=1+1",
    "Mug\r\n-1",
    "Mug; \"@x\"",
    "Mug;'x",
];

/// One prize with each of these names, and one more entrant than prizes.
async fn drawn_bag(world: &World, api: &Api) -> Bag {
    let prizes: Vec<Json> = (0..HOSTILE.len())
        .map(|_| json!({ "name": "Mug", "kind": "physical", "quantity": 1 }))
        .collect();
    let spec = BagSpec {
        extra: json!({ "prizes": prizes }),
        ..BagSpec::waiting()
    };
    let bag = api.open_bag(&spec).await;
    // The API takes no control characters in a name; a file must hold whatever is there.
    for (rank, name) in (1_u32..).zip(HOSTILE) {
        let update = "UPDATE activity_prize SET name = ? WHERE activity_id = ? AND prize_rank = ?";
        let values: [Value; 3] = [name.into(), bag.id.into(), rank.into()];
        let renamed = world.db.execute_raw(sql(update, values)).await;
        renamed.expect("a new name");
    }
    let crowd = u64::try_from(HOSTILE.len()).expect("a few") + 1;
    let first = 9_223_372_036_854_775_000;
    api.join_all(&bag, first..first + crowd).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    bag
}

#[derive(FromQueryResult)]
struct StoredWin {
    id: u64,
    user_id: u64,
    seat: u32,
    round: u32,
    prize_id: u64,
    prize_rank: u32,
    score: f64,
    status: String,
    drawn_at: Timestamp,
    revoked_round: Option<u32>,
    revoked_at: Option<Timestamp>,
    fulfilment: String,
    fulfilment_ref: Option<String>,
    name: String,
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// What the file has to hold.
async fn stored_wins(world: &World, bag: &Bag) -> Vec<Vec<String>> {
    let wins = StoredWin::find_by_statement(sql(
        "SELECT w.*, p.name FROM win_record w JOIN activity_prize p \
         ON p.activity_id = w.activity_id AND p.prize_rank = w.prize_rank \
         WHERE w.activity_id = ? ORDER BY w.seat, w.round",
        [bag.id.into()],
    ))
    .all(&world.db)
    .await
    .expect("the wins are read");
    let row = |win: StoredWin| {
        vec![
            win.seat.to_string(),
            win.round.to_string(),
            win.status,
            win.user_id.to_string(),
            win.id.to_string(),
            win.prize_rank.to_string(),
            win.prize_id.to_string(),
            win.name,
            "physical".to_owned(),
            win.score.to_string(),
            format_timestamp(win.drawn_at),
            text(win.revoked_round),
            text(win.revoked_at.map(format_timestamp)),
            win.fulfilment,
            text(win.fulfilment_ref),
        ]
    };
    wins.into_iter().map(row).collect()
}

/// The cells as a program sees them that takes something else for the separator.
fn split_at(bytes: &[u8], delimiter: u8) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .from_reader(bytes);
    let rows = reader.records().map(|row| row.expect("a row"));
    rows.flat_map(|row| row.iter().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// No cell is a formula, an id is never a number, and lines end as the standard says.
fn assert_safe(export: &Export) {
    assert!(export.bytes.starts_with(b"\xef\xbb\xbf\""));
    assert!(export.bytes.ends_with(b"\"\r\n"));
    // By another separator our quotes end in the first cell of a line.
    for delimiter in [b';', b'\t'] {
        for cell in split_at(&export.bytes, delimiter) {
            let shown = cell.trim_start_matches(|c: char| c == '"' || c.is_whitespace());
            assert!(!shown.starts_with(['=', '+', '-', '@']), "{cell:?}");
        }
    }
    for cell in export.cells.iter().skip(1).flatten() {
        let shown = cell.trim_start();
        let is_formula = shown.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
        assert!(
            !is_formula && !cell.starts_with(['\t', '\r', '\n']),
            "{cell:?}"
        );
        let is_long = cell.len() > 15 && cell.bytes().all(|byte| byte.is_ascii_digit());
        assert!(!is_long, "a spreadsheet would round {cell}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_winners_says_what_mysql_says_and_is_safe_to_open() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = drawn_bag(&world, &api).await;
    let wins = world.wins(bag.id).await;
    for (win, reference) in
        wins.iter()
            .zip(["=1+1", "00123", "订单, \"7\"", "12345678901234567890"])
    {
        let path = format!("/v1/win-records/{}/fulfilment", win.id);
        let body = json!({ "state": "claimed", "reference": reference });
        api.post(&api.service(), &path, Some(body))
            .await
            .expect(200);
    }

    let export = api.export(&bag, "winners").await;
    assert_eq!(export.rows(), stored_wins(&world, &bag).await);
    assert_eq!(export.column("prizeName"), HOSTILE);
    assert_safe(&export);
    let header = |name: &str| export.headers[name].to_str().expect("text").to_owned();
    assert_eq!(
        header("content-type"),
        "text/csv; charset=utf-8; header=present"
    );
    let named = format!("attachment; filename=\"activity-{}-winners.csv\"", bag.id);
    assert_eq!(header("content-disposition"), named);
    assert!(!export.headers.contains_key("content-length"));

    let redrawn = api
        .redraw(&bag, &[wins[0].id, wins[5].id])
        .await
        .expect(200);
    assert_eq!(
        redrawn["emptySeats"],
        json!([6]),
        "one was left to take a seat"
    );
    let export = api.export(&bag, "winners").await;
    assert_eq!(export.rows(), stored_wins(&world, &bag).await);
    let seats = export.column("seat");
    assert_eq!(seats[..3], ["1", "1", "2"]);
    assert_eq!(export.column("status")[..3], ["revoked", "won", "won"]);
    assert_eq!(export.column("revokedRound")[..3], ["2", "", ""]);

    process.stop().await;
    world.end().await;
}

#[derive(FromQueryResult)]
struct StoredParticipation {
    user_id: u64,
    status: String,
    reason: Option<String>,
    is_trimmed: bool,
    accepted_at: Timestamp,
}

/// What the file has to hold in its first columns and, in the end, as `trimmed`.
async fn stored_participations(world: &World, bag: &Bag) -> Vec<([String; 4], String)> {
    let rows = StoredParticipation::find_by_statement(sql(
        "SELECT * FROM participation WHERE activity_id = ? ORDER BY user_id",
        [bag.id.into()],
    ))
    .all(&world.db)
    .await
    .expect("the participations are read");
    let row = |row: StoredParticipation| {
        let first = [
            row.user_id.to_string(),
            row.status,
            text(row.reason),
            format_timestamp(row.accepted_at),
        ];
        (first, row.is_trimmed.to_string())
    };
    rows.into_iter().map(row).collect()
}

fn first_columns(export: &Export) -> Vec<[String; 4]> {
    let pick = |row: Vec<String>| [0, 1, 2, 3].map(|column: usize| row[column].clone());
    export.rows().into_iter().map(pick).collect()
}

/// Users 1001 to 1004 have joined, one of them is done; 1005 was denied; 1006 came too late, and is
/// trimmed.
async fn bag_with_tasks(world: &World, api: &Api) -> Bag {
    let spec = BagSpec {
        winners: 1,
        extra: json!({ "tasks": [{ "taskId": "follow", "title": "Follow" }, { "taskId": "-x", "title": "X" }] }),
        ..BagSpec::waiting()
    };
    let bag = api.open_bag(&spec).await;
    let denied = api
        .put(&api.operator(), &bag.path("/deny-list/1005"), None)
        .await;
    denied.expect(200);
    api.join_all(&bag, 1001..=1005).await;
    for user in 1001..=1005 {
        api.settled(&bag, user).await;
    }
    for user in [1006, 9_223_372_036_854_775_807_u64] {
        world
            .execute(&format!(
                "INSERT INTO participation (activity_id, user_id, status, reason, is_trimmed, \
                 accepted_at, request_id, revision, created_at) \
                 VALUES ({}, {user}, 'late', 'closed', {}, NOW(3), 'r', 1, NOW(3))",
                bag.id,
                user == 1006,
            ))
            .await;
    }
    for task in ["follow", "-x"] {
        world
            .execute(&format!(
                "INSERT INTO task_completion (activity_id, user_id, task_id, completed_at) \
                 VALUES ({}, 1002, '{task}', NOW(3))",
                bag.id
            ))
            .await;
    }
    bag
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_participants_hides_what_tells_of_scores_until_the_proof_is_published() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = bag_with_tasks(&world, &api).await;

    let export = api.export(&bag, "participants").await;
    let (first, trimmed): (Vec<_>, Vec<_>) = stored_participations(&world, &bag)
        .await
        .into_iter()
        .unzip();
    assert_eq!(first_columns(&export), first);
    assert_safe(&export);
    let unfinished = "tasksUnfinished";
    let eligibility = [unfinished, "eligible", unfinished, unfinished, "", "", ""];
    assert_eq!(export.column("eligibility"), eligibility);
    assert_eq!(
        export.column("tasksDone"),
        ["", "-x follow", "", "", "", "", ""]
    );
    for column in ["score", "trimmed"] {
        assert_eq!(
            export.column(column),
            [""; 7],
            "{column} tells who will win"
        );
    }

    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.published(bag.id).await;
    let export = api.export(&bag, "participants").await;
    let seed = world.seed(bag.id).await;
    let score = |user: u64| Standing::of(&seed, UserId(user)).score.value().to_string();
    let mut scores: Vec<String> = (1001..=1004).map(score).collect();
    scores.extend(["", "", ""].map(str::to_owned));
    assert_eq!(export.column("score"), scores);
    assert!(trimmed.iter().any(|trimmed| trimmed == "true"));
    assert_eq!(export.column("trimmed"), trimmed);
    assert_eq!(export.column("eligibility"), eligibility);

    process.stop().await;
    world.end().await;
}
