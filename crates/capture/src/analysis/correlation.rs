//! By what the legs of a call that a B2BUA carries on belong together, whatever it makes of the users: header fields that it
//! copies, or in which it names the leg before.

use sip::Scanner;

/// Which fields of an INVITE tell that.
#[derive(Clone, Debug)]
pub(super) struct Correlation {
    /// The name of a field beside those that are known.
    further: Option<Box<str>>,
}

/// What the fields of an INVITE say.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Marks<'m> {
    /// The caller's UUID in Session-ID (RFC 7989 section 4), which goes along with the request.
    pub(super) session_id: Option<&'m [u8]>,
    /// The Call-ID of the leg before, in the fields that have no RFC: X-Call-ID and X-CID.
    pub(super) call_id: Option<&'m [u8]>,
    /// The value of the further field: the same on all legs, or the Call-ID of the one before.
    pub(super) further: Option<&'m [u8]>,
}

impl Correlation {
    /// By the fields that are known, and one more.
    pub(super) fn new(further: Option<&str>) -> Correlation {
        Correlation {
            further: further.map(Box::from),
        }
    }

    /// Looks for the fields in a message.
    pub(super) fn marks<'m>(&self, octets: &'m [u8]) -> Marks<'m> {
        let mut marks = Marks::default();
        let Ok((_, mut scanner)) = Scanner::new(octets) else {
            return marks;
        };
        while let Ok(Some(field)) = scanner.next_field() {
            let (name, value) = (field.name_text(), field.value());
            // None of these names is known to the scanner, and most of a message's are.
            if field.name().is_some() && self.further.is_none() || value.is_empty() {
                continue;
            }
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            if is("Session-ID") {
                marks.session_id = marks.session_id.or(callers_uuid(value));
            } else if is("X-Call-ID") || is("X-CID") {
                marks.call_id = marks.call_id.or(Some(value));
            } else if self.further.as_deref().is_some_and(is) {
                marks.further = marks.further.or(Some(value));
            }
        }
        marks
    }
}

/// The UUID before the parameters; none where it is the one of nobody, all zeros.
fn callers_uuid(value: &[u8]) -> Option<&[u8]> {
    let uuid = value.split(|octet| *octet == b';').next()?.trim_ascii();
    uuid.iter().any(|octet| *octet != b'0').then_some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_however_they_are_written() {
        let uuid = "ab30317f1a784dc48ff824d0d3715d86";
        let text = format!(
            "INVITE sip:b@x SIP/2.0\r\nSubject: Session-ID: no\r\nsession-id :  {uuid} ;remote=0\r\n\
             Session-ID: 1\r\nx-cid: a@b\nMyCall:\r\nmycall: 7\r\n\r\nX-Call-ID: body\r\n"
        );
        let marks = Correlation::new(Some("MyCall")).marks(text.as_bytes());
        let expected = Marks {
            session_id: Some(uuid.as_bytes()),
            call_id: Some(b"a@b"),
            further: Some(b"7"),
        };
        assert_eq!(marks, expected);
        let marks = Correlation::new(None).marks(text.as_bytes());
        assert_eq!(marks.further, None);
        for text in [
            "",
            "\r\n",
            "BYE sip:b SIP/2.0\r\nSession-ID: 0000;remote=0\r\n",
            "Session-ID: 1",
        ] {
            let marks = Correlation::new(None).marks(text.as_bytes());
            assert_eq!(marks, Marks::default(), "{text}");
        }
    }
}
