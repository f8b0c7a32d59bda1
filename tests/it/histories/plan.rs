//! Random activities and what their users do, from a seed. Times are relative to drawAt, which is 0.

use std::collections::BTreeSet;

use luckybag::{candidate::partition_of, kernel::UserId};
use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};

use super::model::{Deed, Flaw, Join, Leaving, Millis};

/// Partitions of the stream in every test.
pub(super) const PARTITIONS: u16 = 2;

pub(super) const TASKS: [&str; 3] = ["follow", "share", "comment"];

/// One activity with its users.
#[derive(Clone, Debug)]
pub(super) struct BagPlan {
    pub(super) room: u64,
    pub(super) winners: u32,
    pub(super) leaving: Leaving,
    pub(super) task_count: usize,
    pub(super) one_entry_per_device: bool,
    pub(super) is_mixed: bool,
    pub(super) cooldown_secs: i64,
    /// After how many participants, and below which score.
    pub(super) trim: Option<(u64, f64)>,
    pub(super) users: Vec<UserPlan>,
    /// Somebody who is only told about after the draw.
    pub(super) latecomer: Option<u64>,
}

/// What a user does in one activity.
#[derive(Clone, Debug)]
pub(super) struct UserPlan {
    pub(super) user: u64,
    pub(super) deeds: Vec<Deed>,
    pub(super) http: Option<HttpJoins>,
    pub(super) denial: Option<Denial>,
    pub(super) win: Option<Win>,
}

/// Joins through the API, in this order: device and finished tasks of each.
#[derive(Clone, Debug)]
pub(super) struct HttpJoins {
    pub(super) when: When,
    pub(super) bodies: Vec<(Option<String>, Vec<String>)>,
}

/// When a user joins through the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Settled before anybody is denied and before anything else is in the stream.
    BeforeAll,
    /// While the stream is being filled.
    Meanwhile,
}

/// A deny entry, made before the stream is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    Everywhere,
    Here,
    Elsewhere,
}

/// An earlier win in another activity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Win {
    pub(super) at: Millis,
    pub(super) is_revoked: bool,
}

/// Makes the plans of one wave.
pub(super) struct Planner<'a> {
    pub(super) rng: &'a mut StdRng,
    /// Everybody there is; a user may take part in several activities.
    pub(super) population: &'a [u64],
}

/// Ids as their generators make them: small, with low bits that never vary, and large.
pub(super) fn population(count: u64) -> Vec<u64> {
    let largest = luckybag::kernel::MAX_ID;
    (1..=count)
        .map(|number| match number % 4 {
            0 => number << 22,
            1 => largest - number,
            _ => 1_000 + number,
        })
        .collect()
}

fn chance(rng: &mut StdRng, percent: u32) -> bool {
    rng.random_range(0..100) < percent
}

impl Planner<'_> {
    /// Activities in rooms of their own, each with several users.
    pub(super) fn bags(&mut self, count: u64) -> Vec<BagPlan> {
        (1..=count).map(|room| self.bag(room)).collect()
    }

    fn bag(&mut self, room: u64) -> BagPlan {
        let rng = &mut *self.rng;
        let mut bag = BagPlan {
            room,
            winners: rng.random_range(1..=4),
            leaving: *Leaving::ALL.choose(rng).expect("three"),
            task_count: [0, 0, 1, 2, 3][rng.random_range(0..5)],
            one_entry_per_device: chance(rng, 35),
            is_mixed: chance(rng, 50),
            cooldown_secs: [0, 2, 3_600][rng.random_range(0..3)],
            trim: chance(rng, 20).then(|| (rng.random_range(0..4), rng.random_range(0.2..0.9))),
            users: vec![],
            latecomer: None,
        };
        let count = rng.random_range(6..=12);
        let mut users: Vec<u64> = self.population.sample(rng, count).copied().collect();
        bag.latecomer = chance(rng, 50).then(|| users.pop()).flatten();
        bag.users = users.iter().map(|user| self.user(&bag, *user)).collect();
        if bag.one_entry_per_device && chance(self.rng, 30) {
            contest_a_device(&mut bag.users);
        }
        bag
    }

    fn user(&mut self, bag: &BagPlan, user: u64) -> UserPlan {
        let accepted_at = self.accepted_at();
        let rng = &mut *self.rng;
        let http = chance(rng, 12).then(|| self.http_joins(bag, user));
        let mut deeds = if http.is_some() {
            vec![]
        } else {
            self.joins(bag, user, accepted_at)
        };
        deeds.extend(self.moves(accepted_at));
        deeds.extend(self.tasks(bag, accepted_at));
        let rng = &mut *self.rng;
        let denials = [Denial::Everywhere, Denial::Here, Denial::Elsewhere];
        let denial = chance(rng, 8).then(|| denials[rng.random_range(0..3)]);
        let win = chance(rng, 10).then(|| self.win(bag, accepted_at));
        UserPlan {
            user,
            deeds,
            http,
            denial,
            win,
        }
    }

    /// Mostly well before the draw, sometimes in its last milliseconds, at it or after it.
    fn accepted_at(&mut self) -> Millis {
        match self.rng.random_range(0..20) {
            0 => -1,
            1 => 0,
            2 => self.rng.random_range(0..500),
            3 => self.rng.random_range(-400..0),
            _ => self.rng.random_range(-4_000..-600),
        }
    }

    fn joins(&mut self, bag: &BagPlan, user: u64, accepted_at: Millis) -> Vec<Deed> {
        let rng = &mut *self.rng;
        let count = match rng.random_range(0..20) {
            0 => 0,
            1..=3 => 2,
            4 => 3,
            _ => 1,
        };
        (0..count)
            .map(|number| {
                let later = self.rng.random_range(0..3) * i64::from(number);
                let flaws = [Flaw::NoTime, Flaw::LongDevice, Flaw::TasksAreNoList];
                Deed::Join(Join {
                    accepted_at: accepted_at + later,
                    device: self.device(bag, user, number),
                    finished: self.finished(bag),
                    flaw: chance(self.rng, 3).then(|| flaws[self.rng.random_range(0..3)]),
                })
            })
            .collect()
    }

    fn http_joins(&mut self, bag: &BagPlan, user: u64) -> HttpJoins {
        let count = 1 + u32::from(chance(self.rng, 30));
        let body = |number| {
            // The API refuses a join without a device where one is asked for.
            let device = Some(format!("phone {user} {number}"));
            (device, self.finished(bag))
        };
        let bodies = (0..count).map(body).collect();
        let is_first = chance(self.rng, 50);
        HttpJoins {
            when: if is_first {
                When::BeforeAll
            } else {
                When::Meanwhile
            },
            bodies,
        }
    }

    /// Often one that others of the same partition use, too: there it is known who comes first.
    fn device(&mut self, bag: &BagPlan, user: u64, number: u32) -> Option<String> {
        let partition = partition_of(UserId(user), PARTITIONS);
        let rng = &mut *self.rng;
        match rng.random_range(0..20) {
            0 => None,
            1..=5 if bag.one_entry_per_device => {
                Some(format!("shared {partition} {}", rng.random_range(0..2)))
            }
            _ => Some(format!("phone {user} {number}")),
        }
    }

    /// What the app says has been finished.
    fn finished(&mut self, bag: &BagPlan) -> Vec<String> {
        let mut finished = BTreeSet::new();
        for task in &TASKS[..bag.task_count] {
            if chance(self.rng, 15) {
                finished.insert((*task).to_owned());
            }
        }
        finished.into_iter().collect()
    }

    /// At, right before or right after the time that the user left before.
    fn win(&mut self, bag: &BagPlan, accepted_at: Millis) -> Win {
        let cooldown = bag.cooldown_secs * 1_000;
        let offset = match self.rng.random_range(0..6) {
            0 => -cooldown - 1,
            1 => -cooldown,
            2 => -cooldown + 1,
            3 => 0,
            4 => 1,
            _ => -cooldown / 2,
        };
        Win {
            at: accepted_at + offset,
            is_revoked: chance(self.rng, 25),
        }
    }

    /// Leaving and returning, in one of the ways that go wrong easily.
    fn moves(&mut self, joined_at: Millis) -> Vec<Deed> {
        let enter = |at| Deed::Enter { at };
        let leave = |at| Deed::Leave { at };
        let gap = self.gap();
        let rng = &mut *self.rng;
        let left_at = joined_at.min(-2) + rng.random_range(0..600);
        let mut moves = match rng.random_range(0..9) {
            0 => vec![],
            1 => vec![leave(left_at)],
            2 => vec![leave(left_at), enter(left_at + gap)],
            // Away and back and away again, in one millisecond or in a few.
            3 => {
                let back_at = left_at + gap;
                let gone_at = back_at + self.gap();
                vec![leave(left_at), enter(back_at), leave(gone_at)]
            }
            // Back at the last moment.
            4 => vec![
                leave(rng.random_range(-1_500..-400)),
                enter(rng.random_range(-400..0)),
            ],
            // Around the draw itself.
            5 => vec![
                leave(rng.random_range(-2..=2)),
                enter(rng.random_range(-2..=2)),
            ],
            // Before the join, or in its millisecond.
            6 => vec![leave(joined_at - gap), enter(joined_at - gap - 1)],
            // A new connection, and then the old one is noticed to be gone.
            7 => vec![
                leave(left_at),
                enter(left_at + 50),
                leave(left_at + 50 + gap),
            ],
            _ => vec![leave(joined_at)],
        };
        if chance(self.rng, 30) {
            moves.extend(self.noise(joined_at));
        }
        moves
    }

    /// Often none or next to none.
    fn gap(&mut self) -> Millis {
        match self.rng.random_range(0..5) {
            0 | 1 => 0,
            2 => 1,
            _ => self.rng.random_range(2..400),
        }
    }

    fn noise(&mut self, joined_at: Millis) -> Vec<Deed> {
        let near = [joined_at, joined_at + 1, -400, -1, 0, 1];
        let count = self.rng.random_range(1..=5);
        (0..count)
            .map(|_| {
                let at = if chance(self.rng, 50) {
                    *near.choose(self.rng).expect("six")
                } else {
                    self.rng.random_range(-8_000..800)
                };
                if chance(self.rng, 50) {
                    Deed::Enter { at }
                } else {
                    Deed::Leave { at }
                }
            })
            .collect()
    }

    /// Each task at some time: before the join, while away, at the draw, never.
    fn tasks(&mut self, bag: &BagPlan, joined_at: Millis) -> Vec<Deed> {
        let mut deeds = Vec::new();
        for name in &TASKS[..bag.task_count] {
            let rng = &mut *self.rng;
            let at = match rng.random_range(0..12) {
                0 => continue,
                1 => joined_at - rng.random_range(0..2_000),
                2 => -1,
                3 => rng.random_range(0..2),
                _ => joined_at.min(-2) + rng.random_range(0..900),
            };
            let name = (*name).to_owned();
            deeds.push(Deed::Task { name, at });
        }
        if chance(self.rng, 5) {
            let name = "no task of ours".to_owned();
            deeds.push(Deed::Task { name, at: -3 });
        }
        deeds
    }
}

/// Lets two users of different partitions join from one device: nobody can say who comes first.
fn contest_a_device(users: &mut [UserPlan]) {
    for partition in 0..PARTITIONS {
        let joins = users
            .iter_mut()
            .filter(|user| partition_of(UserId(user.user), PARTITIONS) == partition)
            .find_map(|user| {
                let is_join = |deed: &&mut Deed| matches!(deed, Deed::Join(_));
                user.deeds.iter_mut().find(is_join)
            });
        if let Some(Deed::Join(join)) = joins {
            join.device = Some(CONTESTED.to_owned());
        }
    }
}

/// The device of [`contest_a_device`].
pub(super) const CONTESTED: &str = "contested";

impl UserPlan {
    pub(super) fn contests_a_device(&self) -> bool {
        let is_contested = |deed: &Deed| matches!(deed, Deed::Join(join) if join.device.as_deref() == Some(CONTESTED));
        self.deeds.iter().any(is_contested)
    }
}
