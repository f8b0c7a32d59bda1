//! The one list of routes: actix serves it, and the document describes it.

use actix_web::web::ServiceConfig;

use super::super::Endpoint;

/// The routes of an application, in the order of the document.
#[derive(Default)]
pub struct Routes {
    endpoints: Vec<Endpoint>,
}

impl Routes {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a path.
    pub fn service(&mut self, endpoint: Endpoint) -> &mut Self {
        self.endpoints.push(endpoint);
        self
    }

    /// Adds the paths of a module.
    pub fn configure(&mut self, routes: impl FnOnce(&mut Self)) -> &mut Self {
        routes(self);
        self
    }

    /// Gives them to actix.
    pub fn serve(self, config: &mut ServiceConfig) {
        for endpoint in self.endpoints {
            config.service(endpoint);
        }
    }

    pub(super) fn into_endpoints(self) -> Vec<Endpoint> {
        self.endpoints
    }
}
