//! What TLS is told: what we show, whom we believe.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::listen::Listen;

/// The settings of TLS, on whatever transport it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// What listeners show and ask for.
    pub server: TlsServerConfig,
    /// Listeners that show or ask for something else: as they are in
    /// [`SipNetConfig::listeners`](crate::SipNetConfig::listeners).
    pub listeners: Vec<(Listen, TlsServerConfig)>,
    /// What we show and ask for where we open the connection.
    pub client: TlsClientConfig,
    /// A file to which the secrets of every connection are appended, in the format that Wireshark
    /// reads (`tls.keylog_file`). Whoever has it can read all that goes over the wire.
    pub key_log: Option<PathBuf>,
    /// How often the files are looked at, so that those that changed are read again. Zero: only
    /// [`Transports::reload_certificates`](crate::Transports::reload_certificates) and
    /// [`Transports::set_tls`](crate::Transports::set_tls) do.
    pub reload_interval: Duration,
}

impl Default for TlsConfig {
    /// No certificate of our own, the authorities of the system, files looked at every 10 seconds.
    fn default() -> TlsConfig {
        TlsConfig {
            server: TlsServerConfig::default(),
            listeners: Vec::new(),
            client: TlsClientConfig::default(),
            key_log: None,
            reload_interval: Duration::from_secs(10),
        }
    }
}

/// What a listener shows and asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsServerConfig {
    /// Our certificates. A client that names a host (SNI) gets the first that is for that name, all
    /// others get the first.
    pub certificates: Vec<CertificateFiles>,
    /// Whether clients are asked for certificates.
    pub client_certificates: ClientCertificates,
    /// Who has to have signed those.
    pub authorities: Authorities,
}

/// What we show and ask for where we open the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsClientConfig {
    /// Our certificate for servers that ask for one.
    pub certificate: Option<CertificateFiles>,
    /// Who has to have signed the servers' certificates.
    pub authorities: Authorities,
    /// Believe every server whatever it shows. For laboratories: anybody on the way can read and
    /// change what is sent.
    pub insecure: bool,
}

/// A certificate with its key, in PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateFiles {
    /// The certificate, and after it those that lead from it to the authority.
    pub certificate: PathBuf,
    /// The private key: PKCS #8, PKCS #1 or SEC1, not encrypted.
    pub key: PathBuf,
}

/// Certificate authorities that are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Authorities {
    /// Those of the operating system; the environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR`
    /// name others.
    #[default]
    System,
    /// Those in a PEM file, and no others.
    File(PathBuf),
}

/// Whether a listener asks clients for certificates (RFC 5922 section 7.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClientCertificates {
    /// It does not.
    #[default]
    None,
    /// It asks and goes on without one. One that an authority of ours did not sign ends the
    /// connection.
    Request,
    /// No connection without one.
    Require,
}

impl fmt::Display for ClientCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ClientCertificates::None => "none",
            ClientCertificates::Request => "request",
            ClientCertificates::Require => "require",
        })
    }
}

/// A text that does not say whether clients are asked for certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is none of: none, request, require")]
pub struct UnknownClientCertificates(pub String);

impl FromStr for ClientCertificates {
    type Err = UnknownClientCertificates;

    fn from_str(text: &str) -> Result<ClientCertificates, UnknownClientCertificates> {
        [
            ClientCertificates::None,
            ClientCertificates::Request,
            ClientCertificates::Require,
        ]
        .into_iter()
        .find(|choice| choice.to_string() == text)
        .ok_or_else(|| UnknownClientCertificates(text.to_owned()))
    }
}
