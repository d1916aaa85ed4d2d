//! Transfers: a REFER asks the other side to call somebody else (RFC 3515, RFC 3891, RFC 5589).

use std::time::{Duration, Instant};

use sip::transaction::ServerId;
use sip::{Flow, Message, Method, Name, NameAddr, Uri};

use super::Ua;
use super::sending::Purpose;
use crate::call::{Referred, Stage};
use crate::description::Description;
use crate::event::{CallNumber, UaEvent, UnknownCall};

/// How long the user may think before the other side is told that the transfer is pending (RFC 3515 section 2.4.2: a REFER is
/// answered at once), and for how long altogether.
const PATIENCE: Duration = Duration::from_secs(2);
const MAX_THINKING: Duration = Duration::from_secs(120);
/// REFERs of ours in one call whose outcome has not been told.
const MAX_REFERS: u8 = 16;

impl Ua {
    /// Asks the other side of a call to call `target` in our place; with `in_place_of`, in the place of another call of ours,
    /// with that one's other side (an attended transfer).
    ///
    /// # Errors
    ///
    /// A call is not answered, or too many transfers are under way.
    pub fn transfer(
        &mut self,
        now: Instant,
        number: CallNumber,
        target: &str,
        in_place_of: Option<CallNumber>,
    ) -> Result<(), UnknownCall> {
        let call = self.call(number)?;
        if !matches!(call.stage, Stage::Up) || call.refers >= MAX_REFERS {
            return Err(UnknownCall);
        }
        let refer_to = match in_place_of {
            None => format!("<{target}>"),
            Some(other) => {
                let dialog = self.call(other)?.dialog.as_ref().ok_or(UnknownCall)?;
                let replaces = format!(
                    "{};to-tag={};from-tag={}",
                    dialog.call_id(),
                    dialog.remote_tag().unwrap_or("0"),
                    dialog.local_tag(),
                );
                format!(
                    "<{}?Replaces={}>",
                    dialog.remote_target(),
                    escape(&replaces)
                )
            }
        };
        let request = self
            .request_in_dialog(number, Method::Refer)?
            .with(Name::ReferTo, refer_to);
        self.call(number)?.refers += 1;
        self.send_in_dialog(now, number, Purpose::Refer(number), request);
        Ok(())
    }

    /// Calls whom the other side has asked us to call. The new call's progress is told to the other side, which hangs up
    /// when it is answered.
    ///
    /// # Errors
    ///
    /// No transfer was asked for.
    pub fn accept_transfer(
        &mut self,
        now: Instant,
        number: CallNumber,
        offer: impl Into<Description>,
    ) -> Result<CallNumber, UnknownCall> {
        let call = self.call(number)?;
        let account = call.account;
        let referred = call.referred.as_mut().ok_or(UnknownCall)?;
        let (target, replaces) = refer_target(&referred.request).ok_or(UnknownCall)?;
        if std::mem::replace(&mut referred.is_accepted, true) {
            return Err(UnknownCall);
        }
        referred.due = None;
        self.answer_refer(now, number);
        self.report_transfer(now, number, 100);
        let offer = offer.into();
        Ok(self.dial_in_place_of(now, account, &target, offer, replaces, Some(number)))
    }

    /// Does not call whom the other side has asked us to call.
    ///
    /// # Errors
    ///
    /// No transfer was asked for.
    pub fn refuse_transfer(&mut self, now: Instant, number: CallNumber) -> Result<(), UnknownCall> {
        let call = self.call(number)?;
        let referred = call.referred.as_ref().ok_or(UnknownCall)?;
        if referred.is_accepted {
            return Err(UnknownCall);
        }
        match referred.transaction {
            Some(transaction) => {
                let response = Message::response_to(&referred.request, 603, "Decline");
                call.referred = None;
                self.transactions.respond(now, transaction, response);
            }
            // It was answered, as it had to be; this ends the subscription.
            None => self.report_transfer(now, number, 603),
        }
        Ok(())
    }

    /// Nobody has decided yet whether a transfer is to be.
    pub(super) fn transfer_timeout(&mut self, now: Instant, number: CallNumber) {
        let Ok(call) = self.call(number) else {
            return;
        };
        let Some(referred) = &mut call.referred else {
            return;
        };
        if referred.due.is_none_or(|due| due > now) {
            return;
        }
        if referred.transaction.is_some() {
            referred.due = Some(now + MAX_THINKING);
            self.answer_refer(now, number);
            self.notify_transfer(now, number, "pending;expires=120", 100);
        } else {
            let _ = self.refuse_transfer(now, number);
        }
    }

    /// Answers a REFER that has not been answered: it makes a subscription (RFC 3515 section 2.4.2).
    fn answer_refer(&mut self, now: Instant, number: CallNumber) {
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        let Some(referred) = &mut call.referred else {
            return;
        };
        let Some(transaction) = referred.transaction.take() else {
            return;
        };
        let (request, flow) = (referred.request.clone(), referred.flow);
        let account = call.account;
        let mut response = Message::response_to(&request, 202, "Accepted");
        let contact = self.contact(Some(account), &request, &flow);
        response.push_back(Name::Contact, contact);
        self.transactions.respond(now, transaction, response);
    }

    pub(super) fn handle_refer(
        &mut self,
        now: Instant,
        number: CallNumber,
        transaction: ServerId,
        flow: Flow,
        request: Message,
    ) {
        let Some((target, replaces)) = refer_target(&request) else {
            return self.respond(now, transaction, &flow, &request, 400, "Bad Request");
        };
        let Ok(call) = self.call(number) else {
            return;
        };
        if call.referred.is_some() || !matches!(call.stage, Stage::Up) {
            return self.respond(now, transaction, &flow, &request, 491, "Request Pending");
        }
        call.referred = Some(Referred {
            transaction: Some(transaction),
            request,
            flow,
            is_accepted: false,
            due: Some(now + PATIENCE),
        });
        self.emit(UaEvent::TransferRequested {
            call: number,
            target,
            replaces,
        });
    }

    /// How the other side gets on with the call that we asked for (RFC 3515 section 2.4.4).
    pub(super) fn handle_transfer_notify(
        &mut self,
        now: Instant,
        number: CallNumber,
        transaction: ServerId,
        flow: Flow,
        request: &Message,
    ) {
        let is_refer = request.header(Name::Event).is_some_and(|event| {
            event
                .split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .eq_ignore_ascii_case("refer")
        });
        // It is compared without case (RFC 3261 section 7.3.1).
        let is_over = request
            .header(Name::SubscriptionState)
            .and_then(|state| state.split(';').next())
            .is_some_and(|state| state.trim().eq_ignore_ascii_case("terminated"));
        let Some(call) = self.calls.get_mut(&number) else {
            return;
        };
        if !is_refer || call.refers == 0 {
            // Nobody has subscribed to it (RFC 6665 section 4.1.3).
            let reason = "Call/Transaction Does Not Exist";
            return self.respond(now, transaction, &flow, request, 481, reason);
        }
        call.refers -= u8::from(is_over);
        self.respond(now, transaction, &flow, request, 200, "OK");
        let fragment = String::from_utf8_lossy(request.body());
        let status = fragment
            .strip_prefix("SIP/2.0 ")
            .and_then(|rest| rest.get(..3)?.parse::<u16>().ok());
        if let Some(status) = status {
            self.emit(UaEvent::TransferProgress {
                call: number,
                status,
            });
        }
    }

    /// Tells the side that asked for a transfer how the new call gets on.
    pub(super) fn report_transfer(&mut self, now: Instant, number: CallNumber, status: u16) {
        let is_over = status >= 200;
        let state = match status {
            603 => "terminated;reason=rejected",
            200.. => "terminated;reason=noresource",
            _ => "active;expires=60",
        };
        self.notify_transfer(now, number, state, status);
        if is_over && let Ok(call) = self.call(number) {
            call.referred = None;
        }
    }

    fn notify_transfer(&mut self, now: Instant, number: CallNumber, state: &str, status: u16) {
        let Ok(request) = self.request_in_dialog(number, Method::Notify) else {
            return;
        };
        let request = request
            .with(Name::Event, "refer")
            .with(Name::SubscriptionState, state)
            .with_body(
                "message/sipfrag;version=2.0",
                format!("SIP/2.0 {status} {}\r\n", reason(status)),
            );
        self.send_in_dialog(now, number, Purpose::Other, request);
    }
}

/// Whom a REFER asks to call, without headers, and the value of Replaces in them. `None` when it is no SIP URI.
fn refer_target(request: &Message) -> Option<(String, Option<String>)> {
    let value = request.header_bytes(Name::ReferTo)?;
    let address = NameAddr::parse(value).ok()?;
    let uri = Uri::parse(address.uri()).ok()?;
    let uri = uri.as_sip()?;
    let replaces = uri.headers().and_then(|headers| {
        headers
            .split('&')
            .filter_map(|header| header.split_once('='))
            .find(|(name, _)| name.eq_ignore_ascii_case("replaces"))
            .map(|(_, value)| unescape(value))
    });
    Some((uri.without_headers().to_owned(), replaces))
}

/// A header value as it stands in a URI (RFC 3261 section 19.1.1).
fn escape(value: &str) -> String {
    let mut escaped = String::new();
    for octet in value.bytes() {
        if octet.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&octet) {
            escaped.push(char::from(octet));
        } else {
            escaped.push_str(&format!("%{octet:02X}"));
        }
    }
    escaped
}

/// What stands in a URI, without line ends: it goes into a header field.
fn unescape(value: &str) -> String {
    let mut octets = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let escaped = (*first == b'%')
            .then(|| std::str::from_utf8(more.get(..2)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(octet) => {
                octets.push(octet);
                rest = more.get(2..).unwrap_or_default();
            }
            None => {
                octets.push(*first);
                rest = more;
            }
        }
    }
    octets.retain(|octet| !octet.is_ascii_control());
    String::from_utf8_lossy(&octets).into_owned()
}

/// The words of a status.
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        180 => "Ringing",
        183 => "Session Progress",
        200 => "OK",
        404 => "Not Found",
        408 => "Request Timeout",
        480 => "Temporarily Unavailable",
        486 => "Busy Here",
        487 => "Request Terminated",
        503 => "Service Unavailable",
        603 => "Decline",
        _ if status < 200 => "Progress",
        _ => "Failure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialog_survives_its_way_through_a_uri() {
        let replaces = "a%b@host;to-tag=1;from-tag=\"2\"";
        assert_eq!(unescape(&escape(replaces)), replaces);
        let request = Message::request(Method::Refer, "sip:bob@example.org").with(
            Name::ReferTo,
            format!("<sip:carol@example.org?Replaces={}>", escape(replaces)),
        );
        let (target, found) = refer_target(&request).unwrap();
        assert_eq!(
            (target.as_str(), found.as_deref()),
            ("sip:carol@example.org", Some(replaces))
        );
    }

    #[test]
    fn nothing_slips_into_another_header_field() {
        assert_eq!(unescape("x%0D%0AVia:%20y%"), "xVia: y%");
        let request = Message::request(Method::Refer, "sip:b@h").with(Name::ReferTo, "<http://x/>");
        assert_eq!(refer_target(&request), None);
    }
}
