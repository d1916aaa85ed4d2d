//! The reception of messages: when each was sent, was at the receiver, and was delivered.

use std::time::{Duration, Instant};

use sctp::packet::{Chunk, Packet as SctpPacket};

use super::{Carrier, MESSAGE, WARM};
use crate::difference::Difference;

/// A message that the receiver's user has got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Delivered {
    pub(super) number: u64,
    /// When its sender's user sent it.
    pub(super) sent: Instant,
    pub(super) at: Instant,
}

/// When each message was at the receiver for the first time, by its number.
pub(super) type Arrivals = Vec<Option<Instant>>;

/// What was received in a run.
pub(super) struct Reception {
    /// In the order in which the receiver's user got them.
    pub(super) delivered: Vec<Delivered>,
    pub(super) arrivals: Arrivals,
    /// How late each thing that happened on a host may have been: 99 of 100 wake-ups were no later.
    pub(super) late: Duration,
}

/// The figures of a carrier at a loss.
pub(super) struct Point {
    pub(super) loss_percent: f64,
    pub(super) messages: usize,
    /// Delays from user to user, milliseconds.
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) mean: f64,
    /// How many of the messages waited at the receiver for others, percent, and how long on average over
    /// all messages, milliseconds.
    pub(super) held_percent: f64,
    pub(super) mean_held: f64,
    /// Messages that were delivered before they were due, or not at all.
    pub(super) early: usize,
    /// How long after they were due messages were delivered: 95 of 100 no later, and the last; milliseconds.
    pub(super) p95_late: f64,
    pub(super) most_late: f64,
    /// What a wake-up took, milliseconds.
    pub(super) wake_up: f64,
    /// Messages that were sent within so long, one batch after the other.
    pub(super) batches: Vec<Batch>,
}

/// Messages are compared by batches of those that were sent within so long, three times RTO.Min: what a loss does to
/// one batch is over before most of the next, so that batches hardly depend on each other, which messages do.
pub(super) const BATCH: Duration = Duration::from_secs(3);

/// The figures of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Batch {
    /// Delay from user to user, and for how long messages waited for others on average; milliseconds.
    pub(super) p95: f64,
    pub(super) mean_held: f64,
}

impl Point {
    pub(super) fn of(
        carrier: Carrier,
        loss_percent: f64,
        start: Instant,
        reception: &Reception,
    ) -> Point {
        let due = due(carrier, &reception.arrivals);
        let (mut delays, mut lateness) = (Vec::new(), Vec::new());
        let (mut early, mut held, mut held_for) = (0, 0, 0.0);
        let mut batches: Vec<(Vec<f64>, f64)> = Vec::new();
        for delivered in &reception.delivered {
            if delivered.sent < start + WARM {
                continue;
            }
            let delay = milliseconds(delivered.at.saturating_duration_since(delivered.sent));
            delays.push(delay);
            let batch = (delivered.sent - start - WARM).as_millis() / BATCH.as_millis();
            batches.resize(batches.len().max(batch as usize + 1), <_>::default());
            let (delays_of_batch, held_of_batch) = &mut batches[batch as usize];
            delays_of_batch.push(delay);
            let at = |times: &Arrivals| times.get(delivered.number as usize).copied().flatten();
            let (Some(arrived), Some(due)) = (at(&reception.arrivals), at(&due)) else {
                early += 1;
                continue;
            };
            early += usize::from(delivered.at < due);
            lateness.push(milliseconds(delivered.at.saturating_duration_since(due)));
            if due > arrived {
                let waited = milliseconds(delivered.at.saturating_duration_since(arrived));
                held += 1;
                held_for += waited;
                *held_of_batch += waited;
            }
        }
        for figures in [&mut delays, &mut lateness] {
            figures.sort_by(f64::total_cmp);
        }
        let count = delays.len() as f64;
        Point {
            loss_percent,
            messages: delays.len(),
            least: at(&delays, 0.0),
            median: at(&delays, 0.5),
            p95: at(&delays, 0.95),
            p99: at(&delays, 0.99),
            mean: delays.iter().sum::<f64>() / count,
            held_percent: 100.0 * f64::from(held) / count,
            mean_held: held_for / count,
            early,
            p95_late: at(&lateness, 0.95),
            most_late: at(&lateness, 1.0),
            wake_up: milliseconds(reception.late),
            batches: whole(batches),
        }
    }

    /// By how much a figure of its batches is above that of another's.
    pub(super) fn above(&self, other: &Point, figure: fn(&Batch) -> f64) -> Difference {
        let [ours, others] = [self, other].map(|point| point.batches.iter().map(figure));
        Difference::of(ours, others)
    }
}

/// All batches but the last, in which not everything was sent.
fn whole(mut batches: Vec<(Vec<f64>, f64)>) -> Vec<Batch> {
    batches.pop();
    let told = batches.into_iter().map(|(mut delays, held)| {
        delays.sort_by(f64::total_cmp);
        Batch {
            p95: at(&delays, 0.95),
            mean_held: held / delays.len() as f64,
        }
    });
    told.collect()
}

/// The figure that such a part of all does not exceed; they are sorted.
fn at(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    let figure = sorted.get(rank.clamp(1, sorted.len().max(1)) - 1);
    figure.copied().unwrap_or(f64::NAN)
}

/// When each message is to be delivered: as soon as it and all before it in its order have come.
fn due(carrier: Carrier, arrivals: &Arrivals) -> Arrivals {
    let mut latest = std::collections::BTreeMap::new();
    (0..)
        .zip(arrivals)
        .map(|(number, &arrived)| {
            let Some(order) = carrier.order(number) else {
                return arrived;
            };
            // What has not come holds up all that follows, for ever.
            let latest = latest.entry(order).or_insert(arrived);
            *latest = arrived.and_then(|arrived| latest.map(|latest| arrived.max(latest)));
            *latest
        })
        .collect()
}

/// When messages of SCTP came, from the packets that came.
pub(super) fn arrivals_over_sctp<'a>(
    packets: impl Iterator<Item = (Instant, &'a [u8])>,
    messages: usize,
) -> Arrivals {
    let mut arrivals = vec![None; messages];
    for (at, packet) in packets {
        let Ok(packet) = SctpPacket::read(packet) else {
            continue;
        };
        for chunk in packet.chunks() {
            let Ok(Chunk::Data(data)) = chunk else {
                continue;
            };
            // Messages are whole in a chunk, and begin with their number.
            let number = number(data.user_data);
            let slot = number.and_then(|number| arrivals.get_mut(number as usize));
            if let Some(slot) = slot {
                slot.get_or_insert(at);
            }
        }
    }
    arrivals
}

/// The number that a message begins with.
pub(super) fn number(message: &[u8]) -> Option<u64> {
    message
        .first_chunk()
        .map(|bytes| u64::from_be_bytes(*bytes))
}

/// The same over TCP, from packets of IPv4, where each message has so many bytes of framing.
pub(super) fn arrivals_over_tcp<'a>(
    packets: impl Iterator<Item = (Instant, &'a [u8])>,
    messages: usize,
    framing: usize,
) -> Arrivals {
    let frame = MESSAGE + framing;
    let mut arrivals = vec![None; messages];
    let mut missing = vec![frame; messages];
    let mut has_come = vec![false; frame * messages];
    let mut first = None;
    for (at, packet) in packets {
        let Some((sequence, is_syn, payload)) = segment(packet) else {
            continue;
        };
        if is_syn {
            // The SYN takes a number of its own (RFC 9293 section 3.4).
            first = Some(sequence.wrapping_add(1));
        }
        let Some(first) = first else { continue };
        let begin = sequence.wrapping_sub(first) as usize;
        for place in begin..begin.saturating_add(payload.len()) {
            let Some(here) = has_come.get_mut(place).filter(|here| !**here) else {
                continue;
            };
            *here = true;
            let number = place / frame;
            missing[number] -= 1;
            if missing[number] == 0 {
                arrivals[number] = Some(at);
            }
        }
    }
    arrivals
}

/// Sequence number, SYN and payload of a TCP segment in an IPv4 packet (RFC 791 section 3.1, RFC 9293
/// section 3.1).
fn segment(packet: &[u8]) -> Option<(u32, bool, &[u8])> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes(*packet.get(2..)?.first_chunk()?));
    let tcp = packet.get(header..total)?;
    let sequence = u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?);
    let data = usize::from(tcp.get(12)? >> 4) * 4;
    let is_syn = tcp.get(13)? & 0x02 != 0;
    Some((sequence, is_syn, tcp.get(data..)?))
}

/// What a UDP datagram in an IPv4 packet carries (RFC 791 section 3.1, RFC 768).
pub(super) fn datagram(packet: &[u8]) -> Option<&[u8]> {
    const UDP: u8 = 17;
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes(*packet.get(2..)?.first_chunk()?));
    let is_udp = *packet.get(9)? == UDP;
    let datagram = packet.get(header..total).filter(|_| is_udp)?;
    let length = usize::from(u16::from_be_bytes(*datagram.get(4..)?.first_chunk()?));
    datagram.get(8..length)
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(start: Instant, milliseconds: &[u64]) -> Arrivals {
        let at = |time: &u64| Some(start + Duration::from_millis(*time));
        milliseconds.iter().map(at).collect()
    }

    #[test]
    fn a_message_waits_for_those_before_it_in_its_own_order() {
        let start = Instant::now();
        let mut came = vec![10, 30, 20];
        came.extend([25; 99]);
        let arrivals = times(start, &came);
        let one = due(Carrier::OneStream, &arrivals);
        assert_eq!(one[..4], times(start, &[10, 30, 30, 30]));
        let calls = due(Carrier::StreamACall, &arrivals);
        // The second message of the second call waits for the first.
        assert_eq!(calls[2..4], times(start, &[20, 25]));
        assert_eq!(calls[100..102], times(start, &[25, 30]));
        assert_eq!(due(Carrier::Unordered, &arrivals), arrivals);
    }

    #[test]
    fn what_never_came_lets_nothing_after_it_be_due() {
        let start = Instant::now();
        let mut arrivals = times(start, &[10, 20, 30]);
        arrivals[1] = None;
        let due = due(Carrier::Tcp, &arrivals);
        assert_eq!(due, [arrivals[0], None, None]);
    }

    /// The second message is lost and comes 60 ms later; the third has to wait for it, or not.
    #[test]
    fn messages_delivered_before_their_time_or_late_are_found() {
        let start = Instant::now();
        let time = |milliseconds| start + WARM + Duration::from_millis(milliseconds);
        let delivered = |number, at| Delivered {
            number,
            sent: time(5 * number),
            at: time(at),
        };
        let arrivals = vec![Some(time(25)), Some(time(90)), Some(time(35))];
        let reception = |third| Reception {
            delivered: vec![delivered(0, 25), delivered(1, 90), delivered(2, third)],
            arrivals: arrivals.clone(),
            late: Duration::ZERO,
        };
        let in_order = Point::of(Carrier::OneStream, 1.0, start, &reception(90));
        assert_eq!((in_order.early, in_order.most_late), (0, 0.0));
        assert!((in_order.mean_held - 55.0 / 3.0).abs() < 1e-9);
        assert_eq!((in_order.least, in_order.median), (25.0, 80.0));
        let early = Point::of(Carrier::OneStream, 1.0, start, &reception(35));
        assert_eq!(early.early, 1);
        // It has nothing to wait for, and waits.
        let late = Point::of(Carrier::StreamACall, 1.0, start, &reception(90));
        assert_eq!((late.early, late.p95_late, late.mean_held), (0, 55.0, 0.0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_segment_or_none(bytes: Vec<u8>) {
            let _ = segment(&bytes);
            let _ = datagram(&bytes);
        }

        #[test]
        fn a_datagram_is_what_was_put_in(payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let total = (28 + payload.len()) as u16;
            let length = (8 + payload.len()) as u16;
            let mut packet = vec![0x45, 0];
            packet.extend(total.to_be_bytes());
            packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            packet.extend([0x13, 0x89, 0x13, 0x89]);
            packet.extend(length.to_be_bytes());
            packet.extend([0, 0]);
            packet.extend(&payload);
            packet.extend([1, 2, 3]);
            prop_assert_eq!(datagram(&packet), Some(&payload[..]));
        }
    }
}
