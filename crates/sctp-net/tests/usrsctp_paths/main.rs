//! 64 MiB to and from usrsctp, over two paths of which one is cut in the middle, right over IP and in UDP: what
//! arrives is what was sent.

#[path = "../common/mod.rs"]
mod common;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use common::network::{Host, join};
use common::{pattern, quick};
use sctp_net::{
    CloseCause, ConnectTo, EndpointConfig, RawCarrierConfig, SendInfo, Stack, UdpCarrierConfig,
};
use test_support::{Peer, require_command, require_file};

const BYTES: usize = 64 << 20;
const MESSAGE: usize = 16_384;
const SCTP_PORT: u16 = 5001;

/// The encapsulation port of either side; each side has addresses of its own.
const UDP_PORT: u16 = 9899;

/// Long enough for a machine that does three other things.
const LIMIT: Duration = Duration::from_secs(240);

/// The path to be cut first: it is the primary one.
const CUT: &str = "wire0";
const OURS: [&str; 2] = ["10.1.0.1", "10.2.0.1"];
const THEIRS: [&str; 2] = ["10.1.0.2", "10.2.0.2"];

#[derive(Clone, Copy, PartialEq)]
enum Over {
    Ip,
    Udp,
}

impl Over {
    /// What the other end is told: no port is no UDP.
    fn udp_port(self) -> u16 {
        match self {
            Over::Ip => 0,
            Over::Udp => UDP_PORT,
        }
    }

    fn stack(self) -> Stack {
        let addresses: Vec<IpAddr> = OURS.iter().map(|ip| ip.parse().unwrap()).collect();
        match self {
            Over::Ip => Stack::raw(RawCarrierConfig {
                addresses,
                tap: Some(
                    sctp_net::Tap::create(std::path::Path::new("/tmp/up.pcapng"), "raw").unwrap(),
                ),
                ..RawCarrierConfig::default()
            }),
            Over::Udp => {
                let sockets = addresses.iter().map(|ip| (*ip, UDP_PORT).into());
                Stack::udp(UdpCarrierConfig {
                    addresses: sockets.collect(),
                    ..UdpCarrierConfig::new((addresses[0], UDP_PORT).into())
                })
            }
        }
        .unwrap()
    }
}

/// Our host, theirs, and the program for theirs; `None` where one of them cannot be had.
fn hosts() -> Option<(Host, Host, PathBuf)> {
    let (ours, theirs) = (Host::new()?, Host::new()?);
    for (path, wire) in ["wire0", "wire1"].into_iter().enumerate() {
        let (our, their) = (format!("{}/24", OURS[path]), format!("{}/24", THEIRS[path]));
        ours.link(&theirs, wire, &[&our], &[&their]);
    }
    Some((ours, theirs, build()?))
}

/// Builds the other end.
fn build() -> Option<PathBuf> {
    require_file("/usr/include/usrsctp.h", "libusrsctp-dev")?;
    let compiler = require_command("cc", "gcc")?;
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("usrsctp-peer-{}", std::process::id()));
    if !program.exists() {
        // Two tests may build it at the same time: each under a name of its own, then in one go.
        let fresh = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/usrsctp_paths/peer.c");
        let built = Command::new(compiler)
            .args(["-O2", "-o"])
            .arg(fresh.path())
            .args([source, "-lusrsctp", "-lpthread"])
            .status()
            .unwrap();
        assert!(built.success());
        fresh.persist(&program).unwrap();
    }
    Some(program)
}

fn config() -> EndpointConfig {
    EndpointConfig {
        a_rwnd: 1 << 20,
        ..quick()
    }
}

fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

const HASH_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

fn send_to_it(over: Over) {
    let Some((ours, theirs, program)) = hosts() else {
        return;
    };
    let (udp, port) = (over.udp_port().to_string(), SCTP_PORT.to_string());
    let mut sink = Peer::spawn(theirs.namespace.command(&program).args([
        "sink",
        &udp,
        &port,
        &THEIRS.join(","),
    ]));
    sink.wait_for_output("listening", Duration::from_secs(30));
    let cutter = ours.clone();
    let sending = ours.run(move || async move {
        let stack = over.stack();
        let endpoint = stack.endpoint(0, config()).unwrap();
        let to = ConnectTo {
            addresses: THEIRS.iter().map(|ip| ip.parse().unwrap()).collect(),
            port: SCTP_PORT,
            encapsulation_port: (over == Over::Udp).then_some(UDP_PORT),
            ..ConnectTo::default()
        };
        let association = endpoint.connect_to(to).await.unwrap();
        let mut hash = HASH_OF_NOTHING;
        for number in 0..BYTES / MESSAGE {
            if number == BYTES / MESSAGE / 2 {
                cutter.namespace.ip(&format!("link set {CUT} down"));
            }
            let payload = pattern(number, MESSAGE);
            hash = fnv1a(hash, &payload);
            let sent = association.send(SendInfo::default(), payload);
            tokio::time::timeout(LIMIT, sent).await.unwrap().unwrap();
        }
        let end = tokio::time::timeout(LIMIT, association.shutdown()).await;
        assert_eq!(end, Ok(CloseCause::Shutdown));
        stack.close().await;
        hash
    });
    let hash = join(sending);
    assert!(sink.wait(LIMIT).success());
    let said = sink.output();
    let expected = format!("received {BYTES} bytes, hash {hash:016x}");
    assert!(said.contains(&expected), "{said}, not {expected}");
}

fn receive_from_it(over: Over) {
    let Some((ours, theirs, program)) = hosts() else {
        return;
    };
    let (ready, is_ready) = std::sync::mpsc::channel();
    let cutter = ours.clone();
    let receiving = ours.run(move || async move {
        let stack = over.stack();
        let endpoint = stack.endpoint(SCTP_PORT, config()).unwrap();
        ready.send(()).unwrap();
        let association = tokio::time::timeout(LIMIT, endpoint.accept()).await;
        let association = association.unwrap().unwrap();
        let (mut bytes, mut hash, mut is_cut) = (0, HASH_OF_NOTHING, false);
        while let Some(message) = tokio::time::timeout(LIMIT, association.receive())
            .await
            .unwrap()
        {
            bytes += message.payload.len();
            hash = fnv1a(hash, &message.payload);
            if !is_cut && bytes > BYTES / 2 {
                is_cut = true;
                cutter.namespace.ip(&format!("link set {CUT} down"));
            }
        }
        assert_eq!(association.closed().await, CloseCause::Shutdown);
        stack.close().await;
        (bytes, hash)
    });
    is_ready.recv().unwrap();
    let (udp, port) = (over.udp_port().to_string(), SCTP_PORT.to_string());
    let (bytes, size) = (BYTES.to_string(), MESSAGE.to_string());
    let (to, from) = (OURS.join(","), THEIRS.join(","));
    let mut sender = Peer::spawn(
        theirs
            .namespace
            .command(&program)
            .args(["send", &udp, &port, &to, &bytes, &size, &from, &udp]),
    );
    let (received, hash) = join(receiving);
    assert_eq!(received, BYTES);
    assert!(sender.wait(LIMIT).success());
    let said = sender.output();
    let expected = format!("sent {BYTES} bytes, hash {hash:016x}");
    assert!(said.contains(&expected), "{said}, not {expected}");
}

#[test]
fn we_send_over_ip_while_the_primary_path_is_cut() {
    send_to_it(Over::Ip);
}

#[test]
fn we_send_over_udp_while_the_primary_path_is_cut() {
    send_to_it(Over::Udp);
}

#[test]
fn usrsctp_sends_over_ip_while_the_primary_path_is_cut() {
    receive_from_it(Over::Ip);
}

#[test]
fn usrsctp_sends_over_udp_while_the_primary_path_is_cut() {
    receive_from_it(Over::Udp);
}
