//! Where the packets on each path come from, once ASCONF has changed our addresses (RFC 5061
//! section 5.3).

use std::time::Instant;

use crate::PathAddress;
use crate::association::addresses::lists_own;
use crate::association::local_addresses::{Hearing, Source};
use crate::association::{Association, Context};
use crate::packet::{ChunkType, Packet};

impl Association {
    /// Our addresses are about to change. As long as the driver has chosen the source of a path, we take
    /// it to be the address that we would choose: so that it shows when another one takes its place.
    pub(in crate::association) fn pin_sources(&mut self) {
        for path in self.paths.iter_mut() {
            let nearest = self.local_addresses.nearest_to(path.address().remote);
            path.pin_source(nearest);
        }
    }

    /// Whether a packet is not for this association, because it was sent to an address that is ours no
    /// more. An ABORT to one that is being deleted comes from a peer that has deleted it already (section
    /// 5.3.1).
    pub(in crate::association) fn ignores(
        &self,
        from: PathAddress,
        parsed: &Packet<'_>,
        now: Instant,
    ) -> bool {
        match self.local_addresses.hearing(from.local, now) {
            Hearing::All => false,
            Hearing::AllButAbort => parsed
                .chunks()
                .raw()
                .flatten()
                .any(|chunk| chunk.chunk_type() == ChunkType::ABORT),
            Hearing::Nothing => true,
        }
    }

    /// A SHUTDOWN or SHUTDOWN ACK cannot leave now, because the peer's address is not confirmed or ours may
    /// not be the source. T2-shutdown runs as if it had been lost.
    pub(in crate::association) fn put_shutdown_off(&mut self, context: &Context<'_>) {
        if !self.shutdown.is_due() {
            return;
        }
        let path_id = self.shutdown_path();
        if !self.is_open(path_id)
            && let Some(path) = self.paths.get(path_id)
        {
            self.shutdown.sent(context.now, path.rto());
        }
    }

    /// Our addresses have changed: packets come from those that may be a source now, and data goes where
    /// there is one.
    pub(in crate::association) fn update_sources(&mut self, context: &mut Context<'_>) {
        for path in self.paths.iter_mut() {
            let remote = path.address().remote;
            let source = self.local_addresses.source_for(remote);
            if source == Source::Any && lists_own(self.local_addresses.usable(), remote) {
                path.unpin_source();
            }
            path.set_source(source, context.config);
        }
        self.addresses_changed();
        self.choose_current();
        self.begin_burst();
    }
}
