//! Scenarios: files, and those that are built in.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use load::scenario::{Options, Problem, Scenario};
use load::script::Pause;

use crate::perf::output::print;
use crate::terminal::complain;
use crate::values::duration;

/// The names and values of an option that has both, which clap gives in one list.
fn pairs(given: &[String]) -> Vec<(String, String)> {
    let pairs = given.chunks_exact(2);
    pairs
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

/// What a run says beside a scenario of SIPp's.
#[derive(Args, Debug)]
pub(super) struct SippOptions {
    /// A keyword of SIPp's scenarios, and its value; may be given several times (SIPp: -key)
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], action = clap::ArgAction::Append, allow_hyphen_values = true,
          requires = "scenario", help_heading = "Calls")]
    keyword: Vec<String>,

    /// A variable of SIPp's scenarios, and its value when a call begins; may be given several times (SIPp: -set)
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], action = clap::ArgAction::Append, allow_hyphen_values = true,
          requires = "scenario", help_heading = "Calls")]
    variable: Vec<String>,

    /// How long SIPp's scenarios wait for a message for which they name no time; 0 for no limit (SIPp: -recv_timeout)
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "scenario", help_heading = "Calls")]
    receive_timeout: Option<Duration>,

    /// Answer INFO, NOTIFY, OPTIONS and UPDATE that a scenario of SIPp's does not expect with 200 (SIPp: -aa)
    #[arg(long, requires = "scenario", help_heading = "Calls")]
    auto_answer: bool,
}

impl SippOptions {
    /// What a scenario is told, with the length of its pauses.
    pub(super) fn scenario_options(&self, hold: Pause) -> Options {
        Options {
            hold,
            keywords: pairs(&self.keyword),
            variables: pairs(&self.variable),
            receive_timeout: self.receive_timeout.filter(|time| !time.is_zero()),
            auto_answers: self.auto_answer,
            ..Options::default()
        }
    }
}

/// A scenario by the name of one that is built in, or from a file.
pub(super) fn load_scenario(file: &Path, options: &Options) -> anyhow::Result<Scenario> {
    let name = file.to_str().unwrap_or_default();
    if let Some(scenario) = Scenario::built_in(name, options) {
        return Ok(scenario?);
    }
    if !file.exists() && matches!(name, "uac" | "uas") {
        anyhow::bail!(
            "there is no scenario {name}: what SIPp's {name} does is done without one, {}; or take SIPp's own, \
             sipp -sd {name} > {name}.xml, and --scenario {name}.xml",
            match name {
                "uac" => "by --direct --role callers --service service",
                _ => "by --direct --role callees",
            }
        );
    }
    if !file.exists() {
        let names: Vec<&str> = Scenario::built_in_names().collect();
        anyhow::bail!(
            "there is no file {}, nor is a scenario of that name built in; these are: {}",
            file.display(),
            names.join(", ")
        );
    }
    let scenario = Scenario::load(file, options).context("the scenario cannot be used")?;
    for remark in &scenario.remarks {
        complain!(
            "tandem: {}: line {}: {}",
            file.display(),
            remark.line,
            remark.message
        );
    }
    Ok(scenario)
}

/// List the built-in scenarios, or check files.
///
/// With files, reads each and says what is wrong with it, or which sides it has, without sending anything.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Scenario files to check, in TOML or SIPp's XML
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// A keyword of SIPp's scenarios, and its value; may be given several times (SIPp: -key)
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], action = clap::ArgAction::Append, allow_hyphen_values = true,
          requires = "files")]
    keyword: Vec<String>,
}

/// Lists the scenarios that are built in, a line each, or checks files.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut lines = String::new();
    if !arguments.files.is_empty() {
        let options = Options {
            keywords: pairs(&arguments.keyword),
            ..Options::default()
        };
        let mut has_failed = false;
        for file in &arguments.files {
            match Scenario::load(file, &options) {
                Ok(scenario) => {
                    let file = file.display();
                    for Problem { line, message } in &scenario.remarks {
                        let _ = writeln!(lines, "{file}:{line}: {message}");
                    }
                    let sides = [("caller", &scenario.caller), ("callee", &scenario.callee)];
                    let sides = sides.into_iter().filter_map(|(name, script)| {
                        Some(format!(
                            "{name} of {} steps",
                            script.as_ref()?.steps().len()
                        ))
                    });
                    let sides = sides.collect::<Vec<_>>().join(", ");
                    let _ = writeln!(lines, "{file}: sound: {sides}");
                }
                Err(error) => {
                    has_failed = true;
                    let _ = writeln!(lines, "{error}");
                }
            }
        }
        print(&lines);
        return Ok(ExitCode::from(u8::from(has_failed)));
    }
    for name in Scenario::built_in_names() {
        if let Some(scenario) = Scenario::built_in(name, &Options::default()) {
            lines.push_str(&format!("{name:<14} {}\n", scenario?.description));
        }
    }
    print(&lines);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[arg(long)]
        scenario: Option<String>,
        #[command(flatten)]
        options: SippOptions,
    }

    /// As with SIPp.
    #[test]
    fn a_receive_timeout_of_zero_is_none() {
        for (time, expected) in [("0ms", None), ("3s", Some(Duration::from_secs(3)))] {
            let line = ["x", "--scenario", "a.xml", "--receive-timeout", time];
            let line = Line::try_parse_from(line).unwrap();
            assert_eq!(line.scenario.as_deref(), Some("a.xml"));
            let options = line.options.scenario_options(Pause::Fixed(Duration::ZERO));
            assert_eq!(options.receive_timeout, expected);
        }
    }
}
