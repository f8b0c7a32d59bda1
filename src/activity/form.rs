//! The bodies of requests about activities and prizes, before anything is checked.

use serde::Deserialize;

use crate::{
    http::{Field, Item, Items, UnknownFields},
    kernel::{PrizeId, RoomId},
};

/// An activity to be created, or the changes of a draft.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ActivityForm {
    pub(super) room_id: Field,
    pub(super) title: Field,
    pub(super) conditions: Field,
    pub(super) prizes: Option<Items<PrizeForm>>,
    pub(super) tasks: Option<Items<TaskForm>>,
    pub(super) presence_rule: Field,
    pub(super) one_entry_per_device: Field,
    pub(super) shard_by: Field,
    pub(super) cooldown_seconds: Field,
    pub(super) countdown_seconds: Field,
    pub(super) start_at: Field,
    pub(super) draw_at: Field,
    #[serde(flatten)]
    pub(super) unknown: UnknownFields,
}

/// A prize of an activity: one of the library, or a private one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PrizeForm {
    pub(super) prize_id: Field,
    pub(super) name: Field,
    pub(super) kind: Field,
    pub(super) image: Field,
    pub(super) quantity: Field,
    #[serde(flatten)]
    pub(super) unknown: UnknownFields,
}

/// Something a participant has to do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TaskForm {
    pub(super) task_id: Field,
    pub(super) title: Field,
    #[serde(flatten)]
    pub(super) unknown: UnknownFields,
}

impl ActivityForm {
    /// The room, when there is a proper one; for the check of rights.
    pub(super) fn room_id(&self) -> Option<RoomId> {
        self.room_id.peek()
    }

    /// The prizes of the library that are asked for, as far as their ids are proper.
    pub(super) fn library_prizes(&self) -> Vec<PrizeId> {
        let Some(Items::List(prizes)) = &self.prizes else {
            return Vec::new();
        };
        let id = |prize: &Item<PrizeForm>| match prize {
            Item::Object(form) => form.prize_id.peek(),
            Item::Other(_) => None,
        };
        prizes.iter().filter_map(id).collect()
    }
}

/// A prize of the library to be created, or its changes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LibraryPrizeForm {
    pub(super) name: Field,
    pub(super) kind: Field,
    pub(super) image: Field,
    pub(super) value_cents: Field,
    pub(super) stock_total: Field,
    #[serde(flatten)]
    pub(super) unknown: UnknownFields,
}
