//! The step that routes requests as settings say: to a URI, or to a group of servers.

use std::sync::Arc;
use std::time::Instant;

use sip::Message;

use super::{Decision, ForwardTo, Hook, Points, RequestAction, Resumption, RoutePoint};
use crate::core::policy::Policy;
use crate::core::routing::{Dispatcher, NextHopUri, RouteTarget, Routed};

/// Sends requests where the first static route that is for them leads.
#[derive(Debug, Default)]
pub(crate) struct StaticRoutes {
    policy: Arc<Policy>,
}

impl Hook for StaticRoutes {
    fn points(&self) -> Points {
        match self.policy.routing.routes.is_empty() {
            true => Points::default(),
            false => Points::ROUTE,
        }
    }

    fn set_policy(&mut self, policy: &Arc<Policy>) {
        self.policy = Arc::clone(policy);
    }

    fn on_route(
        &mut self,
        point: &mut RoutePoint<'_>,
        _resumed: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        if !point.is_routable {
            return Decision::Continue;
        }
        let dispatcher = &mut *point.dispatcher;
        let routed = static_route(
            &self.policy,
            dispatcher,
            point.now,
            point.request,
            point.choice,
        );
        routed.map_or(Decision::Continue, |routed| {
            Decision::Act(RequestAction::Forward(ForwardTo::NextHops(routed)))
        })
    }
}

/// Where the static route that is for a request sends it. `choice`: what the choice among equals follows from, if
/// it is not made at random.
pub(crate) fn static_route(
    policy: &Policy,
    dispatcher: &mut Dispatcher,
    now: Instant,
    request: &Message,
    choice: Option<u64>,
) -> Option<Routed> {
    let route = policy.routing.route_for(request)?;
    let next_hops = match &route.to {
        RouteTarget::Uri(uri) => vec![NextHopUri {
            uri: uri.as_str().into(),
            member: None,
            addresses: route.addresses.as_slice().into(),
        }],
        RouteTarget::Group(group) => dispatcher.order(now, group, choice),
    };
    Some(Routed { next_hops })
}
