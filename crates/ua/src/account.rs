//! What is known of an account: its registrations, one for each flow (RFC 5626), and what the registrar has told.

use std::time::Instant;

use sip::user_agent::Registration;
use sip::{ConnectionId, Flow, Target, Uri};

use crate::config::AccountConfig;
use crate::event::AccountId;
use crate::keep_alive::KeepAlive;
use crate::proofs::Proofs;
use crate::route::Route;

/// Flows of one account (RFC 5626 section 4.2.1).
const MAX_FLOWS: usize = 4;

/// An account.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) config: AccountConfig,
    /// One for each outbound proxy that is registered with, or one to the registrar.
    pub(crate) flows: Vec<RegistrationFlow>,
    /// Whether it is to be registered.
    pub(crate) is_wanted: bool,
    /// The interval that the registrar asks for at least, in seconds (RFC 3261 section 10.2.8).
    pub(crate) least_expires: u32,
    /// The registrar keeps flows apart.
    pub(crate) is_outbound: bool,
    /// A proxy on the way does not know flows (439): they are not asked for any more (RFC 5626 section 11.6).
    pub(crate) lacks_outbound: bool,
    /// The GRUUs that the registrar has given (RFC 5627 section 4.2).
    pub(crate) public_gruu: Option<String>,
    pub(crate) temporary_gruu: Option<String>,
}

/// What a REGISTER asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// To bind our contact.
    Bind,
    /// To remove it.
    Unbind,
    /// To remove all contacts of the user (RFC 3261 section 10.2.2).
    UnbindAll,
    /// To tell them (RFC 3261 section 10.2.3).
    Fetch,
}

/// A REGISTER: whose, along which flow, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) account: AccountId,
    /// Its place among the account's flows.
    pub(crate) flow: usize,
    pub(crate) ask: Ask,
}

/// How far the registration along a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowState {
    /// Nobody has been asked.
    Idle,
    /// The registrar has been asked.
    Asked,
    Registered,
    /// It is tried again after a while.
    Failed,
}

/// The registration along a flow.
#[derive(Debug)]
pub(crate) struct RegistrationFlow {
    pub(crate) state: FlowState,
    pub(crate) series: Option<Registration>,
    /// When it is renewed or tried again.
    pub(crate) due: Option<Instant>,
    /// Until when the registrar keeps the binding.
    pub(crate) bound_until: Option<Instant>,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// This attempt was answered with 423 once.
    pub(crate) was_too_brief: bool,
    /// The URI that the registrar has bound.
    pub(crate) contact: Option<String>,
    /// The way that the last REGISTER took.
    pub(crate) route: Option<Route>,
    pub(crate) keep_alive: Option<KeepAlive>,
    /// The values of Service-Route (RFC 3608).
    pub(crate) service_route: Vec<String>,
    pub(crate) proofs: Proofs,
}

impl Account {
    /// An account that is not registered; `has_instance`: its device has an instance ID.
    pub(crate) fn new(config: AccountConfig, has_instance: bool) -> Account {
        let count = match has_instance {
            true => config.outbound_proxies.len().clamp(1, MAX_FLOWS),
            false => 1,
        };
        Account {
            config,
            flows: (0..count).map(|_| RegistrationFlow::new()).collect(),
            is_wanted: false,
            least_expires: 0,
            is_outbound: false,
            lacks_outbound: false,
            public_gruu: None,
            temporary_gruu: None,
        }
    }

    /// When something is to be done without anybody asking for it.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.flows.iter().filter_map(RegistrationFlow::due).min()
    }

    /// The flow that requests take: the first one that is registered.
    pub(crate) fn working_flow(&self) -> usize {
        let is_registered = |flow: &RegistrationFlow| flow.state == FlowState::Registered;
        self.flows.iter().position(is_registered).unwrap_or(0)
    }

    /// How many flows are registered.
    pub(crate) fn registered_flows(&self) -> usize {
        let flows = self.flows.iter();
        flows
            .filter(|flow| flow.state == FlowState::Registered)
            .count()
    }

    /// Whether the registrar still keeps a binding of ours: only then GRUUs lead here (RFC 5627 section 4.4).
    pub(crate) fn is_bound(&self) -> bool {
        self.flows.iter().any(|flow| flow.bound_until.is_some())
    }

    /// Forgets bindings that have expired.
    pub(crate) fn expire(&mut self, now: Instant) {
        for flow in &mut self.flows {
            flow.bound_until = flow.bound_until.filter(|until| *until > now);
        }
        if !self.is_bound() {
            (self.public_gruu, self.temporary_gruu) = (None, None);
        }
    }

    /// The Contact of requests and responses that make a dialog or refresh its target, for who is reached at `uri`: a GRUU
    /// (RFC 5627 section 4.4), or a URI that leads along the flow (RFC 5626 section 4.3).
    pub(crate) fn contact(&self, uri: &str) -> String {
        let (first, second) = (&self.public_gruu, &self.temporary_gruu);
        let gruu = match self.config.hides_user {
            true => second.as_ref(),
            false => first.as_ref().or(second.as_ref()),
        };
        match gruu {
            Some(gruu) => format!("<{gruu}>"),
            None if self.is_outbound && self.is_bound() => format!("<{uri};ob>"),
            None => format!("<{uri}>"),
        }
    }

    /// Where a request outside of a dialog goes first, and its Route values. `skipped` proxies have failed.
    pub(crate) fn first_hop(&self, uri: &str, skipped: usize) -> (String, Vec<String>) {
        let working = self.working_flow();
        let proxies = &self.config.outbound_proxies;
        let place = (working + skipped) % proxies.len().max(1);
        let proxy = proxies.get(place);
        let told = self
            .flows
            .get(place.min(self.flows.len().saturating_sub(1)));
        let told = told.map_or(&[][..], |flow| flow.service_route.as_slice());
        let routes = match proxy {
            _ if !told.is_empty() => told.to_vec(),
            Some(proxy) if is_loose_router(proxy) => vec![format!("<{proxy}>")],
            _ => Vec::new(),
        };
        let first = routes.first().map(|route| {
            let route = route.trim().trim_start_matches('<');
            route.split('>').next().unwrap_or(route).to_owned()
        });
        let next_hop = proxy.cloned().or(first);
        (next_hop.unwrap_or_else(|| uri.to_owned()), routes)
    }

    /// The flow along which requests go to that proxy (RFC 5626 section 4.3).
    pub(crate) fn flow_route(&self, skipped: usize) -> Option<Route> {
        let count = self.config.outbound_proxies.len().max(1);
        let flow = self.flows.get((self.working_flow() + skipped) % count)?;
        let is_kept = flow.state == FlowState::Registered && flow.keep_alive.is_some();
        flow.route.clone().filter(|_| is_kept)
    }
}

impl RegistrationFlow {
    fn new() -> RegistrationFlow {
        RegistrationFlow {
            state: FlowState::Idle,
            series: None,
            due: None,
            bound_until: None,
            failures: 0,
            was_too_brief: false,
            contact: None,
            route: None,
            keep_alive: None,
            service_route: Vec::new(),
            proofs: Proofs::default(),
        }
    }

    fn due(&self) -> Option<Instant> {
        let keep_alive = self.keep_alive.as_ref().map(KeepAlive::due);
        [self.due, self.bound_until, keep_alive]
            .into_iter()
            .flatten()
            .min()
    }

    /// The connection that it is bound to, where the driver has named it.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        match self.route.as_ref()?.target {
            Target::Flow(flow) | Target::FlowOrAddress(flow, _) => Some(flow.connection),
            Target::Address(..) => None,
        }
    }

    /// Whether what came along `flow` came along this one.
    pub(crate) fn is_along(&self, flow: &Flow) -> bool {
        let Some(route) = &self.route else {
            return false;
        };
        route.target.transport() == flow.transport
            && route.target.remote() == flow.remote
            && self
                .connection()
                .is_none_or(|connection| connection == flow.connection)
    }
}

fn is_loose_router(uri: &str) -> bool {
    Uri::parse(uri).is_ok_and(|uri| {
        uri.as_sip()
            .is_some_and(|uri| uri.parameters().contains("lr"))
    })
}
