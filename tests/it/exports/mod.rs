//! Exports: what the files hold, who gets them, and that half a file is never taken for a whole one.

mod files;
mod rights;
mod streaming;

use std::{
    io::Write,
    process::{Command, Stdio},
};

use reqwest::{Method, Response, header::HeaderMap};

use crate::harness::{Api, Bag, World, check_head};

/// Reads CSV as another program does, and prints it as JSON.
const READ: &str = "import csv, io, json, sys\n\
    text = sys.stdin.buffer.read().decode('utf-8-sig')\n\
    print(json.dumps(list(csv.reader(io.StringIO(text, newline='')))))";

/// A file as it came, and as another program reads it.
struct Export {
    headers: HeaderMap,
    bytes: Vec<u8>,
    /// As they stand in the file, the names of the columns first.
    cells: Vec<Vec<String>>,
}

impl Export {
    /// The rows without their marks: what a program that knows the one rule gets.
    fn rows(&self) -> Vec<Vec<String>> {
        let undo = |cell: &String| {
            let pieces = cell.split_inclusive([';', '\t', '\r', '\n']);
            let pieces = pieces.map(|piece| piece.strip_prefix('\'').unwrap_or(piece));
            pieces.collect()
        };
        let rows = self.cells.iter().skip(1);
        rows.map(|row| row.iter().map(undo).collect()).collect()
    }

    fn columns(&self) -> Vec<&str> {
        self.cells[0].iter().map(String::as_str).collect()
    }

    /// One column of every row, without marks.
    fn column(&self, name: &str) -> Vec<String> {
        let index = self.columns().iter().position(|column| *column == name);
        let index = index.unwrap_or_else(|| panic!("no column {name}"));
        self.rows()
            .into_iter()
            .map(|mut row| row.swap_remove(index))
            .collect()
    }
}

fn read_csv(bytes: &[u8]) -> Vec<Vec<String>> {
    let mut child = Command::new("python3")
        .args(["-c", READ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(bytes).expect("python3 reads");
    drop(stdin);
    let output = child.wait_with_output().expect("python3 ends");
    assert!(output.status.success(), "python3 cannot read the file");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

impl Api {
    /// The answer to a call for a file, whose body is still to be read, in whatever time that takes.
    async fn ask_for(&self, method: Method, token: &str, path: &str) -> Response {
        let client = reqwest::Client::new();
        let request = client.request(method, format!("{}{path}", self.url));
        let request = request.bearer_auth(token).build().expect("a request");
        let asked = request.try_clone().expect("no body");
        let answer = client.execute(request).await.expect("an answer");
        check_head(&asked, &answer);
        answer
    }

    /// A whole file.
    async fn export(&self, bag: &Bag, kind: &str) -> Export {
        let path = bag.path(&format!("/{kind}.csv"));
        let answer = self
            .ask_for(Method::GET, &self.host_of(bag.room), &path)
            .await;
        assert_eq!(answer.status(), 200);
        let headers = answer.headers().clone();
        let bytes = answer.bytes().await.expect("the whole file").to_vec();
        Export {
            headers,
            cells: read_csv(&bytes),
            bytes,
        }
    }
}

impl World {
    /// Lets this many users have joined, without the stream: each statement doubles their number.
    async fn crowd(&self, bag: &Bag, count: u32) {
        const FIRST: u64 = 9_000_000_000_000_000_000;
        const COLUMNS: &str = "activity_id, user_id, status, is_trimmed, accepted_at, request_id, \
             revision, created_at";

        self.execute(&format!(
            "INSERT INTO participation ({COLUMNS}) \
             VALUES ({}, {FIRST}, 'joined', FALSE, NOW(3), 'r', 1, NOW(3))",
            bag.id
        ))
        .await;
        let mut made = 1;
        while made < count {
            let left = u64::from(count - made);
            self.execute(&format!(
                "INSERT INTO participation ({COLUMNS}) \
                 SELECT activity_id, user_id + {made}, status, is_trimmed, accepted_at, request_id, \
                 revision, created_at FROM participation \
                 WHERE activity_id = {} AND user_id < {FIRST} + {left}",
                bag.id
            ))
            .await;
            made = made.saturating_mul(2).min(count);
        }
    }
}
