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
    Process,
    /// An OPTIONS that may go no further: we answer as if it was meant for us.
    AnswerOptions,
}

/// Checks steps 1 to 5; what [`Message::validate`] checks has been. `uri` is the Request-URI, read, if it
/// can be.
pub(crate) fn check(
    request: &Message,
    uri: Option<&Uri<'_>>,
    fingerprint: Fingerprint,
    identity: &Identity,
) -> Result<Verdict, Rejection> {
    match uri {
        Some(Uri::Sip(_) | Uri::Tel(_)) => {}
        Some(Uri::Other(_)) => return Err(UNSUPPORTED_SCHEME),
        // A scheme that we know with a text that we cannot read.
        None => return Err(Rejection::new(400, "Malformed Request-URI")),
    }
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
    Ok(Verdict::Process)
}

/// A URI of a scheme that leads nowhere from here.
pub(crate) const UNSUPPORTED_SCHEME: Rejection = Rejection::new(416, "Unsupported URI Scheme");
