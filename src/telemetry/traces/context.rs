//! Where in which trace something belongs, carried between tasks and by messages.

use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

static IS_ON: AtomicBool = AtomicBool::new(false);

pub(super) fn switch_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// A span of this process or another, by its ids; empty while nothing is traced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceContext(Option<SpanContext>);

impl TraceContext {
    /// The header of HTTP requests and of messages that carries it: W3C Trace Context, level 1.
    pub const HEADER: &str = "traceparent";

    /// The current span; empty when it is not exported.
    pub fn current() -> Self {
        if !is_on() {
            return Self::default();
        }
        let context = Span::current().context();
        let span = context.span().span_context().clone();
        Self(span.is_valid().then_some(span))
    }

    /// Reads the `traceparent` of a caller of the API, who may be anybody: that it is sampled is no
    /// more than a wish. Empty when it is none, or while nothing is traced.
    pub fn of_caller(value: &str) -> Self {
        Self(is_on().then(|| parse(value, Sender::Caller)).flatten())
    }

    /// Reads the `traceparent` of a message. Whoever may send one is one of us, and has decided whether
    /// the trace is sampled. Empty when it is none, or while nothing is traced.
    pub fn of_message(value: &str) -> Self {
        Self(is_on().then(|| parse(value, Sender::Ourselves)).flatten())
    }

    /// The value of a `traceparent`; `None` when this is empty.
    pub fn to_header(&self) -> Option<String> {
        let span = self.0.as_ref()?;
        let (trace, id) = (span.trace_id(), span.span_id());
        Some(format!(
            "00-{trace}-{id}-{:02x}",
            span.trace_flags().to_u8()
        ))
    }

    /// Makes `span`, which must not have been entered yet, a child of this one.
    pub fn adopt(&self, span: &Span) {
        if let Some(parent) = &self.0 {
            let parent = Context::new().with_remote_span_context(parent.clone());
            // Refused only for a span that is not exported.
            span.set_parent(parent).unwrap_or_default();
        }
    }

    /// Lets `span` point to this one, without being a part of it.
    pub fn link(&self, span: &Span) {
        if let Some(cause) = &self.0 {
            span.add_link(cause.clone());
        }
    }

    /// Makes `span` a child of the first that is not empty, and links it to the others: what one
    /// batch of many causes does.
    pub fn adopt_all<'a>(causes: impl IntoIterator<Item = &'a Self>, span: &Span) {
        /// More would say nothing that these do not.
        const MAX_LINKS: usize = 32;

        let mut causes = causes.into_iter().filter(|cause| cause.0.is_some());
        if let Some(first) = causes.next() {
            first.adopt(span);
        }
        for cause in causes.take(MAX_LINKS) {
            cause.link(span);
        }
    }
}

/// Whose word a header is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    Caller,
    /// A process of ours, which has decided about the trace.
    Ourselves,
}

/// Version 00, or what a later version shares with it.
fn parse(value: &str, sender: Sender) -> Option<SpanContext> {
    let mut parts = value.split('-');
    let [version, trace, span, flags] = [(); 4].map(|()| parts.next().unwrap_or_default());
    let is_hex = |text: &str, length: usize| {
        text.len() == length
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_well_formed = is_hex(version, 2)
        && version != "ff"
        && is_hex(trace, 32)
        && is_hex(span, 16)
        && is_hex(flags, 2)
        && (version != "00" || parts.next().is_none());
    if !is_well_formed {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let parsed = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        flags,
        sender == Sender::Caller,
        TraceState::default(),
    );
    parsed.is_valid().then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_as_the_recommendation_says() {
        let read = TraceContext(parse(GOOD, Sender::Caller));
        assert_eq!(read.to_header().as_deref(), Some(GOOD));
        let later = format!("cc{}-what-comes-after", &GOOD[2..]);
        assert_eq!(
            TraceContext(parse(&later, Sender::Caller))
                .to_header()
                .as_deref(),
            Some(GOOD)
        );
        let unsampled = GOOD.replace("-01", "-00");
        assert!(!parse(&unsampled, Sender::Caller).unwrap().is_sampled());
    }

    #[test]
    fn what_is_no_traceparent_starts_a_trace_of_its_own() {
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-1",
        ] {
            assert_eq!(parse(bad, Sender::Caller), None, "{bad:?}");
        }
    }
}
