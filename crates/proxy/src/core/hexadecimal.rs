//! Octets as letters and digits, for what has to stand in a URI or a quoted string whatever others do
//! with its case.

/// The octets in lower case, two digits each.
pub(crate) fn write(octets: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * octets.len());
    for octet in octets {
        for digit in [octet >> 4, octet & 0xf] {
            text.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
    text
}

/// The octets of a text in any case; `None` where it is anything else.
pub(crate) fn read(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    // All are looked up first, and what is no digit shows at the end.
    let mut is_digits = 0;
    let octets = pairs
        .iter()
        .map(|[high, low]| {
            let (high, low) = (VALUES[usize::from(*high)], VALUES[usize::from(*low)]);
            is_digits |= high | low;
            high << 4 | low & 0xf
        })
        .collect();
    (is_digits & NO_DIGIT == 0).then_some(octets)
}

/// A bit that no digit has.
const NO_DIGIT: u8 = 0x80;

/// The values of digits in any case.
const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value];
        values[digit as usize] = value as u8;
        values[digit.to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_read_back_in_any_case_and_nothing_else_is() {
        let octets: Vec<u8> = (0..=u8::MAX).collect();
        let text = write(&octets);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"));
        assert_eq!(read(&text), Some(octets.clone()));
        assert_eq!(read(&text.to_uppercase()), Some(octets));
        assert_eq!(read(""), Some(Vec::new()));
        for octet in (0..0x80).filter(|octet: &u8| !octet.is_ascii_hexdigit()) {
            let octet = char::from(octet);
            assert_eq!(read(&format!("0{octet}")), None);
            assert_eq!(read(&format!("{octet}0")), None);
        }
        assert_eq!(read("0"), None);
        assert_eq!(read("00\u{e4}"), None);
    }
}
