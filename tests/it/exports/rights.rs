//! Who gets a file, and when there is none.

use luckybag::infra::mysql::sql;
use reqwest::Method;
use sea_orm::ConnectionTrait;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{Api, Bag, BagSpec, World};

async fn exports_in_audit(api: &Api, path: &str) -> Vec<(String, String)> {
    let page = api.get(&api.operator(), path).await.expect(200);
    let entries = page["items"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    entries
        .map(|entry| (text(&entry["actor"]), text(&entry["action"])))
        .filter(|(_, action)| action.starts_with("export."))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_runs_the_room_gets_a_file_and_is_named_in_the_audit() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, [1001]).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;

    for kind in ["participants", "winners"] {
        assert_refused_to_others(&api, &bag, kind).await;
    }
    assert_eq!(exports_in_audit(&api, &bag.path("/audit")).await, []);

    let mut expected = Vec::new();
    for kind in ["participants", "winners"] {
        let export = api.export(&bag, kind).await;
        assert_eq!(export.column("userId"), ["1001"]);
        let path = bag.path(&format!("/{kind}.csv"));
        let by_operator = api.ask_for(Method::GET, &api.operator(), &path).await;
        assert_eq!(by_operator.status(), 200);
        by_operator.bytes().await.expect("the whole file");
        for actor in ["user:2", "user:1"] {
            expected.push((actor.to_owned(), format!("export.{kind}")));
        }
        let told = exports_in_audit(&api, &bag.path("/audit")).await;
        assert_eq!(told, expected);
    }

    process.stop().await;
    world.end().await;
}

/// Who only asks for the head of a file takes nothing out.
async fn assert_refused_to_others(api: &Api, bag: &Bag, kind: &str) {
    let path = bag.path(&format!("/{kind}.csv"));
    for token in [api.viewer(1001), api.host_of(8002), api.service()] {
        let refused = api.get(&token, &path).await;
        refused.expect_problem(403, "forbidden");
    }
    let head = api
        .ask_for(Method::HEAD, &api.host_of(bag.room), &path)
        .await;
    assert_eq!(head.status(), 200);
    let media_type = head.headers()["content-type"].to_str().expect("text");
    assert_eq!(media_type, "text/csv; charset=utf-8; header=present");
    assert!(head.text().await.expect("no body").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_yet_or_any_more_is_told_by_its_name() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let spec = BagSpec::waiting();
    let draft = api.draft(&spec).await;
    let bag = api.open_bag(&spec).await;
    let host = api.host_of(bag.room);

    let participants = format!("/v1/activities/{draft}/participants.csv");
    let empty = api.ask_for(Method::GET, &host, &participants).await;
    assert_eq!(empty.text().await.expect("a file").lines().count(), 1);
    for path in [
        format!("/v1/activities/{draft}/winners.csv"),
        bag.path("/winners.csv"),
    ] {
        api.get(&host, &path).await.expect_problem(409, "not_drawn");
    }
    let nobody = api.get(&host, "/v1/activities/7/participants.csv").await;
    nobody.expect_problem(404, "activity_not_found");

    let ended = "UPDATE activity SET status = 'drawn', drawn_at = NOW(3), round = 1, \
         participants_removed_at = NOW(3), wins_removed_at = NOW(3) WHERE id = ?";
    let ended = world.db.execute_raw(sql(ended, [bag.id.into()])).await;
    ended.expect("the end of its life");
    let gone = api.get(&host, &bag.path("/participants.csv")).await;
    gone.expect_problem(410, "participants_expired");
    let gone = api.get(&host, &bag.path("/winners.csv")).await;
    gone.expect_problem(410, "result_expired");

    process.stop().await;
    world.end().await;
}

/// With HTTP/1.0 an answer ends with its connection: half of it looks like the whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_could_not_tell_the_end_gets_no_file() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let address = api.url.trim_start_matches("http://");

    let mut connection = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "GET {} HTTP/1.0\r\nauthorization: Bearer {}\r\n\r\n",
        bag.path("/participants.csv"),
        api.operator()
    );
    connection.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    connection
        .read_to_string(&mut answer)
        .await
        .expect("an answer");

    assert!(
        answer.contains(" 505 ") && answer.contains("http_1_1_needed"),
        "{answer}"
    );
    process.stop().await;
    world.end().await;
}
