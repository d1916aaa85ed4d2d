//! The stage of the experiments of Jungmaier 2000: senders and receivers on either side of one line, which
//! carries 100 kByte a second and loses nothing. The scenario is the same on simulated hosts and on real
//! ones.

mod net;
mod sim;

use std::time::Duration;

use link::{Bottleneck, LinkConfig, MAX_QUEUE_PACKETS};
use sctp::EndpointConfig;

use crate::context::Context;
use crate::experiment::On;
use crate::laws::{SymmetricLink, Wire};
use crate::net::sctp_goes_in_udp;

/// The largest IP packet on the line.
pub(crate) const MTU: usize = 1500;

/// What a receiver's window holds of user data: "32 KByte" (Jungmaier 2000, section 5.1).
pub(crate) const WINDOW: usize = 32 * 1024;

/// Over the simulated TCP a message has its length before it, in so many bytes. On real sockets the
/// stream is all user data.
const TCP_FRAMING: usize = 4;

/// Twice a window, so that the user never keeps the sender waiting, and not much more, so that it
/// falls silent soon when he does.
pub(crate) const SEND_BUFFER: usize = 2 * WINDOW;

/// A scenario: who sends what, when, over which line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scenario {
    pub(crate) line: SymmetricLink,
    pub(crate) flows: Vec<Flow>,
    pub(crate) lasts: Duration,
}

/// One sender and its receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Flow {
    pub(crate) transport: Transport,
    /// Bytes of each message.
    pub(crate) message: usize,
    /// Bytes a second that the user has to send; without it he always has more.
    pub(crate) rate: Option<f64>,
    /// When it is opened.
    pub(crate) begins: Duration,
    /// When its user falls silent.
    pub(crate) ends: Duration,
}

/// What a flow goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// SCTP; without bundling each message goes in a packet of its own.
    Sctp { bundled: bool },
    /// TCP with Reno.
    Tcp,
}

impl Flow {
    /// A sender that always has more, for the whole scenario.
    pub(crate) fn greedy(transport: Transport, message: usize, lasts: Duration) -> Flow {
        Flow {
            transport,
            message,
            rate: None,
            begins: Duration::ZERO,
            ends: lasts,
        }
    }

    /// How its data looks on the line.
    pub(crate) fn wire(&self, on: On) -> Wire {
        match (self.transport, on) {
            (Transport::Sctp { bundled }, On::Net) if sctp_goes_in_udp() => {
                Wire::sctp(self.message, MTU, bundled).in_udp()
            }
            (Transport::Sctp { bundled }, _) => Wire::sctp(self.message, MTU, bundled),
            // smoltcp sends no options after the handshake, Linux timestamps in each segment.
            (Transport::Tcp, On::Sim) => Wire::tcp(MTU, 0, self.message, TCP_FRAMING),
            (Transport::Tcp, On::Net) => Wire::tcp(MTU, 12, self.message, 0),
        }
    }

    /// User data that its window holds.
    pub(crate) fn window(&self, on: On) -> f64 {
        match (self.transport, on) {
            (Transport::Sctp { .. }, _) | (_, On::Net) => WINDOW as f64,
            // TCP's window counts the lengths, too.
            (Transport::Tcp, On::Sim) => {
                (WINDOW * self.message) as f64 / (self.message + TCP_FRAMING) as f64
            }
        }
    }
}

/// Packets of a window that are not under way: two that wait for their acknowledgement. On real hosts
/// two more, for it leaves before the user has read what it acknowledges, and says how much room there
/// is without these.
pub(crate) fn unused_packets(on: On) -> f64 {
    match on {
        On::Sim => 2.0,
        On::Net => 4.0,
    }
}

/// The messages that a receiver got, each with the time since the beginning and its size.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Received {
    pub(crate) arrivals: Vec<(Duration, usize)>,
}

impl Received {
    /// User bytes a second from one time until before another.
    pub(crate) fn goodput(&self, from: Duration, to: Duration) -> f64 {
        let within = self
            .arrivals
            .iter()
            .filter(|(at, _)| (from..to).contains(at));
        let bytes: usize = within.map(|(_, bytes)| bytes).sum();
        bytes as f64 / (to - from).as_secs_f64()
    }

    /// The middle of each bin of that width, in seconds, and the user bytes a second in it.
    pub(crate) fn binned(&self, width: Duration, lasts: Duration) -> Vec<(f64, f64)> {
        let bins = (lasts.as_secs_f64() / width.as_secs_f64()).floor() as u32;
        let bin = |number| {
            let from = width * number;
            let middle = (from + width / 2).as_secs_f64();
            (middle, self.goodput(from, from + width))
        };
        (0..bins).map(bin).collect()
    }
}

/// Runs the scenarios, and returns what the receivers of each got, in the order of its flows. `number`
/// tells this from what else an experiment runs. On real hosts several go on at once, each on a
/// network of its own; each that ends is a step done.
pub(crate) fn run_scenarios(
    on: On,
    context: &Context,
    number: u64,
    scenarios: &[Scenario],
) -> anyhow::Result<Vec<Vec<Received>>> {
    match on {
        On::Sim => (number << 16..)
            .zip(scenarios)
            .map(|(number, scenario)| {
                let received = sim::run_scenario(context, number, scenario);
                context.done();
                received
            })
            .collect(),
        On::Net => net::run_scenarios(context, number << 16, scenarios),
    }
}

/// Either direction of a line.
fn link_config(line: &SymmetricLink) -> LinkConfig {
    LinkConfig {
        bottleneck: Some(Bottleneck {
            // Whatever the windows let out waits: nothing is lost.
            queue_packets: MAX_QUEUE_PACKETS,
            queue_bytes: usize::MAX,
            ..Bottleneck::new((line.rate * 8.0) as u64)
        }),
        delay: line.delay,
        ..LinkConfig::default()
    }
}

/// The settings of both ends of an association.
fn sctp_config(bundled: bool) -> EndpointConfig {
    EndpointConfig::default()
        .a_rwnd(WINDOW as u32)
        .send_buffer(SEND_BUFFER)
        .mtu(MTU)
        .path_mtu_discovery(false)
        .bundling(bundled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_heard_is_counted_once() {
        let millisecond = Duration::from_millis(1);
        let received = Received {
            arrivals: (0..100)
                .map(|number| (number * 10 * millisecond, 10))
                .collect(),
        };
        let second = Duration::from_secs(1);
        assert_eq!(received.goodput(Duration::ZERO, second), 1000.0);
        assert_eq!(received.goodput(second / 2, second), 1000.0);
        let bins = received.binned(second / 4, second);
        assert_eq!(bins[0], (0.125, 1000.0));
        assert_eq!(bins.len(), 4);
    }
}
