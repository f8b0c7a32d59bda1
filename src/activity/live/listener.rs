//! One open stream.

use std::{convert::Infallible, fmt::Write as _, sync::Arc, time::Duration};

use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt, stream};
use rand::RngExt;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{moment::Moment, places::Place, told::Told};

/// Why a stream ends, told as the last event.
#[derive(Clone, Copy, Debug)]
enum End {
    /// There is nothing more to hear.
    Over,
    /// Whoever wants to hear on comes again with a new token.
    TokenExpired,
    /// Another process goes on.
    Stopping,
}

impl End {
    fn reason(self) -> &'static str {
        match self {
            Self::Over => "over",
            Self::TokenExpired => "tokenExpired",
            Self::Stopping => "stopping",
        }
    }
}

/// A stream, and what its client has been told.
pub(super) struct Listener {
    pub(super) moments: watch::Receiver<Arc<Moment>>,
    pub(super) told: Told,
    pub(super) stop: CancellationToken,
    pub(super) ends_at: Instant,
    pub(super) heartbeat: Duration,
    pub(super) result_spread: Duration,
    pub(super) retry: Duration,
    /// Given back with the stream.
    pub(super) _place: Place,
}

/// Where a stream is in its life.
enum Stage {
    Opening(Box<Moment>),
    Open,
    Ended,
}

impl Listener {
    /// All that is sent: `first` as far as it is new to the client, then what happens.
    pub(super) fn stream(
        self,
        first: Moment,
    ) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
        let begin = (self, Stage::Opening(Box::new(first)));
        stream::unfold(begin, |(listener, stage)| listener.step(stage)).map(Ok)
    }

    async fn step(mut self, stage: Stage) -> Option<(Bytes, (Self, Stage))> {
        let (text, next) = match stage {
            Stage::Opening(first) => {
                let mut text = format!("retry: {}\n", self.jittered_retry_ms());
                let (news, next) = self.tell(&first);
                // An empty line lets the client take `retry` in.
                text.push_str(if news.is_empty() { "\n" } else { &news });
                (text, next)
            }
            Stage::Open => self.wait().await?,
            Stage::Ended => return None,
        };
        Some((Bytes::from(text), (self, next)))
    }

    /// The next words; `None` when the watcher has ended, so that the client comes again.
    async fn wait(&mut self) -> Option<(String, Stage)> {
        let silence = tokio::time::sleep(self.heartbeat);
        tokio::pin!(silence);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Some(ended(String::new(), End::Stopping)),
                () = tokio::time::sleep_until(self.ends_at) => {
                    return Some(ended(String::new(), End::TokenExpired));
                }
                changed = self.moments.changed() => {
                    changed.ok()?;
                    let moment = Arc::clone(&self.moments.borrow_and_update());
                    let (news, next) = self.tell(&moment);
                    if !news.is_empty() {
                        return Some((news, next));
                    }
                }
                () = &mut silence => return Some((": still here\n\n".to_owned(), Stage::Open)),
            }
        }
    }

    /// What is new to the client, with the end of the stream after the last moment.
    fn tell(&mut self, moment: &Moment) -> (String, Stage) {
        let news = moment.tell(&mut self.told, up_to_ms(self.result_spread));
        if moment.is_over {
            ended(news, End::Over)
        } else {
            (news, Stage::Open)
        }
    }

    /// Those who lost one process must not come to the next one all at once.
    fn jittered_retry_ms(&self) -> u64 {
        let least = u64::try_from(self.retry.as_millis()).unwrap_or(u64::MAX);
        least.saturating_add(up_to_ms(self.retry * 2))
    }
}

fn ended(mut text: String, end: End) -> (String, Stage) {
    // Writing to a string cannot fail.
    let reason = end.reason();
    write!(text, "event: end\ndata: {{\"reason\":\"{reason}\"}}\n\n").unwrap_or_default();
    (text, Stage::Ended)
}

/// A time of at most `most`, by chance.
fn up_to_ms(most: Duration) -> u64 {
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    rand::rng().random_range(0..=most)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{moment::tests::with_count, places::Places},
        *,
    };
    use crate::{kernel::ActivityId, settings::Settings};

    fn listener(moments: watch::Receiver<Arc<Moment>>, stop: CancellationToken) -> Listener {
        let settings = Settings::load_from(None, std::iter::empty()).unwrap();
        Listener {
            moments,
            told: Told::nothing(ActivityId(77)),
            stop,
            ends_at: Instant::now() + Duration::from_hours(1),
            heartbeat: Duration::from_hours(1),
            result_spread: Duration::from_secs(1),
            retry: Duration::from_secs(1),
            _place: Places::new(&settings.live).take(None).ok().unwrap(),
        }
    }

    async fn next(stream: &mut (impl Stream<Item = Result<Bytes, Infallible>> + Unpin)) -> String {
        let bytes = stream.next().await.unwrap().unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn who_reads_slowly_skips_to_the_newest() {
        let (sender, moments) = watch::channel(Arc::new(with_count(1)));
        let stop = CancellationToken::new();
        let listener = listener(moments, stop.clone());
        let mut stream = Box::pin(listener.stream(with_count(1)));
        let opening = next(&mut stream).await;
        assert!(opening.starts_with("retry: "), "{opening}");
        assert!(opening.contains("{\"count\":1}"), "{opening}");

        for count in 2..=1_000 {
            sender.send(Arc::new(with_count(count))).unwrap();
        }
        let news = next(&mut stream).await;

        assert_eq!(news.matches("event: ").count(), 1, "{news}");
        assert!(news.contains("{\"count\":1000}"), "{news}");
        stop.cancel();
        assert!(next(&mut stream).await.contains("\"stopping\""));
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_ends_when_nobody_watches_any_more() {
        let (sender, moments) = watch::channel(Arc::new(with_count(1)));
        let listener = listener(moments, CancellationToken::new());
        let mut stream = Box::pin(listener.stream(with_count(1)));
        next(&mut stream).await;

        drop(sender);

        assert!(stream.next().await.is_none());
    }
}
