//! Times as the parts reckon them: nanoseconds since the link's beginning.

use std::time::Duration;

/// The longest time that is told apart from longer ones, about 73 years: sums of three stay in
/// range, for the type and for the clock.
pub(crate) const LONGEST: u64 = u64::MAX / 8;

/// A span of time, at most [`LONGEST`].
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(LONGEST, |nanoseconds| nanoseconds.min(LONGEST))
}
