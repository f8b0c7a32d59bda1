//! Values that are text in a variable and something more in a file.

/// A list in a file, text separated by commas in a variable.
pub(super) mod comma_list {
    use std::{fmt, fmt::Display, marker::PhantomData, str::FromStr};

    use serde::{
        Deserializer, Serializer,
        de::{Error, SeqAccess, Visitor},
    };

    pub(in super::super) fn serialize<T, S>(items: &[T], serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Display,
        S: Serializer,
    {
        serializer.collect_seq(items.iter().map(ToString::to_string))
    }

    pub(in super::super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }

    struct ListVisitor<T>(PhantomData<T>);

    fn parse<T: FromStr<Err: Display>, E: Error>(item: &str) -> Result<T, E> {
        item.trim()
            .parse()
            .map_err(|error| E::custom(format_args!("{error}, not {item:?}")))
    }

    impl<'de, T: FromStr<Err: Display>> Visitor<'de> for ListVisitor<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list, or text separated by commas")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
            if text.trim().is_empty() {
                return Ok(Vec::new());
            }
            text.split(',').map(parse).collect()
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element::<String>()? {
                list.push(parse(&item)?);
            }
            Ok(list)
        }
    }
}

/// Text that stands for nothing when it is empty.
pub(super) mod optional_text {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::ref_option, reason = "the form that serde calls")]
    pub(in super::super) fn serialize<T, S>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error>
    where
        T: Display,
        S: Serializer,
    {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_str(""),
        }
    }

    pub(in super::super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse()
            .map(Some)
            .map_err(|error| D::Error::custom(format_args!("{error}, in {text:?}")))
    }
}
