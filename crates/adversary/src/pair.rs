//! Two engines and the wire between them.

use crate::chunks::{self, Chunk};
use crate::engine::{Engine, address, config};
use arbitrary::Arbitrary;
use bytes::Bytes;
use sctp::{
    AssociationId, Connect, Endpoint, EndpointConfig, IcmpError, IcmpKind, PathAddress, Profile,
    SendInfo, Transmit,
};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

const PORTS: [u16; 2] = [40_000, 5060];
const UDP_PORTS: [u16; 2] = [9900, 9899];

/// Packets that wait on one direction of the wire; what comes beyond them is lost.
const WIRE_CAPACITY: usize = 64;

/// What the engines are, and how they begin.
#[derive(Arbitrary, Debug, Clone)]
pub(crate) struct Setup {
    is_multihomed: bool,
    is_over_udp: bool,
    /// Both call at the same time.
    is_collision: bool,
    /// Packets that pass before the game begins.
    passed: u8,
    nodelay: bool,
    quick_failover: bool,
    path_mtu_discovery: bool,
    delivers_in_part: bool,
    bundling: bool,
    is_for_signalling: bool,
}

/// One thing that a user asks of his engine.
#[derive(Arbitrary, Debug, Clone)]
pub(crate) enum Call {
    Send {
        stream: u8,
        unordered: bool,
        unbundled: bool,
        length: u16,
        to: Option<u8>,
        life_time: Option<u8>,
    },
    Receive,
    Shutdown,
    /// One time in eight he means it: most games should not end so.
    Abort(u8),
    Connect,
    SetPrimary(u8),
    RequestHeartbeat(u8),
    ConfigurePath {
        path: u8,
        heartbeats: Option<bool>,
        max_retrans: Option<u8>,
        mtu: Option<u16>,
    },
    Configure {
        rto_min: u16,
        a_rwnd: u16,
        mtu: u16,
    },
}

/// Where a packet seems to come from.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) struct Source {
    network: u8,
    host: u8,
    udp_port: Option<u16>,
}

impl Source {
    /// Where the peer's packets come from.
    pub(crate) const PEER: Source = Source {
        network: 0,
        host: 0,
        udp_port: None,
    };
}

/// What an ICMP message says.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) enum Icmp {
    TooBig(u16),
    Protocol,
    Port,
    Unreachable,
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    setup: Setup,
    pub(crate) engines: [Engine; 2],
    /// Packets on their way to each engine, with where they come from.
    pub(crate) wire: [VecDeque<(PathAddress, Bytes)>; 2],
    ids: [BTreeSet<AssociationId>; 2],
}

impl Pair {
    /// Engines with an association between them, if so many packets pass.
    pub(crate) fn new(setup: &Setup) -> Pair {
        Pair::with(setup, |_, config| config)
    }

    /// The same with the settings of each side changed by `change`.
    pub(crate) fn with(
        setup: &Setup,
        change: impl Fn(usize, EndpointConfig) -> EndpointConfig,
    ) -> Pair {
        let profile = if setup.is_for_signalling {
            Profile::Signalling
        } else {
            Profile::Rfc9260
        };
        let config = config()
            .profile(profile)
            .nodelay(setup.nodelay)
            .potentially_failed(setup.quick_failover)
            .path_mtu_discovery(setup.path_mtu_discovery)
            .partial_delivery_point(if setup.delivers_in_part {
                2000
            } else {
                usize::MAX
            })
            .bundling(setup.bundling);
        let networks = if setup.is_multihomed { 2 } else { 0 };
        let engines = [0, 1].map(|side: u8| {
            let addresses = (0..networks)
                .map(|network| address(network, side))
                .collect();
            let side = usize::from(side);
            Engine::new(PORTS[side], change(side, config.clone()), addresses)
        });
        let mut pair = Pair {
            now: Instant::now(),
            setup: setup.clone(),
            engines,
            wire: [VecDeque::new(), VecDeque::new()],
            ids: [BTreeSet::new(), BTreeSet::new()],
        };
        pair.call(0, &Call::Connect);
        if setup.is_collision {
            pair.call(1, &Call::Connect);
        }
        // Most games should begin with an association.
        for number in 0..setup.passed.clamp(4, 20) {
            pair.deliver(usize::from(1 - number % 2), 0);
        }
        pair
    }

    /// Packets that are on their way arrive, the one that has waited longest or a later one.
    pub(crate) fn deliver(&mut self, side: usize, which: usize) {
        let wire = &mut self.wire[side];
        if let Some((from, packet)) = wire.remove(which.min(wire.len().saturating_sub(1))) {
            self.arrive(side, from, packet);
        }
    }

    pub(crate) fn arrive(&mut self, side: usize, from: PathAddress, packet: Bytes) {
        let engine = &mut self.engines[side];
        engine.endpoint.handle_packet(self.now, from, packet);
        self.drain(side);
    }

    /// Chunks from nowhere arrive, with everything around them right.
    pub(crate) fn inject(&mut self, side: usize, from: Source, chunks: &[Chunk]) {
        let numbers = &self.engines[side].numbers;
        // An INIT has no tag.
        let is_init = chunks.first().is_some_and(Chunk::is_init);
        let tag = if is_init { 0 } else { numbers.tag };
        let ports = [PORTS[1 - side], PORTS[side]];
        let packet = chunks::packet(ports, tag, chunks, numbers);
        let from = self.source(side, from);
        self.arrive(side, from, packet);
    }

    /// How a packet to `side` looks that comes from there; host 0 is the peer.
    pub(crate) fn source(&self, side: usize, from: Source) -> PathAddress {
        let Source {
            network,
            host,
            udp_port,
        } = from;
        let host = match host & 3 {
            0..=2 => 1 - side as u8,
            _ => 7,
        };
        let usual = self.setup.is_over_udp.then_some(UDP_PORTS[1 - side]);
        PathAddress {
            local: Some(address(network, side as u8)),
            remote: address(network, host),
            encapsulation_port: udp_port.or(usual),
        }
    }

    pub(crate) fn icmp(&mut self, side: usize, about: Source, says: Icmp, tag: Option<u32>) {
        let path = self.source(side, about);
        let tag = tag.unwrap_or(self.engines[1 - side].numbers.tag);
        let mut quoted = [PORTS[side].to_be_bytes(), PORTS[1 - side].to_be_bytes()].concat();
        quoted.extend_from_slice(&tag.to_be_bytes());
        let kind = match says {
            Icmp::TooBig(mtu) => IcmpKind::PacketTooBig { mtu: mtu.into() },
            Icmp::Protocol => IcmpKind::ProtocolUnreachable,
            Icmp::Port => IcmpKind::PortUnreachable,
            Icmp::Unreachable => IcmpKind::Unreachable,
        };
        let error = IcmpError {
            path,
            kind,
            quoted: quoted.into(),
        };
        self.engines[side].endpoint.handle_icmp(self.now, error);
        self.drain(side);
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        for side in [0, 1] {
            self.engines[side].handle_timeout(self.now);
            self.drain(side);
        }
    }

    /// When an engine waits for a time next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let timeouts = self.engines.iter();
        timeouts
            .filter_map(|engine| engine.endpoint.next_timeout())
            .min()
    }

    /// The user of `side` asks for something; the engine may refuse.
    pub(crate) fn call(&mut self, side: usize, call: &Call) {
        if matches!(call, Call::Connect) {
            self.connect(side);
            self.drain(side);
            return;
        }
        let remote = |path: u8| -> IpAddr { address(path, 1 - side as u8) };
        let now = self.now;
        let Engine {
            endpoint,
            association: Some(id),
            ..
        } = &mut self.engines[side]
        else {
            return;
        };
        let id = *id;
        // What an engine refuses, it refuses.
        match *call {
            Call::Send {
                stream,
                unordered,
                unbundled,
                length,
                to,
                life_time,
            } => {
                let info = SendInfo {
                    stream: (stream & 0x0f).into(),
                    unordered,
                    unbundled,
                    path: to.map(remote),
                    life_time: life_time.map(|time| Duration::from_millis(time.into())),
                    ..SendInfo::default()
                };
                let payload = vec![stream; usize::from(length) % 6000];
                let _ = endpoint.send(now, id, info, payload.into());
            }
            Call::Receive => while endpoint.receive(now, id).is_some() {},
            Call::Shutdown => endpoint.shutdown(now, id).unwrap_or(()),
            Call::Abort(resolve) => {
                if resolve % 8 == 0 {
                    endpoint.abort(now, id, b"reason").unwrap_or(());
                }
            }
            Call::SetPrimary(path) => endpoint.set_primary(now, id, remote(path)).unwrap_or(()),
            Call::RequestHeartbeat(path) => endpoint
                .request_heartbeat(now, id, remote(path))
                .unwrap_or(()),
            Call::ConfigurePath {
                path,
                heartbeats,
                max_retrans,
                mtu,
            } => {
                let mut config = endpoint.config().association.path;
                if let Some(heartbeats) = heartbeats {
                    config = config.heartbeats(heartbeats);
                }
                if let Some(max_retrans) = max_retrans {
                    config = config.path_max_retrans(max_retrans.into());
                }
                if let Some(mtu) = mtu {
                    config = config.mtu(mtu.into()).path_mtu_discovery(false);
                }
                endpoint.configure_path(now, id, remote(path), config).ok();
            }
            Call::Configure {
                rto_min,
                a_rwnd,
                mtu,
            } => {
                let config = endpoint
                    .config()
                    .association
                    .clone()
                    .rto_min(Duration::from_millis(rto_min.into()))
                    .a_rwnd(u32::from(a_rwnd).min(endpoint.config().association.a_rwnd))
                    .mtu(mtu.into());
                endpoint.configure(now, id, config).ok();
            }
            Call::Connect => {}
        }
        self.drain(side);
    }

    /// The user of `side` asks for something else, if there is an association.
    pub(crate) fn ask(
        &mut self,
        side: usize,
        call: impl FnOnce(&mut Endpoint, Instant, AssociationId),
    ) {
        let engine = &mut self.engines[side];
        if let Some(id) = engine.association {
            call(&mut engine.endpoint, self.now, id);
        }
        self.drain(side);
    }

    /// Ends everything on both sides; nothing may be left.
    pub(crate) fn end(mut self) {
        for side in [0, 1] {
            let ids = self.ids[side].clone();
            let engine = &mut self.engines[side];
            engine.end(self.now, ids);
            assert_eq!(engine.endpoint.association_count(), 0);
            assert_eq!(engine.endpoint.next_timeout(), None);
        }
    }

    fn connect(&mut self, side: usize) {
        let addresses = if self.setup.is_multihomed { 2 } else { 1 };
        let peer = (0..addresses).map(|network| PathAddress {
            local: None,
            remote: address(network, 1 - side as u8),
            encapsulation_port: self.setup.is_over_udp.then_some(UDP_PORTS[1 - side]),
        });
        let connect = Connect {
            peer: peer.collect(),
            port: PORTS[1 - side],
            config: None,
        };
        let engine = &mut self.engines[side];
        if let Ok(id) = engine.endpoint.connect_with(self.now, connect) {
            engine.association = Some(id);
            self.ids[side].insert(id);
        }
    }

    /// Puts on the wire what an engine sends.
    fn drain(&mut self, side: usize) {
        let sent = self.engines[side].drain(self.now);
        self.ids[side].extend(self.engines[side].association);
        for Transmit { path, packet, .. } in sent {
            let network = u8::from(path.remote == address(1, 1 - side as u8));
            let from = PathAddress {
                local: Some(path.remote),
                remote: path.local.unwrap_or(address(network, side as u8)),
                encapsulation_port: path.encapsulation_port.map(|_| UDP_PORTS[side]),
            };
            // What goes to somebody else is lost.
            let is_to_peer = (0..2).any(|network| path.remote == address(network, 1 - side as u8));
            let wire = &mut self.wire[1 - side];
            if is_to_peer && wire.len() < WIRE_CAPACITY {
                wire.push_back((from, packet));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sctp::AssociationState;

    /// Else the games would be about nothing.
    #[test]
    fn games_begin_with_an_association() {
        for options in 0..16 {
            let is = |bit: u32| options >> bit & 1 == 1;
            let setup = Setup {
                is_multihomed: is(0),
                is_over_udp: is(1),
                is_collision: is(2),
                passed: if is(2) { 12 } else { 0 },
                nodelay: true,
                quick_failover: true,
                path_mtu_discovery: true,
                delivers_in_part: is(3),
                bundling: true,
                is_for_signalling: false,
            };
            let mut pair = Pair::new(&setup);
            let send = Call::Send {
                stream: 1,
                unordered: false,
                unbundled: false,
                length: 5000,
                to: None,
                life_time: None,
            };
            pair.call(0, &send);
            for number in 0..20 {
                pair.deliver(1 - number % 2, 0);
            }
            for engine in &mut pair.engines {
                let id = engine.association.expect("an association");
                let status = engine.endpoint.status(id).expect("it is known");
                assert_eq!(status.state, AssociationState::Established, "{setup:?}");
                assert_eq!(status.paths.len(), if is(0) { 2 } else { 1 });
            }
            let Engine {
                endpoint,
                association,
                ..
            } = &mut pair.engines[1];
            let received = association.and_then(|id| endpoint.receive(pair.now, id));
            assert!(received.is_some(), "{setup:?}");
            pair.end();
        }
    }
}
