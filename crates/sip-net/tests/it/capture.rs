//! A capture of SIP in the clear, and a capture of packets with the key log: tshark reads both.

use std::path::Path;
use std::process::Command;

use crate::common::certificates::Authority;
use crate::common::{Node, PATIENCE, config, request, response};
use sip::{Target, Transport};
use sip_net::{MessageTap, SipNetConfig};
use test_support::{Peer, require_command};

/// What tshark shows of a file.
fn shown(tshark: &Path, file: &Path, arguments: &[&str]) -> String {
    let output = Command::new(tshark)
        .arg("-r")
        .arg(file)
        .args(arguments)
        .output()
        .expect("tshark runs");
    String::from_utf8(output.stdout).expect("text")
}

const ALL: [Transport; 7] = [
    Transport::Udp,
    Transport::Tcp,
    Transport::Tls,
    Transport::Sctp,
    Transport::TlsSctp,
    Transport::Ws,
    Transport::Wss,
];

#[tokio::test]
async fn messages_of_every_transport_are_captured_in_the_clear() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    let authority = Authority::new();
    let file = authority.path("sip.pcapng");
    let tap = MessageTap::create(&file, "test").expect("a capture");
    let listeners = ALL.map(|transport| format!("{transport}:127.0.0.1:0"));
    let listeners = listeners.each_ref().map(String::as_str);
    let mut server = Node::start(SipNetConfig {
        tls: authority.server(vec![authority.certificate("127.0.0.1")]),
        sip_tap: Some(tap.clone()),
        ..config(&listeners)
    });
    let under = server.transports.encapsulation_addresses();
    let mut client = Node::start(SipNetConfig {
        tls: authority.client(),
        peer_encapsulation_port: under.first().map_or(0, |address| address.port()),
        ..config(&[])
    });
    let mut expected = String::new();
    for listen in server.transports.listening() {
        let name = listen.transport.via_name();
        client.send(
            Target::Address(listen.transport, listen.address),
            &request(name),
        );
        let flow = server.expect(&request(name)).await;
        server.send(Target::Flow(flow), &response(200, name));
        client.expect(&response(200, name)).await;
        let (here, there) = (listen.address.port(), flow.remote.port());
        expected += &format!("{name}\t{there}\t{here}\tSIP\t{name}\tOPTIONS\t\n");
        expected += &format!("{name}\t{here}\t{there}\tSIP\t{name}\t\t200\n");
    }
    // Keep-alives are no messages.
    server.transports.shutdown().await;
    tap.flush().expect("written");
    let fields = [
        "frame.comment",
        "exported_pdu.src_port",
        "exported_pdu.dst_port",
        "_ws.col.Protocol",
        "sip.Call-ID",
        "sip.Method",
        "sip.Status-Code",
    ];
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let arguments: Vec<_> = ["-T", "fields"].into_iter().chain(fields).collect();
    assert_eq!(shown(&tshark, &file, &arguments), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_log_opens_what_was_captured_on_the_wire() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    let authority = Authority::new();
    let mut tls = authority.server(vec![authority.certificate("127.0.0.1")]);
    let keys = authority.path("keys");
    tls.key_log = Some(keys.clone());
    let mut server = Node::start(SipNetConfig {
        tls,
        ..config(&["tls:127.0.0.1:0"])
    });
    let port = server.address().port();
    let file = authority.path("wire.pcapng");
    let capture = Peer::spawn(
        Command::new(&tshark)
            .args(["-i", "lo", "-f", &format!("tcp port {port}"), "-w"])
            .arg(&file),
    );
    // Without privileges it ends by itself.
    let is_capturing = test_support::wait_until(PATIENCE, || {
        capture.output().contains("Capturing on") || capture.output().contains("permission")
    });
    if !is_capturing || capture.output().contains("permission") {
        test_support::say_skipped("this user cannot capture packets");
        return;
    }
    let client = Node::start(SipNetConfig {
        tls: authority.client(),
        ..config(&[])
    });
    let target = Target::Address(Transport::Tls, server.address());
    let read = |file: &Path| {
        let preference = format!("tls.keylog_file:{}", keys.display());
        let decode = format!("tls.port=={port},sip");
        let arguments = [
            "-o",
            &preference,
            "-d",
            &decode,
            "-Y",
            "sip",
            "-T",
            "fields",
        ];
        shown(
            &tshark,
            file,
            &[&arguments[..], &["-e", "sip.Call-ID"]].concat(),
        )
    };
    // The capture may begin a moment after it has said so.
    let mut found = String::new();
    for attempt in 0..100 {
        let name = format!("call-{attempt}");
        client.send(target, &request(&name));
        let flow = server.expect(&request(&name)).await;
        server.send(Target::Flow(flow), &response(200, &name));
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        found = read(&file);
        if found.contains("call-") {
            break;
        }
        // A new connection, whose handshake is captured from the beginning.
        let flow = client
            .transports
            .connect(Transport::Tls, server.address(), false)
            .await;
        client.transports.close(flow.expect("open").connection);
        loop {
            if let sip_net::Incoming::ConnectionClosed { .. } = server.event().await {
                break;
            }
        }
    }
    assert!(found.contains("call-"), "{}", capture.output());
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&keys)
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}
