//! What a process and its children use, from /proc.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// CPU time, the kernel's on behalf of the processes included, and memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// Proportional set size: what processes share counts once.
    pub(crate) bytes: u64,
}

impl Usage {
    /// Of a process and its children.
    pub(crate) fn of_tree(root: u32) -> anyhow::Result<Usage> {
        let mut sum = Usage::default();
        for id in std::iter::once(root).chain(children(root)?) {
            sum.cpu += cpu(id)?;
            sum.bytes += proportional_set_size(id)?;
        }
        Ok(sum)
    }
}

/// The processes that a process has started.
fn children(of: u32) -> anyhow::Result<Vec<u32>> {
    let file = format!("/proc/{of}/task/{of}/children");
    let text = fs::read_to_string(&file).context(file)?;
    text.split_whitespace()
        .map(|id| id.parse().context("a process id"))
        .collect()
}

/// The time that all threads of a process were on a CPU, in user and kernel mode: the scheduler
/// counts nanoseconds, where /proc/PID/stat counts hundredths of a second.
fn cpu(of: u32) -> anyhow::Result<Duration> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{of}/task"))? {
        let file = thread?.path().join("schedstat");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let first = text.split_whitespace().next().unwrap_or_default();
        nanoseconds += first.parse::<u64>().context("schedstat")?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

fn proportional_set_size(of: u32) -> anyhow::Result<u64> {
    let file = format!("/proc/{of}/smaps_rollup");
    let text = fs::read_to_string(&file).with_context(|| file.clone())?;
    let kibibytes: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse().ok())
        .with_context(|| format!("{file} has no Pss"))?;
    Ok(kibibytes * 1024)
}
