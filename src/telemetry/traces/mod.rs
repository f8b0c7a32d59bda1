//! Spans sent to a collector by OTLP over HTTP, in the background, when an address is configured.
//!
//! A collector that is slow or away costs spans, never a request or the stop.

mod context;
mod dress;
mod exporter;
mod queue;
mod transport;

use std::{sync::Arc, time::Duration};

use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::{
    Context, KeyValue,
    trace::{Link, SpanKind, TraceId, TracerProvider as _},
};
use opentelemetry_otlp::{ExporterBuildError, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{
        BatchConfigBuilder, BatchSpanProcessor, Sampler, SamplingResult, SdkTracerProvider,
        ShouldSample,
    },
};
use secrecy::ExposeSecret;
use tracing::{Metadata, level_filters::LevelFilter};
use tracing_subscriber::{Layer, Registry, filter::filter_fn};

use self::{exporter::Watched, queue::Bounded, transport::Transport};
use crate::settings::TelemetrySettings;

pub use context::TraceContext;

/// How long one export may take; what a stop waits for at most.
const EXPORT_LIMIT: Duration = Duration::from_secs(2);

/// Ended spans that wait for their export; what comes above it is lost, and counted.
const QUEUE_LIMIT: usize = 4_096;

/// Most spans in one export.
const BATCH_MAX: usize = 512;

/// How often what waits is exported.
const EXPORT_EVERY: Duration = Duration::from_secs(1);

/// Where our own spans come from; others', such as of a library, are not exported.
const OWN_TARGET: &str = "luckybag";

/// Exports the spans of this process until [`Traces::shut_down`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// `None` when no collector is configured. Needs no collector to be up.
    ///
    /// # Errors
    ///
    /// When the address cannot be used, which the settings' own check has not found.
    pub fn open(
        settings: &TelemetrySettings,
        namespace: &str,
        connector: HttpsConnector<HttpConnector>,
    ) -> Result<Option<Self>, ExporterBuildError> {
        let endpoint = settings.otlp_endpoint.expose_secret();
        if endpoint.is_empty() {
            return Ok(None);
        }
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(Transport::new(connector, EXPORT_LIMIT))
            .with_endpoint(endpoint)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(EXPORT_LIMIT)
            .build()?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_LIMIT)
            .with_max_export_batch_size(BATCH_MAX)
            .with_scheduled_delay(EXPORT_EVERY)
            .build();
        let waiting = Arc::default();
        let exporter = Watched::new(exporter, Arc::clone(&waiting));
        let processor = BatchSpanProcessor::builder(exporter)
            .with_batch_config(batches)
            .build();
        let processor = Bounded::new(processor, QUEUE_LIMIT, waiting);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(sampler(settings.otlp_sample_ratio))
            .with_resource(resource(settings, namespace))
            .build();
        context::switch_on();
        Ok(Some(Self(provider)))
    }

    /// Turns our spans into exported ones.
    pub(super) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer(OWN_TARGET))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(is_exported).with_max_level_hint(LevelFilter::DEBUG))
            .boxed()
    }

    /// Exports what waits and ends; gives up after `grace`, or 2 s if that is less.
    pub async fn shut_down(self, grace: Duration) {
        let limit = grace.min(EXPORT_LIMIT);
        let ending = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(limit));
        if !matches!(ending.await, Ok(Ok(()))) {
            tracing::warn!("the last spans were not exported");
        }
    }
}

/// Events stay with the logs, where their texts are looked after.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with(OWN_TARGET)
}

/// Our own parents decide for their children. Of callers only a "no" counts by itself: their "yes" is
/// subject to our ratio, so that nobody can make us export more.
fn sampler(ratio: f64) -> impl ShouldSample {
    let by_ratio = Sampler::TraceIdRatioBased(ratio);
    let of_callers = Independent(by_ratio.clone());
    Sampler::parent_based(by_ratio).with_remote_parent_sampled(of_callers)
}

/// Decides by an id of its own: that of the trace was chosen by a caller.
#[derive(Clone, Debug)]
struct Independent(Sampler);

impl ShouldSample for Independent {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        _: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let id = TraceId::from(rand::random::<u128>());
        self.0
            .should_sample(parent, id, name, kind, attributes, links)
    }
}

fn resource(settings: &TelemetrySettings, namespace: &str) -> Resource {
    let instance = settings
        .otlp_instance
        .clone()
        .unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let attributes = [
        KeyValue::new("service.name", settings.otlp_service_name.clone()),
        KeyValue::new("service.namespace", namespace.to_owned()),
        KeyValue::new("service.instance.id", instance),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    Resource::builder_empty()
        .with_attributes(attributes)
        .build()
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceState};
    use opentelemetry_sdk::trace::SamplingDecision;

    use super::*;

    /// What is exported of every trace at any ratio above 0, as it is decided by the id.
    const LOW: u128 = 1;

    fn of_caller(trace_id: u128, flags: TraceFlags) -> SpanContext {
        let (id, state) = (SpanId::from_bytes([1; 8]), TraceState::default());
        SpanContext::new(TraceId::from(trace_id), id, flags, true, state)
    }

    fn of_ours(trace_id: u128, flags: TraceFlags) -> SpanContext {
        let (id, state) = (SpanId::from_bytes([1; 8]), TraceState::default());
        SpanContext::new(TraceId::from(trace_id), id, flags, false, state)
    }

    /// Whether a child of the span is exported.
    fn is_sampled(ratio: f64, parent: SpanContext) -> bool {
        let trace_id = parent.trace_id();
        let parent = Context::new().with_remote_span_context(parent);
        let kind = SpanKind::Server;
        let result =
            sampler(ratio).should_sample(Some(&parent), trace_id, "http.request", &kind, &[], &[]);
        result.decision == SamplingDecision::RecordAndSample
    }

    #[test]
    fn a_caller_can_have_less_exported_but_not_more() {
        assert!(is_sampled(1.0, of_caller(LOW, TraceFlags::SAMPLED)));
        assert!(!is_sampled(1.0, of_caller(LOW, TraceFlags::default())));
        assert!(!is_sampled(0.0, of_caller(LOW, TraceFlags::SAMPLED)));
        // Not by the choice of an id either.
        assert!(!is_sampled(1e-9, of_caller(LOW, TraceFlags::SAMPLED)));
    }

    #[test]
    fn what_a_message_is_part_of_is_exported_as_a_whole_or_not_at_all() {
        assert!(is_sampled(0.0, of_ours(u128::MAX, TraceFlags::SAMPLED)));
        assert!(!is_sampled(1.0, of_ours(LOW, TraceFlags::default())));
    }
}
