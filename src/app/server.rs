//! The HTTP servers: the public API, and health and metrics beside it or on an address of their own.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use actix_web::{
    App, HttpServer,
    dev::{Server, ServerHandle},
    middleware::from_fn,
    web::{Data, ServiceConfig},
};

use super::{document::openapi_json, error::AppError, services::Services};
use crate::{
    http::{
        Auth, BodyLimits, HealthKit, RateLimits, Routes, WebKit, limit_by_address,
        openapi::{ApiDocument, document_routes},
        track_request,
    },
    kernel::Supervisor,
    settings::{ServerSettings, Settings},
};

/// The listening servers. They answer from [`HttpServers::spawn`] on.
pub(super) struct HttpServers {
    api: Server,
    /// Only when health and metrics have an address of their own.
    ops: Option<Server>,
}

impl HttpServers {
    /// Binds the addresses, so that a busy port is told before anything else starts.
    pub(super) fn bind(
        settings: &Settings,
        services: &Services,
        health: HealthKit,
        auth: Arc<Auth>,
    ) -> Result<Self, AppError> {
        let kit = WebKit {
            auth,
            limits: BodyLimits::of(&settings.server),
            rates: Arc::new(RateLimits::of(&settings.limits, &settings.server)),
        };
        let server = &settings.server;
        let docs = if server.docs {
            Some(openapi_json().map_err(AppError::Document)?)
        } else {
            None
        };
        let services = services.clone();
        if let Some(ops_bind) = server.ops_bind {
            let public = move |config: &mut ServiceConfig| {
                kit.configure(config);
                services.routes(config);
                serve_docs(docs.as_ref(), config);
            };
            let private = move |config: &mut ServiceConfig| health.configure(config);
            Ok(Self {
                api: http_server(server, server.bind, "api", public)?,
                ops: Some(http_server(server, ops_bind, "ops", private)?),
            })
        } else {
            let everything = move |config: &mut ServiceConfig| {
                kit.configure(config);
                services.routes(config);
                serve_docs(docs.as_ref(), config);
                health.configure(config);
            };
            Ok(Self {
                api: http_server(server, server.bind, "api", everything)?,
                ops: None,
            })
        }
    }

    /// Starts answering requests.
    pub(super) fn spawn(self) -> (RunningServer, Option<RunningServer>) {
        (
            RunningServer::spawn(self.api),
            self.ops.map(RunningServer::spawn),
        )
    }
}

/// `/openapi.json` and `/docs`, unless they are turned off.
fn serve_docs(document: Option<&ApiDocument>, config: &mut ServiceConfig) {
    if let Some(document) = document {
        let mut routes = Routes::new();
        routes.configure(document_routes);
        config.app_data(Data::new(document.clone()));
        routes.serve(config);
    }
}

/// A server while it answers.
pub(super) struct RunningServer {
    handle: ServerHandle,
    task: Supervisor,
}

impl RunningServer {
    fn spawn(server: Server) -> Self {
        let handle = server.handle();
        let task = Supervisor::default();
        task.spawn("http server", async move {
            if let Err(error) = server.await {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "HTTP server failed"
                );
            }
        });
        Self { handle, task }
    }

    /// Resolves when the server has ended by itself.
    pub(super) async fn failed(&self) {
        self.task.stop_token().cancelled().await;
    }

    /// Refuses new connections and waits for the requests in hand; `false` when `grace` ran out.
    pub(super) async fn stop(self, grace: Duration) -> bool {
        // The call alone sends the command; its future would only wait for what the task shows too.
        drop(self.handle.stop(true));
        self.task.shut_down(grace).await
    }
}

fn http_server<F>(
    settings: &ServerSettings,
    address: SocketAddr,
    name: &'static str,
    configure: F,
) -> Result<Server, AppError>
where
    F: Fn(&mut ServiceConfig) + Clone + Send + 'static,
{
    let bind_error = |source: io::Error| AppError::Bind { address, source };
    let listener = TcpListener::bind(address).map_err(bind_error)?;
    let bound_to = listener.local_addr().map_err(bind_error)?;
    give_up_silent_clients(&listener, settings);
    let workers = match settings.workers {
        0 => std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
        workers => workers,
    };
    let server = HttpServer::new(move || {
        let configure = configure.clone();
        App::new()
            .wrap(from_fn(limit_by_address))
            .wrap(from_fn(track_request))
            .configure(|config| configure(config))
    })
    .workers(workers)
    .client_request_timeout(settings.client_header_timeout_ms.duration())
    .keep_alive(settings.keep_alive_secs.duration())
    .shutdown_timeout(settings.shutdown_grace_secs.get().into())
    .disable_signals()
    .listen(listener)
    .map_err(bind_error)?
    .run();
    tracing::info!(server = name, server.address = %bound_to, "listening");
    Ok(server)
}

/// Has the system close a connection whose client has not taken for so long what was sent to it: it
/// would hold its memory, its stream and the end of this process. Connections have it from where
/// they come in.
fn give_up_silent_clients(listener: &TcpListener, settings: &ServerSettings) {
    let millis = settings.send_timeout_secs.get().saturating_mul(1_000);
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(listener, millis) {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "clients that take nothing are not given up");
    }
    #[cfg(not(target_os = "linux"))]
    tracing::debug!(listener = ?listener, millis, "this system gives up silent clients by its own rule");
}
