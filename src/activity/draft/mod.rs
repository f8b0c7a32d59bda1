//! What a draft must look like. Pure: every fault of a form is named at once.

mod lists;
mod timing;

use std::{collections::HashMap, time::Duration};

use super::{
    Activity, PresenceRule, PrizeKind, ShardBy, Task, check, form::ActivityForm,
    library::LibraryPrize,
};
use crate::{
    http::FieldErrors,
    kernel::{PrizeId, RoomId, Timestamp},
};

const CONDITIONS_MAX_CHARS: usize = 2_000;
const SHORTEST_COUNTDOWN_SECS: u64 = 5;
const LONGEST_COUNTDOWN_SECS: u64 = 30 * 86_400;
/// The least time between an opening and its draw.
pub(super) const SHORTEST_RUN: Duration = Duration::from_secs(SHORTEST_COUNTDOWN_SECS);

/// A valid draft. Either `countdown` or `draw_at` is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    pub(super) room_id: RoomId,
    pub(super) title: String,
    pub(super) conditions: Option<String>,
    pub(super) prizes: PrizeList,
    pub(super) winner_count: u32,
    pub(super) tasks: Vec<Task>,
    pub(super) presence_rule: PresenceRule,
    pub(super) one_entry_per_device: bool,
    pub(super) shard_by: ShardBy,
    pub(super) cooldown: Duration,
    pub(super) countdown: Option<Duration>,
    pub(super) start_at: Option<Timestamp>,
    pub(super) draw_at: Option<Timestamp>,
}

/// The prizes that a form asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PrizeList {
    /// Those that an existing draft has.
    Unchanged,
    /// These, best first.
    New(Vec<DraftPrize>),
}

/// A prize of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DraftPrize {
    /// `None` for a private prize.
    pub(super) library_id: Option<PrizeId>,
    pub(super) name: String,
    pub(super) kind: PrizeKind,
    pub(super) image: Option<String>,
    pub(super) quantity: u32,
}

/// What a form is checked against.
pub(super) struct Circumstances<'a> {
    /// The draft that is changed; `None` when one is created.
    pub(super) base: Option<&'a Activity>,
    /// Those prizes of the library that the form asks for.
    pub(super) library: &'a HashMap<PrizeId, LibraryPrize>,
    pub(super) default_cooldown: Duration,
    pub(super) now: Timestamp,
}

/// The draft that `form` asks for, or every fault it has.
pub(super) fn validate(
    form: &ActivityForm,
    circumstances: &Circumstances<'_>,
) -> Result<Draft, FieldErrors> {
    let mut checker = Checker {
        form,
        base: circumstances.base,
        circumstances,
        errors: FieldErrors::new(),
    };
    let draft = checker.draft();
    match draft {
        Some(draft) if checker.errors.is_empty() => Ok(draft),
        Some(_) | None => Err(checker.errors),
    }
}

struct Checker<'a> {
    form: &'a ActivityForm,
    base: Option<&'a Activity>,
    circumstances: &'a Circumstances<'a>,
    errors: FieldErrors,
}

impl Checker<'_> {
    // Every field is looked at before the first missing one ends it.
    fn draft(&mut self) -> Option<Draft> {
        self.form.unknown.refuse(str::to_owned, &mut self.errors);
        let room_id = self.room_id();
        let title = self.title();
        let conditions = self.conditions();
        let prizes = self.prizes();
        let tasks = self.tasks();
        let presence_rule = self.presence_rule();
        let one_entry_per_device = self.one_entry_per_device();
        let shard_by = self.shard_by();
        let cooldown = self.cooldown();
        let timing = self.timing();
        let prizes = prizes?;
        let winner_count = match &prizes {
            PrizeList::New(prizes) => prizes.iter().map(|prize| prize.quantity).sum(),
            PrizeList::Unchanged => self.base?.winner_count,
        };
        Some(Draft {
            room_id: room_id?,
            title: title?,
            conditions,
            prizes,
            winner_count,
            tasks: tasks?,
            presence_rule,
            one_entry_per_device,
            shard_by,
            cooldown,
            countdown: timing.countdown,
            start_at: timing.start_at,
            draw_at: timing.draw_at,
        })
    }

    fn room_id(&mut self) -> Option<RoomId> {
        let form = self.form;
        match self.base {
            None => form.room_id.required("roomId", &mut self.errors),
            Some(base) => {
                if form.room_id.is_given() {
                    self.errors
                        .add("roomId", "the room of a draft cannot be changed");
                }
                Some(base.room_id)
            }
        }
    }

    fn title(&mut self) -> Option<String> {
        let field = &self.form.title;
        match self.base {
            Some(base) if !field.is_given() => Some(base.title.clone()),
            Some(_) | None => {
                let text = field.required("title", &mut self.errors);
                check::line(text, "title", check::TITLE_MAX_CHARS, &mut self.errors)
            }
        }
    }

    fn conditions(&mut self) -> Option<String> {
        let field = &self.form.conditions;
        if !field.is_given() {
            return self.base.and_then(|base| base.conditions.clone());
        }
        let text: String = field.read("conditions", &mut self.errors)?;
        if let Some(fault) = check::fault_of_text(&text, CONDITIONS_MAX_CHARS) {
            self.errors.add("conditions", fault);
        }
        Some(text)
    }

    fn presence_rule(&mut self) -> PresenceRule {
        let kept = self
            .base
            .map_or(PresenceRule::Ignore, |base| base.presence_rule);
        let word = self
            .form
            .presence_rule
            .read::<String>("presenceRule", &mut self.errors);
        let Some(word) = word else { return kept };
        PresenceRule::parse(&word).unwrap_or_else(|| {
            let message = "this is \"ignore\", \"pause\" or \"forfeit\"";
            self.errors.add("presenceRule", message);
            kept
        })
    }

    fn one_entry_per_device(&mut self) -> bool {
        let kept = self.base.is_some_and(|base| base.one_entry_per_device);
        let field = &self.form.one_entry_per_device;
        field
            .read("oneEntryPerDevice", &mut self.errors)
            .unwrap_or(kept)
    }

    fn shard_by(&mut self) -> ShardBy {
        let kept = self.base.map_or(ShardBy::LowBits, |base| base.shard_by);
        let word = self
            .form
            .shard_by
            .read::<String>("shardBy", &mut self.errors);
        let Some(word) = word else { return kept };
        ShardBy::parse(&word).unwrap_or_else(|| {
            self.errors
                .add("shardBy", "this is \"lowBits\" or \"mixed\"");
            kept
        })
    }

    fn cooldown(&mut self) -> Duration {
        let kept = match self.base {
            Some(base) => base.cooldown,
            None => self.circumstances.default_cooldown,
        };
        let errors = &mut self.errors;
        let name = "cooldownSeconds";
        let seconds = self.form.cooldown_seconds.read(name, errors);
        let seconds = check::within(seconds, 0..=LONGEST_COUNTDOWN_SECS, name, errors);
        seconds.map_or(kept, Duration::from_secs)
    }
}
