//! How much the delay varies.

use crate::distribution::Distribution;
use crate::normal;
use crate::random::{Dice, unit, up_to};
use crate::table::Table;
use crate::time::{LONGEST, nanoseconds};
use crate::words::{
    Files, Words, WordsError, duration, probability, show_duration, show_probability,
};
use rand_chacha::ChaCha12Rng;
use std::fmt;
use std::time::Duration;

/// How much the delay of packets deviates from the fixed one. A packet never arrives before it was
/// sent, so deviations below minus the delay count as that.
///
/// In words: `5ms`, `5ms normal`, `5ms normal 25%` with a correlation, `5ms table FILE`, and
/// `reorder` after any of them.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Jitter {
    /// The unit of deviations.
    pub amount: Duration,
    /// How they are distributed.
    pub distribution: Distribution,
    /// Correlation of a packet's deviation with that of the packet before, from 0 to 1.
    ///
    /// It is that of normally distributed ranks (a Gaussian copula): deviations have their
    /// distribution whatever the correlation is, and normal ones have just this correlation, others
    /// a slightly smaller one.
    pub correlation: f64,
    /// Whether jitter lets packets overtake each other. Otherwise a packet that would is held back
    /// until the one before arrives.
    pub reorders: bool,
}

impl From<Duration> for Jitter {
    /// Uniform jitter that leaves packets in order.
    fn from(amount: Duration) -> Jitter {
        Jitter {
            amount,
            ..Jitter::default()
        }
    }
}

impl Jitter {
    /// Reads jitter from words; the text of a table comes from `files`.
    ///
    /// # Errors
    ///
    /// When the words say no jitter, or the table none.
    pub fn read(text: &str, files: &mut Files<'_>) -> Result<Jitter, WordsError> {
        Jitter::read_with(text, files, None)
    }

    /// The same; what `files` do not have may be the table that is known.
    pub(crate) fn read_with(
        text: &str,
        files: &mut Files<'_>,
        known: Option<&Table>,
    ) -> Result<Jitter, WordsError> {
        let mut words = Words::new(text);
        let mut jitter = Jitter::from(words.value("a time such as 5ms", duration)?);
        jitter.distribution = if words.next_if("normal") {
            Distribution::Normal
        } else if words.next_if("pareto") {
            Distribution::Pareto
        } else if words.next_if("pareto-normal") || words.next_if("paretonormal") {
            Distribution::ParetoNormal
        } else if words.next_if("table") {
            let name = words.value("the file of a table", |word| Ok(word.to_owned()))?;
            let table = match (files(&name), known) {
                (Ok(text), _) => Table::parse(&name, &text)?,
                (Err(_), Some(known)) if known.name() == name => known.clone(),
                (Err(why), _) => return Err(WordsError::new(why)),
            };
            Distribution::Table(table)
        } else {
            words.next_if("uniform");
            Distribution::Uniform
        };
        jitter.correlation = words.next_if_ok(probability).unwrap_or_default();
        jitter.reorders = words.next_if("reorder");
        words.end()?;
        Ok(jitter)
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show_duration(self.amount))?;
        match &self.distribution {
            Distribution::Uniform => {}
            Distribution::Normal => f.write_str(" normal")?,
            Distribution::Pareto => f.write_str(" pareto")?,
            Distribution::ParetoNormal => f.write_str(" pareto-normal")?,
            Distribution::Table(table) => write!(f, " table {}", table.name())?,
        }
        if self.correlation != 0.0 {
            write!(f, " {}", show_probability(self.correlation))?;
        }
        if self.reorders {
            f.write_str(" reorder")?;
        }
        Ok(())
    }
}

/// Delays packets.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    /// Nanoseconds.
    fixed: u64,
    /// Nanoseconds.
    amount: u64,
    distribution: Distribution,
    correlation: f64,
    dice: Dice,
    /// Where the deviation of the packet before stood among all, as a standard normal number.
    rank: Option<f64>,
}

impl Delays {
    pub(crate) fn new(fixed: Duration, jitter: &Jitter, rng: &mut ChaCha12Rng) -> Delays {
        let mut delays = Delays {
            fixed: 0,
            amount: 0,
            distribution: Distribution::Uniform,
            correlation: 0.0,
            dice: Dice::new(2, rng),
            rank: None,
        };
        delays.set(fixed, jitter);
        delays
    }

    pub(crate) fn set(&mut self, fixed: Duration, jitter: &Jitter) {
        self.fixed = nanoseconds(fixed);
        self.amount = nanoseconds(jitter.amount);
        self.distribution = jitter.distribution.clone();
        self.correlation = jitter.correlation.min(1.0);
        if self.correlation.is_nan() || self.correlation <= 0.0 {
            self.correlation = 0.0;
            self.rank = None;
        }
    }

    /// Nanoseconds that packets take without jitter.
    pub(crate) fn fixed(&self) -> u64 {
        self.fixed
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.amount == 0
    }

    /// Nanoseconds that the packet of that number and its copy, should there be one, take.
    pub(crate) fn delays(&mut self, packet: u64) -> [u64; 2] {
        let [word, copy] = self.dice.throw(packet);
        if self.correlation == 0.0 {
            return [self.delay(word), self.delay(copy)];
        }
        let rank_before = self.rank;
        let rank = |word| {
            let own = normal::quantile(unit(word)).clamp(-LARGEST_RANK, LARGEST_RANK);
            let Some(before) = rank_before else {
                return own;
            };
            let rest = (1.0 - self.correlation * self.correlation).sqrt();
            self.correlation * before + rest * own
        };
        let (rank, rank_of_copy) = (rank(word), rank(copy));
        self.rank = Some(rank);
        [rank, rank_of_copy].map(|rank| self.delay(word_of(normal::share_below(rank))))
    }

    fn delay(&self, word: u64) -> u64 {
        match &self.distribution {
            Distribution::Uniform => {
                let above_least = up_to(word, self.amount * 2);
                (self.fixed + above_least).saturating_sub(self.amount)
            }
            other => {
                let deviation = other.quantile(unit(word)) * self.amount as f64;
                // Rounds to the nearest, and ends at the ends of the type.
                let deviation = libm::round(deviation) as i64;
                self.fixed.saturating_add_signed(deviation).min(LONGEST)
            }
        }
    }
}

/// Beyond it lies less than any number in [0, 1) of 53 bits tells apart.
const LARGEST_RANK: f64 = 9.0;

/// The word that stands for a share of all words.
fn word_of(share: f64) -> u64 {
    // Ends at the largest word.
    (share * 2.0_f64.powi(64)) as u64
}
