//! Numbers written into texts. The formatter of the standard library does the same for anything that can
//! be shown, which takes as long as all else that is written into a forwarded request.

/// Appends 16 hexadecimal digits in lower case.
pub(crate) fn push_hex(text: &mut String, number: u64) {
    text.push_str(Digits::hexadecimal(number).as_str());
}

/// A number written in digits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digits {
    octets: [u8; 16],
    start: usize,
}

impl Digits {
    /// 16 hexadecimal digits in lower case.
    pub(crate) fn hexadecimal(number: u64) -> Digits {
        // A half octet in each octet, the highest first.
        let spread = |half: u32| {
            let wide = u64::from(half);
            let wide = (wide | wide << 16) & 0x0000_ffff_0000_ffff;
            let wide = (wide | wide << 8) & 0x00ff_00ff_00ff_00ff;
            let halves = (wide | wide << 4) & 0x0f0f_0f0f_0f0f_0f0f;
            // One in each octet that is to be a letter.
            let letters = (halves + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
            let distance = u64::from(b'a' - b'0' - 10);
            halves + 0x3030_3030_3030_3030 + letters * distance
        };
        let mut octets = [0; 16];
        let (high, low) = octets.split_at_mut(8);
        high.copy_from_slice(&spread((number >> 32) as u32).to_be_bytes());
        low.copy_from_slice(&spread(number as u32).to_be_bytes());
        Digits { octets, start: 0 }
    }

    /// Decimal digits.
    pub(crate) fn decimal(mut number: u32) -> Digits {
        let mut octets = [b'0'; 16];
        let mut start = octets.len();
        while number > 0 || start == octets.len() {
            start -= 1;
            octets[start] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        Digits { octets, start }
    }

    pub(crate) fn as_str(&self) -> &str {
        // They are digits.
        std::str::from_utf8(&self.octets[self.start..]).unwrap_or_default()
    }
}

/// Appends a number in decimal digits.
pub(crate) fn push_decimal(text: &mut String, number: u32) {
    text.push_str(Digits::decimal(number).as_str());
}

/// A number in decimal digits.
pub(crate) fn decimal(number: u32) -> String {
    let mut text = String::new();
    push_decimal(&mut text, number);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_the_formatter_does() {
        for number in [0, 1, 9, 10, 70, 255, 5060, 65_535, 100_000, u32::MAX] {
            assert_eq!(decimal(number), number.to_string());
            let wide = u64::from(number) << 29 | u64::from(number);
            let mut text = String::from("x");
            push_hex(&mut text, wide);
            assert_eq!(text, format!("x{wide:016x}"));
        }
    }
}
