//! Our own addresses in one association, those that its peer knows. They begin as the endpoint's, and
//! ASCONF changes them (RFC 5061 section 5.3): an address may be the source of packets only from when the
//! peer has agreed to add it, and only until its deletion is asked for.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::addresses::lists_own;
use crate::{LocalAddressState, PathAddress};

/// Deleted addresses that are remembered; older ones count as never having been ours.
const MAX_DELETED: usize = 16;

/// The addresses of one association that are ours.
#[derive(Debug)]
pub(crate) struct LocalAddresses {
    /// Those that packets may come from. Shared with the endpoint and its other associations until they
    /// change.
    usable: Arc<[IpAddr]>,
    /// Those that packets may not come from.
    barred: Vec<BarredAddress>,
}

#[derive(Debug, Clone, Copy)]
struct BarredAddress {
    address: IpAddr,
    bar: Bar,
}

/// Why an address may not be a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bar {
    /// The peer has not agreed to it yet: it is a source of ASCONFs alone (rule F1).
    Adding,
    /// The peer has not agreed yet that it is none any more (rule F4). The address was usable before, or the peer had
    /// refused to add it.
    Deleting { was_usable: bool },
    /// It is ours no more. What was sent to it before the peer knew may still arrive until then.
    Deleted { heard_until: Instant },
}

/// Where packets on a path come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Any of our addresses: the driver is free to choose, or the path says which.
    Any,
    /// This one.
    Only(IpAddr),
    /// None but ASCONFs may leave, from this one.
    AsconfOnly(IpAddr),
    /// Nothing may leave: none of our addresses is of the right kind.
    None,
}

/// Which packets to one of our addresses are taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hearing {
    All,
    /// Rule F4, section 5.3.1: an ABORT there means that the peer has deleted the address.
    AllButAbort,
    Nothing,
}

impl LocalAddresses {
    /// Those of the endpoint.
    pub(crate) fn new(endpoint: &Arc<[IpAddr]>) -> LocalAddresses {
        LocalAddresses {
            usable: Arc::clone(endpoint),
            barred: Vec::new(),
        }
    }

    /// Those that packets may come from. None when the peer was told none.
    pub(crate) fn usable(&self) -> &[IpAddr] {
        &self.usable
    }

    /// All that are ours, or are about to be.
    pub(crate) fn states(&self) -> impl Iterator<Item = (IpAddr, LocalAddressState)> {
        let usable = self.usable.iter();
        let usable = usable.map(|address| (*address, LocalAddressState::Usable));
        let barred = self.barred.iter().filter_map(|barred| match barred.bar {
            Bar::Adding => Some((barred.address, LocalAddressState::Adding)),
            Bar::Deleting { .. } => Some((barred.address, LocalAddressState::Deleting)),
            Bar::Deleted { .. } => None,
        });
        usable.chain(barred)
    }

    /// Our address of a packet, if it is the only one that the peer knows. When it knows several, where it
    /// sends to says nothing of the way back: it may send to one of our addresses over the network of
    /// another.
    pub(crate) fn only_address(&self, from: PathAddress) -> Option<IpAddr> {
        from.local
            .filter(|_| self.barred.is_empty() && !lists_own(&self.usable, from.remote))
    }

    /// Where packets to `remote` come from. Once some addresses may not be used, the driver is not free to
    /// choose any more, and the choice is the address that has most in common with the destination
    /// (RFC 6724 section 5, rule 8).
    pub(crate) fn source_for(&self, remote: IpAddr) -> Source {
        if self.barred.is_empty() {
            return Source::Any;
        }
        self.nearest_to(remote)
            .map(Source::Only)
            .or_else(|| self.added_for(remote).map(Source::AsconfOnly))
            .unwrap_or(Source::None)
    }

    /// The address that the peer is asked to add that has most in common with `remote`.
    pub(crate) fn added_for(&self, remote: IpAddr) -> Option<IpAddr> {
        let adding = self
            .barred
            .iter()
            .filter(|barred| barred.bar == Bar::Adding);
        nearest(adding.map(|barred| barred.address), remote)
    }

    /// The usable address that has most in common with `remote`.
    pub(crate) fn nearest_to(&self, remote: IpAddr) -> Option<IpAddr> {
        nearest(self.usable.iter().copied(), remote)
    }

    /// What is taken in of packets that were sent to `local`, if that is known.
    pub(crate) fn hearing(&self, local: Option<IpAddr>, now: Instant) -> Hearing {
        let barred = local.and_then(|local| {
            self.barred
                .iter()
                .find(|barred| barred.address == local)
                .map(|barred| barred.bar)
        });
        match barred {
            None | Some(Bar::Adding) => Hearing::All,
            Some(Bar::Deleting { .. }) => Hearing::AllButAbort,
            Some(Bar::Deleted { heard_until }) if now < heard_until => Hearing::AllButAbort,
            Some(Bar::Deleted { .. }) => Hearing::Nothing,
        }
    }

    /// An address is ours although it was not told: the peer has it from our packets.
    pub(crate) fn learn(&mut self, address: IpAddr) {
        if self.states().all(|(known, _)| known != address) {
            self.set_usable(address, true);
        }
    }

    /// The peer is asked to add an address.
    pub(crate) fn begin_to_add(&mut self, address: IpAddr) {
        self.bar(address, Some(Bar::Adding));
    }

    /// The peer has added an address, or has not.
    pub(crate) fn end_adding(&mut self, address: IpAddr, is_added: bool) {
        if self.bar_of(address) == Some(Bar::Adding) {
            self.bar(address, None);
            self.set_usable(address, is_added);
        }
    }

    /// The peer is asked to delete an address.
    pub(crate) fn begin_to_delete(&mut self, address: IpAddr) {
        let was_usable = self.usable.contains(&address);
        self.set_usable(address, false);
        self.bar(address, Some(Bar::Deleting { was_usable }));
    }

    /// The peer has deleted an address, or has not. What was sent to it is heard a little longer.
    pub(crate) fn end_deleting(&mut self, address: IpAddr, is_deleted: bool, heard_until: Instant) {
        let Some(Bar::Deleting { was_usable }) = self.bar_of(address) else {
            return;
        };
        if is_deleted {
            self.bar(address, Some(Bar::Deleted { heard_until }));
            self.forget_oldest_deleted();
        } else {
            self.bar(address, None);
            self.set_usable(address, was_usable);
        }
    }

    fn bar_of(&self, address: IpAddr) -> Option<Bar> {
        let mut barred = self.barred.iter();
        let barred = barred.find(|barred| barred.address == address)?;
        Some(barred.bar)
    }

    fn bar(&mut self, address: IpAddr, bar: Option<Bar>) {
        self.barred.retain(|barred| barred.address != address);
        self.barred
            .extend(bar.map(|bar| BarredAddress { address, bar }));
    }

    fn set_usable(&mut self, address: IpAddr, is_usable: bool) {
        let others = self.usable.iter().filter(|usable| **usable != address);
        let usable = others.chain(is_usable.then_some(&address));
        self.usable = usable.copied().collect();
    }

    fn forget_oldest_deleted(&mut self) {
        let is_deleted = |barred: &BarredAddress| matches!(barred.bar, Bar::Deleted { .. });
        if self
            .barred
            .iter()
            .filter(|barred| is_deleted(barred))
            .count()
            > MAX_DELETED
            && let Some(oldest) = self.barred.iter().position(is_deleted)
        {
            self.barred.remove(oldest);
        }
    }
}

/// The address of the same kind as `remote` that has the longest prefix in common with it; the first one
/// of several.
fn nearest(addresses: impl Iterator<Item = IpAddr>, remote: IpAddr) -> Option<IpAddr> {
    addresses
        .filter_map(|address| Some((address, common_prefix(address, remote)?)))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
        .map(|(address, _)| address)
}

fn common_prefix(one: IpAddr, other: IpAddr) -> Option<u32> {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            Some((one.to_bits() ^ other.to_bits()).leading_zeros())
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            Some((one.to_bits() ^ other.to_bits()).leading_zeros())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn local(addresses: &[&str]) -> LocalAddresses {
        let addresses: Arc<[IpAddr]> = addresses.iter().map(|text| ip(text)).collect();
        LocalAddresses::new(&addresses)
    }

    fn source(local: &LocalAddresses, remote: &str) -> Source {
        local.source_for(ip(remote))
    }

    #[test]
    fn an_address_is_a_source_once_it_is_added_and_until_it_is_deleted() {
        let now = Instant::now();
        let mut local = local(&["192.0.2.1"]);
        assert_eq!(source(&local, "192.0.2.9"), Source::Any);
        let (old, new) = (ip("192.0.2.1"), ip("198.51.100.1"));
        local.begin_to_add(new);
        for remote in ["192.0.2.9", "198.51.100.9"] {
            assert_eq!(source(&local, remote), Source::Only(old));
        }
        local.begin_to_delete(old);
        assert_eq!(source(&local, "192.0.2.9"), Source::AsconfOnly(new));
        assert_eq!(source(&local, "2001:db8::9"), Source::None);
        local.end_adding(new, true);
        assert_eq!(source(&local, "192.0.2.9"), Source::Only(new));
        local.end_deleting(old, true, now);
        assert_eq!(local.usable(), [new]);
        assert_eq!(source(&local, "192.0.2.9"), Source::Only(new));
        // And once it is added again.
        local.begin_to_add(old);
        local.end_adding(old, true);
        assert_eq!(source(&local, "192.0.2.9"), Source::Any);
    }

    #[test]
    fn what_the_peer_refuses_stays_as_it_was() {
        let now = Instant::now();
        let mut local = local(&["192.0.2.1"]);
        let (old, new) = (ip("192.0.2.1"), ip("198.51.100.1"));
        local.begin_to_add(new);
        local.begin_to_delete(old);
        local.end_adding(new, false);
        local.end_deleting(old, false, now);
        assert_eq!(local.usable(), [old]);
        assert_eq!(source(&local, "192.0.2.9"), Source::Any);
        // An answer to what was never asked changes nothing.
        local.end_adding(new, true);
        local.end_deleting(old, true, now);
        assert_eq!(local.usable(), [old]);
    }

    /// A deletion may have been asked for before the addition was refused.
    #[test]
    fn an_address_that_was_refused_is_none_when_its_deletion_is_refused_too() {
        let mut local = local(&["192.0.2.1"]);
        let new = ip("198.51.100.1");
        local.begin_to_add(new);
        local.end_adding(new, false);
        local.begin_to_delete(new);
        local.end_deleting(new, false, Instant::now());
        assert_eq!(local.usable(), [ip("192.0.2.1")]);
        assert_eq!(source(&local, "192.0.2.9"), Source::Any);
    }

    #[test]
    fn the_source_is_the_address_that_is_nearest_to_the_destination() {
        let mut local = local(&[
            "192.0.2.1",
            "198.51.100.1",
            "2001:db8:1::1",
            "2001:db8:2::1",
        ]);
        local.begin_to_add(ip("203.0.113.1"));
        for (remote, expected) in [
            ("192.0.2.200", "192.0.2.1"),
            ("198.51.100.200", "198.51.100.1"),
            ("203.0.113.2", "192.0.2.1"),
            ("2001:db8:2::9", "2001:db8:2::1"),
            ("2001:db8::9", "2001:db8:1::1"),
        ] {
            assert_eq!(
                source(&local, remote),
                Source::Only(ip(expected)),
                "{remote}"
            );
        }
    }

    #[test]
    fn a_deleted_address_is_heard_for_a_while_but_no_abort_there() {
        let now = Instant::now();
        let later = now + Duration::from_secs(2);
        let mut local = local(&["192.0.2.1", "192.0.2.2"]);
        let gone = ip("192.0.2.1");
        assert_eq!(local.hearing(Some(gone), now), Hearing::All);
        local.begin_to_delete(gone);
        assert_eq!(local.hearing(Some(gone), later), Hearing::AllButAbort);
        local.end_deleting(gone, true, later);
        assert_eq!(local.hearing(Some(gone), now), Hearing::AllButAbort);
        assert_eq!(local.hearing(Some(gone), later), Hearing::Nothing);
        assert_eq!(local.hearing(None, later), Hearing::All);
        local.begin_to_add(gone);
        assert_eq!(local.hearing(Some(gone), later), Hearing::All);
    }

    #[test]
    fn few_deleted_addresses_are_remembered() {
        let now = Instant::now();
        let mut local = local(&["192.0.2.1"]);
        for number in 0..100 {
            let address = IpAddr::from([198, 51, 100, number]);
            local.begin_to_add(address);
            local.end_adding(address, true);
            local.begin_to_delete(address);
            local.end_deleting(address, true, now);
        }
        assert_eq!(local.barred.len(), MAX_DELETED);
        assert_eq!(local.usable(), [ip("192.0.2.1")]);
    }

    #[test]
    fn an_address_that_the_peer_has_from_our_packets_is_learnt_once() {
        let mut local = local(&[]);
        local.learn(ip("192.0.2.1"));
        local.learn(ip("192.0.2.1"));
        local.begin_to_add(ip("192.0.2.2"));
        local.learn(ip("192.0.2.2"));
        let states: Vec<_> = local.states().collect();
        let expected = [
            (ip("192.0.2.1"), LocalAddressState::Usable),
            (ip("192.0.2.2"), LocalAddressState::Adding),
        ];
        assert_eq!(states, expected);
    }
}
