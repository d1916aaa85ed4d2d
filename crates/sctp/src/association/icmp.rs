//! What ICMP messages mean to an association (RFC 9260 section 10, from ICMP6 on).

use bytes::Buf;

use super::path_id::PathId;
use super::path_mtu::PacketTooBig;
use super::{Association, Context};
use crate::packet::ChunkType;
use crate::{AssociationState, CannotStartCause, IcmpKind, LostCause, PathAddress};

/// What became of an ICMP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IcmpOutcome {
    /// It was heeded.
    Heeded,
    /// It does not prove that it is about a packet of this association.
    NotProved,
    /// It says nothing that we heed.
    Ignored,
}

/// As much as an ICMP message must quote of a packet of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoted {
    /// A packet with the peer's verification tag.
    Tagged,
    /// The INIT.
    Init,
}

impl Association {
    /// Takes in an ICMP message about a packet that went to `path`; `quoted` is what it quotes of
    /// the packet, from the common header on.
    pub(crate) fn handle_icmp(
        &mut self,
        path: PathAddress,
        kind: IcmpKind,
        quoted: &[u8],
        context: &mut Context<'_>,
    ) -> IcmpOutcome {
        let (Some(proof), Some(path_id)) = (self.recognize(quoted), self.path_to(path.remote))
        else {
            return IcmpOutcome::NotProved;
        };
        match kind {
            IcmpKind::PacketTooBig { mtu } => self.packet_too_big(path_id, mtu, context),
            IcmpKind::ProtocolUnreachable => self.protocol_unreachable(proof, path_id, context),
            // ICMP3: a host that has no such SCTP port sends ABORT. In UDP it is another port that
            // is unreachable, the whole protocol behind it (RFC 6951 section 5.5).
            IcmpKind::PortUnreachable if path.encapsulation_port.is_none() => IcmpOutcome::Ignored,
            IcmpKind::PortUnreachable => self.protocol_unreachable(proof, path_id, context),
            IcmpKind::Unreachable => {
                // ICMP9. The peer itself is counted by its silence alone.
                self.count_error(path_id, false, context);
                IcmpOutcome::Heeded
            }
        }
    }

    /// ICMP6: whether a packet of ours is quoted. Who cannot see our packets does not know tags.
    fn recognize(&self, mut quoted: &[u8]) -> Option<Quoted> {
        let _ports = quoted.try_get_u32().ok()?;
        let tag = quoted.try_get_u32().ok()?;
        if tag != 0 {
            return (tag == self.peer_tag).then_some(Quoted::Tagged);
        }
        let _checksum = quoted.try_get_u32().ok()?;
        let [chunk_type, ..] = quoted.try_get_u32().ok()?.to_be_bytes();
        let initiate_tag = quoted.try_get_u32().ok()?;
        let is_our_init = chunk_type == ChunkType::INIT.0 && initiate_tag == self.local_tag;
        is_our_init.then_some(Quoted::Init)
    }

    /// ICMP7.
    fn packet_too_big(
        &mut self,
        path_id: PathId,
        mtu: usize,
        context: &mut Context<'_>,
    ) -> IcmpOutcome {
        let outcome = self
            .paths
            .get_mut(path_id)
            .map(|path| path.packet_too_big(context.now, mtu, context.config));
        match outcome {
            Some(PacketTooBig::Used) => IcmpOutcome::Heeded,
            Some(PacketTooBig::Ignored) | None => IcmpOutcome::Ignored,
        }
    }

    /// ICMP8: like an ABORT. From an address that the peer only claims it ends no more than our
    /// packets to that address; during the set-up other addresses are tried first.
    fn protocol_unreachable(
        &mut self,
        quoted: Quoted,
        path_id: PathId,
        context: &mut Context<'_>,
    ) -> IcmpOutcome {
        let remote = self.paths.get(path_id).map(|path| path.address().remote);
        if quoted == Quoted::Init && self.state != AssociationState::CookieWait {
            return IcmpOutcome::Ignored;
        }
        if remote.is_some_and(|remote| self.abandon_unconfirmed(remote, context))
            || self.abandon_path_in_setup(path_id, context)
        {
            return IcmpOutcome::Heeded;
        }
        if self.is_opening() {
            self.cannot_start(CannotStartCause::ProtocolUnreachable, context);
        } else {
            self.lost(LostCause::ProtocolUnreachable, context);
        }
        IcmpOutcome::Heeded
    }
}
