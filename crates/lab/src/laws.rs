//! The laws that measurements are held against: what headers leave of a link, what a window lets
//! through, how a queue is shared, and what timers do.
//!
//! Rates are bytes a second, sizes bytes.

use std::ops::RangeInclusive;
use std::time::Duration;

/// IPv4 without options (RFC 791 section 3.1).
const IP_HEADER: usize = 20;
/// RFC 9260 section 3.1.
const SCTP_COMMON_HEADER: usize = 12;
/// RFC 9260 section 3.3.1.
const DATA_CHUNK_HEADER: usize = 16;
/// A SACK without gaps and duplicates (RFC 9260 section 3.3.4).
const SACK_CHUNK: usize = 16;
/// Without options (RFC 9293 section 3.1).
const TCP_HEADER: usize = 20;

/// How a flow's user data travels: so much of it in each full packet, and what acknowledges it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wire {
    /// User data in a full packet.
    pub(crate) user: f64,
    /// A full packet, IP header included.
    pub(crate) packet: f64,
    /// What a packet has of headers, however little it carries.
    pub(crate) headers: f64,
    /// A packet that does nothing but acknowledge, IP header included.
    pub(crate) acknowledgement: f64,
}

impl Wire {
    /// SCTP right over IPv4, with messages that fit into one chunk: as many to a packet as fit
    /// into the MTU, or one without bundling (RFC 9260 sections 3.3.1 and 6.10).
    pub(crate) fn sctp(message: usize, mtu: usize, bundled: bool) -> Wire {
        let chunk = (DATA_CHUNK_HEADER + message).next_multiple_of(4);
        let room = mtu.saturating_sub(IP_HEADER + SCTP_COMMON_HEADER);
        let chunks = if bundled { (room / chunk).max(1) } else { 1 };
        Wire {
            user: (chunks * message) as f64,
            packet: (IP_HEADER + SCTP_COMMON_HEADER + chunks * chunk) as f64,
            headers: (IP_HEADER + SCTP_COMMON_HEADER) as f64,
            acknowledgement: (IP_HEADER + SCTP_COMMON_HEADER + SACK_CHUNK) as f64,
        }
    }

    /// TCP over IPv4 whose segments carry so many bytes of options, such as 12 of timestamps. Of each
    /// `message` + `framing` bytes of the stream `message` are the user's.
    pub(crate) fn tcp(mtu: usize, options: usize, message: usize, framing: usize) -> Wire {
        let headers = IP_HEADER + TCP_HEADER + options;
        let user_share = message as f64 / (message + framing) as f64;
        Wire {
            user: mtu.saturating_sub(headers) as f64 * user_share,
            packet: mtu as f64,
            headers: headers as f64,
            acknowledgement: headers as f64,
        }
    }

    /// The same in UDP (RFC 6951), where full packets leave room for its header.
    pub(crate) fn in_udp(self) -> Wire {
        const UDP_HEADER: f64 = 8.0;
        Wire {
            user: self.user,
            packet: self.packet + UDP_HEADER,
            headers: self.headers + UDP_HEADER,
            acknowledgement: self.acknowledgement + UDP_HEADER,
        }
    }

    /// User data that a saturated link of that rate carries.
    pub(crate) fn goodput(&self, rate: f64) -> f64 {
        rate * self.user / self.packet
    }

    /// Bytes that a window of user data takes on the link.
    pub(crate) fn on_link(&self, window: f64) -> f64 {
        window * self.packet / self.user
    }
}

/// One link and back: so many bytes a second and so much delay each way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SymmetricLink {
    /// Bytes a second of IP packets, in each direction.
    pub(crate) rate: f64,
    /// Each way.
    pub(crate) delay: Duration,
}

impl SymmetricLink {
    /// The round-trip time of a packet that waits for nobody.
    pub(crate) fn round_trip(&self, wire: &Wire) -> f64 {
        2.0 * self.delay.as_secs_f64() + (wire.packet + wire.acknowledgement) / self.rate
    }

    /// The goodput of a single sender with a fixed window: what the link carries after headers, or a
    /// window each round trip, whichever is less (Jungmaier 2000, section 5.1).
    pub(crate) fn goodput(&self, wire: &Wire, window: f64) -> f64 {
        let by_window = window / self.round_trip(wire);
        wire.goodput(self.rate).min(by_window)
    }

    /// The goodput within which a measurement over `span` obeys the law.
    ///
    /// A window is not used to the last byte: `unused` packets of it are not under way, two at
    /// least, for they wait at the receiver until the second of them is acknowledged (RFC 9260
    /// section 6.2, RFC 5681 section 4.2). Nor is it cut into full packets alone: at its end, and where an acknowledgement
    /// has moved it, one may not be full. What arrives comes packet by packet from a link that is
    /// always busy, and a window at a time otherwise: a count of it errs by so much at the ends.
    pub(crate) fn allowed(
        &self,
        wire: &Wire,
        window: f64,
        unused: f64,
        span: Duration,
    ) -> RangeInclusive<f64> {
        let round_trip = self.round_trip(wire);
        let by_link = wire.goodput(self.rate);
        let least_by_link = self.rate * window / (wire.on_link(window) + 2.0 * wire.headers);
        let least_window = (window - unused * wire.user).max(wire.user);
        let low = least_by_link.min(least_window / round_trip);
        let seconds = span.as_secs_f64();
        let packets = 2.0 * wire.user / seconds;
        let lump = window / seconds;
        let is_lumpy = low < least_by_link;
        let high = (by_link + packets).min(window / round_trip + lump);
        low - if is_lumpy { lump } else { packets }..=high
    }
}

/// A sender with a fixed window before a queue that it shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sharer {
    pub(crate) wire: Wire,
    /// User data that may be unacknowledged.
    pub(crate) window: f64,
}

/// The share of a saturated link that each sender gets whose window is always used: what waits in
/// a queue that loses nothing leaves in turn, so each has the share that its window has of all
/// windows, in bytes on the link. The range is what `unused` packets of each window make of it, which
/// wait at a receiver for their acknowledgement, and two that are not full.
pub(crate) fn shares(sharers: &[Sharer], unused: f64) -> Vec<RangeInclusive<f64>> {
    let least = |sharer: &Sharer| {
        let window = (sharer.window - unused * sharer.wire.user).max(sharer.wire.user);
        sharer.wire.on_link(window)
    };
    let most = |sharer: &Sharer| {
        // A window is cut into packets anew each time that it moves: some are not full.
        sharer.wire.on_link(sharer.window + 2.0 * sharer.wire.user)
    };
    let of_others = |index: usize, size: &dyn Fn(&Sharer) -> f64| -> f64 {
        let others = sharers
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index);
        others.map(|(_, sharer)| size(sharer)).sum()
    };
    let share = |own: f64, others: f64| own / (own + others);
    sharers
        .iter()
        .enumerate()
        .map(|(index, sharer)| {
            let low = share(least(sharer), of_others(index, &most));
            low..=share(most(sharer), of_others(index, &least))
        })
        .collect()
}

/// Jain's index of fairness: 1 when all are equal, 1/n when one has everything; of nothing it is
/// no number.
pub(crate) fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    sum * sum / (values.len() as f64 * squares)
}

/// When timers have expired that begin with `rto` and double each time up to `rto_max` (RFC 9260
/// section 6.3.3, rule E2): the times of the first, the second and so on after the start of the
/// first.
pub(crate) fn expiries(rto: Duration, rto_max: Duration) -> impl Iterator<Item = Duration> {
    let timeouts = std::iter::successors(Some(rto.min(rto_max)), move |timeout| {
        Some((*timeout * 2).min(rto_max))
    });
    timeouts.scan(Duration::ZERO, |time, timeout| {
        *time += timeout;
        Some(*time)
    })
}

/// The retransmission timeout of a path as RFC 9260 section 6.3.1 has it, with the parameters of
/// section 16.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timeout {
    /// SRTT and RTTVAR, in seconds, after the first measurement.
    smoothed: Option<(f64, f64)>,
    /// RTO.Min and RTO.Max.
    bounds: (Duration, Duration),
    rto: Duration,
}

impl Timeout {
    /// Before the first measurement (rule C1).
    pub(crate) fn new(initial: Duration, min: Duration, max: Duration) -> Timeout {
        Timeout {
            smoothed: None,
            bounds: (min, max),
            rto: initial,
        }
    }

    /// The timeout.
    pub(crate) fn rto(&self) -> Duration {
        self.rto
    }

    /// A round-trip time was measured (rules C2, C3, C6, C7).
    pub(crate) fn measured(&mut self, rtt: Duration) {
        const ALPHA: f64 = 1.0 / 8.0;
        const BETA: f64 = 1.0 / 4.0;
        let rtt = rtt.as_secs_f64();
        let (srtt, rttvar) = match self.smoothed {
            None => (rtt, rtt / 2.0),
            Some((srtt, rttvar)) => (
                (1.0 - ALPHA) * srtt + ALPHA * rtt,
                (1.0 - BETA) * rttvar + BETA * (srtt - rtt).abs(),
            ),
        };
        self.smoothed = Some((srtt, rttvar));
        let (min, max) = self.bounds;
        self.rto = Duration::from_secs_f64(srtt + 4.0 * rttvar).clamp(min, max);
    }
}

/// How many packets a second a Reno-like sender gets through when each is lost with some probability
/// (Padhye, Firoiu, Towsley and Kurose, 1998, equation 30, for a receiver that acknowledges every packet):
/// beyond what fast retransmit costs it counts the timeouts, which rule where `least_timeout` is far above
/// the round trip.
pub(crate) fn packets_per_second(round_trip: Duration, least_timeout: Duration, loss: f64) -> f64 {
    if loss <= 0.0 {
        return f64::INFINITY;
    }
    let halvings = round_trip.as_secs_f64() * (2.0 * loss / 3.0).sqrt();
    let timeouts = (3.0 * (3.0 * loss / 8.0).sqrt()).min(1.0)
        * loss
        * (1.0 + 32.0 * loss * loss)
        * least_timeout.as_secs_f64();
    1.0 / (halvings + timeouts)
}

/// Why a sender that always has more to send may leave the link idle all the same, once it is up: it has to wait
/// for an acknowledgement or for a timer, and nothing else. Times are seconds, windows packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pauses {
    /// Of a packet that finds no queue, and of its acknowledgement.
    pub(crate) round_trip: f64,
    /// What a full packet takes to leave.
    pub(crate) packet: f64,
    /// What may be sent at first (RFC 9260 section 7.2.1).
    pub(crate) first_window: f64,
    /// By how much slow start opens it for each acknowledgement of two packets.
    pub(crate) growth: f64,
    /// Chunks that were sent again by fast retransmit.
    pub(crate) fast_retransmits: u64,
    /// Acknowledgements that did not come.
    pub(crate) lost_sacks: u64,
    /// Times that T3-rtx expired.
    pub(crate) expiries: u64,
    /// How long it ran those times.
    pub(crate) waited: f64,
    /// SACK.Delay.
    pub(crate) sack_delay: f64,
}

impl Pauses {
    /// All of them together, at most, each with a link that has run dry before:
    ///
    /// - Slow start, until the window fills the link.
    /// - After a fast retransmit the window is half of what it was, and four packets at least (section 7.2.3); a
    ///   round trip passes until what was lost is there, in which the window does not grow.
    /// - A SACK that was lost: the next one comes a round trip later.
    /// - T3-rtx: as long as it ran. Then a window of one packet, whose SACK may be delayed (sections 6.2 and 7.2.3),
    ///   grows by one packet each round trip.
    pub(crate) fn longest(&self) -> f64 {
        const LEAST_WINDOW: f64 = 4.0;
        let slow_start = self.opening(self.first_window, |window| {
            window + self.growth * (window / 2.0).floor().max(1.0)
        });
        let one_more = |window| window + 1.0;
        let fast = self.round_trip + self.opening(LEAST_WINDOW, one_more);
        let expiry = self.round_trip + self.opening(1.0, one_more);
        slow_start
            + self.fast_retransmits as f64 * fast
            + self.lost_sacks as f64 * self.round_trip
            + self.waited
            + self.expiries as f64 * expiry
    }

    /// How long the link is idle while the window opens, one round trip after the other, until it fills the
    /// link. One packet of it may wait at the receiver for its acknowledgement; when it is the only one, until
    /// SACK.Delay has passed (section 6.2).
    fn opening(&self, from: f64, next: impl Fn(f64) -> f64) -> f64 {
        let windows = std::iter::successors(Some(from), |window| Some(next(*window)));
        let idle = windows.map(|window| {
            let delayed = if window < 2.0 { self.sack_delay } else { 0.0 };
            self.round_trip + delayed - (window - 1.0) * self.packet
        });
        idle.take_while(|idle| *idle > 0.0).sum()
    }
}

/// The largest distance between the distribution of a sample and the uniform one from 0 to 1
/// (Kolmogorov and Smirnov).
pub(crate) fn distance_from_uniform(sample: &[f64]) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let distances = sorted.iter().enumerate().map(|(index, value)| {
        let value = value.clamp(0.0, 1.0);
        let (below, up_to) = (index as f64 / count, (index + 1) as f64 / count);
        (value - below).max(up_to - value)
    });
    distances.fold(0.0, f64::max)
}

/// What that distance does not exceed but once in ten thousand samples of this size: Smirnov's
/// limit law, sqrt(ln(2 / 0.0001) / 2) over the root of the size.
pub(crate) fn largest_distance(count: usize) -> f64 {
    ((2.0_f64 / 1e-4).ln() / 2.0 / count as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: SymmetricLink = SymmetricLink {
        rate: 100_000.0,
        delay: Duration::from_millis(200),
    };
    const WINDOW: f64 = 32_768.0;

    fn about(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-6 * expected.abs()
    }

    #[test]
    fn packets_are_as_large_as_the_formats_say() {
        // Twelve chunks of 116 bytes behind 32 of headers; 1376 makes the same packet of one.
        let small = Wire::sctp(100, 1500, true);
        assert_eq!((small.user, small.packet), (1200.0, 1424.0));
        let large = Wire::sctp(1376, 1500, true);
        assert_eq!((large.user, large.packet), (1376.0, 1424.0));
        let alone = Wire::sctp(100, 1500, false);
        assert_eq!((alone.user, alone.packet), (100.0, 148.0));
        // A message of 101 bytes is padded to the same chunk as one of 104.
        assert_eq!(Wire::sctp(101, 1500, false).packet, 152.0);
        assert_eq!((alone.in_udp().user, alone.in_udp().packet), (100.0, 156.0));
        let tcp = Wire::tcp(1500, 12, 1448, 0);
        assert_eq!((tcp.user, tcp.packet), (1448.0, 1500.0));
        assert!(about(Wire::tcp(1500, 0, 96, 4).user, 1460.0 * 0.96));
    }

    #[test]
    fn goodput_is_the_lesser_of_link_and_window() {
        let wire = Wire::sctp(1376, 1500, true);
        let near = SymmetricLink {
            delay: Duration::ZERO,
            ..LINE
        };
        assert!(about(
            near.goodput(&wire, WINDOW),
            100_000.0 * 1376.0 / 1424.0
        ));
        let round_trip = 0.4 + (1424.0 + 48.0) / 100_000.0;
        assert!(about(LINE.round_trip(&wire), round_trip));
        assert!(about(LINE.goodput(&wire, WINDOW), WINDOW / round_trip));
    }

    #[test]
    fn the_allowed_range_is_as_wide_as_two_packets_and_no_wider() {
        let wire = Wire::sctp(1376, 1500, true);
        let span = Duration::from_secs(100_000);
        let allowed = LINE.allowed(&wire, WINDOW, 2.0, span);
        let law = LINE.goodput(&wire, WINDOW);
        assert!(allowed.contains(&law));
        assert!(allowed.contains(&(law * (1.0 - 2750.0 / WINDOW))));
        assert!(!allowed.contains(&(law * (1.0 - 2760.0 / WINDOW))));
        assert!(!allowed.contains(&(law + 1.0)));
        // Ten seconds end somewhere in a window.
        let short = LINE.allowed(&wire, WINDOW, 2.0, Duration::from_secs(10));
        assert!(short.contains(&(law + 3000.0)) && !short.contains(&(law + 3300.0)));
        // Where the link is the limit, the window leaves no room for excuses.
        let near = SymmetricLink {
            delay: Duration::ZERO,
            ..LINE
        };
        let allowed = near.allowed(&wire, WINDOW, 2.0, span);
        let law = wire.goodput(near.rate);
        // Two headers of 32 bytes to a window that is 33,911 on the link.
        assert!(allowed.contains(&(law - 180.0)) && !allowed.contains(&(law - 185.0)));
        assert!(!allowed.contains(&(law + 1.0)));
    }

    #[test]
    fn a_queue_is_shared_as_the_windows_are() {
        let bundled = Sharer {
            wire: Wire::sctp(100, 1500, true),
            window: WINDOW,
        };
        let equal = shares(&[bundled, bundled], 2.0);
        assert_eq!(equal[0], equal[1]);
        assert!(equal[0].contains(&0.5) && !equal[0].contains(&0.56));
        let alone = Sharer {
            wire: Wire::sctp(100, 1500, false),
            ..bundled
        };
        let unequal = shares(&[bundled, alone], 2.0);
        // 1424/1200 against 148/100.
        let share = (1424.0 / 1200.0) / (1424.0 / 1200.0 + 1.48);
        assert!(about(share, 0.445), "{share}");
        assert!(unequal[0].contains(&share) && !unequal[0].contains(&0.49));
        assert!(unequal[1].contains(&(1.0 - share)) && !unequal[1].contains(&0.5));
        assert_eq!(shares(&[bundled], 2.0)[0], 1.0..=1.0);
    }

    #[test]
    fn jains_index_tells_equal_from_unequal() {
        assert!(about(jain(&[5.0, 5.0, 5.0]), 1.0));
        assert!(about(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25));
        assert!(about(jain(&[3.0, 1.0]), 0.8));
        assert!(jain(&[0.0, 0.0]).is_nan());
    }

    #[test]
    fn timeouts_double_up_to_the_maximum() {
        let times = |rto, count| -> Vec<u64> {
            let rto = Duration::from_secs(rto);
            let expiries = expiries(rto, Duration::from_secs(60));
            expiries.take(count).map(|time| time.as_secs()).collect()
        };
        assert_eq!(times(1, 6), [1, 3, 7, 15, 31, 63]);
        assert_eq!(times(30, 3), [30, 90, 150]);
        assert_eq!(times(100, 2), [60, 120]);
    }

    #[test]
    fn the_timeout_follows_the_rules() {
        let milliseconds = Duration::from_millis;
        let mut timeout = Timeout::new(milliseconds(1000), milliseconds(10), milliseconds(60_000));
        assert_eq!(timeout.rto(), milliseconds(1000));
        timeout.measured(milliseconds(100));
        // 100 + 4 * 50.
        assert_eq!(timeout.rto(), milliseconds(300));
        timeout.measured(milliseconds(180));
        // RTTVAR = 3/4 * 50 + 1/4 * 80 = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110.
        assert_eq!(timeout.rto(), milliseconds(340));
        timeout.measured(milliseconds(100_000));
        assert_eq!(timeout.rto(), milliseconds(60_000));
        let mut least = Timeout::new(milliseconds(3000), milliseconds(1000), milliseconds(60_000));
        least.measured(milliseconds(20));
        assert_eq!(least.rto(), milliseconds(1000));
    }

    #[test]
    fn a_sender_slows_down_with_losses_and_with_long_timeouts() {
        let (round_trip, timeout) = (Duration::from_millis(40), Duration::from_secs(1));
        assert_eq!(packets_per_second(round_trip, timeout, 0.0), f64::INFINITY);
        // Where timeouts take no time it is the law of the square root: sqrt(3 / 2 p) a round trip.
        let square_root = packets_per_second(round_trip, Duration::ZERO, 0.06);
        assert!(about(square_root, 5.0 / 0.04), "{square_root}");
        // 0.04 * sqrt(1 / 15) + 3 * sqrt(0.0375) * 0.1 * 1.32
        let slow = packets_per_second(round_trip, timeout, 0.1);
        assert!((slow - 11.50).abs() < 0.01, "{slow}");
    }

    #[test]
    fn a_link_is_idle_while_its_sender_has_to_wait_and_no_longer() {
        let quiet = Pauses {
            round_trip: 10.0,
            packet: 2.0,
            first_window: 3.0,
            growth: 1.0,
            fast_retransmits: 0,
            lost_sacks: 0,
            expiries: 0,
            waited: 0.0,
            sack_delay: 0.2,
        };
        // Windows of 3, 4 and 6 packets, of which one waits: 6 + 4 s, and the third fills the link.
        assert!(about(quiet.longest(), 10.0));
        let large = Pauses {
            first_window: 10.0,
            ..quiet
        };
        assert_eq!(large.longest(), 0.0);
        // One whose acknowledgement is delayed, and then 2, 3 and 4: 10.2 + 7.5 + 5 + 2.5 s.
        let small = Pauses {
            first_window: 1.0,
            packet: 2.5,
            ..quiet
        };
        assert!(about(small.longest(), 10.2 + 7.5 + 5.0 + 2.5));
        // A round trip, and then 4 and 5 packets: 4 + 2 s.
        let fast = Pauses {
            fast_retransmits: 3,
            ..large
        };
        assert!(about(fast.longest(), 3.0 * 16.0));
        let sacks = Pauses {
            lost_sacks: 2,
            ..large
        };
        assert!(about(sacks.longest(), 20.0));
        // The timer, the SACK, a round trip, and windows of 1 to 5: 10 + 8 + 6 + 4 + 2 s.
        let expired = Pauses {
            expiries: 1,
            waited: 1.0,
            ..large
        };
        assert!(about(expired.longest(), 1.0 + 0.2 + 10.0 + 30.0));
    }

    #[test]
    fn what_is_not_uniform_is_far_from_it() {
        let even: Vec<f64> = (0..1000)
            .map(|index| (f64::from(index) + 0.5) / 1000.0)
            .collect();
        assert!(about(distance_from_uniform(&even), 0.0005));
        let most = largest_distance(1000);
        assert!(
            about(most, (4.951_743_776_268_064_f64 / 1000.0).sqrt()),
            "{most}"
        );
        let squeezed: Vec<f64> = even.iter().map(|value| 0.1 + 0.8 * value).collect();
        assert!(distance_from_uniform(&squeezed) > most);
        let bent: Vec<f64> = even.iter().map(|value| value * value).collect();
        assert!(distance_from_uniform(&bent) > most);
    }
}
