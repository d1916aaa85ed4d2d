//! One local SCTP port with all its associations: finds the association for a packet (RFC 9260
//! sections 5.2, 8.4 and 8.5), and keeps no state for who has not proved its address.

mod address_changes;
mod associations;
mod authentication;
mod context;
mod icmp;
mod initiation;
mod input;
mod out_of_the_blue;
mod rate_limits;
mod re_configuration;
mod receive_budget;
mod remembered_tags;
mod streams;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ahash::RandomState;
use bytes::{Bytes, BytesMut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;
use timer_wheel::Index;

pub use icmp::{IcmpError, IcmpKind};
pub use out_of_the_blue::answer_out_of_the_blue;

use associations::{Associations, PeerKey};
use rate_limits::RateLimits;
use remembered_tags::RememberedTags;

use crate::association::addresses::{is_link_local, is_unicast as is_unicast_address};
use crate::association::authentication::SharedKeys;
use crate::association::cookie::CookieSigner;
use crate::association::{Association, Destination};
use crate::packet::Protection;
use crate::replies::{Replies, ReplyAddress};
use crate::{
    AbandonedMessages, AbortError, AssociationConfig, AssociationId, AssociationState,
    AssociationStatistics, AssociationStatus, ConfigureError, Connect, ConnectError,
    EndpointConfig, EndpointStatistics, Event, PathAddress, PathConfig, PathError, ReceivedMessage,
    SendError, SendInfo, ShutdownError, Transmit,
};

/// How much memory is taken at once for packets.
const PACKET_BUFFER: usize = 1 << 15;

/// One local SCTP port with all its associations. See the crate's documentation.
pub struct Endpoint {
    local_port: u16,
    config: EndpointConfig,
    /// The settings of associations that are given no others; all share them.
    association_config: Arc<AssociationConfig>,
    /// Our addresses that peers are told when an association begins; empty when they are told none.
    local_addresses: Arc<[IpAddr]>,
    /// All addresses of this host that are known.
    host_addresses: Vec<IpAddr>,
    /// The shared keys of associations that begin.
    shared_keys: SharedKeys,
    rng: ChaCha12Rng,
    associations: Associations,
    remembered_tags: RememberedTags,
    /// Made when the first packet shows what time it is.
    signer: Option<CookieSigner>,
    events: VecDeque<Event>,
    replies: Replies,
    rate_limits: RateLimits,
    /// Packets are written here, one after another.
    buffer: BytesMut,
    /// Bytes of received user data that all associations hold.
    received_bytes: usize,
    /// Those of them that no user can receive yet.
    held_back_bytes: usize,
    statistics: EndpointStatistics,
}

impl Endpoint {
    /// An endpoint on `local_port`; tags, nonces and keys are drawn from `seed`. Settings outside
    /// of what RFC 9260 allows are moved to the nearest allowed ones.
    pub fn new(local_port: u16, config: EndpointConfig, seed: [u8; 32]) -> Endpoint {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let config = config.bounded();
        let hasher = RandomState::with_seeds(
            rng.next_u64(),
            rng.next_u64(),
            rng.next_u64(),
            rng.next_u64(),
        );
        Endpoint {
            local_port,
            associations: Associations::new(hasher.clone()),
            remembered_tags: RememberedTags::new(config.max_remembered_tags, hasher),
            signer: None,
            events: VecDeque::new(),
            replies: Replies::new(
                config.max_pending_replies,
                config.association.path.least_mtu(),
            ),
            rate_limits: RateLimits::default(),
            buffer: BytesMut::with_capacity(PACKET_BUFFER),
            received_bytes: 0,
            held_back_bytes: 0,
            statistics: EndpointStatistics::default(),
            association_config: Arc::new(config.association.clone()),
            config,
            local_addresses: Arc::default(),
            host_addresses: Vec::new(),
            shared_keys: SharedKeys::new(),
            rng,
        }
    }

    /// The local SCTP port.
    pub fn local_port(&self) -> u16 {
        self.local_port
    }

    /// The settings that hold.
    pub fn config(&self) -> &EndpointConfig {
        &self.config
    }

    /// Sets the addresses of this host that peers are told of when an association begins
    /// (sections 3.3.2 and 3.3.3). With fewer than two there is nothing to tell, and the peer takes
    /// the address that our packets come from: that is also what is right behind a NAT (RFC 6951
    /// section 5.7). Associations that exist stay as they are. Addresses that nobody can send to
    /// are left out.
    pub fn set_local_addresses(&mut self, addresses: Vec<IpAddr>) {
        let mut told = Vec::new();
        for address in addresses {
            // Section 3.3.2.1.2: an IPv4 address is told as such.
            let address = address.to_canonical();
            if is_unicast_address(address)
                && !told.contains(&address)
                && told.len() < self.config.association.max_peer_addresses
            {
                told.push(address);
            }
        }
        self.local_addresses = told.into();
    }

    /// Sets all addresses of this host, whether or not peers are told of them. A peer on another host
    /// that lists one of them, such as that of a bridge that both hosts have under the same address,
    /// does not mean us, and it is not probed. Link-local addresses count for nothing: another link has
    /// other hosts with the same ones. Associations that exist stay as they are.
    pub fn set_host_addresses(&mut self, addresses: Vec<IpAddr>) {
        self.host_addresses = addresses
            .into_iter()
            .map(|address| address.to_canonical())
            .filter(|address| !is_link_local(*address))
            .collect();
    }

    /// Begins an association (section 11.1.2, ASSOCIATE). `Event::CommunicationUp` or
    /// `Event::CannotStart` tells how it went. Messages can be sent at once; what fits leaves with
    /// the COOKIE ECHO.
    ///
    /// # Errors
    ///
    /// When there is an association with this peer, or no room for one more, or the address cannot
    /// be a peer's.
    pub fn connect(
        &mut self,
        now: Instant,
        to: PathAddress,
        remote_port: u16,
    ) -> Result<AssociationId, ConnectError> {
        let connect = Connect {
            peer: vec![to],
            port: remote_port,
            config: None,
        };
        self.connect_with(now, connect)
    }

    /// The same as [`Self::connect`] to a peer of which several addresses may be known.
    ///
    /// # Errors
    ///
    /// When there is an association with this peer, or no room for one more, or an address cannot
    /// be a peer's.
    pub fn connect_with(
        &mut self,
        now: Instant,
        connect: Connect,
    ) -> Result<AssociationId, ConnectError> {
        let Connect { peer, port, config } = connect;
        if port == 0 {
            return Err(ConnectError::InvalidPort);
        }
        if peer.is_empty() || !peer.iter().copied().all(is_unicast) {
            return Err(ConnectError::InvalidAddress);
        }
        let config = config.map_or_else(
            || Arc::clone(&self.association_config),
            |config| Arc::new(self.bounded(config)),
        );
        if peer.len() > config.max_peer_addresses {
            return Err(ConnectError::TooManyAddresses);
        }
        let is_known = |address: &PathAddress| {
            let key = PeerKey::new(*address, port);
            self.associations.by_peer(&key).is_some()
        };
        if peer.iter().any(is_known) {
            return Err(ConnectError::AlreadyAssociated);
        }
        if self.associations.len() >= self.config.max_associations {
            return Err(ConnectError::TooManyAssociations);
        }
        let id = self.associations.next_id();
        let tag = self.new_tag(now);
        let (_, _, endpoint_context) = self.split(now);
        let mut context = endpoint_context.with(&config);
        let association = Association::connect(id, &peer, port, tag, &mut context);
        let index = self.associations.insert(association, config);
        self.flush(now, index);
        Ok(id)
    }

    /// Settings of one association, moved to the nearest ones that make sense in this endpoint.
    fn bounded(&self, config: AssociationConfig) -> AssociationConfig {
        config.bounded(self.config.max_received_bytes)
    }

    /// Changes the settings of one association (section 11.1.13, SETPROTOCOLPARAMETERS). What is
    /// said once when an association begins (streams, the initial window) stays as it is. Paths
    /// that were given settings of their own keep them.
    ///
    /// # Errors
    ///
    /// When there is no such association.
    pub fn configure(
        &mut self,
        now: Instant,
        id: AssociationId,
        config: AssociationConfig,
    ) -> Result<(), ConfigureError> {
        let index = self
            .associations
            .index_of(id)
            .ok_or(ConfigureError::UnknownAssociation)?;
        let config = Arc::new(self.bounded(config));
        self.associations.configure(index, config);
        self.with(now, index, |association, context| {
            association.reconfigured(context);
        });
        Ok(())
    }

    /// Gives one path of an association settings of its own, in place of those in
    /// [`AssociationConfig::path`](field@AssociationConfig::path) (sections 11.1.9, 11.1.12 and 11.1.13:
    /// CHANGEHEARTBEAT, SETFAILURETHRESHOLD, SETPROTOCOLPARAMETERS).
    ///
    /// # Errors
    ///
    /// When there is no such association or path.
    pub fn configure_path(
        &mut self,
        now: Instant,
        id: AssociationId,
        remote: IpAddr,
        config: PathConfig,
    ) -> Result<(), PathError> {
        self.with_id(now, id, |association, context| {
            association.configure_path(remote, config, context)
        })
        .unwrap_or(Err(PathError::UnknownAssociation))
    }

    /// Makes a path the primary one (section 11.1.6, SETPRIMARY): new data goes there from now on,
    /// as long as it is usable.
    ///
    /// # Errors
    ///
    /// When there is no such association or path, or its address is not proved to be the peer's
    /// yet.
    pub fn set_primary(
        &mut self,
        now: Instant,
        id: AssociationId,
        remote: IpAddr,
    ) -> Result<(), PathError> {
        self.with_id(now, id, |association, context| {
            association.set_primary(remote, context)
        })
        .unwrap_or(Err(PathError::UnknownAssociation))
    }

    /// Sends a HEARTBEAT on a path (section 11.1.10, REQUESTHEARTBEAT). Its answer is a new
    /// measurement of the round-trip time; a missing one counts as an error of the path.
    ///
    /// # Errors
    ///
    /// When there is no such association or path.
    pub fn request_heartbeat(
        &mut self,
        now: Instant,
        id: AssociationId,
        remote: IpAddr,
    ) -> Result<(), PathError> {
        self.with_id(now, id, |association, _| {
            association.request_heartbeat(remote)
        })
        .unwrap_or(Err(PathError::UnknownAssociation))
    }

    /// Queues a message (section 11.1.5, SEND).
    ///
    /// # Errors
    ///
    /// When the message cannot be queued now, or never.
    pub fn send(
        &mut self,
        now: Instant,
        id: AssociationId,
        info: SendInfo,
        payload: Bytes,
    ) -> Result<(), SendError> {
        self.with_message(now, id, |association, context| {
            association.send(info, payload, context)
        })
        .unwrap_or(Err(SendError::UnknownAssociation))
    }

    /// The next message that arrived whole, and in its turn (section 11.1.7, RECEIVE). What is not
    /// pulled fills the window that the peer sees. Messages of an association that has ended can
    /// be pulled until there are none left; it is forgotten then.
    pub fn receive(&mut self, now: Instant, id: AssociationId) -> Option<ReceivedMessage> {
        self.with_message(now, id, |association, context| association.receive(context))
            .flatten()
    }

    /// Ends an association in good order (section 11.1.3): what is queued is delivered first. When
    /// that, and the peer's agreement, take longer than five times RTO.Max, it is aborted.
    ///
    /// # Errors
    ///
    /// When there is no such association.
    pub fn shutdown(&mut self, now: Instant, id: AssociationId) -> Result<(), ShutdownError> {
        self.with_id(now, id, |association, context| {
            association.shut_down(context)
        })
        .unwrap_or(Err(ShutdownError::UnknownAssociation))
    }

    /// Ends an association at once (section 11.1.4); `reason` goes to the peer. What was received
    /// and not pulled is thrown away, also that of an association that has ended already.
    ///
    /// # Errors
    ///
    /// When there is no such association.
    pub fn abort(
        &mut self,
        now: Instant,
        id: AssociationId,
        reason: &[u8],
    ) -> Result<(), AbortError> {
        self.with_id(now, id, |association, context| {
            if association.state() != AssociationState::Closed {
                association.abort(reason, context);
            }
            association.discard(context);
        })
        .ok_or(AbortError::UnknownAssociation)
    }

    /// Whether more waits to be sent than the SACKs of a few associations: messages, answers, or the SACKs of many.
    pub fn has_more_than_sacks(&self) -> bool {
        /// Looking at all of many after every packet would be dear.
        const FEW: usize = 16;
        let mut ready = self.associations.ready();
        self.replies.len() > 0
            || ready
                .by_ref()
                .take(FEW)
                .any(Association::has_more_than_a_sack)
            || ready.next().is_some()
    }

    /// The next packet to send. To be called until `None` after each of the calls above.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(reply) = self.replies.pop() {
            self.statistics.packets_sent += 1;
            self.statistics.bytes_sent += reply.packet.len() as u64;
            return Some(reply);
        }
        while let Some(index) = self.associations.first_ready() {
            let (associations, buffer, endpoint_context) = self.split(now);
            let destination = associations
                .get_mut(index)
                .and_then(|(association, config)| {
                    association.poll_transmit(&mut endpoint_context.with(config), buffer)
                });
            if let Some(Destination { path, may_fragment }) = destination {
                self.associations.sent(index);
                return Some(Transmit {
                    path,
                    packet: self.buffer.split().freeze(),
                    may_fragment,
                });
            }
            if self.associations.is_dirty(index) {
                self.flush(now, index);
            }
            self.associations.pop_ready();
        }
        None
    }

    /// The next event. To be called until `None` after each of the calls above.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When `handle_timeout` wants to be called; `None` when nothing is waited for. Called early,
    /// it does nothing; called late, it does what it should have done.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.associations.next_timeout()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        // Each association once: a deadline that is due again at once waits for the next call.
        let mut due = Vec::new();
        while let Some(index) = self.associations.pop_due(now) {
            due.push(index);
        }
        for index in due {
            self.with(now, index, |association, context| {
                if association
                    .next_timeout()
                    .is_some_and(|deadline| deadline <= now)
                {
                    association.handle_timeout(context);
                }
            });
        }
    }

    /// A snapshot of an association (section 11.1.8, STATUS); `None` when it is not known (any
    /// more).
    pub fn status(&self, id: AssociationId) -> Option<AssociationStatus> {
        let index = self.associations.index_of(id)?;
        let association = self.associations.get(index)?;
        Some(association.status())
    }

    /// Counters of an association; `None` when it is not known (any more).
    pub fn association_statistics(&self, id: AssociationId) -> Option<AssociationStatistics> {
        let index = self.associations.index_of(id)?;
        self.associations.get(index).map(Association::statistics)
    }

    /// How many messages of a stream were given up by their PR-SCTP policies (RFC 7496 section 4.3,
    /// `SCTP_PR_STREAM_STATUS`); `None` when there is no such association or stream.
    pub fn abandoned_messages(&self, id: AssociationId, stream: u16) -> Option<AbandonedMessages> {
        let index = self.associations.index_of(id)?;
        self.associations.get(index)?.abandoned_on(stream)
    }

    /// Counters over all associations.
    pub fn statistics(&self) -> &EndpointStatistics {
        &self.statistics
    }

    /// How many associations there are, in any state; those that have ended count until all their
    /// messages are received.
    pub fn association_count(&self) -> usize {
        self.associations.len()
    }

    /// A verification tag that no association of ours has or had lately (section 5.3.1).
    fn new_tag(&mut self, now: Instant) -> u32 {
        loop {
            let tag = match self.config.tag_owner {
                None => self.rng.next_u32(),
                Some(owner) => owner.own(self.rng.next_u32()),
            };
            if tag != 0
                && self.associations.by_tag(tag).is_none()
                && !self.remembered_tags.contains(now, tag)
            {
                return tag;
            }
        }
    }

    fn reply_address(
        &self,
        to: PathAddress,
        peer_port: u16,
        verification_tag: u32,
    ) -> ReplyAddress {
        ReplyAddress {
            to,
            local_port: self.local_port,
            peer_port,
            verification_tag,
            protection: Protection::default(),
        }
    }
}

fn is_unicast(address: PathAddress) -> bool {
    is_unicast_address(address.remote) && address.local.is_none_or(is_unicast_address)
}
