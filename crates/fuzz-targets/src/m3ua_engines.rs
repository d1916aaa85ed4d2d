//! An SGP and an ASP whose association comes and goes, while messages are delivered, held back and made up, and users and
//! managements want this and that. No input makes them panic or answer with floods, and all that they send can be read.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use m3ua::message::{Message, ProtocolData, RoutingKey, TrafficSelection};
use m3ua::{
    Activation, ApplicationServerConfig, AsId, Availability, Config, KeySelection, MaskedPointCode,
    MemberConfig, NetworkId, Output, PeerConfig, PeerId, PeerRole, PointCode, Registration, Route,
    ServedBy, SgId, SignallingProcess, Via,
};

/// Outputs that one input may have: the engine has few peers and few messages that wait.
const MAX_OUTPUTS: usize = 300;

const PEER: PeerId = PeerId(0);
const NETWORK: NetworkId = NetworkId(0);

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    let mut game = Game {
        processes: [process(PeerRole::Asp), process(PeerRole::Sgp)],
        queues: [VecDeque::new(), VecDeque::new()],
        is_up: false,
        now: Instant::now(),
    };
    let mut rest = input;
    while let [what, which, tail @ ..] = rest {
        rest = game.step(*what, *which, tail);
    }
}

struct Game {
    processes: [SignallingProcess; 2],
    /// Messages to each of them, with their streams.
    queues: [VecDeque<(u16, Bytes)>; 2],
    is_up: bool,
    now: Instant,
}

impl Game {
    /// One thing happens, and takes some of the input.
    fn step<'a>(&mut self, what: u8, which: u8, rest: &'a [u8]) -> &'a [u8] {
        let to = usize::from(which & 1);
        let number = which >> 1;
        let mut left = rest;
        match what % 12 {
            0 => self.associate(),
            1 => self.fail(),
            2 | 3 => {
                if let Some((stream, message)) = self.queues[to].pop_front() {
                    self.processes[to].handle_message(self.now, PEER, stream, &message);
                }
            }
            4 => {
                let length = usize::from(number).min(rest.len());
                let (octets, after) = rest.split_at(length);
                let octets = Bytes::copy_from_slice(octets);
                self.processes[to].handle_message(self.now, PEER, u16::from(what & 1), &octets);
                left = after;
            }
            5 => {
                self.now += Duration::from_millis(u64::from(number) * 20);
                self.processes
                    .iter_mut()
                    .for_each(|it| it.handle_timeout(self.now));
            }
            6 => self.processes[to].asp_active(self.now, None, AsId(usize::from(number % 3))),
            7 => self.processes[to].asp_inactive(self.now, None, AsId(usize::from(number % 3))),
            8 if number.is_multiple_of(2) => self.processes[to].asp_up(self.now, PEER),
            8 => self.processes[to].asp_down(self.now, PEER),
            9 => {
                // Refused or not.
                let _ = self.processes[to].transfer(NETWORK, message(number));
            }
            10 => {
                let availability = match number % 3 {
                    0 => Availability::Unavailable,
                    1 => Availability::Restricted,
                    _ => Availability::Available,
                };
                self.processes[to].set_availability(NETWORK, &[range(number)], availability);
            }
            _ => {
                if self.is_up {
                    self.processes[to].association_restarted(self.now, PEER, 3);
                }
            }
        }
        self.collect();
        left
    }

    fn associate(&mut self) {
        if !std::mem::replace(&mut self.is_up, true) {
            self.processes
                .iter_mut()
                .for_each(|it| it.association_up(self.now, PEER, 3));
        }
    }

    fn fail(&mut self) {
        if std::mem::take(&mut self.is_up) {
            self.processes
                .iter_mut()
                .for_each(|it| it.association_down(self.now, PEER));
            self.queues.iter_mut().for_each(VecDeque::clear);
        }
    }

    fn collect(&mut self) {
        for (number, process) in self.processes.iter_mut().enumerate() {
            let mut outputs = 0;
            while let Some(output) = process.poll_output() {
                outputs += 1;
                assert!(outputs < MAX_OUTPUTS, "a flood");
                if let Output::Send {
                    stream, message, ..
                } = output
                {
                    let read = Message::read(&message).expect("our own message");
                    assert_eq!(stream != 0, matches!(read, Message::Data(_)));
                    self.queues[1 - number].push_back((stream, message));
                }
            }
        }
    }
}

/// An SGP or an ASP, with one AS that is configured and one whose key is registered.
fn process(role: PeerRole) -> SignallingProcess {
    let mut process = SignallingProcess::new(Config {
        registration: Registration::Dynamic,
        relays: role == PeerRole::Asp,
        max_pending_messages: 20,
        max_destinations: 20,
        max_registrations: 4,
        max_application_servers: 8,
        ..Config::default()
    });
    let config = PeerConfig {
        name: String::new(),
        role,
        network: NETWORK,
        asp_identifier: Some(1),
        comes_up: true,
    };
    process.add_peer(config, None).expect("a network");
    let served_by = match role {
        PeerRole::Asp => ServedBy::Peers,
        _ => ServedBy::Us,
    };
    let selection = |point| TrafficSelection {
        dpc: MaskedPointCode::single(PointCode::new(point).expect("24 bits")),
        service_indicators: Vec::new(),
        opcs: Vec::new(),
    };
    for (context, registers) in [(Some(1), false), (None, true)] {
        if registers && served_by == ServedBy::Peers {
            continue;
        }
        let config = ApplicationServerConfig {
            name: String::new(),
            network: NETWORK,
            served_by,
            routing_context: context,
            routing_key: vec![KeySelection::from(selection(u32::from(registers)))],
            traffic_mode: None,
            required_asps: 1,
        };
        let server = process.add_application_server(config).expect("few");
        let member = MemberConfig {
            activation: Activation::Immediate,
            registers: registers.then(|| RoutingKey {
                local_rk_identifier: 0,
                routing_context: None,
                traffic_mode: None,
                network_appearance: None,
                selections: vec![selection(1)],
                unsupported_parameter: None,
            }),
        };
        process
            .add_member(PEER, server, member)
            .expect("both are there");
    }
    if served_by == ServedBy::Us {
        let route = Route {
            destination: range(16),
            via: Via::Sg(SgId(0)),
            priority: 1,
        };
        process.add_route(NETWORK, route).expect("it is there");
    }
    process
}

/// The number and those up to its last bits.
fn range(number: u8) -> MaskedPointCode {
    MaskedPointCode {
        mask: number % 5,
        point_code: PointCode::new(u32::from(number / 5)).expect("24 bits"),
    }
}

fn message(number: u8) -> ProtocolData {
    let point = |value: u8| PointCode::new(u32::from(value)).expect("24 bits");
    ProtocolData {
        opc: point(number % 2),
        dpc: point(number % 20),
        service_indicator: number % 16,
        network_indicator: 2,
        message_priority: 0,
        sls: number,
        user_data: Bytes::from_static(b"text"),
    }
}
