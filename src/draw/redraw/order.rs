//! What an operator may ask for, and what that means for the wins as they are.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    activity::check,
    http::{FieldErrors, openapi::AnyId},
    kernel::WinRecordId,
    winners::{WinRecord, WinStatus},
};

/// Most wins that one order takes back.
const MOST_IDS: usize = 1_000;

/// Most faults of one kind that are named.
pub(super) const MOST_NAMED: usize = 20;

/// The body of a call; both fields are required.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RedrawOrder)]
pub(super) struct OrderBody {
    #[schema(value_type = Vec<AnyId>, required, min_items = 1, max_items = 1000)]
    pub(super) win_record_ids: Option<Vec<WinRecordId>>,
    #[schema(value_type = String, required, min_length = 1, max_length = 255)]
    pub(super) reason: Option<String>,
}

/// Which wins are to be taken back, each named once, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RedrawOrder {
    pub(super) ids: Vec<WinRecordId>,
    pub(super) reason: String,
}

impl RedrawOrder {
    pub(super) fn checked(body: OrderBody) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::new();
        if body.reason.is_none() {
            errors.add_missing("reason");
        }
        let reason = check::reason(body.reason, &mut errors);
        let ids = checked_ids(body.win_record_ids, &mut errors);
        match (ids, reason) {
            (Some(ids), Some(reason)) if errors.is_empty() => Ok(Self { ids, reason }),
            (Some(_) | None, Some(_) | None) => Err(errors),
        }
    }
}

fn checked_ids(
    ids: Option<Vec<WinRecordId>>,
    errors: &mut FieldErrors,
) -> Option<Vec<WinRecordId>> {
    let Some(ids) = ids else {
        errors.add_missing("winRecordIds");
        return None;
    };
    if !(1..=MOST_IDS).contains(&ids.len()) {
        let message = format!("this holds 1 to {MOST_IDS} ids");
        errors.add("winRecordIds", message);
    }
    let mut seen = HashSet::new();
    let repeated = (0..).zip(&ids).filter(|(_, id)| !seen.insert(**id));
    for (index, _) in repeated.take(MOST_NAMED) {
        errors.add(name_of(index), "this id is given twice");
    }
    Some(ids)
}

/// What the field is called that holds the id at `index`.
pub(super) fn name_of(index: usize) -> String {
    format!("winRecordIds[{index}]")
}

/// What is left to do of an order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Exactly this was done, in this round.
    Done { round: u32 },
    /// These have to be revoked, by seat.
    Revoke(Vec<WinRecord>),
}

/// Why nothing of an order is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The ids at these places belong to no win of the activity.
    Unknown(Vec<usize>),
    AlreadyRevoked(Vec<WinRecordId>),
    Delivered(Vec<WinRecordId>),
}

/// Holds an order against all wins of its activity; `delivered` are those that cannot be undone.
pub(super) fn judge(
    ids: &[WinRecordId],
    wins: &[WinRecord],
    delivered: &HashSet<WinRecordId>,
) -> Result<Verdict, Refusal> {
    let by_id: HashMap<WinRecordId, &WinRecord> = wins.iter().map(|win| (win.id, win)).collect();
    let unknown = (0..).zip(ids).filter(|(_, id)| !by_id.contains_key(id));
    let unknown: Vec<usize> = unknown.map(|(index, _)| index).collect();
    if !unknown.is_empty() {
        return Err(Refusal::Unknown(unknown));
    }
    let mut asked: Vec<&WinRecord> = ids.iter().map(|id| by_id[id]).collect();
    asked.sort_by_key(|win| win.seat);
    if let Some(round) = round_of_order(&asked, wins) {
        return Ok(Verdict::Done { round });
    }
    let ids_of = |is_meant: &dyn Fn(&WinRecord) -> bool| -> Vec<WinRecordId> {
        let meant = asked.iter().filter(|win| is_meant(win));
        meant.map(|win| win.id).collect()
    };
    let revoked = ids_of(&|win| win.status == WinStatus::Revoked);
    if !revoked.is_empty() {
        return Err(Refusal::AlreadyRevoked(revoked));
    }
    let delivered = ids_of(&|win| delivered.contains(&win.id));
    if !delivered.is_empty() {
        return Err(Refusal::Delivered(delivered));
    }
    Ok(Verdict::Revoke(asked.into_iter().cloned().collect()))
}

/// The round in which exactly these wins were revoked.
fn round_of_order(asked: &[&WinRecord], wins: &[WinRecord]) -> Option<u32> {
    let round = asked.first()?.revoked_round?;
    let are_all_of_it = asked.iter().all(|win| win.revoked_round == Some(round));
    let of_round = wins.iter().filter(|win| win.revoked_round == Some(round));
    (are_all_of_it && of_round.count() == asked.len()).then_some(round)
}

#[cfg(test)]
mod tests {
    use super::{super::outcome::tests::win, *};

    fn ids(numbers: &[u64]) -> Vec<WinRecordId> {
        numbers.iter().copied().map(WinRecordId).collect()
    }

    fn revoked(id: u64, seat: u32, round: u32) -> WinRecord {
        WinRecord {
            status: WinStatus::Revoked,
            revoked_round: Some(round),
            ..win(id, seat, 1)
        }
    }

    /// Seat 1 holds; 2 and 3 went in round 2, 4 in round 3.
    fn wins() -> Vec<WinRecord> {
        vec![
            win(1, 1, 1),
            revoked(2, 2, 2),
            win(12, 2, 2),
            revoked(3, 3, 2),
            revoked(4, 4, 3),
            win(5, 5, 1),
        ]
    }

    fn judged(numbers: &[u64]) -> Result<Verdict, Refusal> {
        judge(&ids(numbers), &wins(), &HashSet::from([WinRecordId(5)]))
    }

    #[test]
    fn wins_that_hold_are_revoked_by_seat() {
        assert_eq!(
            judged(&[12, 1]),
            Ok(Verdict::Revoke(vec![win(1, 1, 1), win(12, 2, 2)]))
        );
    }

    #[test]
    fn exactly_the_wins_of_one_round_are_a_repeat_in_any_order() {
        assert_eq!(judged(&[3, 2]), Ok(Verdict::Done { round: 2 }));
        assert_eq!(judged(&[4]), Ok(Verdict::Done { round: 3 }));
    }

    #[test]
    fn an_order_that_was_done_in_part_is_refused() {
        for (asked, named) in [
            (&[2][..], &[2][..]),
            (&[2, 4], &[2, 4]),
            (&[2, 3, 4], &[2, 3, 4]),
            (&[1, 3, 2], &[2, 3]),
        ] {
            assert_eq!(
                judged(asked),
                Err(Refusal::AlreadyRevoked(ids(named))),
                "{asked:?}"
            );
        }
    }

    #[test]
    fn what_is_delivered_or_unknown_is_refused_and_named() {
        assert_eq!(judged(&[1, 5]), Err(Refusal::Delivered(ids(&[5]))));
        assert_eq!(judged(&[7, 1, 8]), Err(Refusal::Unknown(vec![0, 2])));
    }

    #[test]
    fn every_fault_of_an_order_is_named() {
        let faults = |numbers: Vec<u64>, reason: &str| {
            let body = OrderBody {
                win_record_ids: Some(numbers.into_iter().map(WinRecordId).collect()),
                reason: Some(reason.to_owned()),
            };
            faults_of(body)
        };

        assert!(faults((1..=1_000).collect(), "left the country").is_empty());
        assert_eq!(
            faults(vec![7, 8, 7, 7], " "),
            ["reason", "winRecordIds[2]", "winRecordIds[3]"]
        );
        assert_eq!(faults(vec![], "x"), ["winRecordIds"]);
        assert_eq!(faults((1..=1_001).collect(), "x"), ["winRecordIds"]);
        assert_eq!(faults(vec![], " "), ["reason", "winRecordIds"]);
        assert_eq!(faults(vec![7; 500], "x").len(), MOST_NAMED);
        assert_eq!(faults_of(OrderBody::default()), ["reason", "winRecordIds"]);
    }

    fn faults_of(body: OrderBody) -> Vec<String> {
        let faults = RedrawOrder::checked(body).err().unwrap_or_default();
        let fields = faults.faults().iter();
        fields.map(|fault| fault.field.clone()).collect()
    }
}
