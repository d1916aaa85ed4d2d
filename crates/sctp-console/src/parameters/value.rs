//! How the value of a parameter is written.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use sctp_net::EndpointConfig;

/// Reaches a field of the settings, to read or change it.
pub(super) type Access<T> = fn(&mut EndpointConfig) -> &mut T;

/// A field of the settings, its unit and its range.
#[derive(Debug)]
pub(super) enum Field {
    Time(Access<Duration>, RangeInclusive<Duration>),
    Flag(Access<bool>),
    Weight(Access<f64>),
    Number16(Access<u16>, RangeInclusive<u16>),
    Number(Access<u32>, RangeInclusive<u32>),
    OptionalNumber(Access<Option<u32>>, RangeInclusive<u32>),
    Size(Access<usize>, RangeInclusive<usize>),
    Bytes32(Access<u32>, RangeInclusive<u32>),
    Bytes(Access<usize>, RangeInclusive<usize>),
    /// Words that the type reads and writes by itself.
    Words(Words),
}

/// A field whose values are words.
#[derive(Debug)]
pub(super) struct Words {
    /// What kind of value it takes.
    pub(super) unit: &'static str,
    pub(super) set: fn(&mut EndpointConfig, &str) -> Result<(), String>,
    pub(super) show: fn(&EndpointConfig) -> String,
}

/// No number at all, where that has a meaning.
const NONE: &str = "none";

/// As many bytes as can be counted: no bound.
const UNLIMITED: &str = "unlimited";

impl Field {
    /// Writes the value that `text` means into the settings.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn set(&self, config: &mut EndpointConfig, text: &str) -> Result<(), String> {
        match self {
            Field::Time(access, range) => {
                let value = parse_time(text)?;
                *access(config) = within(range, value, show_time)?;
            }
            Field::Flag(access) => *access(config) = parse_flag(text)?,
            Field::Weight(access) => *access(config) = parse_weight(text)?,
            Field::Number16(access, range) => *access(config) = parse_number(text, range)?,
            Field::Number(access, range) => *access(config) = parse_number(text, range)?,
            Field::OptionalNumber(access, range) => {
                *access(config) = match text {
                    NONE => None,
                    text => Some(parse_number(text, range).map_err(|error| error + ", or none")?),
                }
            }
            Field::Size(access, range) => *access(config) = parse_number(text, range)?,
            Field::Bytes32(access, range) => {
                // What is too large to be counted is out of range all the same.
                let bytes = u32::try_from(parse_bytes(text)?).unwrap_or(u32::MAX);
                *access(config) = within(range, bytes, |bytes| show_bytes(bytes as usize))?;
            }
            Field::Bytes(access, range) => {
                *access(config) = within(range, parse_bytes(text)?, show_bytes)?;
            }
            Field::Words(words) => (words.set)(config, text)?,
        }
        Ok(())
    }

    /// The value in the settings, written as [`set`](Self::set) takes it.
    pub(super) fn show(&self, config: &EndpointConfig) -> String {
        // A field is reached as one to change; the copy leaves what is asked about alone.
        let config = &mut config.clone();
        match self {
            Field::Time(access, _) => show_time(*access(config)),
            Field::Flag(access) => access(config).to_string(),
            Field::Weight(access) => access(config).to_string(),
            Field::Number16(access, _) => access(config).to_string(),
            Field::Number(access, _) => access(config).to_string(),
            Field::OptionalNumber(access, _) => match access(config) {
                Some(number) => number.to_string(),
                None => NONE.to_owned(),
            },
            Field::Size(access, _) => access(config).to_string(),
            Field::Bytes32(access, _) => show_bytes(*access(config) as usize),
            Field::Bytes(access, _) => show_bytes(*access(config)),
            Field::Words(words) => (words.show)(config),
        }
    }

    /// What kind of value it takes.
    pub(super) fn unit(&self) -> &'static str {
        match self {
            Field::Time(..) => "time",
            Field::Flag(_) => "true|false",
            Field::Weight(_) => "0 to 1",
            Field::Number16(..) | Field::Number(..) | Field::Size(..) => "count",
            Field::OptionalNumber(..) => "count|none",
            Field::Bytes32(..) | Field::Bytes(..) => "bytes",
            Field::Words(words) => words.unit,
        }
    }
}

pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    link::words::duration(text)
        .map_err(|_| "a number with its unit is expected, such as 200ms, 1.5s or 10min".to_owned())
}

pub(super) fn show_time(time: Duration) -> String {
    // One unit reads better than several: 90s, not 1m 30s.
    if time.subsec_nanos() == 0 {
        format!("{}s", time.as_secs())
    } else {
        humantime::format_duration(time)
            .to_string()
            .replace(' ', "")
    }
}

fn parse_flag(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" | "yes" => Ok(true),
        "false" | "off" | "no" => Ok(false),
        _ => Err("true or false is expected".into()),
    }
}

/// A number from 0 to 1, or a fraction: 0.125 or 1/8.
fn parse_weight(text: &str) -> Result<f64, String> {
    let value = match text.split_once('/') {
        Some((numerator, denominator)) => numerator
            .parse()
            .and_then(|numerator: f64| Ok(numerator / denominator.parse::<f64>()?)),
        None => text.parse(),
    };
    value
        .ok()
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| "a number from 0 to 1 is expected, such as 0.125 or 1/8".into())
}

fn parse_number<T>(text: &str, range: &RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Copy + ToString,
{
    let out_of_range = || {
        format!(
            "a whole number from {} to {} is expected",
            range.start().to_string(),
            range.end().to_string()
        )
    };
    let number = text.parse().map_err(|_| out_of_range())?;
    range
        .contains(&number)
        .then_some(number)
        .ok_or_else(out_of_range)
}

/// A number of bytes, in units of 1024 with k, of 1024 squared with M, and so on with G.
fn parse_bytes(text: &str) -> Result<usize, String> {
    if text == UNLIMITED {
        return Ok(usize::MAX);
    }
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], KIB),
        Some((at, 'm' | 'M')) => (&text[..at], MIB),
        Some((at, 'g' | 'G')) => (&text[..at], GIB),
        _ => (text, 1),
    };
    let number: Option<usize> = digits.parse().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| {
            "a number of bytes is expected, such as 1500, 64k (of 1024), 1M or 2G".into()
        })
}

fn show_bytes(bytes: usize) -> String {
    match bytes {
        usize::MAX => UNLIMITED.to_owned(),
        bytes if bytes >= GIB && bytes.is_multiple_of(GIB) => format!("{}G", bytes / GIB),
        bytes if bytes >= MIB && bytes.is_multiple_of(MIB) => format!("{}M", bytes / MIB),
        bytes if bytes >= KIB && bytes.is_multiple_of(KIB) => format!("{}k", bytes / KIB),
        bytes => bytes.to_string(),
    }
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const GIB: usize = 1024 * MIB;

fn within<T: PartialOrd + Copy>(
    range: &RangeInclusive<T>,
    value: T,
    show: impl Fn(T) -> String,
) -> Result<T, String> {
    range.contains(&value).then_some(value).ok_or_else(|| {
        format!(
            "{} to {} is expected",
            show(*range.start()),
            show(*range.end())
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_time("2min"), Ok(Duration::from_secs(120)));
        for wrong in [
            "",
            "1",
            "s",
            "-1s",
            "1parsec",
            "99999999999999999999s",
            "\u{1F600}",
        ] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        for time in [0, 1, 200, 1000, 1500, 90_000] {
            let time = Duration::from_millis(time);
            assert_eq!(parse_time(&show_time(time)), Ok(time));
        }
    }

    #[test]
    fn bytes_may_be_counted_in_larger_units() {
        assert_eq!(parse_bytes("1500"), Ok(1500));
        assert_eq!(parse_bytes("64k"), Ok(65_536));
        assert_eq!(parse_bytes("1M"), Ok(1 << 20));
        assert_eq!(parse_bytes("2G"), Ok(2 << 30));
        for wrong in [
            "",
            "k",
            "-1",
            "1.5k",
            "64kB",
            "99999999999999999999",
            "18014398509481984k",
            "é",
        ] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        for bytes in [0, 1, 1500, 65_536, 1 << 20, 3 << 30, usize::MAX] {
            assert_eq!(parse_bytes(&show_bytes(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn weights_may_be_fractions() {
        assert_eq!(parse_weight("1/8"), Ok(0.125));
        assert_eq!(parse_weight("0.25"), Ok(0.25));
        for wrong in ["", "/", "1/0", "0/0", "2", "-0.1", "NaN", "1/8/2"] {
            assert!(parse_weight(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_say_their_range() {
        assert_eq!(parse_number("7", &(1..=9_u32)), Ok(7));
        for wrong in ["0", "10", "-1", "x", "", "4294967296"] {
            let error = parse_number(wrong, &(1..=9_u32)).unwrap_err();
            assert!(error.contains("from 1 to 9"), "{error}");
        }
    }

    #[test]
    fn flags_are_true_or_false() {
        assert_eq!(parse_flag("on"), Ok(true));
        assert_eq!(parse_flag("false"), Ok(false));
        assert!(parse_flag("2").is_err());
    }
}
