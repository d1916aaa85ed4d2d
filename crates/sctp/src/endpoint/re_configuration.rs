//! Calls that re-configure the streams of an association (RFC 6525 section 6.3).

use std::time::Instant;

use super::Endpoint;
use crate::{AssociationId, ReConfigurationError, StreamReset};

impl Endpoint {
    /// Asks the peer to reset streams (RFC 6525 section 6.3.2): their numbers begin again with 0.
    /// `Event::StreamReset` tells how it went, several times where the list of streams needs several
    /// requests. Messages that were given to [`Self::send`] before leave first; those that are given to it
    /// before the reset is done are sent after it.
    ///
    /// # Errors
    ///
    /// When the association is not up, the peer does not support it, a request is not answered yet, or
    /// there is no such stream.
    pub fn reset_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        reset: StreamReset,
    ) -> Result<(), ReConfigurationError> {
        self.with_id(now, id, |association, _| association.reset_streams(reset))
            .unwrap_or(Err(ReConfigurationError::UnknownAssociation))
    }

    /// Asks the peer to begin anew with all SSNs and TSNs (RFC 6525 section 6.3.3), once everything that
    /// was sent is acknowledged. `Event::AssociationReset` tells how it went. Messages that are given to
    /// [`Self::send`] before that wait for it.
    ///
    /// # Errors
    ///
    /// When the association is not up, the peer does not support it, a request is not answered yet, or
    /// the last reset was less than 30 seconds ago.
    pub fn reset_association(
        &mut self,
        now: Instant,
        id: AssociationId,
    ) -> Result<(), ReConfigurationError> {
        self.with_id(now, id, |association, context| {
            association.reset_association(context)
        })
        .unwrap_or(Err(ReConfigurationError::UnknownAssociation))
    }

    /// Asks the peer for so many more streams in each direction (RFC 6525 section 6.3.4).
    /// `Event::StreamChange` tells how it went, once for each direction.
    ///
    /// # Errors
    ///
    /// When the association is not up, the peer does not support it, a request is not answered yet, or
    /// there would be too many streams.
    pub fn add_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ReConfigurationError> {
        self.with_id(now, id, |association, context| {
            association.add_streams(outgoing, incoming, context)
        })
        .unwrap_or(Err(ReConfigurationError::UnknownAssociation))
    }
}
