//! Which of several certificates a client gets.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use super::identities::sip_domains;

/// Certificates with the names that they are for.
#[derive(Debug)]
pub(super) struct CertificatesByName {
    certificates: Vec<Named>,
}

#[derive(Debug)]
struct Named {
    key: Arc<CertifiedKey>,
    names: Vec<Box<str>>,
}

impl CertificatesByName {
    pub(super) fn new(keys: Vec<CertifiedKey>) -> CertificatesByName {
        let certificates = keys
            .into_iter()
            .map(|key| Named {
                names: names(&key),
                key: Arc::new(key),
            })
            .collect();
        CertificatesByName { certificates }
    }

    fn choose(
        &self,
        server_name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        // One name may have two certificates, with an RSA and an ECDSA key.
        let usable = |named: &&Named| named.key.key.choose_scheme(schemes).is_some();
        let for_name = server_name.and_then(|name| {
            let is_for_name = |named: &&Named| named.names.iter().any(|own| is_for(own, name));
            self.certificates.iter().filter(usable).find(is_for_name)
        });
        for_name
            .or_else(|| self.certificates.iter().find(usable))
            .map(|named| named.key.clone())
    }
}

impl ResolvesServerCert for CertificatesByName {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(client_hello.server_name(), client_hello.signature_schemes())
    }
}

/// All names that a client may ask for: SIP domains (RFC 5922 section 7.8) and hosts.
fn names(key: &CertifiedKey) -> Vec<Box<str>> {
    let Some(certificate) = key.cert.first() else {
        return Vec::new();
    };
    let mut names = sip_domains(certificate);
    if let Ok(parsed) = EndEntityCert::try_from(certificate) {
        names.extend(parsed.valid_dns_names().map(Box::from));
    }
    names
}

/// A browser takes a wildcard, a SIP client does not: which of the two asks is not known here, and
/// it checks for itself.
fn is_for(own: &str, asked: &str) -> bool {
    own.eq_ignore_ascii_case(asked)
        || own.strip_prefix("*.").is_some_and(|parent| {
            asked
                .split_once('.')
                .is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(parent))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_for_one_label() {
        assert!(is_for("*.example.com", "a.example.com"));
        assert!(!is_for("*.example.com", "a.b.example.com"));
        assert!(!is_for("*.example.com", "example.com"));
        assert!(is_for("Example.com", "example.COM"));
    }
}
