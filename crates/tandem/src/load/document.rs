//! A run as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use load::arrivals::Validity;
use load::driver::{BackgroundSummary, BackgroundTotal};
use load::statistics::{
    Codes, DelaySummary, Ends, Interval, MetricsSummary, PublishedSummary, Sketch,
};
use serde::Serialize;
use sip_net::WireStatistics;

use super::results::{Registered, Results};
use super::{media, tables};

/// The measurements of a run, as its JSON document has them.
#[derive(Debug, Serialize)]
pub(super) struct RunDocument {
    /// Whether it says something about the server, and if not why.
    validity: Validity,
    /// Why not all was done, where something went wrong.
    error: Option<String>,
    /// From the first arrival to the end of the last attempt.
    seconds: f64,
    /// The rate that was asked for, where it was the same all the time.
    rate_per_second: Option<f64>,
    /// Users of this process.
    users: u64,
    /// The registrations before the run.
    registration: Option<Registered>,
    arrivals: Arrivals,
    calls: Counts,
    served: Counts,
    registrations: Counts,
    requests: Counts,
    failures: BTreeMap<String, u64>,
    /// Final responses by method and status.
    responses: BTreeMap<&'static str, BTreeMap<String, u64>>,
    retransmissions: u64,
    authentications: u64,
    rfc6076: MetricsSummary,
    document_004: PublishedSummary,
    request_delay_ms: DelaySummary,
    lateness_ms: DelaySummary,
    /// Times that the scenario takes, by the names of its timers.
    timers_ms: BTreeMap<String, DelaySummary>,
    generator: Generator,
    /// What TLS agreed on last, by its IANA name.
    tls_cipher_suite: Option<String>,
    wire: Wire,
    background: Option<BackgroundSummary>,
    /// The media of the calls.
    media: Option<media::Summary>,
    /// How long an interval is.
    interval_seconds: f64,
    intervals: Vec<OneInterval>,
}

#[derive(Debug, Serialize)]
struct Arrivals {
    offered: u64,
    started: u64,
    not_started: u64,
    /// Of these, because the maximum was in progress.
    held_back: u64,
}

/// What the generator took and what it saw.
#[derive(Debug, Serialize)]
struct Generator {
    user_seconds: f64,
    system_seconds: f64,
    messages_sent: u64,
    messages_received: u64,
    malformed: u64,
    stray_responses: u64,
    stray_requests: u64,
    /// Messages that peers sent again.
    repeated: u64,
    /// Requests sent to a place that a 3xx had named.
    redirections: u64,
    /// Requests sent by way of the second proxy.
    failovers: u64,
}

/// What went over the wire.
#[derive(Debug, Serialize)]
struct Wire {
    packets_sent: u64,
    packets_received: u64,
    bytes_sent: u64,
    bytes_received: u64,
    transport_retransmissions: u64,
    /// Datagrams for which the generator's sockets had no room.
    incoming_dropped: u64,
    sends_failed: u64,
    connections_opened: u64,
    connects_failed: u64,
}

#[derive(Debug, Serialize)]
struct Counts {
    completed: u64,
    failed: u64,
    unfinished: u64,
    completed_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
struct OneInterval {
    offered: u64,
    started: u64,
    not_started: u64,
    completed: u64,
    failed: u64,
    retransmissions: u64,
    responses: BTreeMap<String, u64>,
    session_request_delay_ms: Percentiles,
    registration_request_delay_ms: Percentiles,
    request_delay_ms: Percentiles,
    lateness_ms: Percentiles,
}

#[derive(Debug, Serialize)]
struct Percentiles {
    count: u64,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl RunDocument {
    pub(super) fn new(results: &Results) -> RunDocument {
        let statistics = &results.statistics;
        let seconds = results.time.as_secs_f64();
        let counts = |ends: Ends| Counts {
            completed: ends.completed,
            failed: ends.failed,
            unfinished: ends.unfinished,
            completed_per_second: (seconds > 0.0).then(|| ends.completed as f64 / seconds),
        };
        let methods = tables::methods(statistics);
        let responses = methods
            .into_iter()
            .map(|(method, codes)| (method, named(codes)))
            .filter(|(_, codes)| !codes.is_empty());
        let failures = statistics.failures.reasons().iter();
        RunDocument {
            validity: results.validity.clone(),
            error: results.failure(),
            seconds,
            rate_per_second: results.requested_rate(),
            users: results.users(),
            registration: results.registration(),
            arrivals: Arrivals {
                offered: statistics.arrivals.offered,
                started: statistics.arrivals.started,
                not_started: statistics.arrivals.not_started,
                held_back: statistics.arrivals.held_back,
            },
            calls: counts(statistics.calls),
            served: counts(statistics.served),
            registrations: counts(statistics.registrations),
            requests: counts(statistics.requests),
            failures: failures
                .map(|(failure, count)| (failure.to_string(), *count))
                .collect(),
            responses: responses.collect(),
            retransmissions: statistics.retransmissions,
            authentications: statistics.authentications,
            rfc6076: statistics.metrics.summary(),
            document_004: statistics.published.summary(),
            request_delay_ms: statistics.request_delay.milliseconds(),
            lateness_ms: statistics.lateness.milliseconds(),
            timers_ms: results
                .timers()
                .map(|(name, delays)| (name.to_owned(), delays.milliseconds()))
                .collect(),
            generator: generator(results),
            tls_cipher_suite: results.tls_cipher_suite().map(str::to_owned),
            wire: wire(results.wire()),
            background: results.background().map(BackgroundTotal::summary),
            media: results.media().map(media::Summary::new),
            interval_seconds: statistics.series.width().as_secs_f64(),
            intervals: statistics
                .series
                .intervals()
                .iter()
                .map(OneInterval::new)
                .collect(),
        }
    }
}

fn generator(results: &Results) -> Generator {
    let counters = results.counters();
    let processor = results.processor();
    Generator {
        user_seconds: processor.user.as_secs_f64(),
        system_seconds: processor.system.as_secs_f64(),
        messages_sent: counters.sent,
        messages_received: counters.received,
        malformed: counters.malformed,
        stray_responses: counters.stray_responses,
        stray_requests: counters.stray_requests,
        repeated: counters.repeated,
        redirections: counters.redirections,
        failovers: counters.failovers,
    }
}

fn wire(wire: &WireStatistics) -> Wire {
    Wire {
        packets_sent: wire.packets_sent,
        packets_received: wire.packets_received,
        bytes_sent: wire.bytes_sent,
        bytes_received: wire.bytes_received,
        transport_retransmissions: wire.transport_retransmissions,
        incoming_dropped: wire.incoming_dropped,
        sends_failed: wire.sends_failed,
        connections_opened: wire.connections_opened,
        connects_failed: wire.connects_failed,
    }
}

impl OneInterval {
    fn new(interval: &Interval) -> OneInterval {
        OneInterval {
            offered: interval.offered,
            started: interval.started,
            not_started: interval.not_started,
            completed: interval.completed,
            failed: interval.failed,
            retransmissions: interval.retransmissions,
            responses: named(&interval.codes),
            session_request_delay_ms: Percentiles::of(&interval.session_request_delay),
            registration_request_delay_ms: Percentiles::of(&interval.registration_request_delay),
            request_delay_ms: Percentiles::of(&interval.request_delay),
            lateness_ms: Percentiles::of(&interval.lateness),
        }
    }
}

impl Percentiles {
    fn of(sketch: &Sketch) -> Percentiles {
        let at = |part| {
            let delay: Option<Duration> = sketch.quantile(part);
            delay.map(|delay| delay.as_secs_f64() * 1e3)
        };
        Percentiles {
            count: sketch.count(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: sketch.maximum().map(|delay| delay.as_secs_f64() * 1e3),
        }
    }
}

fn named(codes: &Codes) -> BTreeMap<String, u64> {
    tables::named(codes).collect()
}
