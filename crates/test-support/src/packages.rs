//! Programs and files of Debian packages, installed when they are missing.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

/// The program `command` in the search path; when it is missing, the Debian package `package` is
/// installed. `None`, and a line with the reason, when it cannot be had: the test then ends early.
///
/// ```no_run
/// let Some(sipp) = test_support::require_command("sipp", "sip-tester") else { return };
/// ```
pub fn require_command(command: &str, package: &str) -> Option<PathBuf> {
    require(&format!("command {command}"), package, || {
        find_command(command)
    })
}

/// The file `path`; when it is missing, the Debian package `package` is installed. `None`, and a
/// line with the reason, when it cannot be had: the test then ends early.
pub fn require_file(path: impl AsRef<Path>, package: &str) -> Option<PathBuf> {
    let path = path.as_ref();
    require(&format!("file {}", path.display()), package, || {
        path.exists().then(|| path.to_path_buf())
    })
}

fn require(what: &str, package: &str, find: impl Fn() -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(path) = find() {
        return Some(path);
    }
    let reason = match install(package) {
        Ok(()) => match find() {
            Some(path) => return Some(path),
            None => format!("package {package} does not bring it"),
        },
        Err(reason) => reason,
    };
    say_skipped(&format!("{what} is missing: {reason}"));
    None
}

/// The variable with the name of a file that gets a line for each test that ends early, so that `scripts/test` does not
/// count it as passed.
const SKIPPED_FILE: &str = "TANDEM_TESTS_SKIPPED";

/// Tells why a test ends early. Not by `eprintln!`, whose text the test harness keeps to itself
/// when the test passes.
pub fn say_skipped(reason: &str) {
    writeln!(io::stderr(), "skipped: {reason}").ok();
    if let Some(file) = env::var_os(SKIPPED_FILE) {
        // One write for a line: tests that run side by side append to the same file.
        let line = skipped_line(reason);
        let file = File::options().create(true).append(true).open(file);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the file for tests that are skipped takes a line");
    }
}

/// The program of the test, its name, and the reason.
fn skipped_line(reason: &str) -> String {
    let program = env::args().next().unwrap_or_default();
    let reason = reason.replace(['\t', '\n'], " ");
    format!("{program}\t{}\t{reason}\n", test_name())
}

/// As nextest tells it, which starts a process for each test; else the thread's, which has its test's.
fn test_name() -> String {
    env::var("NEXTEST_TEST_NAME").unwrap_or_else(|_| {
        let thread = thread::current();
        thread.name().unwrap_or_default().to_owned()
    })
}

fn find_command(command: &str) -> Option<PathBuf> {
    // Some packages install into directories that only root's search path has.
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(system)
        .map(|directory| directory.join(command))
        .find(|candidate| candidate.is_file())
}

/// Installs a package by `scripts/apt`, one at a time however many tests ask.
fn install(package: &str) -> Result<(), String> {
    if find_command("apt-get").is_none() {
        return Err(format!("no apt-get here; install {package} by hand"));
    }
    if !is_root() {
        return Err(format!("not root; run: sudo apt-get install {package}"));
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/apt");
    let output = Command::new(script)
        .arg(package)
        .output()
        .map_err(|error| format!("{script}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let Output { status, stderr, .. } = output;
    let text = String::from_utf8_lossy(&stderr);
    let last_line = text.lines().rfind(|line| !line.trim().is_empty());
    Err(format!(
        "installing {package} failed ({status}): {}",
        last_line.unwrap_or("no message")
    ))
}

/// Asked of `id`, because the standard library does not tell.
fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_without_installing() {
        assert!(require_command("sh", "dash").is_some());
        assert!(require_file("/dev/null", "no-such-package").is_some());
    }
}
