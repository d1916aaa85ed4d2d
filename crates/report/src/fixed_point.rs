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

/// A sign, a digit, a point, and all the decimals: whole words, in which zeros are counted.
const LONGEST: usize = (3 + FixedPoint::MOST_DECIMALS).next_multiple_of(8);

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
        let size = number.unsigned_abs();
        let (whole, fraction) = match decimals {
            // Nanoseconds as seconds and as milliseconds.
            9 => (size / 1_000_000_000, size % 1_000_000_000),
            6 => (size / 1_000_000, size % 1_000_000),
            _ => match 10_u64.checked_pow(decimals as u32) {
                Some(unit) => (size / unit, size % unit),
                None => (0, size),
            },
        };
        if decimals > 0 {
            text.write_fraction(fraction);
            text.start = LONGEST - decimals;
            text.push(point);
        }
        text.push_whole(whole);
        if number < 0 {
            text.push(b'-');
        }
        text
    }

    /// The same number with another point.
    #[must_use]
    pub fn with_point(mut self, point: u8) -> FixedPoint {
        if self.decimals > 0 {
            self.octets[LONGEST - 1 - self.decimals] = point;
        }
        self
    }

    /// The number with all of its decimals.
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[self.start..]
    }

    /// The number with its decimals up to the last that is not zero, and at least one where it has any.
    pub fn shortest(&self) -> &[u8] {
        let mut zeros = 0;
        for octets in self.octets.as_chunks::<8>().0.iter().rev() {
            // The last octet is the highest.
            let differing = u64::from_le_bytes(*octets) ^ u64::from_le_bytes([b'0'; 8]);
            zeros += differing.leading_zeros() as usize / 8;
            if differing != 0 {
                break;
            }
        }
        let most = self.decimals.saturating_sub(1);
        &self.octets[self.start..LONGEST - zeros.min(most)]
    }

    /// Writes a number so that its last digit is the last octet; before it are zeros.
    #[inline]
    fn write_fraction(&mut self, mut fraction: u64) {
        const UNIT: u64 = 100_000_000;
        let mut rest = &mut self.octets[..];
        while let Some((before, octets)) = rest.split_last_chunk_mut() {
            *octets = eight_digits(fraction % UNIT);
            fraction /= UNIT;
            if fraction < 10 {
                // Nanoseconds have nine digits.
                if let Some(digit) = before.last_mut() {
                    *digit = b'0' + fraction as u8;
                }
                break;
            }
            rest = before;
        }
    }

    /// Writes the digits of a whole number before what was written.
    #[inline]
    fn push_whole(&mut self, mut whole: u64) {
        while whole >= 100 {
            self.push_pair(whole % 100);
            whole /= 100;
        }
        match whole {
            10.. => self.push_pair(whole),
            _ => self.push(whole as u8 + b'0'),
        }
    }

    /// Writes a number below 100 with two digits.
    #[inline]
    fn push_pair(&mut self, number: u64) {
        let [ten, one] = PAIRS[number as usize];
        self.push(one);
        self.push(ten);
    }

    #[inline]
    fn push(&mut self, octet: u8) {
        self.start -= 1;
        self.octets[self.start] = octet;
    }
}

/// A number below 10^8 with eight digits, which are calculated side by side.
#[inline]
fn eight_digits(number: u64) -> [u8; 8] {
    // Halves of four digits each, then of two, then of one: the higher ones stand first, in the lower bits. Dividing by
    // 100 and by 10 is multiplying and shifting, exact for numbers as small as these.
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | ((twos - 10 * tens) << 8);
    (ones | u64::from_le_bytes([b'0'; 8])).to_le_bytes()
}

/// The numbers below 100 with two digits each.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

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
    fn a_point_may_be_a_comma() {
        for decimals in [0, 9, 20] {
            let with_comma = FixedPoint::new(-1, decimals, b'.').with_point(b',');
            let from_the_beginning = FixedPoint::new(-1, decimals, b',');
            assert_eq!(with_comma.as_bytes(), from_the_beginning.as_bytes());
        }
    }

    #[test]
    #[should_panic = "21 decimals"]
    fn more_decimals_than_digits_are_refused() {
        FixedPoint::new(1, FixedPoint::MOST_DECIMALS + 1, b'.');
    }

    proptest! {
        #[test]
        fn eight_digits_are_those_of_the_number(number in 0_u64..100_000_000) {
            let written = String::from_utf8(eight_digits(number).to_vec()).unwrap();
            prop_assert_eq!(written, format!("{number:08}"));
        }

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
