//! The scope of an address, and which peers may refer us to it.

use std::net::IpAddr;

/// From where an address can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// From everywhere.
    Public,
    /// From within a site: private addresses (RFC 1918, RFC 4193), those that a provider shares among its
    /// subscribers (RFC 6598).
    Private,
    /// From the same link (RFC 3927, RFC 4291).
    LinkLocal,
    /// From this host.
    Loopback,
    /// From nowhere: it is unspecified, a group, or reserved.
    None,
}

impl Scope {
    fn of(address: IpAddr) -> Scope {
        match address.to_canonical() {
            IpAddr::V4(ip) if ip.is_loopback() => Scope::Loopback,
            IpAddr::V4(ip) if ip.is_link_local() => Scope::LinkLocal,
            IpAddr::V4(ip) if ip.is_private() => Scope::Private,
            IpAddr::V4(ip) => match ip.octets() {
                [0, ..] | [224..=255, ..] => Scope::None,
                [100, 64..128, ..] => Scope::Private,
                _ => Scope::Public,
            },
            IpAddr::V6(ip) if ip.is_loopback() => Scope::Loopback,
            IpAddr::V6(ip) if ip.is_unicast_link_local() => Scope::LinkLocal,
            IpAddr::V6(ip) if ip.is_unique_local() => Scope::Private,
            IpAddr::V6(ip) if ip.is_unspecified() || ip.is_multicast() => Scope::None,
            IpAddr::V6(_) => Scope::Public,
        }
    }
}

/// Whether a peer at `source` may refer us to an address. One that is not public has to be of the scope of the peer's own:
/// otherwise any peer could make us open connections behind our firewall, or to ourselves.
pub(crate) fn may_refer_to(address: IpAddr, source: Option<IpAddr>) -> bool {
    match Scope::of(address) {
        Scope::Public => true,
        Scope::None => false,
        scope => source.is_some_and(|source| Scope::of(source) == scope),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SCOPES: [(Scope, &[&str]); 5] = [
        (
            Scope::Public,
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
            Scope::Private,
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
            Scope::LinkLocal,
            &["169.254.169.254", "fe80::1", "::ffff:169.254.1.1"],
        ),
        (
            Scope::Loopback,
            &["127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"],
        ),
        (
            Scope::None,
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

    fn addresses() -> impl Iterator<Item = (Scope, IpAddr)> {
        let parsed = |(scope, texts): (Scope, &'static [&'static str])| {
            texts
                .iter()
                .map(move |text| (scope, text.parse().expect("an address")))
        };
        SCOPES.into_iter().flat_map(parsed)
    }

    #[test]
    fn each_address_has_a_scope() {
        for (scope, address) in addresses() {
            assert_eq!(Scope::of(address), scope, "{address}");
        }
    }

    #[test]
    fn an_address_that_is_not_public_is_for_peers_of_its_scope() {
        for (scope, address) in addresses() {
            assert_eq!(
                may_refer_to(address, None),
                scope == Scope::Public,
                "{address}"
            );
            for (other, source) in addresses() {
                let may = scope == Scope::Public || scope == other && scope != Scope::None;
                assert_eq!(
                    may_refer_to(address, Some(source)),
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
            prop_assert_eq!(Scope::of(address.into()), Scope::of(mapped));
        }
    }
}
