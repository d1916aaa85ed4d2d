//! Kamailio as a proxy and registrar beside ours.

use std::process::Command;

use tempfile::TempDir;
use test_support::{Peer, free_udp_port, require_command, wait_until};

use crate::interop::LIMIT;
use crate::interop::proxy::DOMAIN;

/// A running Kamailio: record-routing stateful proxy and registrar on one port, UDP and TCP.
#[derive(Debug)]
pub(crate) struct Kamailio {
    pub(crate) port: u16,
    process: Peer,
    _directory: TempDir,
}

impl Drop for Kamailio {
    /// Asks it to end: when it is killed its children go on.
    fn drop(&mut self) {
        self.process.ask_to_end(LIMIT);
    }
}

impl Kamailio {
    /// Starts it on loopback. It sends what is for the domain of the proxy under test to this port of it.
    /// `None` where it cannot be had.
    pub(crate) fn start(transport: &str, proxy_port: u16) -> Option<Kamailio> {
        let next_hop = format!("sip:127.0.0.1:{proxy_port};transport={transport}");
        Kamailio::with(&format!(
            "#!substdef \"!DOMAIN!{DOMAIN}!g\"\n#!substdef \"!NEXTHOP!{next_hop}!g\"\n\
             {MODULES}{CONFIGURATION}"
        ))
    }

    /// Starts one that asks all users for the password `secret`, when they register and when they call.
    pub(crate) fn authenticating() -> Option<Kamailio> {
        Kamailio::with(&format!("{MODULES}{AUTHENTICATING}"))
    }

    /// Starts one that sends a copy of each of its messages to this port by HEP version 3.
    pub(crate) fn tracing(port: &str) -> Option<Kamailio> {
        let tracing = TRACING.replace("PORT", port);
        Kamailio::with(&format!(
            "#!substdef \"!DOMAIN!{DOMAIN}!g\"\n#!substdef \"!NEXTHOP!sip:127.0.0.1:9!g\"\n\
             {MODULES}{tracing}{CONFIGURATION}"
        ))
    }

    fn with(configuration: &str) -> Option<Kamailio> {
        let program = require_command("kamailio", "kamailio")?;
        let directory = tempfile::tempdir().expect("a directory");
        let port = free_udp_port();
        let file = directory.path().join("kamailio.cfg");
        let text = format!(
            "listen=udp:127.0.0.1:{port}\nlisten=tcp:127.0.0.1:{port}\n\
             alias=\"127.0.0.1:{port}\"\n{configuration}"
        );
        std::fs::write(&file, text).expect("a file");
        let process = Peer::spawn(
            Command::new(program)
                .args(["-DD", "-E", "-f"])
                .arg(&file)
                .arg("-w")
                .arg(directory.path())
                .arg("-Y")
                .arg(directory.path())
                .arg("-P")
                .arg(directory.path().join("pid")),
        );
        let is_up = wait_until(LIMIT, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        assert!(is_up, "Kamailio does not listen");
        Some(Kamailio {
            port,
            process,
            _directory: directory,
        })
    }
}

/// One process reads UDP: two would overtake each other, and SIPp fails a call whose 180 comes after the 200.
const MODULES: &str = r#"
debug=2
log_stderror=yes
children=1
tcp_children=2
auto_aliases=no
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
loadmodule "siputils.so"
loadmodule "textops.so"
modparam("usrloc", "db_mode", 0)
"#;

/// Mode 1: what is sent and received, wherever the configuration goes.
const TRACING: &str = r#"
loadmodule "siptrace.so"
modparam("siptrace", "duplicate_uri", "sip:127.0.0.1:PORT")
modparam("siptrace", "hep_mode_on", 1)
modparam("siptrace", "hep_version", 3)
modparam("siptrace", "trace_to_database", 0)
modparam("siptrace", "trace_on", 1)
modparam("siptrace", "trace_mode", 1)
"#;

const CONFIGURATION: &str = r#"
request_route {
  if (!mf_process_maxfwd_header("10")) {
    sl_send_reply("483", "Too Many Hops");
    exit;
  }
  if (is_method("CANCEL")) {
    if (t_check_trans()) t_relay();
    exit;
  }
  if (has_totag()) {
    if (loose_route()) {
      t_relay();
    } else if (is_method("ACK")) {
      if (t_check_trans()) t_relay();
    } else {
      sl_send_reply("404", "Not Here");
    }
    exit;
  }
  t_check_trans();
  # What a phone has in its Route is where it sends everything: that was here.
  remove_hf("Route");
  if (is_method("INVITE|SUBSCRIBE")) record_route();
  if (uri == myself) {
    if (is_method("REGISTER")) {
      save("location");
      exit;
    }
    if (!lookup("location")) {
      sl_send_reply("404", "Not Found");
      exit;
    }
  }
  if ($rd == "DOMAIN") $du = "NEXTHOP";
  t_relay();
}
"#;

const AUTHENTICATING: &str = r#"
loadmodule "auth.so"
request_route {
  if (!mf_process_maxfwd_header("10")) {
    sl_send_reply("483", "Too Many Hops");
    exit;
  }
  if (is_method("CANCEL")) {
    if (t_check_trans()) t_relay();
    exit;
  }
  if (has_totag()) {
    if (loose_route()) {
      t_relay();
    } else if (is_method("ACK")) {
      if (t_check_trans()) t_relay();
    } else {
      sl_send_reply("404", "Not Here");
    }
    exit;
  }
  t_check_trans();
  if (is_method("REGISTER")) {
    if (!pv_www_authenticate("$fd", "secret", "0")) {
      www_challenge("$fd", "1");
      exit;
    }
    save("location");
    exit;
  }
  if (!is_method("ACK")) {
    if (!pv_proxy_authenticate("$fd", "secret", "0")) {
      proxy_challenge("$fd", "1");
      exit;
    }
    consume_credentials();
  }
  if (is_method("INVITE")) record_route();
  if (!lookup("location")) {
    sl_send_reply("404", "Not Found");
    exit;
  }
  t_relay();
}
"#;
