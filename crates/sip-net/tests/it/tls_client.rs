//! TLS where we connect to a peer: openssl's server, and our own.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::common::certificates::Authority;
use crate::common::{Node, PATIENCE, config, request, response, transaction};
use bytes::Bytes;
use rcgen::SanType;
use sip::{Peer as Expected, Target, Transmit, Transport};
use sip_net::{
    CertificateFiles, ClientCertificates, Incoming, Limits, SendError, SipNetConfig,
    TlsClientConfig, TlsConfig,
};
use test_support::{Peer, require_command, wait_until};

/// A node that only opens connections.
fn client(tls: TlsConfig) -> Node {
    Node::start(SipNetConfig { tls, ..config(&[]) })
}

fn server(listen: &str, tls: TlsConfig) -> Node {
    Node::start(SipNetConfig {
        tls,
        ..config(&[listen])
    })
}

fn expected(name: &str) -> Option<Arc<Expected>> {
    Some(Arc::new(Expected {
        name: Some(name.into()),
        ..Expected::default()
    }))
}

/// Sends a request to a server that has to be called `name`.
fn send(client: &Node, remote: SocketAddr, name: Option<&str>, call: &str) {
    client.transports.send(Transmit {
        target: Target::Address(Transport::Tls, remote),
        peer: name.and_then(expected),
        payload: request(call),
        call: 0,
        transaction: Some(transaction()),
    });
}

/// Why the request was not sent.
async fn refusal(client: &mut Node) -> String {
    match client.event().await {
        Incoming::SendFailed {
            error: SendError::Tls(reason),
            ..
        } => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn we_speak_with_openssl() {
    let Some(openssl) = require_command("openssl", "openssl") else {
        return;
    };
    let authority = Authority::new();
    let files = authority.certificate("example.org");
    let wrong = authority.certificate("wrong.example");
    for version in ["-tls1_2", "-tls1_3"] {
        let mut command = Command::new(&openssl);
        command
            .args([
                "s_server",
                "-accept",
                "127.0.0.1:0",
                version,
                "-Verify",
                "1",
            ])
            // Only who asks for the name (SNI) is shown the right certificate.
            .arg("-cert")
            .arg(&wrong.certificate)
            .arg("-key")
            .arg(&wrong.key)
            .args(["-servername", "example.org", "-cert2"])
            .arg(&files.certificate)
            .arg("-key2")
            .arg(&files.key)
            .arg("-CAfile")
            .arg(authority.file());
        let mut server = Peer::spawn(&mut command);
        // It writes the line in pieces.
        let address = || {
            let output = server.output();
            let (address, _) = output.split("ACCEPT ").nth(1)?.split_once('\n')?;
            address.trim().parse().ok()
        };
        assert!(wait_until(PATIENCE, || address().is_some()), "no address");
        let remote = address().expect("it is there");

        let mut tls = authority.client();
        tls.client.certificate = Some(authority.certificate("client.example"));
        let mut client = client(tls);
        send(&client, remote, Some("example.org"), "a");
        server.wait_for_output("Call-ID: a", PATIENCE);
        assert!(server.output().contains("CN = client.example"));
        let text = response(200, "a");
        server.write(std::str::from_utf8(&text).expect("text"));
        let flow = client.expect(&text).await;
        assert_eq!((flow.transport, flow.remote), (Transport::Tls, remote));
        client.transports.shutdown().await;
    }
}

#[tokio::test]
async fn a_server_has_to_show_the_name_it_was_looked_up_for() {
    let authority = Authority::new();
    let names = ["sip:example.org", "sip:example.net"]
        .map(|uri| SanType::URI(uri.try_into().expect("ASCII")))
        .into_iter()
        .chain([
            SanType::DnsName("host.example.org".try_into().expect("ASCII")),
            SanType::IpAddress([127, 0, 0, 1].into()),
        ])
        .collect();
    let files = authority.certificate_with("server", names);
    let mut server = server("tls:127.0.0.1:0", authority.server(vec![files]));
    let remote = server.address();
    let mut client = client(authority.client());
    for (name, welcome) in [
        (Some("example.org"), true),
        (Some("EXAMPLE.net"), true),
        (None, true),
        (Some("127.0.0.1"), true),
        // It shows SIP domains, so that other names do not count (RFC 5922 section 7.1).
        (Some("host.example.org"), false),
        (Some("sub.example.org"), false),
        (Some("127.0.0.2"), false),
    ] {
        send(&client, remote, name, "a");
        if welcome {
            server.expect(&request("a")).await;
        } else {
            let reason = refusal(&mut client).await;
            assert!(reason.contains("not valid for name"), "{name:?}: {reason}");
        }
    }
    // Each name has shown itself on a connection of its own, be it one server.
    let statistics = client.transports.statistics_of(Transport::Tls).await;
    assert_eq!(statistics.connections_opened, 4);
    assert_eq!(statistics.connects_failed, 3);
    send(&client, remote, Some("Example.ORG"), "b");
    server.expect(&request("b")).await;
    let statistics = client.transports.statistics_of(Transport::Tls).await;
    assert_eq!(statistics.connections_opened, 4);
}

#[tokio::test]
async fn a_wildcard_is_for_the_web_alone() {
    let authority = Authority::new();
    let wild = || vec![authority.certificate("*.example.org")];
    let server_tls = server("tls:127.0.0.1:0", authority.server(wild()));
    let mut client = client(authority.client());
    send(&client, server_tls.address(), Some("a.example.org"), "a");
    let reason = refusal(&mut client).await;
    assert!(reason.contains("not valid for name"), "{reason}");

    let server_wss = server("wss:127.0.0.1:0", authority.server(wild()));
    let peer = expected("a.example.org");
    let opened = client
        .transports
        .connect_to(Transport::Wss, server_wss.address(), peer, false)
        .await;
    opened.expect("a connection");
    let peer = expected("a.example.net");
    let refused = client
        .transports
        .connect_to(Transport::Wss, server_wss.address(), peer, false)
        .await;
    assert!(matches!(refused, Err(SendError::Tls(_))), "{refused:?}");
}

#[tokio::test]
async fn a_server_has_to_be_signed_by_an_authority_unless_told_otherwise() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let files = stranger.certificate("example.org");
    let mut server = server("tls:127.0.0.1:0", stranger.server(vec![files]));
    let remote = server.address();
    let mut believing = client(authority.client());
    send(&believing, remote, Some("example.org"), "a");
    let reason = refusal(&mut believing).await;
    assert!(reason.starts_with("invalid peer certificate"), "{reason}");

    let insecure = client(TlsConfig {
        client: TlsClientConfig {
            insecure: true,
            ..TlsClientConfig::default()
        },
        ..TlsConfig::default()
    });
    send(&insecure, remote, Some("example.com"), "b");
    let flow = server.expect(&request("b")).await;
    // What was believed unseen proves nothing; and the server has asked for no certificate.
    server.send(Target::Flow(flow), &request("c"));
    let mut insecure = insecure;
    let flow = insecure.expect(&request("c")).await;
    assert!(insecure.names(&flow).is_empty() && server.identified.is_empty());
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_ours_or_none() {
    let authority = Authority::new();
    let mut tls = authority.server(vec![authority.certificate("127.0.0.1")]);
    tls.server.client_certificates = ClientCertificates::Require;
    let mut server = server("tls:127.0.0.1:0", tls);
    let with = |certificate: Option<CertificateFiles>| {
        let mut tls = authority.client();
        tls.client.certificate = certificate;
        client(tls)
    };
    let welcome = with(Some(authority.certificate("client.example")));
    send(&welcome, server.address(), None, "a");
    let flow = server.expect(&request("a")).await;
    assert_eq!(server.names(&flow), ["client.example"]);
    let refused = with(None);
    send(&refused, server.address(), None, "b");
    server
        .until(async |transports| transports.statistics().await.handshakes_failed == 1)
        .await;
}

#[tokio::test]
async fn a_peer_that_speaks_no_tls_is_an_error_not_a_wait() {
    let authority = Authority::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let remote = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let text = b"SIP/2.0 400 This is no TLS\r\n\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, text).await;
        }
    });
    let mut client = client(authority.client());
    send(&client, remote, None, "a");
    let reason = refusal(&mut client).await;
    assert!(reason.contains("InvalidContentType"), "{reason}");
}

#[tokio::test]
async fn a_response_finds_the_server_that_has_asked_when_its_connection_is_gone() {
    let authority = Authority::new();
    let ours = vec![authority.certificate("127.0.0.1")];
    let mut proxy = Node::start(SipNetConfig {
        tls: authority.server(ours),
        limits: Limits {
            // Who has closed its half gets its answer by the other one, for as long as this.
            half_closed_timeout: Duration::from_millis(100),
            ..Limits::default()
        },
        ..config(&["tls:127.0.0.1:0"])
    });
    // It shows its name and no address.
    let name = SanType::DnsName("peer.example.org".try_into().expect("ASCII"));
    let theirs = vec![authority.certificate_with("peer", vec![name])];
    let mut peer = server("tls:127.0.0.1:0", authority.server(theirs));
    let address = peer.address();
    let renamed = |message: &Bytes, host: &str| {
        let text = std::str::from_utf8(message).expect("text");
        let via = format!("TLS {host}:{};", address.port());
        Bytes::from(text.replace("TCP 127.0.0.1:5060;", &via))
    };
    for (call, host, is_found) in [
        ("a", "peer.example.org", true),
        // Whoever has asked as somebody else gets nothing.
        ("b", "other.example.org", false),
    ] {
        let asked = renamed(&request(call), host);
        let opened = peer
            .transports
            .connect(Transport::Tls, proxy.address(), true)
            .await;
        let there = opened.expect("a connection");
        peer.send(Target::Flow(there), &asked);
        let here = proxy.expect(&asked).await;
        peer.transports.close(there.connection);
        for end in [&mut peer, &mut proxy] {
            let event = end.event().await;
            assert!(
                matches!(event, Incoming::ConnectionClosed { .. }),
                "{event:?}"
            );
        }
        let answer = renamed(&response(200, call), host);
        let target = Target::FlowOrAddress(here, address);
        proxy.send_for(target, &answer, Some(transaction()));
        if is_found {
            peer.expect(&answer).await;
        } else {
            let reason = refusal(&mut proxy).await;
            assert!(reason.contains("not valid for name"), "{reason}");
        }
    }
}
