//! The user's settings for the streams of an association (RFC 8260 section 4.3).

use std::time::Instant;

use super::Endpoint;
use crate::{AssociationId, StreamError, StreamScheduler};

impl Endpoint {
    /// Which scheduler decides on which stream an association sends next (RFC 8260 section 4.3.2,
    /// `SCTP_STREAM_SCHEDULER`); `None` when the association is not known (any more).
    pub fn stream_scheduler(&self, id: AssociationId) -> Option<StreamScheduler> {
        let index = self.associations.index_of(id)?;
        let association = self.associations.get(index)?;
        Some(association.stream_scheduler())
    }

    /// Has a scheduler decide on which stream an association sends next (RFC 8260 section 4.3.2,
    /// `SCTP_STREAM_SCHEDULER`). Associations begin with that of
    /// [`AssociationConfig::stream_scheduler`](field@crate::AssociationConfig::stream_scheduler). The values of
    /// streams stay.
    ///
    /// # Errors
    ///
    /// When there is no such association.
    pub fn set_stream_scheduler(
        &mut self,
        now: Instant,
        id: AssociationId,
        scheduler: StreamScheduler,
    ) -> Result<(), StreamError> {
        self.with_id(now, id, |association, _| {
            association.set_stream_scheduler(scheduler);
        })
        .ok_or(StreamError::UnknownAssociation)
    }

    /// The weight or priority of an outbound stream (RFC 8260 section 4.3.3,
    /// `SCTP_STREAM_SCHEDULER_VALUE`); `None` when there is no such association or stream.
    pub fn stream_value(&self, id: AssociationId, stream: u16) -> Option<u16> {
        let index = self.associations.index_of(id)?;
        self.associations.get(index)?.stream_value(stream)
    }

    /// Sets the weight of an outbound stream for [`StreamScheduler::WeightedFairQueueing`], or its
    /// priority for [`StreamScheduler::Priority`] (RFC 8260 section 4.3.3,
    /// `SCTP_STREAM_SCHEDULER_VALUE`). It is 0 at first. Other schedulers ignore it.
    ///
    /// # Errors
    ///
    /// When there is no such association or stream.
    pub fn set_stream_value(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: u16,
        value: u16,
    ) -> Result<(), StreamError> {
        self.with_id(now, id, |association, _| {
            association.set_stream_value(stream, value)
        })
        .unwrap_or(Err(StreamError::UnknownAssociation))
    }
}
