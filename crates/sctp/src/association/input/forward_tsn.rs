//! FORWARD-TSN (RFC 3758 section 3.6) and I-FORWARD-TSN (RFC 8260 section 2.3.1).

use super::PacketOnPath;
use crate::association::receiver::Forwarding;
use crate::association::{Association, Context};
use crate::packet::{ForwardTsn, IForwardTsn};

impl Association {
    pub(super) fn handle_forward_tsn(
        &mut self,
        received: PacketOnPath<'_>,
        chunk: &ForwardTsn<'_>,
        context: &mut Context<'_>,
    ) {
        if self.extensions.interleaving {
            // RFC 8260 section 2.3.1.
            self.violation("FORWARD-TSN where I-DATA is used", context);
            return;
        }
        if !self.takes_data() {
            context.statistics.drops.chunks += 1;
            return;
        }
        let forwarding = self.receiver.handle_forward_tsn(
            chunk,
            received.path,
            context.receive_budget,
            context.config,
        );
        self.conclude_forwarding(forwarding, context);
    }

    /// RFC 8260 section 2.3.1.
    pub(super) fn handle_i_forward_tsn(
        &mut self,
        received: PacketOnPath<'_>,
        chunk: &IForwardTsn<'_>,
        context: &mut Context<'_>,
    ) {
        if !self.extensions.interleaving {
            self.violation("I-FORWARD-TSN where DATA is used", context);
            return;
        }
        if !self.takes_data() {
            context.statistics.drops.chunks += 1;
            return;
        }
        let forwarding = self.receiver.handle_i_forward_tsn(
            chunk,
            received.path,
            context.receive_budget,
            context.config,
        );
        self.conclude_forwarding(forwarding, context);
    }

    fn conclude_forwarding(&mut self, forwarding: Forwarding, context: &mut Context<'_>) {
        if forwarding == Forwarding::OutOfReach {
            context.statistics.drops.forward_tsn_out_of_reach += 1;
        }
        self.report_aborted_delivery(context);
    }
}
