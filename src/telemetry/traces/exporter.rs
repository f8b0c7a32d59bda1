//! Counts what is exported and says, once an outage, when nothing is.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};

use super::dress::dress;
use crate::telemetry::state;

/// An exporter that is watched.
#[derive(Debug)]
pub(super) struct Watched<E> {
    exporter: E,
    /// How many spans wait, shared with who lets them in.
    waiting: Arc<AtomicUsize>,
    is_failing: AtomicBool,
}

impl<E> Watched<E> {
    pub(super) const fn new(exporter: E, waiting: Arc<AtomicUsize>) -> Self {
        Self {
            exporter,
            waiting,
            is_failing: AtomicBool::new(false),
        }
    }
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, mut spans: Vec<SpanData>) -> OTelSdkResult {
        self.waiting.fetch_sub(spans.len(), Ordering::Relaxed);
        let count = spans.len() as u64;
        spans.iter_mut().for_each(dress);
        let outcome = self.exporter.export(spans).await;
        let was_failing = self.is_failing.swap(outcome.is_err(), Ordering::Relaxed);
        match &outcome {
            Ok(()) => state::spans_exported("taken", count),
            Err(_) => state::spans_exported("lost", count),
        }
        match &outcome {
            Err(error) if !was_failing => tracing::warn!(
                error = error as &dyn Error,
                "spans are not taken by the collector and lost until this works again"
            ),
            Ok(()) if was_failing => tracing::info!("spans are taken by the collector again"),
            Ok(()) | Err(_) => (),
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
