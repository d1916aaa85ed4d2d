//! Losses that were none: the window is given back (RFC 4015, RFC 5682), and the reordering window grows.

use sctp::packet::{Chunk, Packet};

use super::*;
use crate::common::{Pair, message, ordered};

fn cwnd(pair: &Pair) -> usize {
    let id = pair.client.association();
    pair.client.endpoint.status(id).expect("it is up").paths[0].cwnd
}

/// An association whose round trip takes 20 ms, and whose window has grown.
fn established(config: EndpointConfig) -> Pair {
    let mut pair = Pair::with(config.clone(), config);
    pair.establish();
    for number in 0..6 {
        for stream in 0..8 {
            pair.client_sends(ordered(stream), message(number, 1400));
        }
        for _ in 0..10 {
            deliver(&mut pair);
        }
    }
    pair
}

/// Everything that is on its way arrives, 10 ms later in each direction.
fn deliver(pair: &mut Pair) {
    pair.now += 10 * MILLISECOND;
    for packet in std::mem::take(&mut pair.to_server) {
        pair.give_server(packet);
    }
    pair.now += 10 * MILLISECOND;
    for packet in std::mem::take(&mut pair.to_client) {
        pair.give_client(packet);
    }
    let server = pair.server.association();
    pair.server.receive_all(pair.now, server);
}

/// A packet that is overtaken by far more than the reordering window allows is sent again; when the peer says
/// that it has it twice, the window is what it was.
#[test]
fn a_duplicate_gives_the_window_back() {
    let mut pair = established(rack_tlp());
    let before = cwnd(&pair);
    for stream in 0..4 {
        pair.client_sends(ordered(stream), message(1, 1400));
    }
    let late = pair.to_server.pop_front().expect("it was sent");
    deliver(&mut pair);
    pair.now += 10 * MILLISECOND;
    pair.client.endpoint.handle_timeout(pair.now);
    pair.collect();
    let reduced = cwnd(&pair);
    assert!(reduced < before, "{reduced} of {before}");
    pair.to_server.push_front(late);
    deliver(&mut pair);
    let tells_duplicate = pair.server.sent.iter().any(|(_, packet)| {
        Packet::read(packet).unwrap().chunks().any(|chunk| {
            matches!(chunk, Ok(Chunk::Sack(sack)) if sack.duplicate_tsns.iter().next().is_some())
        })
    });
    assert!(tells_duplicate);
    assert!(cwnd(&pair) >= before, "{} of {before}", cwnd(&pair));
}

/// A duplicate of something that was never sent again is the network's doing.
#[test]
fn a_duplicate_of_the_network_changes_nothing() {
    let mut pair = established(rack_tlp());
    for stream in 0..4 {
        pair.client_sends(ordered(stream), message(1, 1400));
    }
    pair.to_server.pop_front();
    let doubled = pair.to_server.front().cloned().expect("it was sent");
    pair.to_server.push_back(doubled);
    let before = cwnd(&pair);
    deliver(&mut pair);
    pair.now += 10 * MILLISECOND;
    pair.client.endpoint.handle_timeout(pair.now);
    pair.collect();
    deliver(&mut pair);
    assert!(cwnd(&pair) < before);
}

/// Everything is late by more than an RTO: after the first retransmission is acknowledged, new data leaves,
/// and the SACK for the rest shows that the timeout was for nothing.
#[test]
fn f_rto_finds_a_timeout_for_nothing() {
    for (is_on, detection) in [
        (true, LossDetection::GapReports),
        (true, LossDetection::RackTlp),
        (false, LossDetection::GapReports),
    ] {
        let config = plain().f_rto(is_on).loss_detection(detection);
        let mut pair = established(config);
        let before = cwnd(&pair);
        for stream in 0..6 {
            pair.client_sends(ordered(stream), message(1, 1400));
        }
        let mut late = std::mem::take(&mut pair.to_server);
        // The timers run out; the packets are still on their way, but the probes are lost.
        while pair.client.endpoint.association_t3_expiries() == 0 {
            pair.to_server.clear();
            assert!(pair.advance());
        }
        pair.to_server.clear();
        for stream in 0..4 {
            pair.client_sends(ordered(stream), message(2, 1400));
        }
        // One after another, each with its SACK.
        while let Some(packet) = late.pop_front() {
            pair.now += MILLISECOND;
            pair.give_server(packet);
            pair.now += 250 * MILLISECOND;
            pair.server.endpoint.handle_timeout(pair.now);
            pair.collect();
            for packet in std::mem::take(&mut pair.to_client) {
                pair.give_client(packet);
            }
        }
        assert_eq!(cwnd(&pair) >= before, is_on, "{detection} {}", cwnd(&pair));
    }
}

trait Expiries {
    fn association_t3_expiries(&self) -> u64;
}

impl Expiries for sctp::Endpoint {
    fn association_t3_expiries(&self) -> u64 {
        self.statistics().t3_expiries
    }
}
