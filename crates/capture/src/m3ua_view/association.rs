//! One association as M3UA uses it.

use std::collections::BTreeMap;

use m3ua::message::{Kind, Message};
use m3ua::{AspState, Variant};
use report::ArrowKind;

use super::states::{StateChange, States};
use super::transactions::{M3uaTransactions, Requests, UnansweredRequest};
use crate::m3ua_text::{arrow_kind, in_short};
use crate::{Endpoint, Event, Time};

/// Messages kept of one association to be drawn; of these, DATA messages.
const MOST_ARROWS: usize = 500;
const MOST_DATA_ARROWS: usize = 200;

/// An association with M3UA.
#[derive(Debug)]
pub struct M3uaAssociation {
    /// Its place among [`SctpView::associations`](crate::SctpView::associations), if it is one of these.
    pub sctp: Option<usize>,
    /// Who sent the first message.
    pub source: Endpoint,
    /// Whom it was sent to.
    pub destination: Endpoint,
    /// The file that it is followed in.
    pub file: usize,
    /// The first message.
    pub began: Time,
    /// The last one.
    pub latest: Time,
    /// Messages from `source`, and to it.
    messages: [BTreeMap<Kind, u64>; 2],
    states: States,
    requests: Requests,
    arrows: Vec<M3uaArrow>,
    data_arrows: usize,
    omitted_arrows: u64,
    has_ended: bool,
}

/// A message to be drawn.
#[derive(Debug)]
pub(crate) struct M3uaArrow {
    pub(crate) time: Time,
    pub(crate) packet: u64,
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    pub(crate) label: Box<str>,
    pub(crate) kind: ArrowKind,
}

impl M3uaAssociation {
    pub(super) fn new(event: &Event<'_>, sctp: Option<usize>) -> M3uaAssociation {
        M3uaAssociation {
            sctp,
            source: event.source,
            destination: event.destination,
            file: event.file,
            began: event.time,
            latest: event.time,
            messages: Default::default(),
            states: States::default(),
            requests: Requests::default(),
            arrows: Vec::new(),
            data_arrows: 0,
            omitted_arrows: 0,
            has_ended: false,
        }
    }

    /// Messages of one kind from `source`, or to it.
    pub fn messages(&self, by_source: bool) -> &BTreeMap<Kind, u64> {
        let [forward, backward] = &self.messages;
        match by_source {
            true => forward,
            false => backward,
        }
    }

    /// The state of the `source`, or of the `destination`, as an ASP; `None` where nothing tells that it is one.
    pub fn asp_state(&self, is_source: bool) -> Option<AspState> {
        self.states.state(is_source)
    }

    /// Changes of the states of ASPs and ASs, and how many more there were.
    pub fn changes(&self) -> (&[StateChange], u64) {
        self.states.changes()
    }

    /// Requests that were not answered before the end of the association, or of the capture.
    pub fn unanswered(&self) -> impl Iterator<Item = &UnansweredRequest> {
        self.requests.unanswered()
    }

    /// Requests whose answers were not looked for any more because too many waited for theirs.
    pub fn untracked_requests(&self) -> u64 {
        self.requests.untracked
    }

    /// The address of one end.
    pub fn end(&self, is_source: bool) -> Endpoint {
        match is_source {
            true => self.source,
            false => self.destination,
        }
    }

    pub(super) fn observe(
        &mut self,
        event: &Event<'_>,
        message: &Message,
        by_source: bool,
        variant: Variant,
        counts: &mut BTreeMap<Kind, M3uaTransactions>,
    ) {
        self.latest = self.latest.max(event.time);
        let [forward, backward] = &mut self.messages;
        let kinds = match by_source {
            true => forward,
            false => backward,
        };
        *kinds.entry(message.kind()).or_default() += 1;
        let (time, packet) = (event.time, event.packet);
        self.states.observe(time, packet, message, by_source);
        self.requests
            .observe((time, packet, by_source), message, variant, counts);
    }

    /// Keeps a message to be drawn, unless there are many. Whether it was kept.
    pub(super) fn keep(&mut self, event: &Event<'_>, message: &Message, variant: Variant) -> bool {
        let is_data = matches!(message, Message::Data(_));
        if self.arrows.len() >= MOST_ARROWS || is_data && self.data_arrows >= MOST_DATA_ARROWS {
            self.omitted_arrows += 1;
            return false;
        }
        self.data_arrows += usize::from(is_data);
        self.arrows.push(M3uaArrow {
            time: event.time,
            packet: event.packet,
            source: event.source,
            destination: event.destination,
            label: in_short(message, variant).into(),
            kind: arrow_kind(message),
        });
        true
    }

    /// The association has ended.
    pub(super) fn end_at(&mut self, time: Time, packet: u64) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.states.lose(time, packet);
            self.requests.give_up();
        }
    }

    pub(super) fn count_unanswered(&self, counts: &mut BTreeMap<Kind, M3uaTransactions>) {
        self.requests.count_unanswered(counts);
    }

    /// The messages to be drawn, and how many are left out.
    pub(crate) fn arrows(&self) -> (&[M3uaArrow], u64) {
        (&self.arrows, self.omitted_arrows)
    }
}
