//! Times as people read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Time;

/// A time by the clock of its day, UTC, with milliseconds: `08:29:49.123`.
pub fn time_of_day(time: Time) -> String {
    let text = humantime::format_rfc3339_millis(system_time(time)).to_string();
    match text.split_once('T') {
        Some((_, time)) => time.trim_end_matches('Z').to_owned(),
        None => text,
    }
}

/// A time as the clock of this machine has it; one before 1970 is the beginning of that.
pub(super) fn system_time(time: Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(time.0).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_time_has_a_time_of_day() {
        assert_eq!(time_of_day(Time(1_700_000_000_250_000_000)), "22:13:20.250");
        assert_eq!(time_of_day(Time(i64::MIN)), "00:00:00.000");
        assert_eq!(time_of_day(Time(i64::MAX)), "23:47:16.854");
    }
}
