//! Neighbours are known by the names that their TLS certificates show (RFC 5922 section 7, RFC 3325
//! section 2.3): a whole server, and clients with certificates of one authority.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proxy::core::Policy;
use proxy::{ProxyConfig, Server};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use sip::{Message, Method, Name, Target, Transmit, Transport};
use sip_net::{
    Authorities, CertificateFiles, ClientCertificates, Incoming, SipNetConfig, TlsClientConfig,
    TlsConfig, TlsServerConfig, Transports,
};
use tokio::net::UdpSocket;

/// How long anything may take on loopback before a test fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// An authority whose files are in a directory.
struct Authority<'a> {
    directory: &'a Path,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority<'_> {
    fn new(directory: &Path) -> Authority<'_> {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        std::fs::write(directory.join("ca.pem"), certificate.pem()).expect("written");
        Authority {
            directory,
            issuer: Issuer::new(params, key),
        }
    }

    fn authorities(&self) -> Authorities {
        Authorities::File(self.directory.join("ca.pem"))
    }

    fn certificate(&self, name: &str) -> CertificateFiles {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let files = CertificateFiles {
            certificate: self.directory.join(format!("{name}.pem")),
            key: self.directory.join(format!("{name}.key")),
        };
        std::fs::write(&files.certificate, certificate.pem()).expect("written");
        std::fs::write(&files.key, key.serialize_pem()).expect("written");
        files
    }

    fn client(&self, name: &str) -> SipNetConfig {
        SipNetConfig {
            tls: TlsConfig {
                client: TlsClientConfig {
                    certificate: Some(self.certificate(name)),
                    authorities: self.authorities(),
                    insecure: false,
                },
                ..TlsConfig::default()
            },
            encapsulation_port: 0,
            ..SipNetConfig::default()
        }
    }
}

/// A request for somebody who is no user of the server, with an asserted identity.
fn request(to: &str, transport: Transport, call: &str) -> Message {
    let via = transport.via_name();
    Message::request(Method::Message, to)
        .with(
            Name::Via,
            format!("SIP/2.0/{via} peer.invalid;branch=z9hG4bK{call};rport"),
        )
        .with(Name::MaxForwards, "70")
        .with(Name::From, "<sip:carol@peer.example>;tag=1")
        .with(Name::To, format!("<{to}>"))
        .with(Name::CallId, call)
        .with(Name::CSeq, "1 MESSAGE")
        .with(Name::PAssertedIdentity, "<sip:carol@peer.example>")
}

async fn play(transport: Transport) {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(directory.path());
    let mut policy = Policy::default();
    policy.trust.names = vec!["Peer.Example".to_owned()];
    let listener = format!("{transport}:127.0.0.1:0");
    let server = Server::start(ProxyConfig {
        transports: SipNetConfig {
            listeners: vec![
                listener.parse().expect("a listener"),
                "udp:127.0.0.1:0".parse().expect("a listener"),
            ],
            tls: TlsConfig {
                server: TlsServerConfig {
                    certificates: vec![authority.certificate("127.0.0.1")],
                    client_certificates: ClientCertificates::Request,
                    authorities: authority.authorities(),
                },
                ..TlsConfig::default()
            },
            encapsulation_port: 0,
            ..SipNetConfig::default()
        },
        // The names are for all of them.
        workers: 2,
        policy: Arc::new(policy),
        ..ProxyConfig::default()
    })
    .await
    .expect("it starts");
    let address = server.listening()[0].address;
    let callee = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let to = format!("sip:x@{}", callee.local_addr().expect("an address"));

    for (name, is_trusted) in [("peer.example", true), ("other.example", false)] {
        let mut config = authority.client(name);
        if let [encapsulation, ..] = server.encapsulation_addresses()[..] {
            config.peer_encapsulation_port = encapsulation.port();
        }
        let (client, mut incoming) = Transports::start(config).expect("it starts");
        for call in 0..4 {
            let request = request(&to, transport, &format!("{name}{call}"));
            client.send(Transmit {
                target: Target::Address(transport, address),
                peer: None,
                payload: request.to_bytes(),
                call: 0,
                transaction: None,
            });
            if is_trusted {
                let mut octets = vec![0; 4096];
                let length = tokio::time::timeout(PATIENCE, callee.recv(&mut octets));
                let length = length.await.expect("in time").expect("a datagram");
                octets.truncate(length);
                let message = Message::read(octets.into()).expect("a message");
                assert!(message.contains(Name::PAssertedIdentity), "{name}");
                continue;
            }
            let status = loop {
                let event = tokio::time::timeout(PATIENCE, incoming.recv());
                if let Some(Incoming::Message { message, .. }) = event.await.expect("in time") {
                    break message.status();
                }
            };
            assert_eq!(status, Some(403));
        }
        client.shutdown().await;
    }
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_neighbour_is_known_by_its_certificate_over_tls() {
    play(Transport::Tls).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_neighbour_is_known_by_its_certificate_over_tls_over_sctp() {
    play(Transport::TlsSctp).await;
}
