//! User data from one host to another as fast as it goes: on connections of TCP, or on the streams of an
//! association, over one link. The same on simulated hosts and on real ones.

mod judge;
mod net;
mod sim;

use std::ops::RangeInclusive;
use std::time::Duration;

use link::{Bottleneck, Distribution, LinkConfig, LinkStatistics, Rate};
use sctp::{EndpointConfig, EndpointStatistics, LossDetection};
use sim_transport::TcpConfig;

use crate::congestion::Congestion;
use crate::context::Context;
use crate::experiment::On;
use crate::laws::{Pauses, Wire};
use crate::net::Lateness;
use crate::pair::MTU;

pub(crate) use judge::check_runs;

/// Over the simulated TCP a message has its length before it, in so many bytes. On real sockets the
/// stream is all user data.
const TCP_FRAMING: usize = 4;

/// What is carried.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bulk {
    /// Each direction of the link.
    pub(crate) link: LinkConfig,
    pub(crate) transport: Transport,
    pub(crate) congestion: Congestion,
    /// How SCTP finds losses; the kernel's TCP does by RACK-TLP, and reduces its rate in proportion (RFC 6937).
    pub(crate) loss_detection: LossDetection,
    /// Connections of TCP, streams of one association.
    pub(crate) flows: u16,
    pub(crate) until: Until,
    /// Bytes of the receiver's window of each connection and of the association, and as much again that
    /// waits to be sent.
    pub(crate) window: usize,
}

/// Over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// smoltcp's with Reno on simulated hosts, the kernel's on real ones.
    Tcp,
    /// Ours: right on IP on simulated hosts, in UDP (RFC 6951) on real ones.
    Sctp,
}

/// How much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// So many messages on each flow.
    Messages(u64),
    /// Whatever the transport takes for so long after it is up.
    Time(Duration),
}

/// What was carried.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Carried {
    /// Bytes that the sender's transport has taken.
    pub(crate) sent: u64,
    /// Bytes that the receiver's user has got.
    pub(crate) received: u64,
    /// From the beginning until all flows were up at the sender.
    pub(crate) set_up: Duration,
    /// From then until the sender's transport had taken the last byte.
    pub(crate) sending: Duration,
    /// From when the first flow was up at the receiver until its user had the last byte.
    pub(crate) receiving: Duration,
    /// From the beginning until the receiver's user had the last byte.
    pub(crate) took: Duration,
    /// What the link did to what went there.
    pub(crate) there: LinkStatistics,
    /// What it did to what went back.
    pub(crate) back: LinkStatistics,
    /// What the sender's SCTP has counted.
    pub(crate) sctp: Option<EndpointStatistics>,
    /// Segments that the kernel's TCP sent again.
    pub(crate) tcp_retransmissions: Option<u64>,
    /// How late the machine was.
    pub(crate) late: Lateness,
}

/// Carries it. All randomness follows from the context and `number`.
pub(crate) fn carry(
    on: On,
    context: &Context,
    number: u64,
    bulk: &Bulk,
) -> anyhow::Result<Carried> {
    match on {
        On::Sim => sim::carry(context, number, bulk),
        On::Net => net::carry(context, number, bulk),
    }
}

/// The largest message that fills one packet over SCTP: in UDP, 8 bytes less.
pub(crate) fn message(on: On) -> usize {
    match on {
        On::Sim => 1452,
        On::Net => 1444,
    }
}

impl Transport {
    pub(crate) const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Sctp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "TCP",
            Transport::Sctp => "SCTP",
        }
    }

    /// How its data looks on the link.
    pub(crate) fn wire(self, on: On) -> Wire {
        let message = message(on);
        match (self, on) {
            // smoltcp sends no options after the handshake, Linux timestamps in each segment.
            (Transport::Tcp, On::Sim) => Wire::tcp(MTU, 0, message, TCP_FRAMING),
            (Transport::Tcp, On::Net) => Wire::tcp(MTU, 12, message, 0),
            (Transport::Sctp, On::Sim) => Wire::sctp(message, MTU, true),
            (Transport::Sctp, On::Net) => Wire::sctp(message, MTU, true).in_udp(),
        }
    }

    /// Packets that may be sent at first, how many more for each acknowledgement of two, and for how long the
    /// acknowledgement of one alone may be delayed: RFC 9260 sections 7.2.1 (4,404 bytes over IPv4, and the MTU for each SACK)
    /// and 16; RFC 6928 section 2 (ten segments) and RFC 3465 (as many as were acknowledged), which is what Linux
    /// does, and 0.2 s at most; smoltcp begins with 2,048 bytes, one full segment.
    fn slow_start(self, on: On) -> (f64, f64, Duration) {
        match (self, on) {
            (Transport::Tcp, On::Sim) => {
                let delay = TcpConfig::default().ack_delay;
                (1.0, 1.0, delay.unwrap_or_default())
            }
            (Transport::Tcp, On::Net) => (10.0, 2.0, Duration::from_millis(200)),
            (Transport::Sctp, _) => (3.0, 1.0, EndpointConfig::default().association.sack_delay),
        }
    }
}

impl Bulk {
    /// Bytes a second of IP packets.
    fn rate(&self) -> f64 {
        match &self.link.bottleneck {
            Some(Bottleneck {
                rate: Rate::Constant(bits),
                ..
            }) => *bits as f64 / 8.0,
            _ => f64::INFINITY,
        }
    }

    /// Bytes a second of user data that the link carries at most.
    pub(crate) fn user_rate(&self, on: On) -> f64 {
        self.transport.wire(on).goodput(self.rate())
    }

    /// The least and the most that a packet may be under way that waits for nobody.
    fn delays(&self) -> (Duration, Duration) {
        let jitter = &self.link.jitter;
        let jitter = match jitter.distribution {
            Distribution::Uniform => jitter.amount,
            // All others are cut off there.
            _ => jitter.amount * 4,
        };
        let delay = self.link.delay;
        (delay.saturating_sub(jitter), delay + jitter)
    }

    /// From when the sender could send until the receiver's user had all that was carried, in seconds.
    ///
    /// The least is that of the link: all user data with its headers has to go through it, one packet after the
    /// other. The most is that the link is idle only where the sender has to wait: what has gone through the
    /// link (lost and repeated packets included) at its rate, the pauses that [`Pauses`] allows for what has been
    /// counted, and what the machine was late.
    pub(crate) fn allowed(&self, on: On, carried: &Carried) -> RangeInclusive<f64> {
        let (shortest, longest) = self.delays();
        // The first packet may have been under way for longer than the last.
        let least = carried.received as f64 / self.user_rate(on) + shortest.as_secs_f64()
            - (longest - shortest).as_secs_f64();
        let there = &carried.there;
        let through = there.offered_bytes
            - there.queue_full_bytes
            - there.queue_management_bytes
            - there.down_bytes;
        let busy = through as f64 / self.rate();
        // Emulator, receiver and its user are woken for the last packet; sender and receiver may both have had to
        // wait for the processor before.
        let machine = 3 * carried.late.usual + 2 * carried.late.stalled;
        least.max(0.0)
            ..=busy + (longest + machine).as_secs_f64() + self.pauses(on, carried).longest()
    }

    fn pauses(&self, on: On, carried: &Carried) -> Pauses {
        let wire = self.transport.wire(on);
        let (_, longest) = self.delays();
        let (first_window, growth, sack_delay) = self.transport.slow_start(on);
        let counted = carried.sctp.unwrap_or_default();
        // Sender, emulator and receiver have to be woken, and the first two once more on the way back.
        let wake_ups = 5.0 * carried.late.usual.as_secs_f64();
        Pauses {
            round_trip: 2.0 * longest.as_secs_f64()
                + (wire.packet + wire.acknowledgement) / self.rate()
                + wake_ups,
            packet: wire.packet / self.rate(),
            first_window,
            growth,
            fast_retransmits: counted.retransmitted_fast,
            lost_sacks: carried.back.dropped_packets(),
            expiries: counted.t3_expiries,
            waited: counted.t3_waited.as_secs_f64(),
            sack_delay: sack_delay.as_secs_f64(),
        }
    }
}

impl Carried {
    /// From when the sender could send until the receiver's user had all.
    pub(crate) fn under_way(&self) -> Duration {
        self.took.saturating_sub(self.set_up)
    }

    /// User data a second at the sender, as it handed it over, in bits.
    pub(crate) fn sent_rate(&self) -> f64 {
        rate(self.sent, self.sending)
    }

    /// User data a second at the receiver, in bits.
    pub(crate) fn received_rate(&self) -> f64 {
        rate(self.received, self.receiving)
    }

    /// What the sender's transport has repeated, where it tells.
    pub(crate) fn retransmissions(&self) -> Option<u64> {
        let of_sctp = |counted: EndpointStatistics| {
            counted.retransmitted_by_timeout + counted.retransmitted_fast
        };
        self.sctp.map(of_sctp).or(self.tcp_retransmissions)
    }
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 * 8.0 / time.as_secs_f64()
}

/// The settings of both ends of an association.
fn sctp_config(bulk: &Bulk) -> EndpointConfig {
    EndpointConfig::default()
        .congestion_control(bulk.congestion.of_sctp())
        .loss_detection(bulk.loss_detection)
        // It goes with RACK-TLP alone.
        .prr(true)
        .a_rwnd(bulk.window as u32)
        .send_buffer(bulk.window)
        .mtu(MTU)
        .path_mtu_discovery(false)
        .outbound_streams(bulk.flows)
}
