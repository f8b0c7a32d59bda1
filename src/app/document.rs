//! The OpenAPI document of the service.

use utoipa::openapi::OpenApi;

use super::services::feature_routes;
use crate::http::{
    health_routes,
    openapi::{ApiDocument, document_routes},
};

/// Describes every route of the service.
pub fn openapi() -> OpenApi {
    let mut routes = feature_routes();
    routes.configure(health_routes).configure(document_routes);
    routes.into_document()
}

/// The same as JSON, byte for byte as it is served.
pub fn openapi_json() -> Result<ApiDocument, serde_json::Error> {
    ApiDocument::new(&openapi())
}
