//! REGISTERs as most are, read in one pass without an index.

mod reading;

use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};

use crate::syntax;
use crate::transaction::note_source;
use crate::via::KnownParameters;
use crate::{Flow, Host, Message, Via};

use reading::Reading;

/// A REGISTER with one plain contact, as most are, and what a registrar has to know of it.
///
/// What is said here is what [`Message::read`] finds, and the request keeps the rules of [`Message::validate`]. It asks for
/// nothing but this one change: no extensions, no Path, no Route.
#[derive(Clone, Debug)]
pub struct PlainRegister {
    octets: Bytes,
    uri: Place,
    via: PlacedVia,
    from: Line,
    to: Line,
    call_id: Line,
    cseq: Line,
    cseq_number: u32,
    contact: Place,
    expires: Expires,
    user_agent: Place,
    max_forwards: Option<u8>,
    has_credentials: bool,
}

/// A part of a message that is no longer than a datagram.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    start: u16,
    end: u16,
}

/// A header field.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// With its line end.
    whole: Place,
    value: Place,
}

/// The only Via value.
#[derive(Clone, Copy, Debug)]
struct PlacedVia {
    line: Line,
    transport: Place,
    host: Place,
    address: Option<IpAddr>,
    port: Option<u16>,
    parameters: Place,
    branch: Place,
    has_rport: bool,
}

/// What is said of how long the contact is to be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// Nothing.
    Unsaid,
    /// So many seconds.
    Seconds(u32),
    /// Something that is no number of seconds.
    Malformed,
}

/// How many lines such a REGISTER has at most.
const MAXIMUM_LINES: usize = 64;

impl PlainRegister {
    /// Reads octets that are one message.
    ///
    /// # Errors
    /// They come back where they are anything else, or take more than a glance.
    pub fn read(octets: Bytes) -> Result<PlainRegister, Bytes> {
        match Reading::read(&octets) {
            Some(reading) => reading.register(octets),
            None => Err(octets),
        }
    }

    /// The Request-URI.
    pub fn request_uri(&self) -> &[u8] {
        self.text(self.uri)
    }

    /// The only Via value.
    pub fn via(&self) -> Via<'_> {
        let via = &self.via;
        let host = match via.address {
            Some(address) => Host::Address(address),
            None => Host::Name(self.string(via.host)),
        };
        let known = KnownParameters {
            branch: Some(self.text(via.branch)),
            has_rport: via.has_rport,
            has_received: false,
            has_maddr: false,
        };
        let (transport, parameters) = (self.text(via.transport), self.text(via.parameters));
        Via::of_parts(transport, host, via.port, parameters, known)
    }

    /// To, which has no tag.
    pub fn to(&self) -> &[u8] {
        self.text(self.to.value)
    }

    /// Call-ID (RFC 3261 section 20.8).
    pub fn call_id(&self) -> &str {
        self.string(self.call_id.value)
    }

    /// Call-ID as octets.
    pub(crate) fn call_id_octets(&self) -> &[u8] {
        self.text(self.call_id.value)
    }

    /// The sequence number in CSeq (RFC 3261 section 20.16).
    pub fn cseq_number(&self) -> u32 {
        self.cseq_number
    }

    /// The URI of the only contact: a SIP URI without escapes, whose parameters are all its own.
    pub fn contact(&self) -> &str {
        self.string(self.contact)
    }

    /// How long the contact is to be bound.
    pub fn expires(&self) -> Expires {
        self.expires
    }

    /// What the user agent calls itself; empty where it does not say, or not in UTF-8.
    pub fn user_agent(&self) -> &str {
        self.string(self.user_agent)
    }

    /// Max-Forwards (RFC 3261 section 20.22).
    pub fn max_forwards(&self) -> Option<u8> {
        self.max_forwards
    }

    /// Whether there are credentials, for us or for others.
    pub fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    /// The whole message.
    pub fn octets(&self) -> &Bytes {
        &self.octets
    }

    /// The whole message, for who needs nothing else.
    pub fn into_octets(self) -> Bytes {
        self.octets
    }

    /// The message with an index, for who has to do more with it: as the transaction layer hands it up. `None` never is.
    pub fn message(&self, flow: &Flow) -> Option<Message> {
        let mut message = Message::read(self.octets.clone()).ok()?;
        note_source(&mut message, flow);
        Some(message)
    }

    /// Appends the beginning of its 200, as [`Message::write_response_head`] does for the message that came from `source`.
    pub fn write_ok_head(&self, octets: &mut BytesMut, source: SocketAddr, to_tag: &str) {
        octets.extend_from_slice(b"SIP/2.0 200 OK\r\n");
        self.write_via(octets, source);
        octets.extend_from_slice(self.text(self.from.whole));
        let to = Place {
            start: self.to.whole.start,
            end: self.to.value.end,
        };
        for part in [self.text(to), b";tag=", to_tag.as_bytes(), b"\r\n"] {
            octets.extend_from_slice(part);
        }
        // Mostly they stand side by side.
        let (call_id, cseq) = (self.call_id.whole, self.cseq.whole);
        if call_id.end == cseq.start {
            let both = Place {
                start: call_id.start,
                end: cseq.end,
            };
            octets.extend_from_slice(self.text(both));
        } else {
            octets.extend_from_slice(self.text(call_id));
            octets.extend_from_slice(self.text(cseq));
        }
    }

    /// Via with where the request came from (RFC 3261 section 18.2.1, RFC 3581 section 4).
    fn write_via(&self, octets: &mut BytesMut, source: SocketAddr) {
        let via = &self.via;
        let ip = source.ip().to_canonical();
        let is_told = via.address == Some(ip);
        if is_told && !via.has_rport {
            octets.extend_from_slice(self.text(via.line.whole));
            return;
        }
        let before = Place {
            start: via.line.whole.start,
            end: via.parameters.start,
        };
        octets.extend_from_slice(self.text(before));
        let mut has_port = false;
        let parameters = self.text(via.parameters).split(|octet| *octet == b';');
        for parameter in parameters.skip(1) {
            octets.extend_from_slice(b";");
            if !has_port && parameter.eq_ignore_ascii_case(b"rport") {
                has_port = true;
                octets.extend_from_slice(format!("rport={}", source.port()).as_bytes());
            } else {
                octets.extend_from_slice(parameter);
            }
        }
        octets.extend_from_slice(format!(";received={ip}\r\n").as_bytes());
    }

    fn text(&self, place: Place) -> &[u8] {
        let range = usize::from(place.start)..usize::from(place.end);
        self.octets.get(range).unwrap_or_default()
    }

    fn string(&self, place: Place) -> &str {
        std::str::from_utf8(self.text(place)).unwrap_or_default()
    }
}

/// The URI of a Contact field with one value that has no parameters but `expires`, and that in seconds: a SIP URI without
/// escapes. The value is one that [`Message::validate`] lets pass.
pub fn plain_contact(value: &[u8]) -> Option<(&str, Option<u32>)> {
    let (bracketed, behind) = value.split_at(syntax::find(b'>', value)?);
    let uri = bracketed.strip_prefix(b"<")?;
    let is_plain = |octet: &u8| {
        octet.is_ascii_graphic() && !matches!(octet, b'<' | b'"' | b',' | b'%' | b'\\')
    };
    if !uri.starts_with(b"sip:") || !uri.iter().all(is_plain) {
        return None;
    }
    Some((std::str::from_utf8(uri).ok()?, interval(behind)?))
}

/// What the parameters of a contact say of its interval, from the bracket before them on. `None` where there are others.
fn interval(behind: &[u8]) -> Option<Option<u32>> {
    match behind {
        b">" => Some(None),
        _ => {
            let digits = behind.strip_prefix(b">;expires=")?;
            syntax::number(digits).map(Some)
        }
    }
}

#[cfg(test)]
mod tests;
