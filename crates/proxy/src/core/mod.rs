//! The core: what a proxy and registrar decides, without sockets, clocks or stores.
//!
//! A [`Proxy`] is fed with what arrives and polled for what it wants sent, asked and logged. A request takes this way through its
//! parts, each of which owns its state:
//!
//! - `overload` decides whether a request is taken at all, and `proxy/admission` refuses it from a peek where it is not.
//! - `validation`: may it be processed (RFC 3261 section 16.3)? `loop_detection` tells loops from spirals (RFC 5393).
//! - `forwarder/classify`: where is it for? `route` takes off what has led it here (section 16.4). `known_routes` recognises our
//!   own Record-Route URIs, `flow_token` finds the flow that one names, and `dialogs` those dialogs that have begun through us, by
//!   the `dialog_mark`; `refreshed_targets` and `early_calls` are what has to be remembered of them.
//! - `authentication`: does it come from the user that it names (section 22), and is its sender entitled to have it forwarded?
//! - `registrar`: a REGISTER changes bindings (section 10.3) by the rules of `update`.
//! - `forwarder`: any other request goes to its targets (sections 16.5 and 16.6), and the responses come back (section 16.7).
//!   `target` orders the bindings of a user, `gruu` leads to those of one user agent (RFC 5627), `forward` makes the copy.
//!
//! On this way, a `hook` may decide at a named point; `routing` has what static routes and drop lists say, which are such hooks.
//! What waits for a store, a resolver or a hook is a `query`, and is parked in `pending`.
//!
//! `common` is what all parts share. `identity` is who we are, `binding` what a location store keeps, and `keys` sign what comes back
//! to us in messages. `keep_alive` keeps the way to user agents behind NATs open.

mod amplification;
mod authentication;
mod binding;
mod branch_name;
mod clock;
mod common;
mod config;
mod dialog_mark;
mod dialogs;
mod early_calls;
mod event;
pub(crate) mod flow_octets;
mod flow_token;
mod forward;
mod forwarder;
mod gruu;
mod held_octets;
mod hexadecimal;
mod hook;
mod identity;
mod incoming;
mod interface;
mod keep_alive;
mod keys;
mod known_routes;
mod latency;
mod loop_detection;
mod overload;
mod pending;
mod policy;
mod proxy;
mod query;
mod read_uri;
mod refreshed_targets;
mod registrar;
mod rejection;
mod route;
mod routing;
mod statistics;
mod target;
mod trust;
mod update;
mod uri;
mod validation;

pub use authentication::policy::AuthenticationPolicy;
pub use binding::{AddressOfRecord, Binding, BindingParts, Bindings};
pub use config::Config;
#[cfg(feature = "driver")]
pub(crate) use dialog_mark::LONGEST_LIFETIME;
pub use event::{Answered, Call, EndedBy, Event, HopOutcome};
pub use flow_token::FORMER_CONNECTION;
pub use hook::{
    BranchPoint, Decision, DialogEndPoint, DropReply, FailurePoint, Hook, NewTargets, Points,
    Refusal, ReplyPoint, RequestPoint, RouteAction, RoutePoint,
};
pub use identity::{Domain, Listener};
pub use keep_alive::policy::{KeepAliveMethod, KeepAlivePolicy};
pub use keys::Keys;
pub use latency::{
    Histogram, LATENCY_BOUNDS, Latencies, METHOD_CLASSES, method_class, method_class_name,
};
pub use overload::{Largest, OverloadPolicy, OverloadStatistics};
pub use policy::{Forking, ForwardingPolicy, Mode, Policy, Relay};
pub use proxy::Proxy;
pub use query::{
    Answer, Destination, MAXIMUM_HELD_UPDATES, NextHop, Page, Place, Query, QueryId, QueryLimits,
};
pub use registrar::registration::RegistrarConfig;
pub use routing::{
    AddressRange, AddressRangeError, DropList, Dropped, Group, Member, MemberHealth, MemberState,
    Pattern, Probing, Route, RouteTarget, Routed, Routing, RoutingError,
};
pub use statistics::Statistics;
pub use trust::TrustDomain;
#[cfg(feature = "driver")]
pub(crate) use update::Standing;
pub use update::{Update, UpdateError};
