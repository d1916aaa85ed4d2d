//! Our requests: when they go out (RFC 6525 section 5.1), and what their responses mean
//! (section 5.2.7).

use super::{OutstandingRequest, Request, encode};
use crate::association::control_queue::RequestKind;
use crate::association::encoded_chunk::EncodedChunk;
use crate::association::path::Path;
use crate::association::{Association, Context};
use crate::packet::{
    AddStreamsRequest, IncomingSsnResetRequest, Parameter, ReConfigResponse, ReConfigResult,
    SequenceNumber, StreamList,
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
        let StreamReset { mut incoming } = reset;
        if let Some(streams) = &mut incoming {
            streams.sort_unstable();
            streams.dedup();
            let count = self.receiver.streams();
            if streams.last().is_some_and(|stream| *stream >= count) {
                return Err(ReConfigurationError::InvalidStream);
            }
        }
        let most = self.most_listed_streams();
        if let Some(streams) = incoming {
            self.want_resets(streams, most, |streams| Request::IncomingReset { streams });
        }
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

    /// Has streams reset by as many requests as their list needs. An empty list means all of them.
    fn want_resets(
        &mut self,
        streams: Vec<u16>,
        most: usize,
        request: impl Fn(Vec<u16>) -> Request,
    ) {
        if streams.is_empty() {
            self.want(vec![request(streams)]);
            return;
        }
        for part in streams.chunks(most) {
            self.want(vec![request(part.to_vec())]);
        }
    }

    /// How many streams may be listed in a RE-CONFIG that fits all paths.
    fn most_listed_streams(&self) -> usize {
        const OVERHEAD: usize = 4 + 16 + 8;
        let room = self.paths.iter().map(Path::pmdcs).min().unwrap_or(0);
        (room.saturating_sub(OVERHEAD) / 2).max(1)
    }

    // --- Sending (section 5.1) ---

    /// Has a RE-CONFIG with these requests sent when no other one is outstanding.
    pub(super) fn want(&mut self, requests: Vec<Request>) {
        if let Some(state) = &mut self.re_configuration
            && !requests.is_empty()
        {
            state.wanted.push_back(requests);
        }
    }

    /// Sends the next RE-CONFIG with requests, if none is outstanding and it may leave yet; gives it.
    pub(in crate::association) fn advance_re_configuration(&mut self) -> Option<EncodedChunk> {
        let state = self.re_configuration.as_mut()?;
        if !state.outstanding.is_empty() || self.control.is_busy(KIND) {
            return None;
        }
        let requests = state.wanted.pop_front()?;
        let mut number = state.next_request;
        let numbered: Vec<OutstandingRequest> = requests
            .into_iter()
            .map(|request| {
                let numbered = OutstandingRequest { number, request };
                number = number.next();
                numbered
            })
            .collect();
        let lists: Vec<Vec<[u8; 2]>> = numbered.iter().map(|one| one.request.list()).collect();
        let parameters = numbered
            .iter()
            .zip(&lists)
            .map(|(one, list)| one.request.parameter(one.number, list));
        let chunk = encode(parameters)?;
        self.control.push(KIND, chunk.clone()).ok()?;
        state.next_request = number;
        state.outstanding = numbered;
        Some(chunk)
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
        let Some(request) = self.acknowledge_request(number, |_| true, context) else {
            return;
        };
        let outcome = match response.result {
            ReConfigResult::SUCCESS_NOTHING_TO_DO | ReConfigResult::SUCCESS_PERFORMED => {
                ReConfigurationOutcome::Performed
            }
            ReConfigResult::DENIED => ReConfigurationOutcome::Denied,
            _ => ReConfigurationOutcome::Failed,
        };
        match request {
            Request::AddOutgoing(count) => {
                if outcome == ReConfigurationOutcome::Performed {
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
    ) -> Option<Request> {
        let state = self.re_configuration.as_mut()?;
        let request = state.take_outstanding(number, matches)?;
        if state.outstanding.is_empty() {
            self.request_answered(KIND, context);
        }
        Some(request)
    }

    // --- Events (section 6.1) ---

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

impl Request {
    /// Its list of streams, as a parameter holds it.
    fn list(&self) -> Vec<[u8; 2]> {
        match self {
            Request::IncomingReset { streams } => {
                streams.iter().map(|stream| stream.to_be_bytes()).collect()
            }
            Request::AddOutgoing(_) | Request::AddIncoming(_) => Vec::new(),
        }
    }

    /// Its parameter. `list` is what [`Self::list`] gave.
    fn parameter<'a>(
        &self,
        request_sequence_number: SequenceNumber,
        list: &'a [[u8; 2]],
    ) -> Parameter<'a> {
        match *self {
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
