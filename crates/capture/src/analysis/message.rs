//! What the analysis keeps of a SIP message.

use std::cell::OnceCell;

use ahash::RandomState;
use sip::Transport;

use super::addresses::plain_address;
use super::fields::{Fields, PeekError, Start};
use super::labels::{Label, Labels};
use super::method_code::MethodCode;
use super::values::{is_session_description, sequence, tag};
use crate::Time;

/// Request or response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Request,
    /// With its status code.
    Response(u16),
}

/// One message of an exchange, seen on one hop, in as few octets as will do: open calls are what the
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
    /// Source and destination among the ends of the exchange.
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

/// The few values of a message that the analysis needs.
#[derive(Debug)]
pub(crate) struct Peek<'m> {
    /// It is UTF-8.
    pub(crate) call_id: &'m [u8],
    /// The values of From and To, as written.
    pub(crate) from: Option<&'m [u8]>,
    pub(crate) to: &'m [u8],
    pub(crate) kind: Kind,
    pub(crate) method: MethodCode,
    pub(crate) cseq: u32,
    pub(crate) branch: u32,
    pub(crate) detail: u32,
    pub(crate) depth: u8,
    pub(crate) label: Label,
    pub(crate) in_dialog: bool,
    pub(crate) has_session_description: bool,
    plain_addresses: OnceCell<[Option<&'m str>; 2]>,
}

impl<'m> Peek<'m> {
    /// Reads them in one pass over the octets.
    pub(crate) fn at(
        octets: &'m [u8],
        hasher: &ShortHasher,
        labels: &mut Labels,
    ) -> Result<Peek<'m>, PeekError> {
        let (start, fields) = Fields::read(octets)?;
        Peek::of(start, &fields, hasher, labels).ok_or(PeekError::Ungrouped)
    }

    fn of(
        start: Start<'m>,
        fields: &Fields<'m>,
        hasher: &ShortHasher,
        labels: &mut Labels,
    ) -> Option<Peek<'m>> {
        let call_id = fields.call_id?;
        std::str::from_utf8(call_id).ok()?;
        let (cseq, method, other) = sequence(fields.cseq?)?;
        let via = fields.via?;
        let to = fields.to?;
        let to_tag = tag(to);
        let (kind, label, detail) = match start {
            Start::Request => {
                let label = match &other {
                    Some(name) => labels.request(name.as_bytes()),
                    None => labels.method(method),
                };
                (Kind::Request, label, 0)
            }
            Start::Response { status, reason } => {
                let detail = match fields.r_seq {
                    None => to_tag.map_or(0, |tag| hasher.short(tag)),
                    Some(r_seq) => {
                        let tag = to_tag.map_or(0, |tag| hasher.short(tag));
                        hasher.short(r_seq).rotate_left(1) ^ tag
                    }
                };
                let label = labels.response(status, reason);
                (Kind::Response(status), label, detail)
            }
        };
        Some(Peek {
            call_id,
            from: fields.from,
            to,
            kind,
            method,
            cseq,
            // Before RFC 3261 there was no branch: the hop is known by what else is in the Via.
            branch: hasher.short(fields.branch.unwrap_or(via)),
            detail,
            depth: fields.vias.min(usize::from(MOST_VIAS)) as u8,
            label,
            in_dialog: kind == Kind::Request && to_tag.is_some(),
            has_session_description: fields.has_body
                && fields.content_type.is_some_and(is_session_description),
            plain_addresses: OnceCell::new(),
        })
    }

    /// `user@host` of From and To, where nothing about them is unusual.
    pub(crate) fn plain_addresses(&self) -> &[Option<&'m str>; 2] {
        self.plain_addresses
            .get_or_init(|| [self.from, Some(self.to)].map(|value| plain_address(value?)))
    }
}

/// Via values counted; a message with more has gone round in circles.
const MOST_VIAS: u8 = 61;

/// Makes short hashes of texts by which the messages of one exchange are told apart. What others make up to be taken for the
/// same is in a call of their own, and they do not know the seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortHasher {
    seed: u64,
}

impl ShortHasher {
    pub(crate) fn new(hasher: &RandomState) -> ShortHasher {
        ShortHasher {
            seed: hasher.hash_one("short"),
        }
    }

    #[inline]
    fn short(&self, octets: &[u8]) -> u32 {
        let begun = self.seed ^ (octets.len() as u64).wrapping_mul(FACTOR);
        let (words, rest) = octets.as_chunks();
        let state = words.iter().fold(begun, |state, word| {
            mixed(state ^ u64::from_le_bytes(*word))
        });
        // Octets of the last word come twice where it is not full.
        let last = match octets.last_chunk() {
            Some(last) => u64::from_le_bytes(*last),
            None => rest
                .iter()
                .fold(0, |word, octet| word << 8 | u64::from(*octet)),
        };
        mixed(state ^ last) as u32
    }
}

/// An odd number without a pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Every bit of the number has a part in every bit of what is made of it: both halves of a product.
#[inline]
fn mixed(number: u64) -> u64 {
    let product = u128::from(number) * u128::from(FACTOR);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peeked(text: &str) -> Option<(MethodCode, u32, u8, bool, bool)> {
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        let peek = Peek::at(
            text.as_bytes(),
            &ShortHasher::new(&hasher),
            &mut Labels::default(),
        )
        .ok()?;
        Some((
            peek.method,
            peek.cseq,
            peek.depth,
            peek.in_dialog,
            peek.has_session_description,
        ))
    }

    #[test]
    fn texts_that_differ_have_other_hashes() {
        let hasher = ShortHasher::new(&RandomState::with_seeds(1, 2, 3, 4));
        let mut hashes = std::collections::BTreeSet::new();
        for length in 0..40 {
            let text = vec![0; length];
            hashes.insert(hasher.short(&text));
            for at in 0..length {
                let mut other = text.clone();
                other[at] = 1;
                hashes.insert(hasher.short(&other));
            }
        }
        assert_eq!(hashes.len(), 40 + 39 * 40 / 2);
    }

    #[test]
    fn what_groups_messages_is_read() {
        let invite = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP p;branch=z9hG4bK2\r\n\
                      v: SIP/2.0/UDP a;branch=z9hG4bK1\r\nTo: <sip:b@x>\r\nFrom: <sip:a@x>;tag=1\r\n\
                      Call-ID: c\r\nCSeq: 7 INVITE\r\nContent-Type: application/sdp\r\n\
                      Content-Length: 3\r\n\r\nv=0";
        assert_eq!(
            peeked(invite),
            Some((MethodCode::Invite, 7, 2, false, true))
        );
        let bye = invite
            .replace("INVITE", "BYE")
            .replace("<sip:b@x>\r\n", "<sip:b@x>;tag=2\r\n");
        assert_eq!(peeked(&bye), Some((MethodCode::Bye, 7, 2, true, true)));
        assert_eq!(peeked(&invite.replace("Call-ID", "X")), None);
    }
}
