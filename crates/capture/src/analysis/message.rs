//! What the analysis keeps of a SIP message.

use std::hash::Hash;

use ahash::RandomState;
use sip::{Message, Method, Name, Transport};

use super::labels::{Label, Labels};
use crate::Time;

/// A method, in one octet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum MethodCode {
    Invite,
    Ack,
    Bye,
    Cancel,
    Register,
    Options,
    Prack,
    Update,
    Info,
    Message,
    Refer,
    Subscribe,
    Notify,
    Publish,
    Other,
}

impl MethodCode {
    pub(crate) fn of(method: &Method) -> MethodCode {
        match method {
            Method::Invite => MethodCode::Invite,
            Method::Ack => MethodCode::Ack,
            Method::Bye => MethodCode::Bye,
            Method::Cancel => MethodCode::Cancel,
            Method::Register => MethodCode::Register,
            Method::Options => MethodCode::Options,
            Method::Prack => MethodCode::Prack,
            Method::Update => MethodCode::Update,
            Method::Info => MethodCode::Info,
            Method::Message => MethodCode::Message,
            Method::Refer => MethodCode::Refer,
            Method::Subscribe => MethodCode::Subscribe,
            Method::Notify => MethodCode::Notify,
            Method::Publish => MethodCode::Publish,
            Method::Other(_) => MethodCode::Other,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            MethodCode::Invite => "INVITE",
            MethodCode::Ack => "ACK",
            MethodCode::Bye => "BYE",
            MethodCode::Cancel => "CANCEL",
            MethodCode::Register => "REGISTER",
            MethodCode::Options => "OPTIONS",
            MethodCode::Prack => "PRACK",
            MethodCode::Update => "UPDATE",
            MethodCode::Info => "INFO",
            MethodCode::Message => "MESSAGE",
            MethodCode::Refer => "REFER",
            MethodCode::Subscribe => "SUBSCRIBE",
            MethodCode::Notify => "NOTIFY",
            MethodCode::Publish => "PUBLISH",
            MethodCode::Other => "other",
        }
    }
}

/// Request or response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Request,
    /// With its status code.
    Response(u16),
}

/// One message of a thread, seen on one hop, in as few octets as will do: open calls are what the
/// analysis needs memory for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// When it was captured first: at its sender, if that was captured.
    pub(crate) sent: Time,
    /// When it was captured last: at its receiver, if that was captured.
    pub(crate) received: Time,
    /// The number of the packet, in the file that saw it first.
    pub(crate) packet: u64,
    /// The files that saw it, a bit each.
    pub(crate) files: u32,
    /// A hash of the topmost branch: what joins requests and responses of a hop.
    pub(crate) branch: u32,
    /// A hash of what tells responses with the same status and branch apart: the To tag and RSeq.
    pub(crate) detail: u32,
    /// The number in CSeq.
    pub(crate) cseq: u32,
    pub(crate) kind: Kind,
    /// The method in CSeq.
    pub(crate) method: MethodCode,
    pub(crate) label: Label,
    /// Source and destination among the ends of the thread.
    pub(crate) source: u8,
    pub(crate) destination: u8,
    /// How many Via values it has: one more at each proxy. A further leg of a B2BUA begins higher.
    pub(crate) depth: u8,
    pub(crate) transport: Transport,
    pub(crate) flags: Flags,
}

/// What else is known of a message.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Flags {
    /// A request with a To tag: it belongs to a dialog that stands.
    pub(crate) in_dialog: bool,
    /// It has a session description.
    pub(crate) has_session_description: bool,
    /// The same message was seen before in the same file.
    pub(crate) is_retransmission: bool,
}

impl Entry {
    pub(crate) fn is_request(&self, method: MethodCode) -> bool {
        self.kind == Kind::Request && self.method == method
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match self.kind {
            Kind::Request => None,
            Kind::Response(status) => Some(status),
        }
    }

    /// Whether both are the same message on the same hop.
    pub(crate) fn is_same_message(&self, other: &Entry) -> bool {
        self.branch == other.branch
            && self.kind == other.kind
            && self.cseq == other.cseq
            && self.method == other.method
            && self.detail == other.detail
            && self.source == other.source
            && self.destination == other.destination
    }
}

/// What a message says of itself, as far as it matters here.
#[derive(Debug)]
pub(crate) struct Glance<'m> {
    pub(crate) call_id: &'m str,
    pub(crate) kind: Kind,
    pub(crate) method: MethodCode,
    pub(crate) cseq: u32,
    pub(crate) branch: u32,
    pub(crate) detail: u32,
    pub(crate) depth: u8,
    pub(crate) label: Label,
    pub(crate) in_dialog: bool,
    pub(crate) has_session_description: bool,
}

impl<'m> Glance<'m> {
    /// Looks at a message. `None` where what groups messages is missing: Call-ID, CSeq or Via.
    pub(crate) fn at(
        message: &'m Message,
        hasher: &RandomState,
        labels: &mut Labels,
    ) -> Option<Glance<'m>> {
        let call_id = message.call_id()?;
        let (cseq, cseq_method) = message.cseq()?;
        let method = MethodCode::of(&cseq_method);
        let mut vias = message.values(Name::Via);
        let top = sip::Via::parse(vias.next()?).ok()?;
        let depth = 1 + vias.take(usize::from(MOST_VIAS)).count() as u8;
        let to_tag = tag(message.header_bytes(Name::To)?);
        let (kind, label, detail) = match message.status() {
            None => {
                let name = match method {
                    MethodCode::Other => cseq_method.as_str(),
                    known => known.name(),
                };
                (Kind::Request, labels.request(name), 0)
            }
            Some(status) => {
                let reason = message.reason().unwrap_or_default();
                let detail = short_hash(hasher, &(to_tag, message.header_bytes(Name::RSeq)));
                (
                    Kind::Response(status),
                    labels.response(status, reason),
                    detail,
                )
            }
        };
        let may_have_session = !message.body().is_empty();
        Some(Glance {
            call_id,
            kind,
            method,
            cseq,
            branch: match top.branch() {
                Some(branch) => short_hash(hasher, branch),
                // Before RFC 3261 there was none: the hop is known by what else is in the Via.
                None => short_hash(hasher, message.header_bytes(Name::Via)?),
            },
            detail,
            depth,
            label,
            in_dialog: kind == Kind::Request && to_tag.is_some(),
            has_session_description: may_have_session && has_session_description(message),
        })
    }
}

/// Via values counted; a message with more has gone round in circles.
const MOST_VIAS: u8 = 60;

/// The tag parameter of a From or To value. A quick look: a tag behind the closing bracket.
fn tag(value: &[u8]) -> Option<&[u8]> {
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

fn has_session_description(message: &Message) -> bool {
    message
        .header_bytes(Name::ContentType)
        .is_some_and(|value| {
            value
                .get(..15)
                .is_some_and(|start| start.eq_ignore_ascii_case(b"application/sdp"))
                || value
                    .get(..10)
                    .is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"))
        })
}

pub(crate) fn short_hash(hasher: &RandomState, value: &(impl Hash + ?Sized)) -> u32 {
    hasher.hash_one(value) as u32
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn glance_at(text: &str) -> Option<(MethodCode, u32, u8, bool, bool)> {
        let message = Message::read(Bytes::copy_from_slice(text.as_bytes())).expect("a message");
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        let glance = Glance::at(&message, &hasher, &mut Labels::default())?;
        Some((
            glance.method,
            glance.cseq,
            glance.depth,
            glance.in_dialog,
            glance.has_session_description,
        ))
    }

    #[test]
    fn what_groups_messages_is_read() {
        let invite = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP p;branch=z9hG4bK2\r\n\
                      v: SIP/2.0/UDP a;branch=z9hG4bK1\r\nTo: <sip:b@x>\r\nFrom: <sip:a@x>;tag=1\r\n\
                      Call-ID: c\r\nCSeq: 7 INVITE\r\nContent-Type: application/sdp\r\n\
                      Content-Length: 3\r\n\r\nv=0";
        assert_eq!(
            glance_at(invite),
            Some((MethodCode::Invite, 7, 2, false, true))
        );
        let bye = invite
            .replace("INVITE", "BYE")
            .replace("<sip:b@x>\r\n", "<sip:b@x>;tag=2\r\n");
        assert_eq!(glance_at(&bye), Some((MethodCode::Bye, 7, 2, true, true)));
        assert_eq!(glance_at(&invite.replace("Call-ID", "X")), None);
    }

    #[test]
    fn a_tag_is_a_header_parameter() {
        assert_eq!(tag(b"<sip:b@x;tag=no>"), None);
        assert_eq!(tag(b"\"B\" <sip:b@x> ; TAG=yes"), Some(&b"yes"[..]));
        assert_eq!(tag(b"sip:b@x;tag=yes;y=z"), Some(&b"yes"[..]));
        assert_eq!(tag(b""), None);
    }
}
