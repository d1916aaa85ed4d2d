//! Loss detection and recovery beyond RFC 9260: RACK-TLP (RFC 8985), Early Retransmit (RFC 5827), F-RTO
//! (RFC 5682), RTO Restart (RFC 7765), thin streams, and the profile for signalling.

mod long_reports;
mod paths;
mod probes;
mod rack;
mod random;
mod signalling;
mod spurious;
mod timers;

use std::time::Duration;

use sctp::EndpointConfig;
use sctp::LossDetection;

use crate::multihoming::network::{CLIENT, Network, plain};

const MILLISECOND: Duration = Duration::from_millis(1);

/// RFC 9260's parameters, with RACK-TLP.
fn rack_tlp() -> EndpointConfig {
    plain().loss_detection(LossDetection::RackTlp)
}

/// Two hosts that have exchanged a few messages, so that the round-trip time is known: 20 ms.
fn established(networks: u8, config: EndpointConfig) -> Network {
    let mut network = Network::with(networks, config.clone(), config);
    network.establish();
    for number in 0..4 {
        network.transfer(1, 100 + number, 1, |_| {});
        network.run_for(300 * MILLISECOND);
    }
    network
}

/// Sends a message on each of these streams, a millisecond apart, and loses those of `lost`.
fn send_losing(network: &mut Network, streams: std::ops::Range<u16>, lost: &[u16]) {
    for stream in streams {
        network.loss = f64::from(u8::from(lost.contains(&stream)));
        network.send(
            CLIENT,
            crate::common::ordered(stream),
            crate::common::message(usize::from(stream), 100),
        );
        network.loss = 0.0;
        network.run_for(MILLISECOND);
    }
}
