//! What must hold with any extensions, beside what the two sides agree on at rest.
//!
//! 1. Every message arrives at most once, whole and unchanged, on its stream; ordered ones in their
//!    order. The numbers of a stream begin anew at most as often as it was reset.
//! 2. What was taken to be sent and did not arrive is reported as failed. Only what may be given up
//!    fails, unless the whole association was reset.
//! 3. A message of which only a part was handed out is reported as failed by the sender, and its end by
//!    the receiver.
//! 4. Each change of addresses that was asked for is answered once.
//! 5. The association ends in good order on both sides, and nothing is left.

use crate::engines::extensions::scenario::ExtensionScenario;
use crate::engines::history::{End, History};
use crate::engines::host::{EngineHost, Entry};
use crate::engines::request::Request;
use crate::engines::scenario::FIRST_PPID;
use crate::engines::world::World;
use sctp::{
    Event, Extensions, PrPolicy, ReConfigurationOutcome, ReceivedMessage, SendInfo, StreamDirection,
};
use sim::Host;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

pub(crate) fn check(scenario: &ExtensionScenario, world: &World) {
    let [client, server] = [world.client(), world.server()];
    for (name, host) in [("client", client), ("server", server)] {
        check_rest(name, scenario, host);
        check_address_changes(name, host);
    }
    check_messages(scenario, "to the server", client, server);
    check_messages(scenario, "to the client", server, client);
}

/// Promises 1 to 3.
fn check_messages(
    scenario: &ExtensionScenario,
    direction: &str,
    sender: &EngineHost,
    receiver: &EngineHost,
) {
    let sent: BTreeMap<u32, usize> = History::of(sender).sent().zip(0..).collect();
    let mut received = Received::default();
    for (_, message) in receiver.received() {
        received.take(scenario, direction, message, &sent);
    }
    for (stream, restarts) in received.restarts {
        let resets = resets(receiver, stream);
        assert!(
            restarts <= resets,
            "stream {stream} {direction} began anew {restarts} times, was reset {resets} times"
        );
    }
    let failed: BTreeMap<u32, bool> = sender.events().filter_map(failed_message).collect();
    for number in sent.keys() {
        let is_known = received.whole.contains(number) || failed.contains_key(number);
        assert!(is_known, "message {number} {direction} vanished");
    }
    for number in received.begun.keys() {
        let is_told = failed.contains_key(number);
        assert!(is_told, "message {number} {direction} was cut short");
        let info = scenario.messages[(number - FIRST_PPID) as usize].info;
        let mut events = receiver.events();
        let is_told = events.any(|(_, event)| {
            matches!(event,
            Event::PartialDeliveryAborted { stream, unordered, .. }
                if (*stream, *unordered) == (info.stream, info.unordered))
        });
        assert!(
            is_told,
            "the end of message {number} {direction} is not told"
        );
    }
    let mut events = sender.events();
    let was_reset = events.any(|(_, event)| is_performed_association_reset(event));
    for (number, was_sent) in failed {
        let info = scenario.messages[(number - FIRST_PPID) as usize].info;
        let may_fail = was_reset || may_be_given_up(&info, was_sent, scenario.common_extensions());
        assert!(may_fail, "message {number} {direction} failed");
    }
}

/// What a user has received.
#[derive(Default)]
struct Received {
    whole: BTreeSet<u32>,
    /// Messages of which only a part has come, by their numbers.
    begun: BTreeMap<u32, Vec<u8>>,
    /// SSN and place of the last ordered message of each stream.
    last: BTreeMap<u16, (u16, usize)>,
    /// How often the numbers of each stream have begun anew.
    restarts: BTreeMap<u16, usize>,
}

impl Received {
    fn take(
        &mut self,
        scenario: &ExtensionScenario,
        direction: &str,
        message: &ReceivedMessage,
        sent: &BTreeMap<u32, usize>,
    ) {
        let number = message.ppid;
        let what = format!("message {number} {direction}");
        let Some(&place) = sent.get(&number) else {
            panic!("{what} was not sent");
        };
        assert!(!self.whole.contains(&number), "{what} arrived twice");
        let original = &scenario.messages[(number - FIRST_PPID) as usize];
        let kind = (message.stream, message.unordered);
        assert_eq!(
            kind,
            (original.info.stream, original.info.unordered),
            "{what}"
        );
        let so_far = self.begun.entry(number).or_default();
        let is_first_part = so_far.is_empty();
        so_far.extend_from_slice(&message.payload);
        assert!(original.payload.starts_with(so_far), "contents of {what}");
        if message.end_of_record {
            assert_eq!(so_far.len(), original.payload.len(), "length of {what}");
            self.begun.remove(&number);
            self.whole.insert(number);
        }
        if message.unordered || !is_first_part {
            return;
        }
        let before = self.last.insert(message.stream, (message.ssn, place));
        if let Some((ssn, before)) = before {
            assert!(before < place, "{what} came too late");
            if message.ssn <= ssn {
                *self.restarts.entry(message.stream).or_default() += 1;
            }
        }
    }
}

/// How often the receiver was told that a stream of the peer was reset.
fn resets(receiver: &EngineHost, stream: u16) -> usize {
    let is_one = |event: &Event| match event {
        Event::StreamReset {
            direction: StreamDirection::Incoming,
            streams,
            outcome: ReConfigurationOutcome::Performed,
            ..
        } => streams.is_empty() || streams.contains(&stream),
        event => is_performed_association_reset(event),
    };
    receiver.events().filter(|(_, event)| is_one(event)).count()
}

fn is_performed_association_reset(event: &Event) -> bool {
    matches!(
        event,
        Event::AssociationReset {
            outcome: ReConfigurationOutcome::Performed,
            ..
        }
    )
}

/// The number of a message that has failed, and whether some of it was sent.
fn failed_message((_, event): (Instant, &Event)) -> Option<(u32, bool)> {
    match event {
        Event::SendFailed { info, was_sent, .. } => Some((info.ppid, *was_sent)),
        _ => None,
    }
}

/// Whether a message may be given up. Before any of it is sent that takes no extension.
fn may_be_given_up(info: &SendInfo, was_sent: bool, extensions: Extensions) -> bool {
    let has_policy = info.pr_policy.map_or(info.life_time.is_some(), |policy| {
        policy != PrPolicy::Reliable
    });
    let life_time_ended = info.life_time.is_some() && !was_sent;
    life_time_ended || (has_policy && (extensions.partial_reliability || !was_sent))
}

/// Promise 4.
fn check_address_changes(name: &str, host: &EngineHost) {
    let asked = host.log().iter().map(|(_, entry)| match entry {
        Entry::Asked(Request::ChangeAddresses(changes), Ok(())) => changes.len(),
        _ => 0,
    });
    let answers = host
        .events()
        .filter(|(_, event)| matches!(event, Event::AddressChangeAnswered { .. }));
    // Moves are changes, too, of a number that depends on what there was.
    let (asked, answers) = (asked.sum::<usize>(), answers.count());
    let moves = host
        .log()
        .iter()
        .any(|(_, entry)| matches!(entry, Entry::Asked(Request::MoveTo(_), Ok(()))));
    assert!(
        answers == asked || (moves && answers > asked),
        "{answers} answers to {asked} changes, {name}"
    );
}

/// Promise 5.
fn check_rest(name: &str, scenario: &ExtensionScenario, host: &EngineHost) {
    let history = History::of(host);
    let ends: Vec<_> = history.associations.iter().map(|told| &told.end).collect();
    assert_eq!(ends, [&Some(End::Complete)], "ends, {name}");
    let endpoint = host.endpoint();
    assert_eq!(endpoint.association_count(), 0, "associations, {name}");
    assert_eq!(host.next_timeout(), None, "a timer, {name}");
    let drops = endpoint.statistics().drops;
    // A copy that arrives after the end belongs to no association that does without checksums.
    if !scenario.common_extensions().zero_checksum {
        assert_eq!(drops.checksum, 0, "{name}");
    }
    let unsound = [
        drops.malformed,
        drops.port,
        drops.not_unicast,
        drops.not_authenticated,
        drops.data_invalid_stream,
    ];
    assert_eq!(unsound, [0; 5], "unsound packets, {name}: {drops:?}");
}
