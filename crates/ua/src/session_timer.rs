//! Session timers (RFC 4028): a call whose other side has gone without a word ends after a while.

use std::time::{Duration, Instant};

use sip::{Message, Name};

/// The shortest interval that anybody may ask for (section 4).
pub(crate) const LEAST: Duration = Duration::from_secs(90);

/// The timer of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionTimer {
    /// The session interval.
    pub(crate) interval: Duration,
    /// Whether we refresh; else the other side does.
    pub(crate) is_ours: bool,
    /// When the session was last refreshed.
    refreshed: Instant,
}

impl SessionTimer {
    /// What a 2xx of the other side to our request says (section 7.2); `None` without a timer.
    pub(crate) fn of_response(now: Instant, response: &Message) -> Option<SessionTimer> {
        let (interval, refresher) = session_expires(response)?;
        Some(SessionTimer {
            // A shorter one is against the rules, and would have us refresh without pause.
            interval: interval.max(LEAST),
            is_ours: refresher != Some(Refresher::Uas),
            refreshed: now,
        })
    }

    /// What we put into the 2xx to a request (section 9): the timer that it asks for, if it does. The caller refreshes unless
    /// it wants us to, or does not know how to.
    pub(crate) fn of_request(now: Instant, request: &Message) -> Option<SessionTimer> {
        let (interval, refresher) = session_expires(request)?;
        let knows = request
            .text_values(Name::Supported)
            .any(|option| option.eq_ignore_ascii_case("timer"));
        Some(SessionTimer {
            interval: interval.max(LEAST),
            is_ours: !knows || refresher == Some(Refresher::Uas),
            refreshed: now,
        })
    }

    /// A timer that nobody has asked for (section 9): we refresh.
    pub(crate) fn ours(now: Instant, interval: Duration) -> SessionTimer {
        SessionTimer {
            interval,
            is_ours: true,
            refreshed: now,
        }
    }

    /// Writes Session-Expires into our 2xx; the refresher is told by its role in this transaction.
    pub(crate) fn write_response(&self, response: &mut Message) {
        let refresher = if self.is_ours { "uas" } else { "uac" };
        let seconds = self.interval.as_secs();
        response.push_back(
            Name::SessionExpires,
            format!("{seconds};refresher={refresher}"),
        );
        if !self.is_ours {
            response.push_back(Name::Require, "timer");
        }
    }

    /// The session was refreshed.
    pub(crate) fn refresh(&mut self, now: Instant) {
        self.refreshed = now;
    }

    /// When we refresh, or else hang up (section 10): at half of the interval, or before it ends by a third of it, at most by
    /// 32 seconds.
    pub(crate) fn due(&self) -> Instant {
        let early = Duration::from_secs(32).min(self.interval / 3);
        let wait = if self.is_ours {
            self.interval / 2
        } else {
            self.interval - early
        };
        self.refreshed + wait
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refresher {
    Uac,
    Uas,
}

fn session_expires(message: &Message) -> Option<(Duration, Option<Refresher>)> {
    let value = message.header(Name::SessionExpires)?;
    let (seconds, parameters) = value.split_once(';').unwrap_or((value, ""));
    let seconds = seconds.trim().parse::<u32>().ok()?;
    let refresher = parameters
        .split(';')
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("refresher"))
        .and_then(
            |(_, role)| match role.trim().to_ascii_lowercase().as_str() {
                "uac" => Some(Refresher::Uac),
                "uas" => Some(Refresher::Uas),
                _ => None,
            },
        );
    Some((Duration::from_secs(u64::from(seconds)), refresher))
}

#[cfg(test)]
mod tests {
    use sip::Method;

    use super::*;

    fn request(value: &str, supported: &str) -> Message {
        Message::request(Method::Invite, "sip:bob@example.org")
            .with(Name::SessionExpires, value)
            .with(Name::Supported, supported)
    }

    #[test]
    fn the_caller_refreshes_if_it_can() {
        let now = Instant::now();
        let timer = SessionTimer::of_request(now, &request("600", "timer")).unwrap();
        assert!(!timer.is_ours);
        assert_eq!(timer.due(), now + Duration::from_secs(568));
        let timer = SessionTimer::of_request(now, &request("600", "100rel")).unwrap();
        assert!(timer.is_ours);
        assert_eq!(timer.due(), now + Duration::from_secs(300));
        let timer = SessionTimer::of_request(now, &request("600;refresher=uas", "timer")).unwrap();
        assert!(timer.is_ours);
        assert_eq!(
            SessionTimer::of_request(now, &request("soon", "timer")),
            None
        );
        let short = SessionTimer::of_request(now, &request("1", "timer")).unwrap();
        assert_eq!(short.interval, LEAST);
    }

    #[test]
    fn an_answer_cannot_make_us_refresh_without_pause() {
        let now = Instant::now();
        let response = request("0;refresher=uac", "timer");
        let timer = SessionTimer::of_response(now, &response).unwrap();
        assert!(timer.is_ours);
        assert_eq!(timer.due(), now + LEAST / 2);
    }
}
