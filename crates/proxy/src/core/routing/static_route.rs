//! Static routes: which requests go where.

use std::iter::once;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip::{Host, Message, Method, Peer, SipUri, Transport, Uri};

use super::group::MemberName;
use crate::core::policy::Mode;
use crate::core::read_uri::ReadUri;
use crate::core::uri::{self, rehosted};

/// Says where some requests go. All that is given has to agree; of several routes the first that means a
/// request decides.
///
/// Routes are for requests that no Route header field leads any further. What belongs to a dialog goes
/// where its Record-Routes lead, not by these.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Requests to this domain: the host of their Request-URI, in any case. `None` means any.
    pub domain: Option<String>,
    /// Requests to a user, or telephone number, that begins so. In numbers visual separators do not
    /// count. `None` means any, no user included.
    pub prefix: Option<String>,
    /// Requests of this method. An ACK or CANCEL goes the way of its INVITE. `None` means any but
    /// REGISTER: it has to be named.
    pub method: Option<Method>,
    /// Where to.
    pub to: RouteTarget,
    /// Further addresses of the next hop, where `to` is a URI that gives one and goes over SCTP or TLS over SCTP: one
    /// association is opened with all of them (RFC 9260 section 5.1.2).
    pub addresses: Vec<IpAddr>,
    /// What is done with the request; `None` leaves that to the settings of forwarding.
    pub mode: Option<Mode>,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// To where this SIP URI leads by RFC 3263.
    Uri(String),
    /// To a member of this group.
    Group(String),
}

impl Route {
    /// A route that nothing takes yet.
    pub fn to(to: RouteTarget) -> Route {
        Route {
            domain: None,
            prefix: None,
            method: None,
            to,
            addresses: Vec::new(),
            mode: None,
        }
    }

    /// Whether the route is for a request.
    pub(crate) fn is_for(&self, request: &Message) -> bool {
        let Some(uri) = request.parse_request_uri() else {
            return false;
        };
        let method = match request.method() {
            Some(Method::Ack | Method::Cancel) => Some(&Method::Invite),
            method => method,
        };
        let is_method = match &self.method {
            Some(wanted) => method == Some(wanted),
            None => method != Some(&Method::Register),
        };
        is_method
            && self
                .domain
                .as_ref()
                .is_none_or(|domain| is_in(&uri, domain))
            && self
                .prefix
                .as_ref()
                .is_none_or(|prefix| is_to(&uri, prefix))
    }
}

/// Where a route sends a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Routed {
    /// In the order in which they are tried.
    pub(crate) next_hops: Vec<NextHopUri>,
}

/// A next hop by settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NextHopUri {
    /// Where it is.
    pub(crate) uri: Arc<str>,
    /// The member of a group that it is.
    pub(crate) member: Option<MemberName>,
    /// Its further addresses, where it has several.
    pub(crate) addresses: Arc<[IpAddr]>,
}

impl NextHopUri {
    /// All its addresses, where it has several, and the transport that its URI asks for.
    pub(crate) fn several_addresses(
        &self,
        uri: &ReadUri<'_>,
        is_secure: bool,
    ) -> Option<(Transport, Arc<Peer>)> {
        if self.addresses.is_empty() {
            return None;
        }
        let (transport, first) = uri::address(uri, is_secure)?;
        let further = self.addresses.iter();
        let further = further.map(|address| SocketAddr::new(*address, first.port()));
        let peer = Peer {
            name: None,
            addresses: once(first).chain(further).collect(),
        };
        Some((transport, Arc::new(peer)))
    }
}

impl Routed {
    /// The URIs of the Contacts of a redirection (RFC 3261 section 8.3): the Request-URI with the host
    /// of each next hop, the most preferred first. `None` of a Request-URI that has no host.
    pub(crate) fn contacts(&self, request_uri: &str) -> Option<Vec<String>> {
        let Ok(uri) = Uri::parse(request_uri) else {
            return None;
        };
        let hop = |hop: &NextHopUri| match Uri::parse(&hop.uri) {
            Ok(Uri::Sip(hop)) => rehosted(&uri, &hop),
            _ => None,
        };
        self.next_hops.iter().map(hop).collect()
    }
}

fn is_in(uri: &Uri<'_>, domain: &str) -> bool {
    uri.as_sip().is_some_and(|uri| match uri.host() {
        Host::Name(host) => host
            .strip_suffix('.')
            .unwrap_or(host)
            .eq_ignore_ascii_case(domain),
        Host::Address(address) => domain.parse() == Ok(address),
    })
}

fn is_to(uri: &Uri<'_>, prefix: &str) -> bool {
    match uri {
        Uri::Sip(uri) if is_number(uri) => {
            uri.user().is_some_and(|user| begins(digits(user), prefix))
        }
        Uri::Sip(uri) => uri.user().is_some_and(|user| begins(user.bytes(), prefix)),
        Uri::Tel(uri) => begins(digits(uri.number()), prefix),
        Uri::Other(_) => false,
    }
}

/// Whether the user of a URI is a telephone number: it says so, or it looks like one.
fn is_number(uri: &SipUri<'_>) -> bool {
    let says = uri
        .parameter("user")
        .is_some_and(|user| user.eq_ignore_ascii_case("phone"));
    let looks = |user: &str| {
        user.bytes()
            .all(|octet| octet.is_ascii_digit() || b"+-.()*#".contains(&octet))
    };
    says || uri.user().is_some_and(looks)
}

/// A number without visual separators (RFC 3966 section 5.1.1), and without parameters.
fn digits(number: &str) -> impl Iterator<Item = u8> {
    number
        .bytes()
        .take_while(|octet| *octet != b';')
        .filter(|octet| !b"-.()".contains(octet))
}

fn begins(mut text: impl Iterator<Item = u8>, prefix: &str) -> bool {
    prefix.bytes().all(|octet| text.next() == Some(octet))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> Route {
        Route::to(RouteTarget::Uri("sip:192.0.2.1".to_owned()))
    }

    fn request(method: Method, uri: &str) -> Message {
        Message::request(method, uri)
    }

    #[test]
    fn a_route_is_for_requests_that_agree_with_all_it_says() {
        let by_domain = Route {
            domain: Some("example.org".to_owned()),
            ..route()
        };
        let by_prefix = Route {
            prefix: Some("+49".to_owned()),
            ..route()
        };
        let by_method = Route {
            method: Some(Method::Invite),
            ..route()
        };
        for (route, method, uri, expected) in [
            (&by_domain, Method::Invite, "sip:a@Example.ORG", true),
            (&by_domain, Method::Invite, "sip:example.org.:5070", true),
            (&by_domain, Method::Invite, "sip:a@sip.example.org", false),
            (&by_domain, Method::Invite, "tel:+1", false),
            (&by_domain, Method::Register, "sip:example.org", false),
            (&by_prefix, Method::Invite, "sip:+49-30-1@example.org", true),
            (&by_prefix, Method::Message, "tel:+49(30)1;x=1", true),
            (&by_prefix, Method::Invite, "sip:+4-9@example.org", true),
            (&by_prefix, Method::Invite, "sip:+1@example.org", false),
            (&by_prefix, Method::Invite, "sip:+4@example.org", false),
            (&by_prefix, Method::Invite, "sip:example.org", false),
            (&by_method, Method::Invite, "sip:a@example.org", true),
            (&by_method, Method::Ack, "sip:a@example.org", true),
            (&by_method, Method::Cancel, "sip:a@example.org", true),
            (&by_method, Method::Message, "sip:a@example.org", false),
            (&by_method, Method::Invite, "sip:a", true),
        ] {
            let request = request(method, uri);
            assert_eq!(route.is_for(&request), expected, "{route:?} {uri}");
        }
        let registrations = Route {
            method: Some(Method::Register),
            ..route()
        };
        assert!(registrations.is_for(&request(Method::Register, "sip:example.org")));
    }

    #[test]
    fn a_user_is_no_number() {
        let route = Route {
            prefix: Some("a-b".to_owned()),
            ..route()
        };
        assert!(route.is_for(&request(Method::Invite, "sip:a-b.c@example.org")));
        assert!(!route.is_for(&request(Method::Invite, "sip:ab@example.org")));
    }

    #[test]
    fn a_redirection_names_the_user_at_each_next_hop() {
        let hop = |uri: &str| NextHopUri {
            uri: uri.into(),
            member: None,
            addresses: Arc::default(),
        };
        let routed = Routed {
            next_hops: vec![
                hop("sip:192.0.2.1:5070;transport=tcp"),
                hop("sip:gw.example"),
            ],
        };
        assert_eq!(
            routed.contacts("sip:+491;x=1@example.org;user=phone"),
            Some(vec![
                "sip:+491;x=1@192.0.2.1:5070;user=phone;transport=tcp".to_owned(),
                "sip:+491;x=1@gw.example;user=phone".to_owned(),
            ])
        );
        assert_eq!(
            routed.contacts("tel:+49-1"),
            Some(vec![
                "sip:+49-1@192.0.2.1:5070;transport=tcp;user=phone".to_owned(),
                "sip:+49-1@gw.example;user=phone".to_owned(),
            ])
        );
    }
}
