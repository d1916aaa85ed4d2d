//! Ends of a comparison as processes of their own, which tell what they measured in lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How much longer than it should a process may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running process; dropping it ends it.
pub(crate) struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts `command`. What it prints as errors is printed here.
    pub(crate) fn start(name: &str, command: &mut Command) -> anyhow::Result<Process> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdout = child.stdout.take().context("the process has no output")?;
        Ok(Process {
            name: name.to_owned(),
            child,
            lines: read_lines(stdout),
        })
    }

    /// Starts this program in another role.
    pub(crate) fn start_role(role: &str) -> anyhow::Result<Process> {
        let program = std::env::current_exe().context("this program's file")?;
        Process::start(role, Command::new(program).args(["role", "--role", role]))
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end at once, and waits until it has, if that does not take long: it may have processes
    /// of its own to end.
    pub(crate) fn end(&mut self) {
        let id = Pid::from_raw(self.child.id().cast_signed());
        kill(id, Signal::SIGINT).ok();
        test_support::wait_until(PATIENCE, || !matches!(self.child.try_wait(), Ok(None)));
    }

    /// The next report of the process, which should take `expected` or so.
    pub(crate) fn read_report<T: DeserializeOwned>(
        &mut self,
        expected: Duration,
    ) -> anyhow::Result<T> {
        let line = match self.lines.recv_timeout(expected + PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => bail!("{} does not come to an end", self.name),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait()?;
                bail!("{} ended early: {status}", self.name);
            }
        };
        serde_json::from_str(&line).with_context(|| format!("{} said {line:?}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already, as a rule.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Prints a report of this process, which [`Process::read_report`] reads.
pub(crate) fn print_report(report: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(report)?)?;
    out.flush()?;
    Ok(())
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
