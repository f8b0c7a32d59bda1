//! One event as a JSON object.

use std::{
    error::Error,
    fmt::{self, Debug, Display},
};

use serde::Serialize;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormattedFields,
        format::{JsonFields, Writer},
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

use super::Chain;

/// Writes `{"timestamp":…,"level":…,"message":…,…,"target":…,"spans":[…]}`, outermost span first.
///
/// Unlike the library's own format it shows an error together with everything that caused it.
pub(super) struct JsonEvent;

impl<S> FormatEvent<S, JsonFields> for JsonEvent
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut object = Object(String::from("{"));
        object.add("timestamp", &timestamp);
        object.add("level", event.metadata().level().as_str());
        event.record(&mut object);
        object.add("target", event.metadata().target());
        let spans = spans(context);
        if !spans.is_empty() {
            object.add_raw("spans", &format!("[{}]", spans.join(",")));
        }
        writeln!(writer, "{}}}", object.0)
    }
}

/// The spans around the event, each as an object with its name and its fields.
fn spans<S>(context: &FmtContext<'_, S, JsonFields>) -> Vec<String>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let scope = context.event_scope().into_iter();
    scope
        .flat_map(tracing_subscriber::registry::Scope::from_root)
        .map(|span| {
            let mut object = Object(String::from("{"));
            object.add("name", span.name());
            if let Some(fields) = span.extensions().get::<FormattedFields<JsonFields>>() {
                object.add_members(fields);
            }
            object.0.push('}');
            object.0
        })
        .collect()
}

/// A JSON object without its end.
struct Object(String);

impl Object {
    fn add(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        // Only maps and types of the program's own can fail, and neither comes here.
        self.add_raw(name, &serde_json::to_string(value).unwrap_or_default());
    }

    fn add_raw(&mut self, name: &str, json: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        // A field's name is an identifier with dots.
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
        self.0.push_str(json);
    }

    /// Adds the members of another object, `{…}`.
    fn add_members(&mut self, object: &str) {
        let members = object
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or_default();
        if !members.is_empty() {
            self.0.push(',');
            self.0.push_str(members);
        }
    }

    fn add_shown(&mut self, field: &Field, value: impl Display) {
        self.add(field.name(), &value.to_string());
    }
}

impl Visit for Object {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add_shown(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), &value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add_shown(field, Chain(value));
    }
}
