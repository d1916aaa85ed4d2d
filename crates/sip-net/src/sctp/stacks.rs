//! The stacks that carry our SCTP and the SCTP ports on them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sctp_net::{Endpoint, Stack};
use sip::Transport;

use crate::config::{SctpOver, SipNetConfig};
use crate::impairments::Impairments;
use crate::listen::Listen;
use crate::routes::Routes;
use crate::start_error::StartProblem;
use crate::statistics::WireStatistics;

use super::stack_opener::StackOpener;

/// The stacks under our SCTP, one for each set of local addresses, and the SCTP ports on them.
#[derive(Debug)]
pub(crate) struct SctpStacks {
    opener: StackOpener,
    /// Local addresses that belong together.
    groups: Vec<Vec<IpAddr>>,
    endpoint: sctp::EndpointConfig,
    /// Pairs of streams of an association with TLS.
    tls_streams: u16,
    listeners: Vec<SctpListener>,
    stacks: Mutex<Stacks>,
}

/// An SCTP port that listens.
#[derive(Clone, Debug)]
pub(crate) struct SctpListener {
    /// SCTP, or TLS over it.
    pub(crate) transport: Transport,
    /// As it is in the settings; none for a port that we begin associations from.
    pub(crate) configured: Option<Listen>,
    /// The first local IP address and the SCTP port.
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: Endpoint,
}

impl SctpListener {
    /// What it listens on.
    pub(super) fn listen(&self) -> Listen {
        self.configured.unwrap_or(Listen {
            transport: self.transport,
            address: self.address,
        })
    }
}

/// What [`SctpStacks::common_endpoint`] found.
pub(super) enum CommonEndpoint {
    Open(Endpoint),
    /// It was opened for this: peers are to be accepted on it.
    New(SctpListener),
}

#[derive(Debug, Default)]
struct Stacks {
    open: Vec<Open>,
    /// Where no SCTP port listens: the ports that associations for all are begun from.
    clients: Vec<(Vec<IpAddr>, Transport, Endpoint)>,
}

/// A stack with its local addresses.
#[derive(Clone, Debug)]
struct Open {
    addresses: Vec<IpAddr>,
    stack: Stack,
    /// The largest packet that the interfaces of these addresses carry, where that is known.
    interface_mtu: Option<usize>,
}

/// How large IP packets with SCTP become at the most, in bytes: more than a few fit into the buffer of a socket on every
/// system.
const LARGEST_PACKET: usize = 16 * 1024;

impl SctpStacks {
    pub(crate) fn new(config: &SipNetConfig, impairments: Arc<Impairments>) -> SctpStacks {
        SctpStacks {
            opener: StackOpener::new(config, impairments),
            groups: config.sctp_addresses.clone(),
            endpoint: config.sctp.clone(),
            tls_streams: config.tls_streams.max(1),
            listeners: Vec::new(),
            stacks: Mutex::default(),
        }
    }

    /// Opens an SCTP port to listen on, and the stack under it where there is none yet.
    pub(crate) fn listen(&mut self, listen: Listen) -> Result<SctpListener, StartProblem> {
        let Listen { transport, address } = listen;
        let open = self
            .lock()
            .at(&self.group_of(address.ip()), &self.opener)
            .map_err(|error| self.explain(error))?;
        let endpoint = open
            .stack
            .endpoint(address.port(), self.settings(transport, &open))
            .map_err(StartProblem::from_io)?;
        let listener = SctpListener {
            transport,
            configured: Some(listen),
            address: SocketAddr::new(address.ip(), endpoint.port()),
            endpoint,
        };
        self.listeners.push(listener.clone());
        Ok(listener)
    }

    /// The UDP addresses under all SCTP ports; none where SCTP goes over something else.
    pub(crate) fn encapsulation_addresses(&self) -> Vec<SocketAddr> {
        if self.opener.over != SctpOver::Udp {
            return Vec::new();
        }
        self.lock()
            .open
            .iter()
            .map(|open| open.stack.local_addr())
            .collect()
    }

    /// What went over the wire.
    pub(crate) async fn statistics(&self) -> WireStatistics {
        let mut sum = WireStatistics::default();
        for stack in self.all() {
            let statistics = stack.statistics().await;
            let (carrier, sctp) = (statistics.carrier, statistics.sctp);
            sum.packets_sent += carrier.packets_sent;
            sum.packets_received += carrier.packets_received;
            sum.bytes_sent += carrier.bytes_sent;
            sum.bytes_received += carrier.bytes_received;
            sum.transport_retransmissions +=
                sctp.retransmitted_by_timeout + sctp.retransmitted_fast;
        }
        sum
    }

    /// Shuts down what is left and closes the stacks.
    pub(crate) async fn close(&self) {
        for stack in self.all() {
            stack.close().await;
        }
    }

    /// The SCTP port from which to begin an association: that of the listener that suits the peer
    /// best, else one for all.
    pub(super) fn common_endpoint(
        &self,
        routes: &Routes,
        transport: Transport,
        remote: SocketAddr,
    ) -> io::Result<CommonEndpoint> {
        if let Some((_, listener)) = self.listener_toward(routes, transport, remote) {
            return Ok(CommonEndpoint::Open(listener.endpoint.clone()));
        }
        let ip = routes.source(remote.ip())?;
        let addresses = self.addresses_without_listener(ip);
        let mut stacks = self.lock();
        let client = stacks
            .clients
            .iter()
            .find(|(at, carries, _)| *at == addresses && *carries == transport);
        if let Some((_, _, endpoint)) = client {
            return Ok(CommonEndpoint::Open(endpoint.clone()));
        }
        let open = stacks.at(&addresses, &self.opener)?;
        let endpoint = open.stack.endpoint(0, self.settings(transport, &open))?;
        stacks
            .clients
            .push((addresses, transport, endpoint.clone()));
        Ok(CommonEndpoint::New(SctpListener {
            transport,
            configured: None,
            address: SocketAddr::new(ip, endpoint.port()),
            endpoint,
        }))
    }

    /// A new SCTP port from which to begin one association, at the address of the listener that suits the peer best.
    pub(super) fn private_endpoint(
        &self,
        routes: &Routes,
        transport: Transport,
        remote: SocketAddr,
    ) -> io::Result<Endpoint> {
        let addresses = match self.listener_toward(routes, transport, remote) {
            Some((address, _)) => self.group_of(address.ip()),
            None => self.addresses_without_listener(routes.source(remote.ip())?),
        };
        let open = self.lock().at(&addresses, &self.opener)?;
        let config = self
            .settings(transport, &open)
            // The one that is about to be begun: no peer can begin others.
            .max_associations(1);
        open.stack.endpoint(0, config)
    }

    fn listener_toward(
        &self,
        routes: &Routes,
        transport: Transport,
        remote: SocketAddr,
    ) -> Option<(SocketAddr, &SctpListener)> {
        let listeners = self
            .listeners
            .iter()
            .filter(|listener| listener.transport == transport)
            .map(|listener| (listener.address, listener));
        routes.choose(remote, listeners)
    }

    /// The local addresses that an SCTP port at this one has: first this one, then those that
    /// belong to it.
    fn group_of(&self, ip: IpAddr) -> Vec<IpAddr> {
        let others = self
            .groups
            .iter()
            .find(|group| group.contains(&ip))
            .into_iter()
            .flatten()
            .copied()
            .filter(|other| *other != ip);
        std::iter::once(ip).chain(others).collect()
    }

    /// The local addresses of an SCTP port from which associations are begun where nothing listens, `ip` being the one from
    /// which packets leave.
    fn addresses_without_listener(&self, ip: IpAddr) -> Vec<IpAddr> {
        let addresses = self.group_of(ip);
        match addresses.len() == 1 && self.endpoint.association.extensions.address_reconfiguration {
            // An address that the host is given later is heard, too.
            true => vec![any_like(ip)],
            false => addresses,
        }
    }

    /// The protocol parameters of an SCTP port. With TLS the number of streams bounds that of the sessions. Messages share
    /// packets, and there are fewer of those where the interface carries large ones.
    fn settings(&self, transport: Transport, open: &Open) -> sctp::EndpointConfig {
        let mut config = self.endpoint.clone();
        if transport == Transport::TlsSctp {
            config.association.outbound_streams = self.tls_streams;
            config.association.max_inbound_streams = self.tls_streams;
        }
        // Without the search paths are taken to carry what is said.
        if let Some(mtu) = open.interface_mtu
            && config.association.path.path_mtu_discovery
        {
            config.association.path.mtu = mtu.min(LARGEST_PACKET).max(config.association.path.mtu);
            // Or it would be no guarantee for a message that fills a packet.
            config.association.guaranteed_receive_bytes = config
                .association
                .guaranteed_receive_bytes
                .max(config.association.path.mtu);
        }
        config
    }

    fn all(&self) -> Vec<Stack> {
        self.lock()
            .open
            .iter()
            .map(|open| open.stack.clone())
            .collect()
    }

    /// What an operator can do where a stack cannot be opened.
    fn explain(&self, error: io::Error) -> StartProblem {
        match (self.opener.over, error.kind()) {
            (SctpOver::Udp, io::ErrorKind::AddrInUse) => {
                StartProblem::EncapsulationPortInUse(self.opener.encapsulation_port)
            }
            (SctpOver::Udp, io::ErrorKind::InvalidInput) => StartProblem::Io(error),
            (SctpOver::Udp, _) => StartProblem::from_io(error),
            (SctpOver::Ip, io::ErrorKind::PermissionDenied) => StartProblem::SctpOverIpNotAllowed,
            (SctpOver::Ip, io::ErrorKind::ResourceBusy) => StartProblem::KernelHasSctp,
            (SctpOver::Kernel, io::ErrorKind::Unsupported) => StartProblem::KernelHasNoSctp,
            (SctpOver::Ip | SctpOver::Kernel, _) => StartProblem::Io(error),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stacks> {
        self.stacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wildcard address of the family of this one.
fn any_like(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

impl Stacks {
    /// The stack at these local addresses, in whatever order, opened where there is none.
    fn at(&mut self, addresses: &[IpAddr], opener: &StackOpener) -> io::Result<Open> {
        let same = |other: &[IpAddr]| {
            other.len() == addresses.len() && other.iter().all(|ip| addresses.contains(ip))
        };
        if let Some(open) = self.open.iter().find(|open| same(&open.addresses)) {
            return Ok(open.clone());
        }
        let open = Open {
            addresses: addresses.to_vec(),
            stack: opener.open(addresses)?,
            // A bad network inside the sockets stands for one that is no loopback interface.
            interface_mtu: match opener.impaired {
                true => None,
                false => sctp_net::interface_mtu(addresses),
            },
        };
        self.open.push(open.clone());
        Ok(open)
    }
}
