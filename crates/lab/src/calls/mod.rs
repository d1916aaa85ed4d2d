//! Callers and callees behind two proxies, on simulated hosts or on real ones: what goes between the proxies goes
//! over UDP, TCP or SCTP, on networks that lose packets or are cut.

mod net;
mod sim;

use std::time::{Duration, Instant};

use sctp::{EndpointConfig, Profile};
use sip::Transport;
use sip_net::SipNetConfig;

use crate::context::Context;
use crate::experiment::On;
use crate::net::Lateness;

/// Each way, between a user and its proxy.
pub(crate) const USER_DELAY: Duration = Duration::from_millis(1);
/// Each way, between the proxies.
pub(crate) const TRUNK_DELAY: Duration = Duration::from_millis(20);
/// How long a callee's phone rings.
pub(crate) const RINGING: Duration = Duration::from_millis(200);
/// How long a call lasts.
const HOLD: Duration = Duration::from_secs(2);

/// The settings of associations between the proxies: those of SIP, with a profile.
pub(crate) fn sctp_config(profile: Profile) -> EndpointConfig {
    SipNetConfig::default().sctp.profile(profile)
}

/// How often somebody has to be woken until a call is set up: at each of three networks, there and back, the
/// emulator when the packet comes and when it is due, and whoever it is for; and the callee who answers.
const WAKINGS: u32 = 2 * 3 * 3 + 1;

/// A scenario with calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// What the proxies speak with each other.
    pub(crate) trunk: Transport,
    /// The timers and the loss recovery of SCTP.
    pub(crate) profile: Profile,
    /// Probability that a packet between the proxies is lost, on both of their networks.
    pub(crate) loss: f64,
    /// Calls a second.
    pub(crate) rate: f64,
    /// For how long calls are begun.
    pub(crate) lasts: Duration,
    /// From when until when the first network between the proxies is cut.
    pub(crate) cut: Option<(Duration, Duration)>,
}

/// The results of a scenario.
#[derive(Debug)]
pub(crate) struct CallResults {
    /// All calls, in the order in which they were begun.
    pub(crate) calls: Vec<Call>,
    /// When the first one was begun.
    pub(crate) start: Instant,
    /// Requests that a proxy still had under way long after the last call.
    pub(crate) left: usize,
    /// How late the machine was; never on a virtual clock.
    pub(crate) lateness: Lateness,
}

impl CallResults {
    /// The longest time from an answer to the next one; zero where there are no two.
    pub(crate) fn longest_without_answer(&self) -> Duration {
        let mut answers: Vec<Instant> =
            self.calls.iter().filter_map(|call| call.answered).collect();
        answers.sort_unstable();
        let gaps = answers.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or_default()
    }
}

/// A call as the caller sees it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// When the INVITE was sent.
    pub(crate) began: Instant,
    /// When the 200 came.
    pub(crate) answered: Option<Instant>,
    pub(crate) outcome: CallOutcome,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallOutcome {
    /// It has not.
    UnderWay,
    /// It was answered, and its BYE too.
    Completed,
    /// Nobody answered the INVITE.
    NotAnswered,
    /// A response said that it failed.
    Refused,
    /// The BYE failed.
    NotEnded,
}

impl CallOutcome {
    /// That of a call whose INVITE failed with that response, or with none.
    fn of_failure(status: Option<u16>) -> CallOutcome {
        /// What a proxy says when nobody answers (RFC 3261 section 16.8).
        const REQUEST_TIMEOUT: u16 = 408;
        match status {
            None | Some(REQUEST_TIMEOUT) => CallOutcome::NotAnswered,
            Some(_) => CallOutcome::Refused,
        }
    }
}

impl Call {
    /// From the INVITE to the 200.
    pub(crate) fn setup(&self) -> Option<Duration> {
        self.answered.map(|answered| answered - self.began)
    }

    /// How long the caller waited for the 200. One that never came counts with the 64 T1 after which Timer B ends a
    /// request that nobody answers (RFC 3261 section 17.1.1.2), and one that was refused too, however soon: that is no
    /// answer that somebody waited for.
    pub(crate) fn waited(&self) -> Duration {
        const TIMER_B: Duration = Duration::from_secs(32);
        self.setup().unwrap_or(TIMER_B)
    }
}

/// The time from INVITE to 200 where nothing is lost: there and back, and the ringing.
pub(crate) fn undisturbed() -> Duration {
    2 * (USER_DELAY + TRUNK_DELAY + USER_DELAY) + RINGING
}

/// What a machine that is so late at most each time adds to that.
pub(crate) fn added(late: Duration) -> Duration {
    late * WAKINGS
}

/// Runs the scenarios, and returns their results in order. All randomness follows from the context. On real hosts several
/// go on at once, each on a network of its own; each that ends is a step done.
///
/// # Errors
///
/// When the hosts never rest, or there can be no network.
pub(crate) fn run_scenarios(
    on: On,
    context: &Context,
    scenarios: &[Scenario],
) -> anyhow::Result<Vec<CallResults>> {
    match on {
        On::Sim => (0..)
            .zip(scenarios)
            .map(|(number, scenario)| {
                let results = sim::run_scenario(context, number, scenario);
                context.done();
                results
            })
            .collect(),
        On::Net => net::run_scenarios(context, scenarios),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_not_silence() {
        let of = CallOutcome::of_failure;
        assert_eq!([None, Some(408)].map(of), [CallOutcome::NotAnswered; 2]);
        assert_eq!([Some(503), Some(486)].map(of), [CallOutcome::Refused; 2]);
    }
}
