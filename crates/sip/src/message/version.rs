//! SIP-Version (RFC 3261 section 25.1).

use crate::syntax::find;

/// Whether a text is `SIP-Version` of any number (section 25.1).
pub(super) fn is_version(text: &[u8]) -> bool {
    if text == b"SIP/2.0" {
        return true;
    }
    let Some((name, number)) = text.split_at_checked(4) else {
        return false;
    };
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    name.eq_ignore_ascii_case(b"SIP/")
        && find(b'.', number)
            .is_some_and(|dot| is_number(&number[..dot]) && is_number(&number[dot + 1..]))
}
