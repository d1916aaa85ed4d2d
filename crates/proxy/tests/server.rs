//! The server on loopback sockets: registrations and calls over every pair of transports, names,
//! rubbish, and its end.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use proxy::{ProxyConfig, Server};
use sip::{Flow, Message, Method, Name, Target, Transmit, Transport};
use sip_net::{
    CertificateFiles, Incoming, SipNetConfig, StreamPolicy, TlsClientConfig, TlsConfig,
    TlsServerConfig, Transports,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;

/// How long anything may take on loopback before a test fails.
const PATIENCE: Duration = Duration::from_secs(10);

async fn serve(listeners: &[&str]) -> Server {
    let (_directory, tls) = certificate();
    let transports = SipNetConfig {
        tls,
        listeners: listeners
            .iter()
            .map(|text| text.parse().expect("a listener"))
            .collect(),
        encapsulation_port: 0,
        stream_policy: StreamPolicy::PerFlow,
        ..SipNetConfig::default()
    };
    Server::start(ProxyConfig {
        transports,
        // Calls and their users meet on either: each message goes to the owner of its call.
        workers: 2,
        ..ProxyConfig::default()
    })
    .await
    .expect("it starts")
}

async fn serve_all() -> Server {
    let listeners = Transport::ALL.map(|transport| format!("{transport}:127.0.0.1:0"));
    serve(&listeners.each_ref().map(String::as_str)).await
}

/// TLS with a certificate of the server's own making, and the files that it is read from.
fn certificate() -> (tempfile::TempDir, TlsConfig) {
    let directory = tempfile::tempdir().expect("a directory");
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let files = CertificateFiles {
        certificate: directory.path().join("certificate.pem"),
        key: directory.path().join("key.pem"),
    };
    std::fs::write(&files.certificate, own.cert.pem()).expect("written");
    std::fs::write(&files.key, own.signing_key.serialize_pem()).expect("written");
    let tls = TlsConfig {
        server: TlsServerConfig {
            certificates: vec![files],
            ..TlsServerConfig::default()
        },
        // The files are gone once they are read.
        reload_interval: Duration::ZERO,
        ..TlsConfig::default()
    };
    (directory, tls)
}

fn address(server: &Server, transport: Transport) -> SocketAddr {
    let listening = server.listening();
    listening
        .iter()
        .find(|listen| listen.transport == transport)
        .expect("a listener")
        .address
}

/// A user agent with one flow to the server.
struct Phone {
    transports: Transports,
    incoming: mpsc::Receiver<Incoming>,
    flow: Flow,
    name: &'static str,
    /// Tells its transactions from those of an earlier phone that had the same port: the server remembers them
    /// for half a minute.
    number: u64,
}

/// Phones so far.
static PHONES: AtomicU64 = AtomicU64::new(0);

impl Phone {
    /// Opens a flow and registers.
    async fn register(server: &Server, name: &'static str, transport: Transport) -> Phone {
        let encapsulation = server.encapsulation_addresses();
        let config = SipNetConfig {
            encapsulation_port: 0,
            peer_encapsulation_port: encapsulation.first().map_or(9899, SocketAddr::port),
            stream_policy: StreamPolicy::PerFlow,
            tls: TlsConfig {
                client: TlsClientConfig {
                    insecure: true,
                    ..TlsClientConfig::default()
                },
                ..TlsConfig::default()
            },
            ..SipNetConfig::default()
        };
        let (transports, incoming) = Transports::start(config).expect("it starts");
        let flow = transports
            .connect(transport, address(server, transport), true)
            .await
            .expect("a flow");
        let mut phone = Phone {
            transports,
            incoming,
            flow,
            name,
            number: PHONES.fetch_add(1, Ordering::Relaxed),
        };
        // A user of an association has a stream of its own.
        if transport == Transport::Sctp {
            phone.flow.stream = 5;
        }
        let register = phone
            .request(
                Method::Register,
                "sip:127.0.0.1",
                &format!("sip:{name}@127.0.0.1"),
                "r",
            )
            .with(Name::Contact, format!("<{}>", phone.contact()));
        phone.send(register);
        assert_eq!(phone.response("REGISTER").await.status(), Some(200));
        phone
    }

    fn contact(&self) -> String {
        format!(
            "sip:{}@{};transport={}",
            self.name, self.flow.local, self.flow.transport
        )
    }

    fn request(&self, method: Method, uri: &str, to: &str, call: &str) -> Message {
        let via = format!(
            "SIP/2.0/{} {};branch=z9hG4bK{}{method}{call}{};rport",
            self.flow.transport.via_name(),
            self.flow.local,
            self.name,
            self.number
        );
        let cseq = format!("1 {method}");
        Message::request(method, uri)
            .with(Name::Via, via)
            .with(Name::MaxForwards, "70")
            .with(
                Name::From,
                format!("<sip:{}@127.0.0.1>;tag={}", self.name, self.name),
            )
            .with(Name::To, format!("<{to}>"))
            .with(Name::CallId, format!("{call}-{}", self.name))
            .with(Name::CSeq, cseq)
    }

    /// A request in the dialog that a response has made, along its route set.
    fn within(&self, method: Method, response: &Message, is_caller: bool) -> Message {
        let value = |name| response.header(name).expect("a value").to_owned();
        let remote = response
            .contacts()
            .next()
            .expect("a Contact")
            .expect("a sound one");
        let sip::Contact::Address(remote) = remote else {
            panic!("an address expected")
        };
        let call = value(Name::CallId);
        let mut request = self.request(method, remote.uri(), "sip:x", &call);
        request.replace(
            Name::From,
            value(if is_caller { Name::From } else { Name::To }),
        );
        request.replace(
            Name::To,
            value(if is_caller { Name::To } else { Name::From }),
        );
        request.replace(Name::CallId, call);
        let mut routes: Vec<Vec<u8>> = response
            .values(Name::RecordRoute)
            .map(<[u8]>::to_vec)
            .collect();
        if is_caller {
            routes.reverse();
        }
        for route in routes {
            request.push_back(Name::Route, route);
        }
        request
    }

    fn send(&self, message: Message) {
        self.transports.send(Transmit {
            target: Target::Flow(self.flow),
            peer: None,
            payload: message.to_bytes(),
            call: 0,
            transaction: None,
        });
    }

    async fn receive(&mut self, what: &str) -> Message {
        let incoming = tokio::time::timeout(PATIENCE, self.incoming.recv()).await;
        match incoming
            .unwrap_or_else(|_| panic!("{} on {:?} waits in vain for {what}", self.name, self.flow))
        {
            Some(Incoming::Message { flow, message, .. }) => {
                assert_eq!(flow.connection, self.flow.connection);
                // With TLS each transaction has a stream (RFC 4168 section 5.1).
                if flow.transport != Transport::TlsSctp {
                    assert_eq!(flow.stream, self.flow.stream);
                }
                message
            }
            other => panic!("{}: a message expected: {other:?}", self.name),
        }
    }

    async fn response(&mut self, to: &str) -> Message {
        loop {
            let message = self.receive(&format!("a response to {to}")).await;
            assert!(!message.is_request(), "a response expected: {message:?}");
            if message.status() != Some(100) {
                return message;
            }
        }
    }

    async fn request_of(&mut self, method: Method) -> Message {
        let message = self.receive(method.as_str()).await;
        assert_eq!(message.method(), Some(&method));
        message
    }

    fn answer(&self, request: &Message, status: u16) -> Message {
        let mut response = Message::response_to(request, status, "OK")
            .with(Name::Contact, format!("<{}>", self.contact()));
        response.copy_fields(request, Name::RecordRoute);
        response.set_to_tag(self.name);
        response
    }
}

#[tokio::test]
async fn a_call_over_every_pair_of_transports() {
    let server = serve_all().await;
    for from in Transport::ALL {
        for to in Transport::ALL {
            call(&server, from, to).await;
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

async fn call(server: &Server, from: Transport, to: Transport) {
    let mut alice = Phone::register(server, "alice", from).await;
    let mut bob = Phone::register(server, "bob", to).await;
    let invite = alice
        .request(
            Method::Invite,
            "sip:bob@localhost",
            "sip:bob@localhost",
            "call",
        )
        .with(Name::Contact, format!("<{}>", alice.contact()));
    alice.send(invite);
    let invite = bob.request_of(Method::Invite).await;
    assert_eq!(invite.request_uri(), Some(bob.contact().as_str()));
    let entries = invite.values(Name::RecordRoute).count();
    // Where only its flow leads to a user agent, each side has its own.
    let is_plain = from == to && matches!(from, Transport::Udp | Transport::Tcp);
    assert_eq!(entries, if is_plain { 1 } else { 2 }, "{from} to {to}");

    bob.send(bob.answer(&invite, 180));
    assert_eq!(alice.response("INVITE").await.status(), Some(180));
    bob.send(bob.answer(&invite, 200));
    let ok = alice.response("INVITE, final").await;
    assert_eq!(ok.status(), Some(200));
    alice.send(alice.within(Method::Ack, &ok, true));
    bob.request_of(Method::Ack).await;

    // The callee hangs up: along its own route set, to the Contact that the INVITE gave.
    let mut as_seen_by_bob = ok.clone();
    as_seen_by_bob.replace(Name::Contact, format!("<{}>", alice.contact()));
    bob.send(bob.within(Method::Bye, &as_seen_by_bob, false));
    let bye = alice.request_of(Method::Bye).await;
    assert!(!bye.contains(Name::Route));
    alice.send(alice.answer(&bye, 200));
    assert_eq!(bob.response("BYE").await.status(), Some(200));

    // Both leave, so that the next two of the same name are alone.
    for phone in [&mut alice, &mut bob] {
        let uri = format!("sip:{}@127.0.0.1", phone.name);
        let mut gone = phone
            .request(Method::Register, "sip:127.0.0.1", &uri, "gone")
            .with(Name::Contact, "*")
            .with(Name::Expires, "0");
        gone.replace(Name::CSeq, "2 REGISTER");
        phone.send(gone);
        assert_eq!(phone.response("REGISTER").await.status(), Some(200));
        phone.transports.shutdown().await;
    }
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
