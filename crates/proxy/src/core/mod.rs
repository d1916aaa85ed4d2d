//! The core: what a proxy and registrar decides, without sockets, clocks or stores.
//!
//! A [`Proxy`] is fed with what arrives and polled for what it wants sent, asked and logged. It wires the parts, each of
//! which owns its state and is tested by itself, and lends them the `common` state: transactions, queries, identity, settings.
//!
//! - `overload` says whether a message is taken at all;
//! - the `forwarder` classifies a request: what led it here is taken off (`route`, RFC 3261 section 16.4), `validation` checks
//!   it (16.3), `dialogs` knows those that have begun through us by their `dialog_mark`; and it is for the registrar, for us, for a
//!   user of ours or for somebody else (16.5);
//! - `authentication` finds out who has sent it (section 22), and whether that is required;
//! - the `registrar` carries out a REGISTER (section 10.3): `update` says what it changes, `binding` what a store keeps;
//! - the `forwarder` forwards all others (16.6), and takes the responses back (16.7);
//! - `keep_alive` keeps the way to user agents behind NATs open.
//!
//! What only the world outside knows is a [`Query`]: `pending` is what waits for the answer. A [`Hook`] decides at points on
//! the way, at once or when it has the answer to a query. Files import downwards: types, the parts above them, `proxy` on top.

mod amplification;
mod authentication;
mod binding;
mod branch_name;
mod clock;
mod common;
mod config;
mod dialog_mark;
mod dialogs;
mod early_dialogs;
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
mod latency;
mod loop_detection;
mod overload;
mod pending;
mod plugin_script;
mod policy;
mod proxy;
mod query;
mod read_uri;
mod refreshed_targets;
mod registrar;
mod rejection;
mod route;
mod route_cache;
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
pub use event::{Answered, Call, EndedBy, Event, HopOutcome, LogLevel};
pub use flow_token::FORMER_CONNECTION;
pub use hook::{
    BranchPoint, Decision, DialogEndPoint, DropReply, FailurePoint, ForwardTo, Hook, NewTargets,
    ParkedState, Points, Refusal, ReplyPoint, RequestAction, RequestPoint, Resumption, RoutePoint,
};
pub use identity::{Domain, Listener};
pub use keep_alive::policy::{KeepAliveMethod, KeepAlivePolicy};
pub use keys::Keys;
pub use latency::{
    Histogram, LATENCY_BOUNDS, Latencies, METHOD_CLASSES, method_class, method_class_name,
};
pub use overload::{Largest, OverloadPolicy, OverloadStatistics};
pub use plugin_script::{Grants, OnError, PluginLimits, PluginScript, Setting};
pub use policy::{Forking, ForwardingPolicy, Mode, Policy, Relay};
pub use proxy::Proxy;
pub use query::{
    Answer, Destination, HttpRequest, HttpResponse, MAXIMUM_HELD_UPDATES, NextHop, Page, Place,
    Query, QueryId, QueryLimits, RedisCommand, RedisReply,
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
