//! Where a response goes when neither the connection of its request is there any more, nor one can be opened to where
//! that came from: to what the Via says of the sender (RFC 3263 section 5, RFC 3261 section 18.2.2).
//!
//! That is how a client that has failed between request and response is replaced by another one of its name. It is for
//! connections alone: a connection proves the source of a request. A datagram with a forged source would aim our response,
//! and all its retransmissions, at any host that its Via names. For the same reason the number of such responses at a time
//! is bounded, and the Via is not followed to addresses outside of the sender's scope, such as those behind our firewall.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use sip::{Host, Message, Peer, Transport};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::address_scope::may_refer_to;
use crate::incoming::SendError;
use crate::resolve::{Hop, Question, Reach, Resolver};

/// Finds another destination for responses whose connection is gone.
#[derive(Debug)]
pub(crate) struct ResponseFallback {
    resolver: OnceLock<Resolver>,
    reach: Reach,
    /// Responses that may be on this way at a time.
    slots: Arc<Semaphore>,
}

/// The look-up for a response.
#[derive(Debug)]
pub(crate) struct Lookup {
    question: Question,
    /// Where the request came from, as far as we have noted that in its Via (RFC 3261 section 18.2.1).
    source: Option<IpAddr>,
    _slot: OwnedSemaphorePermit,
}

/// How long name servers may take.
const LOOK_UP: Duration = Duration::from_secs(10);

impl ResponseFallback {
    /// Nothing is followed before there is a resolver.
    pub(crate) fn new(reach: Reach, at_a_time: usize) -> ResponseFallback {
        ResponseFallback {
            resolver: OnceLock::new(),
            reach,
            slots: Arc::new(Semaphore::new(at_a_time.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Lets Vias be followed. The first resolver stays.
    pub(crate) fn resolve_by(&self, resolver: Resolver) {
        let _ = self.resolver.set(resolver);
    }

    /// Where to look for another way of a message that was not sent; `None` where there is none.
    pub(crate) fn lookup(
        &self,
        payload: &Bytes,
        transport: Transport,
        error: &SendError,
    ) -> Option<Lookup> {
        let is_lost = matches!(
            error,
            SendError::Gone
                | SendError::ConnectTimeout
                | SendError::Io(..)
                | SendError::Tls(_)
                | SendError::Sctp(_)
        );
        let has_connections = matches!(
            transport,
            Transport::Tcp | Transport::Tls | Transport::Sctp | Transport::TlsSctp
        );
        if !is_lost || !has_connections {
            return None;
        }
        let (question, source) = question(payload, transport)?;
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        Some(Lookup {
            question,
            source,
            _slot: slot,
        })
    }

    /// The places that the Via leads to, one to be tried after the other.
    pub(crate) async fn hops(&self, lookup: &Lookup) -> Vec<Hop> {
        let Some(resolver) = self.resolver.get() else {
            return Vec::new();
        };
        let hops = resolver.resolve(&lookup.question, &self.reach);
        let hops = tokio::time::timeout(LOOK_UP, hops).await;
        hops.unwrap_or_default()
    }
}

impl Lookup {
    /// Whether the sender of the request may name a place to us: all its addresses are such as he can reach himself.
    pub(crate) fn may_go_to(&self, hop: &Hop) -> bool {
        may_go_to(hop, self.source)
    }
}

/// The peer that a response needs on a new connection: the host that sent the request, by the name in its Via
/// (RFC 3261 section 18.2.2). A TLS certificate has to show that name (RFC 5922
/// section 7.3). `None` where it is an address, and for a request.
pub(crate) fn requesting_peer(payload: &Bytes) -> Option<Arc<Peer>> {
    let message = Message::read(payload.clone()).ok()?;
    message.status()?;
    match message.top_via()?.host() {
        Host::Name(name) => Some(Arc::new(Peer {
            name: Some(name.into()),
            ..Peer::default()
        })),
        Host::Address(_) => None,
    }
}

/// Whether all addresses of a place are such as may be named from `source`.
fn may_go_to(hop: &Hop, source: Option<IpAddr>) -> bool {
    let others = hop.peer.as_deref().map_or(&[][..], |peer| &peer.addresses);
    let mut addresses = others.iter().chain([&hop.remote]);
    addresses.all(|address| may_refer_to(address.ip(), source))
}

/// What the Via of a response leads to, and where the request came from as far as we have noted that there (RFC 3261
/// section 18.2.1). `None` where the message is none, or its Via says no more than what the connection did.
fn question(payload: &Bytes, transport: Transport) -> Option<(Question, Option<IpAddr>)> {
    let message = Message::read(payload.clone()).ok()?;
    message.status()?;
    let via = message.top_via()?;
    let host = match via.host() {
        Host::Name(name) => name.to_owned(),
        // The request came from this address, to which there is no connection.
        Host::Address(address) if via.received().is_none_or(|received| received == address) => {
            return None;
        }
        Host::Address(address) => address.to_string(),
    };
    let question = Question {
        host,
        port: via.port(),
        transport: Some(transport),
        is_secure: transport.is_secure(),
        is_large: false,
        choice: None,
        addresses: Vec::new(),
    };
    Some((question, via.received()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(start: &str, via: &str) -> Option<(String, Option<u16>)> {
        let message = format!("{start}\r\nVia: {via}\r\nCSeq: 1 BYE\r\n\r\n");
        let (question, _) = question(&message.into(), Transport::Tcp)?;
        Some((question.host, question.port))
    }

    #[test]
    fn responses_go_where_their_via_says_more_than_their_connection() {
        let ok = |via| asked("SIP/2.0 200 OK", via);
        let name = "SIP/2.0/TCP one.example.org:5070;received=192.0.2.1;branch=z9hG4bK1";
        assert_eq!(ok(name), Some(("one.example.org".to_owned(), Some(5070))));
        assert_eq!(asked("BYE sip:a@192.0.2.1 SIP/2.0", name), None);
        assert_eq!(
            ok("SIP/2.0/TCP example.org;branch=z9hG4bK1"),
            Some(("example.org".to_owned(), None))
        );
        let other = "SIP/2.0/TCP 192.0.2.2:5070;received=192.0.2.1;branch=z9hG4bK1";
        assert_eq!(ok(other), Some(("192.0.2.2".to_owned(), Some(5070))));
        assert_eq!(
            ok("SIP/2.0/TCP [2001:db8::2];received=2001:db8::1"),
            Some(("2001:db8::2".to_owned(), None))
        );
        for same in [
            "SIP/2.0/TCP 192.0.2.1:5070;branch=z9hG4bK1",
            "SIP/2.0/TCP 192.0.2.1:5070;rport=40000;received=192.0.2.1",
        ] {
            assert_eq!(ok(same), None, "{same}");
        }
    }

    #[test]
    fn each_address_of_a_place_has_to_be_one_that_may_refer_to() {
        let address = |text: &str| text.parse().expect("an address");
        let hop = |remote, others: &[&str]| Hop {
            transport: Transport::Sctp,
            remote: address(remote),
            peer: Some(Arc::new(sip::Peer {
                name: None,
                addresses: others.iter().map(|other| address(other)).collect(),
            })),
        };
        let source = "192.0.2.1".parse().ok();
        let (public, private) = ("192.0.2.2:5060", "10.0.0.1:5060");
        assert!(may_go_to(&hop(public, &[]), source));
        assert!(may_go_to(&hop(public, &[public, "192.0.2.3:5060"]), source));
        assert!(!may_go_to(&hop(public, &[public, private]), source));
        assert!(!may_go_to(&hop(private, &[]), source));
        assert!(may_go_to(&hop(private, &[public]), "10.9.9.9".parse().ok()));
    }
}
