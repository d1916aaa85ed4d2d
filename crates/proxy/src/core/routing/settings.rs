//! The settings as a whole, and what can be wrong with them.

use std::collections::BTreeMap;
use std::time::Duration;

use sip::{Message, Uri};

use super::drop_list::DropList;
use super::group::{Group, Member};
use super::static_route::{Route, RouteTarget};

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
                    "it means no request: one of domain, prefix and method is needed",
                ));
            }
            match &route.to {
                RouteTarget::Uri(uri) => check_uri(&format!("{key}.to"), uri)?,
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
                "there are none: a group needs one server at least",
            ));
        }
        for (index, member) in self.members.iter().enumerate() {
            let key = format!("{key}.members[{index}].uri");
            check_uri(&key, &member.uri)?;
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
        Ok(_) => format!("\"{uri}\" is no sip: or sips: URI"),
        Err(problem) => format!("\"{uri}\" is no URI such as sip:192.0.2.1:5060: {problem}"),
    };
    Err(error(key, problem))
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
        assert!(message(&routing).starts_with("route[1].to: \"tel:+1\" is no sip:"));
        routing.routes[1] = uri("sip:bob@192.0.2.1");
        assert!(message(&routing).contains("names a user"));
        routing.routes[1] = Route::to(RouteTarget::Uri("sip:192.0.2.1".to_owned()));
        assert!(message(&routing).starts_with("route[1]: it means no request"));
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
}
