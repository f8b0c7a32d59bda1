//! What a history holds, found in the order in which its partition handled it: a test counts these
//! to show that it had each kind.

use std::collections::BTreeSet;

use super::model::{Deed, Millis};

const EARLY_LEAVE: &str = "a leave before its join was handled";
const EARLY_EVENT: &str = "an event of a time before the join, handled before it";
const LEAVE_AT_JOIN: &str = "a leave in the millisecond of the join";
const RETURN_BEFORE_LEAVE: &str = "a return handled before its leave";
const AT_ONCE: &str = "a leave and a return in one millisecond";
const BACK_AND_FORTH_AT_ONCE: &str = "a leave, a return and a leave in one millisecond";
const LEAVE_AFTER_RETURN: &str = "a leave after a return";
const OLD_LEAVE: &str = "an old leave handled after a newer return";
const TASK_WHILE_ABSENT: &str = "a task finished while absent";
const LAST_MOMENT: &str = "a return in the last 400 ms";
const LAST_MILLISECOND: &str = "an event one millisecond before the draw";
const AT_THE_DRAW: &str = "an event in the millisecond of the draw";
const AFTER_THE_DRAW: &str = "an event after the draw";
const JOIN_IN_LAST_MILLISECOND: &str = "a join one millisecond before the draw";
const JOIN_AT_THE_DRAW: &str = "a join in the millisecond of the draw";
const OTHER_DEVICE: &str = "a second join from another device";
const REPEATED: &str = "something said twice";
const NO_JOIN: &str = "events without a join";

/// Every kind of history that a wave must hold.
pub(super) const KINDS: [&str; 18] = [
    EARLY_LEAVE,
    EARLY_EVENT,
    LEAVE_AT_JOIN,
    RETURN_BEFORE_LEAVE,
    AT_ONCE,
    BACK_AND_FORTH_AT_ONCE,
    LEAVE_AFTER_RETURN,
    OLD_LEAVE,
    TASK_WHILE_ABSENT,
    LAST_MOMENT,
    LAST_MILLISECOND,
    AT_THE_DRAW,
    AFTER_THE_DRAW,
    JOIN_IN_LAST_MILLISECOND,
    JOIN_AT_THE_DRAW,
    OTHER_DEVICE,
    REPEATED,
    NO_JOIN,
];

/// One deed of a user, a join taken apart.
#[derive(Clone, Copy)]
enum Kind {
    Join,
    Enter,
    Leave,
    Task,
}

struct Told<'a> {
    deeds: &'a [&'a Deed],
    joined_at: Option<Millis>,
    join_place: usize,
}

fn time_and_kind(deed: &Deed) -> (Millis, Kind) {
    match deed {
        Deed::Join(join) => (join.accepted_at, Kind::Join),
        Deed::Enter { at } => (*at, Kind::Enter),
        Deed::Leave { at } => (*at, Kind::Leave),
        Deed::Task { at, .. } => (*at, Kind::Task),
    }
}

/// The kinds that one user's deeds show; times are relative to the draw.
pub(super) fn kinds_of(deeds: &[&Deed]) -> BTreeSet<&'static str> {
    let first_join = deeds
        .iter()
        .enumerate()
        .find_map(|(place, deed)| match deed {
            Deed::Join(join) => Some((place, join.accepted_at)),
            Deed::Enter { .. } | Deed::Leave { .. } | Deed::Task { .. } => None,
        });
    let told = Told {
        deeds,
        joined_at: first_join.map(|(_, at)| at),
        join_place: first_join.map_or(deeds.len(), |(place, _)| place),
    };
    let found = [
        told.around_the_join(),
        told.moves(),
        told.around_the_draw(),
        told.repetitions(),
    ];
    found.into_iter().flatten().collect()
}

impl Told<'_> {
    /// Times of a kind before the draw, with their places.
    fn times(&self, wanted: Kind) -> Vec<(usize, Millis)> {
        let is_wanted = |kind: Kind| kind as u8 == wanted as u8;
        let all = self.deeds.iter().enumerate();
        all.map(|(place, deed)| (place, time_and_kind(deed)))
            .filter(|(_, (at, kind))| *at < 0 && is_wanted(*kind))
            .map(|(place, (at, _))| (place, at))
            .collect()
    }

    fn around_the_join(&self) -> Vec<&'static str> {
        let Some(joined_at) = self.joined_at else {
            return vec![NO_JOIN];
        };
        let mut found = Vec::new();
        for (place, at) in self.times(Kind::Leave) {
            if place < self.join_place && at >= joined_at {
                found.push(EARLY_LEAVE);
            }
            if at == joined_at {
                found.push(LEAVE_AT_JOIN);
            }
        }
        let early = self.deeds[..self.join_place].iter();
        if early
            .map(|deed| time_and_kind(deed).0)
            .any(|at| at < joined_at)
        {
            found.push(EARLY_EVENT);
        }
        found.extend((joined_at == -1).then_some(JOIN_IN_LAST_MILLISECOND));
        found.extend((joined_at == 0).then_some(JOIN_AT_THE_DRAW));
        found
    }

    fn moves(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        let Some(joined_at) = self.joined_at else {
            return found;
        };
        let since = |kind| {
            let mut times = self.times(kind);
            times.retain(|(_, at)| *at >= joined_at);
            times
        };
        let (enters, leaves) = (since(Kind::Enter), since(Kind::Leave));
        for (enter_place, entered_at) in &enters {
            for (leave_place, left_at) in &leaves {
                let is_return = left_at < entered_at;
                found.extend(
                    (is_return && enter_place < leave_place).then_some(RETURN_BEFORE_LEAVE),
                );
                found.extend((is_return && leave_place > enter_place).then_some(OLD_LEAVE));
                found.extend((is_return && *entered_at >= -400).then_some(LAST_MOMENT));
                found.extend((left_at == entered_at).then_some(AT_ONCE));
                let gone_again = |second: &(usize, Millis)| {
                    second.0 != *leave_place && second.1 > *entered_at && is_return
                };
                found.extend(leaves.iter().any(gone_again).then_some(LEAVE_AFTER_RETURN));
            }
            let at_once = leaves.iter().filter(|(_, left_at)| left_at == entered_at);
            found.extend((at_once.count() > 1).then_some(BACK_AND_FORTH_AT_ONCE));
        }
        for (_, done_at) in self.times(Kind::Task) {
            let last = |times: &[(usize, Millis)]| {
                let before = times.iter().map(|(_, at)| *at).filter(|at| *at <= done_at);
                before.max()
            };
            let is_away = last(&leaves).is_some_and(|left_at| Some(left_at) >= last(&enters));
            found.extend(is_away.then_some(TASK_WHILE_ABSENT));
        }
        found
    }

    fn around_the_draw(&self) -> Vec<&'static str> {
        let events = self
            .deeds
            .iter()
            .filter_map(|deed| match time_and_kind(deed) {
                (_, Kind::Join) => None,
                (at, Kind::Enter | Kind::Leave | Kind::Task) => Some(at),
            });
        events
            .filter_map(|at| match at {
                -1 => Some(LAST_MILLISECOND),
                0 => Some(AT_THE_DRAW),
                1.. => Some(AFTER_THE_DRAW),
                _ => None,
            })
            .collect()
    }

    fn repetitions(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        for (place, one) in self.deeds.iter().enumerate() {
            for other in &self.deeds[..place] {
                found.extend((one == other).then_some(REPEATED));
                if let (Deed::Join(one), Deed::Join(other)) = (one, other) {
                    found.extend((one.device != other.device).then_some(OTHER_DEVICE));
                }
            }
        }
        found
    }
}
