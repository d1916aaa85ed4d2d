//! Keep-alives of a flow: a double CRLF on connections, STUN over UDP (RFC 5626 section 4.4).

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::{Rng, RngExt};
use sip::Transport;
use sip::stun::{binding_request, read_binding_response};

/// A ping that is not answered for so long means that the flow has failed (section 4.4.1).
const PONG_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a Binding request is sent, and how long the last one is waited for (RFC 8489 section 6.2.1: Rc, Rm, RTO).
const STUN_REQUESTS: u8 = 7;
const STUN_LAST_WAIT: Duration = Duration::from_millis(16 * 500);
const STUN_RTO: Duration = Duration::from_millis(500);
/// From one ping to the next where the registrar names no Flow-Timer, in milliseconds (sections 4.4.1 and 4.4.2).
const CONNECTION_INTERVAL: RangeInclusive<u64> = 95_000..=120_000;
const DATAGRAM_INTERVAL: RangeInclusive<u64> = 24_000..=29_000;
/// The shortest Flow-Timer that is followed, in seconds: a registrar cannot make us send without pause.
const LEAST_FLOW_TIMER: u64 = 5;

/// The keep-alives of a flow.
#[derive(Debug)]
pub(crate) struct KeepAlive {
    is_stun: bool,
    interval: RangeInclusive<u64>,
    /// When the next ping leaves, or the flow has failed.
    due: Instant,
    awaited: Option<Awaited>,
    /// Our address as the server saw it.
    mapped_address: Option<std::net::SocketAddr>,
    /// Whether a ping has been answered: the flow has been of use (section 4.5).
    was_answered: bool,
}

/// A ping that has not been answered yet.
#[derive(Debug)]
struct Awaited {
    /// Of a Binding request.
    transaction: [u8; 12],
    requests: u8,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// This is to be sent.
    Ping(Bytes),
    /// The flow has failed.
    Failed,
}

/// An answer that shows that the flow has failed (section 4.4.2).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FlowFailed;

impl KeepAlive {
    /// Those of a flow whose registration has just succeeded; `flow_timer` is that of the response, in seconds.
    pub(crate) fn new(
        now: Instant,
        transport: Transport,
        flow_timer: Option<u32>,
        rng: &mut impl Rng,
    ) -> KeepAlive {
        let is_stun = transport == Transport::Udp;
        let mut keep_alive = KeepAlive {
            is_stun,
            interval: interval(is_stun, flow_timer),
            due: now,
            awaited: None,
            mapped_address: None,
            was_answered: false,
        };
        keep_alive.rest(now, rng);
        keep_alive
    }

    /// The registration was renewed; the Flow-Timer of that response counts from now on (section 4.4).
    pub(crate) fn renewed(&mut self, now: Instant, flow_timer: Option<u32>, rng: &mut impl Rng) {
        let interval = interval(self.is_stun, flow_timer);
        if interval != self.interval {
            self.interval = interval;
            // A ping that is under way is waited for first.
            if self.awaited.is_none() {
                self.rest(now, rng);
            }
        }
    }

    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    pub(crate) fn was_answered(&self) -> bool {
        self.was_answered
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, rng: &mut impl Rng) -> Due {
        if now < self.due {
            return Due::Nothing;
        }
        let awaited = match &mut self.awaited {
            Some(awaited) if self.is_stun && awaited.requests < STUN_REQUESTS => awaited,
            Some(_) => return Due::Failed,
            None => self.awaited.insert(Awaited {
                transaction: rng.random(),
                requests: 0,
            }),
        };
        if !self.is_stun {
            self.due = now + PONG_TIMEOUT;
            return Due::Ping(Bytes::from_static(b"\r\n\r\n"));
        }
        awaited.requests += 1;
        self.due = now
            + match awaited.requests {
                STUN_REQUESTS => STUN_LAST_WAIT,
                requests => STUN_RTO * (1 << (requests - 1)),
            };
        Due::Ping(binding_request(awaited.transaction).into())
    }

    /// A pong came, or what looks like one.
    pub(crate) fn handle_pong(&mut self, now: Instant, rng: &mut impl Rng) {
        if !self.is_stun && self.awaited.is_some() {
            self.answered(now, rng);
        }
    }

    /// A STUN message came.
    pub(crate) fn handle_stun(
        &mut self,
        now: Instant,
        datagram: &[u8],
        rng: &mut impl Rng,
    ) -> Result<(), FlowFailed> {
        let (Some(awaited), Some(response)) = (&self.awaited, read_binding_response(datagram))
        else {
            return Ok(());
        };
        if awaited.transaction != response.transaction {
            return Ok(());
        }
        // An error, or a NAT that has given us another address.
        let mapped = response.mapped_address.ok_or(FlowFailed)?;
        if self.mapped_address.is_some_and(|before| before != mapped) {
            return Err(FlowFailed);
        }
        self.mapped_address = Some(mapped);
        self.answered(now, rng);
        Ok(())
    }

    fn answered(&mut self, now: Instant, rng: &mut impl Rng) {
        self.awaited = None;
        self.was_answered = true;
        self.rest(now, rng);
    }

    /// Nothing is to be done until the next ping.
    fn rest(&mut self, now: Instant, rng: &mut impl Rng) {
        let wait = rng.random_range(self.interval.clone());
        self.due = now + Duration::from_millis(wait);
    }
}

/// From one ping to the next, in milliseconds: between 80 and 100 % of the Flow-Timer, if the registrar names one.
fn interval(is_stun: bool, flow_timer: Option<u32>) -> RangeInclusive<u64> {
    match flow_timer {
        Some(seconds) => {
            let most = u64::from(seconds).max(LEAST_FLOW_TIMER) * 1_000;
            most / 5 * 4..=most
        }
        None if is_stun => DATAGRAM_INTERVAL,
        None => CONNECTION_INTERVAL,
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;
    use sip::stun::answer_binding;

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn rng() -> ChaCha12Rng {
        ChaCha12Rng::seed_from_u64(1)
    }

    #[test]
    fn pings_leave_between_95_and_120_seconds_apart_and_a_pong_is_waited_for_for_10() {
        let (now, mut rng) = (Instant::now(), rng());
        let mut flow = KeepAlive::new(now, Transport::Sctp, None, &mut rng);
        let mut at = now;
        for _ in 0..20 {
            let pause = flow.due() - at;
            assert!((95..=120).contains(&pause.as_secs()), "{pause:?}");
            at = flow.due();
            let ping = Due::Ping(Bytes::from_static(b"\r\n\r\n"));
            assert_eq!(flow.handle_timeout(at, &mut rng), ping);
            assert_eq!(flow.due(), at + PONG_TIMEOUT);
            flow.handle_pong(at, &mut rng);
        }
        assert!(flow.was_answered());
        at = flow.due();
        flow.handle_timeout(at, &mut rng);
        let before = at + PONG_TIMEOUT - MILLISECOND;
        assert_eq!(flow.handle_timeout(before, &mut rng), Due::Nothing);
        let late = flow.handle_timeout(at + PONG_TIMEOUT, &mut rng);
        assert_eq!(late, Due::Failed);
    }

    #[test]
    fn the_flow_timer_is_kept_with_a_fifth_to_spare() {
        let (now, mut rng) = (Instant::now(), rng());
        for (timer, least, most) in [(120, 96, 120), (0, 4, 5)] {
            for transport in [Transport::Udp, Transport::Tls] {
                let flow = KeepAlive::new(now, transport, Some(timer), &mut rng);
                let pause = flow.due() - now;
                assert!((least..=most).contains(&pause.as_secs()), "{pause:?}");
            }
        }
    }

    #[test]
    fn another_flow_timer_counts_from_the_renewal_on() {
        let (now, mut rng) = (Instant::now(), rng());
        let mut flow = KeepAlive::new(now, Transport::Tcp, Some(120), &mut rng);
        let due = flow.due();
        flow.renewed(now, Some(120), &mut rng);
        assert_eq!(flow.due(), due, "nothing has changed");
        flow.renewed(now, Some(30), &mut rng);
        assert!((24..=30).contains(&(flow.due() - now).as_secs()));
        // The ping that is under way keeps its time.
        let at = flow.due();
        flow.handle_timeout(at, &mut rng);
        flow.renewed(at, None, &mut rng);
        assert_eq!(flow.due(), at + PONG_TIMEOUT);
        flow.handle_pong(at, &mut rng);
        assert!((95..=120).contains(&(flow.due() - at).as_secs()));
    }

    #[test]
    fn binding_requests_are_sent_seven_times() {
        let (now, mut rng) = (Instant::now(), rng());
        let mut flow = KeepAlive::new(now, Transport::Udp, None, &mut rng);
        let begin = flow.due();
        let mut sent = Vec::new();
        loop {
            let at = flow.due();
            match flow.handle_timeout(at, &mut rng) {
                Due::Ping(_) => sent.push((at - begin).as_millis()),
                Due::Failed => {
                    assert_eq!((at - begin).as_millis(), 39_500);
                    break;
                }
                Due::Nothing => panic!("it is due"),
            }
        }
        assert_eq!(sent, [0, 500, 1_500, 3_500, 7_500, 15_500, 31_500]);
        assert!(!flow.was_answered());
    }

    #[test]
    fn another_mapped_address_is_a_failure() {
        let (now, mut rng) = (Instant::now(), rng());
        let mut flow = KeepAlive::new(now, Transport::Udp, None, &mut rng);
        let answer = |flow: &mut KeepAlive, source: &str, rng: &mut ChaCha12Rng| {
            let at = flow.due();
            let Due::Ping(request) = flow.handle_timeout(at, rng) else {
                panic!("a request is due");
            };
            let answer = answer_binding(&request, source.parse().unwrap()).unwrap();
            flow.handle_stun(at, &answer, rng)
        };
        assert_eq!(answer(&mut flow, "192.0.2.1:5060", &mut rng), Ok(()));
        assert_eq!(answer(&mut flow, "192.0.2.1:5060", &mut rng), Ok(()));
        let moved = answer(&mut flow, "192.0.2.1:5061", &mut rng);
        assert_eq!(moved, Err(FlowFailed));
    }

    #[test]
    fn answers_to_what_was_not_asked_change_nothing() {
        let (now, mut rng) = (Instant::now(), rng());
        let mut flow = KeepAlive::new(now, Transport::Udp, None, &mut rng);
        let due = flow.due();
        flow.handle_timeout(due, &mut rng);
        let other = binding_request([7; 12]);
        let forged = answer_binding(&other, "192.0.2.9:1".parse().unwrap()).unwrap();
        assert_eq!(flow.handle_stun(due, &forged, &mut rng), Ok(()));
        flow.handle_pong(due, &mut rng);
        assert!(!flow.was_answered());
    }
}
