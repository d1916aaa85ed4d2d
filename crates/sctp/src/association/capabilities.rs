//! What the two sides of an association agree on in INIT and INIT ACK (RFC 9260 sections 3.3.2, 3.3.3
//! and 5.1.1): streams, and extensions. An extension is announced by its chunk types in a Supported
//! Extensions parameter (RFC 5061 section 4.2.7), or by a parameter of its own.

use crate::packet::{ChunkType, ChunkTypeList, Init, Parameter, ParameterBuffer, Tlv};
use crate::{AssociationConfig, Extensions};

/// What one side offers, or what both have agreed on, seen from our side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// Streams that we may send on.
    pub(crate) outbound_streams: u16,
    /// Streams that the peer may send on.
    pub(crate) inbound_streams: u16,
    /// Extensions.
    pub(crate) extensions: Extensions,
    /// Adaptation Code Point (RFC 5061 section 4.2.6): in an offer ours, in what was agreed on the peer's.
    pub(crate) adaptation_code_point: Option<u32>,
}

impl Capabilities {
    /// What we offer a peer.
    pub(crate) fn offered(config: &AssociationConfig) -> Capabilities {
        Capabilities {
            outbound_streams: config.outbound_streams,
            inbound_streams: config.max_inbound_streams,
            extensions: Extensions {
                // Only where the carrier is known to protect packets (RFC 9653 section 5.1).
                zero_checksum: accepts_zero_checksum(config),
                ..config.extensions
            },
            adaptation_code_point: config.adaptation_code_point,
        }
    }

    /// What is left of our offer once the peer has said in `init`, its INIT or INIT ACK, what it offers;
    /// `extensions` are those that its parameters announce, and `adaptation_code_point` is there, too.
    pub(crate) fn agreed_with(
        self,
        init: &Init<'_>,
        extensions: Extensions,
        adaptation_code_point: Option<u32>,
    ) -> Capabilities {
        Capabilities {
            outbound_streams: self.outbound_streams.min(init.inbound_streams),
            inbound_streams: self.inbound_streams.min(init.outbound_streams),
            extensions: self.extensions.intersection(extensions),
            adaptation_code_point,
        }
    }
}

/// Whether packets without a checksum are accepted.
pub(crate) fn accepts_zero_checksum(config: &AssociationConfig) -> bool {
    config.extensions.zero_checksum && config.alternate_error_detection.is_some()
}

/// Writes the parameters that announce extensions, other than those with contents of their own, and our
/// adaptation layer.
pub(crate) fn announce(offered: Capabilities, parameters: &mut ParameterBuffer) {
    let extensions = offered.extensions;
    if let Some(code_point) = offered.adaptation_code_point {
        let _ = parameters.push(&Parameter::AdaptationLayerIndication { code_point });
    }
    let chunk_types = chunk_types(extensions);
    if !chunk_types.is_empty() {
        let _ = parameters.push(&Parameter::SupportedExtensions(ChunkTypeList::new(
            &chunk_types,
        )));
    }
    if extensions.partial_reliability {
        let _ = parameters.push(&Parameter::ForwardTsnSupported);
    }
}

/// What a parameter of an INIT or INIT ACK announces; `None` when it announces nothing.
pub(crate) fn announced(parameter: Tlv<'_>) -> Option<Extensions> {
    let mut extensions = Extensions::NONE;
    match Parameter::read(parameter) {
        Ok(Parameter::ForwardTsnSupported) => extensions.partial_reliability = true,
        Ok(Parameter::SupportedExtensions(types)) => {
            let lists = |chunk_type| types.contains(chunk_type);
            extensions.partial_reliability = lists(ChunkType::FORWARD_TSN);
            extensions.authentication = lists(ChunkType::AUTH);
            extensions.address_reconfiguration =
                lists(ChunkType::ASCONF) && lists(ChunkType::ASCONF_ACK);
            extensions.re_configuration = lists(ChunkType::RE_CONFIG);
            extensions.interleaving = lists(ChunkType::I_DATA);
            extensions.nr_sack = lists(ChunkType::NR_SACK);
        }
        _ => return None,
    }
    Some(extensions)
}

/// Whether a parameter of an INIT or INIT ACK announces I-FORWARD-TSN.
pub(crate) fn announces_i_forward_tsn(parameter: Tlv<'_>) -> bool {
    matches!(
        Parameter::read(parameter),
        Ok(Parameter::SupportedExtensions(types)) if types.contains(ChunkType::I_FORWARD_TSN)
    )
}

fn chunk_types(extensions: Extensions) -> Vec<u8> {
    let Extensions {
        partial_reliability,
        authentication,
        address_reconfiguration,
        re_configuration,
        interleaving,
        nr_sack,
        zero_checksum: _,
    } = extensions;
    [
        (partial_reliability, ChunkType::FORWARD_TSN),
        (authentication, ChunkType::AUTH),
        (address_reconfiguration, ChunkType::ASCONF),
        (address_reconfiguration, ChunkType::ASCONF_ACK),
        (re_configuration, ChunkType::RE_CONFIG),
        (interleaving, ChunkType::I_DATA),
        // RFC 8260 section 2.2.1.
        (
            interleaving && partial_reliability,
            ChunkType::I_FORWARD_TSN,
        ),
        (nr_sack, ChunkType::NR_SACK),
    ]
    .into_iter()
    .filter_map(|(is_offered, chunk_type)| is_offered.then_some(chunk_type.0))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Tsn;

    #[test]
    fn each_direction_has_as_many_streams_as_both_sides_allow() {
        let offered = Capabilities {
            outbound_streams: 10,
            inbound_streams: 20,
            extensions: Extensions::NONE,
            adaptation_code_point: None,
        };
        let parameters = ParameterBuffer::new();
        let agreed = |outbound_streams, inbound_streams| {
            let init = Init {
                initiate_tag: 1,
                a_rwnd: 1500,
                outbound_streams,
                inbound_streams,
                initial_tsn: Tsn(1),
                parameters: parameters.parameters(),
            };
            offered.agreed_with(&init, Extensions::ALL, None)
        };
        let less = Capabilities {
            outbound_streams: 7,
            inbound_streams: 5,
            extensions: Extensions::NONE,
            adaptation_code_point: None,
        };
        assert_eq!(agreed(5, 7), less);
        assert_eq!(agreed(u16::MAX, u16::MAX), offered);
    }

    #[test]
    fn what_is_announced_is_understood() {
        for bits in 0..=Extensions::ALL.bits() {
            let mut extensions = Extensions::from_bits(bits);
            let mut parameters = ParameterBuffer::new();
            let offered = Capabilities {
                outbound_streams: 1,
                inbound_streams: 1,
                extensions,
                adaptation_code_point: None,
            };
            announce(offered, &mut parameters);
            let understood = parameters
                .parameters()
                .iter()
                .raw()
                .filter_map(|tlv| announced(tlv.expect("sound")))
                .fold(0, |bits, announced| bits | announced.bits());
            extensions.zero_checksum = false;
            assert_eq!(understood, extensions.bits());
        }
    }
}
