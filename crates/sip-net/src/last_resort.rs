//! Where a response goes when neither the connection of its request is there any more, nor one can be opened to where
//! that came from: to what the Via says of the sender (RFC 3263 section 5, RFC 3261 section 18.2.2).
//!
//! That is how a client that has failed between request and response is replaced by another one of its name. It is for
//! connections alone: whose request came over one has proved to be where it came from. A datagram proves nothing, and
//! one with a source that nobody can be sent to would aim our response, and all its retransmissions, at whomever its
//! Via names. For the same reason the Via is followed for so many responses at a time only, and not to addresses that
//! its sender could not reach himself, such as those behind our firewall.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use sip::{Host, Message, Transport};
use tokio::sync::Semaphore;

use crate::address_kind::may_be_named;
use crate::connections::{Outgoing, Refused};
use crate::incoming::SendError;
use crate::resolve::{Hop, Question, Reach, Resolver};
use crate::shared::Shared;

/// What finds the last resort of responses.
#[derive(Debug)]
pub(crate) struct LastResort {
    names: OnceLock<Resolver>,
    reach: Reach,
    /// Responses on their last way.
    slots: Arc<Semaphore>,
}

/// How long all of it may take: a client has given up after 64*T1 (RFC 3261 section 17), and each of the places named
/// may take its time to be silent.
const GIVE_UP: Duration = Duration::from_secs(32);

/// How long of that name servers may take.
const LOOK_UP: Duration = Duration::from_secs(10);

impl LastResort {
    /// Nothing is followed before there is a resolver.
    pub(crate) fn new(reach: Reach, at_a_time: usize) -> LastResort {
        LastResort {
            names: OnceLock::new(),
            reach,
            slots: Arc::new(Semaphore::new(at_a_time.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Lets Vias be followed. The first resolver stays.
    pub(crate) fn resolve_by(&self, names: Resolver) {
        let _ = self.names.set(names);
    }
}

/// Begins to look for another way where there may be one for a message that was not sent; else gives it back.
pub(crate) fn begin(
    shared: &Arc<Shared>,
    transport: Transport,
    mut outgoing: Outgoing,
    error: SendError,
) -> Result<(), Refused> {
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
    if !is_lost || !has_connections || outgoing.is_last_resort || shared.tasks.is_stopping() {
        return Err(outgoing.refused(error));
    }
    let Some((question, source)) = question(&outgoing.payload, transport) else {
        return Err(outgoing.refused(error));
    };
    let Ok(slot) = shared.last_resort.slots.clone().try_acquire_owned() else {
        return Err(outgoing.refused(error));
    };
    outgoing.is_last_resort = true;
    outgoing.stream = 0;
    outgoing.reserved = None;
    let task = {
        let shared = shared.clone();
        async move {
            let transaction = outgoing.transaction;
            let followed = follow(&shared, &question, source, outgoing, error);
            if let Err(error) = no_later_than(GIVE_UP, followed).await {
                shared.send_failed(transport, transaction, error);
            }
            drop(slot);
        }
    };
    shared.tasks.spawn(task);
    Ok(())
}

/// What has become of a message by that time.
async fn no_later_than(
    limit: Duration,
    followed: impl Future<Output = Result<(), Refused>>,
) -> Result<(), SendError> {
    match tokio::time::timeout(limit, followed).await {
        Ok(followed) => followed.map_err(|refused| refused.1),
        Err(_) => Err(SendError::ConnectTimeout),
    }
}

/// Tries one place after the other that the Via leads to, of those that its sender at `source` may name.
async fn follow(
    shared: &Arc<Shared>,
    question: &Question,
    source: Option<IpAddr>,
    mut outgoing: Outgoing,
    mut error: SendError,
) -> Result<(), Refused> {
    let LastResort { names, reach, .. } = &shared.last_resort;
    let hops = match names.get() {
        Some(names) => {
            let hops = tokio::time::timeout(LOOK_UP, names.resolve(question, reach));
            tokio::select! {
                hops = hops => hops.unwrap_or_default(),
                () = shared.tasks.stopped() => Vec::new(),
            }
        }
        None => Vec::new(),
    };
    for hop in hops {
        if !may_go_to(&hop, source) {
            shared.counters(hop.transport).places_refused.increment();
            continue;
        }
        let Hop {
            transport,
            remote,
            peer,
        } = hop;
        let connection = match shared.connection_to(transport, remote, peer) {
            Ok(connection) => connection,
            Err(refused) => {
                error = refused;
                continue;
            }
        };
        if let Err(refused) = connection.flow().await {
            error = refused;
            continue;
        }
        match connection.push(outgoing) {
            Ok(()) => return Ok(()),
            Err(refused) => (outgoing, error) = *refused,
        }
    }
    Err(outgoing.refused(error))
}

/// Whether all addresses of a place are such as may be named from `source`.
fn may_go_to(hop: &Hop, source: Option<IpAddr>) -> bool {
    let others = hop.peer.as_deref().map_or(&[][..], |peer| &peer.addresses);
    let mut addresses = others.iter().chain([&hop.remote]);
    addresses.all(|address| may_be_named(address.ip(), source))
}

/// What the Via of a response leads to, and where the request came from as far as we have noted that there (RFC 3261
/// section 18.2.1). `None` where the message is none, or its Via says no more than what the connection did.
fn question(payload: &Bytes, transport: Transport) -> Option<(Question, Option<IpAddr>)> {
    let message = Message::read(payload.clone()).ok()?;
    message.status()?;
    let via = message.top_via()?;
    let host = match via.host() {
        Host::Name(name) => name.to_owned(),
        // The request came from there, and there nobody is.
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

    #[tokio::test]
    async fn places_that_are_silent_for_too_long_have_failed() {
        let silent = no_later_than(Duration::from_millis(1), std::future::pending());
        assert_eq!(silent.await, Err(SendError::ConnectTimeout));
        let at_once = no_later_than(GIVE_UP, std::future::ready(Ok(())));
        assert_eq!(at_once.await, Ok(()));
    }

    #[test]
    fn each_address_of_a_place_has_to_be_one_that_may_be_named() {
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
