//! A trace as a capture file.

use crate::{Fate, Sent};
use link::DropCause;
use std::io::{self, Write};
use std::time::{Instant, UNIX_EPOCH};
use tap::{CaptureWriter, Direction, Record, UdpPorts};

/// Writes what was sent as pcapng that Wireshark opens, times counted from `start`. Each packet
/// stands there once, at the time when it was sent, with its fate as a comment.
///
/// `contents` tells of a payload the UDP ports, if it goes in UDP, and the SCTP packet.
///
/// # Errors
///
/// Those of writing.
pub fn write_capture<P>(
    trace: &[Sent<P>],
    start: Instant,
    to: impl Write,
    contents: impl Fn(&P) -> (Option<UdpPorts>, &[u8]),
) -> io::Result<()> {
    let mut writer = CaptureWriter::new(to, "simulation")?;
    for sent in trace {
        let (udp, packet) = contents(&sent.datagram.payload);
        let record = Record {
            time: UNIX_EPOCH + (sent.at - start),
            direction: Direction::Outbound,
            source: sent.datagram.source,
            destination: sent.datagram.destination,
            udp,
            packet,
        };
        writer.record_with_comment(&record, &describe(sent))?;
    }
    writer.finish()?;
    Ok(())
}

fn describe<P>(sent: &Sent<P>) -> String {
    let verdict = match sent.fate {
        Fate::Unroutable => return "lost: no route".to_owned(),
        Fate::TooBig { mtu } => return format!("lost: larger than the MTU of {mtu} bytes"),
        Fate::Offered(verdict) => verdict,
    };
    match verdict.drop_cause() {
        Some(DropCause::Down) => return "lost: link down".to_owned(),
        Some(DropCause::QueueFull) => return "lost: queue full".to_owned(),
        Some(DropCause::QueueManagement) => return "lost: dropped by the queue".to_owned(),
        Some(DropCause::Lost) => return "lost".to_owned(),
        None => {}
    }
    let delays = verdict.deliveries().map(|delivery| {
        let spoiled = delivery.alteration.map_or("", |_| " with flipped bits");
        format!("{:?}{spoiled}", delivery.at - sent.at)
    });
    format!("arrives after {}", delays.collect::<Vec<_>>().join(" and "))
}
