//! What every application of ours needs before its routes.

use std::sync::Arc;

use actix_web::web::{self, ServiceConfig};

use super::{auth::Auth, body::BodyLimits, limits::RateLimits, problem::Problem};

/// Shared by all workers.
#[derive(Clone, Debug)]
pub struct WebKit {
    pub auth: Arc<Auth>,
    pub limits: BodyLimits,
    pub rates: Arc<RateLimits>,
}

impl WebKit {
    /// Gives the extractors what they need, and unknown paths an answer.
    pub fn configure(&self, config: &mut ServiceConfig) {
        config
            .app_data(Arc::clone(&self.auth))
            .app_data(self.limits)
            .app_data(Arc::clone(&self.rates))
            .default_service(web::to(not_found));
    }
}

async fn not_found() -> Result<String, Problem> {
    Err(Problem::not_found(
        "not_found",
        "there is nothing under this path",
    ))
}
