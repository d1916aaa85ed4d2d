//! Rules: what happens to which packets.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use link::LinkConfig;

use crate::change_error::ChangeError;
use crate::ip::Flow;
use crate::protocol::Protocol;

/// What happens to certain packets, beside what the links on their way do to them.
///
/// A rule without a link acts once on a packet, where it enters the network; a rule of a link acts whenever
/// a packet crosses that link, in either direction, before what the link itself does. Of all rules that
/// match a packet at one place the first one acts, alone. The packets of a rule share one queue, one rate and
/// one sequence of random numbers.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Rule {
    /// Where packets come from; `None` for anywhere.
    pub source: Option<IpNet>,
    /// Where packets go; `None` for anywhere.
    pub destination: Option<IpNet>,
    /// What they carry; `None` for anything.
    pub protocol: Option<Protocol>,
    /// The first and the last source port; `None` for any, and for what has none.
    pub source_ports: Option<(u16, u16)>,
    /// The first and the last destination port; `None` for any, and for what has none. Only the first
    /// fragment of a packet shows its ports.
    pub destination_ports: Option<(u16, u16)>,
    /// The link on which the rule acts; `None` for where packets enter the network.
    pub link: Option<String>,
    /// What happens to the packets.
    pub config: LinkConfig,
}

/// The number of a rule; never given twice by a network.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct RuleId(pub u64);

impl Rule {
    /// Whether the rule is for such packets. What is not IP has no flow: only a rule without conditions
    /// is for it.
    pub(crate) fn matches(&self, flow: Option<&Flow>) -> bool {
        let Some(flow) = flow else {
            return self.source.is_none()
                && self.destination.is_none()
                && self.protocol.is_none()
                && self.source_ports.is_none()
                && self.destination_ports.is_none();
        };
        let holds = |network: &Option<IpNet>, address: IpAddr| {
            network.is_none_or(|network| network.contains(&address))
        };
        let has = |ports: Option<(u16, u16)>, at: usize| {
            ports.is_none_or(|(first, last)| {
                flow.ports
                    .is_some_and(|ports| (first..=last).contains(&ports[at]))
            })
        };
        holds(&self.source, flow.source)
            && holds(&self.destination, flow.destination)
            && self
                .protocol
                .is_none_or(|protocol| protocol == flow.protocol)
            && has(self.source_ports, 0)
            && has(self.destination_ports, 1)
    }

    /// Whether a packet could ever match.
    pub(crate) fn check(&self) -> Result<(), ChangeError> {
        let has_ports = self.source_ports.is_some() || self.destination_ports.is_some();
        if has_ports && self.protocol.is_some_and(|protocol| !protocol.has_ports()) {
            return Err(ChangeError::NoPorts);
        }
        match (self.source, self.destination) {
            (Some(IpNet::V4(_)), Some(IpNet::V6(_))) | (Some(IpNet::V6(_)), Some(IpNet::V4(_))) => {
                Err(ChangeError::TwoVersions)
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}
