//! Reads a number to its last bit, which `serde_json` does not do by itself:
//! `#[serde(deserialize_with = "exact_number::deserialize")]`.

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::value::RawValue;

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    text.get().parse().map_err(D::Error::custom)
}

/// The same for a number that may be absent.
pub mod option {
    use serde::{Deserialize, Deserializer, de::Error};
    use serde_json::value::RawValue;

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        let text = Option::<Box<RawValue>>::deserialize(deserializer)?;
        text.map(|text| text.get().parse())
            .transpose()
            .map_err(D::Error::custom)
    }
}
