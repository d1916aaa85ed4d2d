//! Telling SIP from everything else by its start line (RFC 3261 section 7).

/// The longest start line that is looked at.
pub(crate) const LONGEST_LINE: usize = 8 * 1024;

/// The longest method that is believed; the longest registered one has 9 letters.
const LONGEST_METHOD: usize = 32;

/// Whether octets begin with the start line of a SIP message. Line ends before it do not matter
/// (section 7.5). `whole` says whether more of them may come or be missing: then a request line needs no
/// end when its URI is one of SIP's.
#[inline(always)]
pub(crate) fn begins_message(octets: &[u8], whole: bool) -> bool {
    begins_as_usual(octets) || begins_anyhow(octets, whole)
}

/// The same where the line is as nearly everybody writes it; no is no answer.
#[inline(always)]
fn begins_as_usual(octets: &[u8]) -> bool {
    if let Some((b"SIP/2.0 ", code)) = octets.split_first_chunk() {
        return matches!(code, [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', ..]);
    }
    let window = &octets[..octets.len().min(LONGEST_LINE)];
    // At least one octet of a URI stands between method and version.
    method_length(octets).is_some_and(|method| {
        memchr::memchr(b'\n', window)
            .and_then(|end| window.get(method + 2..end))
            .is_some_and(|rest| rest.ends_with(b" SIP/2.0\r"))
    })
}

/// How long the method is, written in capital letters, that octets begin with; a space is behind it.
#[inline(always)]
fn method_length(octets: &[u8]) -> Option<usize> {
    const INVITE: u64 = u64::from_le_bytes(*b"INVITE \0");
    const ACK: u32 = u32::from_le_bytes(*b"ACK ");
    const BYE: u32 = u32::from_le_bytes(*b"BYE ");
    match octets.first_chunk().map(|head| u64::from_le_bytes(*head)) {
        Some(head) if head & (u64::MAX >> 8) == INVITE => Some(6),
        Some(head) if matches!(head as u32, ACK | BYE) => Some(3),
        _ => any_method_length(octets),
    }
}

fn any_method_length(octets: &[u8]) -> Option<usize> {
    let length = octets
        .iter()
        .take(LONGEST_METHOD)
        .position(|octet| !octet.is_ascii_uppercase())?;
    (length > 0 && octets[length] == b' ').then_some(length)
}

#[inline(never)]
fn begins_anyhow(octets: &[u8], whole: bool) -> bool {
    let octets = without_line_ends(octets);
    match octets.first() {
        Some(first) if first.is_ascii_alphabetic() => {}
        _ => return false,
    }
    if octets.len() >= 4 && octets[..4].eq_ignore_ascii_case(b"SIP/") {
        return is_status_line(&octets[4..]);
    }
    let window = &octets[..octets.len().min(LONGEST_LINE)];
    let Some(method_length) = window.iter().take(LONGEST_METHOD).position(|&o| o == b' ') else {
        return false;
    };
    if !window[..method_length].iter().all(is_token) {
        return false;
    }
    match memchr::memchr(b'\n', window) {
        Some(end) => {
            let line = window[..end].trim_ascii_end();
            let version = memchr::memrchr(b' ', line).map_or(&[][..], |space| &line[space + 1..]);
            version.len() > 4
                && version[..4].eq_ignore_ascii_case(b"SIP/")
                && version[4].is_ascii_digit()
                && line.len() > method_length + 1 + version.len()
        }
        None if whole => false,
        None => {
            let uri = &window[method_length + 1..];
            [&b"sip:"[..], b"sips:", b"tel:"].iter().any(|scheme| {
                uri.get(..scheme.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            })
        }
    }
}

/// Whether octets could be the beginning of a start line whose end has not come yet.
pub(crate) fn may_become_message(octets: &[u8]) -> bool {
    let octets = without_line_ends(octets);
    octets.len() < LONGEST_LINE
        && octets.first().is_none_or(u8::is_ascii_alphabetic)
        && memchr::memchr(b'\n', octets).is_none()
        && octets
            .iter()
            .all(|octet| (0x20..0x7f).contains(octet) || *octet == b'\r')
}

/// The octets from the first on that ends no line.
pub(crate) fn without_line_ends(octets: &[u8]) -> &[u8] {
    let start = octets
        .iter()
        .position(|octet| !matches!(octet, b'\r' | b'\n'))
        .unwrap_or(octets.len());
    &octets[start..]
}

/// What comes after `SIP/`: version, space, three digits.
fn is_status_line(rest: &[u8]) -> bool {
    let window = &rest[..rest.len().min(16)];
    let Some(space) = window.iter().position(|&octet| octet == b' ') else {
        return false;
    };
    window[..space].first().is_some_and(u8::is_ascii_digit)
        && window
            .get(space + 1..space + 4)
            .is_some_and(|code| code.iter().all(u8::is_ascii_digit))
}

/// Whether an octet may be in a token (RFC 3261 section 25.1).
fn is_token(octet: &u8) -> bool {
    octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(octet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_lines_are_known() {
        for line in [
            "INVITE sip:bob@example.org SIP/2.0\r\nVia: x\r\n",
            "SIP/2.0 180 Ringing\r\n",
            "sip/2.0 200 \n",
            "\r\n\r\nBYE tel:+1 SIP/2.0\r\n",
            "X-NEW.method urn:x SIP/2.0\n",
        ] {
            assert!(begins_message(line.as_bytes(), true), "{line}");
        }
    }

    #[test]
    fn other_protocols_are_not_taken_for_sip() {
        for line in [
            "",
            "\r\n\r\n",
            "GET / HTTP/1.1\r\n",
            "HTTP/1.1 200 OK\r\n",
            "RTSP/1.0 200 OK\r\n",
            "INVITE SIP/2.0\r\n",
            "SIP/2.0 ok\r\n",
            "INVITE sip:bob@example.org SIP/2.0",
            "\u{80}abc",
        ] {
            assert!(!begins_message(line.as_bytes(), true), "{line}");
        }
    }

    #[test]
    fn a_beginning_is_enough_where_no_more_was_captured() {
        assert!(begins_message(b"INVITE sip:bob@exam", false));
        assert!(!begins_message(b"INVITE some body", false));
        assert!(may_become_message(b"INVITE some bo"));
        assert!(may_become_message(b"\r\n"));
        assert!(!may_become_message(b"INVITE some body\r\n"));
        assert!(!may_become_message(b"\x16\x03\x01"));
    }
}
