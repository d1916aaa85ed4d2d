//! Our side toward a neighbour: what a Via or a Record-Route says of us there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip::{Flow, Transport};

use super::identity::{Identity, Origin, Source};

/// Our side toward one neighbour.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Interface {
    pub(crate) transport: Transport,
    /// Our address as that neighbour sees it.
    pub(crate) source: Arc<Origin>,
    /// The flow to the neighbour, where it is a user agent that can be reached only along it.
    pub(crate) flow: Option<Flow>,
}

impl Interface {
    /// Our side toward the far end of a flow, which can be reached only along it.
    pub(crate) fn toward(identity: &Identity, flow: &Flow) -> Option<Interface> {
        Interface::along(identity, flow, Some(*flow))
    }

    /// Our side toward the far end of a flow. `needed`: the flow, where the far end is reached only along it.
    pub(crate) fn along(
        identity: &Identity,
        flow: &Flow,
        needed: Option<Flow>,
    ) -> Option<Interface> {
        let source = known_source(identity, flow.transport, flow.remote.ip(), Some(flow.local))?;
        Some(Interface {
            transport: flow.transport,
            source,
            flow: needed,
        })
    }
}

/// Our address toward a neighbour, where it needs no asking.
fn known_source(
    identity: &Identity,
    transport: Transport,
    remote: IpAddr,
    local: Option<SocketAddr>,
) -> Option<Arc<Origin>> {
    match identity.source(transport, remote, local)? {
        Source::Known(source) => Some(source),
        Source::Ask(_) => None,
    }
}
