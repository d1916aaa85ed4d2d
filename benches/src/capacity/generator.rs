//! `tandem load` as a process: callers and callees, or users who register.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use sip::Transport;

use crate::sip_servers::Ports;

/// From the 180 to the 200, and from the ACK to the BYE.
const RINGING: &str = "20ms";
const TALKING: &str = "20ms";

/// Callers, and as many callees. Each of them has a few calls at a time.
const CALLERS: &str = "500";

/// Users who register again and again, one registration each at a time.
const REGISTERING: &str = "10000";

/// How much longer than planned a run may take, with what precedes the calls and follows them. What is not done by
/// then has failed.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long the program may take to end.
const ENDING: Duration = Duration::from_secs(20);

/// A rate is held while the 99th percentile of the delays is shorter.
const LIMIT_MS: f64 = 50.0;

/// Busier than this, the generator is taken for the limit.
const BUSY: f64 = 0.9;

/// What the users do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Call(Transport),
    Register,
}

/// How often, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadStep {
    pub(crate) per_second: u32,
    pub(crate) time: Duration,
}

/// What became of it.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) offered: u64,
    pub(crate) completed: u64,
    /// Session request delay, or registration request delay (RFC 6076).
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// How much later than due attempts began.
    pub(crate) late_p99_ms: f64,
    /// The part of its core that the generator used.
    pub(crate) busy: f64,
    /// The generator kept its schedule.
    pub(crate) valid: bool,
}

/// The program.
pub(super) struct Generator {
    program: &'static Path,
    directory: tempfile::TempDir,
}

impl Generator {
    pub(super) fn new(program: &'static Path) -> anyhow::Result<Generator> {
        Ok(Generator {
            program,
            directory: tempfile::tempdir()?,
        })
    }

    /// Runs it once.
    pub(super) fn run(&self, server: Ports, job: Job, step: LoadStep) -> anyhow::Result<Load> {
        let file = self.directory.path().join("load.json");
        fs::remove_file(&file).ok();
        let mut command = self.command(server, job);
        command
            .arg("--duration")
            .arg(format!("{}ms", step.time.as_millis()))
            .args(["--rate", &step.per_second.to_string()])
            .arg("--json")
            .arg(&file);
        self.wait(&mut command, step.time + PATIENCE)?;
        let text = fs::read_to_string(&file).context("the generator's results")?;
        let document: Document = serde_json::from_str(&text).context("the generator's results")?;
        let run = document.runs.into_iter().next().context("no run")?;
        Ok(run.load(job))
    }

    /// Registers so many users once, who stay registered.
    pub(super) fn register(
        &self,
        server: Ports,
        over: Transport,
        users: usize,
        per_second: usize,
    ) -> anyhow::Result<()> {
        let mut command = self.load("register", server, over);
        command
            .args(["--users", &users.to_string()])
            .args(["--rate", &per_second.to_string()]);
        let planned = Duration::from_secs_f64(users as f64 / per_second as f64);
        match self.wait(&mut command, planned + ENDING)?.code() {
            Some(0) => Ok(()),
            _ => bail!("not all users were registered: {}", self.printed()),
        }
    }

    fn command(&self, server: Ports, job: Job) -> Command {
        match job {
            Job::Call(over) => {
                let mut command = self.load("calls", server, over);
                command
                    .args(["--users", CALLERS])
                    .args(["--ring", RINGING, "--hold", TALKING]);
                command
            }
            Job::Register => {
                let mut command = self.load("register", server, Transport::Udp);
                command.args(["--users", REGISTERING]);
                command
            }
        }
    }

    fn load(&self, what: &str, server: Ports, over: Transport) -> Command {
        let mut command = Command::new(self.program);
        command
            .args(["load", what, "--workers", "1", "--no-screen"])
            .args(["--via", &format!("127.0.0.1:{}", server.sip)])
            .args(["--transport", &over.to_string()]);
        if let Some(port) = server.encapsulation {
            command.args(["--peer-encapsulation-port", &port.to_string()]);
        }
        command
    }

    /// Runs it to its end, which is hastened when it takes longer than that. The statuses of calls that failed and of
    /// a schedule that was not kept are no errors.
    fn wait(&self, command: &mut Command, limit: Duration) -> anyhow::Result<ExitStatus> {
        let printed = fs::File::create(self.printed_file())?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(printed.try_clone()?)
            .stderr(printed)
            .spawn()
            .context("tandem load")?;
        let mut status = ended(&mut child, limit)?;
        // The first signal lets calls under way end, the second one does not.
        for _ in 0..2 {
            if status.is_none() {
                kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).ok();
                status = ended(&mut child, Duration::from_secs(1))?;
            }
        }
        if status.is_none() {
            status = ended(&mut child, ENDING)?;
        }
        let Some(status) = status else {
            child.kill()?;
            child.wait()?;
            bail!("tandem load does not end: {}", self.printed());
        };
        match status.code() {
            Some(0 | 1 | 3 | 97) => Ok(status),
            _ => bail!("tandem load: {status}: {}", self.printed()),
        }
    }

    fn printed_file(&self) -> PathBuf {
        self.directory.path().join("printed")
    }

    fn printed(&self) -> String {
        fs::read_to_string(self.printed_file()).unwrap_or_default()
    }
}

impl Load {
    /// Whether everything was completed, and 99 of 100 delays were short.
    pub(super) fn held(&self) -> bool {
        self.valid && self.completed == self.offered && self.p99_ms < LIMIT_MS
    }

    /// Whether the generator may have been the limit.
    pub(super) fn generator_strained(&self) -> bool {
        !self.valid || self.busy > BUSY
    }
}

/// How it ended, if within that time.
fn ended(child: &mut Child, within: Duration) -> anyhow::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || begun.elapsed() > within {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// What `--json` writes, as far as it matters here.
#[derive(Deserialize)]
struct Document {
    runs: Vec<RunDocument>,
}

#[derive(Deserialize)]
struct RunDocument {
    validity: Validity,
    seconds: f64,
    arrivals: Arrivals,
    calls: Attempts,
    registrations: Attempts,
    rfc6076: Delays,
    lateness_ms: Delay,
    generator: Processor,
}

#[derive(Deserialize)]
struct Validity {
    valid: bool,
}

#[derive(Deserialize)]
struct Arrivals {
    offered: u64,
}

#[derive(Deserialize)]
struct Attempts {
    completed: u64,
}

#[derive(Deserialize)]
struct Delays {
    session_request_delay_s: Delay,
    registration_request_delay_ms: Delay,
}

#[derive(Deserialize)]
struct Delay {
    p50: Option<f64>,
    p99: Option<f64>,
}

#[derive(Deserialize)]
struct Processor {
    user_seconds: f64,
    system_seconds: f64,
}

impl RunDocument {
    fn load(self, job: Job) -> Load {
        let (attempts, delay, milliseconds) = match job {
            Job::Call(_) => (self.calls, self.rfc6076.session_request_delay_s, 1e3),
            Job::Register => (
                self.registrations,
                self.rfc6076.registration_request_delay_ms,
                1.0,
            ),
        };
        let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
        Load {
            offered: self.arrivals.offered,
            completed: attempts.completed,
            p50_ms: known(delay.p50) * milliseconds,
            p99_ms: known(delay.p99) * milliseconds,
            late_p99_ms: known(self.lateness_ms.p99),
            busy: (self.generator.user_seconds + self.generator.system_seconds) / self.seconds,
            valid: self.validity.valid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(completed: u64, p99_ms: f64, valid: bool) -> Load {
        Load {
            offered: 100,
            completed,
            p50_ms: 1.0,
            p99_ms,
            late_p99_ms: 0.0,
            busy: 0.5,
            valid,
        }
    }

    #[test]
    fn a_rate_is_held_when_all_is_completed_in_time() {
        assert!(load(100, 49.0, true).held());
        assert!(!load(99, 49.0, true).held());
        assert!(!load(100, 50.0, true).held());
        assert!(!load(100, f64::NAN, true).held());
        assert!(!load(100, 49.0, false).held());
    }

    #[test]
    fn the_generator_is_strained_when_late_or_busy() {
        assert!(!load(100, 49.0, true).generator_strained());
        assert!(load(100, 49.0, false).generator_strained());
        let busy = Load {
            busy: 0.95,
            ..load(100, 49.0, true)
        };
        assert!(busy.generator_strained());
    }
}
