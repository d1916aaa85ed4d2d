//! NIST Net's random drop.

use crate::codel::Decision;
use crate::queue_length::{Length, Unit};
use crate::words::{Words, WordsError};
use std::fmt;

/// Derivative random drop, the queue management of NIST Net (M. Carson, D. Santay: "NIST Net: a
/// Linux-based network emulation tool", ACM Computer Communication Review 33(3), 2003; after M.
/// Gaynor: "Proactive packet dropping methods for TCP gateways", 1996): the probability of a drop
/// rises in a straight line with the queue as it is, from 0 at the minimum to 95 % at the maximum, and
/// stays there.
///
/// With ECN a packet that can be marked is marked instead, but from the maximum on it is dropped as
/// any other.
///
/// In words, after the queue's bounds: `drd 10p 50p`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drd {
    /// The queue up to which nothing is dropped, in `unit`s.
    pub minimum: u64,
    /// The queue from which on 95 % is dropped, in `unit`s.
    pub maximum: u64,
    /// What lengths are counted in. NIST Net counts packets.
    pub unit: Unit,
}

/// The largest probability of a drop.
const MOST: f64 = 0.95;

impl Drd {
    /// What becomes of a packet that finds a queue of that length, decided by a number in [0, 1).
    pub(crate) fn decide(&self, length: u64, unit: f64) -> Decision {
        if length >= self.maximum {
            return if unit < MOST {
                Decision::Drop
            } else {
                Decision::Pass
            };
        }
        let above = length.saturating_sub(self.minimum) as f64;
        // Above the minimum and below the maximum there is something between them.
        if above > 0.0 && unit < MOST * above / (self.maximum - self.minimum) as f64 {
            Decision::DropOrMark
        } else {
            Decision::Pass
        }
    }

    pub(crate) fn read(words: &mut Words<'_>) -> Result<Drd, WordsError> {
        let (minimum, maximum, unit) = Length::read_range(words)?;
        Ok(Drd {
            minimum,
            maximum,
            unit,
        })
    }
}

impl fmt::Display for Drd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minimum = self.unit.show(self.minimum);
        let maximum = self.unit.show(self.maximum);
        write!(f, "drd {minimum} {maximum}")
    }
}
