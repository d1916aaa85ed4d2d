//! How values are written on the command line.

use std::ops::RangeInclusive;
use std::time::Duration;

pub(crate) use link::words::percentage;
use sip::Transport;

/// Reads a number above zero.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err(format!("\"{text}\" is not a number above zero")),
    }
}

/// Reads a time: with a unit (`20ms`, `1.5s`, `2min`), or a number alone, which is of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>()
        && let Ok(duration) = Duration::try_from_secs_f64(seconds)
    {
        return Ok(duration);
    }
    link::words::duration(text).map_err(|_| {
        format!("\"{text}\" is not a time: seconds, or a number with its unit, are expected, such as 5, 20ms or 1.5s")
    })
}

/// Reads a time above zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Ok(Duration::ZERO) => Err(format!("\"{text}\" is not a time above zero")),
        read => read,
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
    fn a_time_without_a_unit_is_of_seconds() {
        for (text, milliseconds) in [
            ("3", 3000),
            ("3s", 3000),
            ("0.5", 500),
            ("500ms", 500),
            ("2min", 120_000),
            ("1h 30min", 5_400_000),
        ] {
            let expected = Duration::from_millis(milliseconds);
            assert_eq!(duration(text), Ok(expected), "{text}");
            assert_eq!(positive_duration(text), Ok(expected), "{text}");
        }
        for wrong in ["-1", "x", "", "inf", "NaN", "1e300", "3 parsecs"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(positive_duration("0").is_err() && positive_duration("0s").is_err());
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
