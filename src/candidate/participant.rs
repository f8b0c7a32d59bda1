//! What one user is told about a participation, and the form in which Redis keeps it.

use serde::{Deserialize, Serialize};

use super::{Eligibility, LateReason, RejectReason, Rules, UserRows, Verdict};
use crate::kernel::{Timestamp, to_millis};

/// What became of a user's join, and whether the user can win as things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParticipantState {
    pub verdict: Verdict,
    pub joined_at: Timestamp,
    pub tasks_done: Vec<String>,
    /// `None` unless joined.
    pub eligibility: Option<Eligibility>,
    /// Grows with every change.
    pub revision: u32,
}

impl ParticipantState {
    /// `None` for whoever has no participation; an activity that never opened has no rules.
    pub(super) fn of(rules: Option<&Rules>, rows: &UserRows) -> Option<Self> {
        let participation = rows.participation.as_ref()?;
        Some(Self {
            verdict: participation.verdict,
            joined_at: participation.accepted_at,
            tasks_done: rows.completed_tasks.iter().cloned().collect(),
            eligibility: rules.and_then(|rules| rules.eligibility(rows)),
            revision: participation.revision,
        })
    }

    pub(super) fn to_json(&self) -> String {
        let (status, reason) = self.verdict.as_words();
        let stored = StoredState {
            revision: self.revision,
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            joined_at: self.joined_at,
            tasks_done: self.tasks_done.clone(),
            eligibility: self.eligibility.map(|word| word.as_str().to_owned()),
            tasks_finished: self.eligibility.is_some_and(Eligibility::is_finished),
        };
        // A struct of texts, numbers and lists always has a JSON form.
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// `None` when another version wrote it in a way that makes no sense here.
    pub(super) fn parse(json: &str) -> Option<Self> {
        let stored: StoredState = serde_json::from_str(json).ok()?;
        let eligibility = match &stored.eligibility {
            Some(word) => Some(stored.parse_eligibility(word)?),
            None => None,
        };
        Some(Self {
            verdict: Verdict::parse(&stored.status, stored.reason.as_deref())?,
            joined_at: stored.joined_at,
            tasks_done: stored.tasks_done,
            eligibility,
            revision: stored.revision,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredState {
    revision: u32,
    status: String,
    reason: Option<String>,
    #[serde(with = "to_millis")]
    joined_at: Timestamp,
    tasks_done: Vec<String>,
    eligibility: Option<String>,
    tasks_finished: bool,
}

impl StoredState {
    fn parse_eligibility(&self, word: &str) -> Option<Eligibility> {
        [
            Eligibility::Eligible,
            Eligibility::Absent,
            Eligibility::TasksUnfinished,
            Eligibility::AbsentAndTasksUnfinished,
            Eligibility::Forfeited {
                is_finished: self.tasks_finished,
            },
        ]
        .into_iter()
        .find(|eligibility| eligibility.as_str() == word)
    }
}

impl Eligibility {
    const fn is_finished(self) -> bool {
        match self {
            Self::Eligible | Self::Absent => true,
            Self::TasksUnfinished | Self::AbsentAndTasksUnfinished => false,
            Self::Forfeited { is_finished } => is_finished,
        }
    }
}

impl Verdict {
    /// The word under which metrics count it: the reason of a rejection, else the status.
    pub(super) const fn outcome(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Rejected(RejectReason::Blocked) => "blocked",
            Self::Rejected(RejectReason::Cooldown) => "cooldown",
            Self::Rejected(RejectReason::DuplicateDevice) => "duplicateDevice",
            Self::Rejected(RejectReason::Invalid) => "invalid",
            Self::Late(LateReason::Closed | LateReason::Cancelled) => "late",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_keeps_reads_back() {
        let eligibilities = [
            None,
            Some(Eligibility::Eligible),
            Some(Eligibility::Absent),
            Some(Eligibility::TasksUnfinished),
            Some(Eligibility::AbsentAndTasksUnfinished),
            Some(Eligibility::Forfeited { is_finished: true }),
            Some(Eligibility::Forfeited { is_finished: false }),
        ];
        for eligibility in eligibilities {
            for verdict in [
                Verdict::Joined,
                Verdict::Rejected(RejectReason::DuplicateDevice),
                Verdict::Late(LateReason::Cancelled),
            ] {
                let state = ParticipantState {
                    verdict,
                    joined_at: Timestamp::UNIX_EPOCH,
                    tasks_done: vec!["follow".to_owned()],
                    eligibility,
                    revision: 3,
                };
                assert_eq!(ParticipantState::parse(&state.to_json()), Some(state));
            }
        }
        assert_eq!(ParticipantState::parse("null"), None);
        assert_eq!(ParticipantState::parse(r#"{"status":"gone"}"#), None);
    }
}
