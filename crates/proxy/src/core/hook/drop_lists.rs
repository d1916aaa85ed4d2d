//! The step that drops what settings say.

use std::net::IpAddr;
use std::sync::Arc;

use sip::Message;

use super::{Hook, Points};
use crate::core::policy::Policy;
use crate::core::routing::Dropped;

/// Drops messages from networks, and requests of user agents, that are on a drop list.
#[derive(Debug, Default)]
pub(crate) struct DropLists {
    policy: Arc<Policy>,
}

impl Hook for DropLists {
    fn points(&self) -> Points {
        let list = &self.policy.routing.drop;
        let of = |is_empty, point| match is_empty {
            true => Points::default(),
            false => point,
        };
        of(list.addresses.is_empty(), Points::SOURCE)
            | of(list.user_agents.is_empty(), Points::MESSAGE)
    }

    fn set_policy(&mut self, policy: &Arc<Policy>) {
        self.policy = Arc::clone(policy);
    }

    fn on_source(&mut self, remote: IpAddr) -> Option<Dropped> {
        let has_address = self.policy.routing.drop.has_address(remote);
        has_address.then_some(Dropped::Address)
    }

    fn on_message(&mut self, message: &Message) -> Option<Dropped> {
        let has_user_agent = self.policy.routing.drop.has_user_agent(message);
        has_user_agent.then_some(Dropped::UserAgent)
    }
}

#[cfg(test)]
mod tests {
    use sip::{Method, Name};

    use super::*;
    use crate::core::routing::{DropList, Pattern};

    #[test]
    fn networks_and_user_agents_are_dropped() {
        let mut policy = Policy::default();
        let mut hook = DropLists::default();
        assert_eq!(hook.points(), Points::default());
        policy.routing.drop = DropList {
            addresses: vec!["198.51.100.0/24".parse().expect("a network")],
            user_agents: vec![Pattern::new("friendly*")],
        };
        hook.set_policy(&Arc::new(policy));
        assert_eq!(hook.points(), Points::SOURCE | Points::MESSAGE);
        let bad = IpAddr::from([198, 51, 100, 7]);
        let good = IpAddr::from([192, 0, 2, 7]);
        assert_eq!(hook.on_source(bad), Some(Dropped::Address));
        assert_eq!(hook.on_source(good), None);
        let request = Message::request(Method::Options, "sip:example.com");
        let scanner = request.clone().with(Name::UserAgent, "Friendly-Scanner");
        assert_eq!(hook.on_message(&request), None);
        assert_eq!(hook.on_message(&scanner), Some(Dropped::UserAgent));
        // What comes back from next hops has none.
        let response = Message::response_to(&scanner, 200, "OK");
        assert_eq!(hook.on_message(&response), None);
    }
}
