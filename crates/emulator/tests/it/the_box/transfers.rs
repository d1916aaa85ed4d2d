//! The kernel's TCP over networks in a box.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use link::{Bottleneck, LinkConfig};

use crate::the_box::hosts::Hosts;
use crate::the_box::topologies::routed;

/// A connection from the client to the server: the ends of both.
fn connected(hosts: &Hosts, server: &str) -> (TcpStream, TcpStream) {
    let listener = hosts.listen("server", server);
    let client = hosts.connect("client", server);
    let (accepted, _) = listener.accept().unwrap();
    (client, accepted)
}

/// Sends so many bytes from the client to the server; gives how long that took, and the client's end.
fn transfer(hosts: &Hosts, server: &str, bytes: usize) -> (Duration, TcpStream) {
    let (mut client, accepted) = connected(hosts, server);
    let payload = payload(bytes);
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| arrives(&accepted, &payload));
        client.write_all(&payload).unwrap();
    });
    (start.elapsed(), client)
}

fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|number| (number / 7) as u8).collect()
}

/// What is received is what was sent.
fn arrives(mut accepted: &TcpStream, sent: &[u8]) {
    let mut received = vec![0; sent.len()];
    accepted.read_exact(&mut received).unwrap();
    assert!(received == sent, "what was received is what was sent");
}

#[test]
fn tcp_is_held_to_the_rate() {
    let config = LinkConfig {
        bottleneck: Some(Bottleneck::new(16_000_000)),
        delay: Duration::from_millis(5),
        ..LinkConfig::default()
    };
    let Some(hosts) = Hosts::up(&routed(config)) else {
        return;
    };
    for server in ["10.2.0.2:7004", "[fd00:2::2]:7004"] {
        let (took, _client) = transfer(&hosts, server, 1_000_000);
        println!("{took:?} for what takes 500 ms without headers");
        assert!(took >= Duration::from_millis(500));
    }
}

/// The packets that TCP sends are no longer than the path takes.
#[test]
fn tcp_learns_the_mtu_of_the_path() {
    let mut config = routed(LinkConfig::default());
    config.links[1].mtu = 1300;
    let Some(hosts) = Hosts::up(&config) else {
        return;
    };
    // The server offers segments for its own MTU: only the router's errors tell of the client's.
    let mut netlink = hosts.namespaces["server"].netlink().unwrap();
    netlink.set_link_mtu("eth0", 1500).unwrap();
    for server in ["10.2.0.2:7005", "[fd00:2::2]:7005"] {
        let (_, client) = transfer(&hosts, server, 300_000);
        let info = tcp_info::tcp_info(client.as_fd()).unwrap();
        assert_eq!(info.mtu_bytes, 1300);
    }
    let statistics = hosts.emulator.snapshot().unwrap().routers[0].statistics;
    assert!(statistics.too_big_packets > 0);
    assert_eq!(statistics.fragmented_packets, 0);
}

#[test]
fn tcp_survives_flipped_bits_lost_and_doubled_packets() {
    let config = LinkConfig {
        corrupt: 0.02.into(),
        loss: 0.01.into(),
        duplicate: 0.02.into(),
        ..LinkConfig::default()
    };
    let Some(hosts) = Hosts::up(&routed(config)) else {
        return;
    };
    let (took, _client) = transfer(&hosts, "10.2.0.2:7006", 1_000_000);
    let snapshot = hosts.emulator.snapshot().unwrap();
    let line = &snapshot.links[1].forward;
    println!("{took:?}, {} altered", line.link.altered_packets);
    assert!(line.link.offered_packets > 600);
    assert!(line.link.altered_packets > 0);
    assert!(line.link.lost_packets > 0);
}

#[test]
fn tcp_goes_on_when_a_link_is_healed() {
    const CUT: Duration = Duration::from_millis(400);
    let config = LinkConfig {
        bottleneck: Some(Bottleneck {
            queue_bytes: 32_000,
            ..Bottleneck::new(8_000_000)
        }),
        ..LinkConfig::default()
    };
    let Some(hosts) = Hosts::up(&routed(config)) else {
        return;
    };
    let (mut client, accepted) = connected(&hosts, "10.2.0.2:7007");
    let payload = payload(500_000);
    let (first, second) = payload.split_at(250_000);
    let start = Instant::now();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| arrives(&accepted, first));
        client.write_all(first).unwrap();
        receiver.join().unwrap();
        hosts.emulator.cut("right").unwrap();
        // It fits into the socket: it has left, and is lost, when the link is healed.
        client.write_all(&second[..1000]).unwrap();
        scope.spawn(|| {
            thread::sleep(CUT);
            hosts.emulator.heal("right").unwrap();
        });
        scope.spawn(|| arrives(&accepted, second));
        client.write_all(&second[1000..]).unwrap();
    });
    let took = start.elapsed();
    println!("{took:?} for what takes 500 ms without headers, with a cut of 400 ms");
    assert!(took >= CUT + Duration::from_millis(450));
    let snapshot = hosts.emulator.snapshot().unwrap();
    assert!(snapshot.links[1].forward.link.down_packets > 0);
}
