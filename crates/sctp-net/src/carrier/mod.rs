//! What carries SCTP packets between us and the network.
//!
//! A carrier has a [`Writer`] for each worker, and a [`Reader`] for each worker where the kernel can
//! steer packets to their owners; else only the first worker reads, and hands over.

mod host;
mod interface_mtu;
mod kernel_sctp;
mod raw;
mod raw_socket;
mod sources;
mod steering;
mod udp;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use sctp::{PathAddress, Transmit};
use tap::{Direction, Record, Tap, UdpPorts};
use udp_net::{Report, UdpSocket};

use crate::config::{RawCarrierConfig, UdpCarrierConfig};
use crate::statistics::CarrierStatistics;

pub(crate) use host::addresses_of_host;
pub use interface_mtu::interface_mtu;
pub use kernel_sctp::kernel_has_sctp;

/// A carrier, to be shared out among workers.
pub(crate) struct Carrier {
    /// All local addresses; wildcards stand for all of the host's.
    pub(crate) addresses: Vec<IpAddr>,
    /// The local UDP port; 0 where there is no encapsulation.
    pub(crate) port: u16,
    /// The addresses that peers are told of.
    pub(crate) listed: Vec<IpAddr>,
    /// Whether it is known which interface leads to link-local peers.
    pub(crate) has_zone: bool,
    /// What each worker works with.
    pub(crate) ends: Vec<(Option<Reader>, Writer)>,
}

/// A packet that arrived, from the SCTP common header on.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) from: PathAddress,
    pub(crate) packet: Bytes,
}

/// What the network says of a packet that we sent.
#[derive(Debug)]
pub(crate) struct Reported {
    /// Where the packet went.
    pub(crate) path: PathAddress,
    pub(crate) report: Report,
    /// The packet's beginning, from the SCTP common header on, as much as was quoted.
    pub(crate) quoted: Bytes,
}

impl Carrier {
    /// UDP sockets, each bound to one local address.
    pub(crate) fn udp(config: &UdpCarrierConfig, workers: usize) -> io::Result<Carrier> {
        udp::open(config, workers)
    }

    /// Raw IP sockets, one for each IP version that there are addresses of.
    pub(crate) fn raw(config: &RawCarrierConfig, workers: usize) -> io::Result<Carrier> {
        raw::open(config, workers)
    }
}

/// The receiving end of a carrier.
pub(crate) enum Reader {
    Udp(udp::Reader),
    Raw(raw::Reader),
}

impl Reader {
    /// Waits until something has arrived. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// When the carrier has failed for good.
    pub(crate) async fn receive(&mut self) -> io::Result<()> {
        match self {
            Reader::Udp(reader) => reader.receive().await,
            Reader::Raw(reader) => reader.receive().await,
        }
    }

    /// Takes a packet that has arrived.
    pub(crate) fn pop(&mut self) -> Option<Arrived> {
        match self {
            Reader::Udp(reader) => reader.pop(),
            Reader::Raw(reader) => reader.pop(),
        }
    }

    /// What was counted here and not by the [`Writer`].
    pub(crate) fn statistics(&self) -> CarrierStatistics {
        match self {
            Reader::Udp(_) => CarrierStatistics::default(),
            Reader::Raw(reader) => reader.statistics(),
        }
    }

    /// Takes an error that has come back.
    pub(crate) fn pop_error(&mut self) -> Option<Reported> {
        match self {
            Reader::Udp(reader) => reader.pop_error(),
            Reader::Raw(reader) => reader.pop_error(),
        }
    }
}

/// The sending end of a carrier: a queue of packets, and where they go.
pub(crate) enum Writer {
    Udp(udp::Writer),
    Raw(raw::Writer),
}

impl Writer {
    /// Appends a packet; one that is not meant for this carrier is dropped.
    pub(crate) fn push(&mut self, transmit: Transmit) {
        match self {
            Writer::Udp(writer) => writer.push(transmit),
            Writer::Raw(writer) => writer.push(transmit),
        }
    }

    /// Takes note of a packet that arrived for us: not all that a raw socket hears is.
    pub(crate) fn note_arrival(&mut self, arrived: &Arrived) {
        match self {
            Writer::Udp(writer) => writer.note_arrival(arrived),
            Writer::Raw(writer) => writer.note_arrival(arrived),
        }
    }

    /// How many packets wait.
    pub(crate) fn len(&self) -> usize {
        match self {
            Writer::Udp(writer) => writer.len(),
            Writer::Raw(writer) => writer.len(),
        }
    }

    /// Sends what waits, as far as the kernel has room; true when that is everything. What the
    /// kernel refuses is counted and dropped, as a network might.
    pub(crate) fn flush(&mut self) -> bool {
        match self {
            Writer::Udp(writer) => writer.flush(),
            Writer::Raw(writer) => writer.flush(),
        }
    }

    /// Takes a packet that was larger than the interface takes, as the network would report it.
    pub(crate) fn pop_refused(&mut self) -> Option<Reported> {
        match self {
            Writer::Udp(writer) => writer.pop_refused(),
            Writer::Raw(writer) => writer.pop_refused(),
        }
    }

    /// Where packets wait for room in the kernel.
    pub(crate) fn blocked(&self) -> Option<Blocked> {
        match self {
            Writer::Udp(writer) => writer.blocked().map(Blocked::Udp),
            Writer::Raw(writer) => writer.blocked().map(Blocked::Raw),
        }
    }

    /// The sockets that may hold packets back.
    pub(crate) fn delayed(&self) -> Vec<Arc<UdpSocket>> {
        match self {
            Writer::Udp(writer) => writer.sockets(),
            Writer::Raw(_) => Vec::new(),
        }
    }

    /// The local address for a path to `remote`; `None` leaves it to the kernel.
    pub(crate) fn source_toward(&mut self, remote: IpAddr) -> Option<IpAddr> {
        match self {
            Writer::Udp(writer) => writer.source_toward(remote),
            Writer::Raw(writer) => writer.source_toward(remote),
        }
    }

    /// What this worker's part of the carrier has counted.
    pub(crate) fn statistics(&self) -> CarrierStatistics {
        match self {
            Writer::Udp(writer) => writer.statistics(),
            Writer::Raw(writer) => writer.statistics(),
        }
    }
}

/// A socket that had no room for packets.
pub(crate) enum Blocked {
    Udp(Arc<UdpSocket>),
    Raw(Arc<raw_socket::RawSocket>),
}

impl Blocked {
    /// Waits until the kernel may have room again.
    ///
    /// # Errors
    ///
    /// When the carrier has failed for good.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Blocked::Udp(socket) => {
                socket.writable().await;
                Ok(())
            }
            Blocked::Raw(socket) => socket.writable().await,
        }
    }
}

/// Records packets as they go over the wire, when that is wanted.
#[derive(Clone, Debug)]
struct Recorder {
    tap: Option<Tap>,
    /// Our UDP port, where there is encapsulation.
    port: Option<u16>,
}

impl Recorder {
    fn is_on(&self) -> bool {
        self.tap.is_some()
    }

    fn inbound(&self, arrived: &Arrived) {
        if let Some(tap) = &self.tap {
            let unknown = any_like(arrived.from.remote);
            let ports = self.ports(arrived.from.encapsulation_port);
            tap.record(&Record {
                time: SystemTime::now(),
                direction: Direction::Inbound,
                source: arrived.from.remote,
                destination: arrived.from.local.unwrap_or(unknown),
                udp: ports.map(|(ours, theirs)| UdpPorts {
                    source: theirs,
                    destination: ours,
                }),
                packet: &arrived.packet,
            });
        }
    }

    fn outbound(&self, transmit: &Transmit, local: IpAddr) {
        if let Some(tap) = &self.tap {
            let ports = self.ports(transmit.path.encapsulation_port);
            tap.record(&Record {
                time: SystemTime::now(),
                direction: Direction::Outbound,
                source: transmit.path.local.unwrap_or(local),
                destination: transmit.path.remote,
                udp: ports.map(|(ours, theirs)| UdpPorts {
                    source: ours,
                    destination: theirs,
                }),
                packet: &transmit.packet,
            });
        }
    }

    fn ports(&self, theirs: Option<u16>) -> Option<(u16, u16)> {
        self.port.zip(theirs)
    }
}

/// What the network would say of a packet that is larger than our own interface takes.
fn too_big(path: PathAddress, packet: Bytes) -> Reported {
    Reported {
        path,
        report: Report::TooBig {
            mtu: sources::mtu_toward(path.remote).unwrap_or(0),
        },
        quoted: packet,
    }
}

/// The wildcard address of the family of `remote`.
fn any_like(remote: IpAddr) -> IpAddr {
    match remote {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The addresses that peers are told: none with a wildcard among them, for then they are not known.
fn listed(addresses: &[IpAddr]) -> Vec<IpAddr> {
    if addresses.iter().any(IpAddr::is_unspecified) {
        Vec::new()
    } else {
        addresses.to_vec()
    }
}

/// An error that names what could not be opened.
fn opening(what: impl std::fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("SCTP over {what}: {error}"))
}

fn with_scope_of(mut destination: SocketAddr, local: SocketAddr) -> SocketAddr {
    if let (SocketAddr::V6(destination), SocketAddr::V6(local)) = (&mut destination, local)
        && destination.ip().is_unicast_link_local()
    {
        // The interface of a link-local address is the one that was given with the socket's own.
        destination.set_scope_id(local.scope_id());
    }
    destination
}
