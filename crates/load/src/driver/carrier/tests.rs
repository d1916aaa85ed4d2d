//! Carriers on loopback, without an engine.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ahash::RandomState;
use sip::Transport;
use sip_net::{Listen, SipNetConfig};

use super::{Carrier, NetCarrier, PlainCarrier, Traffic};
use crate::engine::{Connection, ConnectionId, Transmit};

/// How long anything may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn hasher() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

/// A message with a body of so many octets.
fn message(number: usize, body: usize) -> Vec<u8> {
    let mut octets = format!(
        "MESSAGE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP c;branch=z9hG4bK{number}\r\nFrom: <sip:d@e>;tag=1\r\n\
         To: <sip:a@b>\r\nCall-ID: {number}\r\nCSeq: 1 MESSAGE\r\nContent-Length: {body}\r\n\r\n"
    )
    .into_bytes();
    octets.resize(octets.len() + body, b'x');
    octets
}

/// Notes what comes, and sends it back where it is to.
#[derive(Default)]
struct Ends {
    opened: Vec<(ConnectionId, Connection)>,
    lost: Vec<ConnectionId>,
    came: Vec<(ConnectionId, Vec<u8>)>,
    to_send: VecDeque<(ConnectionId, Vec<u8>)>,
    echoes: bool,
}

impl Traffic for Ends {
    fn opened(&mut self, id: ConnectionId, connection: Connection) {
        self.opened.push((id, connection));
    }

    fn message(&mut self, now: Instant, received: Instant, id: ConnectionId, octets: &[u8]) {
        assert!(received <= now);
        match self.echoes {
            true => self.to_send.push_back((id, octets.to_vec())),
            false => self.came.push((id, octets.to_vec())),
        }
    }

    fn lost(&mut self, _: Instant, id: ConnectionId) {
        self.lost.push(id);
    }

    fn poll_transmit(&mut self, into: &mut Vec<u8>) -> Option<Transmit> {
        let (connection, octets) = self.to_send.pop_front()?;
        into.extend_from_slice(&octets);
        Some(Transmit {
            connection,
            length: octets.len(),
        })
    }
}

/// Two carriers, the second of which sends everything back.
struct World {
    one: Carrier,
    other: Carrier,
    here: Ends,
    there: Ends,
}

impl World {
    fn new(one: Carrier, other: Carrier) -> World {
        World {
            one,
            other,
            here: Ends::default(),
            there: Ends {
                echoes: true,
                ..Ends::default()
            },
        }
    }

    /// The same when the first has its connection.
    fn connected(one: Carrier, other: Carrier) -> World {
        let mut world = World::new(one, other);
        world.run("the connection", |world| !world.here.opened.is_empty());
        world
    }

    fn run(&mut self, what: &str, until: impl Fn(&World) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !until(self) {
            assert!(Instant::now() < deadline, "not in time: {what}");
            let soon = || Some(Instant::now() + Duration::from_millis(1));
            self.one.turn(soon(), &mut self.here);
            self.other.turn(soon(), &mut self.there);
        }
    }
}

fn plain(carrier: PlainCarrier) -> Carrier {
    Carrier::Plain(Box::new(carrier))
}

fn over_udp() -> (World, ConnectionId) {
    let mut other = PlainCarrier::new(hasher()).unwrap();
    let address = other.listen_udp(HERE, false).unwrap();
    let mut one = PlainCarrier::new(hasher()).unwrap();
    let (id, _) = one.bind_udp(HERE, address).unwrap();
    (World::new(plain(one), plain(other)), id)
}

fn over_tcp() -> (World, ConnectionId) {
    let mut other = PlainCarrier::new(hasher()).unwrap();
    let address = other.listen(HERE, false).unwrap();
    let mut one = PlainCarrier::new(hasher()).unwrap();
    let id = one.connect(None, address).unwrap();
    (World::connected(plain(one), plain(other)), id)
}

fn over_net(transport: Transport) -> (World, ConnectionId) {
    let listeners = vec![Listen {
        transport,
        address: HERE,
    }];
    let config = SipNetConfig {
        encapsulation_port: 0,
        ..SipNetConfig::default()
    };
    let other = NetCarrier::start(
        SipNetConfig {
            listeners,
            ..config.clone()
        },
        hasher(),
    )
    .unwrap();
    let address = other.listening()[0].address;
    let config = SipNetConfig {
        peer_encapsulation_port: other.encapsulation().map_or(0, |address| address.port()),
        ..config
    };
    let mut one = NetCarrier::start(config, hasher()).unwrap();
    let id = one.connect(transport, address, None, 1);
    let carrier = |carrier| Carrier::Net(Box::new(carrier));
    (World::connected(carrier(one), carrier(other)), id)
}

/// Everything that is sent comes back, in its order, to the connection that it was sent by.
fn echo(mut world: World, id: ConnectionId, count: usize, body: usize) -> World {
    let sent: Vec<Vec<u8>> = (0..count).map(|number| message(number, body)).collect();
    // A few at a time: UDP is to lose nothing.
    for some in sent.chunks(50) {
        let before = world.here.came.len();
        let all = some.iter().map(|octets| (id, octets.clone()));
        world.here.to_send.extend(all);
        world.run("the echo", |world| {
            world.here.came.len() == before + some.len()
        });
    }
    let expected: Vec<_> = sent.into_iter().map(|octets| (id, octets)).collect();
    assert_eq!(world.here.came, expected);
    world
}

#[test]
fn datagrams_go_to_and_fro() {
    let (world, id) = over_udp();
    let mut world = echo(world, id, 500, 300);
    let wire = world.one.statistics();
    assert_eq!((wire.messages_sent, wire.messages_received), (500, 500));
    assert_eq!(world.there.opened.len(), 1);

    // Keep-alives are none.
    world.here.to_send.push_back((id, b"\r\n\r\n".to_vec()));
    world.run("the keep-alive", |world| {
        world.other.statistics().keep_alives == 1
    });
    assert_eq!(world.here.came.len(), 500);
}

#[test]
fn streams_go_to_and_fro() {
    let (world, id) = over_tcp();
    let world = echo(world, id, 500, 300);
    assert_eq!(world.here.opened.len(), 1);
    let world = echo(
        World {
            here: Ends::default(),
            ..world
        },
        id,
        3,
        200_000,
    );
    let wire = world.one.statistics();
    assert_eq!((wire.messages_sent, wire.messages_received), (503, 503));
    assert!(
        wire.bytes_sent > 600_000 && wire.packets_sent > 3,
        "{wire:?}"
    );
}

#[test]
fn what_a_peer_does_not_read_waits_and_arrives() {
    let (mut world, id) = over_tcp();
    // Far more than the kernel's buffers hold; the other end does not look yet.
    for number in 0..100 {
        world.here.to_send.push_back((id, message(number, 100_000)));
    }
    world.one.turn(Some(Instant::now()), &mut world.here);
    assert!(world.here.to_send.is_empty());
    world.run("all of it", |world| world.here.came.len() == 100);
    assert!(
        world
            .here
            .came
            .iter()
            .all(|(_, octets)| octets.ends_with(b"xxx"))
    );
}

#[test]
fn a_lost_connection_is_told_and_opened_again() {
    let (mut world, id) = over_tcp();
    // What is no SIP ends it, at the end that reads it.
    world
        .here
        .to_send
        .push_back((id, b"A\r\nl: x\r\n\r\n".to_vec()));
    world.run("the next connection", |world| world.here.opened.len() == 2);
    assert_eq!(world.here.lost, [id]);
    assert_eq!(world.there.lost.len(), 1);
    assert_eq!(world.other.statistics().malformed, 1);
    echo(world, id, 10, 10);
}

#[test]
fn nobody_listens() {
    let nobody = test_support::Nobody::new();
    let mut carrier = PlainCarrier::new(hasher()).unwrap();
    carrier.connect(None, nobody.address()).unwrap();
    let mut carrier = plain(carrier);
    let mut ends = Ends::default();
    let deadline = Instant::now() + TIMEOUT;
    let (remote, error) = loop {
        carrier.turn(Some(Instant::now() + Duration::from_millis(10)), &mut ends);
        if let Some(error) = carrier.take_error() {
            break error;
        }
        assert!(Instant::now() < deadline);
    };
    assert_eq!(remote, nobody.address());
    assert!(!error.is_passing(), "{error}");
}

#[test]
fn other_transports_go_to_and_fro() {
    for transport in [
        Transport::Udp,
        Transport::Tcp,
        Transport::Sctp,
        Transport::Ws,
    ] {
        let (world, id) = over_net(transport);
        let world = echo(world, id, 200, 300);
        assert_eq!(world.here.opened.len(), 1, "{transport}");
        world.one.shutdown();
        world.other.shutdown();
    }
}

#[test]
fn a_thread_that_waits_is_woken() {
    let (world, _) = over_udp();
    let (net, _) = over_net(Transport::Udp);
    for mut carrier in [world.one, net.one] {
        let waker = carrier.waker();
        let begun = Instant::now();
        let waking = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        carrier.turn(Some(begun + TIMEOUT), &mut Ends::default());
        assert!(begun.elapsed() < TIMEOUT);
        waking.join().unwrap();
    }
}
