//! CPU time, user and system together.

use std::time::Duration;

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// CPU time of the calling thread.
pub(crate) fn of_thread() -> anyhow::Result<Duration> {
    used(UsageWho::RUSAGE_THREAD)
}

/// CPU time of this process with all its threads.
pub(crate) fn of_process() -> anyhow::Result<Duration> {
    used(UsageWho::RUSAGE_SELF)
}

fn used(who: UsageWho) -> anyhow::Result<Duration> {
    let usage = getrusage(who).context("getrusage")?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(microseconds.unsigned_abs()))
}
