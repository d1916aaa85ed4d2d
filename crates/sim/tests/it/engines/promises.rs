//! What must hold whatever happened.
//!
//! 1. Every message arrives at most once in a life of the host, unchanged, on its stream; ordered
//!    ones in their order, without gaps, from the beginning of the association or its restart on.
//!    Where an association was given up before the other side knew that it was up, what came with the
//!    COOKIE ECHO may come again with it, in another association.
//! 2. What was taken to be sent and did not arrive is reported as failed; when the association was
//!    shut down in good order, nothing is.
//! 3. Every association that was begun ends, once, and both sides agree on how.
//! 4. In the end nothing is left: no association, no timer, no packet. No packet was dropped as
//!    unsound.

use crate::engines::history::{AssociationHistory, End, History};
use crate::engines::host::{EngineHost, Message};
use crate::engines::scenario::{FIRST_PPID, Scenario};
use crate::engines::world::World;
use sctp::{CannotStartCause, LostCause, ReceivedMessage};
use sim::Host;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn check(scenario: &Scenario, world: &World) {
    for (name, host) in [("client", world.client()), ("server", world.server())] {
        check_rest(name, host);
    }
    let client = History::of(world.client());
    let server = History::of(world.server());
    for (name, sender, receiver) in [("server", &client, &server), ("client", &server, &client)] {
        check_delivery(&format!("to the {name}"), scenario, sender, receiver);
        check_reports(&format!("to the {name}"), sender, receiver);
    }
    for (name, history) in [("client", &client), ("server", &server)] {
        check_ends(name, history);
    }
    if !scenario.may_begin_again() {
        check_agreement(scenario, &client, &server);
    }
}

/// Promise 4.
fn check_rest(name: &str, host: &EngineHost) {
    let endpoint = host.endpoint();
    assert_eq!(endpoint.association_count(), 0, "associations, {name}");
    assert_eq!(host.next_timeout(), None, "a timer, {name}");
    let drops = endpoint.statistics().drops;
    let unsound = [
        drops.malformed,
        drops.checksum,
        drops.port,
        drops.not_unicast,
    ];
    assert_eq!(unsound, [0; 4], "unsound packets, {name}: {drops:?}");
}

/// Promise 1.
fn check_delivery(direction: &str, scenario: &Scenario, sender: &History, receiver: &History) {
    let position: BTreeMap<u32, usize> = (0..).zip(sender.sent()).map(swap).collect();
    let mut seen = BTreeSet::new();
    let associations = receiver.associations.iter();
    let segments = associations.flat_map(|association| {
        let id = (!scenario.is_gentle).then_some(association.id);
        let received = association.received.iter();
        received.map(move |segment| ((association.life, id), segment))
    });
    for (once_in, segment) in segments {
        let mut last_ordered: BTreeMap<u16, (u16, usize)> = BTreeMap::new();
        for message in segment {
            let number = message.ppid;
            let what = format!("message {number} {direction}");
            let Some(&position) = position.get(&number) else {
                panic!("{what} was not sent");
            };
            assert!(seen.insert((once_in, number)), "{what} arrived twice");
            let original = &scenario.messages[(number - FIRST_PPID) as usize];
            check_contents(&what, message, original);
            if message.unordered {
                continue;
            }
            let before = last_ordered.insert(message.stream, (message.ssn, position));
            let expected = before.map_or(0, |(ssn, _)| ssn.wrapping_add(1));
            assert_eq!(message.ssn, expected, "SSN of {what}");
            let in_order = before.is_none_or(|(_, before)| before < position);
            assert!(in_order, "{what} came too late");
        }
    }
}

fn check_contents(what: &str, message: &ReceivedMessage, original: &Message) {
    let kind = (message.stream, message.unordered, message.end_of_record);
    let expected = (original.info.stream, original.info.unordered, true);
    assert_eq!(kind, expected, "{what}");
    assert!(message.payload == original.payload, "contents of {what}");
}

/// Promise 2.
fn check_reports(direction: &str, sender: &History, receiver: &History) {
    let received: BTreeSet<u32> = receiver.received().map(|message| message.ppid).collect();
    // What has come, but not to the user: he aborted, or his host died.
    let is_lossy = receiver
        .associations
        .iter()
        .any(AssociationHistory::threw_something_away);
    for association in &sender.associations {
        if association.end == Some(End::Complete) && !association.has_restarted() {
            assert_eq!(association.failed, BTreeSet::new(), "failed {direction}");
        }
        if is_lossy || association.is_forgotten {
            continue;
        }
        for number in &association.sent {
            let known = received.contains(number) || association.failed.contains(number);
            assert!(
                known,
                "message {number} {direction} vanished: {:?}",
                association.end
            );
        }
    }
}

/// Promise 3, as far as one side knows.
fn check_ends(name: &str, history: &History) {
    for association in &history.associations {
        let has_ended = association.end.is_some() || association.is_forgotten;
        assert!(
            has_ended,
            "association {} of the {name} never ended",
            association.id
        );
        let violation = matches!(
            association.end,
            Some(
                End::Lost(LostCause::ProtocolViolation { .. })
                    | End::CannotStart(CannotStartCause::ProtocolViolation { .. })
            )
        );
        assert!(!violation, "{name}: {:?}", association.end);
    }
}

/// Promise 3, as far as it takes two. There was one association; a side that never heard of it has
/// nothing to tell.
fn check_agreement(scenario: &Scenario, client: &History, server: &History) {
    let histories = [client, server];
    if !scenario.is_gentle
        && histories
            .iter()
            .any(|history| history.associations.len() > 1)
    {
        // One had given up before the other was up, and then the other called again.
        return;
    }
    let ends = histories.map(|history| {
        assert!(history.associations.len() <= 1, "one association");
        history
            .associations
            .first()
            .and_then(|association| association.end.clone())
    });
    let agreed = match &ends {
        [Some(End::Complete), Some(End::Complete)] => true,
        [Some(one), Some(other)] => agree(scenario, one, other) || agree(scenario, other, one),
        // It was given up before the other side heard of it, or after that had forgotten it.
        [Some(one), None] | [None, Some(one)] => {
            matches!(one, End::CannotStart(_)) && (!scenario.is_gentle || scenario.has_early_end())
        }
        [None, None] => false,
    };
    assert!(agreed, "{ends:?}");
}

/// Whether one end can go with another one, different from it.
fn agree(scenario: &Scenario, one: &End, other: &End) -> bool {
    use CannotStartCause as Cannot;
    use LostCause as Lost;
    let by_user = matches!(
        one,
        End::Lost(Lost::AbortedLocally) | End::CannotStart(Cannot::AbortedLocally)
    );
    let by_peer = matches!(
        other,
        End::Lost(Lost::AbortedByPeer { .. }) | End::CannotStart(Cannot::Refused { .. })
    );
    if by_user && (by_peer || other == one) {
        return true;
    }
    // The one is content before the other knows it, and then nothing gets through any more, or
    // the user of the other loses his patience.
    let gave_up = |end: &End| {
        matches!(
            end,
            End::Lost(Lost::TimedOut | Lost::ShutdownTimedOut) | End::CannotStart(Cannot::TimedOut)
        )
    };
    if *one == End::Complete && (by_user_of(other) || (gave_up(other) && !scenario.is_gentle)) {
        return true;
    }
    !scenario.is_gentle && gave_up(one) && (gave_up(other) || by_peer || by_user_of(other))
}

fn by_user_of(end: &End) -> bool {
    matches!(
        end,
        End::Lost(LostCause::AbortedLocally) | End::CannotStart(CannotStartCause::AbortedLocally)
    )
}

fn swap<A, B>((a, b): (A, B)) -> (B, A) {
    (b, a)
}
