//! What a signalling process is configured with.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::message::{RoutingKey, TrafficMode, TrafficSelection};
use crate::{MaskedPointCode, Variant};

/// Declares numbers of things that a process has in tables, in the order in which they were added.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(pub usize);
        )*
    };
}

ids! {
    /// A peer: a signalling process at the other end of an association.
    PeerId;
    /// An application server.
    AsId;
    /// A signalling gateway: some peers that are its SGPs.
    SgId;
    /// An SS7 network.
    NetworkId;
}

impl AsId {
    /// The name of an application server with this number that a peer has registered.
    pub fn registered_name(self) -> String {
        format!("{REGISTERED}{}", self.0)
    }

    /// Whether an application server that a peer registers could have this name.
    pub fn is_registered_name(name: &str) -> bool {
        name.starts_with(REGISTERED)
    }
}

/// How the names of application servers begin that peers have registered.
const REGISTERED: &str = "registered-";

/// Settings of the whole process.
#[derive(Clone, Debug)]
pub struct Config {
    /// The SS7 networks, named by [`NetworkId`] in this order.
    pub networks: Vec<Network>,
    /// T(ack): how long a request waits for its acknowledgement before it is sent again (section 4.3.4.1).
    pub t_ack: Duration,
    /// T(r): how long an AS without active ASPs is pending and its messages are kept (section 4.3.2).
    pub t_r: Duration,
    /// T(beat): time between heartbeats (section 4.3.4.6); none: SCTP's own are enough.
    pub t_beat: Option<Duration>,
    /// Time after which a destination that is not available is audited (section 4.5.3); none: never.
    pub t_audit: Option<Duration>,
    /// Whether messages that arrive for others are routed onwards, and changes of destinations are passed on to ASPs: a
    /// gateway between M3UA networks. Otherwise they go to the user.
    pub relays: bool,
    /// Which routing keys ASPs may register.
    pub registration: Registration,
    /// Whether an ASP Up must have an ASP Identifier.
    pub requires_asp_identifier: bool,
    /// Whether an ASP Active must have routing contexts.
    pub requires_routing_context: bool,
    /// Messages that a pending AS keeps; more are dropped.
    pub max_pending_messages: usize,
    /// Application servers, configured and registered.
    pub max_application_servers: usize,
    /// Routing keys that a peer may have registered.
    pub max_registrations: usize,
    /// Destinations whose state is kept for each SG.
    pub max_destinations: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            networks: vec![Network::default()],
            t_ack: Duration::from_secs(2),
            t_r: Duration::from_secs(2),
            t_beat: None,
            t_audit: None,
            relays: false,
            registration: Registration::Unsupported,
            requires_asp_identifier: false,
            requires_routing_context: false,
            max_pending_messages: 10_000,
            max_application_servers: 20_000,
            max_registrations: 1_000,
            max_destinations: 65_536,
        }
    }
}

impl Config {
    /// These settings, moved to the nearest ones that make sense: timers without a duration would expire for ever without
    /// time going by.
    pub(crate) fn bounded(mut self) -> Config {
        const LEAST: Duration = Duration::from_millis(1);
        self.t_ack = self.t_ack.max(LEAST);
        self.t_beat = self.t_beat.map(|time| time.max(LEAST));
        self.t_audit = self.t_audit.map(|time| time.max(LEAST));
        self
    }
}

/// An SS7 network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network {
    /// Its Network Appearance; none where it is the only one.
    pub appearance: Option<u32>,
    /// Its point codes.
    pub variant: Variant,
}

/// Which routing keys may be registered (section 4.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// None: the message class is not supported.
    Unsupported,
    /// Those of configured application servers.
    Provisioned,
    /// Any that is unique.
    Dynamic,
}

/// What the peer is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerRole {
    /// An ASP; we are its SGP.
    Asp,
    /// An SGP; we are its ASP.
    Sgp,
    /// An IPSP with single exchange: one exchange changes the states of both ends (section 4.3).
    IpspSingleExchange,
    /// An IPSP with double exchange: each end asks for itself.
    IpspDoubleExchange,
}

impl PeerRole {
    /// Whether the peer asks us: it is an ASP, or behaves like one.
    pub(crate) fn asks(self) -> bool {
        self != PeerRole::Sgp
    }

    /// Whether we ask the peer.
    pub(crate) fn is_asked(self) -> bool {
        self != PeerRole::Asp
    }
}

/// A peer.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Its name, for people.
    pub name: String,
    /// What it is to us.
    pub role: PeerRole,
    /// The network of messages without Network Appearance.
    pub network: NetworkId,
    /// Our own ASP Identifier towards it.
    pub asp_identifier: Option<u32>,
    /// Whether we come up at it as soon as there is an association.
    pub comes_up: bool,
}

/// Who processes the traffic of an application server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedBy {
    /// Peers: we are an SGP, or an IPSP that sends to them.
    Peers,
    /// We do, and tell peers so.
    Us,
    /// Both ends of an association with single exchange: the routing key covers both directions.
    Both,
}

impl ServedBy {
    /// Whether peers are its ASPs.
    pub(crate) fn has_peers(self) -> bool {
        self != ServedBy::Us
    }

    /// Whether we are one of its ASPs.
    pub(crate) fn has_us(self) -> bool {
        self != ServedBy::Peers
    }
}

/// An application server.
#[derive(Clone, Debug)]
pub struct ApplicationServerConfig {
    /// Its name, for people.
    pub name: String,
    /// Its network.
    pub network: NetworkId,
    /// Whose it is.
    pub served_by: ServedBy,
    /// Its routing context, if messages have one.
    pub routing_context: Option<u32>,
    /// Its routing key: the union of these. Empty: no traffic is found by key, but by routes.
    pub routing_key: Vec<KeySelection>,
    /// How its ASPs share the traffic; none: as the first ASP says.
    pub traffic_mode: Option<TrafficMode>,
    /// n: ASPs that must be active before traffic begins (section 4.3.2). Override: 1.
    pub required_asps: usize,
}

/// A part of the traffic in a routing key. Circuit ranges can be configured, but not registered (section 1.4.2.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySelection {
    /// Destinations, users and originating points.
    pub traffic: TrafficSelection,
    /// Circuits of ISUP; none: all.
    pub circuits: Option<RangeInclusive<u16>>,
}

impl From<TrafficSelection> for KeySelection {
    fn from(traffic: TrafficSelection) -> KeySelection {
        KeySelection {
            traffic,
            circuits: None,
        }
    }
}

impl From<MaskedPointCode> for KeySelection {
    fn from(dpc: MaskedPointCode) -> KeySelection {
        KeySelection::from(TrafficSelection {
            dpc,
            service_indicators: Vec::new(),
            opcs: Vec::new(),
        })
    }
}

/// When we become active in an application server of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// As soon as we are up.
    Immediate,
    /// When a Notify says that the AS has too few ASPs (pending, or insufficient resources): a backup.
    Standby,
    /// When management says so.
    Manual,
}

/// How we belong to an application server at a peer, or a peer at us.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// When we become active. Means nothing where only peers are ASPs.
    pub activation: Activation,
    /// We register this key first, and learn the routing context from the peer (section 4.4.1).
    pub registers: Option<RoutingKey>,
}

impl Default for MemberConfig {
    fn default() -> MemberConfig {
        MemberConfig {
            activation: Activation::Immediate,
            registers: None,
        }
    }
}

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Via {
    /// To the ASPs of an application server.
    As(AsId),
    /// To the SGPs of a signalling gateway.
    Sg(SgId),
}

/// A way to destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destinations.
    pub destination: MaskedPointCode,
    /// Where it leads.
    pub via: Via,
    /// Lower ones are used first. Those with the same priority share the traffic by SLS.
    pub priority: u8,
}
