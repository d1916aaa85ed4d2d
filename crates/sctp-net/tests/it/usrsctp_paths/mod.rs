//! 64 MiB to and from usrsctp, over two paths of which one is cut in the middle, right over IP and in UDP: what
//! arrives is what was sent.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::network::{Host, join};
use crate::common::{pattern, quick};
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

/// Longer than a sender is silent that has lost a path and all that was under way on it.
const HALT: Duration = Duration::from_secs(60);

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
        // A cut path is to be silent. Without a neighbour that it knows for good, their kernel would refuse what it
        // cannot send there any more, and usrsctp's raw sockets would halt more often.
        let hardware = format!("02:00:00:00:00:0{path}");
        ours.namespace
            .ip(&format!("link set {wire} address {hardware}"));
        theirs.namespace.ip(&format!(
            "neighbour replace {} lladdr {hardware} dev {wire} nud permanent",
            OURS[path]
        ));
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
        // Nothing of this process is open to be written to: what another test starts meanwhile would keep it so,
        // and a program that is being written to cannot be run.
        let fresh = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR"));
        let fresh = fresh.unwrap().into_temp_path();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/usrsctp_paths/peer.c");
        let built = Command::new(compiler)
            .args(["-O2", "-o"])
            .arg(&fresh)
            .args([source, "-lusrsctp", "-lpthread"])
            .status()
            .unwrap();
        assert!(built.success());
        fresh.persist(&program).unwrap();
    }
    Some(program)
}

fn config() -> EndpointConfig {
    quick().a_rwnd(1 << 20)
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
    sink.wait_for_output("listening", HALT);
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

/// usrsctp's blocking sender halts for ever once in some dozens of runs where a path is cut: its heartbeats
/// are seen on the wire, and no DATA. So it has more than one try.
fn receive_from_it(over: Over) {
    for _ in 0..3 {
        let Some((ours, theirs, program)) = hosts() else {
            return;
        };
        if has_received_from_it(over, ours, theirs, &program) {
            return;
        }
        eprintln!("usrsctp's sender has halted");
    }
    panic!("usrsctp's sender has halted each time");
}

/// Whether all that they sent was received; not so when they halted.
fn has_received_from_it(over: Over, ours: Host, theirs: Host, program: &Path) -> bool {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let cutter = ours.clone();
    let receiving = ours.run(move || async move {
        let stack = over.stack();
        let endpoint = stack.endpoint(SCTP_PORT, config()).unwrap();
        ready.send(()).unwrap();
        let association = tokio::time::timeout(LIMIT, endpoint.accept()).await;
        let association = association.unwrap().unwrap();
        let (mut bytes, mut hash, mut is_cut) = (0, HASH_OF_NOTHING, false);
        loop {
            let Ok(received) = tokio::time::timeout(HALT, association.receive()).await else {
                let status = association.status().await;
                assert!(is_cut && status.is_some(), "{bytes} bytes, {status:?}");
                return None;
            };
            let Some(message) = received else { break };
            bytes += message.payload.len();
            hash = fnv1a(hash, &message.payload);
            if !is_cut && bytes > BYTES / 2 {
                is_cut = true;
                cutter.namespace.ip(&format!("link set {CUT} down"));
            }
        }
        assert_eq!(association.closed().await, CloseCause::Shutdown);
        stack.close().await;
        Some((bytes, hash))
    });
    is_ready.recv().unwrap();
    let (udp, port) = (over.udp_port().to_string(), SCTP_PORT.to_string());
    let (bytes, size) = (BYTES.to_string(), MESSAGE.to_string());
    let (to, from) = (OURS.join(","), THEIRS.join(","));
    let mut sender = Peer::spawn(
        theirs
            .namespace
            .command(program)
            .args(["send", &udp, &port, &to, &bytes, &size, &from, &udp]),
    );
    let Some((received, hash)) = join(receiving) else {
        return false;
    };
    assert_eq!(received, BYTES);
    assert!(sender.wait(LIMIT).success());
    let said = sender.output();
    let expected = format!("sent {BYTES} bytes, hash {hash:016x}");
    assert!(said.contains(&expected), "{said}, not {expected}");
    true
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
