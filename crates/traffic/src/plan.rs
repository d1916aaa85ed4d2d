//! What a sender is to do.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::encryption::Encryption;
use crate::payload::Payload;
use crate::schedule::Pattern;

/// How much is sent a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// As fast as the transport takes it.
    Unlimited,
    /// So many packets.
    PacketsPerSecond(f64),
    /// So many packets as have so many bits, before encryption.
    BitsPerSecond(f64),
}

impl Rate {
    /// Packets of this size a second; `None` without a limit.
    pub fn packets_per_second(self, size: usize) -> Option<f64> {
        match self {
            Rate::Unlimited => None,
            Rate::PacketsPerSecond(rate) => Some(rate),
            Rate::BitsPerSecond(bits) => Some(bits / (size.max(1) as f64 * 8.0)),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Unlimited => formatter.write_str("unlimited"),
            Rate::PacketsPerSecond(rate) => write!(formatter, "{rate}"),
            Rate::BitsPerSecond(bits) => write!(formatter, "{bits}bit/s"),
        }
    }
}

impl FromStr for Rate {
    type Err = String;

    /// Reads packets a second (`1000`, `20k`), bits a second (`64kbit/s`, `2.5Mbit/s`), or `unlimited`.
    fn from_str(text: &str) -> Result<Rate, String> {
        if text == "unlimited" {
            return Ok(Rate::Unlimited);
        }
        let (number, is_bits) = match text.strip_suffix("bit/s") {
            Some(number) => (number, true),
            None => (text, false),
        };
        let number = scaled(number).filter(|number| (1e-3..=1e12).contains(number));
        match (number, is_bits) {
            (Some(number), true) => Ok(Rate::BitsPerSecond(number)),
            (Some(number), false) => Ok(Rate::PacketsPerSecond(number)),
            (None, _) => Err(format!(
                "\"{text}\" is not a rate: packets a second such as 50 or 20k, bits such as 64kbit/s, or unlimited"
            )),
        }
    }
}

/// Reads a speed of a link, bits a second: `100M`, `54Mbit/s`, `2.5G`.
///
/// # Errors
///
/// When it is none.
pub fn link_speed(text: &str) -> Result<u64, String> {
    scaled(text.strip_suffix("bit/s").unwrap_or(text))
        .filter(|bits| (1.0..=1e15).contains(bits))
        .map(|bits| bits.round() as u64)
        .ok_or_else(|| {
            format!(
                "\"{text}\" is not a speed: bits a second are expected, such as 100M or 54Mbit/s"
            )
        })
}

/// A number with an optional decimal multiple.
fn scaled(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, multiple) = match text.strip_suffix(|last: char| last.is_ascii_alphabetic()) {
        None => (text, 1.0),
        Some(number) => match text.chars().next_back()? {
            'k' | 'K' => (number, 1e3),
            'M' | 'm' => (number, 1e6),
            'G' | 'g' => (number, 1e9),
            _ => return None,
        },
    };
    number.parse().ok().map(|number: f64| number * multiple)
}

/// What ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// So many packets.
    Packets(u64),
    /// So much time of sending.
    #[serde(serialize_with = "seconds")]
    Seconds(Duration),
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// One run: packets of one size, with one encryption.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// Octets of a packet with its header, before encryption.
    pub size: usize,
    /// How it is encrypted.
    pub encryption: Encryption,
    /// How departures are spread.
    pub pattern: Pattern,
    /// How many there are.
    pub rate: Rate,
    /// When it is over.
    pub limit: Limit,
    /// Every how many packets one is sent back; 0 for none.
    pub echo: u32,
    /// What packets carry.
    pub payload: Payload,
    /// Which repetition this is, from 1.
    pub trial: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_packets_or_bits() {
        let per_second = |text: &str| text.parse::<Rate>().unwrap().packets_per_second(100);
        assert_eq!(per_second("50"), Some(50.0));
        assert_eq!(per_second("20k"), Some(20_000.0));
        assert_eq!(per_second("64kbit/s"), Some(80.0));
        assert_eq!(per_second("2.5Mbit/s"), Some(3125.0));
        assert_eq!(per_second("unlimited"), None);
        for wrong in ["", "0", "-1", "fast", "1X", "nan", "1e300", "1kk", "bit/s"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn speeds_are_of_bits() {
        assert_eq!(link_speed("100M"), Ok(100_000_000));
        assert_eq!(link_speed("54Mbit/s"), Ok(54_000_000));
        assert_eq!(link_speed("2.5G"), Ok(2_500_000_000));
        assert!(link_speed("0").is_err() && link_speed("quick").is_err());
    }
}
