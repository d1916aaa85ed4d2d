//! How values are written on the command line.

use std::ops::RangeInclusive;
use std::time::Duration;

use sip::Transport;

/// Reads a time with its unit: `250us`, `20ms`, `1.5s`, `2min`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || {
        format!("\"{text}\" is no time: a number with its unit is expected, such as 20ms or 1.5s")
    };
    let unit_at = text
        .find(|character: char| character.is_ascii_alphabetic())
        .ok_or_else(expected)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds_per_unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        _ => return Err(expected()),
    };
    let number: f64 = number.trim().parse().map_err(|_| expected())?;
    Duration::try_from_secs_f64(number * seconds_per_unit).map_err(|_| expected())
}

/// Reads a percentage of packets from 0 to 100, with or without the sign.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!(
            "\"{text}\" is no percentage: a number from 0 to 100 is expected"
        )),
    }
}

/// Reads a number above zero.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err(format!("\"{text}\" is no number above zero")),
    }
}

/// Reads a whole number within a range.
pub(crate) fn count(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!(
            "\"{text}\" is none: a whole number from {} to {} is expected",
            range.start(),
            range.end()
        )),
    }
}

/// Reads the name of a transport that is built.
pub(crate) fn transport(text: &str) -> Result<Transport, String> {
    match text.parse() {
        Ok(transport @ (Transport::Udp | Transport::Tcp | Transport::Sctp)) => Ok(transport),
        Ok(_) => Err(format!("{text} is not built yet: use udp, tcp or sctp")),
        Err(_) => Err(format!("\"{text}\" is no transport: use udp, tcp or sctp")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0us"), Ok(Duration::ZERO));
        for wrong in ["", "20", "ms", "-1s", "1h30", "NaNs", "1e999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn percentages_lie_between_0_and_100() {
        assert_eq!(percentage("5"), Ok(5.0));
        assert_eq!(percentage("0.5%"), Ok(0.5));
        for wrong in ["", "-1", "101", "NaN", "ten"] {
            assert!(percentage(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn positive_numbers_are_above_zero() {
        assert_eq!(positive("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "inf", "x"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_say_what_they_take() {
        assert_eq!(count("1", 1..=9), Ok(1));
        for wrong in ["0", "10", "-1", "1.5", "x", "18446744073709551616"] {
            let message = count(wrong, 1..=9).unwrap_err();
            assert!(message.contains("from 1 to 9"), "{message}");
        }
    }

    #[test]
    fn what_is_not_built_is_said_so() {
        assert_eq!(transport("sctp"), Ok(Transport::Sctp));
        assert!(transport("tls").unwrap_err().contains("not built"));
    }
}
