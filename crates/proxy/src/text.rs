//! Numbers written into texts. The formatter of the standard library does the same for anything that can
//! be shown, which takes as long as all else that is written into a forwarded request.

/// Appends 16 hexadecimal digits in lower case.
pub(crate) fn push_hex(text: &mut String, number: u64) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    text.reserve(16);
    text.extend(
        (0..16)
            .rev()
            .map(|place| DIGITS[(number >> (4 * place)) as usize & 0xf]),
    );
}

/// Appends a number in decimal digits.
pub(crate) fn push_decimal(text: &mut String, number: u32) {
    if number >= 10 {
        push_decimal(text, number / 10);
    }
    text.extend(char::from_digit(number % 10, 10));
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
