//! Runs actors in every order of their steps.

use std::collections::{HashMap, HashSet};

use luckybag::candidate::{Change, Rules};

use super::{
    mysql::{Committed, Shot},
    redis::{BYSTANDERS_REVISION, Call, Scripts, Shown},
};

/// One step of an actor. Transactions and what comes of them meet in a slot.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// The transaction over a batch.
    Commit { batch: Vec<Change>, slot: usize },
    /// Reads the rows for a rebuild.
    Scan { slot: usize },
    /// Shows the pool entry. Beside it the summary may be written earlier or later; but the two
    /// touch different keys, so that their order says nothing.
    ShowPool { slot: usize },
    /// Writes the summary.
    ShowState { slot: usize },
    /// Empties the shard of the pool.
    Reset,
    /// The draw shuts the stream out.
    Freeze,
}

/// Steps that follow each other, whatever others do between them.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub(super) ops: Vec<Op>,
    /// Whether the end waits for it; one that may crash or hang at any step is not waited for.
    pub(super) is_reliable: bool,
    /// Begins only after so many steps of the first actor.
    pub(super) begins_after: usize,
}

/// Actors, and what happened before them.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) rules: Rules,
    pub(super) before: Vec<Op>,
    pub(super) actors: Vec<Actor>,
    /// Whether Redis has to have caught up in the end.
    pub(super) is_awaited: bool,
}

/// Slots that a scenario may use.
pub(super) const SLOTS: usize = 6;

/// A moment: how far everybody is, and what is where. Numbers stand for the values in `Values`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Moment {
    places: [u8; 4],
    committed: u16,
    slots: [u16; SLOTS],
    shown: u16,
}

/// Each different value once, so that moments are small.
#[derive(Default)]
struct Values {
    committed: Vec<Committed>,
    shots: Vec<Option<Shot>>,
    shown: Vec<Shown>,
}

fn number_of<T: PartialEq>(values: &mut Vec<T>, value: T) -> u16 {
    let place = values.iter().position(|known| *known == value);
    let place = place.unwrap_or_else(|| {
        values.push(value);
        values.len() - 1
    });
    u16::try_from(place).expect("few values")
}

/// Explores a scenario: every moment that some order of steps leads to.
pub(super) struct Exploration<'a, 'w> {
    scenario: &'a Scenario,
    scripts: &'a mut Scripts<'w>,
    values: Values,
    /// What steps that were taken once made of what they read.
    known: HashMap<(*const Op, u16, u16), (u16, u16)>,
}

impl<'a, 'w> Exploration<'a, 'w> {
    pub(super) fn of(scenario: &'a Scenario, scripts: &'a mut Scripts<'w>) -> Self {
        Self {
            scenario,
            scripts,
            values: Values::default(),
            known: HashMap::new(),
        }
    }

    /// Visits every moment; each must be sound, and the ends right. Answers how many there were.
    pub(super) async fn run(mut self, check_end: impl Fn(&Committed, &Shown)) -> usize {
        let mut first = Moment {
            places: [0; 4],
            committed: number_of(&mut self.values.committed, Committed::default()),
            slots: [number_of(&mut self.values.shots, None); SLOTS],
            shown: number_of(&mut self.values.shown, Shown::default()),
        };
        let scenario = self.scenario;
        for op in &scenario.before {
            first = self.take(first, op).await;
        }
        let mut seen = HashSet::from([first]);
        let mut waiting = vec![first];
        // What is asserted depends on nothing but what MySQL and Redis hold.
        let (mut sound, mut ends) = (HashSet::new(), HashSet::new());
        while let Some(moment) = waiting.pop() {
            let pair = (moment.committed, moment.shown);
            if sound.insert(pair) {
                self.assert_sound(moment);
            }
            if scenario.is_awaited && self.is_over(moment) && ends.insert(pair) {
                self.assert_up_to_date(moment);
                let committed = &self.values.committed[usize::from(moment.committed)];
                check_end(committed, self.look(moment).1);
            }
            for (number, actor) in scenario.actors.iter().enumerate() {
                let place = usize::from(moment.places[number]);
                let has_begun = usize::from(moment.places[0]) >= actor.begins_after;
                let Some(op) = actor.ops.get(place).filter(|_| has_begun) else {
                    continue;
                };
                let mut next = self.take(moment, op).await;
                next.places[number] += 1;
                if seen.insert(next) {
                    waiting.push(next);
                }
            }
        }
        seen.len()
    }

    /// The moment after a step, which depends on nothing but what the step reads.
    async fn take(&mut self, moment: Moment, op: &Op) -> Moment {
        let mut next = moment;
        match op {
            Op::Commit { slot, .. } | Op::Scan { slot } => {
                (next.committed, next.slots[*slot]) = self.transact(moment.committed, op);
            }
            Op::Freeze => (next.committed, _) = self.transact(moment.committed, op),
            Op::ShowPool { slot } | Op::ShowState { slot } => {
                next.shown = self.show(moment.shown, op, moment.slots[*slot]).await;
            }
            Op::Reset => next.shown = self.show(moment.shown, op, 0).await,
        }
        next
    }

    /// What MySQL holds after a step, and what came of it.
    fn transact(&mut self, committed: u16, op: &Op) -> (u16, u16) {
        let question = (std::ptr::from_ref(op), committed, 0);
        if let Some(known) = self.known.get(&question) {
            return *known;
        }
        let rules = &self.scenario.rules;
        let before = self.values.committed[usize::from(committed)].clone();
        let (after, shot) = match op {
            Op::Commit { batch, .. } => before.commit(rules, batch),
            Op::Freeze => {
                let is_frozen = true;
                (
                    Committed {
                        is_frozen,
                        ..before
                    },
                    None,
                )
            }
            Op::Scan { .. } | Op::ShowPool { .. } | Op::ShowState { .. } | Op::Reset => {
                let shot = before.look(rules);
                (before, shot)
            }
        };
        let after = number_of(&mut self.values.committed, after);
        let answer = (after, number_of(&mut self.values.shots, shot));
        self.known.insert(question, answer);
        answer
    }

    /// What Redis holds after a step.
    async fn show(&mut self, shown: u16, op: &Op, shot: u16) -> u16 {
        let question = (std::ptr::from_ref(op), shown, shot);
        if let Some((known, _)) = self.known.get(&question) {
            return *known;
        }
        let of_slot = self.values.shots[usize::from(shot)].clone();
        let call = match op {
            Op::ShowPool { .. } => of_slot.filter(|shot| shot.score.is_some()).map(Call::Pool),
            Op::ShowState { .. } => of_slot.map(Call::State),
            Op::Reset => Some(Call::Reset),
            Op::Commit { .. } | Op::Scan { .. } | Op::Freeze => None,
        };
        let mut after = shown;
        if let Some(call) = call {
            let before = &self.values.shown[usize::from(shown)];
            let made = self.scripts.after(before, &call).await;
            after = number_of(&mut self.values.shown, made);
        }
        self.known.insert(question, (after, 0));
        after
    }

    fn is_over(&self, moment: Moment) -> bool {
        let actors = self.scenario.actors.iter().zip(moment.places);
        actors
            .filter(|(actor, _)| actor.is_reliable)
            .all(|(actor, place)| actor.ops.len() == usize::from(place))
    }

    fn look(&self, moment: Moment) -> (Option<Shot>, &Shown) {
        let committed = &self.values.committed[usize::from(moment.committed)];
        let truth = committed.look(&self.scenario.rules);
        (truth, &self.values.shown[usize::from(moment.shown)])
    }

    /// Redis is never ahead, and where it is level with MySQL it says the same.
    fn assert_sound(&self, moment: Moment) {
        let (truth, shown) = self.look(moment);
        let committed_revision = truth.as_ref().map(|truth| truth.revision);
        assert!(
            shown.revision <= committed_revision,
            "ahead: {}",
            self.tell(moment)
        );
        let level = truth.filter(|truth| shown.revision == Some(truth.revision));
        if let Some(truth) = level {
            assert_eq!(shown.score, truth.score, "stale: {}", self.tell(moment));
        }
        let sum = shown
            .revision
            .map(|revision| revision + BYSTANDERS_REVISION);
        assert_eq!(shown.sum, sum, "the sum: {}", self.tell(moment));
    }

    /// Everything that was owed has been done: Redis says what the rows say.
    fn assert_up_to_date(&self, moment: Moment) {
        let (truth, shown) = self.look(moment);
        let pooled = truth.as_ref().filter(|truth| truth.score.is_some());
        let score = pooled.and_then(|truth| truth.score.clone());
        assert_eq!(shown.score, score, "the pool: {}", self.tell(moment));
        let revision = pooled.map(|truth| truth.revision);
        assert_eq!(
            shown.revision,
            revision,
            "the revision: {}",
            self.tell(moment)
        );
        let summary = truth.map(|truth| truth.summary);
        assert_eq!(shown.summary, summary, "the summary: {}", self.tell(moment));
    }

    fn tell(&self, moment: Moment) -> String {
        let (truth, shown) = self.look(moment);
        format!(
            "{shown:#?}\nMySQL: {truth:#?}\nplaces {:?} in {:#?}",
            moment.places, self.scenario
        )
    }
}
