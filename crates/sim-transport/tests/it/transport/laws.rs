//! Is smoltcp's Reno a plausible TCP? Its throughput against what is known of every TCP.

use crate::transport::world::World;
use link::LinkConfig;
use sctp::EndpointConfig;
use sim_transport::{Load, TcpConfig, goodput};
use std::time::Duration;

const MSS: f64 = 1460.0;

const GREEDY: Load = Load::Greedy {
    message: 1000,
    streams: 1,
    unordered: false,
};

/// Bytes a second of one greedy connection, once it has begun, and its mean over these seeds.
fn throughput(seeds: u64, seconds: u64, there: &LinkConfig, delay: Duration, window: usize) -> f64 {
    let total: f64 = (0..seeds)
        .map(|seed| {
            let config = TcpConfig {
                receive_window: window,
                send_buffer: window,
                ..TcpConfig::default()
            };
            let back = LinkConfig {
                delay,
                ..LinkConfig::default()
            };
            let sctp = EndpointConfig::default();
            let mut world = World::new(seed, there.clone(), back, &sctp, config);
            world.open_tcp(config, GREEDY);
            let end = Duration::from_secs(10 + seconds);
            world.run_until(end);
            let from = world.at(Duration::from_secs(10));
            goodput(world.server().deliveries(), from, world.at(end))
        })
        .sum();
    // A length of 4 bytes goes before each message.
    total / seeds as f64 * 1004.0 / 1000.0
}

#[test]
fn without_loss_it_is_a_window_each_round_trip() {
    for (window, milliseconds) in [(32_768, 50), (32_768, 200), (65_536, 100), (262_144, 100)] {
        let delay = Duration::from_millis(milliseconds);
        let link = LinkConfig {
            delay,
            ..LinkConfig::default()
        };
        let measured = throughput(1, 20, &link, delay, window);
        let law = window as f64 / (2.0 * delay.as_secs_f64());
        let ratio = measured / law;
        // Silly-window avoidance leaves up to a segment unused, and an acknowledgement may be
        // delayed once a window.
        assert!((0.8..=1.01).contains(&ratio), "{window} {delay:?}: {ratio}");
    }
}

#[test]
fn with_loss_it_is_near_the_law_of_mathis() {
    let delay = Duration::from_millis(50);
    for loss in [0.001_f64, 0.004, 0.01, 0.02] {
        let link = LinkConfig {
            loss: loss.into(),
            delay,
            ..LinkConfig::default()
        };
        let measured = throughput(4, 100, &link, delay, 1 << 20);
        // Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm"
        // (1997): C = sqrt(3/4) where every second segment is acknowledged.
        let law = MSS / 0.1 * (0.75 / loss).sqrt();
        let ratio = measured / law;
        println!("loss {loss}: {measured:.0} bytes/s, {ratio:.2} of the law");
        // Plain Reno without SACK has timeouts where several segments of a window are lost, which
        // the law leaves out.
        assert!((0.6..=1.4).contains(&ratio), "loss {loss}: {ratio}");
    }
}
