//! SIPp, as far as more than one comparison wants it: users who register, and the totals of its statistics.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tempfile::TempDir;

/// The installed program, with a scenario and users on the disk.
pub(crate) struct Sipp {
    program: PathBuf,
    directory: TempDir,
    users: usize,
}

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
        let scenario = include_str!("../sipp/register.xml");
        fs::write(directory.path().join("register.xml"), scenario)?;
        Ok(Sipp {
            program,
            directory,
            users,
        })
    }

    /// Registers every user once over UDP at the proxy on this port.
    pub(crate) fn register(&self, proxy: u16) -> anyhow::Result<()> {
        let planned = Duration::from_secs_f64(self.users as f64 / REGISTRATIONS_PER_SECOND as f64);
        let mut child = Command::new(&self.program)
            .arg(format!("127.0.0.1:{proxy}"))
            .args(["-sf", "register.xml", "-inf", "users.csv"])
            .args(["-i", "127.0.0.1", "-t", "u1"])
            .args(["-nostdin", "-buff_size", "4194304"])
            .args(["-m", &self.users.to_string()])
            .args(["-r", &REGISTRATIONS_PER_SECOND.to_string()])
            .args(["-l", &REGISTRATIONS_UNDER_WAY.to_string()])
            .args(["-trace_stat", "-fd", "1", "-stf", "register.csv"])
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("SIPp")?;
        let begun = Instant::now();
        while child.try_wait()?.is_none() {
            if begun.elapsed() > planned * 4 + PATIENCE {
                child.kill().ok();
                child.wait()?;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let statistics = fs::read_to_string(self.directory.path().join("register.csv"));
        let registered = successful(&statistics.context("SIPp's statistics")?)?;
        ensure!(
            registered == self.users,
            "{registered} of {} users were registered",
            self.users
        );
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_the_last_line() {
        let text = "A;SuccessfulCall(P);SuccessfulCall(C);FailedCall(C);\n\
                    x;1;1;0;\n\
                    y;2;3;4;\n";
        assert_eq!(successful(text).expect("a total"), 3);
        assert!(successful("A;B\n1;2\n").is_err());
    }
}
