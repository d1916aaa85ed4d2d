//! SIPp with passwords.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use test_support::{Peer, free_udp_port, require_command};

use crate::interop::proxy::PASSWORD;

/// A SIPp that runs a scenario.
#[derive(Debug)]
pub(crate) struct Sipp {
    pub(crate) process: Peer,
    /// Where it writes what it is told to.
    pub(crate) directory: TempDir,
}

impl Sipp {
    /// Starts a scenario against a port of the proxy: `user` proves who they are, `service` is what the
    /// scenario calls so. `None` where SIPp cannot be had.
    pub(crate) fn start(
        file: &str,
        transport: &str,
        proxy_port: u16,
        [user, service]: [&str; 2],
        arguments: &[&str],
    ) -> Option<Sipp> {
        let program = require_command("sipp", "sip-tester")?;
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(program);
        command
            .arg(format!("127.0.0.1:{proxy_port}"))
            .arg("-sf")
            .arg(scenario(file))
            .args(["-t", if transport == "udp" { "u1" } else { "t1" }])
            .args(["-i", "127.0.0.1", "-p", &free_udp_port().to_string()])
            .args(["-mp", &free_udp_port().to_string()])
            .args(["-s", service, "-au", user, "-ap", PASSWORD])
            .args(["-nostdin", "-timeout", "60", "-timeout_error"])
            .args(arguments)
            .current_dir(directory.path())
            .env("TERM", "dumb");
        Some(Sipp {
            process: Peer::spawn(&mut command),
            directory,
        })
    }
}

/// Where a scenario is.
pub(crate) fn scenario(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sipp")
        .join(file)
}
