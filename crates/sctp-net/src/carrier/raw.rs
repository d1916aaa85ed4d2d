//! SCTP right on IP, protocol 132: a raw socket for each IP version.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use sctp::{PathAddress, Transmit};
use udp_net::NetworkError;

use super::host::addresses_of_host;
use super::kernel_sctp::refuse_beside_kernel_sctp;
use super::raw_socket::{OutgoingMessage, RawSocket, ReceiveBuffer};
use super::sources::Sources;
use super::{Arrived, Carrier, Recorder, Reported, any_like, too_big};
use crate::config::RawCarrierConfig;
use crate::statistics::CarrierStatistics;

pub(super) fn open(config: &RawCarrierConfig, workers: usize) -> io::Result<Carrier> {
    if !config.kernel_kept_away {
        refuse_beside_kernel_sctp()?;
    }
    let Addresses {
        addresses,
        listed,
        all,
    } = Addresses::find(&config.addresses)?;
    let family = |ipv6: bool| {
        addresses
            .iter()
            .any(|address| address.is_ipv6() == ipv6)
            .then(|| RawSocket::open(ipv6).map(Arc::new))
            .transpose()
            .map_err(|error| explain(&error))
    };
    let sockets: Vec<Arc<RawSocket>> = [family(false)?, family(true)?]
        .into_iter()
        .flatten()
        .collect();
    let recorder = Recorder {
        tap: config.tap.clone(),
        port: None,
    };
    let ends = (0..workers)
        .map(|worker| {
            // Every raw socket hears everything: one is enough.
            let reader = (worker == 0).then(|| {
                let ours = (!all).then(|| addresses.clone());
                super::Reader::Raw(Reader::new(&sockets, ours))
            });
            let writer = Writer::new(&sockets, &addresses, all, recorder.clone());
            (reader, super::Writer::Raw(writer))
        })
        .collect();
    Ok(Carrier {
        addresses,
        port: 0,
        listed,
        has_zone: false,
        ends,
    })
}

/// Local addresses.
struct Addresses {
    addresses: Vec<IpAddr>,
    /// Those that peers are told of.
    listed: Vec<IpAddr>,
    /// They are all of the host's.
    all: bool,
}

impl Addresses {
    fn find(given: &[IpAddr]) -> io::Result<Addresses> {
        if !given.is_empty() && !given.iter().any(IpAddr::is_unspecified) {
            let mut addresses = Vec::with_capacity(given.len());
            for &address in given {
                check_is_local(address)?;
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            return Ok(Addresses {
                listed: addresses.clone(),
                addresses,
                all: false,
            });
        }
        let wanted = |address: &IpAddr| {
            given.is_empty() || given.iter().any(|any| any.is_ipv4() == address.is_ipv4())
        };
        let mut addresses: Vec<IpAddr> = addresses_of_host()
            .map_err(|error| super::opening("IP: the local addresses", &error))?
            .into_iter()
            // An address that means something on one link only cannot be told to others.
            .filter(|address| !is_link_local(address))
            .filter(wanted)
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        if addresses.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                "SCTP over IP: this host has no usable address",
            ));
        }
        // To others a loopback address would be their own.
        let listed = addresses
            .iter()
            .copied()
            .filter(|address| !address.is_loopback())
            .collect();
        // Those that can be reached from elsewhere first.
        addresses.sort_by_key(IpAddr::is_loopback);
        Ok(Addresses {
            addresses,
            listed,
            all: true,
        })
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// A UDP socket can be bound to any address that is ours, and needs no permission.
fn check_is_local(address: IpAddr) -> io::Result<()> {
    let bound = std::net::UdpSocket::bind(SocketAddr::new(address, 0));
    bound
        .map(drop)
        .map_err(|error| super::opening(format_args!("IP, address {address}"), &error))
}

fn explain(error: &io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return super::opening("IP", error);
    }
    let program = std::env::current_exe()
        .map_or_else(|_| "PROGRAM".into(), |path| path.display().to_string());
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "SCTP over IP needs the capability CAP_NET_RAW: run as root, or grant it once by\n  \
             sudo setcap cap_net_raw+ep {program}\nor use SCTP in UDP, which needs none"
        ),
    )
}

pub(crate) struct Reader {
    sockets: Vec<Arc<RawSocket>>,
    buffer: ReceiveBuffer,
    arrived: VecDeque<Arrived>,
    errors: VecDeque<Reported>,
    /// The addresses that packets must be sent to; `None`: any of the host's.
    ours: Option<Vec<IpAddr>>,
    statistics: CarrierStatistics,
}

/// How many errors of the network are taken before packets are looked at again.
const MAX_NETWORK_ERRORS: usize = 32;

/// The kernel fails this many receive calls in a row before the carrier counts as failed.
const MAX_RECEIVE_ERRORS: usize = 1000;

impl Reader {
    fn new(sockets: &[Arc<RawSocket>], ours: Option<Vec<IpAddr>>) -> Self {
        Self {
            sockets: sockets.to_vec(),
            buffer: ReceiveBuffer::new(),
            arrived: VecDeque::new(),
            errors: VecDeque::new(),
            ours,
            statistics: CarrierStatistics::default(),
        }
    }

    pub(super) async fn receive(&mut self) -> io::Result<()> {
        let mut failures = 0;
        while self.arrived.is_empty() && self.errors.is_empty() {
            let (socket, has_errors) = ready(&self.sockets).await?;
            if has_errors {
                self.receive_errors(&socket);
                // What the receive call says next may be one of them.
                failures = 0;
            }
            match self.receive_from(&socket) {
                Ok(()) => failures = 0,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.statistics.receive_errors += 1;
                    tracing::debug!(%error, "receiving SCTP over IP failed");
                    failures += 1;
                    if failures == MAX_RECEIVE_ERRORS {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<Arrived> {
        self.arrived.pop_front()
    }

    pub(super) fn pop_error(&mut self) -> Option<Reported> {
        self.errors.pop_front()
    }

    pub(super) fn statistics(&self) -> CarrierStatistics {
        self.statistics
    }

    fn receive_from(&mut self, socket: &RawSocket) -> io::Result<()> {
        let (arrived, ours) = (&mut self.arrived, &self.ours);
        socket.receive(&mut self.buffer, |remote, local, packet| {
            if ours.as_ref().is_some_and(|ours| !ours.contains(&local)) {
                return;
            }
            arrived.push_back(Arrived {
                from: PathAddress {
                    local: Some(local),
                    remote,
                    encapsulation_port: None,
                },
                // A copy of its own, so that a message kept for long keeps no buffer of others
                // alive.
                packet: Bytes::copy_from_slice(packet),
            });
        })
    }

    fn receive_errors(&mut self, socket: &RawSocket) {
        for _ in 0..MAX_NETWORK_ERRORS {
            match socket.next_error() {
                Ok(error) => {
                    self.statistics.receive_errors += 1;
                    self.errors.extend(error.map(reported));
                }
                Err(_) => return,
            }
        }
    }
}

fn reported(error: NetworkError) -> Reported {
    Reported {
        path: PathAddress {
            local: error.source_ip,
            remote: error.destination.ip(),
            encapsulation_port: None,
        },
        report: error.report,
        quoted: error.quoted,
    }
}

/// Waits for one of at most two sockets, and tells whether errors wait there.
async fn ready(sockets: &[Arc<RawSocket>]) -> io::Result<(Arc<RawSocket>, bool)> {
    let (socket, has_errors) = match sockets {
        [alone] => (alone, alone.readable().await?),
        [first, second, ..] => tokio::select! {
            has_errors = first.readable() => (first, has_errors?),
            has_errors = second.readable() => (second, has_errors?),
        },
        [] => std::future::pending().await,
    };
    Ok((Arc::clone(socket), has_errors))
}

pub(crate) struct Writer {
    outlets: Vec<Outlet>,
    sources: Sources,
    /// Where these are all addresses, the kernel may choose.
    all: bool,
    recorder: Recorder,
    statistics: CarrierStatistics,
    /// Packets that were larger than the interface takes.
    refused: VecDeque<OutgoingMessage>,
}

struct Outlet {
    socket: Arc<RawSocket>,
    queue: VecDeque<OutgoingMessage>,
}

impl Writer {
    fn new(
        sockets: &[Arc<RawSocket>],
        addresses: &[IpAddr],
        all: bool,
        recorder: Recorder,
    ) -> Self {
        let outlet = |socket: &Arc<RawSocket>| Outlet {
            socket: Arc::clone(socket),
            queue: VecDeque::new(),
        };
        Self {
            outlets: sockets.iter().map(outlet).collect(),
            sources: Sources::new(addresses.to_vec()),
            all,
            recorder,
            statistics: CarrierStatistics::default(),
            refused: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, transmit: Transmit) {
        let path = transmit.path;
        if path.encapsulation_port.is_some() {
            return;
        }
        let source = path.local.or_else(|| self.source_toward(path.remote));
        let ipv6 = path.remote.is_ipv6();
        let of_family = |outlet: &&mut Outlet| outlet.socket.is_ipv6() == ipv6;
        let Some(outlet) = self.outlets.iter_mut().find(of_family) else {
            return;
        };
        if self.recorder.is_on() {
            // What the kernel will choose.
            let source = source.or_else(|| self.sources.toward(path.remote));
            let unknown = any_like(path.remote);
            self.recorder.outbound(&transmit, source.unwrap_or(unknown));
        }
        outlet.queue.push_back(OutgoingMessage {
            source,
            destination: path.remote,
            packet: transmit.packet,
            may_fragment: transmit.may_fragment,
        });
    }

    pub(super) fn note_arrival(&mut self, arrived: &Arrived) {
        let bytes = bytes_on_wire(arrived.from.remote, arrived.packet.len());
        self.statistics.packets_received += 1;
        self.statistics.bytes_received += bytes;
        self.recorder.inbound(arrived);
    }

    pub(super) fn pop_refused(&mut self) -> Option<Reported> {
        let packet = self.refused.pop_front()?;
        let path = PathAddress {
            local: packet.source,
            remote: packet.destination,
            encapsulation_port: None,
        };
        Some(too_big(path, packet.packet))
    }

    pub(super) fn len(&self) -> usize {
        self.outlets.iter().map(|outlet| outlet.queue.len()).sum()
    }

    pub(super) fn flush(&mut self) -> bool {
        let statistics = &mut self.statistics;
        for outlet in &mut self.outlets {
            while !outlet.queue.is_empty() {
                let sent = match outlet.socket.send(outlet.queue.make_contiguous()) {
                    Ok(sent) => sent,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        statistics.send_errors += 1;
                        let Some(packet) = outlet.queue.pop_front() else {
                            break;
                        };
                        let (destination, bytes) = (packet.destination, packet.packet.len());
                        tracing::debug!(%destination, bytes, %error, "sending SCTP over IP failed");
                        if error.raw_os_error() == Some(libc::EMSGSIZE) {
                            self.refused.push_back(packet);
                        }
                        continue;
                    }
                };
                for packet in outlet.queue.drain(..sent) {
                    statistics.packets_sent += 1;
                    statistics.bytes_sent += bytes_on_wire(packet.destination, packet.packet.len());
                }
            }
        }
        self.len() == 0
    }

    pub(super) fn blocked(&self) -> Option<Arc<RawSocket>> {
        let blocked = self.outlets.iter().find(|outlet| !outlet.queue.is_empty());
        blocked.map(|outlet| Arc::clone(&outlet.socket))
    }

    pub(super) fn source_toward(&mut self, remote: IpAddr) -> Option<IpAddr> {
        if self.all {
            None
        } else {
            self.sources.toward(remote)
        }
    }

    pub(super) fn statistics(&self) -> CarrierStatistics {
        self.statistics
    }
}

/// Bytes of a packet with the IP header that the kernel writes.
fn bytes_on_wire(remote: IpAddr, packet: usize) -> u64 {
    let header = if remote.is_ipv4() { 20 } else { 40 };
    header + packet as u64
}
