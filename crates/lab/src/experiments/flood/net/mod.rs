//! The floods on real sockets: our listener in a process of its own and the kernel's TCP listener, each in a
//! network of namespaces that is made for one flood.

mod judge;
mod kernel;
mod listener;
mod sctp;

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use flood::{Kind, Limits, Over, ProbeConfig};
use namespace::{NextHop, Route};
use rand::Rng;
use sctp_net::EndpointConfig;
use testbed::{Testbed, Topology};

use crate::context::Context;
use crate::net::sctp_goes_in_udp;
use crate::outcome::Outcome;

/// The topology; its router keeps from the attacker what answers forged addresses.
const TOPOLOGY: &str = include_str!("../../../../topologies/flood.toml");

/// Each way between the client and the router.
const DELAY: Duration = Duration::from_millis(5);

/// An address that the router takes for the listener's, and the listener does not.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 3);

/// How long the client tries before the flood.
const CALM: Duration = Duration::from_secs(1);

/// From one look at a listener to the next.
const LOOK: Duration = Duration::from_millis(100);

/// How much of a flood.
#[derive(Clone, Copy, Debug)]
struct Effort {
    limits: Limits,
    /// The client's.
    probe_config: ProbeConfig,
    /// How long the listener is looked at after it.
    rest: Duration,
}

pub(super) fn run(context: &Context) -> anyhow::Result<Outcome> {
    let Some(program) = context.program() else {
        return Ok(Outcome::skipped(
            "the listener is a process of the program tandem, and there is none beside this one",
        ));
    };
    let overs = match sctp_goes_in_udp() {
        true => vec![sctp::IN_UDP],
        false => vec![sctp::IN_UDP, Over::Ip],
    };
    let cookies: &[bool] = if kernel::has_syn_cookies() {
        &[false, true]
    } else {
        &[]
    };
    context.steps((super::KINDS.len() * overs.len() + cookies.len()) as u64);
    let mut ours = Vec::new();
    for over in overs {
        for kind in super::KINDS {
            context.begin(format!("flood of {kind} {}", sctp::carrier_words(over)));
            ours.push(one(context, program, ours.len() as u64, kind, over)?);
            context.done();
        }
    }
    let mut kernels = Vec::new();
    for &has_cookies in cookies {
        context.begin("flood of SYNs");
        let number = 0x100 + kernels.len() as u64;
        let effort = effort(5000, context.either(4, 20), Duration::ZERO)?;
        kernels.push(kernel::flooded(context, number, has_cookies, &effort)?);
        context.done();
    }
    Ok(judge::judge(&ours, &kernels))
}

fn one(
    context: &Context,
    program: &Path,
    number: u64,
    kind: Kind,
    over: Over,
) -> anyhow::Result<sctp::FloodResult> {
    let (settings, effort) = match kind {
        Kind::Init => {
            let effort = effort(5000, context.either(4, 20), Duration::ZERO)?;
            (Vec::new(), effort)
        }
        Kind::Replay => {
            let effort = effort(2000, context.either(3, 20), Duration::ZERO)?;
            (Vec::new(), effort)
        }
        Kind::Cookie => {
            // Some of the longest lives, so that the level can be seen.
            let longest = super::lives(&impatient()).1;
            let seconds = (longest * context.either(4, 20)).as_secs() + 1;
            let effort = effort(1000, seconds, longest + LOOK)?;
            (impatient_settings(), effort)
        }
    };
    sctp::flooded(context, program, number, (kind, over), &settings, &effort)
}

fn effort(rate: u64, seconds: u64, rest: Duration) -> anyhow::Result<Effort> {
    Ok(Effort {
        limits: Limits::new(rate * seconds, rate)?,
        probe_config: ProbeConfig::default(),
        rest,
    })
}

/// A listener that gives peers up in seconds who have vanished, where by the RFC's parameters it takes
/// minutes. The rule by which it does is the same.
fn impatient() -> EndpointConfig {
    const RTO: Duration = Duration::from_millis(200);
    EndpointConfig::default()
        .rto_initial(RTO)
        .rto_min(RTO)
        .rto_max(RTO)
        .hb_interval(Duration::from_millis(300))
        .association_max_retrans(2)
}

/// The same as words of `tandem sctp listen --set`.
fn impatient_settings() -> Vec<String> {
    let config = impatient();
    let times = [
        ("rto_initial", config.association.path.rto_initial),
        ("rto_min", config.association.path.rto_min),
        ("rto_max", config.association.path.rto_max),
        ("hb_interval", config.association.path.hb_interval),
    ];
    let mut settings: Vec<String> = times
        .iter()
        .map(|(name, time)| format!("{name}={}ms", time.as_millis()))
        .collect();
    let retransmissions = config.association.association_max_retrans;
    settings.push(format!("association_max_retrans={retransmissions}"));
    settings
}

/// A network for one flood.
fn up(context: &Context, number: u64) -> anyhow::Result<Testbed> {
    let topology = Topology::parse(TOPOLOGY, &[])?;
    let seed = context.rng(number).next_u64();
    let testbed = Testbed::up(&topology, "lab-flood", seed)?;
    let listener = testbed.namespace("listener")?;
    let mut netlink = listener.netlink()?;
    netlink.delete_address("eth0", format!("{NOBODY}/24").parse()?)?;
    // Answers to forged addresses leave the host.
    netlink.add_route(&Route {
        destination: "198.18.0.0/15".parse()?,
        next_hop: NextHop::Gateway("10.3.0.1".parse()?),
        table: None,
    })?;
    Ok(testbed)
}

fn per_packet(seconds: f64, packets: u64) -> f64 {
    seconds / packets.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topology_has_the_address_that_is_taken_from_the_listener() {
        let topology = Topology::parse(TOPOLOGY, &[]).expect("it is whole");
        let plan = testbed::Plan::new(topology).expect("it has room");
        let node = plan.topology.node("listener").expect("a host");
        assert!(plan.addresses(node).contains(&NOBODY.into()));
        let first = &plan.topology.links;
        let client = first.iter().find(|line| line.name == "client");
        let delays = client.expect("a link").clone();
        assert!(format!("{delays:?}").contains(&format!("{DELAY:?}")));
    }

    #[test]
    fn impatient_listeners_are_told_what_the_law_counts_with() {
        let settings = impatient_settings();
        assert_eq!(settings.len(), 5);
        assert!(settings.contains(&"hb_interval=300ms".to_owned()));
        let (shortest, longest) = super::super::lives(&impatient());
        // After the first heartbeat the path has potentially failed: the others come with the RTO.
        assert_eq!(shortest, Duration::from_millis(300 + 100 + 3 * 200));
        assert_eq!(longest, Duration::from_millis(300 + 300 + 3 * 200));
    }
}
