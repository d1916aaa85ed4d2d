//! Calls, and messages of M3UA, saved as pcapng.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use capture::{Dialog, Endpoint, Recorded, Time};
use sip::Transport;
use tap::{Direction, MessageProtocol, MessageRecord, MessageTap, PortKind};

/// Writes the messages of dialogs in the order of time, whole and in the clear whatever carried them.
///
/// # Errors
///
/// When there is a file of this name, or it cannot be written.
pub(super) fn save<'d>(
    path: &Path,
    interface: &str,
    dialogs: impl Iterator<Item = &'d Dialog>,
) -> io::Result<usize> {
    if path.exists() {
        return Err(io::Error::other("a file of this name exists"));
    }
    let messages = dialogs.flat_map(|dialog| {
        let protocol = match dialog.is_sip() {
            true => MessageProtocol::Sip,
            false => MessageProtocol::M3ua,
        };
        let messages = dialog.messages.iter();
        messages.map(move |message| (protocol, message))
    });
    let mut messages: Vec<(MessageProtocol, &Recorded)> = messages.collect();
    messages.sort_by_key(|(_, message)| (message.time, message.packet));
    let tap = MessageTap::create(path, interface)?;
    /// The writer's queue is bounded: it is let catch up.
    const AT_ONCE: usize = 256;
    for some in messages.chunks(AT_ONCE) {
        for (protocol, message) in some {
            tap.record(&record(*protocol, message));
        }
        tap.flush()?;
    }
    match tap.statistics() {
        statistics if statistics.dropped > 0 => {
            Err(io::Error::other("not all messages could be written"))
        }
        _ => Ok(messages.len()),
    }
}

fn record(protocol: MessageProtocol, message: &Recorded) -> MessageRecord<'_> {
    let transport = message.carrier.transport();
    MessageRecord {
        protocol,
        time: UNIX_EPOCH + since_epoch(message.time),
        direction: Direction::Inbound,
        ports: match transport {
            Transport::Udp => PortKind::Udp,
            Transport::Sctp | Transport::TlsSctp => PortKind::Sctp,
            Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => PortKind::Tcp,
        },
        transport: transport.via_name(),
        source: address(message.source),
        destination: address(message.destination),
        message: &message.octets,
    }
}

fn since_epoch(time: Time) -> Duration {
    Duration::from_nanos(u64::try_from(time.0).unwrap_or(0))
}

fn address(end: Endpoint) -> SocketAddr {
    SocketAddr::new(end.address, end.port)
}
