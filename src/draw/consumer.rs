//! The delayed draw messages: sent on until they are due, then drawn.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Begun, DrawError, DrawOutcome, DrawService};
use crate::{
    infra::{
        broker::{Broker, Delivery, Handler, PublishError, Verdict},
        outbox::DrawMessage,
    },
    kernel::ActivityId,
};

/// Handles the messages of `Queue::Draw`. A message decides nothing: the row's state and drawAt by
/// the database's clock do, so lost, doubled and early messages do no harm.
pub struct DrawConsumer {
    draws: DrawService,
    broker: Broker,
    stop: CancellationToken,
}

/// Why a message cannot be settled at the moment.
#[derive(Debug, thiserror::Error)]
enum Hindrance {
    #[error(transparent)]
    Draw(#[from] DrawError),

    #[error("cannot send a draw message on")]
    Publish(#[from] PublishError),
}

/// What to do about a message now.
enum Next {
    Settled,
    /// Another look is needed after this pause.
    Wait(Duration),
}

impl DrawConsumer {
    /// Messages in hand at once: large, since waiting ones must not block the others.
    pub const PREFETCH: u16 = 1_000;

    /// Up to this long a due draw is waited for on a timer.
    const LAST_SECOND: Duration = Duration::from_secs(1);
    const RETRY_PAUSE: Duration = Duration::from_secs(1);

    pub fn new(draws: DrawService, broker: Broker, stop: CancellationToken) -> Self {
        Self {
            draws,
            broker,
            stop,
        }
    }

    /// Looks at the row and does what it asks for.
    async fn advance(&self, message: DrawMessage) -> Result<Next, Hindrance> {
        let id = message.activity_id;
        let state = self.draws.state(id).await?;
        let Some(draw_at) = state.pending_draw_at() else {
            return Ok(Next::Settled);
        };
        let left = (draw_at - state.now).to_std().unwrap_or_default();
        if left > Self::LAST_SECOND {
            let due = DrawMessage { draw_at, ..message };
            self.broker.publish(due.into_outgoing(left)).await?;
            return Ok(Next::Settled);
        }
        if !left.is_zero() {
            return Ok(Next::Wait(left));
        }
        Ok(self.begin(id).await?)
    }

    async fn begin(&self, id: ActivityId) -> Result<Next, DrawError> {
        Ok(match self.draws.begin(id).await? {
            // Its clock was a moment ahead of the row's.
            Begun::Refused(DrawOutcome::NotDue) => Next::Wait(Duration::from_millis(1)),
            Begun::Started | Begun::Refused(_) => Next::Settled,
            Begun::Busy | Begun::Stopping => Next::Wait(Self::RETRY_PAUSE),
        })
    }
}

impl Handler for DrawConsumer {
    async fn handle(&self, delivery: Delivery) -> Verdict {
        let message: DrawMessage = match serde_json::from_slice(&delivery.body) {
            Ok(message) => message,
            Err(error) => {
                let reason = format!("not a draw message: {error}");
                return Verdict::DeadLetter { reason };
            }
        };
        loop {
            let pause = match self.advance(message).await {
                Ok(Next::Settled) => return Verdict::Ack,
                Ok(Next::Wait(pause)) => pause,
                // Its message is sent after the commit that made it, so it will never exist.
                Err(Hindrance::Draw(error @ DrawError::NotFound(_))) => {
                    let reason = error.to_string();
                    return Verdict::DeadLetter { reason };
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, activity.id = %message.activity_id, "draw message held");
                    Self::RETRY_PAUSE
                }
            };
            let pause = tokio::time::sleep(pause);
            if self.stop.run_until_cancelled(pause).await.is_none() {
                return Verdict::Abandon;
            }
        }
    }
}
