//! What becomes of data when the primary path is cut, and when it comes back.
//!
//! The sender speaks every 20 ms. What was on the primary path when it was cut is lost, and found
//! to be lost one RTO later. With RFC 7829 everything goes over the other path from then on. With
//! RFC 9260 alone only what was lost does: new data goes to the primary path until it has failed
//! Path.Max.Retrans + 1 times, each time after twice the time of the time before.

use crate::engines::host::{EngineHost, Message};
use crate::engines::world::{Network, World};
use bytes::Bytes;
use sctp::packet::{Chunk, Packet};
use sctp::{EndpointConfig, Event, PathChange, PathState, SendInfo};
use sim::Sent;
use std::net::IpAddr;
use std::time::Duration;

/// From one host to the other, on each network.
const DELAY: Duration = Duration::from_millis(10);
const INTERVAL: Duration = Duration::from_millis(20);
const CUT: Duration = Duration::from_secs(10);

/// With the delays as they are, the RTO of each path is RTO.Min.
const RTO: Duration = Duration::from_secs(1);

/// What an expiry may come too late or too early: T3-rtx runs from the last SACK, which the cut
/// path carried for one delay more, and which acknowledged with a delay; what is retransmitted
/// takes a delay; and the sender is silent for an interval.
const SLACK: Duration = Duration::from_millis(2 * 10 + 200 + 20);

#[test]
fn quick_failover_stalls_for_one_rto() {
    let mut run = Run::new(EndpointConfig::default());
    run.world.set_up_at(CUT, 0, false);
    run.speak(Duration::from_secs(100));
    run.assert_all_received();
    let (at, stall) = run.longest_stall();
    println!("RFC 7829: longest stall {stall:?}");
    assert!(at < CUT + RTO + SLACK, "the first failure stalls most");
    assert!(stall >= RTO - SLACK && stall <= RTO + SLACK, "{stall:?}");

    // The errors that follow are those of HEARTBEATs, one each RTO, which doubles.
    let changes = run.changes_of_primary();
    let failed = changes.iter().map(|&(after, change)| (after - CUT, change));
    let [
        (first, PathChange::PotentiallyFailed),
        (last, PathChange::Unreachable),
    ] = failed.collect::<Vec<_>>()[..]
    else {
        panic!("{changes:?}");
    };
    assert!(first <= RTO + SLACK, "{first:?}");
    // The HEARTBEATs have a jitter of half an RTO.
    let latest = run.time_to_fail(5).mul_f64(1.5) + SLACK;
    assert!(
        last <= latest,
        "inactive after {last:?}, at most {latest:?}"
    );
}

#[test]
fn without_quick_failover_stalls_double_until_the_path_is_inactive() {
    let config = EndpointConfig::default()
        .potentially_failed(false)
        // So that all errors are those of T3-rtx, whose times are known.
        .heartbeats(false);
    let mut run = Run::new(config);
    run.world.set_up_at(CUT, 0, false);
    run.speak(Duration::from_secs(120));
    run.assert_all_received();

    // Between two expiries only what the sender says after the first can start the timer again.
    let pauses = 5 * SLACK;
    let expected = run.time_to_fail(5);
    assert_eq!(expected, Duration::from_secs(1 + 2 + 4 + 8 + 16 + 32));
    let changes = run.changes_of_primary();
    let [(inactive, PathChange::Unreachable)] = changes[..] else {
        panic!("{changes:?}");
    };
    let took = inactive - CUT;
    println!("RFC 9260: inactive after {took:?}");
    assert!(took >= expected - SLACK && took <= expected + SLACK + pauses);

    let (_, stall) = run.longest_stall();
    println!("RFC 9260: longest stall {stall:?}");
    let last_rto = 32 * RTO;
    assert!(
        stall >= last_rto - SLACK && stall <= last_rto + SLACK,
        "{stall:?}"
    );
    let after = run.stall_after(inactive + SLACK);
    assert!(
        after <= INTERVAL,
        "no stall when the path is inactive: {after:?}"
    );
}

/// The threshold is a setting: with two errors more it takes three expiries.
#[test]
fn the_threshold_of_potentially_failed_is_honoured() {
    let config = EndpointConfig::default()
        .potentially_failed_max_retrans(2)
        .heartbeats(false);
    let mut run = Run::new(config);
    run.world.set_up_at(CUT, 0, false);
    run.speak(Duration::from_secs(60));
    run.assert_all_received();
    let changes = run.changes_of_primary();
    let Some(&(failed, PathChange::PotentiallyFailed)) = changes.first() else {
        panic!("{changes:?}");
    };
    let (took, expected) = (failed - CUT, run.time_to_fail(2));
    assert_eq!(expected, Duration::from_secs(1 + 2 + 4));
    assert!(
        took >= expected - SLACK && took <= expected + 3 * SLACK,
        "{took:?}"
    );
    let after = run.stall_after(failed + SLACK);
    assert!(after <= INTERVAL, "{after:?}");
}

/// Cut in one direction alone: the peer's SACKs, or the data, have to find the other way.
#[test]
fn one_direction_is_enough_to_fail_over() {
    for direction in [0, 1] {
        let mut run = Run::new(EndpointConfig::default());
        let link = run.world.links[0][direction];
        run.world.at(CUT, move |simulation| {
            simulation.network_mut().link_mut(link).set_up(false);
        });
        run.speak(Duration::from_secs(60));
        run.assert_all_received();
        let (_, stall) = run.longest_stall();
        assert!(stall <= RTO + SLACK, "{stall:?}");
        let state = run.primary_state();
        assert_ne!(state, PathState::Active);
    }
}

#[test]
fn data_goes_back_to_the_primary_path_when_it_recovers() {
    for potentially_failed in [true, false] {
        // Long enough to be inactive, and short enough to be potentially failed.
        for outage in [5, 200].map(Duration::from_secs) {
            let config = EndpointConfig::default().potentially_failed(potentially_failed);
            let hb_interval = config.association.path.hb_interval;
            let mut run = Run::new(config);
            let mended = CUT + outage;
            run.world.set_up_at(CUT, 0, false);
            run.world.set_up_at(mended, 0, true);
            run.speak(mended);
            let state = run.primary_state();
            let rto = run.world.client().status().expect("it is up").paths[0].rto;
            let expected = match (outage.as_secs(), potentially_failed) {
                (5, true) => PathState::PotentiallyFailed,
                (5, false) => PathState::Active,
                _ => PathState::Inactive,
            };
            assert_eq!(state, expected);

            // A HEARTBEAT is due within an RTO with its jitter, and HB.interval unless the path is
            // potentially failed (RFC 9260 section 8.3, RFC 7829 section 3.2 rule 5).
            let interval = match state {
                PathState::PotentiallyFailed => Duration::ZERO,
                _ => hb_interval,
            };
            let latest = mended + rto.mul_f64(1.5) + interval + SLACK;
            run.speak(latest);
            assert_eq!(
                run.primary_state(),
                PathState::Active,
                "{potentially_failed}, {outage:?}"
            );
            let before = run.data_sent_to_primary();
            run.speak(latest + Duration::from_secs(10));
            let sent = run.data_sent_to_primary() - before;
            assert!(sent > 400, "{sent} DATA chunks of 500 on the primary path");
            run.assert_all_received();
            if state != PathState::Active {
                let changes = run.changes_of_primary();
                let last = changes.last().map(|&(_, change)| change);
                assert_eq!(last, Some(PathChange::Available));
            }
        }
    }
}

/// RFC 7829 section 5: with a threshold for it, the primary path does not come back.
#[test]
fn after_a_switchover_the_other_path_stays_the_primary() {
    let config = EndpointConfig::default().primary_switchover_max_retrans(Some(1));
    let mut run = Run::new(config);
    run.world.set_up_at(CUT, 0, false);
    run.world.set_up_at(Duration::from_secs(30), 0, true);
    run.speak(Duration::from_secs(120));
    run.assert_all_received();
    let server = &run.world.server().place().addresses;
    let status = run.world.client().status().expect("it is up");
    assert_eq!(status.primary, server[1]);
    let states: Vec<PathState> = status.paths.iter().map(|path| path.state).collect();
    assert_eq!(states, [PathState::Active; 2]);
    let before = run.data_sent_to_primary();
    run.speak(Duration::from_secs(130));
    assert_eq!(run.data_sent_to_primary(), before);
}

/// Nothing to lose, nothing to wait for: both paths cut, then either of them mended.
#[test]
fn an_association_outlives_the_cut_of_all_paths() {
    for mended in [0, 1] {
        let mut run = Run::new(EndpointConfig::default());
        for network in [0, 1] {
            run.world.set_up_at(CUT, network, false);
        }
        let outage = Duration::from_secs(10);
        run.world.set_up_at(CUT + outage, mended, true);
        run.speak(CUT + outage);
        let rto = run.world.client().status().expect("it is up").paths[mended].rto;
        run.speak(Duration::from_secs(100));
        run.assert_all_received();
        let (_, stall) = run.longest_stall();
        // Ten seconds without any path, and then what is left of an RTO with its jitter.
        let longest = outage + rto.mul_f64(1.5) + SLACK;
        assert!(stall <= longest, "{stall:?}, at most {longest:?}");
    }
}

/// A client that speaks to a server over two networks, from the second second on.
struct Run {
    world: World,
    config: EndpointConfig,
    spoken: u32,
}

impl Run {
    fn new(config: EndpointConfig) -> Run {
        let mut world = World::new(1, &[(); 2].map(|()| Network::of_delay(DELAY)), &config);
        world.connect();
        world.run_until(Duration::from_secs(2));
        let status = world.client().status().expect("it is up");
        let states: Vec<PathState> = status.paths.iter().map(|path| path.state).collect();
        assert_eq!(states, [PathState::Active; 2], "both paths are confirmed");
        Run {
            world,
            config,
            spoken: 0,
        }
    }

    /// Speaks until a time, and lets the last words arrive if they can.
    fn speak(&mut self, until: Duration) {
        let client = self.world.client;
        loop {
            let after = Duration::from_secs(2) + INTERVAL * self.spoken;
            if after > until {
                break;
            }
            self.world.run_until(after);
            let now = self.world.simulation.now();
            let message = Message {
                info: SendInfo {
                    ppid: self.spoken,
                    ..SendInfo::default()
                },
                payload: Bytes::from_static(&[b'x'; 100]),
            };
            self.world.simulation.host_mut(client).send(now, message);
            self.spoken += 1;
        }
        self.world.run_until(until);
    }

    /// Every message once and in order.
    #[track_caller]
    fn assert_all_received(&mut self) {
        let now = self.world.simulation.now() - self.world.start;
        self.world.run_until(now + Duration::from_millis(500));
        let received = self.world.server().received();
        let numbers: Vec<u32> = received.map(|(_, message)| message.ppid).collect();
        assert!(numbers.iter().copied().eq(0..self.spoken), "{numbers:?}");
    }

    /// The longest time in which the server heard nothing, and when it began.
    fn longest_stall(&self) -> (Duration, Duration) {
        let times = self.times_received();
        let stalls = times.windows(2).map(|pair| (pair[0], pair[1] - pair[0]));
        stalls.max_by_key(|&(_, stall)| stall).expect("messages")
    }

    fn stall_after(&self, after: Duration) -> Duration {
        let times = self.times_received();
        let late: Vec<Duration> = times.into_iter().filter(|&time| time > after).collect();
        let stalls = late.windows(2).map(|pair| pair[1] - pair[0]);
        stalls.max().expect("messages")
    }

    fn times_received(&self) -> Vec<Duration> {
        let received = self.world.server().received();
        received.map(|(time, _)| time - self.world.start).collect()
    }

    /// What the client was told of its primary path since it is up.
    fn changes_of_primary(&self) -> Vec<(Duration, PathChange)> {
        let primary = self.primary();
        let events = self.world.client().events();
        let changes = events.filter_map(|(time, event)| match event {
            Event::PathStateChanged { path, change, .. } if path.remote == primary => {
                Some((time - self.world.start, *change))
            }
            _ => None,
        });
        changes.filter(|&(time, _)| time > CUT).collect()
    }

    fn primary(&self) -> IpAddr {
        self.world.server().place().addresses[0]
    }

    fn primary_state(&self) -> PathState {
        state_of(self.world.client(), self.primary())
    }

    /// DATA chunks that the client sent to the first address of the server.
    fn data_sent_to_primary(&self) -> usize {
        let primary = self.primary();
        let trace = self.world.simulation.trace().iter();
        let packets = trace.filter(|sent| sent.datagram.destination == primary);
        packets.map(data_chunks).sum()
    }

    /// The time in which a path fails once more than `max_retrans` times, each after an RTO that
    /// has doubled (RFC 9260 section 6.3.3).
    fn time_to_fail(&self, max_retrans: u32) -> Duration {
        let rtos = (0..=max_retrans)
            .map(|times| (RTO * 2_u32.pow(times)).min(self.config.association.path.rto_max));
        rtos.sum()
    }
}

fn state_of(host: &EngineHost, remote: IpAddr) -> PathState {
    let status = host.status().expect("it is up");
    let mut paths = status.paths.iter();
    let path = paths.find(|path| path.address.remote == remote);
    path.expect("a path").state
}

fn data_chunks(sent: &Sent<crate::engines::world::SctpPacket>) -> usize {
    let packet = Packet::read(&sent.datagram.payload.packet).expect("a packet");
    let chunks = packet.chunks().flatten();
    chunks
        .filter(|chunk| matches!(chunk, Chunk::Data(_)))
        .count()
}
