//! An endpoint whose peer changes its addresses, by ASCONFs that the test writes (RFC 5061 sections 5.2 to
//! 5.4).

use std::time::Duration;

use sctp::packet::{
    Cause, CauseBuffer, Chunk, ChunkType, ErrorCauseIndication, Parameter, Parameters,
    SequenceNumber,
};
use sctp::{AssociationState, EndpointConfig, Event, PathAddress, PathChange, PathState};

use super::*;
use crate::rfc9260::scripted::{at, chunks, message, peer, quiet, raw, types};

const NEW: &str = "198.51.100.9";
const OTHER: &str = "198.51.100.10";
const OLD: &str = "192.0.2.9";

fn new() -> PathAddress {
    at([198, 51, 100, 9])
}

/// Gives an ASCONF of the peer from there, and what is sent then.
fn give(
    scripted: &mut Scripted,
    from: PathAddress,
    number: SequenceNumber,
    requests: &[Parameter<'_>],
) -> Vec<Transmit> {
    let packet = raw(scripted.tag, &asconf(number, OLD, requests));
    scripted.give_from(from, packet);
    scripted.transmits()
}

/// The responses to an ASCONF from where the peer is.
fn responses(scripted: &mut Scripted, count: u32, requests: &[Parameter<'_>]) -> Bytes {
    let sent = give(scripted, peer(), peer_number(count), requests);
    let [(to, number, responses)] = &asconf_acks(&sent)[..] else {
        panic!("one answer: {sent:?}");
    };
    assert_eq!((*to, *number), (peer().remote, peer_number(count)));
    responses.clone()
}

/// An Error Cause Indication, as bytes.
fn error(correlation_id: u32, cause: &Cause<'_>) -> Vec<u8> {
    let mut causes = CauseBuffer::new();
    causes.push(cause).expect("it fits");
    let error = Parameter::ErrorCauseIndication(ErrorCauseIndication {
        correlation_id,
        causes: causes.causes(),
    });
    parameters(&[error]).parameters().as_bytes().to_vec()
}

fn bytes_of(parameter: Parameter<'_>) -> Vec<u8> {
    parameters(&[parameter]).parameters().as_bytes().to_vec()
}

fn success(correlation_id: u32) -> Vec<u8> {
    bytes_of(Parameter::SuccessIndication { correlation_id })
}

fn remotes(scripted: &Scripted) -> Vec<IpAddr> {
    let paths = scripted.status().paths;
    paths.iter().map(|path| path.address.remote).collect()
}

/// Has the peer add the new address, and confirms it.
fn with_new_address(config: EndpointConfig) -> Scripted {
    let mut scripted = established(config);
    let sent = give(&mut scripted, peer(), peer_number(0), &[add(1, NEW)]);
    for transmit in &sent {
        scripted.answer_heartbeat(transmit);
    }
    assert_eq!(scripted.path(new()).state, PathState::Active);
    scripted.events.clear();
    scripted
}

#[test]
fn an_added_address_is_unconfirmed_and_gets_a_heartbeat_at_once() {
    let mut scripted = established(quiet());
    let sent = give(&mut scripted, peer(), peer_number(0), &[add(1, NEW)]);
    assert_eq!(
        asconf_acks(&sent),
        [(peer().remote, peer_number(0), Bytes::new())]
    );
    let heartbeats: Vec<_> = sent
        .iter()
        .filter(|transmit| transmit.path.remote == ip(NEW))
        .map(|transmit| transmit.packet.clone())
        .collect();
    assert_eq!(types(&heartbeats), [[ChunkType::HEARTBEAT]]);
    assert_eq!(scripted.path(new()).state, PathState::Unconfirmed);
    let added = scripted.events.iter().any(|event| {
        matches!(event, Event::PathStateChanged { path, change: PathChange::Added, .. }
            if path.remote == ip(NEW))
    });
    assert!(added);
    // Until it is verified, data goes where it went.
    scripted.send(0, b"data");
    let sent = scripted.transmits();
    assert!(
        sent.iter()
            .all(|transmit| transmit.path.remote == peer().remote)
    );
}

#[test]
fn an_asconf_that_comes_again_gets_the_same_answer_and_is_not_processed_again() {
    let mut scripted = with_new_address(quiet());
    let requests = [delete(7, OLD), set_primary(8, OTHER)];
    let first = give(&mut scripted, new(), peer_number(1), &requests);
    assert_eq!(remotes(&scripted), [ip(NEW)]);
    // In the meantime the old address is added again.
    give(&mut scripted, new(), peer_number(2), &[add(9, OLD)]);
    let again = give(&mut scripted, new(), peer_number(1), &requests);
    assert_eq!(asconf_acks(&again), asconf_acks(&first));
    assert_eq!(remotes(&scripted), [ip(NEW), ip(OLD)]);
}

#[test]
fn old_and_future_asconfs_are_not_answered() {
    let mut scripted = established(quiet());
    for count in [u32::MAX, u32::MAX - 100, 1, 2, 1 << 30] {
        let drops = scripted.endpoint.statistics().drops.chunks;
        let sent = give(&mut scripted, peer(), peer_number(count), &[add(1, NEW)]);
        assert!(sent.is_empty(), "{count}: {sent:?}");
        assert_eq!(scripted.endpoint.statistics().drops.chunks, drops + 1);
    }
    assert_eq!(remotes(&scripted), [ip(OLD)]);
    assert_eq!(scripted.state(), AssociationState::Established);
    assert_eq!(responses(&mut scripted, 0, &[]), Bytes::new());
}

#[test]
fn few_answers_are_kept() {
    let mut scripted = established(quiet());
    for count in 0..100 {
        responses(&mut scripted, count, &[]);
    }
    for (count, answers) in [(99, 1), (90, 1), (50, 0), (0, 0)] {
        let sent = give(&mut scripted, peer(), peer_number(count), &[]);
        assert_eq!(asconf_acks(&sent).len(), answers, "{count}");
    }
}

#[test]
fn several_asconfs_of_a_packet_are_answered_in_order_by_one_packet() {
    let mut scripted = established(quiet());
    let chunks = [
        asconf(peer_number(0), OLD, &[add(1, NEW)]),
        asconf(peer_number(1), OLD, &[delete(2, OTHER)]),
        asconf(peer_number(2), NEW, &[set_primary(3, OTHER)]),
        crate::rfc9260::scripted::bytes_of(&[Chunk::Data(message(0, b"data"))]),
    ];
    let packet = raw(scripted.tag, &chunks.concat());
    scripted.give_from(peer(), packet.clone());
    let sent = scripted.transmits();
    let first = &sent[0];
    let expected = [ChunkType::ASCONF_ACK; 3];
    assert_eq!(types(std::slice::from_ref(&first.packet))[0][..3], expected);
    let numbers: Vec<_> = asconf_acks(&sent)
        .iter()
        .map(|(_, number, _)| *number)
        .collect();
    assert_eq!(numbers, [0, 1, 2].map(peer_number));
    // And again when the packet comes again.
    scripted.give_from(peer(), packet);
    let again = scripted.transmits();
    let numbers: Vec<_> = asconf_acks(&again)
        .iter()
        .map(|(_, number, _)| *number)
        .collect();
    assert_eq!(numbers, [0, 1, 2].map(peer_number));
}

#[test]
fn the_wildcard_means_the_source_of_the_packet() {
    for wildcard in ["0.0.0.0", "::"] {
        let mut scripted = established(quiet());
        // An address that is none of the peer's yet.
        let sent = give(
            &mut scripted,
            new(),
            peer_number(0),
            &[add(1, wildcard), set_primary(2, wildcard)],
        );
        assert_eq!(
            asconf_acks(&sent),
            [(ip(NEW), peer_number(0), Bytes::new())]
        );
        assert_eq!(remotes(&scripted), [ip(OLD), ip(NEW)]);
        assert_eq!(scripted.status().primary, ip(NEW));
        for transmit in &sent {
            scripted.answer_heartbeat(transmit);
        }
        assert_eq!(scripted.path(new()).state, PathState::Active);
        give(&mut scripted, peer(), peer_number(1), &[add(1, OTHER)]);
        give(&mut scripted, new(), peer_number(2), &[delete(1, wildcard)]);
        assert_eq!(remotes(&scripted), [ip(NEW)]);
        // The source alone is left: there is nothing to delete.
        let sent = give(&mut scripted, new(), peer_number(3), &[delete(1, wildcard)]);
        assert_eq!(
            asconf_acks(&sent),
            [(ip(NEW), peer_number(3), Bytes::new())]
        );
        assert_eq!(remotes(&scripted), [ip(NEW)]);
    }
}

#[test]
fn all_addresses_are_not_deleted_for_one_that_is_none_of_the_peers() {
    let mut scripted = established(quiet());
    let request = delete(5, "0.0.0.0");
    let sent = give(&mut scripted, new(), peer_number(0), &[request]);
    let copied = bytes_of(request);
    let refused = error(
        5,
        &Cause::RequestToDeleteLastIpAddress(Parameters::new(&copied)),
    );
    assert_eq!(
        asconf_acks(&sent),
        [(ip(NEW), peer_number(0), Bytes::from(refused))]
    );
    assert_eq!(remotes(&scripted), [ip(OLD)]);
}

#[test]
fn the_last_address_is_not_deleted() {
    let mut scripted = established(quiet());
    // Rule F8: this error, although it is the source of the packet, too.
    let copied = bytes_of(delete(5, OLD));
    let cause = Cause::RequestToDeleteLastIpAddress(Parameters::new(&copied));
    assert_eq!(
        responses(&mut scripted, 0, &[delete(5, OLD)]),
        error(5, &cause)
    );
    assert_eq!(remotes(&scripted), [ip(OLD)]);
    assert_eq!(scripted.state(), AssociationState::Established);
}

#[test]
fn the_source_address_is_not_deleted() {
    let mut scripted = with_new_address(quiet());
    let copied = bytes_of(delete(5, OLD));
    let cause = Cause::RequestToDeleteSourceIpAddress(Parameters::new(&copied));
    assert_eq!(
        responses(&mut scripted, 1, &[delete(5, OLD)]),
        error(5, &cause)
    );
    assert_eq!(remotes(&scripted), [ip(OLD), ip(NEW)]);
}

#[test]
fn after_an_address_for_which_there_is_no_room_no_other_one_changes() {
    let mut scripted = established(quiet().max_peer_addresses(2));
    let requests = [
        add(1, NEW),
        add(2, OTHER),
        delete(3, NEW),
        add(4, "198.51.100.11"),
        set_primary(5, NEW),
    ];
    let copied = bytes_of(add(2, OTHER));
    let cause = Cause::OperationRefusedDueToResourceShortage(Parameters::new(&copied));
    // What is not mentioned after a failure has failed; what is done is mentioned.
    let expected = [error(2, &cause), success(5)].concat();
    assert_eq!(responses(&mut scripted, 0, &requests), expected);
    assert_eq!(remotes(&scripted), [ip(OLD), ip(NEW)]);
    assert_eq!(scripted.status().primary, ip(NEW));
}

#[test]
fn an_address_that_cannot_be_the_peers_is_refused() {
    let mut scripted = established(quiet());
    scripted
        .endpoint
        .set_host_addresses(vec![ip("198.51.100.77")]);
    for (count, address) in [
        "224.0.0.1",
        "255.255.255.255",
        "127.0.0.1",
        "169.254.1.1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:198.51.100.9",
        "198.51.100.77",
    ]
    .into_iter()
    .enumerate()
    {
        let copied = bytes_of(add(3, address));
        let cause = Cause::RequestRefusedNoAuthorization(Parameters::new(&copied));
        assert_eq!(
            responses(&mut scripted, count as u32, &[add(3, address)]),
            error(3, &cause),
            "{address}"
        );
    }
    assert_eq!(remotes(&scripted), [ip(OLD)]);
}

#[test]
fn what_is_as_it_should_be_already_is_a_success() {
    let mut scripted = established(quiet());
    let requests = [add(1, OLD), delete(2, OTHER), set_primary(3, OLD)];
    assert_eq!(responses(&mut scripted, 0, &requests), Bytes::new());
    assert_eq!(remotes(&scripted), [ip(OLD)]);
    let changes = scripted.events.iter();
    let changes = changes.filter(|event| matches!(event, Event::PathStateChanged { .. }));
    assert_eq!(changes.count(), 0);
}

#[test]
fn an_address_that_is_none_of_the_peers_does_not_become_primary() {
    let mut scripted = established(quiet());
    let copied = bytes_of(set_primary(9, NEW));
    let cause = Cause::UnresolvableAddress(&copied);
    // Section 5.4: the address has to be added before.
    let requests = [set_primary(9, NEW), add(10, NEW)];
    let expected = [error(9, &cause), success(10)].concat();
    assert_eq!(responses(&mut scripted, 0, &requests), expected);
    assert_eq!(scripted.status().primary, ip(OLD));
}

#[test]
fn parameters_that_nobody_knows_are_treated_by_their_highest_bits() {
    let unknown = |parameter_type: u16| {
        let mut bytes = parameter_type.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0, 12, 0, 0, 0, 42, 1, 2, 3, 4]);
        bytes
    };
    for (parameter_type, is_reported, goes_on) in [
        (0x3333, false, false),
        (0x7333, true, false),
        (0xb333, false, true),
        (0xf333, true, true),
    ] {
        let mut scripted = established(quiet());
        let unknown = unknown(parameter_type);
        let lookup = bytes_of(Parameter::from(ip(OLD)));
        let value = [
            &peer_number(0).0.to_be_bytes()[..],
            &lookup,
            &unknown,
            &bytes_of(add(43, NEW)),
        ]
        .concat();
        let length = (value.len() as u16 + 4).to_be_bytes();
        let chunk = [&[ChunkType::ASCONF.0, 0], &length[..], &value].concat();
        scripted.give_raw(&chunk);
        let sent = scripted.transmits();
        let mut expected = Vec::new();
        if is_reported {
            let cause = Cause::UnrecognizedParameters(Parameters::new(&unknown));
            expected.extend(error(42, &cause));
            if goes_on {
                expected.extend(success(43));
            }
        }
        let expected = [(peer().remote, peer_number(0), Bytes::from(expected))];
        assert_eq!(asconf_acks(&sent), expected, "{parameter_type:#x}");
        assert_eq!(remotes(&scripted).contains(&ip(NEW)), goes_on);
    }
}

#[test]
fn an_adaptation_layer_indication_in_an_asconf_is_ignored() {
    let mut scripted = established(quiet());
    let indication = Parameter::AdaptationLayerIndication { code_point: 1 };
    assert_eq!(responses(&mut scripted, 0, &[indication]), Bytes::new());
}

#[test]
fn a_request_without_an_address_is_refused() {
    let mut scripted = established(quiet());
    // A Host Name Address in an Add IP Address, and nothing at all in another one.
    for (count, rest) in [&[0, 11, 0, 8, b'a', b'.', b'b', 0][..], &[]]
        .iter()
        .enumerate()
    {
        let mut request = vec![0xc0, 1, 0, 8 + rest.len() as u8, 0, 0, 0, 6];
        request.extend_from_slice(rest);
        let lookup = bytes_of(Parameter::from(ip(OLD)));
        let number = peer_number(count as u32);
        let value = [&number.0.to_be_bytes()[..], &lookup, &request].concat();
        let chunk = [
            &[ChunkType::ASCONF.0, 0, 0, value.len() as u8 + 4][..],
            &value,
        ]
        .concat();
        scripted.give_raw(&chunk);
        let refused = Bytes::from(error(6, &Cause::UnresolvableAddress(&request)));
        let sent = scripted.transmits();
        assert_eq!(asconf_acks(&sent), [(peer().remote, number, refused)]);
    }
    assert_eq!(remotes(&scripted), [ip(OLD)]);
}

#[test]
fn an_asconf_without_a_lookup_address_is_dropped() {
    let mut scripted = established(quiet());
    let number = peer_number(0).0.to_be_bytes();
    let without = [&[ChunkType::ASCONF.0, 0, 0, 8], &number[..]].concat();
    let request = bytes_of(add(1, NEW));
    let wrong = [&[ChunkType::ASCONF.0, 0, 0, 24], &number[..], &request].concat();
    for chunk in [&without[..], &wrong, &[ChunkType::ASCONF.0, 0, 0, 4]] {
        scripted.give_raw(chunk);
        assert!(scripted.take().is_empty());
    }
    assert_eq!(scripted.endpoint.statistics().drops.chunks, 3);
    assert_eq!(responses(&mut scripted, 0, &[]), Bytes::new());
}

#[test]
fn thousands_of_requests_are_answered_within_a_packet() {
    let addresses: Vec<String> = (0..4000)
        .map(|number| format!("198.51.{}.{}", number / 250, number % 250 + 1))
        .collect();
    let adds: Vec<_> = addresses
        .iter()
        .zip(1..)
        .map(|(address, id)| add(id, address))
        .collect();
    let primaries: Vec<_> = addresses
        .iter()
        .zip(1..)
        .map(|(address, id)| set_primary(id, address))
        .collect();
    let churn: Vec<_> = (0..4000)
        .map(|number| {
            if number % 2 == 0 {
                add(number, NEW)
            } else {
                delete(number, NEW)
            }
        })
        .collect();
    let unknown: Vec<u8> = (0..4000_u32)
        .flat_map(|id| [&[0xf3, 0x33, 0, 8], &id.to_be_bytes()[..]].concat())
        .collect();
    for requests in [adds, primaries, churn] {
        let mut scripted = established(quiet());
        let sent = give(&mut scripted, peer(), peer_number(0), &requests);
        assert_eq!(asconf_acks(&sent).len(), 1);
        assert!(sent.iter().all(|transmit| transmit.packet.len() <= 1480));
        let max = scripted.endpoint.config().association.max_peer_addresses;
        assert!(remotes(&scripted).len() <= max);
        // One probe, however many addresses there are.
        let heartbeats = sent
            .iter()
            .flat_map(|transmit| types(std::slice::from_ref(&transmit.packet)));
        let heartbeats = heartbeats
            .flatten()
            .filter(|kind| *kind == ChunkType::HEARTBEAT);
        assert!(heartbeats.count() <= 1);
    }
    let mut scripted = established(quiet());
    let lookup = bytes_of(Parameter::from(ip(OLD)));
    let value = [&peer_number(0).0.to_be_bytes()[..], &lookup, &unknown].concat();
    let length = (value.len() as u16 + 4).to_be_bytes();
    scripted.give_raw(&[&[ChunkType::ASCONF.0, 0], &length[..], &value].concat());
    let sent = scripted.transmits();
    assert_eq!(asconf_acks(&sent).len(), 1);
    assert!(sent.iter().all(|transmit| transmit.packet.len() <= 1480));
}

#[test]
fn a_host_whose_only_address_has_changed_is_found_by_the_lookup_address() {
    let mut scripted = established(quiet());
    scripted.send(0, b"before");
    scripted.take();
    scripted.events.clear();
    let sent = give(
        &mut scripted,
        new(),
        peer_number(0),
        &[add(1, NEW), delete(2, OLD)],
    );
    assert_eq!(
        asconf_acks(&sent),
        [(ip(NEW), peer_number(0), Bytes::new())]
    );
    assert_eq!(
        types(std::slice::from_ref(&sent[0].packet)),
        [[ChunkType::ASCONF_ACK, ChunkType::HEARTBEAT]]
    );
    assert_eq!(remotes(&scripted), [ip(NEW)]);
    let changes: Vec<_> = scripted
        .events
        .iter()
        .filter_map(|event| match event {
            Event::PathStateChanged { path, change, .. } => Some((path.remote, *change)),
            _ => None,
        })
        .collect();
    assert_eq!(
        changes,
        [
            (ip(NEW), PathChange::Added),
            (ip(OLD), PathChange::Removed),
            (ip(NEW), PathChange::MadePrimary)
        ]
    );
    // Nothing more leaves until the address is verified, and then what was in flight goes again.
    scripted.send(0, b"after");
    assert!(scripted.take().is_empty());
    scripted.answer_heartbeat(&sent[0]);
    let sent = scripted.transmits();
    assert!(sent.iter().all(|transmit| transmit.path.remote == ip(NEW)));
    let packets: Vec<Bytes> = sent.into_iter().map(|transmit| transmit.packet).collect();
    let tsn = scripted.tsn;
    assert_eq!(crate::rfc9260::scripted::data_in(&packets, tsn), [0, 1]);
}

#[test]
fn what_follows_in_the_packet_counts_once_the_address_is_added() {
    let mut scripted = established(quiet());
    let data = crate::rfc9260::scripted::bytes_of(&[Chunk::Data(message(0, b"data"))]);
    let refused = asconf(peer_number(0), OLD, &[add(1, "224.0.0.1")]);
    let packet = raw(scripted.tag, &[&refused[..], &data].concat());
    scripted.give_from(new(), packet);
    assert!(scripted.receive().is_empty());
    assert_eq!(scripted.endpoint.statistics().drops.unknown_path, 1);
    let added = asconf(peer_number(1), OLD, &[add(1, NEW)]);
    let packet = raw(scripted.tag, &[&added[..], &data].concat());
    scripted.give_from(new(), packet);
    assert_eq!(scripted.receive().len(), 1);
}

#[test]
fn a_packet_from_elsewhere_without_the_right_lookup_address_is_dropped() {
    let mut scripted = established(quiet());
    let stray = [
        asconf(peer_number(0), NEW, &[add(1, NEW)]),
        asconf(peer_number(0), "203.0.113.1", &[add(1, NEW)]),
        crate::rfc9260::scripted::bytes_of(&[Chunk::Data(message(0, b"data"))]),
        crate::rfc9260::scripted::bytes_of(&[Chunk::ShutdownAck]),
    ];
    for chunk in &stray {
        let packet = raw(scripted.tag, chunk);
        scripted.give_from(new(), packet);
        assert!(scripted.take().is_empty());
    }
    // Data in front of the ASCONF.
    let packet = [&stray[2][..], &asconf(peer_number(0), OLD, &[add(1, NEW)])].concat();
    let packet = raw(scripted.tag, &packet);
    scripted.give_from(new(), packet);
    assert!(scripted.take().is_empty() && scripted.receive().is_empty());
    assert_eq!(scripted.endpoint.statistics().drops.unknown_path, 5);
    assert_eq!(remotes(&scripted), [ip(OLD)]);
    // The lookup address may be left open.
    let packet = raw(
        scripted.tag,
        &asconf(peer_number(0), "0.0.0.0", &[add(1, NEW)]),
    );
    scripted.give_from(new(), packet);
    assert_eq!(remotes(&scripted), [ip(OLD), ip(NEW)]);
}

#[test]
fn a_forged_verification_tag_changes_nothing() {
    let mut scripted = established(quiet());
    for from in [peer(), new()] {
        let forged = raw(
            scripted.tag ^ 1,
            &asconf(peer_number(0), OLD, &[add(1, NEW)]),
        );
        scripted.give_from(from, forged);
    }
    assert_eq!(remotes(&scripted), [ip(OLD)]);
    assert_eq!(scripted.state(), AssociationState::Established);
    // The one from elsewhere is out of the blue.
    let answers = scripted.transmits();
    assert!(
        answers
            .iter()
            .all(|transmit| transmit.path.remote == ip(NEW))
    );
}

#[test]
fn data_that_was_sent_to_a_deleted_address_is_sent_again() {
    let mut scripted = with_new_address(quiet());
    for _ in 0..3 {
        scripted.send(0, &[0; 1000]);
    }
    let sent = scripted.transmits();
    assert!(sent.iter().all(|transmit| transmit.path.remote == ip(OLD)));
    let sent = give(&mut scripted, new(), peer_number(1), &[delete(1, OLD)]);
    assert!(sent.iter().all(|transmit| transmit.path.remote == ip(NEW)));
    let packets: Vec<Bytes> = sent.into_iter().map(|transmit| transmit.packet).collect();
    let tsn = scripted.tsn;
    assert_eq!(crate::rfc9260::scripted::data_in(&packets, tsn), [0, 1, 2]);
    assert_eq!(scripted.path(new()).outstanding_bytes, 3 * 1016);
    // And once more when that is lost, by the timer of the path that is left.
    let sent = scripted.watch(Duration::from_secs(2));
    assert!(!sent.is_empty());
    assert!(
        sent.iter()
            .all(|(_, transmit)| transmit.path.remote == ip(NEW))
    );
    scripted.give_from(new(), raw(scripted.tag, &sack_of(tsn + 2)));
    assert_eq!(scripted.status().outstanding_bytes, 0);
}

fn sack_of(cumulative: sctp::packet::Tsn) -> Vec<u8> {
    crate::rfc9260::scripted::packet_of(0, |writer| {
        let (gaps, duplicates) = ([].into_iter(), [].into_iter());
        writer
            .sack(cumulative, 100_000, 0, gaps, duplicates)
            .expect("it fits");
    })[12..]
        .to_vec()
}

#[test]
fn a_gap_that_the_peer_reneges_on_after_its_path_was_deleted_is_filled() {
    let mut scripted = with_new_address(quiet());
    for _ in 0..3 {
        scripted.send(0, &[0; 1000]);
    }
    scripted.take();
    scripted.give_sack(0, &[(1, 1)], 100_000);
    give(&mut scripted, new(), peer_number(1), &[delete(1, OLD)]);
    let tsn = scripted.tsn;
    scripted.give_from(new(), raw(scripted.tag, &sack_of(tsn.previous())));
    assert_eq!(scripted.path(new()).outstanding_bytes, 3 * 1016);
    // It is lost with the others, and goes again in its turn.
    scripted.pass(Duration::from_secs(2));
    scripted.give_from(new(), raw(scripted.tag, &sack_of(tsn)));
    let packets = scripted.pass(Duration::from_secs(1));
    assert!(crate::rfc9260::scripted::data_in(&packets, tsn).contains(&1));
}

#[test]
fn what_waits_for_a_deleted_path_does_not_go_there() {
    let mut scripted = with_new_address(quiet());
    let heartbeat =
        crate::rfc9260::scripted::bytes_of(&[Chunk::Heartbeat(sctp::packet::Heartbeat {
            parameters: Parameters::new(&[0, 1, 0, 8, 1, 2, 3, 4]),
        })]);
    let unknown = [0xfe, 0, 0, 4];
    scripted.give_packet(raw(scripted.tag, &[&heartbeat[..], &unknown].concat()));
    let delete = raw(
        scripted.tag,
        &asconf(peer_number(1), NEW, &[delete(1, OLD)]),
    );
    scripted.give_from(new(), delete);
    let sent = scripted.transmits();
    assert!(sent.iter().all(|transmit| transmit.path.remote == ip(NEW)));
    let kinds = types(
        &sent
            .iter()
            .map(|transmit| transmit.packet.clone())
            .collect::<Vec<_>>(),
    );
    assert!(kinds.concat().contains(&ChunkType::ERROR));
    assert!(!kinds.concat().contains(&ChunkType::HEARTBEAT_ACK));
    // Nor is anything taken from there.
    let data = crate::rfc9260::scripted::bytes_of(&[Chunk::Data(message(0, b"data"))]);
    scripted.give_packet(raw(scripted.tag, &data));
    assert!(scripted.receive().is_empty() && scripted.take().is_empty());
    assert_eq!(scripted.endpoint.statistics().drops.unknown_path, 1);
}

#[test]
fn the_primary_path_is_deleted() {
    let mut scripted = with_new_address(quiet());
    give(&mut scripted, new(), peer_number(1), &[delete(1, OLD)]);
    assert_eq!(scripted.status().primary, ip(NEW));
    let made_primary = scripted.events.iter().any(|event| {
        matches!(event, Event::PathStateChanged { path, change: PathChange::MadePrimary, .. }
            if path.remote == ip(NEW))
    });
    assert!(made_primary);
}

#[test]
fn a_shutdown_goes_on_when_its_path_is_deleted() {
    let mut scripted = with_new_address(quiet());
    scripted.give_shutdown();
    let sent = scripted.transmits();
    assert_eq!(scripted.state(), AssociationState::ShutdownAckSent);
    assert!(sent.iter().all(|transmit| transmit.path.remote == ip(OLD)));
    // Section 5.1.1, rule C4: too late for that.
    let sent = give(&mut scripted, new(), peer_number(1), &[delete(1, OLD)]);
    assert!(asconf_acks(&sent).is_empty());

    let mut scripted = with_new_address(quiet());
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.shutdown(now, id).expect("it is there");
    assert_eq!(scripted.state(), AssociationState::ShutdownSent);
    scripted.take();
    let sent = give(&mut scripted, new(), peer_number(1), &[delete(1, OLD)]);
    assert_eq!(
        asconf_acks(&sent),
        [(ip(NEW), peer_number(1), Bytes::new())]
    );
    let sent = scripted.watch(Duration::from_secs(3));
    let shutdowns = sent.iter().filter(|(_, transmit)| {
        types(std::slice::from_ref(&transmit.packet))[0].contains(&ChunkType::SHUTDOWN)
    });
    assert!(shutdowns.clone().count() >= 1);
    assert!(
        shutdowns
            .clone()
            .all(|(_, transmit)| transmit.path.remote == ip(NEW))
    );
    scripted.give_from(new(), raw(scripted.tag, &[8, 0, 0, 4]));
    assert_eq!(scripted.state(), AssociationState::Closed);
}

#[test]
fn an_association_ends_whose_peer_cannot_be_reached_for_the_shutdown() {
    let mut scripted = established(quiet());
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.shutdown(now, id).expect("it is there");
    scripted.take();
    // In SHUTDOWN-SENT no address is verified.
    let sent = give(
        &mut scripted,
        new(),
        peer_number(0),
        &[add(1, NEW), delete(2, OLD)],
    );
    assert_eq!(asconf_acks(&sent).len(), 1);
    for (_, transmit) in scripted.watch(Duration::from_secs(600)) {
        let chunks = chunks(&transmit.packet);
        let is_abort = matches!(chunks[..], [Chunk::Abort(_)]);
        assert!(is_abort, "{chunks:?}");
    }
    assert_eq!(scripted.state(), AssociationState::Closed);
}

#[test]
fn without_the_extension_an_asconf_is_a_chunk_that_nobody_knows() {
    for config in [quiet(), with_asconf(quiet())] {
        let mut scripted = Scripted::accepted(config);
        let chunk = asconf(peer_number(0), OLD, &[add(1, NEW)]);
        scripted.give_raw(&chunk);
        let packets = scripted.take();
        let answer = chunks(&packets[0]);
        let [Chunk::Error(error)] = answer[..] else {
            panic!("an ERROR: {answer:?}");
        };
        let cause = error.causes.iter().next();
        assert_eq!(cause, Some(Ok(Cause::UnrecognizedChunkType(&chunk))));
        // Nor is it looked at when it comes from elsewhere.
        let packet = raw(scripted.tag, &chunk);
        scripted.give_from(new(), packet);
        assert!(scripted.take().is_empty());
        assert_eq!(remotes(&scripted), [ip(OLD)]);
    }
}
