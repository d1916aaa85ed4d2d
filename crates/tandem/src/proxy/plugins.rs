//! `tandem proxy test`, and what `tandem proxy check` says of scripts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::proxy::core::PluginScript;
use ::proxy::plugin::{lint, run_tests};
use anyhow::Context;
use clap::Args;

use crate::fail;
use crate::perf::output::print_line;
use crate::terminal::complain;

/// Run the tests of plugins on a simulated server.
///
/// The tests of SCRIPT.lua are functions in SCRIPT_test.lua whose names begin with "test"; docs/plugins.md describes what
/// they find. Exit status 1: a test has failed.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Scripts whose tests are run
    #[arg(required = true, value_name = "SCRIPT")]
    scripts: Vec<PathBuf>,
}

/// Runs tests, and shows a line for each.
pub(super) fn test(arguments: &Arguments) -> ExitCode {
    let mut has_failed = false;
    for script in &arguments.scripts {
        match test_script(script) {
            Ok(is_passed) => has_failed |= !is_passed,
            Err(error) => return fail(error.as_ref()),
        }
    }
    match has_failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// Returns whether all have passed.
fn test_script(file: &Path) -> anyhow::Result<bool> {
    let read = |file: &Path| {
        std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
    };
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let tests = file.with_file_name(format!("{stem}_test.lua"));
    let mut script = PluginScript::new(&stem, "");
    script.text = read(file)?.into();
    let name = tests.file_name().unwrap_or_default().to_string_lossy();
    let results = run_tests(&script, &name, &read(&tests)?).map_err(anyhow::Error::msg)?;
    let mut is_passed = true;
    for result in results {
        match result.error {
            None => print_line(&format!("{stem}: {} ... ok", result.name)),
            Some(error) => {
                is_passed = false;
                print_line(&format!("{stem}: {} ... FAILED: {error}", result.name));
            }
        }
    }
    Ok(is_passed)
}

/// Shows what is doubtful about scripts, as compilers do.
pub(super) fn show_doubts(scripts: &[PluginScript]) {
    for script in scripts {
        for (line, doubt) in lint(&String::from_utf8_lossy(&script.text)) {
            complain!("{}:{line}: warning: {doubt}", script.file);
        }
    }
}
