//! The parts that this program plays in processes of its own.

use std::time::Duration;

use anyhow::{Context, bail};

use crate::capture_tshark;
use crate::engines;
use crate::handshakes::idle;
use crate::load_sipp::ours;
use crate::m3ua_osmo_stp;
use crate::multipath_usrsctp;
use crate::transfer::{sctp, tcp};

/// Plays the role that `Process::start_role` asked for.
pub(crate) fn play(role: &str) -> anyhow::Result<()> {
    if let Some(request) = role.strip_prefix("measure ") {
        return capture_tshark::measure_one(request);
    }
    let words: Vec<&str> = role.split(' ').collect();
    match words.as_slice() {
        ["sctp-server"] => sctp::serve(),
        ["sctp-client", port, bytes, seconds] => {
            sctp::send(port.parse()?, bytes.parse()?, time(seconds)?)
        }
        ["paths-server", seconds, addresses] => multipath_usrsctp::serve(time(seconds)?, addresses),
        ["paths-client", to, seconds, addresses] => {
            multipath_usrsctp::send(to.parse()?, time(seconds)?, addresses)
        }
        ["tcp-server"] => tcp::serve(),
        ["tcp-client", port, bytes, seconds] => {
            tcp::send(port.parse()?, bytes.parse()?, time(seconds)?)
        }
        ["engine", case @ .., seconds] => engines::ours_alone(&case.join(" "), time(seconds)?),
        ["idle", count, seconds] => idle::hold(count.parse()?, time(seconds)?),
        ["load-calls", transport, count, per_second, hold_ms] => ours::make_calls(
            transport.parse()?,
            count.parse()?,
            per_second.parse()?,
            Duration::from_millis(hold_ms.parse()?),
        ),
        ["load-held", count] => ours::hold_calls(count.parse()?),
        ["m3ua-gateway", configuration] => m3ua_osmo_stp::serve(configuration),
        ["m3ua-load", gateway, over, seconds] => {
            m3ua_osmo_stp::measure(gateway, over, time(seconds)?)
        }
        ["load-registered", proxy, users] => ours::register_users(proxy.parse()?, users.parse()?),
        _ => bail!("there is no role {role:?}"),
    }
}

fn time(seconds: &str) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(seconds.parse()?).context("seconds")
}
