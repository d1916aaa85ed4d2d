//! Our own addresses in one association: those that its peer was told of. They begin as the endpoint's.

use std::net::IpAddr;
use std::sync::Arc;

use super::addresses::lists_own;
use crate::PathAddress;

/// The addresses of one association that are ours.
#[derive(Debug)]
pub(crate) struct LocalAddresses {
    /// Shared with the endpoint and its other associations until it changes.
    usable: Arc<[IpAddr]>,
}

impl LocalAddresses {
    /// Those of the endpoint.
    pub(crate) fn new(endpoint: &Arc<[IpAddr]>) -> LocalAddresses {
        LocalAddresses {
            usable: Arc::clone(endpoint),
        }
    }

    /// Those that packets may come from. None when the peer was told none.
    pub(crate) fn usable(&self) -> &[IpAddr] {
        &self.usable
    }

    /// Our address of a packet, if it is the only one that the peer knows. When it knows several, where it
    /// sends to says nothing of the way back: it may send to one of our addresses over the network of
    /// another.
    pub(crate) fn only_address(&self, from: PathAddress) -> Option<IpAddr> {
        from.local.filter(|_| !lists_own(&self.usable, from.remote))
    }
}
