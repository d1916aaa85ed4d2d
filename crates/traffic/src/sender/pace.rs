//! Sending at the right time.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use measures::{DelaySummary, Delays};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use super::path::Path;
use crate::clock::{self, Timestamp};
use crate::composer::Composer;
use crate::plan::Limit;
use crate::schedule::Schedule;

/// How many packets that are due leave together.
const BATCH: usize = 64;

/// Octets that leave together, but for a single packet that is larger.
const BATCH_OCTETS: usize = 256 * 1024;

/// How long a wait is at most, so that an end that somebody wants is seen.
const LOOK: Duration = Duration::from_millis(20);

/// How sending went.
#[derive(Debug)]
pub(super) struct Pacing {
    pub(super) seconds: f64,
    pub(super) lateness: DelaySummary,
    pub(super) refused: u64,
    pub(super) interrupted: bool,
    /// Of this thread.
    pub(super) cpu_seconds: f64,
}

/// Sends a run. Whoever wakes late catches up, so that in the end as many packets have left as there should
/// have, if the transport takes them.
pub(super) fn run(
    path: &mut Path,
    composer: &mut Composer,
    mut schedule: Schedule,
    limit: Limit,
    stop: &AtomicBool,
    mut progress: impl FnMut(Duration, u64, (u64, Option<f64>)),
) -> anyhow::Result<Pacing> {
    // Threads are woken up to 50 µs late unless they ask for better.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).ok();
    let mut lateness = Delays::new();
    let mut refused = 0;
    let mut interrupted = false;
    let mut octets = Vec::new();
    let mut ends = Vec::with_capacity(BATCH);
    let cpu_before = thread_seconds();
    let start = clock::now();
    let mut next_progress = start.after(Duration::from_secs(1));
    let most = match limit {
        Limit::Packets(packets) => packets,
        Limit::Seconds(_) => u64::MAX,
    };
    let deadline = match limit {
        Limit::Packets(_) => Timestamp(u64::MAX),
        Limit::Seconds(time) => start.after(time),
    };
    let mut due = start.after(schedule.next_departure());
    loop {
        if stop.load(Ordering::Relaxed) {
            interrupted = true;
            break;
        }
        octets.clear();
        ends.clear();
        let mut now = clock::now();
        while now >= due
            && due < deadline
            && now < deadline
            && composer.count() < most
            && ends.len() < BATCH
            && octets.len() < BATCH_OCTETS
        {
            // As fast as it goes there is no time to be late for.
            if schedule.has_rate() {
                lateness.record(now.since(due).unwrap_or_default());
            }
            composer.write(clock::now, &mut octets);
            ends.push(octets.len());
            due = start.after(schedule.next_departure());
            now = clock::now();
        }
        if !ends.is_empty() {
            refused += path.send(&octets, &ends, deadline)?;
        } else if composer.count() >= most || due >= deadline || now >= deadline {
            break;
        } else {
            thread::sleep(due.since(now).unwrap_or_default().min(LOOK));
        }
        if now >= next_progress {
            next_progress = now.after(Duration::from_secs(1));
            let elapsed = now.since(start).unwrap_or_default();
            progress(elapsed, composer.count(), path.echoed());
        }
    }
    let seconds = clock::now().since(start).unwrap_or_default().as_secs_f64();
    Ok(Pacing {
        seconds,
        lateness: lateness.milliseconds(),
        refused,
        interrupted,
        cpu_seconds: thread_seconds() - cpu_before,
    })
}

/// Processor time of this thread.
fn thread_seconds() -> f64 {
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0.0, |usage| {
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}
