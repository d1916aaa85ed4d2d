//! The virtual clock and the network, with hosts that are simpler than any protocol.

use link::{Link, LinkConfig};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sim::{Datagram, Host, HostId, Simulation, Stalled, Stop};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const SECOND_AGAIN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2));
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

/// Sends what it is told to, notes what arrives, and counts time-outs.
#[derive(Default)]
struct Note {
    outbox: Vec<Datagram<u32>>,
    arrived: Vec<(Instant, IpAddr, u32)>,
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
        loss: 0.5,
        duplicate: 0.5,
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
    assert_eq!(simulation.trace()[0].verdict, None);
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
    assert!(sent.verdict.unwrap().deliveries().eq([start]));
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
        payload,
    }
}
