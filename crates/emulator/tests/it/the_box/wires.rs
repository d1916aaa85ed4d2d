//! Between real interfaces: whole frames of Ethernet through packet sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use emulator::{
    Device, DriverConfig, Emulator, End, Framing, LinkBetween, Network, NetworkConfig,
    switch_off_offloads,
};
use link::LinkConfig;
use namespace::Namespace;
use test_support::{require_command, say_skipped, wait_until};

/// Two machines with a cable each to a third one, which is between them.
struct Wires {
    ends: [Namespace; 2],
    _middle: Namespace,
    emulator: Emulator,
}

impl Wires {
    fn up(config: LinkConfig) -> Option<Wires> {
        require_command("ip", "iproute2")?;
        let namespaces = [Namespace::new(), Namespace::new(), Namespace::new()];
        let [Ok(left), Ok(right), Ok(middle)] = namespaces else {
            say_skipped("no network namespaces");
            return None;
        };
        let framing = Framing::Ethernet;
        let ends = ["left", "right"].map(|name| End {
            framing,
            ..End::new(name, "eth0", [])
        });
        let network = NetworkConfig {
            hosts: vec!["left".to_owned(), "right".to_owned()],
            links: vec![LinkBetween::new("wire", ends).with(config)],
            ..NetworkConfig::default()
        };
        let network = Network::new(&network, 1, Instant::now()).unwrap();
        let mut devices = Vec::new();
        for (number, namespace) in [&left, &right].into_iter().enumerate() {
            let name = format!("port{number}");
            let mut netlink = middle.netlink().unwrap();
            netlink.add_veth(&name, "eth0", namespace).unwrap();
            netlink.set_link_up(&name).unwrap();
            let mut netlink = namespace.netlink().unwrap();
            netlink.set_link_up("lo").unwrap();
            netlink.set_link_up("eth0").unwrap();
            let address = format!("10.5.0.{}/24", number + 1).parse().unwrap();
            netlink.add_address("eth0", address).unwrap();
            namespace
                .run(|| switch_off_offloads("eth0"))
                .unwrap()
                .unwrap();
            middle.run(|| switch_off_offloads(&name)).unwrap().unwrap();
            let device = middle.run(|| Device::open_interface(&name)).unwrap();
            devices.push((network.interfaces()[number].id, device.unwrap()));
        }
        for namespace in [&left, &right, &middle] {
            assert!(wait_until(Duration::from_secs(30), || carries(namespace)));
        }
        let emulator = Emulator::spawn(network, devices, DriverConfig::default()).unwrap();
        Some(Wires {
            ends: [left, right],
            _middle: middle,
            emulator,
        })
    }
}

/// Whether all interfaces carry packets: the kernel takes a moment with those whose other end came up later.
fn carries(namespace: &Namespace) -> bool {
    let shown = namespace
        .command("ip", None)
        .args(["-o", "link", "show", "up"])
        .output();
    !String::from_utf8_lossy(&shown.unwrap().stdout).contains("state DOWN")
}

#[test]
fn machines_on_a_wire_find_each_other_and_wait_for_it() {
    let Some(wires) = Wires::up(LinkConfig {
        delay: Duration::from_millis(15),
        ..LinkConfig::default()
    }) else {
        return;
    };
    let bind = |end: usize| {
        let address = SocketAddr::from(([10, 5, 0, end as u8 + 1], 7008));
        let socket = wires.ends[end].run(|| UdpSocket::bind(address));
        let socket = socket.unwrap().unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        socket
    };
    let [left, right] = [bind(0), bind(1)];
    let mut buffer = [0; 100];
    // With the first one the machines ask for each other's Ethernet address.
    for round in 0..3 {
        let start = Instant::now();
        left.send_to(b"over", right.local_addr().unwrap()).unwrap();
        let (_, from) = right.recv_from(&mut buffer).unwrap();
        right.send_to(b"back", from).unwrap();
        left.recv_from(&mut buffer).unwrap();
        println!("round {round}: {:?}", start.elapsed());
        assert!(start.elapsed() >= Duration::from_millis(30));
    }
}

#[test]
fn tcp_goes_over_a_wire_in_packets_of_the_mtu() {
    let Some(wires) = Wires::up(LinkConfig {
        delay: Duration::from_millis(1),
        ..LinkConfig::default()
    }) else {
        return;
    };
    let server = SocketAddr::from(([10, 5, 0, 2], 7009));
    let listener = wires.ends[1].run(|| TcpListener::bind(server)).unwrap();
    let listener = listener.unwrap();
    let client = wires.ends[0].run(|| TcpStream::connect_timeout(&server, Duration::from_secs(10)));
    let mut client = client.unwrap().unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    let payload: Vec<u8> = (0..2_000_000_u32)
        .map(|number| (number / 5) as u8)
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| client.write_all(&payload).unwrap());
        let mut received = vec![0; payload.len()];
        accepted.read_exact(&mut received).unwrap();
        assert!(received == payload);
    });
    let line = &wires.emulator.snapshot().unwrap().links[0].forward;
    assert_eq!(line.too_long_packets, 0, "segments longer than the MTU");
    assert!(line.delivered_packets > 2_000_000 / 1460);
}
