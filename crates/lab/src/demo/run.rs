//! One run of the demo: one transport at one packet loss.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use load::arrivals::{Pattern, Plan as ArrivalPlan, Spacing};
use load::driver::{Connections, GeneratorConfig, LoadGenerator, LoadModel, LoadPlan, Outcome};
use load::engine::{EngineConfig, RegistrationPlan};
use load::script::builtin::{AnswerPlan, CallPlan};
use measures::{DelaySummary, Delays};
use proxy::{ProxyConfig, Server};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::Transport;
use sip_net::{Listen, Profile, SipNetConfig, StreamPolicy, Tap};
use udp_net::Impairment;

use super::condition::Condition;
use super::results::causes;
use super::{Associations, End, Measurement, Options};

/// How long users try to connect; at 30 % loss an association is set up in some seconds mostly, but INIT and
/// COOKIE ECHO are repeated after 1, 2, 4, 8 … s (RFC 9260 section 5.1). Who is too late takes no part.
const CONNECT_TIME: Duration = Duration::from_secs(25);

/// How long the calls wait for users that are not registered yet; at 30 % loss most need some seconds, few
/// need ten. Users go on trying after that.
const REGISTRATION_TIME: Duration = Duration::from_secs(15);

/// From a failed registration to the next attempt.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Calls that an open loop may have under way at a time.
const CALLS_IN_FLIGHT: usize = 20_000;

/// Starts a proxy and users of its own, so that runs side by side share nothing but the processors.
pub(super) async fn run(
    options: &Options,
    tap: Option<&Tap>,
    condition: Condition,
) -> anyhow::Result<Measurement> {
    let stream_policy = match options.associations {
        Associations::Shared => StreamPolicy::PerFlow,
        Associations::PerUser => StreamPolicy::Unordered,
    };
    let profile = condition.profile.unwrap_or_default();
    let transports = SipNetConfig {
        stream_policy,
        ..transports(profile)
    };
    let server = Server::start(proxy_config(transports.clone())).await?;
    let outcome = call_through(&server, options, tap, condition, transports)
        .await
        .with_context(|| {
            let line = condition.line().label();
            format!("{line} at {} % loss", condition.loss_percent)
        });
    server.shutdown().await;
    outcome
}

async fn call_through(
    server: &Server,
    options: &Options,
    tap: Option<&Tap>,
    condition: Condition,
    transports: SipNetConfig,
) -> anyhow::Result<Measurement> {
    let Condition {
        transport,
        profile,
        loss_percent,
    } = condition;
    let proxy = server
        .listening()
        .into_iter()
        .find(|listener| listener.transport == transport)
        .context("the proxy does not listen on the transport")?
        .address;
    let encapsulation_port = server
        .encapsulation_addresses()
        .first()
        .context("the proxy has no SCTP listener")?
        .port();
    let mut load = LoadGenerator::start(GeneratorConfig {
        transport,
        target: proxy,
        users: options.users,
        connections: match options.associations {
            Associations::Shared => Connections::Shared,
            Associations::PerUser => Connections::PerUser,
        },
        // So that all users of a side have one association.
        workers: 1,
        engine: EngineConfig {
            domain: proxy.to_string(),
            registration: RegistrationPlan {
                retry_after: RETRY_AFTER,
                ..RegistrationPlan::default()
            },
            ..EngineConfig::default()
        },
        transports: SipNetConfig {
            peer_encapsulation_port: encapsulation_port,
            impairment: impairment(options, transport, loss_percent),
            tap: tap.cloned(),
            ..transports
        },
        connect_within: CONNECT_TIME,
        // Losses are the same with each profile of SCTP; Call-IDs are not, for one capture has the calls of all runs.
        seed: seed(options.seed, transport, loss_percent)
            .wrapping_add(profile.map_or(0, |profile| profile as u64)),
        ..GeneratorConfig::calls(&CallPlan::default(), &AnswerPlan::default())?
    })
    .await?;

    let registered = load.register(None, REGISTRATION_TIME).await?;
    let before = Counters::read(&registered, server).await;
    let outcome = load.run(plan(options)).await?;
    let after = Counters::read(&outcome, server).await;

    let calls = outcome.statistics.calls;
    let metrics = &outcome.statistics.metrics;
    let causes = causes(
        [&registered.statistics, &outcome.statistics],
        outcome.unconnected,
    );
    // Users go on registering while others call.
    let mut registration_delay = registered.statistics.metrics.registration_request_delay;
    registration_delay.merge(&metrics.registration_request_delay);
    let seconds = outcome.time.as_secs_f64();
    let per_call =
        |count: u64| (calls.completed > 0).then(|| count as f64 / calls.completed as f64);
    let run = Measurement {
        transport,
        profile,
        loss_percent,
        attempted: calls.decided() + calls.unfinished,
        completed: calls.completed,
        failed: calls.failed,
        causes,
        unfinished: calls.unfinished,
        not_started: outcome.statistics.arrivals.not_started,
        seconds,
        calls_per_second: calls.completed as f64 / seconds,
        users: 2 * u64::from(options.users),
        registered: u64::from(outcome.registered),
        registration_delay_ms: summary(&registration_delay),
        session_request_delay_ms: summary(&metrics.session_request_delay),
        failed_session_request_delay_ms: summary(&metrics.failed_session_request_delay),
        session_disconnect_delay_ms: summary(&metrics.session_disconnect_delay),
        packets_per_call: per_call(after.packets - before.packets),
        bytes_per_call: per_call(after.bytes - before.bytes),
        sip_retransmissions: after.sip_retransmissions - before.sip_retransmissions,
        transport_retransmissions: after.transport_retransmissions
            - before.transport_retransmissions,
    };
    load.shutdown().await;
    Ok(run)
}

/// Calls at the pace that is asked for; those under way when the time is up remain unfinished.
fn plan(options: &Options) -> LoadPlan {
    let (count, time) = match options.end {
        End::Seconds(seconds) => (None, Some(Duration::from_secs_f64(seconds))),
        End::Calls(calls) => (Some(calls), None),
    };
    let pace = match options.rate {
        Some(per_second) => LoadModel::Open(ArrivalPlan {
            pattern: Pattern::Constant { per_second },
            spacing: Spacing::Even,
            count,
            time,
        }),
        None => LoadModel::Closed { count, time },
    };
    LoadPlan {
        in_flight: CALLS_IN_FLIGHT,
        drain: time.map(|_| Duration::ZERO),
        ..LoadPlan::new(GeneratorConfig::CALL, pace)
    }
}

/// What has been counted so far.
#[derive(Clone, Copy, Debug)]
struct Counters {
    /// Between users and proxy, in both directions.
    packets: u64,
    bytes: u64,
    /// Of users and proxy together.
    sip_retransmissions: u64,
    transport_retransmissions: u64,
}

impl Counters {
    /// At the end of what became of the users.
    async fn read(users: &Outcome, server: &Server) -> Counters {
        let proxy = server.statistics().await;
        Counters {
            packets: users.wire.packets(),
            bytes: users.wire.bytes(),
            sip_retransmissions: users.counters.retransmissions
                + proxy.proxy.transactions.retransmissions(),
            transport_retransmissions: users.wire.transport_retransmissions
                + proxy.wire.transport_retransmissions,
        }
    }
}

/// A proxy with all listeners, on ports that the system chooses.
fn proxy_config(transports: SipNetConfig) -> ProxyConfig {
    let listeners = [Transport::Udp, Transport::Tcp, Transport::Sctp].map(|transport| Listen {
        transport,
        address: SocketAddr::new(LOOPBACK, 0),
    });
    ProxyConfig {
        transports: SipNetConfig {
            listeners: listeners.to_vec(),
            ..transports
        },
        // Few callers wait for each answer, and the rest of the demo shares their processors: whatever the server waited
        // for others would be in all delays. A proxy finds that out by itself only in the course of a run: those of a few
        // calls would be over before, and longer ones have a quarter fewer calls a second.
        ..ProxyConfig::default()
    }
}

/// Settings of both sides. The network is one for packets of an Ethernet, whatever the loopback interface carries.
fn transports(profile: Profile) -> SipNetConfig {
    let default = SipNetConfig::default();
    SipNetConfig {
        encapsulation_port: 0,
        sctp: default
            .sctp
            .clone()
            .profile(profile)
            .path_mtu_discovery(false),
        ..default
    }
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The bad network inside the users' sockets; TCP's packets do not pass through ours.
fn impairment(options: &Options, transport: Transport, loss_percent: f64) -> Option<Impairment> {
    if transport == Transport::Tcp || (loss_percent == 0.0 && options.delay.is_zero()) {
        return None;
    }
    let link = link::LinkConfig {
        loss: (loss_percent / 100.0).into(),
        delay: options.delay,
        ..link::LinkConfig::default()
    };
    Some(Impairment {
        outbound: link.clone(),
        inbound: link,
        seed: seed(options.seed, transport, loss_percent),
    })
}

/// A seed for each run, the same whichever other runs are asked for, and with each profile of SCTP.
fn seed(seed: u64, transport: Transport, loss_percent: f64) -> u64 {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    rng.set_stream(loss_percent.to_bits() ^ transport as u64);
    rng.next_u64()
}

fn summary(delays: &Delays) -> DelaySummary {
    // From whole microseconds, so that 0.542 ms is printed as that.
    let milliseconds = |delay: Option<Duration>| delay.map(|delay| delay.as_micros() as f64 / 1e3);
    DelaySummary {
        count: delays.count(),
        mean: milliseconds(delays.mean()),
        p50: milliseconds(delays.quantile(0.5)),
        p95: milliseconds(delays.quantile(0.95)),
        max: milliseconds(delays.maximum()),
        ..DelaySummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_seed_of_its_own() {
        let seeds = [
            seed(1, Transport::Udp, 5.0),
            seed(1, Transport::Sctp, 5.0),
            seed(1, Transport::Udp, 10.0),
            seed(2, Transport::Udp, 5.0),
        ];
        for (index, one) in seeds.iter().enumerate() {
            assert!(!seeds[..index].contains(one));
        }
        assert_eq!(seeds[0], seed(1, Transport::Udp, 5.0));
    }
}
