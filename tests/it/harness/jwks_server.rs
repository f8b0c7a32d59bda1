//! An issuer's web server, which serves its keys or behaves badly.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// What the server answers to whatever it is asked.
#[derive(Clone, Debug)]
pub(crate) enum Answering {
    /// `200` with this body.
    Body(String),
    /// This status, with a body that would be good.
    Status(u16, String),
    /// A redirect to this URL.
    Redirect(String),
    /// Nothing, with the connection kept open.
    Silence,
    /// `200` and then one byte after the other, without an end.
    Trickle,
    /// `200` with a body that never ends.
    Endless,
    /// `200` and less than was announced.
    CutOff,
}

/// Counts its requests; stops when dropped.
pub(crate) struct JwksServer {
    addr: SocketAddr,
    answering: watch::Sender<Answering>,
    asked: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl JwksServer {
    pub(crate) async fn start(answering: Answering) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), answering).await
    }

    pub(crate) async fn start_at(addr: SocketAddr, answering: Answering) -> Self {
        let listener = TcpListener::bind(addr).await.expect("a free loopback port");
        let answering = watch::Sender::new(answering);
        let asked = Arc::new(AtomicUsize::new(0));
        Self {
            addr: listener.local_addr().expect("the address just bound"),
            accepting: spawn(accept(listener, answering.subscribe(), Arc::clone(&asked))),
            answering,
            asked,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/jwks.json", self.addr)
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn answer(&self, answering: Answering) {
        self.answering.send_replace(answering);
    }
}

impl Drop for JwksServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "ends with the test")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(task)
}

async fn accept(
    listener: TcpListener,
    answering: watch::Receiver<Answering>,
    asked: Arc<AtomicUsize>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let answering = answering.borrow().clone();
        let asked = Arc::clone(&asked);
        spawn(async move {
            // Clients that had enough are welcome to leave.
            drop(answer(stream, answering, &asked).await);
        });
    }
}

async fn answer(
    mut stream: TcpStream,
    answering: Answering,
    asked: &AtomicUsize,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    asked.fetch_add(1, Ordering::Relaxed);
    match answering {
        Answering::Body(body) => whole(&mut stream, 200, "", &body).await,
        Answering::Status(status, body) => whole(&mut stream, status, "", &body).await,
        Answering::Redirect(to) => {
            whole(&mut stream, 302, &format!("Location: {to}\r\n"), "").await
        }
        Answering::Silence => stream.read_u8().await.map(|_| ()),
        Answering::Trickle => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            loop {
                stream.write_all(b" ").await?;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        Answering::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            loop {
                stream.write_all(&[b' '; 4096]).await?;
            }
        }
        Answering::CutOff => {
            let text = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"keys\":";
            stream.write_all(text).await
        }
    }
}

async fn whole(
    stream: &mut TcpStream,
    status: u16,
    headers: &str,
    body: &str,
) -> std::io::Result<()> {
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await
}
