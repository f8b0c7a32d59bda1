//! A collector of traces, which keeps what it is sent.

use std::{collections::BTreeMap, sync::Arc};

use actix_web::{App, HttpResponse, HttpServer, dev::ServerHandle, web};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value::Value},
    trace::v1::Span as SentSpan,
};
use parking_lot::Mutex;
use prost::Message;

/// A span as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) name: String,
    pub(super) trace_id: String,
    pub(super) id: String,
    /// Empty for the first span of a trace.
    pub(super) parent_id: String,
    pub(super) kind: i32,
    pub(super) attributes: BTreeMap<String, String>,
    /// The trace and span ids of what it points to.
    pub(super) links: Vec<(String, String)>,
    /// What is said of the process that sent it.
    pub(super) resource: BTreeMap<String, String>,
}

/// Listens until it is dropped.
pub(super) struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Span>>>,
    server: ServerHandle,
}

impl Collector {
    #[expect(clippy::disallowed_methods, reason = "ends with the test")]
    pub(super) fn start() -> Self {
        let spans: Arc<Mutex<Vec<Span>>> = Arc::default();
        let kept = Arc::clone(&spans);
        let server = HttpServer::new(move || {
            App::new()
                .app_data(web::PayloadConfig::new(16 * 1024 * 1024))
                .app_data(web::Data::from(Arc::clone(&kept)))
                .route("/v1/traces", web::post().to(take))
        })
        .workers(1)
        .disable_signals()
        .bind("127.0.0.1:0")
        .expect("a free loopback port");
        let url = format!("http://{}/v1/traces", server.addrs()[0]);
        let server = server.run();
        let handle = server.handle();
        tokio::spawn(server);
        Self {
            url,
            spans,
            server: handle,
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Everything that has arrived.
    pub(super) fn spans(&self) -> Vec<Span> {
        self.spans.lock().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        drop(self.server.stop(false));
    }
}

async fn take(body: web::Bytes, spans: web::Data<Mutex<Vec<Span>>>) -> HttpResponse {
    let request = ExportTraceServiceRequest::decode(body).expect("OTLP in protobuf");
    for resource_spans in request.resource_spans {
        let resource = resource_spans.resource.expect("a resource");
        let resource = texts(resource.attributes);
        let sent = resource_spans
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans);
        spans
            .lock()
            .extend(sent.map(|span| received(span, resource.clone())));
    }
    HttpResponse::Ok()
        .content_type("application/x-protobuf")
        .finish()
}

fn received(span: SentSpan, resource: BTreeMap<String, String>) -> Span {
    let link = |link: opentelemetry_proto::tonic::trace::v1::span::Link| {
        (hex::encode(link.trace_id), hex::encode(link.span_id))
    };
    Span {
        name: span.name,
        trace_id: hex::encode(span.trace_id),
        id: hex::encode(span.span_id),
        parent_id: hex::encode(span.parent_span_id),
        kind: span.kind,
        attributes: texts(span.attributes),
        links: span.links.into_iter().map(link).collect(),
        resource,
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    attributes
        .into_iter()
        .map(|attribute| (attribute.key, text(attribute.value)))
        .collect()
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(truth)) => truth.to_string(),
        other => format!("{other:?}"),
    }
}
