//! By which way a URI is reached: asked of the driver, which knows names and sockets.

use std::net::SocketAddr;
use std::sync::Arc;

use sip::{Peer, Target};

/// A question to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId(pub u64);

/// The driver is asked by which way a URI is reached (RFC 3263 section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// To be named in the answer, [`Ua::handle_route`](crate::Ua::handle_route).
    pub id: QueryId,
    /// A SIP or SIPS URI.
    pub uri: String,
}

/// A way to the next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where messages go.
    pub target: Target,
    /// Our address as the next hop reaches us: for Via and Contact.
    pub local: SocketAddr,
    /// What else is known of the next hop.
    pub peer: Option<Arc<Peer>>,
}
