//! Clients that send too slowly, too much, or everything at once.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{Api, BagSpec, World};

/// What is not over by then never is.
const PATIENCE: Duration = Duration::from_mins(1);

fn address(api: &Api) -> &str {
    api.url.strip_prefix("http://").expect("an HTTP URL")
}

async fn connect(api: &Api) -> TcpStream {
    TcpStream::connect(address(api))
        .await
        .expect("a connection")
}

/// A connection on which this was sent.
async fn sent(api: &Api, text: &str) -> TcpStream {
    let mut stream = connect(api).await;
    stream.write_all(text.as_bytes()).await.expect("sent");
    stream
}

/// Everything that is answered until the other side closes the connection, which it has to.
async fn until_closed(mut stream: impl AsyncReadExt + Unpin) -> String {
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    // A close with unread bytes is a reset, after what was answered.
    drop(reading.expect("the connection is closed"));
    String::from_utf8_lossy(&answer).into_owned()
}

/// What is answered to `head` and then one byte after another, without end.
async fn answer_to_dripping(api: &Api, head: &str) -> String {
    let (reading, mut writing) = sent(api, head).await.into_split();
    let mut pace = tokio::time::interval(Duration::from_millis(20));
    let dripping = async {
        loop {
            pace.tick().await;
            if writing.write_all(b"x").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        answer = until_closed(reading) => answer,
        () = dripping => unreachable!("it drips for ever"),
    }
}

fn join_head(api: &Api, path: &str, rest: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\n{rest}\r\n",
        address(api),
        api.viewer(101),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_too_slowly_is_given_up_on() {
    let world = World::new().await;
    let changes = [
        ("SERVER__CLIENT_HEADER_TIMEOUT_MS", "3000"),
        ("SERVER__CLIENT_BODY_TIMEOUT_MS", "3000"),
        ("SERVER__KEEP_ALIVE_SECS", "1"),
    ];
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    let ordinary = world.serve().await;
    let bag = world
        .api(&ordinary)
        .await
        .open_bag(&BagSpec::waiting())
        .await;

    let silent = until_closed(connect(&api).await).await;
    assert!(silent.starts_with("HTTP/1.1 408"), "{silent}");
    let half_a_head = "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ";
    let slow_head = answer_to_dripping(&api, half_a_head).await;
    assert!(slow_head.starts_with("HTTP/1.1 408"), "{slow_head}");
    let head = join_head(&api, &bag.path("/join"), "Content-Length: 4000\r\n");
    let slow_body = answer_to_dripping(&api, &head).await;
    assert!(slow_body.starts_with("HTTP/1.1 408"), "{slow_body}");
    assert!(slow_body.contains("body_timeout"), "{slow_body}");
    let idle = sent(&api, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let idle = until_closed(idle).await;
    assert_eq!(idle.matches("HTTP/1.1 200").count(), 1, "{idle}");

    ordinary.stop().await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_unfinished_request_holds_up_a_stop() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let whole = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

    let mut open = Vec::new();
    for text in [
        "GET /heal",
        &format!("{whole}GET /heal"),
        "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab",
        "POST /v1/prizes HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
    ] {
        open.push(sent(&api, text).await);
    }
    // Whoever is owed an answer has it.
    for (stream, status) in open[1..].iter_mut().zip(["200", "200", "200", "401"]) {
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.expect("an answer");
        assert_eq!(
            String::from_utf8_lossy(&start),
            format!("HTTP/1.1 {status}")
        );
    }

    process.stop().await;
    drop(open);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_sent_all_at_once_are_answered_in_their_order() {
    const REQUESTS: usize = 40;
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let viewer = api.viewer(5);

    let requests: Vec<String> = (0..REQUESTS)
        .map(|number| {
            let is_last = number + 1 == REQUESTS;
            let last = if is_last { "Connection: close\r\n" } else { "" };
            // Some need a server, others do not.
            let path = ["/v1/activities/7", "/v1/rooms/7/activities", "/healthz"][number % 3];
            format!(
                "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {viewer}\r\n\
                 X-Request-Id: n-{number}-\r\n{last}\r\n"
            )
        })
        .collect();
    let answers = until_closed(sent(&api, &requests.concat()).await).await;

    let lines = answers.lines();
    let ids: Vec<_> = lines
        .filter_map(|line| line.strip_prefix("x-request-id: "))
        .collect();
    let expected: Vec<String> = (0..REQUESTS).map(|number| format!("n-{number}-")).collect();
    assert_eq!(ids, expected, "{answers}");
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_too_much_is_cut_short() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;

    let long = "x".repeat(300_000);
    let request = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\n\r\n");
    assert_refused(&send_all(&api, &request).await);
    let many: Vec<String> = (0..2_000).map(|n| format!("X-{n}: 1\r\n")).collect();
    let many = many.concat();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: x\r\n{many}\r\n");
    assert_refused(&send_all(&api, &request).await);

    // Bodies, with and without a length that is told first.
    let host = api.host_of(bag.room);
    for (path, token, limit) in [
        (bag.path("/join"), api.viewer(7), 4 << 10),
        ("/v1/activities".to_owned(), host, 64 << 10),
    ] {
        for (size, is_too_large) in [(limit, false), (limit + 1, true)] {
            let body = padded(size);
            let request = || {
                let url = format!("{}{path}", api.url);
                let request = api.http.post(url).bearer_auth(&token);
                request.header("Content-Type", "application/json")
            };
            let told = api.send(request().body(body.clone())).await;
            assert_eq!(told.status.as_u16() == 413, is_too_large, "{told:?}");
            let chunked = in_chunks(&api, &path, &token, &body).await;
            assert_eq!(
                chunked.starts_with("HTTP/1.1 413"),
                is_too_large,
                "{chunked}"
            );
        }
    }

    api.join_all(&bag, [8]).await;
    process.stop().await;
    world.end().await;
}

/// JSON of exactly this many bytes.
fn padded(size: usize) -> String {
    let frame = r#"{"title": ""}"#.len();
    format!(r#"{{"title": "{}"}}"#, "x".repeat(size - frame))
}

async fn send_all(api: &Api, request: &str) -> String {
    let (reading, mut writing) = connect(api).await.into_split();
    let writing = async {
        // May be cut off in the middle.
        drop(writing.write_all(request.as_bytes()).await);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = until_closed(reading) => answer,
        () = writing => unreachable!("it waits for ever"),
    }
}

async fn in_chunks(api: &Api, path: &str, token: &str, body: &str) -> String {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let chunks: Vec<String> = body
        .as_bytes()
        .chunks(1_000)
        .map(|chunk| {
            let text = std::str::from_utf8(chunk).expect("ASCII");
            format!("{:x}\r\n{text}\r\n", chunk.len())
        })
        .collect();
    send_all(api, &format!("{head}{}0\r\n\r\n", chunks.concat())).await
}

/// Refused with a client's fault, or simply cut off.
fn assert_refused(answer: &str) {
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
}
