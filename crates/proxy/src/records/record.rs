//! What stands in a line.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;

use crate::core::EndedBy;

/// The record of a call. Times are UTC, as RFC 3339 writes them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Record {
    pub(super) call_id: String,
    /// The URI in From.
    pub(super) caller: String,
    /// The URI that was called.
    pub(super) callee: String,
    /// Transport and address that the INVITE came from.
    pub(super) source: String,
    /// Transport and address of the next hop that answered it.
    pub(super) destination: Option<String>,
    /// When the INVITE was taken on.
    pub(super) start: Option<String>,
    /// When it was answered with a 2xx.
    pub(super) answer: Option<String>,
    /// When the BYE was answered, or the call failed. Missing where nobody saw the end.
    pub(super) end: Option<String>,
    /// From start to answer, or to failure.
    pub(super) setup_seconds: Option<f64>,
    /// From answer to end.
    pub(super) talk_seconds: Option<f64>,
    /// The final response to the INVITE.
    pub(super) status: Option<u16>,
    /// Its reason phrase, where it was no 2xx.
    pub(super) reason: Option<String>,
    /// Who has ended it: `caller` by BYE or CANCEL, `callee` by BYE or by refusing, else `proxy`.
    pub(super) ended_by: Option<&'static str>,
    /// What plugins have noted, by names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tags: Tags,
}

/// What plugins note of a call.
pub(super) type Tags = BTreeMap<Box<str>, Box<str>>;

impl Record {
    /// The line, with its end.
    pub(super) fn to_line(&self) -> Vec<u8> {
        // Only maps with keys that are no text, and writers that fail, could make it fail.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// Who has ended a call, as it stands in a record.
pub(super) fn name_of(ended_by: EndedBy) -> &'static str {
    match ended_by {
        EndedBy::Caller => "caller",
        EndedBy::Callee => "callee",
        EndedBy::Proxy => "proxy",
    }
}

/// A time as it stands in a record, in milliseconds.
pub(super) fn written(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

/// The seconds between two times, to the millisecond; none where the clock was set back.
pub(super) fn seconds(from: SystemTime, to: SystemTime) -> f64 {
    let milliseconds = to.duration_since(from).unwrap_or_default().as_millis();
    milliseconds as f64 / 1000.0
}
