//! How much is taken: `[limits]`, and in it `[limits.connections]`.

use std::time::Duration;

use super::reader::Section;
use crate::ProxyConfig;
use crate::core::{OverloadPolicy, Policy};

pub(super) fn read(file: &Section<'_, '_>, proxy: &mut ProxyConfig, policy: &mut Policy) {
    file.section("limits", |section| {
        section.live(|| requests(section, &mut policy.overload));
        messages(section, proxy);
        section.section("connections", |section| connections(section, proxy));
    });
}

/// Rates and waits, which may change at any time.
fn requests(section: &Section<'_, '_>, overload: &mut OverloadPolicy) {
    let rate = |name, default: Option<u32>| match section.get(name, default.unwrap_or(0)) {
        0 => None,
        rate => Some(rate),
    };
    overload.requests_per_second = rate("requests_per_second", overload.requests_per_second);
    overload.requests_per_second_per_source = rate(
        "requests_per_second_per_source",
        overload.requests_per_second_per_source,
    );
    overload.unauthenticated_per_second_per_source = rate(
        "unauthenticated_per_second_per_source",
        overload.unauthenticated_per_second_per_source,
    );
    overload.burst = section.within(
        "burst",
        overload.burst,
        ..=Duration::from_secs(600),
        "10min or less",
    );
    overload.maximum_sources = section.get("maximum_sources", overload.maximum_sources);
    overload.queue_delay_target = section.within(
        "queue_delay_target",
        overload.queue_delay_target,
        Duration::from_millis(1)..,
        "1ms or more",
    );
    overload.queue_delay_interval =
        section.get("queue_delay_interval", overload.queue_delay_interval);
    overload.reserved_transactions_percent = section.within(
        "reserved_transactions_percent",
        overload.reserved_transactions_percent,
        ..=90,
        "90 or less",
    );
    overload.retry_after = section.within(
        "retry_after",
        overload.retry_after,
        Duration::from_secs(1)..,
        "1s or more",
    );
}

/// Bounds on what messages make the server hold.
fn messages(section: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    proxy.transactions.max_transactions = section.within(
        "maximum_transactions",
        proxy.transactions.max_transactions,
        1..,
        "1 or more",
    );
    proxy.transactions.max_octets = section.within(
        "maximum_transaction_octets",
        proxy.transactions.max_octets,
        1 << 20..,
        "1048576 or more",
    );
    proxy.maximum_held_octets = section.get("maximum_held_octets", proxy.maximum_held_octets);
    proxy.queries.maximum_parked = section.within(
        "maximum_waiting",
        proxy.queries.maximum_parked,
        1..,
        "1 or more",
    );
    proxy.queries.maximum_resolving = section.within(
        "maximum_resolving",
        proxy.queries.maximum_resolving,
        1..,
        "1 or more",
    );
    let limits = &mut proxy.transports.limits;
    limits.max_header_bytes = section.within(
        "maximum_header_octets",
        limits.max_header_bytes,
        1024..,
        "1024 or more",
    );
    limits.max_body_bytes = section.get("maximum_body_octets", limits.max_body_bytes);
    limits.incoming_queue =
        section.within("incoming_queue", limits.incoming_queue, 1.., "1 or more");
}

/// Bounds on connections and associations.
fn connections(section: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    let limits = &mut proxy.transports.limits;
    limits.max_connections = section.get("maximum", limits.max_connections);
    limits.max_accepted_per_source =
        section.get("maximum_per_source", limits.max_accepted_per_source);
    let time =
        |name, default| section.within(name, default, Duration::from_millis(1).., "1ms or more");
    limits.connect_timeout = time("connect_timeout", limits.connect_timeout);
    limits.first_message_timeout = time("first_message_timeout", limits.first_message_timeout);
    limits.handshake_timeout = time("handshake_timeout", limits.handshake_timeout);
    limits.partial_message_timeout =
        time("partial_message_timeout", limits.partial_message_timeout);
    limits.idle_timeout = time("idle_timeout", limits.idle_timeout);
    limits.half_closed_timeout = time("half_closed_timeout", limits.half_closed_timeout);
    limits.stalled_write_timeout = time("stalled_write_timeout", limits.stalled_write_timeout);
    let count = |name, default| section.within(name, default, 1.., "1 or more");
    limits.all_partial_messages_bytes = count(
        "all_partial_messages_octets",
        limits.all_partial_messages_bytes,
    );
    limits.partial_messages_bytes_per_source = count(
        "partial_messages_octets_per_source",
        limits.partial_messages_bytes_per_source,
    );
    limits.max_handshakes = count("maximum_handshakes", limits.max_handshakes);
    limits.max_handshakes_per_source = count(
        "maximum_handshakes_per_source",
        limits.max_handshakes_per_source,
    );
    limits.max_located_responses =
        section.get("maximum_located_responses", limits.max_located_responses);
    limits.write_queue_messages = count("write_queue_messages", limits.write_queue_messages);
    limits.write_queue_bytes = count("write_queue_octets", limits.write_queue_bytes);
    limits.all_write_queues_bytes = count("all_write_queues_octets", limits.all_write_queues_bytes);
}
