//! Messages of M3UA at times that the test chooses.

use bytes::Bytes;
use m3ua::message::{
    AspActive, AspInactive, AspUp, Data, Destinations, ErrorCode, ErrorMessage, Notify,
    ProtocolData, RegistrationResult, RegistrationStatus, RoutingKey, Status,
};
use m3ua::{AspState, PointCode};
use sctp::packet::Tsn;

use super::*;
use crate::association_name::AssociationNames;
use crate::{Endpoint, EventKind, Time, UserMessage};

const MS: i64 = 1_000_000;

/// An ASP on port 3000, and an SGP on port 2905.
struct Script {
    view: M3uaView,
    names: AssociationNames,
    packet: u64,
}

impl Script {
    fn new(most: usize) -> Script {
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        Script {
            view: M3uaView::new(hasher.clone(), most, Variant::Itu, true),
            names: AssociationNames::new(hasher, 100),
            packet: 0,
        }
    }

    fn event(&mut self, milliseconds: i64, from_asp: bool, asp: u16) -> Event<'static> {
        let [asp, sgp] = [asp, 2905].map(|port| Endpoint {
            address: [192, 0, 2, 1].into(),
            port,
        });
        let (source, destination) = match from_asp {
            true => (asp, sgp),
            false => (sgp, asp),
        };
        self.packet += 1;
        Event {
            time: Time(milliseconds * MS),
            file: 0,
            packet: self.packet,
            source,
            destination,
            kind: EventKind::M3ua {
                message: UserMessage {
                    stream: 0,
                    tsn: Tsn(0),
                    payload_protocol: 3,
                    fragments: 1,
                    unordered: false,
                    encapsulated: false,
                },
                sender: self.names.sender(source, destination, 7),
                octets: &[],
            },
        }
    }

    /// A message at so many milliseconds, of the ASP with this port or to it.
    fn see_of(&mut self, asp: u16, milliseconds: i64, from_asp: bool, message: &Message) {
        let event = self.event(milliseconds, from_asp, asp);
        let octets = message.write().expect("it fits");
        let EventKind::M3ua { sender, .. } = event.kind else {
            panic!("{event:?}");
        };
        self.view.observe(&event, sender, &octets, Some(0));
    }

    fn see(&mut self, milliseconds: i64, from_asp: bool, message: &Message) {
        self.see_of(3000, milliseconds, from_asp, message);
    }

    fn end(&mut self, milliseconds: i64) {
        let event = self.event(milliseconds, false, 3000);
        self.view.end(0, &event);
    }
}

fn point_code(value: u32) -> PointCode {
    PointCode::new(value).expect("24 bits")
}

fn data(dpc: u32, user_data: &'static [u8]) -> Message {
    Message::Data(Data {
        network_appearance: None,
        routing_context: None,
        protocol_data: ProtocolData {
            opc: point_code(1),
            dpc: point_code(dpc),
            service_indicator: 5,
            network_indicator: 2,
            message_priority: 0,
            sls: 0,
            user_data: Bytes::from_static(user_data),
        },
        correlation_id: None,
    })
}

fn active(routing_contexts: Vec<u32>) -> AspActive {
    AspActive {
        traffic_mode: None,
        routing_contexts,
        info: None,
    }
}

fn destinations(affected: &[u32]) -> Destinations {
    Destinations {
        network_appearance: None,
        routing_contexts: Vec::new(),
        affected: affected.iter().map(|to| point_code(*to).into()).collect(),
        info: None,
    }
}

/// RFC 4666 section 5.1.1: an ASP comes up and becomes active, and goes.
#[test]
fn states_follow_the_acknowledgements() {
    let mut script = Script::new(10);
    let up = AspUp::default();
    script.see(0, true, &Message::AspUp(up.clone()));
    script.see(5, false, &Message::AspUpAck(up));
    let notify = |status| {
        Message::Notify(Notify {
            status,
            asp_identifier: None,
            routing_contexts: vec![1],
            info: None,
        })
    };
    script.see(6, false, &notify(Status::AS_INACTIVE));
    script.see(10, true, &Message::AspActive(active(vec![1, 2])));
    script.see(12, false, &Message::AspActiveAck(active(vec![1])));
    script.see(13, false, &Message::AspActiveAck(active(vec![2])));
    script.see(13, false, &Message::AspActiveAck(active(vec![2])));
    script.see(14, false, &notify(Status::AS_ACTIVE));
    let inactive = |routing_contexts| AspInactive {
        routing_contexts,
        info: None,
    };
    script.see(20, true, &Message::AspInactive(inactive(vec![1])));
    script.see(21, false, &Message::AspInactiveAck(inactive(vec![1])));
    script.end(30);
    script.end(31);

    let [association] = script.view.associations() else {
        panic!("{:?}", script.view);
    };
    let states: Vec<(i64, bool, SignallingState)> = association
        .changes()
        .0
        .iter()
        .map(|change| (change.time.0 / MS, change.is_source, change.state.clone()))
        .collect();
    let asp = |state, contexts: &[u32]| SignallingState::Asp(state, contexts.to_vec());
    let expected = [
        (5, asp(AspState::Inactive, &[])),
        (6, SignallingState::As(Status::AS_INACTIVE, vec![1])),
        (12, asp(AspState::Active, &[1])),
        (13, asp(AspState::Active, &[2])),
        (14, SignallingState::As(Status::AS_ACTIVE, vec![1])),
        (21, asp(AspState::Inactive, &[1])),
        (30, SignallingState::AspLost),
    ]
    .map(|(time, state)| (time, true, state));
    assert_eq!(states, expected);
    assert_eq!(association.asp_state(true), Some(AspState::Down));
    assert_eq!(association.asp_state(false), None);
    let transactions = script.view.transactions();
    let answered = |kind| transactions[&kind].answered;
    assert_eq!(answered(Kind::AspUp), 1);
    assert_eq!(answered(Kind::AspActive), 1);
    assert_eq!(association.unanswered().count(), 0);
    let delay = transactions[&Kind::AspUp].delay.maximum();
    assert_eq!(delay, Some(std::time::Duration::from_millis(5)));
}

#[test]
fn requests_without_an_answer_are_told() {
    let mut script = Script::new(10);
    // Sent again after T(ack), and answered never.
    for time in [0, 2000, 4000] {
        script.see(time, true, &Message::AspUp(AspUp::default()));
    }
    let key = |local_rk_identifier| RoutingKey {
        local_rk_identifier,
        routing_context: None,
        traffic_mode: None,
        network_appearance: None,
        selections: Vec::new(),
        unsupported_parameter: None,
    };
    script.see(10, true, &Message::RegReq(vec![key(1), key(2)]));
    let result = RegistrationResult {
        local_rk_identifier: 2,
        status: RegistrationStatus::REGISTERED,
        routing_context: 5,
    };
    script.see(20, false, &Message::RegRsp(vec![result]));
    // Of three destinations one is unavailable, one is nobody's business, and nothing is said of the third.
    script.see(30, true, &Message::Daud(destinations(&[11, 12, 13])));
    script.see(31, false, &Message::Duna(destinations(&[11])));
    let mut refused = ErrorMessage::new(ErrorCode::DESTINATION_STATUS_UNKNOWN);
    refused.affected = destinations(&[12]).affected;
    script.see(32, false, &Message::Error(refused));
    script.see(40, true, &Message::Beat(Some(Bytes::from_static(b"one"))));
    script.see(
        41,
        false,
        &Message::BeatAck(Some(Bytes::from_static(b"two"))),
    );

    let [association] = script.view.associations() else {
        panic!("{:?}", script.view);
    };
    let unanswered: Vec<(&str, u64)> = association
        .unanswered()
        .map(|request| (request.request.as_str(), request.repeats))
        .collect();
    let expected = [
        ("ASPUP", 2),
        ("REG REQ rk=1", 0),
        ("DAUD 0-1-5", 0),
        ("BEAT", 0),
    ];
    assert_eq!(unanswered, expected);
    let transactions = script.view.transactions();
    let counts = |kind| {
        let one: &M3uaTransactions = &transactions[&kind];
        (one.answered, one.refused, one.unanswered)
    };
    assert_eq!(counts(Kind::RegReq), (1, 0, 1));
    assert_eq!(counts(Kind::Daud), (1, 1, 1));
    // What the association's end leaves is told, too.
    script.end(50);
    assert_eq!(script.view.transactions()[&Kind::AspUp].unanswered, 1);
    let [association] = script.view.associations() else {
        panic!("{:?}", script.view);
    };
    assert_eq!(association.unanswered().count(), 4);
}

/// An ERR has the message that it refuses as its diagnostic information (section 3.8.1).
#[test]
fn an_error_refuses_the_request_that_it_quotes() {
    let mut script = Script::new(10);
    script.see(0, true, &Message::AspUp(AspUp::default()));
    script.see(1, true, &Message::AspActive(active(Vec::new())));
    let mut error = ErrorMessage::new(ErrorCode::UNEXPECTED_MESSAGE);
    let quoted = Message::AspActive(active(Vec::new())).write();
    error.diagnostic = Some(quoted.expect("it fits"));
    script.see(2, false, &Message::Error(error));
    let transactions = script.view.transactions();
    assert_eq!(transactions[&Kind::AspActive].refused, 1);
    assert_eq!(transactions[&Kind::AspUp].unanswered, 1);
}

#[test]
fn data_is_counted_by_destination_user_and_message() {
    let mut script = Script::new(10);
    script.see(0, true, &data(2, &[5, 0, 0x06]));
    script.see(1, false, &data(2, &[5, 0, 0x06]));
    script.see(2, false, &data(3, &[5, 0, 0x0c, 1]));
    let rows: Vec<(u32, String, u64, u64)> = script
        .view
        .user_messages()
        .map(|(kind, counted)| {
            let name = format!("{} {}", kind.user(), kind.name());
            (kind.dpc.value(), name, counted.messages, counted.octets)
        })
        .collect();
    assert_eq!(
        rows,
        [
            (2, "ISUP ACM".to_owned(), 2, 6),
            (3, "ISUP REL".to_owned(), 1, 4)
        ]
    );
}

#[test]
fn what_is_kept_is_bounded() {
    let mut script = Script::new(2);
    for asp in 3000..3010 {
        script.see_of(asp, 0, true, &Message::AspUp(AspUp::default()));
    }
    assert_eq!(script.view.associations().len(), 2);
    assert_eq!(script.view.unfollowed(), 8);
    for number in 0..100_000 {
        let beat = Bytes::from(number.to_string());
        script.see(number, true, &Message::Beat(Some(beat)));
        script.see(number, true, &data(number as u32 % 9000, &[]));
        let ack = match number % 2 {
            0 => Message::AspUpAck(AspUp::default()),
            _ => Message::AspActiveAck(active(vec![number as u32])),
        };
        script.see(number, false, &ack);
    }
    let association = &script.view.associations()[0];
    assert!(association.unanswered().count() <= 512);
    assert!(association.untracked_requests() > 90_000);
    let (changes, omitted) = association.changes();
    assert_eq!((changes.len(), omitted > 90_000), (256, true));
    let (arrows, omitted) = association.arrows();
    assert!(arrows.len() <= 500 && omitted > 0);
    assert!(script.view.user_messages().len() <= 4096);
    assert!(script.view.other_user_messages().messages > 0);
    let all: u64 = script.view.messages().values().sum();
    assert_eq!(all, 300_010);
}

/// Heartbeats that nobody answers leave room for other requests and their answers, and for younger heartbeats.
#[test]
fn unanswered_heartbeats_are_in_the_way_of_nothing_else() {
    let mut script = Script::new(10);
    let beat = |number: i64| Bytes::from(number.to_string());
    script.see(0, true, &Message::Daud(destinations(&[11])));
    for number in 0..2_000 {
        script.see(number, true, &Message::Beat(Some(beat(number))));
    }
    script.see(2_000, true, &Message::AspUp(AspUp::default()));
    script.see(2_001, false, &Message::AspUpAck(AspUp::default()));
    script.see(2_002, false, &Message::BeatAck(Some(beat(1_999))));
    script.see(2_003, false, &Message::Dava(destinations(&[11])));
    let transactions = script.view.transactions();
    let answered = |kind| transactions[&kind].answered;
    assert_eq!(
        [Kind::AspUp, Kind::Beat, Kind::Daud].map(answered),
        [1, 1, 1]
    );
    let association = &script.view.associations()[0];
    let waiting: Vec<&UnansweredRequest> = association.unanswered().collect();
    assert!(waiting.iter().all(|it| it.time > Time(1_400 * MS)));
    let beats = association.untracked_requests() + waiting.len() as u64 + 1;
    assert_eq!(beats, 2_000);
}

/// However many ASs there were before, the states of those that are talked of are followed.
#[test]
fn states_of_ass_are_followed_however_many_there_are() {
    let mut script = Script::new(10);
    let notify = |status, context| {
        Message::Notify(Notify {
            status,
            asp_identifier: None,
            routing_contexts: vec![context],
            info: None,
        })
    };
    let changes = |script: &Script| {
        let (kept, omitted) = script.view.associations()[0].changes();
        kept.len() as u64 + omitted
    };
    for context in 0..5_000 {
        script.see(0, false, &Message::AspActiveAck(active(vec![context])));
        script.see(0, false, &notify(Status::AS_ACTIVE, context));
    }
    let before = changes(&script);
    assert_eq!(before, 10_000);
    // What is said again is no change.
    script.see(1, false, &notify(Status::AS_ACTIVE, 4_999));
    assert_eq!(changes(&script), before);
    script.see(2, false, &notify(Status::AS_PENDING, 4_999));
    script.see(3, false, &notify(Status::AS_PENDING, 4_999));
    assert_eq!(changes(&script), before + 1);
    let inactive = Message::AspInactiveAck(AspInactive {
        routing_contexts: vec![4_999],
        info: None,
    });
    script.see(4, false, &inactive);
    script.see(5, false, &inactive);
    assert_eq!(changes(&script), before + 2);
}

#[test]
fn octets_that_are_no_message_are_counted() {
    let mut script = Script::new(10);
    let event = script.event(0, true, 3000);
    let EventKind::M3ua { sender, .. } = event.kind else {
        panic!("{event:?}");
    };
    for octets in [&[][..], &[1, 0, 1], &[1, 0, 1, 1, 0, 0, 0, 8], &[9; 40]] {
        script.view.observe(&event, sender, octets, None);
    }
    assert_eq!(script.view.malformed(), 4);
    assert!(!script.view.is_empty() && script.view.messages().is_empty());
}
