//! The bodies of requests about activities and prizes, before anything is checked.
//!
//! Values are kept as they came, so that the check can name every faulty one at once.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Map, Value};

use crate::{
    http::FieldErrors,
    kernel::{PrizeId, RoomId},
};

/// A field as it came: absent, null or a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Field(Option<Value>);

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

impl Field {
    /// Whether it is there, be it as null.
    pub(super) fn is_given(&self) -> bool {
        self.0.is_some()
    }

    /// Whether it is there with a value.
    pub(super) fn has_value(&self) -> bool {
        self.0.as_ref().is_some_and(|value| !value.is_null())
    }

    /// The value; nothing when absent or null, nothing and a fault when it is not a `T`.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        name: impl fmt::Display,
        errors: &mut FieldErrors,
    ) -> Option<T> {
        let value = self.0.as_ref().filter(|value| !value.is_null())?;
        errors.check(name.to_string(), T::deserialize(value))
    }

    /// The value without an account of its faults.
    fn peek<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(self.0.as_ref()?).ok()
    }
}

#[cfg(test)]
impl From<Value> for Field {
    fn from(value: Value) -> Self {
        Self(Some(value))
    }
}

/// A list as it came.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Items<T> {
    List(Vec<Item<T>>),
    Other(IgnoredAny),
}

/// An item of a list as it came. A form that is an object has no faults yet, but for a field that
/// is given twice.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Item<T> {
    Object(T),
    Other(IgnoredAny),
}

impl<T> Item<T> {
    /// The form; nothing and a fault when the item named `name` is none.
    pub(super) fn object(&self, name: String, errors: &mut FieldErrors) -> Option<&T> {
        match self {
            Self::Object(form) => Some(form),
            Self::Other(_) => {
                errors.add(name, "this is an object with each of its fields once");
                None
            }
        }
    }
}

/// The fields that no form of this kind has, by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct UnknownFields(Map<String, Value>);

impl UnknownFields {
    /// More are not worth the room that they take in the answer.
    const MOST_NAMED: usize = 20;

    /// Names them as faults; `at` makes a field's path of its name.
    pub(super) fn refuse(&self, at: impl Fn(&str) -> String, errors: &mut FieldErrors) {
        for name in self.0.keys().take(Self::MOST_NAMED) {
            errors.add_unknown(&at(name));
        }
    }
}

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
