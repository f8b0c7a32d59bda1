//! The features of this process, wired to each other and to the shared connections.

use std::sync::Arc;

use actix_web::web::{Data, ServiceConfig};
use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::Semaphore};

use super::{Stages, connections::Connections};
use crate::{
    activity::{
        self, ActivityDeps, ActivityService, CountParticipants, DetailProjection, LiveDeps,
        LiveService,
    },
    admin_copy::AdminCopier,
    candidate::{self, CandidateDeps, CandidateService, DenyService, Ingress, IngressDeps},
    draw::{self, DrawDeps, DrawService, ProofDeps, ProofService},
    http::{Exports, Routes},
    infra::{
        idempotency::Answers,
        outbox::{CopyRelay, Relay},
    },
    join::{self, JoinDeps, JoinService, JoinTasks},
    kernel::Supervisor,
    notifications::{NotificationDeps, NotificationSender},
    settings::Settings,
    winners::{self, WinnerDeps, WinnerProjection, WinnerService},
};

/// Every service of the process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Services {
    pub(super) activities: ActivityService,
    pub(super) candidates: CandidateService,
    pub(super) ingress: Ingress,
    pub(super) draws: DrawService,
    pub(super) notifications: NotificationSender,
    pub(super) relay: Arc<Relay>,
    /// Only with an admin database.
    pub(super) copies: Option<Arc<CopyRelay>>,
    pub(super) answers: Answers,
    /// The turns that callers of the API take at `MySQL`.
    pub(super) mysql_reads: Arc<Semaphore>,
    joins: JoinService,
    winners: WinnerService,
    exports: Exports,
    denials: DenyService,
    proofs: ProofService,
    live: LiveService,
    /// Taken when the workers start.
    join_tasks: Arc<Mutex<Option<JoinTasks>>>,
}

impl Services {
    /// Does no I/O, but needs a runtime. Draws and the watchers of streams run under `workers`, long
    /// answers under `streams`, what copies must finish under `relay`.
    pub(super) fn new(
        settings: &Settings,
        connections: &Connections,
        Stages {
            workers,
            streams,
            relay: relaying,
            ..
        }: &Stages,
    ) -> Self {
        let mysql_reads = Arc::new(Semaphore::new(settings.limits.mysql_concurrency.get()));
        let activities = activity_service(settings, connections, &mysql_reads);
        let candidates = candidate_service(settings, connections, Arc::clone(&mysql_reads));
        let (joins, join_tasks) = join_service(
            settings,
            connections,
            activities.clone(),
            candidates.clone(),
        );
        let winners = WinnerService::new(WinnerDeps {
            db: connections.db.clone(),
            redis: connections.redis.clone(),
            activities: activities.clone(),
            clock: Arc::clone(&connections.clock),
            outbox: connections.outbox.clone(),
            mysql_reads: Arc::clone(&mysql_reads),
        });
        Self {
            draws: draw_service(
                settings,
                connections,
                candidates.clone(),
                workers,
                Arc::clone(&mysql_reads),
            ),
            live: live_service(settings, &activities, &candidates, workers),
            answers: Answers::new(connections.db.clone(), Arc::clone(&mysql_reads)),
            notifications: NotificationSender::new(NotificationDeps {
                db: connections.db.clone(),
                broker: connections.broker.clone(),
                part_size: settings.notifications.part_size,
            }),
            ingress: ingress(settings, connections),
            copies: copies(settings, connections, relaying),
            relay: Arc::new(relay(connections, &activities)),
            proofs: ProofService::new(ProofDeps {
                db: connections.db.clone(),
                winners: winners.clone(),
                mysql_reads: Arc::clone(&mysql_reads),
            }),
            denials: DenyService::new(connections.db.clone(), Arc::clone(&mysql_reads)),
            mysql_reads,
            winners,
            exports: Exports::new(streams.clone()),
            joins,
            join_tasks: Arc::new(Mutex::new(Some(join_tasks))),
            candidates,
            activities,
        }
    }

    /// The routes of all features.
    pub(super) fn routes(&self, config: &mut ServiceConfig) {
        let counter: Arc<dyn CountParticipants> = Arc::new(self.candidates.clone());
        config
            .app_data(Data::new(self.activities.clone()))
            .app_data(Data::from(counter))
            .app_data(Data::new(self.candidates.clone()))
            .app_data(Data::new(self.ingress.clone()))
            .app_data(Data::new(self.joins.clone()))
            .app_data(Data::new(self.winners.clone()))
            .app_data(Data::new(self.draws.clone()))
            .app_data(Data::new(self.denials.clone()))
            .app_data(Data::new(self.proofs.clone()))
            .app_data(Data::new(self.answers.clone()))
            .app_data(Data::new(self.exports.clone()))
            .app_data(Data::new(self.live.clone()))
            .configure(|config| feature_routes().serve(config));
    }

    /// Ends the streams, which would hold up a stop for as long as somebody listens.
    pub(super) fn end_streams(&self) {
        self.live.stop();
    }

    /// What joins need to be answered; only the first caller gets it.
    pub(super) fn take_join_tasks(&self) -> Option<JoinTasks> {
        self.join_tasks.lock().take()
    }
}

/// The routes of all features.
pub(super) fn feature_routes() -> Routes {
    let mut routes = Routes::new();
    routes
        .configure(activity::routes)
        .configure(candidate::event_routes)
        .configure(candidate::stats_routes)
        .configure(candidate::deny_routes)
        .configure(candidate::export_routes)
        .configure(join::routes)
        .configure(winners::routes)
        .configure(draw::routes);
    routes
}

fn live_service(
    settings: &Settings,
    activities: &ActivityService,
    candidates: &CandidateService,
    workers: &Supervisor,
) -> LiveService {
    LiveService::new(LiveDeps {
        activities: activities.clone(),
        participants: Arc::new(candidates.clone()),
        settings: settings.live.clone(),
        supervisor: workers.clone(),
        runtime: Handle::current(),
    })
}

fn activity_service(
    settings: &Settings,
    connections: &Connections,
    mysql_reads: &Arc<Semaphore>,
) -> ActivityService {
    ActivityService::new(ActivityDeps {
        db: connections.db.clone(),
        redis: connections.redis.clone(),
        outbox: connections.outbox.clone(),
        clock: Arc::clone(&connections.clock),
        settings: settings.activity.clone(),
        candidate: settings.candidate.clone(),
        draw: settings.draw.clone(),
        mysql_reads: Arc::clone(mysql_reads),
    })
}

pub(super) fn candidate_service(
    settings: &Settings,
    connections: &Connections,
    mysql_reads: Arc<Semaphore>,
) -> CandidateService {
    CandidateService::new(CandidateDeps {
        db: connections.db.clone(),
        redis: connections.redis.clone(),
        broker: connections.broker.clone(),
        clock: Arc::clone(&connections.clock),
        settings: settings.candidate.clone(),
        join: settings.join.clone(),
        partitions: settings.stream.partitions,
        mysql_reads,
    })
}

fn ingress(settings: &Settings, connections: &Connections) -> Ingress {
    Ingress::new(IngressDeps {
        broker: connections.broker.clone(),
        clock: Arc::clone(&connections.clock),
        settings: settings.presence.clone(),
        max_body_bytes: settings.server.batch_body_limit_bytes.get(),
    })
}

fn join_service(
    settings: &Settings,
    connections: &Connections,
    activities: ActivityService,
    candidates: CandidateService,
) -> (JoinService, JoinTasks) {
    JoinService::new(JoinDeps {
        activities,
        candidates,
        redis: connections.redis.clone(),
        broker: connections.broker.clone(),
        clock: Arc::clone(&connections.clock),
        settings: settings.join.clone(),
        partitions: settings.stream.partitions,
        confirm_timeout: settings.rabbitmq.confirm_timeout_ms.duration(),
    })
}

fn draw_service(
    settings: &Settings,
    connections: &Connections,
    candidates: CandidateService,
    workers: &Supervisor,
    mysql_reads: Arc<Semaphore>,
) -> DrawService {
    DrawService::new(DrawDeps {
        db: connections.db.clone(),
        redis: connections.redis.clone(),
        broker: connections.broker.clone(),
        outbox: connections.outbox.clone(),
        candidates,
        supervisor: workers.clone(),
        settings: settings.draw.clone(),
        mysql_reads,
    })
}

fn copies(
    settings: &Settings,
    connections: &Connections,
    relaying: &Supervisor,
) -> Option<Arc<CopyRelay>> {
    let admin = connections.admin.clone()?;
    let copier = AdminCopier::new(
        connections.db.clone(),
        admin,
        settings.admin_database.clone(),
        relaying.clone(),
    );
    let relay = CopyRelay::new(
        connections.db.clone(),
        connections.outbox.clone(),
        Arc::new(copier),
    );
    Some(Arc::new(relay))
}

fn relay(connections: &Connections, activities: &ActivityService) -> Relay {
    let details = DetailProjection(activities.clone());
    let winners = WinnerProjection::new(
        connections.db.clone(),
        connections.redis.clone(),
        Arc::clone(&connections.clock),
    );
    Relay::new(
        connections.db.clone(),
        connections.broker.clone(),
        Arc::clone(&connections.clock),
        connections.outbox.clone(),
    )
    .with_projection(activity::PROJECTION, Arc::new(details))
    .with_projection(WinnerProjection::NAME, Arc::new(winners))
}
