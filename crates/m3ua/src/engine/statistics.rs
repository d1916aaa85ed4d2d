//! What a signalling process has counted.

use std::collections::HashMap;

use super::config::NetworkId;
use crate::PointCode;
use crate::message::{Kind, ProtocolData, ServiceIndicator};

/// Flows that are counted one by one; the messages of further ones are counted together.
const MAX_FLOWS: usize = 4_096;

/// Declares the reasons for drops with their names.
macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// Why a message was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DropReason {
            $($(#[$doc])* $reason,)*
        }

        impl DropReason {
            /// All of them.
            pub const ALL: &[DropReason] = &[$(DropReason::$reason),*];

            /// A short name, as in metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(DropReason::$reason => $name,)*
                }
            }
        }
    };
}

drop_reasons! {
    /// It came for an ASP that is not active (section 3.8.1).
    NotActive = "not_active",
    /// No routing key and no route has its destination.
    NoRoute = "no_route",
    /// None of the ways to its destination can be used.
    Unavailable = "unavailable",
    /// The application server is pending, and as many messages wait as may.
    PendingFull = "pending_full",
    /// It waited for a pending application server until T(r) expired.
    Expired = "expired",
    /// It waited for an application server that is gone.
    ServerGone = "server_gone",
    /// The association has no stream for DATA (section 1.4.7).
    NoStream = "no_stream",
    /// MTP3 management is not carried (section 1.4.3.2).
    Management = "management",
    /// It is longer than a message can be.
    TooLong = "too_long",
    /// An Error message that cannot be read.
    UnreadableError = "unreadable_error",
}

/// Messages of MTP3 users to one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// In which network.
    pub network: NetworkId,
    /// The destination.
    pub dpc: PointCode,
    /// The MTP3 user.
    pub user: ServiceIndicator,
}

/// DATA messages in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From peers.
    pub received: u64,
    /// To peers.
    pub sent: u64,
}

/// Counts since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    received: Vec<u64>,
    sent: Vec<u64>,
    dropped: Vec<u64>,
    flows: HashMap<Flow, Traffic>,
    /// DATA of flows beyond those that are counted one by one.
    pub other_flows: Traffic,
    /// Messages that were wrong and answered with an Error.
    pub refused: u64,
    /// Messages relayed from one peer to another.
    pub relayed: u64,
    /// States of destinations that were told and not kept, as there are as many as may be.
    pub forgotten: u64,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            received: vec![0; Kind::ALL.len()],
            sent: vec![0; Kind::ALL.len()],
            dropped: vec![0; DropReason::ALL.len()],
            flows: HashMap::new(),
            other_flows: Traffic::default(),
            refused: 0,
            relayed: 0,
            forgotten: 0,
        }
    }
}

impl Statistics {
    /// Messages of this kind that have come.
    pub fn received(&self, kind: Kind) -> u64 {
        self.received
            .get(kind as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Messages of this kind that were sent.
    pub fn sent(&self, kind: Kind) -> u64 {
        self.sent.get(kind as usize).copied().unwrap_or_default()
    }

    /// Messages dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped
            .get(reason as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Messages dropped for any reason.
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// DATA by network, destination and user, in this order.
    pub fn flows(&self) -> Vec<(Flow, Traffic)> {
        let mut flows: Vec<_> = self.flows.iter().map(|(flow, it)| (*flow, *it)).collect();
        flows.sort_unstable_by_key(|(flow, _)| *flow);
        flows
    }

    pub(crate) fn count_received(&mut self, kind: Kind) {
        if let Some(count) = self.received.get_mut(kind as usize) {
            *count += 1;
        }
    }

    pub(crate) fn count_sent(&mut self, kind: Kind) {
        if let Some(count) = self.sent.get_mut(kind as usize) {
            *count += 1;
        }
    }

    pub(crate) fn count_dropped(&mut self, reason: DropReason, messages: usize) {
        if let Some(count) = self.dropped.get_mut(reason as usize) {
            *count += messages as u64;
        }
    }

    /// The counts of the flow of a message.
    pub(crate) fn traffic(&mut self, network: NetworkId, message: &ProtocolData) -> &mut Traffic {
        let flow = Flow {
            network,
            dpc: message.dpc,
            user: ServiceIndicator(message.service_indicator.into()),
        };
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&flow) {
            return &mut self.other_flows;
        }
        self.flows.entry(flow).or_default()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn flows_beyond_the_bound_are_counted_together() {
        let mut statistics = Statistics::default();
        for dpc in 0..MAX_FLOWS as u32 + 3 {
            let message = ProtocolData {
                opc: PointCode::default(),
                dpc: PointCode::new(dpc).expect("24 bits"),
                service_indicator: 3,
                network_indicator: 2,
                message_priority: 0,
                sls: 0,
                user_data: Bytes::new(),
            };
            statistics.traffic(NetworkId(0), &message).received += 1;
            statistics.traffic(NetworkId(0), &message).sent += 1;
        }
        let flows = statistics.flows();
        assert_eq!(flows.len(), MAX_FLOWS);
        assert!(flows.iter().all(|(_, it)| (it.received, it.sent) == (1, 1)));
        let others = statistics.other_flows;
        assert_eq!((others.received, others.sent), (3, 3));
    }
}
