//! Our requests: when they go out (RFC 6525 section 5.1), and what their responses mean
//! (section 5.2.7).

use std::time::Instant;

use super::{OutstandingRequest, ReConfiguration, Request, WantedRequests, encode, stream_list};
use crate::association::control_queue::RequestKind;
use crate::association::encoded_chunk::EncodedChunk;
use crate::association::path::Path;
use crate::association::stream_set::StreamSet;
use crate::association::{Association, Context};
use crate::packet::{
    AddStreamsRequest, IncomingSsnResetRequest, NextTsns, OutgoingSsnResetRequest, Parameter,
    ReConfigResponse, ReConfigResult, SequenceNumber, StreamList, Tsn,
};
use crate::{
    AssociationState, Event, ReConfigurationError, ReConfigurationOutcome, StreamDirection,
    StreamReset,
};

const KIND: RequestKind = RequestKind::ReConfiguration;

impl Association {
    // --- User calls ---

    /// Asks for resets of streams (RFC 6525 section 6.3.2).
    pub(crate) fn reset_streams(&mut self, reset: StreamReset) -> Result<(), ReConfigurationError> {
        self.check_re_configuration()?;
        let StreamReset {
            mut outgoing,
            mut incoming,
        } = reset;
        for (streams, count) in [
            (&mut outgoing, self.sender.streams()),
            (&mut incoming, self.receiver.streams()),
        ] {
            let Some(streams) = streams else {
                continue;
            };
            streams.sort_unstable();
            streams.dedup();
            if streams.last().is_some_and(|stream| *stream >= count) {
                return Err(ReConfigurationError::InvalidStream);
            }
        }
        let most = self.most_listed_streams();
        let listed = |streams: &Option<Vec<u16>>| streams.as_ref().map_or(0, Vec::len);
        let fit_together = listed(&outgoing) + listed(&incoming) <= most;
        let outgoing = parts(outgoing, most).map(|streams| Request::OutgoingReset {
            streams,
            answers: None,
        });
        let incoming = parts(incoming, most).map(|streams| Request::IncomingReset { streams });
        if fit_together {
            self.want(outgoing.chain(incoming).collect());
        } else {
            for request in outgoing.chain(incoming) {
                self.want(vec![request]);
            }
        }
        Ok(())
    }

    /// Asks for all SSNs and TSNs to begin anew (RFC 6525 section 6.3.3).
    pub(crate) fn reset_association(
        &mut self,
        context: &Context<'_>,
    ) -> Result<(), ReConfigurationError> {
        self.check_re_configuration()?;
        // Section 5.1.4.
        let state = self.re_configuration.as_ref();
        if state.is_some_and(|state| state.was_reset_lately(context.now)) {
            return Err(ReConfigurationError::TooSoon);
        }
        self.want(vec![Request::AssociationReset]);
        Ok(())
    }

    /// Asks for more streams (RFC 6525 section 6.3.4).
    pub(crate) fn add_streams(
        &mut self,
        outgoing: u16,
        incoming: u16,
        context: &Context<'_>,
    ) -> Result<(), ReConfigurationError> {
        self.check_re_configuration()?;
        let fits = |have: u16, more: u16, max: u16| {
            more == 0 || have.checked_add(more).is_some_and(|sum| sum <= max)
        };
        if !fits(self.sender.streams(), outgoing, u16::MAX)
            || !fits(
                self.receiver.streams(),
                incoming,
                context.config.max_inbound_streams,
            )
        {
            return Err(ReConfigurationError::TooManyStreams);
        }
        let requests = [
            Request::AddOutgoing(outgoing),
            Request::AddIncoming(incoming),
        ]
        .into_iter()
        .filter(|request| !matches!(request, Request::AddOutgoing(0) | Request::AddIncoming(0)))
        .collect();
        self.want(requests);
        Ok(())
    }

    /// Whether the user may ask for something now (section 5.1.1).
    fn check_re_configuration(&self) -> Result<(), ReConfigurationError> {
        match self.state {
            AssociationState::Closed => return Err(ReConfigurationError::UnknownAssociation),
            AssociationState::Established => {}
            _ => return Err(ReConfigurationError::NotEstablished),
        }
        match &self.re_configuration {
            None => Err(ReConfigurationError::NotSupported),
            Some(state) if state.is_busy() => Err(ReConfigurationError::AlreadyInProgress),
            Some(_) => Ok(()),
        }
    }

    /// How many streams may be listed in a RE-CONFIG that fits all paths.
    fn most_listed_streams(&self) -> usize {
        const OVERHEAD: usize = 4 + 16 + 8;
        let room = self.paths.iter().map(Path::pmdcs).min().unwrap_or(0);
        (room.saturating_sub(OVERHEAD) / 2).max(1)
    }

    // --- Sending (section 5.1) ---

    /// Has a RE-CONFIG with these requests sent when no other one is outstanding, and what the user has sent until
    /// now on streams that begin anew has left.
    pub(super) fn want(&mut self, requests: Vec<Request>) {
        if let Some(state) = &mut self.re_configuration
            && !requests.is_empty()
        {
            state.wanted.push_back(WantedRequests {
                requests,
                place: self.sender.next_place(),
            });
        }
    }

    /// Sends the next RE-CONFIG with requests, if none is outstanding and it may leave yet; gives it.
    /// `response` goes with it, where the two may go together.
    pub(in crate::association) fn advance_re_configuration(
        &mut self,
        response: Option<ReConfigResponse>,
        now: Instant,
    ) -> Option<EncodedChunk> {
        if !self.may_send_data() {
            return None;
        }
        let state = self.re_configuration.as_mut()?;
        if !state.outstanding.is_empty() || self.control.is_busy(KIND) {
            return None;
        }
        let WantedRequests { requests, place } = state.wanted.front()?;
        let paused = requests.iter().find_map(Request::paused_streams);
        let resets_association = requests.contains(&Request::AssociationReset);
        if let Some(streams) = paused {
            // Rules A1 and C2.
            if !state.has_paused {
                state.has_paused = true;
                self.sender.pause(streams, *place);
            }
            if !self.sender.has_paused() || resets_association && !self.sender.is_idle() {
                return None;
            }
            // What the peer has sent is not to be outstanding either when its TSNs change: a SACK goes first.
            if resets_association && self.receiver.sack_is_wanted() {
                self.receiver.request_sack();
                return None;
            }
        }
        let last_assigned_tsn = self.sender.next_tsn().previous();
        let wanted = state.wanted.pop_front()?;
        let chunk = state.number(wanted.requests, response, last_assigned_tsn)?;
        if resets_association {
            state.association_reset = Some(now);
        }
        self.control.push(KIND, chunk.clone()).ok()?;
        Some(chunk)
    }

    /// The streams of our request may be used again.
    fn resume_streams(&mut self) {
        self.sender.resume();
        if let Some(state) = &mut self.re_configuration {
            state.has_paused = false;
        }
        self.begin_burst();
    }

    // --- Responses (section 5.2.7) ---

    /// Takes in a Re-configuration Response.
    pub(super) fn handle_re_config_response(
        &mut self,
        response: ReConfigResponse,
        context: &mut Context<'_>,
    ) {
        let number = response.response_sequence_number;
        if response.result == ReConfigResult::IN_PROGRESS {
            let is_outstanding = self
                .re_configuration
                .as_ref()
                .is_some_and(|state| state.outstanding.iter().any(|one| one.number == number));
            if is_outstanding {
                self.request_in_progress(KIND, context);
            }
            return;
        }
        let Some(acknowledged) = self.acknowledge_request(number, |_| true, context) else {
            return;
        };
        let outcome = match response.result {
            ReConfigResult::SUCCESS_NOTHING_TO_DO | ReConfigResult::SUCCESS_PERFORMED => {
                ReConfigurationOutcome::Performed
            }
            ReConfigResult::DENIED => ReConfigurationOutcome::Denied,
            _ => ReConfigurationOutcome::Failed,
        };
        if let Some(state) = &mut self.re_configuration {
            state.review_presumed(number, response.result);
        }
        let is_done = outcome == ReConfigurationOutcome::Performed;
        match acknowledged.request {
            Request::OutgoingReset { streams, answers } => {
                if response.result == ReConfigResult::SUCCESS_PERFORMED {
                    // The peer has everything of before (section 5.2.2, E2), and must not be told anew to
                    // skip what we have given up of it: the numbers mean other messages now.
                    let last = acknowledged.last_assigned_tsn;
                    let outcome = self.sender.handle_cumulative_ack(
                        context.now,
                        last,
                        &mut self.paths,
                        context.config,
                    );
                    self.conclude_acknowledgement(outcome, context);
                }
                if is_done {
                    // H4.
                    let set = StreamSet::of_list(streams.iter().copied());
                    self.sender.reset_streams(&set);
                }
                if let Some(number) = answers
                    && let Some(state) = &mut self.re_configuration
                {
                    state.set_result(number, response.result);
                }
                self.resume_streams();
                self.report_stream_reset(StreamDirection::Outgoing, streams, outcome, context);
            }
            Request::AssociationReset => {
                self.resume_streams();
                match response.next_tsns {
                    // H5.
                    Some(NextTsns { sender, receiver }) if is_done => {
                        if let Some(state) = &mut self.re_configuration {
                            state.association_reset = Some(context.now);
                        }
                        self.begin_anew(receiver, sender, context);
                    }
                    None if response.result == ReConfigResult::SUCCESS_PERFORMED => {
                        self.violation("an SSN/TSN reset without TSNs", context);
                    }
                    _ => self.report_association_reset(outcome, context),
                }
            }
            Request::AddOutgoing(count) => {
                if is_done {
                    self.sender.add_streams(count);
                }
                self.report_stream_change(outcome, context);
            }
            // The peer's own request follows, and tells when it is done.
            Request::IncomingReset { .. } | Request::AddIncoming(_)
                if response.result == ReConfigResult::SUCCESS_PERFORMED => {}
            Request::IncomingReset { streams } => {
                self.report_stream_reset(StreamDirection::Incoming, streams, outcome, context);
            }
            Request::AddIncoming(_) => self.report_stream_change(outcome, context),
        }
    }

    /// The outstanding request of that number, if it is one that `matches`, is answered (section 5.2.7,
    /// H1).
    pub(super) fn acknowledge_request(
        &mut self,
        number: SequenceNumber,
        matches: impl Fn(&Request) -> bool,
        context: &mut Context<'_>,
    ) -> Option<OutstandingRequest> {
        let state = self.re_configuration.as_mut()?;
        let request = state.take_outstanding(number, matches)?;
        if state.outstanding.is_empty() {
            self.request_answered(KIND, context);
        }
        Some(request)
    }

    /// Begins anew with all SSNs, and with these TSNs.
    pub(super) fn begin_anew(
        &mut self,
        next_local: Tsn,
        next_peer: Tsn,
        context: &mut Context<'_>,
    ) {
        if let Some(state) = &mut self.re_configuration
            && let Some(deferred) = state.deferred.take()
        {
            state.set_result(deferred.number, ReConfigResult::SUCCESS_PERFORMED);
        }
        for failed in self.sender.begin_anew(next_local, &mut self.paths) {
            context.events.push_back(Event::SendFailed {
                id: self.id,
                info: failed.info,
                payload: failed.payload,
                was_sent: failed.was_sent,
            });
        }
        if self.receiver.begin_anew(next_peer, context.config).is_err() {
            self.violation("stream sequence number used twice", context);
            return;
        }
        self.report_aborted_delivery(context);
        self.begin_burst();
        self.report_association_reset(ReConfigurationOutcome::Performed, context);
    }

    // --- Events (section 6.1) ---

    fn report_association_reset(&self, outcome: ReConfigurationOutcome, context: &mut Context<'_>) {
        context.events.push_back(Event::AssociationReset {
            id: self.id,
            local_tsn: self.sender.next_tsn().0,
            remote_tsn: self.receiver.cumulative().next().0,
            outcome,
        });
    }

    pub(super) fn report_stream_reset(
        &self,
        direction: StreamDirection,
        streams: Vec<u16>,
        outcome: ReConfigurationOutcome,
        context: &mut Context<'_>,
    ) {
        context.events.push_back(Event::StreamReset {
            id: self.id,
            direction,
            streams,
            outcome,
        });
    }

    pub(super) fn report_stream_change(
        &self,
        outcome: ReConfigurationOutcome,
        context: &mut Context<'_>,
    ) {
        context.events.push_back(Event::StreamChange {
            id: self.id,
            outbound_streams: self.sender.streams(),
            inbound_streams: self.receiver.streams(),
            outcome,
        });
    }
}

impl ReConfiguration {
    /// Gives requests their numbers, and makes the RE-CONFIG with them.
    fn number(
        &mut self,
        requests: Vec<Request>,
        response: Option<ReConfigResponse>,
        last_assigned_tsn: Tsn,
    ) -> Option<EncodedChunk> {
        let mut number = self.next_request;
        let numbered: Vec<OutstandingRequest> = requests
            .into_iter()
            .map(|request| {
                let numbered = OutstandingRequest {
                    number,
                    request,
                    last_assigned_tsn,
                };
                number = number.next();
                numbered
            })
            .collect();
        let lists: Vec<Vec<[u8; 2]>> = numbered.iter().map(|one| one.request.list()).collect();
        let last_expected = self.next_expected.previous();
        let parameters = numbered.iter().zip(&lists).map(|(one, list)| {
            one.request
                .parameter(one.number, last_expected, last_assigned_tsn, list)
        });
        let response = response.map(Parameter::ReConfigResponse);
        let chunk = encode(response.into_iter().chain(parameters))?;
        self.next_request = number;
        self.outstanding = numbered;
        Some(chunk)
    }
}

impl Request {
    /// The streams on which nothing may leave while it is outstanding.
    fn paused_streams(&self) -> Option<StreamSet> {
        match self {
            Request::OutgoingReset { streams, .. } => {
                Some(StreamSet::of_list(streams.iter().copied()))
            }
            Request::AssociationReset => Some(StreamSet::All),
            Request::IncomingReset { .. } | Request::AddOutgoing(_) | Request::AddIncoming(_) => {
                None
            }
        }
    }

    /// Its list of streams, as a parameter holds it.
    fn list(&self) -> Vec<[u8; 2]> {
        match self {
            Request::OutgoingReset { streams, .. } | Request::IncomingReset { streams } => {
                stream_list(streams)
            }
            Request::AssociationReset | Request::AddOutgoing(_) | Request::AddIncoming(_) => {
                Vec::new()
            }
        }
    }

    /// Its parameter. `last_expected` is the number before the peer's next one, and `list` is what
    /// [`Self::list`] gave.
    fn parameter<'a>(
        &self,
        request_sequence_number: SequenceNumber,
        last_expected: SequenceNumber,
        last_assigned_tsn: Tsn,
        list: &'a [[u8; 2]],
    ) -> Parameter<'a> {
        match *self {
            Request::OutgoingReset { answers, .. } => {
                Parameter::OutgoingSsnResetRequest(OutgoingSsnResetRequest {
                    request_sequence_number,
                    response_sequence_number: answers.unwrap_or(last_expected),
                    last_assigned_tsn,
                    streams: StreamList::new(list),
                })
            }
            Request::AssociationReset => Parameter::SsnTsnResetRequest {
                request_sequence_number,
            },
            Request::IncomingReset { .. } => {
                Parameter::IncomingSsnResetRequest(IncomingSsnResetRequest {
                    request_sequence_number,
                    streams: StreamList::new(list),
                })
            }
            Request::AddOutgoing(new_streams) => {
                Parameter::AddOutgoingStreamsRequest(AddStreamsRequest {
                    request_sequence_number,
                    new_streams,
                })
            }
            Request::AddIncoming(new_streams) => {
                Parameter::AddIncomingStreamsRequest(AddStreamsRequest {
                    request_sequence_number,
                    new_streams,
                })
            }
        }
    }
}

/// A list of streams in parts of at most `most`. An empty list, which means all of them, is one part.
fn parts(streams: Option<Vec<u16>>, most: usize) -> impl Iterator<Item = Vec<u16>> {
    let all = streams.as_ref().is_some_and(Vec::is_empty);
    let parts: Vec<Vec<u16>> = streams
        .iter()
        .flat_map(|streams| streams.chunks(most))
        .map(<[u16]>::to_vec)
        .collect();
    all.then(Vec::new).into_iter().chain(parts)
}
