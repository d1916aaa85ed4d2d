//! Where users are: `[location]` and `[registrar]`.

use std::time::Duration;

use sip::NameAddr;

use super::reader::{Reading, Section};
use crate::ProxyConfig;
use crate::location::{Synchronous, Url};

pub(super) fn read(file: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    file.section("location", |section| location(section, proxy));
    file.section("registrar", |section| registrar(section, proxy));
}

/// Checks what stands in several tables: passwords are asked for, and somewhere there are some.
pub(super) fn check(proxy: &ProxyConfig, reading: &Reading<'_>) {
    let authentication = &proxy.policy.authentication;
    if (authentication.register || authentication.calls) && !proxy.location.url.scheme().keeps_users
    {
        reading.problem_at(
            "location.store",
            "location.store has no users, but [authentication] requires passwords: sqlite:PATH is expected",
        );
    }
}

fn location(section: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    let location = &mut proxy.location;
    location.url = section.get("store", Url::sqlite("tandem.db"));
    location.maximum_addresses_of_record = section.get(
        "maximum_addresses_of_record",
        location.maximum_addresses_of_record,
    );
    location.maximum_octets = section.get("maximum_octets", location.maximum_octets);
    location.maximum_waiting = section.within(
        "maximum_waiting",
        location.maximum_waiting,
        1..,
        "1 or more",
    );
    location.synchronous = section.one_of(
        "synchronous",
        location.synchronous,
        &[Synchronous::Full, Synchronous::Normal].map(|how| (how.name(), how)),
    );
    proxy.queries.timeout = section.within(
        "timeout",
        proxy.queries.timeout,
        Duration::from_millis(100)..,
        "100ms or more",
    );
}

fn registrar(section: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    let registrar = &mut proxy.registrar;
    registrar.minimum_expires = section.get("minimum_expires", registrar.minimum_expires);
    registrar.default_expires = section.get("default_expires", registrar.default_expires);
    registrar.maximum_expires = section.get("maximum_expires", registrar.maximum_expires);
    let allowed = registrar.minimum_expires..=registrar.maximum_expires;
    if allowed.is_empty() {
        section.problem(
            "minimum_expires",
            "registrar.minimum_expires is above registrar.maximum_expires: no interval is allowed",
        );
    } else if !allowed.contains(&registrar.default_expires) || registrar.default_expires.is_zero() {
        section.problem(
            "default_expires",
            "registrar.default_expires is not allowed: a positive interval from \
             registrar.minimum_expires to registrar.maximum_expires is expected",
        );
    }
    registrar.maximum_bindings = section.within(
        "maximum_bindings",
        registrar.maximum_bindings,
        1..,
        "1 or more",
    );
    registrar.path_without_support =
        section.get("path_without_support", registrar.path_without_support);
    registrar.service_route = section.get("service_route", registrar.service_route.clone());
    let is_route = |text: &String| {
        let route = NameAddr::parse(text.as_bytes());
        text.starts_with('<') && route.is_ok_and(|route| route.parse_uri().is_ok())
    };
    if !registrar.service_route.iter().all(is_route) {
        section.refuse(
            "service_route",
            "a list of routes, each a URI in brackets, such as \"<sip:edge.example.org;lr>\",",
        );
    }
    registrar.outbound = section.get("outbound", registrar.outbound);
    let flow_timer = section.get("flow_timer", registrar.flow_timer.unwrap_or_default());
    registrar.flow_timer = (flow_timer > Duration::ZERO).then_some(flow_timer);
    registrar.gruu = section.get("gruu", registrar.gruu);
}
