//! The processor time of workers.

use std::ops::Sub;
use std::time::Duration;

use derive_more::AddAssign;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Processor time of the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub struct ProcessorTime {
    /// In the program.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

impl Sub for ProcessorTime {
    type Output = ProcessorTime;

    fn sub(self, earlier: ProcessorTime) -> ProcessorTime {
        ProcessorTime {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// That of the calling thread; none where the system does not tell.
pub(super) fn of_thread() -> ProcessorTime {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else {
        return ProcessorTime::default();
    };
    let time = |microseconds: i64| Duration::from_micros(microseconds.unsigned_abs());
    ProcessorTime {
        user: time(usage.user_time().num_microseconds()),
        system: time(usage.system_time().num_microseconds()),
    }
}
