//! The wire format, octet by octet, and by properties.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::{MaskedPointCode, PointCode};

/// Octets written in hexadecimal, with any blanks.
fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|it| !it.is_ascii_whitespace())
        .collect();
    let octets = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).expect("ASCII");
        u8::from_str_radix(pair, 16).expect("hexadecimal")
    });
    octets.collect()
}

fn pc(value: u32) -> PointCode {
    PointCode::new(value).expect("24 bits")
}

fn destinations() -> Destinations {
    Destinations {
        network_appearance: Some(7),
        routing_contexts: vec![100, 101],
        affected: vec![
            pc(0x1234).into(),
            MaskedPointCode {
                mask: 3,
                point_code: pc(0x0810),
            },
        ],
        info: Some(Bytes::from_static(b"why")),
    }
}

/// Every message with its octets, laid out as in the RFC.
fn examples() -> Vec<(Message, &'static str)> {
    const DESTINATIONS: &str = "0200 0008 00000007 0006 000c 00000064 00000065
        0012 000c 00001234 03000810 0004 0007 776879 00";
    let with = |header: &str| -> &'static str { format!("{header} {DESTINATIONS}").leak() };
    let info = || Some(Bytes::from_static(b"hi"));
    vec![
        (
            Message::Error(ErrorMessage {
                code: ErrorCode::INVALID_ROUTING_CONTEXT,
                routing_contexts: vec![9],
                affected: vec![pc(5).into()],
                network_appearance: Some(1),
                diagnostic: Some(Bytes::from_static(b"12345")),
            }),
            "01000000 00000034 000c 0008 00000019 0006 0008 00000009 0012 0008 00000005
             0200 0008 00000001 0007 0009 31323334 35000000",
        ),
        (
            Message::Notify(Notify {
                status: Status::AS_PENDING,
                asp_identifier: Some(2),
                routing_contexts: vec![9],
                info: info(),
            }),
            "01000001 00000028 000d 0008 0001 0004 0011 0008 00000002 0006 0008 00000009
             0004 0006 6869 0000",
        ),
        (
            Message::Data(Data {
                network_appearance: Some(1),
                routing_context: Some(2),
                protocol_data: ProtocolData {
                    opc: pc(0x0102),
                    dpc: pc(0x0304),
                    service_indicator: 5,
                    network_indicator: 2,
                    message_priority: 1,
                    sls: 13,
                    user_data: Bytes::from_static(&[0xaa, 0xbb, 0xcc]),
                },
                correlation_id: Some(3),
            }),
            "01000101 00000034 0200 0008 00000001 0006 0008 00000002
             0210 0013 00000102 00000304 05 02 01 0d aabbcc 00 0013 0008 00000003",
        ),
        (Message::Duna(destinations()), with("01000201 00000030")),
        (Message::Dava(destinations()), with("01000202 00000030")),
        (Message::Daud(destinations()), with("01000203 00000030")),
        (Message::Drst(destinations()), with("01000206 00000030")),
        (
            Message::Scon(SignallingCongestion {
                destinations: Destinations {
                    network_appearance: None,
                    routing_contexts: vec![],
                    affected: vec![pc(5).into()],
                    info: info(),
                },
                concerned: Some(pc(6)),
                level: Some(2),
            }),
            "01000204 00000028 0012 0008 00000005 0206 0008 00000006 0205 0008 00000002
             0004 0006 6869 0000",
        ),
        (
            Message::Dupu(UserPartUnavailable {
                network_appearance: Some(1),
                routing_contexts: vec![2],
                affected: pc(5),
                user: ServiceIndicator::SCCP,
                cause: UnavailabilityCause::INACCESSIBLE,
                info: info(),
            }),
            "01000205 00000030 0200 0008 00000001 0006 0008 00000002 0012 0008 00000005
             0204 0008 0002 0003 0004 0006 6869 0000",
        ),
        (
            Message::AspUp(AspUp {
                asp_identifier: Some(4),
                info: info(),
            }),
            "01000301 00000018 0011 0008 00000004 0004 0006 6869 0000",
        ),
        (Message::AspUpAck(AspUp::default()), "01000304 00000008"),
        (
            Message::AspDown(AspDown { info: info() }),
            "01000302 00000010 0004 0006 6869 0000",
        ),
        (Message::AspDownAck(AspDown::default()), "01000305 00000008"),
        (
            Message::Beat(Some(Bytes::from_static(b"beat"))),
            "01000303 00000010 0009 0008 62656174",
        ),
        (Message::BeatAck(None), "01000306 00000008"),
        (
            Message::AspActive(AspActive {
                traffic_mode: Some(TrafficMode::LOADSHARE),
                routing_contexts: vec![1, 2],
                info: info(),
            }),
            "01000401 00000024 000b 0008 00000002 0006 000c 00000001 00000002 0004 0006 6869 0000",
        ),
        (
            Message::AspActiveAck(AspActive::default()),
            "01000403 00000008",
        ),
        (
            Message::AspInactive(AspInactive {
                routing_contexts: vec![1],
                info: None,
            }),
            "01000402 00000010 0006 0008 00000001",
        ),
        (
            Message::AspInactiveAck(AspInactive {
                routing_contexts: vec![1],
                info: info(),
            }),
            "01000404 00000018 0006 0008 00000001 0004 0006 6869 0000",
        ),
        (
            Message::RegReq(vec![RoutingKey {
                local_rk_identifier: 1,
                routing_context: Some(2),
                traffic_mode: Some(TrafficMode::OVERRIDE),
                network_appearance: Some(3),
                selections: vec![
                    TrafficSelection {
                        dpc: pc(0x10).into(),
                        service_indicators: vec![3, 5],
                        opcs: vec![pc(0x20).into(), pc(0x21).into()],
                    },
                    TrafficSelection {
                        dpc: pc(0x11).into(),
                        service_indicators: vec![],
                        opcs: vec![],
                    },
                ],
                unsupported_parameter: None,
            }]),
            "01000901 00000050 0207 0048 020a 0008 00000001 0006 0008 00000002
             000b 0008 00000001 0200 0008 00000003
             020b 0008 00000010 020c 0006 0305 0000 020e 000c 00000020 00000021 020b 0008 00000011",
        ),
        (
            Message::RegRsp(vec![RegistrationResult {
                local_rk_identifier: 1,
                status: RegistrationStatus::INVALID_DPC,
                routing_context: 0,
            }]),
            "01000902 00000024 0208 001c 020a 0008 00000001 0212 0008 00000002 0006 0008 00000000",
        ),
        (
            Message::DeregReq(vec![5, 6]),
            "01000903 00000014 0006 000c 00000005 00000006",
        ),
        (
            Message::DeregRsp(vec![DeregistrationResult {
                routing_context: 5,
                status: DeregistrationStatus::NOT_REGISTERED,
            }]),
            "01000904 0000001c 0209 0014 0006 0008 00000005 0213 0008 00000004",
        ),
    ]
}

#[test]
fn messages_are_laid_out_as_in_the_rfc() {
    let examples = examples();
    for (message, octets) in &examples {
        let octets = hex(octets);
        assert_eq!(message.write().expect("it fits"), octets, "{message:?}");
        assert_eq!(Message::read(&octets).as_ref(), Ok(message));
        assert_eq!(octets.len() % 4, 0, "{message:?}");
    }
    let mut kinds: Vec<Kind> = examples.iter().map(|(message, _)| message.kind()).collect();
    kinds.sort();
    assert_eq!(kinds, Kind::ALL);
}

/// Section 3.2: parameters in any order; section 3: parameters of later versions.
#[test]
fn parameters_come_in_any_order_and_unknown_ones_are_passed_over() {
    let message = hex(
        "01000401 0000002c 0004 0006 6869 0000 4711 0005 ff 000000 0006 0008 00000001
         000b 0008 00000002 0205 0004",
    );
    let active = AspActive {
        traffic_mode: Some(TrafficMode::LOADSHARE),
        routing_contexts: vec![1],
        info: Some(Bytes::from_static(b"hi")),
    };
    assert_eq!(Message::read(&message), Ok(Message::AspActive(active)));
}

/// Section 3.1.4: whether or not the final padding is included in the message length.
#[test]
fn the_last_padding_may_be_missing() {
    let up = Message::AspUp(AspUp {
        asp_identifier: None,
        info: Some(Bytes::from_static(b"hi")),
    });
    for octets in [
        "01000301 00000010 0004 0006 6869 0000",
        "01000301 0000000e 0004 0006 6869 0000",
        "01000301 0000000e 0004 0006 6869",
    ] {
        assert_eq!(Message::read(&hex(octets)).as_ref(), Ok(&up), "{octets}");
    }
}

/// Sections 3.1.3 and 3.4.4.
#[test]
fn reserved_octets_are_not_looked_at() {
    let read = Message::read(&hex("01ff0306 00000008"));
    assert_eq!(read, Ok(Message::BeatAck(None)));
    let congestion =
        hex("01000204 00000020 0012 0008 00000005 0206 0008 ff000006 0205 0008 ffffff02");
    let Ok(Message::Scon(congestion)) = Message::read(&congestion) else {
        panic!("SCON");
    };
    assert_eq!(
        (congestion.concerned, congestion.level),
        (Some(pc(6)), Some(2))
    );
}

#[test]
fn what_is_wrong_has_its_error_code() {
    for (octets, error, code) in [
        ("01000301", ReadError::CutShort, 0x12),
        ("02000301 00000008", ReadError::Version(2), 0x01),
        ("01000501 00000008", ReadError::Class(5), 0x03),
        ("01008001 00000008", ReadError::Class(128), 0x03),
        (
            "01000307 00000008",
            ReadError::Type {
                class: 3,
                message_type: 7,
            },
            0x04,
        ),
        ("01000301 00000004", ReadError::MessageLength(4), 0x07),
        ("01000301 0000000c", ReadError::MessageLength(12), 0x07),
        (
            "01000301 00000008 00000000",
            ReadError::MessageLength(8),
            0x07,
        ),
        (
            "01000301 0000000c 00040003",
            ReadError::ParameterLength(4),
            0x12,
        ),
        (
            "01000301 0000000c 00040009",
            ReadError::ParameterLength(4),
            0x12,
        ),
        (
            "01000301 00000010 0011 0007 00000001",
            ReadError::ParameterLength(0x11),
            0x12,
        ),
        (
            "01000401 0000000c 0006 0004",
            ReadError::ParameterLength(6),
            0x12,
        ),
        ("01000201 00000008", ReadError::Missing(0x12), 0x16),
        ("01000101 00000008", ReadError::Missing(0x210), 0x16),
        ("01000001 00000008", ReadError::Missing(0x0d), 0x16),
        ("01000901 00000008", ReadError::Missing(0x207), 0x16),
        ("01000903 00000008", ReadError::Missing(0x06), 0x16),
        (
            "01000901 0000000c 0207 0004",
            ReadError::Missing(0x20a),
            0x16,
        ),
        (
            "01000301 00000018 0011 0008 00000001 0011 0008 00000001",
            ReadError::Repeated(0x11),
            0x13,
        ),
        (
            "01000901 00000020 0207 0018 020a 0008 00000001 020c 0005 03 000000 0000 0004",
            ReadError::Misplaced(0x20c),
            0x07,
        ),
        // DUPU with a mask (section 3.8.1), and with two point codes.
        (
            "01000205 00000018 0012 0008 01000005 0204 0008 00020003",
            ReadError::Value(0x12),
            0x11,
        ),
        (
            "01000205 0000001c 0012 000c 00000005 00000006 0204 0008 00020003",
            ReadError::Value(0x12),
            0x11,
        ),
        // A point code of more than 24 bits.
        (
            "01000101 00000018 0210 0010 01000000 00000001 05000000",
            ReadError::Value(0x210),
            0x11,
        ),
        (
            "01000101 00000014 0210 000c 01000000 00000001",
            ReadError::ParameterLength(0x210),
            0x12,
        ),
    ] {
        let read = Message::read(&hex(octets));
        assert_eq!(read, Err(error.clone()), "{octets}");
        assert_eq!(error.error_code(), ErrorCode(code), "{octets}");
    }
}

/// RFC 3332 had circuit ranges in routing keys; RFC 4666 answers them "Unsupported RK parameter field".
#[test]
fn a_routing_key_says_which_parameter_it_should_not_have() {
    let message =
        hex("01000901 00000024 0207 001c 020a 0008 00000001 020b 0008 00000010 020f 0008 00000000");
    let Ok(Message::RegReq(keys)) = Message::read(&message) else {
        panic!("REG REQ");
    };
    assert_eq!(keys[0].unsupported_parameter, Some(0x20f));
}

#[test]
fn a_parameter_that_is_too_long_is_not_written() {
    let data = |length: usize| {
        Message::Data(Data {
            network_appearance: None,
            routing_context: None,
            protocol_data: ProtocolData {
                opc: pc(1),
                dpc: pc(2),
                service_indicator: 3,
                network_indicator: 0,
                message_priority: 0,
                sls: 0,
                user_data: vec![0; length].into(),
            },
            correlation_id: None,
        })
    };
    assert!(data(MAX_USER_DATA_LENGTH).write().is_ok());
    let error = data(MAX_USER_DATA_LENGTH + 1).write();
    assert_eq!(error, Err(TooLong(0x210)));
}

#[test]
fn codes_have_names() {
    assert_eq!(ErrorCode(0x19).to_string(), "Invalid Routing Context");
    assert_eq!(ErrorCode(0x2).to_string(), "2");
    assert_eq!(
        ServiceIndicator::named("isup"),
        Some(ServiceIndicator::ISUP)
    );
    assert_eq!(ServiceIndicator::named("3"), Some(ServiceIndicator::SCCP));
    assert_eq!(ServiceIndicator::named("16"), None);
    assert_eq!(ServiceIndicator::named("x"), None);
}

fn any_octets() -> impl Strategy<Value = Option<Bytes>> {
    option::of(vec(any::<u8>(), 0..20).prop_map(Bytes::from))
}

fn any_pc() -> impl Strategy<Value = PointCode> {
    (0..=PointCode::MAX.value()).prop_map(pc)
}

fn any_range() -> impl Strategy<Value = MaskedPointCode> {
    (any::<u8>(), any_pc()).prop_map(|(mask, point_code)| MaskedPointCode { mask, point_code })
}

fn any_contexts() -> impl Strategy<Value = Vec<u32>> {
    vec(any::<u32>(), 0..4)
}

fn any_destinations() -> impl Strategy<Value = Destinations> {
    (
        option::of(any::<u32>()),
        any_contexts(),
        vec(any_range(), 1..4),
        any_octets(),
    )
        .prop_map(
            |(network_appearance, routing_contexts, affected, info)| Destinations {
                network_appearance,
                routing_contexts,
                affected,
                info,
            },
        )
}

fn any_key() -> impl Strategy<Value = RoutingKey> {
    let selection = (any_range(), vec(0u8..16, 0..4), vec(any_range(), 0..3)).prop_map(
        |(dpc, service_indicators, opcs)| TrafficSelection {
            dpc,
            service_indicators,
            opcs,
        },
    );
    (
        any::<u32>(),
        option::of(any::<u32>()),
        option::of(any::<u32>().prop_map(TrafficMode)),
        option::of(any::<u32>()),
        vec(selection, 0..3),
        option::of(Just(0x20f)),
    )
        .prop_map(
            |(id, routing_context, traffic_mode, network_appearance, selections, unsupported)| {
                RoutingKey {
                    local_rk_identifier: id,
                    routing_context,
                    traffic_mode,
                    network_appearance,
                    selections,
                    unsupported_parameter: unsupported,
                }
            },
        )
}

/// Any message that is in order.
pub(crate) fn any_message() -> impl Strategy<Value = Message> {
    let error = (
        any::<u32>(),
        any_contexts(),
        vec(any_range(), 0..3),
        option::of(any::<u32>()),
        any_octets(),
    )
        .prop_map(
            |(code, routing_contexts, affected, network_appearance, diagnostic)| {
                Message::Error(ErrorMessage {
                    code: ErrorCode(code),
                    routing_contexts,
                    affected,
                    network_appearance,
                    diagnostic,
                })
            },
        );
    let notify = (
        any::<u32>(),
        option::of(any::<u32>()),
        any_contexts(),
        any_octets(),
    )
        .prop_map(|(status, asp_identifier, routing_contexts, info)| {
            Message::Notify(Notify {
                status: Status(status),
                asp_identifier,
                routing_contexts,
                info,
            })
        });
    let protocol_data = (
        any_pc(),
        any_pc(),
        any::<[u8; 4]>(),
        vec(any::<u8>(), 0..40),
    )
        .prop_map(|(opc, dpc, [si, ni, mp, sls], user_data)| ProtocolData {
            opc,
            dpc,
            service_indicator: si,
            network_indicator: ni,
            message_priority: mp,
            sls,
            user_data: user_data.into(),
        });
    let data = (
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        protocol_data,
        option::of(any::<u32>()),
    )
        .prop_map(
            |(network_appearance, routing_context, protocol_data, correlation_id)| {
                Message::Data(Data {
                    network_appearance,
                    routing_context,
                    protocol_data,
                    correlation_id,
                })
            },
        );
    let destinations = (any_destinations(), 0..4).prop_map(|(destinations, which)| match which {
        0 => Message::Duna(destinations),
        1 => Message::Dava(destinations),
        2 => Message::Daud(destinations),
        _ => Message::Drst(destinations),
    });
    let congestion = (
        any_destinations(),
        option::of(any_pc()),
        option::of(any::<u8>()),
    )
        .prop_map(|(destinations, concerned, level)| {
            Message::Scon(SignallingCongestion {
                destinations,
                concerned,
                level,
            })
        });
    let unavailable = (any_destinations(), any_pc(), any::<(u16, u16)>()).prop_map(
        |(destinations, affected, (user, cause))| {
            Message::Dupu(UserPartUnavailable {
                network_appearance: destinations.network_appearance,
                routing_contexts: destinations.routing_contexts,
                affected,
                user: ServiceIndicator(user.into()),
                cause: UnavailabilityCause(cause.into()),
                info: destinations.info,
            })
        },
    );
    let up = (option::of(any::<u32>()), any_octets(), any::<bool>()).prop_map(
        |(asp_identifier, info, is_ack)| {
            let up = AspUp {
                asp_identifier,
                info,
            };
            match is_ack {
                true => Message::AspUpAck(up),
                false => Message::AspUp(up),
            }
        },
    );
    let octets = (any_octets(), 0..4).prop_map(|(octets, which)| match which {
        0 => Message::AspDown(AspDown { info: octets }),
        1 => Message::AspDownAck(AspDown { info: octets }),
        2 => Message::Beat(octets),
        _ => Message::BeatAck(octets),
    });
    let traffic = (option::of(any::<u32>()), any_contexts(), any_octets(), 0..4).prop_map(
        |(mode, routing_contexts, info, which)| {
            let active = AspActive {
                traffic_mode: mode.map(TrafficMode),
                routing_contexts: routing_contexts.clone(),
                info: info.clone(),
            };
            let inactive = AspInactive {
                routing_contexts,
                info,
            };
            match which {
                0 => Message::AspActive(active),
                1 => Message::AspActiveAck(active),
                2 => Message::AspInactive(inactive),
                _ => Message::AspInactiveAck(inactive),
            }
        },
    );
    let result = any::<(u32, u32, u32)>();
    prop_oneof![
        error,
        notify,
        data,
        destinations,
        congestion,
        unavailable,
        up,
        octets,
        traffic,
        vec(any_key(), 1..3).prop_map(Message::RegReq),
        vec(result, 1..3).prop_map(|results| {
            let results = results
                .into_iter()
                .map(|(id, status, context)| RegistrationResult {
                    local_rk_identifier: id,
                    status: RegistrationStatus(status),
                    routing_context: context,
                });
            Message::RegRsp(results.collect())
        }),
        vec(any::<u32>(), 1..4).prop_map(Message::DeregReq),
        vec(result, 1..3).prop_map(|results| {
            let results = results
                .into_iter()
                .map(|(context, status, _)| DeregistrationResult {
                    routing_context: context,
                    status: DeregistrationStatus(status),
                });
            Message::DeregRsp(results.collect())
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(message in any_message()) {
        let octets = message.write().expect("it fits");
        prop_assert_eq!(Message::read(&octets), Ok(message));
    }

    #[test]
    fn a_message_cut_short_or_changed_is_read_or_refused(
        message in any_message(),
        at in any::<prop::sample::Index>(),
        octet in any::<u8>(),
        length in any::<prop::sample::Index>(),
    ) {
        let mut octets = message.write().expect("it fits").to_vec();
        let position = at.index(octets.len());
        octets[position] = octet;
        octets.truncate(length.index(octets.len()) + 1);
        if let Ok(read) = Message::read(&octets.into()) {
            let again = read.write().expect("no longer than it was");
            prop_assert_eq!(Message::read(&again), Ok(read));
        }
    }
}
