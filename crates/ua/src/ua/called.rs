//! Calls that come, until they are answered (RFC 3261 sections 9.2 and 13.3; RFC 3262 section 3; RFC 3891).

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::RngExt;
use sip::dialog::{AnswerRetransmitter, Dialog};
use sip::transaction::ServerId;
use sip::{Flow, Message, Name};

use super::calling::takes_update;
use super::{ALLOW, SDP, SUPPORTED, Ua, description};
use crate::call::{Call, Reliable, Ringing, SentAnswer, Stage};
use crate::description::Description;
use crate::event::{CallNumber, EndReason, UaEvent, UnknownCall};
use crate::session_timer::{LEAST, SessionTimer};

/// How long a call may ring.
const MAX_RINGING: Duration = Duration::from_secs(180);

impl Ua {
    /// An INVITE outside of a dialog.
    pub(super) fn handle_invite(
        &mut self,
        now: Instant,
        transaction: ServerId,
        flow: Flow,
        request: Message,
    ) {
        let refuse = |ua: &mut Ua, status, reason| {
            ua.respond(now, transaction, &flow, &request, status, reason);
        };
        // It has come another way already (RFC 3261 section 8.2.2.2).
        let is_same = |call: &Call| match &call.stage {
            Stage::Ringing(ringing) => is_merged(&ringing.invite, &request),
            Stage::Calling(_) | Stage::Up => false,
        };
        if self.calls.values().any(is_same) {
            return refuse(self, 482, "Loop Detected");
        }
        let Some(account) = self.account_of(&request) else {
            return refuse(self, 404, "Not Found");
        };
        if self.calls.len() >= self.config.max_calls {
            return refuse(self, 486, "Busy Here");
        }
        // The interval that is asked for must not be too short (RFC 4028 section 9).
        let asked = request
            .header(Name::SessionExpires)
            .and_then(|value| value.split(';').next()?.trim().parse::<u64>().ok());
        if asked.is_some_and(|seconds| seconds < LEAST.as_secs()) {
            let mut response = Message::response_to(&request, 422, "Session Interval Too Small");
            response.push_back(Name::MinSe, LEAST.as_secs().to_string());
            self.finish_response(&mut response, &flow, &request);
            return self.transactions.respond(now, transaction, response);
        }
        let replaces = match self.replaced(&request) {
            Ok(replaces) => replaces,
            Err((status, reason)) => return refuse(self, status, reason),
        };
        let number = CallNumber(self.number());
        let tag = self.new_tag();
        let from = request.from();
        let caller = from
            .as_ref()
            .map(|from| from.uri().to_owned())
            .unwrap_or_default();
        let display_name = from.and_then(|from| from.display_name().map(|name| name.into_owned()));
        let offer = description(&request);
        let limit = request.expires().map(u64::from).map(Duration::from_secs);
        let ringing = Ringing {
            transaction,
            invite: request.clone(),
            flow,
            tag,
            reliable: None,
            rseq: self.rng.random_range(1..1 << 31),
            replaces,
            answered: None,
            until: now + limit.unwrap_or(MAX_RINGING).min(MAX_RINGING),
        };
        let mut call = Call::new(number, account, Stage::Ringing(Box::new(ringing)));
        call.takes_update = takes_update(&request);
        self.calls.insert(number, call);
        self.emit(UaEvent::Incoming {
            call: number,
            account,
            from: caller,
            display_name,
            offer,
            replaces,
            is_secure: flow.transport.is_secure(),
        });
    }

    /// Tells the caller that the user is being alerted (180), or that there is sound before the answer (183, with our
    /// answer to the offer). It is reliable if the caller can that and there is a description in it.
    ///
    /// # Errors
    ///
    /// The call is not one that came and is not answered yet.
    pub fn ring(
        &mut self,
        now: Instant,
        number: CallNumber,
        description: Bytes,
    ) -> Result<(), UnknownCall> {
        let (status, reason) = if description.is_empty() {
            (180, "Ringing")
        } else {
            (183, "Session Progress")
        };
        let mut response = self.response_to_invite(number, status, reason)?;
        if !description.is_empty() {
            response = response.with_body(SDP, description.clone());
        }
        let (t1, call) = (self.config.transactions.t1, self.call(number)?);
        let Stage::Ringing(ringing) = &mut call.stage else {
            return Err(UnknownCall);
        };
        let names = |name| {
            let mut options = ringing.invite.text_values(name);
            options.any(|option| option.eq_ignore_ascii_case("100rel"))
        };
        let wanted = names(Name::Require) || names(Name::Supported) && !description.is_empty();
        // One at a time (RFC 3262 section 3).
        if wanted && ringing.reliable.is_none() {
            ringing.rseq = ringing.rseq.wrapping_add(1);
            response.push_back(Name::Require, "100rel");
            response.push_back(Name::RSeq, ringing.rseq.to_string());
            ringing.reliable = Some(Reliable {
                response: response.clone(),
                next: now + t1,
                interval: t1,
                end: now + t1 * 64,
            });
        }
        let transaction = ringing.transaction;
        if call.dialog.is_none()
            && let Stage::Ringing(ringing) = &call.stage
        {
            call.dialog = Dialog::uas(&ringing.invite, &response);
        }
        if !description.is_empty() {
            call.description = description;
        }
        self.transactions.respond(now, transaction, response);
        Ok(())
    }

    /// An address of this host is gone, and another one is in its place: calls that came to it and are not answered yet name the
    /// new one in their Contact.
    pub fn replace_address(&mut self, before: IpAddr, new: IpAddr) {
        for call in self.calls.values_mut() {
            if let Stage::Ringing(ringing) = &mut call.stage
                && ringing.flow.local.ip() == before
            {
                ringing.flow.local.set_ip(new);
            }
        }
    }

    /// Answers a call that came: with the answer to its offer, or with an offer if it had none. The call whose place it
    /// takes ends.
    ///
    /// # Errors
    ///
    /// The call is not one that came and is not answered yet.
    pub fn answer(
        &mut self,
        now: Instant,
        number: CallNumber,
        description: impl Into<Description>,
    ) -> Result<(), UnknownCall> {
        let description = description.into();
        if let Stage::Ringing(ringing) = &mut self.call(number)?.stage {
            if ringing.answered.is_some() {
                return Err(UnknownCall);
            }
            // The PRACK to a description goes before the 2xx (RFC 3262 section 3).
            let reliable = ringing.reliable.as_ref();
            if reliable.is_some_and(|reliable| !reliable.response.body().is_empty()) {
                ringing.answered = Some(description);
                return Ok(());
            }
        }
        let mut response = self.response_to_invite(number, 200, "OK")?;
        let interval = self.config.session_interval.max(LEAST);
        let (t1, t2) = (self.config.transactions.t1, self.config.transactions.t2);
        let call = self.call(number)?;
        let Stage::Ringing(ringing) = &call.stage else {
            return Err(UnknownCall);
        };
        // A caller that names no timer may vanish, too: then we refresh (RFC 4028 section 9).
        let timer = SessionTimer::of_request(now, &ringing.invite);
        let timer = timer.unwrap_or(SessionTimer::ours(now, interval));
        timer.write_response(&mut response);
        call.timer = Some(timer);
        response = response.with_body(SDP, description.octets.clone());
        let dialog = match call.dialog.take() {
            Some(mut dialog) => {
                dialog.confirm();
                Some(dialog)
            }
            None => Dialog::uas(&ringing.invite, &response),
        };
        let (transaction, replaces) = (ringing.transaction, ringing.replaces);
        call.late_prack = ringing.awaited_prack();
        call.dialog = dialog;
        call.stage = Stage::Up;
        call.description = description.octets;
        call.is_secret |= description.is_secret;
        call.answer = Some(SentAnswer {
            transaction,
            response: response.clone(),
            retransmitter: AnswerRetransmitter::new(now, t1, t2),
        });
        self.transactions.respond(now, transaction, response);
        if let Some(replaced) = replaces {
            self.give_place(now, replaced);
        }
        Ok(())
    }

    /// Another call takes the place of this one, which ends: by BYE, or by CANCEL if it is an early one of ours (RFC 3891
    /// section 3).
    fn give_place(&mut self, now: Instant, number: CallNumber) {
        let Ok(call) = self.call(number) else {
            return;
        };
        match &mut call.stage {
            Stage::Calling(outgoing) => {
                outgoing.is_replaced = true;
                let _ = self.cancel(now, number);
            }
            Stage::Ringing(_) | Stage::Up => {
                self.send_bye(now, number);
                self.end(now, number, EndReason::Replaced);
            }
        }
    }

    /// Refuses a call that came with a final status: 486 for busy, 603 for a user who does not want it.
    ///
    /// # Errors
    ///
    /// The call is not one that came and is not answered yet.
    pub fn refuse(
        &mut self,
        now: Instant,
        number: CallNumber,
        status: u16,
        reason: &str,
    ) -> Result<(), UnknownCall> {
        let response = self.response_to_invite(number, status, reason)?;
        let Stage::Ringing(ringing) = &self.call(number)?.stage else {
            return Err(UnknownCall);
        };
        let transaction = ringing.transaction;
        self.transactions.respond(now, transaction, response);
        self.end(now, number, EndReason::Local);
        Ok(())
    }

    /// Sends a caller to another URI.
    ///
    /// # Errors
    ///
    /// The call is not one that came and is not answered yet.
    pub fn redirect(
        &mut self,
        now: Instant,
        number: CallNumber,
        to: &str,
    ) -> Result<(), UnknownCall> {
        let mut response = self.response_to_invite(number, 302, "Moved Temporarily")?;
        response.replace(Name::Contact, format!("<{to}>"));
        let Stage::Ringing(ringing) = &self.call(number)?.stage else {
            return Err(UnknownCall);
        };
        let transaction = ringing.transaction;
        self.transactions.respond(now, transaction, response);
        self.end(now, number, EndReason::Local);
        Ok(())
    }

    /// The caller has given up.
    pub(super) fn handle_cancel(&mut self, now: Instant, invite: ServerId) {
        let Some((number, _)) = self.ringing(invite) else {
            // A re-INVITE is answered at once, or soon.
            return;
        };
        if let Ok(response) = self.response_to_invite(number, 487, "Request Terminated") {
            self.transactions.respond(now, invite, response);
        }
        self.end(now, number, EndReason::Remote);
    }

    /// Our tag in the call that an INVITE has made.
    pub(super) fn ringing_tag(&self, invite: ServerId) -> Option<String> {
        self.ringing(invite).map(|(_, ringing)| ringing.tag.clone())
    }

    fn ringing(&self, invite: ServerId) -> Option<(CallNumber, &Ringing)> {
        self.calls.values().find_map(|call| match &call.stage {
            Stage::Ringing(ringing) if ringing.transaction == invite => {
                Some((call.number, &**ringing))
            }
            _ => None,
        })
    }

    /// The PRACK to a reliable provisional response came (RFC 3262 section 3); whether it is one.
    pub(super) fn handle_prack(&mut self, number: CallNumber, request: &Message) -> bool {
        let Ok(call) = self.call(number) else {
            return false;
        };
        // It may also come after our 2xx (RFC 3262 section 3).
        let awaited = match &call.stage {
            Stage::Ringing(ringing) => ringing.awaited_prack(),
            Stage::Up => call.late_prack,
            Stage::Calling(_) => None,
        };
        let mut rack = request
            .header(Name::RAck)
            .unwrap_or_default()
            .split_whitespace();
        let rseq = rack.next().and_then(|number| number.parse::<u32>().ok());
        let cseq = rack.next().and_then(|number| number.parse::<u32>().ok());
        let is_it = awaited.is_some_and(|awaited| rseq == Some(awaited.0) && cseq == awaited.1);
        if is_it {
            call.late_prack = None;
            if let Stage::Ringing(ringing) = &mut call.stage {
                ringing.reliable = None;
            }
        }
        is_it
    }

    /// Sends an answer that has waited for a PRACK.
    pub(super) fn send_answer(&mut self, now: Instant, number: CallNumber) {
        if let Ok(Stage::Ringing(ringing)) = self.call(number).map(|call| &mut call.stage)
            && ringing.reliable.is_none()
            && let Some(description) = ringing.answered.take()
        {
            let _ = self.answer(now, number, description);
        }
    }

    /// Refuses a call that has rung for too long: 487 when the caller has said for how long it may (RFC 3261 section
    /// 13.3.1), else 480.
    pub(super) fn stop_ringing(&mut self, now: Instant, number: CallNumber) {
        let Ok(Stage::Ringing(ringing)) = self.call(number).map(|call| &call.stage) else {
            return;
        };
        if ringing.until > now {
            return;
        }
        let (status, reason) = match ringing.invite.expires() {
            Some(_) => (487, "Request Terminated"),
            None => (480, "Temporarily Unavailable"),
        };
        let _ = self.refuse(now, number, status, reason);
    }

    /// Sends a reliable provisional response again until its PRACK comes.
    pub(super) fn retransmit_provisional(&mut self, now: Instant, number: CallNumber) {
        let Ok(call) = self.call(number) else {
            return;
        };
        let Stage::Ringing(ringing) = &mut call.stage else {
            return;
        };
        let Some(reliable) = &mut ringing.reliable else {
            return;
        };
        let transaction = ringing.transaction;
        if reliable.end <= now {
            // Nobody acknowledges it: the INVITE is refused (RFC 3262 section 3).
            let _ = self.refuse(now, number, 504, "Server Time-out");
        } else if reliable.next <= now {
            reliable.interval *= 2;
            reliable.next = now + reliable.interval;
            let response = reliable.response.clone();
            self.transactions.respond(now, transaction, response);
        }
    }

    /// A response to the INVITE of a call that came.
    fn response_to_invite(
        &mut self,
        number: CallNumber,
        status: u16,
        reason: &str,
    ) -> Result<Message, UnknownCall> {
        let product = self.config.product.clone();
        let call = self.calls.get(&number).ok_or(UnknownCall)?;
        let Stage::Ringing(ringing) = &call.stage else {
            return Err(UnknownCall);
        };
        let mut response = Message::response_to(&ringing.invite, status, reason);
        response.set_to_tag(&ringing.tag);
        if status < 300 {
            response.copy_fields(&ringing.invite, Name::RecordRoute);
            let contact = self.contact(Some(call.account), &ringing.invite, &ringing.flow);
            response.push_back(Name::Contact, contact);
            response.push_back(Name::Allow, ALLOW);
            response.push_back(Name::Supported, SUPPORTED);
        }
        response.push_back(Name::Server, product);
        Ok(response)
    }

    /// The call that an INVITE is to take the place of (RFC 3891 section 3); the status with which it is refused otherwise.
    fn replaced(&self, request: &Message) -> Result<Option<CallNumber>, (u16, &'static str)> {
        let mut values = request.headers(Name::Replaces);
        let Some(value) = values.next() else {
            return Ok(None);
        };
        if values.next().is_some() {
            return Err((400, "Bad Request"));
        }
        let value = String::from_utf8_lossy(value);
        let mut parts = value.split(';').map(str::trim);
        let call_id = parts.next().unwrap_or_default();
        let (mut to_tag, mut from_tag, mut is_early_only) = (None, None, false);
        for parameter in parts {
            match parameter.split_once('=') {
                Some((name, tag)) if name.eq_ignore_ascii_case("to-tag") => to_tag = Some(tag),
                Some((name, tag)) if name.eq_ignore_ascii_case("from-tag") => from_tag = Some(tag),
                None => is_early_only |= parameter.eq_ignore_ascii_case("early-only"),
                Some(_) => {}
            }
        }
        let (Some(to_tag), Some(from_tag)) = (to_tag, from_tag) else {
            return Err((400, "Bad Request"));
        };
        let is_it = |dialog: &Dialog| {
            dialog.call_id() == call_id
                && dialog.local_tag() == to_tag
                // 0 stands for the tag of one that keeps to RFC 2543 and has none (section 6.1).
                && dialog.remote_tag().unwrap_or("0") == from_tag
        };
        let has_it = |call: &&Call| match &call.stage {
            Stage::Calling(outgoing) => outgoing.early.iter().any(|early| is_it(&early.dialog)),
            Stage::Ringing(_) | Stage::Up => call.dialog.as_ref().is_some_and(is_it),
        };
        let mut found = self.calls.values().filter(has_it);
        match (found.next(), found.next()) {
            // One that rings here was not begun by us.
            (None, _) | (_, Some(_)) => Err((481, "Call/Transaction Does Not Exist")),
            (Some(call), None) => match &call.stage {
                Stage::Ringing(_) => Err((481, "Call/Transaction Does Not Exist")),
                Stage::Calling(outgoing) if outgoing.is_cancelled => Err((603, "Decline")),
                Stage::Up if is_early_only => Err((486, "Busy Here")),
                Stage::Calling(_) | Stage::Up => Ok(Some(call.number)),
            },
        }
    }
}

/// Whether two requests are one that was forked.
fn is_merged(before: &Message, request: &Message) -> bool {
    before.call_id() == request.call_id()
        && before.from_tag() == request.from_tag()
        && before.cseq() == request.cseq()
}
