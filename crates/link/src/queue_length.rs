//! How long queues are, in packets or in bytes.

use crate::words::{Words, WordsError, bytes, packets, show_bytes};

/// What a queue's length is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
}

impl Unit {
    pub(crate) fn show(self, length: u64) -> String {
        match self {
            Unit::Packets => format!("{length}p"),
            Unit::Bytes => show_bytes(length),
        }
    }
}

/// A length with its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Length {
    pub(crate) value: u64,
    pub(crate) unit: Unit,
}

impl Length {
    pub(crate) fn parse(word: &str) -> Result<Length, String> {
        if let Ok(value) = packets(word) {
            return Ok(Length {
                value,
                unit: Unit::Packets,
            });
        }
        match bytes(word) {
            Ok(value) => Ok(Length {
                value,
                unit: Unit::Bytes,
            }),
            Err(_) => Err(format!(
                "\"{word}\" is not a length: packets such as 50p or bytes such as 32kB are expected"
            )),
        }
    }

    /// Two lengths of the same unit, the first not above the second.
    pub(crate) fn read_range(words: &mut Words<'_>) -> Result<(u64, u64, Unit), WordsError> {
        let minimum = words.value("a minimum such as 5p or 5kB", Length::parse)?;
        let maximum = words.value("a maximum such as 15p or 15kB", Length::parse)?;
        if minimum.unit != maximum.unit {
            return Err(WordsError::new("minimum and maximum have different units"));
        }
        if minimum.value >= maximum.value {
            return Err(WordsError::new("the minimum is not below the maximum"));
        }
        Ok((minimum.value, maximum.value, minimum.unit))
    }
}
