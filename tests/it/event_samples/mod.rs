//! What goes over RabbitMQ, held against docs/events.md and the stored samples in docs/events.

mod page;
mod shape;
mod taken;
mod told;

use std::{collections::BTreeSet, fs, path::PathBuf};

use luckybag::infra::outbox::EventKind;
use serde_json::Value;

use page::Page;

/// What other systems send to us: names of the exchanges, and of the sections and samples.
const FEEDS: [&str; 2] = ["presence", "tasks"];

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs")
}

fn sample_text(name: &str) -> String {
    let path = docs().join(format!("events/{name}.json"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sample(name: &str) -> Value {
    serde_json::from_str(&sample_text(name)).expect("a sample in JSON")
}

fn all_names() -> BTreeSet<String> {
    let kinds = EventKind::ALL.iter().map(|kind| kind.as_str());
    kinds.chain(FEEDS).map(str::to_owned).collect()
}

#[test]
fn every_event_has_a_section_and_a_sample_and_nothing_else_has() {
    let files = fs::read_dir(docs().join("events")).expect("the folder of samples");
    let samples: BTreeSet<String> = files
        .map(|file| file.expect("a file").file_name())
        .map(|name| name.to_string_lossy().replace(".json", ""))
        .collect();

    assert_eq!(samples, all_names(), "samples");
    assert_eq!(Page::read().names(), all_names(), "sections of events.md");
}

#[test]
fn every_sample_is_what_the_page_says_and_shows_each_field() {
    let page = Page::read();
    for kind in EventKind::ALL {
        let (name, envelope) = (kind.as_str(), sample(kind.as_str()));
        page.envelope().assert_is(&envelope, name);
        assert_eq!(envelope["type"], name);
        assert_eq!(
            envelope["schemaversion"],
            page.version(name),
            "{name}: the sample and the page name different schema versions"
        );
        page.fields(name).assert_is(&envelope["data"], name);
        page.fields(name).assert_shown_by(&envelope["data"], name);
    }
    for feed in FEEDS {
        page.fields(feed).assert_is(&sample(feed), feed);
        page.fields(feed).assert_shown_by(&sample(feed), feed);
    }
}
