//! The names of the metrics, and what they are made of.

mod next_hops;
mod plugins;

use std::fmt;
use std::time::Duration;

use metrics_listener::{Buckets, Labels, Metrics, Observed, Page, SctpAssociation, used, write};
use sip::Transport;
use sip_net::WireStatistics;

use crate::core::{Histogram, LATENCY_BOUNDS, METHOD_CLASSES, method_class_name};
use crate::driver::{Direction, Observer, RESPONSE_CLASSES, Snapshot};

impl Observed for Observer {
    async fn metrics(&self) -> String {
        write(self.snapshot().await)
    }

    async fn readiness(&self) -> Result<(), &'static str> {
        Observer::readiness(self)
    }
}

impl Metrics for Snapshot {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        self.messages(page)?;
        self.latencies(page)?;
        self.state(page)?;
        self.refusals(page)?;
        self.next_hops(page)?;
        self.members(page)?;
        self.names(page)?;
        self.wire(page)?;
        self.sctp(page)?;
        self.location(page)?;
        self.plugins(page)?;
        self.operation(page)
    }
}

impl Snapshot {
    fn messages(&self, page: &mut Page<'_>) -> fmt::Result {
        let traffic = &self.report.traffic;
        let directions = [("received", &traffic.received), ("sent", &traffic.sent)];
        let each = |direction: &(&'static str, &Direction)| {
            let (name, counts) = *direction;
            let rows = (0..METHOD_CLASSES).zip(counts.requests);
            let series = rows.flat_map(move |(class, row)| {
                Transport::ALL
                    .into_iter()
                    .zip(row)
                    .map(move |(transport, count)| {
                        let labels = vec![
                            ("method", method_class_name(class)),
                            ("transport", transport_name(transport)),
                            ("direction", name),
                        ];
                        (labels, count)
                    })
            });
            series.collect::<Vec<_>>()
        };
        page.counters(
            "tandem_sip_requests",
            "SIP requests, including retransmissions",
            used(directions.iter().flat_map(each)),
        )?;
        let each = |direction: &(&'static str, &Direction)| {
            let (name, counts) = *direction;
            let rows = RESPONSE_CLASS_NAMES.into_iter().zip(counts.responses);
            let series = rows.flat_map(move |(class, row)| {
                Transport::ALL
                    .into_iter()
                    .zip(row)
                    .map(move |(transport, count)| {
                        let labels = vec![
                            ("class", class),
                            ("transport", transport_name(transport)),
                            ("direction", name),
                        ];
                        (labels, count)
                    })
            });
            series.collect::<Vec<_>>()
        };
        page.counters(
            "tandem_sip_responses",
            "SIP responses, including retransmissions",
            used(directions.iter().flat_map(each)),
        )?;
        let transactions = &self.report.statistics.transactions;
        page.counters(
            "tandem_sip_retransmissions",
            "SIP messages retransmitted by the transaction layer",
            [
                (
                    vec![("kind", "request")],
                    transactions.request_retransmissions,
                ),
                (
                    vec![("kind", "response")],
                    transactions.response_retransmissions,
                ),
            ],
        )?;
        page.counters(
            "tandem_sip_absorbed",
            "Retransmissions absorbed by the transaction layer",
            [
                (vec![("kind", "request")], transactions.requests_absorbed),
                (vec![("kind", "response")], transactions.responses_absorbed),
            ],
        )
    }

    fn latencies(&self, page: &mut Page<'_>) -> fmt::Result {
        let latencies = &self.report.latencies;
        page.histograms(
            "tandem_sip_first_response_seconds",
            "From a request to the first response other than 100, of requests forwarded or registered",
            by_method(&latencies.first),
        )?;
        page.histograms(
            "tandem_sip_final_response_seconds",
            "From a request to its final response, of requests forwarded or registered",
            by_method(&latencies.last),
        )
    }

    fn state(&self, page: &mut Page<'_>) -> fmt::Result {
        let statistics = &self.report.statistics;
        page.gauge(
            "tandem_transactions",
            "Transactions that have not ended",
            self.report.transactions as f64,
        )?;
        page.counter(
            "tandem_transactions_ended_early",
            "Completed transactions that ended before Timer J fired, to make room for others",
            statistics.transactions.ended_early,
        )?;
        page.gauge(
            "tandem_response_contexts",
            "Requests that are being forwarded and have no final response",
            statistics.response_contexts as f64,
        )?;
        page.gauge(
            "tandem_questions",
            "Queries waiting for the location store or DNS",
            statistics.questions as f64,
        )?;
        page.gauge(
            "tandem_held_bytes",
            "Octets of messages held by requests in progress",
            statistics.held_octets as f64,
        )?;
        page.counters(
            "tandem_calls",
            "Calls by how far they came",
            [
                (vec![("event", "started")], statistics.calls_started),
                (vec![("event", "answered")], statistics.calls_answered),
                (vec![("event", "failed")], statistics.calls_failed),
            ],
        )?;
        page.counter(
            "tandem_registrations",
            "REGISTERs answered 200",
            statistics.registrations,
        )
    }

    fn refusals(&self, page: &mut Page<'_>) -> fmt::Result {
        let statistics = &self.report.statistics;
        let overload = &statistics.overload;
        let reason = |name| vec![("reason", name)];
        page.counters(
            "tandem_drops",
            "Messages refused or dropped without processing",
            [
                (reason("rate"), overload.over_rate),
                (reason("source_rate"), overload.over_source_rate),
                (reason("scan"), overload.scans_ignored),
                (reason("queue_delay"), overload.over_queue_delay),
                (reason("transactions"), overload.over_transactions),
                (reason("draining"), overload.draining),
                (reason("malformed"), statistics.malformed),
                (reason("foreign_response"), statistics.foreign_responses),
                (reason("listed_address"), statistics.dropped_addresses),
                (reason("listed_user_agent"), statistics.dropped_user_agents),
                (
                    reason("stray_response"),
                    statistics.transactions.stray_responses,
                ),
                (reason("stray_ack"), statistics.acknowledgements_dropped),
                (reason("relay"), statistics.relays_denied),
                (
                    reason("no_transaction_room"),
                    statistics.transactions.overloaded,
                ),
                (reason("no_octets_room"), statistics.octets_refused),
                (
                    reason("no_binding_room"),
                    statistics.registrations_without_room,
                ),
                (reason("too_many_questions"), statistics.questions_refused),
                (reason("question_timeout"), statistics.questions_timed_out),
            ],
        )?;
        page.counter(
            "tandem_refusals",
            "Requests answered here with a final response of 300 or more",
            statistics.refused,
        )?;
        page.gauge(
            "tandem_queue_delay_seconds",
            "How long the last message waited between socket and core, in the slowest worker",
            overload.queue_delay.0.as_secs_f64(),
        )?;
        page.gauge(
            "tandem_overloaded",
            "1 while new calls are refused because messages wait too long",
            f64::from(u8::from(overload.is_overloaded.0)),
        )?;
        page.gauge(
            "tandem_sources",
            "Source addresses with a rate of their own",
            overload.sources as f64,
        )
    }

    fn wire(&self, page: &mut Page<'_>) -> fmt::Result {
        for (name, help, count) in WIRE_COUNTERS {
            page.counters(
                name,
                help,
                used(self.wire.iter().map(|(transport, wire)| {
                    (vec![("transport", transport_name(*transport))], count(wire))
                })),
            )?;
        }
        page.gauges(
            "tandem_connections",
            "Connections, associations and client sockets that are open or being opened",
            self.wire.iter().map(|(transport, wire)| {
                let labels = vec![("transport", transport_name(*transport))];
                (labels, wire.connections as f64)
            }),
        )?;
        let causes = self.wire.iter().flat_map(|(transport, wire)| {
            let transport = transport_name(*transport);
            let cause = move |name| vec![("transport", transport), ("cause", name)];
            [
                (cause("partial_message"), wire.partial_message_timeouts),
                (cause("first_message"), wire.first_message_timeouts),
                (cause("idle"), wire.idle_timeouts),
                (cause("stalled_write"), wire.stalled_write_timeouts),
            ]
        });
        page.counters(
            "tandem_connection_timeouts",
            "Connections closed after timeouts of their peers",
            used(causes),
        )?;
        let causes = self.wire.iter().flat_map(|(transport, wire)| {
            let transport = transport_name(*transport);
            let cause = move |name| vec![("transport", transport), ("cause", name)];
            [
                (cause("connections"), wire.connections_displaced),
                (cause("partial_messages"), wire.partial_messages_given_up),
            ]
        });
        page.counters(
            "tandem_connections_given_up",
            "Connections closed because all of them, or the messages that they had not finished, took too much room",
            used(causes),
        )
    }

    fn sctp(&self, page: &mut Page<'_>) -> fmt::Result {
        let shown = self.associations.iter().map(|association| SctpAssociation {
            name: association.connection.0.to_string(),
            local: association.local.to_string(),
            remote: association.remote.to_string(),
            status: association.status.clone(),
            statistics: association.statistics,
        });
        let shown: Vec<SctpAssociation> = shown.collect();
        page.sctp(&shown, self.associations_left_out)
    }

    fn location(&self, page: &mut Page<'_>) -> fmt::Result {
        let location = &self.location;
        page.gauge(
            "tandem_bindings",
            "Contacts that are registered",
            location.bindings as f64,
        )?;
        page.gauge(
            "tandem_addresses_of_record",
            "Users that are or were registered",
            location.addresses_of_record as f64,
        )?;
        page.gauge(
            "tandem_location_bytes",
            "Octets that bindings take in memory",
            location.octets as f64,
        )?;
        page.gauge(
            "tandem_users",
            "Users with a password",
            location.users as f64,
        )?;
        page.counters(
            "tandem_location_updates",
            "Changes made by REGISTERs",
            [
                (vec![("result", "stored")], location.updates),
                (vec![("result", "failed")], location.failed_updates),
            ],
        )?;
        page.counter(
            "tandem_location_commits",
            "Transactions written to disk, each with many changes",
            location.commits,
        )
    }

    fn operation(&self, page: &mut Page<'_>) -> fmt::Result {
        page.counter(
            "tandem_events_dropped",
            "Events lost because log or records were too slow",
            self.report.statistics.events_dropped,
        )?;
        if let Some(records) = &self.records {
            page.counters(
                "tandem_records",
                "Call detail records",
                [
                    (vec![("result", "written")], records.written),
                    (vec![("result", "dropped")], records.dropped),
                ],
            )?;
            page.gauge(
                "tandem_calls_remembered",
                "Calls whose record is written when they end",
                records.open_calls as f64,
            )?;
        }
        page.gauge("tandem_workers", "Workers", self.workers as f64)?;
        page.gauge(
            "tandem_draining",
            "1 while the server drains",
            f64::from(u8::from(self.is_draining)),
        )?;
        page.gauge(
            "tandem_store_failing",
            "1 while the location store loses changes",
            f64::from(u8::from(self.is_store_failing)),
        )?;
        page.process(self.started)
    }
}

const RESPONSE_CLASS_NAMES: [&str; RESPONSE_CLASSES] = ["1xx", "2xx", "3xx", "4xx", "5xx", "6xx"];

/// A counter of the transports: its name, what it counts, and where it is found.
type WireCounter = (&'static str, &'static str, fn(&WireStatistics) -> u64);

const WIRE_COUNTERS: [WireCounter; 15] = [
    ("tandem_packets_sent", "IP packets sent", |wire| {
        wire.packets_sent
    }),
    ("tandem_packets_received", "IP packets received", |wire| {
        wire.packets_received
    }),
    (
        "tandem_sent_bytes",
        "Octets sent, IP headers included",
        |wire| wire.bytes_sent,
    ),
    (
        "tandem_received_bytes",
        "Octets received, IP headers included",
        |wire| wire.bytes_received,
    ),
    (
        "tandem_transport_retransmissions",
        "TCP segments or SCTP DATA chunks retransmitted",
        |wire| wire.transport_retransmissions,
    ),
    ("tandem_keep_alives", "Keep-alives received", |wire| {
        wire.keep_alives
    }),
    (
        "tandem_malformed",
        "Datagrams and streams that were not SIP, except datagrams that begin like a message",
        |wire| wire.malformed,
    ),
    (
        "tandem_incoming_dropped",
        "Datagrams dropped because too many waited for the core",
        |wire| wire.incoming_dropped,
    ),
    ("tandem_send_failures", "Messages not sent", |wire| {
        wire.sends_failed
    }),
    (
        "tandem_undelivered",
        "Datagrams reported undeliverable by ICMP",
        |wire| wire.undelivered,
    ),
    (
        "tandem_places_refused",
        "Addresses named by the Via of a response without a connection, and refused",
        |wire| wire.places_refused,
    ),
    (
        "tandem_connections_accepted",
        "Connections that peers opened",
        |wire| wire.connections_accepted,
    ),
    (
        "tandem_connections_opened",
        "Connections that we opened",
        |wire| wire.connections_opened,
    ),
    (
        "tandem_connections_refused",
        "Connections refused beyond a limit",
        |wire| wire.connections_refused,
    ),
    (
        "tandem_connects_failed",
        "Connections that could not be opened",
        |wire| wire.connects_failed,
    ),
];

fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp => "udp",
        Transport::Tcp => "tcp",
        Transport::Tls => "tls",
        Transport::Sctp => "sctp",
        Transport::TlsSctp => "tls-sctp",
        Transport::Ws => "ws",
        Transport::Wss => "wss",
    }
}

/// Histograms by method, of those methods that there were.
fn by_method(
    histograms: &[Histogram; METHOD_CLASSES],
) -> impl Iterator<Item = (Labels<'static>, Buckets)> {
    let classes = histograms.iter().enumerate();
    let used = classes.filter(|(_, histogram)| histogram.counts.iter().any(|count| *count > 0));
    used.map(|(class, histogram)| {
        let bounds = LATENCY_BOUNDS.iter().map(Duration::as_secs_f64);
        // The encoder's word for infinity.
        let bounds = bounds.chain([f64::MAX]);
        let buckets = Buckets {
            sum: histogram.sum.as_secs_f64(),
            counts: bounds.zip(histogram.counts).collect(),
        };
        (vec![("method", method_class_name(class))], buckets)
    })
}
