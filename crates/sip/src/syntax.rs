//! Which octets may stand where (RFC 3261 section 25.1).

use crate::simd;

/// A set of octet classes, one bit each.
pub(crate) type Classes = u16;

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
/// The value of a header parameter, where it is no quoted string: beside tokens and hosts (IPv6 with
/// and without brackets), what phones do not put in quotation marks: addresses, the equals signs of
/// base64, and octets beyond ASCII.
pub(crate) const VALUE: Classes = 1 << 8;
/// A display name without quotation marks: tokens and white space, and octets beyond ASCII, since
/// phones send them.
pub(crate) const DISPLAY_NAME: Classes = 1 << 9;
/// [`VALUE`] without octets beyond ASCII.
pub(crate) const ASCII_VALUE: Classes = 1 << 10;
/// A display name of tokens, with single spaces or more between them and behind.
pub(crate) const WORDS: Classes = 1 << 11;

const CLASSES: [Classes; 256] = {
    let mut table = [0; 256];
    table = mark(table, b"-.!%*_+`'~", TOKEN | VALUE | DISPLAY_NAME | WORDS);
    table = mark(table, b" ", WORDS);
    table = mark(table, b"-._", HOST);
    // A number sign is to be escaped, but phones dial feature codes such as `*21#` without.
    table = mark(table, b"-_.!~*'()&=+$,;?/#", USER);
    table = mark(table, b"-_.!~*'()&=+$,", PASSWORD);
    table = mark(table, b"-_.!~*'()[]/:&+$", PARAMETER | VALUE);
    table = mark(table, b"@=", VALUE);
    table = mark(table, b" \t\r\n", DISPLAY_NAME);
    table = mark(table, b"-_.!~*'()[]/?:+$", HEADER);
    table = mark(table, b";/?:@&=+$,", RESERVED);
    table = mark(table, b"-_.!~*'();/?:@&=+$,[]#%", URI);
    let mut octet = 0;
    while octet < 256 {
        if (octet as u8).is_ascii_alphanumeric() {
            table[octet] |= TOKEN | HOST | USER | PASSWORD | PARAMETER | HEADER | URI;
            table[octet] |= VALUE | DISPLAY_NAME | WORDS;
        }
        if (octet as u8).is_ascii() && table[octet] & VALUE != 0 {
            table[octet] |= ASCII_VALUE;
        }
        if octet >= 0x80 {
            table[octet] |= VALUE | DISPLAY_NAME;
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
#[inline]
pub(crate) fn is(octet: u8, class: Classes) -> bool {
    CLASSES[usize::from(octet)] & class != 0
}

/// Whether all octets belong to a class.
#[inline]
pub(crate) fn all(octets: &[u8], class: Classes) -> bool {
    // Without a way out, which is faster for texts as short as these.
    let common = |common, &octet| common & CLASSES[usize::from(octet)];
    octets.iter().fold(class, common) != 0
}

/// Whether all octets are printable ones of ASCII, spaces left out. The compiler makes SIMD of it.
#[inline]
pub(crate) fn all_graphic(octets: &[u8]) -> bool {
    octets
        .iter()
        .fold(true, |all, octet| all & octet.is_ascii_graphic())
}

/// Whether a text is a token: not empty, all octets of that class.
#[inline]
pub(crate) fn is_token(octets: &[u8]) -> bool {
    !octets.is_empty() && all(octets, TOKEN)
}

/// Whether all octets belong to a class or to a well-formed escape (`%` and two hexadecimal digits).
#[inline]
pub(crate) fn all_or_escaped(octets: &[u8], class: Classes) -> bool {
    // Of most texts that is all.
    all(octets, class) || all_escaped(octets, class)
}

#[cold]
fn all_escaped(octets: &[u8], class: Classes) -> bool {
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
#[inline]
pub(crate) fn is_lws(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t' | b'\r' | b'\n')
}

/// A text without the white space at its beginning.
#[inline]
pub(crate) fn trim_start(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_lws(*first)
    {
        text = rest;
    }
    text
}

/// A text without the white space at its end.
#[inline]
pub(crate) fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., last] = text
        && is_lws(*last)
    {
        text = rest;
    }
    text
}

/// A text without the white space around it.
#[inline]
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    trim_end(trim_start(text))
}

/// As [`trim`], for text.
#[inline]
pub(crate) fn trim_text(text: &str) -> &str {
    match text.as_bytes() {
        [first, .., last] if !is_lws(*first) && !is_lws(*last) => return text,
        _ => {}
    }
    let without_start = &text[text.len() - trim_start(text.as_bytes()).len()..];
    &without_start[..trim_end(without_start.as_bytes()).len()]
}

/// Where an octet stands first. Texts in messages are short: this is compiled into the place where it
/// is called, and done before the `memchr` crate has chosen its way.
#[inline(always)]
pub(crate) fn find(octet: u8, text: &[u8]) -> Option<usize> {
    find_marked(text, |block| simd::equal(block, octet)).unwrap_or_else(|at| {
        let found = text[at..].iter().position(|found| *found == octet)?;
        Some(at + found)
    })
}

/// Where the first octet stands that is marked in blocks. An error: too short for a block, and how much of it has been
/// looked at.
#[inline(always)]
fn find_marked(text: &[u8], marks: impl Fn(&simd::Block) -> u32) -> Result<Option<usize>, usize> {
    let (blocks, rest) = text.as_chunks();
    let mut at = 0;
    for block in blocks {
        match marks(block) {
            0 => at += simd::LENGTH,
            marks => return Ok(Some(at + marks.trailing_zeros() as usize)),
        }
    }
    // The last block overlaps those before, in which there is nothing.
    match text.last_chunk() {
        _ if rest.is_empty() => Ok(None),
        Some(last) => match marks(last) {
            0 => Ok(None),
            marks => Ok(Some(
                text.len() - simd::LENGTH + marks.trailing_zeros() as usize,
            )),
        },
        None => Err(at),
    }
}

/// As [`find`], where the octet is likely to be among the first sixteen.
#[inline(always)]
pub(crate) fn find_near(octet: u8, text: &[u8]) -> Option<usize> {
    find_any([octet], text)
}

/// Where one of some octets stands first.
#[inline(always)]
pub(crate) fn find_any<const N: usize>(octets: [u8; N], text: &[u8]) -> Option<usize> {
    let hits = |word: [u8; 8]| {
        let word = u64::from_le_bytes(word);
        octets
            .iter()
            .fold(0, |hits, octet| hits | zero_octets(word ^ repeated(*octet)))
    };
    let first = |hits: u64| hits.trailing_zeros() as usize / 8;
    let (words, rest) = text.as_chunks::<8>();
    let mut at = 0;
    for word in words {
        match hits(*word) {
            0 => at += word.len(),
            hits => return Some(at + first(hits)),
        }
    }
    // The last word overlaps those before, in which there is nothing.
    match text.last_chunk::<8>() {
        _ if rest.is_empty() => None,
        Some(word) => match hits(*word) {
            0 => None,
            hits => Some(text.len() - word.len() + first(hits)),
        },
        None => rest.iter().position(|octet| octets.contains(octet)),
    }
}

/// Where the first octet is that may end a line: CR, LF, or another below them, which are rare.
#[inline(always)]
pub(crate) fn find_control(text: &[u8]) -> Option<usize> {
    const BELOW: u8 = b'\r' + 1;
    find_marked(text, |block| simd::below(block, BELOW)).unwrap_or_else(|at| {
        let found = text[at..].iter().position(|&octet| octet < BELOW)?;
        Some(at + found)
    })
}

/// Whether an octet is there that [`find_control`] finds.
#[inline]
pub(crate) fn has_control(text: &[u8]) -> bool {
    const BELOW: u64 = b'\r' as u64 + 1;
    const HIGHEST: u64 = repeated(0x80);
    // Octets beyond ASCII are above all of those.
    let has = |word: [u8; 8]| {
        let word = u64::from_le_bytes(word);
        word.wrapping_sub(repeated(1) * BELOW) & !word & HIGHEST != 0
    };
    match (text.len(), text.first_chunk(), text.last_chunk()) {
        // They overlap.
        (8..=16, Some(first), Some(last)) => has(*first) || has(*last),
        (0..8, ..) => text.iter().any(|octet| u64::from(*octet) < BELOW),
        _ => find_control(text).is_some(),
    }
}

/// Where the first octet is that matters within quotation marks: those, the backslash, and what is below a space.
#[inline(always)]
pub(crate) fn find_in_quotation(text: &[u8]) -> Option<usize> {
    let matters = |octet: u8| matches!(octet, b'"' | b'\\' | 0..b' ');
    let marks = |block: &simd::Block| {
        simd::equal(block, b'"') | simd::equal(block, b'\\') | simd::below(block, b' ')
    };
    find_marked(text, marks).unwrap_or_else(|at| {
        let found = text[at..].iter().position(|&octet| matters(octet))?;
        Some(at + found)
    })
}

/// Marks the octets that are zero by their highest bits. Above the lowest such octet there may be
/// marks that are wrong.
#[inline]
fn zero_octets(word: u64) -> u64 {
    word.wrapping_sub(repeated(1)) & !word & repeated(0x80)
}

#[inline]
const fn repeated(octet: u8) -> u64 {
    u64::from_le_bytes([octet; 8])
}

/// Splits a text at the first octet of a value, which must be an ASCII one.
#[inline]
pub(crate) fn split_once(text: &str, octet: u8) -> Option<(&str, &str)> {
    let at = find_near(octet, text.as_bytes())?;
    Some((&text[..at], &text[at + 1..]))
}

/// Splits a text before the first octet of a value, which must be an ASCII one; behind all where
/// there is none.
#[inline]
pub(crate) fn split_before(text: &str, octet: u8) -> (&str, &str) {
    text.split_at(find_near(octet, text.as_bytes()).unwrap_or(text.len()))
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

/// The number in decimal digits with which a text begins, and how many these are. Of more than nineteen it is another one.
#[inline(always)]
pub(crate) fn leading_number(text: &[u8]) -> (u64, usize) {
    let Some(word) = text.first_chunk() else {
        return leading_long_number(text);
    };
    let digits = u64::from_le_bytes(*word) ^ repeated(b'0');
    // No sum goes over into the next octet.
    let above_nine = (digits & repeated(0x7f)) + repeated(0x80 - 10);
    let others = (above_nine | digits) & repeated(0x80);
    let length = others.trailing_zeros() / 8;
    match length {
        0 => (0, 0),
        8 => leading_long_number(text),
        // Zeros go before them. Neighbours are put together: ones to tens, these to hundreds and more.
        _ => {
            let pairs = (digits << (u64::BITS - 8 * length)).wrapping_mul(10 << 8 | 1) >> 8
                & 0x00ff_00ff_00ff_00ff;
            let fours = pairs.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_ffff_0000_ffff;
            let number = fours.wrapping_mul(10_000 << 32 | 1) >> 32;
            (number, length as usize)
        }
    }
}

/// [`leading_number`] of any.
#[inline(never)]
fn leading_long_number(text: &[u8]) -> (u64, usize) {
    let digits = text.iter().take_while(|octet| octet.is_ascii_digit());
    digits.fold((0_u64, 0), |(number, length), octet| {
        let digit = u64::from(octet - b'0');
        (number.wrapping_mul(10).wrapping_add(digit), length + 1)
    })
}

/// A number written in decimal digits and nothing else. `None` also where it exceeds the type.
pub(crate) fn number<T: TryFrom<u64>>(digits: &[u8]) -> Option<T> {
    // No number of so few digits is too large.
    const SAFE_DIGITS: usize = 19;
    if digits.is_empty() {
        return None;
    }
    if digits.len() <= SAFE_DIGITS {
        let mut value = 0;
        for octet in digits {
            let digit = octet.wrapping_sub(b'0');
            if digit >= 10 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return T::try_from(value).ok();
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
    fn leading_numbers_are_those_of_their_digits() {
        for text in [
            "",
            "0",
            "7",
            "00070",
            "65536",
            "5060",
            "1234567",
            "12345678",
            "4294967296",
        ] {
            for behind in [
                "",
                " ",
                ">",
                ";tag=1234567",
                "/99999999",
                ":99999999",
                "\u{b3}1234567",
            ] {
                let whole = format!("{text}{behind}");
                let number = (text.parse().unwrap_or_default(), text.len());
                assert_eq!(leading_number(whole.as_bytes()), number, "{whole}");
                assert_eq!(leading_long_number(whole.as_bytes()), number, "{whole}");
            }
        }
        for octet in (0..=u8::MAX).filter(|octet| !octet.is_ascii_digit()) {
            assert_eq!(leading_number(&[b'4', b'2', octet, 0, 0, 0, 0, 0]), (42, 2));
        }
    }

    #[test]
    fn octets_are_found_wherever_they_stand() {
        for length in 0..70 {
            let mut text = vec![b'a'; length];
            assert_eq!(find(b'b', &text), None);
            for at in 0..length {
                // Close neighbours, and what follows, must not be taken for it.
                text[at..].fill(b'c');
                text[at] = b'b';
                assert_eq!(find(b'b', &text), Some(at), "{length}");
                assert_eq!(find_near(b'b', &text), Some(at), "{length}");
                text.fill(b'a');
            }
        }
        assert_eq!(find(0, &[1, 0x80, 0xff, 0x81, 0, 1, 0, 2, 3]), Some(4));
    }

    #[test]
    fn line_ends_are_found_wherever_they_stand() {
        for length in 0..70 {
            let mut text = vec![b'a'; length];
            assert_eq!(find_control(&text), None);
            for octet in [b'\r' + 1, 0x7f, 0x80, 0x8d, u8::MAX] {
                text.fill(octet);
                assert!(!has_control(&text), "{length} {octet}");
            }
            text.fill(b'a');
            for at in 0..length {
                text[at..].fill(b'\n');
                text[at] = b'\r';
                assert_eq!(find_control(&text), Some(at), "{length}");
                assert!(has_control(&text), "{length}");
                text.fill(0x8e);
            }
        }
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
