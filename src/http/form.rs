//! Bodies that are checked field by field: values are kept as they came, so that the check can name
//! every faulty one at once.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Map, Value};

use super::fields::FieldErrors;

/// A field as it came: absent, null or a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Field(Option<Value>);

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

impl Field {
    /// Whether it is there, be it as null.
    pub fn is_given(&self) -> bool {
        self.0.is_some()
    }

    /// Whether it is there with a value.
    pub fn has_value(&self) -> bool {
        self.0.as_ref().is_some_and(|value| !value.is_null())
    }

    /// The value; nothing when absent or null, nothing and a fault when it is not a `T`.
    pub fn read<T: DeserializeOwned>(
        &self,
        name: impl fmt::Display,
        errors: &mut FieldErrors,
    ) -> Option<T> {
        let value = self.0.as_ref().filter(|value| !value.is_null())?;
        errors.check(name.to_string(), T::deserialize(value))
    }

    /// The same of a field that must be there.
    pub fn required<T: DeserializeOwned>(
        &self,
        name: impl fmt::Display,
        errors: &mut FieldErrors,
    ) -> Option<T> {
        if !self.has_value() {
            errors.add_missing(name.to_string());
        }
        self.read(name, errors)
    }

    /// The value without an account of its faults.
    pub fn peek<T: DeserializeOwned>(&self) -> Option<T> {
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
pub enum Items<T> {
    List(Vec<Item<T>>),
    Other(IgnoredAny),
}

/// An item of a list as it came. A form that is an object has no faults yet, but for a field that
/// is given twice.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Item<T> {
    Object(T),
    Other(IgnoredAny),
}

impl<T> Item<T> {
    /// The form; nothing and a fault when the item named `name` is none.
    pub fn object(&self, name: String, errors: &mut FieldErrors) -> Option<&T> {
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
pub struct UnknownFields(Map<String, Value>);

impl UnknownFields {
    /// More are not worth the room that they take in the answer.
    const MOST_NAMED: usize = 20;

    /// Names them as faults; `at` makes a field's path of its name.
    pub fn refuse(&self, at: impl Fn(&str) -> String, errors: &mut FieldErrors) {
        for name in self.0.keys().take(Self::MOST_NAMED) {
            errors.add_unknown(&at(name));
        }
    }
}
