//! The heartbeats of one path (RFC 9260 section 8.3): when a HEARTBEAT goes out, and which one the
//! peer has yet to answer.
//!
//! This part knows times only; what they mean for RTO and errors is the path's business.

use std::time::{Duration, Instant};

use rand::{Rng, RngExt};
use rand_chacha::ChaCha12Rng;

use super::path_id::PathId;

/// What our HEARTBEATs carry in their Heartbeat Info: which path, and a nonce.
pub(crate) const HEARTBEAT_INFO_LENGTH: usize = 12;

/// The heartbeats of a path. By default it is not watched.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    /// When the path has been idle for a whole heartbeat period, if nothing else was sent; `None`
    /// while it is not watched.
    due: Option<Instant>,
    /// When `due` was computed.
    scheduled: Option<Instant>,
    /// One should go out as soon as possible.
    wanted: bool,
    /// One should go out beside the next DATA.
    wanted_beside_data: bool,
    /// The one that waits for its answer.
    outstanding: Option<OutstandingHeartbeat>,
}

/// How far apart HEARTBEATs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeartbeatTiming {
    /// The path's.
    pub(crate) rto: Duration,
    /// HB.interval, which is added to the RTO with its jitter. `None`: one in every RTO, as for
    /// paths that are to be verified (section 5.4), or may have failed (RFC 7829 section 3.2).
    pub(crate) interval: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct OutstandingHeartbeat {
    nonce: u64,
    sent: Instant,
    /// One RTO after `sent`. `None` for one beside a retransmission, which shares its fate: T3-rtx
    /// counts the error and backs off, and section 8.2 counts HEARTBEATs to idle addresses only.
    answer_by: Option<Instant>,
}

impl Heartbeats {
    /// Begins to watch the path, one period from now, or at another interval.
    pub(crate) fn start(&mut self, now: Instant, timing: HeartbeatTiming, rng: &mut ChaCha12Rng) {
        self.schedule(now, now, timing, rng);
    }

    /// Begins to watch the path with a HEARTBEAT at once.
    pub(crate) fn start_at_once(&mut self, now: Instant) {
        self.due = Some(now);
        self.scheduled = Some(now);
    }

    /// Ends that. A HEARTBEAT that was asked for still goes out.
    pub(crate) fn stop(&mut self) {
        self.due = None;
    }

    /// Whether the path is watched.
    pub(crate) fn is_watching(&self) -> bool {
        self.due.is_some()
    }

    /// Asks for one to go out as soon as possible.
    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Whether one should go out.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Gives the information of one that goes out now on `path`.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        path: PathId,
        timing: HeartbeatTiming,
        rng: &mut ChaCha12Rng,
    ) -> [u8; HEARTBEAT_INFO_LENGTH] {
        let nonce = rng.next_u64();
        self.wanted = false;
        self.outstanding = Some(OutstandingHeartbeat {
            nonce,
            sent: now,
            answer_by: Some(now + timing.rto),
        });
        if self.is_watching() {
            self.schedule(now, now, timing, rng);
        }
        info_of(path, nonce)
    }

    /// Asks for one in the next packet with DATA, if the path is watched at all.
    pub(crate) fn want_beside_data(&mut self) {
        self.wanted_beside_data = self.due.is_some();
    }

    /// Whether one should go out beside the next DATA.
    pub(crate) fn is_wanted_beside_data(&self) -> bool {
        self.wanted_beside_data
    }

    /// Gives the information of one that goes out now beside DATA; `None` when none was asked for,
    /// or there is no room for it as `has_room` says.
    pub(crate) fn send_beside_data(
        &mut self,
        now: Instant,
        path: PathId,
        has_room: bool,
        rng: &mut ChaCha12Rng,
    ) -> Option<[u8; HEARTBEAT_INFO_LENGTH]> {
        let is_wanted = std::mem::take(&mut self.wanted_beside_data);
        // One to the idle path whose answer may still come will do.
        let is_awaited = self.answer_by().is_some();
        if !is_wanted || !has_room || is_awaited {
            return None;
        }
        let nonce = rng.next_u64();
        self.outstanding = Some(OutstandingHeartbeat {
            nonce,
            sent: now,
            answer_by: None,
        });
        Some(info_of(path, nonce))
    }

    /// Takes in the information of a HEARTBEAT ACK; tells when the HEARTBEAT that it answers was
    /// sent, if it does answer ours.
    pub(crate) fn take_answered(&mut self, path: PathId, info: &[u8]) -> Option<Instant> {
        let answered = self
            .outstanding
            .take_if(|outstanding| info == info_of(path, outstanding.nonce))?;
        Some(answered.sent)
    }

    /// When something is due.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let due = if self.wanted { None } else { self.due };
        [due, self.answer_by()].into_iter().flatten().min()
    }

    /// Whether one was not answered within its RTO; said once.
    pub(crate) fn take_unanswered(&mut self, now: Instant) -> bool {
        let unanswered = self.answer_by().is_some_and(|answer_by| answer_by <= now);
        if unanswered {
            self.outstanding = None;
        }
        unanswered
    }

    /// Whether the path has been idle for a whole period, so that one should go out now;
    /// `data_sent` is when DATA was sent last.
    pub(crate) fn is_due(
        &mut self,
        now: Instant,
        data_sent: Option<Instant>,
        timing: HeartbeatTiming,
        rng: &mut ChaCha12Rng,
    ) -> bool {
        if self.wanted || self.due.is_none_or(|due| due > now) {
            return false;
        }
        if let (Some(data_sent), Some(scheduled)) = (data_sent, self.scheduled)
            && data_sent > scheduled
        {
            self.schedule(now, data_sent, timing, rng);
        }
        self.due.is_some_and(|due| due <= now)
    }

    /// Puts the next one off until then, because none may go out now.
    pub(crate) fn put_off(&mut self, until: Instant) {
        if let Some(due) = &mut self.due {
            *due = until;
        }
    }

    fn answer_by(&self) -> Option<Instant> {
        self.outstanding.and_then(|sent| sent.answer_by)
    }

    /// The next one is due one period after `last_used`: RTO with a jitter of half of it either
    /// way, and HB.interval.
    fn schedule(
        &mut self,
        now: Instant,
        last_used: Instant,
        timing: HeartbeatTiming,
        rng: &mut ChaCha12Rng,
    ) {
        let period = match timing.interval {
            Some(interval) => timing.rto.mul_f64(rng.random_range(0.5..=1.5)) + interval,
            None => timing.rto,
        };
        self.due = Some(last_used + period);
        self.scheduled = Some(now);
    }
}

/// The Heartbeat Info of a HEARTBEAT on `path`.
pub(crate) fn info_of(path: PathId, nonce: u64) -> [u8; HEARTBEAT_INFO_LENGTH] {
    let mut info = [0; HEARTBEAT_INFO_LENGTH];
    let (named, rest) = info.split_at_mut(4);
    named.copy_from_slice(&path.to_be_bytes());
    rest.copy_from_slice(&nonce.to_be_bytes());
    info
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const PACE: HeartbeatTiming = HeartbeatTiming {
        rto: Duration::from_secs(1),
        interval: Some(Duration::from_secs(30)),
    };

    #[test]
    fn one_beside_data_goes_once_and_only_where_there_is_room() {
        let mut heartbeats = Heartbeats::default();
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let now = Instant::now();
        heartbeats.want_beside_data();
        let unwatched = heartbeats.send_beside_data(now, PathId::FIRST, true, &mut rng);
        assert_eq!(unwatched, None);
        heartbeats.start(now, PACE, &mut rng);
        let mut send = |heartbeats: &mut Heartbeats, room| {
            heartbeats.send_beside_data(now, PathId::FIRST, room, &mut rng)
        };
        assert_eq!(send(&mut heartbeats, true), None, "none was asked for");
        heartbeats.want_beside_data();
        assert_eq!(send(&mut heartbeats, false), None);
        assert_eq!(send(&mut heartbeats, true), None, "DATA left without it");
        heartbeats.want_beside_data();
        let lost = send(&mut heartbeats, true).expect("there is room");
        assert_eq!(send(&mut heartbeats, true), None, "once");
        assert!(!heartbeats.take_unanswered(now + Duration::from_secs(20)));
        heartbeats.want_beside_data();
        let info = send(&mut heartbeats, true).expect("the other one was not answered");
        assert_eq!(heartbeats.take_answered(PathId::FIRST, &lost), None);
        assert_eq!(heartbeats.take_answered(PathId::FIRST, &info), Some(now));
    }

    #[test]
    fn one_to_an_idle_path_that_awaits_its_answer_spares_one_beside_data() {
        let mut heartbeats = Heartbeats::default();
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let now = Instant::now();
        heartbeats.start(now, PACE, &mut rng);
        heartbeats.send(now, PathId::FIRST, PACE, &mut rng);
        heartbeats.want_beside_data();
        assert_eq!(
            heartbeats.send_beside_data(now, PathId::FIRST, true, &mut rng),
            None
        );
        assert!(heartbeats.take_unanswered(now + PACE.rto));
    }

    #[test]
    fn one_in_every_rto_goes_to_a_path_without_an_interval() {
        let mut heartbeats = Heartbeats::default();
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let now = Instant::now();
        let timing = HeartbeatTiming {
            interval: None,
            ..PACE
        };
        heartbeats.start_at_once(now);
        assert!(heartbeats.is_due(now, None, timing, &mut rng));
        heartbeats.put_off(now + PACE.rto / 2);
        assert!(!heartbeats.is_due(now, None, timing, &mut rng));
        heartbeats.send(now, PathId::FIRST, timing, &mut rng);
        assert!(!heartbeats.is_due(now + PACE.rto / 2, None, timing, &mut rng));
        assert!(heartbeats.is_due(now + PACE.rto, None, timing, &mut rng));
        heartbeats.stop();
        assert!(!heartbeats.is_due(now + PACE.rto, None, timing, &mut rng));
    }
}
