//! SIPp: the callers and callees.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tempfile::TempDir;

/// The installed program, with scenarios and users on the disk.
pub(crate) struct Sipp {
    program: PathBuf,
    directory: TempDir,
    users: usize,
    /// The port of all callees, from which they register.
    callees: u16,
}

/// Over which transport SIPp calls. Over TCP all calls of a side share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Udp,
    Tcp,
}

/// What callers shall do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    pub(crate) count: usize,
    pub(crate) per_second: usize,
    /// Before the 200 and before the BYE.
    pub(crate) pause: Duration,
}

/// What became of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) successful: usize,
    pub(crate) failed: usize,
    /// The times that the scenario measures, in milliseconds, the shortest first. Those of the last calls may be
    /// missing.
    pub(crate) delays: Vec<f64>,
}

/// Callees that answer for as long as this lives.
pub(crate) struct Callees(Child);

/// After how many calls SIPp writes down what it has measured of them.
const WRITTEN_TOGETHER: &str = "100";

/// How many registrations are begun in a second, and how many may be under way.
const REGISTRATIONS_PER_SECOND: usize = 12_000;
const REGISTRATIONS_UNDER_WAY: usize = 1_000;

/// How much longer than planned SIPp may take: what is not done by then has failed.
const PATIENCE: Duration = Duration::from_secs(5);

impl Sipp {
    /// Installs it where it is missing, and writes the list of users.
    pub(crate) fn find(users: usize) -> anyhow::Result<Sipp> {
        let program =
            test_support::require_command("sipp", "sip-tester").context("SIPp cannot be had")?;
        let directory = tempfile::tempdir()?;
        let mut list = String::from("SEQUENTIAL\n");
        for user in 0..users {
            list.push_str(&format!("user{user};\n"));
        }
        fs::write(directory.path().join("users.csv"), list)?;
        Ok(Sipp {
            program,
            directory,
            users,
            callees: test_support::free_udp_port(),
        })
    }

    /// Registers every user once at the proxy on this port.
    pub(crate) fn register(&self, proxy: u16, over: Over) -> anyhow::Result<()> {
        let planned = Duration::from_secs_f64(self.users as f64 / REGISTRATIONS_PER_SECOND as f64);
        let outcome = self.run(
            "register",
            include_str!("../sipp/register.xml"),
            (self.users, planned * 4),
            Duration::ZERO,
            (over, proxy),
            &[
                "-p",
                &self.callees.to_string(),
                "-m",
                &self.users.to_string(),
                "-r",
                &REGISTRATIONS_PER_SECOND.to_string(),
                "-l",
                &REGISTRATIONS_UNDER_WAY.to_string(),
            ],
        )?;
        ensure!(
            outcome.failed == 0,
            "{} registrations failed",
            outcome.failed
        );
        Ok(())
    }

    /// Lets the callees answer calls.
    pub(crate) fn answer(&self, over: Over, pause: Duration) -> anyhow::Result<Callees> {
        self.callees(include_str!("../sipp/callee.xml"), over, pause)
    }

    /// Lets the callees ring, and not answer for so long.
    pub(crate) fn ring(&self, over: Over, time: Duration) -> anyhow::Result<Callees> {
        self.callees(include_str!("../sipp/ringing.xml"), over, time)
    }

    /// Makes calls through the proxy on this port.
    pub(crate) fn call(&self, proxy: u16, over: Over, calls: Calls) -> anyhow::Result<Outcome> {
        let planned = Duration::from_secs_f64(calls.count as f64 / calls.per_second as f64);
        self.run(
            "caller",
            include_str!("../sipp/caller.xml"),
            (calls.count, planned),
            calls.pause,
            (over, proxy),
            &[
                "-m",
                &calls.count.to_string(),
                "-r",
                &calls.per_second.to_string(),
                "-l",
                &calls.count.to_string(),
            ],
        )
    }

    /// Begins calls and leaves them alone: the callers are ended when all have been begun.
    pub(crate) fn begin_calls(
        &self,
        proxy: u16,
        over: Over,
        calls: Calls,
    ) -> anyhow::Result<Callees> {
        let text = include_str!("../sipp/caller.xml");
        let mut command = self.command("beginning", text, calls.pause, over)?;
        command.args([
            &format!("127.0.0.1:{proxy}"),
            "-m",
            &calls.count.to_string(),
            "-r",
            &calls.per_second.to_string(),
            "-l",
            &calls.count.to_string(),
        ]);
        Ok(Callees(command.spawn().context("SIPp")?))
    }

    fn callees(&self, text: &str, over: Over, pause: Duration) -> anyhow::Result<Callees> {
        let mut command = self.command("callee", text, pause, over)?;
        command.args(["-p", &self.callees.to_string()]);
        let callees = Callees(command.spawn().context("SIPp")?);
        // It says nothing when it is ready.
        thread::sleep(Duration::from_millis(200));
        Ok(callees)
    }

    /// Runs a scenario so many times, which should take about that time.
    fn run(
        &self,
        name: &str,
        text: &str,
        (count, planned): (usize, Duration),
        pause: Duration,
        (over, proxy): (Over, u16),
        arguments: &[&str],
    ) -> anyhow::Result<Outcome> {
        let statistics = self.directory.path().join(format!("{name}.csv"));
        fs::remove_file(&statistics).ok();
        let mut command = self.command(name, text, pause, over)?;
        command
            .arg(format!("127.0.0.1:{proxy}"))
            .args(arguments)
            .args(["-trace_rtt", "-rtt_freq", WRITTEN_TOGETHER])
            .args(["-trace_stat", "-fd", "1", "-stf"])
            .arg(&statistics);
        let mut child = command.spawn().context("SIPp")?;
        let measured = self.directory.path();
        let measured = measured.join(format!("{name}_{}_rtt.csv", child.id()));
        let begun = Instant::now();
        while child.try_wait()?.is_none() {
            // A call that waits for a lost message waits for long. The statistics are there by then.
            if begun.elapsed() > planned + PATIENCE {
                child.kill().ok();
                child.wait().ok();
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let successful =
            successful(&fs::read_to_string(&statistics).context("SIPp's statistics")?)?;
        // A scenario that measures nothing leaves no file.
        let delays = delays(&fs::read_to_string(&measured).unwrap_or_default());
        fs::remove_file(&measured).ok();
        Ok(Outcome {
            successful,
            failed: count.saturating_sub(successful),
            delays,
        })
    }

    fn command(
        &self,
        name: &str,
        text: &str,
        pause: Duration,
        over: Over,
    ) -> anyhow::Result<Command> {
        let file = self.directory.path().join(format!("{name}.xml"));
        let text = text
            .replace("PAUSE", &pause.as_millis().to_string())
            .replace("CALLEES", &self.callees.to_string());
        // A pause of no time is one of the scheduler's turns all the same.
        let text: String = match pause.is_zero() {
            true => text
                .lines()
                .filter(|line| !line.contains("<pause"))
                .flat_map(|line| [line, "\n"])
                .collect(),
            false => text,
        };
        fs::File::create(&file)?.write_all(text.as_bytes())?;
        let mut command = Command::new(&self.program);
        command
            .arg("-sf")
            .arg(&file)
            .arg("-inf")
            .arg(self.directory.path().join("users.csv"))
            .args(["-i", "127.0.0.1", "-nostdin", "-buff_size", "4194304"])
            .args(["-t", over.option()])
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(command)
    }
}

impl Over {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Over::Udp => "udp",
            Over::Tcp => "tcp",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Over::Udp => "u1",
            Over::Tcp => "t1",
        }
    }
}

impl Outcome {
    /// The delay that so many of a hundred calls do not exceed; not a number where none was measured.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let at = (self.delays.len() * percent / 100).min(self.delays.len().saturating_sub(1));
        self.delays.get(at).copied().unwrap_or(f64::NAN)
    }
}

impl Drop for Callees {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The total in the last line of SIPp's statistics.
pub(crate) fn successful(statistics: &str) -> anyhow::Result<usize> {
    const NAME: &str = "SuccessfulCall(C)";
    let mut lines = statistics.lines().filter(|line| !line.is_empty());
    let header = lines.next().context("no header")?;
    let last = lines.next_back().context("no line")?;
    let column = header.split(';').position(|column| column == NAME);
    let value = column.and_then(|column| last.split(';').nth(column));
    value
        .and_then(|value| value.trim().parse().ok())
        .with_context(|| format!("SIPp's statistics have no {NAME}"))
}

/// What SIPp has measured, sorted: milliseconds are in the second column.
fn delays(text: &str) -> Vec<f64> {
    let second = |line: &str| line.split(';').nth(1)?.trim().parse().ok();
    let mut delays: Vec<f64> = text.lines().filter_map(second).collect();
    delays.sort_by(f64::total_cmp);
    delays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_second_column() {
        let text = "Date_ms;response_time_ms;rtd_no\n1;3.5;1\n2;0.5;1\n3;1.5;1\n";
        let outcome = Outcome {
            successful: 3,
            failed: 0,
            delays: delays(text),
        };
        let of = |percent| outcome.percentile(percent);
        assert_eq!([of(0), of(50), of(99), of(100)], [0.5, 1.5, 3.5, 3.5]);
    }

    #[test]
    fn totals_are_those_of_the_last_line() {
        let text = "A;SuccessfulCall(P);SuccessfulCall(C);FailedCall(C);\n\
                    x;1;1;0;\n\
                    y;2;3;4;\n";
        assert_eq!(successful(text).expect("a total"), 3);
        assert!(successful("A;B\n1;2\n").is_err());
    }
}
