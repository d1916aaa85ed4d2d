//! Programs that run in namespaces.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Identity;

/// A program in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its process.
    pub process: u32,
    /// Its name, as the kernel has it: up to 15 octets.
    pub name: String,
}

/// How often is looked whether programs have ended.
const LOOK: Duration = Duration::from_millis(10);

/// Ends the programs for which `is_meant` holds, by their process and network namespace: asks them (SIGTERM), and
/// after `timeout` does not ask any more (SIGKILL). The calling process is spared. Returns what was running.
///
/// An [`Identity`] belongs to another namespace once the one that had it is gone, so whoever goes by it alone must
/// hold the namespaces meanwhile.
pub fn end_programs(is_meant: impl Fn(u32, Identity) -> bool, timeout: Duration) -> Vec<Program> {
    let found = programs(&is_meant);
    for program in &found {
        signal(program, Signal::SIGTERM);
    }
    let end = Instant::now() + timeout;
    let mut left = found.clone();
    while !left.is_empty() && Instant::now() < end {
        std::thread::sleep(LOOK);
        left = programs(&is_meant);
    }
    // Those which start others meanwhile are caught in a later turn; the bound is for what cannot be ended.
    for _ in 0..10 {
        if left.is_empty() {
            break;
        }
        for program in &left {
            signal(program, Signal::SIGKILL);
        }
        std::thread::sleep(LOOK);
        left = programs(&is_meant);
    }
    found
}

fn signal(program: &Program, signal: Signal) {
    if let Ok(process) = i32::try_from(program.process) {
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(process), signal);
    }
}

/// The programs for which `is_meant` holds, but for the calling one.
fn programs(is_meant: &impl Fn(u32, Identity) -> bool) -> Vec<Program> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|process| *process != own)
        .filter_map(|process: u32| {
            let directory = PathBuf::from(format!("/proc/{process}"));
            let namespace = File::open(directory.join("ns/net")).ok()?;
            // What has ended and is not yet waited for has no namespace any more, and is not found here.
            let is_meant = Identity::of(&namespace).is_ok_and(|inside| is_meant(process, inside));
            is_meant.then(|| Program {
                process,
                name: fs::read_to_string(directory.join("comm"))
                    .unwrap_or_default()
                    .trim_end()
                    .to_owned(),
            })
        })
        .collect()
}
