//! Our SCTP over two paths of a network in a box.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use link::LinkConfig;
use namespace::{NextHop, Route};
use sctp_net::{EndpointConfig, SendInfo, Stack, UdpCarrierConfig};

use crate::the_box::hosts::Hosts;
use crate::the_box::topologies::multihomed;

const MESSAGES: u8 = 200;

fn over(addresses: [&str; 2]) -> UdpCarrierConfig {
    let addresses = addresses.map(|address| SocketAddr::new(address.parse().unwrap(), 9899));
    UdpCarrierConfig {
        addresses: addresses.to_vec(),
        ..UdpCarrierConfig::new(addresses[0])
    }
}

/// Gives a path up soon.
fn impatient() -> EndpointConfig {
    EndpointConfig::default()
        .rto_initial(Duration::from_millis(100))
        .rto_min(Duration::from_millis(50))
        .rto_max(Duration::from_millis(400))
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let limited = async { tokio::time::timeout(Duration::from_secs(60), work).await };
    runtime.block_on(limited).expect("it ends within a minute")
}

#[test]
fn an_association_goes_on_over_its_other_path() {
    let config = LinkConfig {
        delay: Duration::from_millis(2),
        ..LinkConfig::default()
    };
    let Some(hosts) = Hosts::up(&multihomed(&config)) else {
        return;
    };
    // What goes to the other end of a path takes that path, whatever address it comes from.
    for (host, network) in [("client", "10.4.0.0/24"), ("server", "10.3.0.0/24")] {
        let route = Route {
            destination: network.parse().unwrap(),
            next_hop: NextHop::Interface("eth1".to_owned()),
            table: None,
        };
        let mut netlink = hosts.namespaces[host].netlink().unwrap();
        netlink.add_route(&route).unwrap();
    }
    let (ready, is_ready) = mpsc::channel();
    thread::scope(|scope| {
        let hosts = &hosts;
        let server = scope.spawn(move || {
            hosts.run("server", || {
                block_on(async {
                    let stack = Stack::udp(over(["10.2.0.2", "10.4.0.2"])).unwrap();
                    let endpoint = stack.endpoint(5060, impatient()).unwrap();
                    ready.send(()).unwrap();
                    let association = endpoint.accept().await.unwrap();
                    for number in 0..MESSAGES {
                        let message = association.receive().await.unwrap();
                        assert_eq!(message.payload, vec![number; 2000]);
                    }
                    association.closed().await;
                })
            })
        });
        is_ready.recv().unwrap();
        hosts.run("client", || {
            block_on(async {
                let stack = Stack::udp(over(["10.1.0.2", "10.3.0.2"])).unwrap();
                let endpoint = stack.endpoint(0, impatient()).unwrap();
                let server = "10.2.0.2".parse().unwrap();
                let association = endpoint.connect(server, 5060, None).await.unwrap();
                for number in 0..MESSAGES {
                    if number == MESSAGES / 4 {
                        hosts.emulator.cut("upper-server").unwrap();
                    }
                    let message = Bytes::from(vec![number; 2000]);
                    association
                        .send(SendInfo::default(), message)
                        .await
                        .unwrap();
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                association.shutdown().await;
            })
        });
        server.join().unwrap();
    });
    let snapshot = hosts.emulator.snapshot().unwrap();
    let [cut, other] = ["upper-server", "lower-server"].map(|name| {
        let mut links = snapshot.links.iter();
        links.find(|link| link.name == name).unwrap()
    });
    assert!(cut.forward.link.down_packets > 0);
    assert!(other.forward.delivered_packets > 50);
    println!(
        "{} packets on the other path",
        other.forward.delivered_packets
    );
}
