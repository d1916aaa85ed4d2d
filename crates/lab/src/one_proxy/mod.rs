//! Users who register with one proxy and call each other through it: all callers on one host, all callees on another, and
//! the proxy on a third (Pang 2003, figures 5.4 and 5.8). On simulated hosts, or on real ones.

mod net;
mod sim;

use std::time::Duration;

use load::statistics::Statistics;
use report::Colour;
use sctp::{EndpointConfig, Profile};
use sip::Transport;
use sip_net::SipNetConfig;

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::On;

pub(crate) use sim::{ADDRESSES, OneProxy};

/// What carries SIP between users and proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Udp,
    Tcp,
    Sctp(Profile),
}

impl Way {
    pub(crate) fn transport(self) -> Transport {
        match self {
            Way::Udp => Transport::Udp,
            Way::Tcp => Transport::Tcp,
            Way::Sctp(_) => Transport::Sctp,
        }
    }

    /// Its name in tables and plots.
    pub(crate) fn name(self) -> String {
        match self {
            Way::Udp => "UDP".to_owned(),
            Way::Tcp => "TCP".to_owned(),
            Way::Sctp(profile) => format!("SCTP, {profile}"),
        }
    }

    /// Its colour in plots.
    pub(crate) fn colour(self) -> Colour {
        match self {
            Way::Udp => Colour::Blue,
            Way::Tcp => Colour::Green,
            Way::Sctp(Profile::Signalling) => Colour::Orange,
            Way::Sctp(Profile::Rfc9260) => Colour::Purple,
        }
    }

    /// The settings of SCTP for so many users, who have a stream each.
    pub(crate) fn sctp_config(self, users: u32) -> EndpointConfig {
        let profile = match self {
            Way::Sctp(profile) => profile,
            Way::Udp | Way::Tcp => Profile::default(),
        };
        SipNetConfig::default()
            .sctp
            .profile(profile)
            .path_mtu_discovery(false)
            .outbound_streams(streams(users))
    }
}

/// The streams of an association of so many users.
fn streams(users: u32) -> u16 {
    u16::try_from(users).unwrap_or(u16::MAX)
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) way: Way,
    /// Callers, and as many callees.
    pub(crate) users: u32,
    /// Each way between a host of users and the proxy.
    pub(crate) delay: Duration,
    /// Probability that a packet is lost there.
    pub(crate) loss: f64,
    /// How long callers call, each beginning its next call when the last has ended.
    pub(crate) lasts: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Users of both sides that were registered when the calls began.
    pub(crate) registered: u32,
    /// Of the callers.
    pub(crate) calls: Statistics,
    /// How long they called.
    pub(crate) time: Duration,
}

impl Outcome {
    pub(crate) fn calls_per_second(&self) -> f64 {
        self.calls.calls.completed as f64 / self.time.as_secs_f64()
    }
}

/// How long the calls wait for users that are not registered yet. Who is too late is not called.
pub(crate) const REGISTRATION_TIME: Duration = Duration::from_secs(30);

/// Runs the scenarios, and returns their outcomes in order; scenario `n` has randomness of its own, which follows from the
/// context. Each that ends is a step done.
///
/// # Errors
///
/// When the hosts never rest, or there can be no network.
pub(crate) fn run_scenarios(
    on: On,
    context: &Context,
    scenarios: &[Scenario],
) -> anyhow::Result<Vec<Outcome>> {
    match on {
        On::Sim => (0..)
            .zip(scenarios)
            .map(|(number, scenario)| {
                let outcome = sim::run(context, number, scenario);
                context.done();
                outcome
            })
            .collect(),
        On::Net => net::run_all(context, scenarios),
    }
}

/// Holds calls against the time that packets take: four trips until a call is set up, and four more until it has ended and
/// its caller begins the next one.
pub(crate) fn check_calls(
    checks: &mut Checks,
    what: &str,
    users: u32,
    delay: Duration,
    outcomes: &[Outcome],
) {
    let fastest = outcomes
        .iter()
        .filter_map(|outcome| outcome.calls.metrics.session_request_delay.minimum())
        .min();
    if let Some(fastest) = fastest {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        checks.law(
            format!("fastest set-up, {what}"),
            milliseconds(fastest),
            milliseconds(4 * delay)..=f64::INFINITY,
            "ms",
        );
    }
    let most = f64::from(users) / (8 * delay).as_secs_f64();
    let rates = outcomes.iter().map(Outcome::calls_per_second);
    checks.law(
        format!("most calls a second, {what}"),
        rates.fold(0.0, f64::max),
        0.0..=most,
        "calls/s",
    );
}
