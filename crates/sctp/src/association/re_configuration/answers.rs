//! The peer's requests (RFC 6525 sections 5.2.1 to 5.2.6).

use super::{AnsweredRequests, DeferredReset, ReConfiguration, Request, encode};
use crate::association::control_queue::RequestKind;
use crate::association::encoded_chunk::EncodedChunk;
use crate::association::path::Path;
use crate::association::path_id::PathId;
use crate::association::stream_set::StreamSet;
use crate::association::{Association, Context};
use crate::packet::{
    AddStreamsRequest, Cause, IncomingSsnResetRequest, NextTsns, OutgoingSsnResetRequest,
    Parameter, ReConfig, ReConfigResponse, ReConfigResult, SequenceNumber,
};
use crate::{AssociationState, ReConfigurationOutcome, StreamDirection};

/// More streams are not listed in a request of ours, which has to fit into a chunk.
const MOST_STREAMS: usize = 32_000;

/// What a RE-CONFIG holds.
#[derive(Debug, Clone, Copy)]
enum Contents<'a> {
    Responses(ReConfigResponse, Option<ReConfigResponse>),
    ResponseAndReset(ReConfigResponse, OutgoingSsnResetRequest<'a>),
    Requests(PeerRequest<'a>, Option<PeerRequest<'a>>),
}

/// A request of the peer.
#[derive(Debug, Clone, Copy)]
enum PeerRequest<'a> {
    OutgoingReset(OutgoingSsnResetRequest<'a>),
    IncomingReset(IncomingSsnResetRequest<'a>),
    AssociationReset(SequenceNumber),
    AddOutgoing(AddStreamsRequest),
    AddIncoming(AddStreamsRequest),
}

/// What the number of a request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    New,
    /// It came before, in the peer's last RE-CONFIG with requests.
    Repeated,
    Wrong,
}

impl Association {
    /// Takes in a RE-CONFIG that came on `path`.
    pub(in crate::association) fn handle_re_config(
        &mut self,
        path: PathId,
        chunk: ReConfig<'_>,
        context: &mut Context<'_>,
    ) {
        let is_up = matches!(
            self.state,
            AssociationState::Established
                | AssociationState::ShutdownPending
                | AssociationState::ShutdownReceived
                | AssociationState::ShutdownSent
        );
        if !is_up || self.re_configuration.is_none() {
            context.statistics.drops.chunks += 1;
            return;
        }
        let contents = match Contents::read(chunk) {
            Ok(contents) => contents,
            Err(UnsupportedCombination) => {
                // Section 3.1.
                let cause = Cause::ProtocolViolation(b"parameters of a RE-CONFIG");
                self.queue_error(path, &cause, context);
                return;
            }
        };
        match contents {
            None => context.statistics.drops.chunks += 1,
            Some(Contents::Responses(first, second)) => {
                self.handle_re_config_response(first, context);
                if let Some(second) = second {
                    self.handle_re_config_response(second, context);
                }
            }
            Some(Contents::ResponseAndReset(response, reset)) => {
                self.handle_re_config_response(response, context);
                self.answer_requests(path, &[PeerRequest::OutgoingReset(reset)], context);
            }
            Some(Contents::Requests(first, None)) => {
                self.answer_requests(path, &[first], context);
            }
            Some(Contents::Requests(first, Some(second))) => {
                self.answer_requests(path, &[first, second], context);
            }
        }
    }

    /// Performs a reset that was deferred, once all data of before it is there (section 5.2.2, E3 to E6).
    pub(in crate::association) fn conclude_deferred_reset(&mut self, context: &mut Context<'_>) {
        let cumulative = self.receiver.cumulative();
        let Some(state) = &mut self.re_configuration else {
            return;
        };
        let Some(deferred) = state
            .deferred
            .take_if(|deferred| deferred.last <= cumulative)
        else {
            return;
        };
        let result = ReConfigResult::SUCCESS_PERFORMED;
        state.set_result(deferred.number, result);
        if let Some(answered) = &mut state.answered {
            answered.request = None;
        }
        self.perform_incoming_reset(deferred.streams, context);
        let response = ReConfigResponse {
            response_sequence_number: deferred.number,
            result,
            next_tsns: None,
        };
        if let Some(chunk) = encode([Parameter::ReConfigResponse(response)]) {
            self.send_answer(deferred.path, chunk, context);
        }
    }

    /// Answers the requests of one RE-CONFIG (section 5.2.1).
    fn answer_requests(
        &mut self,
        path: PathId,
        requests: &[PeerRequest<'_>],
        context: &mut Context<'_>,
    ) {
        // What it waits for is sent again the sooner.
        self.receiver.request_sack();
        let Some(state) = &self.re_configuration else {
            return;
        };
        let turns: Vec<Turn> = requests
            .iter()
            .map(|request| state.turn(request.number()))
            .collect();
        if turns.contains(&Turn::Repeated) {
            if let Some(chunk) = state.answer_again() {
                self.send_answer(path, chunk, context);
            }
            return;
        }
        let is_new = turns.first() == Some(&Turn::New);
        let mut responses = Vec::new();
        for request in requests {
            responses.push(self.answer(path, request, context));
        }
        let request = self.answer_by_request(path, requests, &responses, context);
        let chunk = encode(responses.iter().copied().map(Parameter::ReConfigResponse))
            .filter(|_| request.is_none());
        if is_new && let Some(state) = &mut self.re_configuration {
            state.answered = Some(AnsweredRequests { responses, request });
        }
        if let Some(chunk) = chunk {
            self.send_answer(path, chunk, context);
        }
    }

    /// Sends our own request at once that answers an Incoming SSN Reset Request, if there is one and it may
    /// leave yet; gives it (section 5.2.3, F1). The response to an Outgoing SSN Reset Request goes with it.
    fn answer_by_request(
        &mut self,
        path: PathId,
        requests: &[PeerRequest<'_>],
        responses: &[ReConfigResponse],
        context: &Context<'_>,
    ) -> Option<EncodedChunk> {
        let (last, before) = responses.split_last()?;
        let is_reset = matches!(requests.last(), Some(PeerRequest::IncomingReset(_)));
        // Others of ours that wait go first.
        let is_next = self
            .re_configuration
            .as_ref()
            .is_some_and(|state| state.wanted.len() == 1);
        if !is_reset || last.result != ReConfigResult::IN_PROGRESS || !is_next {
            return None;
        }
        let chunk = self.advance_re_configuration(before.first().copied(), context.now)?;
        // RFC 9260 section 6.4.
        self.control
            .redirect(RequestKind::ReConfiguration, self.reply_path(path));
        Some(chunk)
    }

    /// Does what a request asks for, if it may be; gives the response.
    fn answer(
        &mut self,
        path: PathId,
        request: &PeerRequest<'_>,
        context: &mut Context<'_>,
    ) -> ReConfigResponse {
        let number = request.number();
        let is_expected = self
            .re_configuration
            .as_mut()
            .is_some_and(|state| state.expect(number));
        let mut next_tsns = None;
        let result = match request {
            PeerRequest::AssociationReset(_) => {
                // D3 and D4.
                let result = if is_expected {
                    self.answer_association_reset(context)
                } else {
                    ReConfigResult::ERROR_BAD_SEQUENCE_NUMBER
                };
                next_tsns = Some(self.next_tsns());
                result
            }
            _ if !is_expected => ReConfigResult::ERROR_BAD_SEQUENCE_NUMBER,
            PeerRequest::OutgoingReset(reset) => self.answer_outgoing_reset(path, reset, context),
            PeerRequest::AddOutgoing(add) => self.answer_add_outgoing(add, context),
            PeerRequest::AddIncoming(add) => self.answer_add_incoming(add, context),
            PeerRequest::IncomingReset(reset) => self.answer_incoming_reset(reset, context),
        };
        ReConfigResponse {
            response_sequence_number: number,
            result,
            next_tsns,
        }
    }

    /// Section 5.2.2.
    fn answer_outgoing_reset(
        &mut self,
        path: PathId,
        reset: &OutgoingSsnResetRequest<'_>,
        context: &mut Context<'_>,
    ) -> ReConfigResult {
        // E1: where it answers no request of ours, the number is that of a request of another kind.
        self.acknowledge_request(
            reset.response_sequence_number,
            |request| matches!(request, Request::IncomingReset { .. }),
            context,
        );
        let count = self.receiver.streams();
        let cumulative = self.receiver.cumulative();
        let Some(state) = &mut self.re_configuration else {
            return ReConfigResult::DENIED;
        };
        if !context.config.re_configuration_policy.reset_streams {
            return ReConfigResult::DENIED;
        }
        if reset.streams.iter().any(|stream: u16| stream >= count) {
            return ReConfigResult::ERROR_WRONG_SSN;
        }
        if state.deferred.is_some() {
            return ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS;
        }
        let streams: Vec<u16> = reset.streams.iter().collect();
        if reset.last_assigned_tsn > cumulative {
            let set = StreamSet::of_list(streams.iter().copied());
            self.receiver.defer_reset(reset.last_assigned_tsn, set);
            state.deferred = Some(DeferredReset {
                number: reset.request_sequence_number,
                last: reset.last_assigned_tsn,
                streams,
                path,
            });
            return ReConfigResult::IN_PROGRESS;
        }
        self.perform_incoming_reset(streams, context);
        ReConfigResult::SUCCESS_PERFORMED
    }

    /// Section 5.2.3. `IN_PROGRESS` says that a request of ours is to follow.
    fn answer_incoming_reset(
        &mut self,
        reset: &IncomingSsnResetRequest<'_>,
        context: &Context<'_>,
    ) -> ReConfigResult {
        if !context.config.re_configuration_policy.reset_streams
            || reset.streams.len() > MOST_STREAMS
        {
            return ReConfigResult::DENIED;
        }
        let count = self.sender.streams();
        if reset.streams.iter().any(|stream: u16| stream >= count) {
            return ReConfigResult::ERROR_WRONG_SSN;
        }
        let Some(state) = &mut self.re_configuration else {
            return ReConfigResult::DENIED;
        };
        let streams: Vec<u16> = reset.streams.iter().collect();
        let covers = |other: &Request| match other {
            Request::OutgoingReset { streams: other, .. } => {
                let set = StreamSet::of_list(other.iter().copied());
                set == StreamSet::All
                    || !streams.is_empty() && streams.iter().all(|stream| set.contains(*stream))
            }
            _ => false,
        };
        let mut outstanding = state.outstanding.iter().map(|one| &one.request);
        if outstanding.any(covers) || self.sender.is_fresh(&StreamSet::of_list(streams.clone())) {
            return ReConfigResult::SUCCESS_NOTHING_TO_DO;
        }
        // The peer may have one request in flight. If ours waits for one of the peer's in its turn, ours
        // is first.
        let waits_for_peer = state.outstanding.iter().any(|one| {
            matches!(
                one.request,
                Request::IncomingReset { .. } | Request::AssociationReset
            )
        });
        let is_busy = state.wanted_requests().any(|request| {
            matches!(request, Request::OutgoingReset { answers, .. } if answers.is_some())
        });
        if waits_for_peer || is_busy {
            return ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS;
        }
        self.want(vec![Request::OutgoingReset {
            streams,
            answers: Some(reset.request_sequence_number),
        }]);
        ReConfigResult::IN_PROGRESS
    }

    /// Section 5.2.4.
    fn answer_association_reset(&mut self, context: &mut Context<'_>) -> ReConfigResult {
        let Some(state) = &self.re_configuration else {
            return ReConfigResult::DENIED;
        };
        if !context.config.re_configuration_policy.reset_association {
            return ReConfigResult::DENIED;
        }
        if state.is_busy() || state.deferred.is_some() {
            return ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS;
        }
        // G1 and G2: the peer's TSNs of before count as old for half of the number space.
        let next_local = self.sender.next_tsn();
        let next_peer = self.receiver.cumulative().next() + (1 << 31);
        self.begin_anew(next_local, next_peer, context);
        ReConfigResult::SUCCESS_PERFORMED
    }

    /// What both sides send next.
    fn next_tsns(&self) -> NextTsns {
        NextTsns {
            sender: self.sender.next_tsn(),
            receiver: self.receiver.cumulative().next(),
        }
    }

    /// Section 5.2.5.
    fn answer_add_outgoing(
        &mut self,
        add: &AddStreamsRequest,
        context: &mut Context<'_>,
    ) -> ReConfigResult {
        if !context.config.re_configuration_policy.add_streams {
            return ReConfigResult::DENIED;
        }
        // Section 5.2.6: it is what a request of ours has led to.
        let asked_for = self.re_configuration.as_ref().and_then(|state| {
            let added = Request::AddIncoming(add.new_streams);
            let asked = state.outstanding.iter().find(|one| one.request == added);
            asked.map(|one| one.number)
        });
        if let Some(number) = asked_for {
            self.acknowledge_request(number, |_| true, context);
            if let Some(state) = &mut self.re_configuration {
                state.presumed = Some(number);
            }
        }
        if add.new_streams == 0 {
            return ReConfigResult::SUCCESS_NOTHING_TO_DO;
        }
        let sum = self.receiver.streams().checked_add(add.new_streams);
        if sum.is_none_or(|sum| sum > context.config.max_inbound_streams) {
            return ReConfigResult::DENIED;
        }
        self.receiver.add_streams(add.new_streams);
        self.report_stream_change(ReConfigurationOutcome::Performed, context);
        ReConfigResult::SUCCESS_PERFORMED
    }

    /// Section 5.2.6. The response goes beside the Add Outgoing Streams Request, for there are peers that
    /// wait for one.
    fn answer_add_incoming(
        &mut self,
        add: &AddStreamsRequest,
        context: &mut Context<'_>,
    ) -> ReConfigResult {
        if !context.config.re_configuration_policy.add_streams {
            return ReConfigResult::DENIED;
        }
        if add.new_streams == 0 {
            return ReConfigResult::SUCCESS_NOTHING_TO_DO;
        }
        let Some(state) = &self.re_configuration else {
            return ReConfigResult::DENIED;
        };
        let under_way = state.outstanding.iter().map(|one| match one.request {
            Request::AddOutgoing(count) => usize::from(count),
            _ => 0,
        });
        let sum = usize::from(self.sender.streams())
            + under_way.sum::<usize>()
            + usize::from(add.new_streams);
        if sum > usize::from(context.config.max_outbound_streams) {
            return ReConfigResult::DENIED;
        }
        let adds = |request: &Request| matches!(request, Request::AddOutgoing(_));
        if state.wanted_requests().any(adds) {
            return ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS;
        }
        self.want(vec![Request::AddOutgoing(add.new_streams)]);
        ReConfigResult::SUCCESS_PERFORMED
    }

    /// Section 5.2.2, E3 and E4.
    fn perform_incoming_reset(&mut self, streams: Vec<u16>, context: &mut Context<'_>) {
        let set = StreamSet::of_list(streams.iter().copied());
        if self.receiver.reset_streams(&set).is_err() {
            self.violation("stream sequence number used twice", context);
            return;
        }
        self.report_stream_reset(
            StreamDirection::Incoming,
            streams,
            ReConfigurationOutcome::Performed,
            context,
        );
    }

    /// Has a RE-CONFIG sent once, in answer to one that came on `path`.
    fn send_answer(&mut self, path: PathId, chunk: EncodedChunk, context: &mut Context<'_>) {
        let reply_path = self.reply_path(path);
        // Not a second packet in answer to one (RFC 9260 section 12.4).
        let is_second = reply_path != path && self.pending.answers_on(path);
        let room = self.paths.get(reply_path).map_or(0, Path::pmdcs);
        if is_second || !self.pending.answer(reply_path, chunk, room) {
            context.statistics.drops.answers += 1;
        }
    }
}

impl ReConfiguration {
    fn turn(&self, number: SequenceNumber) -> Turn {
        if number == self.next_expected {
            return Turn::New;
        }
        let is_repeated = self.answered.as_ref().is_some_and(|answered| {
            let mut numbers = answered.responses.iter();
            numbers.any(|response| response.response_sequence_number == number)
        });
        if is_repeated {
            Turn::Repeated
        } else {
            Turn::Wrong
        }
    }

    /// Whether that is the number that comes next; if so, the next one is expected from now on.
    fn expect(&mut self, number: SequenceNumber) -> bool {
        let is_expected = number == self.next_expected;
        if is_expected {
            self.next_expected = number.next();
        }
        is_expected
    }

    /// The RE-CONFIG that answered the peer's last requests, with the results of now.
    fn answer_again(&self) -> Option<EncodedChunk> {
        let answered = self.answered.as_ref()?;
        let again = || {
            let responses = answered.responses.iter().copied();
            encode(responses.map(Parameter::ReConfigResponse))
        };
        answered.request.clone().or_else(again)
    }
}

impl PeerRequest<'_> {
    fn number(&self) -> SequenceNumber {
        match *self {
            PeerRequest::OutgoingReset(reset) => reset.request_sequence_number,
            PeerRequest::IncomingReset(reset) => reset.request_sequence_number,
            PeerRequest::AssociationReset(number) => number,
            PeerRequest::AddOutgoing(add) | PeerRequest::AddIncoming(add) => {
                add.request_sequence_number
            }
        }
    }
}

/// Parameters that must not share a RE-CONFIG, or do not belong into one (section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnsupportedCombination;

impl<'a> Contents<'a> {
    /// Sorts the parameters. `None`: they are malformed, or the first one is not known, so that nothing
    /// is to be processed.
    fn read(chunk: ReConfig<'a>) -> Result<Option<Contents<'a>>, UnsupportedCombination> {
        let mut parameters = Vec::new();
        for parameter in chunk.parameters.iter() {
            match parameter {
                // Section 4: an unknown parameter ends the processing.
                Ok(Parameter::Other(_)) => break,
                Ok(parameter) => parameters.push(parameter),
                Err(_) => return Ok(None),
            }
            if parameters.len() > 2 {
                return Err(UnsupportedCombination);
            }
        }
        let contents = match *parameters {
            [] => return Ok(None),
            [Parameter::ReConfigResponse(response)] => Contents::Responses(response, None),
            [
                Parameter::ReConfigResponse(first),
                Parameter::ReConfigResponse(second),
            ] => Contents::Responses(first, Some(second)),
            [
                Parameter::ReConfigResponse(response),
                Parameter::OutgoingSsnResetRequest(reset),
            ] => Contents::ResponseAndReset(response, reset),
            [Parameter::OutgoingSsnResetRequest(reset)] => {
                Contents::Requests(PeerRequest::OutgoingReset(reset), None)
            }
            [Parameter::IncomingSsnResetRequest(reset)] => {
                Contents::Requests(PeerRequest::IncomingReset(reset), None)
            }
            [
                Parameter::OutgoingSsnResetRequest(outgoing),
                Parameter::IncomingSsnResetRequest(incoming),
            ] => Contents::Requests(
                PeerRequest::OutgoingReset(outgoing),
                Some(PeerRequest::IncomingReset(incoming)),
            ),
            [
                Parameter::SsnTsnResetRequest {
                    request_sequence_number,
                },
            ] => Contents::Requests(PeerRequest::AssociationReset(request_sequence_number), None),
            [Parameter::AddOutgoingStreamsRequest(add)] => {
                Contents::Requests(PeerRequest::AddOutgoing(add), None)
            }
            [Parameter::AddIncomingStreamsRequest(add)] => {
                Contents::Requests(PeerRequest::AddIncoming(add), None)
            }
            [
                Parameter::AddOutgoingStreamsRequest(outgoing),
                Parameter::AddIncomingStreamsRequest(incoming),
            ] => Contents::Requests(
                PeerRequest::AddOutgoing(outgoing),
                Some(PeerRequest::AddIncoming(incoming)),
            ),
            _ => return Err(UnsupportedCombination),
        };
        Ok(Some(contents))
    }
}
