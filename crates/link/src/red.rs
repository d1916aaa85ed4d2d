//! Random early detection.

use crate::codel::Decision;
use crate::queue_length::{Length, Unit};
use crate::words::{Words, WordsError, probability, show_probability};
use std::fmt;

/// Random early detection (S. Floyd, V. Jacobson: "Random early detection gateways for congestion
/// avoidance", IEEE/ACM Transactions on Networking 1(4), 1993).
///
/// With each packet that comes the average queue moves by the weight towards the queue: *avg* ←
/// (1 − *w*)·*avg* + *w*·*q*; after a time without a queue it has fallen as if as many packets of the mean
/// size had come as could have left. Below the minimum packets pass. Between minimum and maximum
/// *p*b = *p*max·(*avg* − min)/(max − min), and a packet is dropped with *p*b/(1 − *count*·*p*b), where
/// *count* packets came since the last drop: so one of the next 1/*p*b is, each equally likely (section
/// 7, method 2; figure 2 counts the packet itself too, which makes the last of these impossible). Where
/// lengths are in bytes *p*b is in proportion to the size of the packet. At the maximum and above all
/// are dropped, or, when gentle, with a probability that rises from *p*max to 1 at twice the maximum.
///
/// With ECN a packet that can be marked is marked instead, but above the maximum it is dropped as any
/// other (RFC 3168, section 7).
///
/// In words, after the queue's bounds: `red 5p 15p`, `red 5kB 15kB 2% weight 0.002 mean 1000B gentle`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Red {
    /// Minimum of the average queue, in `unit`s.
    pub minimum: u64,
    /// Maximum of the average queue, in `unit`s. What is not above the minimum drops everything above
    /// that.
    pub maximum: u64,
    /// What lengths are counted in.
    pub unit: Unit,
    /// *p*max: probability of a drop as the average comes to the maximum, from 0 to 1.
    pub probability: f64,
    /// *w*: weight of the present queue in the average, from 0 to 1.
    pub weight: f64,
    /// Bytes of a packet of mean size.
    pub mean_bytes: u32,
    /// Whether the probability rises on above the maximum.
    pub gentle: bool,
}

impl Red {
    /// The paper's weight of 0.002 and probability of 1/50, packets of 1000 bytes in the mean, not
    /// gentle.
    pub fn new(minimum: u64, maximum: u64, unit: Unit) -> Red {
        Red {
            minimum,
            maximum,
            unit,
            probability: 0.02,
            weight: 0.002,
            mean_bytes: 1000,
            gentle: false,
        }
    }

    pub(crate) fn read(words: &mut Words<'_>) -> Result<Red, WordsError> {
        let (minimum, maximum, unit) = Length::read_range(words)?;
        let mut red = Red::new(minimum, maximum, unit);
        if let Some(probability) = words.next_if_ok(probability) {
            red.probability = probability;
        }
        if words.next_if("weight") {
            red.weight = words.value("a weight from 0 to 1", |word| match word.parse() {
                Ok(weight) if (0.0..=1.0).contains(&weight) => Ok(weight),
                _ => Err(format!("\"{word}\" is not a weight from 0 to 1")),
            })?;
        }
        if words.next_if("mean") {
            let bytes = words.value("a mean size such as 1000B", crate::words::bytes)?;
            red.mean_bytes = u32::try_from(bytes).unwrap_or(u32::MAX).max(1);
        }
        red.gentle = words.next_if("gentle");
        Ok(red)
    }
}

impl fmt::Display for Red {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minimum = self.unit.show(self.minimum);
        let maximum = self.unit.show(self.maximum);
        let probability = show_probability(self.probability);
        write!(f, "red {minimum} {maximum} {probability}")?;
        write!(f, " weight {} mean {}B", self.weight, self.mean_bytes)?;
        if self.gentle {
            f.write_str(" gentle")?;
        }
        Ok(())
    }
}

/// What random early detection remembers.
#[derive(Clone, Default, Debug)]
pub(crate) struct Average {
    queue: f64,
    /// Packets since the last drop while the average was above the minimum.
    count: u64,
}

/// What random early detection sees of the queue when a packet comes.
pub(crate) struct Seen {
    /// The queue, in the unit that is asked for.
    pub(crate) length: u64,
    /// For how many times that a packet of mean size takes to leave there was no queue; `None` when
    /// there is one.
    pub(crate) idle_packets: Option<f64>,
    /// Bytes of the packet.
    pub(crate) bytes: u64,
}

impl Average {
    /// What becomes of a packet, decided by a number in [0, 1).
    pub(crate) fn decide(&mut self, red: &Red, seen: &Seen, unit: f64) -> Decision {
        self.update(red, seen);
        let (minimum, maximum) = (red.minimum as f64, red.maximum as f64);
        if self.queue < minimum {
            self.count = 0;
            return Decision::Pass;
        }
        let (may_mark, likely) = if self.queue < maximum {
            let above = (self.queue - minimum) / (maximum - minimum);
            (true, red.probability * above)
        } else if red.gentle && self.queue < 2.0 * maximum {
            let above = (self.queue - maximum) / maximum;
            (false, red.probability + (1.0 - red.probability) * above)
        } else {
            self.count = 0;
            return Decision::Drop;
        };
        let likely = match red.unit {
            Unit::Packets => likely,
            Unit::Bytes => likely * seen.bytes as f64 / f64::from(red.mean_bytes.max(1)),
        };
        let room = 1.0 - self.count as f64 * likely;
        self.count = self.count.saturating_add(1);
        if room > 0.0 && unit >= likely / room {
            return Decision::Pass;
        }
        self.count = 0;
        if may_mark {
            Decision::DropOrMark
        } else {
            Decision::Drop
        }
    }

    fn update(&mut self, red: &Red, seen: &Seen) {
        let weight = if red.weight.is_nan() {
            0.0
        } else {
            red.weight.clamp(0.0, 1.0)
        };
        match seen.idle_packets {
            Some(packets) => self.queue *= libm::pow(1.0 - weight, packets),
            None => self.queue += weight * (seen.length as f64 - self.queue),
        }
    }
}
