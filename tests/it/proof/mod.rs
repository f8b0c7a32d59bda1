//! Proofs: what is published after a draw, and what two verifiers that share no code say of it.

mod crowds;
mod erasing;
mod example;
mod missed;
mod pending;
mod sizes;
mod tampering;
mod verifiers;
mod whole_draw;

use serde_json::{Value, json};

use crate::harness::{Api, Bag, BagSpec, World, eventually};

/// Deny lists, presence and late participations, as the service would have stored them.
struct Cast {
    winners: Vec<u64>,
    losers: Vec<u64>,
    absent: u64,
    rejected: u64,
    late: u64,
}

/// Two seats of two prizes, and a bag that asks its participants to stay.
fn staying(room: u64) -> BagSpec {
    BagSpec {
        room,
        extra: json!({
            "presenceRule": "pause",
            "prizes": [
                { "name": "Phone", "kind": "physical", "quantity": 1 },
                { "name": "Mug", "kind": "physical", "quantity": 1 },
            ],
        }),
        ..BagSpec::waiting()
    }
}

fn users_of(bag: &Bag, count: u64) -> Vec<u64> {
    let first = bag.room * 1_000;
    (first..first + count).collect()
}

impl Api {
    /// The body as it was sent: this test's reader of JSON may lose the last bit of a number.
    pub(crate) async fn text(&self, token: &str, path: &str) -> String {
        let answer = self
            .http
            .get(format!("{}{path}", self.url))
            .bearer_auth(token)
            .send()
            .await
            .expect("an answer");
        let status = answer.status();
        let text = answer.text().await.expect("a text");
        assert!(status.is_success(), "{path}: {status} {text}");
        text
    }

    /// The proof, once it is published.
    async fn proof(&self, bag: &Bag) -> String {
        let (token, path) = (self.viewer(77), bag.path("/proof"));
        eventually("the proof", async || {
            let answer = self.get(&token, &path).await;
            match answer.status.as_u16() {
                200 => Ok(()),
                409 => Err(answer.expect_problem(409, "proof_pending")),
                _ => panic!("{answer:?}"),
            }
        })
        .await;
        self.text(&token, &path).await
    }

    async fn entry(&self, bag: &Bag, user: u64) -> String {
        self.text(&self.viewer(user), &bag.path("/proof/me")).await
    }

    /// Asserts that this user has no entry.
    async fn no_entry(&self, bag: &Bag, user: u64) {
        let answer = self.get(&self.viewer(user), &bag.path("/proof/me")).await;
        answer.expect_problem(404, "no_entry");
    }

    /// Takes back the wins on these seats.
    async fn take_back(&self, world: &World, bag: &Bag, seats: &[u32]) -> Value {
        let wins = world.wins(bag.id).await;
        let held = wins
            .iter()
            .filter(|win| win.status == "won" && seats.contains(&win.seat));
        let ids: Vec<String> = held.map(|win| win.id.to_string()).collect();
        assert_eq!(ids.len(), seats.len(), "{wins:?}");
        let body = json!({ "winRecordIds": ids, "reason": "entered twice" });
        let path = bag.path("/redraws");
        let answer = self.post(&self.operator(), &path, Some(body)).await;
        answer.expect(200)
    }

    /// The proof, once it is about this round.
    async fn proof_of_round(&self, bag: &Bag, round: u64) -> String {
        eventually("the proof of the new round", async || {
            let proof = self.proof(bag).await;
            let shown: Value = serde_json::from_str(&proof).expect("JSON");
            if shown["round"] == round {
                Ok(proof)
            } else {
                Err(shown["round"].clone())
            }
        })
        .await
    }
}

impl World {
    /// A participation that was never admitted, straight into the frozen rows' table.
    async fn insert_participation(&self, bag: &Bag, user: u64, status: &str, reason: &str) {
        self.execute(&format!(
            "INSERT INTO participation (activity_id, user_id, status, reason, accepted_at, \
             request_id, revision, created_at) \
             VALUES ({}, {user}, '{status}', {reason}, NOW(3), 'test', 1, NOW(3))",
            bag.id
        ))
        .await;
    }

    /// A drawn bag with somebody of every kind in it.
    async fn cast(&self, api: &Api, bag: &Bag) -> Cast {
        let users = users_of(bag, 7);
        let (absent, rejected, late) = (users[5], users[6], bag.room * 1_000 + 50);
        self.execute(&format!(
            "INSERT INTO deny_list (scope, user_id, created_by, created_at) \
             VALUES ({}, {rejected}, 1, NOW(3))",
            bag.id
        ))
        .await;
        api.join_all(bag, users.iter().copied()).await;
        for user in &users {
            api.settled(bag, *user).await;
        }
        self.execute(&format!(
            "INSERT INTO presence (activity_id, user_id, last_leave_at) \
             VALUES ({}, {absent}, NOW(3) + INTERVAL 1 SECOND)",
            bag.id
        ))
        .await;
        self.insert_participation(bag, late, "late", "'closed'")
            .await;
        self.draw_soon(&[*bag]).await;
        self.all_drawn(&[*bag]).await;
        let winners: Vec<u64> = self.wins(bag.id).await.iter().map(|w| w.user_id).collect();
        let is_loser = |user: &u64| !winners.contains(user);
        Cast {
            losers: users[..5].iter().copied().filter(is_loser).collect(),
            winners,
            absent,
            rejected,
            late,
        }
    }
}
