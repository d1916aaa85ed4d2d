//! The server on loopback sockets: registrations and calls over every pair of transports, names,
//! rubbish, and its end.

mod families;
mod late_phones;
mod own_store;
mod phone;
mod plugins;
mod sources;
mod strangers;

use std::net::SocketAddr;

use bytes::Bytes;
use proxy::metrics::Observed;
use proxy::{ProxyConfig, Server};
use sip::{Message, Method, Name, Transport};
use sip_net::SipNetConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use phone::{PATIENCE, Phone, address, call, serve, serve_all};

#[tokio::test]
async fn a_call_over_every_pair_of_transports() {
    let server = serve_all().await;
    for from in Transport::ALL {
        for to in Transport::ALL {
            let invite = call(&server, from, to, "sip:bob@localhost").await;
            let entries = invite.values(Name::RecordRoute).count();
            // Where only its flow leads to a user agent, each side has its own.
            let is_plain = from == to && matches!(from, Transport::Udp | Transport::Tcp);
            assert_eq!(entries, if is_plain { 1 } else { 2 }, "{from} to {to}");
        }
    }
    let statistics = server.statistics().await;
    assert_eq!(statistics.proxy.calls_answered, 49);
    // Each phone registers and leaves.
    assert_eq!(statistics.proxy.registrations, 2 * 98);
    assert_eq!(statistics.addresses_of_record, 2);
    assert_eq!(statistics.proxy.transactions.retransmissions(), 0);
    assert!(statistics.wire.messages_received > 49 * 8);
    tokio::time::timeout(PATIENCE, server.shutdown())
        .await
        .expect("it ends");
}

#[tokio::test]
async fn names_are_resolved() {
    let server = serve(&["udp:127.0.0.1:0"]).await;
    let callee = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let port = callee.local_addr().expect("an address").port();
    let mut alice = Phone::register(&server, "alice", Transport::Udp).await;
    // Not our port, so not our domain.
    let uri = format!("sip:x@localhost:{port}");
    alice.send(alice.request(Method::Options, &uri, &uri, "options"));
    let mut buffer = [0; 4096];
    let length = tokio::time::timeout(PATIENCE, callee.recv(&mut buffer))
        .await
        .expect("in time")
        .expect("a datagram");
    let options = Message::read(Bytes::copy_from_slice(&buffer[..length])).expect("a message");
    assert_eq!(options.request_uri(), Some(uri.as_str()));
    callee
        .send_to(
            &alice.answer(&options, 200).to_bytes(),
            address(&server, Transport::Udp),
        )
        .await
        .expect("it is sent");
    assert_eq!(alice.response("OPTIONS").await.status(), Some(200));

    let unknown = "sip:x@name.invalid";
    alice.send(alice.request(Method::Options, unknown, unknown, "unknown"));
    assert_eq!(alice.response("OPTIONS").await.status(), Some(500));
    server.shutdown().await;
}

#[tokio::test]
async fn associations_and_their_paths_are_watched() {
    let server = serve_all().await;
    let _phone = Phone::register(&server, "alice", Transport::Sctp).await;
    let metrics = server.observer().metrics().await;
    let value = |name: &str| {
        let series = format!("{name}{{");
        let line = metrics.lines().find(|line| line.starts_with(&series));
        let line = line.unwrap_or_else(|| panic!("no {name}: {metrics}"));
        let (labels, value) = line.rsplit_once(' ').expect("a value");
        assert!(
            labels.contains("association=") && labels.ends_with('}'),
            "{line}"
        );
        value.parse::<f64>().expect("a number")
    };
    assert!(metrics.contains("tandem_sctp_associations_left_out{} 0.0\n"));
    for name in [
        "tandem_sctp_association_outstanding_bytes",
        "tandem_sctp_association_send_buffer_bytes",
        "tandem_sctp_association_retransmitted_chunks",
        "tandem_sctp_path_rtt_seconds",
        "tandem_sctp_path_errors",
    ] {
        assert!(value(name) >= 0.0, "{name}");
    }
    for name in [
        "tandem_sctp_association_peer_window_bytes",
        "tandem_sctp_path_active",
        "tandem_sctp_path_rto_seconds",
        "tandem_sctp_path_congestion_window_bytes",
    ] {
        assert!(value(name) > 0.0, "{name}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_wildcard_listener_gives_the_address_that_it_is_reached_by() {
    let server = serve(&["udp:0.0.0.0:0", "tcp:0.0.0.0:0"]).await;
    let transports = server.listening();
    let local = |transport: Transport| {
        let port = transports
            .iter()
            .find(|listen| listen.transport == transport)
            .expect("a listener")
            .address
            .port();
        SocketAddr::from(([127, 0, 0, 1], port))
    };
    let callee = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let callee_address = callee.local_addr().expect("an address");
    let mut caller = TcpStream::connect(local(Transport::Tcp))
        .await
        .expect("a connection");
    let here = caller.local_addr().expect("an address");
    let invite = format!(
        "INVITE sip:x@{callee_address} SIP/2.0\r\nVia: SIP/2.0/TCP {here};branch=z9hG4bK1\r\n\
         From: <sip:a@127.0.0.1>;tag=1\r\nTo: <sip:x@{callee_address}>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\
         Contact: <sip:a@{here};transport=tcp>\r\nContent-Length: 0\r\n\r\n"
    );
    caller
        .write_all(invite.as_bytes())
        .await
        .expect("it is sent");
    let mut buffer = [0; 4096];
    let length = tokio::time::timeout(PATIENCE, callee.recv(&mut buffer))
        .await
        .expect("in time")
        .expect("a datagram");
    let invite = Message::read(Bytes::copy_from_slice(&buffer[..length])).expect("a message");
    let routes: Vec<&str> = invite
        .text_values(Name::RecordRoute)
        .filter_map(|route| route.split_once(";call="))
        .map(|(uri, _)| uri)
        .collect();
    assert_eq!(
        routes,
        [
            format!("<sip:{};transport=udp;lr", local(Transport::Udp)),
            format!("<sip:{};transport=tcp;lr", local(Transport::Tcp))
        ]
    );
    let via = invite
        .text_values(Name::Via)
        .next()
        .expect("a Via")
        .to_owned();
    assert!(
        via.starts_with(&format!("SIP/2.0/UDP {};branch=", local(Transport::Udp))),
        "{via}"
    );
    server.shutdown().await;
}

#[tokio::test]
async fn rubbish_is_answered_or_dropped_and_the_server_goes_on() {
    let server = serve_all().await;
    let rubbish = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let udp = address(&server, Transport::Udp);
    for octets in [
        &b"\x00\x01\x02"[..],
        b"",
        b"\r\n\r\n",
        b"INVITE sip:x SIP/2.0\r\n",
        &[0xff; 1400],
    ] {
        rubbish.send_to(octets, udp).await.expect("it is sent");
    }
    let truncated = "OPTIONS sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bK1;rport\r\n\
         From: <sip:a@127.0.0.1>;tag=1\r\nTo: <sip:127.0.0.1>\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\nContent-Length: 100\r\n\r\nx";
    rubbish
        .send_to(truncated.as_bytes(), udp)
        .await
        .expect("it is sent");
    let mut buffer = [0; 4096];
    let length = tokio::time::timeout(PATIENCE, rubbish.recv(&mut buffer))
        .await
        .expect("in time")
        .expect("a datagram");
    assert!(
        buffer[..length].starts_with(b"SIP/2.0 400 "),
        "{:?}",
        String::from_utf8_lossy(&buffer[..length])
    );

    // A stream whose next message cannot be found: an answer, and the end.
    let mut stream = TcpStream::connect(address(&server, Transport::Tcp))
        .await
        .expect("a connection");
    let endless = truncated
        .replace("Content-Length: 100", "Content-Length: many")
        .replace("UDP", "TCP");
    stream
        .write_all(endless.as_bytes())
        .await
        .expect("it is sent");
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .expect("in time")
        .expect("an end");
    assert!(
        answer.starts_with(b"SIP/2.0 400 "),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );

    let alice = Phone::register(&server, "alice", Transport::Sctp).await;
    assert_eq!(alice.flow.transport, Transport::Sctp);
    assert!(server.statistics().await.proxy.malformed > 0);
    tokio::time::timeout(PATIENCE, server.shutdown())
        .await
        .expect("it ends");
}

#[tokio::test]
async fn a_port_in_use_is_told_by_name() {
    let taken = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let listener = format!("udp:{}", taken.local_addr().expect("an address"));
    let transports = SipNetConfig {
        listeners: vec![listener.parse().expect("a listener")],
        ..SipNetConfig::default()
    };
    let error = Server::start(ProxyConfig {
        transports,
        ..ProxyConfig::default()
    })
    .await
    .expect_err("in use");
    assert!(error.to_string().contains(&listener), "{error}");
}
