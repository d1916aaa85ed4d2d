//! What the process itself uses.

use std::time::{Duration, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};

/// A snapshot of the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Process {
    /// CPU time of all threads, in user and system mode.
    pub(crate) cpu: Duration,
    /// Resident memory, in bytes; `None` where the system does not tell.
    pub(crate) resident_bytes: Option<u64>,
    /// Open file descriptors; `None` where the system does not tell.
    pub(crate) descriptors: Option<u64>,
    /// When it was started, as near as the first look at it.
    pub(crate) started: SystemTime,
}

impl Process {
    pub(crate) fn now(started: SystemTime) -> Process {
        let status = std::fs::read_to_string("/proc/self/status").ok();
        let descriptors = std::fs::read_dir("/proc/self/fd").ok();
        Process {
            cpu: cpu_time().unwrap_or_default(),
            resident_bytes: status.as_deref().and_then(resident_bytes),
            descriptors: descriptors.map(|entries| entries.count() as u64),
            started,
        }
    }
}

fn cpu_time() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let times = [usage.user_time(), usage.system_time()];
    let each = times.map(|time| {
        let microseconds =
            u64::try_from(time.tv_sec()).ok()? * 1_000_000 + u64::try_from(time.tv_usec()).ok()?;
        Some(Duration::from_micros(microseconds))
    });
    Some(each[0]? + each[1]?)
}

/// Reads `VmRSS:     5308 kB` (proc_pid_status(5)).
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_uses_something() {
        let process = Process::now(SystemTime::now());
        assert!(process.cpu > Duration::ZERO);
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 100_000));
        assert!(process.descriptors.is_some_and(|count| count >= 3));
    }

    #[test]
    fn memory_is_read_from_its_line() {
        assert_eq!(
            resident_bytes("Name:\ttandem\nVmRSS:\t    5308 kB\n"),
            Some(5308 * 1024)
        );
        assert_eq!(resident_bytes("VmRSS: much"), None);
        assert_eq!(resident_bytes(""), None);
    }
}
