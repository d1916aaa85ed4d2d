//! The topmost Via, parsed once: each layer that a message passes asks for it.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::OnceLock;

use crate::via::KnownParameters;
use crate::{Host, Message, Name, Via};

use super::plain_via::PlainVia;
use super::{Field, Source, Span};
use crate::list::first_value;

/// What is known of the topmost Via. It holds until a Via field is edited.
#[derive(Clone, Debug)]
pub(super) enum KnownVia {
    /// It was seen while the message was read.
    Seen(TopVia),
    /// Who asks for it first has it looked for: in few messages.
    Sought(OnceLock<Option<Box<TopVia>>>),
}

impl KnownVia {
    /// Nothing.
    pub(super) fn nothing() -> KnownVia {
        KnownVia::Sought(OnceLock::new())
    }

    /// The Via, if somebody has asked for it before.
    #[inline]
    pub(super) fn known(&self) -> Option<&TopVia> {
        match self {
            KnownVia::Seen(via) => Some(via),
            KnownVia::Sought(via) => via.get()?.as_deref(),
        }
    }

    /// The Via of this message.
    #[inline]
    pub(super) fn of(&self, message: &Message) -> Option<&TopVia> {
        match self {
            KnownVia::Seen(via) => Some(via),
            KnownVia::Sought(via) => {
                let found = via.get_or_init(|| TopVia::find(message).map(Box::new));
                found.as_deref()
            }
        }
    }
}

/// Where the parts of the topmost Via value are.
#[derive(Clone, Debug)]
pub(super) enum TopVia {
    /// One that has the usual form.
    Plain {
        /// Where it begins in its buffer.
        start: u32,
        source: Source,
        via: PlainVia,
    },
    Parsed(Box<ParsedVia>),
}

/// One that has any form.
#[derive(Clone, Debug)]
pub(super) struct ParsedVia {
    transport: Span,
    host: SavedHost,
    port: Option<u16>,
    parameters: Span,
    branch: Option<Span>,
    has_rport: bool,
    has_received: bool,
    has_maddr: bool,
}

#[derive(Clone, Copy, Debug)]
enum SavedHost {
    Name(Span),
    Address(IpAddr),
}

impl TopVia {
    /// Parses the topmost value. `None` where there is none, or it is malformed.
    pub(super) fn find(message: &Message) -> Option<TopVia> {
        let field = &message.0.fields[message.0.fields.position(Name::Via.code())?];
        match PlainVia::read(message.value_of(field)) {
            Some(via) => Some(TopVia::Plain {
                start: field.value_start,
                source: field.source,
                via,
            }),
            None => TopVia::parse(message),
        }
    }

    #[cold]
    fn parse(message: &Message) -> Option<TopVia> {
        let fields = message.fields_named(Name::Via);
        let (field, first) = fields
            .filter_map(|field| Some((field, first_value(message.value_of(field))?)))
            .next()?;
        let whole = message.value_of(field);
        let span = |part: &[u8]| Some(within(field, place(whole, part)?));
        let via = Via::parse(whole.get(first.value)?).ok()?;
        let known = via.look_up();
        Some(TopVia::Parsed(Box::new(ParsedVia {
            transport: span(via.transport_name().as_bytes())?,
            host: match via.host() {
                Host::Name(name) => SavedHost::Name(span(name.as_bytes())?),
                Host::Address(address) => SavedHost::Address(address),
            },
            port: via.port(),
            parameters: span(via.parameters().text())?,
            branch: known.branch.and_then(span),
            has_rport: known.has_rport,
            has_received: known.has_received,
            has_maddr: known.has_maddr,
        })))
    }

    /// How long it is at the beginning of its field, where that has shown at a glance that it is
    /// well-formed.
    pub(super) fn well_formed_length(&self) -> Option<usize> {
        match self {
            TopVia::Plain { via, .. } => Some(via.end()),
            TopVia::Parsed(_) => None,
        }
    }

    /// Its branch.
    #[inline]
    pub(super) fn branch<'a>(&self, message: &'a Message) -> Option<&'a [u8]> {
        match self {
            TopVia::Plain { start, source, via } => {
                let branch = via.branch()?;
                let start = *start as usize;
                let buffer = message.buffer(*source);
                buffer.get(start + branch.start..start + branch.end)
            }
            TopVia::Parsed(parsed) => parsed.via(message)?.branch_bytes(),
        }
    }

    /// The Via, whose texts are in the message.
    #[inline]
    pub(super) fn via<'a>(&self, message: &'a Message) -> Option<Via<'a>> {
        let (start, source, via) = match self {
            TopVia::Plain { start, source, via } => (*start as usize, *source, via),
            TopVia::Parsed(parsed) => return parsed.via(message),
        };
        let value = message.buffer(source).get(start..start + via.end())?;
        let host = match via.ip() {
            None => Host::Name(std::str::from_utf8(value.get(via.host())?).ok()?),
            Some(address) => Host::Address(address),
        };
        let known = KnownParameters {
            branch: via.branch().and_then(|branch| value.get(branch)),
            has_rport: via.has_rport,
            has_received: via.has_received,
            has_maddr: via.has_maddr,
        };
        let (transport, parameters) = (value.get(via.transport())?, value.get(via.parameters())?);
        Some(Via::of_parts(transport, host, via.port, parameters, known))
    }
}

impl ParsedVia {
    #[cold]
    fn via<'a>(&self, message: &'a Message) -> Option<Via<'a>> {
        let host = match self.host {
            SavedHost::Name(name) => Host::Name(std::str::from_utf8(message.text(name)).ok()?),
            SavedHost::Address(address) => Host::Address(address),
        };
        let known = KnownParameters {
            branch: self.branch.map(|branch| message.text(branch)),
            has_rport: self.has_rport,
            has_received: self.has_received,
            has_maddr: self.has_maddr,
        };
        Some(Via::of_parts(
            message.text(self.transport),
            host,
            self.port,
            message.text(self.parameters),
            known,
        ))
    }
}

/// Where a part of a text is in it, by its address. `None` where it is no part of it.
fn place(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

/// A part of a field's value.
fn within(field: &Field, part: Range<usize>) -> Span {
    Span {
        start: field.value_start + part.start as u32,
        end: field.value_start + part.end as u32,
        source: field.source,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn branches(message: &Message) -> (Option<&str>, Option<&str>) {
        let parsed = message.vias().next().and_then(Result::ok);
        let branch = parsed.and_then(|via| via.branch());
        (message.top_via().and_then(|via| via.branch()), branch)
    }

    /// Whatever is edited, what is known of the topmost Via is what stands there.
    #[test]
    fn edits_are_noticed() {
        let text = "OPTIONS sip:a@b SIP/2.0\r\nv: SIP/2.0/UDP [2001:db8::1]:5070 ;rport;branch=1,\r\n \
            SIP/2.0/TCP Host.example;branch=2\r\nVia:\r\nFrom: x\r\nVia: SIP/2.0/WS c;maddr=d;branch=3\r\n\r\n";
        let mut message = Message::read(Bytes::from(text)).expect("a message");
        let via = message.top_via().expect("a Via");
        assert_eq!(
            (via.host().to_string(), via.port(), via.transport_name()),
            ("[2001:db8::1]".to_owned(), Some(5070), "UDP")
        );
        assert!(via.has_rport() && !via.has_received() && via.maddr().is_none());
        let edits: [fn(&mut Message); 9] = [
            |message| message.set_top_via_parameter("branch", Some("11")),
            |message| message.push_front(Name::Via, "SIP/2.0/UDP x;branch=4;received=y"),
            |message| message.push_front(Name::From, "z"),
            |message| assert!(message.remove_first_value(Name::Via)),
            |message| assert!(message.remove_first_value(Name::Via)),
            |message| message.retain(Name::Via, |value| value.contains(&b'W')),
            |message| message.replace(Name::Via, "SIP/2.0/UDP y:1;branch=5"),
            |message| assert_eq!(message.remove_all(Name::Via), 1),
            |message| message.push_back(Name::Via, "SIP/2.0/UDP z;branch=6"),
        ];
        for (number, edit) in edits.into_iter().enumerate() {
            edit(&mut message);
            let count = message.values(Name::Via).count();
            assert_eq!(message.has_one_via(), count < 2, "{number}");
            let copy = message.clone();
            let (known, parsed) = branches(&copy);
            assert_eq!(known, parsed, "{number}");
            assert_eq!(branches(&message), (known, parsed), "{number}");
            assert_eq!(known.is_none(), number == 7, "{number}");
        }
        assert_eq!(branches(&message).0, Some("6"));
    }
}
