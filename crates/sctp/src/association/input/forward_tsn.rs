//! FORWARD-TSN (RFC 3758 section 3.6) and I-FORWARD-TSN (RFC 8260 section 2.3.1).

use super::PacketOnPath;
use crate::association::receiver::{Forwarding, Skip};
use crate::association::{Association, Context};

impl Association {
    pub(super) fn handle_forward_tsn(
        &mut self,
        received: PacketOnPath<'_>,
        skip: &Skip,
        context: &mut Context<'_>,
    ) {
        // RFC 8260 section 2.3.1.
        match (skip.interleaved, self.extensions.interleaving) {
            (false, true) => {
                self.violation("FORWARD-TSN where I-DATA is used", context);
                return;
            }
            (true, false) => {
                self.violation("I-FORWARD-TSN where DATA is used", context);
                return;
            }
            _ => {}
        }
        if !self.takes_data() {
            context.statistics.drops.chunks += 1;
            return;
        }
        let budget = context.receive_budget;
        let forwarding = self
            .receiver
            .skip(skip, received.path, budget, context.config);
        if forwarding == Forwarding::OutOfReach {
            context.statistics.drops.forward_tsn_out_of_reach += 1;
        }
        self.report_aborted_delivery(context);
    }
}
