//! For which SIP domains a certificate speaks (RFC 5922 section 7).

use rustls::pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;

/// The SIP domains that a certificate shows (RFC 5922 section 7.1): those of `sip:` URIs without a
/// user, and only where there are none of them the DNS names. A certificate without
/// subjectAltName shows none: of the name in its subject the RFC says that it may be taken, and
/// nobody who makes certificates today relies on that.
pub(crate) fn sip_domains(certificate: &CertificateDer<'_>) -> Vec<Box<str>> {
    EndEntityCert::try_from(certificate).map_or_else(|_| Vec::new(), |parsed| domains(&parsed))
}

/// Whether a certificate shows the SIP domain or address that was asked for.
pub(super) fn shows(certificate: &EndEntityCert<'_>, expected: &ServerName<'_>) -> bool {
    let expected_text = expected.to_str();
    let is_named = domains(certificate)
        .iter()
        .any(|domain| is_same_name(domain, &expected_text));
    // An address has no domain: the iPAddress entries, which are no SIP domains, are for it.
    let is_address = matches!(expected, ServerName::IpAddress(_));
    is_named
        || is_address
            && certificate
                .verify_is_valid_for_subject_name(expected)
                .is_ok()
}

fn domains(certificate: &EndEntityCert<'_>) -> Vec<Box<str>> {
    let of_uris: Vec<Box<str>> = certificate
        .valid_uri_names()
        .filter_map(domain_of_uri)
        .collect();
    if of_uris.is_empty() {
        certificate.valid_dns_names().map(Box::from).collect()
    } else {
        of_uris
    }
}

/// The host of a `sip:` URI that names a domain, not a user.
fn domain_of_uri(uri: &str) -> Option<Box<str>> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("sip") || rest.contains('@') {
        return None;
    }
    // Only the name is compared, no parameters (RFC 5922 section 7.2), and no port.
    let end = rest.find([';', '?']).unwrap_or(rest.len());
    let host_and_port = rest.get(..end)?;
    let host = match host_and_port.strip_prefix('[') {
        Some(ipv6) => ipv6.split_once(']')?.0,
        None => host_and_port.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.into())
}

/// Names are compared whole and without regard to case; a wildcard is a name that nobody asks for
/// (RFC 5922 section 7.2).
fn is_same_name(shown: &str, expected: &str) -> bool {
    let bare = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    bare(shown) == bare(expected)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(names: &[SanType]) -> CertificateDer<'static> {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.to_vec();
        params.self_signed(&key).expect("a certificate").into()
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().expect("ASCII"))
    }

    fn uri(uri: &str) -> SanType {
        SanType::URI(uri.try_into().expect("ASCII"))
    }

    fn is_shown(names: &[SanType], expected: &str) -> bool {
        let certificate = certificate(names);
        let parsed = EndEntityCert::try_from(&certificate).expect("a certificate");
        shows(
            &parsed,
            &ServerName::try_from(expected.to_owned()).expect("a name"),
        )
    }

    #[test]
    fn uris_come_before_dns_names() {
        let names = [
            dns("host.example.com"),
            uri("sip:example.com"),
            uri("SIP:example.net"),
        ];
        let shown = sip_domains(&certificate(&names));
        assert_eq!(shown, [Box::from("example.com"), Box::from("example.net")]);
        assert!(is_shown(&names, "example.com"));
        assert!(!is_shown(&names, "host.example.com"));
    }

    #[test]
    fn dns_names_count_where_no_uri_names_a_domain() {
        let names = [
            uri("sip:alice@example.com"),
            uri("sips:example.com"),
            uri("http://example.com/"),
            dns("Host.Example.COM"),
        ];
        assert!(!is_shown(&names, "example.com"));
        assert!(is_shown(&names, "host.example.com"));
        assert!(is_shown(&names, "host.example.com."));
    }

    #[test]
    fn names_match_whole() {
        let names = [dns("example.com"), dns("*.example.org")];
        assert!(!is_shown(&names, "foo.example.com"));
        assert!(!is_shown(&names, "foo.example.org"));
        assert!(!is_shown(&[], "example.com"));
    }

    #[test]
    fn parameters_and_ports_are_no_part_of_the_name() {
        let names = [
            uri("sip:example.com:5061;transport=tls"),
            uri("sip:[2001:db8::1]:5061"),
        ];
        assert!(is_shown(&names, "example.com"));
        assert!(is_shown(&names, "2001:db8::1"));
        assert!(sip_domains(&certificate(&[uri("sip:")])).is_empty());
        assert!(sip_domains(&certificate(&[uri("sip:[::1")])).is_empty());
        assert!(sip_domains(&CertificateDer::from(vec![0x30, 0x03])).is_empty());
    }

    #[test]
    fn an_address_is_shown_as_an_address() {
        let names = [SanType::IpAddress([192, 0, 2, 1].into())];
        assert!(is_shown(&names, "192.0.2.1"));
        assert!(!is_shown(&names, "192.0.2.2"));
        assert!(!is_shown(&[dns("example.com")], "192.0.2.1"));
    }
}
