//! Where users are: `[location]` and `[registrar]`.

use std::time::Duration;

use super::reader::Section;
use crate::ProxyConfig;
use crate::location::Url;

pub(super) fn read(file: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    file.section("location", |section| location(section, proxy));
    file.section("registrar", |section| registrar(section, proxy));
}

fn location(section: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    let location = &mut proxy.location;
    location.url = section.get("store", Url::default_sqlite());
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
    if registrar.minimum_expires > registrar.maximum_expires {
        section.problem(
            "minimum_expires",
            "registrar.minimum_expires is above registrar.maximum_expires: no interval is allowed",
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
    registrar.outbound = section.get("outbound", registrar.outbound);
    let flow_timer = section.get("flow_timer", registrar.flow_timer.unwrap_or_default());
    registrar.flow_timer = (flow_timer > Duration::ZERO).then_some(flow_timer);
    registrar.gruu = section.get("gruu", registrar.gruu);
}
