//! The time of day, for those who are to be told it (Date, RFC 3261 section 20.17).

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Knows the time of day at an instant, and writes it once a second.
#[derive(Debug, Default)]
pub(super) struct Clock {
    known: Option<(Instant, SystemTime)>,
    /// The second that was written last, and how.
    written: Option<(u64, String)>,
}

impl Clock {
    /// Takes notice of the time of day.
    pub(super) fn set(&mut self, now: Instant, time: SystemTime) {
        self.known = Some((now, time));
    }

    /// The value of a Date field, where the time is known.
    pub(super) fn date(&mut self, now: Instant) -> Option<&str> {
        let (then, time) = self.known?;
        let time = time.checked_add(now.saturating_duration_since(then))?;
        let second = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
        if self
            .written
            .as_ref()
            .is_none_or(|(last, _)| *last != second)
        {
            self.written = Some((second, httpdate::fmt_http_date(time)));
        }
        self.written.as_ref().map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_date_goes_on_from_what_is_known() {
        let now = Instant::now();
        let mut clock = Clock::default();
        assert_eq!(clock.date(now), None);
        clock.set(now, UNIX_EPOCH + Duration::from_millis(784_111_776_500));
        assert_eq!(clock.date(now), Some("Sun, 06 Nov 1994 08:49:36 GMT"));
        let later = now + Duration::from_millis(500);
        assert_eq!(clock.date(later), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        clock.set(later, UNIX_EPOCH);
        assert_eq!(clock.date(later), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
    }
}
