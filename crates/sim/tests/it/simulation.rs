//! The virtual clock and the network, with hosts that are simpler than any protocol.

use link::{Bottleneck, Link, LinkConfig};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sim::{Datagram, Fate, Host, HostId, Mtu, Simulation, Stalled, Stop, write_capture};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::{Duration, Instant};
use test_support::require_command;

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const SECOND_AGAIN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2));
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

/// Sends what it is told to, notes what arrives, and counts time-outs.
#[derive(Default)]
struct Note {
    outbox: Vec<Datagram<u32>>,
    arrived: Vec<(Instant, IpAddr, u32)>,
    too_big: Vec<(Instant, u32, usize)>,
    timeout: Option<Instant>,
    timeouts: Vec<Instant>,
    restless: bool,
}

impl Host for Note {
    type Payload = u32;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<u32>) {
        self.arrived
            .push((now, datagram.destination, datagram.payload));
    }

    fn handle_too_big(&mut self, now: Instant, datagram: Datagram<u32>, mtu: usize) {
        self.too_big.push((now, datagram.payload, mtu));
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.timeouts.push(now);
        if !self.restless {
            self.timeout = None;
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram<u32>> {
        (!self.outbox.is_empty()).then(|| self.outbox.remove(0))
    }
}

#[test]
fn datagrams_arrive_after_the_delay_of_their_link() {
    let (mut simulation, first, second) = two_hosts(LinkConfig {
        delay: Duration::from_millis(5),
        ..LinkConfig::default()
    });
    let start = simulation.now();
    simulation.host_mut(first).outbox = vec![datagram(SECOND, 1), datagram(SECOND_AGAIN, 2)];
    let end = start + Duration::from_secs(1);
    assert_eq!(simulation.run(end, |_| false), Ok(Stop::Idle));
    let (slow, fast) = (start + Duration::from_millis(5), start);
    assert_eq!(
        simulation.host(second).arrived,
        [(fast, SECOND_AGAIN, 2), (slow, SECOND, 1)]
    );
    assert_eq!(simulation.now(), slow);
    assert_eq!(simulation.network().statistics().arrived, 2);
}

#[test]
fn what_arrives_at_one_time_keeps_its_order() {
    let (mut simulation, first, second) = two_hosts(LinkConfig::default());
    simulation.host_mut(first).outbox = (0..100).map(|n| datagram(SECOND, n)).collect();
    let end = simulation.now();
    assert_eq!(simulation.run(end, |_| false), Ok(Stop::Idle));
    let arrived = &simulation.host(second).arrived;
    assert!(arrived.iter().map(|&(_, _, n)| n).eq(0..100));
}

#[test]
fn links_lose_and_duplicate() {
    let (mut simulation, first, second) = two_hosts(LinkConfig {
        loss: 0.5.into(),
        duplicate: 0.5.into(),
        ..LinkConfig::default()
    });
    simulation.host_mut(first).outbox = (0..100).map(|n| datagram(SECOND, n)).collect();
    let end = simulation.now();
    assert_eq!(simulation.run(end, |_| false), Ok(Stop::Idle));
    let statistics = *simulation.network().link_statistics(FIRST, SECOND).unwrap();
    let expected = 100 - statistics.lost_packets + statistics.duplicated_packets;
    assert_eq!(simulation.host(second).arrived.len() as u64, expected);
    assert!(statistics.lost_packets > 0 && statistics.duplicated_packets > 0);
}

#[test]
fn datagrams_without_a_link_vanish() {
    let (mut simulation, first, _) = two_hosts(LinkConfig::default());
    simulation.host_mut(first).outbox = vec![datagram(NOBODY, 1)];
    simulation.record();
    let end = simulation.now();
    assert_eq!(simulation.run(end, |_| false), Ok(Stop::Idle));
    assert_eq!(simulation.network().statistics().unroutable, 1);
    assert_eq!(simulation.trace().len(), 1);
    assert_eq!(simulation.trace()[0].fate, Fate::Unroutable);
}

#[test]
fn time_outs_come_at_their_time() {
    let (mut simulation, first, second) = two_hosts(LinkConfig::default());
    let start = simulation.now();
    let (early, late) = (
        start + Duration::from_secs(1),
        start + Duration::from_secs(60),
    );
    simulation.host_mut(first).timeout = Some(late);
    simulation.host_mut(second).timeout = Some(early);
    assert_eq!(simulation.run(late, |_| false), Ok(Stop::Idle));
    assert_eq!(simulation.host(first).timeouts, [late]);
    assert_eq!(simulation.host(second).timeouts, [early]);
}

#[test]
fn the_clock_stops_at_the_deadline() {
    let (mut simulation, first, _) = two_hosts(LinkConfig::default());
    let start = simulation.now();
    simulation.host_mut(first).timeout = Some(start + Duration::from_secs(2));
    let deadline = start + Duration::from_secs(1);
    assert_eq!(simulation.run(deadline, |_| false), Ok(Stop::TimeUp));
    assert_eq!(simulation.now(), deadline);
    assert!(simulation.host(first).timeouts.is_empty());
}

#[test]
fn a_run_ends_when_it_is_done() {
    let (mut simulation, first, second) = two_hosts(LinkConfig::default());
    simulation.host_mut(first).outbox = (0..10).map(|n| datagram(SECOND, n)).collect();
    let end = simulation.now();
    let three_arrived = |simulation: &Simulation<Note>| simulation.host(second).arrived.len() == 3;
    assert_eq!(simulation.run(end, three_arrived), Ok(Stop::Done));
    assert_eq!(simulation.host(second).arrived.len(), 3);
}

#[test]
fn a_host_that_never_rests_is_found() {
    let (mut simulation, first, _) = two_hosts(LinkConfig::default());
    let at = simulation.now();
    let host = simulation.host_mut(first);
    host.timeout = Some(at);
    host.restless = true;
    let deadline = at + Duration::from_secs(1);
    assert_eq!(simulation.run(deadline, |_| false), Err(Stalled { at }));
}

#[test]
fn the_trace_tells_what_was_sent() {
    let (mut simulation, first, _) = two_hosts(LinkConfig::default());
    simulation.record();
    simulation.host_mut(first).outbox = vec![datagram(SECOND, 7)];
    let start = simulation.now();
    assert_eq!(simulation.run(start, |_| false), Ok(Stop::Idle));
    let [sent] = simulation.trace() else {
        panic!("not one datagram");
    };
    assert_eq!(sent.at, start);
    assert_eq!(sent.datagram, datagram(SECOND, 7));
    let Fate::Offered(verdict) = sent.fate else {
        panic!("{:?}", sent.fate);
    };
    assert!(verdict.deliveries().map(|delivery| delivery.at).eq([start]));
}

#[test]
fn what_has_no_bits_to_flip_vanishes_when_the_link_spoils_it() {
    let (mut simulation, first, second) = two_hosts(LinkConfig {
        corrupt: 0.5.into(),
        ..LinkConfig::default()
    });
    simulation.host_mut(first).outbox = (0..1000).map(|n| datagram(SECOND, n)).collect();
    assert_eq!(run_a_minute(&mut simulation), Ok(Stop::Idle));
    let statistics = *simulation.network().statistics();
    assert_eq!(statistics.arrived, 1000);
    assert_eq!(statistics.altered_lost, statistics.altered);
    assert!((400..600).contains(&statistics.altered), "{statistics:?}");
    let arrived = simulation.host(second).arrived.len() as u64;
    assert_eq!(arrived, 1000 - statistics.altered);
}

#[test]
fn pairs_of_addresses_share_a_link() {
    let (mut simulation, first, second) = two_hosts(LinkConfig::default());
    // 100 bytes take a millisecond.
    let config = LinkConfig {
        bottleneck: Some(Bottleneck::new(800_000)),
        ..LinkConfig::default()
    };
    let network = simulation.network_mut();
    let shared = network.add_link(Link::new(config, ChaCha12Rng::seed_from_u64(1)));
    network.add_route(FIRST, SECOND, shared);
    network.add_route(FIRST, SECOND_AGAIN, shared);
    simulation.host_mut(first).outbox = vec![datagram(SECOND, 1), datagram(SECOND_AGAIN, 2)];
    let start = simulation.now();
    assert_eq!(run_a_minute(&mut simulation), Ok(Stop::Idle));
    let after = |milliseconds| start + Duration::from_millis(milliseconds);
    assert_eq!(
        simulation.host(second).arrived,
        [(after(1), SECOND, 1), (after(2), SECOND_AGAIN, 2)]
    );
    let link = simulation.network().link(shared);
    assert_eq!(link.statistics().offered_packets, 2);
}

#[test]
fn what_is_planned_is_done_at_its_time() {
    let (mut simulation, first, second) = two_hosts(LinkConfig::default());
    let link = simulation.network_mut().add_link(Link::new(
        LinkConfig::default(),
        ChaCha12Rng::seed_from_u64(1),
    ));
    simulation.network_mut().add_route(FIRST, SECOND, link);
    let start = simulation.now();
    // The number of a datagram is the second at which it is sent.
    for second in 0..6 {
        simulation.at(start + Duration::from_secs(second), move |simulation| {
            let number = second as u32;
            simulation.host_mut(first).outbox = vec![datagram(SECOND, number)];
        });
    }
    for (milliseconds, up) in [(1500, false), (3500, true)] {
        simulation.at(
            start + Duration::from_millis(milliseconds),
            move |simulation| {
                simulation.network_mut().link_mut(link).set_up(up);
            },
        );
    }
    simulation.at(start + Duration::from_millis(4500), |simulation| {
        simulation.network_mut().remove_route(FIRST, SECOND);
    });
    assert_eq!(run_a_minute(&mut simulation), Ok(Stop::Idle));
    let arrived = &simulation.host(second).arrived;
    let arrived: Vec<u32> = arrived.iter().map(|&(_, _, number)| number).collect();
    assert_eq!(arrived, [0, 1, 4]);
    assert_eq!(simulation.now(), start + Duration::from_secs(5));
}

#[test]
fn what_is_too_big_for_a_link_is_dropped_and_may_be_told() {
    for tells_sender in [true, false] {
        let (mut simulation, first, second) = two_hosts(LinkConfig::default());
        let link = simulation.connect(
            FIRST,
            SECOND,
            Link::new(LinkConfig::default(), ChaCha12Rng::seed_from_u64(1)),
        );
        let mtu = Mtu {
            bytes: 99,
            tells_sender,
        };
        simulation.network_mut().set_mtu(link, Some(mtu));
        let mut small = datagram(SECOND, 1);
        small.bytes = 99;
        let mut in_pieces = datagram(SECOND, 2);
        in_pieces.may_fragment = true;
        let too_big = datagram(SECOND, 3);
        let elsewhere = datagram(SECOND_AGAIN, 4);
        simulation.host_mut(first).outbox = vec![small, in_pieces, too_big, elsewhere];
        let start = simulation.now();
        assert_eq!(run_a_minute(&mut simulation), Ok(Stop::Idle));
        let arrived = simulation.host(second).arrived.iter();
        assert!(arrived.map(|&(_, _, number)| number).eq([1, 2, 4]));
        let told = tells_sender.then_some((start, 3, 99));
        assert!(simulation.host(first).too_big.iter().copied().eq(told));
        assert_eq!(simulation.network().statistics().too_big, 1);
    }
}

/// Twenty hosts whose time comes at once, and a datagram to each of them.
#[test]
fn chance_decides_who_has_its_turn_and_the_seed_decides_chance() {
    let start = Instant::now();
    let order_of = |seed: Option<u64>| {
        let mut simulation = Simulation::new(start);
        if let Some(seed) = seed {
            simulation.shuffle(ChaCha12Rng::seed_from_u64(seed));
        }
        let hosts: Vec<HostId> = (0..20)
            .map(|number| {
                let address = IpAddr::V4(Ipv4Addr::new(10, 2, 0, number));
                let host = Note {
                    timeout: Some(start),
                    outbox: vec![datagram(address, number.into())],
                    ..Note::default()
                };
                let link = Link::new(LinkConfig::default(), ChaCha12Rng::seed_from_u64(1));
                simulation.connect(FIRST, address, link);
                simulation.add_host(host, &[address])
            })
            .collect();
        let mut order = Vec::new();
        let stop = simulation.run(start, |simulation| {
            let steps = hosts.iter().map(|&id| {
                let host = simulation.host(id);
                (host.arrived.len(), host.timeouts.len())
            });
            order.push(steps.collect::<Vec<_>>());
            false
        });
        assert_eq!(stop, Ok(Stop::Idle));
        assert_eq!(order.last(), Some(&vec![(1, 1); 20]));
        order
    };
    assert_eq!(order_of(Some(1)), order_of(Some(1)));
    assert_ne!(order_of(Some(1)), order_of(Some(2)));
    let as_caused = order_of(None);
    assert_eq!(as_caused[20], [(1, 0); 20], "what arrives comes first");
}

#[test]
fn a_trace_can_be_read_by_tshark() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    let (mut simulation, first, _) = two_hosts(LinkConfig {
        delay: Duration::from_millis(5),
        ..LinkConfig::default()
    });
    simulation.record();
    let start = simulation.now();
    simulation.at(start + Duration::from_nanos(1), move |simulation| {
        simulation.host_mut(first).outbox = vec![datagram(SECOND, 1), datagram(NOBODY, 2)];
    });
    assert_eq!(run_a_minute(&mut simulation), Ok(Stop::Idle));

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace.pcapng");
    let file = File::create(&path).expect("a file");
    // A common header and no chunk.
    write_capture(simulation.trace(), start, file, |_| (None, &[0; 12])).expect("it is written");
    let output = Command::new(tshark)
        .arg("-r")
        .arg(path)
        .args(["-T", "fields", "-e", "frame.time_epoch", "-e", "ip.dst"])
        .args(["-e", "frame.protocols", "-e", "frame.comment"])
        .output()
        .expect("it runs");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "0.000000001\t10.0.0.2\traw:ip:sctp\tarrives after 5ms\n\
         0.000000001\t10.0.0.9\traw:ip:sctp\tlost: no route\n"
    );
}

fn run_a_minute(simulation: &mut Simulation<Note>) -> Result<Stop, Stalled> {
    let end = simulation.now() + Duration::from_secs(60);
    simulation.run(end, |_| false)
}

/// The second host has two addresses; the link to its second one is perfect.
fn two_hosts(config: LinkConfig) -> (Simulation<Note>, HostId, HostId) {
    let mut simulation = Simulation::new(Instant::now());
    let first = simulation.add_host(Note::default(), &[FIRST]);
    let second = simulation.add_host(Note::default(), &[SECOND, SECOND_AGAIN]);
    for (to, config) in [(SECOND, config), (SECOND_AGAIN, LinkConfig::default())] {
        let link = Link::new(config, ChaCha12Rng::seed_from_u64(1));
        simulation.connect(FIRST, to, link);
    }
    (simulation, first, second)
}

fn datagram(destination: IpAddr, payload: u32) -> Datagram<u32> {
    Datagram {
        source: FIRST,
        destination,
        bytes: 100,
        may_fragment: false,
        payload,
    }
}
