//! The worked example of docs/proof.md.

use super::verifiers::assert_verified;

const PROOF: &str = include_str!("../../../docs/examples/proof.json");
const ENTRY: &str = include_str!("../../../docs/examples/entry.json");
const PAGE: &str = include_str!("../../../docs/proof.md");

#[test]
fn the_documented_example_verifies_and_is_the_one_on_the_page() {
    assert_verified((PROOF, None));
    assert_verified((PROOF, Some(ENTRY)));
    let shown: serde_json::Value = serde_json::from_str(PROOF).unwrap();
    for field in ["rulesHash", "commitment", "entriesTree", "entriesRoot"] {
        let line = format!("{field:<12} {}", shown[field].as_str().unwrap());
        assert!(PAGE.contains(&line), "{line}");
    }
    for hash in shown["winners"][0]["entry"]["path"].as_array().unwrap() {
        assert!(PAGE.contains(hash.as_str().unwrap()), "{hash}");
    }
}
