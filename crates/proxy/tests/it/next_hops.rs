//! The whole server and its next hops: a name server of Debian's, servers that refuse, are silent, die and
//! come back.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use proxy::core::{Group, Member, MemberState, Policy, Probing, Route, RouteTarget, Routing};
use proxy::{ProxyConfig, Server};
use sip::{Message, Method, Name, Transport};
use sip_net::SipNetConfig;
use sip_net::resolve::ResolverConfig;
use test_support::{NameServer, Nobody};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A SIP server that answers every request the same way, or is not there.
struct Downstream {
    address: SocketAddr,
    /// The Call-IDs of the requests that it has answered.
    calls: Arc<Mutex<HashSet<String>>>,
    is_there: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Downstream {
    async fn start(status: u16) -> Downstream {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let address = socket.local_addr().expect("an address");
        let calls = Arc::new(Mutex::new(HashSet::new()));
        let is_there = Arc::new(AtomicBool::new(true));
        let (seen, presence) = (Arc::clone(&calls), Arc::clone(&is_there));
        let task = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let octets = Bytes::copy_from_slice(&buffer[..length]);
                let Ok(request) = Message::read(octets) else {
                    continue;
                };
                if !presence.load(Ordering::SeqCst) || request.method() == Some(&Method::Ack) {
                    continue;
                }
                if request.method() != Some(&Method::Options) {
                    let call = request.call_id().unwrap_or_default().to_owned();
                    seen.lock().expect("nobody panics").insert(call);
                }
                let mut response = Message::response_to(&request, status, "Answered");
                response.set_to_tag("d");
                // Who asked may be gone.
                let _ = socket.send_to(&response.to_bytes(), from).await;
            }
        });
        Downstream {
            address,
            calls,
            is_there,
            task,
        }
    }

    fn requests(&self) -> usize {
        self.calls.lock().expect("nobody panics").len()
    }
}

impl Drop for Downstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A server with so many workers that sends numbers to a group.
async fn serve_numbers(workers: usize, group: Group) -> Server {
    let routing = Routing {
        routes: vec![Route {
            prefix: Some("+".to_owned()),
            ..Route::to(RouteTarget::Group("gateways".to_owned()))
        }],
        groups: BTreeMap::from([("gateways".to_owned(), group)]),
        ..Routing::default()
    };
    serve(workers, |config| {
        config.policy = Arc::new(Policy {
            routing,
            ..Policy::default()
        });
    })
    .await
}

async fn serve(workers: usize, change: impl FnOnce(&mut ProxyConfig)) -> Server {
    let mut config = ProxyConfig {
        transports: SipNetConfig {
            listeners: ["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]
                .iter()
                .map(|text| text.parse().expect("a listener"))
                .collect(),
            ..SipNetConfig::default()
        },
        workers,
        ..ProxyConfig::default()
    };
    change(&mut config);
    Server::start(config).await.expect("it starts")
}

/// A client that sends a request and waits for the final response.
struct Client {
    socket: UdpSocket,
    proxy: SocketAddr,
    sent: usize,
}

impl Client {
    async fn new(server: &Server) -> Client {
        let listening = server.listening();
        let udp = listening
            .iter()
            .find(|listen| listen.transport == Transport::Udp);
        Client {
            socket: UdpSocket::bind("127.0.0.1:0").await.expect("a socket"),
            proxy: udp.expect("a listener").address,
            sent: 0,
        }
    }

    /// The status of the final response to a MESSAGE.
    async fn ask(&mut self, uri: &str) -> u16 {
        self.sent += 1;
        let here = self.socket.local_addr().expect("an address");
        let call = format!("{}-{}", self.sent, here.port());
        let request = Message::request(Method::Message, uri)
            .with(
                Name::Via,
                format!("SIP/2.0/UDP {here};branch=z9hG4bK{call}"),
            )
            .with(Name::MaxForwards, "70")
            .with(Name::From, "<sip:alice@127.0.0.1>;tag=a")
            .with(Name::To, format!("<{uri}>"))
            .with(Name::CallId, call.as_str())
            .with(Name::CSeq, "1 MESSAGE");
        let octets = request.to_bytes();
        let mut buffer = [0; 4096];
        let answered = async {
            // A busy machine may lose a datagram: as a user agent does, it is sent again.
            loop {
                self.socket
                    .send_to(&octets, self.proxy)
                    .await
                    .expect("it is sent");
                let answer = tokio::time::timeout(
                    Duration::from_millis(1_000),
                    self.response(&call, &mut buffer),
                );
                if let Ok(status) = answer.await {
                    return status;
                }
            }
        };
        tokio::time::timeout(PATIENCE, answered)
            .await
            .expect("an answer in time")
    }

    async fn response(&self, call: &str, buffer: &mut [u8]) -> u16 {
        loop {
            let length = self.socket.recv(buffer).await.expect("a datagram");
            let response = Message::read(Bytes::copy_from_slice(&buffer[..length]));
            let response = response.expect("a message");
            if response.call_id() == Some(call)
                && let Some(status @ 200..) = response.status()
            {
                return status;
            }
        }
    }
}

#[tokio::test]
async fn a_request_goes_on_to_the_next_server_that_the_dns_names() {
    let busy = Downstream::start(503).await;
    let good = Downstream::start(200).await;
    let records = format!(
        "@ NAPTR 10 10 \"s\" \"SIP+D2U\" \"\" _sip._udp.example.org.\n\
         _sip._udp SRV 10 0 {} first\n_sip._udp SRV 20 0 {} second\n\
         first A 127.0.0.1\nsecond A 127.0.0.1\n\
         _sip._tcp.tcp SRV 10 0 {} first\n_sip._udp.tcp SRV 10 0 {} second\n",
        busy.address.port(),
        good.address.port(),
        test_support::free_udp_port(),
        good.address.port(),
    );
    let Some(names) = NameServer::start(&records, 300) else {
        return;
    };
    let server = serve(1, |config| {
        config.dns = ResolverConfig {
            servers: vec![names.address()],
            ..ResolverConfig::default()
        };
    })
    .await;
    let mut client = Client::new(&server).await;
    // The first server refuses, within the same transaction the second one answers.
    assert_eq!(client.ask("sip:bob@example.org").await, 200);
    assert_eq!((busy.requests(), good.requests()), (1, 1));
    let suspects = server.suspects();
    assert_eq!(suspects.len(), 1, "{suspects:?}");
    assert_eq!(suspects[0].remote, busy.address);
    // From now on it is tried last.
    assert_eq!(client.ask("sip:bob@example.org").await, 200);
    assert_eq!((busy.requests(), good.requests()), (1, 2));

    // Nobody is there: neither by name, nor at the port that a name leads to.
    assert_eq!(client.ask("sip:bob@nowhere.example.org").await, 500);
    assert_eq!(
        client.ask("sip:bob@tcp.example.org;transport=tcp").await,
        500
    );
    let statistics = server.statistics().await.proxy;
    assert_eq!(statistics.failovers, 1);
    assert!(server.resolver_statistics().answered_from_cache >= 1);
    server.shutdown().await;
}

#[tokio::test]
async fn a_group_carries_the_load_while_a_server_dies_and_comes_back() {
    let one = Downstream::start(200).await;
    let other = Downstream::start(200).await;
    let member = |server: &Downstream| Member::new(&format!("sip:{}", server.address));
    let group = Group {
        members: vec![member(&one), member(&other)],
        probing: Some(Probing {
            interval: Duration::from_millis(200),
            timeout: Duration::from_secs(4),
            ..Probing::default()
        }),
        failures: 3,
        response_timeout: Some(Duration::from_secs(4)),
        ..Group::default()
    };
    // Two workers: one of them probes, and both have to know.
    let server = serve_numbers(2, group).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Client::new(&server).await);
    }

    load(&mut clients, 25).await;
    let both = (one.requests(), other.requests());
    assert_eq!(both.0 + both.1, 100);
    assert!(both.0 > 20 && both.1 > 20, "{both:?}");

    // It dies in mid-load: what it leaves unanswered the other one serves.
    other.is_there.store(false, Ordering::SeqCst);
    load(&mut clients, 25).await;
    wait_for(&server, 1).await;
    let before = one.requests();
    load(&mut clients, 25).await;
    assert_eq!(one.requests() - before, 100);
    // Probes wait as long for an answer as requests do.
    let patience = Instant::now() + PATIENCE;
    while server.statistics().await.proxy.probes_failed == 0 {
        assert!(Instant::now() < patience, "no probe has failed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    other.is_there.store(true, Ordering::SeqCst);
    wait_for(&server, 2).await;
    let before = (one.requests(), other.requests());
    load(&mut clients, 25).await;
    let after = (one.requests() - before.0, other.requests() - before.1);
    assert_eq!(after.0 + after.1, 100);
    assert!(after.0 > 20 && after.1 > 20, "{after:?}");

    let statistics = server.statistics().await.proxy;
    assert!(statistics.failovers > 0);
    server.shutdown().await;
}

/// RFC 3261 section 18.4: nobody waits for the answer of a server that is gone until a timer fires.
#[tokio::test]
async fn a_server_that_crashes_with_a_request_gives_way_to_the_next() {
    let crashing = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let good = Downstream::start(200).await;
    let first = crashing.local_addr().expect("an address");
    let crashed = tokio::spawn(async move {
        let (mut connection, _) = crashing.accept().await.expect("a connection");
        let mut buffer = [0; 4096];
        connection.read(&mut buffer).await.expect("a request")
    });
    let group = Group {
        members: vec![
            Member::new(&format!("sip:{first};transport=tcp")),
            Member {
                priority: 1,
                ..Member::new(&format!("sip:{}", good.address))
            },
        ],
        response_timeout: None,
        ..Group::default()
    };
    let server = serve_numbers(1, group).await;
    let mut client = Client::new(&server).await;
    // Within the test's patience, which is shorter than Timer F.
    assert_eq!(client.ask("sip:+4930@127.0.0.1").await, 200);
    assert!(crashed.await.expect("it has read") > 0);
    assert_eq!(good.requests(), 1);
    assert_eq!(server.statistics().await.proxy.failovers, 1);
    server.shutdown().await;
}

/// RFC 3261 section 18.4: nor for that of a server where the network says that nobody is, whichever worker's socket hears
/// it.
#[tokio::test]
async fn a_server_that_icmp_says_is_not_there_gives_way_to_the_next() {
    let nobody = Nobody::new();
    let good = Downstream::start(200).await;
    let group = Group {
        members: vec![
            Member::new(&format!("sip:{}", nobody.address())),
            Member {
                priority: 1,
                ..Member::new(&format!("sip:{}", good.address))
            },
        ],
        // Down after one failure, and asked again with the next request.
        retry_after: Duration::ZERO,
        response_timeout: None,
        ..Group::default()
    };
    let server = serve_numbers(2, group).await;
    for _ in 0..4 {
        let mut client = Client::new(&server).await;
        assert_eq!(client.ask("sip:+4930@127.0.0.1").await, 200);
    }
    assert_eq!(good.requests(), 4);
    assert!(server.statistics().await.wire.undelivered > 0);
    server.shutdown().await;
}

/// So many requests by each client, all answered 200.
async fn load(clients: &mut [Client], requests: usize) {
    let running = clients.iter_mut().map(|client| async move {
        for _ in 0..requests {
            assert_eq!(client.ask("sip:+4930@127.0.0.1").await, 200);
        }
    });
    futures_util::future::join_all(running).await;
}

/// Waits until so many members are up, in the eyes of all workers.
async fn wait_for(server: &Server, ups: usize) {
    let up = async {
        loop {
            let members = server.members().await;
            let is_up = |state| state == MemberState::Up;
            if members.iter().filter(|member| is_up(member.state)).count() == ups {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, up)
        .await
        .expect("the probes find it out");
}
