//! An endpoint that changes its addresses; the test writes the answers of its peer (RFC 5061 sections 5.1
//! and 5.3).

use std::time::Duration;

use sctp::packet::{
    Cause, CauseBuffer, CauseCode, Chunk, ChunkType, ErrorCauseIndication, OperationError,
    Parameter, Parameters,
};
use sctp::{
    AddressChange, AddressChangeError, AddressChangeRefusal, AssociationState, Event,
    LocalAddressState, LostCause, PathAddress,
};

use super::*;
use crate::rfc9260::scripted::{chunks, message, packet, peer, quiet, raw, types};

/// Where the endpoint is at first.
const OURS: &str = "192.0.2.1";
const NEW: &str = "198.51.100.1";
const OTHER: &str = "203.0.113.1";

/// Packets that the peer sends to that address of ours.
fn to(local: &str) -> PathAddress {
    PathAddress {
        local: Some(ip(local)),
        ..peer()
    }
}

/// The endpoint has one address, and knows it from the peer's packets.
fn single_homed() -> Scripted {
    let mut scripted = established(quiet());
    let heartbeat_ack = [5, 0, 0, 4];
    scripted.give_from(to(OURS), raw(scripted.tag, &heartbeat_ack));
    scripted
}

fn change(scripted: &mut Scripted, changes: &[AddressChange]) -> Result<(), AddressChangeError> {
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.change_addresses(now, id, changes)
}

fn added(address: &str) -> AddressChange {
    AddressChange::Add(ip(address))
}

fn deleted(address: &str) -> AddressChange {
    AddressChange::Delete(ip(address))
}

fn preferred(address: &str) -> AddressChange {
    AddressChange::SetPeerPrimary(ip(address))
}

/// The sequence number of our ASCONF after so many others: they begin with our Initial TSN.
fn our_number(scripted: &Scripted, count: u32) -> SequenceNumber {
    SequenceNumber(scripted.tsn.0.wrapping_add(count))
}

/// Gives an ASCONF-ACK, and what is sent then.
fn answer(scripted: &mut Scripted, count: u32, responses: &[Parameter<'_>]) -> Vec<Transmit> {
    let number = our_number(scripted, count);
    let packet = raw(scripted.tag, &asconf_ack(number, responses));
    scripted.give_packet(packet);
    scripted.transmits()
}

fn causes(cause: &Cause<'_>) -> CauseBuffer {
    let mut causes = CauseBuffer::new();
    causes.push(cause).expect("it fits");
    causes
}

fn ours(scripted: &Scripted) -> Vec<(IpAddr, LocalAddressState)> {
    let ours = scripted.endpoint.local_addresses(scripted.id());
    ours.expect("it is there")
}

#[test]
fn an_asconf_has_a_lookup_address_and_all_changes_with_different_ids() {
    let mut scripted = single_homed();
    let changes = [added(NEW), preferred(NEW), deleted(OURS)];
    change(&mut scripted, &changes).expect("they are possible");
    let sent = scripted.transmits();
    let requests = [add(1, NEW), set_primary(2, NEW), delete(3, OURS)];
    let expected = asconf(our_number(&scripted, 0), OURS, &requests);
    assert_eq!(asconfs(&sent), [(Some(ip(NEW)), peer().remote, expected)]);
}

#[test]
fn one_asconf_is_outstanding_at_a_time() {
    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW)]).expect("it is possible");
    assert_eq!(asconfs(&scripted.transmits()).len(), 1);
    change(&mut scripted, &[added(OTHER)]).expect("it is possible");
    change(&mut scripted, &[preferred(OTHER)]).expect("it is possible");
    assert!(scripted.transmits().is_empty());
    let sent = answer(&mut scripted, 0, &[]);
    let second = asconf(our_number(&scripted, 1), OURS, &[add(2, OTHER)]);
    assert_eq!(asconfs(&sent), [(Some(ip(OURS)), peer().remote, second)]);
    let sent = answer(&mut scripted, 1, &[]);
    let third = asconf(our_number(&scripted, 2), OURS, &[set_primary(3, OTHER)]);
    assert_eq!(asconfs(&sent), [(None, peer().remote, third)]);
    assert!(answer(&mut scripted, 2, &[]).is_empty());
    let done = [added(NEW), added(OTHER), preferred(OTHER)].map(|change| (change, Ok(())));
    assert_eq!(outcomes(&scripted.events), done);
}

#[test]
fn too_many_changes_are_not_taken() {
    let mut scripted = single_homed();
    let mut taken = 0;
    while change(&mut scripted, &[preferred(OURS)]).is_ok() {
        taken += 1;
        assert!(taken < 1000, "they are bounded");
    }
    assert_eq!(
        change(&mut scripted, &[preferred(OURS)]),
        Err(AddressChangeError::TooManyChanges)
    );
    // One that is refused leaves nothing behind.
    assert_eq!(
        change(&mut scripted, &[added(NEW)]),
        Err(AddressChangeError::TooManyChanges)
    );
    assert_eq!(ours(&scripted), [(ip(OURS), LocalAddressState::Usable)]);
    for count in 0..taken {
        assert_eq!(asconfs(&scripted.transmits()).len(), 1, "{count}");
        answer_without_taking(&mut scripted, count);
    }
    assert_eq!(outcomes(&scripted.events).len(), taken as usize);

    let many = vec![preferred(OURS); 200];
    assert_eq!(
        change(&mut scripted, &many),
        Err(AddressChangeError::TooManyChanges)
    );
}

fn answer_without_taking(scripted: &mut Scripted, count: u32) {
    let number = our_number(scripted, count);
    let packet = raw(scripted.tag, &asconf_ack(number, &[]));
    scripted.give_packet(packet);
}

#[test]
fn changes_that_make_no_sense_are_not_asked_for() {
    let mut scripted = single_homed();
    for (changes, error) in [
        (
            &[added("224.0.0.1")][..],
            AddressChangeError::InvalidAddress,
        ),
        (&[added("0.0.0.0")], AddressChangeError::InvalidAddress),
        (&[added(OURS)], AddressChangeError::AlreadyLocal),
        (
            &[added("::ffff:192.0.2.1")],
            AddressChangeError::AlreadyLocal,
        ),
        (&[added(NEW), added(NEW)], AddressChangeError::AlreadyLocal),
        (
            &[added(NEW), deleted(OURS), added(OURS)],
            AddressChangeError::AlreadyLocal,
        ),
        (&[added(NEW), deleted(NEW)], AddressChangeError::NotLocal),
        (&[deleted(NEW)], AddressChangeError::NotLocal),
        (&[deleted("0.0.0.0")], AddressChangeError::NotLocal),
        // Rule F5.
        (&[deleted(OURS)], AddressChangeError::LastAddress),
        (
            &[deleted(OURS), added(NEW)],
            AddressChangeError::LastAddress,
        ),
        // Section 5.4.
        (&[preferred(NEW)], AddressChangeError::NotLocal),
        (&[preferred(NEW), added(NEW)], AddressChangeError::NotLocal),
    ] {
        assert_eq!(change(&mut scripted, changes), Err(error), "{changes:?}");
    }
    let many: Vec<_> = (2..30)
        .map(|host| AddressChange::Add([192, 0, 2, host].into()))
        .collect();
    assert_eq!(
        change(&mut scripted, &many),
        Err(AddressChangeError::TooManyAddresses)
    );
    assert!(scripted.take().is_empty());
    assert_eq!(ours(&scripted), [(ip(OURS), LocalAddressState::Usable)]);

    for state in [
        AssociationState::CookieWait,
        AssociationState::CookieEchoed,
        AssociationState::ShutdownAckSent,
    ] {
        let mut scripted = Scripted::in_state(state);
        let refused = change(&mut scripted, &[added(NEW)]);
        assert_eq!(
            refused,
            Err(AddressChangeError::NotEstablished),
            "{state:?}"
        );
    }
    let mut scripted = single_homed();
    scripted.give(&[Chunk::Abort(sctp::packet::Abort::default())]);
    let refused = change(&mut scripted, &[added(NEW)]);
    assert_eq!(refused, Err(AddressChangeError::UnknownAssociation));
}

#[test]
fn an_asconf_is_sent_again_unchanged_until_the_peer_is_given_up() {
    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW)]).expect("it is possible");
    let begin = scripted.now;
    let sent = scripted.watch(Duration::from_secs(1000));
    let times: Vec<u64> = sent
        .iter()
        .filter(|(_, transmit)| !asconfs(std::slice::from_ref(transmit)).is_empty())
        .map(|(time, _)| (*time - begin).as_secs())
        .collect();
    // Rule B3: the RTO doubles, and is RTO.Max at most.
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303]);
    let transmits: Vec<Transmit> = sent.into_iter().map(|(_, transmit)| transmit).collect();
    let first = asconf(our_number(&scripted, 0), OURS, &[add(1, NEW)]);
    assert!(
        asconfs(&transmits)
            .iter()
            .all(|(_, _, asconf)| *asconf == first)
    );
    let lost = scripted.events.iter().any(|event| {
        matches!(
            event,
            Event::CommunicationLost {
                cause: LostCause::TimedOut,
                ..
            }
        )
    });
    assert!(lost);
}

#[test]
fn an_asconf_that_is_sent_again_goes_to_another_address() {
    let mut scripted = established(quiet());
    let second = crate::rfc9260::scripted::at([198, 51, 100, 9]);
    scripted.give_raw(&asconf(
        peer_number(0),
        "192.0.2.9",
        &[add(1, "198.51.100.9")],
    ));
    for transmit in scripted.transmits() {
        scripted.answer_heartbeat(&transmit);
    }
    change(&mut scripted, &[added(NEW)]).expect("it is possible");
    let remotes: Vec<IpAddr> = scripted
        .watch(Duration::from_millis(1500))
        .into_iter()
        .filter(|(_, transmit)| !asconfs(std::slice::from_ref(transmit)).is_empty())
        .map(|(_, transmit)| transmit.path.remote)
        .collect();
    assert_eq!(remotes, [peer().remote, second.remote]);
    // Rule A5.
    answer(&mut scripted, 0, &[]);
    assert!(asconfs(&scripted.watch_transmits()).is_empty());
}

#[test]
fn the_answer_may_name_each_change_or_none() {
    let failed = causes(&Cause::RequestRefusedNoAuthorization(Parameters::default()));
    let failed = |correlation_id| {
        Parameter::ErrorCauseIndication(ErrorCauseIndication {
            correlation_id,
            causes: failed.causes(),
        })
    };
    let success = |correlation_id| Parameter::SuccessIndication { correlation_id };
    let refused = Err(AddressChangeRefusal::Refused(
        CauseCode::REQUEST_REFUSED_NO_AUTHORIZATION,
    ));
    let not_reached = Err(AddressChangeRefusal::NotReached);
    for (responses, expected) in [
        (vec![], [Ok(()); 4]),
        (vec![success(1), success(4)], [Ok(()); 4]),
        // Rule A7.
        (vec![failed(2)], [Ok(()), refused, not_reached, not_reached]),
        (
            vec![failed(2), success(4)],
            [Ok(()), refused, not_reached, Ok(())],
        ),
        (
            vec![success(4), failed(3)],
            [Ok(()), Ok(()), refused, Ok(())],
        ),
        (
            vec![failed(4), failed(1)],
            [refused, not_reached, not_reached, refused],
        ),
        // What nobody asked for.
        (vec![failed(0), failed(5), success(77)], [Ok(()); 4]),
        (vec![add(1, OTHER)], [Ok(()); 4]),
    ] {
        let mut scripted = single_homed();
        let changes = [added(NEW), added(OTHER), preferred(NEW), preferred(OTHER)];
        change(&mut scripted, &changes).expect("they are possible");
        scripted.take();
        answer(&mut scripted, 0, &responses);
        let answered: Vec<_> = outcomes(&scripted.events)
            .into_iter()
            .map(|(_, outcome)| outcome)
            .collect();
        assert_eq!(answered, expected, "{responses:?}");
        let mut usable = vec![(ip(OURS), LocalAddressState::Usable)];
        for (address, outcome) in [NEW, OTHER].into_iter().zip(expected) {
            if outcome.is_ok() {
                usable.push((ip(address), LocalAddressState::Usable));
            }
        }
        assert_eq!(ours(&scripted), usable);
    }
}

#[test]
fn an_answer_to_an_asconf_that_was_never_sent_ends_the_association() {
    for (count, ends) in [
        (0, true),
        (1, true),
        (1 << 30, true),
        (u32::MAX, false),
        (1 << 31, false),
    ] {
        let mut scripted = single_homed();
        let number = our_number(&scripted, count);
        scripted.give_raw(&asconf_ack(number, &[]));
        let packets = scripted.take();
        if ends {
            let answer = chunks(&packets[0]);
            let [Chunk::Abort(abort)] = answer[..] else {
                panic!("an ABORT: {answer:?}");
            };
            let cause = abort.causes.iter().next();
            assert_eq!(cause, Some(Ok(Cause::IllegalAsconfAck)));
            assert_eq!(scripted.state(), AssociationState::Closed);
        } else {
            assert!(packets.is_empty());
            assert_eq!(scripted.state(), AssociationState::Established);
        }
    }
    // While one is outstanding, others are ignored, and so is a second answer.
    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW)]).expect("it is possible");
    scripted.take();
    answer(&mut scripted, 1, &[]);
    answer(&mut scripted, u32::MAX, &[]);
    assert!(outcomes(&scripted.events).is_empty());
    answer(&mut scripted, 0, &[]);
    answer(&mut scripted, 0, &[]);
    assert_eq!(outcomes(&scripted.events).len(), 1);
    assert_eq!(scripted.state(), AssociationState::Established);
}

#[test]
fn a_peer_that_does_not_know_asconf_gets_no_more() {
    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW), deleted(OURS)]).expect("it is possible");
    change(&mut scripted, &[added(OTHER)]).expect("it is possible");
    let sent = scripted.transmits();
    let (_, _, asconf) = asconfs(&sent).pop().expect("an ASCONF");
    let causes = causes(&Cause::UnrecognizedChunkType(&asconf));
    scripted.give(&[Chunk::Error(OperationError {
        causes: causes.causes(),
    })]);
    let not_supported = Err(AddressChangeRefusal::NotSupported);
    assert_eq!(
        outcomes(&scripted.events),
        [added(NEW), deleted(OURS), added(OTHER)].map(|change| (change, not_supported))
    );
    assert_eq!(ours(&scripted), [(ip(OURS), LocalAddressState::Usable)]);
    for changes in [added(NEW), preferred(OURS)] {
        assert_eq!(
            change(&mut scripted, &[changes]),
            Err(AddressChangeError::NotSupported)
        );
    }
    assert!(asconfs(&scripted.watch_transmits()).is_empty());
}

impl Scripted {
    fn watch_transmits(&mut self) -> Vec<Transmit> {
        let sent = self.watch(Duration::from_secs(10));
        sent.into_iter().map(|(_, transmit)| transmit).collect()
    }
}

#[test]
fn a_kind_of_change_that_the_peer_does_not_understand_is_not_asked_for_again() {
    let unrecognized = causes(&Cause::UnrecognizedParameters(Parameters::default()));
    let error = |correlation_id| {
        Parameter::ErrorCauseIndication(ErrorCauseIndication {
            correlation_id,
            causes: unrecognized.causes(),
        })
    };
    for (asked, refused, accepted) in [
        (added(NEW), added(OTHER), preferred(OURS)),
        (preferred(OURS), preferred(OURS), added(NEW)),
    ] {
        let mut scripted = single_homed();
        change(&mut scripted, &[asked]).expect("it is possible");
        scripted.take();
        answer(&mut scripted, 0, &[error(1)]);
        assert_eq!(
            change(&mut scripted, &[refused]),
            Err(AddressChangeError::NotSupported)
        );
        change(&mut scripted, &[accepted]).expect("it is possible");
    }
}

#[test]
fn an_address_is_no_source_before_it_is_added_and_after_its_deletion_is_asked_for() {
    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW)]).expect("it is possible");
    scripted.send(0, b"data");
    let sent = scripted.transmits();
    assert!(!sent.is_empty());
    assert!(
        sent.iter()
            .all(|transmit| transmit.path.local == Some(ip(OURS)))
    );
    answer(&mut scripted, 0, &[]);
    // Now either of them may be.
    scripted.send(0, b"data");
    let sent = scripted.transmits();
    assert!(sent.iter().all(|transmit| transmit.path.local.is_none()));
    change(&mut scripted, &[deleted(OURS)]).expect("it is possible");
    scripted.send(0, b"data");
    let sent = scripted.transmits();
    assert_eq!(asconfs(&sent).len(), 1);
    assert!(
        sent.iter()
            .all(|transmit| transmit.path.local == Some(ip(NEW)))
    );
    let expected = [
        (ip(NEW), LocalAddressState::Usable),
        (ip(OURS), LocalAddressState::Deleting),
    ];
    assert_eq!(ours(&scripted), expected);
}

#[test]
fn nothing_but_the_asconf_leaves_when_the_only_address_changes() {
    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW), deleted(OURS)]).expect("it is possible");
    let data = crate::rfc9260::scripted::bytes_of(&[Chunk::Data(message(0, b"data"))]);
    scripted.send(0, b"data");
    for _ in 0..3 {
        scripted.give_from(to(OURS), raw(scripted.tag, &data));
        for (_, transmit) in scripted.watch(Duration::from_secs(1)) {
            assert_eq!(
                types(std::slice::from_ref(&transmit.packet)),
                [[ChunkType::ASCONF]]
            );
            assert_eq!(transmit.path.local, Some(ip(NEW)));
        }
    }
    // And then what waited, from the new one.
    let sent = answer(&mut scripted, 0, &[]);
    assert!(
        sent.iter()
            .all(|transmit| transmit.path.local == Some(ip(NEW)))
    );
    let kinds: Vec<_> = sent
        .iter()
        .map(|transmit| transmit.packet.clone())
        .collect();
    let kinds = types(&kinds).concat();
    assert!(
        kinds.contains(&ChunkType::SACK) && kinds.contains(&ChunkType::DATA),
        "{kinds:?}"
    );
}

#[test]
fn neither_abort_nor_shutdown_leaves_from_an_address_that_is_not_added_yet() {
    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW), deleted(OURS)]).expect("it is possible");
    scripted.take();
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.shutdown(now, id).expect("it is there");
    assert!(scripted.take().is_empty());
    // Once it is, the shutdown goes on.
    answer(&mut scripted, 0, &[]);
    let sent = scripted.watch(Duration::from_secs(5));
    let shutdown = sent.iter().find(|(_, transmit)| {
        types(std::slice::from_ref(&transmit.packet))[0].contains(&ChunkType::SHUTDOWN)
    });
    assert_eq!(shutdown.expect("a SHUTDOWN").1.path.local, Some(ip(NEW)));

    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW), deleted(OURS)]).expect("it is possible");
    scripted.take();
    let (now, id) = (scripted.now, scripted.id());
    scripted.endpoint.abort(now, id, b"").expect("it is there");
    assert!(scripted.take().is_empty());
}

#[test]
fn a_deleted_address_is_heard_for_two_rtos_but_no_abort_there() {
    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW), deleted(OURS)]).expect("it is possible");
    scripted.take();
    let abort = [6, 0, 0, 4];
    let reflected = {
        let abort = Chunk::Abort(sctp::packet::Abort {
            tag_reflected: true,
            ..Default::default()
        });
        packet(crate::rfc9260::scripted::PEER_TAG, &[abort])
    };
    let data =
        |number| crate::rfc9260::scripted::bytes_of(&[Chunk::Data(message(number, b"data"))]);
    // Section 5.3.1.
    scripted.give_from(to(OURS), raw(scripted.tag, &abort));
    scripted.give_from(to(OURS), reflected.clone());
    scripted.give_from(to(OURS), raw(scripted.tag, &data(0)));
    assert_eq!(scripted.receive().len(), 1);
    answer(&mut scripted, 0, &[]);
    scripted.give_from(to(OURS), raw(scripted.tag, &abort));
    scripted.give_from(to(OURS), reflected);
    scripted.give_from(to(OURS), raw(scripted.tag, &data(1)));
    assert_eq!(scripted.receive().len(), 1);
    scripted.pass(Duration::from_secs(2));
    scripted.give_from(to(OURS), raw(scripted.tag, &data(2)));
    assert!(scripted.receive().is_empty());
    assert!(scripted.take().is_empty());
    scripted.give_from(to(NEW), raw(scripted.tag, &data(2)));
    assert_eq!(scripted.receive().len(), 1);
    assert_eq!(scripted.state(), AssociationState::Established);
    scripted.give_from(to(NEW), raw(scripted.tag, &abort));
    assert_eq!(scripted.state(), AssociationState::Closed);
}

#[test]
fn data_to_an_address_that_is_being_added_is_taken() {
    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW)]).expect("it is possible");
    scripted.take();
    let data = crate::rfc9260::scripted::bytes_of(&[Chunk::Data(message(0, b"data"))]);
    scripted.give_from(to(NEW), raw(scripted.tag, &data));
    assert_eq!(scripted.receive().len(), 1);
}

#[test]
fn sequence_numbers_go_around() {
    let mut scripted = single_homed();
    for count in 0..20 {
        change(&mut scripted, &[preferred(OURS)]).expect("it is possible");
        assert_eq!(asconfs(&scripted.transmits()).len(), 1);
        answer(&mut scripted, count, &[]);
    }
    assert_eq!(outcomes(&scripted.events).len(), 20);
}

/// Else the ASCONF that deletes it would be repeated from there, and a peer that has done it would not
/// know where it comes from.
#[test]
fn an_address_is_not_added_before_its_deletion_is_answered() {
    let mut scripted = single_homed();
    change(&mut scripted, &[added(NEW), deleted(OURS)]).unwrap();
    assert_eq!(
        change(&mut scripted, &[added(OURS)]),
        Err(AddressChangeError::AlreadyLocal)
    );
}
