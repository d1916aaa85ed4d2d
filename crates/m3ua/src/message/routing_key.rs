//! Routing keys on the wire, and the results of their registration (RFC 4666 section 3.6).

use super::codes::{DeregistrationStatus, RegistrationStatus, TrafficMode};
use super::error::ReadError;
use super::parameter::{Parameter, ParameterWriter, Parameters, masked_point_code, number, tag};
use crate::MaskedPointCode;

/// A routing key that an ASP asks to be registered (section 3.6.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingKey {
    /// What the answer refers to, chosen by the ASP.
    pub local_rk_identifier: u32,
    /// The routing context of a key that is to be changed.
    pub routing_context: Option<u32>,
    /// How the ASPs are to share the traffic.
    pub traffic_mode: Option<TrafficMode>,
    /// The network that the key belongs to.
    pub network_appearance: Option<u32>,
    /// The traffic, as a union. The RFC makes one of it mandatory; a key without is answered "Invalid DPC".
    pub selections: Vec<TrafficSelection>,
    /// The tag of a parameter in the key that RFC 4666 does not have, such as the circuit range of RFC 3332.
    pub unsupported_parameter: Option<u16>,
}

/// A part of the traffic of a routing key: a destination, and which of its traffic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrafficSelection {
    /// The destination; the RFC has a mask of 0 here.
    pub dpc: MaskedPointCode,
    /// The MTP3 users; empty: all but management.
    pub service_indicators: Vec<u8>,
    /// The originating points; empty: all.
    pub opcs: Vec<MaskedPointCode>,
}

/// What became of a registration (section 3.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationResult {
    /// The request's.
    pub local_rk_identifier: u32,
    /// Whether it succeeded, or why not.
    pub status: RegistrationStatus,
    /// The routing context of the key; 0 if there is none.
    pub routing_context: u32,
}

/// What became of a deregistration (section 3.6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeregistrationResult {
    /// The request's.
    pub routing_context: u32,
    /// Whether it succeeded, or why not.
    pub status: DeregistrationStatus,
}

impl RoutingKey {
    pub(super) fn read(bytes: &[u8]) -> Result<RoutingKey, ReadError> {
        let mut local_rk_identifier = None;
        let mut key = RoutingKey {
            local_rk_identifier: 0,
            routing_context: None,
            traffic_mode: None,
            network_appearance: None,
            selections: Vec::new(),
            unsupported_parameter: None,
        };
        // Users and originating points belong to the destination before them.
        for parameter in Parameters::new(bytes) {
            let Parameter { tag, value } = parameter?;
            match tag {
                tag::LOCAL_ROUTING_KEY_IDENTIFIER => {
                    once(&mut local_rk_identifier, tag, number(tag, value)?)?;
                }
                tag::ROUTING_CONTEXT => once(&mut key.routing_context, tag, number(tag, value)?)?,
                tag::TRAFFIC_MODE_TYPE => {
                    let mode = TrafficMode(number(tag, value)?);
                    once(&mut key.traffic_mode, tag, mode)?;
                }
                tag::NETWORK_APPEARANCE => {
                    once(&mut key.network_appearance, tag, number(tag, value)?)?;
                }
                tag::DESTINATION_POINT_CODE => key.selections.push(TrafficSelection {
                    dpc: masked_point_code(number(tag, value)?),
                    service_indicators: Vec::new(),
                    opcs: Vec::new(),
                }),
                tag::SERVICE_INDICATORS => {
                    let selection = key.selections.last_mut();
                    let selection = selection.ok_or(ReadError::Misplaced(tag))?;
                    selection.service_indicators.extend(value);
                }
                tag::ORIGINATING_POINT_CODE_LIST => {
                    let selection = key.selections.last_mut();
                    let selection = selection.ok_or(ReadError::Misplaced(tag))?;
                    let (words, rest) = value.as_chunks::<4>();
                    if !rest.is_empty() {
                        return Err(ReadError::ParameterLength(tag));
                    }
                    let words = words.iter().map(|word| u32::from_be_bytes(*word));
                    selection.opcs.extend(words.map(masked_point_code));
                }
                unknown => key.unsupported_parameter = Some(unknown),
            }
        }
        let missing = ReadError::Missing(tag::LOCAL_ROUTING_KEY_IDENTIFIER);
        key.local_rk_identifier = local_rk_identifier.ok_or(missing)?;
        Ok(key)
    }

    pub(super) fn write(&self, writer: &mut ParameterWriter<'_>) {
        writer.nested(tag::ROUTING_KEY, |writer| {
            writer.number(tag::LOCAL_ROUTING_KEY_IDENTIFIER, self.local_rk_identifier);
            writer.optional_number(tag::ROUTING_CONTEXT, self.routing_context);
            writer.optional_number(
                tag::TRAFFIC_MODE_TYPE,
                self.traffic_mode.map(|TrafficMode(mode)| mode),
            );
            writer.optional_number(tag::NETWORK_APPEARANCE, self.network_appearance);
            for selection in &self.selections {
                writer.point_codes(tag::DESTINATION_POINT_CODE, &[selection.dpc]);
                if !selection.service_indicators.is_empty() {
                    writer.octets(tag::SERVICE_INDICATORS, &selection.service_indicators);
                }
                writer.point_codes(tag::ORIGINATING_POINT_CODE_LIST, &selection.opcs);
            }
            if let Some(unsupported) = self.unsupported_parameter {
                writer.octets(unsupported, &[]);
            }
        });
    }
}

impl RegistrationResult {
    pub(super) fn read(bytes: &[u8]) -> Result<RegistrationResult, ReadError> {
        let numbers = nested_numbers(bytes)?;
        Ok(RegistrationResult {
            local_rk_identifier: find(&numbers, tag::LOCAL_ROUTING_KEY_IDENTIFIER)?,
            status: RegistrationStatus(find(&numbers, tag::REGISTRATION_STATUS)?),
            routing_context: find(&numbers, tag::ROUTING_CONTEXT)?,
        })
    }

    pub(super) fn write(self, writer: &mut ParameterWriter<'_>) {
        writer.nested(tag::REGISTRATION_RESULT, |writer| {
            writer.number(tag::LOCAL_ROUTING_KEY_IDENTIFIER, self.local_rk_identifier);
            writer.number(tag::REGISTRATION_STATUS, self.status.0);
            writer.number(tag::ROUTING_CONTEXT, self.routing_context);
        });
    }
}

impl DeregistrationResult {
    pub(super) fn read(bytes: &[u8]) -> Result<DeregistrationResult, ReadError> {
        let numbers = nested_numbers(bytes)?;
        Ok(DeregistrationResult {
            routing_context: find(&numbers, tag::ROUTING_CONTEXT)?,
            status: DeregistrationStatus(find(&numbers, tag::DEREGISTRATION_STATUS)?),
        })
    }

    pub(super) fn write(self, writer: &mut ParameterWriter<'_>) {
        writer.nested(tag::DEREGISTRATION_RESULT, |writer| {
            writer.number(tag::ROUTING_CONTEXT, self.routing_context);
            writer.number(tag::DEREGISTRATION_STATUS, self.status.0);
        });
    }
}

/// Takes what may be there once.
fn once<T>(place: &mut Option<T>, tag: u16, value: T) -> Result<(), ReadError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(ReadError::Repeated(tag)),
    }
}

/// The parameters of a result, all of which are numbers. Those of later versions are passed over.
fn nested_numbers(bytes: &[u8]) -> Result<Vec<(u16, u32)>, ReadError> {
    let mut numbers = Vec::new();
    for parameter in Parameters::new(bytes) {
        let Parameter { tag, value } = parameter?;
        if let tag::LOCAL_ROUTING_KEY_IDENTIFIER
        | tag::REGISTRATION_STATUS
        | tag::DEREGISTRATION_STATUS
        | tag::ROUTING_CONTEXT = tag
        {
            numbers.push((tag, number(tag, value)?));
        }
    }
    Ok(numbers)
}

fn find(numbers: &[(u16, u32)], tag: u16) -> Result<u32, ReadError> {
    let found = numbers.iter().find(|(known, _)| *known == tag);
    found
        .map(|(_, value)| *value)
        .ok_or(ReadError::Missing(tag))
}
