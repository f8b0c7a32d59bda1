//! JSON in which no object names a field twice. Readers do not agree on which of the two counts, so
//! that one text would be two sets of rules.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// Any value, of which nothing is kept.
struct Strict;

/// Whether a text is such JSON.
pub(super) fn check(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str(text).map(|Strict| ())
}

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while let Some(Self) = items.next_element()? {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            let Self = fields.next_value()?;
            if let Some(name) = names.replace(name) {
                return Err(A::Error::custom(format!("`{name}` is given twice")));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_be_in_many_objects_but_only_once_in_each() {
        for fine in [
            "null",
            r#"{"a":{"a":[true,-1,2,0.5,"a","a",null]},"b":{"a":1}}"#,
        ] {
            assert!(check(fine).is_ok(), "{fine}");
        }
        for twice in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":1}"#,
            r#"[{"b":{"c":{},"c":{}}}]"#,
            "{} {}",
            "{",
        ] {
            assert!(check(twice).is_err(), "{twice}");
        }
    }
}
