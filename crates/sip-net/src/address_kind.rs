//! Who can reach an address, and who may therefore name it to us.

use std::net::IpAddr;

/// From where an address is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// From everywhere.
    Public,
    /// From within a site: private addresses (RFC 1918, RFC 4193), those that a provider shares among its
    /// subscribers (RFC 6598).
    Private,
    /// From the same link (RFC 3927, RFC 4291).
    LinkLocal,
    /// From this host.
    Loopback,
    /// Nobody is there: it is unspecified, a group, or reserved.
    Nobody,
}

impl Kind {
    fn of(address: IpAddr) -> Kind {
        match address.to_canonical() {
            IpAddr::V4(ip) if ip.is_loopback() => Kind::Loopback,
            IpAddr::V4(ip) if ip.is_link_local() => Kind::LinkLocal,
            IpAddr::V4(ip) if ip.is_private() => Kind::Private,
            IpAddr::V4(ip) => match ip.octets() {
                [0, ..] | [224..=255, ..] => Kind::Nobody,
                [100, 64..128, ..] => Kind::Private,
                _ => Kind::Public,
            },
            IpAddr::V6(ip) if ip.is_loopback() => Kind::Loopback,
            IpAddr::V6(ip) if ip.is_unicast_link_local() => Kind::LinkLocal,
            IpAddr::V6(ip) if ip.is_unique_local() => Kind::Private,
            IpAddr::V6(ip) if ip.is_unspecified() || ip.is_multicast() => Kind::Nobody,
            IpAddr::V6(_) => Kind::Public,
        }
    }
}

/// Whether we may be sent to an address by whom we know to be at `source`: to what is not for everybody only by those
/// who are of the same kind. Else anybody could let us open connections behind our firewall, or to ourselves.
pub(crate) fn may_be_named(address: IpAddr, source: Option<IpAddr>) -> bool {
    match Kind::of(address) {
        Kind::Public => true,
        Kind::Nobody => false,
        kind => source.is_some_and(|source| Kind::of(source) == kind),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [(Kind, &[&str]); 5] = [
        (
            Kind::Public,
            &[
                "192.0.2.1",
                "9.255.255.255",
                "11.0.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "223.255.255.255",
                "2001:db8::1",
                "fbff::1",
                "::ffff:192.0.2.1",
            ],
        ),
        (
            Kind::Private,
            &[
                "10.0.0.1",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.1.1",
                "100.64.0.1",
                "100.127.255.255",
                "fc00::1",
                "fdff::1",
                "::ffff:10.0.0.1",
            ],
        ),
        (
            Kind::LinkLocal,
            &["169.254.169.254", "fe80::1", "::ffff:169.254.1.1"],
        ),
        (
            Kind::Loopback,
            &["127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"],
        ),
        (
            Kind::Nobody,
            &[
                "0.0.0.0",
                "0.1.2.3",
                "224.0.0.1",
                "240.0.0.1",
                "255.255.255.255",
                "::",
                "ff02::1",
                "::ffff:0.0.0.0",
            ],
        ),
    ];

    fn addresses() -> impl Iterator<Item = (Kind, IpAddr)> {
        let parsed = |(kind, texts): (Kind, &'static [&'static str])| {
            texts
                .iter()
                .map(move |text| (kind, text.parse().expect("an address")))
        };
        KINDS.into_iter().flat_map(parsed)
    }

    #[test]
    fn each_address_is_of_a_kind() {
        for (kind, address) in addresses() {
            assert_eq!(Kind::of(address), kind, "{address}");
        }
    }

    #[test]
    fn what_is_not_for_everybody_is_named_by_those_who_are_of_its_kind() {
        for (kind, address) in addresses() {
            assert_eq!(
                may_be_named(address, None),
                kind == Kind::Public,
                "{address}"
            );
            for (other, source) in addresses() {
                let may = kind == Kind::Public || kind == other && kind != Kind::Nobody;
                assert_eq!(
                    may_be_named(address, Some(source)),
                    may,
                    "{address} {source}"
                );
            }
        }
    }

    proptest! {
        /// However an IPv4 address is written, it is the same.
        #[test]
        fn a_mapped_address_is_what_is_mapped(bits: u32) {
            let address = std::net::Ipv4Addr::from(bits);
            let mapped = address.to_ipv6_mapped().into();
            prop_assert_eq!(Kind::of(address.into()), Kind::of(mapped));
        }
    }
}
