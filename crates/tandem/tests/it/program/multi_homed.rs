//! `tandem proxy` on a host with two links, to peers on SCTP that have an address on each: one link is cut, in
//! namespaces of the network.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sip::{Flow, Message, Method, Name, Peer as FarEnd, Target, Transmit, Transport};
use sip_net::{Incoming, SipNetConfig, Transports};
use test_support::{Namespace, Peer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::program::support::program_path;

/// The addresses on the two links.
const PROXY: [&str; 2] = ["10.81.1.1", "10.81.2.1"];
const PEER: [&str; 2] = ["10.81.1.2", "10.81.2.2"];
const LINKS: [&str; 2] = ["one", "two"];
const PORT: u16 = 5060;

/// A path is found to be dead and the other taken, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn at(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), PORT)
}

/// The proxy's host and that of all others, with their links up, and the proxy.
struct Network {
    _proxy_host: Namespace,
    peers: Namespace,
    proxy: Peer,
    _directory: tempfile::TempDir,
}

impl Network {
    /// The configuration of the proxy has these tables, too.
    fn start(more: &str) -> Option<Network> {
        let (proxy_host, peers) = (Namespace::new()?, Namespace::new()?);
        for (number, link) in LINKS.into_iter().enumerate() {
            proxy_host.join(&peers, link);
            proxy_host.ip(&format!("address add {}/24 dev {link}", PROXY[number]));
            peers.ip(&format!("address add {}/24 dev {link}", PEER[number]));
            proxy_host.ip(&format!("link set {link} up"));
            peers.ip(&format!("link set {link} up"));
        }
        // A path whose first HEARTBEATs are lost is tried again half a minute later.
        proxy_host.wait_for_links();
        peers.wait_for_links();
        let [one, two] = PROXY;
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("tandem.toml");
        let listener = |transport: &str, address: &str| {
            format!("[[listener]]\ntransport = \"{transport}\"\naddress = \"{address}:{PORT}\"\n")
        };
        let configuration = format!(
            "domains = [\"example.org\"]\n{}{}{}[sctp]\naddresses = [\"{one}\", \"{two}\"]\n\
             [location]\nstore = \"memory:\"\n[metrics]\nlisten = \"0.0.0.0:0\"\n{more}",
            listener("udp", one),
            listener("udp", two),
            listener("sctp", one),
        );
        std::fs::write(&file, configuration).expect("written");
        let mut command = proxy_host.command(program_path());
        let mut proxy = Peer::spawn(command.args(["proxy", "--config"]).arg(&file));
        proxy.wait_for_output("metrics on http://", PATIENCE);
        proxy.wait_for_output(&format!("listening on sctp:{one}:{PORT}"), PATIENCE);
        Some(Network {
            _proxy_host: proxy_host,
            peers,
            proxy,
            _directory: directory,
        })
    }

    /// Cuts a link where the proxy's host does not see to it that nothing is sent there.
    fn cut(&self, link: &str) {
        self.peers.ip(&format!("link set {link} down"));
    }

    /// Waits until the proxy knows as many working paths as these over SCTP.
    async fn wait_for_paths(&self, count: usize) {
        let output = self.proxy.output();
        let (_, rest) = output.split_once("metrics on http://").expect("told");
        let (address, _) = rest.split_once('/').expect("a path");
        let address: SocketAddr = address.parse().expect("an address");
        let address = SocketAddr::new(PROXY[0].parse().expect("an address"), address.port());
        let begun = Instant::now();
        loop {
            let metrics = get(address).await;
            let is_active = |line: &&str| {
                line.starts_with("tandem_sctp_path_active{") && line.ends_with(" 1.0")
            };
            if metrics.lines().filter(is_active).count() == count {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "not {count} paths:\n{metrics}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn get(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    let read = timeout(PATIENCE, read).await.expect("in time");
    read.expect("an answer");
    answer
}

/// Runs a test on its thread, where the peers are.
fn among_peers<F: Future<Output = ()>>(more: &str, test: impl FnOnce(Network) -> F) {
    let Some(network) = Network::start(more) else {
        return;
    };
    network.peers.enter();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(test(network));
}

/// A user agent.
struct Agent {
    transports: Transports,
    incoming: mpsc::Receiver<Incoming>,
    name: &'static str,
    transport: Transport,
    /// What others reach it by.
    address: SocketAddr,
}

impl Agent {
    /// One on SCTP that has both addresses, of which its Contact has one.
    fn multi_homed(name: &'static str, contact: &str) -> Agent {
        let addresses: Vec<IpAddr> = PEER.map(|address| at(address).ip()).to_vec();
        let listener = format!("sctp:{}:{PORT}", PEER[0]);
        let (transports, incoming) = Transports::start(SipNetConfig {
            listeners: vec![listener.parse().expect("a listener")],
            sctp_addresses: vec![addresses],
            ..SipNetConfig::default()
        })
        .expect("it starts");
        Agent {
            transports,
            incoming,
            name,
            transport: Transport::Sctp,
            address: at(contact),
        }
    }

    /// One on UDP at an address.
    fn on_udp(name: &'static str, address: &str) -> Agent {
        let listener = format!("udp:{address}:0");
        let (transports, incoming) = Transports::start(SipNetConfig {
            listeners: vec![listener.parse().expect("a listener")],
            encapsulation_port: 0,
            ..SipNetConfig::default()
        })
        .expect("it starts");
        let address = transports.listening().first().expect("one").address;
        Agent {
            transports,
            incoming,
            name,
            transport: Transport::Udp,
            address,
        }
    }

    fn contact(&self) -> String {
        let (name, address, transport) = (self.name, self.address, self.transport);
        format!("sip:{name}@{address};transport={transport}")
    }

    fn request(&self, method: Method, uri: &str, to: &str, from: &str, call: &str) -> Message {
        let via = self.transport.via_name();
        let branch = format!("z9hG4bK{}{method}{call}", self.name);
        let via = format!("SIP/2.0/{via} {};branch={branch};rport", self.address);
        let cseq = format!("1 {method}");
        Message::request(method, uri)
            .with(Name::Via, via)
            .with(Name::MaxForwards, "70")
            .with(Name::From, from)
            .with(Name::To, to)
            .with(Name::CallId, call)
            .with(Name::CSeq, cseq)
            .with(Name::Contact, format!("<{}>", self.contact()))
    }

    fn send(&self, target: Target, peer: Option<Arc<FarEnd>>, message: &Message) {
        self.transports.send(Transmit {
            target,
            peer,
            payload: message.to_bytes(),
            call: 0,
            transaction: None,
        });
    }

    /// Sends to the proxy at an address; over SCTP to all of its.
    fn send_to_proxy(&self, address: &str, message: &Message) {
        let mut addresses: Vec<SocketAddr> = PROXY.map(at).to_vec();
        addresses.sort_by_key(|one| *one != at(address));
        let peer = (self.transport == Transport::Sctp).then(|| {
            Arc::new(FarEnd {
                name: None,
                addresses,
            })
        });
        let target = Target::Address(self.transport, at(address));
        self.send(target, peer, message);
    }

    async fn register(&mut self, address: &str) {
        let user = format!("<sip:{}@example.org>", self.name);
        let from = format!("{user};tag=r");
        let register = self.request(
            Method::Register,
            "sip:example.org",
            &user,
            &from,
            "registration",
        );
        self.send_to_proxy(address, &register);
        let (_, response) = self
            .wait_for("200", |message| message.status().is_some())
            .await;
        assert_eq!(response.status(), Some(200));
    }

    /// The first message that is meant, and the way that it came.
    async fn wait_for(&mut self, what: &str, is_it: impl Fn(&Message) -> bool) -> (Flow, Message) {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let event = tokio::time::timeout_at(until, self.incoming.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("{} waits in vain: {what}", self.name));
            match event.expect("it runs") {
                Incoming::Message { flow, message, .. } if is_it(&message) => {
                    return (flow, message);
                }
                _ => {}
            }
        }
    }

    async fn request_of(&mut self, method: Method) -> (Flow, Message) {
        self.wait_for(method.as_str(), |message| message.method() == Some(&method))
            .await
    }

    /// The final response to a request of this method.
    async fn final_response(&mut self, method: &str) -> Message {
        let is_final = |message: &Message| {
            message.status().is_some_and(|status| status >= 200)
                && message
                    .header(Name::CSeq)
                    .is_some_and(|cseq| cseq.ends_with(method))
        };
        self.wait_for(method, is_final).await.1
    }

    fn answer(&self, flow: Flow, request: &Message) -> Message {
        let mut response = Message::response_to(request, 200, "OK")
            .with(Name::Contact, format!("<{}>", self.contact()));
        response.copy_fields(request, Name::RecordRoute);
        response.set_to_tag(self.name);
        self.send(Target::Flow(flow), None, &response);
        response
    }
}

fn value<'a>(message: &'a Message, name: Name<'_>) -> &'a str {
    message.header(name).expect("a value")
}

/// A call of Alice's, by the proxy's address, to somebody, who answers and hangs up.
async fn call(alice: &mut Agent, proxy: &str, callee: &mut Agent, uri: &str, id: &str) {
    let from = "<sip:alice@example.org>;tag=a";
    let invite = alice.request(Method::Invite, uri, &format!("<{uri}>"), from, id);
    alice.send_to_proxy(proxy, &invite);
    let (flow, invite) = callee.request_of(Method::Invite).await;
    assert_eq!(flow.transport, Transport::Sctp);
    callee.answer(flow, &invite);
    let ok = alice.final_response("INVITE").await;
    assert_eq!(ok.status(), Some(200));

    let routes: Vec<Vec<u8>> = ok.values(Name::RecordRoute).map(<[u8]>::to_vec).collect();
    assert!(!routes.is_empty());
    let to = value(&ok, Name::To).to_owned();
    let mut ack = alice.request(Method::Ack, &callee.contact(), &to, from, id);
    for route in routes.iter().rev() {
        ack.push_back(Name::Route, route.clone());
    }
    alice.send_to_proxy(proxy, &ack);
    let (flow, _) = callee.request_of(Method::Ack).await;

    let mut bye = callee.request(Method::Bye, &alice.contact(), from, &to, id);
    // The callee's route set is that of the request.
    for route in invite.values(Name::RecordRoute) {
        bye.push_back(Name::Route, route);
    }
    callee.send(Target::Flow(flow), None, &bye);
    let (flow, bye) = alice.request_of(Method::Bye).await;
    alice.answer(flow, &bye);
    assert_eq!(callee.final_response("BYE").await.status(), Some(200));
}

/// The association stays, and what goes over it takes the other way.
#[test]
fn a_user_is_called_by_the_other_address_when_a_path_is_cut() {
    among_peers("", async |network| {
        let mut bob = Agent::multi_homed("bob", PEER[0]);
        bob.register(PROXY[0]).await;
        network.wait_for_paths(2).await;
        let mut alice = Agent::on_udp("alice", PEER[1]);
        let uri = "sip:bob@example.org";
        call(&mut alice, PROXY[1], &mut bob, uri, "before").await;
        network.cut(LINKS[0]);
        for id in ["first", "second"] {
            call(&mut alice, PROXY[1], &mut bob, uri, id).await;
        }
        let statistics = bob.transports.statistics().await;
        assert_eq!(statistics.connections_accepted, 0);
        assert_eq!(statistics.connections_opened, 1);
    });
}

/// One contact is all addresses that the user has shown: the one that the REGISTER came from, and that of its Contact. One
/// link is cut when the association is gone.
fn call_a_user_whose_association_is_gone(cut: usize) {
    let left = 1 - cut;
    among_peers("", async |network| {
        let mut bob = Agent::multi_homed("bob", PEER[0]);
        // From the second address.
        bob.register(PROXY[1]).await;
        network.wait_for_paths(2).await;
        bob.transports.shutdown().await;
        network.wait_for_paths(0).await;
        let mut bob = Agent::multi_homed("bob", PEER[0]);
        network.cut(LINKS[cut]);
        let mut alice = Agent::on_udp("alice", PEER[left]);
        let uri = "sip:bob@example.org";
        call(&mut alice, PROXY[left], &mut bob, uri, "anew").await;
        let statistics = bob.transports.statistics().await;
        assert_eq!(statistics.connections_accepted, 1);
    });
}

#[test]
fn a_user_whose_association_is_gone_is_called_where_the_registration_came_from() {
    call_a_user_whose_association_is_gone(0);
}

#[test]
fn a_user_whose_association_is_gone_is_called_at_the_contact() {
    call_a_user_whose_association_is_gone(1);
}

#[test]
fn a_next_hop_is_reached_by_its_second_address_when_the_first_is_dead() {
    let [one, two] = PEER;
    let route = format!(
        "[[route]]\ndomain = \"gateway.example\"\n\
         to = \"sip:{one}:{PORT};transport=sctp\"\naddresses = [\"{two}\"]\n"
    );
    among_peers(&route, async |network| {
        network.cut(LINKS[0]);
        let mut gateway = Agent::multi_homed("gateway", PEER[1]);
        let mut alice = Agent::on_udp("alice", PEER[1]);
        for id in ["first", "second"] {
            let uri = "sip:+49301234@gateway.example";
            call(&mut alice, PROXY[1], &mut gateway, uri, id).await;
        }
        let statistics = gateway.transports.statistics().await;
        assert_eq!(statistics.connections_accepted, 1);
    });
}
