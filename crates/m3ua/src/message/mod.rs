//! The wire format: every message of RFC 4666 section 3, read leniently and written strictly.
//!
//! Leniently: parameters come in any order, those that we do not know are passed over, the last padding may be missing, and
//! reserved octets are not looked at. What is wrong for sure is a [`ReadError`], which knows its code in an Error message.

mod codes;
mod error;
mod parameter;
mod routing_key;
#[cfg(test)]
pub(crate) mod tests;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{MaskedPointCode, PointCode};
pub use codes::{
    DeregistrationStatus, ErrorCode, RegistrationStatus, ServiceIndicator, Status, TrafficMode,
    UnavailabilityCause,
};
pub use error::{ReadError, TooLong};
use parameter::{ParameterSet, ParameterWriter, masked_point_code, masked_word, tag, u16_at};
pub use routing_key::{DeregistrationResult, RegistrationResult, RoutingKey, TrafficSelection};

/// The payload protocol identifier of M3UA in SCTP (section 7.1).
pub const PAYLOAD_PROTOCOL_IDENTIFIER: u32 = 3;

/// The port that SGPs listen on (section 7.2).
pub const PORT: u16 = 2905;

/// The version that we speak (section 3.1.1).
const VERSION: u8 = 1;

/// The common header (section 3.1).
const HEADER_LENGTH: usize = 8;

/// Octets of Protocol Data before the user's.
const ROUTING_LABEL_LENGTH: usize = 12;

/// The longest user data of a DATA message: its parameter's length has 16 bits.
pub const MAX_USER_DATA_LENGTH: usize = 0xffff - 4 - ROUTING_LABEL_LENGTH;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Error (ERR).
    Error(ErrorMessage),
    /// Notify (NTFY).
    Notify(Notify),
    /// Payload Data (DATA).
    Data(Data),
    /// Destination Unavailable.
    Duna(Destinations),
    /// Destination Available.
    Dava(Destinations),
    /// Destination State Audit.
    Daud(Destinations),
    /// Signalling Congestion.
    Scon(SignallingCongestion),
    /// Destination User Part Unavailable.
    Dupu(UserPartUnavailable),
    /// Destination Restricted.
    Drst(Destinations),
    /// ASP Up.
    AspUp(AspUp),
    /// ASP Down.
    AspDown(AspDown),
    /// Heartbeat: its Heartbeat Data.
    Beat(Option<Bytes>),
    /// ASP Up Acknowledgement.
    AspUpAck(AspUp),
    /// ASP Down Acknowledgement.
    AspDownAck(AspDown),
    /// Heartbeat Acknowledgement.
    BeatAck(Option<Bytes>),
    /// ASP Active.
    AspActive(AspActive),
    /// ASP Inactive.
    AspInactive(AspInactive),
    /// ASP Active Acknowledgement.
    AspActiveAck(AspActive),
    /// ASP Inactive Acknowledgement.
    AspInactiveAck(AspInactive),
    /// Registration Request.
    RegReq(Vec<RoutingKey>),
    /// Registration Response.
    RegRsp(Vec<RegistrationResult>),
    /// Deregistration Request: the routing contexts.
    DeregReq(Vec<u32>),
    /// Deregistration Response.
    DeregRsp(Vec<DeregistrationResult>),
}

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

impl Message {
    /// Reads the user message of an SCTP association. Parts of it stay shared with what is read.
    pub fn read(bytes: &Bytes) -> Result<Message, ReadError> {
        let (header, parameters) = split(bytes)?;
        let [version, _reserved, class, message_type, ..] = header else {
            return Err(ReadError::CutShort);
        };
        if *version != VERSION {
            return Err(ReadError::Version(*version));
        }
        // The class and type come first: of a message that we do not know we do not judge the parameters.
        let kind = Kind::known(*class, *message_type)?;
        let set = ParameterSet::read(parameters)?;
        read_content(kind, &set, bytes)
    }

    /// Writes it, or says which parameter does not fit.
    pub fn write(&self) -> Result<Bytes, TooLong> {
        let mut buffer = BytesMut::with_capacity(self.expected_length());
        let kind = self.kind();
        let (class, message_type) = kind.numbers();
        buffer.put_slice(&[VERSION, 0, class, message_type, 0, 0, 0, 0]);
        let mut writer = ParameterWriter::new(&mut buffer);
        self.write_parameters(&mut writer);
        if let Some(tag) = writer.too_long() {
            return Err(TooLong(tag));
        }
        let length = u32::try_from(buffer.len()).map_err(|_| TooLong(0))?;
        if let Some(field) = buffer.get_mut(4..HEADER_LENGTH) {
            field.copy_from_slice(&length.to_be_bytes());
        }
        Ok(buffer.freeze())
    }

    /// Its name as RFC 4666 abbreviates it.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Its class and type.
    pub fn kind(&self) -> Kind {
        match self {
            Message::Error(_) => Kind::Error,
            Message::Notify(_) => Kind::Notify,
            Message::Data(_) => Kind::Data,
            Message::Duna(_) => Kind::Duna,
            Message::Dava(_) => Kind::Dava,
            Message::Daud(_) => Kind::Daud,
            Message::Scon(_) => Kind::Scon,
            Message::Dupu(_) => Kind::Dupu,
            Message::Drst(_) => Kind::Drst,
            Message::AspUp(_) => Kind::AspUp,
            Message::AspDown(_) => Kind::AspDown,
            Message::Beat(_) => Kind::Beat,
            Message::AspUpAck(_) => Kind::AspUpAck,
            Message::AspDownAck(_) => Kind::AspDownAck,
            Message::BeatAck(_) => Kind::BeatAck,
            Message::AspActive(_) => Kind::AspActive,
            Message::AspInactive(_) => Kind::AspInactive,
            Message::AspActiveAck(_) => Kind::AspActiveAck,
            Message::AspInactiveAck(_) => Kind::AspInactiveAck,
            Message::RegReq(_) => Kind::RegReq,
            Message::RegRsp(_) => Kind::RegRsp,
            Message::DeregReq(_) => Kind::DeregReq,
            Message::DeregRsp(_) => Kind::DeregRsp,
        }
    }

    /// About as many octets as it takes.
    fn expected_length(&self) -> usize {
        match self {
            Message::Data(data) => data.protocol_data.user_data.len() + 64,
            _ => 64,
        }
    }

    fn write_parameters(&self, writer: &mut ParameterWriter<'_>) {
        match self {
            Message::Error(error) => error.write(writer),
            Message::Notify(notify) => notify.write(writer),
            Message::Data(data) => data.write(writer),
            Message::Duna(destinations)
            | Message::Dava(destinations)
            | Message::Daud(destinations)
            | Message::Drst(destinations) => {
                destinations.write(writer);
                writer.optional_octets(tag::INFO_STRING, destinations.info.as_ref());
            }
            Message::Scon(congestion) => congestion.write(writer),
            Message::Dupu(unavailable) => unavailable.write(writer),
            Message::AspUp(up) | Message::AspUpAck(up) => {
                writer.optional_number(tag::ASP_IDENTIFIER, up.asp_identifier);
                writer.optional_octets(tag::INFO_STRING, up.info.as_ref());
            }
            Message::AspDown(down) | Message::AspDownAck(down) => {
                writer.optional_octets(tag::INFO_STRING, down.info.as_ref());
            }
            Message::Beat(data) | Message::BeatAck(data) => {
                writer.optional_octets(tag::HEARTBEAT_DATA, data.as_ref());
            }
            Message::AspActive(active) | Message::AspActiveAck(active) => {
                let mode = active.traffic_mode.map(|TrafficMode(mode)| mode);
                writer.optional_number(tag::TRAFFIC_MODE_TYPE, mode);
                write_contexts(writer, &active.routing_contexts);
                writer.optional_octets(tag::INFO_STRING, active.info.as_ref());
            }
            Message::AspInactive(inactive) | Message::AspInactiveAck(inactive) => {
                write_contexts(writer, &inactive.routing_contexts);
                writer.optional_octets(tag::INFO_STRING, inactive.info.as_ref());
            }
            Message::RegReq(keys) => keys.iter().for_each(|key| key.write(writer)),
            Message::RegRsp(results) => results.iter().for_each(|result| result.write(writer)),
            Message::DeregReq(contexts) => write_contexts(writer, contexts),
            Message::DeregRsp(results) => results.iter().for_each(|result| result.write(writer)),
        }
    }
}

/// The header and the parameters. The length may leave out the last padding (section 3.1.4).
fn split(bytes: &Bytes) -> Result<(&[u8], &[u8]), ReadError> {
    let header = bytes.split_at_checked(HEADER_LENGTH);
    let (header, parameters) = header.ok_or(ReadError::CutShort)?;
    let word = u32::from(u16_at(header, 4)) << 16 | u32::from(u16_at(header, 6));
    let wrong = ReadError::MessageLength(word);
    let length = usize::try_from(word).map_err(|_| wrong.clone())?;
    let padded = length.checked_next_multiple_of(4);
    let is_right = length >= HEADER_LENGTH && length <= bytes.len() && padded >= Some(bytes.len());
    match is_right {
        true => Ok((header, parameters)),
        false => Err(wrong),
    }
}

fn read_content(kind: Kind, set: &ParameterSet<'_>, bytes: &Bytes) -> Result<Message, ReadError> {
    let info = || set.octets(bytes, tag::INFO_STRING);
    let contexts = || set.numbers(tag::ROUTING_CONTEXT);
    let destinations = || {
        Ok::<_, ReadError>(Destinations {
            network_appearance: set.number(tag::NETWORK_APPEARANCE)?,
            routing_contexts: contexts()?,
            affected: set.affected()?,
            info: info(),
        })
    };
    let up = || {
        Ok::<_, ReadError>(AspUp {
            asp_identifier: set.number(tag::ASP_IDENTIFIER)?,
            info: info(),
        })
    };
    let active = || {
        Ok::<_, ReadError>(AspActive {
            traffic_mode: set.number(tag::TRAFFIC_MODE_TYPE)?.map(TrafficMode),
            routing_contexts: contexts()?,
            info: info(),
        })
    };
    let inactive = || {
        Ok::<_, ReadError>(AspInactive {
            routing_contexts: contexts()?,
            info: info(),
        })
    };
    Ok(match kind {
        Kind::Error => Message::Error(ErrorMessage::read(set, bytes)?),
        Kind::Notify => Message::Notify(Notify {
            status: Status(set.mandatory_number(tag::STATUS)?),
            asp_identifier: set.number(tag::ASP_IDENTIFIER)?,
            routing_contexts: contexts()?,
            info: info(),
        }),
        Kind::Data => Message::Data(Data::read(set, bytes)?),
        Kind::Duna => Message::Duna(destinations()?),
        Kind::Dava => Message::Dava(destinations()?),
        Kind::Daud => Message::Daud(destinations()?),
        Kind::Drst => Message::Drst(destinations()?),
        Kind::Scon => Message::Scon(SignallingCongestion::read(set, destinations()?)?),
        Kind::Dupu => Message::Dupu(UserPartUnavailable::read(set, destinations()?)?),
        Kind::AspUp => Message::AspUp(up()?),
        Kind::AspUpAck => Message::AspUpAck(up()?),
        Kind::AspDown => Message::AspDown(AspDown { info: info() }),
        Kind::AspDownAck => Message::AspDownAck(AspDown { info: info() }),
        Kind::Beat => Message::Beat(set.octets(bytes, tag::HEARTBEAT_DATA)),
        Kind::BeatAck => Message::BeatAck(set.octets(bytes, tag::HEARTBEAT_DATA)),
        Kind::AspActive => Message::AspActive(active()?),
        Kind::AspActiveAck => Message::AspActiveAck(active()?),
        Kind::AspInactive => Message::AspInactive(inactive()?),
        Kind::AspInactiveAck => Message::AspInactiveAck(inactive()?),
        Kind::RegReq => {
            let keys = set.routing_keys().iter().map(|key| RoutingKey::read(key));
            Message::RegReq(some(keys, tag::ROUTING_KEY)?)
        }
        Kind::RegRsp => {
            let results = set.results(tag::REGISTRATION_RESULT);
            let results = results.map(RegistrationResult::read);
            Message::RegRsp(some(results, tag::REGISTRATION_RESULT)?)
        }
        Kind::DeregReq => {
            let contexts = contexts()?.into_iter().map(Ok);
            Message::DeregReq(some(contexts, tag::ROUTING_CONTEXT)?)
        }
        Kind::DeregRsp => {
            let results = set.results(tag::DEREGISTRATION_RESULT);
            let results = results.map(DeregistrationResult::read);
            Message::DeregRsp(some(results, tag::DEREGISTRATION_RESULT)?)
        }
    })
}

/// All, of which there must be one.
fn some<T>(all: impl Iterator<Item = Result<T, ReadError>>, tag: u16) -> Result<Vec<T>, ReadError> {
    let all = all.collect::<Result<Vec<T>, ReadError>>()?;
    match all.is_empty() {
        true => Err(ReadError::Missing(tag)),
        false => Ok(all),
    }
}

fn write_contexts(writer: &mut ParameterWriter<'_>, contexts: &[u32]) {
    writer.numbers(tag::ROUTING_CONTEXT, contexts.iter().copied());
}

impl ErrorMessage {
    fn read(set: &ParameterSet<'_>, bytes: &Bytes) -> Result<ErrorMessage, ReadError> {
        let affected = set.numbers(tag::AFFECTED_POINT_CODE)?;
        Ok(ErrorMessage {
            code: ErrorCode(set.mandatory_number(tag::ERROR_CODE)?),
            routing_contexts: set.numbers(tag::ROUTING_CONTEXT)?,
            affected: affected.into_iter().map(masked_point_code).collect(),
            network_appearance: set.number(tag::NETWORK_APPEARANCE)?,
            diagnostic: set.octets(bytes, tag::DIAGNOSTIC_INFORMATION),
        })
    }

    fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.number(tag::ERROR_CODE, self.code.0);
        write_contexts(writer, &self.routing_contexts);
        writer.point_codes(tag::AFFECTED_POINT_CODE, &self.affected);
        writer.optional_number(tag::NETWORK_APPEARANCE, self.network_appearance);
        writer.optional_octets(tag::DIAGNOSTIC_INFORMATION, self.diagnostic.as_ref());
    }
}

impl Notify {
    fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.number(tag::STATUS, self.status.0);
        writer.optional_number(tag::ASP_IDENTIFIER, self.asp_identifier);
        write_contexts(writer, &self.routing_contexts);
        writer.optional_octets(tag::INFO_STRING, self.info.as_ref());
    }
}

impl Data {
    fn read(set: &ParameterSet<'_>, bytes: &Bytes) -> Result<Data, ReadError> {
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
    fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.optional_number(tag::NETWORK_APPEARANCE, self.network_appearance);
        writer.optional_number(tag::ROUTING_CONTEXT, self.routing_context);
        self.protocol_data.write(writer);
        writer.optional_number(tag::CORRELATION_ID, self.correlation_id);
    }
}

impl ProtocolData {
    fn read(value: &[u8], bytes: &Bytes) -> Result<ProtocolData, ReadError> {
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

    fn write(&self, writer: &mut ParameterWriter<'_>) {
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
    fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.optional_number(tag::NETWORK_APPEARANCE, self.network_appearance);
        write_contexts(writer, &self.routing_contexts);
        writer.point_codes(tag::AFFECTED_POINT_CODE, &self.affected);
    }
}

impl SignallingCongestion {
    fn read(
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

    fn write(&self, writer: &mut ParameterWriter<'_>) {
        self.destinations.write(writer);
        let concerned = self.concerned.map(|it| masked_word(it.into()));
        writer.optional_number(tag::CONCERNED_DESTINATION, concerned);
        writer.optional_number(tag::CONGESTION_INDICATIONS, self.level.map(u32::from));
        writer.optional_octets(tag::INFO_STRING, self.destinations.info.as_ref());
    }
}

impl UserPartUnavailable {
    fn read(
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

    fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.optional_number(tag::NETWORK_APPEARANCE, self.network_appearance);
        write_contexts(writer, &self.routing_contexts);
        writer.point_codes(tag::AFFECTED_POINT_CODE, &[self.affected.into()]);
        let word = self.cause.0 << 16 | self.user.0 & 0xffff;
        writer.number(tag::USER_CAUSE, word);
        writer.optional_octets(tag::INFO_STRING, self.info.as_ref());
    }
}

/// Declares the kinds of messages with class, type and abbreviation (section 3.1.2).
macro_rules! kinds {
    ($($kind:ident = ($class:literal, $message_type:literal, $name:literal),)*) => {
        /// Class and type of a message (section 3.1.2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(
                #[doc = $name]
                $kind,
            )*
        }

        impl Kind {
            /// All of them, in order of class and type.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// Class and type as they are in the header.
            pub fn numbers(self) -> (u8, u8) {
                match self {
                    $(Kind::$kind => ($class, $message_type),)*
                }
            }

            /// Its abbreviation in RFC 4666.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }

            fn known(class: u8, message_type: u8) -> Result<Kind, ReadError> {
                match (class, message_type) {
                    $(($class, $message_type) => Ok(Kind::$kind),)*
                    (0..=4 | 9, _) => Err(ReadError::Type { class, message_type }),
                    _ => Err(ReadError::Class(class)),
                }
            }
        }
    };
}

kinds! {
    Error = (0, 0, "ERR"),
    Notify = (0, 1, "NTFY"),
    Data = (1, 1, "DATA"),
    Duna = (2, 1, "DUNA"),
    Dava = (2, 2, "DAVA"),
    Daud = (2, 3, "DAUD"),
    Scon = (2, 4, "SCON"),
    Dupu = (2, 5, "DUPU"),
    Drst = (2, 6, "DRST"),
    AspUp = (3, 1, "ASPUP"),
    AspDown = (3, 2, "ASPDN"),
    Beat = (3, 3, "BEAT"),
    AspUpAck = (3, 4, "ASPUP ACK"),
    AspDownAck = (3, 5, "ASPDN ACK"),
    BeatAck = (3, 6, "BEAT ACK"),
    AspActive = (4, 1, "ASPAC"),
    AspInactive = (4, 2, "ASPIA"),
    AspActiveAck = (4, 3, "ASPAC ACK"),
    AspInactiveAck = (4, 4, "ASPIA ACK"),
    RegReq = (9, 1, "REG REQ"),
    RegRsp = (9, 2, "REG RSP"),
    DeregReq = (9, 3, "DEREG REQ"),
    DeregRsp = (9, 4, "DEREG RSP"),
}
