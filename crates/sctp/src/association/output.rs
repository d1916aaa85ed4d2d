//! Makes an association's packets (RFC 9260 sections 6.1, 6.10 and 8.3): what is pending, which
//! path it goes to, and what is bundled with what.

use bytes::BytesMut;

use super::addresses::{Families, write_own, write_supported};
use super::capabilities::{Capabilities, announce};
use super::heartbeats::HEARTBEAT_INFO_LENGTH;
use super::multipath::Turn;
use super::path::Path;
use super::path_id::PathId;
use super::setup::write_declarations;
use super::{Association, Context};
use crate::packet::{
    Chunk, ChunkType, CommonHeader, CookieEcho, Heartbeat, Init, OperationError, PacketWriter,
    Parameter, ParameterBuffer, Shutdown, Tsn,
};
use crate::{AssociationConfig, AssociationState, Event, PathAddress};

/// The size of our HEARTBEATs, in bytes.
const HEARTBEAT_SIZE: usize = Heartbeat::OVERHEAD + HEARTBEAT_INFO_LENGTH;

/// The size of a packet with an INIT without parameters, in bytes.
const INIT_LENGTH: usize = CommonHeader::LENGTH + 4 + 16;

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) path: PathAddress,
    /// Whether IP may fragment it.
    pub(crate) may_fragment: bool,
}

impl Association {
    /// Writes the next packet to send into `buffer`, and tells where it goes.
    pub(crate) fn poll_transmit(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Option<Destination> {
        if std::mem::take(&mut self.begins_burst) {
            for path in self.paths.iter_mut() {
                path.begin_burst();
            }
        }
        match self.state {
            AssociationState::Closed => None,
            AssociationState::CookieWait => self.init(context, buffer),
            AssociationState::CookieEchoed => self.cookie_echo(context, buffer),
            _ => match self.next_packet(context, buffer) {
                Some(destination) => Some(destination),
                None => self.mtu_probe(context, buffer),
            },
        }
    }

    fn init(&mut self, context: &mut Context<'_>, buffer: &mut BytesMut) -> Option<Destination> {
        let path_id = self.routing.current;
        let path = self.paths.get(path_id)?;
        let setup = self.setup.as_mut().filter(|setup| setup.is_due())?;
        let mut parameters = ParameterBuffer::new();
        if let Some(life_span_increment) = setup.life_span_increment() {
            let _ = parameters.push(&Parameter::CookiePreservative {
                life_span_increment,
            });
        }
        write_supported(&mut parameters, self.local_addresses.usable());
        let offered = Capabilities::offered(context.config);
        announce(offered, &mut parameters);
        write_declarations(
            self.authentication.as_ref().map(|own| own.local()),
            self.accepts_zero_checksum
                .then_some(context.config.alternate_error_detection)
                .flatten(),
            &mut parameters,
        );
        let length = parameters.parameters().as_bytes().len().next_multiple_of(4);
        let room = path.mtu().saturating_sub(INIT_LENGTH + length);
        let remote = path.address().remote;
        write_own(
            &mut parameters,
            self.local_addresses.usable(),
            remote,
            Families::ALL,
            room,
        );
        let mut writer =
            PacketWriter::new(buffer, context.local_port, self.peer_port, 0, path.mtu());
        let written = writer.chunk(&Chunk::Init(Init {
            initiate_tag: self.local_tag,
            a_rwnd: context.config.a_rwnd,
            outbound_streams: offered.outbound_streams,
            inbound_streams: offered.inbound_streams,
            initial_tsn: self.local_initial_tsn,
            parameters: parameters.parameters(),
        }));
        let is_repeated = setup.is_retransmission();
        setup.sent(context.now, path.rto(), context.config);
        written.ok()?;
        let mut destination = self.transmit(path_id, writer.seal(), context)?;
        // It may have been too large for the path (RFC 8899 section 4.3).
        destination.may_fragment |= is_repeated;
        Some(destination)
    }

    /// The COOKIE ECHO with as much DATA as fits beside it. Nothing else may be sent until its
    /// answer is there (section 5.1 C).
    fn cookie_echo(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Option<Destination> {
        self.abandon_messages(context);
        let path_id = self.routing.current;
        let path = self.paths.get(path_id)?;
        let setup = self.setup.as_mut().filter(|setup| setup.is_due())?;
        // What was not answered may have been too large for the path (RFC 8899 section 4.3): it goes
        // again with as little beside it as every path carries. The rest of the DATA waits.
        let is_repeated = setup.is_retransmission();
        let size = if is_repeated {
            path.least_mtu()
        } else {
            path.mtu()
        };
        setup.sent(context.now, path.rto(), context.config);
        let (cookie, errors) = self.setup.as_ref()?.cookie()?;
        let protection = self.protection();
        // A cookie is echoed whatever its size: too large a packet is fragmented by IP.
        let least = CommonHeader::LENGTH + (4 + cookie.len()).next_multiple_of(4);
        let mut writer = PacketWriter::new(
            buffer,
            context.local_port,
            self.peer_port,
            self.peer_tag,
            size.max(least + self.auth_length_for(&[ChunkType::COOKIE_ECHO])),
        )
        .protected_by(protection);
        writer
            .chunk(&Chunk::CookieEcho(CookieEcho { cookie }))
            .ok()?;
        if !errors.causes().as_bytes().is_empty() {
            // There is no room for the report beside a large cookie, and it is not that important.
            let _ = writer.chunk(&Chunk::Error(OperationError {
                causes: errors.causes(),
            }));
        }
        if let Some(first) = self.write_data(path_id, &mut writer, context) {
            self.data_is_sent(path_id, writer.len(), first);
        }
        // T1-cookie stands for it until the association is up.
        if let Some(path) = self.paths.get_mut(path_id) {
            path.stop_t3_rtx();
        }
        let mut destination = self.transmit(path_id, writer.seal(), context)?;
        destination.may_fragment |= is_repeated;
        Some(destination)
    }

    /// A packet with all that is pending for one path, if something is.
    #[inline]
    fn next_packet(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Option<Destination> {
        self.abandon_messages(context);
        if self.re_configuration.is_some() {
            self.advance_re_configuration(None, context.now);
        }
        if self.address_reconfiguration.is_some()
            && let Some(asconf) = self.asconf_from_added_address(context, buffer)
        {
            return Some(asconf);
        }
        self.put_shutdown_off(context);
        let data_path = self.data_path(context);
        let path_id = self.next_path(data_path, context.config)?;
        self.bundle(path_id, data_path == Some(path_id), context, buffer)
    }

    /// A packet with all that is pending for the path `path_id`; DATA goes there if `sends_data`.
    fn bundle(
        &mut self,
        path_id: PathId,
        sends_data: bool,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Option<Destination> {
        let mut size = self.paths.get(path_id)?.mtu();
        if !self.pending.is_empty() {
            // What waits fitted when it came; the path MTU may have shrunk since.
            size = size.max(CommonHeader::LENGTH + self.answer_overhead() + self.pending.size());
        }
        if self.control.is_due()
            && let Some(request) = self.largest_request(path_id)
        {
            let auth_length = self.auth_length_for(&[ChunkType::ASCONF, ChunkType::RE_CONFIG]);
            size = size.max(CommonHeader::LENGTH + auth_length + request);
        }
        if sends_data {
            size = size.max(self.paths.auth_length() + self.sender.least_packet(path_id));
        }
        let mut writer = PacketWriter::new(
            buffer,
            context.local_port,
            self.peer_port,
            self.peer_tag,
            size,
        )
        .protected_by(self.protection());
        self.write_control(path_id, &mut writer, context);
        self.write_sack(path_id, sends_data, &mut writer, context);
        if sends_data && self.sender.forward_tsn_is_due() {
            self.sender
                .write_forward_tsn(context.now, &mut writer, path_id, &mut self.paths);
        }
        if self.shutdown.is_due() && path_id == self.shutdown_path() && self.is_open(path_id) {
            self.write_shutdown(path_id, &mut writer, context);
        } else if sends_data && (context.config.bundling || writer.is_empty()) {
            if context.config.bundling {
                self.write_heartbeat_beside_data(path_id, &mut writer, context);
            } else if let Some(size) = self.sender.next_chunk_size(path_id, &self.paths) {
                writer.limit(CommonHeader::LENGTH + self.paths.auth_length() + size);
            }
            if let Some(first) = self.write_data(path_id, &mut writer, context) {
                self.data_is_sent(path_id, writer.len(), first);
            }
        }
        if writer.is_empty() {
            return None;
        }
        self.transmit(path_id, writer.seal(), context)
    }

    /// A packet that probes the path MTU (RFC 8899 section 6.2.1.2): a HEARTBEAT and padding.
    fn mtu_probe(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Option<Destination> {
        if !matches!(
            self.state,
            AssociationState::Established | AssociationState::ShutdownPending
        ) {
            return None;
        }
        let (path_id, size) = self
            .paths
            .iter()
            .filter(|path| path.has_source())
            .find_map(|path| path.wanted_mtu_probe().map(|size| (path.id(), size)))?;
        let info =
            self.paths
                .get_mut(path_id)?
                .send_mtu_probe(context.now, context.rng, context.config);
        let mut writer = PacketWriter::new(
            buffer,
            context.local_port,
            self.peer_port,
            self.peer_tag,
            size,
        )
        .protected_by(self.protection());
        writer.heartbeat(&info).ok()?;
        writer.pad_to(size).ok()?;
        let mut destination = self.transmit(path_id, writer.seal(), context)?;
        destination.may_fragment = false;
        Some(destination)
    }

    /// A packet of that many bytes with DATA goes out on a path; `first` is its first chunk.
    fn data_is_sent(&mut self, path_id: PathId, size: usize, first: Tsn) {
        for path in self.paths.iter_mut() {
            if path.id() == path_id {
                path.packet_with_data_sent(size, first);
            }
            // Data may be moved to any of them.
            path.data_is_sent();
        }
    }

    /// Abandons messages that are not to be sent, or sent again, any more, and tells of them
    /// (section 11.1.5, RFC 3758 section 4.1).
    #[inline]
    fn abandon_messages(&mut self, context: &mut Context<'_>) {
        if self.sender.is_beyond_limits(context.now) {
            self.abandon_beyond_limits(context);
        }
    }

    #[cold]
    fn abandon_beyond_limits(&mut self, context: &mut Context<'_>) {
        let abandoned = self
            .sender
            .abandon_beyond_limits(context.now, &mut self.paths);
        if !abandoned.is_empty() {
            self.report_failed(abandoned, context);
            if self.sender.take_room_again(context.config) {
                context.events.push_back(Event::Writable { id: self.id });
            }
            self.advance_shutdown(context);
        }
    }

    /// The path for which something is pending; `data_path` is what [`Self::data_path`] gave.
    fn next_path(
        &mut self,
        data_path: Option<PathId>,
        config: &AssociationConfig,
    ) -> Option<PathId> {
        if let Some(path) = self.pending_path().or_else(|| self.request_path()) {
            return Some(path);
        }
        if self.receiver.sack_is_due() && self.acknowledges_with_sack() {
            let sack_path = self.sack_path();
            if self.is_open(sack_path) {
                return Some(sack_path);
            }
        }
        if self.shutdown.is_due() {
            let shutdown_path = self.shutdown_path();
            if self.is_open(shutdown_path) {
                return Some(shutdown_path);
            }
        }
        if let Some(path_id) = data_path
            && let Some(path) = self.paths.get(path_id)
        {
            if self.sender.forward_tsn_is_due() {
                return Some(path_id);
            }
            let room = path.pmdcs().saturating_sub(self.paths.auth_length());
            if self.sender.wants_packet(path, &self.paths, room, config)
                || self.sender.wants_copies(path_id, &self.paths, config)
            {
                return Some(path_id);
            }
        }
        self.paths
            .iter()
            .find(|path| path.wants_heartbeat() && path.has_source())
            .map(Path::id)
    }

    /// The path of a chunk that is pending.
    fn pending_path(&self) -> Option<PathId> {
        if self.pending.is_empty() {
            return None;
        }
        let has_source = |path| self.paths.get(path).is_some_and(Path::has_source);
        self.pending.path(has_source, |path| self.is_open(path))
    }

    /// COOKIE ACK, HEARTBEAT ACKs, ERROR, answers, requests and HEARTBEAT for `path_id`.
    fn write_control(
        &mut self,
        path_id: PathId,
        writer: &mut PacketWriter<'_>,
        context: &mut Context<'_>,
    ) {
        let path = self.paths.get(path_id);
        let has_source = path.is_some_and(Path::has_source);
        let wants_heartbeat = has_source && path.is_some_and(Path::wants_heartbeat);
        if has_source && !self.pending.is_empty() {
            let is_open = self.is_open(path_id);
            self.pending.write(path_id, is_open, writer);
        }
        if self.control.is_due() {
            self.write_requests(path_id, writer, context);
        }
        if wants_heartbeat && let Some(path) = self.paths.get_mut(path_id) {
            let info = path.send_heartbeat(context.now, context.rng, context.config);
            // One that does not fit counts as sent: it will be missed and sent again.
            let _ = writer.heartbeat(&info);
        }
    }

    /// A SACK when it is due, or when DATA goes out anyway and there is room for both
    /// (section 6.1).
    fn write_sack(
        &mut self,
        path_id: PathId,
        sends_data: bool,
        writer: &mut PacketWriter<'_>,
        context: &mut Context<'_>,
    ) {
        if !self.receiver.sack_is_wanted()
            || !self.acknowledges_with_sack()
            || self.sack_path() != path_id
            || !self.is_open(path_id)
        {
            return;
        }
        if self.receiver.sack_is_due()
            || (sends_data && self.sack_rides_along(path_id, writer, context.config))
        {
            self.receiver
                .write_sack(writer, context.receive_budget, context.config);
        }
    }

    /// Whether a SACK leaves room for the DATA that goes out on a path.
    fn sack_rides_along(
        &mut self,
        path_id: PathId,
        writer: &PacketWriter<'_>,
        config: &AssociationConfig,
    ) -> bool {
        let room = self.room_for_data_beside(ChunkType::SACK, writer);
        config.bundling
            && self
                .sender
                .next_chunk_size(path_id, &self.paths)
                .is_some_and(|size| size + self.receiver.sack_size() <= room)
    }

    fn write_shutdown(
        &mut self,
        path_id: PathId,
        writer: &mut PacketWriter<'_>,
        context: &mut Context<'_>,
    ) {
        let chunk = match self.state {
            AssociationState::ShutdownAckSent => Chunk::ShutdownAck,
            _ => Chunk::Shutdown(Shutdown {
                cumulative_tsn_ack: self.receiver.cumulative(),
            }),
        };
        if writer.chunk(&chunk).is_ok()
            && let Some(path) = self.paths.get(path_id)
        {
            self.shutdown.sent(context.now, path.rto());
        }
    }

    /// A HEARTBEAT in front of the first DATA after T3-rtx expired, where it leaves room for that.
    fn write_heartbeat_beside_data(
        &mut self,
        path_id: PathId,
        writer: &mut PacketWriter<'_>,
        context: &mut Context<'_>,
    ) {
        let Some(path) = self
            .paths
            .get(path_id)
            .filter(|path| path.wants_heartbeat_beside_data())
        else {
            return;
        };
        let room = self.room_for_data_beside(ChunkType::HEARTBEAT, writer);
        let sends_data = self
            .sender
            .wants_packet(path, &self.paths, room, context.config);
        let has_room = self
            .sender
            .next_chunk_size(path_id, &self.paths)
            .is_some_and(|size| size + HEARTBEAT_SIZE <= room);
        if sends_data
            && let Some(path) = self.paths.get_mut(path_id)
            && let Some(info) = path.send_heartbeat_beside_data(context.now, has_room, context.rng)
        {
            let _ = writer.heartbeat(&info);
        }
    }

    /// Bytes for DATA chunks and a chunk of another type, with what authenticates them.
    fn room_for_data_beside(&self, other: ChunkType, writer: &PacketWriter<'_>) -> usize {
        [self.data_chunk_type(), other]
            .map(|chunk_type| writer.remaining_for(chunk_type))
            .into_iter()
            .fold(usize::MAX, usize::min)
    }

    /// Bytes of the AUTH chunk that answers which wait for their packet may need.
    pub(super) fn answer_overhead(&self) -> usize {
        self.auth_length_for(&[
            ChunkType::COOKIE_ACK,
            ChunkType::HEARTBEAT_ACK,
            ChunkType::ERROR,
            ChunkType::RE_CONFIG,
            ChunkType::ASCONF_ACK,
            ChunkType::SHUTDOWN,
            ChunkType::SHUTDOWN_ACK,
        ])
    }

    /// Writes DATA chunks; tells the TSN of the first one.
    fn write_data(
        &mut self,
        path_id: PathId,
        writer: &mut PacketWriter<'_>,
        context: &mut Context<'_>,
    ) -> Option<Tsn> {
        // Section 6.1: whoever wants to shut down would like to know soon.
        let immediate = self.state == AssociationState::ShutdownPending;
        let counts = self.sender.write_data(
            context.now,
            writer,
            path_id,
            &mut self.paths,
            immediate,
            context.config,
        );
        self.statistics.data_chunks_sent += counts.chunks;
        self.statistics.retransmitted_by_timeout += counts.retransmitted_by_timeout;
        self.statistics.retransmitted_fast += counts.retransmitted_fast;
        self.statistics.tail_loss_probes += counts.probes;
        context.statistics.retransmitted_by_timeout += counts.retransmitted_by_timeout;
        context.statistics.retransmitted_fast += counts.retransmitted_fast;
        context.statistics.tail_loss_probes += counts.probes;
        counts.first
    }

    /// Where SHUTDOWN or SHUTDOWN ACK goes.
    pub(super) fn shutdown_path(&self) -> PathId {
        self.shutdown.path().unwrap_or(self.routing.current)
    }

    /// The path that DATA goes to now, if there may be some and it may go anywhere.
    fn data_path(&mut self, context: &Context<'_>) -> Option<PathId> {
        if !self.may_send_data() || !self.sender.may_have_data(context.config) {
            return None;
        }
        let path_id = match self.schedule_path(context) {
            Turn::Path(path_id) => path_id,
            Turn::Wait => return None,
            Turn::Single => self.next_data_path(context.config),
        };
        self.is_open(path_id).then_some(path_id)
    }

    /// Whether this state still acknowledges by SACK.
    fn acknowledges_with_sack(&self) -> bool {
        self.state != AssociationState::ShutdownAckSent
    }

    /// A packet of that many bytes goes out on a path.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        path_id: PathId,
        size: usize,
        context: &mut Context<'_>,
    ) -> Option<Destination> {
        let path = self.paths.get(path_id)?;
        let may_fragment = size > path.mtu();
        let path = path.asconf_address()?;
        self.statistics.packets_sent += 1;
        context.statistics.packets_sent += 1;
        context.statistics.bytes_sent += size as u64;
        Some(Destination { path, may_fragment })
    }
}
