//! Results with the names of iperf3's JSON (`iperf3 -J`), where the thing is the same: what reads those reads these.

use serde_json::{Map, Value, json};

use crate::control::FlowTotal;
use crate::result::{Interval, TestResult};
use crate::{Limit, Protocol, TestParameters};

/// The document of a test, and of the one in the other direction that ran at the same time, if there was one. Times since
/// the test began are counted without what was omitted, as iperf3 does.
pub fn document(test: &TestParameters, forth: &TestResult, back: Option<&TestResult>) -> Value {
    let mut end = Map::new();
    let streams = forth.received.flows.iter().zip(&forth.sent.flows);
    let streams: Vec<Value> = streams
        .map(|(received, sent)| stream(test, forth, received, sent))
        .collect();
    end.insert("streams".to_owned(), streams.into());
    add_sums(&mut end, forth, "");
    if let Some(back) = back {
        add_sums(&mut end, back, "_bidir_reverse");
    }
    end.insert("cpu_utilization_percent".to_owned(), cpu(forth));
    let mut document = json!({
        "start": start(test, forth, back.is_some()),
        "intervals": intervals(test, forth, back),
        "end": end,
    });
    if let (Some(error), Some(fields)) = (forth.errors.first(), document.as_object_mut()) {
        fields.insert("error".to_owned(), error.clone().into());
    }
    document
}

fn start(test: &TestParameters, result: &TestResult, is_bidirectional: bool) -> Value {
    let (host, port) = result
        .target
        .split_once(':')
        .and_then(|(_, place)| place.rsplit_once(':'))
        .unwrap_or_default();
    let (duration, blocks) = match test.limit {
        Limit::Seconds(seconds) => (seconds - test.omit_seconds(), 0),
        Limit::Count(count) => (0.0, count),
    };
    json!({
        "version": concat!("tandem ", env!("CARGO_PKG_VERSION")),
        "connecting_to": {
            "host": host.trim_start_matches('[').trim_end_matches(']'),
            "port": port.parse::<u16>().unwrap_or_default(),
        },
        "target_bitrate": bitrate(test),
        "test_start": {
            "protocol": test.protocol.to_string().to_uppercase(),
            "num_streams": test.parallel,
            "blksize": test.size,
            "omit": test.omit_seconds(),
            "duration": duration,
            "bytes": 0,
            "blocks": blocks,
            "reverse": u8::from(test.reverse),
            "bidir": u8::from(is_bidirectional),
            "tos": test.tos.unwrap_or_default(),
            "target_bitrate": bitrate(test),
        },
    })
}

fn bitrate(test: &TestParameters) -> u64 {
    test.bitrate.map_or(0, |rate| rate.bits_per_second())
}

fn intervals(test: &TestParameters, forth: &TestResult, back: Option<&TestResult>) -> Vec<Value> {
    // An interval is a little longer than a second: the last one that is omitted ends after the time that was asked for.
    let omitted = forth.omitted_seconds;
    let omitted_back = back.map_or(0.0, |back| back.omitted_seconds);
    let back = back.map_or(&[][..], |back| &back.intervals);
    let others = back.iter().map(Some).chain(std::iter::repeat(None));
    let both = forth.intervals.iter().zip(others);
    both.map(|(interval, other)| {
        let mut fields = Map::new();
        fields.insert("streams".to_owned(), Value::Array(Vec::new()));
        fields.insert(
            "sum".to_owned(),
            of_interval(interval, omitted, !test.reverse),
        );
        if let Some(other) = other {
            fields.insert(
                "sum_bidir_reverse".to_owned(),
                of_interval(other, omitted_back, test.reverse),
            );
        }
        Value::Object(fields)
    })
    .collect()
}

fn of_interval(interval: &Interval, omitted: f64, is_sender: bool) -> Value {
    let (from, to) = (interval.from_seconds, interval.to_seconds);
    let is_omitted = to <= omitted;
    let shift = if is_omitted { 0.0 } else { omitted };
    let mut fields = span(
        (from - shift).max(0.0),
        to - shift,
        interval.bytes,
        is_sender,
    );
    fields.insert("omitted".to_owned(), is_omitted.into());
    if let Some(count) = interval.retransmissions {
        fields.insert("retransmits".to_owned(), count.into());
    }
    // Of datagrams.
    if let (Some(lost), Some(jitter)) = (interval.lost, interval.jitter_ms) {
        fields.insert("packets".to_owned(), interval.messages.into());
        fields.insert("lost_packets".to_owned(), lost.into());
        fields.insert("jitter_ms".to_owned(), jitter.into());
    }
    Value::Object(fields)
}

/// What both sums and streams have.
fn span(from: f64, to: f64, bytes: u64, is_sender: bool) -> Map<String, Value> {
    let seconds = (to - from).max(0.0);
    let rate = if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    };
    let fields = json!({
        "start": from,
        "end": to,
        "seconds": seconds,
        "bytes": bytes,
        "bits_per_second": rate,
        "sender": is_sender,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn stream(
    test: &TestParameters,
    result: &TestResult,
    received: &FlowTotal,
    sent: &FlowTotal,
) -> Value {
    // Of several streams nobody knows what each had done in the time that is omitted.
    let seconds = match result.received.flows.len() {
        1 => result.seconds,
        _ => result.seconds + result.omitted_seconds,
    };
    let of = |bytes, is_sender| span(0.0, seconds, bytes, is_sender);
    if test.protocol == Protocol::Udp {
        let mut fields = of(received.bytes, !test.reverse);
        let lost = sent.messages.saturating_sub(received.messages);
        add_datagrams(&mut fields, result, sent.messages, lost);
        fields.insert(
            "out_of_order".to_owned(),
            result.udp.map_or(0, |udp| udp.reordered).into(),
        );
        return json!({ "udp": fields });
    }
    json!({ "sender": of(sent.bytes, !test.reverse), "receiver": of(received.bytes, !test.reverse) })
}

fn add_sums(end: &mut Map<String, Value>, result: &TestResult, suffix: &str) {
    let is_sender = !result.reverse;
    let mut sent = span(0.0, result.seconds, result.sent.bytes, is_sender);
    let mut received = span(0.0, result.seconds, result.received.bytes, is_sender);
    if let Some(count) = result.retransmissions {
        sent.insert("retransmits".to_owned(), count.into());
    }
    if let Some(udp) = &result.udp {
        let mut sum = received.clone();
        add_datagrams(&mut sum, result, result.sent.messages, udp.lost);
        end.insert(format!("sum{suffix}"), sum.into());
        add_datagrams(&mut sent, result, result.sent.messages, 0);
        add_datagrams(&mut received, result, result.received.messages, udp.lost);
    }
    end.insert(format!("sum_sent{suffix}"), sent.into());
    end.insert(format!("sum_received{suffix}"), received.into());
}

fn add_datagrams(fields: &mut Map<String, Value>, result: &TestResult, packets: u64, lost: u64) {
    let jitter = result.udp.map_or(0.0, |udp| udp.jitter_ms);
    let percent = match packets {
        0 => 0.0,
        packets => lost as f64 / packets as f64 * 100.0,
    };
    fields.insert("packets".to_owned(), packets.into());
    fields.insert("lost_packets".to_owned(), lost.into());
    fields.insert("lost_percent".to_owned(), percent.into());
    fields.insert("jitter_ms".to_owned(), jitter.into());
}

/// Processor time of this host and of the other one, in percent of the time of the whole test.
fn cpu(result: &TestResult) -> Value {
    let whole = result.seconds + result.omitted_seconds;
    let percent = |time: Option<crate::usage::CpuTime>| {
        let part = |seconds: f64| match whole > 0.0 {
            true => seconds / whole * 100.0,
            false => 0.0,
        };
        time.map_or((0.0, 0.0, 0.0), |time| {
            (
                part(time.total_seconds()),
                part(time.user_seconds),
                part(time.system_seconds),
            )
        })
    };
    let (ours, theirs) = match result.reverse {
        false => (result.cpu.sender, result.cpu.receiver),
        true => (result.cpu.receiver, result.cpu.sender),
    };
    let (host, remote) = (percent(ours), percent(theirs));
    json!({
        "host_total": host.0, "host_user": host.1, "host_system": host.2,
        "remote_total": remote.0, "remote_user": remote.1, "remote_system": remote.2,
    })
}
