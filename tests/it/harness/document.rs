//! Holds what the service takes and answers to its OpenAPI document.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use jsonschema::{Draft, Validator};
use parking_lot::Mutex;
use reqwest::{Method, Request, Response, StatusCode, header::HeaderMap};
use serde_json::{Map, Value, json};

/// The document of the service, as the library makes it.
pub(crate) static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let text = luckybag::app::openapi_json().expect("a document");
    Document::new(serde_json::from_slice(text.as_bytes()).expect("JSON"))
});

const PROBLEM: &str = "application/problem+json";

/// An OpenAPI document, and the schemas of it that were needed so far.
pub(crate) struct Document {
    pub(crate) json: Value,
    /// The same schemas, in which no answer has more than is described.
    closed: Value,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

/// What the service answered to a request.
pub(crate) struct Exchange<'a> {
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
}

impl Exchange<'_> {
    /// Whether it is a problem that passes by itself. Problems of one status are described together.
    fn is_passing(&self) -> bool {
        const PASSING: [&str; 2] = ["idempotency_in_progress", "proof_pending"];

        let body: Value = serde_json::from_slice(self.body).unwrap_or_default();
        let code = body["code"].as_str().unwrap_or_default();
        matches!(self.status.as_u16(), 429 | 503) || PASSING.contains(&code)
    }
}

/// Panics when the document does not describe an answer whose body is still to be read; a body that has
/// a schema is not looked at.
pub(crate) fn check_head(request: &Request, answer: &Response) {
    if answer.status().is_success() {
        let call = format!("{} {}", request.method(), request.url().path());
        let exchange = Exchange {
            status: answer.status(),
            headers: answer.headers(),
            body: &[],
        };
        DOCUMENT.check(&call, request, &exchange);
    }
}

impl Document {
    fn new(json: Value) -> Self {
        let mut closed = json["components"].clone();
        for schema in closed["schemas"]
            .as_object_mut()
            .expect("schemas")
            .values_mut()
        {
            close(schema);
        }
        // Requests may have any offset and precision, answers have one.
        closed["schemas"]["Timestamp"]["pattern"] =
            json!(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$");
        Self {
            json,
            closed,
            validators: Mutex::default(),
        }
    }

    /// Every operation as method, path and description.
    pub(crate) fn operations(&self) -> Vec<(String, &str, &Value)> {
        let mut all = Vec::new();
        for (path, item) in object(&self.json["paths"]) {
            for (method, operation) in object(item) {
                all.push((method.to_uppercase(), path.as_str(), operation));
            }
        }
        all
    }

    /// What a reference leads to, or the value itself.
    pub(crate) fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let Some(place) = value["$ref"].as_str() else {
            return value;
        };
        let pointer = place.strip_prefix('#').expect("a place in the document");
        self.json.pointer(pointer).expect("what is referred to")
    }

    /// Panics when the document does not describe the exchange.
    pub(crate) fn check(&self, call: &str, request: &Request, exchange: &Exchange<'_>) {
        let method = if request.method() == Method::HEAD {
            "get".to_owned()
        } else {
            request.method().as_str().to_lowercase()
        };
        let status = exchange.status.as_u16();
        let Some(template) = self.template(request.url().path()) else {
            return self.check_outside(call, exchange, &[404, 429, 400]);
        };
        let operation = &self.json["paths"][template][&method];
        if operation.is_null() {
            return self.check_outside(call, exchange, &[405, 429]);
        }
        let place = format!("{method} {template}");
        let answer = &operation["responses"][status.to_string()];
        assert!(!answer.is_null(), "{call}: {status} is not in the document");
        let answer = self.resolve(answer);
        check_headers(call, answer, exchange);
        if request.method() != Method::HEAD {
            self.check_body(call, &format!("{place} {status}"), answer, exchange);
        }
        if exchange.status.is_success() {
            check_query(call, operation, request);
            self.check_request_body(call, &place, operation, request);
        }
    }

    /// The path in the document that is meant: the one with the fewest parameters.
    fn template(&self, path: &str) -> Option<&str> {
        let parts: Vec<&str> = path.split('/').collect();
        let fits = |template: &&String| {
            let wanted: Vec<&str> = template.split('/').collect();
            wanted.len() == parts.len()
                && wanted.iter().zip(&parts).all(|(wanted, part)| {
                    wanted == part || (wanted.starts_with('{') && !part.is_empty())
                })
        };
        let templates = object(&self.json["paths"]).keys().filter(fits);
        templates
            .min_by_key(|template| template.matches('{').count())
            .map(String::as_str)
    }

    /// A problem that no operation has.
    fn check_outside(&self, call: &str, exchange: &Exchange<'_>, statuses: &[u16]) {
        let status = exchange.status.as_u16();
        assert!(
            statuses.contains(&status),
            "{call}: {status} without an operation"
        );
        let problem = json!({ "$ref": "#/components/schemas/Problem" });
        if !exchange.body.is_empty() {
            let body = serde_json::from_slice(exchange.body).expect("a problem");
            self.validate(call, "a problem", &problem, &body, Bodies::Answers);
            let code = body["code"].as_str().unwrap_or_default();
            let example = &self.json["components"]["examples"][code];
            assert!(!example.is_null(), "{call}: {code} is not in the document");
        }
    }

    fn check_body(&self, call: &str, place: &str, answer: &Value, exchange: &Exchange<'_>) {
        let contents = answer["content"].as_object();
        let Some(contents) = contents else {
            assert!(
                exchange.body.is_empty(),
                "{call}: a body where none is described"
            );
            return;
        };
        let media_type = exchange.headers.get("content-type");
        let media_type = media_type.map_or("", |value| value.to_str().expect("text"));
        let content = contents.get(media_type).or_else(|| contents.get("*/*"));
        let content = content.unwrap_or_else(|| panic!("{call}: {media_type} is not described"));
        if media_type == "application/json" || media_type == PROBLEM {
            let body = serde_json::from_slice(exchange.body).expect("JSON");
            self.validate(call, place, &content["schema"], &body, Bodies::Answers);
        }
    }

    /// What was taken must be what the document says is taken.
    fn check_request_body(&self, call: &str, place: &str, operation: &Value, request: &Request) {
        let bytes = request.body().and_then(reqwest::Body::as_bytes);
        let bytes = bytes.unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        assert!(!schema.is_null(), "{call}: a body that is not described");
        let body = serde_json::from_slice(bytes).expect("JSON");
        self.validate(
            call,
            &format!("{place} body"),
            schema,
            &body,
            Bodies::Requests,
        );
    }

    /// Panics unless `value` is as `schema`, which stands at `place`, says.
    pub(crate) fn validate(
        &self,
        call: &str,
        place: &str,
        schema: &Value,
        value: &Value,
        bodies: Bodies,
    ) {
        let validator = self.validator(place, schema, bodies);
        let faults: Vec<String> = validator
            .iter_errors(value)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        assert!(
            faults.is_empty(),
            "{call}: not as {place} says: {faults:#?}\n{value}"
        );
    }

    fn validator(&self, place: &str, schema: &Value, bodies: Bodies) -> Arc<Validator> {
        let place = format!("{place} {bodies:?}");
        if let Some(known) = self.validators.lock().get(&place) {
            return Arc::clone(known);
        }
        let mut whole = schema.clone();
        whole["components"] = match bodies {
            Bodies::Answers => self.closed.clone(),
            Bodies::Requests => self.json["components"].clone(),
        };
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(true)
            .build(&whole)
            .unwrap_or_else(|error| panic!("the schema of {place}: {error}"));
        let validator = Arc::new(validator);
        self.validators.lock().insert(place, Arc::clone(&validator));
        validator
    }
}

/// Which way a body goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bodies {
    /// Exactly as described.
    Answers,
    Requests,
}

/// Lets an object, and each one within, have no fields but those that are named.
fn close(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(close),
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            let names_fields = fields.get("properties").is_some_and(Value::is_object);
            if names_fields && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

fn check_headers(call: &str, answer: &Value, exchange: &Exchange<'_>) {
    for (name, is_needed) in [
        ("x-request-id", true),
        ("Retry-After", exchange.is_passing()),
        ("Location", true),
        ("Idempotency-Replayed", false),
        ("WWW-Authenticate", true),
    ] {
        let is_described = !answer["headers"][name].is_null();
        let is_there = exchange.headers.contains_key(name);
        assert!(
            is_described || !is_there,
            "{call}: the header {name} is not described"
        );
        assert!(
            is_there || !(is_described && is_needed),
            "{call}: the header {name} is described and missing"
        );
    }
}

fn check_query(call: &str, operation: &Value, request: &Request) {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let names: Vec<&Value> = parameters
        .filter(|parameter| parameter["in"] == "query")
        .map(|parameter| &parameter["name"])
        .collect();
    // An operation that has none looks at none.
    for (name, _) in request.url().query_pairs() {
        assert!(
            names.is_empty() || names.iter().any(|known| **known == name.as_ref()),
            "{call}: the parameter {name} is not described"
        );
    }
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}

#[test]
fn no_answer_has_a_field_too_many_at_any_depth() {
    let mut page = json!({ "type": "object", "properties": { "items": {
        "type": "array", "items": { "type": "object", "properties": { "seat": {} } },
    } } });

    close(&mut page);

    assert_eq!(page["additionalProperties"], false);
    let item = &page["properties"]["items"]["items"];
    assert_eq!(item["additionalProperties"], false);
}
