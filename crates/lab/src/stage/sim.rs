//! The scenario on simulated hosts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use link::Link;
use sim::{HostId, Simulation};
use sim_transport::{FlowId, Load, TcpConfig, TransportHost};

use super::{
    Flow, MTU, Received, SEND_BUFFER, Scenario, Transport, WINDOW, link_config, sctp_config,
};
use crate::context::Context;

const PORT: u16 = 5001;

fn tcp_config() -> TcpConfig {
    TcpConfig {
        receive_window: WINDOW,
        send_buffer: SEND_BUFFER,
        ..TcpConfig::default()
    }
}

pub(super) fn run_scenario(
    context: &Context,
    number: u64,
    scenario: &Scenario,
) -> anyhow::Result<Vec<Received>> {
    let start = Instant::now();
    let mut simulation = Simulation::new(start);
    // Streams of random numbers: two for the links, two for each flow.
    let stream = |offset: u64| context.rng((number << 16) + offset);
    let config = || link_config(&scenario.line);
    let network = simulation.network_mut();
    let there = network.add_link(Link::new(config(), stream(0)));
    let back = network.add_link(Link::new(config(), stream(1)));

    let mut hosts = Vec::new();
    for (index, flow) in (0_u16..).zip(&scenario.flows) {
        let [sender_address, receiver_address] = [1, 2]
            .map(|side| IpAddr::from(Ipv4Addr::new(10, side, (index >> 8) as u8, index as u8)));
        let network = simulation.network_mut();
        network.add_route(sender_address, receiver_address, there);
        network.add_route(receiver_address, sender_address, back);
        let mut host = |address, offset| {
            let rng = stream(2 + 2 * u64::from(index) + offset);
            let mut host = TransportHost::new(start, vec![address], MTU, rng);
            match flow.transport {
                Transport::Sctp { bundled } => host.add_sctp(PORT, sctp_config(bundled)),
                Transport::Tcp => host.listen_tcp(PORT, tcp_config()),
            }
            simulation.add_host(host, &[address])
        };
        let sender = host(sender_address, 0);
        let receiver = host(receiver_address, 1);
        plan(&mut simulation, start, *flow, sender, receiver_address);
        hosts.push(receiver);
    }
    simulation.run(start + scenario.lasts, |_| false)?;
    let received = hosts.into_iter().map(|receiver| {
        let deliveries = simulation.host(receiver).deliveries().iter();
        let arrivals = deliveries.map(|delivery| (delivery.at - start, delivery.bytes));
        Received {
            arrivals: arrivals.collect(),
        }
    });
    Ok(received.collect())
}

/// Plans that a flow begins and ends.
fn plan(
    simulation: &mut Simulation<TransportHost>,
    start: Instant,
    flow: Flow,
    sender: HostId,
    to: IpAddr,
) {
    simulation.at(start + flow.begins, move |simulation| {
        let now = simulation.now();
        let host = simulation.host_mut(sender);
        if let Some(opened) = open(host, now, flow.transport, to) {
            host.set_load(now, opened, load(&flow));
            simulation.at(start + flow.ends, move |simulation| {
                let now = simulation.now();
                simulation
                    .host_mut(sender)
                    .set_load(now, opened, Load::None);
            });
        }
    });
}

fn open(
    host: &mut TransportHost,
    now: Instant,
    transport: Transport,
    to: IpAddr,
) -> Option<FlowId> {
    match transport {
        Transport::Sctp { .. } => host.open_sctp(now, PORT, &[to], PORT).ok(),
        Transport::Tcp => Some(host.open_tcp(SocketAddr::new(to, PORT), tcp_config())),
    }
}

/// What the user sends: each message in the order of its arrival (Jungmaier 2000, section 5.1).
fn load(flow: &Flow) -> Load {
    let (message, streams, unordered) = (flow.message, 1, true);
    match flow.rate {
        None => Load::Greedy {
            message,
            streams,
            unordered,
        },
        Some(rate) => Load::Paced {
            message,
            interval: Duration::from_secs_f64(message as f64 / rate),
            remaining: None,
            streams,
            unordered,
        },
    }
}
