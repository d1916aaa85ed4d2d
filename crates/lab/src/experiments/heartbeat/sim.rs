//! One association on a virtual clock, for hours.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use sctp::EndpointConfig;
use sctp::packet::Packet as SctpPacket;
use sim::{Fate, Sent};
use sim_transport::{Load, Packet, TcpConfig};

use super::{Captured, End, Exactness, Observation, Phases, Sequence, beats, info, link_config};
use crate::context::Context;
use crate::pair::{NetworkConfig, Pair, address};

const PHASES: Phases = [(20, 0), (900, 0), (800, 200), (20, 0)];

/// An engine counts milliseconds.
const EXACTNESS: Exactness = Exactness {
    interval: Duration::from_millis(5),
    jitter: Duration::ZERO,
};

pub(super) fn observe(context: &Context, config: &EndpointConfig) -> anyhow::Result<Observation> {
    context.steps(PHASES.len() as u64);
    let phase = Duration::from_secs(3600 * context.either(1, 6));
    let networks = [NetworkConfig {
        delay: Duration::from_millis(PHASES[0].0) / 2,
        ..NetworkConfig::default()
    }; 2];
    let mut pair = Pair::new(context, 0, &networks, config, TcpConfig::default());
    pair.simulation.record();
    pair.open_sctp(Load::None)?;
    for (number, (middle, deviation)) in (0..).zip(PHASES) {
        context.begin(format!("round-trip time {middle} ms"));
        for link in pair.links.iter().flatten() {
            let link = pair.simulation.network_mut().link_mut(*link);
            link.set_config(link_config(middle, deviation));
        }
        pair.run_until(phase * (number + 1))?;
        context.done();
    }
    Ok(Observation {
        phases: PHASES,
        sequences: sequences(
            pair.simulation.trace(),
            pair.start,
            phase * PHASES.len() as u32,
            config,
        ),
        phase,
        exactness: EXACTNESS,
    })
}

/// The HEARTBEATs of a trace, which lasts so long, by their addresses.
fn sequences(
    trace: &[Sent<Packet>],
    start: Instant,
    lasts: Duration,
    config: &EndpointConfig,
) -> Vec<Sequence> {
    let directions = [1, 2]
        .into_iter()
        .flat_map(|side| [0, 1].map(|network| (side, network)));
    let end = End {
        at: lasts,
        exactness: EXACTNESS.interval,
    };
    let between = |from: IpAddr, to: IpAddr| {
        trace
            .iter()
            .filter(move |sent| sent.datagram.source == from && sent.datagram.destination == to)
    };
    directions
        .map(|(side, network)| {
            let (from, to) = (address(network, side), address(network, 3 - side));
            let sent = between(from, to);
            let sent = sent.filter_map(|sent| Some((sent.at - start, info_of(sent, false)?)));
            let answers = between(to, from)
                .filter_map(|sent| Some((arrival(sent)? - start, info_of(sent, true)?)));
            let captured = Captured {
                sent: sent.collect(),
                answers: answers.collect(),
            };
            Sequence {
                end: usize::from(side),
                address: usize::from(network),
                from,
                beats: beats(captured, config, end, |_, _| Duration::ZERO),
                halt_at_first: Duration::ZERO,
            }
        })
        .collect()
}

fn info_of(sent: &Sent<Packet>, of_answer: bool) -> Option<Vec<u8>> {
    match &sent.datagram.payload {
        Packet::Sctp(packet) => info(&SctpPacket::read(packet).ok()?, of_answer),
        Packet::Tcp(_) => None,
    }
}

fn arrival(sent: &Sent<Packet>) -> Option<Instant> {
    match &sent.fate {
        Fate::Offered(verdict) => verdict.deliveries().next().map(|delivery| delivery.at),
        _ => None,
    }
}
