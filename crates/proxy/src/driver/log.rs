//! One line in the log for a registration and for a call. What comes from messages is quoted: it may
//! hold anything.

use std::fmt;
use std::time::{Duration, Instant};

use sip::Flow;

use crate::core::{Call, Event, LogLevel, MemberState};

/// How many failed authentications a worker logs in a second: a password guesser must not fill the disk.
const FAILURES_PER_SECOND: u32 = 10;

/// What a worker writes to the log.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// When the present second began.
    second: Option<Instant>,
    /// Failed authentications in it.
    failures: u32,
    /// Failed authentications since the last one that was logged.
    unlogged: u64,
}

impl Log {
    /// Whether anybody reads what is said of calls and registrations that go well.
    pub(super) fn is_read() -> bool {
        tracing::enabled!(tracing::Level::INFO)
    }

    /// Writes an event of the core.
    pub(super) fn write(&mut self, now: Instant, event: &Event) {
        if let Event::AuthenticationFailed {
            realm,
            username,
            flow,
        } = event
        {
            if self.may_log_failure(now) {
                tracing::warn!(
                    realm = ?realm,
                    username = ?username,
                    flow = %DisplayFlow(flow),
                    untold = std::mem::take(&mut self.unlogged),
                    "authentication failed"
                );
            } else {
                self.unlogged += 1;
            }
        }
        write(event);
    }

    fn may_log_failure(&mut self, now: Instant) -> bool {
        let is_new = self
            .second
            .is_none_or(|begun| now.saturating_duration_since(begun) >= Duration::from_secs(1));
        if is_new {
            self.second = Some(now);
            self.failures = 0;
        }
        self.failures += 1;
        self.failures <= FAILURES_PER_SECOND
    }
}

fn write(event: &Event) {
    match event {
        Event::Registered {
            address,
            contact,
            flow,
            expires,
        } => tracing::info!(
            user = ?address.as_str(),
            contact = ?contact,
            flow = %DisplayFlow(flow),
            expires_seconds = expires.as_secs(),
            "registered"
        ),
        Event::Unregistered {
            address,
            contact,
            flow,
        } => tracing::info!(
            user = ?address.as_str(),
            contact = ?contact,
            flow = %DisplayFlow(flow),
            "unregistered"
        ),
        // Written by [`Log::write`], which counts them.
        Event::AuthenticationFailed { .. } => {}
        Event::CallStarted(call) => {
            let Call {
                call_id,
                caller,
                callee,
                ..
            } = &**call;
            tracing::debug!(caller = ?caller, callee = ?callee, call_id = ?call_id, "call started");
        }
        Event::CallAnswered(answered) => {
            let Call {
                call_id,
                caller,
                callee,
                ..
            } = &*answered.call;
            tracing::info!(caller = ?caller, callee = ?callee, outcome = "answered", call_id = ?call_id, "call");
        }
        Event::CallFailed {
            call,
            status,
            reason,
            ..
        } => tracing::info!(
            caller = ?call.caller,
            callee = ?call.callee,
            outcome = ?format_args!("{status} {reason}"),
            call_id = ?call.call_id,
            "call"
        ),
        Event::NextHop {
            transport,
            remote,
            outcome,
        } => tracing::debug!(%transport, %remote, ?outcome, "next hop failed"),
        Event::Member {
            group,
            uri,
            state: MemberState::Up,
        } => tracing::info!(group = %group, member = %uri, "member is up"),
        Event::Member {
            group,
            uri,
            state: MemberState::Down { .. },
        } => tracing::warn!(group = %group, member = %uri, "member is down"),
        Event::CallTagged { .. } => {}
        Event::PluginLog {
            plugin,
            level,
            text,
        } => match level {
            LogLevel::Debug => tracing::debug!(plugin = %plugin, "{}", text.escape_debug()),
            LogLevel::Info => tracing::info!(plugin = %plugin, "{}", text.escape_debug()),
            LogLevel::Warn => tracing::warn!(plugin = %plugin, "{}", text.escape_debug()),
            LogLevel::Error => tracing::error!(plugin = %plugin, "{}", text.escape_debug()),
        },
        Event::PluginFailed {
            plugin,
            hook,
            error,
        } => tracing::error!(plugin = %plugin, hook, error = ?error, "plugin failed"),
        Event::CallEnded { call_id, .. } => tracing::debug!(call_id = ?call_id, "call ended"),
    }
}

/// A flow for readers.
struct DisplayFlow<'a>(&'a Flow);

impl fmt::Display for DisplayFlow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flow {
            transport,
            remote,
            stream,
            ..
        } = self.0;
        write!(f, "{transport}:{remote}")?;
        if *stream != 0 {
            write!(f, " stream {stream}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_guesses_passwords_does_not_fill_the_log() {
        let mut log = Log::default();
        let begun = Instant::now();
        let is_logged =
            |log: &mut Log, at: u64| log.may_log_failure(begun + Duration::from_millis(at));
        let first = (0..999).filter(|at| is_logged(&mut log, *at)).count();
        let second = (1000..1999).filter(|at| is_logged(&mut log, *at)).count();
        assert_eq!((first, second), (10, 10));
    }
}
