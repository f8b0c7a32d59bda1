//! Works off `notify_progress`: one part of one activity at a time, resuming where it stopped.

use std::{
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use sea_orm::{DatabaseConnection, DbErr, TransactionTrait};
use tokio_util::sync::CancellationToken;

use crate::{
    activity::{self, Activity},
    candidate,
    infra::{
        broker::{Broker, PublishError},
        mysql::{TransactionRetry, within_limit},
        outbox::Event,
    },
    kernel::{Timestamp, UserId},
    telemetry::metrics,
    winners::{
        self, events,
        progress::{self, TellingPart, WINNERS_PART},
    },
};

/// What [`NotificationSender`] stands on.
pub struct NotificationDeps {
    pub db: DatabaseConnection,
    pub broker: Broker,
    /// Most user ids in one `result.not_won` message.
    pub part_size: NonZeroUsize,
}

/// Why results could not be told at the moment; they are told later.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    #[error("cannot {action} in MySQL")]
    Database {
        action: &'static str,
        #[source]
        source: DbErr,
    },

    #[error("cannot publish results")]
    Publish(#[from] PublishError),

    #[error("activity {0} has results to tell but is not drawn")]
    NotDrawn(crate::kernel::ActivityId),
}

impl From<DbErr> for NotifyError {
    fn from(source: DbErr) -> Self {
        db_error("tell results")(source)
    }
}

fn db_error(action: &'static str) -> impl Fn(DbErr) -> NotifyError {
    move |source| NotifyError::Database { action, source }
}

/// Sends `result.won`, one a winner, then `result.not_won` in batches. Cheap to clone.
#[derive(Clone)]
pub struct NotificationSender {
    deps: Arc<NotificationDeps>,
}

/// The messages that come next, and how far they reach.
struct Round {
    events: Vec<Event>,
    /// The last user id they are about; `None` when nobody was left.
    told: Option<UserId>,
}

impl NotificationSender {
    /// How long a claim lasts; longer than one turn takes.
    const CLAIM: Duration = Duration::from_secs(30);
    /// How long one claim is worked on before others get their turn.
    const TURN: Duration = Duration::from_secs(5);
    const RETRY_PAUSE: Duration = Duration::from_secs(1);
    const IDLE_PAUSE: Duration = Duration::from_millis(300);
    /// Parts that one process works on at the same time.
    const SENDERS: usize = 4;
    /// Messages that are published together.
    const MESSAGES_AT_ONCE: usize = 20;

    pub fn new(deps: NotificationDeps) -> Self {
        Self {
            deps: Arc::new(deps),
        }
    }

    /// Tells results until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        join_all((0..Self::SENDERS).map(|_| self.run_one(stop.clone()))).await;
    }

    async fn run_one(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.tick().await {
                Ok(told) if told > 0 => continue,
                Ok(_) => (),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "results not told, they are later");
                }
            }
            let pause = tokio::time::sleep(Self::IDLE_PAUSE);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    /// Claims one part that is due and works on it for a while; returns how many parts there were
    /// to work on: 1 or 0.
    pub async fn tick(&self) -> Result<usize, NotifyError> {
        within_limit(self.take_turn()).await
    }

    async fn take_turn(&self) -> Result<usize, NotifyError> {
        let Some(part) = self.claim().await? else {
            return Ok(0);
        };
        let outcome = self.tell(part.clone()).await;
        let pause = match outcome {
            Ok(()) => Duration::ZERO,
            Err(_) => Self::RETRY_PAUSE,
        };
        progress::postpone(&self.deps.db, &part, pause)
            .await
            .map_err(db_error("give a part of the results back"))?;
        outcome.map(|()| 1)
    }

    async fn claim(&self) -> Result<Option<TellingPart>, NotifyError> {
        let mut retry = TransactionRetry::new();
        loop {
            match self.try_claim().await {
                Err(error) if retry.again(&error).await => metrics::db_retries(),
                outcome => return outcome.map_err(db_error("claim a part of the results")),
            }
        }
    }

    async fn try_claim(&self) -> Result<Option<TellingPart>, DbErr> {
        let tx = self.deps.db.begin().await?;
        let part = progress::find_due_for_update(&tx).await?;
        if let Some(part) = &part {
            progress::postpone(&tx, part, Self::CLAIM).await?;
        }
        tx.commit().await?;
        Ok(part)
    }

    /// Tells one part until it is done or its turn is over.
    async fn tell(&self, mut part: TellingPart) -> Result<(), NotifyError> {
        let db = &self.deps.db;
        let activity = activity::find(db, part.activity_id)
            .await
            .map_err(db_error("read an activity"))?;
        let drawn = activity.and_then(|activity| Some((activity.drawn_at?, activity)));
        let (drawn_at, activity) = drawn.ok_or(NotifyError::NotDrawn(part.activity_id))?;

        let turn_ends_at = Instant::now() + Self::TURN;
        while Instant::now() < turn_ends_at {
            let round = self.next_round(&activity, drawn_at, &part).await?;
            let Some(told) = round.told else {
                return progress::mark_done(db, &part)
                    .await
                    .map_err(db_error("finish a part of the results"));
            };
            self.publish(round.events).await?;
            progress::mark_told(db, &part, told.0)
                .await
                .map_err(db_error("note how far results are told"))?;
            part.told_user_id = told.0;
        }
        Ok(())
    }

    async fn next_round(
        &self,
        activity: &Activity,
        drawn_at: Timestamp,
        part: &TellingPart,
    ) -> Result<Round, NotifyError> {
        if part.part == WINNERS_PART {
            self.winners_round(activity, part).await
        } else {
            self.others_round(activity, drawn_at, part).await
        }
    }

    async fn winners_round(
        &self,
        activity: &Activity,
        part: &TellingPart,
    ) -> Result<Round, NotifyError> {
        const DRAW: u32 = 1;
        const WINNERS_AT_ONCE: u32 = 200;

        let (db, id, after) = (&self.deps.db, activity.id, part.told_user_id);
        let wins = winners::list_of_round(db, id, DRAW, after, WINNERS_AT_ONCE)
            .await
            .map_err(db_error("list winners"))?;
        Ok(Round {
            told: wins.last().map(|win| win.user_id),
            events: wins.iter().map(|win| events::won(activity, win)).collect(),
        })
    }

    async fn others_round(
        &self,
        activity: &Activity,
        drawn_at: Timestamp,
        part: &TellingPart,
    ) -> Result<Round, NotifyError> {
        let (db, id, part_size) = (&self.deps.db, activity.id, self.deps.part_size.get());
        let after = part.told_user_id.max(part.first_user_id - 1);
        let limit = u64::try_from(part_size * Self::MESSAGES_AT_ONCE).unwrap_or(u64::MAX);
        let joined = candidate::list_joined(db, id, after, part.last_user_id, limit)
            .await
            .map_err(db_error("list participants"))?;
        let Some((first, last)) = joined.first().zip(joined.last()) else {
            return Ok(Round {
                events: Vec::new(),
                told: None,
            });
        };
        let holders = winners::list_winners_between(db, id, *first, *last)
            .await
            .map_err(db_error("list winners"))?;
        let message = |users: &[UserId]| {
            let first = *users.first()?;
            let others: Vec<UserId> = users
                .iter()
                .copied()
                .filter(|user| !holders.contains(user))
                .collect();
            let event = events::not_won(activity, drawn_at, part.part, first, &others);
            (!others.is_empty()).then_some(event)
        };
        Ok(Round {
            events: joined.chunks(part_size).filter_map(message).collect(),
            told: Some(*last),
        })
    }

    /// Publishes all of them, or fails: then none counts as told.
    async fn publish(&self, events: Vec<Event>) -> Result<(), NotifyError> {
        let kinds: Vec<&'static str> = events.iter().map(|event| event.kind.as_str()).collect();
        let messages = events.into_iter().map(Event::into_outgoing).collect();
        let results = self.deps.broker.publish_all(messages).await;
        results.into_iter().collect::<Result<Vec<()>, _>>()?;
        if let Some(kind) = kinds.first() {
            let count = u64::try_from(kinds.len()).unwrap_or(u64::MAX);
            metrics::notifications_sent(kind, count);
        }
        Ok(())
    }
}
