//! `--pcap`: what goes over TLS is in the file in the clear.

use std::collections::BTreeSet;

use test_support::{require_command, tshark};

use super::certificates::{Files, request, s_client};
use super::sip::Phone;
use super::{PATIENCE, configuration, eventually, start_command};
use crate::program::support::tandem;

#[test]
fn sip_over_tls_is_captured_in_the_clear() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    if require_command("tshark", "tshark").is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let files = Files::within(directory.path());
    files.write("sip.example");
    // What has been answered is remembered for half a minute, which is not waited for.
    let more = files.listener() + "[shutdown]\ndrain = \"100ms\"\n";
    let file = directory.path().join("tandem.toml");
    std::fs::write(&file, configuration(&more)).expect("written");
    let capture = directory.path().join("sip.pcapng");
    let mut command = tandem();
    command.arg("proxy").arg("--config").arg(&file);
    let mut proxy = start_command(command.arg("--pcap").arg(&capture));
    proxy.peer.wait_for_output("listening on tls:", PATIENCE);

    // A call from TLS to UDP, which the caller ends.
    let callee = Phone::new(&proxy, "bob");
    assert_eq!(callee.register("r1"), 200);
    let mut caller = s_client(&openssl, &proxy, "-quiet");
    let bob = "<sip:bob@127.0.0.1>";
    caller.write(&request("INVITE", "sip:bob@127.0.0.1", bob, ""));
    let invite = callee.receive_one("INVITE ");
    callee.answer(&invite, "200 OK");
    eventually("the caller is answered", || {
        caller.output().contains("SIP/2.0 200 OK")
    });
    let routes: String = (invite.values("Record-Route").iter().rev())
        .map(|route| format!("Route: {route}\r\n"))
        .collect();
    let uri = format!("sip:bob@{}", callee.address());
    let to = format!("{bob};tag=callee");
    for method in ["ACK", "BYE"] {
        caller.write(&request(method, &uri, &to, &routes));
        let received = callee.receive_one(&format!("{method} "));
        if method == "BYE" {
            callee.answer(&received, "200 OK");
        }
    }
    caller.wait_for_output("CSeq: 1 BYE\r\n", PATIENCE);
    let tls = proxy.port("tls");
    proxy.signal("TERM");
    assert_eq!(proxy.peer.wait(PATIENCE).code(), Some(0));

    let fields = [
        "_ws.col.Protocol",
        "frame.comment",
        "exported_pdu.src_port",
        "exported_pdu.dst_port",
        "sip.CSeq.method",
        "sip.Status-Code",
    ];
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let options: Vec<&str> = ["-T", "fields"].into_iter().chain(fields).collect();
    let shown = tshark(&capture, &options).expect("it is there");
    // Over UDP, on a busy machine, something may be there twice.
    let mut seen = BTreeSet::new();
    for line in shown.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [protocol, transport, source, destination, method, status] = columns[..] else {
            panic!("{line}");
        };
        assert_eq!(protocol, "SIP", "{line}");
        if transport == "TLS" {
            let ours = if source == tls.to_string() {
                source
            } else {
                destination
            };
            assert_eq!(ours, tls.to_string(), "{line}");
        }
        let is_inbound = transport == "TLS" && destination == tls.to_string();
        let direction = match transport {
            "TLS" if is_inbound => "in",
            "TLS" => "out",
            _ => "",
        };
        seen.insert(format!("{transport} {direction} {method} {status}"));
    }
    for expected in [
        "UDP  REGISTER ",
        "UDP  REGISTER 200",
        "TLS in INVITE ",
        "TLS out INVITE 100",
        "UDP  INVITE ",
        "UDP  INVITE 200",
        "TLS out INVITE 200",
        "TLS in ACK ",
        "UDP  ACK ",
        "TLS in BYE ",
        "UDP  BYE ",
        "UDP  BYE 200",
        "TLS out BYE 200",
    ] {
        assert!(seen.remove(expected), "{expected} is missing:\n{shown}");
    }
    assert!(seen.is_empty(), "{seen:?} beside:\n{shown}");
}
