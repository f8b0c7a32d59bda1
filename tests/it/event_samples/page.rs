//! Reads docs/events.md: its sections, their schema versions and their tables of fields.

use std::collections::{BTreeMap, BTreeSet};

use super::{docs, shape::Shape};

/// Headings under which the events stand.
const CHAPTERS: [&str; 2] = ["What luckybag tells", "What luckybag is told"];

pub(super) struct Page {
    envelope: Shape,
    sections: BTreeMap<String, Section>,
}

struct Section {
    version: Option<u64>,
    fields: Shape,
}

impl Page {
    pub(super) fn read() -> Self {
        let text = std::fs::read_to_string(docs().join("events.md")).expect("docs/events.md");
        let chapters: BTreeMap<&str, &str> = parts(&text, "\n## ").collect();
        let envelope = Shape::of_table(chapters["How events come"]);
        let sections = CHAPTERS
            .iter()
            .flat_map(|chapter| parts(chapters[chapter], "\n### "))
            .map(|(name, text)| (name.to_owned(), Section::read(text)))
            .collect();
        Self { envelope, sections }
    }

    pub(super) fn names(&self) -> BTreeSet<String> {
        self.sections.keys().cloned().collect()
    }

    pub(super) fn envelope(&self) -> &Shape {
        &self.envelope
    }

    pub(super) fn fields(&self, name: &str) -> &Shape {
        &self.sections[name].fields
    }

    /// The schema version of an event that we send.
    pub(super) fn version(&self, name: &str) -> u64 {
        let version = self.sections[name].version;
        version.unwrap_or_else(|| panic!("{name}: its section names no schema version"))
    }
}

impl Section {
    fn read(text: &str) -> Self {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let version = words.split_once("Schema version ").map(|(_, rest)| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().expect("the number of a schema version")
        });
        Self {
            version,
            fields: Shape::of_table(text),
        }
    }
}

/// The text below each heading that `mark` begins, with the heading.
fn parts<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.split(mark)
        .skip(1)
        .map(|part| part.split_once('\n').expect("a text below a heading"))
}
