//! Our proxy: `tandem proxy`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Ports, Script, SipServer, Store};
use crate::tandem;

/// Starts it with three listeners on one port; new calls are shown to a script. Neither server logs calls.
pub(super) fn start(
    workers: usize,
    store: Store,
    script: Option<Script>,
) -> anyhow::Result<SipServer> {
    let ports = Ports {
        sip: test_support::free_udp_port(),
        encapsulation: Some(test_support::free_udp_port()),
    };
    let files = tempfile::tempdir()?;
    let store = match store {
        Store::Memory => "memory:".to_owned(),
        Store::Disk => format!("sqlite:{}", files.path().join("tandem.db").display()),
    };
    let mut command = Command::new(tandem::program()?);
    command.arg("proxy");
    for transport in ["udp", "tcp", "sctp"] {
        let listener = format!("{transport}:127.0.0.1:{}", ports.sip);
        command.args(["--listen", &listener]);
    }
    if let Some(port) = ports.encapsulation {
        command.args(["--encapsulation-port", &port.to_string()]);
    }
    if let Some(script) = script {
        let file = configuration(files.path(), &script, ports.sip)?;
        command.arg("--config").arg(file);
    }
    command
        .args(["--store", &store, "--workers", &workers.to_string()])
        .env("TANDEM_LOG", "warn");
    SipServer::start("tandem proxy", &mut command, ports, files)
}

/// A configuration file with as many plugins as the script is to be called times.
fn configuration(directory: &Path, script: &Script, port: u16) -> anyhow::Result<PathBuf> {
    fs::write(directory.join("script.lua"), script.text)?;
    let mut text = String::new();
    for number in 0..script.times {
        writeln!(
            text,
            "[[plugin]]\nfile = \"script.lua\"\nname = \"script-{number}\"\n\
             settings = {{ field = \"X-Carrier-{number}\", port = {port} }}"
        )?;
    }
    let file = directory.join("tandem.toml");
    fs::write(&file, text)?;
    Ok(file)
}
