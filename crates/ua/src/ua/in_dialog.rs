//! What happens in a call: hanging up, other sessions (RFC 3261 sections 14 and 15, RFC 3311), keys.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::RngExt;
use sip::dialog::AnswerRetransmitter;
use sip::transaction::ServerId;
use sip::{Flow, Message, Method, Name};

use super::calling::takes_update;
use super::sending::{Purpose, Sent};
use super::{ALLOW, SDP, SUPPORTED, Ua, description, glare_pause, has_type};
use crate::call::{Call, Offer, Offered, SentAnswer, Stage};
use crate::description::Description;
use crate::event::{CallNumber, EndReason, UaEvent, UnknownCall};
use crate::session_timer::SessionTimer;

/// After so long a refresh that could not leave is tried again.
const REFRESH_AGAIN: Duration = Duration::from_secs(5);

impl Ua {
    /// Hangs up: gives up a call of ours, refuses one that came (603), or ends one that is answered.
    ///
    /// # Errors
    ///
    /// There is no such call.
    pub fn hang_up(&mut self, now: Instant, number: CallNumber) -> Result<(), UnknownCall> {
        match &self.call(number)?.stage {
            Stage::Calling(_) => self.cancel(now, number),
            Stage::Ringing(_) => self.refuse(now, number, 603, "Decline"),
            Stage::Up => {
                self.send_bye(now, number);
                self.end(now, number, EndReason::Local);
                Ok(())
            }
        }
    }

    /// Offers another session in a call that is answered: to hold it, to go on, at another address. The answer comes as an
    /// event.
    ///
    /// # Errors
    ///
    /// The call is not answered, or an offer is under way already (RFC 3264 section 4).
    pub fn offer(
        &mut self,
        now: Instant,
        number: CallNumber,
        description: impl Into<Description>,
    ) -> Result<(), UnknownCall> {
        let description = description.into();
        if !self.can_offer(number) {
            return Err(UnknownCall);
        }
        let call = self.call(number)?;
        call.is_secret |= description.is_secret;
        self.send_offer(now, number, description.octets, false);
        Ok(())
    }

    /// Whether another session can be [offered](Ua::offer) now.
    pub fn can_offer(&self, number: CallNumber) -> bool {
        self.calls.get(&number).is_some_and(|call| {
            matches!(call.stage, Stage::Up)
                && matches!(call.offer, Offer::None)
                && call.offered.is_none()
        })
    }

    /// Writes an offer anew that waits, since the other side had one at the same time (491): what was agreed on meanwhile belongs
    /// into it, and descriptions are numbered in the order in which they are sent (RFC 3264 section 8).
    ///
    /// # Errors
    ///
    /// None waits.
    pub fn replace_offer(
        &mut self,
        number: CallNumber,
        description: impl Into<Description>,
    ) -> Result<(), UnknownCall> {
        let anew = description.into();
        let call = self.call(number)?;
        let Offer::Postponed {
            description,
            is_refresh: false,
            ..
        } = &mut call.offer
        else {
            return Err(UnknownCall);
        };
        *description = anew.octets;
        call.is_secret |= anew.is_secret;
        Ok(())
    }

    /// Answers an offer of the other side; an offer without description is answered with one of ours.
    ///
    /// # Errors
    ///
    /// No offer waits.
    pub fn answer_offer(
        &mut self,
        now: Instant,
        number: CallNumber,
        description: Bytes,
    ) -> Result<(), UnknownCall> {
        let (t1, t2) = (self.config.transactions.t1, self.config.transactions.t2);
        let offered = self.call(number)?.offered.take().ok_or(UnknownCall)?;
        let account = self.call(number)?.account;
        let Offered {
            transaction,
            request,
            flow,
        } = offered;
        let mut response = Message::response_to(&request, 200, "OK");
        let contact = self.contact(Some(account), &request, &flow);
        response.push_back(Name::Contact, contact);
        let call = self.call(number)?;
        response.push_back(Name::Allow, ALLOW);
        response.push_back(Name::Supported, SUPPORTED);
        if let Some(timer) = SessionTimer::of_request(now, &request) {
            timer.write_response(&mut response);
            call.timer = Some(timer);
        }
        response = response.with_body(SDP, description.clone());
        call.description = description;
        if let Some(dialog) = &mut call.dialog {
            dialog.accept_request(&request);
        }
        if request.method() == Some(&Method::Invite) {
            call.answer = Some(SentAnswer {
                transaction,
                response: response.clone(),
                retransmitter: AnswerRetransmitter::new(now, t1, t2),
            });
        }
        self.transactions.respond(now, transaction, response);
        Ok(())
    }

    /// Refuses an offer of the other side: 488 when there is nothing in it that we could use.
    ///
    /// # Errors
    ///
    /// No offer waits.
    pub fn refuse_offer(
        &mut self,
        now: Instant,
        number: CallNumber,
        status: u16,
        reason: &str,
    ) -> Result<(), UnknownCall> {
        let offered = self.call(number)?.offered.take().ok_or(UnknownCall)?;
        let response = Message::response_to(&offered.request, status, reason);
        self.transactions
            .respond(now, offered.transaction, response);
        Ok(())
    }

    /// Presses a key by INFO, for those who do not take keys in the media.
    ///
    /// # Errors
    ///
    /// The call is not answered.
    pub fn send_key(
        &mut self,
        now: Instant,
        number: CallNumber,
        key: char,
    ) -> Result<(), UnknownCall> {
        let request = self.request_in_dialog(number, Method::Info)?;
        let body = format!("Signal={key}\r\nDuration=100\r\n");
        let request = request.with_body("application/dtmf-relay", body);
        self.send_in_dialog(now, number, Purpose::Other, request);
        Ok(())
    }

    /// A request that names a dialog.
    pub(super) fn handle_request_in_dialog(
        &mut self,
        now: Instant,
        transaction: ServerId,
        flow: Flow,
        request: Message,
    ) {
        let of_call = |call: &&mut Call| {
            call.dialog
                .as_ref()
                .is_some_and(|dialog| dialog.matches(&request))
        };
        let Some(call) = self.calls.values_mut().find(of_call) else {
            let (status, reason) = self.answer_early(&request);
            return self.respond(now, transaction, &flow, &request, status, reason);
        };
        let number = call.number;
        let in_order = call
            .dialog
            .as_mut()
            .map(|dialog| dialog.handle_request(&request));
        if matches!(in_order, Some(Err(_))) {
            return self.respond(
                now,
                transaction,
                &flow,
                &request,
                500,
                "Server Internal Error",
            );
        }
        match request.method() {
            Some(Method::Bye) => {
                self.respond(now, transaction, &flow, &request, 200, "OK");
                self.handle_bye(now, number);
            }
            Some(Method::Invite | Method::Update) => {
                self.handle_offer(now, number, transaction, flow, request)
            }
            Some(Method::Prack) => {
                let (status, reason) = if self.handle_prack(number, &request) {
                    (200, "OK")
                } else {
                    (481, "Call/Transaction Does Not Exist")
                };
                self.respond(now, transaction, &flow, &request, status, reason);
                self.send_answer(now, number);
            }
            Some(Method::Info) => {
                self.respond(now, transaction, &flow, &request, 200, "OK");
                if let Some(key) = key_of(&request) {
                    self.emit(UaEvent::Key { call: number, key });
                }
            }
            Some(Method::Refer) => self.handle_refer(now, number, transaction, flow, request),
            Some(Method::Notify) => {
                self.handle_transfer_notify(now, number, transaction, flow, &request)
            }
            Some(Method::Message) => self.handle_text(now, transaction, flow, &request),
            _ => self.respond(now, transaction, &flow, &request, 200, "OK"),
        }
    }

    /// What is answered to a request that names no dialog of an answered call: it may name an early one of a call of ours. An
    /// UPDATE without offer has nothing to change there; one with an offer has to wait for the answer to ours, and cannot
    /// change what the user has not heard of (RFC 3311 section 5.2).
    fn answer_early(&mut self, request: &Message) -> (u16, &'static str) {
        let early = self
            .calls
            .values_mut()
            .filter_map(|call| match &mut call.stage {
                Stage::Calling(outgoing) => Some(outgoing.early.iter_mut()),
                Stage::Ringing(_) | Stage::Up => None,
            });
        let mut early = early.flatten();
        let found = early.find(|early| early.dialog.matches(request));
        let (Some(early), Some(Method::Update)) = (found, request.method()) else {
            return (481, "Call/Transaction Does Not Exist");
        };
        if early.dialog.handle_request(request).is_err() {
            return (500, "Server Internal Error");
        }
        match (description(request).is_empty(), early.has_answer) {
            (true, _) => (200, "OK"),
            (false, false) => (491, "Request Pending"),
            (false, true) => (504, "Server Time-out"),
        }
    }

    /// The ACK to a 2xx of ours.
    pub(super) fn handle_ack(&mut self, _now: Instant, request: &Message) {
        let of_call = |call: &&mut Call| {
            call.dialog
                .as_ref()
                .is_some_and(|dialog| dialog.matches(request))
        };
        let Some(call) = self.calls.values_mut().find(of_call) else {
            return;
        };
        let is_awaited = call
            .answer
            .as_ref()
            .is_some_and(|answer| answer.response.cseq_number() == request.cseq_number());
        if !is_awaited {
            return;
        }
        call.answer = None;
        let number = call.number;
        self.emit(UaEvent::Established {
            call: number,
            description: description(request),
        });
    }

    /// The final response to a request of ours.
    pub(super) fn handle_final(&mut self, now: Instant, sent: Sent, response: &Message) {
        let status = response.status().unwrap_or(0);
        match sent.purpose {
            Purpose::Register(register) => {
                self.handle_registered(now, register, &sent.request, response)
            }
            Purpose::Invite(number) => {
                self.handle_invite_final(now, number, &sent.request, response)
            }
            Purpose::Offer(number) => self.handle_offer_final(now, number, &sent.request, response),
            Purpose::Refer(number) if status >= 300 => {
                self.refer_is_over(number);
                self.emit(UaEvent::TransferProgress {
                    call: number,
                    status,
                });
            }
            Purpose::Text(text) => self.emit(UaEvent::TextSent { text, status }),
            Purpose::Refer(_) | Purpose::Other => {}
        }
    }

    /// A request of ours failed without a response.
    pub(super) fn fail(&mut self, now: Instant, purpose: Purpose, status: u16, reason: &str) {
        match purpose {
            Purpose::Register(register) => {
                self.registration_failed(now, register, status, reason, None);
            }
            Purpose::Invite(number) => self.invite_unanswered(now, number, status, reason),
            Purpose::Offer(number) => {
                let Ok(call) = self.call(number) else {
                    return;
                };
                match std::mem::take(&mut call.offer) {
                    // It has not left, which says nothing of the dialog: it can be made again.
                    Offer::Sent {
                        is_refresh: false, ..
                    } if status == 503 => self.emit(UaEvent::OfferRefused {
                        call: number,
                        status,
                    }),
                    // It is made again before the session expires (RFC 4028 section 10).
                    Offer::Sent { description, .. } if status == 503 => {
                        call.offer = Offer::Postponed {
                            description,
                            is_refresh: true,
                            until: now + REFRESH_AGAIN,
                        };
                    }
                    // The dialog is gone (RFC 3261 section 12.2.1.2).
                    _ => {
                        self.send_bye(now, number);
                        self.end(now, number, EndReason::Timeout);
                    }
                }
            }
            Purpose::Refer(number) => {
                self.refer_is_over(number);
                self.emit(UaEvent::TransferProgress {
                    call: number,
                    status,
                });
            }
            Purpose::Text(text) => self.emit(UaEvent::TextSent { text, status }),
            Purpose::Other => {}
        }
    }

    /// A REFER of ours was refused: it has made no subscription.
    fn refer_is_over(&mut self, number: CallNumber) {
        if let Ok(call) = self.call(number) {
            call.refers = call.refers.saturating_sub(1);
        }
    }

    /// Sends a BYE, if there is a dialog for it.
    pub(super) fn send_bye(&mut self, now: Instant, number: CallNumber) {
        if let Ok(request) = self.request_in_dialog(number, Method::Bye) {
            self.send_in_dialog(now, number, Purpose::Other, request);
        }
    }

    /// A request within the dialog of a call.
    pub(super) fn request_in_dialog(
        &mut self,
        number: CallNumber,
        method: Method,
    ) -> Result<Message, UnknownCall> {
        let dialog = self.call(number)?.dialog.as_mut().ok_or(UnknownCall)?;
        Ok(dialog.request(method))
    }

    /// Sends an offer: by UPDATE where it only refreshes the session and the other side knows that, else by INVITE.
    pub(super) fn send_offer(
        &mut self,
        now: Instant,
        number: CallNumber,
        description: Bytes,
        is_refresh: bool,
    ) {
        let Ok(call) = self.call(number) else {
            return;
        };
        let by_update = is_refresh && call.takes_update;
        let method = if by_update {
            Method::Update
        } else {
            Method::Invite
        };
        let timer = call.timer;
        let Some(dialog) = &mut call.dialog else {
            return;
        };
        let mut request = dialog.request(method);
        request.push_back(Name::Allow, ALLOW);
        request.push_back(Name::Supported, SUPPORTED);
        if let Some(timer) = timer {
            let refresher = if timer.is_ours { "uac" } else { "uas" };
            let seconds = timer.interval.as_secs();
            request.push_back(
                Name::SessionExpires,
                format!("{seconds};refresher={refresher}"),
            );
        }
        if !by_update {
            request = request.with_body(SDP, description.clone());
        }
        call.offer = Offer::Sent {
            description,
            is_refresh,
        };
        self.send_in_dialog(now, number, Purpose::Offer(number), request);
    }

    /// An offer that had to wait is made again.
    pub(super) fn postponed_offer(&mut self, now: Instant, number: CallNumber) {
        let Ok(call) = self.call(number) else {
            return;
        };
        match &call.offer {
            Offer::Postponed {
                description,
                is_refresh,
                until,
            } if *until <= now => {
                // A refresh says what holds now.
                let description = match is_refresh {
                    true => call.description.clone(),
                    false => description.clone(),
                };
                let is_refresh = *is_refresh;
                self.send_offer(now, number, description, is_refresh);
            }
            _ => {}
        }
    }

    /// The other side hung up.
    fn handle_bye(&mut self, now: Instant, number: CallNumber) {
        // A caller may hang up before the answer, too (RFC 3261 section 15.1.2).
        if let Ok(Stage::Ringing(ringing)) = self.call(number).map(|call| &call.stage) {
            let transaction = ringing.transaction;
            let mut response = Message::response_to(&ringing.invite, 487, "Request Terminated");
            response.set_to_tag(&ringing.tag);
            self.transactions.respond(now, transaction, response);
        }
        self.end(now, number, EndReason::Remote);
    }

    /// A re-INVITE or UPDATE came.
    fn handle_offer(
        &mut self,
        now: Instant,
        number: CallNumber,
        transaction: ServerId,
        flow: Flow,
        request: Message,
    ) {
        let body = description(&request);
        let retry_after = self.rng.random_range(0..10_u32);
        let account = self.calls.get(&number).map(|call| call.account);
        let contact = self.contact(account, &request, &flow);
        let Ok(call) = self.call(number) else {
            return;
        };
        call.takes_update |= takes_update(&request);
        let is_invite = request.method() == Some(&Method::Invite);
        let is_unanswered = matches!(call.stage, Stage::Ringing(_)) && call.description.is_empty();
        if call.offered.is_some()
            || (is_unanswered && !body.is_empty())
            || (is_invite && (call.answer.is_some() || !matches!(call.stage, Stage::Up)))
        {
            // One at a time (RFC 3261 section 14.2, RFC 3311 section 5.2).
            let mut response = Message::response_to(&request, 500, "Server Internal Error");
            response.push_back(Name::RetryAfter, retry_after.to_string());
            return self.transactions.respond(now, transaction, response);
        }
        if !is_invite && body.is_empty() {
            // It only refreshes the session.
            let mut response = Message::response_to(&request, 200, "OK");
            response.push_back(Name::Contact, contact);
            if let Some(timer) = SessionTimer::of_request(now, &request) {
                timer.write_response(&mut response);
                call.timer = Some(timer);
            }
            if let Some(dialog) = &mut call.dialog {
                dialog.accept_request(&request);
            }
            return self.transactions.respond(now, transaction, response);
        }
        if matches!(call.offer, Offer::Sent { .. }) {
            let response = Message::response_to(&request, 491, "Request Pending");
            return self.transactions.respond(now, transaction, response);
        }
        if call.is_secret && !flow.transport.is_secure() {
            // The answer has our keys, and goes the way that the offer came.
            let response = Message::response_to(&request, 488, "Not Acceptable Here");
            return self.transactions.respond(now, transaction, response);
        }
        call.offered = Some(Offered {
            transaction,
            request,
            flow,
        });
        self.emit(UaEvent::Offer {
            call: number,
            description: body,
        });
    }

    /// The final response to a re-INVITE or UPDATE of ours.
    fn handle_offer_final(
        &mut self,
        now: Instant,
        number: CallNumber,
        request: &Message,
        response: &Message,
    ) {
        let random = self.rng.random::<u32>();
        let status = response.status().unwrap_or(0);
        let Ok(call) = self.call(number) else {
            return;
        };
        let offer = std::mem::take(&mut call.offer);
        let (Offer::Sent {
            description: offered,
            is_refresh,
        }
        | Offer::Postponed {
            description: offered,
            is_refresh,
            ..
        }) = offer
        else {
            return;
        };
        match status {
            200..300 => {
                if let Some(timer) = SessionTimer::of_response(now, response) {
                    call.timer = Some(timer);
                }
                call.description = offered;
                let Some(dialog) = &mut call.dialog else {
                    return;
                };
                dialog.handle_response(response);
                if request.method() == Some(&Method::Invite) {
                    let (ack, next_hop) = (dialog.ack(request), dialog.next_hop().to_owned());
                    let call = Some(number);
                    self.park(now, &next_hop, super::sending::Parked::Ack { call, ack });
                }
                if !is_refresh {
                    self.emit(UaEvent::OfferAccepted {
                        call: number,
                        description: description(response),
                    });
                }
            }
            491 => {
                // Whose Call-ID it is decides who waits longer.
                let is_ours = call.invite.is_some();
                call.offer = Offer::Postponed {
                    description: offered,
                    is_refresh,
                    until: now + glare_pause(is_ours, random),
                };
            }
            // There is no such dialog any more (RFC 3261 section 12.2.1.2).
            408 | 481 => {
                self.send_bye(now, number);
                self.end(now, number, EndReason::Timeout);
            }
            _ if is_refresh => {}
            _ => self.emit(UaEvent::OfferRefused {
                call: number,
                status,
            }),
        }
    }
}

/// The key that an INFO tells of.
fn key_of(request: &Message) -> Option<char> {
    let body = std::str::from_utf8(request.body()).ok()?;
    let signal = if has_type(request, "application/dtmf-relay") {
        let (_, value) = body
            .lines()
            .filter_map(|line| line.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("signal"))?;
        value
    } else if has_type(request, "application/dtmf") {
        body
    } else {
        return None;
    };
    let sign = signal.trim().chars().next()?.to_ascii_uppercase();
    "0123456789*#ABCD".contains(sign).then_some(sign)
}
