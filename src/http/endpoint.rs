//! A path and its methods.

use actix_web::{
    FromRequest, Handler, Resource, Responder, Route,
    dev::{AppService, HttpServiceFactory},
    http::Method,
    web,
};

use super::{
    openapi::{Described, Operation},
    problem::Problem,
};

/// One path and what its methods do; any other method is answered 405 with `Allow`.
///
/// Two routes of one path belong into one endpoint, unlike with actix's attribute macros, which
/// answer a wrong method with 404. A route comes with its description, so that none is without.
pub struct Endpoint {
    path: String,
    resource: Resource,
    methods: Vec<Method>,
    operations: Vec<(Method, Operation)>,
}

impl Endpoint {
    /// Path parameters stand in braces: `/v1/activities/{activityId}`.
    pub fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            resource: web::resource(path),
            methods: Vec::new(),
            operations: Vec::new(),
        }
    }

    /// Also answers HEAD, without a body.
    #[must_use]
    pub fn get<F, Args>(self, handler: F, operation: Operation) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + Described + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::HEAD, web::head().to(handler.clone()))
            .described(Method::GET, handler, operation)
    }

    #[must_use]
    pub fn post<F, Args>(self, handler: F, operation: Operation) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + Described + 'static,
        F::Output: Responder + 'static,
    {
        self.described(Method::POST, handler, operation)
    }

    #[must_use]
    pub fn patch<F, Args>(self, handler: F, operation: Operation) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + Described + 'static,
        F::Output: Responder + 'static,
    {
        self.described(Method::PATCH, handler, operation)
    }

    #[must_use]
    pub fn put<F, Args>(self, handler: F, operation: Operation) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + Described + 'static,
        F::Output: Responder + 'static,
    {
        self.described(Method::PUT, handler, operation)
    }

    #[must_use]
    pub fn delete<F, Args>(self, handler: F, operation: Operation) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + Described + 'static,
        F::Output: Responder + 'static,
    {
        self.described(Method::DELETE, handler, operation)
    }

    fn described<F, Args>(self, method: Method, handler: F, mut operation: Operation) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + Described + 'static,
        F::Output: Responder + 'static,
    {
        Args::describe(&mut operation);
        let mut endpoint = self.route(method.clone(), web::method(method.clone()).to(handler));
        endpoint.operations.push((method, operation));
        endpoint
    }

    /// A route that nobody describes.
    pub(super) fn route(mut self, method: Method, route: Route) -> Self {
        self.methods.push(method);
        self.resource = self.resource.route(route);
        self
    }

    /// The path as it stands in the document, and the operations.
    pub(super) fn into_operations(self) -> (String, Vec<(Method, Operation)>) {
        (self.path, self.operations)
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
