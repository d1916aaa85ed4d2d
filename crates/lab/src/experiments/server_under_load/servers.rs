//! The server: ours, or Kamailio.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use proxy::{HostPort, ProxyConfig, Server};
use sip::Transport;
use sip_net::{Listen, SipNetConfig};
use tempfile::TempDir;

use crate::context::Context;

/// Whose server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerKind {
    Tandem,
    Kamailio,
}

impl ServerKind {
    /// Those that there are. If one is not, the outcome says so.
    pub(super) fn available(context: &Context) -> Vec<ServerKind> {
        let has_kamailio = KAMAILIO.iter().any(|path| Path::new(path).exists());
        if !has_kamailio {
            context.note(
                "Kamailio is not installed (Debian's package kamailio), so Tandem's server stands alone.".to_owned(),
            );
        }
        let mut servers = vec![ServerKind::Tandem];
        servers.extend(has_kamailio.then_some(ServerKind::Kamailio));
        servers
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            ServerKind::Tandem => "tandem proxy",
            ServerKind::Kamailio => "Kamailio",
        }
    }
}

/// Where Debian puts it.
const KAMAILIO: [&str; 2] = ["/usr/sbin/kamailio", "/usr/bin/kamailio"];

/// A server that runs.
pub(super) enum Running {
    Tandem(Box<Server>),
    Kamailio(Kamailio),
}

/// Its process, which ends with it.
pub(super) struct Kamailio {
    process: Child,
    /// Its configuration and its sockets.
    _directory: TempDir,
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Running {
    /// Starts a proxy and registrar for a domain, in the network namespace of this thread.
    pub(super) async fn start(
        kind: ServerKind,
        address: SocketAddr,
        domain: &str,
        seed: [u8; 32],
    ) -> anyhow::Result<Running> {
        match kind {
            ServerKind::Tandem => {
                let server = Server::start(ProxyConfig {
                    transports: SipNetConfig {
                        listeners: vec![Listen {
                            transport: Transport::Udp,
                            address,
                        }],
                        ..SipNetConfig::default()
                    },
                    domains: vec![HostPort {
                        host: domain.to_owned(),
                        port: None,
                    }],
                    seed: Some(seed),
                    ..ProxyConfig::default()
                });
                Ok(Running::Tandem(Box::new(server.await?)))
            }
            ServerKind::Kamailio => Kamailio::start(address, domain).map(Running::Kamailio),
        }
    }

    pub(super) async fn shutdown(self) {
        match self {
            Running::Tandem(server) => server.shutdown().await,
            Running::Kamailio(kamailio) => drop(kamailio),
        }
    }
}

impl Kamailio {
    fn start(address: SocketAddr, domain: &str) -> anyhow::Result<Kamailio> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("kamailio.cfg");
        fs::write(&file, configuration(address, domain))?;
        let program = KAMAILIO
            .iter()
            .find(|path| Path::new(path).exists())
            .context("Kamailio is gone")?;
        let process = Command::new(program)
            .args(["-DD", "-E", "-f"])
            .arg(&file)
            .args(["-m", "64", "-M", "8", "-Y"])
            .arg(directory.path())
            .arg("-w")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        Ok(Kamailio {
            process,
            _directory: directory,
        })
    }
}

/// A proxy and registrar that keeps bindings in memory.
fn configuration(address: SocketAddr, domain: &str) -> String {
    let mut text = String::from(
        "#!KAMAILIO\ndebug=0\nlog_stderror=yes\nchildren=2\ndisable_tcp=yes\nauto_aliases=no\n",
    );
    text.push_str("dns=no\nrev_dns=no\n");
    // Writing to a string does not fail.
    let _ = writeln!(text, "listen=udp:{address}\nalias=\"{domain}\"");
    for module in [
        "tm",
        "sl",
        "rr",
        "pv",
        "maxfwd",
        "textops",
        "siputils",
        "usrloc",
        "registrar",
    ] {
        let _ = writeln!(text, "loadmodule \"{module}.so\"");
    }
    text.push_str(
        r#"modparam("usrloc", "db_mode", 0)
request_route {
  if (!mf_process_maxfwd_header("20")) { sl_send_reply("483", "Too Many Hops"); exit; }
  if (is_method("CANCEL")) { if (t_check_trans()) t_relay(); exit; }
  if (loose_route()) { t_relay(); exit; }
  if (is_method("ACK")) { if (t_check_trans()) t_relay(); exit; }
  if (is_method("INVITE")) record_route();
  if (is_method("REGISTER")) { if (!save("location")) sl_reply_error(); exit; }
  if (!lookup("location")) { sl_send_reply("404", "Not Found"); exit; }
  t_relay();
}
"#,
    );
    text
}
