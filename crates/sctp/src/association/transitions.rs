//! The states of an association (RFC 9260 section 4): how it comes up, and how it ends.

use super::control_queue::ControlQueue;
use super::failed_messages::FailedMessage;
use super::path_id::PathId;
use super::pending::Pending;
use super::shutdown::Shutdown;
use super::{Association, Context};
use crate::packet::Cause;
use crate::replies::ReplyAddress;
use crate::{AssociationState, CannotStartCause, Event, LostCause};

impl Association {
    /// The association is up.
    pub(super) fn enter_established(&mut self, context: &mut Context<'_>) {
        self.state = AssociationState::Established;
        self.setup = None;
        self.error_count = 0;
        self.choose_current();
        if let Some(peer) = self.peer_address() {
            context.events.push_back(Event::CommunicationUp {
                id: self.id,
                outbound_streams: self.sender.streams(),
                inbound_streams: self.receiver.streams(),
                peer,
                peer_port: self.peer_port,
                incoming: self.incoming,
            });
        }
        self.report_missing_authentication(context);
        self.report_adaptation_layer(context);
        self.start_heartbeats(context);
        self.begin_burst();
        self.watch_window(context);
        if self.shutdown.is_requested() {
            self.begin_shutdown(context);
        }
    }

    /// Tells which adaptation layer the peer has, if it has said so.
    pub(super) fn report_adaptation_layer(&self, context: &mut Context<'_>) {
        if let Some(code_point) = self.adaptation_code_point {
            context.events.push_back(Event::AdaptationLayer {
                id: self.id,
                code_point,
            });
        }
    }

    /// The user has asked for the end of the association, which is up.
    pub(super) fn begin_shutdown(&mut self, context: &mut Context<'_>) {
        self.state = AssociationState::ShutdownPending;
        self.shutdown.data_acknowledged(context.now, context.config);
        self.advance_shutdown(context);
    }

    /// Goes on with a shutdown once everything that was sent is acknowledged (section 9.2).
    pub(super) fn advance_shutdown(&mut self, context: &mut Context<'_>) {
        if !self.sender.is_finished() {
            return;
        }
        match self.state {
            AssociationState::ShutdownPending => {
                self.state = AssociationState::ShutdownSent;
                self.shutdown.enter_sent(context.now, context.config);
            }
            AssociationState::ShutdownReceived => {
                self.state = AssociationState::ShutdownAckSent;
                self.shutdown.enter_ack_sent();
                self.control = ControlQueue::default();
                self.re_configuration = None;
            }
            _ => return,
        }
        self.stop_heartbeats();
    }

    /// The association ended in good order.
    pub(super) fn shut_down_complete(&mut self, context: &mut Context<'_>) {
        self.close();
        context
            .events
            .push_back(Event::ShutdownComplete { id: self.id });
    }

    /// The association ended otherwise.
    pub(super) fn lost(&mut self, cause: LostCause, context: &mut Context<'_>) {
        let unsent = self.sender.unsent();
        let unacknowledged = self.sender.unacknowledged();
        self.report_failed_messages(context);
        self.close();
        self.report_aborted_delivery(context);
        context.events.push_back(Event::CommunicationLost {
            id: self.id,
            cause,
            unsent,
            unacknowledged,
        });
    }

    /// Tells that the end of a message will never be delivered, although parts of it were.
    pub(super) fn report_aborted_delivery(&mut self, context: &mut Context<'_>) {
        for message in self.receiver.take_aborted() {
            context.events.push_back(Event::PartialDeliveryAborted {
                id: self.id,
                stream: message.stream,
                unordered: message.unordered,
                ssn: message.mid.0 as u16,
            });
        }
    }

    /// Tells of each message that is not known to be delivered (sections 11.1.14 and 11.1.15).
    pub(super) fn report_failed_messages(&mut self, context: &mut Context<'_>) {
        let failed = self.sender.take_failed();
        self.report_failed(failed, context);
    }

    /// Tells of messages that are not known to be delivered.
    pub(super) fn report_failed(
        &mut self,
        messages: Vec<FailedMessage>,
        context: &mut Context<'_>,
    ) {
        for failed in messages {
            context.events.push_back(Event::SendFailed {
                id: self.id,
                info: failed.info,
                payload: failed.payload,
                was_sent: failed.was_sent,
            });
        }
    }

    /// The association never came up.
    pub(super) fn cannot_start(&mut self, cause: CannotStartCause, context: &mut Context<'_>) {
        self.report_failed_messages(context);
        self.close();
        context
            .events
            .push_back(Event::CannotStart { id: self.id, cause });
    }

    /// Forgets everything but the messages that the user may still receive.
    pub(super) fn close(&mut self) {
        self.state = AssociationState::Closed;
        self.setup = None;
        self.shutdown = Shutdown::default();
        self.pending = Pending::default();
        self.control = ControlQueue::default();
        self.sender.close();
        self.receiver.close();
    }

    /// The peer broke the protocol: tells it so and ends the association.
    pub(super) fn violation(&mut self, reason: &'static str, context: &mut Context<'_>) {
        self.end_with_abort(
            &Cause::ProtocolViolation(reason.as_bytes()),
            reason,
            context,
        );
    }

    /// Ends the association with an ABORT that says `cause`; `reason` is for the user.
    pub(super) fn end_with_abort(
        &mut self,
        cause: &Cause<'_>,
        reason: &'static str,
        context: &mut Context<'_>,
    ) {
        self.send_abort(cause, context);
        if self.is_opening() {
            self.cannot_start(CannotStartCause::ProtocolViolation { reason }, context);
        } else {
            self.lost(LostCause::ProtocolViolation { reason }, context);
        }
    }

    /// There is no room for the rest of its messages, and never will be.
    pub(super) fn give_up(&mut self, context: &mut Context<'_>) {
        self.send_abort(&Cause::OutOfResource, context);
        self.lost(LostCause::OutOfResource, context);
    }

    /// Sends an ABORT if the peer's tag is known (section 8.5.1 B).
    pub(super) fn send_abort(&self, cause: &Cause<'_>, context: &mut Context<'_>) {
        if self.peer_tag != 0
            && let Some(address) = self.reply_address(self.routing.current, context)
        {
            context.replies.abort_because(address, cause);
        }
    }

    /// For packets that go to the peer on `path` although the association may be gone by then.
    pub(super) fn reply_address(
        &self,
        path: PathId,
        context: &Context<'_>,
    ) -> Option<ReplyAddress> {
        let path = self.paths.get(path).filter(|path| path.has_source())?;
        Some(ReplyAddress {
            to: path.address(),
            local_port: context.local_port,
            peer_port: self.peer_port,
            verification_tag: self.peer_tag,
            protection: self.protection(),
        })
    }
}
