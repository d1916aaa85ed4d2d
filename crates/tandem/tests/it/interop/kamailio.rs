//! Kamailio as a proxy and registrar beside ours: it keeps its routes in the signalling path.

use test_support::Kamailio;

use crate::interop::proxy::DOMAIN;

/// Starts it on loopback. It sends what is for the domain of the proxy under test to this port of it.
/// `None` where it cannot be had.
pub(crate) fn before(transport: &str, proxy_port: u16) -> Option<Kamailio> {
    let next_hop = format!("sip:127.0.0.1:{proxy_port};transport={transport}");
    Kamailio::start(&configuration(&next_hop, ""))
}

/// Starts one that sends a copy of each of its messages to this port by HEP version 3.
pub(crate) fn tracing(port: &str) -> Option<Kamailio> {
    Kamailio::start(&configuration(
        "sip:127.0.0.1:9",
        &TRACING.replace("PORT", port),
    ))
}

fn configuration(next_hop: &str, more: &str) -> String {
    let routes = CONFIGURATION.replace("DOMAIN", DOMAIN);
    format!("{more}{}", routes.replace("NEXTHOP", next_hop))
}

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
