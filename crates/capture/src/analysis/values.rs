//! Values of header fields: what tells messages apart.

use sip::{CSeq, Parameters};

use super::method_code::MethodCode;

/// The number and the method of a CSeq, and how the method is written where it is an unknown one.
pub(super) fn sequence(value: &[u8]) -> Option<(u32, MethodCode, Option<String>)> {
    let cseq = CSeq::parse(value)?;
    let method = cseq.method();
    let code = MethodCode::of(&method);
    let name = (code == MethodCode::Other).then(|| method.as_str().to_owned());
    Some((cseq.number(), code, name))
}

/// The branch parameter of a Via value (RFC 3261 section 8.1.1.7).
pub(super) fn branch(via: &[u8]) -> Option<&[u8]> {
    let start = memchr::memchr(b';', via)?;
    Some(Parameters::parse(&via[start..]).get("branch")?.as_bytes())
}

/// The tag parameter of a From or To value: one behind the closing bracket.
pub(super) fn tag(value: &[u8]) -> Option<&[u8]> {
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
pub(crate) fn is_session_description(content_type: &[u8]) -> bool {
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
    fn a_tag_is_a_header_parameter() {
        assert_eq!(tag(b"<sip:b@x;tag=no>"), None);
        assert_eq!(tag(b"\"B\" <sip:b@x> ; TAG=yes"), Some(&b"yes"[..]));
        assert_eq!(tag(b"sip:b@x;tag=yes;y=z"), Some(&b"yes"[..]));
        assert_eq!(tag(b""), None);
    }
}
