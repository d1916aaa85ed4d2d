//! Packets without a checksum, where something else protects them (RFC 9653).

use bytes::Bytes;
use sctp::packet::{
    Chunk, ChunkType, CookieEcho, Init, Packet, Parameter, ParameterBuffer, checksum,
};
use sctp::{EndpointConfig, ErrorDetectionMethod, Extensions};

use crate::common::{Pair, chunk_types, ordered, transfer};
use crate::rfc9260::scripted::{
    self, Scripted, bytes_of, chunks, cookie_parameter, message, packet, peer, types,
};

/// Settings of an endpoint on a carrier that protects packets like this.
fn protected(method: ErrorDetectionMethod) -> EndpointConfig {
    with_extension("zero-checksum").alternate_error_detection(Some(method))
}

fn with_extension(name: &str) -> EndpointConfig {
    EndpointConfig::default()
        .extensions(name.parse::<Extensions>().expect("it is a name"))
        .heartbeats(false)
        .path_mtu_discovery(false)
}

/// The Zero Checksum Acceptable parameter for a method.
fn acceptable(method: u32) -> Parameter<'static> {
    Parameter::ZeroChecksumAcceptable {
        error_detection_method: method,
    }
}

/// The methods that an INIT or INIT ACK in a packet announces.
fn announced(packet: &Bytes) -> Vec<u32> {
    let Some(Ok(Chunk::Init(init) | Chunk::InitAck(init))) =
        Packet::read(packet).unwrap().chunks().next()
    else {
        panic!("an INIT or INIT ACK");
    };
    init.parameters
        .iter()
        .filter_map(|parameter| match parameter {
            Ok(Parameter::ZeroChecksumAcceptable {
                error_detection_method,
            }) => Some(error_detection_method),
            _ => None,
        })
        .collect()
}

fn is_zero(packet: &Bytes) -> bool {
    Packet::read(packet).unwrap().header().checksum == 0
}

/// The packet without its checksum.
fn zeroed(packet: &Bytes) -> Bytes {
    let mut bytes = packet.to_vec();
    bytes[8..12].fill(0);
    bytes.into()
}

/// An endpoint that has answered the INIT of a peer with these parameters, and the cookie in its
/// answer.
fn answered(config: EndpointConfig, parameters: &ParameterBuffer) -> (Scripted, Vec<u8>, Bytes) {
    let mut scripted = Scripted::alone(config);
    scripted.give_packet(packet(
        0,
        &[Chunk::Init(Init {
            parameters: parameters.parameters(),
            ..scripted::init()
        })],
    ));
    let answer = scripted.take().remove(0);
    let [Chunk::InitAck(init)] = chunks(&answer)[..] else {
        panic!("an INIT ACK was sent");
    };
    scripted.tag = init.initiate_tag;
    scripted.tsn = init.initial_tsn;
    let cookie = init
        .parameters
        .iter()
        .find_map(|parameter| match parameter {
            Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
            _ => None,
        })
        .expect("a cookie");
    (scripted, cookie, answer)
}

fn parameters(all: &[Parameter<'_>]) -> ParameterBuffer {
    let mut parameters = ParameterBuffer::new();
    for parameter in all {
        parameters.push(parameter).unwrap();
    }
    parameters
}

#[test]
fn checksums_are_left_out_where_both_sides_declare_the_same_method() {
    for method in [ErrorDetectionMethod::Dtls, ErrorDetectionMethod::Tests] {
        let mut pair = Pair::with(protected(method), protected(method));
        let (id, _) = pair.establish();
        assert_eq!(transfer(&mut pair, 20, 3000, ordered(0)).len(), 20);
        pair.client.endpoint.shutdown(pair.now, id).unwrap();
        pair.run();
        assert!(pair.client.is_shut_down() && pair.server.is_shut_down());
        assert_eq!(announced(&pair.client.sent[0].1), [method.identifier()]);
        assert_eq!(announced(&pair.server.sent[0].1), [method.identifier()]);
        let sent = pair.client.sent.iter().chain(&pair.server.sent);
        for (_, packet) in sent {
            let types = chunk_types(packet);
            let needs = [
                ChunkType::INIT,
                ChunkType::COOKIE_ECHO,
                ChunkType::SHUTDOWN_ACK,
            ];
            let needed = types.iter().any(|chunk_type| needs.contains(chunk_type));
            assert_eq!(is_zero(packet), !needed, "{types:?}");
            assert!(!needed || Packet::read(packet).unwrap().has_valid_checksum());
        }
        for host in [&pair.client, &pair.server] {
            assert_eq!(host.endpoint.statistics().drops.checksum, 0);
        }
    }
}

#[test]
fn the_identifiers_are_those_of_the_rfc() {
    assert_eq!(ErrorDetectionMethod::Dtls.identifier(), 1);
    assert_ne!(ErrorDetectionMethod::Tests.identifier(), 0);
    assert_eq!(
        bytes_of(&[Chunk::Init(Init {
            parameters: parameters(&[acceptable(1)]).parameters(),
            ..scripted::init()
        })])[20..],
        [0x80, 1, 0, 8, 0, 0, 0, 1]
    );
}

#[test]
fn all_checksums_are_there_unless_both_sides_declare_the_same() {
    let dtls = || protected(ErrorDetectionMethod::Dtls);
    let of_tests = || protected(ErrorDetectionMethod::Tests);
    let plain = EndpointConfig::default;
    // The carrier is not known to protect anything.
    let undeclared = || with_extension("zero-checksum");
    // The extension is not wanted.
    let unwanted =
        || with_extension("none").alternate_error_detection(Some(ErrorDetectionMethod::Dtls));
    for (client, server) in [
        (dtls(), plain()),
        (plain(), dtls()),
        (dtls(), of_tests()),
        (dtls(), undeclared()),
        (unwanted(), dtls()),
        (undeclared(), undeclared()),
    ] {
        let mut pair = Pair::with(client, server);
        pair.establish();
        assert_eq!(transfer(&mut pair, 5, 3000, ordered(0)).len(), 5);
        for (_, packet) in pair.client.sent.iter().chain(&pair.server.sent) {
            assert!(Packet::read(packet).unwrap().has_valid_checksum());
        }
    }
    for config in [plain(), undeclared(), unwanted()] {
        let mut pair = Pair::with(config, plain());
        pair.establish();
        assert_eq!(announced(&pair.client.sent[0].1), [0; 0]);
    }
}

#[test]
fn an_association_takes_what_it_has_declared_to_take() {
    // Also from a peer that has not declared anything itself.
    for declared in [&[][..], &[acceptable(1)]] {
        let (mut scripted, cookie, answer) =
            answered(protected(ErrorDetectionMethod::Dtls), &parameters(declared));
        assert_eq!(announced(&answer), [1]);
        scripted.echo(&cookie, &[]);
        scripted.take();
        let data = |number| packet(scripted.tag, &[Chunk::Data(message(number, b"zero"))]);
        let (right, zero) = (data(0), zeroed(&data(1)));
        let wrong = {
            let mut bytes = data(2).to_vec();
            bytes[8] ^= 1;
            Bytes::from(bytes)
        };
        for packet in [right, zero, wrong] {
            scripted.give_packet(packet);
        }
        assert_eq!(scripted.receive().len(), 2);
        assert_eq!(scripted.endpoint.statistics().drops.checksum, 1);
    }
}

#[test]
fn an_association_that_has_not_declared_it_takes_none_without_checksum() {
    let config = EndpointConfig::default();
    let (mut scripted, cookie, _) = answered(config, &parameters(&[acceptable(1)]));
    scripted.echo(&cookie, &[]);
    scripted.take();
    let data = packet(scripted.tag, &[Chunk::Data(message(0, b"zero"))]);
    scripted.give_packet(zeroed(&data));
    assert_eq!(scripted.receive(), []);
    assert_eq!(scripted.endpoint.statistics().drops.checksum, 1);
    scripted.send(0, b"answer");
    let packets = scripted.take();
    assert!(Packet::read(&packets[0]).unwrap().has_valid_checksum());
}

#[test]
fn what_belongs_to_no_association_needs_its_checksum() {
    let (mut scripted, cookie, _) = answered(
        protected(ErrorDetectionMethod::Dtls),
        &parameters(&[acceptable(1)]),
    );
    let init = packet(0, &[Chunk::Init(scripted::init())]);
    let echo = packet(
        scripted.tag,
        &[Chunk::CookieEcho(CookieEcho { cookie: &cookie })],
    );
    let out_of_the_blue = packet(77, &[Chunk::Data(message(0, b"zero"))]);
    for packet in [init, echo, out_of_the_blue.clone()] {
        scripted.give_packet(zeroed(&packet));
        assert!(scripted.take().is_empty());
    }
    assert_eq!(scripted.endpoint.statistics().drops.checksum, 3);
    assert_eq!(scripted.endpoint.association_count(), 0);
    assert_eq!(
        sctp::answer_out_of_the_blue(peer(), &zeroed(&out_of_the_blue)),
        None
    );
    // With a checksum it is answered, and so is the answer.
    scripted.give_packet(out_of_the_blue);
    let packets = scripted.take();
    assert_eq!(types(&packets), [[ChunkType::ABORT]]);
    assert!(Packet::read(&packets[0]).unwrap().has_valid_checksum());
}

#[test]
fn the_side_that_opened_learns_from_the_init_ack() {
    for (declared, leaves_out) in [
        (&[][..], false),
        (&[acceptable(2)], false),
        (&[acceptable(0)], false),
        (&[acceptable(1)], true),
        // Of several the first one counts.
        (&[acceptable(1), acceptable(2)], true),
        (&[acceptable(2), acceptable(1)], false),
    ] {
        let mut scripted = Scripted::cookie_wait(protected(ErrorDetectionMethod::Dtls));
        let mut with_cookie = cookie_parameter();
        for parameter in declared {
            with_cookie.push(parameter).unwrap();
        }
        let init_ack = packet(
            scripted.tag,
            &[Chunk::InitAck(Init {
                parameters: with_cookie.parameters(),
                ..scripted::init()
            })],
        );
        // Our INIT has said that it may come without a checksum.
        scripted.give_packet(zeroed(&init_ack));
        let packets = scripted.take();
        assert_eq!(types(&packets), [[ChunkType::COOKIE_ECHO]]);
        assert!(Packet::read(&packets[0]).unwrap().has_valid_checksum());
        scripted.give(&[Chunk::CookieAck]);
        scripted.send(0, b"data");
        let packets = scripted.take();
        assert_eq!(is_zero(&packets[0]), leaves_out);
        let status = scripted.status();
        assert_eq!(status.extensions.zero_checksum, leaves_out);
    }
}

#[test]
fn a_checksum_that_is_zero_by_chance_is_right() {
    // RFC 9653, figure 1.
    let mut bytes = vec![
        0x13, 0x89, 0x13, 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20, 0xfc, 0xb7, 0x5c, 0xca, 0, 0,
        0x05, 0xdc, 0, 1, 0, 1, 0, 0, 0, 0,
    ];
    assert_eq!(checksum::of(&bytes), Some(0));
    assert!(Packet::read(&bytes).unwrap().check().is_ok());
    bytes[20] ^= 1;
    assert!(Packet::read(&bytes).unwrap().check().is_err());
    assert!(
        Packet::read(&bytes)
            .unwrap()
            .check_without_checksum()
            .is_ok()
    );
}

#[test]
fn a_packet_without_checksum_is_checked_in_all_other_ways() {
    let (mut scripted, cookie, _) = answered(
        protected(ErrorDetectionMethod::Dtls),
        &parameters(&[acceptable(1)]),
    );
    scripted.echo(&cookie, &[]);
    scripted.take();
    let mut bytes = packet(scripted.tag, &[Chunk::Data(message(0, b"zero"))]).to_vec();
    bytes[8..12].fill(0);
    bytes[15] = 200;
    scripted.give_packet(bytes.into());
    assert_eq!(scripted.receive(), []);
    assert_eq!(scripted.endpoint.statistics().drops.malformed, 1);
}

#[test]
fn a_restart_declares_anew_what_is_accepted() {
    let methods = [None, Some(ErrorDetectionMethod::Dtls)];
    for (before, after) in [(methods[0], methods[1]), (methods[1], methods[0])] {
        let config = with_extension("zero-checksum").alternate_error_detection(before);
        let (mut scripted, cookie, _) = answered(config, &parameters(&[]));
        scripted.echo(&cookie, &[]);
        scripted.take();
        let mut settings = scripted.endpoint.config().association.clone();
        settings.alternate_error_detection = after;
        let id = scripted.id();
        scripted
            .endpoint
            .configure(scripted.now, id, settings)
            .unwrap();
        let cookie = scripted.cookie_for(Init {
            initiate_tag: 4711,
            ..scripted::init()
        });
        scripted.echo(&cookie, &[]);
        scripted.take();
        let data = packet(scripted.tag, &[Chunk::Data(message(0, b"zero"))]);
        scripted.give_packet(zeroed(&data));
        assert_eq!(scripted.receive().len(), usize::from(after.is_some()));
    }
}
