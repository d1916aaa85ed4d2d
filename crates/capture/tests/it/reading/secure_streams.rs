//! TLS over SCTP: a connection for each pair of streams, whose secrets its ends log.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use capture::{Carrier, Counts, Settings};
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use sctp::packet::{Chunk, Data, Init, PacketWriter, Parameters, Ssn, Tsn};

use crate::reading::build::*;

/// A SIP message, and what carried it.
type Message = (Carrier, Vec<u8>);

/// Lines of a key log.
#[derive(Debug, Default)]
struct Log(Mutex<String>);

impl rustls::KeyLog for Log {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let hexadecimal = |octets: &[u8]| -> String {
            octets.iter().map(|octet| format!("{octet:02x}")).collect()
        };
        let line = format!(
            "{label} {} {}\n",
            hexadecimal(client_random),
            hexadecimal(secret)
        );
        self.0.lock().unwrap().push_str(&line);
    }
}

/// A user message on its way: from which end (0 is the client), on which stream.
struct Sent {
    from: usize,
    stream: u16,
    octets: Vec<u8>,
}

/// The records of a TLS connection on a pair of streams in which both ends say something several times.
fn session(
    stream: u16,
    log: &Arc<Log>,
    version: &'static rustls::SupportedProtocolVersion,
) -> Vec<Sent> {
    let made =
        rcgen::generate_simple_self_signed(["example.org".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.key_log = Arc::clone(log) as Arc<dyn rustls::KeyLog>;
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .expect("a key");
    let name = ServerName::try_from("example.org").expect("a name");
    let mut ends: [Connection; 2] = [
        ClientConnection::new(Arc::new(client), name)
            .expect("a client")
            .into(),
        ServerConnection::new(Arc::new(server))
            .expect("a server")
            .into(),
    ];
    let mut sent = Vec::new();
    exchange(&mut ends, stream, &mut sent);
    for number in 0..3 {
        for from in [0, 1] {
            let message = request(&format!("call-{stream}-{from}-{number}"), 2000);
            ends[from].writer().write_all(&message).expect("room");
            exchange(&mut ends, stream, &mut sent);
        }
    }
    sent
}

/// Carries records between both until nobody has more to say.
fn exchange(ends: &mut [Connection; 2], stream: u16, sent: &mut Vec<Sent>) {
    while ends.iter().any(|end| end.wants_write()) {
        for from in [0, 1] {
            let mut octets = Vec::new();
            while ends[from].wants_write() {
                ends[from].write_tls(&mut octets).expect("a vector");
            }
            let mut rest = &octets[..];
            ends[1 - from].read_tls(&mut rest).expect("octets");
            ends[1 - from].process_new_packets().expect("TLS");
            let mut heard = [0; 8192];
            while ends[1 - from]
                .reader()
                .read(&mut heard)
                .is_ok_and(|length| length > 0)
            {}
            // A record, a user message (RFC 3436 section 3.2).
            let mut rest = &octets[..];
            while let Some(header) = rest.first_chunk::<5>() {
                let length = 5 + usize::from(u16::from_be_bytes([header[3], header[4]]));
                sent.push(Sent {
                    from,
                    stream,
                    octets: rest[..length].to_vec(),
                });
                rest = &rest[length..];
            }
        }
    }
}

const TAGS: [u32; 2] = [0xaaaa_0001, 0xbbbb_0002];

/// Packets with a user message each; `paths` has the addresses of both ends, which take turns.
fn packets(sent: &[Sent], paths: &[[&str; 2]]) -> Vec<Vec<u8>> {
    let mut numbers = [[0_u16; 8]; 2];
    let mut tsns = [100, 200];
    let made = sent.iter().enumerate().map(|(at, one)| {
        let number = &mut numbers[one.from][usize::from(one.stream)];
        let data = Data {
            beginning: true,
            ending: true,
            tsn: Tsn(tsns[one.from]),
            stream: one.stream,
            ssn: Ssn(*number),
            user_data: &one.octets,
            ..Data::default()
        };
        *number += 1;
        tsns[one.from] += 1;
        let [client, server] = paths[at % paths.len()];
        let (source, destination, ports) = match one.from {
            0 => (client, server, [4000, 5061]),
            _ => (server, client, [5061, 4000]),
        };
        let mut buffer = BytesMut::new();
        let tag = TAGS[1 - one.from];
        let mut writer = PacketWriter::new(&mut buffer, ports[0], ports[1], tag, 65_000);
        writer.data(&data).expect("it fits");
        packet(source, destination, 132, &writer.finish())
    });
    made.collect()
}

/// The INIT ACK tells which tags belong together.
fn init_ack([client, server]: [&str; 2]) -> Vec<u8> {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 5061, 4000, TAGS[0], 65_000);
    let init_ack = Init {
        initiate_tag: TAGS[1],
        a_rwnd: 65_536,
        outbound_streams: 8,
        inbound_streams: 8,
        initial_tsn: Tsn(200),
        parameters: Parameters::new(&[]),
    };
    writer.chunk(&Chunk::InitAck(init_ack)).expect("it fits");
    packet(server, client, 132, &writer.finish())
}

fn read_secure(packets: &[Vec<u8>], log: &Log) -> (Vec<Message>, Vec<Kept>, Counts) {
    let mut settings = Settings::default();
    settings.keys.add(log.0.lock().unwrap().as_bytes());
    let (kept, counts) = read_with(&pcap(RAW, packets), &settings);
    (messages(&kept), kept, counts)
}

/// What was said on a stream, in any order of streams.
fn expected(streams: &[u16]) -> Vec<Message> {
    let mut expected = Vec::new();
    for stream in streams {
        for number in 0..3 {
            for from in [0, 1] {
                let message = request(&format!("call-{stream}-{from}-{number}"), 2000);
                expected.push((Carrier::TlsSctp, message));
            }
        }
    }
    expected
}

const PATH: [&str; 2] = ["10.0.0.1:1", "10.0.0.2:1"];
const OTHER_PATH: [&str; 2] = ["10.1.0.1:1", "10.1.0.2:1"];

#[test]
fn each_pair_of_streams_has_a_connection() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let log = Arc::new(Log::default());
        let (one, other) = (session(1, &log, version), session(5, &log, version));
        // Both go on at the same time.
        let (mut one, mut other) = (one.into_iter(), other.into_iter());
        let mut sent = Vec::new();
        loop {
            let before = sent.len();
            sent.extend(one.next());
            sent.extend(other.next());
            if sent.len() == before {
                break;
            }
        }
        let (mut heard, kept, _) = read_secure(&packets(&sent, &[PATH]), &log);
        heard.sort_by(|(_, a), (_, b)| a.cmp(b));
        let mut wanted = expected(&[1, 5]);
        wanted.sort_by(|(_, a), (_, b)| a.cmp(b));
        assert_eq!(heard, wanted);
        assert_eq!(warnings(&kept), []);
    }
}

#[test]
fn several_addresses_are_one_association() {
    let log = Arc::new(Log::default());
    let sent = session(2, &log, &rustls::version::TLS13);
    let mut all = vec![init_ack(PATH)];
    all.extend(packets(&sent, &[PATH, OTHER_PATH]));
    assert_eq!(read_secure(&all, &log).0, expected(&[2]));
    // Twice each, as when the first was lost behind the capture.
    let twice: Vec<_> = all
        .iter()
        .flat_map(|one| [one.clone(), one.clone()])
        .collect();
    assert_eq!(read_secure(&twice, &log).0, expected(&[2]));
}

#[test]
fn records_are_put_in_order() {
    let log = Arc::new(Log::default());
    let sent = session(2, &log, &rustls::version::TLS13);
    let mut all = packets(&sent, &[PATH]);
    // The first record of each end stays the first; then pairs change places.
    let server = sent
        .iter()
        .position(|one| one.from == 1)
        .expect("an answer");
    for at in (server + 1..all.len() - 1).step_by(2) {
        all.swap(at, at + 1);
    }
    let (mut heard, kept, _) = read_secure(&all, &log);
    heard.sort_by(|(_, a), (_, b)| a.cmp(b));
    let mut wanted = expected(&[2]);
    wanted.sort_by(|(_, a), (_, b)| a.cmp(b));
    assert_eq!(heard, wanted);
    assert_eq!(warnings(&kept), []);
}

#[test]
fn without_secrets_nothing_is_seen() {
    let log = Arc::new(Log::default());
    let sent = session(2, &log, &rustls::version::TLS13);
    let (heard, _, counts) = read_secure(&packets(&sent, &[PATH]), &Log::default());
    assert_eq!((heard.len(), counts.connections_without_secrets), (0, 1));
    // Nor beyond a record that is missing: what waits for it is bounded.
    let mut lacking = packets(&sent, &[PATH]);
    let gone = lacking.len() / 2;
    lacking.remove(gone);
    let (heard, ..) = read_secure(&lacking, &log);
    assert!(heard.len() < 6);
}
