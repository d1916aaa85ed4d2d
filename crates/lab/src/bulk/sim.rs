//! On simulated hosts.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use sim::Simulation;
use sim_transport::{FlowId, Load, TcpConfig, TransportHost};

use super::{Bulk, Carried, Transport, Until, message, sctp_config};
use crate::congestion::Congestion;
use crate::context::Context;
use crate::experiment::On;
use crate::net::Lateness;
use crate::pair::{PORT, Pair};

/// Long enough for any number of timeouts.
const TIMEOUT: Duration = Duration::from_secs(4 * 3600);

pub(super) fn carry(context: &Context, number: u64, bulk: &Bulk) -> anyhow::Result<Carried> {
    let tcp = TcpConfig {
        receive_window: bulk.window,
        send_buffer: bulk.window,
        ..TcpConfig::default()
    };
    let links = std::slice::from_ref(&bulk.link);
    let mut pair = Pair::with_links(context, number, links, &sctp_config(bulk), tcp);
    let flows: Vec<FlowId> = match bulk.transport {
        Transport::Tcp => {
            anyhow::ensure!(
                bulk.congestion == Congestion::Reno,
                "the simulated TCP has Reno alone"
            );
            let load = load(bulk, 1);
            (0..bulk.flows).map(|_| pair.open_tcp(load)).collect()
        }
        Transport::Sctp => vec![pair.open_sctp(load(bulk, bulk.flows))?],
    };
    if let Until::Time(time) = bulk.until {
        let up = |host: &TransportHost| flows.iter().all(|flow| state(host, *flow).is_some());
        let (client, deadline) = (pair.client, pair.start + TIMEOUT);
        pair.simulation
            .run(deadline, |simulation| up(simulation.host(client)))?;
        let end = pair.simulation.now() + time;
        pair.simulation.run(end, |_| false)?;
        let now = pair.simulation.now();
        for &flow in &flows {
            pair.client().set_load(now, flow, Load::None);
        }
    }
    let (sent_by, sent) = drain(&mut pair, &flows)?;
    carried(&pair, &flows, sent_by, sent)
}

fn load(bulk: &Bulk, streams: u16) -> Load {
    let message = message(On::Sim);
    let unordered = false;
    match bulk.until {
        Until::Messages(of_each) => Load::Transfer {
            message,
            remaining: of_each * u64::from(streams),
            streams,
            unordered,
        },
        Until::Time(_) => Load::Greedy {
            message,
            streams,
            unordered,
        },
    }
}

/// When a flow came up.
fn state(host: &TransportHost, flow: FlowId) -> Option<Instant> {
    host.flow_state(flow).and_then(|state| state.up_at)
}

/// Runs until the receiver has all that was sent. Says when the transport had taken the last message, and how
/// many there were.
fn drain(pair: &mut Pair, flows: &[FlowId]) -> anyhow::Result<(Instant, u64)> {
    let (client, server) = (pair.client, pair.server);
    let idle = |simulation: &Simulation<TransportHost>| {
        let states = flows
            .iter()
            .map(|flow| simulation.host(client).flow_state(*flow));
        states.flatten().try_fold(0, |sent, state| {
            let done = state.is_up && state.is_idle && state.waiting == 0;
            done.then_some(sent + state.sent)
        })
    };
    let deadline = pair.start + TIMEOUT;
    pair.simulation
        .run(deadline, |simulation| idle(simulation).is_some())?;
    let taken = pair.simulation.now();
    let sent = idle(&pair.simulation).context("not all was sent in hours")?;
    pair.simulation.run(deadline, |simulation| {
        simulation.host(server).deliveries().len() as u64 >= sent
    })?;
    Ok((taken, sent))
}

fn carried(pair: &Pair, flows: &[FlowId], sent_by: Instant, sent: u64) -> anyhow::Result<Carried> {
    let client = pair.simulation.host(pair.client);
    let ups = flows.iter().filter_map(|flow| state(client, *flow));
    let up = ups.max().context("nothing came up")?;
    let server = pair.server();
    let first_up = server
        .flows()
        .filter_map(|flow| state(server, flow))
        .min()
        .context("nothing came up at the receiver")?;
    let last = server
        .deliveries()
        .last()
        .map_or(first_up, |delivery| delivery.at);
    let bytes = server.deliveries().iter().map(|one| one.bytes as u64);
    let received = bytes.sum();
    let [there, back] = pair.links[0];
    let network = pair.simulation.network();
    let is_sctp = flows.iter().any(|flow| client.association(*flow).is_some());
    let endpoint = client.endpoint(PORT).filter(|_| is_sctp);
    Ok(Carried {
        sent: sent * message(On::Sim) as u64,
        received,
        set_up: up - pair.start,
        sending: sent_by.saturating_duration_since(up),
        receiving: last.saturating_duration_since(first_up),
        took: last - pair.start,
        there: *network.link(there).statistics(),
        back: *network.link(back).statistics(),
        sctp: endpoint.map(|endpoint| *endpoint.statistics()),
        tcp_retransmissions: None,
        late: Lateness::default(),
    })
}
