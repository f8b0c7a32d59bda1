//! A TCP proxy that misbehaves on command, to put between the service and one of its servers.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// How the proxy treats the bytes that pass through it.
#[derive(Clone, Copy, Debug, Default)]
struct Behaviour {
    stalled: bool,
    refusing: bool,
    delay: Duration,
    loss: Option<Loss>,
}

/// An answer that gets lost, with its connection: the one to a request that holds `to`, behind one
/// on the same connection that holds `behind`.
#[derive(Clone, Copy, Debug)]
struct Loss {
    behind: &'static str,
    to: &'static str,
}

/// How far a connection is on the way to its lost answer.
#[derive(Debug, Default)]
struct Losing {
    is_near: AtomicBool,
    is_next: AtomicBool,
}

impl Losing {
    fn note_request(&self, loss: Loss, data: &[u8]) {
        let holds = |text: &str| data.windows(text.len()).any(|part| part == text.as_bytes());
        if self.is_near.load(Ordering::SeqCst) && holds(loss.to) {
            self.is_next.store(true, Ordering::SeqCst);
        }
        if holds(loss.behind) {
            self.is_near.store(true, Ordering::SeqCst);
        }
    }
}

/// Where data comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// Forwards connections to one upstream address until told otherwise; stops when dropped.
pub(crate) struct Proxy {
    addr: SocketAddr,
    upstream: Arc<Mutex<String>>,
    behaviour: watch::Sender<Behaviour>,
    /// Cancelled to cut every connection that is open now; replaced for those that follow.
    cut: Arc<Mutex<CancellationToken>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of its own and forwards to `upstream`, such as `127.0.0.1:5672`.
    pub(crate) async fn start(upstream: impl Into<String>) -> Self {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::start_at(free, upstream).await
    }

    /// The same on an address that was chosen before.
    pub(crate) async fn start_at(addr: SocketAddr, upstream: impl Into<String>) -> Self {
        let listener = TcpListener::bind(addr).await.expect("a free loopback port");
        let addr = listener.local_addr().expect("the address just bound");
        let behaviour = watch::Sender::new(Behaviour::default());
        let cut = Arc::new(Mutex::new(CancellationToken::new()));
        let upstream = Arc::new(Mutex::new(upstream.into()));

        let accepting = spawn(accept(
            listener,
            Arc::clone(&upstream),
            behaviour.subscribe(),
            Arc::clone(&cut),
        ));
        Self {
            addr,
            upstream,
            behaviour,
            cut,
            accepting,
        }
    }

    /// Where clients connect to.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Breaks all connections that are open now; new ones work.
    pub(crate) fn cut(&self) {
        let mut cut = self.cut.lock().unwrap();
        cut.cancel();
        *cut = CancellationToken::new();
    }

    /// Breaks all connections that are open now; new ones lead to another server.
    pub(crate) fn switch_to(&self, upstream: &str) {
        upstream.clone_into(&mut self.upstream.lock().unwrap());
        self.cut();
    }

    /// Breaks all connections and every new one, until [`Proxy::resume`].
    pub(crate) fn refuse(&self) {
        self.behaviour
            .send_modify(|behaviour| behaviour.refusing = true);
        self.cut();
    }

    /// Lets no byte through in either direction, and leaves all connections open.
    pub(crate) fn stall(&self) {
        self.behaviour
            .send_modify(|behaviour| behaviour.stalled = true);
    }

    /// Breaks a connection in place of the answer to a request that holds `to`, once a request that
    /// holds `behind` has gone before it.
    pub(crate) fn lose_answer(&self, behind: &'static str, to: &'static str) {
        self.behaviour
            .send_modify(|behaviour| behaviour.loss = Some(Loss { behind, to }));
    }

    /// Holds every piece of data back for this long.
    pub(crate) fn delay(&self, delay: Duration) {
        self.behaviour
            .send_modify(|behaviour| behaviour.delay = delay);
    }

    /// Forwards again as if nothing had been. What was stalled goes through first.
    pub(crate) fn resume(&self) {
        self.behaviour.send_replace(Behaviour::default());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut.lock().unwrap().cancel();
    }
}

/// A loopback address on which nobody listens.
///
/// It lies below the ports of outgoing connections and above those of a `RedisServer`, so none of
/// these takes it in the meantime.
pub(crate) fn free_address() -> SocketAddr {
    loop {
        let addr = SocketAddr::from(([127, 0, 0, 1], rand::random_range(25_000..32_000)));
        if std::net::TcpListener::bind(addr).is_ok() {
            return addr;
        }
    }
}

async fn accept(
    listener: TcpListener,
    upstream: Arc<Mutex<String>>,
    behaviour: watch::Receiver<Behaviour>,
    cut: Arc<Mutex<CancellationToken>>,
) {
    while let Ok((client, _)) = listener.accept().await {
        // In this order: a refusal that comes in between still cuts this connection.
        let cut = cut.lock().unwrap().clone();
        if behaviour.borrow().refusing {
            continue;
        }
        let upstream = upstream.lock().unwrap().clone();
        let behaviour = behaviour.clone();
        drop(spawn(async move {
            let Ok(server) = TcpStream::connect(&upstream).await else {
                return;
            };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let losing = Losing::default();
            let up = (Side::Client, &losing);
            let down = (Side::Server, &losing);
            tokio::select! {
                () = cut.cancelled() => (),
                () = pump(from_client, to_server, behaviour.clone(), up) => (),
                () = pump(from_server, to_client, behaviour, down) => (),
            }
        }));
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut behaviour: watch::Receiver<Behaviour>,
    (side, losing): (Side, &Losing),
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        let delay = behaviour.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if behaviour
            .wait_for(|behaviour| !behaviour.stalled)
            .await
            .is_err()
        {
            return;
        }
        let loss = behaviour.borrow().loss;
        match (side, loss) {
            (Side::Client, Some(loss)) => losing.note_request(loss, &buffer[..read]),
            (Side::Server, _) if losing.is_next.load(Ordering::SeqCst) => return,
            (Side::Client | Side::Server, _) => (),
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "ends with the proxy or the runtime of its test"
)]
fn spawn<F: Future<Output = ()> + Send + 'static>(task: F) -> JoinHandle<()> {
    tokio::spawn(task)
}
