//! A path and its methods.

use actix_web::{
    FromRequest, Handler, Resource, Responder, Route,
    dev::{AppService, HttpServiceFactory},
    http::Method,
    web,
};

use super::problem::Problem;

/// One path and what its methods do; any other method is answered 405 with `Allow`.
///
/// Two routes of one path belong into one endpoint, unlike with actix's attribute macros, which
/// answer a wrong method with 404.
pub struct Endpoint {
    resource: Resource,
    methods: Vec<Method>,
}

impl Endpoint {
    /// Path parameters stand in braces: `/v1/activities/{activityId}`.
    pub fn new(path: &str) -> Self {
        Self {
            resource: web::resource(path),
            methods: Vec::new(),
        }
    }

    /// Also answers HEAD, without a body.
    #[must_use]
    pub fn get<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::HEAD, web::head().to(handler.clone()))
            .route(Method::GET, web::get().to(handler))
    }

    #[must_use]
    pub fn post<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::POST, web::post().to(handler))
    }

    #[must_use]
    pub fn patch<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::PATCH, web::patch().to(handler))
    }

    #[must_use]
    pub fn put<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::PUT, web::put().to(handler))
    }

    #[must_use]
    pub fn delete<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::DELETE, web::delete().to(handler))
    }

    fn route(mut self, method: Method, route: Route) -> Self {
        self.methods.push(method);
        self.resource = self.resource.route(route);
        self
    }
}

impl HttpServiceFactory for Endpoint {
    fn register(self, config: &mut AppService) {
        let methods = self.methods;
        let refuse = move || {
            let problem = Problem::method_not_allowed(&methods);
            async move { Err::<String, _>(problem) }
        };
        self.resource
            .default_service(web::to(refuse))
            .register(config);
    }
}
