//! Addresses that change while the association is up (RFC 5061).
//!
//! `requests` has our own changes: they go out in ASCONFs, and what ASCONF-ACKs answer takes effect.
//! `answers` does what the peer's ASCONFs ask for. Our addresses themselves are in `local_addresses`, the
//! peer's in `paths`.

mod answers;
mod requests;

use crate::packet::{SequenceNumber, Tsn};
use crate::{AssociationConfig, Extensions};

use answers::AnswerCache;
use requests::AskedChanges;

/// What an association that has the extension knows of it.
#[derive(Debug)]
pub(crate) struct AddressReconfiguration {
    asked: AskedChanges,
    /// 'Peer-Sequence-Number': that of the peer's ASCONF that was processed last (section 5.2).
    peer_number: SequenceNumber,
    cache: AnswerCache,
}

impl AddressReconfiguration {
    /// At the beginning of an association that both sides want to have it in: the sequence numbers of
    /// each side begin with its Initial TSN (section 5.1, rule A2).
    pub(crate) fn agreed(
        extensions: Extensions,
        local_initial: Tsn,
        peer_initial: Tsn,
    ) -> Option<Box<AddressReconfiguration>> {
        extensions.address_reconfiguration.then(|| {
            Box::new(AddressReconfiguration {
                asked: AskedChanges::new(SequenceNumber(local_initial.0)),
                peer_number: SequenceNumber(peer_initial.0).previous(),
                cache: AnswerCache::default(),
            })
        })
    }
}

/// Whether there can be no association with a peer that announces these extensions: one that has ASCONF
/// without AUTH would let anyone take the association over (section 6). Our user may do without AUTH.
pub(crate) fn is_insecure(announced: Extensions, config: &AssociationConfig) -> bool {
    config.extensions.address_reconfiguration
        && !config.address_reconfiguration_without_authentication
        && announced.address_reconfiguration
        && !announced.authentication
}
