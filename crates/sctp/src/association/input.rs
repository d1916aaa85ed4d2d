//! Handles the packets of an association (RFC 9260 sections 3.2, 5, 6.2, 8 and 9): chunk by chunk,
//! in their order, by the state that the association is in.

use std::time::Duration;

use bytes::Bytes;

use super::addresses::AddressRules;
use super::cookie::Cookie;
use super::outstanding::PathIndex;
use super::path::Path;
use super::receiver::{FatalData, Receiver, Reception};
use super::setup::{ParameterFault, SetupParameters};
use super::{Association, Context};
use crate::packet::{
    Abort, Cause, CauseBuffer, Chunk, ChunkIterator, ChunkType, CommonHeader, Data, Heartbeat,
    Init, InitFault, OperationError, Packet, ParameterType, RawChunk, Sack, Shutdown, Tsn,
    TypeList,
};
use crate::replies::ReplyAddress;
use crate::{AssociationState, CannotStartCause, Event, LostCause, PathAddress, PathState};

/// What the packet that is being handled has brought so far.
#[derive(Debug, Clone, Copy)]
struct PacketOnPath<'p> {
    packet: &'p Bytes,
    header: CommonHeader,
    path: PathIndex,
}

/// Which acknowledgements a packet has brought so far. Each may take as long as there are chunks
/// outstanding, and nobody has reason to put two of a kind into a packet: the first one counts.
#[derive(Debug, Clone, Copy, Default)]
struct SeenAcknowledgements {
    sack: bool,
    shutdown: bool,
}

impl SeenAcknowledgements {
    /// Whether there was one of the same kind before.
    fn repeats(&mut self, chunk: &Chunk<'_>) -> bool {
        match chunk {
            Chunk::Sack(_) => std::mem::replace(&mut self.sack, true),
            Chunk::Shutdown(_) => std::mem::replace(&mut self.shutdown, true),
            _ => false,
        }
    }
}

impl Association {
    /// Takes in a packet with our verification tag.
    pub(crate) fn handle_packet(
        &mut self,
        from: PathAddress,
        packet: &Bytes,
        parsed: &Packet<'_>,
        context: &mut Context<'_>,
    ) {
        if self.refuses_end(parsed) {
            context.statistics.drops.verification_tag += 1;
            return;
        }
        let path = self
            .path_to(from.remote)
            .or_else(|| self.add_source_of_init_ack(from, parsed, context));
        let Some(path) = path else {
            // Not out of the blue, for the tag is right: an ABORT would end the association.
            context.statistics.drops.unknown_path += 1;
            return;
        };
        self.learn_path(path, from, context);
        if let Some(path) = self.paths.get_mut(path) {
            path.packet_received(context.now);
        }
        self.statistics.packets_received += 1;
        let received = PacketOnPath {
            packet,
            header: parsed.header(),
            path,
        };
        self.handle_chunks(received, parsed.chunks(), context);
    }

    /// Whether a packet with our verification tag is dropped as a whole for its ABORT or SHUTDOWN
    /// COMPLETE: that says that the tag is the peer's, reflected (section 8.5.1 B and C), or the
    /// ABORT is malformed (section 3.3.7) and nothing in its packet may be answered (section 9.1).
    fn refuses_end(&self, parsed: &Packet<'_>) -> bool {
        let may_be_reflected = self.local_tag == self.peer_tag;
        let end = parsed.chunks().raw().flatten().find(|chunk| {
            matches!(
                chunk.chunk_type(),
                ChunkType::ABORT | ChunkType::SHUTDOWN_COMPLETE
            )
        });
        match end.map(Chunk::read) {
            Some(Ok(Chunk::Abort(abort))) => {
                abort.tag_reflected && !may_be_reflected || !is_well_formed(&abort)
            }
            Some(Ok(Chunk::ShutdownComplete(complete))) => {
                complete.tag_reflected && !may_be_reflected
            }
            _ => false,
        }
    }

    /// Takes in an ABORT or SHUTDOWN COMPLETE whose verification tag is the reflected one, the
    /// peer's (section 8.5.1 B and C). `false` when it is something else.
    pub(crate) fn handle_reflected(
        &mut self,
        from: PathAddress,
        parsed: &Packet<'_>,
        context: &mut Context<'_>,
    ) -> bool {
        if self.peer_tag == 0 || parsed.header().verification_tag != self.peer_tag {
            return false;
        }
        for chunk in parsed.chunks() {
            match chunk {
                Ok(Chunk::Abort(abort)) if abort.tag_reflected && is_well_formed(&abort) => {
                    if self.abandon_unconfirmed(from.remote, context) {
                        return true;
                    }
                    if self.state == AssociationState::ShutdownAckSent {
                        // The peer keeps nothing of the association any more, and all data of both
                        // sides is acknowledged: it has finished, and its SHUTDOWN COMPLETE was
                        // lost or overtaken.
                        self.shut_down_complete(context);
                    } else {
                        self.aborted_by_peer(abort, context);
                    }
                    return true;
                }
                Ok(Chunk::ShutdownComplete(complete))
                    if complete.tag_reflected && self.has_confirmed(from.remote) =>
                {
                    if self.state == AssociationState::ShutdownAckSent {
                        self.shut_down_complete(context);
                    }
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Takes in the packet whose COOKIE ECHO this association came from, or that repeats it: a
    /// COOKIE ACK is due, and the other chunks are handled as ever.
    pub(crate) fn handle_after_cookie_echo(
        &mut self,
        from: PathAddress,
        packet: &Bytes,
        parsed: &Packet<'_>,
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
        let received = PacketOnPath {
            packet,
            header: parsed.header(),
            path,
        };
        let mut chunks = parsed.chunks();
        chunks.next();
        self.handle_chunks(received, chunks, context);
    }

    /// Section 5.2.4, action A: the peer has restarted.
    pub(crate) fn restart(&mut self, cookie: &Cookie, context: &mut Context<'_>) {
        let config = context.config;
        self.local_tag = cookie.local_tag;
        self.peer_tag = cookie.peer_tag;
        self.tie_tags = Default::default();
        self.local_initial_tsn = cookie.local_initial_tsn;
        self.setup = None;
        self.shutdown = Default::default();
        self.pending = Default::default();
        self.report_failed_messages(context);
        self.receiver
            .restart(cookie.peer_initial_tsn, cookie.inbound_streams, config);
        self.report_aborted_delivery(context);
        let was_refused = self.sender.restart(
            cookie.local_initial_tsn,
            cookie.outbound_streams,
            cookie.peer_a_rwnd,
        );
        self.error_count = 0;
        self.restart_paths(cookie, context);
        self.state = AssociationState::Established;
        self.start_heartbeats(context);
        self.begin_burst();
        if was_refused {
            context.events.push_back(Event::Writable { id: self.id });
        }
        context.events.push_back(Event::Restart {
            id: self.id,
            outbound_streams: cookie.outbound_streams,
            inbound_streams: cookie.inbound_streams,
        });
    }

    /// Section 5.2.4, action B: both sides opened at the same time.
    pub(crate) fn collide(&mut self, cookie: &Cookie, context: &mut Context<'_>) {
        self.peer_tag = cookie.peer_tag;
        if !self.is_opening() {
            return;
        }
        // What went out with our COOKIE ECHO was thrown away with it.
        self.sender
            .send_again(self.routing.current, &mut self.paths);
        self.learn_peer(
            cookie.peer_initial_tsn,
            cookie.inbound_streams,
            cookie.peer_a_rwnd,
            cookie.outbound_streams,
            context,
        );
        self.combine_paths(cookie, context);
        self.enter_established(context);
    }

    /// Section 5.2.4, action D: the cookie is that of this very association.
    pub(crate) fn confirm(&mut self, context: &mut Context<'_>) {
        if self.state == AssociationState::CookieEchoed {
            self.sender
                .send_again(self.routing.current, &mut self.paths);
            self.enter_established(context);
        }
    }

    /// The peer has restarted while we wait for its SHUTDOWN COMPLETE (section 5.2.4, action A),
    /// or sent an INIT then (section 9.2): the SHUTDOWN ACK goes out again.
    pub(crate) fn repeat_shutdown_ack(&mut self, refuses_cookie: bool, context: &mut Context<'_>) {
        self.shutdown.repeat();
        if refuses_cookie {
            self.queue_error(
                self.routing.current,
                &Cause::CookieReceivedWhileShuttingDown,
                context,
            );
        }
    }

    fn handle_chunks(
        &mut self,
        received: PacketOnPath<'_>,
        chunks: ChunkIterator<'_>,
        context: &mut Context<'_>,
    ) {
        self.begin_burst();
        let mut seen = SeenAcknowledgements::default();
        for chunk in chunks {
            let go_on = match chunk {
                Ok(chunk) if seen.repeats(&chunk) => {
                    context.statistics.drops.chunks += 1;
                    true
                }
                Ok(chunk) => self.handle_chunk(received, chunk, context),
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

    /// Handles one chunk; `false` when the rest of the packet is to be left alone.
    fn handle_chunk(
        &mut self,
        received: PacketOnPath<'_>,
        chunk: Chunk<'_>,
        context: &mut Context<'_>,
    ) -> bool {
        match chunk {
            Chunk::Data(data) => self.handle_data(received, &data, context),
            Chunk::Sack(sack) => self.handle_sack(&sack, context),
            Chunk::InitAck(init) => self.handle_init_ack(received, &init, context),
            Chunk::CookieAck => self.handle_cookie_ack(received, context),
            Chunk::Heartbeat(heartbeat) => self.handle_heartbeat(received, heartbeat, context),
            Chunk::HeartbeatAck(heartbeat) => self.handle_heartbeat_ack(heartbeat, context),
            Chunk::Abort(abort) => {
                self.aborted_by_peer(abort, context);
                return false;
            }
            Chunk::Shutdown(shutdown) => self.handle_shutdown(received, shutdown, context),
            Chunk::ShutdownAck => return self.handle_shutdown_ack(received, context),
            Chunk::ShutdownComplete(_) => {
                if self.state == AssociationState::ShutdownAckSent {
                    self.shut_down_complete(context);
                }
            }
            Chunk::Error(error) => self.handle_error(error, context),
            // An INIT is alone with tag 0, a COOKIE ECHO first: here both are out of place.
            Chunk::Init(_) | Chunk::CookieEcho(_) => context.statistics.drops.chunks += 1,
            Chunk::Pad(_) => {}
            Chunk::Other(raw) => return self.handle_unknown(received, raw, context),
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
            self.shutdown
                .send_on(self.reply_path(self.receiver.sack_path()));
            self.receiver.request_sack();
        }
        if self.receiver.take_readable() {
            context.events.push_back(Event::Readable { id: self.id });
        }
        self.advance_shutdown(context);
        self.watch_window(context);
    }

    fn handle_data(
        &mut self,
        received: PacketOnPath<'_>,
        data: &Data<'_>,
        context: &mut Context<'_>,
    ) {
        if !matches!(
            self.state,
            AssociationState::Established
                | AssociationState::ShutdownPending
                | AssociationState::ShutdownSent
        ) {
            context.statistics.drops.chunks += 1;
            return;
        }
        self.statistics.data_chunks_received += 1;
        let held = self.receiver.buffered();
        let reception = self.receiver.handle_data(
            data,
            received.packet,
            received.path,
            context.receive_budget,
            context.config,
        );
        context.receive_budget = context
            .receive_budget
            .saturating_sub(self.receiver.buffered().saturating_sub(held));
        context.statistics.drops.data_reneged += self.receiver.take_reneged();
        match reception {
            Ok(Reception::Accepted) => {}
            Ok(Reception::Duplicate) => {
                self.statistics.duplicates_received += 1;
                context.statistics.duplicates_received += 1;
            }
            Ok(Reception::NoRoom) => context.statistics.drops.data_no_room += 1,
            Ok(Reception::OutOfReach) => context.statistics.drops.data_out_of_reach += 1,
            Ok(Reception::InvalidStream) => {
                context.statistics.drops.data_invalid_stream += 1;
                let stream = data.stream;
                let cause = Cause::InvalidStreamIdentifier { stream };
                self.queue_error(received.path, &cause, context);
            }
            Err(FatalData::NoUserData) => self.end_with_abort(
                &Cause::NoUserData { tsn: data.tsn },
                "DATA without user data",
                context,
            ),
            Err(FatalData::MessageTooLarge) => {
                context.statistics.drops.messages_too_large += 1;
                self.end_with_abort(&Cause::OutOfResource, "message too large", context);
            }
            Err(FatalData::NoRoom) => self.give_up(context),
            Err(FatalData::Violation(reason)) => self.violation(reason, context),
        }
    }

    fn handle_sack(&mut self, sack: &Sack<'_>, context: &mut Context<'_>) {
        if !self.may_send_data() {
            context.statistics.drops.chunks += 1;
            return;
        }
        let outcome = self
            .sender
            .handle_sack(context.now, sack, &mut self.paths, context.config);
        self.conclude_acknowledgement(outcome, context);
    }

    fn conclude_acknowledgement(
        &mut self,
        outcome: Result<super::sender::SackOutcome, super::sender::NeverSent>,
        context: &mut Context<'_>,
    ) {
        let Ok(outcome) = outcome else {
            self.violation("acknowledged a TSN that was never sent", context);
            return;
        };
        if outcome.progress {
            self.error_count = 0;
            if self.is_delivering() {
                self.shutdown.data_acknowledged(context.now, context.config);
            }
            for index in 0..self.paths.len() {
                if self.paths.get(index).is_some_and(Path::was_proved) {
                    self.clear_path_errors(index, context);
                }
            }
            if context.config.sender_dry_events && self.sender.is_finished() {
                context.events.push_back(Event::SenderDry { id: self.id });
            }
        }
        if let Some(path) = outcome.probed {
            self.error_count = 0;
            self.clear_path_errors(path, context);
        }
        if outcome.writable {
            context.events.push_back(Event::Writable { id: self.id });
        }
        // Acknowledgements open the window.
        self.begin_burst();
    }

    // --- Set-up (section 5) ---

    fn handle_init_ack(
        &mut self,
        received: PacketOnPath<'_>,
        init: &Init<'_>,
        context: &mut Context<'_>,
    ) {
        if self.state != AssociationState::CookieWait {
            context.statistics.drops.chunks += 1;
            return;
        }
        match init.check() {
            Ok(()) => {}
            Err(InitFault::ZeroInitiateTag) => {
                // The peer's tag is unknown, so the ABORT reflects the one that came.
                if let Some(address) = self.reply_address(self.reply_path(received.path), context) {
                    let address = ReplyAddress {
                        verification_tag: received.header.verification_tag,
                        ..address
                    };
                    context.replies.abort(address, true, &CauseBuffer::new());
                }
                self.refuse_init_ack("INIT ACK with Initiate Tag 0", context);
                return;
            }
            Err(InitFault::SmallWindow) => {
                // Section 3.3.3: answered, but the state stays as it is.
                if let Some(address) = self.reply_address(self.reply_path(received.path), context) {
                    let address = ReplyAddress {
                        verification_tag: init.initiate_tag,
                        ..address
                    };
                    context
                        .replies
                        .abort_because(address, &Cause::InvalidMandatoryParameter);
                }
                return;
            }
            Err(InitFault::NoOutboundStreams | InitFault::NoInboundStreams) => {
                self.peer_tag = init.initiate_tag;
                self.send_abort(&Cause::InvalidMandatoryParameter, context);
                self.refuse_init_ack("INIT ACK without streams", context);
                return;
            }
        }
        self.peer_tag = init.initiate_tag;
        let source = self.paths.get(received.path).map(Path::address);
        let Some(source) = source else {
            return;
        };
        let rules = AddressRules::new(
            source.remote,
            context.local_addresses,
            context.host_addresses,
            context.config.max_peer_addresses,
        );
        let parameters = match SetupParameters::read(init.parameters, &rules) {
            Ok(parameters) => parameters,
            Err(fault) => {
                self.abort_set_up_for(&fault, received, context);
                return;
            }
        };
        let Some(cookie) = parameters.cookie else {
            let missing = [ParameterType::STATE_COOKIE.to_be_bytes()];
            self.send_abort(
                &Cause::MissingMandatoryParameter(TypeList::new(&missing)),
                context,
            );
            self.refuse_init_ack("INIT ACK without State Cookie", context);
            return;
        };
        let cookie = received.packet.slice_ref(cookie);
        let errors = parameters.unrecognized_cause(self.max_error_bytes());
        if let Some(rtt) = self
            .setup
            .as_ref()
            .and_then(|setup| setup.answered(context.now))
            && let Some(path) = self.paths.get_mut(received.path)
        {
            path.measure(context.now, rtt, context.config);
        }
        self.learn_peer(
            init.initial_tsn,
            init.outbound_streams
                .min(context.config.max_inbound_streams),
            init.a_rwnd,
            init.inbound_streams,
            context,
        );
        if let Some(setup) = &mut self.setup {
            setup.echo_cookie(cookie, errors);
        }
        context.statistics.drops.addresses += parameters.peer.left_out;
        self.learn_addresses(source, &parameters.peer.addresses, context);
        self.state = AssociationState::CookieEchoed;
    }

    /// Takes over what the peer said in INIT ACK or cookie.
    fn learn_peer(
        &mut self,
        initial_tsn: Tsn,
        inbound_streams: u16,
        a_rwnd: u32,
        outbound_streams: u16,
        context: &mut Context<'_>,
    ) {
        self.receiver = Receiver::new(initial_tsn, inbound_streams, context.config);
        for (info, payload) in self.sender.learn_peer(a_rwnd, outbound_streams) {
            context.events.push_back(Event::SendFailed {
                id: self.id,
                info,
                payload,
                was_sent: false,
            });
        }
    }

    fn abort_set_up_for(
        &mut self,
        fault: &ParameterFault<'_>,
        received: PacketOnPath<'_>,
        context: &mut Context<'_>,
    ) {
        let mut causes = CauseBuffer::new();
        fault.push_to(&mut causes);
        if let Some(address) = self.reply_address(self.reply_path(received.path), context) {
            context.replies.abort(address, false, &causes);
        }
        self.refuse_init_ack("INIT ACK with an impossible parameter", context);
    }

    fn refuse_init_ack(&mut self, reason: &'static str, context: &mut Context<'_>) {
        self.cannot_start(CannotStartCause::ProtocolViolation { reason }, context);
    }

    fn handle_cookie_ack(&mut self, received: PacketOnPath<'_>, context: &mut Context<'_>) {
        if self.state != AssociationState::CookieEchoed {
            return;
        }
        self.choose_primary_by_answer(received.path);
        let current = self.routing.current;
        let rtt = self
            .setup
            .as_ref()
            .and_then(|setup| setup.answered(context.now));
        if let Some(path) = self.paths.get_mut(current) {
            if let Some(rtt) = rtt {
                path.measure(context.now, rtt, context.config);
            }
            if path.flight() > 0 {
                path.start_t3_rtx(context.now);
            }
        }
        self.enter_established(context);
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
        let answered = self.paths.iter_mut().enumerate().find_map(|(index, path)| {
            let before = path.state();
            let is_answer = path.handle_heartbeat_ack(context.now, index, info, context.config)
                || path.handle_mtu_probe_ack(context.now, index, info, context.config);
            is_answer.then_some((index, before))
        });
        match answered {
            Some((index, before)) => self.heartbeat_answered(index, before, context),
            None => context.statistics.drops.chunks += 1,
        }
    }

    // --- Ends (section 9) ---

    fn aborted_by_peer(&mut self, abort: Abort<'_>, context: &mut Context<'_>) {
        let causes = Bytes::copy_from_slice(abort.causes.as_bytes());
        if self.is_opening() {
            self.cannot_start(CannotStartCause::Refused { causes }, context);
        } else {
            self.lost(LostCause::AbortedByPeer { causes }, context);
        }
    }

    fn handle_shutdown(
        &mut self,
        received: PacketOnPath<'_>,
        shutdown: Shutdown,
        context: &mut Context<'_>,
    ) {
        if self.reply_path(received.path) != received.path {
            // The answer goes elsewhere, and one packet gets no two in answer (section 12.4).
            self.pending.forget_heartbeat_acks(received.path);
        }
        match self.state {
            AssociationState::Closed
            | AssociationState::CookieWait
            | AssociationState::CookieEchoed => {
                context.statistics.drops.chunks += 1;
                return;
            }
            AssociationState::Established | AssociationState::ShutdownPending => {
                self.state = AssociationState::ShutdownReceived;
                // Section 6.4: an answer goes where the question came from.
                self.shutdown.answer_on(self.reply_path(received.path));
                self.shutdown.data_acknowledged(context.now, context.config);
                // The peer does not answer HEARTBEATs from its SHUTDOWN on (section 8.3).
                self.stop_heartbeats();
                context
                    .events
                    .push_back(Event::PeerShutdown { id: self.id });
            }
            AssociationState::ShutdownReceived => {}
            AssociationState::ShutdownSent => {
                self.state = AssociationState::ShutdownAckSent;
                // Section 6.4: an answer goes where the question came from.
                self.shutdown.send_on(self.reply_path(received.path));
            }
            AssociationState::ShutdownAckSent => {
                self.shutdown.answer_on(self.reply_path(received.path));
                self.shutdown.repeat();
            }
        }
        let outcome = self.sender.handle_cumulative_ack(
            context.now,
            shutdown.cumulative_tsn_ack,
            &mut self.paths,
            context.config,
        );
        self.conclude_acknowledgement(outcome, context);
    }

    /// `false` when the packet has been answered, for it gets no second answer (section 12.4).
    fn handle_shutdown_ack(
        &mut self,
        received: PacketOnPath<'_>,
        context: &mut Context<'_>,
    ) -> bool {
        match self.state {
            AssociationState::ShutdownSent | AssociationState::ShutdownAckSent => {
                if let Some(address) = self.reply_address(self.reply_path(received.path), context) {
                    context.replies.shutdown_complete(address, false);
                }
                self.shut_down_complete(context);
                false
            }
            AssociationState::CookieWait | AssociationState::CookieEchoed => {
                // Section 8.5.1 E: as if it were out of the blue.
                if let Some(address) = self.reply_address(self.reply_path(received.path), context) {
                    let address = ReplyAddress {
                        verification_tag: received.header.verification_tag,
                        ..address
                    };
                    context.replies.shutdown_complete(address, true);
                }
                false
            }
            _ => {
                context.statistics.drops.chunks += 1;
                true
            }
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

    /// Section 5.2.6: begins again, and asks for a cookie that lives longer.
    fn handle_stale_cookie(&mut self, context: &mut Context<'_>) {
        if self.state != AssociationState::CookieEchoed {
            context.statistics.drops.chunks += 1;
            return;
        }
        self.sender
            .send_again(self.routing.current, &mut self.paths);
        let Some(setup) = &mut self.setup else {
            return;
        };
        let rtt = setup.answered(context.now).unwrap_or_default();
        if setup.begin_again(rtt + Duration::from_secs(1), context.config) {
            self.state = AssociationState::CookieWait;
            self.peer_tag = 0;
        } else {
            self.cannot_start(CannotStartCause::TimedOut, context);
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
    fn queue_error(&mut self, path: PathIndex, cause: &Cause<'_>, context: &mut Context<'_>) {
        let mut causes = CauseBuffer::new();
        let reply_path = self.reply_path(path);
        if reply_path != path && self.pending.answers_on(path) {
            // It would be a second packet in answer to one (section 12.4).
            context.statistics.drops.answers += 1;
            return;
        }
        let path = reply_path;
        let room = self.paths.get(path).map_or(0, Path::pmdcs);
        if causes.push(cause).is_err() || !self.pending.error(path, causes.causes(), room) {
            context.statistics.drops.answers += 1;
        }
    }

    /// Bytes of error causes that fit into a packet.
    fn max_error_bytes(&self) -> usize {
        self.paths
            .get(self.routing.current)
            .map_or(0, |path| path.pmdcs().saturating_sub(4))
    }
}

/// Whether the causes of an ABORT can be walked to their end; else it is to be ignored
/// (section 3.3.7).
fn is_well_formed(abort: &Abort<'_>) -> bool {
    abort.causes.iter().raw().all(|cause| cause.is_ok())
}
