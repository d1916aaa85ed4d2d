//! Where requests go: `[[route]]`, `[group.NAME]`, `[drop]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use sip::{Method, Transport, Uri};
use sip_net::Listen;

use super::forwarding::MODES;
use super::reader::{Reading, Section};
use crate::core::{Group, Member, Policy, Probing, Route, RouteTarget, Routing};

pub(super) fn read(file: &Section<'_, '_>, routing: &mut Routing) {
    routing.routes = file.list("route", route).into_iter().flatten().collect();
    routing.groups = file.named("group", group).into_iter().collect();
    file.section("drop", |section| {
        routing.drop.addresses = section.get("addresses", Vec::new());
        routing.drop.user_agents = section.get("user_agents", Vec::new());
    });
}

/// Checks what stands in several tables: a route, the group that it names, and the listener for its transport.
pub(super) fn check(policy: &Policy, listeners: &[Listen], reading: &Reading<'_>) {
    // A table that was left out has been complained about, and those behind it have other numbers without it.
    let is_whole = reading.tables("route") == policy.routing.routes.len()
        && policy.routing.groups.iter().all(|(name, group)| {
            reading.tables(&format!("group.{name}.members")) == group.members.len()
        });
    if !is_whole {
        return;
    }
    if let Err(error) = policy.routing.validate() {
        reading.problem_at(&error.key, &error);
    }
    // Without any here they are given elsewhere.
    if listeners.is_empty() {
        return;
    }
    let routes = policy.routing.routes.iter().enumerate();
    let targets = routes.filter_map(|(index, route)| match &route.to {
        RouteTarget::Uri(uri) => Some((format!("route[{index}].to"), uri.as_str())),
        RouteTarget::Group(_) => None,
    });
    let groups = policy.routing.groups.iter();
    let members = groups.flat_map(|(name, group)| {
        let key = move |index| format!("group.{name}.members[{index}].uri");
        let members = group.members.iter().enumerate();
        members.map(move |(index, member)| (key(index), member.uri.as_str()))
    });
    for (key, uri) in targets.chain(members) {
        let Some(transport) = named_transport(uri) else {
            continue;
        };
        if !listeners.iter().any(|listen| listen.transport == transport) {
            reading.problem_at(
                &key,
                format_args!(
                    "{key} = \"{uri}\" goes over {transport}, but there is no [[listener]] for it: servers could \
                     not send requests back"
                ),
            );
        }
    }
}

/// The transport that a URI leaves no choice about.
fn named_transport(uri: &str) -> Option<Transport> {
    let Ok(Uri::Sip(uri)) = Uri::parse(uri) else {
        return None;
    };
    match uri.parameter("transport") {
        Some(name) => Transport::from_uri_parameter(name, uri.is_secure()),
        None => None,
    }
}

fn route(section: &Section<'_, '_>) -> Option<Route> {
    // All keys are asked for, whatever is wrong with one of them: what nobody asks for is unknown.
    let target = match (section.optional("to"), section.optional("group")) {
        (Some(uri), None) => Some(RouteTarget::Uri(uri)),
        (None, Some(name)) => Some(RouteTarget::Group(name)),
        _ => {
            section.problem(
                "group",
                "a route needs one of two keys: to = \"sip:...\" or group = \"NAME\"",
            );
            None
        }
    };
    let addresses = section.get("addresses", Vec::new());
    let domain = section.optional("domain");
    let prefix = section.optional("prefix");
    let method: Option<String> = section.optional("method");
    let mode = section.one_of_optional("mode", &MODES);
    let mut route = Route::to(target?);
    route.addresses = addresses;
    route.domain = domain;
    route.prefix = prefix;
    route.method = method.as_deref().map(Method::from_name);
    route.mode = mode;
    Some(route)
}

fn group(section: &Section<'_, '_>) -> Group {
    let default = Group::default();
    let members = section.list("members", |section| {
        let uri: Option<String> = section.required("uri");
        let mut member = Member::new(uri.as_deref().unwrap_or_default());
        member.addresses = section.get("addresses", Vec::new());
        member.priority = section.get("priority", member.priority);
        member.weight = section.get("weight", member.weight);
        uri.map(|_| member)
    });
    Group {
        members: members.into_iter().flatten().collect(),
        probing: probing(section),
        failures: section.get("failures", default.failures),
        retry_after: section.get("retry_after", default.retry_after),
        response_timeout: none_for_zero(section.get(
            "response_timeout",
            default.response_timeout.unwrap_or_default(),
        )),
    }
}

fn probing(section: &Section<'_, '_>) -> Option<Probing> {
    let default = Probing::default();
    let interval = none_for_zero(section.get("probe_interval", Duration::ZERO));
    let timeout = section.get("probe_timeout", default.timeout);
    let default_up: Vec<String> = default.up.iter().map(write_statuses).collect();
    let up = section.get("probe_up", default_up);
    let up = up.iter().map(|text| {
        let read = read_statuses(text);
        if read.is_none() {
            section.problem(
                "probe_up",
                format_args!(
                    "\"{text}\" is not a status: one such as \"200\" or \"200-299\" is expected"
                ),
            );
        }
        read
    });
    // All are looked at, so that all that is wrong is told.
    let up: Vec<_> = up.collect();
    Some(Probing {
        interval: interval?,
        timeout,
        up: up.into_iter().flatten().collect(),
    })
}

fn none_for_zero(time: Duration) -> Option<Duration> {
    (time > Duration::ZERO).then_some(time)
}

fn write_statuses(statuses: &RangeInclusive<u16>) -> String {
    match statuses.start() == statuses.end() {
        true => statuses.start().to_string(),
        false => format!("{}-{}", statuses.start(), statuses.end()),
    }
}

fn read_statuses(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
}
