//! The header fields of a message that group it with others, found in one pass over its octets.

use sip::{HeaderField, Name, Scanner, StartLine, list_values};

use super::values::branch;

/// What the first line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start<'m> {
    Request,
    Response { status: u16, reason: &'m [u8] },
}

/// The first field of each name that matters.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Fields<'m> {
    pub(super) call_id: Option<&'m [u8]>,
    pub(super) cseq: Option<&'m [u8]>,
    pub(super) from: Option<&'m [u8]>,
    pub(super) to: Option<&'m [u8]>,
    pub(super) r_seq: Option<&'m [u8]>,
    pub(super) content_type: Option<&'m [u8]>,
    /// The topmost Via value.
    pub(super) via: Option<&'m [u8]>,
    /// Its branch.
    pub(super) branch: Option<&'m [u8]>,
    pub(super) vias: usize,
    pub(super) has_body: bool,
}

/// Why a message cannot be peeked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeekError {
    /// The octets are no message.
    Unreadable,
    /// What groups messages is missing: Call-ID, CSeq, To or Via.
    Ungrouped,
}

impl<'m> Fields<'m> {
    /// Reads the first line and all fields.
    pub(super) fn read(octets: &'m [u8]) -> Result<(Start<'m>, Fields<'m>), PeekError> {
        let (start, mut scanner) = Scanner::new(octets).map_err(|_| PeekError::Unreadable)?;
        let mut fields = Fields::default();
        while let Some(field) = scanner.next_field().map_err(|_| PeekError::Unreadable)? {
            fields.add(&field);
        }
        fields.has_body = !scanner.body().is_empty();
        let start = match start {
            StartLine::Request { .. } => Start::Request,
            StartLine::Response { status, reason } => Start::Response { status, reason },
        };
        Ok((start, fields))
    }

    fn add(&mut self, field: &HeaderField<'m>) {
        let first = match field.name() {
            Some(Name::Via) => return self.add_vias(field.value()),
            Some(Name::CSeq) => &mut self.cseq,
            Some(Name::CallId) => &mut self.call_id,
            Some(Name::From) => &mut self.from,
            Some(Name::To) => &mut self.to,
            Some(Name::RSeq) => &mut self.r_seq,
            Some(Name::ContentType) => &mut self.content_type,
            _ => return,
        };
        first.get_or_insert(field.value());
    }

    fn add_vias(&mut self, list: &'m [u8]) {
        for value in list_values(list) {
            if self.via.is_none() {
                self.via = Some(value);
                self.branch = branch(value);
            }
            self.vias += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_of_a_name_and_all_vias_count() {
        let text = "\r\nSIP/2.0 180 Ringing\r\nv: SIP/2.0/UDP a;branch=z9hG4bK1, b\r\n\tc\r\ni : x \r\n\
                    Via: SIP/2.0/UDP d\r\nTo: <sip:b>\r\nt: <sip:c>\r\nl: 0\r\n\r\nbody";
        let expected = Fields {
            call_id: Some(b"x"),
            to: Some(b"<sip:b>"),
            via: Some(b"SIP/2.0/UDP a;branch=z9hG4bK1"),
            branch: Some(b"z9hG4bK1"),
            vias: 3,
            ..Fields::default()
        };
        let start = Start::Response {
            status: 180,
            reason: b"Ringing",
        };
        assert_eq!(Fields::read(text.as_bytes()), Ok((start, expected)));
        let read = Fields::read(b"BYE sip:a SIP/2.0\r\n\r\nbody");
        assert!(read.is_ok_and(|(start, fields)| start == Start::Request && fields.has_body));
        for text in ["", "GET / HTTP/1.1\r\n\r\n"] {
            assert_eq!(Fields::read(text.as_bytes()), Err(PeekError::Unreadable));
        }
    }
}
