//! Two endpoints that send, reset streams and add streams at random, over a network that loses, repeats and
//! reorders: every message arrives once, whole and in order, and numbers begin anew exactly at the resets.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::{
    AssociationId, EndpointConfig, Event, PrPolicy, ReConfigurationOutcome, SendError, SendInfo,
    StreamDirection, StreamReset,
};

use super::granting;
use crate::common::{Host, Pair, ordered};

/// How many streams each direction has at first.
const STREAMS: u16 = 5;
/// How many it may have.
const MOST_STREAMS: u16 = 9;

/// One direction: what was sent, and what has arrived of it.
#[derive(Default)]
struct Direction {
    /// Numbers of the messages that are under way on each stream, oldest first, and whether each may be
    /// given up.
    under_way: BTreeMap<u16, VecDeque<(u32, bool)>>,
    unordered: Vec<u32>,
    /// Some messages are given up when they are lost.
    is_lossy: bool,
    /// The stream sequence number that the last message of each stream had.
    last_ssn: BTreeMap<u16, u16>,
    /// How often the numbers of each stream have begun anew.
    restarts: BTreeMap<u16, usize>,
    sent: u32,
}

fn payload(number: u32, bytes: usize) -> Bytes {
    let filler = (0..bytes).map(|index| (number as usize * 31 + index * 7) as u8);
    number.to_be_bytes().into_iter().chain(filler).collect()
}

impl Direction {
    fn send(
        &mut self,
        host: &mut Host,
        id: AssociationId,
        pair_now: std::time::Instant,
        rng: &mut ChaCha12Rng,
    ) {
        let streams = host.endpoint.status(id).expect("it is up").outbound_streams;
        let info = SendInfo {
            stream: rng.random_range(0..streams),
            unordered: rng.random_bool(0.1),
            ..SendInfo::default()
        };
        let may_be_given_up = self.is_lossy && !info.unordered && rng.random_bool(0.5);
        let info = SendInfo {
            pr_policy: may_be_given_up.then_some(PrPolicy::LimitedRetransmissions(0)),
            ..info
        };
        let bytes = if rng.random_bool(0.2) {
            rng.random_range(0..9000)
        } else {
            rng.random_range(0..300)
        };
        let message = payload(self.sent, bytes);
        match host.endpoint.send(pair_now, id, info, message) {
            Ok(()) => {}
            Err(SendError::BufferFull) => return,
            Err(error) => panic!("{error}"),
        }
        if info.unordered {
            self.unordered.push(self.sent);
        } else {
            self.under_way
                .entry(info.stream)
                .or_default()
                .push_back((self.sent, may_be_given_up));
        }
        self.sent += 1;
    }

    fn receive(&mut self, host: &mut Host, id: AssociationId, now: std::time::Instant) {
        for message in host.receive_all(now, id) {
            let number = u32::from_be_bytes(*message.payload.first_chunk().expect("a number"));
            assert_eq!(message.payload, payload(number, message.payload.len() - 4));
            if message.unordered {
                let place = self.unordered.iter().position(|sent| *sent == number);
                self.unordered
                    .remove(place.expect("sent, and not received before"));
                continue;
            }
            let under_way = self
                .under_way
                .get_mut(&message.stream)
                .expect("one was sent");
            while let Some((_, true)) = under_way.front().filter(|(sent, _)| *sent < number) {
                under_way.pop_front();
            }
            let sent = under_way.pop_front().map(|(sent, _)| sent);
            assert_eq!(sent, Some(number), "in order");
            let before = self.last_ssn.insert(message.stream, message.ssn);
            let follows =
                |before| message.ssn == before + 1 || self.is_lossy && message.ssn > before;
            if before.is_some_and(follows) {
                continue;
            }
            assert!(message.ssn == 0 || self.is_lossy, "anew");
            if before.is_some() {
                *self.restarts.entry(message.stream).or_default() += 1;
            }
        }
    }

    fn is_done(&self) -> bool {
        let mut under_way = self.under_way.values().flatten();
        self.unordered.is_empty() && under_way.all(|(_, may_be_given_up)| *may_be_given_up)
    }
}

/// How often a host has told that a stream of that direction was reset, or all streams with it.
fn resets(host: &Host, wanted: StreamDirection, stream: u16) -> usize {
    let is_one = |event: &&Event| match event {
        Event::StreamReset {
            direction,
            streams,
            outcome: ReConfigurationOutcome::Performed,
            ..
        } => *direction == wanted && (streams.is_empty() || streams.contains(&stream)),
        Event::AssociationReset {
            outcome: ReConfigurationOutcome::Performed,
            ..
        } => true,
        _ => false,
    };
    host.events.iter().filter(is_one).count()
}

fn some_streams(count: u16, rng: &mut ChaCha12Rng) -> Option<Vec<u16>> {
    match rng.random_range(0..4) {
        0 => None,
        1 => Some(Vec::new()),
        _ => Some((0..count).filter(|_| rng.random_bool(0.4)).collect()),
    }
}

/// Asks for something at random. That another request is under way is no error here.
fn re_configure(
    host: &mut Host,
    id: AssociationId,
    now: std::time::Instant,
    whole: bool,
    rng: &mut ChaCha12Rng,
) {
    let status = host.endpoint.status(id).expect("it is up");
    let _ = match rng.random_range(0..10) {
        0 => host
            .endpoint
            .add_streams(now, id, rng.random_range(0..2), rng.random_range(0..2)),
        1 if whole => host.endpoint.reset_association(now, id),
        _ => host.endpoint.reset_streams(
            now,
            id,
            StreamReset {
                outgoing: some_streams(status.outbound_streams, rng),
                incoming: some_streams(status.inbound_streams, rng),
            },
        ),
    };
}

/// Lets a packet through, loses it, repeats it, or lets a later one overtake it.
fn exchange(pair: &mut Pair, loss: f64, rng: &mut ChaCha12Rng) {
    pair.collect();
    let to_server = rng.random_bool(0.5);
    let queue = if to_server {
        &mut pair.to_server
    } else {
        &mut pair.to_client
    };
    if queue.is_empty() {
        return;
    }
    let place = if rng.random_bool(0.9) {
        0
    } else {
        rng.random_range(0..queue.len())
    };
    let packet = queue.remove(place).expect("it is there");
    let times = if rng.random_bool(loss) {
        0
    } else if rng.random_bool(0.05) {
        2
    } else {
        1
    };
    for _ in 0..times {
        if to_server {
            pair.give_server(packet.clone());
        } else {
            pair.give_client(packet.clone());
        }
    }
}

fn run(seed: u64, config: EndpointConfig, loss: f64, both_send: bool) {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let is_lossy = config.association.extensions.partial_reliability;
    let config = config
        .outbound_streams(STREAMS)
        .max_inbound_streams(MOST_STREAMS)
        .max_outbound_streams(MOST_STREAMS)
        .association_max_retrans(100);
    let mut pair = Pair::seeded(config.clone(), config, seed + 1);
    let (client, server) = pair.establish();
    let direction = || Direction {
        is_lossy,
        ..Direction::default()
    };
    let (mut up, mut down) = (direction(), direction());
    for _ in 0..600 {
        let now = pair.now;
        match rng.random_range(0..10) {
            0..4 => up.send(&mut pair.client, client, now, &mut rng),
            4..6 if both_send => down.send(&mut pair.server, server, now, &mut rng),
            6 => re_configure(&mut pair.client, client, now, !both_send, &mut rng),
            7 => re_configure(&mut pair.server, server, now, false, &mut rng),
            8 => {
                pair.now += Duration::from_millis(rng.random_range(1..400));
                let now = pair.now;
                pair.client.endpoint.handle_timeout(now);
                pair.server.endpoint.handle_timeout(now);
            }
            _ => {}
        }
        for _ in 0..rng.random_range(0..6) {
            exchange(&mut pair, loss, &mut rng);
        }
        up.receive(&mut pair.server, server, pair.now);
        down.receive(&mut pair.client, client, pair.now);
    }
    // The network loses nothing any more: everything comes to its end.
    for _ in 0..200 {
        pair.run();
        up.receive(&mut pair.server, server, pair.now);
        down.receive(&mut pair.client, client, pair.now);
        pair.collect();
        if pair.to_server.is_empty() && pair.to_client.is_empty() && !pair.advance() {
            break;
        }
    }
    assert!(up.is_done() && down.is_done(), "seed {seed}");
    let streams = |host: &Host, id| {
        let status = host.endpoint.status(id).expect("it is up");
        (status.outbound_streams, status.inbound_streams)
    };
    let (outbound, inbound) = streams(&pair.client, client);
    assert_eq!(
        streams(&pair.server, server),
        (inbound, outbound),
        "seed {seed}"
    );
    for (sender, receiver, direction, count) in [
        (&pair.client, &pair.server, &up, outbound),
        (&pair.server, &pair.client, &down, inbound),
    ] {
        for stream in 0..count {
            let sent = resets(sender, StreamDirection::Outgoing, stream);
            let received = resets(receiver, StreamDirection::Incoming, stream);
            // The receiver hears also that there was nothing to do.
            assert!(sent <= received, "stream {stream}, seed {seed}");
            let restarts = direction.restarts.get(&stream).copied().unwrap_or(0);
            assert!(restarts <= sent, "stream {stream}, seed {seed}");
        }
    }
    // After one more reset every stream begins with 0.
    let reset = StreamReset {
        outgoing: Some(Vec::new()),
        incoming: None,
    };
    let asked = pair.client.endpoint.reset_streams(pair.now, client, reset);
    asked.expect("nothing is under way");
    for stream in 0..outbound {
        pair.client_sends(ordered(stream), "the first one");
    }
    pair.run();
    pair.run_for(Duration::from_secs(100));
    let numbers: Vec<u16> = pair
        .server
        .receive_all(pair.now, server)
        .iter()
        .map(|message| message.ssn)
        .collect();
    assert_eq!(numbers, vec![0; usize::from(outbound)], "seed {seed}");
}

/// The settings with these extensions beside RE-CONFIG.
fn with(interleaving: bool, partial_reliability: bool) -> EndpointConfig {
    let config = granting();
    let mut extensions = config.association.extensions;
    extensions.interleaving = interleaving;
    extensions.partial_reliability = partial_reliability;
    config.extensions(extensions)
}

#[test]
fn numbers_begin_anew_exactly_at_resets_whatever_the_network_does() {
    for seed in 0..150 {
        run(seed, with(false, false), 0.15, true);
    }
}

#[test]
fn the_association_begins_anew_whatever_the_network_does() {
    for seed in 1000..1100 {
        run(seed, with(seed % 2 == 0, false), 0.15, false);
    }
}

#[test]
fn numbers_of_interleaved_messages_begin_anew() {
    for seed in 2000..2150 {
        run(seed, with(true, false), 0.15, true);
    }
}

#[test]
fn messages_that_are_given_up_do_not_confuse_the_numbers() {
    for seed in 3000..3150 {
        run(seed, with(seed % 2 == 0, true), 0.15, true);
    }
}
