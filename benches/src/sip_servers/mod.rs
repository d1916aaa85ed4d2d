//! Record-routing stateful SIP proxies with a registrar, as processes: ours and Kamailio. They
//! stand in for servers in several comparisons.

mod kamailio;
mod ours;
pub(crate) mod usage;

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::process::Process;
use usage::Usage;

pub(crate) use kamailio::Kamailio;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A proxy that listens on one port of 127.0.0.1, over UDP and TCP.
pub(crate) struct SipServer {
    process: Process,
    /// The port, and where there is SCTP the port of its encapsulation.
    pub(crate) ports: Ports,
    /// Where configuration and log are, for as long as it runs.
    _files: TempDir,
}

/// Where our proxy keeps bindings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    Memory,
    /// In a database of its own.
    Disk,
}

/// A script in Lua that new calls are shown to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    /// How many times.
    pub(crate) times: usize,
}

/// Where a server can be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) sip: u16,
    pub(crate) encapsulation: Option<u16>,
}

impl SipServer {
    /// Ours, with so many workers, and bindings kept there.
    pub(crate) fn ours(workers: usize, store: Store) -> anyhow::Result<SipServer> {
        ours::start(workers, store, None)
    }

    /// The same with a script.
    pub(crate) fn ours_with(
        workers: usize,
        store: Store,
        script: Script,
    ) -> anyhow::Result<SipServer> {
        ours::start(workers, store, Some(script))
    }

    /// Kamailio with as many children for UDP, and for TCP.
    pub(crate) fn kamailio(program: &Kamailio, children: usize) -> anyhow::Result<SipServer> {
        program.start(children, None)
    }

    /// The same with a script.
    pub(crate) fn kamailio_with(
        program: &Kamailio,
        children: usize,
        script: Script,
    ) -> anyhow::Result<SipServer> {
        program.start(children, Some(script))
    }

    /// Runs a command with its log in that directory, and waits until the server's port is open.
    fn start(
        name: &str,
        command: &mut Command,
        ports: Ports,
        files: TempDir,
    ) -> anyhow::Result<SipServer> {
        let log = files.path().join("log");
        command.stderr(fs::File::create(&log)?);
        let server = SipServer {
            process: Process::start(name, command)?,
            ports,
            _files: files,
        };
        let is_open = || TcpStream::connect((Ipv4Addr::LOCALHOST, ports.sip)).is_ok();
        if !test_support::wait_until(PATIENCE, is_open) {
            let log = fs::read_to_string(&log).unwrap_or_default();
            bail!("{name} did not start: {log}");
        }
        Ok(server)
    }

    /// The process, of several the one that has started the others.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// CPU time and memory of all its processes.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of_tree(self.process.id()).context("what the proxy uses")
    }
}

impl Drop for SipServer {
    fn drop(&mut self) {
        self.process.end();
    }
}
