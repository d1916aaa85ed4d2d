//! How values are written on the command line.

use std::ops::RangeInclusive;

pub(crate) use link::words::{duration, percentage};
use sip::Transport;

/// Reads a number above zero.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err(format!("\"{text}\" is not a number above zero")),
    }
}

/// Reads a time above zero in seconds: `3`, or with a unit: `3s`, `1min`.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let with_unit = duration(text).map(|duration| duration.as_secs_f64());
    match with_unit {
        Ok(seconds) if seconds > 0.0 => Ok(seconds),
        _ => positive(text),
    }
}

/// Reads a whole number within a range.
pub(crate) fn count(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!(
            "\"{text}\" is not valid: a whole number from {} to {} is expected",
            range.start(),
            range.end()
        )),
    }
}

/// Reads the name of a supported transport.
pub(crate) fn transport(text: &str) -> Result<Transport, String> {
    match text.parse() {
        Ok(transport @ (Transport::Udp | Transport::Tcp | Transport::Sctp)) => Ok(transport),
        Ok(_) => Err(format!("{text} is not supported: use udp, tcp or sctp")),
        Err(_) => Err(format!(
            "\"{text}\" is not a transport: use udp, tcp or sctp"
        )),
    }
}

/// What is wrong with UDP ports of SCTP, given as options, where no UDP carries it; nothing that is given is
/// ignored.
pub(crate) fn ports_without_udp(over: &str, given: &[(&str, Option<u16>)]) -> Option<String> {
    let (option, _) = given.iter().find(|(_, port)| port.is_some())?;
    (over != "udp")
        .then(|| format!("{option} needs --over udp: with --over {over} SCTP has no UDP port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positive_numbers_are_above_zero() {
        assert_eq!(positive("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "inf", "x"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_have_a_unit_or_none() {
        for (text, expected) in [("3", 3.0), ("3s", 3.0), ("0.5", 0.5), ("500ms", 0.5)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in ["0", "0s", "-1", "x"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
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
    fn transports_that_are_not_supported_are_refused() {
        assert_eq!(transport("sctp"), Ok(Transport::Sctp));
        assert!(transport("tls").unwrap_err().contains("not supported"));
    }
}
