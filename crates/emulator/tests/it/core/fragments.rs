//! Packets that are cut into pieces.

use etherparse::{Ipv4HeaderSlice, SlicedPacket};
use link::LinkConfig;
use proptest::prelude::*;

use crate::core::world::{World, chain, udp, write_checksum};

/// Puts fragments together as a host does, from what each says alone.
fn put_together(fragments: &[Vec<u8>], mtu: usize) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut ended = false;
    for fragment in fragments {
        assert!(fragment.len() <= mtu, "{} in {mtu}", fragment.len());
        let header = Ipv4HeaderSlice::from_slice(fragment).unwrap();
        assert_eq!(
            header.header_checksum(),
            header.to_header().calc_header_checksum()
        );
        assert_eq!(usize::from(header.total_len()), fragment.len());
        assert!(!ended, "one after the last");
        assert_eq!(
            usize::from(header.fragments_offset().value()) * 8,
            payload.len()
        );
        ended = !header.more_fragments();
        payload.extend_from_slice(&fragment[header.slice().len()..]);
    }
    assert!(ended, "the last one");
    payload
}

#[test]
fn what_does_not_fit_is_cut_and_can_be_put_together() {
    let mut config = chain(1, LinkConfig::default());
    config.links[1].mtu = 576;
    let mut world = World::new(&config);
    let packet = udp("10.0.0.1", "10.1.0.2", 64, &[5; 1400]);
    let received = world.exchange("a", &packet);
    let fragments: Vec<_> = received.into_iter().map(|one| one.octets).collect();
    // 1,428 octets of payload, 552 in each.
    assert_eq!(fragments.len(), 3);
    assert_eq!(put_together(&fragments, 576), packet[20..]);
    let identification = |octets: &[u8]| octets[4..6].to_vec();
    assert!(
        fragments
            .iter()
            .all(|one| identification(one) == identification(&packet))
    );
    let statistics = world.network.snapshot(world.now).routers[0].statistics;
    assert_eq!(
        (statistics.fragmented_packets, statistics.fragments),
        (1, 3)
    );
}

/// A fragment that would end beyond the longest packet: cut further, its parts would begin elsewhere.
#[test]
fn a_fragment_that_no_packet_can_have_is_dropped() {
    let mut config = chain(1, LinkConfig::default());
    config.links[1].mtu = 576;
    let mut world = World::new(&config);
    let mut fragment = |offset: u16, payload: usize| {
        let mut packet = udp("10.0.0.1", "10.1.0.2", 64, &vec![5; payload - 8]);
        packet[6..8].copy_from_slice(&(offset / 8).to_be_bytes());
        write_checksum(&mut packet);
        world.exchange("a", &packet).len()
    };
    assert_eq!(fragment(65_528, 1400), 0);
    // With its header 65,536 octets, and one less.
    assert_eq!(fragment(64_112, 1404), 0);
    assert_eq!(fragment(64_112, 1403), 3);
    let statistics = world.network.snapshot(world.now).routers[0].statistics;
    assert_eq!(statistics.malformed_packets, 2);
}

#[test]
fn ipv6_is_never_cut_below_its_least_mtu() {
    let mut config = chain(1, LinkConfig::default());
    config.links[1].mtu = 576;
    let mut world = World::new(&config);
    let received = world.exchange("a", &udp("fd00:0::1", "fd00:1::2", 64, &[5; 1200]));
    assert_eq!((received.len(), received[0].host.as_str()), (1, "b"));
    assert!(SlicedPacket::from_ip(&received[0].octets).is_ok());
}

/// Options that are in every fragment, and those that are in the first one alone.
#[test]
fn options_are_copied_as_they_ask() {
    let mut config = chain(1, LinkConfig::default());
    config.links[1].mtu = 300;
    let mut world = World::new(&config);
    // Record route (7), not copied; no operation; security (130), copied.
    let options = [7, 7, 4, 0, 0, 0, 0, 1, 130, 4, 9, 9];
    let mut packet = udp("10.0.0.1", "10.1.0.2", 64, &[5; 600]);
    packet.splice(20..20, options);
    packet[0] = 0x48;
    let length = packet.len() as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    write_checksum(&mut packet);
    let received = world.exchange("a", &packet);
    let fragments: Vec<_> = received.into_iter().map(|one| one.octets).collect();
    assert_eq!(fragments[0][20..32], options);
    assert_eq!(fragments[1][..1], [0x46]);
    assert_eq!(fragments[1][20..24], [130, 4, 9, 9]);
    assert_eq!(put_together(&fragments, 300), packet[32..]);
}

proptest! {
    /// Whatever the sizes, and however often a packet is cut.
    #[test]
    fn fragments_of_fragments_can_be_put_together(
        payload in proptest::collection::vec(any::<u8>(), 0..1472),
        mtus in [68_usize..1500, 68_usize..1500],
    ) {
        let mut config = chain(2, LinkConfig::default());
        config.links[1].mtu = mtus[0];
        config.links[2].mtu = mtus[1];
        let mut world = World::new(&config);
        let packet = udp("10.0.0.1", "10.2.0.2", 64, &payload);
        let received = world.exchange("a", &packet);
        let fragments: Vec<_> = received.into_iter().map(|one| one.octets).collect();
        prop_assert_eq!(put_together(&fragments, mtus[1]), &packet[20..]);
    }
}
