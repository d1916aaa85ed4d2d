//! What packets meet on their way.

use std::io::ErrorKind;
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use emulator::{Protocol, Rule};
use link::LinkConfig;

use crate::the_box::hosts::Hosts;
use crate::the_box::topologies::routed;

fn delay(delay: Duration) -> LinkConfig {
    LinkConfig {
        delay,
        ..LinkConfig::default()
    }
}

/// How long a packet takes to an echo and back.
fn round(client: &UdpSocket, echo: &UdpSocket) -> Duration {
    let start = Instant::now();
    client
        .send_to(&[0; 100], echo.local_addr().unwrap())
        .unwrap();
    let mut buffer = [0; 200];
    let (length, from) = echo.recv_from(&mut buffer).unwrap();
    echo.send_to(&buffer[..length], from).unwrap();
    let (_, from) = client.recv_from(&mut buffer).unwrap();
    assert_eq!(from, echo.local_addr().unwrap());
    start.elapsed()
}

/// The quickest of several: a busy machine makes some of them slow.
fn quickest(client: &UdpSocket, echo: &UdpSocket) -> Duration {
    let rounds = (0..5).map(|_| round(client, echo));
    rounds.min().unwrap()
}

#[test]
fn a_round_takes_the_delay_of_both_directions() {
    let Some(hosts) = Hosts::up(&routed(delay(Duration::from_millis(20)))) else {
        return;
    };
    for (client, server) in [
        ("10.1.0.2:0", "10.2.0.2:7000"),
        ("[fd00:1::2]:0", "[fd00:2::2]:7000"),
    ] {
        let client = hosts.udp("client", client);
        let echo = hosts.udp("server", server);
        let mut times: Vec<_> = (0..20).map(|_| round(&client, &echo)).collect();
        times.sort();
        println!("rounds over 40 ms: {:?} to {:?}", times[0], times[19]);
        assert!(times[0] >= Duration::from_millis(40));
        assert!(times[0] < Duration::from_millis(140), "{times:?}");
    }
    let snapshot = hosts.emulator.snapshot().unwrap();
    assert_eq!(snapshot.undelivered_packets, 0);
    assert!(snapshot.links[1].forward.delay.min >= Some(19_900.0));
    println!("lateness: {:?}", snapshot.lateness);
    let json = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(json["links"][1]["name"], "right");
    assert_eq!(json["links"][1]["forward"]["config"]["delay"], "20ms");
}

#[test]
fn rules_act_on_what_flows() {
    let Some(hosts) = Hosts::up(&routed(LinkConfig::default())) else {
        return;
    };
    let client = hosts.udp("client", "10.1.0.2:0");
    let slow = hosts.udp("server", "10.2.0.2:7001");
    let quick = hosts.udp("server", "10.2.0.2:7002");
    let rule = |milliseconds| Rule {
        source: Some("10.1.0.2/32".parse().unwrap()),
        protocol: Some(Protocol::UDP),
        destination_ports: Some((7001, 7001)),
        config: delay(Duration::from_millis(milliseconds)),
        ..Rule::default()
    };
    let id = hosts.emulator.add_rule(rule(300)).unwrap();
    assert!(round(&client, &slow) >= Duration::from_millis(300));
    assert!(quickest(&client, &quick) < Duration::from_millis(300));
    hosts.emulator.change_rule(id, rule(400)).unwrap();
    assert!(round(&client, &slow) >= Duration::from_millis(400));
    assert_eq!(hosts.emulator.rules().unwrap(), [(id, rule(400))]);
    hosts.emulator.delete_rule(id).unwrap();
    assert!(quickest(&client, &slow) < Duration::from_millis(300));
    let error = hosts.emulator.delete_rule(id).unwrap_err();
    assert_eq!(error.to_string(), "there is no rule 1");
}

/// The kernel understands what the routers say.
#[test]
fn hosts_are_told_what_is_unreachable() {
    let Some(hosts) = Hosts::up(&routed(LinkConfig::default())) else {
        return;
    };
    for (nobody, expected) in [
        ("10.2.0.77:9", ErrorKind::HostUnreachable),
        ("192.0.2.1:9", ErrorKind::NetworkUnreachable),
        ("10.2.0.1:9", ErrorKind::ConnectionRefused),
        ("[fd00:2::77]:9", ErrorKind::HostUnreachable),
        ("[2001:db8::1]:9", ErrorKind::NetworkUnreachable),
        ("[fd00:2::1]:9", ErrorKind::ConnectionRefused),
    ] {
        let address = nobody.parse().unwrap();
        let patience = Duration::from_secs(10);
        let connected = hosts.run("client", || TcpStream::connect_timeout(&address, patience));
        let error = connected.unwrap_err();
        assert_eq!(error.kind(), expected, "{nobody}: {error}");
    }
}

/// The kernel learns the MTU of the path, and cuts what is larger.
#[test]
fn datagrams_that_are_too_big_arrive_once_the_host_has_learned_it() {
    let mut config = routed(LinkConfig::default());
    config.links[1].mtu = 1290;
    let Some(hosts) = Hosts::up(&config) else {
        return;
    };
    for (own, server) in [
        ("10.1.0.2:0", "10.2.0.2:7003"),
        ("[fd00:1::2]:0", "[fd00:2::2]:7003"),
    ] {
        let client = hosts.udp("client", own);
        let receiver = hosts.udp("server", server);
        client.connect(server).unwrap();
        let payload: Vec<u8> = (0..1400_u32).map(|number| number as u8).collect();
        receiver
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let mut buffer = [0; 2000];
        // The first one is lost, and its error may come back as one of the next call.
        let arrived = (0..50).find_map(|_| {
            client.send(&payload).ok();
            receiver.recv(&mut buffer).ok()
        });
        assert_eq!(arrived, Some(1400));
        assert_eq!(buffer[..1400], payload);
    }
    let snapshot = hosts.emulator.snapshot().unwrap();
    assert!(snapshot.routers[0].statistics.too_big_packets >= 2);
}

/// An interface that goes away takes nothing else with it.
#[test]
fn an_emulator_outlives_its_hosts() {
    let Some(mut hosts) = Hosts::up(&routed(LinkConfig::default())) else {
        return;
    };
    let client = hosts.udp("client", "10.1.0.2:0");
    let mut netlink = hosts.namespaces["server"].netlink().unwrap();
    netlink.delete_link("eth0").unwrap();
    hosts.namespaces.remove("server");
    client.send_to(b"gone", "10.2.0.2:1").unwrap();
    client
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    client.recv(&mut [0; 10]).unwrap_err();
    let snapshot = hosts.emulator.stop().unwrap();
    assert!(snapshot.links[0].forward.delivered_packets >= 1);
}
