//! Who may win, told a second time: plain, slow and in memory, from the design alone.
//!
//! It shares no code with the rule that the service runs. Where that one keeps two maxima, this one
//! keeps every move and walks through them; where that one compares doubles, this one compares the
//! integers of the keystream.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};

/// A point in time, in Unix milliseconds.
pub(crate) type Millis = i64;

/// What leaving the room does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leaving {
    ChangesNothing,
    Suspends,
    IsFinal,
}

impl Leaving {
    pub(crate) const ALL: [Self; 3] = [Self::ChangesNothing, Self::Suspends, Self::IsFinal];

    /// The word of the API.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::ChangesNothing => "ignore",
            Self::Suspends => "pause",
            Self::IsFinal => "forfeit",
        }
    }
}

/// What an activity asks of who wants to win.
#[derive(Clone, Debug)]
pub(crate) struct Game {
    pub(crate) draw_at: Millis,
    pub(crate) leaving: Leaving,
    pub(crate) tasks: BTreeSet<String>,
    pub(crate) one_entry_per_device: bool,
    pub(crate) cooldown: Millis,
    /// Whether the app is believed about finished tasks.
    pub(crate) trusts_the_app: bool,
}

/// A join as the stream carries it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Join {
    pub(crate) accepted_at: Millis,
    pub(crate) device: Option<String>,
    pub(crate) finished: Vec<String>,
    pub(crate) flaw: Option<Flaw>,
}

/// What is wrong with a join that says whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    NoTime,
    LongDevice,
    TasksAreNoList,
}

/// Something that a user did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Deed {
    Join(Join),
    Enter { at: Millis },
    Leave { at: Millis },
    Task { name: String, at: Millis },
}

/// What happens to an activity, in the order in which it is handled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Did(u64, Deed),
    /// The user gets onto a deny list that counts here.
    Denied(u64),
    /// The user won elsewhere at this time, and the win was not revoked.
    Won(u64, Millis),
    /// The draw has shut the stream out.
    Frozen,
}

/// How it ended for a user who joined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fate {
    pub(crate) status: &'static str,
    pub(crate) reason: Option<&'static str>,
    /// `None` unless joined.
    pub(crate) eligibility: Option<&'static str>,
}

/// Of two moves in one millisecond the leave counts as the later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Move {
    Enter,
    Leave,
}

#[derive(Debug, Default)]
struct Account {
    verdict: Option<(&'static str, Option<&'static str>)>,
    accepted_at: Millis,
    moves: Vec<(Millis, Move)>,
    finished: BTreeSet<String>,
}

/// What is known while an activity goes on.
#[derive(Default)]
struct Ledger {
    accounts: BTreeMap<u64, Account>,
    denied: BTreeSet<u64>,
    wins: Vec<(u64, Millis)>,
    devices: BTreeMap<String, u64>,
    is_frozen: bool,
}

/// What becomes of everybody who joined.
pub(crate) fn fates(game: &Game, steps: &[Step]) -> BTreeMap<u64, Fate> {
    let mut ledger = Ledger::default();
    for step in steps {
        match step {
            Step::Frozen => ledger.is_frozen = true,
            Step::Denied(user) => {
                ledger.denied.insert(*user);
            }
            Step::Won(user, at) => ledger.wins.push((*user, *at)),
            Step::Did(user, Deed::Join(join)) => ledger.join(game, *user, join),
            Step::Did(user, deed) => ledger.note(game, *user, deed),
        }
    }
    let fate_of = |(user, account): (u64, Account)| Some((user, account.fate(game)?));
    ledger.accounts.into_iter().filter_map(fate_of).collect()
}

impl Ledger {
    fn join(&mut self, game: &Game, user: u64, join: &Join) {
        if self
            .accounts
            .get(&user)
            .is_some_and(|account| account.verdict.is_some())
        {
            return;
        }
        let verdict = self.judge(game, user, join);
        let account = self.accounts.entry(user).or_default();
        account.verdict = Some(verdict);
        account.accepted_at = join.accepted_at;
        if verdict.0 != "joined" {
            return;
        }
        if game.trusts_the_app {
            account.finished.extend(join.finished.iter().cloned());
        }
        if let Some(device) = &join.device {
            self.devices.entry(device.clone()).or_insert(user);
        }
    }

    fn judge(&self, game: &Game, user: u64, join: &Join) -> (&'static str, Option<&'static str>) {
        let has_time = join.flaw != Some(Flaw::NoTime);
        if self.is_frozen || (has_time && join.accepted_at >= game.draw_at) {
            return ("late", Some("closed"));
        }
        let lacks_device = game.one_entry_per_device && join.device.is_none();
        if join.flaw.is_some() || lacks_device {
            return ("rejected", Some("invalid"));
        }
        if self.denied.contains(&user) {
            return ("rejected", Some("blocked"));
        }
        let is_recent = |won_at: Millis| {
            won_at <= join.accepted_at && join.accepted_at < won_at + game.cooldown
        };
        if self
            .wins
            .iter()
            .any(|(winner, won_at)| *winner == user && is_recent(*won_at))
        {
            return ("rejected", Some("cooldown"));
        }
        let holder = join
            .device
            .as_ref()
            .and_then(|device| self.devices.get(device));
        if game.one_entry_per_device && holder.is_some_and(|holder| *holder != user) {
            return ("rejected", Some("duplicateDevice"));
        }
        ("joined", None)
    }

    /// What happens at or after drawAt, or comes after the freeze, did not happen.
    fn note(&mut self, game: &Game, user: u64, deed: &Deed) {
        let (Deed::Enter { at } | Deed::Leave { at } | Deed::Task { at, .. }) = deed else {
            return;
        };
        if self.is_frozen || *at >= game.draw_at {
            return;
        }
        let account = self.accounts.entry(user).or_default();
        match deed {
            Deed::Enter { at } => account.moves.push((*at, Move::Enter)),
            Deed::Leave { at } => account.moves.push((*at, Move::Leave)),
            Deed::Task { name, .. } => {
                account.finished.insert(name.clone());
            }
            Deed::Join(_) => (),
        }
    }
}

impl Account {
    fn fate(&self, game: &Game) -> Option<Fate> {
        let (status, reason) = self.verdict?;
        let eligibility = (status == "joined").then(|| self.eligibility(game));
        Some(Fate {
            status,
            reason,
            eligibility,
        })
    }

    fn eligibility(&self, game: &Game) -> &'static str {
        let is_finished = game.tasks.iter().all(|task| self.finished.contains(task));
        match (self.is_absent(game.leaving), game.leaving, is_finished) {
            (true, Leaving::IsFinal, _) => "forfeited",
            (true, _, true) => "absent",
            (true, _, false) => "absentAndTasksUnfinished",
            (false, _, true) => "eligible",
            (false, _, false) => "tasksUnfinished",
        }
    }

    /// Walks through the moves from the join on, which counts as entering.
    fn is_absent(&self, leaving: Leaving) -> bool {
        let mut moves = self.moves.clone();
        moves.sort_unstable();
        let mut is_away = false;
        let mut has_left = false;
        for (at, direction) in moves {
            if at < self.accepted_at {
                continue;
            }
            is_away = match direction {
                // In the millisecond of a leave the leave is what counts.
                Move::Enter => false,
                Move::Leave => true,
            };
            has_left |= is_away;
        }
        match leaving {
            Leaving::ChangesNothing => false,
            Leaving::Suspends => is_away,
            Leaving::IsFinal => has_left,
        }
    }
}

/// The winners, best first: the highest 53 bits of the first word of each one's keystream, then the
/// highest second word, then the lowest user id.
pub(crate) fn winners(
    seed: [u8; 32],
    seats: usize,
    eligible: impl IntoIterator<Item = u64>,
) -> Vec<u64> {
    let mut places: Vec<_> = eligible
        .into_iter()
        .map(|user| {
            let mut keystream = ChaCha20Rng::from_seed(seed);
            keystream.set_stream(user);
            let (first, second) = (keystream.next_u64() >> 11, keystream.next_u64());
            (std::cmp::Reverse((first, second)), user)
        })
        .collect();
    places.sort_unstable();
    places
        .into_iter()
        .take(seats)
        .map(|(_, user)| user)
        .collect()
}
