//! The program `ip`, which sets up interfaces, addresses and routes.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Namespace;

/// An interface, address or route could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum IpError {
    /// There is no program `ip`.
    #[error("the program ip is missing: install the package iproute2")]
    Missing,
    /// It could not be run in the namespace.
    #[error("cannot run ip in the namespace: {0}")]
    Run(#[from] io::Error),
    /// It refused.
    #[error("ip: {0}")]
    Refused(String),
}

impl Namespace {
    /// Runs `ip` with these arguments, separated by spaces and options first, in the namespace.
    ///
    /// # Errors
    ///
    /// It is missing, cannot be run, or refuses.
    pub fn ip(&self, arguments: &str) -> Result<(), IpError> {
        // A batch takes no options in its lines.
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let options = words
            .iter()
            .take_while(|word| word.starts_with('-'))
            .count();
        let (options, rest) = words.split_at(options);
        self.ip_batch(options, &format!("{}\n", rest.join(" ")))
    }

    /// Runs `ip` with the arguments in each line, one after the other, in the namespace, until one is refused.
    /// `options` are for all lines, such as `-6`.
    ///
    /// # Errors
    ///
    /// It is missing, cannot be run, or refuses a line.
    pub fn ip_batch(&self, options: &[&str], lines: &str) -> Result<(), IpError> {
        let mut ip = Command::new("ip");
        if let Some(path) = search_path() {
            ip.env("PATH", path);
        }
        ip.args(options)
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let output = self.run(move || {
            let mut child = ip.spawn()?;
            if let Some(mut input) = child.stdin.take() {
                // Who stops reading says why in its errors.
                let _ = input.write_all(lines.as_bytes());
            }
            child.wait_with_output()
        })?;
        let output = output.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => IpError::Missing,
            _ => IpError::Run(error),
        })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().map(str::trim).collect();
        Err(IpError::Refused(said.join("; ")))
    }
}

/// Where programs are looked for: root's are in the search path of root alone.
fn search_path() -> Option<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::join_paths(std::env::split_paths(&path).chain(system)).ok()
}
