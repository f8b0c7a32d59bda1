//! One event a line on standard error, whatever an event's values hold.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use tracing_subscriber::{
    EnvFilter, Layer, Registry, filter::ParseError, fmt, layer::SubscriberExt,
    util::SubscriberInitExt,
};

use super::{json_event::JsonEvent, traces::Traces};
use crate::settings::{LogFormat, LogSettings};

/// Why logging could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("`log.filter` is invalid")]
    Filter(#[from] ParseError),

    #[error("logging was started before")]
    StartedBefore(#[source] tracing_subscriber::util::TryInitError),
}

/// Starts logging to standard error; standard output belongs to what commands print.
///
/// With `traces`, spans are exported too, whatever the filter of the logs.
pub fn init(settings: &LogSettings, traces: Option<&Traces>) -> Result<(), TelemetryError> {
    let filter = EnvFilter::builder().parse(&settings.filter)?;
    let logs = layer(settings.format, io::stderr).with_filter(filter);
    let mut layers = vec![logs.boxed()];
    layers.extend(traces.map(Traces::layer));
    Registry::default()
        .with(layers)
        .try_init()
        .map_err(TelemetryError::StartedBefore)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Logs a panic as one event, inside the span in which it happened.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    let message = panic.payload_as_str().unwrap_or("no message");
    tracing::error!(panic.message = message, panic.place = place, "panic");
}

fn layer<W: Write + 'static>(
    format: LogFormat,
    writer: impl Fn() -> W + Send + Sync + 'static,
) -> Box<dyn Layer<Registry> + Send + Sync> {
    let writer = move || OneLine(writer());
    match format {
        LogFormat::Json => fmt::layer()
            .json()
            .event_format(JsonEvent)
            .with_writer(writer)
            .boxed(),
        // Without colours, so that no control character is legitimate.
        LogFormat::Pretty => fmt::layer().with_ansi(false).with_writer(writer).boxed(),
    }
}

/// Whether a character breaks the line or steers what shows it: control characters, the line and
/// paragraph separators, and those that turn the direction of what follows.
fn steers(character: char) -> bool {
    let is_separator = matches!(character, '\u{2028}' | '\u{2029}');
    let turns_direction = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || is_separator || turns_direction
}

/// Writes each event as one line without control characters.
///
/// The JSON format escapes most of them by itself, but not U+007F to U+009F. The other one passes
/// those of displayed values on: a line break could pass for another event, an escape sequence
/// could steer the terminal.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.write_all(event).map(|()| event.len())
    }

    /// Gets a whole event, with the line break that ends it.
    fn write_all(&mut self, event: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(event.strip_suffix(b"\n").unwrap_or(event));
        if !text.contains(steers) {
            return self.0.write_all(event);
        }
        let mut line = String::with_capacity(event.len() + 16);
        for character in text.chars() {
            if steers(character) {
                // The form of JSON, in which every such character is inside a string.
                // Writing to a string cannot fail.
                write!(line, "\\u{:04x}", u32::from(character)).unwrap_or_default();
            } else {
                line.push(character);
            }
        }
        line.push('\n');
        self.0.write_all(line.as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged_by(format: LogFormat, log: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = Registry::default().with(layer(format, move || writer.clone()));
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(buffer.0.lock().clone()).unwrap()
    }

    fn logged(format: LogFormat) -> String {
        let forged = "a\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[31m\u{9b}31m\u{2028}\u{202e}";
        logged_by(format, || {
            tracing::info!(text = forged, shown = %forged, "message {forged}");
        })
    }

    #[test]
    fn a_value_cannot_forge_a_line() {
        for format in [LogFormat::Json, LogFormat::Pretty] {
            let text = logged(format);

            assert_eq!(text.matches('\n').count(), 1, "{text:?}");
            assert!(!text.trim_end_matches('\n').contains(steers), "{text:?}");
        }
    }

    #[test]
    fn a_json_line_is_json() {
        let line: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json)).unwrap();

        assert_eq!(line["level"], "INFO");
        assert!(line["shown"].as_str().unwrap().contains("forged"));
    }

    #[test]
    fn an_error_is_logged_with_what_caused_it() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot open the bag")]
        struct Outer(#[source] io::Error);
        let error = Outer(io::Error::other("no \"key\""));

        for format in [LogFormat::Json, LogFormat::Pretty] {
            let text = logged_by(format, || {
                tracing::warn!(error = &error as &dyn std::error::Error, "failed");
            });

            assert!(text.contains("cannot open the bag"), "{text}");
            assert!(text.contains("no "), "{text}");
        }
    }

    #[test]
    fn a_json_line_has_its_fields_as_they_are_and_the_spans_around_it() {
        let text = logged_by(LogFormat::Json, || {
            let outer = tracing::info_span!("outer", id = "a}\"{");
            outer.in_scope(|| {
                let inner = tracing::info_span!("inner", late = tracing::field::Empty);
                inner.in_scope(|| {
                    inner.record("late", 7);
                    tracing::info!(
                        count = 3_u64,
                        part = 0.5,
                        is_up = true,
                        nan = f64::NAN,
                        "told"
                    );
                });
            });
        });

        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], "told");
        assert_eq!(line["count"], 3);
        assert_eq!(line["part"], 0.5);
        assert_eq!(line["is_up"], true);
        assert_eq!(line["nan"], serde_json::Value::Null);
        let spans =
            serde_json::json!([{ "name": "outer", "id": "a}\"{" }, { "name": "inner", "late": 7 }]);
        assert_eq!(line["target"], "luckybag::telemetry::logs::tests");
        assert_eq!(line["spans"], spans);
    }
}
