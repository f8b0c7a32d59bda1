//! Lets ended spans wait for their export, so many at most, and counts those for which there is no
//! room. The library's own queue drops them without a count.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};

use crate::telemetry::state;

/// A processor whose queue is never asked for more than it holds.
#[derive(Debug)]
pub(super) struct Bounded<P> {
    processor: P,
    limit: usize,
    /// Counted down by whoever takes spans out.
    waiting: Arc<AtomicUsize>,
}

impl<P> Bounded<P> {
    pub(super) const fn new(processor: P, limit: usize, waiting: Arc<AtomicUsize>) -> Self {
        Self {
            processor,
            limit,
            waiting,
        }
    }

    /// Takes a place, if there is one left.
    fn has_room(&self) -> bool {
        let next = |waiting| (waiting < self.limit).then_some(waiting + 1);
        self.waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }
}

impl<P: SpanProcessor> SpanProcessor for Bounded<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.processor.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.has_room() {
            self.processor.on_end(span);
        } else {
            state::spans_exported("lost", 1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.processor.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.processor.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.processor.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::trace::{
        BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanExporter,
    };

    use super::super::exporter::Watched;
    use super::*;
    use crate::telemetry::metrics::MetricsPage;

    /// A collector that takes a batch when it is told to.
    #[derive(Debug)]
    struct Slow {
        begun: mpsc::Sender<usize>,
        go_on: Mutex<mpsc::Receiver<()>>,
    }

    impl SpanExporter for Slow {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.begun.send(batch.len()).unwrap();
            // Without a sender it is never held up again.
            self.go_on.lock().unwrap().recv().unwrap_or_default();
            Ok(())
        }
    }

    fn count(outcome: &str) -> u64 {
        let page = MetricsPage::install().unwrap().render();
        let series = format!("luckybag_spans_exported_total{{outcome=\"{outcome}\"}} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&series));
        value.map_or(0, |value| value.parse().unwrap())
    }

    #[test]
    fn a_span_for_which_the_queue_has_no_room_is_counted_as_lost() {
        const ROOM: usize = 10;
        let (begun, batches) = mpsc::channel();
        let (go_on, wait) = mpsc::channel();
        let waiting = Arc::default();
        let slow = Slow {
            begun,
            go_on: Mutex::new(wait),
        };
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(ROOM)
            .with_max_export_batch_size(1)
            .build();
        let processor = BatchSpanProcessor::builder(Watched::new(slow, Arc::clone(&waiting)))
            .with_batch_config(config)
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Bounded::new(processor, ROOM, waiting))
            .build();
        let tracer = provider.tracer("test");
        let (taken, lost) = (count("taken"), count("lost"));

        drop(tracer.start("in the collector's hands"));
        assert_eq!(batches.recv().unwrap(), 1);
        for _ in 0..ROOM + 3 {
            drop(tracer.start("waits or is lost"));
        }
        assert_eq!(count("lost"), lost + 3);

        drop(go_on);
        provider.shutdown().unwrap();
        assert_eq!(count("taken"), taken + 1 + ROOM as u64);
        assert_eq!(count("lost"), lost + 3);
    }
}
