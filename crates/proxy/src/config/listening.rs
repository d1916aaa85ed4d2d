//! Who the server is and where it listens: the keys before the first table, `[[listener]]`, `[sctp]`.

use std::net::SocketAddr;

use sip::Transport;
use sip_net::{Listen, StreamPolicy};

use super::reader::Section;
use crate::ProxyConfig;

pub(super) fn read(file: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    proxy.domains = file.get("domains", Vec::new());
    proxy.advertise = file.optional("advertise");
    proxy.workers = file.get("workers", 0);
    let listeners = file.list("listener", listener);
    proxy.transports.listeners = listeners.into_iter().flatten().collect();
    file.section("sctp", |section| sctp(section, proxy));
}

fn listener(section: &Section<'_, '_>) -> Option<Listen> {
    let transport: Option<Transport> = section.required("transport");
    let address: Option<SocketAddr> = section.required("address");
    Some(Listen {
        transport: transport?,
        address: address?,
    })
}

fn sctp(section: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    let transports = &mut proxy.transports;
    transports.encapsulation_port =
        section.get("encapsulation_port", transports.encapsulation_port);
    transports.peer_encapsulation_port = section.within(
        "peer_encapsulation_port",
        transports.peer_encapsulation_port,
        1..,
        "a port from 1 to 65535",
    );
    transports.stream_policy = section.one_of(
        "stream_policy",
        transports.stream_policy,
        &[
            ("unordered", StreamPolicy::Unordered),
            ("per-call", StreamPolicy::PerCall),
        ],
    );
}
