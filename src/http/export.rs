//! Answers that are too large to be held: read page by page, as fast as the caller takes them.

use std::{
    collections::HashSet,
    error::Error,
    fmt::Display,
    future::{Ready, ready},
    io,
    sync::Arc,
    time::Duration,
};

use actix_web::{
    FromRequest, HttpRequest, HttpResponse,
    dev::Payload,
    http::{Method, StatusCode, Version, header},
    web::Bytes,
};
use futures_util::stream;
use parking_lot::Mutex;
use sea_orm::DbErr;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tracing::Instrument;

use super::problem::Problem;
use crate::{
    infra::mysql::is_unavailable,
    kernel::{Supervisor, UserId},
    telemetry::metrics,
};

/// Why an export could not be made, or broke off.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("cannot read the rows in MySQL")]
    Database(#[from] DbErr),

    #[error("cannot write the rows as CSV")]
    Csv(#[from] csv::Error),

    #[error("{0} while it was being exported")]
    Changed(&'static str),
}

impl From<ExportError> for Problem {
    fn from(error: ExportError) -> Self {
        const RETRY_AFTER: Duration = Duration::from_secs(1);

        let is_passing = match &error {
            ExportError::Database(source) => is_unavailable(source),
            ExportError::Changed(_) => true,
            ExportError::Csv(_) => false,
        };
        if is_passing {
            let detail = "the export cannot be made at the moment";
            return Self::unavailable("unavailable", detail, RETRY_AFTER).with_cause(error);
        }
        Self::internal(error)
    }
}

/// What the pages of an export are read from.
pub trait Pages: Send + 'static {
    /// The next bytes of the file; `None` behind the last.
    ///
    /// # Errors
    ///
    /// Ends the answer in its middle, so that nobody takes a part for the whole.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, ExportError>> + Send;
}

/// The exports of a process: few at a time, one of a user, and all ended when it stops. Cheap to clone.
#[derive(Clone)]
pub struct Exports {
    places: Arc<Semaphore>,
    users: Arc<Mutex<HashSet<UserId>>>,
    streams: Supervisor,
}

impl Exports {
    const AT_ONCE: usize = 2;
    const BUSY_FOR: Duration = Duration::from_secs(10);
    /// How long a caller may take for one page; a place is not for somebody who is gone.
    const PATIENCE: Duration = Duration::from_mins(1);
    /// How long a whole file may take: a caller who takes a little now and then ends too.
    const LONGEST: Duration = Duration::from_hours(1);

    /// They run under `streams`, and break off once it is asked to stop.
    pub fn new(streams: Supervisor) -> Self {
        Self {
            places: Arc::new(Semaphore::new(Self::AT_ONCE)),
            users: Arc::default(),
            streams,
        }
    }

    /// A place for one export of this user; `503 exports_busy` when all are taken, or the user has one.
    pub fn begin(&self, user_id: UserId) -> Result<ExportPlace, Problem> {
        let busy = |detail: &str| Problem::unavailable("exports_busy", detail, Self::BUSY_FOR);
        let permit = Arc::clone(&self.places)
            .try_acquire_owned()
            .map_err(|_| busy("as many exports are running as this process makes at a time"))?;
        if !self.users.lock().insert(user_id) {
            return Err(busy("an export of this user is running"));
        }
        Ok(ExportPlace {
            taken: Taken {
                _permit: permit,
                users: Arc::clone(&self.users),
                user_id,
            },
            streams: self.streams.clone(),
        })
    }
}

/// The right to run one export.
pub struct ExportPlace {
    taken: Taken,
    streams: Supervisor,
}

/// What is given back when it is dropped.
struct Taken {
    _permit: OwnedSemaphorePermit,
    users: Arc<Mutex<HashSet<UserId>>>,
    user_id: UserId,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.users.lock().remove(&self.user_id);
    }
}

impl ExportPlace {
    /// The answer with everything that `pages` gives; the first page is there before it begins.
    ///
    /// # Errors
    ///
    /// That of the first page.
    pub async fn answer<P: Pages>(
        self,
        file: CsvFile,
        mut pages: P,
    ) -> Result<HttpResponse, ExportError> {
        let first = pages.next().await?;
        let Self { taken, streams } = self;
        let (pump, receiver) = Pump::new(Exports::PATIENCE, Exports::LONGEST);
        let stop = streams.stop_token();
        let work = async move {
            let _taken = taken;
            let ended = match stop.run_until_cancelled(pump.run(first, &mut pages)).await {
                Some(ended) => ended,
                None => Ended::Stopping,
            };
            report(file.kind, &ended);
        };
        drop(streams.spawn_once(work.in_current_span()));
        Ok(file.response().streaming(body(receiver)))
    }
}

/// A part of the answer on its way from where it is read to where it is written.
#[derive(Debug)]
enum Part {
    Bytes(Bytes),
    /// All parts were sent. A channel that closes without it was broken off.
    End,
}

/// How an export ended.
#[derive(Debug)]
enum Ended {
    Complete,
    /// The caller has gone away.
    Left,
    /// The caller took nothing for too long.
    Idle,
    /// The whole took too long.
    Overdue,
    Stopping,
    Failed(ExportError),
}

impl Ended {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Left => "left",
            Self::Idle => "idle",
            Self::Overdue => "overdue",
            Self::Stopping => "stopping",
            Self::Failed(_) => "failed",
        }
    }
}

struct Pump {
    sender: mpsc::Sender<Part>,
    patience: Duration,
    longest: Duration,
}

impl Pump {
    /// Holds one part for the caller, and no more.
    fn new(patience: Duration, longest: Duration) -> (Self, mpsc::Receiver<Part>) {
        let (sender, receiver) = mpsc::channel(1);
        let pump = Self {
            sender,
            patience,
            longest,
        };
        (pump, receiver)
    }

    async fn run<P: Pages>(self, first: Option<Bytes>, pages: &mut P) -> Ended {
        let all = self.send_all(first, pages);
        let ended = tokio::time::timeout(self.longest, all).await;
        ended.unwrap_or(Ended::Overdue)
    }

    /// Reads a page only once the one before it was taken.
    async fn send_all<P: Pages>(&self, first: Option<Bytes>, pages: &mut P) -> Ended {
        let mut page = first;
        loop {
            let is_last = page.is_none();
            match self.room().await {
                Ok(room) => room.send(page.map_or(Part::End, Part::Bytes)),
                Err(ended) => return ended,
            }
            if is_last {
                return Ended::Complete;
            }
            if let Err(ended) = self.room().await {
                return ended;
            }
            page = tokio::select! {
                () = self.sender.closed() => return Ended::Left,
                next = pages.next() => match next {
                    Ok(page) => page,
                    Err(error) => return Ended::Failed(error),
                },
            };
        }
    }

    /// There is room once the caller has taken what was sent.
    async fn room(&self) -> Result<mpsc::Permit<'_, Part>, Ended> {
        match tokio::time::timeout(self.patience, self.sender.reserve()).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) => Err(Ended::Left),
            Err(_) => Err(Ended::Idle),
        }
    }
}

/// The parts as a body that fails unless its end was told.
fn body(receiver: mpsc::Receiver<Part>) -> impl stream::Stream<Item = io::Result<Bytes>> {
    stream::unfold(Some(receiver), async |receiver| {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Part::Bytes(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(Part::End) => None,
            None => Some((Err(io::Error::other("the export was broken off")), None)),
        }
    })
}

fn report(kind: &'static str, ended: &Ended) {
    metrics::export_ended(kind, ended.as_str());
    if let Ended::Failed(error) = ended {
        let error = error as &dyn Error;
        tracing::warn!(error, export.kind = kind, "export broken off");
    } else {
        tracing::info!(
            export.kind = kind,
            export.ended = ended.as_str(),
            "export ended"
        );
    }
}

/// What the exports are, by RFC 7111.
pub const CSV_MEDIA_TYPE: &str = "text/csv; charset=utf-8; header=present";

/// What a caller gets: a CSV file with a name.
#[derive(Clone, Debug)]
pub struct CsvFile {
    kind: &'static str,
    name: String,
}

impl CsvFile {
    /// `kind` is the word in its name, in the log and in the metrics.
    pub fn new(kind: &'static str, id: impl Display) -> Self {
        let name = format!("activity-{id}-{kind}.csv");
        Self { kind, name }
    }

    fn response(&self) -> actix_web::HttpResponseBuilder {
        let mut response = HttpResponse::build(StatusCode::OK);
        let attachment = format!("attachment; filename=\"{}\"", self.name);
        response
            .content_type(CSV_MEDIA_TYPE)
            .insert_header((header::CONTENT_DISPOSITION, attachment))
            .insert_header((header::CACHE_CONTROL, "no-store"));
        response
    }

    /// The same head without a body.
    pub fn head_only(&self) -> HttpResponse {
        let nothing = stream::empty::<io::Result<Bytes>>();
        self.response().streaming(nothing)
    }
}

/// How a file is asked for. HTTP/1.0 is refused: its answers end with the connection, so that half of
/// one looks like the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportRequest {
    Whole,
    HeadOnly,
}

impl FromRequest for ExportRequest {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(match (request.version(), request.method()) {
            (Version::HTTP_09 | Version::HTTP_10, _) => {
                let detail = "exports need HTTP/1.1, whose answers show where they end";
                Err(Problem::new(
                    StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                    "http_1_1_needed",
                    detail,
                ))
            }
            (_, &Method::HEAD) => Ok(Self::HeadOnly),
            _ => Ok(Self::Whole),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::StreamExt;

    use super::*;

    /// Counts how often it was asked; behind three pages it ends, or fails.
    struct Three {
        asked: Arc<AtomicUsize>,
        fails: bool,
    }

    impl Three {
        fn new() -> Self {
            Self {
                asked: Arc::default(),
                fails: false,
            }
        }
    }

    impl Pages for Three {
        async fn next(&mut self) -> Result<Option<Bytes>, ExportError> {
            match self.asked.fetch_add(1, Ordering::SeqCst) {
                0..3 => Ok(Some(Bytes::from_static(b"row"))),
                _ if self.fails => Err(ExportError::Changed("it was changed")),
                _ => Ok(None),
            }
        }
    }

    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn a_body_ends_well_only_when_its_last_page_was_read() {
        for (fails, expected) in [(false, "complete"), (true, "failed")] {
            let mut pages = Three {
                fails,
                ..Three::new()
            };
            let first = pages.next().await.unwrap();
            let (pump, receiver) = Pump::new(LONG, LONG);

            let taken = body(receiver).collect::<Vec<_>>();
            let (ended, taken) = tokio::join!(pump.run(first, &mut pages), taken);

            assert_eq!(ended.as_str(), expected);
            assert_eq!(taken.iter().filter(|part| part.is_ok()).count(), 3);
            assert_eq!(taken.iter().any(Result::is_err), fails);
        }
    }

    #[tokio::test]
    async fn nothing_is_read_for_a_caller_who_takes_nothing_and_the_place_is_given_up() {
        let mut pages = Three::new();
        let asked = Arc::clone(&pages.asked);
        let first = pages.next().await.unwrap();
        let (pump, receiver) = Pump::new(Duration::from_millis(50), LONG);

        let ended = pump.run(first, &mut pages).await;

        assert_eq!(ended.as_str(), "idle");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        let taken: Vec<_> = body(receiver).collect().await;
        assert!(taken.last().unwrap().is_err(), "{taken:?}");
    }

    #[tokio::test]
    async fn a_caller_who_leaves_ends_the_reading() {
        let mut pages = Three::new();
        let first = pages.next().await.unwrap();
        let (pump, receiver) = Pump::new(LONG, LONG);
        drop(receiver);

        assert_eq!(pump.run(first, &mut pages).await.as_str(), "left");
    }

    /// Has always more.
    struct Endless;

    impl Pages for Endless {
        async fn next(&mut self) -> Result<Option<Bytes>, ExportError> {
            tokio::task::yield_now().await;
            Ok(Some(Bytes::from_static(b"row")))
        }
    }

    #[tokio::test]
    async fn a_file_that_is_taken_for_too_long_breaks_off() {
        let (pump, receiver) = Pump::new(LONG, Duration::from_millis(50));

        let taken = body(receiver).filter_map(async |part| part.err());
        let taken = taken.collect::<Vec<_>>();
        let mut pages = Endless;
        let sent = pump.run(Some(Bytes::new()), &mut pages);
        let both = async { tokio::join!(sent, taken) };
        let (ended, faults) = tokio::time::timeout(Duration::from_secs(30), both)
            .await
            .expect("an end");

        assert_eq!(ended.as_str(), "overdue");
        assert_eq!(faults.len(), 1);
    }

    fn refusal(exports: &Exports, user: u64) -> Option<(u16, &'static str)> {
        let refused = exports.begin(UserId(user)).err();
        refused.map(|refused| (refused.status().as_u16(), refused.code()))
    }

    #[test]
    fn only_so_many_run_at_a_time_and_one_of_a_user() {
        const BUSY: Option<(u16, &str)> = Some((503, "exports_busy"));
        let exports = Exports::new(Supervisor::default());

        let ann = exports.begin(UserId(1)).unwrap();
        assert_eq!(refusal(&exports, 1), BUSY, "one of a user");
        let ben = exports.begin(UserId(2)).unwrap();
        assert_eq!(refusal(&exports, 3), BUSY, "so many at a time");

        drop((ann, ben));
        let again = exports.begin(UserId(1)).unwrap();
        assert_eq!(refusal(&exports, 3), None);
        drop(again);
    }
}
