//! Multi-homed peers: two network namespaces, joined by two links of which one is cut.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::{Node, config, request, response};
use sctp_net::EndpointConfig;
use sip::{Peer, Target, Transmit, Transport};
use sip_net::{Incoming, PathState, SctpOver, SipNetConfig};
use test_support::Namespace;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

const SERVER: [&str; 2] = ["10.80.1.1", "10.80.2.1"];
const CLIENT: [&str; 2] = ["10.80.1.2", "10.80.2.2"];
const PORT: u16 = 5060;

/// A path is found to be dead and the other taken, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The settings of a side that listens at both of its addresses, quick to find out that a path is
/// dead.
fn both(addresses: [&str; 2], over: SctpOver) -> SipNetConfig {
    SipNetConfig {
        sctp_over: over,
        sctp_addresses: vec![addresses.map(ip).to_vec()],
        encapsulation_port: 9899,
        sctp: EndpointConfig::default()
            .rto_initial(Duration::from_millis(200))
            .rto_min(Duration::from_millis(100))
            .rto_max(Duration::from_millis(400))
            .path_max_retrans(2),
        ..config(&[&format!("sctp:{}:{PORT}", addresses[0])])
    }
}

/// The two hosts, with their links up.
struct Hosts {
    server: Namespace,
    client: Namespace,
}

impl Hosts {
    fn new() -> Option<Hosts> {
        let (server, client) = (Namespace::new()?, Namespace::new()?);
        for (link, number) in [("one", 0), ("two", 1)] {
            server.join(&client, link);
            server.ip(&format!("address add {}/24 dev {link}", SERVER[number]));
            client.ip(&format!("address add {}/24 dev {link}", CLIENT[number]));
            server.ip(&format!("link set {link} up"));
            client.ip(&format!("link set {link} up"));
        }
        // A path whose first HEARTBEATs are lost is tried again half a minute later.
        server.wait_for_links();
        client.wait_for_links();
        Some(Hosts { server, client })
    }
}

/// A server in its namespace, which answers every request along its flow, and sends what it is told
/// to.
struct Server {
    send: Option<mpsc::UnboundedSender<SocketAddr>>,
    thread: Option<JoinHandle<u64>>,
}

impl Server {
    async fn start(hosts: &Arc<Hosts>, over: SctpOver) -> Server {
        let (send, mut orders) = mpsc::unbounded_channel::<SocketAddr>();
        let (ready, is_ready) = oneshot::channel();
        let hosts = Arc::clone(hosts);
        let thread = std::thread::spawn(move || {
            hosts.server.enter();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let mut node = Node::start(both(SERVER, over));
                ready.send(()).expect("somebody waits");
                loop {
                    tokio::select! {
                        event = node.incoming.recv() => match event {
                            Some(Incoming::Message { flow, message, .. }) if message.is_request() => {
                                let name = message.call_id().expect("a call").to_owned();
                                node.send(Target::Flow(flow), &response(200, &name));
                            }
                            Some(_) => {}
                            None => panic!("the server failed"),
                        },
                        order = orders.recv() => match order {
                            Some(to) => {
                                all_paths_active(&node).await;
                                let to = Target::Address(Transport::Sctp, to);
                                node.send(to, &request("order"));
                            }
                            None => break,
                        },
                    }
                }
                node.transports.statistics().await.connections_opened
            })
        });
        is_ready.await.expect("it starts");
        Server {
            send: Some(send),
            thread: Some(thread),
        }
    }

    fn send_to(&self, address: SocketAddr) {
        let send = self.send.as_ref().expect("it runs");
        send.send(address).expect("it runs");
    }

    /// Ends it; how many associations it has opened.
    fn end(mut self) -> u64 {
        self.send = None;
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("no panic")
    }
}

/// Runs a test on a thread of its own in the client's namespace.
fn at_client<F: Future<Output = ()>>(test: impl FnOnce(Arc<Hosts>) -> F) {
    let Some(hosts) = Hosts::new() else {
        return;
    };
    let hosts = Arc::new(hosts);
    hosts.client.enter();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(test(hosts));
}

/// Waits until both addresses of the peer are proved to be its own.
async fn all_paths_active(node: &Node) {
    let proved = node.until(async |transports| {
        let seen = transports.sctp_associations(1).await;
        let paths = seen.first().map(|seen| seen.status.paths.as_slice());
        let paths = paths.unwrap_or_default();
        paths.len() == 2 && paths.iter().all(|path| path.state == PathState::Active)
    });
    proved.await;
}

/// Sends a request to the server, of which both addresses are known, and waits for the answer.
async fn call(client: &mut Node, name: &str) {
    let addresses: Vec<SocketAddr> = SERVER.map(|text| SocketAddr::new(ip(text), PORT)).to_vec();
    client.transports.send(Transmit {
        target: Target::Address(Transport::Sctp, addresses[0]),
        peer: Some(Arc::new(Peer {
            name: None,
            addresses,
        })),
        payload: request(name),
        call: 0,
        transaction: None,
    });
    await_message(client, &response(200, name)).await;
}

async fn await_message(node: &mut Node, expected: &bytes::Bytes) {
    let event = timeout(PATIENCE, node.incoming.recv()).await;
    match event.expect("in time").expect("it runs") {
        Incoming::Message { message, .. } => assert_eq!(message.to_bytes(), expected),
        other => panic!("not a message: {other:?}"),
    }
}

async fn survive_a_cut(hosts: Arc<Hosts>, over: SctpOver) {
    let server = Server::start(&hosts, over).await;
    let mut client = Node::start(both(CLIENT, over));
    call(&mut client, "a").await;
    all_paths_active(&client).await;
    hosts.server.ip("link set one down");
    for name in ["b", "c", "d"] {
        call(&mut client, name).await;
    }
    let seen = client.transports.sctp_associations(10).await;
    assert_eq!(seen.len(), 1);
    let states: Vec<PathState> = SERVER
        .iter()
        .map(|text| {
            let paths = &seen[0].status.paths;
            let path = paths.iter().find(|path| path.address.remote == ip(text));
            path.expect("a path").state
        })
        .collect();
    assert_ne!(states[0], PathState::Active);
    assert_eq!(states[1], PathState::Active);
    assert_eq!(server.end(), 0);
}

#[test]
fn a_cut_path_is_survived_over_udp() {
    at_client(|hosts| survive_a_cut(hosts, SctpOver::Udp));
}

#[test]
fn a_cut_path_is_survived_over_ip() {
    at_client(|hosts| survive_a_cut(hosts, SctpOver::Ip));
}

#[test]
fn a_peer_is_reached_at_any_of_its_addresses() {
    at_client(async |hosts| {
        let server = Server::start(&hosts, SctpOver::Udp).await;
        let mut client = Node::start(both(CLIENT, SctpOver::Udp));
        call(&mut client, "a").await;
        // The association that the client opened is the way to both of its addresses, wherever it
        // came from.
        for address in CLIENT {
            server.send_to(SocketAddr::new(ip(address), PORT));
            await_message(&mut client, &request("order")).await;
        }
        assert_eq!(client.transports.statistics().await.connections_accepted, 0);
        assert_eq!(server.end(), 0);
    });
}

#[test]
fn the_second_address_is_tried_when_the_first_is_dead() {
    at_client(async |hosts| {
        hosts.server.ip("link set one down");
        let server = Server::start(&hosts, SctpOver::Udp).await;
        let mut client = Node::start(both(CLIENT, SctpOver::Udp));
        call(&mut client, "a").await;
        call(&mut client, "b").await;
        let statistics = client.transports.statistics().await;
        assert_eq!(statistics.connections_opened, 1);
        assert_eq!(server.end(), 0);
    });
}

/// Who watches sees first what tells the most, however old it is.
#[test]
fn an_association_of_several_paths_is_shown_before_others() {
    at_client(async |_hosts| {
        // All on one host, whose addresses these are.
        let mut server = Node::start(both(CLIENT, SctpOver::Udp));
        let target = Target::Address(Transport::Sctp, SocketAddr::new(ip(CLIENT[0]), PORT));
        let one = Node::start(config(&[]));
        one.send(target, &request("one"));
        server.expect(&request("one")).await;
        let two = Node::start(SipNetConfig {
            listeners: vec![format!("sctp:{}:5061", CLIENT[0]).parse().expect("one")],
            encapsulation_port: 9900,
            ..both(CLIENT, SctpOver::Udp)
        });
        two.send(target, &request("two"));
        server.expect(&request("two")).await;
        all_paths_active(&server).await;
        assert_eq!(server.transports.sctp_association_count(), 2);
        let all = server.transports.sctp_associations(10).await;
        let paths: Vec<usize> = all.iter().map(|seen| seen.status.paths.len()).collect();
        assert_eq!(paths, [2, 1]);
        assert!(all[0].connection > all[1].connection);
    });
}
