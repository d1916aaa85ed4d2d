//! Values of header fields: what tells messages apart, found in a quick look where it is written as nearly everybody
//! writes it.

use sip::{Parameters, ScannedField};

use super::method_code::MethodCode;
use crate::octets::{BLOCK, CHUNK, Chunk, first, is_in_block, places_in};

/// The number and the method of a CSeq, and how the method is written where it is an unknown one.
pub(super) fn sequence(value: &[u8]) -> Option<(u32, MethodCode, Option<String>)> {
    if let Some((number, code)) = quick_sequence(value) {
        return Some((number, code, None));
    }
    let field = ScannedField {
        name_text: b"",
        value,
    };
    let (number, method) = field.cseq()?;
    let code = MethodCode::of(&method);
    let name = (code == MethodCode::Other).then(|| method.as_str().to_owned());
    Some((number, code, name))
}

fn quick_sequence(value: &[u8]) -> Option<(u32, MethodCode)> {
    let mut number = 0_u32;
    let mut rest = value;
    while let [digit @ b'0'..=b'9', behind @ ..] = rest {
        number = number
            .checked_mul(10)?
            .checked_add(u32::from(digit - b'0'))?;
        rest = behind;
    }
    let method = rest
        .strip_prefix(b" ")
        .filter(|_| rest.len() < value.len())?;
    let code = match method {
        b"INVITE" => MethodCode::Invite,
        b"ACK" => MethodCode::Ack,
        b"BYE" => MethodCode::Bye,
        b"CANCEL" => MethodCode::Cancel,
        b"REGISTER" => MethodCode::Register,
        b"OPTIONS" => MethodCode::Options,
        _ => return None,
    };
    Some((number, code))
}

/// The branch parameter of a Via value (RFC 3261 section 8.1.1.7).
pub(super) fn branch(via: &[u8]) -> Option<&[u8]> {
    let start = memchr::memchr(b';', via)?;
    Some(Parameters::parse(&via[start..]).get("branch")?.as_bytes())
}

/// The branch of the only Via value of a field, where it is the first parameter and nothing is unusual about it. The
/// value is so many octets long; what follows it is read along, and does not count.
pub(super) fn quick_branch(value_and_more: &[u8], length: usize) -> Option<&[u8]> {
    const NAME: &[u8] = b";branch=";
    if has_comma(value_and_more, length) {
        return None;
    }
    let semicolons = places_in(value_and_more, length, b';')?;
    let name = semicolons.trailing_zeros() as usize;
    let begin = name + NAME.len();
    if begin >= length || value_and_more[name..begin] != *NAME {
        return None;
    }
    let end = length.min(begin + (semicolons >> begin).trailing_zeros() as usize);
    let mut at = begin;
    while at < end {
        let chunk = Chunk::at(value_and_more, at)?;
        let unusual = chunk.not_graphic() | chunk.places(b'"') | chunk.places(b'=');
        if unusual & first(end - at) != 0 {
            return None;
        }
        at += CHUNK;
    }
    (begin < end).then(|| &value_and_more[begin..end])
}

/// Whether a comma is in a value of so many octets. What follows it is read along, and does not count.
#[inline]
pub(super) fn has_comma(value_and_more: &[u8], length: usize) -> bool {
    // Mostly there is none in what follows the value, either.
    if length <= BLOCK
        && let Some(block) = value_and_more.first_chunk()
        && !is_in_block(block, b',')
    {
        return false;
    }
    match places_in(value_and_more, length, b',') {
        Some(commas) => commas != 0,
        None => memchr::memchr(b',', &value_and_more[..length]).is_some(),
    }
}

/// The tag parameter of a From or To value: one behind the closing bracket.
pub(super) fn tag(value: &[u8]) -> Option<&[u8]> {
    match value {
        [.., b'>'] => None,
        _ => quick_tag(value).or_else(|| thorough_tag(value)),
    }
}

/// The tag where it is all that is behind the bracket.
fn quick_tag(value: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b">;tag=";
    let mut end = value.len();
    let bracket = loop {
        let begin = end.checked_sub(CHUNK)?;
        let chunk = Chunk::at(value, begin)?;
        let unusual = chunk.not_graphic() | chunk.places(b';');
        let bracket = chunk.places(b'>').checked_ilog2();
        // Behind a bracket stands the semicolon of the name.
        if unusual >> bracket.map_or(0, |bracket| bracket + 2) != 0 {
            return None;
        }
        match bracket {
            Some(bracket) => break begin + bracket as usize,
            None => end = begin,
        }
    };
    value[bracket..].strip_prefix(NAME)
}

fn thorough_tag(value: &[u8]) -> Option<&[u8]> {
    let parameters = match memchr::memrchr(b'>', value) {
        Some(end) => value.get(end + 1..)?,
        None => value,
    };
    parameters.split(|&octet| octet == b';').find_map(|one| {
        let one = one.trim_ascii();
        let (name, value) = one.split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"tag=").then_some(value)
    })
}

/// Whether a Content-Type may say that there is a session description.
pub(super) fn is_session_description(content_type: &[u8]) -> bool {
    const USUAL: &[u8] = b"application/sdp";
    let begins_with = |name: &[u8]| {
        content_type
            .get(..name.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    content_type.starts_with(USUAL) || begins_with(USUAL) || begins_with(b"multipart/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_methods_and_branches_are_read() {
        assert_eq!(sequence(b"7 INVITE"), Some((7, MethodCode::Invite, None)));
        assert_eq!(sequence(b"7  ACK"), Some((7, MethodCode::Ack, None)));
        let other = Some("FETCH".to_owned());
        assert_eq!(sequence(b"8\tFETCH"), Some((8, MethodCode::Other, other)));
        assert_eq!(sequence(b"99999999999 INVITE"), None);
        assert_eq!(sequence(b" INVITE"), None);
        assert_eq!(
            branch(b"SIP/2.0/UDP a;branch=z9hG4bK1;rport"),
            Some(&b"z9hG4bK1"[..])
        );
        assert_eq!(branch(b"SIP/2.0/UDP a;rport ; Branch = x"), Some(&b"x"[..]));
        assert_eq!(branch(b"SIP/2.0/UDP a"), None);
    }

    #[test]
    fn the_usual_is_told_quickly() {
        for length in [1, 37, 38, 39, 101, 102, 103] {
            let name = "z".repeat(length);
            let via = format!("SIP/2.0/UDP a.example;branch={name}");
            let via_and_more = format!("{via}{}", "\r\n".repeat(100));
            let quick = (via.len() <= 128).then_some(name.as_bytes());
            assert_eq!(quick_branch(via_and_more.as_bytes(), via.len()), quick);
            let from = format!("\"{}\" <sip:a@b>;tag={name}", "x".repeat(64));
            assert_eq!(quick_tag(from.as_bytes()), Some(name.as_bytes()));
        }
    }

    #[test]
    fn a_tag_is_a_header_parameter() {
        assert_eq!(tag(b"<sip:b@x;tag=no>"), None);
        assert_eq!(tag(b"\"B\" <sip:b@x> ; TAG=yes"), Some(&b"yes"[..]));
        assert_eq!(tag(b"sip:b@x;tag=yes;y=z"), Some(&b"yes"[..]));
        assert_eq!(tag(b""), None);
    }

    /// Parts of values, usual ones and others.
    fn value() -> impl Strategy<Value = Vec<u8>> {
        let parts = prop::sample::select(vec![
            &b"SIP/2.0/UDP 10.0.0.1:5060"[..],
            b";branch=",
            b";branch=",
            b"z9hG4bK776asdhds",
            b"1",
            b";",
            b";rport",
            b",",
            b"=",
            b"\"",
            b" ",
            b"\r\n ",
            b"\xff",
            b">",
            b"<sip:user@example.org",
            b";tag=",
            b">;tag=",
            b"a7f",
            b"\x0c",
            b"TAG=",
        ]);
        prop::collection::vec(parts, 0..8).prop_map(|parts| parts.concat())
    }

    proptest! {
        /// What is told quickly is what the thorough look says, whatever stands behind the value.
        #[test]
        fn quick_looks_are_right(value in value(), more in value()) {
            let value = value.trim_ascii();
            let value_and_more = [value, b"\r\n", &more].concat();
            if let Some(quick) = quick_branch(&value_and_more, value.len()) {
                prop_assert_eq!(Some(quick), branch(value));
                prop_assert!(!value.contains(&b','));
            }
            prop_assert_eq!(has_comma(&value_and_more, value.len()), value.contains(&b','));
            prop_assert_eq!(tag(value), thorough_tag(value));
        }
    }
}
