use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{Flow, Message, Method, Name, Transport};
use sip_net::SipNetConfig;
use sip_net::resolve::ResolverConfig;

use super::super::control;
use super::*;
use crate::core::{Config, Listener, Policy, Relay};
use crate::location::LocationConfig;

/// A worker on the test's runtime that forwards for anybody, and what it is fed with.
struct Stage {
    service: Service,
    /// By which other workers would hand messages over.
    handed_over: mpsc::Sender<Incoming>,
    /// What comes by the worker's own socket, which does not go to it here.
    own: mpsc::Receiver<Incoming>,
    local: SocketAddr,
    stop: Arc<watch::Sender<bool>>,
    _commander: mpsc::Sender<control::Command>,
}

impl Stage {
    fn new() -> Stage {
        let (transports, own) = Transports::start(SipNetConfig {
            listeners: vec!["udp:127.0.0.1:0".parse().expect("a listener")],
            ..SipNetConfig::default()
        })
        .expect("it starts");
        let local = transports.listening()[0].address;
        let mut policy = Policy::default();
        policy.forwarding.relay = Relay::Anybody;
        let config = Config {
            policy: Arc::new(policy),
            listeners: vec![Listener {
                transport: Transport::Udp,
                address: local,
            }],
            ..Config::default()
        };
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let location = location::Store::open(&LocationConfig::default(), &mut rng)
            .expect("a store")
            .handle();
        let names = sip_net::resolve::Resolver::new(
            ResolverConfig::default(),
            ChaCha12Rng::seed_from_u64(2),
        );
        let resolver = Resolver::new(transports.clone(), names, Duration::from_secs(10));
        let (handed_over, incoming) = mpsc::channel(4 * BATCH);
        let (_commander, commands) = control::channel();
        let (stop, stopped) = watch::channel(false);
        let stop = Arc::new(stop);
        let io = IoContext {
            transports,
            incoming,
            commands,
            location,
            resolver,
            http: HttpClient::new(Duration::from_secs(10)),
            redis: RedisClient::new(Duration::from_secs(10)),
            recorder: None,
            members: Members::new(),
            stopped,
            _stop_guard: StopGuard(Arc::downgrade(&stop)),
        };
        Stage {
            service: Service::new(Proxy::new(config, rng), io),
            handed_over,
            own,
            local,
            stop,
            _commander,
        }
    }

    /// A request that came from a socket, to be forwarded to a name.
    fn request(&self, peer: &UdpSocket) -> Incoming {
        let flow = Flow {
            transport: Transport::Udp,
            local: self.local,
            remote: peer.local_addr().expect("an address"),
            connection: sip::ConnectionId(0),
            stream: 0,
        };
        let uri = format!("sip:x@localhost:{}", flow.remote.port());
        let message = Message::request(Method::Options, &uri)
            .with(Name::Via, "SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bK1")
            .with(Name::From, "<sip:a@127.0.0.1>;tag=1")
            .with(Name::To, format!("<{uri}>"))
            .with(Name::CallId, "1")
            .with(Name::CSeq, "1 OPTIONS");
        Incoming::Message {
            flow,
            message,
            received: Instant::now(),
        }
    }
}

#[tokio::test]
async fn messages_without_an_end_do_not_hold_up_answers() {
    let mut stage = Stage::new();
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    // The same request over and over: the first is forwarded, the others are taken for its
    // retransmissions. There is one in every turn.
    let begun = Instant::now();
    let mut forwarded = 0;
    while forwarded == 0 && begun.elapsed() < Duration::from_secs(5) {
        let request = stage.request(&peer);
        assert!(stage.handed_over.try_send(request).is_ok());
        assert!(stage.service.turn().await);
        tokio::time::sleep(Duration::from_millis(1)).await;
        forwarded = stage.service.core.statistics().forwarded;
    }
    assert_eq!(forwarded, 1);

    // A worker that ends takes the others along.
    assert!(!*stage.stop.borrow());
    drop(stage.service);
    assert!(*stage.stop.borrow());
}

#[tokio::test]
async fn what_others_hand_over_does_not_keep_a_workers_own_sockets_waiting() {
    let mut stage = Stage::new();
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let request = stage.request(&peer);
    let octets = match &request {
        Incoming::Message { message, .. } => message.to_bytes(),
        _ => unreachable!("it is a message"),
    };
    for number in 0..50 {
        peer.send_to(&octets, stage.local).expect("sent");
        let mut rounds = 0;
        while stage.own.try_recv().is_err() {
            // There is always more than a turn takes.
            while stage.handed_over.try_send(request.clone()).is_ok() {}
            assert!(stage.service.round().await);
            rounds += 1;
            assert!(
                rounds <= 2,
                "datagram {number} was not read after {rounds} turns"
            );
        }
    }
}
