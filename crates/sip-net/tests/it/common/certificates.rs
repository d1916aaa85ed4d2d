//! Certificates for tests, made when they are needed.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use sip_net::{Authorities, CertificateFiles, TlsClientConfig, TlsConfig, TlsServerConfig};
use tempfile::TempDir;

/// An authority with the files of what it has signed.
pub(crate) struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let directory = TempDir::new().expect("a directory");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "authority of a test");
        let certificate = params.self_signed(&key).expect("a certificate");
        let path = directory.path().join("authority.pem");
        std::fs::write(path, certificate.pem()).expect("written");
        Authority {
            directory,
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file with its own certificate.
    pub(crate) fn file(&self) -> PathBuf {
        self.path("authority.pem")
    }

    /// A certificate for a host name or address, in the same files each time.
    pub(crate) fn certificate(&self, name: &str) -> CertificateFiles {
        let san = match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(name.try_into().expect("ASCII")),
        };
        self.certificate_with(name, vec![san])
    }

    /// A certificate with these names; `name` is its subject.
    pub(crate) fn certificate_with(&self, name: &str, names: Vec<SanType>) -> CertificateFiles {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("a certificate")
            .pem();
        let files = CertificateFiles {
            certificate: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
        };
        std::fs::write(&files.certificate, certificate).expect("written");
        std::fs::write(&files.key, key.serialize_pem()).expect("written");
        files
    }

    /// Settings of a server that shows these certificates.
    pub(crate) fn server(&self, certificates: Vec<CertificateFiles>) -> TlsConfig {
        TlsConfig {
            server: TlsServerConfig {
                certificates,
                authorities: Authorities::File(self.file()),
                ..TlsServerConfig::default()
            },
            ..self.client()
        }
    }

    /// Settings of a client that believes this authority.
    pub(crate) fn client(&self) -> TlsConfig {
        TlsConfig {
            client: TlsClientConfig {
                authorities: Authorities::File(self.file()),
                ..TlsClientConfig::default()
            },
            ..TlsConfig::default()
        }
    }
}
