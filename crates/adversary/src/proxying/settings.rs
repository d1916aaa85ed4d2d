//! What the operator wants: settings of every kind, which a game changes as it goes.

use std::time::Duration;

use arbitrary::Arbitrary;
use proxy::core::{
    AuthenticationPolicy, DropList, Forking, ForwardingPolicy, Group, KeepAliveMethod,
    KeepAlivePolicy, Member, Mode, OverloadPolicy, Pattern, Policy, Probing, Relay, Route,
    RouteTarget, Routing, TrustDomain,
};
use sip::Method;

#[derive(Arbitrary, Debug, Clone, Copy)]
pub(super) struct Settings {
    mode: u8,
    forking: u8,
    recursion: bool,
    rings_for_a_while: bool,
    authenticates: bool,
    trusts: bool,
    routes: Routes,
    rates: u8,
    keep_alive: u8,
}

/// Which of the static routes there are, and how their group works.
#[derive(Arbitrary, Debug, Clone, Copy)]
struct Routes {
    is_domain_routed: bool,
    are_numbers_routed: bool,
    is_method_routed: bool,
    mode: u8,
    is_group_probed: bool,
    patience: u8,
    failures: u8,
    drops: u8,
}

/// The bound on flows that are kept open, which the game reaches.
pub(super) const MAXIMUM_KEPT_FLOWS: usize = 1;

impl Settings {
    pub(super) fn policy(&self) -> Policy {
        let addresses = ["192.0.2.20".parse().expect("an address")];
        Policy {
            forwarding: ForwardingPolicy {
                mode: [Mode::Stateful, Mode::Stateless, Mode::Redirect]
                    [usize::from(self.mode.saturating_sub(128)) % 3],
                relay: [
                    Relay::Anybody,
                    Relay::Anybody,
                    Relay::Users,
                    Relay::Neighbours,
                ][usize::from(self.mode) % 4],
                forking: [
                    Forking::ByPreference,
                    Forking::Parallel,
                    Forking::Sequential,
                ][usize::from(self.forking) % 3],
                ring_time: self.rings_for_a_while.then_some(Duration::from_secs(3)),
                recursion: self.recursion,
                maximum_targets: 12,
                ..ForwardingPolicy::default()
            },
            trust: TrustDomain {
                addresses: addresses.into_iter().filter(|_| self.trusts).collect(),
                names: Vec::new(),
            },
            authentication: AuthenticationPolicy {
                register: self.authenticates,
                calls: self.authenticates,
                ..AuthenticationPolicy::default()
            },
            routing: self.routes.routing(),
            overload: self.overload(),
            plugins: std::sync::Arc::from([]),
            keep_alive: KeepAlivePolicy {
                method: [
                    None,
                    Some(KeepAliveMethod::LineEnds),
                    Some(KeepAliveMethod::Options),
                ][usize::from(self.keep_alive) % 3],
                // The end of a game is hours away.
                interval: Duration::from_secs(300),
                maximum_flows: MAXIMUM_KEPT_FLOWS,
            },
        }
    }

    /// Mostly none that a game comes up against.
    fn overload(&self) -> OverloadPolicy {
        let rate = |is_one: bool| is_one.then_some(1);
        OverloadPolicy {
            requests_per_second: rate(self.rates % 8 == 1),
            requests_per_second_per_source: rate(self.rates % 8 == 2),
            unauthenticated_per_second_per_source: rate(self.rates % 4 == 3),
            maximum_sources: 2,
            ..OverloadPolicy::default()
        }
    }
}

impl Routes {
    fn routing(&self) -> Routing {
        let mode = [
            None,
            None,
            Some(Mode::Stateful),
            Some(Mode::Stateless),
            Some(Mode::Redirect),
        ][usize::from(self.mode) % 5];
        let to_group = || Route {
            mode,
            ..Route::to(RouteTarget::Group("servers".to_owned()))
        };
        let by_domain = Route {
            domain: Some("unknown.example".to_owned()),
            ..to_group()
        };
        let by_number = Route {
            prefix: Some("+1".to_owned()),
            ..to_group()
        };
        let of_ours = Route {
            domain: Some("example.com".to_owned()),
            prefix: Some("nob".to_owned()),
            ..to_group()
        };
        let by_method = Route {
            method: Some(Method::Message),
            mode,
            ..Route::to(RouteTarget::Uri("sip:192.0.2.20:5060".to_owned()))
        };
        let registrar = Route {
            domain: Some("unknown.example".to_owned()),
            method: Some(Method::Register),
            ..to_group()
        };
        let mut routes = Vec::new();
        if self.is_domain_routed {
            routes.extend([by_domain, registrar]);
        }
        if self.are_numbers_routed {
            routes.extend([by_number, of_ours]);
        }
        if self.is_method_routed {
            routes.push(by_method);
        }
        let routing = Routing {
            routes,
            groups: [("servers".to_owned(), self.group())].into(),
            drop: DropList {
                addresses: ["192.0.2.23", "192.0.2.24/32"]
                    .into_iter()
                    .filter(|_| self.drops % 4 == 1)
                    .map(|range| range.parse().expect("a network"))
                    .collect(),
                user_agents: [Pattern::new("odd*")]
                    .into_iter()
                    .filter(|_| self.drops % 3 == 1)
                    .collect(),
            },
        };
        routing.validate().expect("settings that make sense");
        routing
    }

    fn group(&self) -> Group {
        let member = |uri, priority| Member {
            priority,
            ..Member::new(uri)
        };
        Group {
            members: vec![
                member("sip:192.0.2.25", 0),
                member("sip:192.0.2.77:5070;transport=tcp", 0),
                member("sip:far.example", 1),
                Member {
                    addresses: vec!["192.0.2.79".parse().expect("an address")],
                    ..member("sip:192.0.2.78;transport=sctp", 2)
                },
            ],
            probing: self.is_group_probed.then(|| Probing {
                interval: Duration::from_secs(60),
                timeout: Duration::from_secs(2),
                ..Probing::default()
            }),
            failures: 1 + u32::from(self.failures % 3),
            retry_after: Duration::from_secs(5),
            response_timeout: [
                None,
                Some(Duration::from_millis(200)),
                Some(Duration::from_secs(4)),
            ][usize::from(self.patience) % 3],
        }
    }
}
