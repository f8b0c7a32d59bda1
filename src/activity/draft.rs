//! What a draft must look like. Pure: every fault of a form is named at once.

use std::{collections::HashMap, collections::HashSet, time::Duration};

use serde::Deserialize;

use super::{
    Activity, PresenceRule, PrizeKind, ShardBy, Task, check,
    form::{ActivityForm, PrizeForm, TaskForm},
    library::LibraryPrize,
};
use crate::{
    http::FieldErrors,
    kernel::{PrizeId, RoomId, Timestamp, to_millis},
};

const CONDITIONS_MAX_CHARS: usize = 2_000;
const PRIZES_MAX: usize = 100;
const QUANTITY_MAX: u64 = 1_000;
const WINNERS_MAX: u32 = 10_000;
const TASKS_MAX: usize = 20;
const TASK_ID_MAX_CHARS: usize = 64;
const SHORTEST_COUNTDOWN_SECS: u64 = 5;
const LONGEST_COUNTDOWN_SECS: u64 = 30 * 86_400;
const LONGEST_START_AHEAD: Duration = Duration::from_hours(365 * 24);
/// The least time between an opening and its draw.
pub(super) const SHORTEST_RUN: Duration = Duration::from_secs(SHORTEST_COUNTDOWN_SECS);

/// A valid draft. Either `countdown` or `draw_at` is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    pub(super) room_id: RoomId,
    pub(super) title: String,
    pub(super) conditions: Option<String>,
    /// Best first; `None` leaves those of an existing draft as they are.
    pub(super) prizes: Option<Vec<DraftPrize>>,
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

#[derive(Clone, Copy, Deserialize)]
#[serde(transparent)]
struct Moment(#[serde(with = "to_millis")] Timestamp);

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

/// When it opens and when it is drawn.
struct Timing {
    countdown: Option<Duration>,
    start_at: Option<Timestamp>,
    draw_at: Option<Timestamp>,
}

impl Checker<'_> {
    // Every field is looked at before the first missing one ends it.
    fn draft(&mut self) -> Option<Draft> {
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
            Some(prizes) => prizes.iter().map(|prize| prize.quantity).sum(),
            None => self.base?.winner_count,
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
            None => check::required(&form.room_id, "roomId", &mut self.errors),
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
                let text = check::required(field, "title", &mut self.errors);
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

    /// `Some(None)` leaves the prizes of an existing draft as they are.
    fn prizes(&mut self) -> Option<Option<Vec<DraftPrize>>> {
        let form = self.form;
        let Some(forms) = &form.prizes else {
            if self.base.is_none() {
                self.errors.add("prizes", "this field is required");
                return None;
            }
            return Some(None);
        };
        if forms.is_empty() || forms.len() > PRIZES_MAX {
            let message = format!("there are 1 to {PRIZES_MAX} kinds of prizes");
            self.errors.add("prizes", message);
            return None;
        }
        let mut seen = HashSet::new();
        let checked: Vec<Option<DraftPrize>> = forms
            .iter()
            .enumerate()
            .map(|(index, form)| self.prize(index, form, &mut seen))
            .collect();
        let prizes: Vec<DraftPrize> = checked.into_iter().collect::<Option<_>>()?;
        let winner_count: u32 = prizes.iter().map(|prize| prize.quantity).sum();
        if winner_count > WINNERS_MAX {
            let message = format!("an activity has at most {WINNERS_MAX} winners in all");
            self.errors.add("prizes", message);
        }
        Some(Some(prizes))
    }

    fn prize(
        &mut self,
        index: usize,
        form: &PrizeForm,
        seen: &mut HashSet<PrizeId>,
    ) -> Option<DraftPrize> {
        let at = |field: &str| format!("prizes[{index}].{field}");
        let quantity: Option<u64> =
            check::required(&form.quantity, at("quantity"), &mut self.errors);
        let quantity = check::within(quantity, 1..=QUANTITY_MAX, at("quantity"), &mut self.errors);
        let prize = if form.prize_id.has_value() {
            self.library_prize(form, seen, &at)
        } else {
            self.private_prize(form, &at)
        };
        let mut prize = prize?;
        prize.quantity = u32::try_from(quantity?).ok()?;
        Some(prize)
    }

    fn library_prize(
        &mut self,
        form: &PrizeForm,
        seen: &mut HashSet<PrizeId>,
        at: &impl Fn(&str) -> String,
    ) -> Option<DraftPrize> {
        let own = [
            ("name", &form.name),
            ("kind", &form.kind),
            ("image", &form.image),
        ];
        for (name, field) in own {
            if field.has_value() {
                self.errors
                    .add(at(name), "a prize with a prizeId has this in the library");
            }
        }
        let id: PrizeId = form.prize_id.read(at("prizeId"), &mut self.errors)?;
        if !seen.insert(id) {
            self.errors
                .add(at("prizeId"), "this prize stands in the list twice");
        }
        let Some(prize) = self.circumstances.library.get(&id) else {
            self.errors
                .add(at("prizeId"), "there is no such prize in the library");
            return None;
        };
        Some(DraftPrize {
            library_id: Some(id),
            name: prize.name.clone(),
            kind: prize.kind,
            image: prize.image.clone(),
            quantity: 0,
        })
    }

    fn private_prize(
        &mut self,
        form: &PrizeForm,
        at: &impl Fn(&str) -> String,
    ) -> Option<DraftPrize> {
        let errors = &mut self.errors;
        let name = check::required(&form.name, at("name"), errors);
        let name = check::line(name, at("name"), check::TITLE_MAX_CHARS, errors);
        let kind = check::required(&form.kind, at("kind"), errors);
        let kind = check::prize_kind(kind, at("kind"), errors);
        let image = form.image.read(at("image"), errors);
        let image = check::line(image, at("image"), check::IMAGE_MAX_CHARS, errors);
        Some(DraftPrize {
            library_id: None,
            name: name?,
            kind: kind?,
            image,
            quantity: 0,
        })
    }

    fn tasks(&mut self) -> Option<Vec<Task>> {
        let form = self.form;
        let Some(forms) = &form.tasks else {
            return Some(self.base.map_or_else(Vec::new, |base| base.tasks.clone()));
        };
        if forms.len() > TASKS_MAX {
            self.errors
                .add("tasks", format!("there are at most {TASKS_MAX} tasks"));
            return None;
        }
        let mut seen = HashSet::new();
        let tasks: Vec<Option<Task>> = forms
            .iter()
            .enumerate()
            .map(|(index, form)| self.task(index, form, &mut seen))
            .collect();
        tasks.into_iter().collect()
    }

    fn task(&mut self, index: usize, form: &TaskForm, seen: &mut HashSet<String>) -> Option<Task> {
        let at = |field: &str| format!("tasks[{index}].{field}");
        let errors = &mut self.errors;
        let task_id: Option<String> = check::required(&form.task_id, at("taskId"), errors);
        if let Some(task_id) = &task_id {
            if !is_task_id(task_id) {
                let fault = format!(
                    "a task id is 1 to {TASK_ID_MAX_CHARS} characters of A-Z a-z 0-9 _ . -"
                );
                errors.add(at("taskId"), fault);
            } else if !seen.insert(task_id.clone()) {
                errors.add(at("taskId"), "this task stands in the list twice");
            }
        }
        let title = check::required(&form.title, at("title"), errors);
        let title = check::line(title, at("title"), check::TITLE_MAX_CHARS, errors);
        Some(Task {
            task_id: task_id?,
            title: title?,
        })
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

    fn timing(&mut self) -> Timing {
        let (countdown, draw_at) = self.draw_time();
        let start_at = self.start_at();
        if let (Some(start_at), Some(draw_at)) = (start_at, draw_at)
            && start_at + SHORTEST_RUN > draw_at
        {
            let message = "this is at least 5 s before drawAt";
            self.errors.add("startAt", message);
        }
        Timing {
            countdown,
            start_at,
            draw_at,
        }
    }

    /// The countdown, or the drawAt that stands in its place.
    fn draw_time(&mut self) -> (Option<Duration>, Option<Timestamp>) {
        let form = self.form;
        match (
            form.countdown_seconds.has_value(),
            form.draw_at.has_value(),
            self.base,
        ) {
            (true, true, _) => {
                let message = "drawAt stands in place of countdownSeconds, not beside it";
                self.errors.add("drawAt", message);
                (None, None)
            }
            (true, false, _) => (self.countdown(), None),
            (false, true, _) => (None, self.draw_at()),
            (false, false, Some(base)) => (base.countdown, base.draw_at),
            (false, false, None) => {
                let message = "countdownSeconds or drawAt is required";
                self.errors.add("countdownSeconds", message);
                (None, None)
            }
        }
    }

    fn countdown(&mut self) -> Option<Duration> {
        let errors = &mut self.errors;
        let name = "countdownSeconds";
        let bounds = SHORTEST_COUNTDOWN_SECS..=LONGEST_COUNTDOWN_SECS;
        let seconds = self.form.countdown_seconds.read(name, errors);
        check::within(seconds, bounds, name, errors).map(Duration::from_secs)
    }

    fn draw_at(&mut self) -> Option<Timestamp> {
        let Moment(draw_at) = self.form.draw_at.read("drawAt", &mut self.errors)?;
        let now = self.circumstances.now;
        let longest = Duration::from_secs(LONGEST_COUNTDOWN_SECS);
        if draw_at < now + SHORTEST_RUN {
            let message = "this is in the past or less than 5 s ahead";
            self.errors.add("drawAt", message);
        } else if draw_at > now + longest {
            self.errors.add("drawAt", "this is more than 30 days ahead");
        }
        Some(draw_at)
    }

    fn start_at(&mut self) -> Option<Timestamp> {
        if !self.form.start_at.is_given() {
            return self.base.and_then(|base| base.start_at);
        }
        let Moment(start_at) = self.form.start_at.read("startAt", &mut self.errors)?;
        let now = self.circumstances.now;
        if start_at <= now {
            self.errors.add("startAt", "this is in the past");
        } else if start_at > now + LONGEST_START_AHEAD {
            self.errors.add("startAt", "this is more than a year ahead");
        }
        Some(start_at)
    }
}

fn is_task_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=TASK_ID_MAX_CHARS).contains(&text.len()) && text.bytes().all(is_allowed)
}
