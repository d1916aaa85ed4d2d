//! Who is believed: the checks of certificates that RFC 5922 asks for and TLS libraries, made for
//! the web, do otherwise.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use webpki::{EndEntityCert, KeyUsage};

use super::error::TlsError;
use super::identities::{shows, sip_domains};

/// Believes servers that show the SIP domain they were looked up for (RFC 5922 section 7.3).
#[derive(Debug)]
pub(super) struct SipServerVerifier {
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl SipServerVerifier {
    pub(super) fn new(roots: RootCertStore, provider: &CryptoProvider) -> SipServerVerifier {
        SipServerVerifier {
            roots,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ServerCertVerifier for SipServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        let signed = verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        );
        or_for_sip(
            signed,
            end_entity,
            intermediates,
            &self.roots,
            now,
            algorithms,
        )?;

        let certificate = EndEntityCert::try_from(end_entity)
            .map_err(|_| Error::from(CertificateError::BadEncoding))?;
        if shows(&certificate, server_name) {
            Ok(ServerCertVerified::assertion())
        } else {
            let presented = sip_domains(end_entity)
                .iter()
                .map(ToString::to_string)
                .collect();
            Err(CertificateError::NotValidForNameContext {
                expected: server_name.to_owned(),
                presented,
            }
            .into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Believes clients whose certificates an authority signed. Which domains they show is for
/// policies to weigh (RFC 5922 section 7.4).
#[derive(Debug)]
pub(super) struct SipClientVerifier {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
    inner: Arc<dyn ClientCertVerifier>,
}

impl SipClientVerifier {
    /// Clients may go without a certificate where it is not `required`.
    pub(super) fn new(
        roots: RootCertStore,
        required: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<SipClientVerifier, TlsError> {
        let roots = Arc::new(roots);
        let builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let builder = if required {
            builder
        } else {
            builder.allow_unauthenticated()
        };
        Ok(SipClientVerifier {
            roots,
            algorithms: provider.signature_verification_algorithms,
            inner: builder.build().map_err(TlsError::settings)?,
        })
    }
}

impl ClientCertVerifier for SipClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let signed = self
            .inner
            .verify_client_cert(end_entity, intermediates, now)
            .map(|_| ());
        let algorithms = self.algorithms.all;
        or_for_sip(
            signed,
            end_entity,
            intermediates,
            &self.roots,
            now,
            algorithms,
        )?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Believes everybody. The handshake's signatures are checked all the same, so that a peer which
/// does not hold the key of what it shows is a broken one.
#[derive(Debug)]
pub(super) struct InsecureVerifier {
    algorithms: WebPkiSupportedAlgorithms,
}

impl InsecureVerifier {
    pub(super) fn new(provider: &CryptoProvider) -> InsecureVerifier {
        InsecureVerifier {
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl ServerCertVerifier for InsecureVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// A certificate that is for SIP domains alone (RFC 5924 section 4) is not for web servers or
/// clients, and good for us.
fn or_for_sip(
    signed: Result<(), Error>,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
    now: UnixTime,
    algorithms: &[&dyn rustls::pki_types::SignatureVerificationAlgorithm],
) -> Result<(), Error> {
    let Err(Error::InvalidCertificate(
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
    )) = &signed
    else {
        return signed;
    };
    let is_for_sip = EndEntityCert::try_from(end_entity).is_ok_and(|certificate| {
        certificate
            .verify_for_usage(
                algorithms,
                &roots.roots,
                intermediates,
                now,
                KeyUsage::required(SIP_DOMAIN),
                None,
                None,
            )
            .is_ok()
    });
    if is_for_sip { Ok(()) } else { signed }
}

/// id-kp-sipDomain, 1.3.6.1.5.5.7.3.20 (RFC 5924 section 4.1), as DER writes the numbers.
const SIP_DOMAIN: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x14];
