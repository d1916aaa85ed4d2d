use std::time::Duration;

use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, crypto::ring};

use super::*;

const SETTINGS: Settings = Settings {
    pairs: 4,
    framing: FramingLimits {
        header_bytes: 4_096,
        body_bytes: 65_536,
    },
    handshake: Duration::from_secs(10),
    partial_message: Duration::from_secs(20),
};

/// Both ends of the TLS of an association.
struct Pair {
    client: Sessions,
    server: Sessions,
}

fn roles() -> (Role, Role) {
    let generated = rcgen::generate_simple_self_signed(["example.org".to_owned()]);
    let rcgen::CertifiedKey { cert, signing_key } = generated.expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).expect("a root");
    let provider = Arc::new(ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a certificate");
    let name = ServerName::try_from("example.org").expect("a name");
    (
        Role::Client(Arc::new(client), name),
        Role::Server(Arc::new(server)),
    )
}

impl Pair {
    fn new() -> Pair {
        let (client, server) = roles();
        Pair {
            client: Sessions::new(client, SETTINGS),
            server: Sessions::new(server, SETTINGS),
        }
    }

    /// Carries records until neither end has any more; the streams that carried some.
    fn settle(&mut self) -> Result<Vec<u16>, Failure> {
        let mut used = Vec::new();
        while carry(&mut self.client, &mut self.server, &mut used)?
            | carry(&mut self.server, &mut self.client, &mut used)?
        {}
        used.sort_unstable();
        used.dedup();
        Ok(used)
    }
}

fn carry(from: &mut Sessions, to: &mut Sessions, used: &mut Vec<u16>) -> Result<bool, Failure> {
    let mut any = false;
    while let Some((stream, octets)) = from.first_record() {
        assert_eq!(
            octets.len(),
            5 + usize::from(u16::from_be_bytes([octets[3], octets[4]])),
            "one record is one user message"
        );
        from.pop_record();
        used.push(stream);
        any = true;
        to.receive(stream, false, &octets, Instant::now())?;
    }
    Ok(any)
}

fn message(payload: Bytes, stream: u16) -> OutboundMessage {
    OutboundMessage {
        stream,
        ..OutboundMessage::new(payload, ([192, 0, 2, 1], 5060).into())
    }
}

fn request(name: &str, body: usize) -> Bytes {
    let body = "x".repeat(body);
    format!(
        "OPTIONS sip:a@example.org SIP/2.0\r\n\
         Via: SIP/2.0/TLS-SCTP 192.0.2.1;branch=z9hG4bK{name}\r\n\
         Call-ID: {name}\r\nCSeq: 1 OPTIONS\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

fn response(name: &str) -> Bytes {
    format!("SIP/2.0 200 OK\r\nCall-ID: {name}\r\nContent-Length: 0\r\n\r\n").into()
}

fn messages(sessions: &mut Sessions, stream: u16) -> Vec<Bytes> {
    let mut all = Vec::new();
    while let Some(frame) = sessions.next_frame(stream).expect("framed") {
        match frame {
            Frame::Message(octets) => all.push(octets),
            other => panic!("{other:?}"),
        }
    }
    all
}

fn send(sessions: &mut Sessions, payload: &Bytes, stream: u16) {
    let sent = sessions.send(message(payload.clone(), stream), Instant::now());
    sent.expect("sent");
}

#[test]
fn each_transaction_has_a_pair_of_streams_and_each_pair_a_session() {
    let mut pair = Pair::new();
    pair.client.begin_first(Instant::now()).expect("begun");
    assert_eq!(pair.settle(), Ok(vec![0]));
    for name in ["a", "b", "c", "d"] {
        send(&mut pair.client, &request(name, 0), 0);
        send(&mut pair.client, &request(name, 1), 0);
    }
    assert_eq!(pair.settle(), Ok(vec![0, 1, 2, 3]));
    for (stream, name) in ["a", "b", "c", "d"].iter().enumerate() {
        let stream = u16::try_from(stream).expect("small");
        let come = messages(&mut pair.server, stream);
        assert_eq!(come, [request(name, 0), request(name, 1)]);
        // The answer takes the session of the request.
        send(&mut pair.server, &response(name), stream);
        assert_eq!(pair.settle(), Ok(vec![stream]));
        assert_eq!(messages(&mut pair.client, stream), [response(name)]);
    }
    // The server's own transactions take turns in what is there.
    for name in ["e", "f", "g", "h"] {
        send(&mut pair.server, &request(name, 0), 0);
    }
    assert_eq!(pair.settle(), Ok(vec![0, 1, 2, 3]));
    assert_eq!(pair.client.deadline(), None);
    assert_eq!(pair.server.deadline(), None);
}

#[test]
fn later_sessions_resume_the_first() {
    let mut pair = Pair::new();
    pair.client.begin_first(Instant::now()).expect("begun");
    pair.settle().expect("a handshake");
    let full = pair.client.by_stream[&0].handshake_kind();
    for name in ["a", "b"] {
        send(&mut pair.client, &request(name, 0), 0);
    }
    pair.settle().expect("a handshake");
    let abbreviated = pair.client.by_stream[&1].handshake_kind();
    assert_eq!(full, Some(rustls::HandshakeKind::Full));
    assert_eq!(abbreviated, Some(rustls::HandshakeKind::Resumed));
}

#[test]
fn a_server_waits_for_the_first_session() {
    let mut pair = Pair::new();
    send(&mut pair.server, &request("a", 0), 0);
    assert_eq!(pair.server.waiting(), 1);
    assert!(pair.server.first_record().is_none());
    pair.client.begin_first(Instant::now()).expect("begun");
    pair.settle().expect("a handshake");
    assert_eq!(pair.server.waiting(), 0);
    assert_eq!(messages(&mut pair.client, 0), [request("a", 0)]);
}

#[test]
fn a_large_message_is_many_records_however_they_are_cut() {
    let mut pair = Pair::new();
    pair.client.begin_first(Instant::now()).expect("begun");
    pair.settle().expect("a handshake");
    let large = request("a", 60_000);
    send(&mut pair.client, &large, 0);
    send(&mut pair.client, &large, 0);
    let mut octets = Vec::new();
    let mut records = 0;
    while let Some((0, record)) = pair.client.first_record() {
        octets.extend_from_slice(&record);
        let ends = pair.client.pop_record().and_then(|record| record.ends);
        records += 1;
        assert_eq!(ends.is_some(), records % 4 == 0);
    }
    assert_eq!(records, 8);
    for piece in octets.chunks(7_001) {
        let taken = pair.server.receive(0, false, piece, Instant::now());
        taken.expect("records");
    }
    assert_eq!(messages(&mut pair.server, 0), [large.clone(), large]);
}

#[test]
fn a_message_in_part_has_a_deadline() {
    let mut pair = Pair::new();
    let begun = Instant::now();
    pair.client.begin_first(begun).expect("begun");
    let by = begun + SETTINGS.handshake;
    assert_eq!(pair.client.deadline(), Some((by, true)));
    pair.settle().expect("a handshake");
    let whole = request("a", 100);
    send(&mut pair.client, &whole.slice(..50), 0);
    pair.settle().expect("records");
    assert!(messages(&mut pair.server, 0).is_empty());
    let (by, is_handshake) = pair.server.deadline().expect("a deadline");
    assert!(!is_handshake && by > begun + SETTINGS.handshake);
    send(&mut pair.client, &whole.slice(50..), 0);
    pair.settle().expect("records");
    assert_eq!(messages(&mut pair.server, 0), [whole]);
    assert_eq!(pair.server.deadline(), None);
}

#[test]
fn what_is_no_tls_is_answered_by_an_alert() {
    let (_, server) = roles();
    let mut server = Sessions::new(server, SETTINGS);
    let garbage = b"OPTIONS sip:a@example.org SIP/2.0\r\n\r\n";
    let failure = server.receive(0, false, garbage, Instant::now());
    assert!(matches!(failure, Err(Failure::Tls(_))), "{failure:?}");
    let (stream, alert) = server.first_record().expect("an alert");
    assert_eq!((stream, alert[0]), (0, 21));
}

#[test]
fn only_pairs_of_streams_and_order_will_do() {
    let (_, server) = roles();
    let mut server = Sessions::new(server, SETTINGS);
    let now = Instant::now();
    let beyond = server.receive(4, false, b"\x16", now);
    assert_eq!(beyond, Err(Failure::NoPair(4)));
    let beyond = server.receive(u16::MAX, false, b"\x16", now);
    assert_eq!(beyond, Err(Failure::NoPair(u16::MAX)));
    let unordered = server.receive(0, true, b"\x16", now);
    assert_eq!(unordered, Err(Failure::Unordered));
}

#[test]
fn a_handshake_that_hangs_ends_its_stream_alone() {
    let mut pair = Pair::new();
    let begun = Instant::now();
    pair.client.begin_first(begun).expect("begun");
    pair.settle().expect("a handshake");
    // Stream 0 is taken, on stream 1 nothing arrives.
    send(&mut pair.client, &request("a", 0), 0);
    pair.settle().expect("records");
    assert_eq!(messages(&mut pair.server, 0), [request("a", 0)]);
    send(&mut pair.client, &request("b", 0), 0);
    assert_eq!(
        pair.client.pop_record().map(|_| pair.client.waiting()),
        Some(1)
    );
    let half = pair.server.receive(1, false, b"\x16\x03\x01", begun);
    assert_eq!(half, Ok(()));
    assert_eq!(pair.client.give_up_overdue(begun), Ok(false));
    let late = Instant::now() + SETTINGS.handshake;
    for end in [&mut pair.client, &mut pair.server] {
        let (by, is_handshake) = end.deadline().expect("a deadline");
        assert!(is_handshake && by <= late);
        assert_eq!(end.give_up_overdue(late), Ok(true));
        assert_eq!(end.give_up_overdue(late), Ok(false));
        assert_ne!(
            end.deadline().map(|(_, is_handshake)| is_handshake),
            Some(false)
        );
    }
    // What waited goes another way, what comes late is not looked at, and nothing new goes there.
    let late_octets = pair.server.receive(1, false, b"whatever", begun);
    assert_eq!(late_octets, Ok(()));
    let used = pair.settle().expect("records");
    let stream = *used.last().expect("a stream");
    assert!(stream > 1, "{used:?}");
    assert_eq!(messages(&mut pair.server, stream), [request("b", 0)]);
    for name in ["c", "d", "e", "f"] {
        send(&mut pair.client, &request(name, 0), 0);
        let used = pair.settle().expect("records");
        assert!(!used.contains(&1), "{used:?}");
    }
}

#[test]
fn without_a_session_a_handshake_that_hangs_is_the_end() {
    let (client, _) = roles();
    let mut client = Sessions::new(client, SETTINGS);
    let begun = Instant::now();
    client.begin_first(begun).expect("begun");
    let late = begun + SETTINGS.handshake;
    assert_eq!(client.give_up_overdue(late), Ok(false));
}

/// As a peer that closes one session of several does.
fn close(sessions: &mut Sessions, stream: u16) {
    sessions
        .by_stream
        .get_mut(&stream)
        .expect("a session")
        .close();
    sessions.note_records(stream);
}

#[test]
fn a_pair_of_streams_is_used_again_after_the_end_of_its_session() {
    let mut pair = Pair::new();
    pair.client.begin_first(Instant::now()).expect("begun");
    pair.settle().expect("a handshake");
    for name in ["a", "b"] {
        send(&mut pair.client, &request(name, 0), 0);
    }
    pair.settle().expect("records");
    assert_eq!(pair.server.usable, [0, 1]);
    close(&mut pair.client, 0);
    assert_eq!(
        carry(&mut pair.client, &mut pair.server, &mut Vec::new()),
        Ok(true)
    );
    assert_eq!(pair.server.usable, [1]);
    // The answer to the end is still on its way when the next beginning comes.
    assert_eq!(
        pair.server.first_record().map(|(stream, _)| stream),
        Some(0)
    );
    let mut again = Sessions::new(pair.client.role.clone(), SETTINGS);
    again.begin_first(Instant::now()).expect("begun");
    assert_eq!(
        carry(&mut again, &mut pair.server, &mut Vec::new()),
        Ok(true)
    );
    let (stream, end) = pair.server.first_record().expect("the end of the former");
    assert_eq!(stream, 0);
    assert!(end.len() < 60, "{}", end.len());
    pair.server.pop_record();
    while carry(&mut pair.server, &mut again, &mut Vec::new()).expect("records")
        | carry(&mut again, &mut pair.server, &mut Vec::new()).expect("records")
    {}
    assert_eq!(pair.server.usable, [1, 0]);
    send(&mut again, &request("c", 0), 0);
    carry(&mut again, &mut pair.server, &mut Vec::new()).expect("records");
    assert_eq!(messages(&mut pair.server, 0).last(), Some(&request("c", 0)));
}

#[test]
fn a_transaction_keeps_its_stream_when_another_one_ends() {
    let mut pair = Pair::new();
    pair.client.begin_first(Instant::now()).expect("begun");
    pair.settle().expect("a handshake");
    for (stream, name) in ["a", "b", "c", "d"].iter().enumerate() {
        send(&mut pair.client, &request(name, 0), 0);
        let stream = u16::try_from(stream).expect("small");
        assert_eq!(pair.settle(), Ok(vec![stream]));
    }
    close(&mut pair.server, 1);
    pair.settle().expect("records");
    // Its CANCEL, say.
    send(&mut pair.client, &request("c", 7), 0);
    assert_eq!(pair.settle(), Ok(vec![2]));
    send(&mut pair.client, &request("d", 7), 0);
    assert_eq!(pair.settle(), Ok(vec![3]));
}

#[test]
fn the_end_of_all_sessions_is_that_of_the_association() {
    let mut pair = Pair::new();
    pair.client.begin_first(Instant::now()).expect("begun");
    pair.settle().expect("a handshake");
    pair.client.close();
    assert_eq!(pair.settle(), Err(Failure::AllClosed));
}

#[test]
fn what_was_not_sent_whole_comes_back() {
    let mut pair = Pair::new();
    pair.client.begin_first(Instant::now()).expect("begun");
    pair.settle().expect("a handshake");
    send(&mut pair.client, &request("a", 60_000), 0);
    send(&mut pair.client, &request("b", 0), 0);
    // The first record of the first message has gone.
    pair.client.pop_record();
    let unsent: Vec<Bytes> = pair
        .client
        .into_unsent()
        .map(|message| message.payload)
        .collect();
    assert_eq!(unsent, [request("a", 60_000), request("b", 0)]);
    send(&mut pair.server, &request("c", 0), 0);
    assert_eq!(pair.server.into_unsent().count(), 1);
}
