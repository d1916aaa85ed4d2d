//! The settings of an endpoint, of an association and of a path: the protocol parameters of RFC 9260
//! section 16 by their names, and the bounds on everything that a peer can make us hold.
//!
//! An endpoint's settings contain those of its associations, and an association's those of its
//! paths. A setting is made by the method of its name, on the struct that has it and on those that
//! contain it: `EndpointConfig::default().rto_min(rto_min).a_rwnd(1 << 18)`.

mod profile;
mod recovery;

use std::time::Duration;

use derive_setters::Setters;

use crate::packet::{ChunkType, HmacIdentifier};
use crate::{
    BufferSplitting, CongestionControl, ErrorDetectionMethod, Extensions, PathScheduler, PrPolicy,
    ReConfigurationPolicy, StreamScheduler, TagOwner,
};

pub use profile::{Profile, UnknownProfile};
pub use recovery::{LossDetection, RecoveryConfig, UnknownLossDetection};

/// Settings of an endpoint.
///
/// [`Default`] gives the values that RFC 9260 section 16 recommends.
#[derive(Debug, Clone, PartialEq, Setters)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// The settings of its associations, where none are given for one of them.
    pub association: AssociationConfig,
    /// Valid.Cookie.Life: how long a State Cookie that we gave out is accepted.
    pub valid_cookie_life: Duration,
    /// INITs that are answered within a second. Above it they are dropped.
    pub max_inits_per_second: u32,
    /// COOKIE ECHOs whose signature is checked within a second. Above it they are dropped.
    pub max_cookie_echoes_per_second: u32,
    /// Which verification tags are given out; `None`: any.
    pub tag_owner: Option<TagOwner>,
    /// Bytes of received user data that the endpoint holds, over all its associations, beside what
    /// each of them is guaranteed. When they are used up, the association that holds most out of
    /// order gives that back to one that holds less, and if this is not enough, new DATA is dropped.
    ///
    /// Messages that are not whole never take all of it for good. When the next chunk of an
    /// association would find no room though all users received all that they can, what is out of
    /// order is given back, and then the association that holds most of such messages delivers a part
    /// of one, or, without partial delivery, ends with [`LostCause::OutOfResource`]. So a peer whose
    /// user receives waits for the room that others hold back no longer than until it sends the chunk
    /// again: RTO.Max at most, if no packet is lost.
    ///
    /// [`LostCause::OutOfResource`]: crate::LostCause::OutOfResource
    pub max_received_bytes: usize,
    /// Associations of this endpoint, in any state. Above it a COOKIE ECHO is answered with ABORT
    /// and `connect` refuses.
    pub max_associations: usize,
    /// Packets that answer something without belonging to an association and wait to be sent.
    /// Above it such answers are not given.
    pub max_pending_replies: usize,
    /// Verification tags of ended associations that are remembered for Valid.Cookie.Life, so that
    /// a late copy of a COOKIE ECHO does not raise them from the dead.
    pub max_remembered_tags: usize,
}

/// Settings of an association.
#[derive(Debug, Clone, PartialEq, Setters)]
#[setters(generate_delegates(ty = "EndpointConfig", field = "association"))]
#[non_exhaustive]
pub struct AssociationConfig {
    /// The settings of its paths, where none are given for one of them.
    pub path: PathConfig,
    /// How losses are found and mended.
    pub recovery: RecoveryConfig,
    /// Which congestion controller the paths have. When it is changed, they begin anew with the initial window.
    pub congestion_control: CongestionControl,
    /// Max.Burst: how many packets with new data may leave at one opportunity (section 6.1).
    pub max_burst: u32,
    /// Association.Max.Retrans: consecutive errors of the peer before the association is given up.
    pub association_max_retrans: u32,
    /// Max.Init.Retransmits: how often INIT or COOKIE ECHO is sent again before giving up.
    pub max_init_retransmits: u32,
    /// HB.Max.Burst: HEARTBEATs that may leave at one time.
    pub hb_max_burst: u32,
    /// Whether the user is told of paths that become Potentially Failed, or leave that state
    /// (RFC 7829 section 3.2, rule 12).
    pub potentially_failed_events: bool,
    /// SACK.Delay: the longest delay of an acknowledgement; at most 500 ms (section 6.2).
    pub sack_delay: Duration,
    /// Acknowledge at the latest every so many packets with DATA (section 6.2: two).
    pub sack_frequency: u32,
    /// Bytes of received user data that an association holds: the window that it advertises.
    /// At least 1500 (section 3.3.2).
    pub a_rwnd: u32,
    /// Bytes of user messages that an association holds until they are acknowledged.
    pub send_buffer: usize,
    /// When messages that do not say so themselves are given up (RFC 6458 `SCTP_DEFAULT_PRINFO`).
    pub default_pr_policy: PrPolicy,
    /// Outbound streams that we ask for (section 5.1.1); at least 1.
    pub outbound_streams: u16,
    /// Inbound streams that we allow the peer (section 5.1.1); at least 1.
    pub max_inbound_streams: u16,
    /// Outbound streams that an association has at most after the peer has asked for more of them
    /// (RFC 6525 section 5.2.6).
    pub max_outbound_streams: u16,
    /// Which requests to re-configure streams are granted to the peer (RFC 6525 section 6.3.1), where
    /// [`Extensions::re_configuration`] is in `extensions`.
    pub re_configuration_policy: ReConfigurationPolicy,
    /// Whether chunks share packets: DATA with DATA, and DATA with control chunks (section 6.10).
    pub bundling: bool,
    /// Send small messages at once (true), or hold them back while data is in flight so that they
    /// can be bundled (section 6.1; Nagle's algorithm).
    pub nodelay: bool,
    /// Which stream sends next where several have something to send (RFC 8260 section 3).
    pub stream_scheduler: StreamScheduler,
    /// Whether data goes over several paths at a time (concurrent multipath transfer). Without it, new data
    /// goes to the primary path, and to another one while that fails (section 6.4).
    pub cmt: bool,
    /// Which of them the next new data goes to, with `cmt`.
    pub path_scheduler: PathScheduler,
    /// How they share the buffers, with `cmt`.
    pub buffer_splitting: BufferSplitting,
    /// The largest user message, in bytes, in either direction. A peer that sends a larger one gets
    /// ABORT. Without partial delivery it is at most `a_rwnd`, and at most the larger one of
    /// the endpoint's `max_received_bytes` and `guaranteed_receive_bytes`, for a larger one could never be
    /// delivered. One that we send has to fit into `send_buffer` as well.
    pub max_message_size: usize,
    /// Deliver what has arrived of a message larger than this, in bytes, before all of it has
    /// (section 6.9; RFC 6458 `SCTP_PARTIAL_DELIVERY_POINT`), and of a smaller one when there is no
    /// room for the rest of it. Messages larger than `a_rwnd` can be received then. When it is
    /// larger than `a_rwnd`, as it is by default, messages are delivered whole.
    pub partial_delivery_point: usize,
    /// Whether messages of other streams may be delivered between the parts of one (RFC 6458
    /// `SCTP_FRAGMENT_INTERLEAVE`, level 2). If not, they wait for its end (levels 0 and 1).
    pub fragment_interleave: bool,
    /// Whether `Event::SenderDry` is told.
    pub sender_dry_events: bool,
    /// Messages and fragments that an association holds for its user; at least 1. Above it new DATA is
    /// dropped and the advertised window is 0, however small they are. The fragments of the message
    /// that comes next are joined first, and count no more.
    pub max_received_messages: usize,
    /// How far above the cumulative TSN one may be to be taken; at most 32,767, so that stream
    /// sequence numbers stay comparable.
    pub max_tsn_distance: u16,
    /// Runs of received TSNs between holes that an association keeps. A SACK reports as many as fit into it, the lowest
    /// ones; by default there may be as many as `max_tsn_distance` allows.
    pub max_gap_ack_blocks: usize,
    /// Duplicate TSNs that are listed in a SACK, at most; further ones are counted only.
    pub max_duplicate_tsns: usize,
    /// Addresses of the peer that an association uses, and addresses of our own that we list; at
    /// most 255. Further ones of the peer are left out.
    pub max_peer_addresses: usize,
    /// Extensions that are offered to peers; each is used with a peer that offers it, too.
    pub extensions: Extensions,
    /// Chunk types that the peer has to authenticate, with [`Extensions::authentication`] (RFC 4895
    /// section 3.2; RFC 6458 `SCTP_AUTH_CHUNK`). INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH cannot
    /// be among them. Those of address reconfiguration always are.
    pub auth_chunks: Vec<ChunkType>,
    /// HMAC algorithms that the peer may use, the preferred one first (RFC 4895 section 3.3;
    /// RFC 6458 `SCTP_HMAC_IDENT`). SHA-1 has to be among them.
    pub hmac_identifiers: Vec<HmacIdentifier>,
    /// What the carrier protects packets with in place of the checksum: with
    /// [`Extensions::zero_checksum`], packets without one are accepted and sent (RFC 9653).
    pub alternate_error_detection: Option<ErrorDetectionMethod>,
    /// Whether addresses are changed with a peer that does not authenticate its chunks, too (RFC 5061
    /// demands it in section 4.1). Whoever sees the packets of such an association can redirect it.
    pub address_reconfiguration_without_authentication: bool,
    /// Adaptation Code Point: the adaptation layer that peers are told of in INIT and INIT ACK (RFC 5061
    /// section 4.2.6; RFC 6458 `SCTP_ADAPTATION_LAYER`); `None`: none.
    pub adaptation_code_point: Option<u32>,
    /// HEARTBEATs of the peer that wait for their answers; at least 1. Above it, or when the answers
    /// would not fit into one packet, they are not answered.
    pub max_pending_heartbeat_acks: usize,
    /// Bytes of received user data that each association may hold whatever the others do, so that
    /// users who do not read cannot bring them to a halt, nor can peers whose messages need more. All
    /// together never hold more than `max_received_bytes` and this for each of `max_associations`.
    pub guaranteed_receive_bytes: usize,
}

/// Settings of a path (RFC 9260 sections 11.1.9, 11.1.12 and 11.1.13).
#[derive(Debug, Clone, Copy, PartialEq, Setters)]
#[setters(generate_delegates(ty = "AssociationConfig", field = "path"))]
#[setters(generate_delegates(ty = "EndpointConfig", method = "path_mut"))]
#[non_exhaustive]
pub struct PathConfig {
    /// RTO.Initial: the retransmission timeout of a path before its first measurement. None of the
    /// three is less than a millisecond.
    pub rto_initial: Duration,
    /// RTO.Min: the least retransmission timeout.
    pub rto_min: Duration,
    /// RTO.Max: the greatest retransmission timeout.
    pub rto_max: Duration,
    /// RTO.Alpha: the weight of a new measurement in SRTT (section 6.3.1).
    pub rto_alpha: f64,
    /// RTO.Beta: the weight of a new deviation in RTTVAR (section 6.3.1).
    pub rto_beta: f64,
    /// Path.Max.Retrans: consecutive errors of one path before it is inactive.
    pub path_max_retrans: u32,
    /// HB.interval: added to the RTO between HEARTBEATs on an idle path.
    pub hb_interval: Duration,
    /// Whether idle paths are watched by HEARTBEATs at all (section 8.3).
    pub heartbeats: bool,
    /// Whether a path that fails counts as Potentially Failed before it is inactive, so that data
    /// goes elsewhere early (RFC 7829).
    pub potentially_failed: bool,
    /// PotentiallyFailed.Max.Retrans: consecutive errors of one path before it is Potentially
    /// Failed (RFC 7829 section 3.2).
    pub potentially_failed_max_retrans: u32,
    /// Primary.Switchover.Max.Retrans: consecutive errors of the primary path before another path
    /// becomes the primary for good (RFC 7829 section 5); at least the threshold at which data
    /// leaves the path. `None`: the primary stays what it is, and is used again when it recovers.
    pub primary_switchover_max_retrans: Option<u32>,
    /// The largest IP packet, headers included, that the local interface carries, in bytes.
    pub mtu: usize,
    /// Whether larger and smaller packets are tried out, to learn what each path carries (RFC 8899).
    /// Without it paths are taken to carry `mtu`.
    pub path_mtu_discovery: bool,
    /// BASE_PLPMTU: the SCTP packet that every path is expected to carry, in bytes, until more is
    /// known (RFC 8899 section 5.1.2). On IPv6 it is not less than what fits into 1280 bytes.
    pub base_mtu: usize,
    /// MAX_PROBES: how many probe packets may be lost in a row before the search is over, or large
    /// packets with data before they count as too large (RFC 8899 section 5.1.2).
    pub max_probes: u32,
    /// PROBE_TIMER: how long the answer to a probe packet may take; at least a second (RFC 8899
    /// section 5.1.1).
    pub probe_timer: Duration,
    /// PMTU_RAISE_TIMER: after which time a larger packet is tried again (RFC 8899 section 5.1.1).
    pub pmtu_raise_timer: Duration,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        EndpointConfig {
            association: AssociationConfig::default(),
            valid_cookie_life: Duration::from_secs(60),
            max_inits_per_second: 100_000,
            max_cookie_echoes_per_second: 100_000,
            tag_owner: None,
            max_received_bytes: 1 << 30,
            max_associations: 1 << 20,
            max_pending_replies: 1024,
            max_remembered_tags: 1 << 16,
        }
    }
}

impl Default for AssociationConfig {
    fn default() -> Self {
        AssociationConfig {
            path: PathConfig::default(),
            recovery: RecoveryConfig::default(),
            congestion_control: CongestionControl::default(),
            max_burst: 4,
            association_max_retrans: 10,
            max_init_retransmits: 8,
            hb_max_burst: 1,
            potentially_failed_events: true,
            sack_delay: Duration::from_millis(200),
            sack_frequency: 2,
            a_rwnd: 1 << 20,
            send_buffer: 1 << 20,
            default_pr_policy: PrPolicy::Reliable,
            outbound_streams: 10,
            max_inbound_streams: 2048,
            max_outbound_streams: 2048,
            re_configuration_policy: ReConfigurationPolicy::default(),
            bundling: true,
            nodelay: true,
            stream_scheduler: StreamScheduler::default(),
            cmt: false,
            path_scheduler: PathScheduler::default(),
            buffer_splitting: BufferSplitting::default(),
            max_message_size: 1 << 18,
            partial_delivery_point: usize::MAX,
            fragment_interleave: false,
            sender_dry_events: false,
            max_received_messages: 1 << 15,
            max_tsn_distance: 32_767,
            max_gap_ack_blocks: 16_384,
            max_duplicate_tsns: 16,
            max_peer_addresses: 16,
            extensions: Extensions::NONE,
            auth_chunks: Vec::new(),
            hmac_identifiers: vec![HmacIdentifier::SHA_256, HmacIdentifier::SHA_1],
            alternate_error_detection: None,
            address_reconfiguration_without_authentication: false,
            adaptation_code_point: None,
            max_pending_heartbeat_acks: 8,
            guaranteed_receive_bytes: 8192,
        }
    }
}

impl Default for PathConfig {
    fn default() -> Self {
        PathConfig {
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            rto_alpha: 1.0 / 8.0,
            rto_beta: 1.0 / 4.0,
            path_max_retrans: 5,
            hb_interval: Duration::from_secs(30),
            heartbeats: true,
            potentially_failed: true,
            potentially_failed_max_retrans: 0,
            primary_switchover_max_retrans: None,
            mtu: ETHERNET_MTU,
            path_mtu_discovery: true,
            base_mtu: 1200,
            max_probes: 3,
            probe_timer: Duration::from_secs(16),
            pmtu_raise_timer: Duration::from_secs(600),
        }
    }
}

/// Settings that contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The largest messages do not fit into what the endpoint holds, and would never be delivered.
    #[error(
        "max_received_bytes={max_received_bytes} has no room for a message of \
         max_message_size={max_message_size}: raise the one, lower the other, or have messages delivered \
         in parts (partial_delivery_point)"
    )]
    NoRoomForMessage {
        /// The room of the endpoint, in bytes.
        max_received_bytes: usize,
        /// The largest message that is received, in bytes.
        max_message_size: usize,
    },
    /// Chunks of this type cannot be authenticated (RFC 4895 section 3.2).
    #[error("auth_chunks: {0} chunks cannot be authenticated")]
    CannotBeAuthenticated(ChunkType),
    /// Peers may know no other HMAC algorithm than SHA-1 (RFC 4895 section 3.3).
    #[error("hmac_identifiers has to contain SHA-1")]
    NoSha1,
    /// An HMAC algorithm that is not known (RFC 6458 section 8.1.17).
    #[error("hmac_identifiers: {0} is not known")]
    UnknownHmac(HmacIdentifier),
}

impl EndpointConfig {
    /// Looks whether the settings go together. An endpoint takes settings that do not, and lowers
    /// `max_message_size`.
    ///
    /// # Errors
    ///
    /// The first contradiction.
    pub fn check(&self) -> Result<(), ConfigError> {
        let association = &self.association;
        let max_message_size = association
            .max_message_size
            .min(association.a_rwnd as usize);
        let room = association.room_for_message(self.max_received_bytes);
        if !association.delivers_parts() && max_message_size > room {
            return Err(ConfigError::NoRoomForMessage {
                max_received_bytes: self.max_received_bytes,
                max_message_size,
            });
        }
        association.check_authentication()
    }

    /// These settings, moved to the nearest ones that make sense.
    pub(crate) fn bounded(mut self) -> EndpointConfig {
        self.association = self.association.bounded(self.max_received_bytes);
        self.valid_cookie_life = bounded_duration(self.valid_cookie_life);
        if let Some(owner) = &mut self.tag_owner {
            owner.count = owner.count.max(1);
            owner.index %= owner.count;
        }
        self
    }

    /// The longest life that a Cookie Preservative can give to a cookie.
    pub(crate) fn longest_cookie_life(&self) -> Duration {
        self.valid_cookie_life * 2
    }

    /// For the setters of [`PathConfig`].
    fn path_mut(&mut self) -> &mut PathConfig {
        &mut self.association.path
    }
}

impl AssociationConfig {
    /// These settings, moved to the nearest ones that make sense in an endpoint with this
    /// `max_received_bytes`.
    pub(crate) fn bounded(mut self, max_received_bytes: usize) -> AssociationConfig {
        self.path = self.path.bounded();
        // RFC 5061 section 4.2.7.
        self.extensions.authentication |= self.extensions.address_reconfiguration
            && !self.address_reconfiguration_without_authentication;
        self.max_burst = self.max_burst.max(1);
        self.hb_max_burst = self.hb_max_burst.max(1);
        self.sack_delay = self.sack_delay.min(Duration::from_millis(500));
        self.sack_frequency = self.sack_frequency.max(1);
        self.a_rwnd = self.a_rwnd.max(1500);
        self.outbound_streams = self.outbound_streams.max(1);
        self.max_inbound_streams = self.max_inbound_streams.max(1);
        self.max_peer_addresses = self.max_peer_addresses.clamp(1, 255);
        self.max_pending_heartbeat_acks = self.max_pending_heartbeat_acks.max(1);
        if !self.delivers_parts() {
            let room = self
                .room_for_message(max_received_bytes)
                .min(self.a_rwnd as usize);
            self.max_message_size = self.max_message_size.min(room);
        }
        self.auth_chunks
            .retain(|chunk_type| chunk_type.can_be_authenticated());
        self.hmac_identifiers
            .retain(|identifier| identifier.hmac_length().is_some());
        self.hmac_identifiers.dedup();
        if !self.hmac_identifiers.contains(&HmacIdentifier::SHA_1) {
            self.hmac_identifiers.push(HmacIdentifier::SHA_1);
        }
        self.max_received_messages = self.max_received_messages.max(1);
        self.max_tsn_distance = self.max_tsn_distance.clamp(1, 32_767);
        self
    }

    fn check_authentication(&self) -> Result<(), ConfigError> {
        let fault = self
            .auth_chunks
            .iter()
            .find(|chunk_type| !chunk_type.can_be_authenticated());
        if let Some(chunk_type) = fault {
            return Err(ConfigError::CannotBeAuthenticated(*chunk_type));
        }
        let unknown = self
            .hmac_identifiers
            .iter()
            .find(|identifier| identifier.hmac_length().is_none());
        if let Some(identifier) = unknown {
            return Err(ConfigError::UnknownHmac(*identifier));
        }
        if !self.hmac_identifiers.contains(&HmacIdentifier::SHA_1) {
            return Err(ConfigError::NoSha1);
        }
        Ok(())
    }

    /// Whether messages may be delivered in parts.
    pub(crate) fn delivers_parts(&self) -> bool {
        self.partial_delivery_point <= self.a_rwnd as usize
    }

    /// What an endpoint with this `max_received_bytes` holds at least of one association, if others
    /// hold nothing.
    fn room_for_message(&self, max_received_bytes: usize) -> usize {
        max_received_bytes.max(self.guaranteed_receive_bytes)
    }
}

impl PathConfig {
    /// These settings, moved to the nearest ones that make sense.
    pub(crate) fn bounded(mut self) -> PathConfig {
        for duration in [
            &mut self.rto_initial,
            &mut self.rto_min,
            &mut self.rto_max,
            &mut self.hb_interval,
            &mut self.probe_timer,
            &mut self.pmtu_raise_timer,
        ] {
            *duration = bounded_duration(*duration);
        }
        // Timers without a duration would expire for ever without time going by.
        for timeout in [&mut self.rto_initial, &mut self.rto_min] {
            *timeout = (*timeout).max(LEAST_RTO);
        }
        self.rto_max = self.rto_max.max(self.rto_min);
        let default = PathConfig::default();
        self.rto_alpha = weight(self.rto_alpha, default.rto_alpha);
        self.rto_beta = weight(self.rto_beta, default.rto_beta);
        self.mtu = self.mtu.clamp(LEAST_MTU, MOST_MTU);
        self.probe_timer = self.probe_timer.max(LEAST_PROBE_TIMER);
        self.max_probes = self.max_probes.max(1);
        self.primary_switchover_max_retrans = self
            .primary_switchover_max_retrans
            .map(|errors| errors.max(self.failover_threshold()));
        self
    }

    /// The largest SCTP packet that goes over every kind of path, in bytes: one of which nothing is known may be no better
    /// than an Ethernet.
    pub(crate) fn least_mtu(&self) -> usize {
        const IPV6_AND_UDP_HEADERS: usize = 48;
        self.mtu.min(ETHERNET_MTU) - IPV6_AND_UDP_HEADERS
    }

    /// How many errors in a row a path may have until data leaves it.
    fn failover_threshold(&self) -> u32 {
        if self.potentially_failed {
            self.potentially_failed_max_retrans
                .min(self.path_max_retrans)
        } else {
            self.path_max_retrans
        }
    }
}

/// A duration, moved to the longest one that makes sense.
fn bounded_duration(duration: Duration) -> Duration {
    const LONGEST: Duration = Duration::from_secs(24 * 3600);
    duration.min(LONGEST)
}

/// A number from 0 to 1; `default` in place of what is no number at all.
fn weight(value: f64, default: f64) -> f64 {
    if value.is_nan() {
        default
    } else {
        value.clamp(0.0, 1.0)
    }
}

/// IPv4's least: below it there is no room for a handshake.
const LEAST_MTU: usize = 576;

/// What an Ethernet carries.
pub(crate) const ETHERNET_MTU: usize = 1500;

/// The clock granularity G (section 6.3.1).
const LEAST_RTO: Duration = Duration::from_millis(1);

/// RFC 8899 section 5.1.1.
const LEAST_PROBE_TIMER: Duration = Duration::from_secs(1);

/// What the length fields of IP and UDP can tell.
const MOST_MTU: usize = 65_535;

#[cfg(test)]
mod tests;
