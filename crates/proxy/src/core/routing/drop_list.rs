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
pub(crate) enum Dropped {
    Address,
    UserAgent,
}

impl DropList {
    /// Whether a message is dropped.
    pub(crate) fn check(&self, remote: IpAddr, message: &Message) -> Option<Dropped> {
        if self.has_address(remote) {
            return Some(Dropped::Address);
        }
        if self.user_agents.is_empty() || !message.is_request() {
            return None;
        }
        let user_agent = message.header_bytes(Name::UserAgent)?;
        self.user_agents
            .iter()
            .any(|pattern| pattern.matches(user_agent.trim_ascii()))
            .then_some(Dropped::UserAgent)
    }

    /// Whether what comes from an address is dropped.
    pub(crate) fn has_address(&self, remote: IpAddr) -> bool {
        self.addresses.iter().any(|range| range.contains(remote))
    }
}

#[cfg(test)]
mod tests {
    use sip::Method;

    use super::*;

    #[test]
    fn networks_and_user_agents_are_dropped() {
        let list = DropList {
            addresses: vec!["198.51.100.0/24".parse().expect("a network")],
            user_agents: vec![Pattern::new("friendly*")],
        };
        let request = Message::request(Method::Options, "sip:example.com");
        let scanner = request.clone().with(Name::UserAgent, "Friendly-Scanner");
        let bad = IpAddr::from([198, 51, 100, 7]);
        let good = IpAddr::from([192, 0, 2, 7]);
        assert_eq!(list.check(bad, &request), Some(Dropped::Address));
        assert_eq!(list.check(good, &request), None);
        assert_eq!(list.check(good, &scanner), Some(Dropped::UserAgent));
        // What comes back from next hops has none.
        let response = Message::response_to(&scanner, 200, "OK");
        assert_eq!(list.check(good, &response), None);
        assert_eq!(DropList::default().check(bad, &scanner), None);
    }
}
