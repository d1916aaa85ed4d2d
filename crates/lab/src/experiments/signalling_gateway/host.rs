//! A simulated host with a signalling process on SCTP.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use m3ua::message::PAYLOAD_PROTOCOL_IDENTIFIER;
use m3ua::{ManagementIndication, MtpIndication, Output, PeerId, SignallingProcess};
use sctp::{AssociationId, Connect, Endpoint, EndpointConfig, Event, PathAddress, SendInfo};
use sim::{Datagram, Host};
use sim_transport::{path_of, sctp_datagram};

use super::cluster::{PORT, Text, is_sgp, peers_of};

/// Time between attempts to open an association.
const RECONNECT: Duration = Duration::from_secs(1);

pub(super) struct SignallingHost {
    process: usize,
    addresses: Vec<IpAddr>,
    endpoint: Endpoint,
    pub(super) engine: SignallingProcess,
    links: Vec<Link>,
    /// What its user has received.
    pub(super) arrivals: Vec<(Instant, Text)>,
    /// What its management was told.
    pub(super) news: Vec<(Instant, ManagementIndication)>,
    /// When an association with which peer was found lost.
    pub(super) lost: Vec<(Instant, PeerId)>,
}

/// What there is towards a peer.
struct Link {
    addresses: Vec<IpAddr>,
    association: Option<AssociationId>,
    /// When to open the association, if that is ours to do.
    attempt: Option<Instant>,
    /// What the send buffer had no room for.
    waiting: VecDeque<(u16, Bytes)>,
}

impl SignallingHost {
    /// A host of a process, given the addresses of all.
    pub(super) fn new(
        process: usize,
        engine: SignallingProcess,
        config: EndpointConfig,
        seed: [u8; 32],
        addresses_of: impl Fn(usize) -> Vec<IpAddr>,
        start: Instant,
    ) -> SignallingHost {
        let addresses = addresses_of(process);
        let mut endpoint = Endpoint::new(PORT, config, seed);
        endpoint.set_local_addresses(addresses.clone());
        let links = peers_of(process).map(|peer| Link {
            addresses: addresses_of(peer),
            association: None,
            attempt: (!is_sgp(process)).then_some(start),
            waiting: VecDeque::new(),
        });
        SignallingHost {
            process,
            addresses,
            endpoint,
            engine,
            links: links.collect(),
            arrivals: Vec::new(),
            news: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Lets the user or the management do something.
    pub(super) fn act<R>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut SignallingProcess, Instant) -> R,
    ) -> R {
        let result = act(&mut self.engine, now);
        self.pump(now);
        result
    }

    /// Carries events of SCTP to the engine, and what that wants done to SCTP, until neither has anything.
    fn pump(&mut self, now: Instant) {
        loop {
            let (event, output) = (self.endpoint.poll_event(), self.engine.poll_output());
            if event.is_none() && output.is_none() {
                return;
            }
            if let Some(event) = event {
                self.happen(now, event);
            }
            if let Some(output) = output {
                self.obey(now, output);
            }
        }
    }

    fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::CommunicationUp {
                id,
                outbound_streams,
                peer,
                ..
            } => {
                let mut links = self.links.iter_mut().enumerate();
                let known = links.find(|(_, link)| link.addresses.contains(&peer.remote));
                if let Some((number, link)) = known {
                    link.association = Some(id);
                    link.attempt = None;
                    link.waiting.clear();
                    self.engine
                        .association_up(now, PeerId(number), outbound_streams);
                }
            }
            Event::Readable { id } => {
                while let Some(message) = self.endpoint.receive(now, id) {
                    if let Some(peer) = self.peer_with(id) {
                        self.engine
                            .handle_message(now, peer, message.stream, &message.payload);
                    }
                }
            }
            Event::Writable { id } => {
                if let Some(peer) = self.peer_with(id) {
                    self.flush(now, peer);
                }
            }
            Event::Restart {
                id,
                outbound_streams,
                ..
            } => {
                if let Some(peer) = self.peer_with(id) {
                    self.engine
                        .association_restarted(now, peer, outbound_streams);
                }
            }
            Event::ShutdownComplete { id } | Event::CommunicationLost { id, .. } => {
                if let Some(peer) = self.peer_with(id) {
                    self.lose(now, peer);
                    self.engine.association_down(now, peer);
                }
            }
            Event::CannotStart { id, .. } => {
                let of_it = |link: &&mut Link| link.association == Some(id);
                if let Some(link) = self.links.iter_mut().find(of_it) {
                    link.association = None;
                    link.attempt = Some(now + RECONNECT);
                }
            }
            _ => {}
        }
    }

    fn obey(&mut self, now: Instant, output: Output) {
        match output {
            Output::Send {
                peer,
                stream,
                message,
            } => {
                if let Some(link) = self.links.get_mut(peer.0) {
                    link.waiting.push_back((stream, message));
                    self.flush(now, peer);
                }
            }
            Output::Abort(peer) => {
                let association = self.links.get(peer.0).and_then(|link| link.association);
                self.lose(now, peer);
                if let Some(id) = association {
                    // It is there until it is aborted.
                    let _ = self.endpoint.abort(now, id, b"no heartbeat");
                }
            }
            Output::Mtp(MtpIndication::Transfer { message, .. }) => {
                self.arrivals
                    .extend(Text::of(&message).map(|text| (now, text)));
            }
            Output::Mtp(_) => {}
            Output::Management(indication) => self.news.push((now, indication)),
        }
    }

    fn flush(&mut self, now: Instant, peer: PeerId) {
        let Some(link) = self.links.get_mut(peer.0) else {
            return;
        };
        let Some(id) = link.association else {
            return;
        };
        while let Some((stream, message)) = link.waiting.front() {
            let info = SendInfo {
                stream: *stream,
                ppid: PAYLOAD_PROTOCOL_IDENTIFIER,
                ..SendInfo::default()
            };
            if self.endpoint.send(now, id, info, message.clone()).is_err() {
                return;
            }
            link.waiting.pop_front();
        }
    }

    /// The association with a peer is gone; the ASP opens another one after a while.
    fn lose(&mut self, now: Instant, peer: PeerId) {
        if let Some(link) = self.links.get_mut(peer.0) {
            link.association = None;
            link.waiting.clear();
            link.attempt = (!is_sgp(self.process)).then_some(now + RECONNECT);
            self.lost.push((now, peer));
        }
    }

    fn peer_with(&self, id: AssociationId) -> Option<PeerId> {
        let mut links = self.links.iter();
        let number = links.position(|link| link.association == Some(id));
        number.map(PeerId)
    }

    fn open_associations(&mut self, now: Instant) {
        for link in &mut self.links {
            if link.attempt.is_none_or(|at| at > now) {
                continue;
            }
            link.attempt = None;
            let path = |remote: &IpAddr| PathAddress {
                local: None,
                remote: *remote,
                encapsulation_port: None,
            };
            let connect = Connect {
                peer: link.addresses.iter().map(path).collect(),
                port: PORT,
                config: None,
            };
            match self.endpoint.connect_with(now, connect) {
                Ok(id) => link.association = Some(id),
                Err(_) => link.attempt = Some(now + RECONNECT),
            }
        }
    }
}

impl Host for SignallingHost {
    type Payload = Bytes;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Bytes>) {
        let from = path_of(&datagram);
        self.endpoint.handle_packet(now, from, datagram.payload);
        self.pump(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.engine.handle_timeout(now);
        self.open_associations(now);
        self.pump(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        let attempts = self.links.iter().filter_map(|link| link.attempt);
        let timers = [self.endpoint.next_timeout(), self.engine.next_timeout()];
        timers.into_iter().flatten().chain(attempts).min()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Bytes>> {
        let transmit = self.endpoint.poll_transmit(now)?;
        // Each network leads from one address to one address.
        let source = |remote: IpAddr| {
            let is_near = |own: &&IpAddr| network_of(**own) == network_of(remote);
            let near = self.addresses.iter().find(is_near);
            near.copied().unwrap_or(remote)
        };
        Some(sctp_datagram(transmit, source, |packet| packet))
    }
}

/// The network that an address is in.
fn network_of(address: IpAddr) -> Option<u8> {
    match address {
        IpAddr::V4(address) => Some(address.octets()[1]),
        IpAddr::V6(_) => None,
    }
}
