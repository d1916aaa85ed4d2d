//! Files that are written while a run goes on: messages, failures, the words of scenarios, figures over time. They are those of
//! SIPp's options `-trace_…`.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use clap::{ArgAction, Args};
use load::driver::{Snapshot, TraceFile, Traces};
use load::engine::StepCount;
use load::script::{LineKind, Script};
use tokio::sync::watch;

use crate::values::duration;

/// What is written down.
#[derive(Args, Debug)]
pub(super) struct TraceOptions {
    /// Write every message to a file (SIPp: -trace_msg, -message_file) [default: NAME_PID_messages.log]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
          action = ArgAction::Append, help_heading = "Traces")]
    trace_messages: Vec<String>,

    /// Write why calls fail to a file (SIPp: -trace_err, -error_file) [default: NAME_PID_errors.log]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
          action = ArgAction::Append, help_heading = "Traces")]
    trace_errors: Vec<String>,

    /// Write what scenarios log to a file (SIPp: -trace_logs, -log_file) [default: NAME_PID_logs.log]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
          action = ArgAction::Append, help_heading = "Traces")]
    trace_logs: Vec<String>,

    /// Write counts over time to a CSV file (SIPp: -trace_stat, -stf) [default: NAME_PID_.csv]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
          action = ArgAction::Append, help_heading = "Traces")]
    trace_statistics: Vec<String>,

    /// Write the counts of each step over time to a CSV file (SIPp: -trace_counts) [default: NAME_PID_counts.csv]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
          action = ArgAction::Append, help_heading = "Traces")]
    trace_counts: Vec<String>,

    /// Interval of both (SIPp: -fd)
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s", help_heading = "Traces")]
    pub(super) trace_interval: Duration,
}

impl TraceOptions {
    /// The files for what workers write down, if there are any.
    pub(super) fn open(&self, name: &str) -> anyhow::Result<Option<Arc<Traces>>> {
        let open = |given: &[String], suffix: &str| {
            let path = path(given, name, suffix);
            path.map(|path| {
                TraceFile::create(&path).with_context(|| format!("cannot write {}", path.display()))
            })
            .transpose()
        };
        let traces = Traces {
            messages: open(&self.trace_messages, "messages.log")?,
            errors: open(&self.trace_errors, "errors.log")?,
            logs: open(&self.trace_logs, "logs.log")?,
        };
        let is_none = traces.messages.is_none() && traces.errors.is_none() && traces.logs.is_none();
        Ok((!is_none).then(|| Arc::new(traces)))
    }

    /// The files of figures over time, if there are any.
    pub(super) fn figures(
        &self,
        name: &str,
        scripts: &[Arc<Script>],
    ) -> anyhow::Result<Option<Figures>> {
        let create = |given: &[String], suffix: &str| {
            let path = path(given, name, suffix);
            path.map(|path| {
                let file = File::create(&path);
                file.with_context(|| format!("cannot write {}", path.display()))
            })
            .transpose()
        };
        let statistics = create(&self.trace_statistics, ".csv")?;
        let counts = create(&self.trace_counts, "counts.csv")?;
        if statistics.is_none() && counts.is_none() {
            return Ok(None);
        }
        let mut figures = Figures {
            statistics,
            counts,
            every: self.trace_interval.max(Duration::from_millis(100)),
            started: SystemTime::now(),
            before: Before::default(),
        };
        figures.write_heads(scripts);
        Ok(Some(figures))
    }
}

/// The last name that was given, or SIPp's; nothing where the option was not given.
fn path(given: &[String], name: &str, suffix: &str) -> Option<PathBuf> {
    if given.is_empty() {
        return None;
    }
    let named = given.iter().rev().find(|file| !file.is_empty());
    Some(match named {
        Some(file) => PathBuf::from(file),
        None => PathBuf::from(format!("{name}_{}_{suffix}", std::process::id())),
    })
}

/// The name of a run in the names of its files: that of the scenario.
pub(super) fn name_of(scenario: Option<&Path>, command: &str) -> String {
    let stem = scenario.and_then(Path::file_stem);
    stem.map_or_else(
        || command.to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

/// Files of figures over time, in SIPp's columns.
#[derive(Debug)]
pub(super) struct Figures {
    statistics: Option<File>,
    counts: Option<File>,
    every: Duration,
    started: SystemTime,
    before: Before,
}

/// The counts of the line before.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    time: Duration,
    begun: u64,
    accepted: u64,
    completed: u64,
    failed: u64,
    retransmissions: u64,
}

impl Figures {
    fn write_heads(&mut self, scripts: &[Arc<Script>]) {
        const HEAD: &str = "StartTime;CurrentTime;ElapsedTime(P);ElapsedTime(C);TargetRate;CallRate(P);CallRate(C);\
            IncomingCall(P);IncomingCall(C);OutgoingCall(P);OutgoingCall(C);TotalCallCreated;CurrentCall;\
            SuccessfulCall(P);SuccessfulCall(C);FailedCall(P);FailedCall(C);Retransmissions(P);Retransmissions(C)\n";
        if let Some(file) = &mut self.statistics {
            // A disk that is full takes nothing from the run.
            let _ = file.write_all(HEAD.as_bytes());
        }
        if let Some(file) = &mut self.counts {
            let mut head = "CurrentTime;ElapsedTime".to_owned();
            for script in scripts {
                for (number, line) in script.lines().iter().enumerate() {
                    let column = format!("{}_{number}_{}", script.name(), line.message);
                    let column = column.replace(';', ",");
                    let _ = match line.kind {
                        LineKind::Sends => write!(
                            head,
                            ";{column}_Sent;{column}_Retrans;{column}_Timeout;{column}_Unexp"
                        ),
                        LineKind::Receives => write!(
                            head,
                            ";{column}_Recv;{column}_Retrans;{column}_Timeout;{column}_Unexp"
                        ),
                        LineKind::Pauses => write!(
                            head,
                            ";{column}Pause_Sessions;{column}Pause_Retrans;{column}Pause_Timeout;{column}Pause_Unexp"
                        ),
                    };
                }
            }
            head.push('\n');
            let _ = file.write_all(head.as_bytes());
        }
    }

    /// Writes a line each interval, for as long as it is waited for.
    pub(super) async fn write(&mut self, live: watch::Receiver<Arc<Snapshot>>) -> Infallible {
        let mut due = Instant::now() + self.every;
        loop {
            tokio::time::sleep_until(due.into()).await;
            due += self.every;
            let snapshot = live.borrow().clone();
            self.write_lines(&snapshot);
        }
    }

    /// Writes a line of each file.
    pub(super) fn write_lines(&mut self, snapshot: &Snapshot) {
        let time_of_day = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
        let elapsed = snapshot.time.as_secs_f64();
        if let Some(file) = &mut self.statistics {
            let started = humantime::format_rfc3339_micros(self.started);
            let statistics = &snapshot.statistics;
            let now = Before {
                time: snapshot.time,
                begun: statistics.arrivals.started,
                accepted: snapshot.counters.accepted,
                completed: statistics.completed(),
                failed: statistics.failed(),
                retransmissions: statistics.retransmissions,
            };
            let before = std::mem::replace(&mut self.before, now);
            let period = now.time.saturating_sub(before.time).as_secs_f64();
            let rate = |count: u64, seconds: f64| match seconds > 0.0 {
                true => count as f64 / seconds,
                false => 0.0,
            };
            let grown = |now: u64, before: u64| now.saturating_sub(before);
            let begun = grown(now.begun, before.begun);
            let line = format!(
                "{started};{time_of_day};{period:.3};{elapsed:.3};{};{:.3};{:.3};{};{};{begun};{};{};{};{};{};{};{};{};{}\n",
                snapshot.per_second.unwrap_or(0.0),
                rate(begun, period),
                rate(now.begun, elapsed),
                grown(now.accepted, before.accepted),
                now.accepted,
                now.begun,
                now.begun + now.accepted,
                snapshot.in_flight,
                grown(now.completed, before.completed),
                now.completed,
                grown(now.failed, before.failed),
                now.failed,
                grown(now.retransmissions, before.retransmissions),
                now.retransmissions,
            );
            let _ = file.write_all(line.as_bytes());
        }
        if let Some(file) = &mut self.counts {
            let mut line = format!("{time_of_day};{elapsed:.3}");
            for StepCount {
                done,
                retransmitted,
                timeouts,
                unexpected,
            } in snapshot.steps.iter().flatten()
            {
                let _ = write!(line, ";{done};{retransmitted};{timeouts};{unexpected}");
            }
            line.push('\n');
            let _ = file.write_all(line.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_names_of_sipp_unless_others_are_given() {
        let process = std::process::id();
        let given = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(path(&[], "uac", "messages.log"), None);
        assert_eq!(
            path(&given(&[""]), "uac", "messages.log"),
            Some(PathBuf::from(format!("uac_{process}_messages.log")))
        );
        assert_eq!(
            path(&given(&["a", ""]), "uac", "messages.log"),
            Some(PathBuf::from("a"))
        );
        assert_eq!(name_of(Some(Path::new("/x/uac.xml")), "calls"), "uac");
    }
}
