//! Record-routing stateful SIP proxies with a registrar, as processes: ours and Kamailio. What
//! `proxy-kamailio`, `proxy-workers` and `proxy-transports` measure.

mod kamailio;
mod ours;
pub(crate) mod usage;

use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::process::Process;
use usage::Usage;

pub(crate) use kamailio::Kamailio;
pub(crate) use ours::serve;

/// A proxy that listens on one port of 127.0.0.1, over UDP and TCP.
pub(crate) struct SipServer {
    process: Process,
    /// The port, and where there is SCTP the port of its encapsulation.
    pub(crate) ports: Ports,
    /// Where the configuration is, for as long as it runs.
    _files: Option<tempfile::TempDir>,
}

/// What a server of ours says when it can be reached.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Ports {
    pub(crate) sip: u16,
    pub(crate) encapsulation: Option<u16>,
}

impl SipServer {
    /// Ours, with so many workers, its bindings kept where the URL says.
    pub(crate) fn ours(workers: usize, location: &str) -> anyhow::Result<SipServer> {
        let mut process = Process::start_role(&format!("sip-proxy {workers} {location}"))?;
        let ports = process.tells(Duration::ZERO)?;
        Ok(SipServer {
            process,
            ports,
            _files: None,
        })
    }

    /// Kamailio with as many children for UDP, and for TCP.
    pub(crate) fn kamailio(program: &Kamailio, children: usize) -> anyhow::Result<SipServer> {
        let (process, port, files) = program.start(children)?;
        Ok(SipServer {
            process,
            ports: Ports {
                sip: port,
                encapsulation: None,
            },
            _files: Some(files),
        })
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
