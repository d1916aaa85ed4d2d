//! What is written down while a run goes on: why calls fail, and what scenarios say.

use crate::record::{CallId, Failure};

/// Something that is to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// An attempt has failed.
    Failed {
        /// Its Call-ID.
        call_id: CallId,
        /// The name of its script.
        script: String,
        /// The number of the step, from 0, and what it is for.
        step: (u16, String),
        /// Why.
        failure: Failure,
        /// The message that made it fail, if one did.
        message: Option<Box<[u8]>>,
    },
    /// A scenario says something.
    Logged {
        /// What.
        text: Vec<u8>,
        /// Whether somebody should look at it.
        is_warning: bool,
    },
}
