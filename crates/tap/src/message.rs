//! Messages of SIP and M3UA as they are inside of whatever carried them.

use crate::blocks::{LinkType, append_interface, append_packet, append_section_header};
use crate::capture_writer::APPLICATION;
use crate::live::Live;
use crate::{Direction, TapStatistics};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::SystemTime;

/// One message on its way.
#[derive(Debug, Clone, Copy)]
pub struct MessageRecord<'a> {
    /// When it was sent or received.
    pub time: SystemTime,
    /// Which way it went.
    pub direction: Direction,
    /// Whose message it is.
    pub protocol: MessageProtocol,
    /// What the ports are ports of.
    pub ports: PortKind,
    /// The transport as Wireshark shows it, in the packet's comment: `TLS` for instance.
    pub transport: &'a str,
    /// The sender. An unspecified address is written as it is.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// The whole message, in the clear.
    pub message: &'a [u8],
}

/// The protocol of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageProtocol {
    /// SIP.
    Sip,
    /// M3UA (RFC 4666).
    M3ua,
}

/// The protocol whose ports a message went between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// UDP.
    Udp,
    /// TCP, with or without TLS or WebSocket in it.
    Tcp,
    /// SCTP, with or without TLS in it.
    Sctp,
}

/// A capture of messages in a file, whatever carries them: what goes through TLS is there in
/// the clear. Clones write to the same file.
///
/// Wireshark shows each as a message of its protocol with its addresses and ports, and knows calls and their
/// flows; there are no IP packets in it. Recording never waits; see [`Tap`](crate::Tap).
#[derive(Debug, Clone)]
pub struct MessageTap {
    live: Live,
}

impl MessageTap {
    /// Begins a capture in a new file; one that is there is overwritten. `interface` is the name by
    /// which Wireshark shows where it was taken.
    ///
    /// # Errors
    ///
    /// When the file or the thread cannot be made.
    pub fn create(path: impl AsRef<Path>, interface: &str) -> io::Result<MessageTap> {
        let mut prelude = Vec::new();
        append_section_header(APPLICATION, &mut prelude);
        append_interface(interface, LinkType::UpperPdu, &mut prelude);
        let live = Live::create(path.as_ref(), &prelude, u64::MAX)?;
        Ok(MessageTap { live })
    }

    /// Records one message.
    pub fn record(&self, record: &MessageRecord<'_>) {
        self.live.record(record.message.len(), |out| {
            append_packet(
                record.time,
                record.direction,
                record.transport,
                out,
                |out| {
                    append_pdu(record, out);
                    true
                },
            )
        });
    }

    /// Waits until all that was recorded before is in the file.
    ///
    /// # Errors
    ///
    /// When it could not be written, now or earlier.
    pub fn flush(&self) -> io::Result<()> {
        self.live.flush()
    }

    /// What was recorded and left out so far.
    pub fn statistics(&self) -> TapStatistics {
        self.live.statistics()
    }
}

/// The message with the tags of an exported PDU before it, in network byte order: what dissects it,
/// and where it was found.
fn append_pdu(record: &MessageRecord<'_>, out: &mut Vec<u8>) {
    let dissector = match record.protocol {
        MessageProtocol::Sip => b"sip\0",
        MessageProtocol::M3ua => b"m3ua",
    };
    append_tag(DISSECTOR_NAME, dissector, out);
    append_address([IPV4_SOURCE, IPV6_SOURCE], record.source, out);
    append_address(
        [IPV4_DESTINATION, IPV6_DESTINATION],
        record.destination,
        out,
    );
    let kind = match record.ports {
        PortKind::Sctp => 1_u32,
        PortKind::Tcp => 2,
        PortKind::Udp => 3,
    };
    append_tag(PORT_TYPE, &kind.to_be_bytes(), out);
    for (tag, port) in [
        (SOURCE_PORT, record.source.port()),
        (DESTINATION_PORT, record.destination.port()),
    ] {
        append_tag(tag, &u32::from(port).to_be_bytes(), out);
    }
    append_tag(END_OF_TAGS, &[], out);
    out.extend_from_slice(record.message);
}

/// A socket for both families tells of IPv4 addresses in their IPv6 form.
fn append_address([ipv4, ipv6]: [u16; 2], address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip().to_canonical() {
        IpAddr::V4(address) => append_tag(ipv4, &address.octets(), out),
        IpAddr::V6(address) => append_tag(ipv6, &address.octets(), out),
    }
}

/// All values that are written have a length of a multiple of 4, as is asked for.
fn append_tag(tag: u16, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&tag.to_be_bytes());
    out.extend_from_slice(&(value.len() as u16).to_be_bytes());
    out.extend_from_slice(value);
}

// The tags of LINKTYPE_WIRESHARK_UPPER_PDU.
const END_OF_TAGS: u16 = 0;
const DISSECTOR_NAME: u16 = 12;
const IPV4_SOURCE: u16 = 20;
const IPV4_DESTINATION: u16 = 21;
const IPV6_SOURCE: u16 = 22;
const IPV6_DESTINATION: u16 = 23;
const PORT_TYPE: u16 = 24;
const SOURCE_PORT: u16 = 25;
const DESTINATION_PORT: u16 = 26;
