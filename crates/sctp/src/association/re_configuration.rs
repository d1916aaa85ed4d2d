//! Re-configuration of streams (RFC 6525): which requests of ours wait or are outstanding, and what the
//! peer's last requests were answered. `requests` decides when ours go out and what their responses
//! mean, `answers` does what the peer asks for.

mod answers;
mod requests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Association;
use super::encoded_chunk::EncodedChunk;
use super::path_id::PathId;
use crate::packet::{
    Chunk, Parameter, ParameterBuffer, ReConfig, ReConfigResponse, ReConfigResult, SequenceNumber,
    Tsn,
};

/// The maximum segment lifetime: for so long numbers of before an SSN/TSN reset may be about
/// (section 5.1.4).
const MAXIMUM_SEGMENT_LIFETIME: Duration = Duration::from_secs(30);

/// What an association whose peer knows RE-CONFIG remembers of it.
#[derive(Debug)]
pub(crate) struct ReConfiguration {
    /// The number of our next request.
    next_request: SequenceNumber,
    /// The requests of RE-CONFIGs that are to be sent, oldest first: one or two that may go together
    /// (section 3.1).
    wanted: VecDeque<WantedRequests>,
    /// The requests of the RE-CONFIG that was sent and has not been answered completely.
    outstanding: Vec<OutstandingRequest>,
    /// The number of our last Add Incoming Streams Request, if all that answered it was a request of the
    /// peer: that may have been of its own accord, and ours lost.
    presumed: Option<SequenceNumber>,
    /// The number that the peer's next request has to have.
    next_expected: SequenceNumber,
    /// The peer's last requests.
    answered: Option<AnsweredRequests>,
    /// The peer's Outgoing SSN Reset Request that waits for data.
    deferred: Option<DeferredReset>,
    /// Streams are paused for the first of what is wanted, or for what is outstanding.
    has_paused: bool,
    /// When our last SSN/TSN Reset Request was sent, or led to a reset.
    association_reset: Option<Instant>,
}

/// The requests of a RE-CONFIG that is to be sent.
#[derive(Debug)]
struct WantedRequests {
    requests: Vec<Request>,
    /// The messages in front of this place in the order of all of them were there before: they leave first.
    place: u64,
}

/// A request of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Request {
    /// Reset these streams that we send on; all when there is none. `answers` is the number of the peer's
    /// request that asks for it, if one does.
    OutgoingReset {
        streams: Vec<u16>,
        answers: Option<SequenceNumber>,
    },
    /// Reset these streams that the peer sends on; all when there is none.
    IncomingReset { streams: Vec<u16> },
    /// Begin anew with all SSNs and TSNs.
    AssociationReset,
    /// So many more streams that we send on.
    AddOutgoing(u16),
    /// So many more streams that the peer sends on.
    AddIncoming(u16),
}

#[derive(Debug)]
struct OutstandingRequest {
    number: SequenceNumber,
    request: Request,
    /// Our last TSN before it was sent.
    last_assigned_tsn: Tsn,
}

/// The requests of the peer's last RE-CONFIG, which may come again (section 5.2.1).
#[derive(Debug)]
struct AnsweredRequests {
    /// The response to each, as it is now.
    responses: Vec<ReConfigResponse>,
    /// The RE-CONFIG with a request of ours that answered them.
    request: Option<EncodedChunk>,
}

/// "Deferred reset processing" (section 5.2.2, E2).
#[derive(Debug)]
struct DeferredReset {
    number: SequenceNumber,
    /// The peer's last TSN before the reset.
    last: Tsn,
    /// All when there is none.
    streams: Vec<u16>,
    /// Where the response goes.
    path: PathId,
}

impl Association {
    /// Begins with RE-CONFIG, where both sides have agreed on it.
    pub(super) fn begin_re_configuration(&mut self, peer_initial_tsn: Tsn) {
        self.re_configuration = self.extensions.re_configuration.then(|| {
            Box::new(ReConfiguration::new(
                self.local_initial_tsn,
                peer_initial_tsn,
            ))
        });
    }
}

impl ReConfiguration {
    /// Nothing was requested yet between two sides that begin with these TSNs (section 4.1).
    fn new(local_initial_tsn: Tsn, peer_initial_tsn: Tsn) -> ReConfiguration {
        ReConfiguration {
            next_request: SequenceNumber(local_initial_tsn.0),
            wanted: VecDeque::new(),
            outstanding: Vec::new(),
            presumed: None,
            next_expected: SequenceNumber(peer_initial_tsn.0),
            answered: None,
            deferred: None,
            has_paused: false,
            association_reset: None,
        }
    }

    /// Whether a request of ours is to be sent, or has not been answered.
    fn is_busy(&self) -> bool {
        !self.wanted.is_empty() || !self.outstanding.is_empty()
    }

    /// The requests that are to be sent.
    fn wanted_requests(&self) -> impl Iterator<Item = &Request> {
        self.wanted.iter().flat_map(|wanted| &wanted.requests)
    }

    /// Whether the peer has been asked for an SSN/TSN reset, and has not answered.
    pub(super) fn resets_association(&self) -> bool {
        let mut outstanding = self.outstanding.iter();
        outstanding.any(|one| one.request == Request::AssociationReset)
    }

    /// Whether SACKs of the other side of our last SSN/TSN reset may be about.
    pub(super) fn was_reset_lately(&self, now: Instant) -> bool {
        self.resets_association()
            || self
                .association_reset
                .is_some_and(|reset| now < reset + MAXIMUM_SEGMENT_LIFETIME)
    }

    /// Takes note of the response to a request of that number: it may tell that the peer has never seen the
    /// one before, so that the number of that one is the next one.
    fn review_presumed(&mut self, number: SequenceNumber, result: ReConfigResult) {
        if let Some(presumed) = self.presumed.take_if(|presumed| presumed.next() == number)
            && result == ReConfigResult::ERROR_BAD_SEQUENCE_NUMBER
        {
            self.next_request = presumed;
        }
    }

    /// Takes out the outstanding request of that number, if it is one that `matches`.
    fn take_outstanding(
        &mut self,
        number: SequenceNumber,
        matches: impl Fn(&Request) -> bool,
    ) -> Option<OutstandingRequest> {
        let position = self
            .outstanding
            .iter()
            .position(|one| one.number == number && matches(&one.request))?;
        Some(self.outstanding.remove(position))
    }

    /// Changes the response to one of the peer's last requests, for the case that it comes again.
    fn set_result(&mut self, number: SequenceNumber, result: ReConfigResult) {
        if let Some(answered) = &mut self.answered
            && let Some(response) = answered
                .responses
                .iter_mut()
                .find(|response| response.response_sequence_number == number)
        {
            response.result = result;
        }
    }
}

/// Streams as a parameter lists them.
fn stream_list(streams: &[u16]) -> Vec<[u8; 2]> {
    streams.iter().map(|stream| stream.to_be_bytes()).collect()
}

/// A RE-CONFIG with these parameters; `None` when they are too long for one.
fn encode<'a>(parameters: impl IntoIterator<Item = Parameter<'a>>) -> Option<EncodedChunk> {
    let mut buffer = ParameterBuffer::new();
    for parameter in parameters {
        buffer.push(&parameter).ok()?;
    }
    let chunk = Chunk::ReConfig(ReConfig {
        parameters: buffer.parameters(),
    });
    EncodedChunk::new(&chunk).ok()
}
