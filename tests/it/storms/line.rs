//! One kept connection to the API: as cheap as a client can be, so that a test can be a crowd.

use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream},
    net::TcpStream,
};

use crate::harness::{Api, Bag};

/// What `/result` told.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Told {
    pub(super) result: String,
    pub(super) win: Option<Value>,
    pub(super) next_poll_ms: u64,
}

impl Told {
    pub(super) fn is_final(&self) -> bool {
        ["won", "notWon", "revoked"].contains(&self.result.as_str())
    }

    /// How far the activity is by it; it never goes back.
    pub(super) fn stage(&self) -> usize {
        match self.result.as_str() {
            "notDrawn" => 0,
            "drawing" => 1,
            _ if self.is_final() => 2,
            other => panic!("a result `{other}`"),
        }
    }
}

pub(super) struct Line {
    stream: BufStream<TcpStream>,
}

impl Line {
    pub(super) async fn to(api: &Api) -> Self {
        let address = api.url.trim_start_matches("http://");
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket option");
        Self {
            stream: BufStream::new(stream),
        }
    }

    /// The status of `/result`, and the body.
    pub(super) async fn ask(&mut self, bag: &Bag, token: &str) -> (u16, Vec<u8>) {
        let path = bag.path("/result");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\r\n");
        let sent = self.stream.write_all(request.as_bytes()).await;
        sent.expect("the request is sent");
        self.stream.flush().await.expect("the request is sent");
        let mut status = 0;
        let mut length = 0;
        loop {
            let mut line = String::new();
            let read = self.stream.read_line(&mut line).await;
            assert!(read.expect("an answer") > 0, "the connection was closed");
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().expect("a status");
            } else if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        let read = self.stream.read_exact(&mut body).await;
        read.expect("the whole body");
        (status, body)
    }

    /// What `/result` tells; it answers.
    pub(super) async fn told(&mut self, bag: &Bag, token: &str) -> Told {
        let (status, body) = self.ask(bag, token).await;
        let text = String::from_utf8_lossy(&body);
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}
