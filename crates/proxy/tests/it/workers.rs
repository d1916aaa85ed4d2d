//! Several workers under several sources: nobody is forgotten.

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use proxy::core::Policy;
use proxy::{ProxyConfig, Server};
use sip_net::SipNetConfig;

/// How long an answer may take on loopback, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sources that ask one thing at a time. Each has a port of its own, so that the kernel gives some of them to
/// either worker.
const MODEST: usize = 6;
const ASKED_BY_THE_MODEST: usize = 200;

/// The source that has as many requests under way all the time.
const BUSY_WINDOW: usize = 48;
const ASKED_BY_THE_BUSY: usize = 6_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_busy_source_does_not_keep_others_waiting() {
    let mut policy = Policy::default();
    policy.overload.unauthenticated_per_second_per_source = None;
    let server = Server::start(ProxyConfig {
        transports: SipNetConfig {
            listeners: vec!["udp:127.0.0.1:0".parse().expect("a listener")],
            ..SipNetConfig::default()
        },
        workers: 2,
        // All that is asked is refused, and each refusal is waited for.
        policy: Arc::new(policy),
        ..ProxyConfig::default()
    })
    .await
    .expect("it starts");
    let proxy = server.listening()[0].address;
    let source = |number: usize, window: usize, count: usize| {
        thread::spawn(move || Source::new(proxy, number).ask(window, count))
    };
    let busy = source(0, BUSY_WINDOW, ASKED_BY_THE_BUSY);
    let modest: Vec<_> = (1..=MODEST)
        .map(|number| source(number, 1, ASKED_BY_THE_MODEST))
        .collect();
    let mut delays = Vec::new();
    for asked in modest {
        delays.extend(asked.join().expect("all were answered"));
    }
    let others = busy.join().expect("all were answered");
    assert_eq!(delays.len(), MODEST * ASKED_BY_THE_MODEST);
    assert_eq!(others.len(), ASKED_BY_THE_BUSY);
    for (who, mut delays) in [("modest", delays), ("busy", others)] {
        delays.sort();
        let of = |percent: usize| delays[(delays.len() * percent / 100).min(delays.len() - 1)];
        println!(
            "{who}: p50 {:?}, p99 {:?}, all {:?}",
            of(50),
            of(99),
            of(100)
        );
        assert!(of(99) < PATIENCE / 2, "{who}: {:?}", of(99));
    }
    server.shutdown().await;
}

/// Somebody who asks the server itself, from a port of its own, what it refuses at once.
struct Source {
    socket: UdpSocket,
    number: usize,
    port: u16,
}

impl Source {
    fn new(proxy: std::net::SocketAddr, number: usize) -> Source {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(proxy).expect("connected");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let port = socket.local_addr().expect("an address").port();
        Source {
            socket,
            number,
            port,
        }
    }

    /// Sends so many requests, so many of them at a time, and returns how long each answer took. Each request has a
    /// Call-ID of its own, so that half of them belong to either worker.
    fn ask(&self, window: usize, count: usize) -> Vec<Duration> {
        let mut sent = Vec::with_capacity(count);
        let mut delays = Vec::with_capacity(count);
        let mut answer = [0; 4096];
        while delays.len() < count {
            while sent.len() < count && sent.len() - delays.len() < window {
                self.send(sent.len());
                sent.push(Instant::now());
            }
            let length = self.socket.recv(&mut answer).expect("an answer");
            let text = std::str::from_utf8(&answer[..length]).expect("text");
            assert!(text.starts_with("SIP/2.0 405 "), "{text}");
            delays.push(sent[which(text)].elapsed());
        }
        delays
    }

    fn send(&self, which: usize) {
        let Source { number, port, .. } = self;
        let request = format!(
            "MESSAGE sip:127.0.0.1:{proxy} SIP/2.0\r\n\
             Via: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bK-{number}-{which}\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:a@127.0.0.1>;tag={number}\r\n\
             To: <sip:127.0.0.1:{proxy}>\r\n\
             Call-ID: {which}-{number}-{port}\r\n\
             CSeq: 1 MESSAGE\r\n\
             Content-Length: 0\r\n\r\n",
            proxy = self.socket.peer_addr().expect("connected").port(),
        );
        self.socket.send(request.as_bytes()).expect("sent");
    }
}

/// Which request a response is to.
fn which(response: &str) -> usize {
    let (_, call) = response.split_once("Call-ID: ").expect("a Call-ID");
    let (which, _) = call.split_once('-').expect("a number");
    which.parse().expect("a number")
}
