//! Waiting out an outage with a message in hand: it is tried again in place, never put back.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{
    infra::broker::{Broker, Outgoing},
    telemetry::state::Held,
};

/// A pause that doubles, and a warning only the first time.
pub(super) struct Hold {
    what: &'static str,
    pause: Duration,
    /// From the first pause on, which is told.
    held: Option<Held>,
}

impl Hold {
    const FIRST_PAUSE: Duration = Duration::from_millis(200);
    const LONGEST_PAUSE: Duration = Duration::from_secs(2);

    /// `what` is held, for the log.
    pub(super) const fn new(what: &'static str) -> Self {
        Self {
            what,
            pause: Self::FIRST_PAUSE,
            held: None,
        }
    }

    /// `None` when the stop was requested meanwhile.
    pub(super) async fn pause(
        &mut self,
        error: &(dyn std::error::Error + Send + Sync + 'static),
        stop: &CancellationToken,
    ) -> Option<()> {
        if self.held.is_none() {
            tracing::warn!(
                error = error as &(dyn std::error::Error + 'static),
                held = self.what,
                "messages are held until this works again"
            );
            self.held = Some(Held::begin(self.what));
        }
        stop.run_until_cancelled(tokio::time::sleep(self.pause))
            .await?;
        self.pause = (self.pause * 2).min(Self::LONGEST_PAUSE);
        Some(())
    }
}

/// Publishes until every message is confirmed; `None` when the stop was requested before that.
///
/// `what` waits for it, for the log.
pub(super) async fn publish_until_confirmed(
    broker: &Broker,
    mut outgoing: Vec<Outgoing>,
    what: &'static str,
    stop: &CancellationToken,
) -> Option<()> {
    let mut hold = Hold::new(what);
    while !outgoing.is_empty() {
        let results = broker.publish_all(outgoing.clone()).await;
        let mut results = results.into_iter();
        let mut failure = None;
        outgoing.retain(|_| match results.next() {
            Some(Err(error)) => {
                failure = Some(error);
                true
            }
            Some(Ok(())) | None => false,
        });
        if let Some(error) = failure {
            hold.pause(&error, stop).await?;
        }
    }
    Some(())
}
