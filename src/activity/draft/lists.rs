//! The prizes and tasks of a draft.

use std::collections::HashSet;

use super::{
    super::{
        Task, check,
        form::{PrizeForm, TaskForm},
    },
    Checker, DraftPrize, PrizeList,
};
use crate::{http::Items, kernel::PrizeId};

const NOT_A_LIST: &str = "this is a list of objects";
const PRIZES_MAX: usize = 100;
const QUANTITY_MAX: u64 = 1_000;
const WINNERS_MAX: u32 = 10_000;
const TASKS_MAX: usize = 20;

impl Checker<'_> {
    pub(super) fn prizes(&mut self) -> Option<PrizeList> {
        let form = self.form;
        let Some(items) = &form.prizes else {
            if self.base.is_none() {
                self.errors.add_missing("prizes");
                return None;
            }
            return Some(PrizeList::Unchanged);
        };
        let Items::List(forms) = items else {
            self.errors.add("prizes", NOT_A_LIST);
            return None;
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
            .map(|(index, item)| {
                let form = item.object(format!("prizes[{index}]"), &mut self.errors)?;
                self.prize(index, form, &mut seen)
            })
            .collect();
        let prizes: Vec<DraftPrize> = checked.into_iter().collect::<Option<_>>()?;
        let winner_count: u32 = prizes.iter().map(|prize| prize.quantity).sum();
        if winner_count > WINNERS_MAX {
            let message = format!("an activity has at most {WINNERS_MAX} winners in all");
            self.errors.add("prizes", message);
        }
        Some(PrizeList::New(prizes))
    }

    fn prize(
        &mut self,
        index: usize,
        form: &PrizeForm,
        seen: &mut HashSet<PrizeId>,
    ) -> Option<DraftPrize> {
        let at = |field: &str| format!("prizes[{index}].{field}");
        form.unknown.refuse(at, &mut self.errors);
        let quantity: Option<u64> = form.quantity.required(at("quantity"), &mut self.errors);
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
        let name = form.name.required(at("name"), errors);
        let name = check::line(name, at("name"), check::TITLE_MAX_CHARS, errors);
        let kind = form.kind.required(at("kind"), errors);
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

    pub(super) fn tasks(&mut self) -> Option<Vec<Task>> {
        let form = self.form;
        let Some(items) = &form.tasks else {
            return Some(self.base.map_or_else(Vec::new, |base| base.tasks.clone()));
        };
        let Items::List(forms) = items else {
            self.errors.add("tasks", NOT_A_LIST);
            return None;
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
            .map(|(index, item)| {
                let form = item.object(format!("tasks[{index}]"), &mut self.errors)?;
                self.task(index, form, &mut seen)
            })
            .collect();
        tasks.into_iter().collect()
    }

    fn task(&mut self, index: usize, form: &TaskForm, seen: &mut HashSet<String>) -> Option<Task> {
        let at = |field: &str| format!("tasks[{index}].{field}");
        let errors = &mut self.errors;
        form.unknown.refuse(at, errors);
        let task_id: Option<String> = form.task_id.required(at("taskId"), errors);
        if let Some(task_id) = &task_id {
            if !Task::is_id(task_id) {
                errors.add(at("taskId"), Task::ID_FORM);
            } else if !seen.insert(task_id.clone()) {
                errors.add(at("taskId"), "this task stands in the list twice");
            }
        }
        let title = form.title.required(at("title"), errors);
        let title = check::line(title, at("title"), check::TITLE_MAX_CHARS, errors);
        Some(Task {
            task_id: task_id?,
            title: title?,
        })
    }
}
