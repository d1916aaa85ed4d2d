//! The wire format: every message of RFC 4666 section 3, read leniently and written strictly.
//!
//! Leniently: parameters come in any order, those that we do not know are passed over, the last padding may be missing, and
//! reserved octets are not looked at. What is wrong for sure is a [`ReadError`], which knows its code in an Error message.

mod codes;
mod content;
mod error;
mod kind;
mod parameter;
mod routing_key;
#[cfg(test)]
pub(crate) mod tests;

use bytes::{BufMut, Bytes, BytesMut};

pub use codes::{
    DeregistrationStatus, ErrorCode, RegistrationStatus, ServiceIndicator, Status, TrafficMode,
    UnavailabilityCause,
};
use content::write_contexts;
pub use content::{
    AspActive, AspDown, AspInactive, AspUp, Data, Destinations, ErrorMessage, MAX_USER_DATA_LENGTH,
    Notify, ProtocolData, SignallingCongestion, UserPartUnavailable,
};
pub use error::{ReadError, TooLong};
pub use kind::Kind;
use parameter::{ParameterSet, ParameterWriter, tag, u16_at};
pub use routing_key::{DeregistrationResult, RegistrationResult, RoutingKey, TrafficSelection};

/// The payload protocol identifier of M3UA in SCTP (section 7.1).
pub const PAYLOAD_PROTOCOL_IDENTIFIER: u32 = 3;

/// The port that SGPs listen on (section 7.2).
pub const PORT: u16 = 2905;

/// The version that we speak (section 3.1.1).
const VERSION: u8 = 1;

/// The common header (section 3.1).
const HEADER_LENGTH: usize = 8;

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
