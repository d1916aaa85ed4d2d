//! Dialogs that have begun through us: which requests belong to one, and what the two sides are given to show it.
//!
//! `dialog_mark` says what a mark binds. Here one is written into a request (RFC 3261 section 16.6 step 4), gives
//! way to another in the response (section 16.7 step 8), and is compared with a request that comes back with it.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use sip::dialog::refreshes_target;
use sip::transaction::ClientId;
use sip::{Contact, Flow, Message, Method, Name, NameAddr, Uri};
use smallvec::SmallVec;

use super::binding::AddressOfRecord;
use super::dialog_mark::{
    DialogMarks, EARLY_LIFETIME, Mark, MarkText, NextHop, Party, Stage, place_of_mark,
};
use super::early_dialogs::EarlyDialogs;
use super::identity::Identity;
use super::keys::Keys;
use super::read_uri::ReadUri;
use super::refreshed_targets::RefreshedTargets;
use super::route::{self, OwnRoutes, Preprocessed};
use crate::text::Digits;

/// What is known of dialogs, most of which is in their requests.
#[derive(Debug)]
pub(crate) struct Dialogs {
    pub(crate) marks: DialogMarks,
    refreshed: RefreshedTargets,
    early: EarlyDialogs,
}

/// By what it is known who has sent the request that a response is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Uac<'a> {
    /// By the request.
    Request(&'a Message),
    /// By the transaction of an INVITE that was answered before.
    Answered(ClientId),
    /// By the response alone.
    Response,
}

/// What the response to a request that was record-routed says of the dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Nothing.
    Unmarked,
    /// The UAC has got a mark.
    Marked {
        /// The request was one within a dialog of ours.
        is_within: bool,
    },
}

/// A value of Record-Route.
#[derive(Clone, Copy)]
struct Value<'a> {
    octets: &'a [u8],
    /// The mark of the UAS, where the value is ours.
    mark: Option<Mark>,
    /// It has something that is written like one.
    has_mark: bool,
    /// What leads on from here, if this is the last one of ours.
    along: NextHop,
    /// What does: those of ours in a row are taken off together.
    hop: NextHop,
}

impl Value<'_> {
    /// Whether it names an address of ours.
    fn is_at(&self, identity: &Identity) -> bool {
        let route = NameAddr::parse(self.octets);
        let uri = route.ok().and_then(|route| route.parse_uri().ok());
        let uri = uri.as_ref().and_then(Uri::as_sip);
        uri.is_some_and(|uri| identity.has_listener_at(uri))
    }
}

impl Dialogs {
    pub(crate) fn new(keys: &Keys) -> Dialogs {
        Dialogs {
            marks: DialogMarks::new(keys),
            refreshed: RefreshedTargets::default(),
            early: EarlyDialogs::default(),
        }
    }

    /// Takes notice of the time of day.
    pub(crate) fn set_time(&mut self, time: SystemTime) {
        self.marks.set_time(time);
    }

    /// Whether a request, of which nothing has been taken off, belongs to a dialog that has begun through us. That it
    /// has a tag in To has been seen.
    pub(crate) fn have_as_received(
        &self,
        request: Cow<'_, Message>,
        arrival: &Flow,
        own: OwnRoutes<'_>,
        lifetime: Duration,
    ) -> bool {
        let mut request = request;
        let has_led = match request.parse_request_uri() {
            Some(Uri::Sip(uri)) => {
                let uri = ReadUri::from(uri);
                (uri.is_loose || uri.maddr.is_some()).then_some(uri.is_loose)
            }
            _ => None,
        };
        let led = match has_led {
            Some(is_loose) => route::preprocess(request.to_mut(), arrival, own, is_loose),
            None => Ok(Preprocessed::default()),
        };
        let led = led.and_then(|led| route::led_by_routes(&request, arrival, own, led));
        led.is_ok_and(|led| self.have(&request, &led, own.identity, lifetime))
    }

    /// Whether a request, with what has led it here, belongs to a dialog that has begun through us.
    pub(crate) fn have(
        &self,
        request: &Message,
        led: &Preprocessed,
        identity: &Identity,
        lifetime: Duration,
    ) -> bool {
        let (Some(mark), Some(tag), Some(peer)) =
            (led.mark, request.from_tag_bytes(), request.to_tag_bytes())
        else {
            return false;
        };
        let call_id = call_id(request);
        let is_current = match mark.stage {
            Stage::Uas | Stage::UasWithin | Stage::Uac => self.marks.is_within(&mark, lifetime),
            Stage::UacEarly => self.early.has(self.marks.name(&[call_id, tag])),
            Stage::UacEarlyUnknown => {
                let lifetime = lifetime.min(EARLY_LIFETIME);
                self.marks.is_within(&mark, lifetime)
            }
        };
        if !is_current {
            return false;
        }
        let user = user(request.from(), identity);
        let party = self.marks.party(call_id, tag, peer, user.as_ref());
        if !party.has(&mark, led.next_hop) {
            return false;
        }
        let target = request.request_uri().unwrap_or_default();
        let target = self.marks.remote_target(target);
        let refreshed = || self.refreshed.find(self.side(call_id, tag, peer));
        target == mark.target || refreshed() == Some(target)
    }

    /// The mark for the UAS of a request that is to be record-routed. `along`: what our Record-Route URI says that leads to
    /// where the request came from; `is_within`: the request is one within a dialog of ours.
    pub(crate) fn mark_of_uas(
        &self,
        request: &Message,
        along: NextHop,
        identity: &Identity,
        is_within: bool,
    ) -> MarkText {
        let Some(contact) = contact(request) else {
            return MarkText::VOID;
        };
        let peer = request.from_tag_bytes().unwrap_or_default();
        let user = user(request.to(), identity);
        let party = self.marks.party(call_id(request), b"", peer, user.as_ref());
        let mut next_hop = along;
        if request.contains(Name::RecordRoute) {
            let mut values = self.record_routes(request);
            self.keep_marks_of(&party, &mut values);
            if let Some(first) = values.first() {
                next_hop = self.before(first);
            }
        }
        let stage = match is_within {
            true => Stage::UasWithin,
            false => Stage::Uas,
        };
        let target = self.marks.remote_target(contact);
        self.marks.mark(&party, stage, target, next_hop).text()
    }

    /// Puts the marks of the UAC into a response, in the place of those of the UAS, which are no business of the UAC.
    pub(crate) fn answer(
        &self,
        response: &mut Message,
        identity: &Identity,
        uac: Uac<'_>,
    ) -> Answered {
        if !response.contains(Name::RecordRoute) {
            return Answered::Unmarked;
        }
        let (texts, answered) = self.marks_of_uac(response, identity, uac);
        if texts.is_empty() {
            return answered;
        }
        response.overwrite_values(Name::RecordRoute, |number, value| {
            if let (Some(Some(text)), Some(place)) = (texts.get(number), place_of_mark(value))
                && let Some(place) = value.get_mut(place)
            {
                place.copy_from_slice(text.as_ref());
            }
        });
        answered
    }

    /// What takes the place of the marks of the UAS in a response, by the number of the Record-Route value; nothing at
    /// all where there are none.
    fn marks_of_uac(
        &self,
        response: &Message,
        identity: &Identity,
        uac: Uac<'_>,
    ) -> (SmallVec<[Option<MarkText>; 4]>, Answered) {
        // The mark was written for what the request has said, whatever the UAS makes of it.
        let asked = match uac {
            Uac::Request(request) => request,
            Uac::Answered(_) | Uac::Response => response,
        };
        let call_id = call_id(asked);
        let tag = asked.from_tag_bytes().unwrap_or_default();
        let peer = response.to_tag_bytes().unwrap_or_default();
        let callee = user(asked.to(), identity);
        let uas = self.marks.party(call_id, b"", tag, callee.as_ref());
        let mut values = self.record_routes(response);
        self.keep_marks_of(&uas, &mut values);
        if !values.iter().any(|value| value.has_mark) {
            return (SmallVec::new(), Answered::Unmarked);
        }
        let first = values.iter().find_map(|value| value.mark);
        let is_within = first.is_some_and(|first| first.stage == Stage::UasWithin);

        let stage = match (response.status(), uac) {
            (Some(100..200), Uac::Response) => Some(Stage::UacEarlyUnknown),
            (Some(100..200), _) => Some(Stage::UacEarly),
            (Some(200..300), _) => Some(Stage::Uac),
            // No dialog comes of that.
            _ => None,
        };
        // Where the response does not say where it comes from, the UAC goes on as before.
        let requested = match uac {
            Uac::Request(request) => request.request_uri(),
            Uac::Answered(_) | Uac::Response => None,
        };
        let caller = user(asked.from(), identity);
        let is_caller = match uac {
            Uac::Request(_) | Uac::Response => true,
            Uac::Answered(client) => {
                self.early.caller(client) == Some(self.caller_name(caller.as_ref()))
            }
        };
        let target = contact(response).or(requested);
        let target = target.filter(|_| first.is_some() && is_caller);
        let given = stage.zip(target).map(|(stage, target)| {
            let uac = self.marks.party(call_id, tag, peer, caller.as_ref());
            (uac, stage, self.marks.remote_target(target))
        });
        // The other way round: the last value is the next to the UAC.
        let mut texts: SmallVec<[Option<MarkText>; 4]> = SmallVec::new();
        let mut in_front: Option<Value<'_>> = None;
        for value in &values {
            let value = Value {
                hop: in_front.map_or(value.along, |value| self.before(&value)),
                ..*value
            };
            let text = match (&given, value.mark) {
                (Some((uac, stage, target)), Some(_)) => {
                    let mark = self.marks.mark(uac, *stage, *target, value.hop);
                    Some(mark.text())
                }
                (None, Some(_)) => Some(MarkText::VOID),
                // It is not as we have sent it: the UAS has changed From, To or another value. The mark is good all the same,
                // for whoever goes back to how these were.
                (_, None) => (value.has_mark && value.is_at(identity)).then_some(MarkText::VOID),
            };
            texts.push(text);
            in_front = Some(value);
        }
        let answered = match given {
            Some(_) => Answered::Marked { is_within },
            None => Answered::Unmarked,
        };
        (texts, answered)
    }

    /// Takes in where the sender of a request within a dialog of ours wants to be reached from now on. Should the
    /// request be refused, it is reached where it was before, too.
    pub(crate) fn note_request(&mut self, request: &Message) {
        if !request.method().is_some_and(refreshes_target) {
            return;
        }
        if let (Some(tag), Some(peer)) = (request.from_tag_bytes(), request.to_tag_bytes()) {
            let side = self.side(call_id(request), peer, tag);
            self.note_target(request, side);
        }
    }

    /// Takes in where the sender of a response to a request within a dialog of ours wants to be reached from now on. Which
    /// dialog that is, the request says: the response may have the tags of another one.
    pub(crate) fn note_response(&mut self, request: &Message, response: &Message) {
        let is_refreshed = matches!(response.status(), Some(101..300))
            && response
                .cseq()
                .is_some_and(|(_, method)| refreshes_target(&method));
        if !is_refreshed {
            return;
        }
        if let (Some(tag), Some(peer)) = (request.from_tag_bytes(), request.to_tag_bytes()) {
            let side = self.side(call_id(request), tag, peer);
            self.note_target(response, side);
        }
    }

    /// Shows that this way back was given out for a request, and so that a message which has it is the request or a
    /// response to it (RFC 3261 section 8.2.6.2). `to_tag`: that of the request.
    pub(crate) fn way_back(
        &self,
        token: &str,
        message: &Message,
        to_tag: &[u8],
        identity: &Identity,
    ) -> Digits {
        let user = user(message.from(), identity);
        let (number, method) = message.cseq().unwrap_or((0, Method::Ack));
        Digits::hexadecimal(self.marks.way_back(&[
            token.as_bytes(),
            call_id(message),
            message.from_tag_bytes().unwrap_or_default(),
            user.as_ref().map_or("", AddressOfRecord::as_str).as_bytes(),
            &number.to_be_bytes(),
            method.as_str().as_bytes(),
            to_tag,
        ]))
    }

    /// Takes notice of an INVITE whose caller has got the mark of an early dialog.
    pub(crate) fn begin_early(&mut self, invite: &Message) {
        let name = self.early_name(invite);
        self.early.begin(name);
    }

    /// It has been refused.
    pub(crate) fn end_early(&mut self, invite: &Message) {
        let name = self.early_name(invite);
        self.early.end(name);
    }

    /// An INVITE has been answered in this transaction, which has early dialogs or not.
    pub(crate) fn note_answered(
        &mut self,
        invite: &Message,
        client: ClientId,
        is_early: bool,
        identity: &Identity,
    ) {
        let early = is_early.then(|| self.early_name(invite));
        let caller = self.caller_name(user(invite.from(), identity).as_ref());
        self.early.answer(client, early, caller);
    }

    /// Takes notice that a transaction has ended.
    pub(crate) fn forget_transaction(&mut self, client: ClientId) {
        self.early.forget(client);
    }

    /// Requests of this side are from now on for where a message says by its Contact.
    fn note_target(&mut self, message: &Message, side: u64) {
        if let Some(contact) = contact(message) {
            let target = self.marks.remote_target(contact);
            self.refreshed.note(side, target);
        }
    }

    /// The values of Record-Route.
    fn record_routes<'a>(&self, message: &'a Message) -> SmallVec<[Value<'a>; 4]> {
        let value = |octets: &'a [u8]| {
            let place = place_of_mark(octets);
            let mark = place.and_then(|place| Mark::read(octets.get(place)?));
            let mark = mark.filter(|mark| mark.stage.is_of_uas());
            let along = mark.map_or(NextHop::RequestUri, |_| self.marks.along(octets));
            Value {
                octets,
                mark,
                has_mark: mark.is_some(),
                along,
                hop: along,
            }
        };
        message.values(Name::RecordRoute).map(value).collect()
    }

    /// Finds which values have a mark of this UAS, and what leads its requests on from each.
    fn keep_marks_of(&self, uas: &Party<'_>, values: &mut [Value<'_>]) {
        let mut behind: Option<Value<'_>> = None;
        for value in values.iter_mut().rev() {
            value.hop = behind.map_or(value.along, |behind| self.before(&behind));
            value.mark = value.mark.filter(|mark| uas.has(mark, value.hop));
            behind = Some(*value);
        }
    }

    /// What leads on from a Route of ours before a value.
    fn before(&self, value: &Value<'_>) -> NextHop {
        match value.mark {
            Some(_) => value.hop,
            None => {
                let uri = NameAddr::parse(value.octets).map_or("", |route| route.uri());
                NextHop::Route(self.marks.remote_target(uri))
            }
        }
    }

    fn side(&self, call_id: &[u8], tag: &[u8], peer: &[u8]) -> u64 {
        self.marks.name(&[call_id, tag, peer])
    }

    fn caller_name(&self, user: Option<&AddressOfRecord>) -> u64 {
        let user = user.map_or("", AddressOfRecord::as_str);
        self.marks.name(&[user.as_bytes()])
    }

    fn early_name(&self, invite: &Message) -> u64 {
        let tag = invite.from_tag_bytes().unwrap_or_default();
        self.marks.name(&[call_id(invite), tag])
    }
}

fn call_id(message: &Message) -> &[u8] {
    message.header_bytes(Name::CallId).unwrap_or_default()
}

/// Where the sender of a message wants to be reached.
fn contact(message: &Message) -> Option<&str> {
    match message.contacts().next()?.ok()? {
        Contact::Address(address) => Some(address.uri()),
        Contact::All => None,
    }
}

/// The user of ours whom From or To names.
fn user(named: Option<NameAddr<'_>>, identity: &Identity) -> Option<AddressOfRecord> {
    identity.claimed_user(&named?.parse_uri().ok()?)
}
