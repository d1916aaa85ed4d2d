//! CUBIC on links without loss of their own: what it gets of them, against its law.

use crate::transport::world::World;
use link::{Bottleneck, LinkConfig, Loss, Periodic};
use sctp::{AssociationStatus, CongestionControl, EndpointConfig};
use sim_transport::{Load, TcpConfig, goodput};
use std::time::Duration;

/// What a packet of 1500 bytes carries beside the headers of IP, SCTP and DATA.
const MESSAGE: usize = 1500 - 20 - 12 - 16;

/// User bytes a second on a link of 1 Gbit/s.
const GIGABIT: f64 = 1e9 / 8.0 * MESSAGE as f64 / 1500.0;

const GREEDY: Load = Load::Greedy {
    message: MESSAGE,
    streams: 1,
    unordered: false,
};

struct Measured {
    /// User bytes a second.
    goodput: f64,
    status: AssociationStatus,
    dropped: u64,
    retransmitted: u64,
}

/// One association with CUBIC and buffers of that size. What arrives is counted from `from` on.
fn measure(link: LinkConfig, buffer: usize, from: Duration, duration: Duration) -> Measured {
    let sctp = EndpointConfig::default()
        .congestion_control(CongestionControl::Cubic)
        .path_mtu_discovery(false)
        .a_rwnd(buffer as u32)
        .send_buffer(buffer);
    let back = LinkConfig {
        delay: link.delay,
        ..LinkConfig::default()
    };
    let mut world = World::new(1, link, back, &sctp, TcpConfig::default());
    let flow = world.open_sctp(GREEDY);
    world.run_until(duration);
    let statistics = world.statistics(flow);
    Measured {
        goodput: goodput(
            world.server().deliveries(),
            world.at(from),
            world.at(duration),
        ),
        status: world.status(flow),
        dropped: world.dropped(),
        retransmitted: statistics.retransmitted_fast + statistics.retransmitted_by_timeout,
    }
}

/// Slow start doubles the window of three packets in every round trip until it holds what the link does, or
/// all that fits into the buffer; from then on the link, or the buffer, is full.
fn law(rate: f64, round_trip: f64, buffer: usize, duration: f64) -> f64 {
    let full = (rate * round_trip).min(buffer as f64);
    // INIT, and the COOKIE ECHO with the first packet; then half a round trip until the first data arrives.
    let mut time = 2.5 * round_trip;
    let mut window = 3.0 * MESSAGE as f64;
    let mut bytes = MESSAGE as f64;
    while window < full && time < duration {
        bytes += window;
        window *= 2.0;
        time += round_trip;
    }
    (bytes + (duration - time).max(0.0) * full / round_trip) / duration
}

fn at_a_gigabit(milliseconds: u64, seconds: f64) {
    let round_trip = milliseconds as f64 / 1e3;
    let mut bottleneck = Bottleneck::new(1_000_000_000);
    // A queue for as much as the link itself holds, and at least that of a network card.
    let held = (1e9 / 8.0 * round_trip / 1500.0) as usize;
    bottleneck.queue_packets = bottleneck.queue_packets.max(held);
    let link = LinkConfig {
        bottleneck: Some(bottleneck),
        delay: Duration::from_millis(milliseconds) / 2,
        ..LinkConfig::default()
    };
    let buffer = 128 << 20;
    let measured = measure(
        link,
        buffer,
        Duration::ZERO,
        Duration::from_secs_f64(seconds),
    );
    let law = law(GIGABIT, round_trip, buffer, seconds);
    let path = &measured.status.paths[0];
    println!(
        "{milliseconds} ms, {seconds} s: {:.0} of {:.0} Mbit/s ({:.3}), cwnd {}, ssthresh {}, flight {}, dropped {}, \
         retransmitted {}",
        measured.goodput * 8.0 / 1e6,
        law * 8.0 / 1e6,
        measured.goodput / law,
        path.cwnd,
        path.ssthresh,
        path.outstanding_bytes,
        measured.dropped,
        measured.retransmitted
    );
    let ratio = measured.goodput / law;
    assert!((0.9..=1.02).contains(&ratio), "{milliseconds} ms: {ratio}");
}

#[test]
fn cubic_fills_a_gigabit_at_2_ms() {
    at_a_gigabit(2, 0.5);
}

#[test]
fn cubic_fills_a_gigabit_at_20_ms() {
    at_a_gigabit(20, 1.0);
}

#[test]
fn cubic_fills_a_gigabit_at_50_ms() {
    at_a_gigabit(50, 1.5);
}

#[test]
fn cubic_fills_a_gigabit_at_100_ms() {
    at_a_gigabit(100, 2.5);
}

#[test]
fn cubic_fills_a_gigabit_at_300_ms() {
    at_a_gigabit(300, 6.5);
}

/// RFC 9438 section 5: with one packet lost in every 1 / p the mean window is 1.054 * (RTT / p)^(3/4) packets.
///
/// That mean belongs to losses at equal windows. On the way down from slow start fast convergence (section 4.7)
/// sets the plateau to 0.85 of the window below it, the last time to 0.85 of the law's, and from there the window
/// returns by some 0.2 % a loss, for the cubic function is flat around its plateau. Hence a mean of 0.85 at least,
/// less about 3 % for the round trip of each recovery in which nothing grows.
#[test]
fn cubic_has_the_mean_window_of_its_response_function() {
    let round_trip = 0.2;
    for every in [2000_u64, 10_000] {
        let link = LinkConfig {
            loss: Loss::Periodic(Periodic::every(every)),
            delay: Duration::from_millis(100),
            ..LinkConfig::default()
        };
        let law = 1.054 * (round_trip * every as f64).powf(0.75) * MESSAGE as f64 / round_trip;
        // Half of the time for what slow start brought, and a dozen losses.
        let half = Duration::from_secs_f64(12.0 * every as f64 * MESSAGE as f64 / law);
        let measured = measure(link, 32 << 20, half, 2 * half);
        let ratio = measured.goodput / law;
        println!("every {every}: {ratio:.3} of the law in {half:?}");
        assert!((0.82..=1.02).contains(&ratio), "every {every}: {ratio}");
    }
}

/// A queue for a tenth of what the link holds. After a loss the window is 0.77 of the link and comes back along
/// the cubic function, which leaves a quarter of the cut unused.
#[test]
fn cubic_keeps_a_link_with_a_short_queue_busy() {
    let mut bottleneck = Bottleneck::new(100_000_000);
    let round_trip = 0.05;
    let held = 1e8 / 8.0 * round_trip / 1500.0;
    bottleneck.queue_packets = (held / 10.0) as usize;
    let link = LinkConfig {
        bottleneck: Some(bottleneck),
        delay: Duration::from_millis(25),
        ..LinkConfig::default()
    };
    // By then the short queue's losses in slow start are over.
    let from = Duration::from_secs(15);
    let measured = measure(link, 8 << 20, from, Duration::from_secs(35));
    let ratio = measured.goodput / (GIGABIT / 10.0);
    println!(
        "short queue: {ratio:.3}, dropped {}, retransmitted {}",
        measured.dropped, measured.retransmitted
    );
    assert!(measured.dropped > 0, "the queue must overflow");
    assert!(ratio > 0.95 * (1.0 - 0.3 / 4.0), "{ratio}");
}
