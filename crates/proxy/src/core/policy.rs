//! What an operator may change while a proxy runs.

use std::time::Duration;

use super::authentication::AuthenticationPolicy;
use super::keep_alive::KeepAlivePolicy;
use super::overload::OverloadPolicy;
use super::routing::Routing;
use super::trust::TrustDomain;

/// The part of the settings that can be exchanged at run time, by
/// [`Proxy::set_policy`](super::Proxy::set_policy). Requests that are being forwarded go on by the
/// decisions that were made for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// How requests are forwarded.
    pub forwarding: ForwardingPolicy,
    /// Whose assertions of identity are believed (RFC 3325).
    pub trust: TrustDomain,
    /// Where requests go by settings, and which are dropped.
    pub routing: Routing,
    /// Who has to say who it is.
    pub authentication: AuthenticationPolicy,
    /// How the way to user agents behind NATs is kept open.
    pub keep_alive: KeepAlivePolicy,
    /// How much is taken before requests are refused.
    pub overload: OverloadPolicy,
}

/// What this element does with a request that it is asked to bring to somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It forwards the request and sees to the responses (RFC 3261 section 16.2).
    #[default]
    Stateful,
    /// It forwards the request and forgets it (RFC 3261 section 16.11).
    Stateless,
    /// It tells the client where to send the request (RFC 3261 section 8.3).
    Redirect,
}

/// In which order the targets of a user are tried (RFC 3261 section 16.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forking {
    /// The most preferred first, those with the same preference together.
    #[default]
    ByPreference,
    /// All at once.
    Parallel,
    /// One after the other, the most preferred first.
    Sequential,
}

/// How requests are forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardingPolicy {
    /// What becomes of requests about which no route says otherwise.
    pub mode: Mode,
    /// In which order the targets of a user are tried.
    pub forking: Forking,
    /// How long the targets that are being tried may ring while others wait for their turn; `None`
    /// lets them ring until Timer C fires.
    pub ring_time: Option<Duration>,
    /// Whether a 3xx response about a user of ours is followed here, instead of being passed to the
    /// client (RFC 3261 section 16.5).
    pub recursion: bool,
    /// How many targets are tried for one request, those that 3xx responses name among them.
    pub maximum_targets: usize,
}

impl Default for ForwardingPolicy {
    fn default() -> ForwardingPolicy {
        ForwardingPolicy {
            mode: Mode::Stateful,
            forking: Forking::ByPreference,
            ring_time: Some(Duration::from_secs(30)),
            recursion: false,
            maximum_targets: 64,
        }
    }
}
