//! What a process has used: processor time and memory.

use std::fs;
use std::io;
use std::ops::Sub;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};

/// Processor time of a process, all its threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CpuTime {
    /// In the program, seconds.
    pub user_seconds: f64,
    /// In the kernel on behalf of the program, seconds.
    pub system_seconds: f64,
}

impl CpuTime {
    /// What this process has used since it began; zero where the kernel does not tell.
    pub fn now() -> CpuTime {
        let seconds = |time: TimeVal| {
            let whole = Duration::from_secs(u64::try_from(time.tv_sec()).unwrap_or(0));
            let rest = Duration::from_micros(u64::try_from(time.tv_usec()).unwrap_or(0));
            (whole + rest).as_secs_f64()
        };
        getrusage(UsageWho::RUSAGE_SELF).map_or(CpuTime::default(), |usage| CpuTime {
            user_seconds: seconds(usage.user_time()),
            system_seconds: seconds(usage.system_time()),
        })
    }

    /// Both together, in seconds.
    pub fn total_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

impl Sub for CpuTime {
    type Output = CpuTime;

    fn sub(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user_seconds: (self.user_seconds - earlier.user_seconds).max(0.0),
            system_seconds: (self.system_seconds - earlier.system_seconds).max(0.0),
        }
    }
}

/// The proportional set size of a process in KiB: its memory, with pages that it shares counted in parts.
///
/// # Errors
///
/// When the process is gone, belongs to another user, or the kernel does not tell.
pub fn proportional_set_size_kib(process: u32) -> io::Result<u64> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
    parse_pss(&text).ok_or_else(|| io::Error::other(format!("{path} tells no Pss")))
}

fn parse_pss(text: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix("Pss:")?.trim().strip_suffix("kB")?;
        value.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let before = CpuTime::now();
        let mut sum = 0_u64;
        while (CpuTime::now() - before).total_seconds() < 0.02 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(CpuTime::now().total_seconds() > before.total_seconds());
    }

    #[test]
    fn memory_is_read_from_the_right_line() {
        let text = "55b5-7ffd ---p 00000000 00:00 0  [rollup]\nRss:  1612 kB\nPss:   326 kB\n\
                    Pss_Dirty: 112 kB\n";
        assert_eq!(parse_pss(text), Some(326));
        assert_eq!(parse_pss("Pss_Dirty: 112 kB\n"), None);
        assert_eq!(parse_pss("Pss: many kB\n"), None);
    }

    #[test]
    fn this_process_has_memory_and_no_process_has_none() {
        if let Ok(kib) = proportional_set_size_kib(std::process::id()) {
            assert!(kib > 0);
        }
        let error = proportional_set_size_kib(u32::MAX).unwrap_err();
        assert!(error.to_string().contains("/proc/4294967295"), "{error}");
    }
}
