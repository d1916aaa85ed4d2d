//! Exact numbers with decimals as text.

use std::io::Write;

/// A number of which the last so many digits are decimals.
///
/// ```
/// let number = report::FixedPoint::new(-1_500, 3, b'.');
/// assert_eq!(number.as_bytes(), b"-1.500");
/// assert_eq!(number.shortest(), b"-1.5");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FixedPoint {
    octets: [u8; LONGEST],
    length: u8,
    /// Without the zeros at the end that say nothing.
    shortest: u8,
    decimals: u8,
}

/// A sign, a digit, a point, and all the decimals.
const LONGEST: usize = 3 + FixedPoint::MOST_DECIMALS;

impl FixedPoint {
    /// Decimals at most: no number has more digits.
    pub const MOST_DECIMALS: usize = 19;

    /// Writes a number with so many decimals behind this point. Without decimals there is no point.
    ///
    /// # Panics
    ///
    /// When there are more decimals than [`MOST_DECIMALS`](Self::MOST_DECIMALS).
    pub fn new(number: i64, decimals: usize, point: u8) -> FixedPoint {
        assert!(decimals <= Self::MOST_DECIMALS, "{decimals} decimals");
        let unit = 10_u64.pow(decimals as u32);
        let size = number.unsigned_abs();
        let (whole, fraction) = (size / unit, size % unit);
        let sign = if number < 0 { "-" } else { "" };
        let mut octets = [0; LONGEST];
        let mut rest = &mut octets[..];
        let written = match decimals {
            0 => write!(rest, "{sign}{whole}"),
            _ => write!(
                rest,
                "{sign}{whole}{}{fraction:0decimals$}",
                char::from(point)
            ),
        };
        written.expect("there is room for the longest number");
        let length = LONGEST - rest.len();
        let digits = octets[..length].iter().rev().take(decimals);
        let zeros = digits.take_while(|digit| **digit == b'0').count();
        FixedPoint {
            octets,
            length: length as u8,
            shortest: (length - zeros.min(decimals.saturating_sub(1))) as u8,
            decimals: decimals as u8,
        }
    }

    /// The same number with another point.
    #[must_use]
    pub fn with_point(mut self, point: u8) -> FixedPoint {
        if self.decimals > 0 {
            self.octets[usize::from(self.length - 1 - self.decimals)] = point;
        }
        self
    }

    /// The number with all of its decimals.
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }

    /// The number without zeros at the end of its decimals, of which one is left.
    pub fn shortest(&self) -> &[u8] {
        &self.octets[..usize::from(self.shortest)]
    }

    /// Appends the number with all of its decimals to a text.
    pub fn push_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    /// Appends the number as [`shortest`](Self::shortest) has it.
    pub fn push_shortest_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.shortest());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(number: i64, decimals: usize) -> [String; 2] {
        let number = FixedPoint::new(number, decimals, b'.');
        let (mut all, mut shortest) = (b"a".to_vec(), b"b".to_vec());
        number.push_to(&mut all);
        number.push_shortest_to(&mut shortest);
        assert_eq!(
            (&all[1..], &shortest[1..]),
            (number.as_bytes(), number.shortest())
        );
        [number.as_bytes(), number.shortest()].map(|text| String::from_utf8(text.to_vec()).unwrap())
    }

    #[test]
    fn numbers_are_exact() {
        assert_eq!(text(0, 9), ["0.000000000", "0.0"]);
        assert_eq!(text(22_100_000, 9), ["0.022100000", "0.0221"]);
        assert_eq!(text(-1, 9), ["-0.000000001", "-0.000000001"]);
        assert_eq!(text(20_000, 3), ["20.000", "20.0"]);
        assert_eq!(text(1234, 3), ["1.234", "1.234"]);
        assert_eq!(text(i64::MIN, 9)[1], "-9223372036.854775808");
        assert_eq!(text(i64::MAX, 19)[1], "0.9223372036854775807");
        assert_eq!(text(i64::MIN, 19)[0], "-0.9223372036854775808");
        assert_eq!(text(i64::MIN, 0)[0], "-9223372036854775808");
        assert_eq!(text(-7, 0), ["-7", "-7"]);
        assert_eq!(text(100, 0), ["100", "100"]);
        assert_eq!(text(0, 0), ["0", "0"]);
        assert_eq!(text(i64::MIN, 6)[0], "-9223372036854.775808");
        assert_eq!(text(1_000_000, 6)[1], "1.0");
        assert_eq!(text(100_000_000, 9)[1], "0.1");
    }

    #[test]
    fn a_point_may_be_a_comma() {
        for decimals in [0, 9, 19] {
            let with_comma = FixedPoint::new(-1, decimals, b'.').with_point(b',');
            let from_the_beginning = FixedPoint::new(-1, decimals, b',');
            assert_eq!(with_comma.as_bytes(), from_the_beginning.as_bytes());
        }
    }

    #[test]
    #[should_panic = "20 decimals"]
    fn more_decimals_than_digits_are_refused() {
        FixedPoint::new(1, FixedPoint::MOST_DECIMALS + 1, b'.');
    }

    proptest! {
        #[test]
        fn they_are_written_as_format_writes_them(
            digits: i64,
            zeros in 0_u32..19,
            decimals in prop_oneof![Just(6_usize), Just(9), 0..=FixedPoint::MOST_DECIMALS],
        ) {
            let unit = 10_i64.pow(zeros);
            let number = digits / unit * unit;
            let (sign, size) = (if number < 0 { "-" } else { "" }, u128::from(number.unsigned_abs()));
            let unit = 10_u128.pow(decimals as u32);
            let whole = format!("{sign}{}", size / unit);
            let fraction = format!("{:0decimals$}", size % unit);
            let [all, shortest] = text(number, decimals);
            if decimals == 0 {
                prop_assert_eq!([&*all, &*shortest], [&*whole; 2]);
            } else {
                let kept = fraction.trim_end_matches('0');
                let kept = if kept.is_empty() { "0" } else { kept };
                prop_assert_eq!(all, format!("{whole}.{fraction}"));
                prop_assert_eq!(shortest, format!("{whole}.{kept}"));
            }
        }
    }
}
