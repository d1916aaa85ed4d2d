//! Which packets, and which parts of them, are authentic (RFC 4895 section 6.3).

use crate::PathAddress;
use crate::association::authentication::AuthFault;
use crate::association::{Association, Context};
use crate::packet::{AuthenticatedPart, Cause, ChunkType, Packet};

impl Association {
    /// Whether chunks of this type are to be dropped when they are not authenticated.
    pub(crate) fn requires_authentication(&self, chunk_type: ChunkType) -> bool {
        self.authentication()
            .is_some_and(|authentication| authentication.requires(chunk_type))
    }

    /// Whether both sides authenticate.
    pub(crate) fn authenticates(&self) -> bool {
        self.extensions.authentication
    }

    /// Whether packets without a checksum are taken.
    pub(crate) fn accepts_zero_checksum(&self) -> bool {
        self.accepts_zero_checksum
    }

    /// A packet as far as it may be looked at: without its AUTH chunk and all behind it when that is
    /// not right. `None` when nothing is left.
    pub(crate) fn authentic<'p>(
        &mut self,
        from: PathAddress,
        packet: &Packet<'p>,
        context: &mut Context<'_>,
    ) -> Option<Packet<'p>> {
        let part = packet.authenticated_part().filter(|_| self.authenticates());
        let Some(part) = part else {
            return Some(*packet);
        };
        if self.verify(from, &part, context) {
            return Some(*packet);
        }
        (!part.is_all()).then_some(part.before)
    }

    /// Whether the AUTH chunk of a packet is right. If it is not, that is counted and, if it has to
    /// be, answered.
    pub(crate) fn verify(
        &mut self,
        from: PathAddress,
        part: &AuthenticatedPart<'_>,
        context: &mut Context<'_>,
    ) -> bool {
        let verified = match &mut self.authentication {
            Some(authentication) => authentication.verify(part),
            None => Err(AuthFault::NotAuthentic),
        };
        let Err(fault) = verified else {
            return true;
        };
        context.statistics.drops.not_authentic += 1;
        if let AuthFault::UnsupportedHmac(hmac_identifier) = fault
            && !self.is_opening()
            && let Some(path) = self.path_to(from.remote)
        {
            let cause = Cause::UnsupportedHmacIdentifier { hmac_identifier };
            self.queue_error(path, &cause, context);
        }
        false
    }
}
