//! Liveness, readiness and metrics.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use actix_web::{
    HttpResponse,
    http::StatusCode,
    web::{Data, ServiceConfig},
};
use parking_lot::RwLock;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{
    endpoint::Endpoint,
    openapi::{Operation, Routes, Tag},
};
use crate::telemetry::metrics::{self, MetricsPage};

/// Whether a dependency answers at the moment; must not block.
pub type Probe = Arc<dyn Fn() -> bool + Send + Sync>;

/// A server that this process needs, with the way to see whether it answers.
#[derive(Clone)]
pub struct Dependency {
    name: &'static str,
    is_up: Probe,
}

const STARTING: u8 = 0;
const READY: u8 = 1;
const STOPPING: u8 = 2;

/// Whether this process should get requests; shared by all who change it or ask.
///
/// It becomes ready once and stays so until it stops: a dependency that fails later shows as
/// degraded, because joins are still taken.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: AtomicU8,
    dependencies: RwLock<Vec<Dependency>>,
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Readiness").field(&self.0.state).finish()
    }
}

impl Readiness {
    /// Starts as `starting`, with no dependencies.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows the dependency under `name` from now on.
    pub fn register(&self, name: &'static str, is_up: Probe) {
        self.0.dependencies.write().push(Dependency { name, is_up });
    }

    /// Every dependency was reached: requests may come. Does nothing once stopping.
    pub fn mark_ready(&self) {
        let change =
            self.0
                .state
                .compare_exchange(STARTING, READY, Ordering::AcqRel, Ordering::Acquire);
        if change.is_ok() {
            tracing::info!("ready");
        }
    }

    /// No further requests, please.
    pub fn mark_stopping(&self) {
        self.0.state.store(STOPPING, Ordering::Release);
    }

    /// Whether `/readyz` is 200.
    pub fn is_ready(&self) -> bool {
        self.0.state.load(Ordering::Acquire) == READY
    }

    fn report(&self) -> Report {
        let dependencies: BTreeMap<&'static str, &'static str> = self
            .0
            .dependencies
            .read()
            .iter()
            .map(Dependency::report)
            .collect();
        let all_up = dependencies.values().all(|&state| state == "up");
        let status = match self.0.state.load(Ordering::Acquire) {
            STARTING => "starting",
            READY if all_up => "ready",
            READY => "degraded",
            _ => "stopping",
        };
        Report {
            status,
            dependencies,
        }
    }
}

impl Dependency {
    fn report(&self) -> (&'static str, &'static str) {
        if (self.is_up)() {
            metrics::dependency_up(self.name);
            (self.name, "up")
        } else {
            metrics::dependency_down(self.name);
            (self.name, "down")
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
struct Report {
    /// `starting`, `ready`, `degraded` or `stopping`.
    status: &'static str,
    /// `up` or `down`, by name.
    dependencies: BTreeMap<&'static str, &'static str>,
}

/// What is answered to whoever keeps the process running, however many others call.
pub(super) const PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Serves `/healthz`, `/readyz` and `/metrics`, on the public address or on one of their own.
#[derive(Clone)]
pub struct HealthKit {
    pub readiness: Readiness,
    pub metrics: MetricsPage,
}

impl HealthKit {
    pub fn configure(&self, config: &mut ServiceConfig) {
        config
            .app_data(Data::new(self.clone()))
            .configure(|config| {
                let mut routes = Routes::new();
                health_routes(&mut routes);
                routes.serve(config);
            });
    }
}

/// The routes of [`HealthKit`].
pub fn health_routes(routes: &mut Routes) {
    routes
        .service(Endpoint::new("/healthz").get(healthz, healthz_operation()))
        .service(Endpoint::new("/readyz").get(readyz, readyz_operation()))
        .service(Endpoint::new("/metrics").get(metrics_page, metrics_operation()));
}

fn operation(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Tag::Service, id, summary)
        .description("On the address of `server.ops_bind` when that is set. Not limited in rate.")
}

fn healthz_operation() -> Operation {
    operation("getHealth", "Whether the process lives").answer::<Liveness>(
        StatusCode::OK,
        "It does.",
        json!({ "status": "alive" }),
    )
}

fn readyz_operation() -> Operation {
    let dependencies = |rabbitmq| json!({ "mysql": "up", "rabbitmq": rabbitmq, "redis": "up" });
    operation("getReadiness", "Whether the process should get requests")
        .answer::<Report>(
            StatusCode::OK,
            "Requests may come. A dependency that fails later shows as `degraded`: joins are still \
             taken.",
            json!({ "status": "degraded", "dependencies": dependencies("down") }),
        )
        .answer::<Report>(
            StatusCode::SERVICE_UNAVAILABLE,
            "It is starting, or stopping.",
            json!({ "status": "starting", "dependencies": dependencies("down") }),
        )
}

fn metrics_operation() -> Operation {
    operation("getMetrics", "Metrics for Prometheus").answer_text(
        StatusCode::OK,
        "text/plain; version=0.0.4",
        "The metrics.",
        "luckybag_dependency_up{name=\"mysql\"} 1\n",
    )
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "the schema of a constant answer")]
struct Liveness {
    #[schema(pattern = "^alive$")]
    status: &'static str,
}

async fn healthz() -> HttpResponse {
    HttpResponse::Ok().json(serde_json::json!({ "status": "alive" }))
}

async fn readyz(kit: Data<HealthKit>) -> HttpResponse {
    let is_ready = kit.readiness.is_ready();
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    HttpResponse::build(status)
        .insert_header(("cache-control", "no-store"))
        .json(kit.readiness.report())
}

async fn metrics_page(kit: Data<HealthKit>) -> HttpResponse {
    // A dependency's gauge is set whenever it is looked at.
    kit.readiness.report();
    HttpResponse::Ok()
        .content_type("text/plain; version=0.0.4")
        .body(kit.metrics.render())
}
