//! Kamailio as a proxy and registrar.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::{Peer, free_udp_port, require_command, wait_until};

/// How long it may take to start, and to end.
const LIMIT: Duration = Duration::from_secs(30);

/// A running Kamailio, on one port of UDP and TCP on loopback.
#[derive(Debug)]
pub struct Kamailio {
    /// The port.
    pub port: u16,
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
    /// Starts it with more modules and routes than those that it always has. `None` where it cannot be had.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn start(configuration: &str) -> Option<Kamailio> {
        let program = require_command("kamailio", "kamailio")?;
        let directory = tempfile::tempdir().expect("a directory");
        let port = free_udp_port();
        let file = directory.path().join("kamailio.cfg");
        let text = format!(
            "listen=udp:127.0.0.1:{port}\nlisten=tcp:127.0.0.1:{port}\n\
             alias=\"127.0.0.1:{port}\"\n{MODULES}{configuration}"
        );
        std::fs::write(&file, text).expect("a file");
        let mut command = Command::new(program);
        command.args(["-DD", "-E", "-f"]).arg(&file);
        command.arg("-w").arg(directory.path());
        command.arg("-Y").arg(directory.path());
        command.arg("-P").arg(directory.path().join("pid"));
        let process = Peer::spawn(&mut command);
        let is_up = wait_until(LIMIT, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert!(is_up, "Kamailio does not listen");
        Some(Kamailio {
            port,
            process,
            _directory: directory,
        })
    }

    /// Starts a registrar and proxy that asks all users for the password `secret`, when they register and when they call.
    pub fn authenticating() -> Option<Kamailio> {
        Kamailio::start(AUTHENTICATING)
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

const AUTHENTICATING: &str = r#"
loadmodule "auth.so"
# Its GRUUs have no port: what is sent to them goes to 5060.
modparam("registrar", "gruu_enabled", 0)
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
  # What a phone has in its Route is where it sends everything: that was here.
  remove_hf("Route");
  if (is_method("INVITE")) record_route();
  if (!lookup("location")) {
    sl_send_reply("404", "Not Found");
    exit;
  }
  t_relay();
}
"#;
