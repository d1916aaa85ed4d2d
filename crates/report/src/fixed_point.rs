//! Exact numbers as text, where there are too many for ways by floating-point numbers.

/// A number of which the last so many digits are decimals.
///
/// ```
/// let number = report::FixedPoint::new(-1_500, 3, b'.');
/// assert_eq!(number.as_bytes(), b"-1.500");
/// assert_eq!(number.shortest(), b"-1.5");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FixedPoint {
    /// Written from the end.
    octets: [u8; LONGEST],
    start: usize,
    decimals: usize,
}

/// A sign, a digit, a point, and all the decimals.
const LONGEST: usize = 3 + FixedPoint::MOST_DECIMALS;

impl FixedPoint {
    /// Decimals at most: no number has more digits.
    pub const MOST_DECIMALS: usize = 20;

    /// Writes a number with so many decimals behind this point. Without decimals there is no point.
    ///
    /// # Panics
    ///
    /// When there are more decimals than [`MOST_DECIMALS`](Self::MOST_DECIMALS).
    pub fn new(number: i64, decimals: usize, point: u8) -> FixedPoint {
        assert!(decimals <= Self::MOST_DECIMALS, "{decimals} decimals");
        let mut text = FixedPoint {
            octets: [b'0'; LONGEST],
            start: LONGEST,
            decimals,
        };
        let mut rest = number.unsigned_abs();
        if decimals > 0 {
            for _ in 0..decimals {
                text.push((rest % 10) as u8 + b'0');
                rest /= 10;
            }
            text.push(point);
        }
        loop {
            text.push((rest % 10) as u8 + b'0');
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            text.push(b'-');
        }
        text
    }

    /// The number with all of its decimals.
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[self.start..]
    }

    /// The number with its decimals up to the last that is not zero, and at least one where it has any.
    pub fn shortest(&self) -> &[u8] {
        let mut text = self.as_bytes();
        for _ in 1..self.decimals {
            let [rest @ .., b'0'] = text else {
                break;
            };
            text = rest;
        }
        text
    }

    #[inline]
    fn push(&mut self, octet: u8) {
        self.start -= 1;
        self.octets[self.start] = octet;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(number: i64, decimals: usize) -> [String; 2] {
        let number = FixedPoint::new(number, decimals, b'.');
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
        assert_eq!(text(i64::MAX, 20)[1], "0.09223372036854775807");
        assert_eq!(text(i64::MIN, 20)[0], "-0.09223372036854775808");
        assert_eq!(text(i64::MIN, 0)[0], "-9223372036854775808");
        assert_eq!(text(-7, 0), ["-7", "-7"]);
        assert_eq!(text(100, 0), ["100", "100"]);
        assert_eq!(text(0, 0), ["0", "0"]);
    }

    #[test]
    #[should_panic = "21 decimals"]
    fn more_decimals_than_digits_are_refused() {
        FixedPoint::new(1, FixedPoint::MOST_DECIMALS + 1, b'.');
    }

    proptest! {
        #[test]
        fn they_are_written_as_format_writes_them(
            digits: i64,
            zeros in 0_u32..19,
            decimals in 0..=FixedPoint::MOST_DECIMALS,
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
