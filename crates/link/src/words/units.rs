//! Numbers with their units.

use std::time::Duration;

/// Reads a time with its unit: `100ns`, `250us`, `20ms`, `1.5s`, `2min`, `1h 30min`, `1d`. Fractions of a nanosecond
/// are rounded.
///
/// # Errors
///
/// When it is none, with what was expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .ok()
        .or_else(|| rounded_duration(text))
        .ok_or_else(|| {
            format!(
                "\"{text}\" is not a time: a number with its unit is expected, such as 20ms or 1.5s"
            )
        })
}

/// A number that humantime refuses because it is no whole number of nanoseconds, as those are that programs write.
fn rounded_duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let is_one_unit = unit.chars().all(char::is_alphabetic);
    let unit = humantime::parse_duration(&format!("1{unit}")).ok()?;
    let seconds = number.parse::<f64>().ok()? * unit.as_secs_f64();
    is_one_unit
        .then(|| Duration::try_from_secs_f64(seconds).ok())
        .flatten()
}

/// A time in the largest unit that holds it in a whole number.
pub fn show_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    for (size, unit) in units {
        if nanoseconds.is_multiple_of(size) {
            return format!("{}{unit}", nanoseconds / size);
        }
    }
    format!("{nanoseconds}ns")
}

/// Reads a percentage from 0 to 100, with or without the sign.
///
/// # Errors
///
/// When it is none, with what was expected.
pub fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!(
            "\"{text}\" is not a percentage: a number from 0 to 100 is expected"
        )),
    }
}

/// Reads a probability as a percentage: `10%` is 0.1.
///
/// # Errors
///
/// When it is none, with what was expected.
pub fn probability(text: &str) -> Result<f64, String> {
    let percent = percentage(text)?;
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    // Moves the point, where dividing would round a second time.
    let moved = format!("{number}e-2").parse();
    Ok(moved.unwrap_or(percent / 100.0))
}

/// A probability as a percentage that reads back as the very same.
pub fn show_probability(probability: f64) -> String {
    // Moves the point in the digits, where multiplying would round.
    let digits = probability.to_string();
    let (whole, part) = digits.split_once('.').unwrap_or((&digits, ""));
    let (percent, rest) = match part.len() {
        0 | 1 => (format!("{part:0<2}"), ""),
        _ => (part[..2].to_owned(), &part[2..]),
    };
    let whole = format!("{whole}{percent}");
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    match rest {
        "" => format!("{whole}%"),
        rest => format!("{whole}.{rest}%"),
    }
}

/// Reads a rate in bits a second: `800kbit/s`, `100kB/s`, `1Mbit/s`. Prefixes are powers of 1000.
///
/// # Errors
///
/// When it is none, with what was expected.
pub fn rate(text: &str) -> Result<u64, String> {
    let expected = || {
        format!(
            "\"{text}\" is not a rate: a number with its unit is expected, such as 100kB/s or 1Mbit/s"
        )
    };
    let (number, unit) = number_and_unit(text).ok_or_else(expected)?;
    let bits = match unit.strip_suffix("/s").ok_or_else(expected)? {
        "bit" => 1,
        "kbit" => 1000,
        "Mbit" => 1_000_000,
        "Gbit" => 1_000_000_000,
        "B" => 8,
        "kB" => 8000,
        "MB" => 8_000_000,
        "GB" => 8_000_000_000,
        _ => return Err(expected()),
    };
    whole(number, bits).ok_or_else(expected)
}

/// A rate in the largest unit of bits that holds it in a whole number.
pub fn show_rate(bits_per_second: u64) -> String {
    show(
        bits_per_second,
        &[
            (1_000_000_000, "Gbit/s"),
            (1_000_000, "Mbit/s"),
            (1000, "kbit/s"),
            (1, "bit/s"),
        ],
    )
}

/// Reads a number of bytes: `1500B`, `32kB`, `1MB`, and with powers of 1024 `32KiB`, `1MiB`.
///
/// # Errors
///
/// When it is none, with what was expected.
pub fn bytes(text: &str) -> Result<u64, String> {
    let expected = || {
        format!(
            "\"{text}\" is not a size: bytes with their unit are expected, such as 1500B or 32kB"
        )
    };
    let (number, unit) = number_and_unit(text).ok_or_else(expected)?;
    let bytes = match unit {
        "B" => 1,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(expected()),
    };
    whole(number, bytes).ok_or_else(expected)
}

/// A number of bytes in the largest unit that holds it in a whole number.
pub fn show_bytes(bytes: u64) -> String {
    show(
        bytes,
        &[
            (1_000_000_000, "GB"),
            (1_000_000, "MB"),
            (1000, "kB"),
            (1, "B"),
        ],
    )
}

/// Reads a number of packets: `50p`.
///
/// # Errors
///
/// When it is none, with what was expected.
pub fn packets(text: &str) -> Result<u64, String> {
    text.strip_suffix('p')
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("\"{text}\" is not a number of packets such as 50p"))
}

/// Reads a number of bytes that may be negative; without a unit it is in bytes.
pub(crate) fn signed_bytes(text: &str) -> Result<i32, String> {
    let number = text.strip_suffix('B').unwrap_or(text);
    number
        .parse()
        .map_err(|_| format!("\"{text}\" is not a number of bytes such as 28B or -14B"))
}

pub(crate) fn show_signed_bytes(bytes: i32) -> String {
    format!("{bytes}B")
}

/// Where the unit begins: what it is that follows the digits.
fn number_and_unit(text: &str) -> Option<(&str, &str)> {
    let unit_at = text.find(char::is_alphabetic)?;
    let (number, unit) = text.split_at(unit_at);
    Some((number.trim(), unit))
}

/// A number times its unit, rounded to a whole number; `None` when it is negative or too large.
fn whole(number: &str, unit: u64) -> Option<u64> {
    if let Ok(number) = number.parse::<u64>() {
        return number.checked_mul(unit);
    }
    let product = (number.parse::<f64>().ok()? * unit as f64).round();
    (0.0..u64::MAX as f64)
        .contains(&product)
        .then_some(product as u64)
}

fn show(value: u64, units: &[(u64, &str)]) -> String {
    let fitting = units.iter().find(|(size, _)| value.is_multiple_of(*size));
    fitting.map_or_else(
        || value.to_string(),
        |(size, unit)| format!("{}{unit}", value / size),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0us"), Ok(Duration::ZERO));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("250 µs"), Ok(Duration::from_micros(250)));
        assert_eq!(duration("1h 30min"), Ok(Duration::from_secs(5400)));
        for wrong in [
            "",
            "20",
            "ms",
            "-1s",
            "1h30",
            "NaNs",
            "1e999s",
            ".5s 3min",
            "1 week-end",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_rounded_to_nanoseconds() {
        for (text, nanoseconds) in [
            ("0.30000000000000004s", 300_000_000),
            ("33.333333333333336ms", 33_333_333),
            (".5s", 500_000_000),
            ("1.6ns", 2),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_nanos(nanoseconds)),
                "{text}"
            );
        }
        let most = format!("{}ns", u64::MAX);
        assert_eq!(duration(&most), Ok(Duration::from_nanos(u64::MAX)));
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
    fn probabilities_read_back_as_the_very_same() {
        for (probability, text) in [
            (0.0, "0%"),
            (1.0, "100%"),
            (0.1, "10%"),
            (0.07, "7%"),
            (0.005, "0.5%"),
            (0.123_45, "12.345%"),
            (1e-9, "0.0000001%"),
            (0.936_865_676_043_978_6, "93.68656760439786%"),
        ] {
            assert_eq!(show_probability(probability), text);
            assert_eq!(super::probability(text), Ok(probability));
        }
    }

    #[test]
    fn rates_are_in_bits() {
        assert_eq!(rate("100kB/s"), Ok(800_000));
        assert_eq!(rate("1Mbit/s"), Ok(1_000_000));
        assert_eq!(rate("1.5Mbit/s"), Ok(1_500_000));
        for wrong in ["100", "1Mbit", "-1bit/s", "1e30Gbit/s", "infbit/s", "B/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_tell_1000_from_1024() {
        assert_eq!(bytes("32kB"), Ok(32_000));
        assert_eq!(bytes("32KiB"), Ok(32_768));
        assert_eq!(bytes("1500B"), Ok(1500));
        for wrong in ["32", "32KB", "-1B", "99999999999GB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
