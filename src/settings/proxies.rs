//! Ranges of addresses.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use serde::{Serialize, Serializer};

/// The addresses of proxies of ours: `10.0.0.0/8`, or one address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyRange(IpNet);

/// Text that is not a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a range of addresses is written like 10.0.0.0/8, fd00::/8 or 192.0.2.1")]
pub struct InvalidRange;

impl ProxyRange {
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether it holds every address there is, so that anybody could name any address.
    pub(super) fn is_everything(&self) -> bool {
        self.0.prefix_len() == 0
    }
}

impl FromStr for ProxyRange {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        let range = text
            .parse()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        range.map(Self).map_err(|_| InvalidRange)
    }
}

impl fmt::Display for ProxyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ProxyRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
