//! What MySQL holds of one user, and what a transaction of the stream makes of it: the service's
//! own rule, with a revision more for each transaction that changes anything.

use chrono::TimeDelta;
use luckybag::{
    activity::{PresenceRule, Seed},
    candidate::{Change, LateReason, Participation, Rules, UserRows, Verdict},
    kernel::{Timestamp, UserId},
};
use serde_json::json;

pub(super) const USER: UserId = UserId(23);
pub(super) const DRAW_AT: i64 = 1_000;
pub(super) const TASK: &str = "follow";

pub(super) fn at(ms: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(ms)
}

pub(super) fn rules(presence_rule: PresenceRule, tasks: &[&str]) -> Rules {
    Rules {
        seed: Seed::new([3; 32]),
        draw_at: at(DRAW_AT),
        presence_rule,
        tasks: tasks.iter().map(ToString::to_string).collect(),
        one_entry_per_device: false,
        trim_floor: 0.99,
    }
}

/// As of the last commit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Committed {
    pub(super) rows: UserRows,
    /// The draw has shut the stream out.
    pub(super) is_frozen: bool,
}

/// What a transaction found or made, to be written into Redis after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shot {
    pub(super) revision: u32,
    /// `None` for whoever is not in the pool.
    pub(super) score: Option<String>,
    pub(super) summary: String,
    pub(super) is_new: bool,
    pub(super) has_join: bool,
}

impl Committed {
    /// One transaction over a batch; a shot when there is something to show.
    pub(super) fn commit(&self, rules: &Rules, batch: &[Change]) -> (Self, Option<Shot>) {
        let mut after = self.clone();
        for change in batch {
            if self.is_frozen {
                after.come_too_late(change);
            } else {
                rules.apply(USER, &mut after.rows, change);
            }
        }
        let is_new = self.rows.participation.is_none();
        if !is_new
            && after != *self
            && let Some(participation) = &mut after.rows.participation
        {
            participation.revision += 1;
        }
        let has_join = batch.iter().any(|change| matches!(change, Change::Join(_)));
        let shot = after.look(rules).map(|shot| Shot {
            is_new,
            has_join,
            ..shot
        });
        let is_shown = !self.is_frozen || has_join;
        (after, shot.filter(|_| is_shown))
    }

    fn come_too_late(&mut self, change: &Change) {
        let Change::Join(join) = change else { return };
        self.rows
            .participation
            .get_or_insert_with(|| Participation {
                verdict: Verdict::Late(LateReason::Closed),
                is_trimmed: false,
                device_id: None,
                accepted_at: join.accepted_at,
                request_id: join.request_id.clone(),
                revision: 1,
            });
    }

    /// As a rebuild sees it; nothing without a participation.
    pub(super) fn look(&self, rules: &Rules) -> Option<Shot> {
        let participation = self.rows.participation.as_ref()?;
        let eligibility = rules.eligibility(&self.rows);
        let revision = participation.revision;
        let (status, reason) = participation.verdict.as_words();
        let summary = json!({ "revision": revision, "status": status, "reason": reason,
            "eligibility": eligibility.map(luckybag::candidate::Eligibility::as_str) });
        Some(Shot {
            revision,
            score: eligibility
                .filter(|_| participation.is_pooled())
                .map(|eligibility| rules.pool_score(USER, eligibility)),
            summary: summary.to_string(),
            is_new: false,
            has_join: false,
        })
    }
}
