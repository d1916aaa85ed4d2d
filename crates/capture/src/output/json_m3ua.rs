//! M3UA in the JSON document.

use std::collections::BTreeMap;

use m3ua::message::Kind;
use serde::Serialize;

use super::m3ua_tables::{asp_state, signalling_state};
use crate::{DelaySummary, M3uaAssociation, M3uaView, Time};

#[derive(Serialize)]
pub(super) struct JsonM3ua {
    messages: BTreeMap<&'static str, u64>,
    malformed: u64,
    user_messages: Vec<JsonUserMessages>,
    other_user_messages: u64,
    requests: BTreeMap<&'static str, JsonRequests>,
    /// The first ones.
    associations: Vec<JsonAssociation>,
}

#[derive(Serialize)]
struct JsonUserMessages {
    dpc: String,
    dpc_number: u32,
    service_indicator: u8,
    user: String,
    message: String,
    messages: u64,
    octets: u64,
}

#[derive(Serialize)]
struct JsonRequests {
    answered: u64,
    refused: u64,
    unanswered: u64,
    response_time_ms: DelaySummary,
}

#[derive(Serialize)]
struct JsonAssociation {
    /// Its place in `sctp.associations`, from 0 on.
    sctp_association: Option<usize>,
    source: String,
    destination: String,
    began_s: f64,
    source_state: Option<&'static str>,
    destination_state: Option<&'static str>,
    forward: BTreeMap<&'static str, u64>,
    backward: BTreeMap<&'static str, u64>,
    states: Vec<JsonState>,
    omitted_states: u64,
    unanswered: Vec<JsonUnanswered>,
}

#[derive(Serialize)]
struct JsonState {
    /// Seconds since the first message of the association.
    at_s: f64,
    packet: u64,
    end: String,
    state: String,
    routing_contexts: Vec<u32>,
}

#[derive(Serialize)]
struct JsonUnanswered {
    at_s: f64,
    packet: u64,
    by: String,
    request: String,
    repeats: u64,
}

impl JsonM3ua {
    pub(super) fn of(view: &M3uaView) -> JsonM3ua {
        let user_messages = view
            .user_messages()
            .map(|(kind, counted)| JsonUserMessages {
                dpc: view.variant().write(kind.dpc).to_string(),
                dpc_number: kind.dpc.value(),
                service_indicator: kind.service_indicator,
                user: kind.user(),
                message: kind.name(),
                messages: counted.messages,
                octets: counted.octets,
            });
        let requests = view.transactions().into_iter().map(|(kind, counted)| {
            let requests = JsonRequests {
                answered: counted.answered,
                refused: counted.refused,
                unanswered: counted.unanswered,
                response_time_ms: counted.delay.milliseconds(),
            };
            (kind.name(), requests)
        });
        JsonM3ua {
            messages: named(view.messages()),
            malformed: view.malformed(),
            user_messages: user_messages.collect(),
            other_user_messages: view.other_user_messages().messages,
            requests: requests.collect(),
            associations: view.associations().iter().map(association).collect(),
        }
    }
}

fn association(association: &M3uaAssociation) -> JsonAssociation {
    let at_s = |time: Time| (time - association.began) as f64 / 1e9;
    let (changes, omitted_states) = association.changes();
    let states = changes.iter().map(|change| {
        let (state, contexts) = signalling_state(&change.state);
        JsonState {
            at_s: at_s(change.time),
            packet: change.packet,
            end: association.end(change.is_source).to_string(),
            state,
            routing_contexts: contexts.to_vec(),
        }
    });
    let unanswered = association.unanswered().map(|request| JsonUnanswered {
        at_s: at_s(request.time),
        packet: request.packet,
        by: association.end(request.by_source).to_string(),
        request: request.request.clone(),
        repeats: request.repeats,
    });
    JsonAssociation {
        sctp_association: association.sctp,
        source: association.source.to_string(),
        destination: association.destination.to_string(),
        began_s: association.began.0 as f64 / 1e9,
        source_state: association.asp_state(true).map(asp_state),
        destination_state: association.asp_state(false).map(asp_state),
        forward: named(association.messages(true)),
        backward: named(association.messages(false)),
        states: states.collect(),
        omitted_states,
        unanswered: unanswered.collect(),
    }
}

fn named(kinds: &BTreeMap<Kind, u64>) -> BTreeMap<&'static str, u64> {
    let kinds = kinds.iter().map(|(kind, count)| (kind.name(), *count));
    kinds.collect()
}
