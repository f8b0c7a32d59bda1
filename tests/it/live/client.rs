//! A client of a stream of events, which reads it as a browser would.

use std::time::Duration;

use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::time::Instant;

use crate::harness::{Api, check_head};

/// Long enough for a busy machine; whoever waits longer for the next event waits in vain.
const PATIENCE: Duration = Duration::from_secs(40);

/// One event.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) data: Value,
}

/// One open stream.
pub(super) struct Stream {
    response: Response,
    buffer: String,
    /// The `id` of the last event that had one.
    pub(super) last_id: String,
    pub(super) retry_ms: Option<u64>,
    pub(super) comments: u32,
    /// Everything that was read.
    pub(super) text: String,
}

/// Asks for a stream, whatever the answer is.
pub(super) async fn ask(api: &Api, token: &str, path: &str, last_id: Option<&str>) -> Response {
    // Without the time-out that the harness sets for whole answers.
    let client = reqwest::Client::new();
    let mut request = client.get(format!("{}{path}", api.url)).bearer_auth(token);
    if let Some(id) = last_id {
        request = request.header("last-event-id", id);
    }
    let request = request.build().expect("a request");
    let asked = request.try_clone().expect("no body");
    let answer = client.execute(request).await.expect("an answer");
    check_head(&asked, &answer);
    answer
}

impl Stream {
    pub(super) async fn open(api: &Api, token: &str, path: &str) -> Self {
        Self::of(ask(api, token, path, None).await)
    }

    /// Goes on where another stream has ended.
    pub(super) async fn reopen(api: &Api, token: &str, path: &str, last_id: &str) -> Self {
        Self::of(ask(api, token, path, Some(last_id)).await)
    }

    pub(super) fn of(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .map(reqwest::header::HeaderValue::as_bytes)
        };
        assert_eq!(header("content-type"), Some(&b"text/event-stream"[..]));
        assert_eq!(header("cache-control"), Some(&b"no-store"[..]));
        assert_eq!(header("x-accel-buffering"), Some(&b"no"[..]));
        Self {
            response,
            buffer: String::new(),
            last_id: String::new(),
            retry_ms: None,
            comments: 0,
            text: String::new(),
        }
    }

    /// The next event; `None` when the stream has ended as it should.
    pub(super) async fn next(&mut self) -> Option<Event> {
        let patient_until = Instant::now() + PATIENCE;
        loop {
            while let Some(block) = self.take_block() {
                if let Some(event) = self.read(&block) {
                    return Some(event);
                }
            }
            if !self.read_chunk(patient_until).await {
                assert_eq!(self.buffer, "", "the stream ended in the middle");
                return None;
            }
        }
    }

    /// Reads on until this many comments have come.
    pub(super) async fn comments(&mut self, count: u32) {
        while self.comments < count {
            let patient_until = Instant::now() + PATIENCE;
            assert!(self.read_chunk(patient_until).await, "the stream ended");
            while let Some(block) = self.take_block() {
                self.read(&block);
            }
        }
    }

    /// The first of the next events that has this name.
    pub(super) async fn next_named(&mut self, name: &str) -> Event {
        self.next_where(name, |_| true).await
    }

    /// The first of the next events that has this name and is as wanted.
    pub(super) async fn next_where(&mut self, name: &str, is_it: impl Fn(&Value) -> bool) -> Event {
        loop {
            let event = self.next().await;
            let event = event.unwrap_or_else(|| panic!("ended before {name}:\n{}", self.text));
            if event.name == name && is_it(&event.data) {
                return event;
            }
        }
    }

    /// Everything up to the end of the stream.
    pub(super) async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// `false` at the end of the stream.
    async fn read_chunk(&mut self, patient_until: Instant) -> bool {
        let chunk = tokio::time::timeout_at(patient_until, self.response.chunk()).await;
        let chunk = chunk.unwrap_or_else(|_| panic!("nothing more came after:\n{}", self.text));
        let Some(chunk) = chunk.expect("the stream is not cut off") else {
            return false;
        };
        let text = std::str::from_utf8(&chunk).expect("text");
        self.buffer.push_str(text);
        self.text.push_str(text);
        true
    }

    fn take_block(&mut self) -> Option<String> {
        let end = self.buffer.find("\n\n")?;
        let block = self.buffer[..end].to_owned();
        self.buffer.drain(..end + 2);
        Some(block)
    }

    fn read(&mut self, block: &str) -> Option<Event> {
        let (mut name, mut data) = (String::new(), None);
        for line in block.lines() {
            match line.split_once(": ").expect("a field and its value") {
                ("event", value) => value.clone_into(&mut name),
                ("data", value) => data = Some(serde_json::from_str(value).expect("JSON")),
                ("id", value) => value.clone_into(&mut self.last_id),
                ("retry", value) => self.retry_ms = Some(value.parse().expect("a number")),
                ("", _) => self.comments += 1,
                (field, _) => panic!("unknown field {field}"),
            }
        }
        Some(Event {
            name,
            id: self.last_id.clone(),
            data: data?,
        })
    }
}

/// The names of events, in their order.
pub(super) fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}
