//! How transports behave: `[sctp]`, `[tls]`, `[websocket]`, `[dns]`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use sip::Transport;
use sip_net::resolve::ResolverConfig;
use sip_net::{
    Authorities, CertificateFiles, Profile, SctpOver, SipNetConfig, StreamPolicy, TlsClientConfig,
};

use super::reader::Section;
use crate::ProxyConfig;

pub(super) fn read(file: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    file.section("sctp", |section| sctp(section, &mut proxy.transports));
    file.section("tls", |section| tls(section, &mut proxy.transports));
    file.section("websocket", |section| {
        websocket(section, &mut proxy.transports)
    });
    file.section("dns", |section| dns(section, &mut proxy.dns));
}

fn sctp(section: &Section<'_, '_>, transports: &mut SipNetConfig) {
    transports.sctp_over = section.one_of(
        "over",
        transports.sctp_over,
        &[
            ("udp", SctpOver::Udp),
            ("ip", SctpOver::Ip),
            ("kernel", SctpOver::Kernel),
        ],
    );
    let profile = section.one_of(
        "profile",
        Profile::Signalling,
        &[
            ("signalling", Profile::Signalling),
            ("rfc9260", Profile::Rfc9260),
        ],
    );
    transports.sctp = transports.sctp.clone().profile(profile);
    let extensions = &mut transports.sctp.association.extensions;
    extensions.address_reconfiguration = section.get(
        "address_reconfiguration",
        extensions.address_reconfiguration,
    );
    transports.encapsulation_port =
        section.get("encapsulation_port", transports.encapsulation_port);
    transports.peer_encapsulation_port = section.within(
        "peer_encapsulation_port",
        transports.peer_encapsulation_port,
        1..,
        "a port from 1 to 65535",
    );
    let together: Vec<IpAddr> = section.get("addresses", Vec::new());
    if let Some(problem) = problem_of(&together, transports) {
        section.problem("addresses", problem);
    }
    if !together.is_empty() {
        transports.sctp_addresses = vec![together];
    }
    transports.kernel_kept_away = section.get("kernel_kept_away", transports.kernel_kept_away);
    transports.stream_policy = section.one_of(
        "stream_policy",
        transports.stream_policy,
        &[
            ("unordered", StreamPolicy::Unordered),
            ("per-transaction", StreamPolicy::PerTransaction),
            ("per-call", StreamPolicy::PerCall),
            ("single", StreamPolicy::Single),
        ],
    );
    transports.tls_streams = section.within(
        "tls_streams",
        transports.tls_streams,
        1..,
        "a number from 1 to 65535",
    );
}

/// Why addresses cannot be used together.
fn problem_of(together: &[IpAddr], transports: &SipNetConfig) -> Option<String> {
    let (first, others) = together.split_first()?;
    let twice = (1..together.len())
        .filter_map(|at| together.split_at_checked(at))
        .find_map(|(before, rest)| rest.first().filter(|address| before.contains(address)));
    if let Some(twice) = twice {
        return Some(format!("sctp.addresses names {twice} twice"));
    }
    if let Some(wildcard) = together.iter().find(|address| address.is_unspecified()) {
        return Some(format!(
            "sctp.addresses = {wildcard} is not allowed: list addresses of this host"
        ));
    }
    if others.is_empty() {
        return Some(format!(
            "sctp.addresses names only {first}: at least two addresses are needed"
        ));
    }
    let is_used = transports.listeners.iter().any(|listen| {
        matches!(listen.transport, Transport::Sctp | Transport::TlsSctp)
            && (together.contains(&listen.address.ip()) || listen.address.ip().is_unspecified())
    });
    (!is_used && !transports.listeners.is_empty()).then(|| {
        "sctp.addresses contains no address of a listener with transport sctp or tls-sctp"
            .to_owned()
    })
}

fn tls(section: &Section<'_, '_>, transports: &mut SipNetConfig) {
    let tls = &mut transports.tls;
    tls.client = TlsClientConfig {
        insecure: section.get("insecure", tls.client.insecure),
        ..section.live(|| tls_client(section))
    };
    tls.key_log = section.optional("key_log");
    tls.reload_interval = section.get("reload_interval", tls.reload_interval);
}

fn tls_client(section: &Section<'_, '_>) -> TlsClientConfig {
    let certificate: Option<PathBuf> = section.optional("certificate");
    let key: Option<PathBuf> = section.optional("key");
    if certificate.is_some() != key.is_some() {
        let there = if key.is_some() { "key" } else { "certificate" };
        section.problem(there, "tls.certificate and tls.key are needed together");
    }
    let authorities: Option<PathBuf> = section.optional("ca");
    TlsClientConfig {
        certificate: certificate
            .zip(key)
            .map(|(certificate, key)| CertificateFiles { certificate, key }),
        authorities: authorities.map_or(Authorities::System, Authorities::File),
        ..TlsClientConfig::default()
    }
}

fn websocket(section: &Section<'_, '_>, transports: &mut SipNetConfig) {
    let websocket = &mut transports.websocket;
    websocket.path = section.optional("path");
    if websocket
        .path
        .as_deref()
        .is_some_and(|path: &str| !path.starts_with('/'))
    {
        section.refuse("path", "a path that begins with a slash, such as \"/sip\",");
    }
    websocket.origins = section.get("origins", Vec::new());
    if !websocket.origins.iter().all(|origin| is_origin(origin)) {
        section.refuse(
            "origins",
            "a list of origins as browsers send them, such as \"https://example.org\" or \
             \"https://example.org:8443\",",
        );
    }
    websocket.ping_interval = section.get("ping_interval", websocket.ping_interval);
}

/// Whether a text is a serialised origin (RFC 6454 section 6.2): a scheme, a host, a port perhaps, and no path.
fn is_origin(text: &str) -> bool {
    let authority = text.split_once("://").map(|(_, authority)| authority);
    authority.is_some_and(|authority| {
        !authority.is_empty() && !authority.contains(['/', '?', '#', '@', ' '])
    })
}

fn dns(section: &Section<'_, '_>, dns: &mut ResolverConfig) {
    dns.servers = section.get("servers", Vec::new());
    dns.hosts_file = section.get("hosts_file", dns.hosts_file);
    dns.timeout = section.within(
        "timeout",
        dns.timeout,
        Duration::from_millis(10)..,
        "10ms or more",
    );
    dns.retries = section.get("retries", dns.retries);
    dns.maximum_parallel =
        section.within("maximum_parallel", dns.maximum_parallel, 1.., "1 or more");
    dns.maximum_cached = section.get("maximum_cached", dns.maximum_cached);
    dns.maximum_ttl = section.get("maximum_ttl", dns.maximum_ttl);
    dns.maximum_negative_ttl = section.get("maximum_negative_ttl", dns.maximum_negative_ttl);
    dns.failure_ttl = section.get("failure_ttl", dns.failure_ttl);
    dns.maximum_suspects = section.get("maximum_suspects", dns.maximum_suspects);
    dns.suspicion = section.get("suspicion", dns.suspicion);
}
