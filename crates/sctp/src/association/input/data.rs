//! DATA, I-DATA and SACK (RFC 9260 sections 6.2 and 6.2.1).

use super::PacketOnPath;
use crate::association::received_data::ReceivedData;
use crate::association::receiver::{FatalData, Reception};
use crate::association::sender::{NeverSent, SackOutcome};
use crate::association::{Association, Context};
use crate::packet::{Cause, NrSack, Sack};
use crate::{AssociationState, Event};

impl Association {
    pub(super) fn handle_data(
        &mut self,
        received: &PacketOnPath<'_>,
        data: &ReceivedData<'_>,
        context: &mut Context<'_>,
    ) {
        if !self.takes_data() {
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

    /// Whether DATA is taken in this state (section 6). While the answer to our SSN/TSN reset is under way,
    /// DATA may overtake it that has the new stream sequence numbers already, and TSNs that go on (RFC 6525
    /// section 5.2.4, G2): nobody can tell it from what is older. The peer sends it again.
    pub(super) fn takes_data(&self) -> bool {
        let may_be_new = self
            .re_configuration
            .as_ref()
            .is_some_and(|state| state.resets_association());
        let is_open = matches!(
            self.state,
            AssociationState::Established
                | AssociationState::ShutdownPending
                | AssociationState::ShutdownSent
        );
        is_open && !may_be_new
    }

    pub(super) fn handle_sack(&mut self, sack: &Sack<'_>, context: &mut Context<'_>) {
        if !self.may_send_data() {
            context.statistics.drops.chunks += 1;
            return;
        }
        let outcome = self
            .sender
            .handle_sack(context.now, sack, &mut self.paths, context.config);
        self.conclude_acknowledgement(outcome, context);
    }

    pub(super) fn handle_nr_sack(&mut self, nr_sack: &NrSack<'_>, context: &mut Context<'_>) {
        if !self.may_send_data() {
            context.statistics.drops.chunks += 1;
            return;
        }
        let outcome =
            self.sender
                .handle_nr_sack(context.now, nr_sack, &mut self.paths, context.config);
        self.conclude_acknowledgement(outcome, context);
    }

    pub(in crate::association) fn conclude_acknowledgement(
        &mut self,
        outcome: Result<SackOutcome, NeverSent>,
        context: &mut Context<'_>,
    ) {
        let Ok(outcome) = outcome else {
            // It may be of before an SSN/TSN reset, or tell of one that we do not know of yet.
            if self
                .re_configuration
                .as_ref()
                .is_some_and(|state| state.was_reset_lately(context.now))
            {
                context.statistics.drops.chunks += 1;
                return;
            }
            self.violation("acknowledged a TSN that was never sent", context);
            return;
        };
        if outcome.progress {
            self.error_count = 0;
            if self.is_delivering() {
                self.shutdown.data_acknowledged(context.now, context.config);
            }
            let mut last = None;
            while let Some(id) = self.paths.next_proved_after(last) {
                self.clear_path_errors(id, context);
                last = Some(id);
            }
            if context.config.sender_dry_events && self.sender.is_finished() {
                context.events.push_back(Event::SenderDry { id: self.id });
            }
        }
        if let Some(path) = outcome.probed {
            self.error_count = 0;
            self.clear_path_errors(path, context);
        }
        self.route_retransmissions(context.config);
        if outcome.writable {
            context.events.push_back(Event::Writable { id: self.id });
        }
        self.move_thin_retransmissions(context.config);
        // Acknowledgements open the window.
        self.begin_burst();
    }
}
