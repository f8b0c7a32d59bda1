//! Whose address a request counts for.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::settings::ProxyRange;

/// The proxies whose word about addresses is believed.
#[derive(Clone, Debug, Default)]
pub(super) struct TrustedProxies(Vec<ProxyRange>);

impl TrustedProxies {
    pub(super) fn new(ranges: &[ProxyRange]) -> Self {
        Self(ranges.to_vec())
    }

    pub(super) fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.contains(address))
    }

    /// The right-most address that is not one of the proxies: what stands left of it was written by
    /// somebody who is not trusted. `forwarded` are the values of `X-Forwarded-For`, in order.
    ///
    /// A proxy that names no address, or nobody, stands for its client.
    pub(super) fn client<'a>(
        &self,
        peer: IpAddr,
        forwarded: impl DoubleEndedIterator<Item = &'a str>,
    ) -> IpAddr {
        let mut nearest = peer.to_canonical();
        for entry in forwarded.rev().flat_map(|value| value.rsplit(',')) {
            if !self.trusts(nearest) {
                break;
            }
            let Some(before) = parse(entry.trim()) else {
                break;
            };
            nearest = before;
        }
        nearest
    }
}

/// An address as proxies write it: alone, with a port, in brackets.
fn parse(entry: &str) -> Option<IpAddr> {
    let alone = entry
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(entry);
    let address = alone
        .parse()
        .or_else(|_| entry.parse().map(|with_port: SocketAddr| with_port.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

/// What shares one limit: an IPv4 address, or the network of 64 bits that one IPv6 customer has.
pub(super) fn shared_by(client: IpAddr) -> IpAddr {
    const NETWORK: u128 = !0 << 64;
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let ranges = ["10.0.0.0/8", "fd00::/8", "192.0.2.1"].map(|range| range.parse().unwrap());
        let proxies = TrustedProxies::new(&ranges);
        let client = proxies.client(peer.parse().unwrap(), forwarded.iter().copied());
        client.to_string()
    }

    #[test]
    fn a_peer_that_is_no_proxy_is_the_client_whatever_it_says() {
        assert_eq!(client("203.0.113.9", &[]), "203.0.113.9");
        assert_eq!(client("203.0.113.9", &["198.51.100.7"]), "203.0.113.9");
        assert_eq!(client("192.0.2.2", &["198.51.100.7"]), "192.0.2.2");
        assert_eq!(client("::ffff:203.0.113.9", &["10.0.0.1"]), "203.0.113.9");
    }

    #[test]
    fn behind_proxies_the_right_most_address_that_is_none_counts() {
        for (forwarded, expected) in [
            (&["198.51.100.7"][..], "198.51.100.7"),
            // What the client itself wrote stands to the left.
            (&["1.1.1.1, 198.51.100.7"], "198.51.100.7"),
            (&["1.1.1.1", "198.51.100.7"], "198.51.100.7"),
            (&["198.51.100.7, 10.1.2.3,192.0.2.1"], "198.51.100.7"),
            (&["10.9.9.9, 198.51.100.7, 10.1.2.3"], "198.51.100.7"),
            (&["198.51.100.7:4711"], "198.51.100.7"),
            (&["2001:db8::7"], "2001:db8::7"),
            (&["[2001:db8::7]"], "2001:db8::7"),
            (&["[2001:db8::7]:4711"], "2001:db8::7"),
            (&["198.51.100.7, fd00::1"], "198.51.100.7"),
            (&["::ffff:198.51.100.7"], "198.51.100.7"),
            (&["198.51.100.7 , ::ffff:10.0.0.9"], "198.51.100.7"),
            // All the way through our own network.
            (&["10.7.7.7, 10.1.2.3"], "10.7.7.7"),
        ] {
            assert_eq!(client("10.0.0.1", forwarded), expected, "{forwarded:?}");
        }
    }

    #[test]
    fn what_is_no_address_ends_the_search_at_the_proxy_that_passed_it_on() {
        for forwarded in [
            &[][..],
            &[""],
            &["unknown"],
            &["_hidden"],
            &["198.51.100.7, garbage"],
            &["198.51.100.7, "],
            &["198.51.100.7", "1.2.3"],
            &["fe80::1%eth0"],
            &["198.51.100.7:"],
            &["\"198.51.100.7\""],
        ] {
            assert_eq!(client("10.0.0.1", forwarded), "10.0.0.1", "{forwarded:?}");
        }
        assert_eq!(client("10.0.0.1", &["nonsense, 10.0.0.2"]), "10.0.0.2");
    }

    #[test]
    fn the_addresses_of_one_ipv6_customer_share_a_limit() {
        let shared = |address: &str| shared_by(address.parse().unwrap()).to_string();

        assert_eq!(shared("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(shared("2001:db8:1:2:ffff::"), "2001:db8:1:2::");
        assert_ne!(shared("2001:db8:1:3::1"), shared("2001:db8:1:2::1"));
        assert_eq!(shared("198.51.100.7"), "198.51.100.7");
    }
}
