//! Texts (RFC 3428), and the state of the mailbox (RFC 3842).

use std::time::Instant;

use bytes::Bytes;
use sip::transaction::ServerId;
use sip::{Flow, Message, Method, Name};

use super::sending::{Parked, Purpose};
use super::{Ua, has_type};
use crate::event::{AccountId, TextNumber, UaEvent};
use crate::route::Route;

/// The longest text that is sent in one request (RFC 3428 section 8).
const MAX_TEXT: usize = 1_300;

impl Ua {
    /// Sends a text to a URI. What became of it comes as an event; a text of more than 1300 octets is refused at once (413).
    pub fn send_text(
        &mut self,
        now: Instant,
        account: AccountId,
        to: &str,
        content_type: &str,
        body: Bytes,
    ) -> TextNumber {
        let text = TextNumber(self.number());
        if body.len() > MAX_TEXT {
            self.emit(UaEvent::TextSent { text, status: 413 });
            return text;
        }
        let parked = Parked::Text {
            text,
            account,
            to: to.to_owned(),
            content_type: content_type.to_owned(),
            body,
        };
        self.park_first_hop(now, account, to, 0, parked);
        text
    }

    #[expect(clippy::too_many_arguments, reason = "a text and its way")]
    pub(super) fn send_text_by(
        &mut self,
        now: Instant,
        text: TextNumber,
        account: AccountId,
        to: &str,
        content_type: &str,
        body: Bytes,
        route: Route,
    ) {
        let mut writer = self.writer(account, &route);
        let mut request = writer.request(Method::Message, to);
        self.finish_request(account, &mut request);
        self.address_request(account, &mut request, writer.contact(), 0);
        // A text makes no dialog (RFC 3428 section 4).
        request.remove_all(Name::Contact);
        let request = request.with_body(content_type, body);
        self.send(now, Purpose::Text(text), account, request, route, 0);
    }

    pub(super) fn handle_text(
        &mut self,
        now: Instant,
        transaction: ServerId,
        flow: Flow,
        request: &Message,
    ) {
        let Some(account) = self.account_of(request) else {
            return self.respond(now, transaction, &flow, request, 404, "Not Found");
        };
        self.respond(now, transaction, &flow, request, 200, "OK");
        let from = request
            .from()
            .map(|from| from.uri().to_owned())
            .unwrap_or_default();
        let content_type = request
            .header(Name::ContentType)
            .unwrap_or("text/plain")
            .to_owned();
        self.emit(UaEvent::Text {
            account,
            from,
            content_type,
            body: request.body_bytes(),
        });
    }

    /// A NOTIFY outside of a call: of the mailbox, which many servers send unasked.
    pub(super) fn handle_mailbox(
        &mut self,
        now: Instant,
        transaction: ServerId,
        flow: Flow,
        request: &Message,
    ) {
        let account = self.account_of(request);
        let is_mailbox = has_type(request, "application/simple-message-summary");
        let (Some(account), true) = (account, is_mailbox) else {
            return self.respond(now, transaction, &flow, request, 489, "Bad Event");
        };
        self.respond(now, transaction, &flow, request, 200, "OK");
        let body = String::from_utf8_lossy(request.body());
        let waiting = body
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("messages-waiting"))
            .map(|(_, value)| value.trim().eq_ignore_ascii_case("yes"));
        if let Some(waiting) = waiting {
            self.emit(UaEvent::MessagesWaiting { account, waiting });
        }
    }
}
