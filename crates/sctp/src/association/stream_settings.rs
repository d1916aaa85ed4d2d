//! What the user sets for the streams of an association (RFC 8260 section 4.3).

use super::Association;
use crate::{StreamError, StreamScheduler};

impl Association {
    /// Which scheduler decides whose turn it is.
    pub(crate) fn stream_scheduler(&self) -> StreamScheduler {
        self.sender.stream_scheduler()
    }

    /// Has another scheduler decide.
    pub(crate) fn set_stream_scheduler(&mut self, scheduler: StreamScheduler) {
        self.sender.set_stream_scheduler(scheduler);
    }

    /// The weight or priority of a stream; `None` if there is no such stream.
    pub(crate) fn stream_value(&self, stream: u16) -> Option<u16> {
        self.sender.stream_value(stream)
    }

    /// Sets the weight or priority of a stream.
    pub(crate) fn set_stream_value(&mut self, stream: u16, value: u16) -> Result<(), StreamError> {
        self.sender.set_stream_value(stream, value)
    }
}
