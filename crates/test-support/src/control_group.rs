//! Programs held to a part of a processor by the kernel.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A control group of the kernel's CPU controller, of version 1 or 2. It goes when it is dropped, if its processes have
/// ended by then.
#[derive(Debug)]
pub struct ControlGroup {
    directory: PathBuf,
}

impl ControlGroup {
    /// One whose processes may use, all together, `quota` of a processor's time in each `period`.
    ///
    /// # Errors
    /// Where there is no controller, or it is not ours to use: such as in a container that cannot write there, or has
    /// no controllers to hand on.
    pub fn new(quota: Duration, period: Duration) -> io::Result<ControlGroup> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tandem-{}-{number}", std::process::id());
        let (quota, period) = (quota.as_micros(), period.as_micros());
        let (root, settings) = match Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            true => {
                let root = Path::new("/sys/fs/cgroup");
                enable_cpu_controller(root)?;
                (root, vec![("cpu.max", format!("{quota} {period}"))])
            }
            false => {
                let settings = vec![
                    ("cpu.cfs_period_us", period.to_string()),
                    ("cpu.cfs_quota_us", quota.to_string()),
                ];
                (Path::new("/sys/fs/cgroup/cpu"), settings)
            }
        };
        let directory = root.join(name);
        fs::create_dir(&directory)?;
        let group = ControlGroup { directory };
        for (file, value) in settings {
            fs::write(group.directory.join(file), value)?;
        }
        Ok(group)
    }

    /// Puts a process into it, with all its threads.
    ///
    /// # Errors
    /// The kernel's, such as for a process that has ended.
    pub fn take_in(&self, process: u32) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.procs"), process.to_string())
    }
}

/// Hands the CPU controller on to the groups below one, unless it has been handed on to them already.
fn enable_cpu_controller(root: &Path) -> io::Result<()> {
    const FILE: &str = "cgroup.subtree_control";
    let has_cpu = |file: &str| {
        let names = fs::read_to_string(root.join(file)).unwrap_or_default();
        names.split_whitespace().any(|name| name == "cpu")
    };
    if has_cpu(FILE) {
        return Ok(());
    }
    if !has_cpu("cgroup.controllers") {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "there is no cpu controller here",
        ));
    }
    // A group that is not the host's own cannot both have processes and hand controllers on: the kernel refuses.
    fs::write(root.join(FILE), "+cpu").map_err(|error| {
        let why = format!("the cpu controller cannot be handed on: {error}");
        io::Error::new(error.kind(), why)
    })
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // It goes when the last of its processes has.
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_handed_on_where_that_can_be_and_has_not_been() {
        let root = std::env::temp_dir().join(format!("tandem-groups-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let set = |file: &str, text: &str| fs::write(root.join(file), text).unwrap();
        let handed_on = || fs::read_to_string(root.join("cgroup.subtree_control")).unwrap();
        set("cgroup.controllers", "memory");
        let error = enable_cpu_controller(&root).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        set("cgroup.controllers", "cpuset cpu memory");
        enable_cpu_controller(&root).unwrap();
        assert_eq!(handed_on(), "+cpu");
        set("cgroup.subtree_control", "memory cpu");
        enable_cpu_controller(&root).unwrap();
        assert_eq!(handed_on(), "memory cpu");
        fs::remove_dir_all(&root).unwrap();
    }
}
