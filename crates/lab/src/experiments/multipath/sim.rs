//! The same on the virtual clock.

use std::time::Duration;

use link::LinkConfig;
use sim_transport::{Load, TcpConfig, goodput};

use super::ways::{MESSAGE, SetUp, Way};
use super::{Carried, WARM};
use crate::context::Context;
use crate::pair::{PORT, Pair};

pub(super) fn carry(
    context: &Context,
    number: u64,
    set_up: &SetUp,
    way: &Way,
    lasts: Duration,
) -> anyhow::Result<Carried> {
    let links: Vec<LinkConfig> = set_up.used(way).iter().map(|path| path.link()).collect();
    let config = set_up.config(way);
    let mut pair = Pair::with_links(context, number, &links, &config, TcpConfig::default());
    pair.open_sctp(Load::Greedy {
        message: MESSAGE,
        streams: 1,
        unordered: set_up.unordered,
    })?;
    let end = WARM + lasts;
    pair.run_until(end)?;
    let rate = goodput(pair.deliveries(), pair.start + WARM, pair.start + end);
    let network = pair.simulation.network();
    let links = pair.links.iter().flatten();
    let dropped = links.map(|link| network.link(*link).statistics().dropped_packets());
    let dropped = dropped.sum();
    let endpoint = pair.client().endpoint(PORT);
    let statistics = endpoint.map(|endpoint| *endpoint.statistics());
    Ok(Carried {
        mbit_per_s: rate * 8.0 / 1e6,
        fast_retransmissions: statistics.map_or(0, |statistics| statistics.retransmitted_fast),
        dropped,
    })
}
