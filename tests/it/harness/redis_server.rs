//! A Redis server of a test's own, with which it may do what it must not do to the shared one.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream},
    net::TcpStream,
};

use super::eventually;

/// Killed when dropped, and its folder removed.
pub(crate) struct RedisServer {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl RedisServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// One with more options: `["--replicaof", "127.0.0.1 6379"]`.
    pub(crate) async fn start_with(options: &[&str]) -> Self {
        const TRIES: u32 = 5;
        for _ in 0..TRIES {
            let mut server = Self::launch(options);
            if server.comes_up().await {
                return server;
            }
        }
        panic!("redis-server ended {TRIES} times at its start");
    }

    fn launch(options: &[&str]) -> Self {
        let name = format!("luckybag-redis-{:016x}", rand::random::<u64>());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder of its own");
        let port = free_port();
        // Where scripts/services looks too; not every user has these in the PATH.
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/local/sbin:/usr/sbin:/sbin";
        let child = Command::new("redis-server")
            .env("PATH", path)
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--repl-diskless-sync-delay", "0"])
            .args(options)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        Self {
            child,
            folder,
            port,
        }
    }

    /// Waits until it answers; `false` when it has ended instead: somebody took its port.
    async fn comes_up(&mut self) -> bool {
        // Another server on the port would answer too, with another process id.
        let own_id = format!("process_id:{}", self.child.id());
        let child = std::sync::Mutex::new(&mut self.child);
        let port = self.port;
        eventually("redis-server to answer", async || {
            let ended = child.lock().unwrap().try_wait().expect("the child's state");
            if ended.is_some() {
                return Ok(false);
            }
            let info = exchange(port, &["INFO", "server"]).await;
            let info = info.map_err(|error| error.to_string())??;
            if info[0].contains(&own_id) {
                Ok(true)
            } else {
                Err(format!("no {own_id} in {info:?}"))
            }
        })
        .await
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Runs one command, directly; answers its reply, the items of a list one by one.
    pub(crate) async fn run(&self, command: &[&str]) -> Vec<String> {
        let reply = exchange(self.port, command).await;
        let reply = reply.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        reply.unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// Has all that `master` has, and hears nothing of it from then on; `mark` is new in it.
    pub(crate) async fn take_copy(&self, master: &Self, mark: &str) {
        let port = master.port.to_string();
        self.run(&["REPLICAOF", "127.0.0.1", &port]).await;
        // Behind everything that was written before.
        master.run(&["SET", "mark", mark]).await;
        eventually("the replica to have all", async || {
            let has = self.run(&["GET", "mark"]).await;
            if has == [mark] { Ok(()) } else { Err(has) }
        })
        .await;
        self.run(&["REPLICAOF", "NO", "ONE"]).await;
    }

    /// Loses everything that it holds, and the scripts that it knows.
    pub(crate) async fn lose_everything(&self) {
        self.run(&["FLUSHALL"]).await;
        self.run(&["SCRIPT", "FLUSH"]).await;
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is as well.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// A free port below those of outgoing connections and of `free_address`, as is the one 10,000 above
/// it, on which the nodes of a cluster talk.
fn free_port() -> u16 {
    loop {
        let port = rand::random_range(10_000..15_000);
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

/// One command over a connection of its own; the inner error is Redis's.
async fn exchange(port: u16, command: &[&str]) -> std::io::Result<Result<Vec<String>, String>> {
    let mut stream = BufStream::new(TcpStream::connect(("127.0.0.1", port)).await?);
    let count = format!("*{}\r\n", command.len());
    stream.write_all(count.as_bytes()).await?;
    for word in command {
        let text = format!("${}\r\n{word}\r\n", word.len());
        stream.write_all(text.as_bytes()).await?;
    }
    stream.flush().await?;
    let mut items = Vec::new();
    let mut missing = 1_usize;
    while missing > 0 {
        missing -= 1;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
        match kind {
            "+" | ":" => items.push(rest.to_owned()),
            "*" => missing += rest.parse().unwrap_or(0),
            "$" => items.push(read_bulk(&mut stream, rest.parse().unwrap_or(0)).await?),
            _ => return Ok(Err(line.to_owned())),
        }
    }
    Ok(Ok(items))
}

/// A text of so many bytes; nothing at all reads as an empty one.
async fn read_bulk(stream: &mut BufStream<TcpStream>, length: i64) -> std::io::Result<String> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(String::new());
    };
    let mut bytes = vec![0; length + 2];
    stream.read_exact(&mut bytes).await?;
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
