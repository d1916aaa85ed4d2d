//! Whether those who send wait for what they get.

use std::time::{Duration, Instant};

/// What is known of those who send.
///
/// Some send whenever they want to, however long an answer takes: letting their messages gather costs them some
/// milliseconds each, and saves work. Others, a load generator with a few callers, send the next message when they have
/// the answer to the one before: where messages gather fewer come, and a server that had little to do has less. The two
/// look alike while messages gather. So now and then they do not for a moment: where far more come then, they are not
/// let wait for a while.
#[derive(Debug)]
pub(super) struct Senders {
    phase: Phase,
    began: Instant,
    /// How many messages had come when the phase began.
    before: u64,
    /// How many times in a row far more came where they did not wait.
    more: u32,
}

/// How long messages are to wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::driver) enum Patience {
    /// For as long as they may.
    Full,
    /// For a moment.
    Little,
    /// Not at all.
    None,
}

impl Patience {
    /// For how long they are to wait where they may for the time of `gather`.
    pub(in crate::driver) fn of(self, gather: Duration) -> Duration {
        match self {
            Patience::Full => gather,
            Patience::Little => gather / 8,
            Patience::None => Duration::ZERO,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// It is counted how many come where they gather.
    Gathering,
    /// It is counted how many come where they do not.
    Trying {
        /// How many came in how long while they gathered.
        gathered: (u64, Duration),
    },
    /// They gather, and nothing is counted.
    Settled { until: Instant },
    /// They do not wait, and nothing is counted.
    Hurried { until: Instant },
}

/// Over how long is counted where they gather.
const WINDOW: Duration = Duration::from_millis(40);

/// Over how long is counted where they do not: shorter, for that costs work.
const TRIAL: Duration = Duration::from_millis(16);

/// Who sends, does so more often than that.
const LONGEST_SILENCE: Duration = Duration::from_millis(80);

/// How long messages gather after a silence before it is tried what comes where they do not: what comes in a burst need not
/// wait for an answer.
const BURST: Duration = Duration::from_millis(500);

/// How long what was found holds.
const VALIDITY: Duration = Duration::from_secs(2);

/// So many times as many are far more. More of all that comes by itself come now and then, too, and where a machine is busy
/// they come in bursts: it is believed when it is seen twice.
const FAR_MORE: u64 = 2;

/// How many times in a row far more have to come.
const BELIEVED: u32 = 2;

impl Senders {
    pub(super) fn new(now: Instant) -> Senders {
        Senders {
            phase: Phase::Settled { until: now },
            began: now,
            before: 0,
            more: 0,
        }
    }

    /// How long messages are to wait from now on, so many having come in all.
    pub(super) fn patience(&mut self, now: Instant, messages: u64) -> Patience {
        self.proceed(now, messages);
        match self.phase {
            Phase::Gathering | Phase::Settled { .. } => Patience::Full,
            Phase::Trying { .. } => Patience::Little,
            Phase::Hurried { .. } => Patience::None,
        }
    }

    /// Whether they wait for what they get.
    pub(super) fn wait(&self) -> bool {
        matches!(self.phase, Phase::Hurried { .. })
    }

    fn proceed(&mut self, now: Instant, messages: u64) {
        let elapsed = now.saturating_duration_since(self.began);
        let come = messages.saturating_sub(self.before);
        let (least, longest) = match self.phase {
            Phase::Gathering => (WINDOW, WINDOW + LONGEST_SILENCE),
            Phase::Trying { .. } => (TRIAL, TRIAL + LONGEST_SILENCE),
            Phase::Settled { until } | Phase::Hurried { until } => {
                let validity = until.saturating_duration_since(self.began);
                (validity, validity + LONGEST_SILENCE)
            }
        };
        if elapsed < least {
            return;
        }
        let next = match self.phase {
            _ if elapsed > longest => {
                self.more = 0;
                Phase::Settled { until: now + BURST }
            }
            Phase::Gathering => Phase::Trying {
                gathered: (come, elapsed),
            },
            Phase::Trying {
                gathered: (gathered, in_time),
            } => {
                let is_far_more = u128::from(come) * in_time.as_nanos()
                    > u128::from(FAR_MORE * gathered) * elapsed.as_nanos();
                self.more = match is_far_more {
                    true => self.more + 1,
                    false => 0,
                };
                let until = now + VALIDITY;
                match self.more {
                    0 => Phase::Settled { until },
                    BELIEVED.. => {
                        // The next time it was seen before.
                        self.more = BELIEVED - 1;
                        Phase::Hurried { until }
                    }
                    _ => Phase::Gathering,
                }
            }
            Phase::Settled { .. } | Phase::Hurried { .. } => Phase::Gathering,
        };
        self.phase = next;
        self.began = now;
        self.before = messages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATHER: Duration = Duration::from_millis(4);

    /// Lets a server serve for so long, whose messages come as `come` says when they were let wait for so long. Returns how
    /// many came, and for how much of the time they did not wait.
    fn serve(seconds: u64, mut come: impl FnMut(Instant, Duration) -> u64) -> (u64, f64) {
        let start = Instant::now();
        let mut senders = Senders::new(start);
        let (mut now, mut messages) = (start, 0);
        let mut hurried = Duration::ZERO;
        let end = Duration::from_secs(seconds);
        while now - start < end {
            let patience = senders.patience(now, messages);
            let pause = patience.of(GATHER).max(GATHER / 16);
            assert_eq!(senders.wait(), patience == Patience::None);
            if senders.wait() {
                hurried += pause;
            }
            now += pause;
            messages += come(now, pause);
        }
        (messages, hurried.as_secs_f64() / end.as_secs_f64())
    }

    #[test]
    fn messages_of_those_who_wait_for_answers_do_not_gather() {
        for callers in [1, 8, 100] {
            let (messages, hurried) = serve(60, |_, _| callers);
            assert!(hurried > 0.95, "{callers} callers: {hurried}");
            let at_most = callers * 60 * 4_000;
            assert!(messages > at_most * 9 / 10, "{messages} of {at_most}");
        }
    }

    #[test]
    fn messages_of_others_gather() {
        for a_millisecond in [1, 20] {
            let mut until = None;
            let (messages, hurried) = serve(60, |now, _| {
                // They come every ten milliseconds, as a generator with a coarse clock sends.
                let last = *until.get_or_insert(now);
                let ticks = (now - last).as_millis() as u64 / 10;
                until = Some(last + Duration::from_millis(10 * ticks));
                ticks * 10 * a_millisecond
            });
            assert_eq!(hurried, 0.0);
            assert!(messages > a_millisecond * 59_000, "{messages}");
        }
    }

    #[test]
    fn a_burst_gathers() {
        let start = Instant::now();
        let mut senders = Senders::new(start);
        let (mut now, mut messages) = (start, 0);
        for _ in 0..10 {
            now += Duration::from_secs(1);
            for _ in 0..100 {
                assert_eq!(senders.patience(now, messages), Patience::Full);
                messages += 8;
                now += GATHER;
            }
        }
    }

    #[test]
    fn a_single_burst_is_no_reason() {
        // The processor is another's for some time, before a trial and after it.
        for burst in 0..40 {
            let mut rounds = 0;
            let (_, hurried) = serve(1, |_, pause| {
                rounds += 1;
                let is_burst = rounds == burst;
                pause.as_micros() as u64 / 50 * if is_burst { 40 } else { 1 }
            });
            assert_eq!(hurried, 0.0, "a burst in round {burst}");
        }
    }

    #[test]
    fn what_was_found_holds_for_a_while_only() {
        let mut rounds = 0;
        let (_, hurried) = serve(60, |_, pause| {
            rounds += 1;
            // For the first of some sixty seconds they wait for answers.
            match rounds < 4_000 {
                true => 8,
                false => pause.as_micros() as u64 / 50,
            }
        });
        assert!(hurried > 0.0 && hurried < 0.1, "{hurried}");
    }
}
