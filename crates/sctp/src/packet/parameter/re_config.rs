//! Parameters of RE-CONFIG chunks (RFC 6525, section 4).

use crate::packet::list::U16List;
use crate::packet::{SequenceNumber, Tsn};
use bytes::{Buf, BufMut, BytesMut};
use std::fmt;

/// Outgoing SSN Reset Request: the sender resets streams that it sends on (section 4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutgoingSsnResetRequest<'a> {
    /// Re-configuration Request Sequence Number: the number of this request.
    pub request_sequence_number: SequenceNumber,
    /// Re-configuration Response Sequence Number: the number of the Incoming SSN Reset Request that
    /// this answers, else the number before the peer's next one.
    pub response_sequence_number: SequenceNumber,
    /// Sender's Last Assigned TSN.
    pub last_assigned_tsn: Tsn,
    /// The streams; all of them when there is none.
    pub streams: StreamList<'a>,
}

/// Incoming SSN Reset Request: the peer is to reset streams that it sends on (section 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IncomingSsnResetRequest<'a> {
    /// Re-configuration Request Sequence Number: the number of this request.
    pub request_sequence_number: SequenceNumber,
    /// The streams; all of them when there is none.
    pub streams: StreamList<'a>,
}

/// Re-configuration Response (section 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReConfigResponse {
    /// Re-configuration Response Sequence Number: the number of the request.
    pub response_sequence_number: SequenceNumber,
    /// What came of it.
    pub result: ReConfigResult,
    /// The next TSNs of both sides, in the response to an SSN/TSN Reset Request.
    pub next_tsns: Option<NextTsns>,
}

/// A list of streams.
pub type StreamList<'a> = U16List<'a, u16>;

/// The TSNs with which both sides go on after an SSN/TSN reset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NextTsns {
    /// Sender's Next TSN: that of the sender of the response.
    pub sender: Tsn,
    /// Receiver's Next TSN: that of the receiver of the response.
    pub receiver: Tsn,
}

/// The result of a re-configuration request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReConfigResult(pub u32);

/// Add Outgoing Streams Request or Add Incoming Streams Request: more streams to send on, for the
/// sender or for its peer (sections 4.5 and 4.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddStreamsRequest {
    /// Re-configuration Request Sequence Number: the number of this request.
    pub request_sequence_number: SequenceNumber,
    /// Number of new streams.
    pub new_streams: u16,
}

impl ReConfigResult {
    /// Success - Nothing to do.
    pub const SUCCESS_NOTHING_TO_DO: ReConfigResult = ReConfigResult(0);
    /// Success - Performed.
    pub const SUCCESS_PERFORMED: ReConfigResult = ReConfigResult(1);
    /// Denied.
    pub const DENIED: ReConfigResult = ReConfigResult(2);
    /// Error - Wrong SSN.
    pub const ERROR_WRONG_SSN: ReConfigResult = ReConfigResult(3);
    /// Error - Request already in progress.
    pub const ERROR_REQUEST_ALREADY_IN_PROGRESS: ReConfigResult = ReConfigResult(4);
    /// Error - Bad Sequence Number.
    pub const ERROR_BAD_SEQUENCE_NUMBER: ReConfigResult = ReConfigResult(5);
    /// In progress.
    pub const IN_PROGRESS: ReConfigResult = ReConfigResult(6);
}

impl fmt::Display for ReConfigResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            ReConfigResult::SUCCESS_NOTHING_TO_DO => "Success - Nothing to do",
            ReConfigResult::SUCCESS_PERFORMED => "Success - Performed",
            ReConfigResult::DENIED => "Denied",
            ReConfigResult::ERROR_WRONG_SSN => "Error - Wrong SSN",
            ReConfigResult::ERROR_REQUEST_ALREADY_IN_PROGRESS => {
                "Error - Request already in progress"
            }
            ReConfigResult::ERROR_BAD_SEQUENCE_NUMBER => "Error - Bad Sequence Number",
            ReConfigResult::IN_PROGRESS => "In progress",
            ReConfigResult(other) => return write!(f, "result {other}"),
        })
    }
}

impl fmt::Debug for ReConfigResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReConfigResult({})", self.0)
    }
}

impl<'a> OutgoingSsnResetRequest<'a> {
    pub(super) fn read(mut value: &'a [u8]) -> Option<OutgoingSsnResetRequest<'a>> {
        Some(OutgoingSsnResetRequest {
            request_sequence_number: SequenceNumber(value.try_get_u32().ok()?),
            response_sequence_number: SequenceNumber(value.try_get_u32().ok()?),
            last_assigned_tsn: Tsn(value.try_get_u32().ok()?),
            streams: StreamList::read(value)?,
        })
    }

    pub(super) fn write(&self, buffer: &mut BytesMut) {
        buffer.put_u32(self.request_sequence_number.0);
        buffer.put_u32(self.response_sequence_number.0);
        buffer.put_u32(self.last_assigned_tsn.0);
        buffer.put_slice(self.streams.as_bytes());
    }
}

impl<'a> IncomingSsnResetRequest<'a> {
    pub(super) fn read(mut value: &'a [u8]) -> Option<IncomingSsnResetRequest<'a>> {
        Some(IncomingSsnResetRequest {
            request_sequence_number: SequenceNumber(value.try_get_u32().ok()?),
            streams: StreamList::read(value)?,
        })
    }

    pub(super) fn write(&self, buffer: &mut BytesMut) {
        buffer.put_u32(self.request_sequence_number.0);
        buffer.put_slice(self.streams.as_bytes());
    }
}

impl ReConfigResponse {
    pub(super) fn read(mut value: &[u8]) -> Option<ReConfigResponse> {
        let response_sequence_number = SequenceNumber(value.try_get_u32().ok()?);
        let result = ReConfigResult(value.try_get_u32().ok()?);
        let next_tsns = match value {
            [] => None,
            &[a, b, c, d, e, f, g, h] => Some(NextTsns {
                sender: Tsn(u32::from_be_bytes([a, b, c, d])),
                receiver: Tsn(u32::from_be_bytes([e, f, g, h])),
            }),
            _ => return None,
        };
        Some(ReConfigResponse {
            response_sequence_number,
            result,
            next_tsns,
        })
    }

    pub(super) fn write(&self, buffer: &mut BytesMut) {
        buffer.put_u32(self.response_sequence_number.0);
        buffer.put_u32(self.result.0);
        if let Some(next_tsns) = self.next_tsns {
            buffer.put_u32(next_tsns.sender.0);
            buffer.put_u32(next_tsns.receiver.0);
        }
    }
}

impl AddStreamsRequest {
    pub(super) fn read(value: &[u8]) -> Option<AddStreamsRequest> {
        let &[a, b, c, d, e, f, _, _] = value else {
            return None;
        };
        Some(AddStreamsRequest {
            request_sequence_number: SequenceNumber(u32::from_be_bytes([a, b, c, d])),
            new_streams: u16::from_be_bytes([e, f]),
        })
    }

    pub(super) fn write(&self, buffer: &mut BytesMut) {
        buffer.put_u32(self.request_sequence_number.0);
        buffer.put_u16(self.new_streams);
        buffer.put_u16(0);
    }
}
