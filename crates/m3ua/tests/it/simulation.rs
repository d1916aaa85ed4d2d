//! An AS of three ASPs behind two SGPs, on a virtual clock: associations fail and come back, processes crash, ASPs withdraw
//! and return, all at random. Whatever happens, messages with one SLS stay in order on their way from one process to
//! another, none comes twice, and when all is quiet the states at both ends agree and nothing is lost.
//!
//! `TANDEM_SEEDS` says how many seeds (1,000).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use m3ua::message::{ProtocolData, TrafficMode};
use m3ua::{
    AsId, AsState, AspState, Config, MemberConfig, MtpIndication, Output, PeerConfig, PeerId,
    PeerRole, Route, ServedBy, SgId, SignallingProcess, Via,
};

use crate::common::{NETWORK, pc, server};

const SGPS: usize = 2;
const ASPS: usize = 3;
const SERVER: AsId = AsId(0);
const OWN_POINT: u32 = 10;
const FAR_POINT: u32 = 20;
const STREAMS: u16 = 5;

/// Random numbers, the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn milliseconds(&mut self, end: usize) -> Duration {
        Duration::from_millis(self.below(end) as u64)
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A message arrives, if its association is still the one that it was sent on.
    Arrive {
        from: usize,
        to: usize,
        epoch: u64,
        stream: u16,
        message: Bytes,
    },
    /// The association between an SGP and an ASP comes up.
    Associate { sgp: usize, asp: usize },
}

/// Processes: first the SGPs, then the ASPs.
struct World {
    now: Instant,
    random: Random,
    processes: Vec<SignallingProcess>,
    /// The number of the association between two, and whether it is up.
    associations: BTreeMap<(usize, usize), (u64, bool)>,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    next_event: u64,
    /// When the last message on a stream arrives: those after it arrive later.
    last_arrival: HashMap<(usize, usize, u16), Instant>,
    /// Messages sent, by sender and SLS.
    sent: HashMap<(usize, u8), u32>,
    /// What came last, by receiver, sender and SLS.
    came: HashMap<(usize, usize, u8), u32>,
    all: BTreeSet<(usize, u8, u32)>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            now: Instant::now(),
            random: Random(seed),
            processes: (0..SGPS + ASPS).map(process).collect(),
            associations: BTreeMap::new(),
            events: BinaryHeap::new(),
            next_event: 0,
            last_arrival: HashMap::new(),
            sent: HashMap::new(),
            came: HashMap::new(),
            all: BTreeSet::new(),
        };
        for sgp in 0..SGPS {
            for asp in SGPS..SGPS + ASPS {
                world.associations.insert((sgp, asp), (0, false));
                let at = world.now + world.random.milliseconds(500);
                world.plan(at, Event::Associate { sgp, asp });
            }
        }
        world
    }

    fn plan(&mut self, at: Instant, event: Event) {
        self.next_event += 1;
        self.events.push(Reverse((at, self.next_event, event)));
    }

    /// Runs until this time.
    fn run(&mut self, end: Instant) {
        loop {
            let timeout = self
                .processes
                .iter()
                .filter_map(SignallingProcess::next_timeout)
                .min();
            let event = self.events.peek().map(|Reverse((at, _, _))| *at);
            let next = timeout.into_iter().chain(event).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            if event == Some(next) {
                let Some(Reverse((_, _, event))) = self.events.pop() else {
                    return;
                };
                self.happen(event);
            } else {
                for number in 0..self.processes.len() {
                    self.processes[number].handle_timeout(self.now);
                    self.collect(number);
                }
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive {
                from,
                to,
                epoch,
                stream,
                message,
            } => {
                let association = self.associations[&(from.min(to), from.max(to))];
                if association == (epoch, true) {
                    let peer = peer_id(to, from);
                    self.processes[to].handle_message(self.now, peer, stream, &message);
                    self.collect(to);
                }
            }
            Event::Associate { sgp, asp } => {
                let Some((epoch, up @ false)) = self.associations.get_mut(&(sgp, asp)) else {
                    return;
                };
                *epoch += 1;
                *up = true;
                for (here, there) in [(sgp, asp), (asp, sgp)] {
                    let peer = peer_id(here, there);
                    self.processes[here].association_up(self.now, peer, STREAMS);
                    self.collect(here);
                }
            }
        }
    }

    /// The association fails, and comes back after a while.
    fn fail(&mut self, sgp: usize, asp: usize) {
        let Some((_, up @ true)) = self.associations.get_mut(&(sgp, asp)) else {
            return;
        };
        *up = false;
        for (here, there) in [(sgp, asp), (asp, sgp)] {
            let peer = peer_id(here, there);
            self.processes[here].association_down(self.now, peer);
            self.collect(here);
        }
        let at = self.now + self.random.milliseconds(4_000);
        self.plan(at, Event::Associate { sgp, asp });
    }

    /// A process crashes, and begins anew.
    fn crash(&mut self, number: usize) {
        let all: Vec<(usize, usize)> = self.associations.keys().copied().collect();
        for (sgp, asp) in all {
            if sgp == number || asp == number {
                self.fail(sgp, asp);
            }
        }
        self.processes[number] = process(number);
    }

    fn collect(&mut self, number: usize) {
        while let Some(output) = self.processes[number].poll_output() {
            match output {
                Output::Send {
                    peer,
                    stream,
                    message,
                } => self.transmit(number, peer, stream, message),
                Output::Mtp(MtpIndication::Transfer { message, .. }) => {
                    self.record(number, &message)
                }
                Output::Mtp(_) | Output::Management(_) => {}
                Output::Abort(_) => panic!("there are no heartbeats"),
            }
        }
    }

    fn transmit(&mut self, from: usize, peer: PeerId, stream: u16, message: Bytes) {
        let to = process_of(from, peer);
        let (epoch, up) = self.associations[&(from.min(to), from.max(to))];
        assert!(up, "nothing is sent without association");
        assert!(stream < STREAMS);
        let soonest = self.now + self.random.milliseconds(60);
        let arrival = self
            .last_arrival
            .entry((from, to, stream))
            .or_insert(soonest);
        *arrival = soonest.max(*arrival);
        let at = *arrival;
        let arrive = Event::Arrive {
            from,
            to,
            epoch,
            stream,
            message,
        };
        self.plan(at, arrive);
    }

    /// A message from one user to another.
    fn send(&mut self, from: usize, sls: u8) -> bool {
        let number = self.sent.entry((from, sls)).or_default();
        *number += 1;
        let (opc, dpc) = match from < SGPS {
            true => (FAR_POINT, OWN_POINT),
            false => (OWN_POINT, FAR_POINT),
        };
        let mut text = vec![from as u8];
        text.extend(number.to_be_bytes());
        let message = ProtocolData {
            opc: pc(opc),
            dpc: pc(dpc),
            service_indicator: 3,
            network_indicator: 2,
            message_priority: 0,
            sls,
            user_data: text.into(),
        };
        let is_taken = self.processes[from].transfer(NETWORK, message).is_ok();
        self.collect(from);
        is_taken
    }

    fn record(&mut self, to: usize, message: &ProtocolData) {
        let (from, number) = message.user_data.split_first().expect("a sender");
        let number = u32::from_be_bytes(number.try_into().expect("a number"));
        let (from, sls) = (usize::from(*from), message.sls);
        let last = self.came.entry((to, from, sls)).or_default();
        assert!(
            *last < number,
            "{to}: {number} after {last} from {from} with SLS {sls}"
        );
        *last = number;
        assert!(self.all.insert((from, sls, number)), "{number} came twice");
    }

    fn random_fault(&mut self) {
        let (sgp, asp) = (self.random.below(SGPS), SGPS + self.random.below(ASPS));
        match self.random.below(8) {
            0 | 1 => self.fail(sgp, asp),
            2 => self.crash(asp),
            3 => self.crash(sgp),
            4 | 5 => {
                self.processes[asp].asp_inactive(self.now, Some(PeerId(sgp)), SERVER);
                self.collect(asp);
            }
            _ => {
                self.processes[asp].asp_active(self.now, None, SERVER);
                self.collect(asp);
            }
        }
    }
}

/// A new SGP or ASP.
fn process(number: usize) -> SignallingProcess {
    let mut process = SignallingProcess::new(Config::default());
    let is_sgp = number < SGPS;
    let (served_by, role, peers) = match is_sgp {
        true => (ServedBy::Peers, PeerRole::Asp, ASPS),
        false => (ServedBy::Us, PeerRole::Sgp, SGPS),
    };
    let mut config = server(served_by, 100, OWN_POINT);
    config.traffic_mode = Some(TrafficMode::LOADSHARE);
    process.add_application_server(config).expect("an AS");
    let gateway = process.add_gateway();
    for peer in 0..peers {
        let config = PeerConfig {
            name: peer.to_string(),
            role,
            network: NETWORK,
            asp_identifier: Some(number as u32),
            comes_up: true,
        };
        let peer = process.add_peer(config, Some(gateway)).expect("a peer");
        process
            .add_member(peer, SERVER, MemberConfig::default())
            .expect("a member");
    }
    if !is_sgp {
        let route = Route {
            destination: pc(FAR_POINT).into(),
            via: Via::Sg(SgId(0)),
            priority: 1,
        };
        process.add_route(NETWORK, route).expect("a route");
    }
    process
}

/// What the process `here` calls the process `there`.
fn peer_id(here: usize, there: usize) -> PeerId {
    match here < SGPS {
        true => PeerId(there - SGPS),
        false => PeerId(there),
    }
}

fn process_of(here: usize, peer: PeerId) -> usize {
    match here < SGPS {
        true => peer.0 + SGPS,
        false => peer.0,
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    let start = world.now;
    for step in 1..=300u32 {
        world.run(start + step * Duration::from_millis(100));
        for _ in 0..world.random.below(8) {
            let from = world.random.below(SGPS + ASPS);
            let sls = world.random.below(16) as u8;
            world.send(from, sls);
        }
        if world.random.below(10) == 0 {
            world.random_fault();
        }
    }
    // Quiet.
    let end = world.now + Duration::from_secs(20);
    world.run(end);
    for asp in SGPS..SGPS + ASPS {
        world.processes[asp].asp_active(world.now, None, SERVER);
        world.collect(asp);
    }
    let end = world.now + Duration::from_secs(5);
    world.run(end);
    for sgp in 0..SGPS {
        assert_eq!(
            world.processes[sgp].as_state(SERVER),
            AsState::Active,
            "seed {seed}"
        );
        assert_eq!(world.processes[sgp].waiting(SERVER), 0);
        for asp in SGPS..SGPS + ASPS {
            let there = world.processes[asp].our_state(PeerId(sgp), SERVER);
            let here = world.processes[sgp].asp_state(peer_id(sgp, asp), SERVER);
            assert_eq!(
                (here, there),
                (AspState::Active, AspState::Active),
                "seed {seed}"
            );
        }
    }
    let before = world.all.len();
    for from in 0..SGPS + ASPS {
        for sls in 0..16 {
            assert!(world.send(from, sls), "seed {seed}");
        }
    }
    let end = world.now + Duration::from_secs(1);
    world.run(end);
    assert_eq!(world.all.len(), before + 16 * (SGPS + ASPS), "seed {seed}");
}

#[test]
fn order_and_states_survive_failures() {
    let seeds = std::env::var("TANDEM_SEEDS")
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(1_000);
    for seed in 0..seeds {
        run(seed);
    }
}
