//! How values are written in the file.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sip::Transport;
use sip::digest::Algorithm;
use toml::de::DeValue;

use crate::HostPort;
use crate::core::{AddressRange, Pattern};
use crate::location::Url;

/// What a key can have as its value.
pub(super) trait Value: Sized {
    /// What is allowed, as in "a whole number".
    fn allowed() -> String;

    /// Reads it; `None` where it is something else.
    fn read(value: &DeValue<'_>) -> Option<Self>;

    /// As it stands in a file.
    fn write(&self) -> String;
}

impl Value for bool {
    fn allowed() -> String {
        "true or false".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Option<bool> {
        value.as_bool()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn allowed() -> String {
                match <$number>::BITS {
                    64 => "a whole number from 0 on".to_owned(),
                    _ => format!("a whole number from 0 to {}", <$number>::MAX),
                }
            }

            fn read(value: &DeValue<'_>) -> Option<$number> {
                let number = value.as_integer()?;
                <$number>::from_str_radix(number.as_str(), number.radix()).ok()
            }

            fn write(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, usize);

/// What is read from a text and written as one.
macro_rules! texts {
    ($($text:ty: $allowed:literal),* $(,)?) => {$(
        impl Value for $text {
            fn allowed() -> String {
                $allowed.to_owned()
            }

            fn read(value: &DeValue<'_>) -> Option<$text> {
                value.as_str()?.parse().ok()
            }

            fn write(&self) -> String {
                quoted(&self.to_string())
            }
        }
    )*};
}

texts! {
    String: "a text in quotes",
    IpAddr: "an IP address such as \"192.0.2.1\"",
    SocketAddr: "an IP address with a port, such as \"192.0.2.1:5060\" or \"[2001:db8::1]:5060\"",
    HostPort: "a host, with or without a port, such as \"sip.example.org\" or \"192.0.2.1:5060\"",
    Algorithm: "one of \"MD5\", \"SHA-256\", \"SHA-512-256\"",
    AddressRange: "an address or network such as \"192.0.2.1\" or \"192.0.2.0/24\"",
    Url: "sqlite:PATH or memory:, in quotes",
    Transport: "one of \"udp\", \"tcp\", \"tls\", \"sctp\", \"tls-sctp\", \"ws\", \"wss\"",
}

impl Value for Pattern {
    fn allowed() -> String {
        "a text in quotes, in which * stands for anything".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Option<Pattern> {
        value.as_str().map(Pattern::new)
    }

    fn write(&self) -> String {
        quoted(&self.to_string())
    }
}

impl Value for PathBuf {
    fn allowed() -> String {
        "the path of a file, in quotes".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Option<PathBuf> {
        let path = value.as_str()?;
        (!path.is_empty()).then(|| path.into())
    }

    fn write(&self) -> String {
        quoted(&self.to_string_lossy())
    }
}

impl Value for Duration {
    fn allowed() -> String {
        "a time: a number with its unit ms, s, min, h or d, such as \"30s\"".to_owned()
    }

    fn read(value: &DeValue<'_>) -> Option<Duration> {
        duration(value.as_str()?)
    }

    fn write(&self) -> String {
        let milliseconds = self.as_millis();
        let unit = UNITS
            .iter()
            .rev()
            .find(|(_, unit)| milliseconds > 0 && milliseconds.is_multiple_of(u128::from(*unit)));
        match unit {
            Some((name, unit)) => format!("\"{}{name}\"", milliseconds / u128::from(*unit)),
            None => format!("\"{milliseconds}ms\""),
        }
    }
}

impl<T: Value> Value for Vec<T> {
    fn allowed() -> String {
        format!("a list in brackets, each {}", T::allowed())
    }

    fn read(value: &DeValue<'_>) -> Option<Vec<T>> {
        let values = value.as_array()?.iter();
        values.map(|value| T::read(value.get_ref())).collect()
    }

    fn write(&self) -> String {
        let values: Vec<String> = self.iter().map(Value::write).collect();
        format!("[{}]", values.join(", "))
    }
}

/// Milliseconds of each unit, the smallest first.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("min", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

fn duration(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let (_, milliseconds) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
    Some(Duration::from_millis(number.checked_mul(*milliseconds)?))
}

/// A text as TOML wants it.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_are_written_with_the_largest_that_fits() {
        for (text, milliseconds, written) in [
            ("250ms", 250, "\"250ms\""),
            ("90 s", 90_000, "\"90s\""),
            ("120s", 120_000, "\"2min\""),
            ("24h", 86_400_000, "\"1d\""),
            ("0s", 0, "\"0ms\""),
        ] {
            let read = duration(text).expect("a time");
            assert_eq!(read, Duration::from_millis(milliseconds));
            assert_eq!(read.write(), written);
        }
        for wrong in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "5 weeks",
            "18446744073709551615d",
        ] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
