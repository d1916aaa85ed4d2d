//! What a signalling process has counted.

use std::collections::HashMap;

use super::config::NetworkId;
use crate::MaskedPointCode;
use crate::message::{Kind, ProtocolData, ServiceIndicator};

/// Flows that are counted one by one; the messages of further ones are counted together.
const MAX_FLOWS: usize = 4_096;

/// Of these, flows to destinations that the configuration does not name one by one.
const MAX_UNNAMED_FLOWS: usize = 1_024;

/// Service indicators have four bits.
pub(super) const MAX_SERVICE_INDICATOR: u32 = 15;

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
    /// The destination; a range stands for those inside that are not counted one by one.
    pub destination: MaskedPointCode,
    /// The MTP3 user.
    pub user: ServiceIndicator,
}

impl Flow {
    pub(crate) fn of(network: NetworkId, message: &ProtocolData) -> Flow {
        Flow {
            network,
            destination: message.dpc.into(),
            user: ServiceIndicator(message.service_indicator.into()),
        }
    }
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
    unnamed_flows: usize,
    /// DATA of flows beyond those that are counted one by one, and DATA for destinations to which nothing leads.
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
            unnamed_flows: 0,
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

    /// The counts of a flow. `configured` says which range of the configuration its destination is in.
    ///
    /// Peers may make up destinations, in the range of a route or in keys that they register: what is not named one by one
    /// gets a part of the room only. What has none is counted with its range.
    pub(crate) fn traffic(
        &mut self,
        flow: Flow,
        configured: impl FnOnce() -> Option<MaskedPointCode>,
    ) -> &mut Traffic {
        let counted = match self.flows.contains_key(&flow) {
            true => Some(flow),
            false => self.place(flow, configured()),
        };
        match counted {
            Some(flow) => self.flows.entry(flow).or_default(),
            None => &mut self.other_flows,
        }
    }

    /// The flow that a new one is counted as; none: with all others.
    fn place(&mut self, flow: Flow, configured: Option<MaskedPointCode>) -> Option<Flow> {
        let is_named = configured == Some(flow.destination) && flow.user.0 <= MAX_SERVICE_INDICATOR;
        let has_room = self.flows.len() < MAX_FLOWS;
        if has_room && (is_named || self.unnamed_flows < MAX_UNNAMED_FLOWS) {
            self.unnamed_flows += usize::from(!is_named);
            return Some(flow);
        }
        let of_range = Flow {
            destination: configured?,
            ..flow
        };
        let is_counted = self.flows.contains_key(&of_range);
        let has_room = has_room && flow.user.0 <= MAX_SERVICE_INDICATOR;
        (is_counted || has_room).then_some(of_range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PointCode;

    const NETWORK: NetworkId = NetworkId(0);

    fn range(mask: u8, value: u32) -> MaskedPointCode {
        MaskedPointCode {
            mask,
            point_code: PointCode::new(value).expect("24 bits"),
        }
    }

    fn flow(destination: MaskedPointCode, user: u32) -> Flow {
        Flow {
            network: NETWORK,
            destination,
            user: ServiceIndicator(user),
        }
    }

    #[test]
    fn flows_beyond_the_bound_are_counted_together() {
        let mut statistics = Statistics::default();
        for dpc in 0..MAX_FLOWS as u32 + 3 {
            let flow = flow(range(0, dpc), 3);
            let named = || Some(flow.destination);
            statistics.traffic(flow, named).received += 1;
            statistics.traffic(flow, named).sent += 1;
        }
        let flows = statistics.flows();
        assert_eq!(flows.len(), MAX_FLOWS);
        assert!(flows.iter().all(|(_, it)| (it.received, it.sent) == (1, 1)));
        let others = statistics.other_flows;
        assert_eq!((others.received, others.sent), (3, 3));
    }

    /// Destinations and users that somebody makes up leave room for those that are configured.
    #[test]
    fn flows_that_are_made_up_take_a_part_of_the_room() {
        let mut statistics = Statistics::default();
        let all = range(14, 0);
        for number in 0..100_000 {
            let in_range = flow(range(0, number), number % 256);
            statistics.traffic(in_range, || Some(all)).received += 1;
            let nowhere = flow(range(0, number), number / 7 % 256);
            statistics.traffic(nowhere, || None).received += 1;
        }
        let made_up = statistics.flows().len();
        assert!(made_up <= MAX_UNNAMED_FLOWS + 16, "{made_up}");
        for number in 0..2_000 {
            let named = flow(range(0, 200_000 + number), 5);
            statistics
                .traffic(named, || Some(named.destination))
                .received += 1;
        }
        assert_eq!(statistics.flows().len(), made_up + 2_000);
        let counted: u64 = statistics.flows().iter().map(|(_, it)| it.received).sum();
        assert_eq!(counted + statistics.other_flows.received, 202_000);
    }
}
