//! Who is not answered: lists for an emergency.

use std::net::IpAddr;

use sip::{Message, Name};

use super::address_range::AddressRange;
use super::pattern::Pattern;

/// What is dropped as it comes, without an answer and without a trace but a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropList {
    /// Messages from these networks.
    pub addresses: Vec<AddressRange>,
    /// Requests whose User-Agent (RFC 3261 section 20.41) is of one of these patterns.
    pub user_agents: Vec<Pattern>,
}

/// Why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// For the address that it came from.
    Address,
    /// For the user agent that has sent it.
    UserAgent,
}

impl DropList {
    /// Whether a message is a request of a user agent that is dropped.
    pub(crate) fn has_user_agent(&self, message: &Message) -> bool {
        if self.user_agents.is_empty() || !message.is_request() {
            return false;
        }
        message.header_bytes(Name::UserAgent).is_some_and(|agent| {
            let agent = agent.trim_ascii();
            self.user_agents
                .iter()
                .any(|pattern| pattern.matches(agent))
        })
    }

    /// Whether what comes from an address is dropped.
    pub(crate) fn has_address(&self, remote: IpAddr) -> bool {
        self.addresses.iter().any(|range| range.contains(remote))
    }
}
