//! On simulated hosts.

use std::time::{Duration, Instant};

use sctp::EndpointConfig;
use sim_transport::{Load, Packet, TcpConfig};

use super::reception::{Delivered, Reception, arrivals_over_sctp, arrivals_over_tcp};
use super::{CALLS, Carrier, DELAY, MESSAGE, RATE, sctp_config};
use crate::context::Context;
use crate::pair::{NetworkConfig, Pair};

/// Bytes of the length before each message on TCP.
const FRAMING: usize = 4;

/// Longer than any recovery takes at the losses here.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Says when it began, and what came of it.
pub(super) fn carry(
    context: &Context,
    number: u64,
    carrier: Carrier,
    loss: f64,
    messages: u64,
) -> anyhow::Result<(Instant, Reception)> {
    let network = NetworkConfig {
        loss,
        delay: DELAY,
        ..NetworkConfig::default()
    };
    let sctp: EndpointConfig = sctp_config();
    let tcp = TcpConfig {
        receive_window: super::WINDOW,
        send_buffer: super::WINDOW,
        ..TcpConfig::default()
    };
    let mut pair = Pair::new(context, number, &[network], &sctp, tcp);
    let server = pair.server;
    pair.simulation.host_mut(server).record_arrivals();
    let load = Load::Paced {
        message: MESSAGE,
        interval: Duration::from_secs_f64(1.0 / RATE),
        remaining: Some(messages),
        streams: if carrier == Carrier::StreamACall {
            CALLS
        } else {
            1
        },
        unordered: carrier == Carrier::Unordered,
    };
    match carrier {
        Carrier::Tcp => pair.open_tcp(load),
        _ => pair.open_sctp(load)?,
    };
    let lasts = Duration::from_secs_f64(messages as f64 / RATE);
    pair.run_until_received(messages as usize, lasts + TIMEOUT)?;
    let packets = pair.server().arrivals().iter();
    let packets = packets.filter_map(|(at, packet)| match (packet, carrier) {
        (Packet::Tcp(bytes), Carrier::Tcp) => Some((*at, &bytes[..])),
        (Packet::Sctp(bytes), _) => Some((*at, &bytes[..])),
        _ => None,
    });
    let arrivals = match carrier {
        Carrier::Tcp => arrivals_over_tcp(packets, messages as usize, FRAMING),
        _ => arrivals_over_sctp(packets, messages as usize),
    };
    let deliveries = pair.deliveries().iter();
    let delivered = deliveries.map(|one| Delivered {
        number: one.number,
        sent: one.sent,
        at: one.at,
    });
    let reception = Reception {
        delivered: delivered.collect(),
        arrivals,
        late: Duration::ZERO,
    };
    Ok((pair.start, reception))
}
