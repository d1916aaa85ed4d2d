//! Congestion control (RFC 9260 section 7).

use std::net::IpAddr;
use std::time::Duration;

use sctp::{EndpointConfig, PathAddress};

use crate::rfc9260::scripted::{PEER_PORT, Scripted, data_in, quiet};

/// User data that fills a DATA chunk of the largest size over IPv4.
const FULL: usize = 1500 - 20 - 12 - 16;
/// The Path Maximum DATA Chunk Size that belongs to it.
const PMDCS: usize = FULL + 16;

/// Sends so many chunks that fill a packet each.
fn send_full(scripted: &mut Scripted, count: usize) -> Vec<u32> {
    for _ in 0..count {
        scripted.send(0, &[1; FULL]);
    }
    data_in(&scripted.take(), scripted.tsn)
}

fn cwnd(scripted: &Scripted) -> usize {
    scripted.status().paths[0].cwnd
}

fn ssthresh(scripted: &Scripted) -> usize {
    scripted.status().paths[0].ssthresh
}

fn without_burst_limit() -> EndpointConfig {
    quiet().max_burst(1000)
}

#[test]
fn the_first_window_is_that_of_section_7_2_1() {
    for (address, mtu, ip_header, least) in [
        ("192.0.2.1", 1500, 20, 4404),
        ("2001:db8::1", 1500, 40, 4344),
        ("192.0.2.1", 576, 20, 4404),
        ("192.0.2.1", 9000, 20, 4404),
        ("2001:db8::1", 9000, 40, 4344),
    ] {
        let config = quiet().mtu(mtu);
        let mut scripted = Scripted::alone(config);
        let remote: IpAddr = address.parse().unwrap();
        let to = PathAddress {
            local: None,
            remote,
            encapsulation_port: None,
        };
        let id = scripted
            .endpoint
            .connect(scripted.now, to, PEER_PORT)
            .unwrap();
        let path = scripted.endpoint.status(id).unwrap().paths[0].clone();
        let pmdcs = (mtu - ip_header - 12) & !3;
        assert_eq!(
            path.cwnd,
            (4 * pmdcs).min(least.max(2 * pmdcs)),
            "{address} {mtu}"
        );
        assert!(path.ssthresh >= 1 << 30, "arbitrarily high");
    }
}

#[test]
fn slow_start_adds_what_is_acknowledged_and_at_most_one_packet() {
    let mut scripted = Scripted::connected(without_burst_limit());
    let first = cwnd(&scripted);
    assert_eq!(send_full(&mut scripted, 10), [0, 1, 2]);
    scripted.give_sack(1, &[], 1_000_000);
    assert_eq!(cwnd(&scripted), first + PMDCS);
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [3, 4]);
    scripted.give_sack(4, &[], 1_000_000);
    assert_eq!(
        cwnd(&scripted),
        first + 2 * PMDCS,
        "three chunks, one packet"
    );
}

#[test]
fn acknowledgements_cut_small_open_the_window_no_faster() {
    let mut scripted = Scripted::connected(without_burst_limit());
    let first = cwnd(&scripted);
    for _ in 0..200 {
        scripted.send(0, &[1; 84]);
    }
    scripted.take();
    scripted.give_sack(1, &[], 1_000_000);
    assert_eq!(cwnd(&scripted), first + 100);
    // The same acknowledgement again adds nothing.
    scripted.take();
    for _ in 0..10 {
        scripted.give_sack(1, &[], 1_000_000);
    }
    assert_eq!(cwnd(&scripted), first + 100);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut scripted = Scripted::connected(without_burst_limit());
    let first = cwnd(&scripted);
    for number in 0..50 {
        send_full(&mut scripted, 1);
        scripted.give_sack(number + 1, &[], 1_000_000);
    }
    assert_eq!(cwnd(&scripted), first);
}

/// Fills the window and loses its first chunk; gives the first window and what was sent.
fn with_a_loss() -> (Scripted, usize) {
    let mut scripted = Scripted::connected(without_burst_limit());
    let mut acknowledged = 0;
    for _ in 0..6 {
        let sent = send_full(&mut scripted, 30);
        acknowledged = sent.last().unwrap() + 1;
        scripted.give_sack(acknowledged, &[], 1_000_000);
    }
    assert_eq!(acknowledged, data_in(&scripted.take(), scripted.tsn)[0]);
    let window = cwnd(&scripted);
    assert!(window >= 8 * PMDCS);
    for beyond in 1..=3 {
        let first = acknowledged + 1;
        scripted.give_sack(acknowledged, &[(first, first + beyond - 1)], 1_000_000);
    }
    (scripted, window)
}

#[test]
fn a_loss_halves_the_window_once_in_a_fast_recovery() {
    let (mut scripted, window) = with_a_loss();
    // What the first of the three acknowledges may open the window before it is cut.
    let halved = cwnd(&scripted);
    assert!((window / 2..=(window + PMDCS) / 2).contains(&halved));
    assert_eq!(ssthresh(&scripted), halved);
    // Three more reports that the next hole is missing change nothing further.
    let sent = data_in(&scripted.take(), scripted.tsn);
    assert!(sent[0] < *sent.last().unwrap_or(&u32::MAX) || sent.len() == 1);
    let lost = sent[0];
    for beyond in 6..=8 {
        scripted.give_sack(
            lost,
            &[(lost + 1, lost + 3), (lost + 5, lost + beyond - 1)],
            1_000_000,
        );
    }
    assert_eq!((cwnd(&scripted), ssthresh(&scripted)), (halved, halved));
}

#[test]
fn two_reports_of_a_missing_chunk_are_not_enough() {
    let mut scripted = Scripted::connected(quiet());
    for _ in 0..4 {
        scripted.send(0, &[1; 1000]);
    }
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [0, 1, 2, 3]);
    let window = cwnd(&scripted);
    scripted.give_sack(0, &[(1, 1)], 1_000_000);
    scripted.give_sack(0, &[(1, 2)], 1_000_000);
    // Without news there is no miss indication, however often it is said.
    scripted.give_sack(0, &[(1, 2)], 1_000_000);
    scripted.give_sack(0, &[(1, 2)], 1_000_000);
    assert!(!data_in(&scripted.take(), scripted.tsn).contains(&0));
    assert_eq!(cwnd(&scripted), window);
    scripted.give_sack(0, &[(1, 3)], 1_000_000);
    assert_eq!(data_in(&scripted.take(), scripted.tsn)[0], 0);
}

#[test]
fn miss_indications_are_for_what_is_below_the_highest_newly_acknowledged() {
    let mut scripted = Scripted::connected(quiet());
    for _ in 0..9 {
        scripted.send(0, &[1; 200]);
    }
    assert_eq!(data_in(&scripted.take(), scripted.tsn).len(), 9);
    // 8 is acknowledged first; what is acknowledged later lies below 6 and says nothing of 7.
    scripted.give_sack(1, &[(8, 8)], 1_000_000);
    scripted.give_sack(1, &[(5, 5), (8, 8)], 1_000_000);
    scripted.give_sack(1, &[(4, 5), (8, 8)], 1_000_000);
    scripted.give_sack(1, &[(3, 5), (8, 8)], 1_000_000);
    let sent = data_in(&scripted.take(), scripted.tsn);
    assert!(sent.contains(&1) && sent.contains(&2), "{sent:?}");
    assert!(!sent.contains(&6) && !sent.contains(&7), "{sent:?}");
}

#[test]
fn one_packet_of_a_fast_retransmission_leaves_whatever_the_window() {
    let (mut scripted, _) = with_a_loss();
    let path = &scripted.status().paths[0];
    assert!(path.outstanding_bytes >= path.cwnd, "the window is full");
    let packets = scripted.take();
    assert_eq!(packets.len(), 1);
    assert_eq!(data_in(&packets, scripted.tsn).len(), 1);
}

#[test]
fn a_timeout_begins_slow_start_with_one_packet() {
    let mut scripted = Scripted::connected(without_burst_limit());
    send_full(&mut scripted, 4);
    let window = cwnd(&scripted);
    let packets = scripted.pass(Duration::from_secs(1));
    assert_eq!(packets.len(), 1);
    assert_eq!(ssthresh(&scripted), (window / 2).max(4 * PMDCS));
    assert_eq!(cwnd(&scripted), PMDCS);
    // Nothing else until something is acknowledged.
    send_full(&mut scripted, 2);
    assert!(scripted.pass(Duration::from_millis(900)).is_empty());
    scripted.give_sack(1, &[], 1_000_000);
    assert!(!scripted.take().is_empty());
}

#[test]
fn congestion_avoidance_adds_at_most_one_packet_a_round_trip() {
    let (mut scripted, _) = with_a_loss();
    // Ends Fast Recovery: all is acknowledged.
    let sent = data_in(&scripted.take(), scripted.tsn);
    let mut next = sent.iter().max().unwrap() + 1;
    for _ in 0..3 {
        scripted.give_sack(next, &[], 1_000_000);
        let more = data_in(&scripted.take(), scripted.tsn);
        next = more.last().map_or(next, |last| last + 1);
    }
    for _ in 0..10 {
        let before = cwnd(&scripted);
        assert!(before >= ssthresh(&scripted));
        let sent = send_full(&mut scripted, 20);
        next = sent.last().map_or(next, |last| last + 1);
        scripted.give_sack(next, &[], 1_000_000);
        let sent = data_in(&scripted.take(), scripted.tsn);
        next = sent.last().map_or(next, |last| last + 1);
        assert!(cwnd(&scripted) <= before + PMDCS);
    }
}

#[test]
fn windows_count_chunks_with_header_and_padding() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"x");
    scripted.take();
    assert_eq!(scripted.status().outstanding_bytes, 20);
}
