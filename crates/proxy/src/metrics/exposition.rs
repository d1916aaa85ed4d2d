//! The names of the metrics, and what they are made of.

mod next_hops;
mod plugins;

use std::fmt;
use std::time::{Duration, SystemTime};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use sip::Transport;
use sip_net::{PathState, PathStatus, SctpAssociation, WireStatistics};

use super::process::Process;
use crate::core::{Histogram, LATENCY_BOUNDS, METHOD_CLASSES, method_class_name};
use crate::driver::{Direction, Observer, RESPONSE_CLASSES, Snapshot};

impl Observer {
    /// All metrics, in the text format of OpenMetrics 1.0.
    pub async fn metrics(&self) -> String {
        write(self.snapshot().await)
    }
}

/// Puts a snapshot into words.
fn write(snapshot: Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    // Only a writer can fail, and a string does not.
    let _ = text::encode(&mut text, &registry);
    text
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.messages(&mut page)?;
        self.latencies(&mut page)?;
        self.state(&mut page)?;
        self.refusals(&mut page)?;
        self.next_hops(&mut page)?;
        self.members(&mut page)?;
        self.names(&mut page)?;
        self.wire(&mut page)?;
        self.sctp(&mut page)?;
        self.location(&mut page)?;
        self.plugins(&mut page)?;
        self.operation(&mut page)
    }
}

/// The labels of a series: names, and values, which may be anything.
type Labels<'a> = Vec<(&'static str, &'a str)>;

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
            &latencies.first,
        )?;
        page.histograms(
            "tandem_sip_final_response_seconds",
            "From a request to its final response, of requests forwarded or registered",
            &latencies.last,
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
        let names: Vec<[String; 3]> = self.associations.iter().map(association_names).collect();
        let each = |value: fn(&SctpAssociation) -> f64| {
            let associations = self.associations.iter().zip(&names);
            associations.map(move |(association, [id, local, remote])| {
                let labels: Labels<'_> =
                    vec![("association", id), ("local", local), ("remote", remote)];
                (labels, value(association))
            })
        };
        page.gauges(
            "tandem_sctp_association_outstanding_bytes",
            "Octets of DATA chunks in flight",
            each(|association| association.status.outstanding_bytes as f64),
        )?;
        page.gauges(
            "tandem_sctp_association_send_buffer_bytes",
            "Octets of user messages that wait to be sent or acknowledged",
            each(|association| association.status.send_buffer_bytes as f64),
        )?;
        page.gauges(
            "tandem_sctp_association_peer_window_bytes",
            "The peer's receive window",
            each(|association| f64::from(association.status.peer_rwnd)),
        )?;
        page.gauges(
            "tandem_sctp_association_retransmitted_chunks",
            "DATA chunks retransmitted since the association began",
            each(|association| {
                let statistics = &association.statistics;
                (statistics.retransmitted_by_timeout + statistics.retransmitted_fast) as f64
            }),
        )?;
        page.gauge(
            "tandem_sctp_associations_left_out",
            "Established associations that are not shown",
            self.associations_left_out as f64,
        )?;
        self.sctp_paths(page, &names)
    }

    fn sctp_paths(&self, page: &mut Page<'_>, names: &[[String; 3]]) -> fmt::Result {
        let mut paths = Vec::new();
        for (association, [id, ..]) in self.associations.iter().zip(names) {
            for path in &association.status.paths {
                paths.push((id.as_str(), path.address.remote.to_string(), path));
            }
        }
        let mut gauges = |name, help, value: fn(&PathStatus) -> f64| {
            let series = paths.iter().map(|(id, address, path)| {
                let labels: Labels<'_> = vec![("association", id), ("address", address)];
                (labels, value(path))
            });
            page.gauges(name, help, series)
        };
        gauges(
            "tandem_sctp_path_active",
            "1 while the path is usable",
            |path| f64::from(u8::from(path.state == PathState::Active)),
        )?;
        gauges(
            "tandem_sctp_path_rtt_seconds",
            "Smoothed round-trip time; 0 before the first measurement",
            |path| path.srtt.unwrap_or_default().as_secs_f64(),
        )?;
        gauges(
            "tandem_sctp_path_rto_seconds",
            "Retransmission timeout",
            |path| path.rto.as_secs_f64(),
        )?;
        gauges(
            "tandem_sctp_path_congestion_window_bytes",
            "Congestion window",
            |path| path.cwnd as f64,
        )?;
        gauges("tandem_sctp_path_errors", "Errors in a row", |path| {
            f64::from(path.error_count)
        })
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
        let process = Process::now(self.started);
        page.seconds(
            "process_cpu_seconds",
            "CPU time of all threads",
            process.cpu,
        )?;
        if let Some(bytes) = process.resident_bytes {
            page.gauge(
                "process_resident_memory_bytes",
                "Resident memory",
                bytes as f64,
            )?;
        }
        if let Some(descriptors) = process.descriptors {
            page.gauge(
                "process_open_fds",
                "Open file descriptors",
                descriptors as f64,
            )?;
        }
        let started = process.started.duration_since(SystemTime::UNIX_EPOCH);
        page.gauge(
            "process_start_time_seconds",
            "When the server was started",
            started.unwrap_or_default().as_secs_f64(),
        )
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

/// What of a list has been counted at all: series that never were anything are left out.
fn used<'a>(
    series: impl IntoIterator<Item = (Labels<'a>, u64)>,
) -> impl Iterator<Item = (Labels<'a>, u64)> {
    series.into_iter().filter(|(_, count)| *count > 0)
}

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

/// What an association is called: its number, and its ends.
fn association_names(association: &SctpAssociation) -> [String; 3] {
    [
        association.connection.0.to_string(),
        association.local.to_string(),
        association.remote.to_string(),
    ]
}

/// A page of metrics that is being written.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, [(Vec::new(), value)])
    }

    fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> fmt::Result {
        let kind = MetricType::Counter;
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in series {
            family
                .encode_family(&Written(labels))?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn seconds(&mut self, name: &str, help: &str, value: Duration) -> fmt::Result {
        let kind = MetricType::Counter;
        self.0
            .encode_descriptor(name, help, None, kind)?
            .encode_counter::<NoLabelSet, _, u64>(&value.as_secs_f64(), None)
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help, [(Vec::new(), value)])
    }

    fn gauges<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            family
                .encode_family(&Written(labels))?
                .encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Histograms by method, of those methods that there were.
    fn histograms(
        &mut self,
        name: &str,
        help: &str,
        histograms: &[Histogram; METHOD_CLASSES],
    ) -> fmt::Result {
        let kind = MetricType::Histogram;
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (class, histogram) in histograms.iter().enumerate() {
            let count: u64 = histogram.counts.iter().sum();
            if count == 0 {
                continue;
            }
            let bounds = LATENCY_BOUNDS.iter().map(Duration::as_secs_f64);
            // The encoder's word for infinity.
            let bounds = bounds.chain([f64::MAX]);
            let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts).collect();
            let labels = vec![("method", method_class_name(class))];
            family
                .encode_family(&Written(labels))?
                .encode_histogram::<NoLabelSet>(
                    histogram.sum.as_secs_f64(),
                    count,
                    &buckets,
                    None,
                )?;
        }
        Ok(())
    }
}

/// Labels whose values are written so that they can be read again, whatever they are: the encoder does
/// not see to that.
#[derive(Debug)]
struct Written<'a>(Labels<'a>);

impl EncodeLabelSet for Written<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let labels: Vec<(&str, String)> = self
            .0
            .iter()
            .map(|(name, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                (*name, value.replace('\n', "\\n"))
            })
            .collect();
        labels.as_slice().encode(encoder)
    }
}
