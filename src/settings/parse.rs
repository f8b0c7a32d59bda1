//! Values that are text in a variable and something more in a file.

use std::{
    fmt::{self, Display},
    net::IpAddr,
    str::FromStr,
};

/// An IP address or a network in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// Text that is neither an IP address nor a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an IP address such as 10.1.2.3 or a network such as 10.0.0.0/8")]
pub struct InvalidNetwork;

impl Network {
    /// Whether `ip` is in the network; an IPv4 address written as IPv6 counts as IPv4.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                let shift = 32 - u32::from(self.prefix_bits);
                let differing = network.to_bits() ^ ip.to_bits();
                differing.checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                let shift = 128 - u32::from(self.prefix_bits);
                let differing = network.to_bits() ^ ip.to_bits();
                differing.checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

fn address_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| InvalidNetwork)?;
        let longest = address_bits(address);
        let prefix_bits = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| InvalidNetwork)?,
            None => longest,
        };
        if prefix_bits > longest {
            return Err(InvalidNetwork);
        }
        Ok(Self {
            address,
            prefix_bits,
        })
    }
}

impl Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix_bits == address_bits(self.address) {
            self.address.fmt(f)
        } else {
            write!(f, "{}/{}", self.address, self.prefix_bits)
        }
    }
}

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
