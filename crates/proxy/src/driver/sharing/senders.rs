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
    gather: Duration,
    phase: Phase,
    began: Instant,
    /// What has come in this phase, once it is counted.
    count: Option<Count>,
    /// How many messages had come when it was last asked.
    messages: u64,
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

/// What there was to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::driver) struct Work {
    /// How many messages.
    pub(in crate::driver) messages: u64,
    /// How many of them are no REGISTERs.
    pub(in crate::driver) others: u64,
    /// How many of them came along connections of TCP, and waited in no socket for datagrams.
    pub(in crate::driver) streamed: u64,
    /// How many of them came along associations: their packets wait in a socket for datagrams, but whoever sends more than
    /// there is room for is told to wait, too.
    pub(in crate::driver) associated: u64,
}

impl Work {
    /// With so many messages, those that come next wait as long as they may, with fewer half as long.
    pub(in crate::driver) const MANY: u64 = 16;

    /// Many that have come along connections.
    const STREAMED: Work = Work {
        messages: Work::MANY,
        others: Work::MANY,
        streamed: Work::MANY,
        associated: 0,
    };

    /// For how long those wait that come next, where they may for the time of `gather`.
    ///
    /// Nobody listens to his telephone while it registers: where there was nothing else, they may for four times that time,
    /// as long as the buffers of the kernel hold what comes meanwhile, else for twice. For twice that time, too, where all came
    /// along connections of TCP, where whoever sends more than the buffers hold is told to wait, and nothing is lost; and where
    /// some came along associations, as long as the buffers do hold it, for what is lost there is sent again.
    pub(in crate::driver) fn gathering(self, gather: Duration) -> Duration {
        /// A socket, which may be the one that all come to, holds some 330 small datagrams where the kernel gives it no more
        /// than it does by default.
        const FULL: u64 = 224;
        /// Longer than that nobody waits for others, unless `gather` says so.
        const LONGEST: Duration = Duration::from_millis(20);
        let longest = gather.max(LONGEST);
        let datagrams = self.messages.saturating_sub(self.streamed);
        let lone = datagrams.saturating_sub(self.associated);
        match (self.messages, self.others, datagrams) {
            (..Work::MANY, ..) => gather / 2,
            (..FULL, 0, _) => longest.min(gather * 4),
            (_, 0, _) | (_, _, 0) => longest.min(gather * 2),
            (..FULL, ..) if lone == 0 => longest.min(gather * 2),
            _ => gather,
        }
    }

    /// What has come since there was so much.
    pub(in crate::driver) fn since(self, before: Work) -> Work {
        Work {
            messages: self.messages.wrapping_sub(before.messages),
            others: self.others.wrapping_sub(before.others),
            streamed: self.streamed.wrapping_sub(before.streamed),
            associated: self.associated.wrapping_sub(before.associated),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// It is counted how many come where they gather.
    Gathering,
    /// It is counted how many come where they do not.
    Trying { gathered: Rate },
    /// They gather for so long, and nothing is counted.
    Settled(Duration),
    /// They do not wait for so long, and nothing is counted.
    Hurried(Duration),
}

#[derive(Clone, Copy, Debug)]
struct Count {
    since: Instant,
    /// How many had come before.
    before: u64,
    /// How many times it was asked meanwhile, and how many of these there were new messages.
    asked: u32,
    had_new: u32,
}

/// So many messages in so long.
#[derive(Clone, Copy, Debug)]
struct Rate {
    messages: u64,
    time: Duration,
}

/// Over how long is counted where they gather.
const WINDOW: Duration = Duration::from_millis(40);

/// Over how long is counted where they do not: shorter, for that costs work.
const TRIAL: Duration = Duration::from_millis(16);

/// What has waited in several steps of a call comes at once where it does not wait any more, and is missing where it
/// waits again: for so many times as long as messages gather nothing is counted.
const STEPS: u32 = 4;

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
    /// Of those whose messages may wait for so long.
    pub(super) fn new(gather: Duration, now: Instant) -> Senders {
        Senders {
            gather,
            phase: Phase::Settled(BURST),
            began: now,
            count: None,
            messages: 0,
            more: 0,
        }
    }

    /// How long messages are to wait from now on, so many having come in all, and until when that is so if it is known.
    pub(super) fn patience(&mut self, now: Instant, messages: u64) -> (Patience, Option<Instant>) {
        if let Some(next) = self.next(now, messages) {
            self.phase = next;
            self.began = now;
            self.count = None;
        }
        self.messages = messages;
        match self.phase {
            Phase::Gathering => (Patience::Full, None),
            Phase::Trying { .. } => (Patience::Little, None),
            Phase::Settled(time) => (Patience::Full, Some(self.began + time)),
            Phase::Hurried(time) => (Patience::None, Some(self.began + time)),
        }
    }

    /// Whether they wait for what they get.
    pub(super) fn wait(&self) -> bool {
        matches!(self.phase, Phase::Hurried(_))
    }

    /// The phase that begins now, if one does.
    fn next(&mut self, now: Instant, messages: u64) -> Option<Phase> {
        let elapsed = now.saturating_duration_since(self.began);
        let (least, gathered) = match self.phase {
            Phase::Settled(time) | Phase::Hurried(time) => {
                return match elapsed {
                    _ if elapsed < time => None,
                    _ if elapsed > time + LONGEST_SILENCE => Some(self.after_silence()),
                    _ => Some(Phase::Gathering),
                };
            }
            Phase::Gathering => (WINDOW, None),
            Phase::Trying { gathered } => (TRIAL, Some(gathered)),
        };
        let Some(count) = &mut self.count else {
            // Those that come along connections wait longest of all that somebody waits for.
            if elapsed >= STEPS * Work::STREAMED.gathering(self.gather) {
                self.count = Some(Count {
                    since: now,
                    before: messages,
                    asked: 0,
                    had_new: 0,
                });
            }
            return None;
        };
        count.asked += 1;
        count.had_new += u32::from(messages > self.messages);
        let come = Rate {
            messages: messages.saturating_sub(count.before),
            time: now.saturating_duration_since(count.since),
        };
        if come.time < least {
            return None;
        }
        // What comes in bursts, by a clock of its own, is not what somebody waits with.
        let is_steady = count.had_new * 2 >= count.asked;
        if come.time > least + LONGEST_SILENCE {
            return Some(self.after_silence());
        }
        Some(match gathered {
            None => Phase::Trying { gathered: come },
            Some(gathered) => self.tried(is_steady && come.is_far_more_than(gathered)),
        })
    }

    fn after_silence(&mut self) -> Phase {
        self.more = 0;
        Phase::Settled(BURST)
    }

    /// It was tried, and far more came, or did not.
    fn tried(&mut self, came_far_more: bool) -> Phase {
        self.more = match came_far_more {
            true => self.more + 1,
            false => 0,
        };
        match self.more {
            0 => Phase::Settled(VALIDITY),
            BELIEVED.. => {
                // The next time it was seen before.
                self.more = BELIEVED - 1;
                Phase::Hurried(VALIDITY)
            }
            _ => Phase::Gathering,
        }
    }
}

impl Rate {
    fn is_far_more_than(self, other: Rate) -> bool {
        u128::from(self.messages) * other.time.as_nanos()
            > u128::from(FAR_MORE * other.messages) * self.time.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    const GATHER: Duration = Duration::from_millis(4);

    /// Lets a server that lets messages gather for so long serve for some seconds, whose messages come as `come` says when they
    /// were let wait until then. Returns how many came, and for how much of the time they did not wait.
    fn serve(gather: Duration, seconds: u64, come: impl FnMut(Duration) -> u64) -> (u64, f64) {
        serve_patiently(gather, 1, seconds, come)
    }

    /// As [`serve`], messages gathering for so many times as long.
    fn serve_patiently(
        gather: Duration,
        times: u32,
        seconds: u64,
        mut come: impl FnMut(Duration) -> u64,
    ) -> (u64, f64) {
        let start = Instant::now();
        let mut senders = Senders::new(gather, start);
        let (mut now, mut messages) = (start, 0);
        let mut hurried = Duration::ZERO;
        let end = Duration::from_secs(seconds);
        while now - start < end {
            let (patience, until) = senders.patience(now, messages);
            assert_eq!(senders.wait(), patience == Patience::None);
            assert!(until.is_none_or(|until| until > now));
            let pause = (times * patience.of(gather)).max(GATHER / 16);
            if senders.wait() {
                hurried += pause;
            }
            now += pause;
            messages += come(now - start);
        }
        (messages, hurried.as_secs_f64() / end.as_secs_f64())
    }

    #[test]
    fn messages_of_those_who_wait_for_answers_do_not_gather() {
        for (callers, times) in [(1, 1), (8, 1), (100, 1), (8, 2), (100, 2)] {
            let (messages, hurried) = serve_patiently(GATHER, times, 60, |_| callers);
            assert!(hurried > 0.93, "{callers} callers: {hurried}");
            let at_most = callers * 60 * 4_000;
            assert!(messages > at_most * 9 / 10, "{messages} of {at_most}");
        }
    }

    #[test]
    fn messages_that_come_by_a_clock_gather() {
        for (a_tick, tick) in [
            (1, 1),
            (5, 200),
            (10, 100),
            (30, 300),
            (40, 9),
            (50, 300),
            (70, 100),
        ] {
            let mut ticks = 0;
            let (messages, hurried) = serve(GATHER, 60, |time| {
                let before = std::mem::replace(&mut ticks, time.as_millis() as u64 / a_tick);
                (ticks - before) * tick
            });
            assert_eq!(hurried, 0.0, "{tick} each {a_tick} ms");
            assert!(messages >= 59_900 / a_tick * tick, "{messages}");
        }
    }

    /// A step of a call comes when the one before is answered, which takes the server as long as it lets messages wait.
    #[test]
    fn steps_of_calls_that_come_by_themselves_gather() {
        for steps_of_a_call in [5, 11] {
            calls_of_so_many_steps_gather(steps_of_a_call);
        }
    }

    fn calls_of_so_many_steps_gather(steps_of_a_call: u64) {
        const THERE_AND_BACK: Duration = Duration::from_micros(100);
        let gather = [1, 4, 8, 20].map(|time| (Duration::from_millis(time), 1));
        // As along connections of TCP.
        let streamed = [(GATHER, 2), (Duration::from_millis(10), 2)];
        for (gather, times) in gather.into_iter().chain(streamed) {
            for a_second in [500, 5_000] {
                let between = Duration::from_secs(1) / a_second;
                let mut next_call = Duration::ZERO;
                let mut steps = BinaryHeap::new();
                let (messages, hurried) = serve_patiently(gather, times, 30, |time| {
                    while next_call <= time {
                        steps.push(Reverse((next_call, 1)));
                        next_call += between;
                    }
                    let mut come = 0;
                    while let Some(&Reverse((at, step))) = steps.peek()
                        && at <= time
                    {
                        steps.pop();
                        come += 1;
                        if step < steps_of_a_call {
                            steps.push(Reverse((time + THERE_AND_BACK, step + 1)));
                        }
                    }
                    come
                });
                assert_eq!(hurried, 0.0, "{a_second} calls a second, {gather:?}");
                assert!(messages > 29 * u64::from(a_second) * steps_of_a_call);
            }
        }
    }

    #[test]
    fn what_comes_along_connections_alone_waits_twice_as_long() {
        let gathering = |messages, others, datagrams| {
            let work = Work {
                messages,
                others,
                streamed: messages - datagrams,
                associated: 0,
            };
            work.gathering(GATHER)
        };
        assert_eq!(gathering(Work::MANY, Work::MANY, Work::MANY), GATHER);
        assert_eq!(gathering(Work::MANY, Work::MANY, 1), GATHER);
        assert_eq!(gathering(Work::MANY, Work::MANY, 0), 2 * GATHER);
        assert_eq!(gathering(Work::MANY - 1, Work::MANY - 1, 0), GATHER / 2);
        // REGISTERs alone, however they come.
        assert_eq!(gathering(Work::MANY, 0, 0), 4 * GATHER);
        assert_eq!(gathering(1_000, 0, 1_000), 2 * GATHER);
        let work = Work {
            messages: 100,
            others: 100,
            streamed: 100,
            associated: 0,
        };
        let longest = Duration::from_millis(20);
        assert_eq!(work.gathering(Duration::from_millis(15)), longest);
    }

    #[test]
    fn what_comes_along_associations_waits_so_as_long_as_a_socket_holds_it() {
        let gathering = |messages, streamed, associated| {
            let work = Work {
                messages,
                others: messages,
                streamed,
                associated,
            };
            work.gathering(GATHER)
        };
        assert_eq!(gathering(16, 0, 16), 2 * GATHER);
        assert_eq!(gathering(16, 1, 15), 2 * GATHER);
        assert_eq!(gathering(16, 1, 14), GATHER, "one came over UDP");
        assert_eq!(gathering(223, 0, 223), 2 * GATHER);
        assert_eq!(gathering(224, 100, 124), GATHER);
        assert_eq!(gathering(224, 224, 0), 2 * GATHER);
    }

    #[test]
    fn a_burst_gathers() {
        let start = Instant::now();
        let mut senders = Senders::new(GATHER, start);
        let (mut now, mut messages) = (start, 0);
        for _ in 0..10 {
            now += Duration::from_secs(1);
            for _ in 0..100 {
                assert_eq!(senders.patience(now, messages).0, Patience::Full);
                messages += 8;
                now += GATHER;
            }
        }
    }

    #[test]
    fn a_single_burst_is_no_reason() {
        // The processor is another's for some time, before a trial and after it.
        for burst in 100..200 {
            let mut rounds = 0;
            let mut last = Duration::ZERO;
            let (_, hurried) = serve(GATHER, 2, |time| {
                rounds += 1;
                let pause = time - std::mem::replace(&mut last, time);
                let is_burst = rounds == burst;
                pause.as_micros() as u64 / 50 * if is_burst { 40 } else { 1 }
            });
            assert_eq!(hurried, 0.0, "a burst in round {burst}");
        }
    }

    #[test]
    fn what_was_found_holds_for_a_while_only() {
        let mut last = Duration::ZERO;
        let (_, hurried) = serve(GATHER, 60, |time| {
            let pause = time - std::mem::replace(&mut last, time);
            // For the first two seconds they wait for answers.
            match time < Duration::from_secs(2) {
                true => 8,
                false => pause.as_micros() as u64 / 50,
            }
        });
        assert!(hurried > 0.0 && hurried < 0.1, "{hurried}");
    }
}
