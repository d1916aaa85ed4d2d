//! What endpoints and associations of a stack are called between its handles and its workers.

use sctp::AssociationId;

/// Names an endpoint of a stack. Its port alone would not do: another endpoint may be opened there
/// when it is closed, while handles of it still exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointKey {
    pub(crate) port: u16,
    /// How many endpoints the stack had opened before it.
    pub(crate) number: u64,
}

/// Names an association of a stack: its endpoint, the worker that owns it, and its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AssociationKey {
    pub(crate) endpoint: EndpointKey,
    pub(crate) worker: usize,
    pub(crate) id: AssociationId,
}
