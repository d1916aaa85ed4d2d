//! Driver: UDP sockets in batches, with the link model inside them when asked.
//!
//! A [`UdpSocket`] reads and writes datagrams many at a time (`recvmmsg`, and segmentation and
//! receive offload where the kernel has them), tells for each datagram which local address it was
//! sent to, so that a socket bound to a wildcard address can answer from there, and counts what
//! goes over the wire. With an [`Impairment`] the socket loses, delays and duplicates datagrams
//! in both directions as a seeded [`link::Link`] says, which lets a program on one host see a bad
//! network without help from the kernel.
//!
//! Everything works on `&UdpSocket`: one task can wait in [`UdpSocket::recv`] while others send.
#![deny(unsafe_code)]

mod batch;
mod datagram;
mod delay;
mod header;
mod impairment;
mod name;
mod network_error;
mod options;
mod pending;
mod plain;
mod port_holder;
mod receive_many;
mod registration;
mod route;
mod send_many;
mod socket;
mod stamps;
mod statistics;

pub use batch::{Batch, Received};
pub use datagram::Datagram;
pub use impairment::Impairment;
pub use link::{Jitter, LinkConfig};
pub use network_error::{NetworkError, Report, hear_network_errors, next_network_error};
pub use options::{allow_fragmentation, forbid_fragmentation, path_mtu};
pub use plain::{DatagramSlice, PLAIN_BATCH, PlainBatch, PlainDatagram, PlainSocket};
pub use port_holder::{PortHolder, port_holder};
pub use route::local_address_towards;
pub use socket::{Flushed, SendOutcome, SendQueue, UdpConfig, UdpSocket};
pub use statistics::UdpStatistics;
