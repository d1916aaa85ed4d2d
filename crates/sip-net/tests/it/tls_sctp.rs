//! TLS over SCTP (RFC 3436, RFC 4168) on loopback: between two of ours, and against a bare SCTP
//! endpoint that does not keep the rules.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Node, PATIENCE, config, request, request_with_body, response, transaction};
use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use sctp_net::{Association, CloseCause, EndpointConfig, SendInfo, Stack, UdpCarrierConfig};
use sip::{Flow, Peer, Target, Transmit, Transport};
use sip_net::{
    Authorities, CertificateFiles, ClientCertificates, CloseReason, Impairment, Incoming, Limits,
    SendError, SipNetConfig, Tap, TlsClientConfig, TlsConfig, TlsServerConfig,
};
use tempfile::TempDir;
use test_support::require_command;
use tokio::time::timeout;
use udp_net::LinkConfig;

const LISTEN: &[&str] = &["tls-sctp:127.0.0.1:5061"];

/// An authority, and a certificate of its for 127.0.0.1 and example.org.
struct Files {
    directory: TempDir,
}

impl Files {
    fn new() -> Files {
        let directory = TempDir::new().expect("a directory");
        let write = |name: &str, text: String| {
            std::fs::write(directory.path().join(name), text).expect("written");
        };
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        write("ca.pem", params.self_signed(&key).expect("signed").pem());
        let issuer = Issuer::new(params, key);
        let names = ["127.0.0.1".to_owned(), "example.org".to_owned()];
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names).expect("names");
        let certificate = params.signed_by(&key, &issuer).expect("signed");
        write("server.pem", certificate.pem());
        write("server.key", key.serialize_pem());
        Files { directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn server(&self) -> SipNetConfig {
        let certificate = CertificateFiles {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
        };
        SipNetConfig {
            tls: TlsConfig {
                server: TlsServerConfig {
                    certificates: vec![certificate],
                    ..TlsServerConfig::default()
                },
                ..TlsConfig::default()
            },
            ..config(LISTEN)
        }
    }

    fn client(&self, server: &Node) -> SipNetConfig {
        let under = server.transports.encapsulation_addresses();
        SipNetConfig {
            tls: self.trusting(),
            peer_encapsulation_port: under.first().expect("a socket").port(),
            ..config(&[])
        }
    }

    fn trusting(&self) -> TlsConfig {
        TlsConfig {
            client: TlsClientConfig {
                authorities: Authorities::File(self.path("ca.pem")),
                ..TlsClientConfig::default()
            },
            ..TlsConfig::default()
        }
    }
}

fn target(server: &Node) -> Target {
    Target::Address(Transport::TlsSctp, server.address())
}

/// A bare SCTP endpoint with many streams.
async fn bare(server: &Node) -> (Stack, Association) {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let stack = Stack::udp(UdpCarrierConfig::new(address)).expect("a port");
    let association = bare_association(&stack, server).await;
    (stack, association)
}

async fn bare_association(stack: &Stack, server: &Node) -> Association {
    let settings = EndpointConfig::default()
        .outbound_streams(u16::MAX)
        .max_inbound_streams(u16::MAX);
    let endpoint = stack.endpoint(0, settings).expect("a port");
    let (remote, under) = (
        server.address(),
        server.transports.encapsulation_addresses()[0].port(),
    );
    let connected = endpoint.connect(remote.ip(), remote.port(), Some(under));
    timeout(PATIENCE, connected)
        .await
        .expect("in time")
        .expect("an association")
}

async fn put(association: &Association, stream: u16, payload: &[u8]) {
    let info = SendInfo {
        stream,
        ..SendInfo::default()
    };
    let payload = Bytes::copy_from_slice(payload);
    let sent = timeout(PATIENCE, association.send(info, payload)).await;
    sent.expect("in time").expect("sent");
}

async fn close_reason(node: &mut Node) -> CloseReason {
    match node.event().await {
        Incoming::ConnectionClosed { reason, .. } => reason,
        other => panic!("not closed: {other:?}"),
    }
}

#[tokio::test]
async fn transactions_have_streams_and_sessions_of_their_own() {
    let files = Files::new();
    let mut server = Node::start(files.server());
    let mut client = Node::start(files.client(&server));
    let mut flows: Vec<Flow> = Vec::new();
    for name in ["a", "b", "c", "d"] {
        client.send(target(&server), &request(name));
        let flow = server.expect(&request(name)).await;
        assert_eq!(flow.transport, Transport::TlsSctp);
        server.send(Target::Flow(flow), &response(200, name));
        let back = client.expect(&response(200, name)).await;
        assert_eq!((back.stream, back.remote), (flow.stream, server.address()));
        flows.push(flow);
    }
    let connections: Vec<_> = flows.iter().map(|flow| flow.connection).collect();
    assert!(connections.windows(2).all(|pair| pair[0] == pair[1]));
    let mut streams: Vec<u16> = flows.iter().map(|flow| flow.stream).collect();
    streams.sort_unstable();
    streams.dedup();
    assert_eq!(streams.len(), 4);

    // The server's own requests go back along the association, over the sessions that are there.
    for name in ["e", "f"] {
        server.send(Target::Flow(flows[0]), &request(name));
        client.expect(&request(name)).await;
    }
    let statistics = client.transports.statistics_of(Transport::TlsSctp).await;
    assert_eq!(
        (statistics.connections, statistics.connections_opened),
        (1, 1)
    );
    assert_eq!(
        (statistics.messages_sent, statistics.messages_received),
        (4, 6)
    );
    let statistics = server.transports.statistics_of(Transport::TlsSctp).await;
    assert_eq!(statistics.connections_accepted, 1);

    // Both sides see it, with its streams.
    let associations = server.transports.sctp_associations(10).await;
    assert_eq!(associations.len(), 1);
    assert_eq!(associations[0].transport, Transport::TlsSctp);
    assert_eq!(associations[0].connection, flows[0].connection);
    assert!(associations[0].accepted);
    assert_eq!(associations[0].status.inbound_streams, 16);
    assert_eq!(associations[0].status.outbound_streams, 16);
}

#[tokio::test]
async fn the_side_that_wants_fewer_sessions_decides() {
    let files = Files::new();
    let mut server = Node::start(SipNetConfig {
        tls_streams: 2,
        ..files.server()
    });
    let client = Node::start(files.client(&server));
    let mut streams = Vec::new();
    for name in ["a", "b", "c", "d"] {
        client.send(target(&server), &request(name));
        streams.push(server.expect(&request(name)).await.stream);
    }
    streams.sort_unstable();
    assert_eq!(streams, [0, 0, 1, 1]);
}

#[tokio::test]
async fn a_bad_network_loses_nothing() {
    let files = Files::new();
    let sctp = EndpointConfig::default()
        .rto_initial(Duration::from_millis(50))
        .rto_min(Duration::from_millis(50))
        .rto_max(Duration::from_millis(400))
        .association_max_retrans(50)
        .sack_delay(Duration::from_millis(10));
    let bad = LinkConfig {
        loss: 0.15.into(),
        ..LinkConfig::default()
    };
    let impairment = Some(Impairment {
        outbound: bad.clone(),
        inbound: bad,
        seed: 7,
    });
    let mut server = Node::start(SipNetConfig {
        sctp: sctp.clone(),
        ..files.server()
    });
    let mut client = Node::start(SipNetConfig {
        impairment,
        sctp,
        ..files.client(&server)
    });
    // All under way at once.
    let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let body = "x".repeat(number * 500);
        client.send(target(&server), &request_with_body(name, &body));
    }
    for _ in &names {
        let (flow, message) = server.message().await;
        let name = message.call_id().expect("a call").to_owned();
        server.send(Target::Flow(flow), &response(200, &name));
    }
    let mut answered: Vec<String> = Vec::new();
    for _ in &names {
        let (_, message) = client.message().await;
        answered.push(message.call_id().expect("a call").to_owned());
    }
    answered.sort();
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(answered, expected);
    let statistics = client.transports.statistics().await;
    assert!(statistics.transport_retransmissions > 0);
}

#[tokio::test]
async fn a_large_message_and_keep_alives_arrive() {
    let files = Files::new();
    let mut server = Node::start(files.server());
    let mut client = Node::start(files.client(&server));
    let large = request_with_body("a", &"x".repeat(200_000));
    client.send(target(&server), &large);
    let flow = server.expect(&large).await;
    server.send(Target::Flow(flow), &Bytes::from_static(b"\r\n\r\n"));
    server.send(Target::Flow(flow), &response(200, "a"));
    client.expect(&response(200, "a")).await;
    server
        .until(async |transports| transports.statistics().await.keep_alives > 0)
        .await;
}

#[tokio::test]
async fn a_server_has_to_show_who_it_is() {
    let files = Files::new();
    let mut server = Node::start(files.server());
    let mut client = Node::start(files.client(&server));
    let there = target(&server);
    let send = |client: &Node, name: &str, message: &str| {
        let peer = Peer {
            name: Some(name.into()),
            ..Peer::default()
        };
        client.transports.send(Transmit {
            target: there,
            peer: Some(Arc::new(peer)),
            payload: request(message),
            call: 0,
            transaction: Some(transaction()),
        });
    };
    send(&client, "example.net", "a");
    match client.event().await {
        Incoming::SendFailed {
            transaction: key,
            error,
        } => {
            assert_eq!(key, transaction());
            assert!(matches!(error, SendError::Tls(_)), "{error:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        close_reason(&mut server).await,
        CloseReason::Tls(_)
    ));
    send(&client, "example.org", "b");
    server.expect(&request("b")).await;

    let stranger = Files::new();
    let client = Node::start(stranger.client(&server));
    let refused = client
        .transports
        .connect(Transport::TlsSctp, server.address(), false)
        .await;
    assert!(matches!(refused, Err(SendError::Tls(_))), "{refused:?}");
    let statistics = client.transports.statistics().await;
    assert_eq!(
        (statistics.connects_failed, statistics.connections_opened),
        (1, 0)
    );
}

#[tokio::test]
async fn a_client_has_to_show_who_it_is_where_that_is_asked() {
    let files = Files::new();
    let mut settings = files.server();
    settings.tls.server.client_certificates = ClientCertificates::Require;
    settings.tls.server.authorities = Authorities::File(files.path("ca.pem"));
    let mut server = Node::start(settings);
    let nobody = Node::start(files.client(&server));
    nobody.send(target(&server), &request("a"));
    assert!(matches!(
        close_reason(&mut server).await,
        CloseReason::Tls(_)
    ));

    let mut settings = files.client(&server);
    settings.tls.client.certificate = Some(CertificateFiles {
        certificate: files.path("server.pem"),
        key: files.path("server.key"),
    });
    let known = Node::start(settings);
    known.send(target(&server), &request("b"));
    let flow = server.expect(&request("b")).await;
    assert_eq!(server.names(&flow), ["example.org"]);
}

#[tokio::test]
async fn what_is_no_tls_ends_its_association_alone() {
    let files = Files::new();
    let mut server = Node::start(files.server());
    let (_stack, association) = bare(&server).await;
    // As many streams as there may be sessions, whatever was asked for.
    assert_eq!(association.outbound_streams(), 16);
    put(&association, 3, &request("a")).await;
    assert!(matches!(
        close_reason(&mut server).await,
        CloseReason::Tls(_)
    ));
    let alert = timeout(PATIENCE, association.receive()).await;
    let alert = alert.expect("in time").expect("an alert");
    assert_eq!((alert.stream, alert.payload[0]), (3, 21));
    assert_eq!(association.closed().await, CloseCause::Shutdown);

    // TLS needs order (RFC 3436 section 6.2).
    let (_stack, association) = bare(&server).await;
    let unordered = SendInfo {
        unordered: true,
        ..SendInfo::default()
    };
    let sent = association.send(unordered, Bytes::from_static(b"\x16\x03\x01"));
    sent.await.expect("sent");
    assert!(matches!(
        close_reason(&mut server).await,
        CloseReason::Tls(_)
    ));

    let client = Node::start(files.client(&server));
    client.send(target(&server), &request("b"));
    server.expect(&request("b")).await;
}

#[tokio::test]
async fn a_client_that_meets_plain_sip_gives_up() {
    let files = Files::new();
    let plain = Node::start(config(&["sctp:127.0.0.1:5061"]));
    let under = plain.transports.encapsulation_addresses();
    let client = Node::start(SipNetConfig {
        tls: files.trusting(),
        peer_encapsulation_port: under[0].port(),
        limits: Limits {
            handshake_timeout: Duration::from_millis(300),
            ..Limits::default()
        },
        ..config(&[])
    });
    let refused = client
        .transports
        .connect(Transport::TlsSctp, plain.address(), false)
        .await;
    assert!(matches!(refused, Err(SendError::Tls(_))), "{refused:?}");
}

#[tokio::test]
async fn handshakes_that_never_end_are_bounded() {
    let files = Files::new();
    let mut server = Node::start(SipNetConfig {
        limits: Limits {
            max_handshakes: 16,
            // Longer than all of them take to begin: whoever is given up makes room for another.
            handshake_timeout: Duration::from_secs(6),
            ..Limits::default()
        },
        ..files.server()
    });
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let stack = Stack::udp(UdpCarrierConfig::new(address)).expect("a port");
    let mut associations = Vec::new();
    for _ in 0..50 {
        let association = bare_association(&stack, &server).await;
        for stream in 0..association.outbound_streams() {
            // The beginning of a record with a ClientHello. A refusal may come between two.
            let info = SendInfo {
                stream,
                ..SendInfo::default()
            };
            let begun = Bytes::from_static(b"\x16\x03\x01\x02\x00\x01");
            let _ = association.send(info, begun).await;
        }
        associations.push(association);
    }
    // The others are refused at once.
    for _ in 0..16 {
        let CloseReason::Tls(problem) = close_reason(&mut server).await else {
            panic!("no failure of TLS");
        };
        assert!(problem.contains("in time"), "{problem}");
    }
    let statistics = server.transports.statistics().await;
    assert_eq!(statistics.connections_refused, 34);
    let client = Node::start(files.client(&server));
    client.send(target(&server), &request("a"));
    server.expect(&request("a")).await;
}

#[tokio::test]
async fn who_neither_begins_nor_goes_on_is_not_kept() {
    let files = Files::new();
    let mut server = Node::start(SipNetConfig {
        limits: Limits {
            first_message_timeout: Duration::from_millis(300),
            handshake_timeout: Duration::from_millis(300),
            ..Limits::default()
        },
        ..files.server()
    });
    let (_stack, _silent) = bare(&server).await;
    assert_eq!(close_reason(&mut server).await, CloseReason::Silent);
    let (_stack, halfway) = bare(&server).await;
    put(&halfway, 0, b"\x16\x03\x01").await;
    let reason = close_reason(&mut server).await;
    assert!(
        matches!(reason, CloseReason::Tls(_) | CloseReason::Silent),
        "{reason:?}"
    );
    assert_eq!(server.transports.statistics().await.connections, 0);
}

#[tokio::test]
async fn shutdown_sends_what_is_queued_and_says_goodbye() {
    let files = Files::new();
    let mut server = Node::start(files.server());
    let mut client = Node::start(files.client(&server));
    client.send(target(&server), &request("a"));
    let flow = server.expect(&request("a")).await;
    for _ in 0..50 {
        server.send(Target::Flow(flow), &response(200, "a"));
    }
    server.transports.shutdown().await;
    for _ in 0..50 {
        client.expect(&response(200, "a")).await;
    }
    assert_eq!(close_reason(&mut client).await, CloseReason::Peer);
}

#[tokio::test]
async fn a_listener_needs_a_certificate() {
    let error = sip_net::Transports::start(config(LISTEN)).expect_err("no certificate");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn two_names_at_one_address_have_an_association_each() {
    let files = Files::new();
    let mut server = Node::start(files.server());
    let client = Node::start(files.client(&server));
    let there = target(&server);
    let send = |name: Option<&str>, message: &str| {
        let peer = Peer {
            name: name.map(Into::into),
            ..Peer::default()
        };
        client.transports.send(Transmit {
            target: there,
            peer: Some(Arc::new(peer)),
            payload: request(message),
            call: 0,
            transaction: None,
        });
    };
    send(None, "a");
    let first = server.expect(&request("a")).await;
    send(Some("example.org"), "b");
    let second = server.expect(&request("b")).await;
    assert_ne!(first.connection, second.connection);
    assert_ne!(first.remote.port(), second.remote.port());
    // Each is used again by those who ask for the same.
    send(Some("Example.ORG"), "c");
    assert_eq!(
        server.expect(&request("c")).await.connection,
        second.connection
    );
    send(None, "d");
    assert_eq!(
        server.expect(&request("d")).await.connection,
        first.connection
    );
}

/// Makes a few calls with so many pairs of streams and has tshark print a field of the packets that
/// pass a filter, one line a packet. `None` where there is no tshark.
async fn dissect(pairs: u16, filter: &str, field: &str) -> Option<String> {
    let tshark = require_command("tshark", "tshark")?;
    let files = Files::new();
    let mut server = Node::start(SipNetConfig {
        tls_streams: pairs,
        ..files.server()
    });
    let capture = files.path("tls.pcapng");
    let tap = Tap::create(&capture, "client").expect("a file");
    let mut settings = SipNetConfig {
        tap: Some(tap.clone()),
        ..files.client(&server)
    };
    settings.tls.key_log = Some(files.path("keys.log"));
    let mut client = Node::start(settings);
    for name in ["a", "b", "c"] {
        client.send(target(&server), &request(name));
        let flow = server.expect(&request(name)).await;
        server.send(Target::Flow(flow), &response(200, name));
        client.expect(&response(200, name)).await;
    }
    client.transports.shutdown().await;
    tap.flush().expect("written");
    let under = server.transports.encapsulation_addresses()[0].port();
    let mut keys = std::ffi::OsString::from("tls.keylog_file:");
    keys.push(files.path("keys.log"));
    let output = Command::new(tshark)
        .args(["-d", &format!("udp.port=={under},sctp")])
        .args(["-d", "sctp.port==5061,tls", "-o"])
        .arg(keys)
        .args(["-Y", filter, "-T", "fields", "-e", field, "-r"])
        .arg(&capture)
        .output()
        .expect("tshark can be run");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn wireshark_sees_handshakes_on_pairs_of_streams() {
    let filter = "tls.record.content_type == 22";
    let Some(streams) = dissect(16, filter, "sctp.data_sid").await else {
        return;
    };
    for stream in ["0x0000", "0x0001", "0x0002"] {
        let times = streams.matches(stream).count();
        // ClientHello and ServerHello at least.
        assert!(times >= 2, "{stream}: {streams}");
    }
}

#[tokio::test]
async fn wireshark_reads_the_messages_with_the_key_log() {
    // It takes all that goes between two ports for one TLS connection, so there is one.
    let Some(methods) = dissect(1, "sip", "sip.CSeq.method").await else {
        return;
    };
    // Three requests and their responses, however they share packets.
    assert_eq!(methods.matches("OPTIONS").count(), 6, "{methods}");
}
