//! Numbers, times and octets as text.

use std::io::Write;
use std::time::{Duration, SystemTime};

/// The most octets that a variable holds.
pub(super) const MAXIMUM_VALUE: usize = 16 * 1024;

/// The number that a text is.
pub(super) fn number(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    number.is_finite().then_some(number)
}

/// Adds to the number that has been written since `begin`. What is no number stays as it is.
pub(super) fn add(offset: i64, begin: usize, out: &mut Vec<u8>) {
    let written = std::str::from_utf8(out.get(begin..).unwrap_or_default());
    let number: Option<i64> = written.ok().and_then(|text| text.trim().parse().ok());
    if let Some(number) = number {
        out.truncate(begin);
        // Writing to memory does not fail.
        let _ = write!(out, "{}", number.saturating_add(offset));
    }
}

/// Octets with `%` and two digits in place of those that are not unreserved (RFC 3986 section 2.3).
pub(super) fn url_encoded(octets: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(octets.len());
    for octet in octets {
        match octet {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(*octet)
            }
            // Writing to memory does not fail.
            _ => drop(write!(encoded, "%{octet:02X}")),
        }
    }
    encoded
}

/// Octets in place of `%` and two digits.
pub(super) fn url_decoded(octets: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(octets.len());
    let mut rest = octets;
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let octet = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(octet.unwrap_or(*first));
        rest = after
            .get(if octet.is_some() { 2 } else { 0 }..)
            .unwrap_or_default();
    }
    decoded
}

/// Writes octets in base64 (RFC 4648 section 4).
pub(super) fn write_base64(octets: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in octets.chunks(3) {
        let octet = |at: usize| u32::from(group.get(at).copied().unwrap_or_default());
        let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
        for digit in 0..4 {
            let index = bits >> (18 - 6 * digit) & 63;
            let written = DIGITS.get(index as usize).copied();
            let is_padding = digit > group.len();
            out.push(written.filter(|_| !is_padding).unwrap_or(b'='));
        }
    }
}

/// Writes a time since 1970 as a Date field has it (RFC 3261 section 20.17).
pub(super) fn write_date(since_1970: Duration, out: &mut Vec<u8>) {
    let time = SystemTime::UNIX_EPOCH + since_1970.min(LATEST);
    out.extend_from_slice(httpdate::fmt_http_date(time).as_bytes());
}

/// Writes a time since 1970 as SIPp's `[timestamp]` has it, in UTC.
pub(super) fn write_timestamp(since_1970: Duration, out: &mut Vec<u8>) {
    let since_1970 = since_1970.min(LATEST);
    let time = humantime::format_rfc3339_micros(SystemTime::UNIX_EPOCH + since_1970).to_string();
    let (date, time) = time.split_once('T').unwrap_or_default();
    let time = time.trim_end_matches('Z');
    let seconds = since_1970.as_secs();
    let microseconds = since_1970.subsec_micros();
    let _ = write!(out, "{date}\t{time}\t{seconds}.{microseconds:06}");
}

/// The last second of the year 9999: what can be written in four digits.
const LATEST: Duration = Duration::from_secs(253_402_300_799);

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_of_uris_are_encoded_and_decoded() {
        assert_eq!(url_encoded(b"a b/\xff~"), b"a%20b%2F%FF~");
        assert_eq!(url_decoded(b"a%20b%2f%FF~%4"), b"a b/\xff~%4");
    }

    #[test]
    fn numbers_are_added_to() {
        for (text, offset, sum) in [
            ("7", 3, "10"),
            ("7", -9, "-2"),
            ("UDP", 3, "UDP"),
            ("", 1, ""),
        ] {
            let mut out = format!("1{text}").into_bytes();
            add(offset, 1, &mut out);
            assert_eq!(out, format!("1{sum}").into_bytes());
        }
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (octets, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(written(|out| write_base64(octets.as_bytes(), out)), text);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let time = Duration::from_secs(951_782_400);
        assert_eq!(
            written(|out| write_date(time, out)),
            "Tue, 29 Feb 2000 00:00:00 GMT"
        );
        let time = Duration::new(1_795_903_387, 26_307_999);
        assert_eq!(
            written(|out| write_timestamp(time, out)),
            "2026-11-28\t22:03:07.026307\t1795903387.026307"
        );
        let latest = written(|out| write_date(Duration::MAX, out));
        assert!(latest.ends_with("Dec 9999 23:59:59 GMT"), "{latest}");
    }
}
