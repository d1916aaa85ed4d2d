//! One association (RFC 9260), put together from parts that know nothing of each other:
//!
//! - `setup`, `capabilities` and `cookie`: the handshake,
//! - `transmit_queue` with its streams and schedulers, and `outstanding` with `gap_blocks`, both of
//!   `message_fragment`s, joined by `sender`: what goes out; `loss`: how losses are found and mended,
//! - `received_tsns`, `reassembly`, `shared_copies`, `streams` and `acknowledge`, joined by `receiver`:
//!   what comes in,
//! - `local_addresses`: our own ones,
//! - `path` with `rtt`: one way to the peer; `path_list`: all of them, found by their `path_id`;
//!   `heartbeats` and `karn`: what may measure the round-trip time of one; `paths`: which of the ways
//!   is taken,
//! - `pending`: control chunks that are sent once,
//! - `multipath`: data over several paths at a time,
//! - `control_queue`: requests that the peer has to answer, one of each kind at a time;
//!   `re_configuration`: those about streams, with `stream_set` and `held_messages`,
//! - `shutdown`: the graceful end.
//!
//! This file holds the association's timers and user calls; `transitions` its states, `input` handles the
//! chunks of packets, `output` makes packets.

mod acknowledge;
pub(crate) mod address_reconfiguration;
pub(crate) mod addresses;
pub(crate) mod authentication;
pub(crate) mod capabilities;
mod control_queue;
pub(crate) mod cookie;
mod encoded_chunk;
mod failed_messages;
mod fast_recovery;
mod gap_blocks;
mod heartbeats;
mod held_messages;
mod icmp;
mod input;
mod karn;
mod keys;
mod limit;
mod local_addresses;
mod loss;
mod message_fragment;
mod message_key;
mod multipath;
mod output;
mod outstanding;
mod path;
mod path_id;
mod path_list;
mod path_mtu;
mod paths;
mod pending;
mod re_configuration;
mod reassembly;
mod received_data;
mod received_tsns;
mod receiver;
mod rtt;
mod sender;
pub(crate) mod setup;
mod shared_copies;
mod shutdown;
mod stream_set;
mod stream_settings;
mod streams;
mod transitions;
mod transmit_queue;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rand::Rng;
use rand_chacha::ChaCha12Rng;

pub(crate) use icmp::IcmpOutcome;
pub(crate) use output::Destination;

use address_reconfiguration::AddressReconfiguration;
use authentication::{Authentication, Declaration, SharedKeys};
use capabilities::accepts_zero_checksum;
use control_queue::ControlQueue;
use cookie::{Cookie, TieTags};
use local_addresses::LocalAddresses;
use multipath::Multipath;
use path::Path;
use path_list::Paths;
use paths::Routing;
use pending::Pending;
use re_configuration::ReConfiguration;
use receiver::Receiver;
use sender::Sender;
use setup::{Setup, SetupTimeout};
use shutdown::Shutdown;

use crate::packet::{Cause, Tsn};
use crate::replies::Replies;
use crate::{
    AbandonedMessages, AssociationConfig, AssociationId, AssociationState, AssociationStatistics,
    AssociationStatus, CannotStartCause, EndpointStatistics, Event, Extensions, LocalAddressState,
    LostCause, PathAddress, PathState, ReceivedMessage, SendError, SendInfo, ShutdownError,
};

/// What an association uses of its endpoint while it works.
pub(crate) struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) local_port: u16,
    /// Our addresses that peers are told when an association begins.
    pub(crate) local_addresses: &'a Arc<[IpAddr]>,
    /// All addresses of this host.
    pub(crate) host_addresses: &'a [IpAddr],
    /// The shared keys of associations that begin.
    pub(crate) shared_keys: &'a SharedKeys,
    pub(crate) config: &'a AssociationConfig,
    pub(crate) rng: &'a mut ChaCha12Rng,
    pub(crate) events: &'a mut VecDeque<Event>,
    pub(crate) replies: &'a mut Replies,
    pub(crate) statistics: &'a mut EndpointStatistics,
    /// Bytes of received user data that the endpoint may hold yet.
    pub(crate) receive_budget: usize,
}

/// An association.
pub(crate) struct Association {
    id: AssociationId,
    state: AssociationState,
    /// The peer asked for it.
    incoming: bool,
    peer_port: u16,
    local_tag: u32,
    /// 0 until the peer said it.
    peer_tag: u32,
    /// Populated when an INIT comes for this association (section 5.2.2).
    tie_tags: TieTags,
    /// Our first TSN: an INIT ACK in a collision must say the same as our INIT did.
    local_initial_tsn: Tsn,
    local_addresses: LocalAddresses,
    /// With a peer with which it was agreed on.
    address_reconfiguration: Option<Box<AddressReconfiguration>>,
    paths: Paths,
    /// Changes whenever an address is added, removed, changed or confirmed.
    paths_version: u32,
    routing: Routing,
    /// Where data has gone over several paths at a time.
    multipath: Option<Box<Multipath>>,
    /// The extensions that both sides have agreed on; none until the peer has said what it offers.
    extensions: Extensions,
    /// `None` when we do not offer it, or the peer had none when it opened the association.
    authentication: Option<Box<Authentication>>,
    /// Our INIT or INIT ACK accepted packets without a checksum (RFC 9653).
    accepts_zero_checksum: bool,
    /// The peer's (RFC 5061 section 4.2.6).
    adaptation_code_point: Option<u32>,
    receiver: Receiver,
    sender: Sender,
    /// On the side that opened it, until it is up.
    setup: Option<Box<Setup>>,
    /// With the next packet a burst begins on each path (section 6.1 D).
    begins_burst: bool,
    shutdown: Shutdown,
    /// Consecutive errors of the peer (section 8.1).
    error_count: u32,
    pending: Pending,
    control: ControlQueue,
    /// Where both sides have agreed on RE-CONFIG.
    re_configuration: Option<Box<ReConfiguration>>,
    statistics: AssociationStatistics,
}

impl Association {
    /// An association that we open: an INIT is to be sent to the first of the peer's addresses,
    /// and after it to the others.
    pub(crate) fn connect(
        id: AssociationId,
        peer: &[PathAddress],
        peer_port: u16,
        local_tag: u32,
        context: &mut Context<'_>,
    ) -> Association {
        let config = context.config;
        let initial_tsn = Tsn(context.rng.next_u32());
        let mut paths = Paths::new();
        for address in distinct(peer) {
            // The user named these addresses, so they are confirmed (section 5.4).
            paths.add(|id| Path::new(id, address, PathState::Active, config));
        }
        let authentication = Declaration::offered(config, context.rng)
            .map(|local| Box::new(Authentication::new(local, context.shared_keys.clone())));
        Association {
            id,
            state: AssociationState::CookieWait,
            incoming: false,
            peer_port,
            local_tag,
            peer_tag: 0,
            tie_tags: TieTags::default(),
            local_initial_tsn: initial_tsn,
            local_addresses: LocalAddresses::new(context.local_addresses),
            address_reconfiguration: None,
            paths,
            paths_version: 1,
            routing: Routing::new(),
            multipath: None,
            extensions: Extensions::NONE,
            authentication,
            accepts_zero_checksum: accepts_zero_checksum(config),
            adaptation_code_point: None,
            receiver: Receiver::new(Tsn(0), 0, false, config),
            sender: Sender::new(
                initial_tsn,
                config.outbound_streams,
                0,
                config.stream_scheduler,
                config.recovery.loss_detection,
            ),
            setup: Some(Box::new(Setup::new())),
            begins_burst: true,
            shutdown: Shutdown::default(),
            error_count: 0,
            pending: Pending::default(),
            control: ControlQueue::default(),
            re_configuration: None,
            statistics: AssociationStatistics::default(),
        }
    }

    /// An association that the peer opened: it brought back our cookie (section 5.1.5).
    pub(crate) fn accept(
        id: AssociationId,
        from: PathAddress,
        peer_port: u16,
        cookie: &Cookie,
        authentication: Option<Authentication>,
        context: &mut Context<'_>,
    ) -> Association {
        let config = context.config;
        let local_addresses = LocalAddresses::new(context.local_addresses);
        // The INIT ACK went to this address, and its cookie came back (section 5.4, rule 2).
        let proved = PathAddress {
            local: local_addresses
                .only_address(from)
                .filter(|_| from.remote == cookie.source.remote),
            remote: cookie.source.remote,
            encapsulation_port: cookie.source.encapsulation_port,
        };
        let mut paths = Paths::new();
        paths.add(|id| Path::new(id, proved, PathState::Active, config));
        let mut association = Association {
            id,
            state: AssociationState::Established,
            incoming: true,
            peer_port,
            local_tag: cookie.local_tag,
            peer_tag: cookie.peer_tag,
            tie_tags: TieTags::default(),
            local_initial_tsn: cookie.local_initial_tsn,
            local_addresses,
            address_reconfiguration: AddressReconfiguration::agreed(
                cookie.capabilities.extensions,
                cookie.local_initial_tsn,
                cookie.peer_initial_tsn,
            ),
            paths,
            paths_version: 1,
            routing: Routing::new(),
            multipath: None,
            extensions: cookie.capabilities.extensions,
            authentication: authentication.map(Box::new),
            accepts_zero_checksum: accepts_zero_checksum(config),
            adaptation_code_point: cookie.capabilities.adaptation_code_point,
            receiver: Receiver::new(
                cookie.peer_initial_tsn,
                cookie.capabilities.inbound_streams,
                cookie.capabilities.extensions.interleaving,
                config,
            ),
            sender: Sender::new(
                cookie.local_initial_tsn,
                cookie.capabilities.outbound_streams,
                cookie.peer_a_rwnd,
                config.stream_scheduler,
                config.recovery.loss_detection,
            ),
            setup: None,
            begins_burst: true,
            shutdown: Shutdown::default(),
            error_count: 0,
            pending: Pending::default(),
            control: ControlQueue::default(),
            re_configuration: None,
            statistics: AssociationStatistics::default(),
        };
        association.begin_re_configuration(cookie.peer_initial_tsn);
        association.sender.agree_on(association.extensions);
        association
            .receiver
            .agree_on(association.extensions, config);
        association.auth_changed();
        association.add_paths(&cookie.other_addresses, from, context);
        association.enter_established(context);
        association
    }

    /// Its state.
    pub(crate) fn state(&self) -> AssociationState {
        self.state
    }

    /// Whether it is being set up by us.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(
            self.state,
            AssociationState::CookieWait | AssociationState::CookieEchoed
        )
    }

    /// Our verification tag.
    pub(crate) fn local_tag(&self) -> u32 {
        self.local_tag
    }

    /// The peer's verification tag, 0 until it is known.
    pub(crate) fn peer_tag(&self) -> u32 {
        self.peer_tag
    }

    /// Our first TSN.
    pub(crate) fn local_initial_tsn(&self) -> Tsn {
        self.local_initial_tsn
    }

    /// The peer's SCTP port.
    pub(crate) fn peer_port(&self) -> u16 {
        self.peer_port
    }

    /// How many streams there are to send on.
    pub(crate) fn outbound_streams(&self) -> u16 {
        self.sender.streams()
    }

    /// Where the peer is: its primary path.
    pub(crate) fn peer_address(&self) -> Option<PathAddress> {
        self.paths.get(self.routing.primary).map(Path::address)
    }

    /// The peer's addresses, and whether each is proved to be the peer's (section 5.4).
    pub(crate) fn peer_addresses(&self) -> impl Iterator<Item = (PathAddress, bool)> {
        self.paths
            .iter()
            .map(|path| (path.address(), path.state() != PathState::Unconfirmed))
    }

    /// The path to one of the peer's addresses.
    pub(crate) fn address_of(&self, remote: IpAddr) -> Option<PathAddress> {
        let path = self.paths.get(self.path_to(remote)?)?;
        Some(path.address())
    }

    /// Our addresses, and where each stands.
    pub(crate) fn local_addresses(&self) -> impl Iterator<Item = (IpAddr, LocalAddressState)> {
        self.local_addresses.states()
    }

    /// Whether an address is proved to be the peer's.
    pub(crate) fn has_confirmed(&self, remote: IpAddr) -> bool {
        self.paths
            .iter()
            .any(|path| path.address().remote == remote && path.state() != PathState::Unconfirmed)
    }

    /// Changes whenever what [`Self::peer_addresses`] says does.
    pub(crate) fn paths_version(&self) -> u32 {
        self.paths_version
    }

    /// The tie-tags, 0 when no INIT came for it yet.
    pub(crate) fn tie_tags(&self) -> TieTags {
        self.tie_tags
    }

    /// The tie-tags, made when they are first asked for (section 5.2.2).
    pub(crate) fn populate_tie_tags(&mut self, rng: &mut ChaCha12Rng) -> TieTags {
        while self.tie_tags.local == 0 || self.tie_tags.peer == 0 {
            self.tie_tags = TieTags {
                local: rng.next_u32(),
                peer: rng.next_u32(),
            };
        }
        self.tie_tags
    }

    /// Bytes of received user data held.
    pub(crate) fn receive_buffer_bytes(&self) -> usize {
        self.receiver.buffered()
    }

    /// Bytes of them that [`Self::renege`] may free, at most.
    pub(crate) fn out_of_order_bytes(&self) -> usize {
        self.receiver.out_of_order()
    }

    /// Whether `tsn` is missing below others that have arrived.
    pub(crate) fn misses(&self, tsn: Tsn) -> bool {
        self.receiver.misses(tsn)
    }

    /// Throws away received data that is out of order, to make room for other associations.
    pub(crate) fn renege(&mut self, context: &mut Context<'_>) {
        context.statistics.drops.data_reneged += self.receiver.renege();
    }

    /// Bytes of received user data that the user cannot receive yet.
    pub(crate) fn held_back_bytes(&self) -> usize {
        self.receiver.held_back()
    }

    /// Bytes of the chunk that comes next, if it was dropped because all associations together hold
    /// too much; said once.
    pub(crate) fn take_starved(&mut self) -> Option<usize> {
        self.receiver.take_starved()
    }

    /// Gives back what it holds of messages that are not whole, for without that room others cannot
    /// go on (section 6.9): by having a part delivered, or else by its end.
    pub(crate) fn yield_held_back(&mut self, context: &mut Context<'_>) {
        if self.receiver.held_back() == 0 {
            return;
        }
        if !self.receiver.deliver_part_now(context.config) {
            self.give_up(context);
        } else if self.receiver.take_readable() {
            context.events.push_back(Event::Readable { id: self.id });
        }
    }

    /// Whether it has ended and nothing is left to be received: it can be forgotten.
    pub(crate) fn is_disposable(&self) -> bool {
        self.state == AssociationState::Closed && !self.receiver.is_ready()
    }

    // --- User calls ---

    /// Queues a message.
    pub(crate) fn send(
        &mut self,
        mut info: SendInfo,
        payload: Bytes,
        context: &mut Context<'_>,
    ) -> Result<(), SendError> {
        match self.state {
            AssociationState::Closed => return Err(SendError::UnknownAssociation),
            AssociationState::CookieWait
            | AssociationState::CookieEchoed
            | AssociationState::Established
                if !self.shutdown.is_requested() => {}
            _ => return Err(SendError::ShuttingDown),
        }
        if info
            .path
            .is_some_and(|remote| self.path_to(remote).is_none())
        {
            return Err(SendError::UnknownPath);
        }
        info.shared_key = self
            .message_key(info.shared_key)
            .map_err(|_| SendError::UnknownKey)?;
        let mut gave_way = Vec::new();
        self.sender.send(
            context.now,
            info,
            payload,
            &mut self.paths,
            context.config,
            &mut gave_way,
        )?;
        if !gave_way.is_empty() {
            self.report_failed(gave_way, context);
        }
        self.statistics.messages_sent += 1;
        self.begin_burst();
        self.watch_window(context);
        Ok(())
    }

    /// Whether more waits to be sent than a SACK: messages, or answers.
    pub(crate) fn has_more_than_a_sack(&self) -> bool {
        self.sender.unsent() > 0 || !self.pending.is_empty() || self.request_path().is_some()
    }

    /// The next message for the user.
    pub(crate) fn receive(&mut self, context: &mut Context<'_>) -> Option<ReceivedMessage> {
        let message = self
            .receiver
            .receive(context.receive_budget, context.config)?;
        self.statistics.messages_received += 1;
        Some(message)
    }

    /// Ends it in good order (section 9.2).
    pub(crate) fn shut_down(&mut self, context: &mut Context<'_>) -> Result<(), ShutdownError> {
        match self.state {
            AssociationState::Closed => return Err(ShutdownError::UnknownAssociation),
            AssociationState::CookieWait | AssociationState::CookieEchoed => {
                self.shutdown.request();
            }
            AssociationState::Established => self.begin_shutdown(context),
            // It ends already; in SHUTDOWN-RECEIVED the request MUST be ignored.
            AssociationState::ShutdownPending
            | AssociationState::ShutdownSent
            | AssociationState::ShutdownReceived
            | AssociationState::ShutdownAckSent => {}
        }
        Ok(())
    }

    /// Ends it at once on the user's wish (section 9.1).
    pub(crate) fn abort(&mut self, reason: &[u8], context: &mut Context<'_>) {
        self.send_abort(&Cause::UserInitiatedAbort(reason), context);
        if self.is_opening() {
            self.cannot_start(CannotStartCause::AbortedLocally, context);
        } else {
            self.lost(LostCause::AbortedLocally, context);
        }
    }

    /// Throws away what is left of an association that has ended.
    pub(crate) fn discard(&mut self, context: &mut Context<'_>) {
        while self
            .receiver
            .receive(context.receive_budget, context.config)
            .is_some()
        {}
    }

    // --- Timers ---

    /// When `handle_timeout` wants to be called.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        if self.state == AssociationState::Closed {
            return None;
        }
        let mut earliest = Earliest(None);
        earliest.consider(self.setup.as_ref().and_then(|setup| setup.timeout()));
        earliest.consider(self.receiver.sack_deadline());
        earliest.consider(self.sender.probe_timeout());
        if self.may_send_data() {
            earliest.consider(self.sender.loss_timeout());
            earliest.consider(self.multipath_timeout());
        }
        earliest.consider(self.shutdown.timeout());
        earliest.consider(self.control.timeout());
        for path in self.paths.iter() {
            earliest.consider(path.t3_rtx());
            earliest.consider(path.heartbeat_timeout());
            earliest.consider(path.mtu_timeout());
        }
        earliest.0
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        if self.state == AssociationState::Closed {
            return;
        }
        self.begin_burst();
        self.handle_multipath_timeout(now);
        self.handle_setup_timeout(context);
        self.receiver.handle_timeout(now);
        self.sender.handle_probe_timeout(now);
        if self.may_send_data() {
            self.sender.handle_loss_timeout(
                now,
                self.routing.current,
                &mut self.paths,
                context.config,
            );
            self.move_thin_retransmissions(context.config);
            self.route_retransmissions(context.config);
        }
        self.handle_shutdown_timeout(context);
        if self.state != AssociationState::Closed {
            self.handle_request_timeouts(context);
        }
        if self.state != AssociationState::Closed {
            self.handle_path_timeouts(context);
        }
    }

    fn handle_setup_timeout(&mut self, context: &mut Context<'_>) {
        let Some(setup) = &mut self.setup else {
            return;
        };
        match setup.handle_timeout(context.now, context.config) {
            SetupTimeout::None => {}
            SetupTimeout::Retransmit => self.repeat_setup(),
            SetupTimeout::GiveUp => self.cannot_start(CannotStartCause::TimedOut, context),
        }
    }

    /// INIT or COOKIE ECHO goes out again: to another address, if there is one.
    fn repeat_setup(&mut self) {
        // DATA that went with the COOKIE ECHO goes with it again.
        self.sender
            .send_again(self.routing.current, &mut self.paths);
        self.rotate_current();
        self.begin_burst();
    }

    fn handle_shutdown_timeout(&mut self, context: &mut Context<'_>) {
        if self.shutdown.guard_expired(context.now) {
            self.send_abort(
                &Cause::ProtocolViolation(b"shutdown takes too long"),
                context,
            );
            self.lost(LostCause::ShutdownTimedOut, context);
            return;
        }
        if self.shutdown.take_t2_expired(context.now) {
            let failed = self.shutdown.path().unwrap_or(self.routing.current);
            if let Some(path) = self.paths.get_mut(failed) {
                path.back_off(context.config);
            }
            self.count_error(failed, true, context);
            if self.state != AssociationState::Closed {
                self.shutdown.send_on(self.alternate_path(failed));
            }
        }
    }

    // --- Small things ---

    /// Something happened that may let data go out.
    fn begin_burst(&mut self) {
        self.begins_burst = true;
    }

    fn watch_window(&mut self, context: &mut Context<'_>) {
        if self.may_send_data() {
            self.sender
                .watch_window(context.now, self.routing.current, &self.paths);
        }
    }

    /// Whether it is to end as soon as what was sent is acknowledged (section 9.2).
    fn is_delivering(&self) -> bool {
        matches!(
            self.state,
            AssociationState::ShutdownPending | AssociationState::ShutdownReceived
        )
    }

    /// Whether DATA may be sent in this state (section 6).
    fn may_send_data(&self) -> bool {
        matches!(
            self.state,
            AssociationState::Established
                | AssociationState::ShutdownPending
                | AssociationState::ShutdownReceived
        )
    }

    // --- Snapshots ---

    pub(crate) fn status(&self) -> AssociationStatus {
        AssociationStatus {
            state: self.state,
            peer_port: self.peer_port,
            outbound_streams: self.sender.streams(),
            inbound_streams: self.receiver.streams(),
            extensions: self.extensions,
            peer_rwnd: u32::try_from(self.sender.peer_rwnd()).unwrap_or(u32::MAX),
            outstanding_bytes: self.paths.iter().map(Path::flight).sum(),
            send_buffer_bytes: self.sender.buffered(),
            receive_buffer_bytes: self.receiver.buffered(),
            unacknowledged_chunks: self.sender.unacknowledged(),
            unsent_messages: self.sender.unsent(),
            pending_receipt: self.receiver.held(),
            local_addresses: self.local_addresses.usable().to_vec(),
            primary: self
                .peer_address()
                .map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.remote),
            paths: self.paths.iter().map(Path::status).collect(),
        }
    }

    pub(crate) fn statistics(&self) -> AssociationStatistics {
        AssociationStatistics {
            abandoned: self.sender.abandoned(),
            ..self.statistics
        }
    }

    /// How many messages of a stream were abandoned; `None` if there is no such stream.
    pub(crate) fn abandoned_on(&self, stream: u16) -> Option<AbandonedMessages> {
        self.sender.abandoned_on(stream)
    }
}

/// The addresses without those that were there before.
fn distinct(addresses: &[PathAddress]) -> impl Iterator<Item = PathAddress> {
    addresses.iter().enumerate().filter_map(|(index, address)| {
        let before = addresses.get(..index)?;
        let is_new = !before.iter().any(|other| other.remote == address.remote);
        is_new.then_some(*address)
    })
}

/// The earliest of some deadlines.
struct Earliest(Option<Instant>);

impl Earliest {
    fn consider(&mut self, deadline: Option<Instant>) {
        if let Some(deadline) = deadline
            && self.0.is_none_or(|earliest| deadline < earliest)
        {
            self.0 = Some(deadline);
        }
    }
}
