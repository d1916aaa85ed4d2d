//! Our proxy: `tandem proxy`.

use std::process::Command;

use super::{Ports, SipServer, Store};
use crate::tandem;

/// Starts it with three listeners on one port. Neither server logs calls.
pub(super) fn start(workers: usize, store: Store) -> anyhow::Result<SipServer> {
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
    command
        .args(["--store", &store, "--workers", &workers.to_string()])
        .env("TANDEM_LOG", "warn");
    SipServer::start("tandem proxy", &mut command, ports, files)
}
