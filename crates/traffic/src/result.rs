//! What a run measured, from both sides.

use measures::DelaySummary;
use perf::{Over, Protocol};
use serde::Serialize;

use crate::encryption::Encryption;
use crate::interface::Interface;
use crate::link_budget::{Frame, Ip, Transport};
use crate::plan::{Limit, Rate};
use crate::reception::ReceiverReport;
use crate::work::Work;

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Which experiment.
    pub experiment: u64,
    /// Which run of it.
    pub run: u32,
    /// Which repetition of the same, from 1.
    pub trial: u32,
    /// Where packets went.
    pub target: String,
    /// What carried them.
    pub transport: Protocol,
    /// What carried SCTP.
    pub over: Option<Over>,
    /// Octets of a packet with its header, before encryption.
    pub size_bytes: usize,
    /// Octets of a packet as it left.
    pub packet_bytes: usize,
    /// How it was encrypted.
    pub encryption: Encryption,
    /// Whether that protects anything today.
    pub secure: bool,
    /// How departures were spread.
    pub pattern: String,
    /// How many there were to be.
    pub rate: Rate,
    /// What was to end it.
    pub limit: Limit,
    /// Whether somebody ended it before.
    pub interrupted: bool,
    /// Packets that were made to be sent.
    pub sent: u64,
    /// Those of them that our own system refused to send.
    pub refused: u64,
    /// How long sending took, seconds.
    pub seconds: f64,
    /// Packets sent a second.
    pub packets_per_second: Option<f64>,
    /// Octets of packets received a second, in bits.
    pub received_bits_per_second: Option<f64>,
    /// How long after their time packets were made.
    #[serde(with = "measures::MillisecondKeys")]
    pub lateness: DelaySummary,
    /// Whether 95 % of the packets were made within a millisecond of their time, or of the time of the next
    /// one where there are fewer than a thousand a second. Where not, the rate is not what was asked for.
    pub on_schedule: bool,
    /// What encryption took.
    pub sealing: Work,
    /// Processor time of the thread that sends, for each packet, nanoseconds.
    pub sender_nanoseconds_per_packet: Option<f64>,
    /// From making a packet to having its echo decrypted.
    #[serde(with = "measures::MillisecondKeys")]
    pub round_trip: DelaySummary,
    /// Packets that were sent back and did not come, or were not ours.
    pub echoes_lost: u64,
    /// Packets that left and did not come.
    pub lost: u64,
    /// Of those that left, in percent.
    pub loss_percent: f64,
    /// What the receiver saw.
    pub receiver: ReceiverReport,
    /// How much of the link that is.
    pub link: Option<LinkShare>,
}

/// What a run needed of a link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkShare {
    /// The interface, as far as it is known.
    pub interface: Option<Interface>,
    /// The speed of the link.
    pub bits_per_second: u64,
    /// A packet on it.
    pub frame: Frame,
    /// How many such packets it carries at most.
    pub max_packets_per_second: f64,
    /// How many of them were sent, in percent.
    pub share_percent: Option<f64>,
}

impl LinkShare {
    /// What packets of a run need of a link; `rate` is how many were sent a second.
    pub(crate) fn new(
        interface: Option<Interface>,
        bits_per_second: u64,
        packet_bytes: usize,
        (ip, transport): (Ip, Transport),
        rate: Option<f64>,
    ) -> LinkShare {
        let mtu = interface.as_ref().map_or(1_500, |one| one.mtu);
        let frame = Frame::of(packet_bytes as u64, ip, transport, mtu);
        let max = frame.packets_per_second(bits_per_second);
        LinkShare {
            interface,
            bits_per_second,
            frame,
            max_packets_per_second: max,
            share_percent: rate.map(|rate| rate / max * 100.0),
        }
    }
}
