//! What happened when, in a fixed number of steps.

use crate::Time;

/// What was counted in one step of a [`Timeline`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Step {
    /// SIP messages.
    pub messages: u64,
    /// Messages sent again.
    pub retransmissions: u64,
    /// Calls begun.
    pub calls: u64,
    /// Of these, those that failed.
    pub failed_calls: u64,
    /// Of these, those with a call set-up delay.
    pub set_up: u64,
    /// The sum of these delays, nanoseconds.
    pub set_up_total: u64,
    /// The longest of these delays, nanoseconds.
    pub set_up_longest: u64,
}

/// Counts over time. When the capture turns out to be longer, steps are joined two and two: its size does
/// not grow with the length of the capture.
#[derive(Clone, Debug)]
pub struct Timeline {
    origin: Option<Time>,
    /// Nanoseconds of a step.
    width: i64,
    steps: Vec<Step>,
    /// When the step of the last time began, in nanoseconds since the origin, and which it is.
    last: Option<(i64, usize)>,
    /// Responses of each status code in each step.
    codes: Vec<(u16, Vec<u64>)>,
}

impl Timeline {
    /// Status codes that are counted over time; those of more are counted as 0.
    const MOST_CODES: usize = 64;

    /// Steps at most.
    const MOST: usize = 240;

    pub(crate) fn new() -> Timeline {
        Timeline {
            origin: None,
            width: 1_000_000,
            steps: Vec::with_capacity(Self::MOST),
            last: None,
            codes: Vec::new(),
        }
    }

    /// Counts a message, with its status code if it is a response.
    pub(crate) fn message(&mut self, time: Time, status: Option<u16>) {
        let place = self.place(time);
        self.steps[place].messages += 1;
        if let Some(status) = status {
            self.response(place, status);
        }
    }

    fn response(&mut self, place: usize, status: u16) {
        let known = self.codes.iter().position(|(code, _)| *code == status);
        let at = known.unwrap_or_else(|| self.new_code(status));
        let counts = &mut self.codes[at].1;
        if counts.len() <= place {
            counts.resize(place + 1, 0);
        }
        counts[place] += 1;
    }

    /// Where a status code is counted that has not been seen before.
    #[cold]
    fn new_code(&mut self, status: u16) -> usize {
        let status = match self.codes.len() < Self::MOST_CODES {
            true => status,
            false => 0,
        };
        let known = self.codes.iter().position(|(code, _)| *code == status);
        known.unwrap_or_else(|| {
            self.codes.push((status, Vec::new()));
            self.codes.len() - 1
        })
    }

    /// The status codes of responses, the most frequent first, with their number in each step; 0 stands for
    /// all codes beyond those that are counted one by one.
    pub fn codes(&self) -> Vec<(u16, Vec<u64>)> {
        let mut codes = self.codes.clone();
        for (_, counts) in &mut codes {
            counts.resize(self.steps.len().max(counts.len()), 0);
        }
        codes.sort_by_key(|(code, counts)| (std::cmp::Reverse(counts.iter().sum::<u64>()), *code));
        codes
    }

    /// The step of a time. Times before the first one go to the first step.
    pub(crate) fn at(&mut self, time: Time) -> &mut Step {
        let at = self.place(time);
        &mut self.steps[at]
    }

    /// Which step a time is in; it is there from then on.
    #[inline]
    fn place(&mut self, time: Time) -> usize {
        // Most are in the same step as the one before.
        if let (Some(origin), Some((began, at))) = (self.origin, self.last) {
            let since = (time - origin).max(0);
            if since >= began && since - began < self.width {
                return at;
            }
        }
        self.other_place(time)
    }

    #[cold]
    #[inline(never)]
    fn other_place(&mut self, time: Time) -> usize {
        let origin = *self.origin.get_or_insert(time);
        let since = (time - origin).max(0);
        while since / self.width >= Self::MOST as i64 {
            self.widen();
        }
        let at = (since / self.width) as usize;
        if self.steps.len() <= at {
            self.steps.resize(at + 1, Step::default());
        }
        self.last = Some((at as i64 * self.width, at));
        at
    }

    /// Each step with the seconds from the first message to its middle.
    pub fn steps(&self) -> impl Iterator<Item = (f64, &Step)> {
        let seconds = self.step_seconds();
        self.steps
            .iter()
            .enumerate()
            .map(move |(at, step)| ((at as f64 + 0.5) * seconds, step))
    }

    /// How long a step is.
    pub fn step_seconds(&self) -> f64 {
        self.width as f64 / 1e9
    }

    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        self.last = None;
        self.steps = self
            .steps
            .chunks(2)
            .map(|pair| {
                pair.iter().fold(Step::default(), |sum, step| Step {
                    messages: sum.messages + step.messages,
                    retransmissions: sum.retransmissions + step.retransmissions,
                    calls: sum.calls + step.calls,
                    failed_calls: sum.failed_calls + step.failed_calls,
                    set_up: sum.set_up + step.set_up,
                    set_up_total: sum.set_up_total.saturating_add(step.set_up_total),
                    set_up_longest: sum.set_up_longest.max(step.set_up_longest),
                })
            })
            .collect();
        for (_, counts) in &mut self.codes {
            *counts = counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_steps_are_joined() {
        let mut timeline = Timeline::new();
        for second in 0..100_000 {
            timeline.at(Time(second * 1_000_000_000)).messages += 1;
        }
        timeline.at(Time(-5)).messages += 1;
        timeline.at(Time(i64::MAX)).messages += 1;
        assert!(timeline.steps.len() <= Timeline::MOST);
        let total: u64 = timeline.steps().map(|(_, step)| step.messages).sum();
        assert_eq!(total, 100_002);
    }

    #[test]
    fn codes_are_counted_in_their_steps() {
        let mut timeline = Timeline::new();
        for second in 0..10_000 {
            let status = if second < 5000 { 200 } else { 503 };
            timeline.message(Time(second * 1_000_000_000), Some(status));
            timeline.message(Time(second * 1_000_000_000), Some(200));
        }
        for status in 300..=699 {
            timeline.message(Time(0), Some(status));
        }
        let codes = timeline.codes();
        assert_eq!(codes.len(), Timeline::MOST_CODES + 1);
        let sum = |code: u16| -> u64 {
            let counts = codes.iter().find(|(known, _)| *known == code);
            counts.map_or(0, |(_, counts)| counts.iter().sum())
        };
        assert_eq!((codes[0].0, sum(200), sum(503)), (200, 15_000, 5001));
        assert_eq!(sum(0), 400 - 1 - (Timeline::MOST_CODES as u64 - 2));
        let (_, counts) = &codes[1];
        assert!(counts[1] == 0 && counts[counts.len() - 2] > 0, "{counts:?}");
    }
}
