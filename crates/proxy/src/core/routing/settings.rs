//! The settings as a whole, and what can be wrong with them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use sip::{Message, Transport, Uri};

use super::drop_list::DropList;
use super::group::{Group, Member};
use super::static_route::{Route, RouteTarget};
use crate::core::uri;

/// Where requests go by settings, and which are dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routing {
    /// Static routes: of those that mean a request the first decides.
    pub routes: Vec<Route>,
    /// Groups of servers by name.
    pub groups: BTreeMap<String, Group>,
    /// Who is not answered.
    pub drop: DropList,
}

/// A setting that makes no sense. The text names the key as the configuration file does: `route[0].to`,
/// `group.NAME.members[1].uri`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct RoutingError {
    /// The key.
    pub key: String,
    /// What is wrong with its value, and what is allowed.
    pub problem: String,
}

/// The shortest interval of probes: more often would be an attack on the server.
const MINIMUM_PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// With how many addresses beside the first an association is opened at most.
const MAXIMUM_FURTHER_ADDRESSES: usize = 15;

impl Routing {
    /// Checks that routes lead somewhere and groups can be used.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn validate(&self) -> Result<(), RoutingError> {
        for (index, route) in self.routes.iter().enumerate() {
            let key = format!("route[{index}]");
            if route.domain.is_none() && route.prefix.is_none() && route.method.is_none() {
                return Err(error(
                    key,
                    "it matches no request: domain, prefix or method is needed",
                ));
            }
            match &route.to {
                RouteTarget::Uri(uri) => {
                    check_uri(&format!("{key}.to"), uri)?;
                    check_addresses(format!("{key}.addresses"), ("to", uri), &route.addresses)?;
                }
                RouteTarget::Group(name) if !self.groups.contains_key(name) => {
                    let problem = match self.groups.keys().next() {
                        Some(_) => {
                            let names: Vec<&str> = self.groups.keys().map(String::as_str).collect();
                            format!(
                                "there is no group \"{name}\": there are {}",
                                names.join(", ")
                            )
                        }
                        None => format!("there is no group \"{name}\": no [group.{name}] is given"),
                    };
                    return Err(error(format!("{key}.group"), problem));
                }
                RouteTarget::Group(_) if !route.addresses.is_empty() => {
                    return Err(error(
                        format!("{key}.addresses"),
                        "those of a group's servers go beside each `uri`",
                    ));
                }
                RouteTarget::Group(_) => {}
            }
        }
        for (name, group) in &self.groups {
            group.validate(&format!("group.{name}"))?;
        }
        Ok(())
    }
}

impl Routing {
    /// The first route that is for a request.
    pub(crate) fn route_for(&self, request: &Message) -> Option<&Route> {
        self.routes.iter().find(|route| route.is_for(request))
    }
}

impl Group {
    fn validate(&self, key: &str) -> Result<(), RoutingError> {
        if self.members.is_empty() {
            return Err(error(
                format!("{key}.members"),
                "a group needs at least one server",
            ));
        }
        for (index, member) in self.members.iter().enumerate() {
            let addresses = format!("{key}.members[{index}].addresses");
            let key = format!("{key}.members[{index}].uri");
            check_uri(&key, &member.uri)?;
            check_addresses(addresses, ("uri", &member.uri), &member.addresses)?;
            let is_same = |other: &Member| other.uri == member.uri;
            if self.members.iter().take(index).any(is_same) {
                return Err(error(key, format!("{} is in the group twice", member.uri)));
            }
        }
        if self.failures == 0 {
            return Err(error(format!("{key}.failures"), "0 is too few: 1 at least"));
        }
        if self
            .response_timeout
            .is_some_and(|timeout| timeout.is_zero())
        {
            return Err(error(
                format!("{key}.response_timeout"),
                "0 leaves no time for an answer",
            ));
        }
        let Some(probing) = &self.probing else {
            return Ok(());
        };
        if probing.interval < MINIMUM_PROBE_INTERVAL {
            return Err(error(
                format!("{key}.probe_interval"),
                "it is too short: 100 ms at least",
            ));
        }
        if probing.timeout.is_zero() {
            return Err(error(
                format!("{key}.probe_timeout"),
                "0 leaves no time for an answer",
            ));
        }
        let is_status = |status: &u16| (200..700).contains(status);
        let is_good = |statuses: &std::ops::RangeInclusive<u16>| {
            is_status(statuses.start()) && is_status(statuses.end()) && !statuses.is_empty()
        };
        if probing.up.is_empty() || !probing.up.iter().all(is_good) {
            return Err(error(
                format!("{key}.probe_up"),
                "statuses between 200 and 699 are expected, such as 200 or 200-299",
            ));
        }
        Ok(())
    }
}

/// Checks that a URI can be the next hop of a route.
fn check_uri(key: &str, uri: &str) -> Result<(), RoutingError> {
    let problem = match Uri::parse(uri) {
        Ok(Uri::Sip(uri)) if uri.port() == Some(0) => "the port cannot be 0".to_owned(),
        Ok(Uri::Sip(parsed)) if parsed.user().is_some() || parsed.headers().is_some() => {
            format!("\"{uri}\" names a user or headers, and a next hop is a server")
        }
        Ok(Uri::Sip(_)) => return Ok(()),
        Ok(_) => format!("\"{uri}\" is not a sip: or sips: URI"),
        Err(problem) => format!("\"{uri}\" is not a URI such as sip:192.0.2.1:5060: {problem}"),
    };
    Err(error(key, problem))
}

/// Checks that a next hop can have these addresses besides that of its URI, which stands under `name`.
fn check_addresses(
    key: String,
    (name, uri): (&str, &str),
    addresses: &[IpAddr],
) -> Result<(), RoutingError> {
    if addresses.is_empty() {
        return Ok(());
    }
    let over = match Uri::parse(uri) {
        Ok(Uri::Sip(uri)) => uri::address(&uri.into(), false),
        _ => None,
    };
    let Some((Transport::Sctp | Transport::TlsSctp, first)) = over else {
        return Err(error(
            key,
            format!(
                "{name} = \"{uri}\" cannot have further ones: it has to be an address with transport=sctp or \
                 transport=tls-sctp, such as sip:192.0.2.1;transport=sctp; those of a name are found by DNS"
            ),
        ));
    };
    if addresses.len() > MAXIMUM_FURTHER_ADDRESSES {
        return Err(error(
            key,
            format!("too many: {MAXIMUM_FURTHER_ADDRESSES} at most"),
        ));
    }
    for (index, address) in addresses.iter().enumerate() {
        if address.is_unspecified() || address.is_multicast() {
            return Err(error(
                key,
                format!("{address} is not the address of a host"),
            ));
        }
        if *address == first.ip() || addresses.iter().take(index).any(|other| other == address) {
            return Err(error(
                key,
                format!("{address} is given twice; do not repeat that of {name}"),
            ));
        }
    }
    Ok(())
}

fn error(key: impl Into<String>, problem: impl Into<String>) -> RoutingError {
    RoutingError {
        key: key.into(),
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::group::Probing;
    use super::*;

    fn route(to: RouteTarget) -> Route {
        Route {
            domain: Some("example.org".to_owned()),
            ..Route::to(to)
        }
    }

    fn group(uris: &[&str]) -> Group {
        Group {
            members: uris.iter().map(|uri| Member::new(uri)).collect(),
            ..Group::default()
        }
    }

    fn message(routing: &Routing) -> String {
        routing
            .validate()
            .expect_err("a mistake is found")
            .to_string()
    }

    #[test]
    fn mistakes_are_named_by_their_keys() {
        let uri = |uri: &str| route(RouteTarget::Uri(uri.to_owned()));
        let mut routing = Routing {
            routes: vec![uri("sip:192.0.2.1"), uri("tel:+1")],
            ..Routing::default()
        };
        assert!(message(&routing).starts_with("route[1].to: \"tel:+1\" is not a sip:"));
        routing.routes[1] = uri("sip:bob@192.0.2.1");
        assert!(message(&routing).contains("names a user"));
        routing.routes[1] = Route::to(RouteTarget::Uri("sip:192.0.2.1".to_owned()));
        assert!(message(&routing).starts_with("route[1]: it matches no request"));
        routing.routes[1] = route(RouteTarget::Group("pstn".to_owned()));
        assert!(message(&routing).starts_with("route[1].group: there is no group \"pstn\""));
        routing
            .groups
            .insert("pstn".to_owned(), group(&["sip:192.0.2.1", "sip:x:0"]));
        assert_eq!(
            message(&routing),
            "group.pstn.members[1].uri: the port cannot be 0"
        );
        routing.groups.insert("pstn".to_owned(), group(&[]));
        assert!(message(&routing).starts_with("group.pstn.members:"));
        let twice = group(&["sip:192.0.2.1", "sip:192.0.2.1"]);
        routing.groups.insert("pstn".to_owned(), twice);
        assert!(message(&routing).ends_with("is in the group twice"));
        let mut probed = group(&["sip:192.0.2.1"]);
        probed.probing = Some(Probing {
            up: vec![std::ops::RangeInclusive::new(200, 99)],
            ..Probing::default()
        });
        routing.groups.insert("pstn".to_owned(), probed.clone());
        assert!(message(&routing).starts_with("group.pstn.probe_up:"));
        probed.probing = Some(Probing::default());
        routing.groups.insert("pstn".to_owned(), probed);
        assert_eq!(routing.validate(), Ok(()));
    }

    #[test]
    fn only_a_host_of_sctp_has_several_addresses() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let check = |uri: &str, addresses: &[&str]| {
            let addresses: Vec<IpAddr> = addresses.iter().map(|text| ip(text)).collect();
            let mut members = group(&["sip:192.0.2.9"]);
            members.members.push(Member {
                addresses: addresses.clone(),
                ..Member::new(uri)
            });
            let problem_of = |routing: Routing| routing.validate().err();
            let of_route = problem_of(Routing {
                routes: vec![Route {
                    addresses,
                    ..route(RouteTarget::Uri(uri.to_owned()))
                }],
                ..Routing::default()
            });
            let of_member = problem_of(Routing {
                groups: BTreeMap::from([("g".to_owned(), members)]),
                ..Routing::default()
            });
            let keys = [&of_route, &of_member].map(|error| error.as_ref().map(|e| e.key.clone()));
            let expected = of_route.is_some().then_some(());
            assert_eq!(
                keys,
                ["route[0].addresses", "group.g.members[1].addresses"]
                    .map(|key| expected.map(|()| key.to_owned()))
            );
            of_route.map_or_else(String::new, |error| error.problem)
        };
        for uri in [
            "sip:192.0.2.1;transport=sctp",
            "sip:192.0.2.1:5070;transport=tls-sctp",
            "sips:[2001:db8::1];transport=sctp",
        ] {
            assert_eq!(check(uri, &["198.51.100.1", "2001:db8::2"]), "", "{uri}");
        }
        for uri in [
            "sip:192.0.2.1",
            "sip:192.0.2.1;transport=tcp",
            "sips:192.0.2.1",
            "sip:gw.example;transport=sctp",
        ] {
            let problem = check(uri, &["198.51.100.1"]);
            assert!(
                problem.contains("transport=sctp or transport=tls-sctp"),
                "{problem}"
            );
        }
        let sctp = "sip:192.0.2.1;transport=sctp";
        for (addresses, expected) in [
            (&["192.0.2.1"][..], "twice"),
            (&["192.0.2.2", "192.0.2.2"], "twice"),
            (&["0.0.0.0"], "not the address of a host"),
            (&["224.0.0.1"], "not the address of a host"),
        ] {
            assert!(check(sctp, addresses).contains(expected), "{addresses:?}");
        }
        let many: Vec<String> = (1..=16).map(|last| format!("198.51.100.{last}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(check(sctp, &many[..15]), "");
        assert_eq!(check(sctp, &many), "too many: 15 at most");
        let by_group = Routing {
            routes: vec![Route {
                addresses: vec![ip("192.0.2.1")],
                ..route(RouteTarget::Group("g".to_owned()))
            }],
            groups: BTreeMap::from([("g".to_owned(), group(&["sip:192.0.2.9"]))]),
            ..Routing::default()
        };
        assert!(message(&by_group).starts_with("route[0].addresses: those of a group's servers"));
    }
}
