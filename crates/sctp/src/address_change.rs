//! Changes of our own addresses in an association (RFC 5061).

use std::net::IpAddr;

use crate::packet::CauseCode;

/// A change of our addresses that the peer is asked for by ASCONF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressChange {
    /// We have this address, too (RFC 5061 section 4.2.1).
    Add(IpAddr),
    /// We have this address no more (RFC 5061 section 4.2.2).
    Delete(IpAddr),
    /// The peer is to send to this address as long as it can (RFC 5061 section 4.2.4).
    SetPeerPrimary(IpAddr),
}

/// Why a change was not even asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressChangeError {
    /// There is no such association, or it has ended.
    #[error("no such association")]
    UnknownAssociation,
    /// The association is not up yet, or about to end (RFC 5061 section 5.1.1, rule C4).
    #[error("the association is not up")]
    NotEstablished,
    /// The two sides have not agreed on address reconfiguration, or the peer does not know this kind
    /// of change (RFC 5061 section 5.3, rule F3).
    #[error("the peer does not change addresses")]
    NotSupported,
    /// The address is not unicast.
    #[error("the address is not unicast")]
    InvalidAddress,
    /// The address to add is one of ours already, or the peer has not answered its deletion, which the same call may ask
    /// for.
    #[error("the address belongs to the association already")]
    AlreadyLocal,
    /// The address to delete or to prefer is none of ours. One that the same call adds cannot be deleted.
    #[error("not a local address of the association")]
    NotLocal,
    /// The last address cannot be deleted (RFC 5061 section 5.3, rule F5). Adding another one with the
    /// same call makes it possible.
    #[error("the last address cannot be deleted")]
    LastAddress,
    /// More addresses than [`max_peer_addresses`](crate::EndpointConfig::max_peer_addresses).
    #[error("too many addresses")]
    TooManyAddresses,
    /// The changes do not fit into a packet, or too many wait for the peer's answer.
    #[error("too many changes")]
    TooManyChanges,
}

/// Why a change that was asked for has not come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressChangeRefusal {
    /// The peer has refused it, for this cause.
    #[error("refused by the peer: {0}")]
    Refused(CauseCode),
    /// The peer has not looked at it, because it has refused a change before it in the same chunk (RFC
    /// 5061 section 5.1, rule A7).
    #[error("refused by the peer together with an earlier change")]
    NotReached,
    /// The peer does not know ASCONF (RFC 5061 section 5.1, rule A9).
    #[error("the peer does not change addresses")]
    NotSupported,
}

/// Where one of our addresses stands in an association (RFC 5061 section 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LocalAddressState {
    /// The peer knows it, and packets may come from it.
    Usable,
    /// The peer is asked to add it: packets to it are taken in, and only an ASCONF may come from it.
    Adding,
    /// The peer is asked to delete it: packets to it are taken in, and none come from it any more.
    Deleting,
}
