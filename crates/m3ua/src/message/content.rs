//! What messages contain, and how it is read and written.

use bytes::Bytes;

use super::codes::{ErrorCode, ServiceIndicator, Status, TrafficMode, UnavailabilityCause};
use super::error::ReadError;
use super::parameter::{ParameterSet, ParameterWriter, masked_point_code, masked_word, tag};
use crate::{MaskedPointCode, PointCode};

/// Octets of Protocol Data before the user's.
const ROUTING_LABEL_LENGTH: usize = 12;

/// The longest user data of a DATA message: its parameter's length has 16 bits.
pub const MAX_USER_DATA_LENGTH: usize = 0xffff - 4 - ROUTING_LABEL_LENGTH;

/// The content of an Error message (section 3.8.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// What is wrong.
    pub code: ErrorCode,
    /// The routing contexts concerned; empty: not said.
    pub routing_contexts: Vec<u32>,
    /// The point codes concerned; empty: not said.
    pub affected: Vec<MaskedPointCode>,
    /// The network appearance concerned.
    pub network_appearance: Option<u32>,
    /// The beginning of the offending message, or anything else that helps.
    pub diagnostic: Option<Bytes>,
}

/// The content of a Notify message (section 3.8.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// What is reported.
    pub status: Status,
    /// The ASP concerned.
    pub asp_identifier: Option<u32>,
    /// The application servers concerned; empty: all of the receiver's.
    pub routing_contexts: Vec<u32>,
    /// A text for people.
    pub info: Option<Bytes>,
}

/// The content of a DATA message (section 3.3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The SS7 network that the message belongs to.
    pub network_appearance: Option<u32>,
    /// The traffic flow that the message belongs to.
    pub routing_context: Option<u32>,
    /// The message of the MTP3 user.
    pub protocol_data: ProtocolData,
    /// Names the message within its application server.
    pub correlation_id: Option<u32>,
}

/// A message of an MTP3 user with its routing label (section 3.3.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProtocolData {
    /// Originating Point Code.
    pub opc: PointCode,
    /// Destination Point Code.
    pub dpc: PointCode,
    /// Service Indicator: the MTP3 user.
    pub service_indicator: u8,
    /// Network Indicator.
    pub network_indicator: u8,
    /// Message Priority.
    pub message_priority: u8,
    /// Signalling Link Selection: messages with the same one stay in order.
    pub sls: u8,
    /// What follows the routing label.
    pub user_data: Bytes,
}

/// The content of DUNA, DAVA, DAUD and DRST (section 3.4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destinations {
    /// The SS7 network.
    pub network_appearance: Option<u32>,
    /// The traffic flows concerned; empty: all.
    pub routing_contexts: Vec<u32>,
    /// The destinations.
    pub affected: Vec<MaskedPointCode>,
    /// A text for people.
    pub info: Option<Bytes>,
}

/// The content of SCON (section 3.4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignallingCongestion {
    /// The congested destinations.
    pub destinations: Destinations,
    /// From an ASP: whose message was too much.
    pub concerned: Option<PointCode>,
    /// 0 to 3; none where the network has no levels.
    pub level: Option<u8>,
}

/// The content of DUPU (section 3.4.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPartUnavailable {
    /// The SS7 network.
    pub network_appearance: Option<u32>,
    /// The traffic flows concerned; empty: all.
    pub routing_contexts: Vec<u32>,
    /// The node of the user part.
    pub affected: PointCode,
    /// The user part.
    pub user: ServiceIndicator,
    /// Why it is unavailable.
    pub cause: UnavailabilityCause,
    /// A text for people.
    pub info: Option<Bytes>,
}

/// The content of ASP Up and its acknowledgement (sections 3.5.1 and 3.5.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AspUp {
    /// Names the ASP among those of its application servers.
    pub asp_identifier: Option<u32>,
    /// A text for people.
    pub info: Option<Bytes>,
}

/// The content of ASP Down and its acknowledgement (sections 3.5.3 and 3.5.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AspDown {
    /// A text for people.
    pub info: Option<Bytes>,
}

/// The content of ASP Active and its acknowledgement (sections 3.7.1 and 3.7.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AspActive {
    /// How the ASPs share the traffic.
    pub traffic_mode: Option<TrafficMode>,
    /// The application servers; empty: all that the ASP is configured for.
    pub routing_contexts: Vec<u32>,
    /// A text for people.
    pub info: Option<Bytes>,
}

/// The content of ASP Inactive and its acknowledgement (sections 3.7.3 and 3.7.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AspInactive {
    /// The application servers; empty: all that the ASP is configured for.
    pub routing_contexts: Vec<u32>,
    /// A text for people.
    pub info: Option<Bytes>,
}

impl ErrorMessage {
    /// An error without details.
    pub fn new(code: ErrorCode) -> ErrorMessage {
        ErrorMessage {
            code,
            routing_contexts: Vec::new(),
            affected: Vec::new(),
            network_appearance: None,
            diagnostic: None,
        }
    }
}

pub(super) fn write_contexts(writer: &mut ParameterWriter<'_>, contexts: &[u32]) {
    writer.numbers(tag::ROUTING_CONTEXT, contexts.iter().copied());
}

impl ErrorMessage {
    pub(super) fn read(set: &ParameterSet<'_>, bytes: &Bytes) -> Result<ErrorMessage, ReadError> {
        let affected = set.numbers(tag::AFFECTED_POINT_CODE)?;
        Ok(ErrorMessage {
            code: ErrorCode(set.mandatory_number(tag::ERROR_CODE)?),
            routing_contexts: set.numbers(tag::ROUTING_CONTEXT)?,
            affected: affected.into_iter().map(masked_point_code).collect(),
            network_appearance: set.number(tag::NETWORK_APPEARANCE)?,
            diagnostic: set.octets(bytes, tag::DIAGNOSTIC_INFORMATION),
        })
    }

    pub(super) fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.number(tag::ERROR_CODE, self.code.0);
        write_contexts(writer, &self.routing_contexts);
        writer.point_codes(tag::AFFECTED_POINT_CODE, &self.affected);
        writer.optional_number(tag::NETWORK_APPEARANCE, self.network_appearance);
        writer.optional_octets(tag::DIAGNOSTIC_INFORMATION, self.diagnostic.as_ref());
    }
}

impl Notify {
    pub(super) fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.number(tag::STATUS, self.status.0);
        writer.optional_number(tag::ASP_IDENTIFIER, self.asp_identifier);
        write_contexts(writer, &self.routing_contexts);
        writer.optional_octets(tag::INFO_STRING, self.info.as_ref());
    }
}

impl Data {
    pub(super) fn read(set: &ParameterSet<'_>, bytes: &Bytes) -> Result<Data, ReadError> {
        let value = set.value(tag::PROTOCOL_DATA);
        let value = value.ok_or(ReadError::Missing(tag::PROTOCOL_DATA))?;
        Ok(Data {
            network_appearance: set.number(tag::NETWORK_APPEARANCE)?,
            routing_context: set.number(tag::ROUTING_CONTEXT)?,
            protocol_data: ProtocolData::read(value, bytes)?,
            correlation_id: set.number(tag::CORRELATION_ID)?,
        })
    }

    /// Network Appearance comes first, as it says how to read the rest (section 3.3.1).
    pub(super) fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.optional_number(tag::NETWORK_APPEARANCE, self.network_appearance);
        writer.optional_number(tag::ROUTING_CONTEXT, self.routing_context);
        self.protocol_data.write(writer);
        writer.optional_number(tag::CORRELATION_ID, self.correlation_id);
    }
}

impl ProtocolData {
    pub(super) fn read(value: &[u8], bytes: &Bytes) -> Result<ProtocolData, ReadError> {
        let wrong_length = ReadError::ParameterLength(tag::PROTOCOL_DATA);
        let (label, user_data) = value
            .split_first_chunk::<ROUTING_LABEL_LENGTH>()
            .ok_or(wrong_length)?;
        let [o0, o1, o2, o3, d0, d1, d2, d3, si, ni, mp, sls] = *label;
        let point_code = |octets| {
            let point_code = PointCode::new(u32::from_be_bytes(octets));
            point_code.ok_or(ReadError::Value(tag::PROTOCOL_DATA))
        };
        Ok(ProtocolData {
            opc: point_code([o0, o1, o2, o3])?,
            dpc: point_code([d0, d1, d2, d3])?,
            service_indicator: si,
            network_indicator: ni,
            message_priority: mp,
            sls,
            user_data: bytes.slice_ref(user_data),
        })
    }

    pub(super) fn write(&self, writer: &mut ParameterWriter<'_>) {
        let (opc, dpc) = (
            self.opc.value().to_be_bytes(),
            self.dpc.value().to_be_bytes(),
        );
        let rest = [
            self.service_indicator,
            self.network_indicator,
            self.message_priority,
            self.sls,
        ];
        writer.pieces(tag::PROTOCOL_DATA, &[&opc, &dpc, &rest, &self.user_data]);
    }
}

impl Destinations {
    /// Without the INFO String, which comes last.
    pub(super) fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.optional_number(tag::NETWORK_APPEARANCE, self.network_appearance);
        write_contexts(writer, &self.routing_contexts);
        writer.point_codes(tag::AFFECTED_POINT_CODE, &self.affected);
    }
}

impl SignallingCongestion {
    pub(super) fn read(
        set: &ParameterSet<'_>,
        destinations: Destinations,
    ) -> Result<SignallingCongestion, ReadError> {
        let concerned = set.number(tag::CONCERNED_DESTINATION)?;
        let level = set.number(tag::CONGESTION_INDICATIONS)?;
        Ok(SignallingCongestion {
            destinations,
            // The octet before the point code is reserved.
            concerned: concerned.map(|word| masked_point_code(word).point_code),
            // As are the three before the level.
            level: level.map(|word| word.to_be_bytes()[3]),
        })
    }

    pub(super) fn write(&self, writer: &mut ParameterWriter<'_>) {
        self.destinations.write(writer);
        let concerned = self.concerned.map(|it| masked_word(it.into()));
        writer.optional_number(tag::CONCERNED_DESTINATION, concerned);
        writer.optional_number(tag::CONGESTION_INDICATIONS, self.level.map(u32::from));
        writer.optional_octets(tag::INFO_STRING, self.destinations.info.as_ref());
    }
}

impl UserPartUnavailable {
    pub(super) fn read(
        set: &ParameterSet<'_>,
        destinations: Destinations,
    ) -> Result<UserPartUnavailable, ReadError> {
        let word = set.mandatory_number(tag::USER_CAUSE)?;
        // One destination, without a mask (section 3.4.5).
        let [
            MaskedPointCode {
                mask: 0,
                point_code,
            },
        ] = destinations.affected[..]
        else {
            return Err(ReadError::Value(tag::AFFECTED_POINT_CODE));
        };
        Ok(UserPartUnavailable {
            network_appearance: destinations.network_appearance,
            routing_contexts: destinations.routing_contexts,
            affected: point_code,
            user: ServiceIndicator(word & 0xffff),
            cause: UnavailabilityCause(word >> 16),
            info: destinations.info,
        })
    }

    pub(super) fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.optional_number(tag::NETWORK_APPEARANCE, self.network_appearance);
        write_contexts(writer, &self.routing_contexts);
        writer.point_codes(tag::AFFECTED_POINT_CODE, &[self.affected.into()]);
        let word = self.cause.0 << 16 | self.user.0 & 0xffff;
        writer.number(tag::USER_CAUSE, word);
        writer.optional_octets(tag::INFO_STRING, self.info.as_ref());
    }
}
