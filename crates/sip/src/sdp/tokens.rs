//! What values are made of (RFC 8866 section 9).

/// The parts of a value between spaces.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').filter(|part| !part.is_empty())
}

/// A token of SDP, which has other characters than one of SIP (RFC 8866 section 9).
pub(super) fn is_token(octets: &[u8]) -> bool {
    let is_allowed =
        |octet: &u8| octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`{|}~".contains(octet);
    !octets.is_empty() && octets.iter().all(is_allowed)
}

/// Digits, however many.
pub(super) fn is_number(octets: &[u8]) -> bool {
    !octets.is_empty() && octets.iter().all(u8::is_ascii_digit)
}
