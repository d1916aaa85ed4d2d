//! Sizes and rates as they are written on the command line.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// User data a second, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bitrate(u64);

impl Bitrate {
    /// A rate in bits a second, which must be above zero.
    pub fn new(bits_per_second: u64) -> Option<Bitrate> {
        (bits_per_second > 0).then_some(Bitrate(bits_per_second))
    }

    /// Bits a second; never zero.
    pub fn bits_per_second(self) -> u64 {
        self.0.max(1)
    }
}

/// The rate limit that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimit {
    /// As fast as the transport takes it.
    Unlimited,
    /// Not faster than this.
    Limited(Bitrate),
}

impl FromStr for RateLimit {
    type Err = String;

    /// Reads bits a second with an optional decimal multiple: `1M`, `2.5G`, `800k`, `unlimited`.
    fn from_str(text: &str) -> Result<RateLimit, String> {
        if matches!(text, "unlimited" | "0") {
            return Ok(RateLimit::Unlimited);
        }
        let bits = scaled(text, [1_000, 1_000_000, 1_000_000_000])
            .filter(|bits| (1.0..=1e15).contains(bits));
        bits.map(|bits| bits.round() as u64)
            .and_then(Bitrate::new)
            .map(RateLimit::Limited)
            .ok_or_else(|| {
                format!(
                    "\"{text}\" is not a rate: bits a second are expected, such as 1M, 2.5G or unlimited"
                )
            })
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits_per_second();
        for (scale, unit) in [
            (1_000_000_000, "Gbit/s"),
            (1_000_000, "Mbit/s"),
            (1_000, "kbit/s"),
        ] {
            if bits >= scale {
                return write!(formatter, "{} {unit}", bits as f64 / scale as f64);
            }
        }
        write!(formatter, "{bits} bit/s")
    }
}

/// Reads a number of bytes with an optional binary multiple: `1024`, `64K`, `4M`.
///
/// # Errors
///
/// When it is none, or more than `most`.
pub fn bytes(text: &str, most: u64) -> Result<u64, String> {
    scaled(text, [1 << 10, 1 << 20, 1 << 30])
        .filter(|bytes| bytes.fract() == 0.0 && (1.0..=most as f64).contains(bytes))
        .map(|bytes| bytes as u64)
        .ok_or_else(|| {
            format!(
                "\"{text}\" is not a size: bytes from 1 to {most} are expected, such as 1024, 64K or 4M"
            )
        })
}

/// A number with an optional multiple: `k`, `m` or `g` in either case.
fn scaled(text: &str, multiples: [u64; 3]) -> Option<f64> {
    let split_at = text
        .find(|character: char| character.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(split_at);
    let multiple = match suffix.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => multiples[0],
        "m" => multiples[1],
        "g" => multiples[2],
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    number.is_finite().then_some(number * multiple as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_decimal_multiples() {
        let rate = |text: &str| match text.parse::<RateLimit>().unwrap() {
            RateLimit::Limited(rate) => rate.bits_per_second(),
            RateLimit::Unlimited => 0,
        };
        assert_eq!(rate("1000"), 1000);
        assert_eq!(rate("1M"), 1_000_000);
        assert_eq!(rate("2.5g"), 2_500_000_000);
        assert_eq!(rate("unlimited"), 0);
        assert_eq!(rate("0"), 0);
        for wrong in ["", "fast", "-1", "1X", "1e300", "nan", "0.1", "1MM"] {
            assert!(wrong.parse::<RateLimit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_binary_multiples_and_a_bound() {
        assert_eq!(bytes("64", 100), Ok(64));
        assert_eq!(bytes("64K", 1 << 20), Ok(65_536));
        assert_eq!(bytes("1.5k", 1 << 20), Ok(1536));
        for wrong in ["0", "101", "1K", "-1", "x", "", "1.7"] {
            assert!(bytes(wrong, 100).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_shown_in_the_largest_unit_that_fits() {
        let shown = |bits| Bitrate::new(bits).unwrap().to_string();
        assert_eq!(shown(999), "999 bit/s");
        assert_eq!(shown(1_000_000), "1 Mbit/s");
        assert_eq!(shown(2_500_000_000), "2.5 Gbit/s");
        assert_eq!(Bitrate::new(0), None);
    }
}
