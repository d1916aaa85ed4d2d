//! The sending side of RFC 3758 section 3.5, against a peer whose packets the test writes.

use std::time::Duration;

use sctp::packet::{
    Cause, CauseBuffer, Chunk, ChunkType, Init, OperationError, Parameter, ParameterBuffer,
};
use sctp::{AssociationState, Event, PrPolicy, SendInfo};

use super::{accepted, accepted_with, config, failed, forward_tsns, info, send};
use crate::rfc9260::scripted::{self, Scripted, chunks, data_in, types};

const ONCE: PrPolicy = PrPolicy::LimitedRetransmissions(0);
const RTO: Duration = Duration::from_secs(1);
/// The other address of a peer that has two.
const OTHER_ADDRESS: [u8; 4] = [198, 51, 100, 9];

/// Has the peer miss the first chunk three times, having received others above it.
fn strike(scripted: &mut Scripted, below: u32) {
    for above in 1..=3 {
        scripted.give_sack(below, &[(below + 1, below + above)], 100_000);
    }
}

/// Gives an INIT ACK of a peer that has the extension, and another address.
fn give_init_ack(scripted: &mut Scripted) {
    let mut parameters = scripted::cookie_parameter();
    parameters
        .push(&Parameter::ForwardTsnSupported)
        .expect("it is short");
    scripted::push_address(&mut parameters, scripted::at(OTHER_ADDRESS));
    scripted.give(&[Chunk::InitAck(Init {
        parameters: parameters.parameters(),
        ..scripted::init()
    })]);
}

fn stale_cookie(scripted: &mut Scripted) {
    let mut causes = CauseBuffer::new();
    causes
        .push(&Cause::StaleCookie { staleness: 9 })
        .expect("it is short");
    scripted.give(&[Chunk::Error(OperationError {
        causes: causes.causes(),
    })]);
}

#[test]
fn a_chunk_that_may_not_be_sent_again_is_skipped() {
    let mut peer = accepted(config());
    send(&mut peer, info(3, ONCE), "a");
    for _ in 0..4 {
        send(&mut peer, info(3, PrPolicy::Reliable), "b");
    }
    assert_eq!(data_in(&peer.take(), peer.tsn), [0, 1, 2, 3, 4]);
    let ssthresh = peer.status().paths[0].ssthresh;
    strike(&mut peer, 0);
    let packets = peer.take();
    assert_eq!(forward_tsns(&packets, peer.tsn), [(1, vec![(3, 0)])]);
    assert_eq!(data_in(&packets, peer.tsn), []);
    assert_eq!(failed(&peer), [(b'a', 1, true)]);
    // Rule F5: the loss counts as every other.
    let reduced = peer.status().paths[0].ssthresh;
    assert!(reduced < ssthresh);
    peer.give_sack(5, &[], 100_000);
    assert_eq!(peer.status().unacknowledged_chunks, 0);
    assert_eq!(peer.status().outstanding_bytes, 0);
    assert_eq!(peer.pass(RTO * 10), Vec::<bytes::Bytes>::new());
}

#[test]
fn it_is_told_again_when_t3_rtx_expires() {
    let mut peer = accepted(config());
    send(&mut peer, info(0, ONCE), "a");
    let first = peer.tsn;
    peer.take();
    // The timeout after which the message is given up, and two of the FORWARD-TSN.
    for round in 0..3 {
        let packets = peer.pass(RTO * (1 << round));
        assert_eq!(forward_tsns(&packets, first), [(1, vec![(0, 0)])]);
        assert_eq!(types(&packets), [[ChunkType::FORWARD_TSN]]);
    }
    peer.give_sack(1, &[], 100_000);
    assert!(peer.pass(RTO * 60).is_empty());
    assert_eq!(peer.state(), AssociationState::Established);
}

#[test]
fn the_advanced_ack_point_stops_at_what_is_not_abandoned() {
    let mut peer = accepted(config());
    let first = peer.tsn;
    for policy in [PrPolicy::Reliable, ONCE, ONCE, PrPolicy::Reliable] {
        send(&mut peer, info(1, policy), "a");
    }
    send(&mut peer, info(1, ONCE), "b");
    peer.take();
    // The example below rule C2: the first is acknowledged, the fifth by a Gap Ack Block.
    peer.give_sack(1, &[(4, 4)], 100_000);
    let packets = peer.pass(RTO);
    assert_eq!(forward_tsns(&packets, first), [(3, vec![(1, 2)])]);
    assert_eq!(data_in(&packets, first), [3]);
    // Rule C1: the peer's cumulative TSN catches up.
    peer.give_sack(5, &[], 100_000);
    assert_eq!(peer.status().unacknowledged_chunks, 0);
    assert!(forward_tsns(&peer.pass(RTO * 5), first).is_empty());
}

#[test]
fn all_fragments_are_abandoned_at_once() {
    let mut peer = accepted(config());
    let first = peer.tsn;
    send(&mut peer, info(0, PrPolicy::Reliable), "r");
    send(&mut peer, info(2, ONCE), vec![7; 4000]);
    let fragments = data_in(&peer.take(), first).len() as u32 - 1;
    assert!(fragments >= 3);
    // Only the second fragment is missing.
    peer.give_sack(2, &[(3, fragments)], 100_000);
    let before = peer.status().send_buffer_bytes;
    assert!(before > 2000);
    let packets = peer.pass(RTO);
    assert_eq!(
        forward_tsns(&packets, first),
        [(1 + fragments, vec![(2, 0)])]
    );
    assert_eq!(data_in(&packets, first), []);
    assert_eq!(peer.status().send_buffer_bytes, 0);
    let payload = failed(&peer);
    assert_eq!(payload.len(), 1);
    assert!(payload[0].1 < 4000, "the first fragment was acknowledged");
}

#[test]
fn what_was_not_sent_of_a_message_gets_a_tsn_that_is_skipped() {
    let mut peer = accepted(config());
    let first = peer.tsn;
    let timed = PrPolicy::Timed(RTO / 2);
    send(&mut peer, info(4, timed), vec![8; 20_000]);
    let sent = data_in(&peer.take(), first).len() as u32;
    let packets = peer.pass(RTO);
    assert_eq!(forward_tsns(&packets, first), [(sent + 1, vec![(4, 0)])]);
    assert_eq!(failed(&peer), [(8, 20_000, true)]);
    peer.give_sack(sent + 1, &[], 100_000);
    send(&mut peer, info(4, PrPolicy::Reliable), "next");
    assert_eq!(data_in(&peer.take(), first), [sent + 1]);
    assert_eq!(peer.status().send_buffer_bytes, 4);
}

#[test]
fn a_message_is_skipped_though_all_that_was_sent_of_it_is_acknowledged() {
    let mut peer = accepted(config());
    let first = peer.tsn;
    send(
        &mut peer,
        info(4, PrPolicy::Timed(RTO / 2)),
        vec![8; 20_000],
    );
    let sent = data_in(&peer.take(), first).len() as u32;
    peer.give_sack(sent, &[], 0);
    let packets = peer.pass(RTO * 2);
    assert_eq!(
        forward_tsns(&packets, first).first(),
        Some(&(sent + 1, vec![(4, 0)]))
    );
    let failed = failed(&peer);
    assert_eq!(failed.len(), 1);
    assert!(failed[0].1 < 20_000 && failed[0].2);
}

#[test]
fn each_stream_is_told_once_and_unordered_messages_are_not() {
    let mut peer = accepted(config());
    let first = peer.tsn;
    for stream in [5, 2, 5, 2, 7] {
        send(&mut peer, info(stream, ONCE), "a");
    }
    let unordered = SendInfo {
        unordered: true,
        ..info(9, ONCE)
    };
    send(&mut peer, unordered, "u");
    peer.take();
    let packets = peer.pass(RTO);
    assert_eq!(
        forward_tsns(&packets, first),
        [(6, vec![(2, 1), (5, 1), (7, 0)])]
    );
}

#[test]
fn a_forward_tsn_fits_into_a_packet() {
    let config = config().mtu(576).outbound_streams(400).max_burst(100);
    let mut peer = accepted_with(
        config,
        Init {
            inbound_streams: 400,
            ..scripted::init()
        },
    );
    let first = peer.tsn;
    // Opens the congestion window.
    let mut acknowledged = 0;
    for _ in 0..10 {
        for _ in 0..20 {
            send(&mut peer, info(0, PrPolicy::Reliable), vec![1; 500]);
        }
        loop {
            let sent = data_in(&peer.take(), first).len() as u32;
            if sent == 0 {
                break;
            }
            acknowledged += sent;
            peer.now += Duration::from_millis(10);
            peer.give_sack(acknowledged, &[], 100_000);
        }
    }
    for stream in 0..300 {
        send(&mut peer, info(stream, ONCE), "a");
    }
    assert_eq!(data_in(&peer.take(), first).len(), 300);
    let packets = peer.pass(RTO);
    let told = forward_tsns(&packets, first);
    let room = (556 - 12 - 8) / 4;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, acknowledged + room);
    assert_eq!(told[0].1.len(), room as usize);
    for packet in packets {
        assert!(packet.len() <= 556);
    }
    // Rule F2: before the peer can have answered, nothing is told again.
    for a_rwnd in [99_000, 98_000] {
        peer.give_sack(acknowledged, &[], a_rwnd);
        assert!(forward_tsns(&peer.take(), first).is_empty());
    }
    // The rest follows.
    peer.give_sack(acknowledged + room, &[], 100_000);
    let told = forward_tsns(&peer.take(), first);
    assert_eq!(told[0].0, acknowledged + 2 * room);
    assert_eq!(told[0].1[0].0, room as u16);
}

#[test]
fn a_forward_tsn_goes_with_data() {
    let mut peer = accepted(config());
    send(&mut peer, info(0, ONCE), "a");
    peer.take();
    send(&mut peer, info(0, PrPolicy::Reliable), "b");
    peer.take();
    send(&mut peer, info(0, ONCE), "c");
    peer.take();
    let packets = peer.pass(RTO);
    assert_eq!(types(&packets)[0][0], ChunkType::FORWARD_TSN);
    assert!(types(&packets)[0].contains(&ChunkType::DATA));
}

#[test]
fn the_same_is_told_again_after_a_round_trip_only() {
    let mut peer = accepted(config());
    let first = peer.tsn;
    send(&mut peer, info(0, PrPolicy::Reliable), "measures");
    peer.take();
    peer.pass(Duration::from_millis(100));
    peer.give_sack(1, &[], 100_000);
    for policy in [ONCE, PrPolicy::Reliable] {
        send(&mut peer, info(0, policy), "a");
    }
    peer.take();
    let told = |peer: &mut Scripted| forward_tsns(&peer.take(), first).len();
    let packets = peer.pass(RTO);
    assert_eq!(forward_tsns(&packets, first).len(), 1);
    for (after, expected) in [(10, 0), (80, 0), (10, 1), (50, 0), (50, 1)] {
        peer.now += Duration::from_millis(after);
        peer.give_sack(1, &[(2, 2)], 100_000);
        assert_eq!(told(&mut peer), expected);
    }
    // Rule C5: no SACK leaves it without a timer.
    assert!(!peer.pass(RTO * 3).is_empty());
}

#[test]
fn it_goes_where_data_goes_when_a_path_fails() {
    let other = scripted::at([198, 51, 100, 9]);
    let seldom = Duration::from_secs(3600);
    let config = config().heartbeats(true).hb_interval(seldom);
    let mut peer = Scripted::cookie_wait(config);
    let first = peer.tsn;
    let mut parameters = scripted::cookie_parameter();
    parameters
        .push(&Parameter::ForwardTsnSupported)
        .expect("it is short");
    scripted::push_address(&mut parameters, other);
    peer.give(&[Chunk::InitAck(Init {
        parameters: parameters.parameters(),
        ..scripted::init()
    })]);
    peer.give(&[Chunk::CookieAck]);
    for _ in 0..20 {
        peer.answer_heartbeats(Duration::from_millis(100));
    }
    send(&mut peer, info(0, ONCE), "a");
    assert_eq!(peer.transmits()[0].path, scripted::peer());
    let told: Vec<_> = peer
        .watch(RTO)
        .into_iter()
        .map(|(_, transmit)| transmit)
        .filter(|transmit| {
            let packet = std::slice::from_ref(&transmit.packet);
            !forward_tsns(packet, first).is_empty()
        })
        .map(|transmit| transmit.path.remote)
        .collect();
    assert_eq!(told, [other.remote]);
    peer.give_sack(1, &[], 100_000);
    assert_eq!(peer.status().unacknowledged_chunks, 0);
    assert_eq!(peer.path(other).error_count, 0);
}

#[test]
fn what_is_abandoned_opens_no_window() {
    let mut peer = accepted(config());
    for _ in 0..4 {
        send(&mut peer, info(0, ONCE), vec![1; 1200]);
    }
    peer.take();
    peer.pass(RTO);
    let cwnd = peer.status().paths[0].cwnd;
    assert_eq!(peer.status().outstanding_bytes, 0);
    peer.give_sack(4, &[], 100_000);
    assert_eq!(peer.status().paths[0].cwnd, cwnd);
    assert_eq!(peer.status().unacknowledged_chunks, 0);
}

#[test]
fn a_peer_that_skips_all_is_not_given_up() {
    let mut peer = accepted(config());
    for number in 0..40 {
        send(&mut peer, info(0, ONCE), "a");
        peer.take();
        while forward_tsns(&peer.pass(RTO), peer.tsn).is_empty() {}
        peer.give_sack(number + 1, &[], 100_000);
        assert_eq!(peer.status().paths[0].error_count, 0);
    }
    assert_eq!(peer.state(), AssociationState::Established);
    assert_eq!(failed(&peer).len(), 40);
}

#[test]
fn the_end_waits_until_the_peer_has_skipped_all() {
    let mut peer = accepted(config());
    send(&mut peer, info(0, ONCE), "a");
    peer.take();
    let (now, id) = (peer.now, peer.id());
    peer.endpoint.shutdown(now, id).expect("it is up");
    let packets = peer.pass(RTO);
    assert_eq!(types(&packets), [[ChunkType::FORWARD_TSN]]);
    assert_eq!(peer.state(), AssociationState::ShutdownPending);
    peer.give_sack(1, &[], 100_000);
    assert_eq!(types(&peer.take()), [[ChunkType::SHUTDOWN]]);
}

#[test]
fn a_peer_without_the_extension_gets_all_messages() {
    let mut peer = Scripted::accepted(config());
    assert!(!peer.status().extensions.partial_reliability);
    send(&mut peer, info(0, ONCE), "a");
    send(&mut peer, info(0, PrPolicy::Timed(RTO / 2)), "b");
    let first = peer.tsn;
    peer.take();
    for round in 0..3 {
        let packets = peer.pass(RTO * (1 << round));
        assert_eq!(data_in(&packets, first), [0, 1]);
        assert!(forward_tsns(&packets, first).is_empty());
    }
    assert_eq!(failed(&peer), []);
}

#[test]
fn the_extension_is_used_where_both_sides_offer_it() {
    let cookie = scripted::cookie_parameter();
    for (offers, peer_offers, agreed) in [
        (true, true, true),
        (true, false, false),
        (false, true, false),
    ] {
        let config = if offers { config() } else { scripted::quiet() };
        let mut peer = Scripted::alone(config);
        let id = peer
            .endpoint
            .connect(peer.now, scripted::peer(), scripted::PEER_PORT)
            .expect("nothing speaks against it");
        let packets = peer.take();
        let [Chunk::Init(init)] = chunks(&packets[0])[..] else {
            panic!("an INIT was sent");
        };
        peer.tag = init.initiate_tag;
        let offered = init
            .parameters
            .iter()
            .any(|parameter| parameter == Ok(Parameter::ForwardTsnSupported));
        assert_eq!(offered, offers);
        let mut parameters = ParameterBuffer::new();
        for parameter in cookie.parameters().iter() {
            parameters.push(&parameter.expect("sound")).expect("short");
        }
        if peer_offers {
            parameters
                .push(&Parameter::ForwardTsnSupported)
                .expect("it is short");
        }
        peer.give(&[Chunk::InitAck(Init {
            parameters: parameters.parameters(),
            ..scripted::init()
        })]);
        let packets = peer.take();
        // Section 3.3.2: one that does not know the parameter reports it.
        let reports = types(&packets)[0].contains(&ChunkType::ERROR);
        assert_eq!(reports, !offers && peer_offers);
        peer.give(&[Chunk::CookieAck]);
        let status = peer.endpoint.status(id).expect("it is up");
        assert_eq!(status.extensions.partial_reliability, agreed);
    }
}

#[test]
fn a_peer_that_reports_the_parameter_goes_without() {
    let mut peer = Scripted::cookie_wait(config());
    let unknown = [0xc0, 0, 0, 4];
    let tlv = sctp::packet::Tlvs::new(&unknown).next().unwrap().unwrap();
    let mut parameters = scripted::cookie_parameter();
    parameters
        .push(&Parameter::UnrecognizedParameter(tlv.bytes()))
        .expect("it is short");
    peer.give(&[Chunk::InitAck(Init {
        parameters: parameters.parameters(),
        ..scripted::init()
    })]);
    peer.take();
    peer.give(&[Chunk::CookieAck]);
    assert_eq!(peer.state(), AssociationState::Established);
    assert!(!peer.status().extensions.partial_reliability);
}

#[test]
fn what_was_sent_with_the_cookie_is_abandoned_too() {
    let mut peer = Scripted::cookie_wait(config());
    let first = peer.tsn;
    send(&mut peer, info(0, ONCE), "a");
    give_init_ack(&mut peer);
    assert_eq!(
        types(&peer.take()),
        [[ChunkType::COOKIE_ECHO, ChunkType::DATA]]
    );
    assert_eq!(types(&peer.pass(RTO)), [[ChunkType::COOKIE_ECHO]]);
    peer.give(&[Chunk::CookieAck]);
    assert_eq!(forward_tsns(&peer.take(), first), [(1, vec![(0, 0)])]);
    assert_eq!(failed(&peer), [(b'a', 1, true)]);
}

#[test]
fn nothing_is_to_be_skipped_of_what_went_with_a_stale_cookie() {
    let mut peer = Scripted::cookie_wait(config());
    send(&mut peer, info(0, ONCE), "a");
    give_init_ack(&mut peer);
    peer.take();
    peer.pass(RTO);
    assert_eq!(failed(&peer), [(b'a', 1, true)]);
    stale_cookie(&mut peer);
    assert_eq!(types(&peer.take()), [[ChunkType::INIT]]);
    give_init_ack(&mut peer);
    peer.take();
    peer.give(&[Chunk::CookieAck]);
    // Of the other path.
    assert_eq!(types(&peer.take()), [[ChunkType::HEARTBEAT]]);
}

#[test]
fn a_message_that_went_with_a_stale_cookie_can_expire_as_if_it_had_not() {
    const LIFE_TIME: Duration = Duration::from_secs(5);
    for size in [10, 4000] {
        let mut peer = Scripted::cookie_wait(config());
        let first = peer.tsn;
        send(
            &mut peer,
            info(0, PrPolicy::Timed(LIFE_TIME)),
            vec![1; size],
        );
        give_init_ack(&mut peer);
        let packets = peer.take();
        assert_eq!(types(&packets), [[ChunkType::COOKIE_ECHO, ChunkType::DATA]]);
        stale_cookie(&mut peer);
        peer.pass(LIFE_TIME);
        send(&mut peer, info(0, PrPolicy::Reliable), "b");
        give_init_ack(&mut peer);
        let with_cookie = peer.take();
        assert_eq!(failed(&peer), [(1, size, false)]);
        assert_eq!(data_in(&with_cookie, first), [0]);
        peer.give(&[Chunk::CookieAck]);
        assert_eq!(forward_tsns(&peer.take(), first), []);
        peer.give_sack(1, &[], 100_000);
        assert_eq!(peer.status().unacknowledged_chunks, 0);
    }
}

#[test]
fn an_abort_does_not_report_abandoned_messages_again() {
    let mut peer = accepted(config());
    send(&mut peer, info(0, ONCE), "a");
    peer.take();
    peer.pass(RTO);
    send(&mut peer, info(0, ONCE), "b");
    peer.take();
    let (now, id) = (peer.now, peer.id());
    peer.endpoint.abort(now, id, b"bye").expect("it is up");
    peer.take();
    assert_eq!(failed(&peer), [(b'a', 1, true), (b'b', 1, true)]);
    let lost = peer.events.last();
    assert!(matches!(lost, Some(Event::CommunicationLost { .. })));
}

#[test]
fn a_forward_tsn_without_the_extension_is_an_unknown_chunk() {
    let mut peer = Scripted::accepted(scripted::quiet());
    let forward_tsn = [0xc0, 0, 0, 8, 1, 2, 3, 4];
    peer.give_raw(&forward_tsn);
    let packets = peer.take();
    let [Chunk::Error(error)] = chunks(&packets[0])[..] else {
        panic!("an ERROR was sent");
    };
    let causes: Vec<_> = error.causes.iter().collect();
    assert_eq!(causes, [Ok(Cause::UnrecognizedChunkType(&forward_tsn))]);
}
