//! Handles the packets of an association (RFC 9260 sections 3.2, 5, 6.2, 8 and 9): chunk by chunk,
//! in their order, by the state that the association is in.

mod authentication;
mod data;
mod forward_tsn;
mod setup;
mod termination;

use bytes::Bytes;

use super::path::Path;
use super::path_id::PathId;
use super::{Association, Context};
use crate::packet::{
    Cause, CauseBuffer, Chunk, ChunkIterator, ChunkType, CommonHeader, FormatError, Heartbeat,
    OperationError, Packet, RawChunk,
};
use crate::{AssociationConfig, AssociationState, Event, PathAddress, PathState};

/// What the packet that is being handled has brought so far.
#[derive(Debug, Clone, Copy)]
struct PacketOnPath<'p> {
    packet: &'p Bytes,
    header: CommonHeader,
    /// Where it came from.
    from: &'p PathAddress,
    /// The path to there.
    path: PathId,
    /// The chunk that is being handled is behind an AUTH chunk that was right (RFC 4895).
    authenticated: bool,
    /// The address is none of the peer's, but an ASCONF may add it (RFC 5061 section 5.2, rule D2); `path`
    /// is the one that data goes to.
    is_foreign: bool,
}

/// Which chunks a packet has brought so far of those that move a cumulative TSN. Each may take as long as there are
/// chunks outstanding, or messages that are not whole, and nobody has reason to put two of a kind into a packet: the
/// first one counts.
#[derive(Debug, Clone, Copy, Default)]
struct SeenChunks {
    sack: bool,
    shutdown: bool,
    forward_tsn: bool,
}

impl SeenChunks {
    /// Whether there was one of the same kind before.
    fn repeats(&mut self, chunk: &Chunk<'_>) -> bool {
        match chunk {
            Chunk::Sack(_) | Chunk::NrSack(_) => std::mem::replace(&mut self.sack, true),
            Chunk::Shutdown(_) => std::mem::replace(&mut self.shutdown, true),
            Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_) => {
                std::mem::replace(&mut self.forward_tsn, true)
            }
            _ => false,
        }
    }
}

impl Association {
    /// Takes in a packet with our verification tag.
    pub(crate) fn handle_packet(
        &mut self,
        from: &PathAddress,
        packet: &Bytes,
        parsed: &Packet<'_>,
        context: &mut Context<'_>,
    ) {
        if self.refuses_end(parsed) {
            context.statistics.drops.verification_tag += 1;
            return;
        }
        if self.ignores(*from, parsed, context.now) {
            context.statistics.drops.unknown_path += 1;
            return;
        }
        let path = self
            .path_to(from.remote)
            .or_else(|| self.add_source_of_init_ack(*from, parsed, context));
        let is_foreign = path.is_none() && self.has_foreign_asconf(parsed);
        let Some(path) = path.or(is_foreign.then_some(self.routing.current)) else {
            // Not out of the blue, for the tag is right: an ABORT would end the association.
            context.statistics.drops.unknown_path += 1;
            return;
        };
        if !is_foreign {
            self.learn_path(path, *from, context);
            if let Some(path) = self.paths.get_mut(path) {
                path.packet_received(context.now);
            }
        }
        self.statistics.packets_received += 1;
        let received = PacketOnPath {
            packet,
            header: parsed.header(),
            from,
            path,
            authenticated: false,
            is_foreign,
        };
        self.handle_chunks(received, parsed.chunks(), context);
    }

    /// Takes in the packet whose COOKIE ECHO this association came from, or that repeats it: a
    /// COOKIE ACK is due, and the other chunks are handled as ever.
    pub(crate) fn handle_after_cookie_echo(
        &mut self,
        from: PathAddress,
        packet: &Bytes,
        parsed: &Packet<'_>,
        authenticated: bool,
        context: &mut Context<'_>,
    ) {
        let Some(path) = self.path_to(from.remote) else {
            return;
        };
        self.learn_path(path, from, context);
        self.statistics.packets_received += 1;
        self.pending.cookie_ack(path);
        // Section 5.4: a COOKIE ACK to an address that is not proved goes with a HEARTBEAT.
        if let Some(path) = self.paths.get_mut(path)
            && path.state() == PathState::Unconfirmed
        {
            path.want_heartbeat();
        }
        // What is behind the COOKIE ECHO alone is verified by the keys that it has brought.
        let parsed = match authenticated {
            true => Some(*parsed),
            false => self.authentic(from, parsed, context),
        };
        let Some(parsed) = parsed else {
            return;
        };
        let received = PacketOnPath {
            packet,
            header: parsed.header(),
            from: &from,
            path,
            authenticated,
            is_foreign: false,
        };
        let mut chunks = parsed.chunks();
        if authenticated {
            chunks.next();
        }
        chunks.next();
        self.handle_chunks(received, chunks, context);
    }

    fn handle_chunks(
        &mut self,
        mut received: PacketOnPath<'_>,
        chunks: ChunkIterator<'_>,
        context: &mut Context<'_>,
    ) {
        self.begin_burst();
        let mut seen = SeenChunks::default();
        for chunk in chunks.raw() {
            if received.is_foreign && !self.may_be_foreign(&mut received, chunk) {
                context.statistics.drops.unknown_path += 1;
                break;
            }
            let go_on = match &chunk.and_then(|raw| self.read_chunk(raw, context.config)) {
                Ok(Chunk::Auth(_)) => {
                    // What it is in front of has been verified, or cut off.
                    received.authenticated = true;
                    true
                }
                Ok(chunk)
                    if self.authentication.is_some()
                        && !received.authenticated
                        && self.requires_authentication(chunk.chunk_type()) =>
                {
                    context.statistics.drops.not_authenticated += 1;
                    // RFC 5061 section 5.2, rule D5: what follows is discarded, too.
                    !matches!(chunk, Chunk::Asconf(_))
                }
                Ok(chunk) if seen.repeats(chunk) => {
                    context.statistics.drops.chunks += 1;
                    true
                }
                Ok(chunk) => self.handle_chunk(&received, chunk, context),
                Err(_) => {
                    context.statistics.drops.chunks += 1;
                    true
                }
            };
            if self.state == AssociationState::Closed {
                return;
            }
            if !go_on {
                break;
            }
        }
        self.end_packet(context);
    }

    /// Whether a chunk may come from an address that is none of the peer's, or that has become one by an
    /// ASCONF before it in the packet.
    fn may_be_foreign(
        &self,
        received: &mut PacketOnPath<'_>,
        chunk: Result<RawChunk<'_>, FormatError<'_>>,
    ) -> bool {
        if let Some(path) = self.path_to(received.from.remote) {
            *received = PacketOnPath {
                path,
                is_foreign: false,
                ..*received
            };
            return true;
        }
        chunk.is_ok_and(|raw| matches!(raw.chunk_type(), ChunkType::AUTH | ChunkType::ASCONF))
    }

    /// Reads a chunk. One of an extension that the association does not have is like one of a type
    /// that nobody knows.
    fn read_chunk<'a>(
        &self,
        raw: RawChunk<'a>,
        config: &AssociationConfig,
    ) -> Result<Chunk<'a>, FormatError<'a>> {
        let extensions = self.extensions;
        let recognized = match raw.chunk_type() {
            ChunkType::AUTH => extensions.authentication,
            ChunkType::NR_SACK => extensions.nr_sack,
            ChunkType::ASCONF | ChunkType::ASCONF_ACK => extensions.address_reconfiguration,
            ChunkType::RE_CONFIG => extensions.re_configuration,
            ChunkType::FORWARD_TSN => extensions.partial_reliability,
            // Linux sends it to whoever lists it, although it does not list it itself (RFC 8260 section 2.3.1).
            ChunkType::I_FORWARD_TSN => {
                extensions.partial_reliability
                    || extensions.interleaving && config.extensions.partial_reliability
            }
            _ => true,
        };
        if recognized {
            Chunk::read(raw)
        } else {
            Ok(Chunk::Other(raw))
        }
    }

    /// Handles one chunk; `false` when the rest of the packet is to be left alone.
    fn handle_chunk(
        &mut self,
        received: &PacketOnPath<'_>,
        chunk: &Chunk<'_>,
        context: &mut Context<'_>,
    ) -> bool {
        match chunk {
            Chunk::Data(data) => self.handle_data(received, &data.into(), context),
            Chunk::IData(data) => self.handle_data(received, &data.into(), context),
            Chunk::Sack(sack) => self.handle_sack(sack, context),
            Chunk::NrSack(nr_sack) => self.handle_nr_sack(nr_sack, context),
            Chunk::InitAck(init) => self.handle_init_ack(*received, init, context),
            Chunk::CookieAck => self.handle_cookie_ack(*received, context),
            Chunk::Heartbeat(heartbeat) => self.handle_heartbeat(*received, *heartbeat, context),
            Chunk::HeartbeatAck(heartbeat) => self.handle_heartbeat_ack(*heartbeat, context),
            Chunk::Abort(abort) => {
                self.aborted_by_peer(*abort, context);
                return false;
            }
            Chunk::Shutdown(shutdown) => self.handle_shutdown(*received, *shutdown, context),
            Chunk::ShutdownAck => return self.handle_shutdown_ack(*received, context),
            Chunk::ShutdownComplete(_) => {
                if self.state == AssociationState::ShutdownAckSent {
                    self.shut_down_complete(context);
                }
            }
            Chunk::Error(error) => self.handle_error(*error, context),
            // An INIT is alone with tag 0, a COOKIE ECHO first: here both are out of place.
            Chunk::Init(_) | Chunk::CookieEcho(_) => context.statistics.drops.chunks += 1,
            Chunk::Auth(_) => context.statistics.drops.chunks += 1,
            Chunk::IForwardTsn(chunk) => self.handle_forward_tsn(*received, &chunk.into(), context),
            Chunk::ReConfig(chunk) => self.handle_re_config(received.path, *chunk, context),
            Chunk::ForwardTsn(chunk) => self.handle_forward_tsn(*received, &chunk.into(), context),
            Chunk::Asconf(asconf) => self.handle_asconf(*received.from, *asconf, context),
            Chunk::AsconfAck(ack) => self.handle_asconf_ack(*ack, context),
            Chunk::Pad(_) => {}
            Chunk::Other(raw) => return self.handle_unknown(*received, *raw, context),
        }
        true
    }

    /// What follows from the packet as a whole.
    fn end_packet(&mut self, context: &mut Context<'_>) {
        let has_data = self.receiver.packet_has_data();
        self.receiver.end_packet(context.now, context.config);
        if self.state == AssociationState::ShutdownSent {
            // Section 9.2: whatever comes shows that the peer is there. T2 begins anew with the
            // SHUTDOWN that answers DATA. With every packet it would not: HEARTBEATs of a peer that
            // has missed our SHUTDOWN may come faster than T2 expires.
            self.error_count = 0;
        }
        if has_data && self.state == AssociationState::ShutdownSent {
            // Each packet with DATA is answered at once. The SHUTDOWN tells the cumulative TSN alone;
            // a SACK beside it tells of gaps, duplicates and the window, too.
            self.shutdown.send_on(self.sack_path());
            self.receiver.request_sack();
        }
        self.conclude_deferred_reset(context);
        if self.receiver.take_readable() {
            context.events.push_back(Event::Readable { id: self.id });
        }
        self.report_keys(context);
        self.advance_shutdown(context);
        self.watch_window(context);
    }

    // --- Path management (section 8.3) ---

    fn handle_heartbeat(
        &mut self,
        received: PacketOnPath<'_>,
        heartbeat: Heartbeat<'_>,
        context: &mut Context<'_>,
    ) {
        let parameters = heartbeat.parameters.as_bytes();
        let answers = matches!(
            self.state,
            AssociationState::CookieEchoed
                | AssociationState::Established
                | AssociationState::ShutdownPending
                | AssociationState::ShutdownReceived
        );
        // The path may carry larger packets than has been found out yet: this one, for example.
        let room = self.paths.get(received.path).map_or(0, Path::max_pmdcs);
        let room = room.saturating_sub(self.answer_overhead());
        let parameters = received.packet.slice_ref(parameters);
        // The ERROR for a packet from an address that is not confirmed goes elsewhere, and one packet
        // gets no two in answer (section 12.4).
        let is_second =
            self.reply_path(received.path) != received.path && self.pending.has_errors();
        let most = context.config.max_pending_heartbeat_acks;
        if !answers
            || is_second
            || !self
                .pending
                .heartbeat_ack(received.path, parameters, room, most)
        {
            context.statistics.drops.answers += 1;
        }
    }

    fn handle_heartbeat_ack(&mut self, heartbeat: Heartbeat<'_>, context: &mut Context<'_>) {
        let Some(info) = heartbeat.info() else {
            context.statistics.drops.chunks += 1;
            return;
        };
        let answered = self.paths.iter_mut().find_map(|path| {
            let before = path.state();
            let is_answer = path.handle_heartbeat_ack(context.now, info, context.config)
                || path.handle_mtu_probe_ack(context.now, info, context.config);
            is_answer.then_some((path.id(), before))
        });
        match answered {
            Some((id, before)) => self.heartbeat_answered(id, before, context),
            None => context.statistics.drops.chunks += 1,
        }
    }

    // --- Errors (sections 3.2 and 3.3.10) ---

    fn handle_error(&mut self, error: OperationError<'_>, context: &mut Context<'_>) {
        let stale = error.causes.iter().find_map(|cause| match cause {
            Ok(Cause::StaleCookie { .. }) => Some(()),
            _ => None,
        });
        if stale.is_some() {
            self.handle_stale_cookie(context);
            return;
        }
        if self.is_opening() {
            context.statistics.drops.chunks += 1;
            return;
        }
        for cause in error.causes.iter().flatten() {
            if let Cause::UnrecognizedChunkType(chunk) = cause {
                self.chunk_not_recognized(chunk, context);
            }
        }
        let news = Event::RemoteError {
            id: self.id,
            causes: Bytes::copy_from_slice(error.causes.as_bytes()),
        };
        // A packet may be full of ERRORs: the same association is not worth a second word.
        if matches!(context.events.back(), Some(Event::RemoteError { id, .. }) if *id == self.id) {
            context.statistics.drops.answers += 1;
        } else {
            context.events.push_back(news);
        }
    }

    /// Section 3.2: the two highest bits of the type say what to do.
    fn handle_unknown(
        &mut self,
        received: PacketOnPath<'_>,
        raw: RawChunk<'_>,
        context: &mut Context<'_>,
    ) -> bool {
        context.statistics.drops.chunks += 1;
        let action = raw.chunk_type().unrecognized_action();
        if action.report && !self.is_opening() {
            self.queue_error(
                received.path,
                &Cause::UnrecognizedChunkType(raw.bytes()),
                context,
            );
        }
        !action.stop
    }

    /// Has an error cause sent in an ERROR, if there is room for it.
    pub(super) fn queue_error(
        &mut self,
        path: PathId,
        cause: &Cause<'_>,
        context: &mut Context<'_>,
    ) {
        let mut causes = CauseBuffer::new();
        let reply_path = self.reply_path(path);
        if reply_path != path && self.pending.answers_on(path) {
            // It would be a second packet in answer to one (section 12.4).
            context.statistics.drops.answers += 1;
            return;
        }
        let path = reply_path;
        let room = self.paths.get(path).map_or(0, Path::pmdcs);
        let room = room.saturating_sub(self.answer_overhead());
        if causes.push(cause).is_err() || !self.pending.error(path, causes.causes(), room) {
            context.statistics.drops.answers += 1;
        }
    }
}
