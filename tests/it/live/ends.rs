//! How streams end: with their token, and with their process.

use std::time::Duration;

use luckybag::{
    http::{NewToken, Role, issue_token},
    kernel::{Clock, SystemClock, UserId},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Stream, names};
use crate::harness::{BagSpec, World, authority, eventually, metric, metrics_page};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_token() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let short = NewToken {
        user_id: UserId(7),
        roles: vec![Role::Viewer],
        rooms: vec![],
        ttl: Duration::from_secs(12),
    };
    let token = issue_token(&world.settings().auth, &short, SystemClock.now()).expect("a token");

    let mut stream = Stream::open(&api, &token, &bag.path("/events")).await;
    let events = stream.rest().await;

    assert_eq!(
        names(&events),
        ["status", "participants", "end"],
        "{}",
        stream.text
    );
    assert_eq!(events[2].data, json!({ "reason": "tokenExpired" }));
    let answer = api.get(&token, &bag.path("/events")).await;
    answer.expect_problem(401, "unauthorized");

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_no_stream_and_clients_go_on_at_another_process() {
    let world = World::new().await;
    let (stopping, other) = (world.serve().await, world.serve().await);
    let (api, at_other) = (world.api(&stopping).await, world.api(&other).await);
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let mut streams = Vec::new();
    for user in 101..=120 {
        let mut stream = api.listen(&bag, user).await;
        stream.next_named("participants").await;
        streams.push(stream);
    }
    let silent = unread_stream(&api.url, &api.viewer(99), &bag.path("/events")).await;
    eventually("all streams to be open", async || {
        let page = metrics_page(&api.url).await;
        let open = metric(&page, "luckybag_live_streams");
        if open == Some(21.0) {
            Ok(())
        } else {
            Err(open)
        }
    })
    .await;

    // Exits with an error when something does not end in its time.
    stopping.stop().await;

    for (user, mut stream) in (101..).zip(streams) {
        let events = stream.rest().await;
        assert_eq!(names(&events), ["end"], "{}", stream.text);
        assert_eq!(events[0].data, json!({ "reason": "stopping" }));
        let (token, path) = (at_other.viewer(user), bag.path("/events"));
        drop(Stream::reopen(&at_other, &token, &path, &stream.last_id).await);
    }
    assert!(all_of(silent).await.contains("\"stopping\""));
    other.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_holds_nobody_up_and_finds_the_newest_when_it_does() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let unread = unread_stream(&api.url, &api.viewer(99), &bag.path("/events")).await;
    let mut reader = api.listen(&bag, 7).await;

    api.join_all(&bag, 101..=130).await;
    reader
        .next_where("participants", |data| data["count"] == 30)
        .await;
    world.draw_soon(&[bag]).await;
    reader.next_named("drawn").await;
    process.stop().await;

    let text = all_of(unread).await;
    assert!(text.contains("{\"count\":30}"), "{text}");
    assert_eq!(text.matches("event: drawn").count(), 1, "{text}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_is_given_up_and_a_stop_does_not_wait_for_it() {
    let world = World::new().await;
    let process = world
        .serve_with(&[("SERVER__SEND_TIMEOUT_SECS", "2")])
        .await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let mut reader = api.listen(&bag, 7).await;
    let silent = TcpStream::connect(authority(&api.url))
        .await
        .expect("connected");

    // So many answers that no buffer on the way holds them, and none of them is read.
    let questions = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
    eventually("the connection to be closed", async || {
        match silent.try_write(questions.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => Ok(()),
            other => Err(other),
        }
    })
    .await;

    api.join_all(&bag, [101]).await;
    let is_one = |data: &serde_json::Value| data["count"] == 1;
    reader.next_where("participants", is_one).await;
    process.stop().await;
    world.end().await;
}

/// A stream that was asked for, and of which nothing has been read.
async fn unread_stream(url: &str, token: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(authority(url)).await.expect("connected");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream
}

async fn all_of(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    stream
        .read_to_end(&mut text)
        .await
        .expect("read to the end");
    String::from_utf8(text).expect("text")
}
