//! Path MTU discovery (RFC 8899; RFC 9260 sections 6.9 and 7.3), ICMP (section 10) and padding
//! (RFC 4820) between two endpoints, over a network that carries no more than so many bytes.

use std::time::Duration;

use crate::common::{
    CLIENT_PORT, Host, Pair, SERVER_PORT, chunk_types, message, ordered, packet, tag, to_server,
};
use bytes::Bytes;
use sctp::packet::{
    Chunk, ChunkType, Heartbeat, Init, Packet, Pad, Parameter, ParameterBuffer, Parameters, Tsn,
};
use sctp::{
    CannotStartCause, EndpointConfig, Event, IcmpError, IcmpKind, LostCause, PathConfig, PathState,
    SendError, Transmit,
};

/// IPv4 and UDP.
const OVERHEAD: usize = 28;
const MAX: usize = 1500 - OVERHEAD;
const BASE: usize = 1200;

/// Two hosts and a network that drops packets larger than it carries, unless it may fragment them.
struct Narrow {
    pair: Pair,
    /// The largest SCTP packet from the client to the server, in bytes.
    carries: usize,
    /// Routers say what they carry.
    routers_tell: bool,
    /// Sizes of the packets of the client that were dropped.
    dropped: Vec<usize>,
}

impl Narrow {
    fn new(carries: usize) -> Narrow {
        Narrow::with(EndpointConfig::default(), carries)
    }

    fn with(config: EndpointConfig, carries: usize) -> Narrow {
        let mut pair = Pair::new();
        pair.client = Host::as_configured(CLIENT_PORT, [192, 0, 2, 1], config, 3);
        let mut narrow = Narrow {
            pair,
            carries,
            routers_tell: false,
            dropped: Vec::new(),
        };
        narrow.pair.establish();
        narrow
    }

    fn deliver(&mut self) {
        loop {
            let now = self.pair.now;
            let Some(sent) = self.pair.client.endpoint.poll_transmit(now) else {
                let packets = self.pair.server.take_packets(now);
                if packets.is_empty() {
                    return;
                }
                let from = self.pair.server.path();
                for packet in packets {
                    self.pair.client.endpoint.handle_packet(now, from, packet);
                }
                continue;
            };
            self.pair.client.sent.push((now, sent.packet.clone()));
            if sent.packet.len() <= self.carries || sent.may_fragment {
                let from = self.pair.client.path();
                let server = &mut self.pair.server.endpoint;
                server.handle_packet(now, from, sent.packet);
            } else {
                self.dropped.push(sent.packet.len());
                if self.routers_tell {
                    self.tell(&sent);
                }
            }
        }
    }

    /// A router says what it carries: as much of the packet as ICMPv4 must quote.
    fn tell(&mut self, dropped: &Transmit) {
        let error = IcmpError {
            path: dropped.path,
            kind: IcmpKind::PacketTooBig {
                mtu: self.carries + OVERHEAD,
            },
            quoted: dropped.packet.slice(..8),
        };
        self.pair.client.endpoint.handle_icmp(self.pair.now, error);
    }

    /// Sends `count` messages of 3,000 bytes, and checks that they arrive.
    fn transfer(&mut self, count: usize) {
        let client = self.pair.client.association();
        let server = self.pair.server.association();
        let (mut sent, mut received) = (0, 0);
        for _ in 0..100_000 {
            while sent < count {
                // Two pieces that fill their packets where the path carries them.
                let payload = message(sent, 2888);
                let client_endpoint = &mut self.pair.client.endpoint;
                match client_endpoint.send(self.pair.now, client, ordered(0), payload) {
                    Ok(()) => sent += 1,
                    Err(SendError::BufferFull) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            self.deliver();
            for news in self.pair.server.receive_all(self.pair.now, server) {
                assert_eq!(news.payload, message(received, 2888));
                received += 1;
            }
            self.deliver();
            if received == count {
                return;
            }
            self.wait();
        }
        panic!("it never ends");
    }

    /// Until the next deadline.
    fn wait(&mut self) {
        let pair = &mut self.pair;
        let deadlines = [&pair.client, &pair.server].map(|host| host.endpoint.next_timeout());
        let next = deadlines.into_iter().flatten().min();
        pair.now = pair.now.max(next.expect("something is waited for"));
        pair.client.endpoint.handle_timeout(pair.now);
        pair.server.endpoint.handle_timeout(pair.now);
        self.deliver();
    }

    /// A message from time to time.
    fn trickle(&mut self, duration: Duration) {
        let end = self.pair.now + duration;
        while self.pair.now < end {
            self.transfer(1);
            let next = self.pair.now + Duration::from_secs(1);
            while self
                .pair
                .client
                .endpoint
                .next_timeout()
                .is_some_and(|deadline| deadline <= next)
            {
                self.wait();
            }
            self.pair.now = self.pair.now.max(next);
        }
    }

    fn path(&self) -> sctp::PathStatus {
        let client = self.pair.client.association();
        let status = self.pair.client.endpoint.status(client);
        status.expect("it is up").paths[0].clone()
    }

    /// The sizes of the probe packets of the client.
    fn probes(&self) -> Vec<usize> {
        let sent = self.pair.client.sent.iter();
        sent.filter(|(_, packet)| chunk_types(packet).contains(&ChunkType::PAD))
            .map(|(_, packet)| packet.len())
            .collect()
    }
}

#[test]
fn the_usual_path_costs_one_probe_and_one_round_trip() {
    let mut narrow = Narrow::new(MAX);
    assert_eq!(narrow.path().mtu, BASE);
    narrow.deliver();
    assert!(narrow.probes().is_empty(), "nobody sends");
    narrow.transfer(1);
    assert_eq!(narrow.path().mtu, MAX);
    narrow.transfer(300);
    narrow.trickle(Duration::from_secs(2000));
    assert_eq!(narrow.probes(), [MAX]);
    let probe = narrow
        .pair
        .client
        .sent
        .iter()
        .find(|(_, packet)| packet.len() == MAX)
        .map(|(_, packet)| chunk_types(packet));
    assert_eq!(probe.unwrap(), [ChunkType::HEARTBEAT, ChunkType::PAD]);
    let largest = narrow
        .pair
        .client
        .sent
        .iter()
        .map(|(_, packet)| packet.len());
    assert!(largest.max().unwrap() <= MAX);
}

#[test]
fn lost_probes_are_no_errors_and_no_congestion() {
    let mut narrow = Narrow::new(1400);
    narrow.transfer(300);
    let before = narrow.path();
    let end = narrow.pair.now + EndpointConfig::default().association.path.probe_timer;
    while narrow.pair.now < end {
        narrow.wait();
    }
    assert_eq!(narrow.path(), before);
    narrow.trickle(Duration::from_secs(200));
    let after = narrow.path();
    assert!((1380..=1400).contains(&after.mtu), "{}", after.mtu);
    assert!(narrow.dropped.len() >= 2);
    assert_eq!(narrow.dropped.first(), Some(&MAX));
    assert_eq!(after.error_count, 0);
    assert_eq!(after.rto, before.rto);
    assert_eq!(after.state, PathState::Active);
    let client = narrow.pair.client.association();
    let statistics = narrow.pair.client.endpoint.association_statistics(client);
    let statistics = statistics.unwrap();
    assert_eq!(statistics.retransmitted_by_timeout, 0);
    assert_eq!(statistics.retransmitted_fast, 0);
    // Probes of the same size as what is in use are of no use (RFC 8899 section 6.2.1.3).
    let probes = narrow.probes().len();
    narrow.trickle(Duration::from_secs(100));
    assert_eq!(narrow.probes().len(), probes);
}

#[test]
fn a_raised_path_mtu_does_not_raise_the_congestion_window() {
    let mut narrow = Narrow::new(MAX);
    let cwnd = narrow.path().cwnd;
    let client = narrow.pair.client.association();
    let now = narrow.pair.now;
    let payload = Bytes::from_static(b"small");
    let endpoint = &mut narrow.pair.client.endpoint;
    endpoint.send(now, client, ordered(0), payload).unwrap();
    narrow.deliver();
    assert_eq!(narrow.path().mtu, MAX);
    assert_eq!(narrow.path().cwnd, cwnd);
}

#[test]
fn a_path_that_shrinks_is_a_black_hole_until_ip_fragments() {
    let mut narrow = Narrow::new(MAX);
    narrow.transfer(300);
    assert_eq!(narrow.path().mtu, MAX);
    narrow.carries = 1300;
    let begin = narrow.pair.now;
    narrow.transfer(300);
    let mtu = narrow.path().mtu;
    assert!((BASE..=1300).contains(&mtu), "{mtu}");
    assert!(narrow.pair.now - begin < Duration::from_secs(30));
    narrow.trickle(Duration::from_secs(200));
    let mtu = narrow.path().mtu;
    assert!((1280..=1300).contains(&mtu), "{mtu}");
    // Nothing larger than the path carries leaves any more.
    let dropped = narrow.dropped.len();
    narrow.transfer(300);
    assert_eq!(narrow.dropped.len(), dropped);
}

#[test]
fn a_router_that_tells_saves_the_time() {
    let mut narrow = Narrow::new(1400);
    narrow.routers_tell = true;
    narrow.transfer(1);
    narrow.transfer(1);
    assert_eq!(narrow.path().mtu, 1400);
    assert_eq!(narrow.probes(), [MAX, 1400]);
    narrow.carries = 900;
    let begin = narrow.pair.now;
    narrow.transfer(20);
    assert_eq!(narrow.path().mtu, 900, "less than BASE_PLPMTU");
    assert!(narrow.pair.now - begin < Duration::from_secs(10));
}

/// A base of which routers and IP fragmentation say nothing: RFC 8899 sections 4.3 and 5.2.
#[test]
fn a_path_below_the_base_of_which_nobody_tells_is_overcome() {
    let bases = [(600, BASE), (900, BASE), (1400, MAX)];
    // With few errors allowed the path is inactive, or nearly lost, before enough packets are.
    for (carries, base_mtu) in bases {
        for (path_max_retrans, association_max_retrans) in [(5, 10), (0, 10), (2, 4)] {
            let config = EndpointConfig::default()
                .base_mtu(base_mtu)
                .path_max_retrans(path_max_retrans)
                .association_max_retrans(association_max_retrans);
            let mut narrow = Narrow::with(config, carries);
            narrow.transfer(300);
            let took = narrow.pair.now - narrow.pair.start;
            assert!(took < Duration::from_secs(60), "{carries}: {took:?}");
            let mtu = narrow.path().mtu;
            assert!(
                (576 - OVERHEAD..=carries).contains(&mtu),
                "{carries}: {mtu}"
            );
            // It stays so, whatever fails meanwhile.
            narrow.trickle(Duration::from_secs(700));
            let path = narrow.path();
            assert!(path.mtu <= carries, "{}", path.mtu);
            assert_eq!(path.state, PathState::Active);
        }
    }
}

/// A path that fails and comes back as narrow as it was: what was learnt of it still holds.
#[test]
fn a_narrow_path_that_was_inactive_is_still_narrow() {
    let mut narrow = Narrow::new(600);
    narrow.transfer(20);
    assert_eq!(narrow.path().mtu, 576 - OVERHEAD);
    let client = narrow.pair.client.association();
    let endpoint = &mut narrow.pair.client.endpoint;
    let payload = message(1, 2888);
    endpoint
        .send(narrow.pair.now, client, ordered(1), payload)
        .unwrap();
    narrow.carries = 0;
    let is_cut = |narrow: &mut Narrow| {
        let now = narrow.pair.now;
        while narrow.pair.client.endpoint.poll_transmit(now).is_some() {}
        narrow.path().state != PathState::Inactive
    };
    while is_cut(&mut narrow) {
        let next = narrow.pair.client.endpoint.next_timeout().unwrap();
        narrow.pair.now = narrow.pair.now.max(next);
        narrow.pair.client.endpoint.handle_timeout(next);
    }
    assert_eq!(narrow.path().mtu, 576 - OVERHEAD);
    narrow.carries = 600;
    let end = narrow.pair.now + Duration::from_secs(120);
    let server = narrow.pair.server.association();
    while narrow
        .pair
        .server
        .receive_all(narrow.pair.now, server)
        .is_empty()
    {
        narrow.wait();
        assert!(narrow.pair.now < end);
    }
    assert_eq!(narrow.path().state, PathState::Active);
    assert_eq!(narrow.path().mtu, 576 - OVERHEAD);
}

/// The first COOKIE ECHO takes as much DATA along as it can; the path may not carry that.
#[test]
fn a_cookie_echo_that_was_too_large_is_repeated_in_a_packet_that_passes() {
    let mut narrow = Narrow {
        pair: Pair::new(),
        carries: 600,
        routers_tell: false,
        dropped: Vec::new(),
    };
    narrow.pair.client =
        Host::as_configured(CLIENT_PORT, [192, 0, 2, 1], EndpointConfig::default(), 3);
    let now = narrow.pair.now;
    let to = narrow.pair.server.path();
    let endpoint = &mut narrow.pair.client.endpoint;
    let client = endpoint.connect(now, to, SERVER_PORT).unwrap();
    endpoint
        .send(now, client, ordered(0), message(0, 900))
        .unwrap();
    narrow.deliver();
    assert!(narrow.dropped[0] > 900, "the DATA went along");
    narrow.wait();
    assert_eq!(narrow.pair.now - now, Duration::from_secs(1), "T1-cookie");
    let echoes: Vec<_> = narrow
        .pair
        .client
        .sent
        .iter()
        .map(|(_, packet)| chunk_types(packet))
        .filter(|types| types[0] == ChunkType::COOKIE_ECHO)
        .collect();
    assert_eq!(echoes[1], [ChunkType::COOKIE_ECHO]);
    let server = narrow.pair.server.association();
    for _ in 0..10 {
        if let Some(early) = narrow.pair.server.endpoint.receive(narrow.pair.now, server) {
            assert_eq!(early.payload, message(0, 900));
            return;
        }
        narrow.wait();
    }
    panic!("it never comes");
}

#[test]
fn the_size_can_be_given() {
    let fixed = EndpointConfig::default().path_mtu_discovery(false);
    let mut narrow = Narrow::with(fixed, MAX);
    assert_eq!(narrow.path().mtu, MAX);
    narrow.transfer(10);
    assert!(narrow.probes().is_empty());

    let mut narrow = Narrow::new(MAX);
    let client = narrow.pair.client.association();
    let given = PathConfig::default().mtu(1000).path_mtu_discovery(false);
    let remote = narrow.pair.server.address;
    let now = narrow.pair.now;
    let endpoint = &mut narrow.pair.client.endpoint;
    endpoint.configure_path(now, client, remote, given).unwrap();
    assert_eq!(narrow.path().mtu, 1000 - OVERHEAD);
    narrow.pair.client.sent.clear();
    narrow.transfer(10);
    assert!(narrow.probes().is_empty());
    let mut sizes = narrow
        .pair
        .client
        .sent
        .iter()
        .map(|(_, packet)| packet.len());
    assert!(sizes.all(|size| size <= 1000 - OVERHEAD));
}

// --- ICMP ---

/// A packet of the client, as an ICMP message quotes it.
fn quoted(narrow: &mut Narrow) -> Transmit {
    let client = narrow.pair.client.association();
    let now = narrow.pair.now;
    let endpoint = &mut narrow.pair.client.endpoint;
    endpoint
        .send(now, client, ordered(0), Bytes::from_static(b"x"))
        .unwrap();
    endpoint.poll_transmit(now).expect("DATA")
}

fn give_icmp(narrow: &mut Narrow, about: &Transmit, kind: IcmpKind) {
    give_icmp_quoting(narrow, about, kind, about.packet.clone());
}

fn give_icmp_quoting(narrow: &mut Narrow, about: &Transmit, kind: IcmpKind, quoted: Bytes) {
    let error = IcmpError {
        path: about.path,
        kind,
        quoted,
    };
    let now = narrow.pair.now;
    narrow.pair.client.endpoint.handle_icmp(now, error);
    narrow.pair.client.take_packets(now);
}

#[test]
fn an_icmp_message_without_the_verification_tag_says_nothing() {
    let mut narrow = Narrow::new(MAX);
    let about = quoted(&mut narrow);
    let count = narrow.pair.client.endpoint.association_count();
    let kind = IcmpKind::ProtocolUnreachable;
    for length in 0..8 {
        give_icmp_quoting(&mut narrow, &about, kind, about.packet.slice(..length));
    }
    let with = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = about.packet.to_vec();
        change(&mut bytes);
        Bytes::from(bytes)
    };
    let other_tag = with(&|bytes| bytes[4] ^= 1);
    let no_tag = with(&|bytes| bytes[4..8].fill(0));
    let other_source = with(&|bytes| bytes[0] ^= 1);
    let other_destination = with(&|bytes| bytes[2] ^= 1);
    for wrong in [other_tag, no_tag, other_source, other_destination] {
        give_icmp_quoting(&mut narrow, &about, kind, wrong);
    }
    let mut elsewhere = about.clone();
    elsewhere.path.remote = [192, 0, 2, 77].into();
    give_icmp(&mut narrow, &elsewhere, kind);
    let drops = narrow.pair.client.endpoint.statistics().drops;
    // Up to three bytes there are no ports.
    assert_eq!(drops.icmp_unmatched, 4 + 2 + 1);
    assert_eq!(drops.icmp_verification_tag, 4 + 2);
    assert_eq!(narrow.pair.client.endpoint.association_count(), count);
}

#[test]
fn an_unknown_protocol_is_like_an_abort() {
    let mut narrow = Narrow::new(MAX);
    let about = quoted(&mut narrow);
    let quote = about.packet.slice(..8);
    give_icmp_quoting(&mut narrow, &about, IcmpKind::ProtocolUnreachable, quote);
    assert!(matches!(
        narrow.pair.client.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::ProtocolUnreachable,
            ..
        })
    ));
    assert_eq!(narrow.pair.client.endpoint.association_count(), 0);
}

/// RFC 6951 section 5.5: behind an unreachable UDP port there is no SCTP.
#[test]
fn an_unreachable_port_means_something_for_udp_only() {
    for (encapsulation_port, lives) in [(Some(9899), false), (None, true)] {
        let mut pair = Pair::new();
        let mut to = pair.server.path();
        to.encapsulation_port = encapsulation_port;
        let client = &mut pair.client.endpoint;
        client.connect(pair.now, to, SERVER_PORT).unwrap();
        let init = client.poll_transmit(pair.now).expect("an INIT");
        let error = IcmpError {
            path: init.path,
            kind: IcmpKind::PortUnreachable,
            quoted: init.packet,
        };
        client.handle_icmp(pair.now, error);
        pair.client.take_packets(pair.now);
        assert_eq!(pair.client.endpoint.association_count(), usize::from(lives));
        let ignored = pair.client.endpoint.statistics().drops.icmp_ignored;
        assert_eq!(ignored, u64::from(lives));
        let is_refused = pair.client.events.iter().any(|event| {
            matches!(
                event,
                Event::CannotStart {
                    cause: CannotStartCause::ProtocolUnreachable,
                    ..
                }
            )
        });
        assert_eq!(is_refused, !lives);
    }
}

/// An INIT is recognized by its Initiate Tag, and only as long as it is not answered.
#[test]
fn a_quoted_init_counts_in_cookie_wait_only() {
    let mut narrow = Narrow::new(MAX);
    let (_, init) = narrow.pair.client.sent[0].clone();
    assert_eq!(chunk_types(&init), [ChunkType::INIT]);
    let mut about = quoted(&mut narrow);
    about.packet = init.clone();
    give_icmp(&mut narrow, &about, IcmpKind::ProtocolUnreachable);
    let short = init.slice(..19);
    give_icmp_quoting(&mut narrow, &about, IcmpKind::ProtocolUnreachable, short);
    let mut other = init.to_vec();
    other[16] ^= 1;
    give_icmp_quoting(
        &mut narrow,
        &about,
        IcmpKind::ProtocolUnreachable,
        other.into(),
    );
    let drops = narrow.pair.client.endpoint.statistics().drops;
    assert_eq!((drops.icmp_ignored, drops.icmp_verification_tag), (1, 2));
    assert_eq!(narrow.pair.client.endpoint.association_count(), 1);
}

#[test]
fn an_unreachable_host_is_an_error_of_the_path_alone() {
    let mut narrow = Narrow::new(MAX);
    let about = quoted(&mut narrow);
    for _ in 0..50 {
        give_icmp(&mut narrow, &about, IcmpKind::Unreachable);
    }
    assert_eq!(narrow.path().state, PathState::Inactive);
    assert_eq!(narrow.pair.client.endpoint.association_count(), 1);
    narrow.transfer(0);
    narrow.wait();
    assert_eq!(narrow.path().state, PathState::Active, "it does work");
}

#[test]
fn impossible_path_mtus_of_routers_are_ignored() {
    let mut narrow = Narrow::new(MAX);
    narrow.transfer(1);
    let about = quoted(&mut narrow);
    for mtu in [0, 68, 575, 1500, 9000, usize::MAX] {
        give_icmp(&mut narrow, &about, IcmpKind::PacketTooBig { mtu });
    }
    assert_eq!(narrow.path().mtu, MAX);
    assert_eq!(
        narrow.pair.client.endpoint.statistics().drops.icmp_ignored,
        6
    );
}

// --- Padding ---

#[test]
fn padding_beside_other_chunks_is_not_answered() {
    let mut pair = Pair::new();
    pair.establish();
    let tag = tag(&pair.client.sent.last().unwrap().1);
    let padding = [7; 100];
    let pad = Chunk::Pad(Pad {
        padding_data: &padding,
    });
    pair.give_server(to_server(tag, &[pad, pad]));
    assert!(pair.to_client.is_empty());
    let info = [0, 1, 0, 8, 1, 2, 3, 4];
    let heartbeat = Chunk::Heartbeat(Heartbeat {
        parameters: Parameters::new(&info),
    });
    pair.give_server(to_server(tag, &[pad, heartbeat, pad]));
    let answer = pair.to_client.pop_front().expect("an answer");
    assert_eq!(chunk_types(&answer), [ChunkType::HEARTBEAT_ACK]);
    assert!(pair.to_client.is_empty());
    assert_eq!(pair.server.endpoint.statistics().drops.chunks, 0);
}

#[test]
fn a_padded_init_gets_the_same_answer() {
    let mut sizes = Vec::new();
    for padding in [0, 1000] {
        let mut pair = Pair::new();
        let mut parameters = ParameterBuffer::new();
        let padding = vec![7; padding];
        if !padding.is_empty() {
            parameters.push(&Parameter::Padding(&padding)).unwrap();
        }
        let init = Chunk::Init(Init {
            initiate_tag: 5,
            a_rwnd: 100_000,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(1),
            parameters: parameters.parameters(),
        });
        pair.give_server(packet(CLIENT_PORT, SERVER_PORT, 0, &[init]));
        let answer = pair.to_client.pop_front().expect("an INIT ACK");
        let Some(Ok(Chunk::InitAck(init_ack))) = Packet::read(&answer).unwrap().chunks().next()
        else {
            panic!("an INIT ACK");
        };
        assert!(init_ack.parameters.iter().all(|parameter| {
            !matches!(
                parameter,
                Ok(Parameter::UnrecognizedParameter(_) | Parameter::Padding(_))
            )
        }));
        sizes.push(answer.len());
    }
    assert_eq!(sizes[0], sizes[1]);
}
