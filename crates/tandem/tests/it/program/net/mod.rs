//! `tandem net`: networks of namespaces, from the command line.

mod failover;
mod leftovers;
mod privilege;
mod words;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use test_support::say_skipped;

use crate::program::support::{program_path, tandem};

/// A directory of networks of a test's own, all of which are taken down at its end.
pub(crate) struct Networks {
    directory: tempfile::TempDir,
}

impl Networks {
    /// One with a network that is up, or a line that says why there is none.
    pub(crate) fn up(arguments: &[&str]) -> Option<Networks> {
        let networks = Networks::none()?;
        let output = networks.net(&[&["up"], arguments].concat());
        if output.status.success() {
            return Some(networks);
        }
        let reason = String::from_utf8_lossy(&output.stderr);
        // What only this machine lacks is no failure of ours.
        let lacks = ["namespace", "TUN", "CAP_SYS_ADMIN"];
        assert!(lacks.iter().any(|one| reason.contains(one)), "{reason}");
        say_skipped(reason.trim());
        None
    }

    /// One without any.
    fn none() -> Option<Networks> {
        let directory = tempfile::tempdir().expect("a directory");
        Some(Networks { directory })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A command of the program under test that knows these networks.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = tandem();
        command
            .env("XDG_RUNTIME_DIR", self.path())
            .arg("net")
            .args(arguments);
        command
    }

    /// The same on a host.
    pub(crate) fn on(&self, host: &str, program: &[&str]) -> Command {
        self.command(&[&["exec", host, "--"], program].concat())
    }

    fn net(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// What a command that succeeds prints.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.net(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The same as JSON.
    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.text(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// What a command that fails says.
    fn error(&self, arguments: &[&str]) -> String {
        let output = self.net(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// The process of the only network.
    fn process(&self) -> u32 {
        let list = self.json(&["list"]);
        let process = list[0]["process"].as_u64().expect("a process");
        process.try_into().expect("its number")
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        let _ = self.command(&["down", "--all"]).output();
    }
}

/// The program under test as an argument.
pub(crate) fn program() -> &'static str {
    program_path()
}
