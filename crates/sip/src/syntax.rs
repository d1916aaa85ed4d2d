//! Which octets may stand where (RFC 3261 section 25.1).

/// A set of octet classes, one bit each.
type Classes = u8;

/// `token`
pub(crate) const TOKEN: Classes = 1;
/// Labels of a domain name and the dots between them. The grammar forbids underscores, but names in
/// use have them.
pub(crate) const HOST: Classes = 1 << 1;
/// The user of a SIP URI, without escapes.
pub(crate) const USER: Classes = 1 << 2;
/// The password of a SIP URI, without escapes.
pub(crate) const PASSWORD: Classes = 1 << 3;
/// `paramchar`, without escapes: names and values of URI parameters.
pub(crate) const PARAMETER: Classes = 1 << 4;
/// `hnv-unreserved` and `unreserved`, without escapes: names and values of URI headers.
pub(crate) const HEADER: Classes = 1 << 5;
/// `reserved`, the octets that are not equivalent to their escaped form (section 19.1.4).
pub(crate) const RESERVED: Classes = 1 << 6;
/// What may stand in a URI of any scheme (RFC 3986 section 2).
pub(crate) const URI: Classes = 1 << 7;

const CLASSES: [Classes; 256] = {
    let mut table = [0; 256];
    table = mark(table, b"-.!%*_+`'~", TOKEN);
    table = mark(table, b"-._", HOST);
    // A number sign is to be escaped, but phones dial feature codes such as `*21#` without.
    table = mark(table, b"-_.!~*'()&=+$,;?/#", USER);
    table = mark(table, b"-_.!~*'()&=+$,", PASSWORD);
    table = mark(table, b"-_.!~*'()[]/:&+$", PARAMETER);
    table = mark(table, b"-_.!~*'()[]/?:+$", HEADER);
    table = mark(table, b";/?:@&=+$,", RESERVED);
    table = mark(table, b"-_.!~*'();/?:@&=+$,[]#%", URI);
    let mut octet = 0;
    while octet < 256 {
        if (octet as u8).is_ascii_alphanumeric() {
            table[octet] |= TOKEN | HOST | USER | PASSWORD | PARAMETER | HEADER | URI;
        }
        octet += 1;
    }
    table
};

const fn mark(mut table: [Classes; 256], octets: &[u8], class: Classes) -> [Classes; 256] {
    let mut at = 0;
    while at < octets.len() {
        table[octets[at] as usize] |= class;
        at += 1;
    }
    table
}

/// Whether an octet belongs to a class.
pub(crate) fn is(octet: u8, class: Classes) -> bool {
    CLASSES[usize::from(octet)] & class != 0
}

/// Whether all octets belong to a class.
pub(crate) fn all(octets: &[u8], class: Classes) -> bool {
    octets.iter().all(|&octet| is(octet, class))
}

/// Whether a text is a token: not empty, all octets of that class.
pub(crate) fn is_token(octets: &[u8]) -> bool {
    !octets.is_empty() && all(octets, TOKEN)
}

/// Whether all octets belong to a class or to a well-formed escape (`%` and two hexadecimal digits).
pub(crate) fn all_or_escaped(octets: &[u8], class: Classes) -> bool {
    let mut rest = octets;
    loop {
        match rest {
            [] => return true,
            [b'%', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = tail;
            }
            [octet, tail @ ..] if is(*octet, class) => rest = tail,
            _ => return false,
        }
    }
}

/// Whether an octet is part of linear white space. Line ends count: within a value they only stand
/// where a field is folded.
pub(crate) fn is_lws(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t' | b'\r' | b'\n')
}

/// A text without the white space at its beginning.
pub(crate) fn trim_start(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_lws(*first)
    {
        text = rest;
    }
    text
}

/// A text without the white space at its end.
pub(crate) fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., last] = text
        && is_lws(*last)
    {
        text = rest;
    }
    text
}

/// A text without the white space around it.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    trim_end(trim_start(text))
}

/// As [`trim`], for text.
pub(crate) fn trim_text(text: &str) -> &str {
    let without_start = &text[text.len() - trim_start(text.as_bytes()).len()..];
    &without_start[..trim_end(without_start.as_bytes()).len()]
}

/// Splits a text at the first octet of a value, which must be an ASCII one.
pub(crate) fn split_once(text: &str, octet: u8) -> Option<(&str, &str)> {
    let at = memchr::memchr(octet, text.as_bytes())?;
    Some((&text[..at], &text[at + 1..]))
}

/// Splits a text before the first octet of a value, which must be an ASCII one; behind all where
/// there is none.
pub(crate) fn split_before(text: &str, octet: u8) -> (&str, &str) {
    text.split_at(memchr::memchr(octet, text.as_bytes()).unwrap_or(text.len()))
}

/// The length of the quoted string at the beginning of a text, quotation marks included. `None`
/// where it does not end.
pub(crate) fn quoted_string_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// A number written in decimal digits and nothing else. `None` also where it exceeds the type.
pub(crate) fn number<T: TryFrom<u64>>(digits: &[u8]) -> Option<T> {
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    T::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_within_the_type() {
        assert_eq!(number::<u8>(b"0068"), Some(68));
        assert_eq!(number::<u8>(b"256"), None);
        assert_eq!(number::<u32>(b""), None);
        assert_eq!(number::<u32>(b"-1"), None);
        assert_eq!(number::<u32>(b"+1"), None);
        assert_eq!(number::<u64>(&[b'9'; 100]), None);
    }

    #[test]
    fn escapes_are_a_percent_sign_and_two_digits() {
        assert!(all_or_escaped(b"a%20b", USER));
        assert!(!all_or_escaped(b"a%2", USER));
        assert!(!all_or_escaped(b"a%zzb", USER));
        assert!(!all_or_escaped(b"a b", USER));
    }

    #[test]
    fn quoted_strings_end_at_a_mark_that_is_not_escaped() {
        assert_eq!(quoted_string_length(br#""a\"b" c"#), Some(6));
        assert_eq!(quoted_string_length(br#""a\"#), None);
        assert_eq!(quoted_string_length(br#"""#), None);
    }
}
