//! The dashboard, the alarms and the operator's page name what there is, and all of it.

use std::{collections::BTreeSet, fs, path::Path};

use serde::Deserialize;
use serde_json::Value;

const DASHBOARD: &str = "ops/grafana/luckybag.json";
const ALERTS: &str = "ops/prometheus/alerts.yml";
const OPERATIONS: &str = "docs/operations.md";
const SOURCES: [&str; 2] = ["src/telemetry/metrics.rs", "src/telemetry/state.rs"];

/// Told by the operating system, not by us.
const PROCESS: [&str; 4] = [
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_max_fds",
];

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(default, rename = "for")]
    _duration: Option<String>,
    labels: Labels,
    annotations: Annotations,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    severity: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotations {
    summary: String,
    description: String,
    runbook: String,
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn alerts() -> Vec<Rule> {
    let rules: Rules = serde_yaml_ng::from_str(&read(ALERTS)).expect("rules in YAML");
    rules.groups.into_iter().flat_map(|g| g.rules).collect()
}

/// The expressions of all panels.
pub(super) fn dashboard_exprs() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).expect("a dashboard in JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    targets
        .flatten()
        .map(|target| target["expr"].as_str().expect("an expression").to_owned())
        .collect()
}

/// The words of `text` that begin as the name of a metric does.
pub(super) fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.split(|character| !is_name(character))
        .filter(|word| word.starts_with("luckybag_") || word.starts_with("process_"))
        .map(base)
        .collect()
}

/// The series of a histogram are one metric.
fn base(series: &str) -> String {
    let histogram = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|suffix| series.strip_suffix(suffix));
    histogram.unwrap_or(series).to_owned()
}

/// The constants that name metrics: `const OUTBOX_AGE: &str = "luckybag_outbox_age_seconds";`
fn declared() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for source in SOURCES {
        for line in read(source).lines() {
            let named = line
                .strip_prefix("const ")
                .and_then(|rest| rest.split_once(": &str = \""));
            if let Some((constant, value)) = named
                && value.starts_with("luckybag_")
            {
                let name = value.trim_end_matches("\";").to_owned();
                all.push((constant.to_owned(), name));
            }
        }
    }
    all
}

pub(super) fn declared_names() -> BTreeSet<String> {
    declared().into_iter().map(|(_, name)| name).collect()
}

#[test]
fn every_metric_is_declared_once_and_described() {
    let declared = declared();
    let names: BTreeSet<&String> = declared.iter().map(|(_, name)| name).collect();
    assert!(names.len() > 50, "{names:?}");
    assert_eq!(names.len(), declared.len(), "{declared:?}");
    // Without line breaks: `describe_counter!(OUTBOX_DONE, "…")` may take three lines.
    let code: String = SOURCES
        .map(|source| read(source).split_whitespace().collect::<String>())
        .concat();
    for (constant, name) in &declared {
        let described = ["counter", "gauge", "histogram"]
            .map(|kind| code.contains(&format!("describe_{kind}!({constant},")));
        assert!(described.contains(&true), "{name} is not described");
    }
    // What is named anywhere else would be on no dashboard.
    let all = code_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let literals = all.split('"').filter(|text| text.starts_with("luckybag_"));
    let is_name = |text: &&str| metrics_in(text) == BTreeSet::from([(*text).to_owned()]);
    let written: BTreeSet<String> = literals.filter(is_name).map(str::to_owned).collect();
    assert_eq!(written, declared_names());
}

#[test]
fn the_dashboard_and_the_alarms_name_only_metrics_that_exist() {
    let mut known = declared_names();
    known.extend(PROCESS.map(ToOwned::to_owned));
    for expr in dashboard_exprs() {
        for name in metrics_in(&expr) {
            assert!(known.contains(&name), "{DASHBOARD}: {name} in {expr}");
        }
    }
    for rule in alerts() {
        for name in metrics_in(&rule.expr) {
            assert!(known.contains(&name), "{ALERTS}: {name} in {}", rule.alert);
        }
    }
}

#[test]
fn every_metric_is_on_the_dashboard() {
    let shown: BTreeSet<String> = dashboard_exprs()
        .iter()
        .flat_map(|expr| metrics_in(expr))
        .collect();
    for name in declared_names() {
        assert!(shown.contains(&name), "{name} is not in {DASHBOARD}");
    }
}

#[test]
fn every_panel_can_be_pointed_at_a_data_source_and_says_what_it_shows() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).expect("a dashboard in JSON");
    let variables = dashboard["templating"]["list"].as_array().expect("a list");
    assert_eq!(variables[0]["type"], "datasource");
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let says = panel["description"].as_str().expect("a description");
        assert!(says.len() > 8, "{panel}");
    }
    // A row for each promise.
    let rows = dashboard["panels"].as_array().expect("panels").iter();
    let titles: Vec<&str> = rows
        .filter(|panel| panel["type"] == "row")
        .filter_map(|row| row["title"].as_str())
        .collect();
    for promise in 1..=10 {
        let begins = format!("{promise} · ");
        assert!(
            titles.iter().any(|title| title.starts_with(&begins)),
            "{titles:?}"
        );
    }
}

#[test]
fn every_alarm_has_its_section_and_every_section_its_alarm() {
    let page = read(OPERATIONS);
    let (_, section) = page.split_once("\n## Alarms\n").expect("a section");
    let section = section.split("\n## ").next().expect("its text");
    let explained: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .filter(|title| title.starts_with("Luckybag"))
        .collect();
    let alerts = alerts();
    let names: BTreeSet<&str> = alerts.iter().map(|rule| rule.alert.as_str()).collect();
    assert_eq!(names.len(), alerts.len());
    assert_eq!(names, explained.iter().copied().collect());
    assert_eq!(explained.len(), names.len(), "{explained:?}");
    for rule in &alerts {
        let link = format!("{OPERATIONS}#{}", rule.alert.to_lowercase());
        assert_eq!(rule.annotations.runbook, link);
        let text = section.split(&format!("### {}\n", rule.alert)).nth(1);
        let severity = format!("**{}.**", rule.labels.severity);
        let begins = text.expect("a text").trim_start();
        assert!(begins.starts_with(&severity), "{}", rule.alert);
        let is_known = ["critical", "warning", "info"].contains(&rule.labels.severity.as_str());
        assert!(is_known, "{}", rule.alert);
        let annotations = &rule.annotations;
        let is_told = !annotations.summary.is_empty() && !annotations.description.is_empty();
        assert!(is_told, "{}", rule.alert);
    }
}

/// What the page quotes of the log: (`messages are held until this works again`).
fn quoted_log_lines(page: &str) -> Vec<String> {
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let quotes = text.split("(`").skip(1).filter_map(|rest| {
        let (quote, _) = rest.split_once("`)")?;
        let is_sentence = quote.contains(' ')
            && quote
                .chars()
                .all(|c| c.is_ascii_lowercase() || " ,;'".contains(c));
        is_sentence.then(|| quote.to_owned())
    });
    quotes.collect()
}

/// The text of all files with code.
fn code_below(folder: &Path) -> String {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .map(|path| match path.extension() {
            _ if path.is_dir() => code_below(&path),
            Some(extension) if extension == "rs" => fs::read_to_string(&path).expect("a source"),
            Some(_) | None => String::new(),
        })
        .collect()
}

#[test]
fn every_line_of_the_log_that_the_page_quotes_is_logged() {
    let code = code_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let quoted = quoted_log_lines(&read(OPERATIONS));
    assert!(quoted.len() > 5, "{quoted:?}");
    for line in quoted {
        assert!(code.contains(&format!("\"{line}\"")), "{line}");
    }
}
