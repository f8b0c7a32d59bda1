//! The two use cases: joining, and looking at one's own participation.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    JoinBody, JoinError, Me, ParticipationView,
    batcher::{Batcher, Refusal, Waiting},
    body::Demands,
    marks::{self, Marker, Marks, UnsetMarks},
    queue::{Lengths, Queues},
};
use crate::{
    activity::{ActivityDetail, ActivityService, Status},
    candidate::CandidateService,
    infra::{broker::Broker, mysql::DatabaseClock, redis::Redis},
    kernel::{ActivityId, Timestamp, UserId},
    settings::JoinSettings,
    telemetry::{TraceContext, metrics},
};

/// What accepting joins stands on.
pub struct JoinDeps {
    pub activities: ActivityService,
    pub candidates: CandidateService,
    pub redis: Redis,
    pub broker: Broker,
    pub clock: Arc<DatabaseClock>,
    pub settings: JoinSettings,
    /// How many partitions the stream has.
    pub partitions: u16,
    /// How long the broker waits for a confirm.
    pub confirm_timeout: Duration,
}

/// Accepts joins. Cheap to clone.
#[derive(Clone)]
pub struct JoinService(Arc<Inner>);

struct Inner {
    activities: ActivityService,
    candidates: CandidateService,
    redis: Redis,
    clock: Arc<DatabaseClock>,
    settings: JoinSettings,
    queues: Queues,
    unset_marks: UnsetMarks,
    /// How long a join waits for its answer at most.
    answer_limit: Duration,
}

/// A background task and its name.
pub type NamedTask = (&'static str, Pin<Box<dyn Future<Output = ()> + Send>>);

/// The tasks without which no join is answered.
pub struct JoinTasks {
    batchers: Vec<Batcher<Broker, Arc<DatabaseClock>>>,
    marker: Marker,
}

impl JoinTasks {
    /// One task a partition, and one for the marks.
    ///
    /// Cancel `stop` once the HTTP server has drained: joins that come later are answered `503`,
    /// those that wait by then are still sent.
    pub fn into_tasks(self, stop: &CancellationToken) -> Vec<NamedTask> {
        let mut tasks: Vec<NamedTask> = Vec::with_capacity(self.batchers.len() + 1);
        for batcher in self.batchers {
            tasks.push(("join-batcher", Box::pin(batcher.run(stop.clone()))));
        }
        tasks.push(("join-marker", Box::pin(self.marker.run())));
        tasks
    }
}

impl JoinService {
    pub fn new(deps: JoinDeps) -> (Self, JoinTasks) {
        let (marks, marker) = Marker::new(deps.redis.clone());
        let (queues, receivers) = Queues::new(deps.partitions, deps.settings.queue_limit.get());
        let batchers = batchers(&deps, &marks, receivers);
        let inner = Inner {
            activities: deps.activities,
            candidates: deps.candidates,
            redis: deps.redis,
            clock: deps.clock,
            settings: deps.settings,
            queues,
            unset_marks: marks.unset(),
            answer_limit: deps.confirm_timeout * 2,
        };
        (Self(Arc::new(inner)), JoinTasks { batchers, marker })
    }

    /// Accepts a join: on return it is confirmed by the broker, and in time for the draw.
    ///
    /// # Errors
    ///
    /// After [`JoinError::OutcomeUnknown`] the join may be in the stream all the same; like every
    /// other join it can be sent again, and the first one counts.
    pub async fn join(
        &self,
        activity_id: ActivityId,
        user_id: UserId,
        body: JoinBody,
        request_id: String,
    ) -> Result<(), JoinError> {
        let accepted = self.accept(activity_id, user_id, body, request_id).await;
        if let Err(error) = &accepted {
            metrics::joins_refused(error.reason(), 1);
        }
        accepted
    }

    async fn accept(
        &self,
        activity_id: ActivityId,
        user_id: UserId,
        body: JoinBody,
        request_id: String,
    ) -> Result<(), JoinError> {
        let detail = self.0.activities.for_join(activity_id).await?;
        let draw_at = self.check_open(&detail)?;
        let demands = Demands {
            tasks: &detail.tasks,
            one_entry_per_device: detail.one_entry_per_device,
        };
        body.check(demands).map_err(JoinError::Invalid)?;

        let (answer, answered) = oneshot::channel();
        let device_id = body.device_id.clone();
        let completed_tasks = if self.0.settings.trust_completed_tasks {
            body.into_completed_tasks()
        } else {
            Vec::new()
        };
        self.0.queues.push(Waiting {
            activity_id,
            user_id,
            device_id,
            completed_tasks,
            request_id,
            draw_at,
            since: Instant::now(),
            trace: TraceContext::current(),
            answer,
        })?;
        // A batcher that ends without an answer was stopped before it sent the join.
        let refusal = match timeout(self.0.answer_limit, answered).await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(refusal))) => refusal,
            Ok(Err(_)) => Refusal::NotTaken,
            Err(_) => Refusal::OutcomeUnknown,
        };
        Err(JoinError::of_refusal(refusal, activity_id))
    }

    /// The time until which the activity takes joins, if it still does.
    fn check_open(&self, detail: &ActivityDetail) -> Result<Timestamp, JoinError> {
        let id = detail.id;
        match (detail.status, detail.draw_at) {
            _ if !detail.is_public() => Err(JoinError::NotFound(id)),
            (Status::Drawing | Status::Drawn | Status::Cancelled, _) => Err(JoinError::Closed(id)),
            (Status::Open, Some(draw_at)) if self.has_passed(draw_at) => Err(JoinError::Closed(id)),
            (Status::Open, Some(draw_at)) => Ok(draw_at),
            (
                Status::Draft | Status::InReview | Status::Rejected | Status::Ready | Status::Open,
                _,
            ) => Err(JoinError::NotOpen(id)),
        }
    }

    /// As far as this process knows; the batcher looks again.
    fn has_passed(&self, at: Timestamp) -> bool {
        self.0.clock.estimate().is_some_and(|time| at <= time.at)
    }

    /// What has become of the user's join.
    pub async fn me(&self, activity_id: ActivityId, user_id: UserId) -> Result<Me, JoinError> {
        let detail = self.0.activities.detail(activity_id).await?;
        if !detail.is_public() {
            return Err(JoinError::NotFound(activity_id));
        }
        // Whose participation is gone may well have had one.
        if detail.participants_removed_at.is_some() {
            return Err(JoinError::Expired(activity_id));
        }
        let redis = &self.0.redis;
        // The mark first: it may go as soon as the participation is there.
        let is_marked = marks::is_marked(redis, &self.0.unset_marks, activity_id, user_id).await;
        // Large, because of the way it takes when Redis has nothing.
        let read = Box::pin(self.0.candidates.participant(activity_id, user_id));
        let state = read.await?;
        // Removals are of what is over; a copy of the detail may be older than this one's.
        if state.is_none() && detail.status.is_final() {
            let detail = Box::pin(self.0.activities.fresh_detail(activity_id)).await?;
            if detail.participants_removed_at.is_some() {
                return Err(JoinError::Expired(activity_id));
            }
        }
        Ok(match (state, is_marked) {
            (Some(state), _) => {
                let now = self.0.clock.estimate().map(|time| time.at);
                Me::of_state(state, &detail, now)
            }
            (None, Some(true)) => Me::without_verdict(ParticipationView::Processing),
            (None, Some(false) | None) => Me::without_verdict(ParticipationView::None),
        })
    }
}

fn batchers(
    deps: &JoinDeps,
    marks: &Marks,
    receivers: Vec<mpsc::Receiver<Waiting>>,
) -> Vec<Batcher<Broker, Arc<DatabaseClock>>> {
    let lengths = Lengths::new(deps.partitions);
    (0..deps.partitions)
        .zip(receivers)
        .map(|(partition, queue)| Batcher {
            partition,
            batch_max: deps.settings.batch_max.get(),
            patience: deps.confirm_timeout,
            broker: deps.broker.clone(),
            clock: Arc::clone(&deps.clock),
            marks: marks.clone(),
            lengths: lengths.clone(),
            is_failing: AtomicBool::new(false),
            queue,
        })
        .collect()
}
