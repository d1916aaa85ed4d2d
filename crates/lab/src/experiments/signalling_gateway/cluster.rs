//! The cluster: which processes there are, how each is configured, and what its users send each other.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use m3ua::message::{ProtocolData, ServiceIndicator, TrafficMode};
use m3ua::{
    ApplicationServerConfig, AsId, Config, KeySelection, MaskedPointCode, MemberConfig, NetworkId,
    PeerConfig, PeerRole, PointCode, Route, ServedBy, SgId, SignallingProcess, Via,
};

/// SGPs of the gateway.
pub(super) const SGPS: usize = 2;

/// ASPs of the application server.
pub(super) const ASPS: usize = 3;

/// Processes: first the SGPs, then the ASPs. Each is on a host of its own.
pub(super) const PROCESSES: usize = SGPS + ASPS;

pub(super) const NETWORK: NetworkId = NetworkId(0);

/// The application server, in all processes.
pub(super) const SERVER: AsId = AsId(0);

/// How long an application server without active ASPs keeps messages.
pub(super) const T_R: Duration = Duration::from_secs(2);

/// The values of SLS that are used.
pub(super) const SLS_VALUES: u8 = 16;

/// The application server's point code, and one in the SS7 network.
const OWN_POINT: u32 = 10;
const FAR_POINT: u32 = 20;

/// The SCTP port of all.
pub(super) const PORT: u16 = m3ua::message::PORT;

/// A message that a user has handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handed {
    /// Since the beginning.
    pub(super) at: Duration,
    /// To which process.
    pub(super) process: usize,
    pub(super) text: Text,
}

/// A message that a user has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Since the beginning.
    pub(super) at: Duration,
    /// From which process.
    pub(super) process: usize,
    pub(super) text: Text,
}

/// What is in a message. Messages with one sender and SLS are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text {
    /// An ASP, by its process; none: the SS7 network.
    pub(super) sender: Option<usize>,
    pub(super) sls: u8,
    pub(super) number: u32,
}

impl Text {
    /// As a message of an MTP3 user.
    pub(super) fn to_message(self) -> anyhow::Result<ProtocolData> {
        let (opc, dpc) = match self.sender {
            None => (FAR_POINT, OWN_POINT),
            Some(_) => (OWN_POINT, FAR_POINT),
        };
        let sender = self.sender.unwrap_or(PROCESSES) as u8;
        let mut text = vec![sender];
        text.extend(self.number.to_be_bytes());
        // As long as a short message of ISUP.
        text.resize(40, 0);
        Ok(ProtocolData {
            opc: point(opc)?,
            dpc: point(dpc)?,
            service_indicator: ServiceIndicator::SCCP.0 as u8,
            network_indicator: 2,
            message_priority: 0,
            sls: self.sls,
            user_data: Bytes::from(text),
        })
    }

    /// What a message says; none if it is not one of ours.
    pub(super) fn of(message: &ProtocolData) -> Option<Text> {
        let (sender, rest) = message.user_data.split_first()?;
        let number = u32::from_be_bytes(*rest.first_chunk::<4>()?);
        let sender = usize::from(*sender);
        Some(Text {
            sender: (sender < PROCESSES).then_some(sender),
            sls: message.sls,
            number,
        })
    }
}

/// Whether a process is an SGP.
pub(super) fn is_sgp(process: usize) -> bool {
    process < SGPS
}

/// The processes that a process has associations with, in the order of its peers.
pub(super) fn peers_of(process: usize) -> std::ops::Range<usize> {
    match is_sgp(process) {
        true => SGPS..PROCESSES,
        false => 0..SGPS,
    }
}

/// The engine of a process, with heartbeats of M3UA at such an interval.
pub(super) fn engine(
    process: usize,
    t_beat: Option<Duration>,
) -> anyhow::Result<SignallingProcess> {
    let mut engine = SignallingProcess::new(Config {
        t_r: T_R,
        t_beat,
        ..Config::default()
    });
    let (served_by, role) = match is_sgp(process) {
        true => (ServedBy::Peers, PeerRole::Asp),
        false => (ServedBy::Us, PeerRole::Sgp),
    };
    let server = engine.add_application_server(ApplicationServerConfig {
        name: "as".to_owned(),
        network: NETWORK,
        served_by,
        routing_context: Some(1),
        routing_key: vec![KeySelection::from(MaskedPointCode::single(point(
            OWN_POINT,
        )?))],
        traffic_mode: Some(TrafficMode::LOADSHARE),
        required_asps: 1,
    })?;
    let gateway = engine.add_gateway();
    for other in peers_of(process) {
        let config = PeerConfig {
            name: name(other),
            role,
            network: NETWORK,
            asp_identifier: None,
            comes_up: true,
        };
        let peer = engine.add_peer(config, Some(gateway))?;
        engine.add_member(peer, server, MemberConfig::default())?;
    }
    if !is_sgp(process) {
        let route = Route {
            destination: point(FAR_POINT)?.into(),
            via: Via::Sg(SgId(0)),
            priority: 1,
        };
        engine.add_route(NETWORK, route)?;
    }
    Ok(engine)
}

/// What a process is called on the page.
pub(super) fn name(process: usize) -> String {
    match is_sgp(process) {
        true => format!("SGP {}", process + 1),
        false => format!("ASP {}", process - SGPS + 1),
    }
}

/// So long after the beginning.
pub(super) fn since(start: Instant, at: Instant) -> Duration {
    at.saturating_duration_since(start)
}

fn point(value: u32) -> anyhow::Result<PointCode> {
    PointCode::new(value).context("it has 24 bits")
}
