//! Changes of addresses and streams that an end asks for while the association is up (RFC 5061, RFC 6525).

use std::fmt;
use std::net::IpAddr;

use sctp::packet::{
    Asconf, AsconfAck, CauseCode, Chunk, Parameter, ReConfig, ReConfigResult, SequenceNumber,
    StreamList,
};

use crate::Time;

/// A change that one end asked for.
#[derive(Debug)]
pub struct Change {
    /// When it was asked for first.
    pub time: Time,
    /// Whether the association's `source` asked.
    pub is_forward: bool,
    /// What was asked for.
    pub request: ChangeRequest,
    /// What came of it; `None` while there is no answer.
    pub outcome: Option<ChangeOutcome>,
    /// By what the answer is known: the number of the ASCONF or of the request in a RE-CONFIG.
    number: SequenceNumber,
    /// By what the response of an ASCONF-ACK is known.
    correlation_id: u32,
}

/// What was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeRequest {
    /// Add IP Address. The unspecified address means the one that the ASCONF came from.
    AddAddress(IpAddr),
    /// Delete IP Address. The unspecified address means all but the one that the ASCONF came from.
    DeleteAddress(IpAddr),
    /// Set Primary IP Address.
    SetPrimary(IpAddr),
    /// Outgoing SSN Reset Request.
    ResetOutgoing(Streams),
    /// Incoming SSN Reset Request.
    ResetIncoming(Streams),
    /// SSN/TSN Reset Request.
    ResetAssociation,
    /// Add Outgoing Streams Request.
    AddOutgoing(u16),
    /// Add Incoming Streams Request.
    AddIncoming(u16),
}

/// Streams that are to be reset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Streams {
    /// The first ones that are listed.
    first: Vec<u16>,
    /// How many are listed; all streams are meant when there is none.
    listed: usize,
}

/// What came of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeOutcome {
    /// It was done.
    Performed,
    /// The peer refused it with this cause, or because it refused one before it in the same ASCONF.
    AddressRefused(Option<CauseCode>),
    /// The peer answered with another result than a success.
    ReConfigRefused(ReConfigResult),
}

/// How many requests of a kind one end has sent, each counted once however often it was repeated.
#[derive(Debug, Default)]
pub(super) struct Requests {
    last_asconf: Option<SequenceNumber>,
    last_re_config: Option<SequenceNumber>,
}

/// Streams that are remembered of a request.
const MOST_STREAMS: usize = 16;

impl Requests {
    /// The requests in an ASCONF that was not seen before.
    pub(super) fn of_asconf<'a>(
        &mut self,
        asconf: &Asconf<'a>,
        time: Time,
        is_forward: bool,
    ) -> impl Iterator<Item = Change> + use<'a> {
        let number = asconf.sequence_number;
        let is_new = is_next(&mut self.last_asconf, number);
        let requests = is_new.then(|| asconf.requests()).into_iter().flatten();
        requests.flatten().filter_map(move |parameter| {
            let (request, about): (fn(IpAddr) -> ChangeRequest, _) = match parameter {
                Parameter::AddIpAddress(about) => (ChangeRequest::AddAddress, about),
                Parameter::DeleteIpAddress(about) => (ChangeRequest::DeleteAddress, about),
                Parameter::SetPrimaryAddress(about) => (ChangeRequest::SetPrimary, about),
                _ => return None,
            };
            Some(Change {
                time,
                is_forward,
                request: request(about.address),
                outcome: None,
                number,
                correlation_id: about.correlation_id,
            })
        })
    }

    /// The requests in a RE-CONFIG that were not seen before.
    pub(super) fn of_re_config(
        &mut self,
        re_config: &ReConfig<'_>,
        time: Time,
        is_forward: bool,
    ) -> impl Iterator<Item = Change> {
        re_config
            .parameters
            .iter()
            .flatten()
            .filter_map(move |parameter| {
                let (request, number) = match parameter {
                    Parameter::OutgoingSsnResetRequest(request) => (
                        ChangeRequest::ResetOutgoing(Streams::of(request.streams)),
                        request.request_sequence_number,
                    ),
                    Parameter::IncomingSsnResetRequest(request) => (
                        ChangeRequest::ResetIncoming(Streams::of(request.streams)),
                        request.request_sequence_number,
                    ),
                    Parameter::SsnTsnResetRequest {
                        request_sequence_number,
                    } => (ChangeRequest::ResetAssociation, request_sequence_number),
                    Parameter::AddOutgoingStreamsRequest(request) => (
                        ChangeRequest::AddOutgoing(request.new_streams),
                        request.request_sequence_number,
                    ),
                    Parameter::AddIncomingStreamsRequest(request) => (
                        ChangeRequest::AddIncoming(request.new_streams),
                        request.request_sequence_number,
                    ),
                    _ => return None,
                };
                is_next(&mut self.last_re_config, number).then_some(Change {
                    time,
                    is_forward,
                    request,
                    outcome: None,
                    number,
                    correlation_id: 0,
                })
            })
    }
}

/// Notes what an ASCONF-ACK of one end says of the requests of the other (RFC 5061 section 5.1, A7 and A8).
pub(super) fn note_asconf_ack(changes: &mut [Change], ack: &AsconfAck<'_>, is_forward: bool) {
    let mut has_failed = false;
    for change in changes.iter_mut().filter(|change| {
        change.is_forward != is_forward
            && change.number == ack.sequence_number
            && change.outcome.is_none()
            && change.request.is_about_address()
    }) {
        let response = ack
            .responses
            .iter()
            .flatten()
            .find_map(|response| match response {
                Parameter::SuccessIndication { correlation_id } => {
                    (correlation_id == change.correlation_id).then_some(ChangeOutcome::Performed)
                }
                Parameter::ErrorCauseIndication(error) => {
                    let cause = || error.causes.iter().flatten().next();
                    (error.correlation_id == change.correlation_id)
                        .then(|| ChangeOutcome::AddressRefused(cause().map(|cause| cause.code())))
                }
                _ => None,
            });
        has_failed |= matches!(response, Some(ChangeOutcome::AddressRefused(_)));
        change.outcome = Some(response.unwrap_or(match has_failed {
            true => ChangeOutcome::AddressRefused(None),
            false => ChangeOutcome::Performed,
        }));
    }
}

/// Notes what the responses in a RE-CONFIG of one end say of the requests of the other.
pub(super) fn note_responses(changes: &mut [Change], re_config: &ReConfig<'_>, is_forward: bool) {
    for parameter in re_config.parameters.iter().flatten() {
        let (number, outcome) = match parameter {
            Parameter::ReConfigResponse(response) => {
                let outcome = match response.result {
                    ReConfigResult::IN_PROGRESS => continue,
                    ReConfigResult::SUCCESS_NOTHING_TO_DO | ReConfigResult::SUCCESS_PERFORMED => {
                        ChangeOutcome::Performed
                    }
                    other => ChangeOutcome::ReConfigRefused(other),
                };
                (response.response_sequence_number, outcome)
            }
            // It answers the request of the peer for it (RFC 6525 section 4.1).
            Parameter::OutgoingSsnResetRequest(request) => {
                (request.response_sequence_number, ChangeOutcome::Performed)
            }
            _ => continue,
        };
        let is_implied = matches!(parameter, Parameter::OutgoingSsnResetRequest(_));
        let answered = changes.iter_mut().find(|change| {
            change.is_forward != is_forward
                && change.number == number
                && change.outcome.is_none()
                && match change.request {
                    ChangeRequest::ResetIncoming(_) => true,
                    _ => !is_implied && !change.request.is_about_address(),
                }
        });
        if let Some(change) = answered {
            change.outcome = Some(outcome);
        }
    }
}

/// Whether a number comes after the last one, which it then is.
fn is_next(last: &mut Option<SequenceNumber>, number: SequenceNumber) -> bool {
    let is_new = last.is_none_or(|last| number > last);
    if is_new {
        *last = Some(number);
    }
    is_new
}

impl ChangeRequest {
    /// Whether it is about an address of the end that asks.
    pub fn is_about_address(&self) -> bool {
        matches!(
            self,
            ChangeRequest::AddAddress(_)
                | ChangeRequest::DeleteAddress(_)
                | ChangeRequest::SetPrimary(_)
        )
    }

    /// Whether streams are to be reset.
    pub fn is_reset(&self) -> bool {
        matches!(
            self,
            ChangeRequest::ResetOutgoing(_)
                | ChangeRequest::ResetIncoming(_)
                | ChangeRequest::ResetAssociation
        )
    }
}

impl fmt::Display for ChangeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeRequest::AddAddress(address) => write!(f, "add {address}"),
            ChangeRequest::DeleteAddress(address) => write!(f, "delete {address}"),
            ChangeRequest::SetPrimary(address) => write!(f, "primary {address}"),
            ChangeRequest::ResetOutgoing(streams) => write!(f, "reset outgoing {streams}"),
            ChangeRequest::ResetIncoming(streams) => write!(f, "reset incoming {streams}"),
            ChangeRequest::ResetAssociation => f.write_str("reset all SSNs and TSNs"),
            ChangeRequest::AddOutgoing(streams) => write!(f, "add {streams} outgoing streams"),
            ChangeRequest::AddIncoming(streams) => write!(f, "add {streams} incoming streams"),
        }
    }
}

impl Streams {
    fn of(streams: StreamList<'_>) -> Streams {
        Streams {
            first: streams.iter().take(MOST_STREAMS).collect(),
            listed: streams.len(),
        }
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.listed == 0 {
            return f.write_str("streams, all");
        }
        f.write_str(if self.listed == 1 {
            "stream"
        } else {
            "streams"
        })?;
        for stream in &self.first {
            write!(f, " {stream}")?;
        }
        match self.listed - self.first.len() {
            0 => Ok(()),
            others => write!(f, " and {others} others"),
        }
    }
}

impl fmt::Display for ChangeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeOutcome::Performed => f.write_str("performed"),
            ChangeOutcome::AddressRefused(Some(cause)) => write!(f, "refused: {cause}"),
            ChangeOutcome::AddressRefused(None) => f.write_str("refused"),
            ChangeOutcome::ReConfigRefused(result) => write!(f, "refused: {result}"),
        }
    }
}

/// What a chunk asks for, for the label of an arrow: `None` when it asks for nothing.
pub(crate) fn label_of(chunk: &Chunk<'_>) -> Option<String> {
    let mut requests = Requests::default();
    let changes: Vec<Change> = match chunk {
        Chunk::Asconf(asconf) => requests.of_asconf(asconf, Time::default(), true).collect(),
        Chunk::ReConfig(re_config) => requests
            .of_re_config(re_config, Time::default(), true)
            .collect(),
        _ => return None,
    };
    let texts: Vec<String> = changes
        .iter()
        .map(|change| change.request.to_string())
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

#[cfg(test)]
mod tests {
    use sctp::packet::Parameters;

    use super::*;

    fn re_config(parameters: &[u8]) -> Chunk<'_> {
        Chunk::ReConfig(ReConfig {
            parameters: Parameters::new(parameters),
        })
    }

    #[test]
    fn labels_say_what_is_asked_for() {
        let asconf = Chunk::Asconf(Asconf {
            sequence_number: SequenceNumber(1),
            parameters: Parameters::new(
                b"\x00\x05\x00\x08\xc0\x00\x02\x07\
                  \xc0\x01\x00\x10\0\0\0\x01\x00\x05\x00\x08\xc0\x00\x02\x01\
                  \xc0\x02\x00\x10\0\0\0\x02\x00\x05\x00\x08\0\0\0\0",
            ),
        });
        for (chunk, label) in [
            (asconf, Some("add 192.0.2.1, delete 0.0.0.0")),
            (
                re_config(b"\0\x0d\0\x10\0\0\0\x01\0\0\0\0\0\0\0\0"),
                Some("reset outgoing streams, all"),
            ),
            (
                re_config(b"\0\x0e\0\x0a\0\0\0\x01\0\x07\0\0"),
                Some("reset incoming stream 7"),
            ),
            (
                re_config(b"\0\x0f\0\x08\0\0\0\x01"),
                Some("reset all SSNs and TSNs"),
            ),
            (
                re_config(b"\0\x12\0\x0c\0\0\0\x01\0\x05\0\0"),
                Some("add 5 incoming streams"),
            ),
            (re_config(b"\0\x10\0\x0c\0\0\0\x01\0\0\0\x01"), None),
            (Chunk::CookieAck, None),
        ] {
            assert_eq!(label_of(&chunk).as_deref(), label);
        }
    }

    #[test]
    fn long_lists_of_streams_are_cut() {
        let mut parameter = vec![0, 14, 0, 8 + 40, 0, 0, 0, 1];
        parameter.extend((0..20).flat_map(|stream| [0, stream]));
        let label = label_of(&re_config(&parameter)).expect("a request");
        assert!(label.ends_with(" 14 15 and 4 others"), "{label}");
    }

    /// RFC 6525 section 4.1: the reset of outgoing streams answers the request for it.
    #[test]
    fn a_reset_that_was_asked_for_answers_the_request() {
        let asked = re_config(b"\0\x0e\0\x0a\0\0\0\x05\0\x07\0\0");
        let done = re_config(b"\0\x0d\0\x12\0\0\0\x09\0\0\0\x05\0\0\0\0\0\x07\0\0");
        let (Chunk::ReConfig(asked), Chunk::ReConfig(done)) = (asked, done) else {
            panic!("no RE-CONFIG");
        };
        let mut requests = Requests::default();
        let mut changes: Vec<Change> = requests.of_re_config(&asked, Time(0), true).collect();
        assert_eq!(
            requests.of_re_config(&asked, Time(1), true).count(),
            0,
            "sent again"
        );
        note_responses(&mut changes, &done, true);
        assert_eq!(changes[0].outcome, None, "of the same end");
        note_responses(&mut changes, &done, false);
        assert_eq!(changes[0].outcome, Some(ChangeOutcome::Performed));
    }

    /// RFC 5061 section 5.1, A7: what comes after one that is refused is refused, unless a success is told.
    #[test]
    fn requests_after_a_refused_one_are_refused() {
        let request = |correlation_id| Change {
            time: Time(0),
            is_forward: true,
            request: ChangeRequest::AddAddress(IpAddr::from([192, 0, 2, 1])),
            outcome: None,
            number: SequenceNumber(3),
            correlation_id,
        };
        let mut changes: Vec<Change> = (1..=4).map(request).collect();
        let ack = AsconfAck {
            sequence_number: SequenceNumber(3),
            responses: Parameters::new(
                b"\xc0\x03\x00\x0c\0\0\0\x02\x00\xa1\x00\x04\xc0\x05\x00\x08\0\0\0\x04",
            ),
        };
        note_asconf_ack(&mut changes, &ack, false);
        let outcomes: Vec<_> = changes.iter().filter_map(|change| change.outcome).collect();
        let shortage = CauseCode::OPERATION_REFUSED_DUE_TO_RESOURCE_SHORTAGE;
        assert_eq!(
            outcomes,
            [
                ChangeOutcome::Performed,
                ChangeOutcome::AddressRefused(Some(shortage)),
                ChangeOutcome::AddressRefused(None),
                ChangeOutcome::Performed,
            ]
        );
    }
}
