//! What carries the data of a test, the same on both sides: a schedule of sending, counters, and a loop for
//! each transport and direction.

pub(crate) mod sctp;
pub(crate) mod tcp;
pub(crate) mod udp;
mod udp_port;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;
use socket2::SockRef;
use tokio::sync::watch;

use crate::control::FlowTotal;
use crate::{Limit, Pacer, TestParameters};

/// What the bytes of messages are drawn from: they look random, so that nothing on the way can compress
/// them, and are the same in every test.
pub const PAYLOAD_SEED: u64 = 1;

/// Messages that are sent at most without another look at the clock.
const MESSAGES_A_TURN: u64 = 32;

/// How late the last messages of a paced test may still leave: they were due, the timer was late.
const LATENESS: Duration = Duration::from_millis(50);

/// Sets the type of service of IPv4, or the traffic class of IPv6, of what a socket sends to an address or from one. What an
/// IPv6 socket sends to an IPv4-mapped address is IPv4 (RFC 3493 section 3.7).
pub(crate) fn set_type_of_service(socket: SockRef<'_>, tos: u8, address: IpAddr) -> io::Result<()> {
    match address.to_canonical() {
        IpAddr::V4(_) => socket.set_tos_v4(tos.into()),
        IpAddr::V6(_) => socket.set_tclass_v6(tos.into()),
    }
}

/// The contents of a message.
pub(crate) fn payload(size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    ChaCha12Rng::seed_from_u64(PAYLOAD_SEED).fill_bytes(&mut bytes);
    bytes.into()
}

/// What has gone through a flow. It has one writer; anyone may read.
#[derive(Debug)]
pub(crate) struct Counter {
    start: Instant,
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Nanoseconds after `start`; `u64::MAX` when nothing has come.
    first: AtomicU64,
    last: AtomicU64,
}

impl Counter {
    pub(crate) fn new(start: Instant) -> Counter {
        Counter {
            start,
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
        }
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// Counts. Plain loads and stores are enough for one writer, and cost less than an addition that is
    /// safe for several.
    pub(crate) fn add(&self, messages: u64, bytes: usize) {
        let add = |counter: &AtomicU64, more: u64| {
            counter.store(
                counter.load(Ordering::Relaxed).wrapping_add(more),
                Ordering::Relaxed,
            );
        };
        add(&self.messages, messages);
        add(&self.bytes, bytes as u64);
    }

    /// Something arrived just now.
    pub(crate) fn arrived(&self, now: Instant) {
        let after =
            u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX);
        if self.first.load(Ordering::Relaxed) == u64::MAX {
            self.first.store(after, Ordering::Relaxed);
        }
        self.last.store(after, Ordering::Relaxed);
    }

    /// When the first and the last arrived, after the start; `None` when nothing has.
    pub(crate) fn span(&self) -> Option<(Duration, Duration)> {
        let first = self.first.load(Ordering::Relaxed);
        let last = self.last.load(Ordering::Relaxed);
        (first != u64::MAX).then(|| (Duration::from_nanos(first), Duration::from_nanos(last)))
    }

    pub(crate) fn total(&self) -> FlowTotal {
        FlowTotal {
            messages: self.messages.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// Says to senders that they are to stop.
pub(crate) type StopSignal = watch::Receiver<bool>;

/// Whether a stop was asked for.
pub(crate) fn is_stopped(stop: &StopSignal) -> bool {
    *stop.borrow()
}

/// Waits until a stop is asked for, or nobody can ask any more.
pub(crate) async fn stopped(stop: &mut StopSignal) {
    stop.wait_for(|stop| *stop).await.ok();
}

/// What a flow sends, and when.
#[derive(Clone, Debug)]
pub(crate) struct SendPlan {
    pub(crate) payload: Bytes,
    pub(crate) streams: u16,
    pub(crate) unordered: bool,
    /// After which time a message is given up.
    pub(crate) lifetime: Option<Duration>,
    pub(crate) start: Instant,
    /// Messages; without bound when `None`.
    count: Option<u64>,
    /// When no further message begins.
    pub(crate) end: Option<Instant>,
    pacer: Option<Pacer>,
}

/// What a sender does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Send so many messages.
    Send(u64),
    /// Wait.
    Until(Instant),
    /// That was all.
    Done,
}

impl SendPlan {
    /// The plan of flow number `flow` of a test that starts at `start`.
    pub(crate) fn new(test: &TestParameters, flow: usize, start: Instant) -> SendPlan {
        SendPlan {
            payload: payload(test.size),
            streams: test.streams,
            unordered: test.unordered,
            lifetime: test.lifetime,
            start,
            count: test.share_of(flow),
            end: match test.limit {
                Limit::Seconds(seconds) => Duration::try_from_secs_f64(seconds)
                    .ok()
                    .and_then(|length| start.checked_add(length)),
                Limit::Count(_) => None,
            },
            pacer: test
                .bitrate
                .map(|rate| Pacer::new(start, test.size, rate, test.parallel)),
        }
    }

    /// What to do at `now` after `sent` messages.
    pub(crate) fn turn(&self, sent: u64, now: Instant) -> Turn {
        let left = self
            .count
            .map_or(u64::MAX, |count| count.saturating_sub(sent));
        if left == 0 {
            return Turn::Done;
        }
        let Some(pacer) = &self.pacer else {
            return match self.end {
                Some(end) if now >= end => Turn::Done,
                _ => Turn::Send(left.min(MESSAGES_A_TURN)),
            };
        };
        // What is due at the very end does not leave any more.
        let last = self
            .end
            .and_then(|end| end.checked_sub(Duration::from_nanos(1)));
        if last.is_some_and(|last| sent >= pacer.count_by(last))
            || self.end.is_some_and(|end| now >= end + LATENESS)
        {
            return Turn::Done;
        }
        let due = pacer.count_by(last.map_or(now, |last| last.min(now)));
        match due.saturating_sub(sent).min(left).min(MESSAGES_A_TURN) {
            0 => pacer.time_of(sent).map_or(Turn::Done, Turn::Until),
            messages => Turn::Send(messages),
        }
    }

    /// How long sending takes when the transport keeps up with the plan; `None` when that is its affair.
    pub(crate) fn nominal_length(&self) -> Option<Duration> {
        let paced = self.pacer.as_ref().zip(self.count);
        let paced = paced.and_then(|(pacer, count)| pacer.time_of(count));
        let end = match (self.end, paced) {
            (Some(end), Some(paced)) => end.min(paced),
            (end, paced) => end.or(paced)?,
        };
        Some(end.saturating_duration_since(self.start))
    }

    /// When a sender that the transport keeps waiting gives up.
    pub(crate) fn deadline(&self) -> Instant {
        const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.end.unwrap_or_else(|| self.start + FAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bitrate, Protocol};

    #[test]
    fn the_type_of_service_is_that_of_the_packets_of_a_connection() {
        // A socket of both families.
        let listener = std::net::TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for (peer, of_packets) in [("127.0.0.1", [0x10, 0]), ("::1", [0, 0x10])] {
            let peer: IpAddr = peer.parse().unwrap();
            let _peer = std::net::TcpStream::connect((peer, port)).unwrap();
            let (stream, _) = listener.accept().unwrap();
            let local = stream.local_addr().unwrap();
            assert!(local.is_ipv6());
            let socket = SockRef::from(&stream);
            set_type_of_service(SockRef::from(&stream), 0x10, local.ip()).unwrap();
            let set = [socket.tos_v4().unwrap(), socket.tclass_v6().unwrap()];
            assert_eq!(set, of_packets, "{peer}");
        }
    }

    #[test]
    fn messages_look_random_and_are_the_same_every_time() {
        let one = payload(4096);
        assert_eq!(one, payload(4096));
        assert_eq!(one.slice(..64), payload(64));
        let zeros = one.iter().filter(|byte| **byte == 0).count();
        assert!(zeros < 64, "{zeros} zeros");
    }

    #[test]
    fn a_count_is_sent_to_the_last_message() {
        let mut test = TestParameters::new(Protocol::Tcp);
        test.limit = Limit::Count(70);
        let start = Instant::now();
        let plan = SendPlan::new(&test, 0, start);
        let later = start + Duration::from_secs(3600);
        assert_eq!(plan.turn(0, later), Turn::Send(MESSAGES_A_TURN));
        assert_eq!(plan.turn(69, later), Turn::Send(1));
        assert_eq!(plan.turn(70, later), Turn::Done);
    }

    #[test]
    fn time_ends_a_test() {
        let mut test = TestParameters::new(Protocol::Sctp);
        test.limit = Limit::Seconds(1.0);
        let start = Instant::now();
        let plan = SendPlan::new(&test, 0, start);
        assert_eq!(plan.turn(0, start), Turn::Send(MESSAGES_A_TURN));
        let end = start + Duration::from_secs(1);
        assert_eq!(plan.turn(5, end), Turn::Done);
        assert_eq!(plan.deadline(), end);
    }

    /// However late the timers are, as many messages leave as the rate says.
    #[test]
    fn a_paced_test_sends_what_was_due_although_it_wakes_late() {
        let mut test = TestParameters::new(Protocol::Udp);
        test.size = 1000;
        test.bitrate = Bitrate::new(80_000);
        test.limit = Limit::Seconds(2.0);
        let start = Instant::now();
        let plan = SendPlan::new(&test, 0, start);
        let mut now = start;
        let mut sent = 0;
        loop {
            match plan.turn(sent, now) {
                Turn::Send(messages) => sent += messages,
                Turn::Until(due) => now = due + Duration::from_millis(7),
                Turn::Done => break,
            }
        }
        assert_eq!(sent, 20);
    }

    #[test]
    fn arrivals_span_a_time() {
        let start = Instant::now();
        let counter = Counter::new(start);
        assert_eq!(counter.span(), None);
        counter.add(1, 10);
        for milliseconds in [5, 7] {
            counter.arrived(start + Duration::from_millis(milliseconds));
        }
        let span = (Duration::from_millis(5), Duration::from_millis(7));
        assert_eq!(counter.span(), Some(span));
        let total = FlowTotal {
            messages: 1,
            bytes: 10,
        };
        assert_eq!(counter.total(), total);
    }
}
