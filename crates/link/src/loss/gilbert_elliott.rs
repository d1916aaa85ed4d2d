//! Losses of a channel that is good at times and bad at others.

use crate::words::{Words, WordsError, probability, show_probability};
use std::fmt;

/// The model of Gilbert and Elliott: a channel in one of two states, each of which loses packets
/// with a probability of its own.
///
/// Names and order of the parameters are netem's (`gemodel p r 1-h 1-k`). Each packet is lost or not
/// by the state in which it finds the channel, which then may change. The channel begins good.
///
/// In words: `gilbert-elliott 1% 10% 70% 0.1%`; what is left out is 1 − *p*, 100% and 0%, as in
/// netem.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GilbertElliott {
    /// *p*: probability that a good channel is bad for the next packet.
    pub to_bad: f64,
    /// *r*: probability that a bad channel is good for the next packet. The channel stays bad for
    /// 1/*r* packets on average.
    pub to_good: f64,
    /// 1 − *h*: probability that a bad channel loses a packet.
    pub loss_in_bad: f64,
    /// 1 − *k*: probability that a good channel loses a packet.
    pub loss_in_good: f64,
}

impl GilbertElliott {
    /// The model with two parameters (Gilbert's simple one) that loses the given share of packets,
    /// so many in a row on average. Bursts of *n* packets cannot make up more than *n* of *n* + 1.
    pub fn bursts(loss: f64, mean_length: f64) -> GilbertElliott {
        let to_good = 1.0 / mean_length.max(1.0);
        GilbertElliott {
            to_bad: (to_good * loss / (1.0 - loss)).clamp(0.0, 1.0),
            to_good,
            loss_in_bad: 1.0,
            loss_in_good: 0.0,
        }
    }

    /// The share of packets that are lost in the long run: *p*/(*p* + *r*) of them find the channel
    /// bad.
    pub fn mean_loss(&self) -> f64 {
        let bad = match self.to_bad + self.to_good {
            moves if moves > 0.0 => self.to_bad / moves,
            _ => 0.0,
        };
        bad * self.loss_in_bad + (1.0 - bad) * self.loss_in_good
    }

    pub(super) fn read(words: &mut Words<'_>) -> Result<GilbertElliott, WordsError> {
        let to_bad = words.value("the probability p to become bad, such as 1%", probability)?;
        Ok(GilbertElliott {
            to_bad,
            to_good: words.next_if_ok(probability).unwrap_or(1.0 - to_bad),
            loss_in_bad: words.next_if_ok(probability).unwrap_or(1.0),
            loss_in_good: words.next_if_ok(probability).unwrap_or(0.0),
        })
    }
}

impl fmt::Display for GilbertElliott {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p, r, bad, good] = [
            self.to_bad,
            self.to_good,
            self.loss_in_bad,
            self.loss_in_good,
        ]
        .map(show_probability);
        write!(f, "gilbert-elliott {p} {r} {bad} {good}")
    }
}

/// In which state the channel is.
#[derive(Clone, Default, Debug)]
pub(super) struct Channel {
    is_bad: bool,
}

impl Channel {
    /// Whether the next packet is lost, decided by two numbers in [0, 1).
    pub(super) fn loses(&mut self, model: &GilbertElliott, moves: f64, loses: f64) -> bool {
        let (loss, leave) = if self.is_bad {
            (model.loss_in_bad, model.to_good)
        } else {
            (model.loss_in_good, model.to_bad)
        };
        self.is_bad ^= moves < leave;
        loses < loss
    }
}
