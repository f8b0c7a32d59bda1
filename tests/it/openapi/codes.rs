//! The codes of problems in the sources and in the document.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::harness::DOCUMENT;

/// What makes a problem; its code is the next text.
const MAKERS: [&str; 5] = [
    "bad_request(",
    "not_found(",
    "conflict(",
    "gone(",
    "unavailable(",
];

#[test]
fn every_code_of_the_sources_is_in_the_document_and_the_other_way_round() {
    let described: BTreeSet<String> = DOCUMENT.json["components"]["examples"]
        .as_object()
        .expect("examples")
        .keys()
        .cloned()
        .collect();

    let made = codes_of_sources();

    assert!(made.len() > 40, "{made:?}");
    assert_eq!(made, described);
}

#[test]
fn every_code_stands_in_the_table_for_people() {
    let table = DOCUMENT.json["info"]["description"].as_str().expect("text");
    for code in codes_of_sources() {
        assert!(table.contains(&format!("| `{code}` |")), "{code}");
    }
}

fn codes_of_sources() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for file in rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let is_test = file.components().any(|part| part.as_os_str() == "tests");
        let text = fs::read_to_string(&file).expect("a source file");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if !is_test {
            codes.extend(codes_of(code));
        }
    }
    codes
}

/// The codes that `Problem::…("code"`, `Self::…("code"` and `new(StatusCode::…, "code"` name. What
/// describes a problem does not make it.
fn codes_of(source: &str) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for maker in ["Problem::", "Self::"] {
        for (start, _) in source.match_indices(maker) {
            let is_description = source[..start].ends_with("Known");
            let call = &source[start + maker.len()..];
            if !is_description {
                codes.extend(code_of_call(call));
            }
        }
    }
    // A status that the framework answers without a body, by number.
    for line in source.lines().filter(|line| line.contains(" => \"")) {
        let (status, word) = line.split_once(" => \"").unwrap_or_default();
        let is_status = status.trim().starts_with(['4', '5']) || status.trim() == "_";
        if is_status && source.contains("fn of_status") {
            codes.extend(word.split('"').next().map(str::to_owned));
        }
    }
    codes
}

fn code_of_call(call: &str) -> Option<String> {
    let by_name = MAKERS.iter().find_map(|maker| call.strip_prefix(maker));
    let by_status = || {
        let arguments = call.strip_prefix("new(")?.trim_start();
        let (status, rest) = arguments.split_once(',')?;
        status.starts_with("StatusCode::").then_some(rest)
    };
    let arguments = by_name.or_else(by_status)?;
    let (code, _) = arguments.trim_start().strip_prefix('"')?.split_once('"')?;
    Some(code.to_owned())
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn the_scan_sees_every_way_to_make_a_problem() {
    let source = r#"
        Problem::conflict("one", x); Self::gone(
            "two", x);
        Problem::new(
            StatusCode::OK,
            "three",
        );
        KnownProblem::conflict("four", x);
        Self::conflict(code, x);
    "#;

    let codes: Vec<String> = codes_of(source).into_iter().collect();

    assert_eq!(codes, ["one", "three", "two"]);
}
