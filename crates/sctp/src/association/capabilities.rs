//! What the two sides of an association agree on in INIT and INIT ACK (RFC 9260 sections 3.3.2, 3.3.3
//! and 5.1.1).

use crate::EndpointConfig;
use crate::packet::Init;

/// What one side offers, or what both have agreed on, seen from our side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// Streams that we may send on.
    pub(crate) outbound_streams: u16,
    /// Streams that the peer may send on.
    pub(crate) inbound_streams: u16,
}

impl Capabilities {
    /// What we offer a peer.
    pub(crate) fn offered(config: &EndpointConfig) -> Capabilities {
        Capabilities {
            outbound_streams: config.outbound_streams,
            inbound_streams: config.max_inbound_streams,
        }
    }

    /// What is left of our offer once the peer has said in `init`, its INIT or INIT ACK, what it offers.
    pub(crate) fn agreed_with(self, init: &Init<'_>) -> Capabilities {
        Capabilities {
            outbound_streams: self.outbound_streams.min(init.inbound_streams),
            inbound_streams: self.inbound_streams.min(init.outbound_streams),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{ParameterBuffer, Tsn};

    #[test]
    fn each_direction_has_as_many_streams_as_both_sides_allow() {
        let offered = Capabilities {
            outbound_streams: 10,
            inbound_streams: 20,
        };
        let parameters = ParameterBuffer::new();
        let agreed = |outbound_streams, inbound_streams| {
            offered.agreed_with(&Init {
                initiate_tag: 1,
                a_rwnd: 1500,
                outbound_streams,
                inbound_streams,
                initial_tsn: Tsn(1),
                parameters: parameters.parameters(),
            })
        };
        let less = Capabilities {
            outbound_streams: 7,
            inbound_streams: 5,
        };
        assert_eq!(agreed(5, 7), less);
        assert_eq!(agreed(u16::MAX, u16::MAX), offered);
    }
}
