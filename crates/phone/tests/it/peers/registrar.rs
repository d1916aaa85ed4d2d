//! The registrars: our proxy and Kamailio. Everybody who registers or calls has to say the password.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use phone::PhoneConfig;
use proxy::core::{AuthenticationPolicy, Policy};
use proxy::location::{LocationConfig, User};
use proxy::{ProxyConfig, Server};
use sip::Transport;
use sip::digest::Algorithm;
use sip_net::{Authorities, CertificateFiles, Listen, SipNetConfig, TlsConfig};
use tempfile::TempDir;
use test_support::Kamailio;
use ua::{AccountConfig, Credentials};

use crate::phones::Running;

/// The password of every user.
pub(crate) const PASSWORD: &str = "secret";
/// The domain of our proxy.
const DOMAIN: &str = "example.org";
/// Those who may register.
const USERS: [&str; 3] = ["alice", "bob", "carol"];

/// Which registrar.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    Tandem,
    Kamailio,
}

/// A running registrar.
pub(crate) struct Registrar {
    domain: String,
    transport: Transport,
    port: u16,
    tls: TlsConfig,
    _directory: TempDir,
    _kamailio: Option<Kamailio>,
    _tandem: Option<Server>,
}

impl Registrar {
    /// Starts it on loopback. `None` where it cannot be had.
    pub(crate) async fn start(at: At, transport: Transport) -> Option<Registrar> {
        let directory = tempfile::tempdir().expect("a directory");
        let tls = certified(directory.path());
        Some(match at {
            At::Kamailio => {
                let kamailio = Kamailio::authenticating()?;
                Registrar {
                    domain: format!("127.0.0.1:{}", kamailio.port),
                    transport,
                    port: kamailio.port,
                    tls,
                    _directory: directory,
                    _kamailio: Some(kamailio),
                    _tandem: None,
                }
            }
            At::Tandem => {
                let server = tandem(transport, tls.clone()).await;
                Registrar {
                    domain: DOMAIN.to_owned(),
                    transport,
                    port: server.listening()[0].address.port(),
                    tls,
                    _directory: directory,
                    _kamailio: None,
                    _tandem: Some(server),
                }
            }
        })
    }

    /// A user of it.
    pub(crate) fn account(&self, user: &str) -> Account {
        Account {
            user: user.to_owned(),
            domain: self.domain.clone(),
            transport: self.transport,
            server_port: self.port,
            tls: self.tls.clone(),
        }
    }
}

/// A user, as a phone of any make is set up for it.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) user: String,
    /// The domain of the address of record, with a port where it is no name.
    pub(crate) domain: String,
    transport: Transport,
    server_port: u16,
    tls: TlsConfig,
}

impl Account {
    /// The address of record.
    pub(crate) fn uri(&self) -> String {
        format!("sip:{}@{}", self.user, self.domain)
    }

    /// The realm of the password: the domain without a port.
    pub(crate) fn realm(&self) -> &str {
        self.domain.split(':').next().unwrap_or_default()
    }

    /// The transport, as URIs name it.
    pub(crate) fn transport(&self) -> &'static str {
        self.transport.uri_parameter()
    }

    /// The server, through which everything goes.
    pub(crate) fn server(&self) -> String {
        let (port, transport) = (self.server_port, self.transport());
        format!("sip:127.0.0.1:{port};transport={transport}")
    }

    /// The server's port.
    pub(crate) fn server_port(&self) -> u16 {
        self.server_port
    }

    /// Our phone for this user.
    pub(crate) fn phone(&self, change: impl FnOnce(&mut PhoneConfig)) -> Running {
        Running::start(&self.user, self.transport, |config| {
            let mut account = AccountConfig::new(self.uri());
            account.outbound_proxies = vec![self.server()];
            account.credentials = Some(Credentials {
                username: self.user.clone(),
                password: PASSWORD.to_owned(),
            });
            config.accounts = vec![account];
            config.net.tls = self.tls.clone();
            change(config);
        })
    }
}

async fn tandem(transport: Transport, tls: TlsConfig) -> Server {
    let authentication = AuthenticationPolicy {
        register: true,
        calls: true,
        // baresip 1.0 stumbles over any other one, although RFC 8760 section 2.4 has it ignored.
        algorithms: vec![Algorithm::Md5],
        ..AuthenticationPolicy::default()
    };
    let listener = Listen {
        transport,
        address: (Ipv4Addr::LOCALHOST, 0).into(),
    };
    let users = USERS.map(|name| User::new(name, DOMAIN, PASSWORD.as_bytes()));
    let config = ProxyConfig {
        transports: SipNetConfig {
            listeners: vec![listener],
            tls,
            ..SipNetConfig::default()
        },
        domains: vec![DOMAIN.parse().expect("a host")],
        location: LocationConfig {
            users: users.into(),
            ..LocationConfig::default()
        },
        policy: Arc::new(Policy {
            authentication,
            ..Policy::default()
        }),
        ..ProxyConfig::default()
    };
    Server::start(config).await.expect("the proxy starts")
}

/// A certificate signed by itself that everybody shows and believes.
fn certified(directory: &Path) -> TlsConfig {
    let names = [DOMAIN, "localhost", "127.0.0.1"].map(str::to_owned);
    let certified = rcgen::generate_simple_self_signed(names).expect("names are good");
    let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
    std::fs::write(&certificate, certified.cert.pem()).expect("a file");
    std::fs::write(&key, certified.signing_key.serialize_pem()).expect("a file");
    let mut tls = TlsConfig::default();
    tls.client.authorities = Authorities::File(certificate.clone());
    tls.server.certificates = vec![CertificateFiles { certificate, key }];
    tls
}
