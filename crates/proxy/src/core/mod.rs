//! The core: what a proxy and registrar decides, without sockets, clocks or stores.
//!
//! A [`Proxy`] is fed with what arrives and polled for what it wants sent, asked and logged. A request
//! takes this way through it, a file each:
//!
//! - `validation`: may it be processed (RFC 3261 section 16.3)? `loop_detection` tells loops from
//!   spirals (RFC 5393).
//! - `route`: what has led it here is taken off (section 16.4). `read_uri` knows what a URI says of the way,
//!   `known_routes` those of ours that differ in the mark and the flow alone, `flow_token` finds the flow that a
//!   Record-Route of ours names, `dialogs` knows those that have begun through us by the `dialog_mark` that is
//!   there, too; `refreshed_targets` and `early_calls` are what it has to remember.
//! - `requests`: is it for the `registrar` (section 10.3), for us, for a user of ours or for somebody
//!   else (section 16.5)? `query` parks it while a location store or a resolver is asked.
//! - `relay`: may its sender have it brought there? `authentication`: does it come from whom it says
//!   (section 22)?
//! - `registering` takes a REGISTER through: what it asks for is the `registrar`'s business, what that
//!   changes `update`'s, the 200 `registered`'s.
//! - `target`: the bindings of a user in the order in which they are tried; `gruu` leads to those of one
//!   user agent (RFC 5627).
//! - `branches`: the response `context` forwards it to one target after the other (section 16.6);
//!   `forward` makes the copy; `contexts` keeps those that wait and counts what they hold.
//! - `responses`: what comes back (section 16.7); `best_response` chooses.
//!
//! Before all that `overload` says whether a request is taken at all. `unproved` bounds what is sent to where a datagram says
//! that it comes from.
//!
//! - `routing`: where settings lead, and who is not listened to; `dispatch` puts it to work.
//!
//! `identity` knows who we are, `binding` what a location store keeps, `keys` by what we know our own
//! writing again. `keep_alive` keeps the way to user agents behind NATs open.

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
