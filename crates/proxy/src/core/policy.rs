//! What an operator may change while a proxy runs.

use std::sync::Arc;
use std::time::Duration;

use sip::Message;

use super::authentication::policy::AuthenticationPolicy;
use super::keep_alive::policy::KeepAlivePolicy;
use super::overload::OverloadPolicy;
use super::plugin_script::PluginScript;
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
    /// The scripts that decide at hooks, in the order in which they are asked.
    pub plugins: Arc<[PluginScript]>,
}

impl Policy {
    /// What is done with a request that somebody else is to answer.
    pub(crate) fn mode(&self, request: &Message) -> Mode {
        self.routing
            .route_for(request)
            .and_then(|route| route.mode)
            .unwrap_or(self.forwarding.mode)
    }
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

/// Who may have requests brought to places that are none of ours: not to our users, not where a static
/// route leads, and not within a dialog that has begun through us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relay {
    /// Our users, who prove that they are where calls are authenticated, and who only say so in From
    /// where they are not; and our neighbours.
    #[default]
    Users,
    /// Neighbours: those that are never challenged, and those in the trust domain.
    Neighbours,
    /// Whoever asks: an open relay.
    Anybody,
}

/// How requests are forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardingPolicy {
    /// What becomes of requests about which no route says otherwise.
    pub mode: Mode,
    /// Who may send requests through us to others. A request of anybody else is answered 403.
    pub relay: Relay,
    /// In which order the targets of a user are tried.
    pub forking: Forking,
    /// How long the targets that are being tried may ring, or be silent, while others wait for their
    /// turn; `None` lets them ring until Timer C fires. Those that wait have half of the request's
    /// Max-Breadth (RFC 5393): one that is silent may have got the request, and keeps the other half.
    pub ring_time: Option<Duration>,
    /// How often the contacts of a user whose phones ring are looked up again, so that phones that register meanwhile
    /// ring, too (RFC 3261 section 16.5); `None`: they do not. An INVITE for a user then leaves with half of its
    /// Max-Breadth: the other half is for those.
    pub look_again: Option<Duration>,
    /// Whether a 3xx response is followed here, instead of being passed to the client, where the Request-URI is one that
    /// we are responsible for: that of a user of ours, or of somebody in a domain or at an address of ours whom a
    /// static route is for (RFC 3261 section 16.5).
    pub recursion: bool,
    /// How many targets are tried for one request, those that 3xx responses name among them.
    pub maximum_targets: usize,
    /// For how long after a dialog has begun here its requests are known as such, and brought to wherever
    /// they are for; longer than any call. A year at the most, and told to the hour.
    pub dialog_lifetime: Duration,
}

impl Default for ForwardingPolicy {
    fn default() -> ForwardingPolicy {
        ForwardingPolicy {
            mode: Mode::Stateful,
            relay: Relay::Users,
            forking: Forking::ByPreference,
            ring_time: Some(Duration::from_secs(30)),
            look_again: Some(Duration::from_secs(2)),
            recursion: false,
            maximum_targets: 64,
            dialog_lifetime: Duration::from_secs(7 * 24 * 3600),
        }
    }
}
