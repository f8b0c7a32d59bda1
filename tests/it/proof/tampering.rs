//! Every single value of a proof and of an entry, changed: each time it fails, by name.

use std::ops::Range;

use luckybag::activity::{Seed, commitment, rules_hash};
use luckybag::kernel::ActivityId;
use serde_json::Value;

use super::{
    staying,
    verifiers::{Pair, assert_verified, python, rust},
};
use crate::harness::World;

/// A scalar of a JSON text: its path with every index as `N`, and where it stands.
type Scalar = (String, Range<usize>);

/// Every scalar of a JSON text that is known to be valid.
fn scalars(text: &str) -> Vec<Scalar> {
    let mut walk = Walk {
        text: text.as_bytes(),
        at: 0,
        found: Vec::new(),
    };
    walk.value("");
    assert_eq!(walk.at, text.len(), "one value and nothing behind it");
    walk.found
}

struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    found: Vec<Scalar>,
}

impl Walk<'_> {
    fn value(&mut self, path: &str) {
        match self.text[self.at] {
            b'{' => self.items(b'}', |walk| {
                let name = walk.token();
                let name = std::str::from_utf8(&walk.text[name.start + 1..name.end - 1]);
                let path = format!("{path}.{}", name.expect("UTF-8"));
                walk.at += 1;
                walk.value(path.trim_start_matches('.'));
            }),
            b'[' => self.items(b']', |walk| walk.value(&format!("{path}[N]"))),
            _ => {
                let scalar = self.token();
                self.found.push((path.to_owned(), scalar));
            }
        }
    }

    fn items(&mut self, end: u8, mut item: impl FnMut(&mut Self)) {
        self.at += 1;
        while self.text[self.at] != end {
            if self.text[self.at] == b',' {
                self.at += 1;
            }
            item(self);
        }
        self.at += 1;
    }

    /// A text with its quotes, or everything up to the next mark.
    fn token(&mut self) -> Range<usize> {
        let start = self.at;
        if self.text[start] == b'"' {
            self.at += 1;
            while self.text[self.at] != b'"' {
                self.at += if self.text[self.at] == b'\\' { 2 } else { 1 };
            }
            self.at += 1;
        } else {
            while !b",]}".contains(&self.text[self.at]) {
                self.at += 1;
            }
        }
        start..self.at
    }
}

/// Other values that might stand in the place of this one.
fn others(value: &str) -> Vec<String> {
    let Some(inner) = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')) else {
        return other_bare(value);
    };
    let is_hex = inner.len() == 64 && inner.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hex {
        let last = if inner.ends_with('0') { '1' } else { '0' };
        let first = if inner.starts_with('0') { '1' } else { '0' };
        return vec![
            format!("\"{}{last}\"", &inner[..63]),
            format!("\"{first}{}\"", &inner[1..]),
        ];
    }
    if let Ok(id) = inner.parse::<u64>() {
        return vec![format!("\"{}\"", id + 1), format!("\"{}\"", id / 2)];
    }
    let words = match inner {
        "joined" => &["rejected", "late"][..],
        "rejected" => &["joined"],
        "eligible" => &["absent", "tasksUnfinished", "nonsense"],
        "absent" => &["eligible", "forfeited"],
        "blocked" => &["cooldown", "invalid", "nonsense"],
        _ => &[],
    };
    let appended = format!("\"{inner} \"");
    words
        .iter()
        .map(|word| format!("\"{word}\""))
        .chain([appended])
        .collect()
}

fn other_bare(value: &str) -> Vec<String> {
    if value == "null" {
        return ["1", "2", "3", "\"eligible\"", "\"blocked\""]
            .map(str::to_owned)
            .to_vec();
    }
    if value.contains('.') {
        let score: f64 = value.parse().expect("a score");
        let next = |bits: u64| format!("{:?}", f64::from_bits(bits));
        let bits = score.to_bits();
        return vec![
            next(bits + 1),
            next(bits - 1),
            "0.5".to_owned(),
            "null".to_owned(),
        ];
    }
    let number: u64 = value.parse().expect("a whole number");
    let lower = number.checked_sub(1);
    let values = [number + 1, number + 1_000].into_iter().chain(lower);
    values.map(|value| value.to_string()).collect()
}

/// By which names a changed value of this path may be found out.
fn names_of(path: &str) -> &'static [&'static str] {
    match path {
        "format" => &["format"],
        "activityId" => &["activityId"],
        "commitment" => &["commitment"],
        "seed" => &["seed"],
        "rules" => &["rules"],
        "rulesHash" => &["rulesHash"],
        "scoreRuleVersion" => &["scoreRuleVersion"],
        "entriesCount" => &["entriesCount", "entriesTree", "entriesRoot"],
        "entriesTree" => &["entriesTree"],
        "entriesRoot" => &["entriesRoot"],
        "round" => &["round"],
        "cutoffScore" => &["cutoffScore"],
        "winners[N].seat" => &["winners[N].seat", "winners[N].revokedInRound"],
        "winners[N].round" => &[
            "winners[N].round",
            "winners[N].seat",
            "winners[N].revokedInRound",
        ],
        "winners[N].userId" => &["winners[N].userId"],
        "winners[N].score" => &["winners[N].score"],
        "winners[N].prizeRank" => &["winners[N].prizeRank"],
        "winners[N].prizeId" => &["winners[N].prizeId"],
        "winners[N].revokedInRound" => &["winners[N].revokedInRound", "redraws[N].seats"],
        "winners[N].entry.index" | "winners[N].entry.salt" | "winners[N].entry.path[N]" => {
            &["winners[N].entry"]
        }
        "redraws[N].round" => &["redraws[N].round"],
        "redraws[N].seats[N]" => &["redraws[N].seats", "winners[N].revokedInRound"],
        _ => panic!("a value that this test does not know: {path}"),
    }
}

fn names_of_entry(path: &str) -> &'static [&'static str] {
    match path {
        "format" | "activityId" | "entriesRoot" | "entriesCount" | "score" | "rank" => &[],
        "entry.userId" => &["entry.userId"],
        "entry.index" | "entry.salt" | "entry.path[N]" => &["entry"],
        "entry.status" => &["entry.status"],
        "entry.reason" | "entry.eligibility" => &["entry", "entry.status"],
        _ => panic!("a value that this test does not know: {path}"),
    }
}

/// `winners[3].seat: it has …` is about `winners[N].seat`.
fn name_in(said: &str) -> String {
    let (name, _) = said.split_once(": ").unwrap_or((said, ""));
    let digit = |c: char| c.is_ascii_digit();
    name.split(['[', ']'])
        .map(|part| {
            if part.chars().all(digit) && !part.is_empty() {
                "[N]"
            } else {
                part
            }
        })
        .collect()
}

fn changed(text: &str, scalar: &Range<usize>, value: &str) -> String {
    format!("{}{value}{}", &text[..scalar.start], &text[scalar.end..])
}

/// A changed text, and by which names it may be found out; none means by that of its own path.
struct Case {
    text: String,
    path: String,
    names: &'static [&'static str],
}

fn cases(text: &str, names_of: fn(&str) -> &'static [&'static str]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (path, scalar) in scalars(text) {
        let own = &text[scalar.clone()];
        let values = others(own).into_iter().filter(|value| value != own);
        cases.extend(values.map(|value| Case {
            text: changed(text, &scalar, &value),
            names: names_of(&path),
            path: path.clone(),
        }));
    }
    cases
}

/// Both verifiers name the changed value, and the same one.
fn assert_found_out(case: &Case, rust: &str, python: &str) {
    let (name, other) = (name_in(rust), name_in(python));
    assert_eq!(name, other, "{}: {rust:?} and {python:?}", case.path);
    let is_meant = case.names.contains(&name.as_str()) || name == case.path;
    assert!(is_meant, "{}: {rust}", case.path);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_single_value_that_is_changed_is_found_out_by_both_verifiers() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&staying(8001)).await;
    let cast = world.cast(&api, &bag).await;
    api.take_back(&world, &bag, &[1, 2]).await;
    // One is left for two seats.
    api.take_back(&world, &bag, &[1, 2]).await;
    let proof = api.proof_of_round(&bag, 3).await;
    let mut entries = Vec::new();
    for user in [cast.winners[0], cast.losers[0], cast.absent, cast.rejected] {
        entries.push(api.entry(&bag, user).await);
    }
    process.stop().await;
    world.end().await;

    assert_verified((&proof, None));
    let of_proof = cases(&proof, names_of);
    assert!(of_proof.len() > 150, "{}", of_proof.len());
    let pairs: Vec<Pair<'_>> = of_proof
        .iter()
        .map(|case| (case.text.as_str(), None))
        .collect();
    for ((case, pair), python) in of_proof.iter().zip(&pairs).zip(python(&pairs)) {
        assert_found_out(case, &rust(*pair), &python);
    }
    for entry in &entries {
        assert_verified((&proof, Some(entry)));
        let of_entry = cases(entry, names_of_entry);
        let pairs: Vec<Pair<'_>> = of_entry
            .iter()
            .map(|case| (proof.as_str(), Some(case.text.as_str())))
            .collect();
        for ((case, pair), python) in of_entry.iter().zip(&pairs).zip(python(&pairs)) {
            let rust = rust(*pair);
            let own = |said: &str| said.strip_prefix("entry file: ").map(str::to_owned);
            let (rust, python) = (own(&rust).expect(&rust), own(&python).expect(&python));
            assert_found_out(case, &rust, &python);
        }
    }
}

/// The proof with these rules, and with hash and commitment made to fit: whoever runs a draw may
/// commit to any text.
fn with_rules(proof: &str, rules: &str) -> String {
    let shown: Value = serde_json::from_str(proof).expect("JSON");
    let text = |name: &str| shown[name].as_str().expect("a text").to_owned();
    let id = ActivityId(text("activityId").parse().expect("an id"));
    let seed: Vec<u8> = hex::decode(text("seed")).expect("hex");
    let seed = Seed::new(seed.try_into().expect("32 bytes"));
    let hash = rules_hash(rules);
    let replaced = [
        (text("rules"), rules.to_owned()),
        (text("rulesHash"), hex::encode(hash)),
        (
            text("commitment"),
            hex::encode(commitment(id, &seed, &hash)),
        ),
    ];
    let mut changed = proof.to_owned();
    for (before, after) in replaced {
        let json = |text: &str| serde_json::to_string(text).expect("JSON");
        assert!(changed.contains(&json(&before)), "{before}");
        changed = changed.replace(&json(&before), &json(&after));
    }
    changed
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_readers_of_json_take_differently_are_refused_by_both_verifiers() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&staying(8001)).await;
    world.cast(&api, &bag).await;
    let proof = api.proof(&bag).await;
    process.stop().await;
    world.end().await;
    let shown: Value = serde_json::from_str(&proof).expect("JSON");
    let rules = shown["rules"].as_str().expect("a text");
    assert_verified((&with_rules(&proof, &rules.replacen('{', "{ ", 1)), None));

    for (before, after) in [
        // Whoever takes the last one sees the same prizes as before.
        ("\"prizes\":", "\"prizes\":[],\"prizes\":"),
        ("\"rank\":1", "\"rank\":2,\"rank\":1"),
        // Nothing that a verifier needs.
        ("\"drawAt\":", "\"drawAt\":1,\"drawAt\":"),
        ("\"prizes\":", "\"more\":[{\"a\":1,\"a\":1}],\"prizes\":"),
        // No text and no number that every reader takes for the same.
        ("\"prizes\":", "\"more\":\"\\ud800\",\"prizes\":"),
        ("\"prizes\":", "\"more\":1e999,\"prizes\":"),
    ] {
        assert!(rules.contains(before), "{before}: {rules}");
        let forged = with_rules(&proof, &rules.replacen(before, after, 1));
        let pair: Pair<'_> = (&forged, None);
        let (rust, python) = (rust(pair), python(&[pair]));
        assert!(rust.starts_with("rules: "), "{after}: {rust}");
        assert!(python[0].starts_with("rules: "), "{after}: {python:?}");
    }
}
