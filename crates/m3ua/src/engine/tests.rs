//! Several peers that say whatever they like, in any state: the engine keeps no more than its configuration allows, answers no
//! input with a flood, and has nothing left of them when they are gone.

use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::message::{
    AspActive, AspDown, AspInactive, AspUp, Data, DeregistrationResult, DeregistrationStatus,
    Destinations as Affected, Kind, Notify, ProtocolData, RegistrationResult, RegistrationStatus,
    RoutingKey, ServiceIndicator, SignallingCongestion, Status, TrafficMode, TrafficSelection,
    UnavailabilityCause, UserPartUnavailable,
};
use crate::{MaskedPointCode, PointCode};

const NETWORK: NetworkId = NetworkId(0);

/// What the peers are: the ASPs share an AS, the SGPs an SG.
const ROLES: [PeerRole; 6] = [
    PeerRole::Asp,
    PeerRole::Asp,
    PeerRole::Sgp,
    PeerRole::Sgp,
    PeerRole::IpspSingleExchange,
    PeerRole::IpspDoubleExchange,
];

/// Application servers of the configuration; contexts beyond are those of registrations.
const CONFIGURED: usize = 4;
const MAX_SERVERS: usize = 9;
const MAX_REGISTRATIONS: usize = 4;
const MAX_DESTINATIONS: usize = 6;
const MAX_PENDING: usize = 5;

/// Outputs of one input: each peer may be told of each destination, AS and waiting message.
const MAX_OUTPUTS: usize = 400;

#[derive(Clone, Debug)]
enum Step {
    Associate(usize),
    Lose(usize),
    Restart(usize),
    Congest(usize, bool),
    Take(usize, u16, Message),
    TakeOctets(usize, u16, Vec<u8>),
    Wait(u64),
    Transfer(ProtocolData),
}

fn point() -> impl Strategy<Value = PointCode> {
    (0u32..40).prop_map(|value| PointCode::new(value).expect("24 bits"))
}

fn range() -> impl Strategy<Value = MaskedPointCode> {
    let mask = select(vec![0u8, 0, 0, 1, 3, 24, 255]);
    (mask, point()).prop_map(|(mask, point_code)| MaskedPointCode { mask, point_code })
}

fn ranges() -> impl Strategy<Value = Vec<MaskedPointCode>> {
    prop::collection::vec(range(), 0..8)
}

fn contexts() -> impl Strategy<Value = Vec<u32>> + Clone {
    prop::collection::vec(0u32..14, 0..6)
}

fn mode() -> impl Strategy<Value = Option<TrafficMode>> + Clone {
    prop::option::of((0u32..5).prop_map(TrafficMode))
}

fn protocol_data() -> impl Strategy<Value = ProtocolData> {
    (point(), point(), 0u8..20, any::<u8>()).prop_map(|(opc, dpc, service_indicator, sls)| {
        ProtocolData {
            opc,
            dpc,
            service_indicator,
            network_indicator: 2,
            message_priority: 0,
            sls,
            user_data: Bytes::from_static(b"text"),
        }
    })
}

fn affected() -> impl Strategy<Value = Affected> {
    (contexts(), ranges()).prop_map(|(routing_contexts, affected)| Affected {
        network_appearance: None,
        routing_contexts,
        affected,
        info: None,
    })
}

fn key() -> impl Strategy<Value = RoutingKey> {
    let users = prop::collection::vec(0u8..17, 0..2);
    let opcs = prop::collection::vec(range(), 0..2);
    let selection =
        (range(), users, opcs).prop_map(|(dpc, service_indicators, opcs)| TrafficSelection {
            dpc,
            service_indicators,
            opcs,
        });
    let context = prop::option::weighted(0.1, 0u32..14);
    let selections = prop::collection::vec(selection, 0..3);
    (0u32..20, context, mode(), selections).prop_map(
        |(local_rk_identifier, routing_context, traffic_mode, selections)| RoutingKey {
            local_rk_identifier,
            routing_context,
            traffic_mode,
            network_appearance: None,
            selections,
            unsupported_parameter: None,
        },
    )
}

fn maintenance() -> impl Strategy<Value = Message> {
    let up = prop::option::of(0u32..3).prop_map(|asp_identifier| AspUp {
        asp_identifier,
        info: None,
    });
    let active = (mode(), contexts()).prop_map(|(traffic_mode, routing_contexts)| AspActive {
        traffic_mode,
        routing_contexts,
        info: None,
    });
    let inactive = contexts().prop_map(|routing_contexts| AspInactive {
        routing_contexts,
        info: None,
    });
    prop_oneof![
        3 => up.clone().prop_map(Message::AspUp),
        2 => up.prop_map(Message::AspUpAck),
        1 => Just(Message::AspDown(AspDown::default())),
        1 => Just(Message::AspDownAck(AspDown::default())),
        4 => active.clone().prop_map(Message::AspActive),
        3 => active.prop_map(Message::AspActiveAck),
        1 => inactive.clone().prop_map(Message::AspInactive),
        1 => inactive.prop_map(Message::AspInactiveAck),
        1 => Just(Message::Beat(None)),
        1 => Just(Message::BeatAck(None)),
    ]
}

fn management() -> impl Strategy<Value = Message> {
    let status = select(vec![
        Status::AS_INACTIVE,
        Status::AS_ACTIVE,
        Status::AS_PENDING,
        Status::INSUFFICIENT_ASP_RESOURCES,
        Status::ALTERNATE_ASP_ACTIVE,
        Status::ASP_FAILURE,
    ]);
    let notify = (status, contexts()).prop_map(|(status, routing_contexts)| Notify {
        status,
        asp_identifier: None,
        routing_contexts,
        info: None,
    });
    let error = (0u32..0x1c, contexts()).prop_map(|(code, routing_contexts)| ErrorMessage {
        routing_contexts,
        ..ErrorMessage::new(ErrorCode(code))
    });
    prop_oneof![
        notify.prop_map(Message::Notify),
        error.prop_map(Message::Error),
    ]
}

fn network_management() -> impl Strategy<Value = Message> {
    let level = prop::option::of(0u8..4);
    let congestion = (affected(), level).prop_map(|(destinations, level)| SignallingCongestion {
        destinations,
        concerned: None,
        level,
    });
    let user_part = (contexts(), point()).prop_map(|(routing_contexts, affected)| {
        Message::Dupu(UserPartUnavailable {
            network_appearance: None,
            routing_contexts,
            affected,
            user: ServiceIndicator::ISUP,
            cause: UnavailabilityCause(1),
            info: None,
        })
    });
    prop_oneof![
        affected().prop_map(Message::Duna),
        affected().prop_map(Message::Dava),
        affected().prop_map(Message::Drst),
        affected().prop_map(Message::Daud),
        congestion.prop_map(Message::Scon),
        user_part,
    ]
}

fn registration() -> impl Strategy<Value = Message> {
    let result =
        (0u32..20, 0u32..3, 0u32..14).prop_map(|(local_rk_identifier, status, routing_context)| {
            RegistrationResult {
                local_rk_identifier,
                status: RegistrationStatus(status),
                routing_context,
            }
        });
    let end = (0u32..14, 0u32..3).prop_map(|(routing_context, status)| DeregistrationResult {
        routing_context,
        status: DeregistrationStatus(status),
    });
    prop_oneof![
        4 => prop::collection::vec(key(), 1..8).prop_map(Message::RegReq),
        1 => prop::collection::vec(result, 1..8).prop_map(Message::RegRsp),
        2 => prop::collection::vec(0u32..14, 1..8).prop_map(Message::DeregReq),
        1 => prop::collection::vec(end, 1..8).prop_map(Message::DeregRsp),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let context = prop::option::of(0u32..14);
    let data = (context, protocol_data()).prop_map(|(routing_context, protocol_data)| {
        Message::Data(Data {
            network_appearance: None,
            routing_context,
            protocol_data,
            correlation_id: None,
        })
    });
    prop_oneof![
        4 => maintenance(),
        1 => management(),
        2 => network_management(),
        2 => registration(),
        3 => data,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..ROLES.len();
    let take = (peer.clone(), prop::bool::weighted(0.95), message());
    let take = take.prop_map(|(peer, is_right, message)| {
        let stream = u16::from((message.kind() == Kind::Data) == is_right);
        Step::Take(peer, stream, message)
    });
    let octets = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        2 => peer.clone().prop_map(Step::Associate),
        1 => peer.clone().prop_map(Step::Lose),
        1 => peer.clone().prop_map(Step::Restart),
        1 => (peer.clone(), any::<bool>()).prop_map(|(peer, is)| Step::Congest(peer, is)),
        30 => take,
        1 => (peer, 0u16..2, octets).prop_map(|(peer, on, it)| Step::TakeOctets(peer, on, it)),
        3 => (0u64..3_000).prop_map(Step::Wait),
        3 => protocol_data().prop_map(Step::Transfer),
    ]
}

/// The engine with its peers, of which those in the list have an association.
struct World {
    engine: SignallingProcess,
    now: Instant,
    associated: [bool; ROLES.len()],
}

impl World {
    fn new() -> World {
        let mut engine = SignallingProcess::new(Config {
            registration: Registration::Dynamic,
            relays: true,
            t_beat: Some(Duration::from_secs(1)),
            t_audit: Some(Duration::from_secs(1)),
            max_pending_messages: MAX_PENDING,
            max_application_servers: MAX_SERVERS,
            max_registrations: MAX_REGISTRATIONS,
            max_destinations: MAX_DESTINATIONS,
            ..Config::default()
        });
        let gateway = engine.add_gateway();
        for role in ROLES {
            let config = PeerConfig {
                name: String::new(),
                role,
                network: NETWORK,
                asp_identifier: None,
                comes_up: true,
            };
            let gateway = (role == PeerRole::Sgp).then_some(gateway);
            engine.add_peer(config, gateway).expect("a network");
        }
        let mut add = |served_by, context, dpc, peers: &[usize]| {
            let range = MaskedPointCode::single(PointCode::new(dpc).expect("24 bits"));
            let server = engine.add_application_server(ApplicationServerConfig {
                name: String::new(),
                network: NETWORK,
                served_by,
                routing_context: Some(context),
                routing_key: vec![KeySelection::from(range)],
                traffic_mode: None,
                required_asps: 1,
            });
            let server = server.expect("there is room");
            for peer in peers {
                let member = MemberConfig::default();
                engine
                    .add_member(PeerId(*peer), server, member)
                    .expect("it is there");
            }
        };
        add(ServedBy::Peers, 1, 1, &[0, 1]);
        add(ServedBy::Us, 2, 2, &[2, 3, 5]);
        add(ServedBy::Both, 3, 3, &[4]);
        add(ServedBy::Peers, 4, 4, &[1, 5]);
        let all = MaskedPointCode {
            mask: 24,
            point_code: PointCode::default(),
        };
        let route = Route {
            destination: all,
            via: Via::Sg(gateway),
            priority: 1,
        };
        engine.add_route(NETWORK, route).expect("it is there");
        World {
            engine,
            now: Instant::now(),
            associated: [false; ROLES.len()],
        }
    }

    fn take(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Associate(peer) => {
                if !std::mem::replace(&mut self.associated[peer], true) {
                    self.engine.association_up(now, PeerId(peer), 3);
                }
            }
            Step::Lose(peer) => self.lose(peer),
            Step::Restart(peer) if self.associated[peer] => {
                self.engine.association_restarted(now, PeerId(peer), 3);
            }
            Step::Congest(peer, is_congested) if self.associated[peer] => {
                self.engine
                    .association_congested(PeerId(peer), is_congested);
            }
            Step::Take(peer, stream, message) if self.associated[peer] => {
                let octets = message.write().expect("it fits");
                self.engine
                    .handle_message(now, PeerId(peer), stream, &octets);
            }
            Step::TakeOctets(peer, stream, octets) if self.associated[peer] => {
                let octets = Bytes::from(octets);
                self.engine
                    .handle_message(now, PeerId(peer), stream, &octets);
            }
            Step::Wait(milliseconds) => self.wait(Duration::from_millis(milliseconds)),
            Step::Transfer(message) => {
                // Refused or not.
                let _ = self.engine.transfer(NETWORK, message);
            }
            Step::Restart(_) | Step::Congest(..) | Step::Take(..) | Step::TakeOctets(..) => {}
        }
        self.collect();
    }

    fn lose(&mut self, peer: usize) {
        if std::mem::take(&mut self.associated[peer]) {
            self.engine.association_down(self.now, PeerId(peer));
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.engine.next_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.engine.handle_timeout(self.now);
            self.collect();
        }
        self.now = end;
    }

    fn collect(&mut self) {
        let mut outputs = 0;
        while let Some(output) = self.engine.poll_output() {
            outputs += 1;
            assert!(outputs <= MAX_OUTPUTS, "a flood");
            match output {
                Output::Send {
                    peer,
                    stream,
                    message,
                } => {
                    assert!(self.associated[peer.0], "nobody is there");
                    let message = Message::read(&message).expect("our own message");
                    assert_eq!(stream != 0, message.kind() == Kind::Data);
                }
                Output::Abort(peer) => self.associated[peer.0] = false,
                Output::Mtp(_) | Output::Management(_) => {}
            }
        }
        self.check();
    }

    /// Nothing is larger than it may be.
    fn check(&self) {
        let engine = &self.engine;
        let servers = engine.application_servers().count();
        assert!(servers <= MAX_SERVERS && engine.application_servers.len() <= MAX_SERVERS);
        assert_eq!(
            servers + engine.free.len(),
            engine.application_servers.len()
        );
        assert_eq!(engine.contexts.len(), servers);
        let keys = engine.application_servers.iter().flatten();
        let selections: usize = keys.map(|it| it.config.routing_key.len()).sum();
        let destinations = &engine.destinations[0];
        // The default route is none of a key.
        assert!(destinations.routes.len() <= selections + 1);
        for gateway in &engine.gateways {
            assert!(gateway.status.len() <= MAX_DESTINATIONS);
            assert!(gateway.congestion.len() <= MAX_DESTINATIONS);
        }
        let told: usize = engine.gateways.iter().map(|it| it.status.len()).sum();
        let reported = destinations.reported.len();
        assert!(reported <= destinations.routes.len() + told, "{reported}");
        assert_eq!(destinations.declared.len(), 0);
        for peer in &engine.peers {
            let registered = peer.members.values().filter(|it| it.is_registered);
            assert!(registered.count() <= MAX_REGISTRATIONS);
            assert!(peer.members.len() <= servers && peer.contexts.len() <= servers);
        }
        for server in engine.application_servers.iter().flatten() {
            assert!(server.waiting.len() <= MAX_PENDING);
            assert!(server.waiting.is_empty() || server.state() == AsState::Pending);
        }
        let most = 2 * ROLES.len() + servers + engine.gateways.len();
        assert!(engine.timers.len() <= most);
    }

    /// All are gone, and T(r) has expired: what is left is the configuration.
    fn end(mut self) {
        for peer in 0..ROLES.len() {
            self.lose(peer);
            self.collect();
        }
        self.wait(self.engine.config.t_r);
        let engine = &self.engine;
        assert_eq!(engine.application_servers().count(), CONFIGURED);
        assert_eq!(engine.next_timeout(), None);
        let servers = engine.application_servers.iter().flatten();
        for server in servers {
            assert_eq!((server.waiting.len(), server.state()), (0, AsState::Down));
        }
        let destinations = &engine.destinations[0];
        // One for each key that peers serve, and the default route.
        assert_eq!(destinations.routes.len(), 4);
        assert_eq!(destinations.reported.len(), 0);
        assert_eq!(engine.keys.len(), CONFIGURED);
        assert!(engine.gateways.iter().all(|it| it.active.is_empty()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn several_hostile_peers_cannot_make_it_grow(steps in prop::collection::vec(step(), 1..250)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        world.end();
    }
}
