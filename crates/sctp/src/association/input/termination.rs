//! ABORT and the chunks of a shutdown (RFC 9260 sections 8.5.1 and 9).

use bytes::Bytes;

use super::PacketOnPath;
use crate::association::control_queue::ControlQueue;
use crate::association::{Association, Context};
use crate::packet::{Abort, Cause, Chunk, ChunkType, Packet, Shutdown};
use crate::replies::ReplyAddress;
use crate::{AssociationState, CannotStartCause, Event, LostCause, PathAddress};

impl Association {
    /// Whether a packet with our verification tag is dropped as a whole for its ABORT or SHUTDOWN
    /// COMPLETE: that says that the tag is the peer's, reflected (section 8.5.1 B and C), or the
    /// ABORT is malformed (section 3.3.7) and nothing in its packet may be answered (section 9.1).
    pub(super) fn refuses_end(&self, parsed: &Packet<'_>) -> bool {
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
        if self.ignores(from, parsed, context.now) {
            return false;
        }
        if self.peer_tag == 0 || parsed.header().verification_tag != self.peer_tag {
            return false;
        }
        for chunk in parsed.chunks() {
            match chunk {
                // A peer that has lost the association has no key for it.
                Ok(Chunk::Abort(_)) if self.requires_authentication(ChunkType::ABORT) => {
                    context.statistics.drops.not_authenticated += 1;
                    return true;
                }
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

    pub(super) fn aborted_by_peer(&mut self, abort: Abort<'_>, context: &mut Context<'_>) {
        let causes = Bytes::copy_from_slice(abort.causes.as_bytes());
        if self.is_opening() {
            self.cannot_start(CannotStartCause::Refused { causes }, context);
        } else {
            self.lost(LostCause::AbortedByPeer { causes }, context);
        }
    }

    pub(super) fn handle_shutdown(
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
                self.control = ControlQueue::default();
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
    pub(super) fn handle_shutdown_ack(
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
}

/// Whether the causes of an ABORT can be walked to their end; else it is to be ignored
/// (section 3.3.7).
fn is_well_formed(abort: &Abort<'_>) -> bool {
    abort.causes.iter().raw().all(|cause| cause.is_ok())
}
