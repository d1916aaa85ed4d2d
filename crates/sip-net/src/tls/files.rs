//! Certificates, keys and authorities in files.

use std::fs;
use std::path::Path;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::config::{Authorities, CertificateFiles};
use super::error::TlsError;

/// Reads a certificate with its chain and key.
pub(super) fn read_certificate(
    files: &CertificateFiles,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = read_certificates(&files.certificate)?;
    let pem = read(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| TlsError::file(&files.key, format!("no private key in it ({error})")))?;
    CertifiedKey::from_der(chain, key, provider)
        .map_err(|error| TlsError::file(&files.key, format!("not the certificate's key ({error})")))
}

/// The authorities to believe.
pub(super) fn read_authorities(authorities: &Authorities) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Authorities::File(path) => {
            for certificate in read_certificates(path)? {
                roots
                    .add(certificate)
                    .map_err(|error| TlsError::file(path, error))?;
            }
        }
        Authorities::System => {
            let found = rustls_native_certs::load_native_certs();
            let (added, _) = roots.add_parsable_certificates(found.certs);
            if added == 0 {
                let errors: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
                return Err(TlsError::NoSystemAuthorities(errors.join("; ")));
            }
        }
    }
    Ok(roots)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|error| TlsError::file(path, error))?;
    if certificates.is_empty() {
        return Err(TlsError::file(path, "no certificate in it"));
    }
    Ok(certificates)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::file(path, error))
}
