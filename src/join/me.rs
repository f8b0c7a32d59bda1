//! What a viewer may see of its own participation.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    activity::{ActivityDetail, PresenceRule, Status},
    candidate::{Eligibility, ParticipantState, Verdict},
    http::openapi::Moment,
    kernel::{Timestamp, to_millis},
};

/// How far a viewer's join has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Participation)]
pub enum ParticipationView {
    /// There is none.
    None,
    /// Accepted, without a verdict so far.
    Processing,
    Joined,
    Rejected,
    Late,
}

/// One viewer's participation in one activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Me {
    pub participation: ParticipationView,
    /// Why it is rejected or late.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<String>, pattern = "^(blocked|cooldown|duplicateDevice|invalid|closed|cancelled)$")]
    pub reason: Option<&'static str>,
    #[serde(with = "to_millis::option", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<Moment>)]
    pub joined_at: Option<Timestamp>,
    /// Whether the viewer can win as things stand; only for whoever has joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<String>, pattern = "^(eligible|absent|tasksUnfinished|absentAndTasksUnfinished|forfeited)$")]
    pub eligibility: Option<&'static str>,
    /// Only for whoever is away: whether returning before drawAt restores the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub restorable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tasks_done: Option<Vec<String>>,
    /// The activity's tasks that the viewer has not finished, in the activity's order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tasks_left: Option<Vec<String>>,
}

impl Me {
    /// Nothing but how far the join has come.
    pub(super) fn without_verdict(participation: ParticipationView) -> Self {
        Self {
            participation,
            reason: None,
            joined_at: None,
            eligibility: None,
            restorable: None,
            tasks_done: None,
            tasks_left: None,
        }
    }

    /// What the verdict and the viewer's doings since then come to.
    pub(super) fn of_state(
        state: ParticipantState,
        detail: &ActivityDetail,
        now: Option<Timestamp>,
    ) -> Self {
        let (_, reason) = state.verdict.as_words();
        let me = Self::without_verdict(match state.verdict {
            Verdict::Joined => ParticipationView::Joined,
            Verdict::Rejected(_) => ParticipationView::Rejected,
            Verdict::Late(_) => ParticipationView::Late,
        });
        if state.verdict != Verdict::Joined {
            return Self { reason, ..me };
        }
        Self {
            joined_at: Some(state.joined_at),
            eligibility: state.eligibility.map(Eligibility::as_str),
            restorable: state
                .eligibility
                .and_then(|eligibility| is_restorable(eligibility, detail, now)),
            tasks_left: Some(tasks_left(&state.tasks_done, detail)),
            tasks_done: Some(state.tasks_done),
            ..me
        }
    }
}

fn tasks_left(done: &[String], detail: &ActivityDetail) -> Vec<String> {
    let tasks = detail.tasks.iter().map(|task| &task.task_id);
    tasks.filter(|task| !done.contains(task)).cloned().collect()
}

/// Whether returning restores the entry; `None` for whoever is not away.
fn is_restorable(
    eligibility: Eligibility,
    detail: &ActivityDetail,
    now: Option<Timestamp>,
) -> Option<bool> {
    let is_before_draw = detail.status == Status::Open
        && detail
            .draw_at
            .is_some_and(|draw_at| now.is_none_or(|now| now < draw_at));
    match eligibility {
        Eligibility::Eligible | Eligibility::TasksUnfinished => None,
        Eligibility::Absent | Eligibility::AbsentAndTasksUnfinished => {
            Some(is_before_draw && detail.presence_rule == PresenceRule::Pause)
        }
        Eligibility::Forfeited { .. } => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::{Value, json};

    use super::*;
    use crate::candidate::{LateReason, RejectReason};

    fn at(ms: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(ms)
    }

    fn detail(presence_rule: &str) -> ActivityDetail {
        let tasks = ["share", "follow", "buy"].map(|id| json!({ "taskId": id, "title": id }));
        serde_json::from_value(json!({
            "id": "1", "status": "open", "roomId": "2", "hostId": "3", "title": "bag",
            "prizes": [], "winnerCount": 1, "presenceRule": presence_rule,
            "tasks": tasks,
            "oneEntryPerDevice": false, "cooldownSeconds": 0, "startAt": null,
            "drawAt": "1970-01-01T00:00:01Z", "drawnAt": null, "commitment": "00",
            "rules": null, "joinedCount": null, "eligibleCount": null, "cutoffScore": null,
            "round": 0, "version": 1, "createdAt": "1970-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    fn me(verdict: Verdict, eligibility: Option<Eligibility>, rule: &str, now: i64) -> Value {
        let state = ParticipantState {
            verdict,
            joined_at: at(5),
            tasks_done: vec!["follow".to_owned()],
            eligibility,
            revision: 1,
        };
        let me = Me::of_state(state, &detail(rule), Some(at(now)));
        serde_json::to_value(me).unwrap()
    }

    #[test]
    fn whoever_has_joined_sees_whether_it_can_win() {
        assert_eq!(
            me(Verdict::Joined, Some(Eligibility::Eligible), "pause", 10),
            json!({
                "participation": "joined", "joinedAt": "1970-01-01T00:00:00.005Z",
                "eligibility": "eligible", "tasksDone": ["follow"],
                "tasksLeft": ["share", "buy"],
            })
        );
    }

    #[test]
    fn returning_restores_the_entry_under_pause_and_before_draw_at_only() {
        let restorable = |eligibility, rule, now| {
            me(Verdict::Joined, Some(eligibility), rule, now)["restorable"].clone()
        };
        let forfeited = Eligibility::Forfeited { is_finished: true };

        assert_eq!(restorable(Eligibility::Absent, "pause", 999), true);
        assert_eq!(restorable(Eligibility::Absent, "pause", 1_000), false);
        assert_eq!(
            restorable(Eligibility::AbsentAndTasksUnfinished, "pause", 999),
            true
        );
        assert_eq!(restorable(forfeited, "forfeit", 999), false);
        assert_eq!(
            restorable(Eligibility::TasksUnfinished, "pause", 999),
            Value::Null
        );
    }

    #[test]
    fn whoever_has_not_joined_sees_why_and_nothing_else() {
        assert_eq!(
            me(Verdict::Rejected(RejectReason::Cooldown), None, "pause", 10),
            json!({"participation": "rejected", "reason": "cooldown"})
        );
        assert_eq!(
            me(Verdict::Late(LateReason::Cancelled), None, "pause", 10),
            json!({"participation": "late", "reason": "cancelled"})
        );
        assert_eq!(
            serde_json::to_value(Me::without_verdict(ParticipationView::None)).unwrap(),
            json!({"participation": "none"})
        );
    }
}
