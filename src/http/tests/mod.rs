//! The web kit behind a small application.

mod auth;
mod body;
mod health;
mod limits;
mod params;
mod problems;

use std::{rc::Rc, sync::Arc, time::Duration};

use actix_web::{
    App, HttpServer,
    body::BoxBody,
    dev::{ServerHandle, ServiceResponse},
    http::StatusCode,
    middleware::from_fn,
    test,
    web::ServiceConfig,
};
use futures_util::{FutureExt, future::LocalBoxFuture};
use secrecy::SecretString;
use serde_json::Value;

use super::*;
use crate::{
    kernel::{Clock, RoomId, SystemClock, UserId},
    settings::{AuthSettings, Settings},
};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn auth_settings() -> AuthSettings {
    let settings = Settings::load_from(None, std::iter::empty()).unwrap();
    AuthSettings {
        signing_secret: SecretString::from(SECRET),
        ..settings.auth
    }
}

/// The limits of a service with other settings than the default ones.
fn rates(change: impl FnOnce(&mut Settings)) -> RateLimits {
    let mut settings = Settings::load_from(None, std::iter::empty()).unwrap();
    change(&mut settings);
    RateLimits::of(&settings.limits, &settings.server)
}

fn kit() -> WebKit {
    let auth = Auth::new(&auth_settings(), Arc::new(SystemClock)).unwrap();
    WebKit {
        auth: Arc::new(auth),
        limits: BodyLimits::default(),
        rates: Arc::new(rates(|_| ())),
    }
}

/// An application to send requests to.
type TestApp = Box<dyn Fn(test::TestRequest) -> LocalBoxFuture<'static, ServiceResponse<BoxBody>>>;

/// An application with the routes of `routes`.
async fn app(routes: impl FnOnce(&mut ServiceConfig)) -> TestApp {
    app_with(&kit(), routes).await
}

async fn app_with(kit: &WebKit, routes: impl FnOnce(&mut ServiceConfig)) -> TestApp {
    let app = App::new()
        .wrap(from_fn(limit_by_address))
        .wrap(from_fn(track_request))
        .configure(|config| kit.configure(config))
        .configure(routes);
    let service = Rc::new(test::init_service(app).await);
    Box::new(move |request| {
        let service = Rc::clone(&service);
        async move { test::call_service(&*service, request.to_request()).await }.boxed_local()
    })
}

/// A server with the routes of `routes` on a port of its own, with its base URL.
fn serve(routes: fn(&mut ServiceConfig)) -> (String, ServerHandle) {
    let kit = kit();
    let server = HttpServer::new(move || {
        App::new()
            .wrap(from_fn(track_request))
            .configure(|config| kit.configure(config))
            .configure(routes)
    })
    .workers(1)
    .disable_signals()
    .bind(("127.0.0.1", 0))
    .unwrap();
    let base = format!("http://{}", server.addrs()[0]);
    let server = server.run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    (base, handle)
}

fn token_of(roles: &[Role], rooms: &[RoomId]) -> String {
    let token = NewToken {
        user_id: UserId(7),
        roles: roles.to_vec(),
        rooms: rooms.to_vec(),
        ttl: Duration::from_mins(1),
    };
    issue_token(&auth_settings(), &token, SystemClock.now()).unwrap()
}

/// An answer with what every answer must have already checked.
struct Answer {
    status: StatusCode,
    response: ServiceResponse<BoxBody>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.response
            .headers()
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    async fn json(self) -> Value {
        serde_json::from_slice(&test::read_body(self.response).await).unwrap()
    }

    /// The body of a problem with this status, complete.
    async fn problem(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let id = self.header("x-request-id").to_owned();
        let body = self.json().await;
        assert_eq!(body["status"], status);
        assert_eq!(body["requestId"], id);
        let code = body["code"].as_str().unwrap();
        assert_eq!(body["type"], format!("urn:luckybag:problem:{code}"));
        assert!(body["title"].is_string() && body["detail"].is_string());
        body
    }
}

async fn send(app: &TestApp, request: test::TestRequest) -> Answer {
    let response = app(request).await;
    assert!(response.headers().contains_key("x-request-id"));
    Answer {
        status: response.status(),
        response,
    }
}
