//! SIPp with its built-in scenarios `uac` and `uas`.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use sip::Transport;
use tempfile::TempDir;

use super::{Calls, Taken, UNDER_WAY};
use crate::sipp;

/// How much longer than planned SIPp may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The installed program.
pub(super) struct Peer {
    program: PathBuf,
    directory: TempDir,
}

impl Peer {
    /// Installs it where it is missing.
    pub(super) fn find() -> anyhow::Result<Peer> {
        let program =
            test_support::require_command("sipp", "sip-tester").context("SIPp cannot be had")?;
        Ok(Peer {
            program,
            directory: tempfile::tempdir()?,
        })
    }

    /// Makes calls, callers in one process and callees in another.
    pub(super) fn call(&self, calls: Calls) -> anyhow::Result<Taken> {
        let port = test_support::free_udp_port().to_string();
        let before = cpu_of_children()?;
        let callees = self
            .command("uas", calls.transport)
            .args(["-p", &port])
            .spawn()
            .context("SIPp")?;
        // It says nothing when it is ready.
        thread::sleep(Duration::from_millis(300));
        let statistics = self.directory.path().join("uac.csv");
        fs::remove_file(&statistics).ok();
        let (rate, limit) = match calls.per_second {
            Some(rate) => (rate, calls.count),
            None => (100_000, UNDER_WAY),
        };
        let begun = Instant::now();
        let callers = self
            .command("uac", calls.transport)
            .args(["-m", &calls.count.to_string()])
            .args(["-r", &rate.to_string(), "-l", &limit.to_string()])
            .args(["-d", &calls.hold.as_millis().to_string()])
            .args(["-trace_stat", "-fd", "1", "-stf"])
            .arg(&statistics)
            .arg(format!("127.0.0.1:{port}"))
            .spawn()
            .context("SIPp")?;
        let planned = calls.per_second.map_or(PATIENCE, |rate| {
            Duration::from_secs_f64(calls.count as f64 / rate as f64)
        });
        wait(callers, planned + calls.hold + PATIENCE)?;
        let time = begun.elapsed();
        wait(callees, Duration::ZERO)?;
        let after = cpu_of_children()?;
        let completed = sipp::successful(&fs::read_to_string(&statistics)?)? as f64;
        ensure!(completed > 0.0, "SIPp made no calls");
        let user = after.0.saturating_sub(before.0).as_secs_f64();
        let system = after.1.saturating_sub(before.1).as_secs_f64();
        Ok([
            (user + system) * 1e6 / completed,
            user * 1e6 / completed,
            completed / time.as_secs_f64(),
        ])
    }

    fn command(&self, scenario: &str, transport: Transport) -> Command {
        let over = match transport {
            Transport::Tcp => "t1",
            _ => "u1",
        };
        let mut command = Command::new(&self.program);
        command
            .args(["-sn", scenario, "-i", "127.0.0.1", "-t", over])
            .args(["-nostdin", "-buff_size", "4194304"])
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// Waits until a process has ended, and ends it when it takes longer.
fn wait(mut child: Child, limit: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() >= limit {
            child.kill().ok();
            child.wait()?;
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// User and system time of all processes that were waited for.
pub(super) fn cpu_of_children() -> anyhow::Result<(Duration, Duration)> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let time = |microseconds: i64| Duration::from_micros(microseconds.unsigned_abs());
    Ok((
        time(usage.user_time().num_microseconds()),
        time(usage.system_time().num_microseconds()),
    ))
}
