//! What forwarding does with URIs: where they lead, and how they are rewritten.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::SocketAddr;

use sip::{Host, Parameter, SipUri, Transport, Uri};

use super::query::Destination;
use super::read_uri::ReadUri;

/// Where a SIP URI leads. `None` for a transport that we do not know. `secure` makes any URI lead
/// where a SIPS URI would: so does a SIPS Request-URI with the Route before it (RFC 3261 section 16.6
/// step 7).
pub(crate) fn destination(uri: &ReadUri<'_>, secure: bool) -> Option<Destination> {
    let transport = transport(uri, secure)?;
    let host = match uri.maddr.filter(|maddr| !maddr.is_empty()) {
        Some(maddr) => maddr
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned(),
        None => host_text(uri.host()),
    };
    Some(Destination {
        host,
        port: uri.port(),
        transport: uri.transport.map(|_| transport),
        is_secure: secure || uri.is_secure(),
        is_large: false,
        choice: None,
        addresses: Vec::new(),
    })
}

/// Where a SIP URI leads whose host is an address: what [`destination`] says, without asking anybody.
pub(crate) fn address(uri: &ReadUri<'_>, secure: bool) -> Option<(Transport, SocketAddr)> {
    let transport = transport(uri, secure)?;
    let address = match uri.maddr.filter(|maddr| !maddr.is_empty()) {
        Some(maddr) => maddr
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .ok()?,
        None => uri.host().address()?,
    };
    let port = uri.port().unwrap_or(transport.default_port());
    Some((transport, SocketAddr::new(address, port)))
}

/// The transport that a URI asks for, or else the default of its scheme (RFC 3263 section 4.1 for
/// URIs without NAPTR records).
pub(crate) fn transport(uri: &ReadUri<'_>, secure: bool) -> Option<Transport> {
    let secure = secure || uri.is_secure();
    let named = match uri.transport {
        Some(name) => Some(name.parse::<Transport>().ok()?),
        None => None,
    };
    Some(match (named, secure) {
        (Some(Transport::Udp | Transport::Tcp) | None, true) => Transport::Tls,
        (Some(Transport::Sctp), true) => Transport::TlsSctp,
        (Some(Transport::Ws), true) => Transport::Wss,
        (Some(transport), _) => transport,
        (None, false) => Transport::Udp,
    })
}

/// A host as text; IPv6 without brackets.
pub(crate) fn host_text(host: Host<'_>) -> String {
    match host {
        Host::Name(name) => name.to_ascii_lowercase(),
        Host::Address(address) => address.to_string(),
    }
}

/// Whether two texts are equivalent URIs (RFC 3261 section 19.1.4).
pub(crate) fn is_equivalent(one: &str, other: &str) -> bool {
    match (Uri::parse(one), Uri::parse(other)) {
        (Ok(one), Ok(other)) => one.is_equivalent(&other),
        _ => one == other,
    }
}

/// A contact URI as it may stand in a request line: without headers and without the method parameter
/// (RFC 3261 section 19.1.1, table 1).
pub(crate) fn request_uri(contact: &str) -> Cow<'_, str> {
    match Uri::parse(contact) {
        Ok(Uri::Sip(uri)) => in_request_line(&uri.into()),
        _ => Cow::Borrowed(contact),
    }
}

/// A URI as [`request_uri`] writes it.
pub(crate) fn in_request_line<'a>(uri: &ReadUri<'a>) -> Cow<'a, str> {
    if uri.headers().is_none() && !uri.has_method {
        return Cow::Borrowed(uri.as_str());
    }
    let is_allowed = |parameter: &Parameter<'_>| !parameter.name.eq_ignore_ascii_case("method");
    Cow::Owned(rewritten(uri, uri.port(), is_allowed))
}

/// A Request-URI whose maddr has led to us: without it, and without port and transport, which have
/// done their work as well (RFC 3261 section 16.4).
pub(crate) fn without_maddr(uri: &SipUri<'_>) -> String {
    rewritten(uri, None, |parameter| {
        !["maddr", "transport"]
            .iter()
            .any(|name| parameter.name.eq_ignore_ascii_case(name))
    })
}

/// A URI's user at another host: with the port of that, and with both URIs' parameters but for those
/// that have led the request to us and those of the hop alone. `None` of a URI without a user.
pub(crate) fn rehosted(uri: &Uri<'_>, hop: &SipUri<'_>) -> Option<String> {
    let scheme = if hop.is_secure() { "sips" } else { "sip" };
    let (user, kept) = match uri {
        Uri::Sip(uri) => {
            let kept = uri.parameters().filter(|parameter| {
                !["maddr", "transport", "ttl", "lr"]
                    .iter()
                    .any(|name| parameter.name.eq_ignore_ascii_case(name))
            });
            (uri.user()?, parameters_text(kept))
        }
        Uri::Tel(uri) => (uri.number(), String::new()),
        Uri::Other(_) => return None,
    };
    let its = hop
        .parameters()
        .filter(|parameter| !parameter.name.eq_ignore_ascii_case("lr"));
    let port = hop.port().map(|port| format!(":{port}"));
    // A number is one only if the URI says so (RFC 3261 section 19.1.6).
    let is_number = if matches!(uri, Uri::Tel(_)) {
        ";user=phone"
    } else {
        ""
    };
    Some(format!(
        "{scheme}:{user}@{}{}{kept}{}{is_number}",
        hop.host(),
        port.unwrap_or_default(),
        parameters_text(its)
    ))
}

/// Parameters as they stand in a URI, each with its semicolon.
fn parameters_text<'a>(parameters: impl Iterator<Item = Parameter<'a>>) -> String {
    let mut text = String::new();
    for parameter in parameters {
        // Writing into a String cannot fail.
        let _ = write!(text, ";{}", parameter.name);
        if let Some(value) = parameter.value {
            let _ = write!(text, "={value}");
        }
    }
    text
}

/// A URI with another port, with some of its parameters, and without headers.
fn rewritten(uri: &SipUri<'_>, port: Option<u16>, keep: impl Fn(&Parameter<'_>) -> bool) -> String {
    let mut text = String::from(if uri.is_secure() { "sips:" } else { "sip:" });
    if let Some(user) = uri.user() {
        text.push_str(user);
        if let Some(password) = uri.password() {
            text.push(':');
            text.push_str(password);
        }
        text.push('@');
    }
    // Writing into a String cannot fail.
    let _ = write!(text, "{}", uri.host());
    if let Some(port) = port {
        let _ = write!(text, ":{port}");
    }
    text + &parameters_text(uri.parameters().filter(keep))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(uri: &str, secure: bool) -> Option<String> {
        match Uri::parse(uri) {
            Ok(Uri::Sip(uri)) => destination(&uri.into(), secure).map(|to| {
                let (transport, port) = (to.transport_or_default(), to.port_or_default());
                format!("{transport} {} {port}", to.host)
            }),
            other => panic!("{uri}: {other:?}"),
        }
    }

    #[test]
    fn a_uri_leads_to_host_port_and_transport() {
        for (uri, secure, expected) in [
            ("sip:bob@Example.com", false, Some("udp example.com 5060")),
            (
                "sip:bob@example.com:5070;transport=TCP",
                false,
                Some("tcp example.com 5070"),
            ),
            (
                "sip:[2001:db8::1];transport=sctp",
                false,
                Some("sctp 2001:db8::1 5060"),
            ),
            ("sips:bob@192.0.2.1", false, Some("tls 192.0.2.1 5061")),
            (
                "sips:bob@192.0.2.1;transport=sctp",
                false,
                Some("tls-sctp 192.0.2.1 5061"),
            ),
            ("sip:192.0.2.1;lr", true, Some("tls 192.0.2.1 5061")),
            (
                "sip:bob@example.com;maddr=192.0.2.7",
                false,
                Some("udp 192.0.2.7 5060"),
            ),
            (
                "sip:bob@example.com;maddr=[2001:db8::7]",
                false,
                Some("udp 2001:db8::7 5060"),
            ),
            ("sip:bob@example.com;transport=pigeon", false, None),
        ] {
            assert_eq!(leads(uri, secure).as_deref(), expected, "{uri}");
        }
    }

    #[test]
    fn a_request_line_has_no_headers_and_no_method() {
        for (contact, expected) in [
            ("sip:bob@192.0.2.1:5070;ob", "sip:bob@192.0.2.1:5070;ob"),
            ("sip:bob@192.0.2.1?Subject=x", "sip:bob@192.0.2.1"),
            (
                "sip:b%6Fb:pw@[2001:db8::1]:5070;a=1;method=INVITE;lr?x=y",
                "sip:b%6Fb:pw@[2001:db8::1]:5070;a=1;lr",
            ),
            ("tel:+15551234", "tel:+15551234"),
        ] {
            assert_eq!(request_uri(contact), expected);
        }
    }

    #[test]
    fn maddr_goes_with_port_and_transport() {
        let Ok(Uri::Sip(uri)) =
            Uri::parse("sip:bob@example.com:5070;maddr=192.0.2.1;transport=tcp;x=1")
        else {
            panic!("no SIP URI");
        };
        assert_eq!(without_maddr(&uri), "sip:bob@example.com;x=1");
    }
}
