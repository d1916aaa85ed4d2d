//! Losses that are not left to chance.

use crate::words::{Words, WordsError};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Packets by their numbers; the first packet that is offered has number 1.
///
/// In words: `packets 3 7 10-20`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketNumbers {
    /// In order, none touching another.
    ranges: Arc<[(u64, u64)]>,
}

impl PacketNumbers {
    /// Packets of these numbers, in any order.
    pub fn new(ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> PacketNumbers {
        let mut sorted: Vec<(u64, u64)> = ranges
            .into_iter()
            .filter(|range| !range.is_empty())
            .map(RangeInclusive::into_inner)
            .collect();
        sorted.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match ranges.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                _ => ranges.push((first, last)),
            }
        }
        PacketNumbers {
            ranges: ranges.into(),
        }
    }

    /// Whether a number is among them.
    pub fn contains(&self, number: u64) -> bool {
        let index = self.ranges.partition_point(|&(_, last)| last < number);
        self.ranges
            .get(index)
            .is_some_and(|&(first, _)| first <= number)
    }

    pub(super) fn read(words: &mut Words<'_>) -> Result<PacketNumbers, WordsError> {
        let mut ranges = vec![words.value("numbers of packets, such as 3 7 10-20", range)?];
        while let Some(next) = words.next_if_ok(range) {
            ranges.push(next);
        }
        Ok(PacketNumbers::new(ranges))
    }
}

fn range(word: &str) -> Result<RangeInclusive<u64>, String> {
    let wrong = || format!("\"{word}\" is not a number or range of packets from 1 on");
    let number = |text: &str| text.parse::<u64>().ok().filter(|&number| number > 0);
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let range = number(first).ok_or_else(wrong)?..=number(last).ok_or_else(wrong)?;
    if range.is_empty() {
        return Err(wrong());
    }
    Ok(range)
}

impl fmt::Display for PacketNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("packets")?;
        for &(first, last) in self.ranges.iter() {
            if first == last {
                write!(f, " {first}")?;
            } else {
                write!(f, " {first}-{last}")?;
            }
        }
        Ok(())
    }
}

/// A pattern that repeats: which packets of so many.
///
/// In words: `pattern 0010`, where 1 is a loss.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    lost: Arc<[bool]>,
}

impl Pattern {
    /// The pattern that says of each packet whether it is lost; none at all loses nothing.
    pub fn new(lost: impl Into<Arc<[bool]>>) -> Pattern {
        Pattern { lost: lost.into() }
    }

    /// Whether the packet of that number, counted from 1, is lost.
    pub fn loses(&self, number: u64) -> bool {
        // No pattern is longer than memory.
        let length = self.lost.len() as u64;
        let Some(index) = number.wrapping_sub(1).checked_rem(length) else {
            return false;
        };
        self.lost[index as usize]
    }

    pub(super) fn read(words: &mut Words<'_>) -> Result<Pattern, WordsError> {
        words.value("a pattern of 0 and 1, such as 0010", |word| {
            let bits = word.chars().map(|character| match character {
                '0' => Ok(false),
                '1' => Ok(true),
                _ => Err(format!("\"{word}\" is not a pattern of 0 and 1")),
            });
            Ok(Pattern::new(bits.collect::<Result<Vec<bool>, String>>()?))
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pattern ")?;
        for &lost in self.lost.iter() {
            f.write_str(if lost { "1" } else { "0" })?;
        }
        Ok(())
    }
}

/// Every so many packets one.
///
/// In words: `every 100`, or `every 100 from 7`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Periodic {
    /// Of so many packets one is lost; of 0 none.
    pub every: u64,
    /// Number of the first packet that is lost, counted from 1.
    pub first: u64,
}

impl Periodic {
    /// Every `every`-th packet.
    pub fn every(every: u64) -> Periodic {
        Periodic {
            every,
            first: every,
        }
    }

    /// Whether the packet of that number, counted from 1, is lost.
    pub fn loses(&self, number: u64) -> bool {
        number
            .checked_sub(self.first)
            .and_then(|after| after.checked_rem(self.every))
            == Some(0)
    }

    pub(super) fn read(words: &mut Words<'_>) -> Result<Periodic, WordsError> {
        let number = |word: &str| match word.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("\"{word}\" is not a number above 0")),
        };
        let every = words.value("a number of packets, such as 100", number)?;
        let mut periodic = Periodic::every(every);
        if words.next_if("from") {
            periodic.first = words.value("the number of the first packet", number)?;
        }
        Ok(periodic)
    }
}

impl fmt::Display for Periodic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every {}", self.every)?;
        if self.first != self.every {
            write!(f, " from {}", self.first)?;
        }
        Ok(())
    }
}
