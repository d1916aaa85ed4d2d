//! Our engine.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::{
    AssociationId, AssociationStatistics, AssociationStatus, Endpoint, EndpointConfig,
    ErrorDetectionMethod, Event, Extensions, PathAddress, ReConfigurationPolicy, SendInfo,
};

use crate::engine::{How, Message, PORT, Route};

/// An endpoint with one association.
pub(crate) struct Ours {
    pub(crate) endpoint: Endpoint,
    id: Option<AssociationId>,
    /// Where the peer is.
    peer: PathAddress,
    /// Our address that packets come from which may come from any, where hosts have addresses.
    pub(crate) source: Option<IpAddr>,
    is_up: bool,
    started: Instant,
    /// What happened beside the arrival of messages.
    pub(crate) events: Vec<Event>,
    /// What has arrived.
    pub(crate) received: Vec<Message>,
}

/// Where the peer is, where hosts have no addresses.
const PEER: PathAddress = PathAddress {
    local: None,
    remote: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    encapsulation_port: Some(9899),
};

/// Settings with these extensions, quick to retransmit.
pub(crate) fn config(extensions: Extensions, streams: u16) -> EndpointConfig {
    EndpointConfig::default()
        .rto_initial(Duration::from_millis(300))
        .rto_min(Duration::from_millis(200))
        .rto_max(Duration::from_secs(1))
        .association_max_retrans(100)
        .path_max_retrans(100)
        .outbound_streams(streams)
        .max_inbound_streams(100)
        .max_outbound_streams(100)
        .extensions(extensions)
        .alternate_error_detection(Some(ErrorDetectionMethod::Dtls))
        .re_configuration_policy(ReConfigurationPolicy::GRANT_ALL)
}

impl Ours {
    pub(crate) fn new(config: EndpointConfig) -> Ours {
        let seed = ChaCha12Rng::seed_from_u64(6458).get_seed();
        Ours {
            endpoint: Endpoint::new(PORT, config, seed),
            id: None,
            peer: PEER,
            source: None,
            is_up: false,
            started: Instant::now(),
            events: Vec::new(),
            received: Vec::new(),
        }
    }

    /// An endpoint on a host with one address, which connects to `remote`.
    pub(crate) fn on_host(config: EndpointConfig, address: IpAddr, remote: IpAddr) -> Ours {
        let mut ours = Ours::new(config);
        ours.endpoint.set_local_addresses(vec![address]);
        ours.source = Some(address);
        ours.peer = PathAddress {
            local: None,
            remote,
            encapsulation_port: None,
        };
        ours
    }

    /// A time of the virtual clock, as our engine has it.
    pub(crate) fn at(&self, now: Duration) -> Instant {
        self.started + now
    }

    pub(crate) fn connect(&mut self, now: Duration) {
        let now = self.at(now);
        self.id = Some(self.endpoint.connect(now, self.peer, PORT).unwrap());
    }

    pub(crate) fn id(&self) -> AssociationId {
        self.id.expect("there is an association")
    }

    pub(crate) fn is_up(&self) -> bool {
        self.is_up
    }

    pub(crate) fn status(&self) -> AssociationStatus {
        self.endpoint.status(self.id()).expect("it is up")
    }

    pub(crate) fn statistics(&self) -> AssociationStatistics {
        let statistics = self.endpoint.association_statistics(self.id());
        statistics.expect("it is up")
    }

    pub(crate) fn send(&mut self, now: Duration, message: &Message, how: How) {
        let info = SendInfo {
            stream: message.stream,
            unordered: how.unordered,
            pr_policy: Some(how.policy),
            shared_key: how.key,
            ..SendInfo::default()
        };
        let payload = Bytes::copy_from_slice(&message.payload);
        let (now, id) = (self.at(now), self.id());
        self.endpoint.send(now, id, info, payload).unwrap();
    }

    pub(crate) fn handle_packet(&mut self, now: Duration, route: Route, packet: Bytes) {
        let from = route.map_or(self.peer, |(remote, local)| PathAddress {
            local: Some(local),
            remote,
            encapsulation_port: None,
        });
        let at = self.at(now);
        self.endpoint.handle_packet(at, from, packet);
        self.take(now);
    }

    pub(crate) fn poll_transmit(&mut self, now: Duration) -> Option<(Route, Bytes)> {
        let now = self.at(now);
        let transmit = self.endpoint.poll_transmit(now)?;
        let route = self.source.map(|source| {
            let path = transmit.path;
            (path.local.unwrap_or(source), path.remote)
        });
        Some((route, transmit.packet))
    }

    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        let timeout = self.endpoint.next_timeout()?;
        Some(timeout.saturating_duration_since(self.started))
    }

    pub(crate) fn handle_timeout(&mut self, now: Duration) {
        let at = self.at(now);
        self.endpoint.handle_timeout(at);
        self.take(now);
    }

    /// Takes all events and messages.
    fn take(&mut self, now: Duration) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::CommunicationUp { id, .. } => {
                    self.id = Some(id);
                    self.is_up = true;
                }
                Event::Readable { .. } => {}
                other => self.events.push(other),
            }
        }
        let Some(id) = self.id else { return };
        let now = self.at(now);
        while let Some(message) = self.endpoint.receive(now, id) {
            assert!(message.end_of_record, "it is whole");
            self.received.push(Message {
                stream: message.stream,
                payload: message.payload.to_vec(),
            });
        }
    }
}
