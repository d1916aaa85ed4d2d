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
    octets: [u8; LONGEST],
    length: u8,
    /// Without the zeros at the end that say nothing.
    shortest: u8,
    decimals: u8,
}

/// A sign, a digit, a point, and all the decimals: whole words, in which it is written.
const LONGEST: usize = (3 + FixedPoint::MOST_DECIMALS).next_multiple_of(8);

/// Digits that are written at once.
const EIGHT_DIGITS: u64 = 100_000_000;

impl FixedPoint {
    /// Decimals at most: no number has more digits.
    pub const MOST_DECIMALS: usize = 20;

    /// Writes a number with so many decimals behind this point. Without decimals there is no point.
    ///
    /// # Panics
    ///
    /// When there are more decimals than [`MOST_DECIMALS`](Self::MOST_DECIMALS).
    #[inline]
    pub fn new(number: i64, decimals: usize, point: u8) -> FixedPoint {
        let size = number.unsigned_abs();
        // Nanoseconds as seconds and as milliseconds.
        match decimals {
            9 => FixedPoint::usual::<9>(number < 0, size, point),
            6 => FixedPoint::usual::<6>(number < 0, size, point),
            _ => FixedPoint::any(number, decimals, point),
        }
    }

    /// Writes a number with six or nine decimals.
    fn usual<const DECIMALS: u8>(is_negative: bool, size: u64, point: u8) -> FixedPoint {
        const {
            assert!(DECIMALS == 6 || DECIMALS == 9);
        }
        let unit = const { 10_u64.pow(DECIMALS as u32) };
        let mut text = FixedPoint {
            octets: [b'0'; LONGEST],
            length: 0,
            shortest: 0,
            decimals: DECIMALS,
        };
        if is_negative {
            text.push([b'-'], 1);
        }
        match size / unit {
            digit @ ..10 => text.push([b'0' + digit as u8], 1),
            short @ ..EIGHT_DIGITS => text.push_short(short),
            long => {
                text.push_short(long / EIGHT_DIGITS);
                text.push(eight_digits(long % EIGHT_DIGITS), 8);
            }
        }
        text.push([point], 1);
        let fraction = size % unit;
        // Of nine digits the first one stands alone; to six, two zeros are added, which are written over.
        let (first, eight) = match DECIMALS {
            9 => (fraction / EIGHT_DIGITS, fraction % EIGHT_DIGITS),
            _ => (0, fraction * 100),
        };
        let (alone, added) = if DECIMALS == 9 { (1, 0) } else { (0, 2) };
        text.push([b'0' + first as u8], alone);
        let digits = eight_digits(eight);
        let zeros = match u64::from_le_bytes(digits) ^ u64::from_le_bytes([b'0'; 8]) {
            // One of them is written: the first of nine, whatever it is.
            0 => DECIMALS - 1,
            // The last digit is the highest octet.
            differing => (differing.leading_zeros() / 8) as u8 - added,
        };
        text.push(digits, 8 - added);
        text.shortest = text.length - zeros;
        text
    }

    /// Writes any number.
    fn any(number: i64, decimals: usize, point: u8) -> FixedPoint {
        assert!(decimals <= Self::MOST_DECIMALS, "{decimals} decimals");
        let mut text = FixedPoint {
            octets: [b'0'; LONGEST],
            length: 0,
            shortest: 0,
            decimals: decimals as u8,
        };
        // From the last digit on: all decimals, one digit before them, and as many more as there are.
        let mut digits = [0; LONGEST];
        let mut count = 0;
        let mut rest = number.unsigned_abs();
        while rest > 0 || count <= decimals {
            digits[count] = b'0' + (rest % 10) as u8;
            rest /= 10;
            count += 1;
        }
        if number < 0 {
            text.push([b'-'], 1);
        }
        for at in (0..count).rev() {
            text.push([digits[at]], 1);
            if at == decimals && decimals > 0 {
                text.push([point], 1);
            }
        }
        let is_zero = |digit: &&u8| **digit == b'0';
        let zeros = digits[..decimals].iter().take_while(is_zero).count();
        text.shortest = text.length - zeros.min(decimals.saturating_sub(1)) as u8;
        text
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
    #[inline]
    pub fn push_to(&self, out: &mut Vec<u8>) {
        self.push_first(self.length, out);
    }

    /// Appends the number as [`shortest`](Self::shortest) has it.
    #[inline]
    pub fn push_shortest_to(&self, out: &mut Vec<u8>) {
        self.push_first(self.shortest, out);
    }

    /// Appends so many octets: all there may be, of a length that is known here, and then fewer, which is quicker than to
    /// ask somebody for so many.
    #[inline]
    fn push_first(&self, length: u8, out: &mut Vec<u8>) {
        let end = out.len() + usize::from(length);
        out.extend_from_slice(&self.octets);
        out.truncate(end);
    }

    /// Writes a number below 10^8 without zeros before it.
    #[inline(always)]
    fn push_short(&mut self, number: u64) {
        let digits = u64::from_le_bytes(eight_digits(number));
        let differing = digits ^ u64::from_le_bytes([b'0'; 8]);
        // The first digit is the lowest octet; of a zero the last one is left.
        let zeros = (differing.trailing_zeros() / 8).min(7);
        self.push((digits >> (8 * zeros)).to_le_bytes(), 8 - zeros as u8);
    }

    /// Writes octets, of which the first so many count.
    #[inline(always)]
    fn push<const N: usize>(&mut self, octets: [u8; N], count: u8) {
        let place = self.octets.get_mut(usize::from(self.length)..);
        if let Some(place) = place.and_then(<[u8]>::first_chunk_mut) {
            *place = octets;
        }
        self.length += count;
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
        assert_eq!(text(i64::MAX, 20)[1], "0.09223372036854775807");
        assert_eq!(text(i64::MIN, 20)[0], "-0.09223372036854775808");
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
