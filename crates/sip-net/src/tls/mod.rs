//! TLS for whatever carries it: certificates, verification, key log, and files read again.
//!
//! [`Tls`] makes the settings of [`TlsConfig`] into those of rustls: [`Tls::server_config`] for a
//! listener, [`Tls::client_config`] for connections that we open. What carries the records is no
//! business of it. Connections keep what they began with; files that change, and other settings, are for later ones.

mod config;
mod error;
mod files;
mod identities;
mod key_log;
mod sni;
mod stamps;
mod verifiers;
mod watch;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::server::NoClientAuth;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CipherSuite, ClientConfig, KeyLog, NoKeyLog, ServerConfig};
use sip::{Peer, Transport};
use tokio::task::spawn_blocking;

pub use config::{
    Authorities, CertificateFiles, ClientCertificates, TlsClientConfig, TlsConfig, TlsServerConfig,
    UnknownClientCertificates,
};
pub use error::TlsError;

use crate::listen::Listen;
use files::{read_authorities, read_certificate};
use key_log::KeyLogFile;
use sni::CertificatesByName;
use stamps::Stamps;
use verifiers::{InsecureVerifier, SipClientVerifier, SipServerVerifier};

pub(crate) use identities::sip_domains;
pub(crate) use watch::watch;

/// What TLS uses, read from files.
#[derive(Debug)]
pub(crate) struct Tls {
    /// What is read. Locked while it is.
    source: Mutex<Source>,
    /// How often the files are looked at. Zero: never.
    reload_interval: Duration,
    /// Whether the certificates of servers are verified; otherwise their names prove nothing.
    verifies_servers: bool,
    /// The listeners that have TLS, as they are in the settings.
    listeners: Vec<Listen>,
    provider: Arc<CryptoProvider>,
    key_log: Arc<dyn KeyLog>,
    current: RwLock<Current>,
    /// Whoever reads what clients use has it, for others to wait.
    reading: tokio::sync::Mutex<()>,
    /// How that failed last.
    failure: Mutex<Option<(Instant, TlsError)>>,
    /// The number of the cipher suite that was agreed on last with a server; 0 before.
    cipher_suite: AtomicU16,
}

/// From what everything is read.
#[derive(Debug)]
struct Source {
    config: TlsConfig,
    /// Listeners that the settings do not name any more: they keep what they have.
    kept: Vec<Listen>,
    /// The files as they were when they were last read, or tried to be.
    stamps: Stamps,
    /// Whether they could be read then.
    is_read: bool,
}

/// How long it is remembered that what clients use cannot be read: not each connection tries anew.
const FAILURE_REMEMBERED: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Default)]
struct Current {
    servers: Vec<(Listen, Arc<ServerConfig>)>,
    /// Read when it is first needed where it is all from the system, which may have nothing.
    clients: Option<Clients>,
}

#[derive(Clone, Debug)]
struct Clients {
    /// Verification by the rules of SIP.
    sip: Arc<ClientConfig>,
    /// By those of the web, which secure WebSocket has (RFC 7118 section 7, RFC 6455 section 4.1).
    web: Arc<ClientConfig>,
}

impl TlsConfig {
    /// Reads all that the settings name, as a start with these listeners would, and forgets it.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn check(&self, listeners: &[Listen]) -> Result<(), TlsError> {
        // The key log would be made.
        let config = TlsConfig {
            key_log: None,
            ..self.clone()
        };
        Tls::new(config, listeners).map(drop)
    }
}

impl Tls {
    /// Reads what the listeners and explicit settings name.
    pub(crate) fn new(config: TlsConfig, listeners: &[Listen]) -> Result<Tls, TlsError> {
        let key_log: Arc<dyn KeyLog> = match &config.key_log {
            Some(path) => Arc::new(KeyLogFile::open(path)?),
            None => Arc::new(NoKeyLog),
        };
        let secure = listeners
            .iter()
            .filter(|listen| listen.transport.is_secure());
        let tls = Tls {
            listeners: secure.copied().collect(),
            provider: Arc::new(ring::default_provider()),
            key_log,
            current: RwLock::default(),
            reading: tokio::sync::Mutex::default(),
            failure: Mutex::default(),
            cipher_suite: AtomicU16::new(0),
            reload_interval: config.reload_interval,
            verifies_servers: !config.client.insecure,
            source: Mutex::new(Source {
                config,
                kept: Vec::new(),
                stamps: Stamps::default(),
                is_read: false,
            }),
        };
        tls.reload()?;
        Ok(tls)
    }

    /// Takes note of what was agreed on with a server.
    pub(crate) fn note_cipher_suite(&self, suite: CipherSuite) {
        self.cipher_suite.store(suite.into(), Ordering::Relaxed);
    }

    /// What was agreed on last with a server, by its IANA name.
    pub(crate) fn cipher_suite(&self) -> Option<String> {
        match self.cipher_suite.load(Ordering::Relaxed) {
            // TLS_NULL_WITH_NULL_NULL, which is never agreed on.
            0 => None,
            number => {
                let name = format!("{:?}", CipherSuite::from(number));
                // rustls tells those of TLS 1.3 apart by their names.
                Some(name.replacen("TLS13_", "TLS_", 1))
            }
        }
    }

    /// What a listener uses for its next connection. `listen` is as it is in the settings.
    pub(crate) fn server_config(&self, listen: Listen) -> Result<Arc<ServerConfig>, TlsError> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let found = current.servers.iter().find(|(other, _)| *other == listen);
        found
            .map(|(_, server)| server.clone())
            .ok_or(TlsError::NoCertificate(listen))
    }

    /// What the next connection that we open over a transport uses. Where it has to be read first, that
    /// keeps no worker from its work.
    pub(crate) async fn client_config(
        self: &Arc<Self>,
        transport: Transport,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let of_transport = |clients: Clients| match transport {
            Transport::Wss => clients.web,
            _ => clients.sip,
        };
        if let Some(clients) = self.clients() {
            return Ok(of_transport(clients));
        }
        let _reading = self.reading.lock().await;
        if let Some(clients) = self.clients() {
            return Ok(of_transport(clients));
        }
        let failure = self.failure().clone();
        if let Some((since, error)) = failure
            && since.elapsed() < FAILURE_REMEMBERED
        {
            return Err(error);
        }
        let tls = self.clone();
        let read = spawn_blocking(move || tls.load_clients()).await;
        read.map_err(TlsError::settings)?.map(of_transport)
    }

    fn clients(&self) -> Option<Clients> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clients.clone()
    }

    fn failure(&self) -> MutexGuard<'_, Option<(Instant, TlsError)>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what clients use and remembers it, or that it could not.
    fn load_clients(&self) -> Result<Clients, TlsError> {
        let source = self.source();
        // They may have come with other settings meanwhile.
        if let Some(clients) = self.clients() {
            return Ok(clients);
        }
        let read = self.read_clients(&source.config.client);
        let failure = read.as_ref().err().cloned();
        *self.failure() = failure.map(|error| (Instant::now(), error));
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        Ok(current.clients.get_or_insert(read?).clone())
    }

    /// Reads all files again. Where that fails everything stays as it is.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let mut source = self.source();
        let stamps = self.stamps(&source);
        self.read_again(&mut source, stamps)
    }

    /// Reads all files again where one has changed since they were last read; says whether it did.
    pub(crate) fn reload_changed(&self) -> Result<bool, TlsError> {
        let mut source = self.source();
        let seen = self.stamps(&source);
        let is_changed = source.stamps != seen;
        if is_changed {
            self.read_again(&mut source, seen)?;
        }
        Ok(is_changed)
    }

    /// Reads all files of the settings in use, which look so: what changes meanwhile is seen the next time.
    fn read_again(&self, source: &mut Source, stamps: Stamps) -> Result<(), TlsError> {
        source.stamps = stamps;
        let are_clients_wanted = self.clients().is_some();
        let read = self.read(source, are_clients_wanted);
        source.is_read = read.is_ok();
        read
    }

    /// Goes over to other settings, and reads the files that they name. Where that fails everything stays as it is. A
    /// listener for which they have no certificate keeps what it has, without a further look at its files. So do all the key
    /// log, the interval, and whether servers are believed unseen: what they have proved counts by that.
    pub(crate) fn set(&self, mut config: TlsConfig) -> Result<(), TlsError> {
        let mut source = self.source();
        config.client.insecure = source.config.client.insecure;
        let is_unnamed = |listen: &&Listen| server_of(&config, **listen).certificates.is_empty();
        let kept: Vec<Listen> = self.listeners.iter().filter(is_unnamed).copied().collect();
        let is_client_new = config.client != source.config.client;
        let is_new = is_client_new
            || config.server != source.config.server
            || config.listeners != source.config.listeners;
        let mut newer = Source {
            config,
            kept,
            stamps: Stamps::default(),
            is_read: true,
        };
        newer.stamps = self.stamps(&newer);
        if is_new || !source.is_read || newer.stamps != source.stamps {
            // The authorities of the system are read when they are needed: there may be none.
            let are_clients_wanted = !is_client_new && self.clients().is_some();
            self.read(&newer, are_clients_wanted)?;
            *source = newer;
        }
        Ok(())
    }

    /// Whether the names that a server's certificate shows are proved.
    pub(crate) fn verifies_servers(&self) -> bool {
        self.verifies_servers
    }

    /// How often the files are looked at. Zero: never.
    pub(crate) fn reload_interval(&self) -> Duration {
        self.reload_interval
    }

    fn source(&self) -> MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what a source names, for the connections to come; what clients use where it is a file's or wanted anyway.
    fn read(&self, source: &Source, are_clients_wanted: bool) -> Result<(), TlsError> {
        let mut servers = Vec::new();
        for listen in &self.listeners {
            let server = match source.kept.contains(listen) {
                true => self.server_config(*listen)?,
                false => self.read_server(server_of(&source.config, *listen), *listen)?,
            };
            servers.push((*listen, server));
        }
        let client = &source.config.client;
        let is_named = client.certificate.is_some() || client.authorities != Authorities::System;
        let clients = match is_named || are_clients_wanted {
            true => Some(self.read_clients(client)?),
            false => None,
        };
        *self.failure() = None;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Current { servers, clients };
        Ok(())
    }

    fn read_server(
        &self,
        config: &TlsServerConfig,
        listen: Listen,
    ) -> Result<Arc<ServerConfig>, TlsError> {
        if config.certificates.is_empty() {
            return Err(TlsError::NoCertificate(listen));
        }
        let keys: Result<Vec<_>, _> = config
            .certificates
            .iter()
            .map(|files| read_certificate(files, &self.provider))
            .collect();
        let verifier: Arc<dyn ClientCertVerifier> = match config.client_certificates {
            ClientCertificates::None => Arc::new(NoClientAuth),
            asked => {
                let roots = read_authorities(&config.authorities)?;
                let required = asked == ClientCertificates::Require;
                Arc::new(SipClientVerifier::new(roots, required, &self.provider)?)
            }
        };
        let mut server = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::settings)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(CertificatesByName::new(keys?)));
        server.key_log = self.key_log.clone();
        // Sessions that are resumed cost the peers their memory, not ours.
        server.ticketer = ring::Ticketer::new().map_err(TlsError::settings)?;
        Ok(Arc::new(server))
    }

    fn read_clients(&self, config: &TlsClientConfig) -> Result<Clients, TlsError> {
        let builder = || {
            ClientConfig::builder_with_provider(self.provider.clone())
                .with_safe_default_protocol_versions()
                .map_err(TlsError::settings)
        };
        let [sip, web] = if config.insecure {
            let insecure = || Arc::new(InsecureVerifier::new(&self.provider));
            [builder()?, builder()?].map(|builder| {
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(insecure())
            })
        } else {
            let roots = read_authorities(&config.authorities)?;
            let verifier = Arc::new(SipServerVerifier::new(roots.clone(), &self.provider));
            [
                builder()?
                    .dangerous()
                    .with_custom_certificate_verifier(verifier),
                builder()?.with_root_certificates(roots),
            ]
        };
        let own = match &config.certificate {
            Some(files) => Some(Arc::new(read_certificate(files, &self.provider)?)),
            None => None,
        };
        let finish =
            |builder: rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>| {
                let mut client = match &own {
                    Some(key) => builder.with_client_cert_resolver(Arc::new(
                        rustls::sign::SingleCertAndKey::from(key.clone()),
                    )),
                    None => builder.with_no_client_auth(),
                };
                client.key_log = self.key_log.clone();
                Arc::new(client)
            };
        Ok(Clients {
            sip: finish(sip),
            web: finish(web),
        })
    }

    /// How the files look from which a source is read.
    fn stamps(&self, Source { config, kept, .. }: &Source) -> Stamps {
        let read = self
            .listeners
            .iter()
            .filter(|listen| !kept.contains(listen));
        let servers = read.map(|listen| server_of(config, *listen));
        let of_servers = servers.flat_map(|server| {
            let asks = server.client_certificates != ClientCertificates::None;
            let authorities = asks.then_some(&server.authorities);
            files_of(server.certificates.iter(), authorities)
        });
        let client = &config.client;
        let authorities = (!client.insecure).then_some(&client.authorities);
        Stamps::of(of_servers.chain(files_of(client.certificate.iter(), authorities)))
    }
}

/// What a listener shows and asks for.
fn server_of(config: &TlsConfig, listen: Listen) -> &TlsServerConfig {
    let own = config.listeners.iter().find(|(other, _)| *other == listen);
    own.map_or(&config.server, |(_, own)| own)
}

fn files_of<'a>(
    certificates: impl Iterator<Item = &'a CertificateFiles>,
    authorities: Option<&'a Authorities>,
) -> impl Iterator<Item = &'a std::path::Path> {
    let named = match authorities {
        Some(Authorities::File(path)) => Some(path.as_path()),
        Some(Authorities::System) | None => None,
    };
    certificates
        .flat_map(|files| [files.certificate.as_path(), files.key.as_path()])
        .chain(named)
}

/// What a server has to show, and what it is asked for (SNI): the SIP domain that was looked up,
/// else the address. A name that is none is asked for as the address, which fails where it matters.
pub(crate) fn server_name(peer: Option<&Peer>, remote: SocketAddr) -> ServerName<'static> {
    let address = || ServerName::IpAddress(remote.ip().into());
    match peer.and_then(|peer| peer.name.as_deref()) {
        Some(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            let name = name
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
                .unwrap_or(name);
            ServerName::try_from(name.to_owned()).unwrap_or_else(|_| address())
        }
        None => address(),
    }
}

#[cfg(test)]
mod tests;
