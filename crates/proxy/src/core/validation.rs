//! Whether a request may be proxied (RFC 3261 section 16.3).

use sip::{Message, Method, Name, Uri, Via};

use super::forward::max_breadth;
use super::identity::Identity;
use super::loop_detection::{Fingerprint, LoopDetector};
use super::rejection::Rejection;

/// What a request that stands all tests is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// To be processed.
    Process(UriFacts),
    /// An OPTIONS that may go no further: we answer as if it was meant for us.
    AnswerOptions,
}

/// What the Request-URI says of how the request was routed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UriFacts {
    /// It may be a URI of ours that a strict router has put there.
    pub(crate) is_loose: bool,
    pub(crate) has_maddr: bool,
}

/// Checks steps 1 to 5; what [`Message::validate`] checks has been. `uri` is the Request-URI, read, if it
/// can be.
pub(crate) fn check(
    request: &Message,
    uri: Option<&Uri<'_>>,
    fingerprint: Fingerprint,
    identity: &Identity,
) -> Result<Verdict, Rejection> {
    let facts = match uri {
        Some(Uri::Sip(uri)) => UriFacts {
            is_loose: uri.parameters().contains("lr"),
            has_maddr: uri.parameters().contains("maddr"),
        },
        Some(Uri::Tel(_)) => UriFacts::default(),
        Some(Uri::Other(_)) => return Err(UNSUPPORTED_SCHEME),
        // A scheme that we know with a text that we cannot read.
        _ => return Err(Rejection::new(400, "Malformed Request-URI")),
    };
    match request.max_forwards() {
        Some(0) if request.method() == Some(&Method::Options) => return Ok(Verdict::AnswerOptions),
        Some(0) => return Err(Rejection::new(483, "Too Many Hops")),
        None if request.contains(Name::MaxForwards) => {
            return Err(Rejection::new(400, "Malformed Max-Forwards"));
        }
        _ => {}
    }
    match max_breadth(request) {
        None => return Err(Rejection::new(400, "Malformed Max-Breadth")),
        Some(0) => return Err(Rejection::new(440, "Max-Breadth Exceeded")),
        Some(_) => {}
    }
    let is_own = |via: &Via<'_>| identity.is_own_sent_by(via.host(), via.port());
    if LoopDetector::is_loop(request, fingerprint, is_own) {
        return Err(Rejection::new(482, "Loop Detected"));
    }
    // We know no extension that a proxy has to support.
    if request.contains(Name::ProxyRequire) {
        let required: Vec<&str> = request.text_values(Name::ProxyRequire).collect();
        if !required.is_empty() {
            return Err(Rejection::bad_extension(required.join(", ")));
        }
    }
    Ok(Verdict::Process(facts))
}

/// A URI of a scheme that leads nowhere from here.
pub(crate) const UNSUPPORTED_SCHEME: Rejection = Rejection::new(416, "Unsupported URI Scheme");
