//! Who the server is and where it listens: the keys before the first table, and `[[listener]]`.

use std::net::SocketAddr;
use std::path::PathBuf;

use sip::Transport;
use sip_net::{Authorities, CertificateFiles, ClientCertificates, Listen, TlsServerConfig};

use super::reader::Section;
use crate::ProxyConfig;

pub(super) fn read(file: &Section<'_, '_>, proxy: &mut ProxyConfig) {
    proxy.domains = file.get("domains", Vec::new());
    proxy.advertise = file.optional("advertise");
    proxy.workers = file.get("workers", 0);
    let transports = &mut proxy.transports;
    for (listen, tls) in file.list("listener", listener).into_iter().flatten() {
        transports.listeners.push(listen);
        transports
            .tls
            .listeners
            .extend(tls.map(|tls| (listen, tls)));
    }
}

fn listener(section: &Section<'_, '_>) -> Option<(Listen, Option<TlsServerConfig>)> {
    let transport: Option<Transport> = section.required("transport");
    let address: Option<SocketAddr> = section.required("address");
    let (tls, is_half) = section.live(|| tls(section));
    let listen = Listen {
        transport: transport?,
        address: address?,
    };
    match (listen.transport.is_secure(), tls.certificates.is_empty()) {
        (true, false) if !is_half => Some((listen, Some(tls))),
        (false, true) if !is_half => Some((listen, None)),
        (true, ..) => {
            section.problem(
                "transport",
                format_args!(
                    "a listener with transport {} needs a certificate and its key: \
                     certificate = \"FILE\" and key = \"FILE\"",
                    listen.transport
                ),
            );
            None
        }
        (false, ..) => {
            section.problem(
                "certificate",
                format_args!(
                    "a listener with transport {} uses no certificate: only tls, tls-sctp and wss do",
                    listen.transport
                ),
            );
            None
        }
    }
}

/// What a listener shows and asks for, and whether a certificate stands there without its key, or a key alone.
fn tls(section: &Section<'_, '_>) -> (TlsServerConfig, bool) {
    let certificate: Option<PathBuf> = section.optional("certificate");
    let key: Option<PathBuf> = section.optional("key");
    let is_half = certificate.is_some() != key.is_some();
    let first = certificate
        .zip(key)
        .map(|(certificate, key)| CertificateFiles { certificate, key });
    let further = section.list("certificates", certificate_files);
    let client_certificates = section.one_of(
        "client_certificates",
        ClientCertificates::None,
        &[
            ("none", ClientCertificates::None),
            ("request", ClientCertificates::Request),
            ("require", ClientCertificates::Require),
        ],
    );
    let authorities: Option<PathBuf> = section.optional("ca");
    let tls = TlsServerConfig {
        certificates: first
            .into_iter()
            .chain(further.into_iter().flatten())
            .collect(),
        client_certificates,
        authorities: authorities.map_or(Authorities::System, Authorities::File),
    };
    (tls, is_half)
}

fn certificate_files(section: &Section<'_, '_>) -> Option<CertificateFiles> {
    let certificate = section.required("certificate");
    let key = section.required("key");
    Some(CertificateFiles {
        certificate: certificate?,
        key: key?,
    })
}
