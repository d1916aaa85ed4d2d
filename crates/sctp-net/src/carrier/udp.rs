//! SCTP in UDP (RFC 6951): a socket for each local address, all on one port.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::select_all;
use sctp::{PathAddress, Transmit};
use udp_net::{
    Batch, Datagram, Flushed, NetworkError, Received, SendOutcome, SendQueue, UdpConfig, UdpSocket,
};

use super::sources::{Sources, on_route};
use super::steering::steer_by_tag;
use super::{Arrived, Carrier, Recorder, Reported, any_like, listed, too_big, with_scope_of};
use crate::config::UdpCarrierConfig;
use crate::statistics::CarrierStatistics;

/// How often a port that the kernel chose for the first address is tried on the others.
const PORT_ATTEMPTS: usize = 16;

pub(super) fn open(config: &UdpCarrierConfig, workers: usize) -> io::Result<Carrier> {
    let Some(&first) = config.addresses.first() else {
        return Err(invalid("SCTP over UDP: no local address was given"));
    };
    let mut addresses = Vec::with_capacity(config.addresses.len());
    for &address in &config.addresses {
        if address.port() != first.port() {
            return Err(invalid(
                "SCTP over UDP: the local addresses differ in their port",
            ));
        }
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }

    let groups = open_groups(&addresses, config, workers)?;
    let port = groups
        .first()
        .and_then(|sockets| sockets.first())
        .map_or(0, |socket| socket.local_addr().port());
    let scopes: Vec<u32> = addresses.iter().map(scope_of).collect();
    let addresses: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
    let recorder = Recorder {
        tap: config.tap.clone(),
        port: Some(port),
    };
    let ends = (0..workers)
        .map(|worker| {
            let sockets: Vec<Arc<UdpSocket>> = groups
                .iter()
                .filter_map(|sockets| sockets.get(worker).cloned())
                .collect();
            let reader = Reader::new(&sockets);
            let writer = Writer::new(sockets, recorder.clone(), &addresses, &scopes);
            (Some(super::Reader::Udp(reader)), super::Writer::Udp(writer))
        })
        .collect();
    Ok(Carrier {
        listed: listed(&addresses),
        has_zone: scopes.iter().any(|scope| *scope != 0),
        addresses,
        port,
        ends,
    })
}

/// For each address a socket for each worker, all on the port of the first address.
fn open_groups(
    addresses: &[SocketAddr],
    config: &UdpCarrierConfig,
    workers: usize,
) -> io::Result<Vec<Vec<Arc<UdpSocket>>>> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match try_open_groups(addresses, config, workers) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && addresses.iter().all(|address| address.port() == 0)
                    && attempts < PORT_ATTEMPTS => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let text = format!("{error}: choose another port (--encapsulation-port)");
                return Err(io::Error::new(error.kind(), text));
            }
            result => return result,
        }
    }
}

fn try_open_groups(
    addresses: &[SocketAddr],
    config: &UdpCarrierConfig,
    workers: usize,
) -> io::Result<Vec<Vec<Arc<UdpSocket>>>> {
    let mut port = None;
    let mut groups = Vec::with_capacity(addresses.len());
    for &address in addresses {
        let mut group = Vec::with_capacity(workers);
        for worker in 0..workers {
            let mut address = address;
            if let Some(port) = port {
                address.set_port(port);
            }
            if worker == 0 && workers > 1 {
                // Sockets that share an address would let another program's in, and the kernel even
                // chooses a port for them that others share: ask alone first.
                let alone = UdpSocket::bind(address, UdpConfig::default())?;
                address.set_port(alone.local_addr().port());
            }
            let number = groups.len() * workers + worker;
            let socket = UdpSocket::bind(address, udp_config(config, number, workers))?;
            port = Some(socket.local_addr().port());
            group.push(Arc::new(socket));
        }
        if let (Some(socket), Ok(workers @ 2..)) = (group.first(), u32::try_from(workers)) {
            // Without it the workers hand over more among themselves.
            if let Err(error) = steer_by_tag(socket.as_ref(), workers) {
                tracing::warn!(%address, %error, "packets are not steered to their workers");
            }
        }
        groups.push(group);
    }
    Ok(groups)
}

/// The settings of the socket with this number among all.
fn udp_config(config: &UdpCarrierConfig, number: usize, workers: usize) -> UdpConfig {
    let impairment = config.impairment.clone().map(|mut impairment| {
        // Each socket draws a sequence of its own.
        impairment.seed = impairment.seed.wrapping_add(number as u64);
        impairment
    });
    UdpConfig {
        impairment,
        segmentation_offload: config.segmentation_offload,
        // The engine looks for the path MTU itself.
        allow_fragmentation: false,
        network_errors: true,
        reuse_port: workers > 1,
        ..UdpConfig::default()
    }
}

fn scope_of(address: &SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

pub(crate) struct Reader {
    sockets: Vec<Inlet>,
    /// The socket to be looked at first, so that none waits for ever for a busy one.
    turn: usize,
}

/// A socket and what has arrived there.
struct Inlet {
    socket: Arc<UdpSocket>,
    batch: Batch,
}

impl Reader {
    fn new(sockets: &[Arc<UdpSocket>]) -> Self {
        let inlet = |socket: &Arc<UdpSocket>| Inlet {
            socket: Arc::clone(socket),
            batch: Batch::new(),
        };
        Self {
            sockets: sockets.iter().map(inlet).collect(),
            turn: 0,
        }
    }

    pub(super) async fn receive(&mut self) -> io::Result<()> {
        if let [alone] = self.sockets.as_mut_slice() {
            return alone.socket.recv(&mut alone.batch).await;
        }
        let count = self.sockets.len();
        self.turn = (self.turn + 1) % count.max(1);
        let (later, sooner) = self.sockets.split_at_mut(self.turn);
        let waiting = sooner
            .iter_mut()
            .chain(later)
            .map(|inlet| Box::pin(inlet.socket.recv(&mut inlet.batch)));
        select_all(waiting).await.0
    }

    pub(super) fn pop(&mut self) -> Option<Arrived> {
        self.sockets.iter_mut().find_map(|inlet| {
            let received = inlet.batch.pop()?;
            Some(arrived(received, inlet.socket.local_addr().ip()))
        })
    }

    pub(super) fn pop_error(&mut self) -> Option<Reported> {
        self.sockets.iter_mut().find_map(|inlet| {
            let error = inlet.batch.pop_error()?;
            Some(reported(error, inlet.socket.local_addr().ip()))
        })
    }
}

fn arrived(received: Received, local: IpAddr) -> Arrived {
    let local = received.destination_ip.unwrap_or(local);
    Arrived {
        from: PathAddress {
            local: (!local.is_unspecified()).then_some(local),
            remote: received.source.ip(),
            encapsulation_port: Some(received.source.port()),
        },
        packet: received.payload,
    }
}

fn reported(error: NetworkError, local: IpAddr) -> Reported {
    let local = error.source_ip.unwrap_or(local);
    Reported {
        path: PathAddress {
            local: (!local.is_unspecified()).then_some(local),
            remote: error.destination.ip(),
            encapsulation_port: Some(error.destination.port()),
        },
        report: error.report,
        quoted: error.quoted,
    }
}

pub(crate) struct Writer {
    sockets: Vec<Outlet>,
    recorder: Recorder,
    /// Missing where there is nothing to choose.
    sources: Option<Sources>,
}

/// A socket and what is to be sent there.
struct Outlet {
    socket: Arc<UdpSocket>,
    local: SocketAddr,
    queue: SendQueue,
}

impl Writer {
    fn new(
        sockets: Vec<Arc<UdpSocket>>,
        recorder: Recorder,
        addresses: &[IpAddr],
        scopes: &[u32],
    ) -> Self {
        let outlet = |(socket, scope): (Arc<UdpSocket>, &u32)| {
            let mut local = socket.local_addr();
            if let SocketAddr::V6(local) = &mut local {
                // The kernel forgets that of a wildcard address.
                local.set_scope_id(*scope);
            }
            Outlet {
                local,
                socket,
                queue: SendQueue::new(),
            }
        };
        Self {
            sources: (sockets.len() > 1).then(|| Sources::new(addresses.to_vec())),
            sockets: sockets.into_iter().zip(scopes).map(outlet).collect(),
            recorder,
        }
    }

    pub(super) fn push(&mut self, transmit: Transmit) {
        let path = transmit.path;
        let Some(port) = path.encapsulation_port else {
            return;
        };
        let index = self.outlet(path);
        let recorder = &self.recorder;
        let Some(outlet) = index.and_then(|index| self.sockets.get_mut(index)) else {
            return;
        };
        let local = outlet.local;
        let is_wildcard = local.ip().is_unspecified();
        if recorder.is_on() {
            let source = match path.local {
                None if is_wildcard => on_route(path.remote),
                source => source,
            };
            recorder.outbound(&transmit, source.unwrap_or(local.ip()));
        }
        let datagram = Datagram {
            destination: with_scope_of(SocketAddr::new(path.remote, port), local),
            source_ip: path.local.filter(|_| is_wildcard),
            payload: transmit.packet,
        };
        if transmit.may_fragment {
            outlet.send_in_fragments(&datagram);
        } else {
            outlet.queue.push(datagram);
        }
    }

    pub(super) fn note_arrival(&self, arrived: &Arrived) {
        self.recorder.inbound(arrived);
    }

    /// The socket for a path: the one on its local address, else that on a wildcard address, else
    /// that from which the route to the peer begins.
    fn outlet(&mut self, path: PathAddress) -> Option<usize> {
        let index = match &mut self.sources {
            None => 0,
            Some(sources) => {
                let local = path.local.or_else(|| sources.toward(path.remote));
                let exact = |outlet: &Outlet| Some(outlet.local.ip()) == local;
                let any = any_like(path.remote);
                let wildcard = |outlet: &Outlet| outlet.local.ip() == any;
                let sockets = &self.sockets;
                sockets
                    .iter()
                    .position(exact)
                    .or_else(|| sockets.iter().position(wildcard))?
            }
        };
        let outlet = self.sockets.get(index)?;
        (outlet.local.is_ipv4() == path.remote.is_ipv4()).then_some(index)
    }

    pub(super) fn pop_refused(&mut self) -> Option<Reported> {
        let datagram = self
            .sockets
            .iter_mut()
            .find_map(|outlet| outlet.queue.pop_too_large())?;
        let path = PathAddress {
            local: datagram.source_ip,
            remote: datagram.destination.ip(),
            encapsulation_port: Some(datagram.destination.port()),
        };
        Some(too_big(path, datagram.payload))
    }

    pub(super) fn len(&self) -> usize {
        let waiting = self.sockets.iter().map(|outlet| outlet.queue.len());
        waiting.sum()
    }

    pub(super) fn flush(&mut self) -> bool {
        let mut all = true;
        for outlet in &mut self.sockets {
            all &= outlet.socket.flush(&mut outlet.queue) == Flushed::All;
        }
        all
    }

    pub(super) fn blocked(&self) -> Option<Arc<UdpSocket>> {
        let blocked = self.sockets.iter().find(|outlet| !outlet.queue.is_empty());
        blocked.map(|outlet| Arc::clone(&outlet.socket))
    }

    pub(super) fn sockets(&self) -> Vec<Arc<UdpSocket>> {
        let sockets = self.sockets.iter().map(|outlet| Arc::clone(&outlet.socket));
        sockets.collect()
    }

    pub(super) fn source_toward(&mut self, remote: IpAddr) -> Option<IpAddr> {
        let source = match (&mut self.sources, self.sockets.as_slice()) {
            (Some(sources), _) => sources.toward(remote),
            (None, [alone]) => Some(alone.local.ip()),
            (None, _) => None,
        };
        source.filter(|source| !source.is_unspecified())
    }

    pub(super) fn statistics(&self) -> CarrierStatistics {
        let mut sum = CarrierStatistics::default();
        for outlet in &self.sockets {
            sum += CarrierStatistics::from(outlet.socket.statistics());
        }
        sum
    }
}

impl Outlet {
    /// Such packets are rare: they do not wait for the others of their batch.
    fn send_in_fragments(&self, datagram: &Datagram) {
        match self.socket.try_send_in_fragments(datagram) {
            SendOutcome::Sent => {}
            // Lost, as it might be on the way.
            SendOutcome::Blocked => {
                tracing::debug!(local = %self.local, "no room for a packet in fragments");
            }
            SendOutcome::Failed(error) => {
                tracing::debug!(local = %self.local, %error, "sending in fragments failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[tokio::test]
    async fn workers_get_a_port_that_nobody_else_shares() {
        // So many that a port would come twice if it could.
        const CARRIERS: usize = 200;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = UdpCarrierConfig::new(address);
        let carriers: Vec<Carrier> = (0..CARRIERS).map(|_| open(&config, 2).unwrap()).collect();
        let ports: BTreeSet<u16> = carriers.iter().map(|carrier| carrier.port).collect();
        assert_eq!(ports.len(), CARRIERS);
    }
}
