//! What the document says.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use crate::harness::{Bodies, DOCUMENT};

fn is_camel_case(id: &str) -> bool {
    id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.chars().all(|letter| letter.is_ascii_alphanumeric())
}

#[test]
fn the_file_in_the_repository_is_the_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.json");
    let file = fs::read_to_string(path).expect("docs/openapi.json");

    let document = luckybag::app::openapi_json().expect("a document");

    assert!(
        file.as_bytes() == document.as_bytes(),
        "docs/openapi.json is not what the code says: cargo run -- openapi > docs/openapi.json"
    );
}

#[test]
fn every_operation_has_a_name_a_summary_a_description_and_a_known_tag() {
    let tags = DOCUMENT.json["tags"].as_array().expect("tags");
    let tags: BTreeSet<&str> = tags.iter().filter_map(|tag| tag["name"].as_str()).collect();
    let mut ids = BTreeSet::new();

    for (method, path, operation) in DOCUMENT.operations() {
        let text = |name: &str| operation[name].as_str().unwrap_or_default();
        let place = format!("{method} {path}");
        assert!(is_camel_case(text("operationId")), "{place}");
        assert!(ids.insert(text("operationId")), "{place}: the id is taken");
        assert!(!text("summary").is_empty(), "{place}");
        assert!(!text("summary").ends_with('.'), "{place}");
        // What there is to know beyond the summary may be nothing, but for who may call.
        assert!(text("description").contains("**Who:** "), "{place}");
        let own = operation["tags"].as_array().expect("tags");
        assert!(
            own.iter()
                .all(|tag| tags.contains(tag.as_str().unwrap_or_default())),
            "{place}"
        );
        assert_eq!(own.len(), 1, "{place}");
    }
}

#[test]
fn every_body_has_an_example_that_is_as_its_schema_says() {
    for (method, path, operation) in DOCUMENT.operations() {
        let place = format!("{method} {path}");
        let body = &operation["requestBody"];
        if !body.is_null() {
            let content = &body["content"]["application/json"];
            check_example(&format!("{place} request"), content, Bodies::Requests);
        }
        let answers = operation["responses"].as_object().expect("answers");
        for (status, answer) in answers {
            let answer = DOCUMENT.resolve(answer);
            let contents = answer["content"].as_object().into_iter().flatten();
            for (media_type, content) in contents {
                let at = format!("{place} {status} {media_type}");
                check_example(&at, content, Bodies::Answers);
            }
        }
    }
}

fn check_example(place: &str, content: &Value, bodies: Bodies) {
    let named = content["examples"].as_object().into_iter().flatten();
    let named = named.map(|(_, example)| &DOCUMENT.resolve(example)["value"]);
    let examples: Vec<&Value> = content.get("example").into_iter().chain(named).collect();
    assert!(!examples.is_empty(), "{place} has no example");
    for example in examples {
        let schema = &content["schema"];
        DOCUMENT.validate(
            "an example",
            &format!("example of {place}"),
            schema,
            example,
            bodies,
        );
    }
}

#[test]
fn no_two_types_have_one_name_and_every_reference_leads_somewhere() {
    let schemas = DOCUMENT.json["components"]["schemas"]
        .as_object()
        .expect("schemas");
    for name in schemas.keys() {
        assert!(!name.ends_with("_other"), "two types are called {name}");
    }
    let mut references = Vec::new();
    collect_references(&DOCUMENT.json, &mut references);
    assert!(references.len() > 100);
    for reference in references {
        let pointer = reference.trim_start_matches('#');
        assert!(
            DOCUMENT.json.pointer(pointer).is_some(),
            "{reference} leads nowhere"
        );
    }
}

fn collect_references<'a>(value: &'a Value, references: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            references.extend(fields.get("$ref").and_then(Value::as_str));
            for field in fields.values() {
                collect_references(field, references);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_references(item, references);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

#[test]
fn every_parameter_of_a_path_is_described_and_no_other() {
    for (method, path, operation) in DOCUMENT.operations() {
        let in_path: BTreeSet<&str> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .collect();
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let described = parameters
            .filter(|parameter| parameter["in"] == "path")
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        assert_eq!(in_path, described, "{method} {path}");
    }
}
