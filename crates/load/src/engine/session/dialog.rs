//! The dialog of a session (RFC 3261 section 12).

use super::route_set;
use crate::engine::buffers::Buffers;
use crate::engine::received::Received;

/// The state of a dialog. Its texts are in one buffer, which the next session takes over.
#[derive(Debug, Default)]
pub(in crate::engine) struct Dialog {
    text: Vec<u8>,
    /// The Call-ID, where it is not ours.
    pub(in crate::engine) call_id: Span,
    /// From and To of the request that began the session, as they came.
    pub(in crate::engine) from: Span,
    pub(in crate::engine) to: Span,
    /// The peer's tag.
    pub(in crate::engine) remote_tag: Span,
    /// The peer's Contact.
    pub(in crate::engine) target: Span,
    /// Whole lines of Route.
    pub(in crate::engine) routes: Span,
    /// Up to where the text does not change with the peer's answers.
    fixed: u16,
    /// Whether the tag is written by the script itself, and its fingerprint then.
    pub(in crate::engine) own_tag: u64,
    /// The highest sequence number of the peer's requests (section 12.2.2).
    pub(in crate::engine) remote_cseq: u32,
    /// Whether a 2xx to an INVITE was sent or received.
    pub(in crate::engine) is_confirmed: bool,
    /// Whether a BYE was sent or received.
    pub(in crate::engine) is_ended: bool,
    /// Whether the first proxy of the route set is a strict router (section 12.2.1.1).
    pub(in crate::engine) is_strict: bool,
}

/// A text of a dialog: where it is in [`Dialog::text`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Span {
    start: u16,
    length: u16,
}

impl Span {
    pub(in crate::engine) fn is_empty(self) -> bool {
        self.length == 0
    }
}

/// How much of a peer's text a session keeps at most.
const MAXIMUM_TEXT: usize = 16 * 1024;

impl Dialog {
    pub(in crate::engine) fn get(&self, span: Span) -> &[u8] {
        let start = usize::from(span.start);
        self.text
            .get(start..start + usize::from(span.length))
            .unwrap_or_default()
    }

    /// Learns the dialog of a callee from a request (section 12.1.1).
    pub(in crate::engine) fn learn_caller(&mut self, request: &Received<'_>) {
        self.call_id = self.push(request.call_id);
        self.from = self.push(request.from);
        self.to = self.push(request.to);
        if let Some(tag) = request.tag_of_from() {
            self.remote_tag = self.push(tag);
        }
        if let Some(contact) = request.contact_uri() {
            self.target = self.push(contact);
        }
        self.learn_routes(request, route_set::write_of_callee);
        self.fix();
    }

    /// Learns the dialog of a caller from a response (section 12.1.2): tag, Contact and route set, in the place of those
    /// of an earlier response.
    pub(in crate::engine) fn learn_callee(&mut self, response: &Received<'_>) {
        self.forget_peer();
        self.remote_tag = self.push(response.tag_of_to().unwrap_or_default());
        if let Some(contact) = response.contact_uri() {
            self.target = self.push(contact);
        }
        self.learn_routes(response, route_set::write_of_caller);
    }

    /// Keeps From, To and, where it is given, the Call-ID of a request that the script has written itself.
    pub(in crate::engine) fn learn_own(&mut self, from: &[u8], to: &[u8], call_id: Option<&[u8]>) {
        self.from = self.push(from);
        self.to = self.push(to);
        if let Some(call_id) = call_id {
            self.call_id = self.push(call_id);
        }
        self.fix();
    }

    /// Keeps a Call-ID that another generator has chosen.
    pub(in crate::engine) fn keep_call_id(&mut self, call_id: &[u8]) {
        self.call_id = self.push(call_id);
        self.fix();
    }

    /// Keeps the To of a response whose tag the script has written itself.
    pub(in crate::engine) fn learn_own_to(&mut self, to: &[u8]) {
        self.to = self.push(to);
        self.fix();
    }

    fn learn_routes(
        &mut self,
        message: &Received<'_>,
        write: impl FnOnce(&Received<'_>, &mut Vec<u8>),
    ) {
        if message.record_routes.is_empty() {
            return;
        }
        self.routes = self.push_with(|out| write(message, out));
        self.is_strict = route_set::is_strict(self.get(self.routes));
    }

    /// Whether a 2xx to an INVITE comes from another callee than the one of this dialog.
    pub(in crate::engine) fn is_of_another(&self, response: &Received<'_>) -> bool {
        let known = self.get(self.remote_tag);
        response
            .tag_of_to()
            .is_some_and(|tag| !known.is_empty() && tag != known)
    }

    /// Keeps a text; nothing of it where there is no room.
    fn push(&mut self, text: &[u8]) -> Span {
        self.push_with(|out| out.extend_from_slice(text))
    }

    /// Keeps a text that is written by a function; nothing of it where there is no room.
    fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Span {
        let start = self.text.len();
        write(&mut self.text);
        if self.text.len() > MAXIMUM_TEXT {
            self.text.truncate(start);
        }
        Span {
            start: start as u16,
            length: (self.text.len() - start) as u16,
        }
    }

    /// The texts so far do not change with the peer's answers.
    fn fix(&mut self) {
        self.fixed = self.text.len() as u16;
    }

    /// Forgets the peer's tag, Contact and route set.
    pub(in crate::engine) fn forget_peer(&mut self) {
        self.text.truncate(usize::from(self.fixed));
        self.remote_tag = Span::default();
        self.target = Span::default();
        self.routes = Span::default();
        self.is_strict = false;
    }

    /// Replaces the peer's Contact, and nothing else (section 12.2.1.2). One for which there is no room is not taken.
    pub(in crate::engine) fn replace_target(&mut self, target: &[u8]) {
        if self.get(self.target) == target {
            return;
        }
        let tag = self.get(self.remote_tag).to_vec();
        let routes = self.get(self.routes).to_vec();
        let length = usize::from(self.fixed) + tag.len() + routes.len() + target.len();
        if length > MAXIMUM_TEXT {
            return;
        }
        let is_strict = self.is_strict;
        // The old texts go, so that a call that is changed often does not grow.
        self.forget_peer();
        self.remote_tag = self.push(&tag);
        self.target = self.push(target);
        self.routes = self.push(&routes);
        self.is_strict = is_strict;
    }

    /// Gets room for texts.
    pub(in crate::engine) fn prepare(&mut self, buffers: &mut Buffers) {
        self.text = buffers.take_small();
    }

    pub(super) fn reset(&mut self, buffers: &mut Buffers) {
        buffers.give_back(&mut self.text);
        *self = Dialog::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a\r\nRecord-Route: <sip:p;lr>, <sip:q>\r\n\
        From: <sip:a@x>;tag=1\r\nTo: <sip:b@x>;tag=2\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nContact: <sip:b@h>\r\n\r\n";

    #[test]
    fn a_caller_learns_tag_target_and_the_reversed_route_set() {
        let response = Received::read(OK.as_bytes()).unwrap();
        let mut dialog = Dialog::default();
        dialog.learn_own(b"<sip:a>", b"<sip:b>", Some(b"c"));
        for _ in 0..2 {
            dialog.learn_callee(&response);
            assert_eq!(dialog.get(dialog.remote_tag), b"2");
            assert_eq!(dialog.get(dialog.target), b"sip:b@h");
            let routes = dialog.get(dialog.routes);
            assert_eq!(routes, b"Route: <sip:q>\r\nRoute: <sip:p;lr>\r\n");
            assert!(dialog.is_strict);
        }
        assert!(!dialog.is_of_another(&response));
        let other = OK.replace("tag=2", "tag=3");
        assert!(dialog.is_of_another(&Received::read(other.as_bytes()).unwrap()));
        dialog.forget_peer();
        assert_eq!(dialog.get(dialog.call_id), b"c");
        assert!(dialog.remote_tag.is_empty() && dialog.routes.is_empty() && !dialog.is_strict);
        assert!(!dialog.is_of_another(&response));
    }

    #[test]
    fn a_callee_learns_the_route_set_as_it_came() {
        let invite = OK
            .replace("SIP/2.0 200 OK", "INVITE sip:b@x SIP/2.0")
            .replace(";tag=2", "");
        let mut dialog = Dialog::default();
        dialog.learn_caller(&Received::read(invite.as_bytes()).unwrap());
        assert_eq!(dialog.get(dialog.remote_tag), b"1");
        let routes = dialog.get(dialog.routes);
        assert_eq!(routes, b"Route: <sip:p;lr>\r\nRoute: <sip:q>\r\n");
        assert!(!dialog.is_strict);
        dialog.learn_own_to(b"<sip:b@x>;tag=own");
        assert_eq!(dialog.get(dialog.to), b"<sip:b@x>;tag=own");
    }

    #[test]
    fn a_target_is_replaced_alone_and_without_growing() {
        let mut dialog = Dialog::default();
        dialog.learn_callee(&Received::read(OK.as_bytes()).unwrap());
        for number in 0..1_000 {
            dialog.replace_target(format!("sip:{number:04}@h").as_bytes());
        }
        assert_eq!(dialog.get(dialog.target), b"sip:0999@h");
        assert_eq!(dialog.get(dialog.remote_tag), b"2");
        assert!(dialog.is_strict && dialog.text.len() < 100);
        dialog.replace_target(&[b'x'; MAXIMUM_TEXT]);
        assert_eq!(dialog.get(dialog.target), b"sip:0999@h");
    }
}
