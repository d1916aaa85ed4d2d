//! What became of registrations.

use super::call::{TIMEOUT_NANOSECONDS, response};
use super::message::{Entry, Kind};
use super::method_code::MethodCode;
use crate::Time;

/// One attempt to register: a REGISTER and, if it was challenged, those that followed with credentials.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    /// The final response that is no challenge: its status. `None` where there was none in time.
    pub(crate) status: Option<u16>,
    /// Nanoseconds from the first REGISTER to the 200, at the user agent (RFC 6076 section 4.1).
    pub(crate) request_delay: Option<i64>,
    /// Nanoseconds that the registrar took for the last REGISTER.
    pub(crate) registrar_delay: Option<i64>,
    /// Whether it cannot be judged: the capture ended before Timer F would have fired.
    pub(crate) is_undecided: bool,
}

/// Whether a REGISTER begins an attempt of its own: not when the one before was challenged.
pub(crate) fn begins_anew(entries: &[Entry], cseq: u32) -> bool {
    let before = entries.iter().rfind(|entry| {
        entry.method == MethodCode::Register && entry.cseq < cseq && entry.status() >= Some(200)
    });
    match before.and_then(Entry::status) {
        Some(status) => !continues(status),
        None => false,
    }
}

/// Judges the attempt that these messages are.
pub(crate) fn judge(entries: &[Entry], now: Time) -> Option<Registration> {
    let requests = || {
        entries.iter().filter(|entry| {
            entry.kind == Kind::Request
                && entry.method == MethodCode::Register
                && !entry.flags.is_retransmission
        })
    };
    let depth = requests().map(|entry| entry.depth).min()?;
    let mut of_user = requests().filter(|entry| entry.depth == depth);
    let first = of_user.next()?;
    let last = of_user.next_back().unwrap_or(first);
    let answer = response(entries, last, 200..=999);
    let ok = answer.filter(|entry| matches!(entry.status(), Some(200..=299)));
    Some(Registration {
        status: answer.and_then(Entry::status),
        request_delay: ok.map(|ok| ok.received - first.sent),
        registrar_delay: ok.map(|ok| ok.sent - last.received),
        is_undecided: answer.is_none() && now - last.sent < TIMEOUT_NANOSECONDS,
    })
}

/// Whether a response asks for another try that belongs to the same attempt: a challenge, or a longer
/// interval (RFC 3261 section 10.3, step 7).
fn continues(status: u16) -> bool {
    matches!(status, 401 | 402 | 407 | 423)
}
