//! Scenarios: files, and those that are built in.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use load::scenario::{Options, Scenario};

use crate::perf::output::print;
use crate::terminal::complain;

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

/// The scenarios that are built in, a line each.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    let mut lines = String::new();
    for name in Scenario::built_in_names() {
        if let Some(scenario) = Scenario::built_in(name, &Options::default()) {
            lines.push_str(&format!("{name:<14} {}\n", scenario?.description));
        }
    }
    print(&lines);
    Ok(ExitCode::SUCCESS)
}
