//! The proof of a giveaway, and each participant's entry in it.

use std::collections::BTreeMap;

use luckybag::draw::verify_proof;
use serde_json::Value;

use super::giveaway::Giveaway;
use crate::harness::{Api, eventually};

/// The documents as they are served, byte for byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proofs {
    proof: String,
    entries: BTreeMap<u64, String>,
}

impl Giveaway {
    /// Asserts that everybody can verify the result with their own entry, and that it says whether
    /// they were there.
    pub(super) async fn assert_proof_holds(&self, api: &Api) -> Proofs {
        let anybody = api.viewer(1);
        let proof = text(api, &anybody, &self.bag.path("/proof")).await;
        let mut entries = BTreeMap::new();
        for user in &self.joined {
            let entry = text(api, &api.viewer(*user), &self.bag.path("/proof/me")).await;
            if let Err(fault) = verify_proof(&proof, Some(&entry)) {
                panic!("user {user}: {fault}: {entry} in {proof}");
            }
            let said: Value = serde_json::from_str(&entry).expect("JSON");
            let eligibility = if self.present.contains(user) {
                "eligible"
            } else {
                "absent"
            };
            assert_eq!(said["entry"]["eligibility"], eligibility, "{said}");
            entries.insert(*user, entry);
        }
        let said: Value = serde_json::from_str(&proof).expect("JSON");
        assert_eq!(said["entriesCount"], self.joined.len(), "{said}");
        Proofs { proof, entries }
    }
}

/// A document, once it is published.
async fn text(api: &Api, token: &str, path: &str) -> String {
    let url = format!("{}{path}", api.url);
    eventually("the proof", async || {
        let asked = api.http.get(&url).bearer_auth(token).send().await;
        let answer = asked.map_err(|error| error.to_string())?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| error.to_string())?;
        if status.is_success() {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await
}
