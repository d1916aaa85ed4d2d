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
    Transport: "one of \"udp\", \"tcp\", \"tls\", \"sctp\", \"tls-sctp\", \"ws\", \"wss\"",
}

impl Value for Url {
    fn allowed() -> String {
        format!("{}, in quotes", Url::known_forms())
    }

    fn read(value: &DeValue<'_>) -> Option<Url> {
        value.as_str()?.parse().ok()
    }

    fn write(&self) -> String {
        quoted(&self.to_string())
    }
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
        link::words::duration(value.as_str()?).ok()
    }

    fn write(&self) -> String {
        let seconds = self.as_secs();
        let is_whole = self.subsec_nanos() == 0 && seconds > 0;
        let mut units = UNITS.iter().filter(|_| is_whole);
        match units.find(|(_, unit)| seconds.is_multiple_of(*unit)) {
            Some((name, unit)) => format!("\"{}{name}\"", seconds / unit),
            None if self.is_zero() => "\"0ms\"".to_owned(),
            None => quoted(&link::words::show_duration(*self)),
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

/// Seconds of each unit above the second, the largest first.
const UNITS: [(&str, u64); 3] = [("d", 86_400), ("h", 3_600), ("min", 60)];

/// A text as TOML wants it.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_are_written_with_the_largest_that_fits() {
        let read = |text: &str| Duration::read(&DeValue::String(text.into()));
        for (text, microseconds, written) in [
            ("250us", 250, "\"250us\""),
            ("250ms", 250_000, "\"250ms\""),
            ("1.5s", 1_500_000, "\"1500ms\""),
            ("90 s", 90_000_000, "\"90s\""),
            ("120s", 120_000_000, "\"2min\""),
            ("2h 30min", 9_000_000_000, "\"150min\""),
            ("24h", 86_400_000_000, "\"1d\""),
            ("0s", 0, "\"0ms\""),
        ] {
            let read = read(text).expect("a time");
            assert_eq!(read, Duration::from_micros(microseconds));
            assert_eq!(read.write(), written);
        }
        for wrong in ["", "5", "s", "-1s", "5 lightyears", "18446744073709551615d"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
