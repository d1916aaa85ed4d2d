//! Packages of Python that tests use, in an environment of their own (`scripts/python`).

use std::path::PathBuf;
use std::process::Command;

use test_support::say_skipped;

/// The interpreter that has packages, `NAME` or `NAME==VERSION` of PyPI; those that are missing are installed. `None`, and a
/// line with the reason, when they cannot be had: the test then ends early.
pub(crate) fn require_python(packages: &[&str]) -> Option<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/python");
    let output = Command::new(script).args(packages).output();
    let output = output.unwrap_or_else(|error| panic!("{script}: {error}"));
    if output.status.success() {
        let path = String::from_utf8_lossy(&output.stdout);
        return Some(path.trim().into());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last_line = errors.lines().rfind(|line| !line.trim().is_empty());
    let reason = last_line.unwrap_or("no message");
    let packages = packages.join(", ");
    say_skipped(&format!(
        "not all of {packages} can be had from PyPI: {reason}"
    ));
    None
}
