//! TLS where a peer connects to us: openssl's client against our listener.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::certificates::Authority;
use crate::common::{Node, PATIENCE, config, request, response};
use rcgen::SanType;
use sip::{Target, Transport};
use sip_net::{ClientCertificates, Incoming, SipNetConfig, TlsConfig};
use test_support::{Peer, require_command};

const LISTEN: &[&str] = &["tls:127.0.0.1:0"];

fn node(tls: TlsConfig) -> Node {
    Node::start(SipNetConfig {
        tls,
        ..config(LISTEN)
    })
}

/// openssl, connected to the node. `None` where there is no openssl.
fn s_client(openssl: &Path, server: &Node, authority: &Authority, arguments: &[&str]) -> Peer {
    let mut command = Command::new(openssl);
    command
        .args(["s_client", "-brief", "-verify_return_error"])
        .args(["-connect", &server.address().to_string()])
        .arg("-CAfile")
        .arg(authority.file())
        .args(arguments);
    Peer::spawn(&mut command)
}

/// A request from openssl arrives, and the answer arrives there.
async fn exchange(server: &mut Node, client: &mut Peer, name: &str) {
    client.wait_for_output("CONNECTION ESTABLISHED", PATIENCE);
    client.write(std::str::from_utf8(&request(name)).expect("text"));
    // Connections of others may have ended.
    let (flow, message) = loop {
        match server.event().await {
            Incoming::Message { flow, message, .. } => break (flow, message),
            Incoming::ConnectionClosed { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(message.to_bytes(), request(name));
    assert_eq!(flow.transport, Transport::Tls);
    server.send(Target::Flow(flow), &response(200, name));
    client.wait_for_output(&format!("Call-ID: {name}\r\n"), PATIENCE);
}

async fn speaks(version: &str, shown: &str) {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let authority = Authority::new();
    let mut server = node(authority.server(vec![authority.certificate("example.org")]));
    let arguments = [version, "-servername", "example.org"];
    let mut client = s_client(&openssl, &server, &authority, &arguments);
    exchange(&mut server, &mut client, "a").await;
    client.wait_for_output(shown, PATIENCE);
    exchange(&mut server, &mut client, "b").await;
    server
        .until(async |transports| transports.statistics().await.messages_sent == 2)
        .await;
    let statistics = server.transports.statistics_of(Transport::Tls).await;
    assert_eq!(statistics.connections_accepted, 1);
    assert_eq!(statistics.messages_received, 2);
    assert!(statistics.bytes() > 0);

    // The end is told in TLS, too: openssl ends without an error.
    server.transports.shutdown().await;
    assert!(client.wait(PATIENCE).success());
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_1_2_is_spoken() {
    speaks("-tls1_2", "Protocol version: TLSv1.2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_1_3_is_spoken() {
    speaks("-tls1_3", "Protocol version: TLSv1.3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_versions_are_not() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let authority = Authority::new();
    let server = node(authority.server(vec![authority.certificate("example.org")]));
    let arguments = ["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"];
    let mut client = s_client(&openssl, &server, &authority, &arguments);
    assert!(!client.wait(PATIENCE).success());
    server
        .until(async |transports| transports.statistics().await.handshakes_failed == 1)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gets_the_certificate_of_the_name_it_asks_for() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let authority = Authority::new();
    let of_uri = vec![SanType::URI("sip:uri.example".try_into().expect("ASCII"))];
    let certificates = vec![
        authority.certificate("first.example"),
        authority.certificate("second.example"),
        authority.certificate_with("third.example", of_uri),
        authority.certificate("*.wild.example"),
    ];
    let server = node(authority.server(certificates));
    for (arguments, subject) in [
        (&["-servername", "second.example"][..], "second.example"),
        (&["-servername", "Second.Example"][..], "second.example"),
        (&["-servername", "uri.example"][..], "third.example"),
        (&["-servername", "a.wild.example"][..], "*.wild.example"),
        (&["-servername", "other.example"][..], "first.example"),
        (&["-noservername"][..], "first.example"),
    ] {
        let mut client = s_client(&openssl, &server, &authority, arguments);
        client.wait_for_output(&format!("Peer certificate: CN = {subject}"), PATIENCE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificates_are_asked_for_as_the_listener_says() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let (authority, stranger) = (Authority::new(), Authority::new());
    let own = authority.certificate("client.example");
    let strange = stranger.certificate("client.example");
    let with = |files: &sip_net::CertificateFiles| {
        [
            "-cert".to_owned(),
            files.certificate.to_string_lossy().into_owned(),
            "-key".to_owned(),
            files.key.to_string_lossy().into_owned(),
        ]
    };
    for (asked, without, with_strange) in [
        (ClientCertificates::None, true, true),
        (ClientCertificates::Request, true, false),
        (ClientCertificates::Require, false, false),
    ] {
        for version in ["-tls1_2", "-tls1_3"] {
            let mut tls = authority.server(vec![authority.certificate("example.org")]);
            tls.server.client_certificates = asked;
            let mut server = node(tls);
            let attempts = [
                (Vec::new(), without),
                (with(&own).to_vec(), true),
                (with(&strange).to_vec(), with_strange),
            ];
            for (arguments, welcome) in attempts {
                let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                arguments.push(version);
                let mut client = s_client(&openssl, &server, &authority, &arguments);
                if welcome {
                    exchange(&mut server, &mut client, "a").await;
                } else {
                    assert!(!client.wait(PATIENCE).success(), "{asked} {arguments:?}");
                }
            }
            let refused = u64::from(!without) + u64::from(!with_strange);
            server
                .until(async |transports| {
                    transports.statistics().await.handshakes_failed == refused
                })
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_certificates_are_for_later_connections() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let authority = Authority::new();
    let files = authority.certificate("old.example");
    let mut tls = authority.server(vec![files.clone()]);
    tls.reload_interval = Duration::from_millis(20);
    let mut server = node(tls);
    let mut early = s_client(&openssl, &server, &authority, &[]);
    early.wait_for_output("Peer certificate: CN = old.example", PATIENCE);

    // One of the two files is new for a moment: what was read before stays in use.
    let new = authority.certificate("new.example");
    std::fs::copy(&new.certificate, &files.certificate).expect("copied");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut between = s_client(&openssl, &server, &authority, &[]);
    between.wait_for_output("Peer certificate: CN = old.example", PATIENCE);
    std::fs::copy(&new.key, &files.key).expect("copied");
    let shows_new = || async {
        let mut client = s_client(&openssl, &server, &authority, &[]);
        client.wait_for_output("Peer certificate: CN = ", PATIENCE);
        client.output().contains("new.example")
    };
    tokio::time::timeout(PATIENCE, async { while !shows_new().await {} })
        .await
        .expect("read in time");
    exchange(&mut server, &mut early, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_read_again_on_demand() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let authority = Authority::new();
    let files = authority.certificate("old.example");
    let mut tls = authority.server(vec![files.clone()]);
    tls.reload_interval = Duration::ZERO;
    let server = node(tls);
    let new = authority.certificate("new.example");
    std::fs::copy(&new.certificate, &files.certificate).expect("copied");
    let refused = server.transports.reload_certificates();
    let problem = refused.expect_err("the key is another's").to_string();
    assert!(problem.contains("not the certificate's key"), "{problem}");
    let mut client = s_client(&openssl, &server, &authority, &[]);
    client.wait_for_output("Peer certificate: CN = old.example", PATIENCE);

    std::fs::copy(&new.key, &files.key).expect("copied");
    server.transports.reload_certificates().expect("good files");
    let mut client = s_client(&openssl, &server, &authority, &[]);
    client.wait_for_output("Peer certificate: CN = new.example", PATIENCE);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_certificates_are_shown_without_a_new_start() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let authority = Authority::new();
    let old = authority.certificate("old.example");
    let mut server = node(authority.server(vec![old.clone()]));
    let mut early = s_client(&openssl, &server, &authority, &[]);
    early.wait_for_output("Peer certificate: CN = old.example", PATIENCE);

    let new = authority.certificate("new.example");
    let tls = authority.server(vec![old, new]);
    server.transports.set_tls(tls).expect("good files");
    for (asked, shown) in [("new.example", "new"), ("old.example", "old")] {
        let mut client = s_client(&openssl, &server, &authority, &["-servername", asked]);
        let line = format!("Peer certificate: CN = {shown}.example");
        client.wait_for_output(&line, PATIENCE);
    }
    exchange(&mut server, &mut early, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_resumed() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let authority = Authority::new();
    let mut server = node(authority.server(vec![authority.certificate("example.org")]));
    let session = authority.path("session");
    let session = session.to_string_lossy();
    let mut first = s_client(&openssl, &server, &authority, &["-sess_out", &session]);
    exchange(&mut server, &mut first, "a").await;
    first.close_input();
    assert!(first.wait(PATIENCE).success());

    // Without -brief it tells whether it is a new one.
    let mut command = Command::new(&openssl);
    command
        .args(["s_client", "-connect", &server.address().to_string()])
        .args(["-sess_in", &session, "-CAfile"])
        .arg(authority.file());
    let mut second = Peer::spawn(&mut command);
    second.wait_for_output("Reused, TLSv1.3", PATIENCE);
}
