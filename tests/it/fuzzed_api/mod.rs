//! Schemathesis against the served OpenAPI document: each call that it says is possible, many that
//! it says are not, as each kind of caller. No 500, no undocumented status, no other shape of an answer.

mod inhabited;

use std::{path::Path, process::Command};

use serde_json::{Value, json};

use crate::harness::{Api, DOCUMENT, Finished, TempFile, World, finish};
use inhabited::Inhabitants;

const TEMPLATE: &str = include_str!("schemathesis.toml");

/// How much is tried.
struct Effort {
    /// Calls of an operation in each phase that makes them up.
    examples: u32,
    /// Whether calls follow from each other.
    stateful: bool,
}

fn config(inhabitants: &Inhabitants, token: &str, effort: &Effort) -> String {
    TEMPLATE
        .replace("{token}", token)
        .replace("{examples}", &effort.examples.to_string())
        .replace("{stateful}", &effort.stateful.to_string())
        .replace("{activities}", &Inhabitants::list(&inhabitants.activities))
        .replace("{rooms}", &Inhabitants::list(&inhabitants.rooms))
        .replace("{users}", &Inhabitants::list(&inhabitants.users))
        .replace("{wins}", &Inhabitants::list(&inhabitants.wins))
        .replace("{prizes}", &Inhabitants::list(&inhabitants.prizes))
        .replace("{ruled}", &Inhabitants::list(&ruled()))
}

/// The operations that refuse for more than their schemas say, by id: those with one of these parameters,
/// and some whose bodies have rules.
fn ruled() -> Vec<String> {
    const PARAMETERS: [&str; 2] = ["cursor", "Idempotency-Key"];
    const BODIES: [&str; 5] = [
        "joinActivity",
        "reportPresence",
        "reportTasks",
        "denyUser",
        "denyUserInActivity",
    ];

    let mut ids = Vec::new();
    for (_, _, operation) in DOCUMENT.operations() {
        let id = operation["operationId"].as_str().expect("an id");
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        let has_rule = parameters.any(|parameter| {
            let name = DOCUMENT.resolve(parameter)["name"].as_str();
            name.is_some_and(|name| PARAMETERS.contains(&name))
        });
        if has_rule || BODIES.contains(&id) {
            ids.push(id.to_owned());
        }
    }
    ids
}

/// The served document, with ids of what there is as the examples: those are tried first, and in every
/// phase, and with ids of nothing nearly all calls are answered 404.
async fn document(api: &Api, inhabitants: &Inhabitants) -> Value {
    let mut document = api.get(&api.operator(), "/openapi.json").await.expect(200);
    for (schema, ids) in [
        ("ActivityId", &inhabitants.activities),
        ("RoomId", &inhabitants.rooms),
        ("UserId", &inhabitants.users),
        ("WinRecordId", &inhabitants.wins),
        ("PrizeId", &inhabitants.prizes),
    ] {
        let examples = &mut document["components"]["schemas"][schema]["examples"];
        assert!(examples.is_array(), "{schema} has no examples");
        *examples = json!(ids);
    }
    document
}

async fn examine(api: &Api, document: &Value, config: &str) -> Finished {
    let (document, config) = (TempFile::new(&document.to_string()), TempFile::new(config));
    let url = api.url.clone();
    let examined = tokio::task::spawn_blocking(move || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/schemathesis");
        let mut command = Command::new(script);
        // What it writes besides its report stays out of the project.
        command.current_dir(std::env::temp_dir());
        command.args(["--config-file", config.path(), "run", document.path()]);
        command.args(["--url", &url, "--no-color"]);
        finish(command)
    });
    examined.await.expect("Schemathesis ends")
}

async fn nothing_is_found_as(token: impl Fn(&Api) -> String, effort: Effort) {
    let world = World::new().await;
    // The streams of one user end a moment after the client has closed them.
    let process = world
        .serve_with(&[("LIVE__STREAMS_PER_USER", "1000")])
        .await;
    let api = world.api(&process).await;
    let inhabitants = Inhabitants::settle(&world, &api).await;

    let document = document(&api, &inhabitants).await;

    let config = config(&inhabitants, &token(&api), &effort);
    let examined = examine(&api, &document, &config).await;

    assert_eq!(
        examined.code,
        Some(0),
        "{}\n{}",
        examined.stdout,
        examined.stderr
    );
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_nothing_as_an_operator() {
    let effort = Effort {
        examples: 15,
        stateful: true,
    };
    nothing_is_found_as(Api::operator, effort).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_nothing_as_a_host() {
    let effort = Effort {
        examples: 10,
        stateful: true,
    };
    nothing_is_found_as(inhabited::host, effort).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_nothing_as_a_viewer() {
    let effort = Effort {
        examples: 6,
        stateful: false,
    };
    nothing_is_found_as(|api| api.viewer(1), effort).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_nothing_as_another_system() {
    let effort = Effort {
        examples: 6,
        stateful: false,
    };
    nothing_is_found_as(Api::service, effort).await;
}
