//! Calls to an engine that handles have the worker make.

use std::fmt;
use std::time::Instant;

/// A call that the worker of an association makes to its engine. The answer goes its own way.
pub(crate) struct EngineCall(Call);

type Call = Box<dyn FnOnce(&mut sctp::Endpoint, Instant, sctp::AssociationId) + Send>;

impl EngineCall {
    pub(crate) fn new(
        call: impl FnOnce(&mut sctp::Endpoint, Instant, sctp::AssociationId) + Send + 'static,
    ) -> EngineCall {
        EngineCall(Box::new(call))
    }

    pub(crate) fn make(self, engine: &mut sctp::Endpoint, now: Instant, id: sctp::AssociationId) {
        (self.0)(engine, now, id);
    }
}

impl fmt::Debug for EngineCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("EngineCall")
    }
}
