//! Head-of-line blocking at the sender (section 1.1), measured on a link of a known rate that takes one
//! packet at a time: how long an 8-byte message waits for a 256-KiB message of another stream.

use std::time::{Duration, Instant};

use sctp::{AssociationId, EndpointConfig, StreamScheduler};

use super::{ALL, interleaving};
use crate::common::{Pair, message, ordered};

const LARGE: usize = 1 << 18;

/// A byte takes a microsecond.
fn transmission_time(bytes: usize) -> Duration {
    Duration::from_micros(bytes as u64)
}

/// The time that a full packet takes.
const PACKET_TIME: Duration = Duration::from_micros(1472);

/// A sender behind the link, and a receiver that answers at once.
struct Link {
    pair: Pair,
    client: AssociationId,
    /// When the small message that is under way was sent.
    waiting: Option<Instant>,
    /// How long each waited until its packet began to leave.
    delays: Vec<Duration>,
    large_messages: usize,
}

impl Link {
    fn new(config: EndpointConfig) -> Link {
        let config = config.send_buffer(1 << 20).a_rwnd(1 << 20);
        let mut pair = Pair::with(config.clone(), config);
        let (client, _) = pair.establish();
        Link {
            pair,
            client,
            waiting: None,
            delays: Vec::new(),
            large_messages: 0,
        }
    }

    fn send(&mut self, at: Instant, stream: u16, bytes: usize) {
        let payload = message(0, bytes);
        let endpoint = &mut self.pair.client.endpoint;
        let sent = endpoint.send(at, self.client, ordered(stream), payload);
        assert_eq!(sent, Ok(()));
    }

    /// Takes a packet over, during which a small message is sent `after` its beginning, if none is under
    /// way.
    fn packet(&mut self, after: Duration) {
        let Some(transmit) = self.pair.client.endpoint.poll_transmit(self.pair.now) else {
            assert!(self.pair.advance());
            return;
        };
        let begin = self.pair.now;
        let time = transmission_time(transmit.packet.len());
        if self.waiting.is_none() && after < time {
            self.pair.now = begin + after;
            self.waiting = Some(self.pair.now);
            self.send(self.pair.now, 1, 8);
        }
        self.pair.now = begin + time;
        self.pair.server.endpoint.handle_packet(
            self.pair.now,
            self.pair.client.path(),
            transmit.packet,
        );
        for answer in self.pair.server.take_packets(self.pair.now) {
            let from = self.pair.server.path();
            self.pair
                .client
                .endpoint
                .handle_packet(self.pair.now, from, answer);
        }
        let server = self.pair.server.association();
        for received in self.pair.server.receive_all(self.pair.now, server) {
            if received.stream == 1 {
                let sent = self.waiting.take().expect("it was sent");
                self.delays.push(begin - sent);
            } else {
                assert_eq!(received.payload.len(), LARGE);
                self.large_messages += 1;
            }
        }
    }

    /// The longest delay of small messages beside large ones, and how many large ones arrived.
    fn longest_delay(mut self) -> Duration {
        // Small messages are sent at all moments of a packet's time.
        for moment in 0..3000_u64 {
            let now = self.pair.now;
            let status = self.pair.client.endpoint.status(self.client).unwrap();
            if status.send_buffer_bytes < LARGE {
                self.send(now, 0, LARGE);
            }
            self.packet(Duration::from_micros(moment * 97 % 1472));
        }
        assert!(self.delays.len() > 5 && self.large_messages > 5);
        self.delays.into_iter().max().unwrap()
    }
}

fn longest_delay(config: EndpointConfig, scheduler: StreamScheduler) -> Duration {
    let mut link = Link::new(config.stream_scheduler(scheduler));
    // The large message is of lower priority.
    let (now, client) = (link.pair.now, link.client);
    let endpoint = &mut link.pair.client.endpoint;
    endpoint.set_stream_value(now, client, 0, 1).unwrap();
    link.longest_delay()
}

/// Where messages are interleaved, a small message waits for the packet that is under way, and where the
/// large message has the next turn before it, for one more.
#[test]
fn a_small_message_waits_two_packets_at_most() {
    for scheduler in ALL {
        let delay = longest_delay(interleaving(), scheduler);
        let packets = match scheduler {
            StreamScheduler::FirstComeFirstServed => {
                assert!(delay > 50 * PACKET_TIME, "it is not to overtake: {delay:?}");
                continue;
            }
            StreamScheduler::RoundRobin | StreamScheduler::RoundRobinPerPacket => 2,
            _ => 1,
        };
        assert!(delay <= packets * PACKET_TIME, "{scheduler:?}: {delay:?}");
        assert!(
            delay > (packets - 1) * PACKET_TIME,
            "{scheduler:?}: {delay:?}"
        );
    }
}

/// Without I-DATA it waits for the end of the message that has begun to leave.
#[test]
fn without_interleaving_it_waits_for_the_large_message() {
    for scheduler in ALL {
        let delay = longest_delay(EndpointConfig::default(), scheduler);
        assert!(delay > 50 * PACKET_TIME, "{scheduler:?}: {delay:?}");
    }
}
