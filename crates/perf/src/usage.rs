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

    /// What a process has used since it began, its threads together.
    ///
    /// # Errors
    ///
    /// When the process is gone, or the kernel does not tell.
    pub fn of(process: u32) -> io::Result<CpuTime> {
        let path = format!("/proc/{process}/stat");
        let text = fs::read_to_string(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
        parse_stat(&text).ok_or_else(|| io::Error::other(format!("{path} has no times")))
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

/// The memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// The proportional set size, KiB: pages that it shares, such as those of its program, count in parts, so it
    /// changes with who else runs that program.
    pub proportional_kib: u64,
    /// Pages that are of no file, KiB: heap and stacks.
    pub anonymous_kib: u64,
}

impl Memory {
    /// What a process has now.
    ///
    /// # Errors
    ///
    /// When the process is gone, belongs to another user, or the kernel does not tell.
    pub fn of(process: u32) -> io::Result<Memory> {
        let path = format!("/proc/{process}/smaps_rollup");
        let text = fs::read_to_string(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
        let kib = |name: &str| {
            parse_kib(&text, name).ok_or_else(|| io::Error::other(format!("{path} has no {name}")))
        };
        Ok(Memory {
            proportional_kib: kib("Pss:")?,
            anonymous_kib: kib("Anonymous:")?,
        })
    }
}

/// The proportional set size of a process in KiB: its memory, with pages that it shares counted in parts.
///
/// # Errors
///
/// Those of [`Memory::of`].
pub fn proportional_set_size_kib(process: u32) -> io::Result<u64> {
    Ok(Memory::of(process)?.proportional_kib)
}

fn parse_kib(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix(name)?.trim().strip_suffix("kB")?;
        value.trim().parse().ok()
    })
}

/// Fields 14 and 15 of proc_pid_stat(5). The name before them may hold anything, brackets too.
fn parse_stat(text: &str) -> Option<CpuTime> {
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut seconds = || Some(fields.next()?.parse::<u64>().ok()? as f64 / TICKS_PER_SECOND);
    Some(CpuTime {
        user_seconds: seconds()?,
        system_seconds: seconds()?,
    })
}

/// USER_HZ, in which Linux tells times to programs on all machines of today (time(7)).
const TICKS_PER_SECOND: f64 = 100.0;

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
                    Pss_Dirty: 112 kB\nAnonymous:   88 kB\n";
        assert_eq!(parse_kib(text, "Pss:"), Some(326));
        assert_eq!(parse_kib(text, "Anonymous:"), Some(88));
        assert_eq!(parse_kib("Pss_Dirty: 112 kB\n", "Pss:"), None);
        assert_eq!(parse_kib("Pss: many kB\n", "Pss:"), None);
    }

    #[test]
    fn times_of_a_process_are_read_from_the_right_fields() {
        let text = "42 (a) b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 75 0 0 20 0 1 0 5 6 7";
        let times = parse_stat(text).unwrap();
        assert_eq!((times.user_seconds, times.system_seconds), (2.5, 0.75));
        for broken in [
            "",
            "42 (a",
            "42 (a) S 1 2 3",
            "42 (a) S 1 1 1 1 1 1 1 1 1 1 x y",
        ] {
            assert_eq!(parse_stat(broken), None, "{broken}");
        }
        assert!(CpuTime::of(u32::MAX).is_err());
    }

    #[test]
    fn this_process_has_memory_and_no_process_has_none() {
        if let Ok(kib) = proportional_set_size_kib(std::process::id()) {
            assert!(kib > 0);
            let memory = Memory::of(std::process::id()).expect("it was told before");
            assert!(memory.anonymous_kib > 0);
        }
        let error = proportional_set_size_kib(u32::MAX).unwrap_err();
        assert!(error.to_string().contains("/proc/4294967295"), "{error}");
    }
}
