//! Settings of an engine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sip::Transport;

use super::directory::Directory;

/// Settings of an [`Engine`](super::Engine).
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The emulated users that this engine has.
    pub users: Vec<UserRange>,
    /// What their names, passwords and fields are.
    pub directory: Arc<Directory>,
    /// The host part of the users' addresses of record, and the Request-URI of REGISTER: a name, or an
    /// address and port.
    pub domain: String,
    /// Values of Route that requests outside of a dialog take: an outbound proxy, as
    /// `<sip:192.0.2.1;lr>` (RFC 3261 section 8.1.2). None as a rule: requests go along the user's
    /// connection whatever they say.
    pub routes: Vec<String>,
    /// The timers of RFC 3261.
    pub timers: Timers,
    /// Whether messages are repeated where RFC 3261 says so. Timeouts count either way.
    pub is_repeating: bool,
    /// To how many places that a 3xx names, or several of them one after the other, a request outside of a dialog
    /// is sent at most (RFC 3261 section 8.1.3.4); with 0 a 3xx is a refusal like any other.
    pub maximum_targets: usize,
    /// How many sessions there may be at a time: beyond, none is begun, and requests that would begin one are
    /// dropped and counted.
    ///
    /// It bounds all memory. A session keeps of its peer what its dialog says, 16 KiB at most, and what its script takes out of
    /// messages; of these the request that began it, the last one that its script may ask for, and the last responses to
    /// an INVITE and to another request, none of them longer than its transport lets messages be. Of sessions that are over,
    /// twice as many are remembered, with 512 octets of messages for each on average, or one longer message alone.
    pub maximum_sessions: usize,
    /// Of registrations.
    pub registration: RegistrationPlan,
    /// The port that users name for media: user number n names `media_port + 2 (n mod media_ports)`. The
    /// address is that of the connection.
    pub media_port: u16,
    /// How many different ports for media there are; at least one.
    pub media_ports: u16,
    /// From the failure of a caller that calls again and again to its next call.
    pub pause_after_failure: Duration,
    /// Whether sessions that peers have begun leave records.
    pub records_callees: bool,
    /// What [`Slot::Process`](crate::script::Slot::Process) says.
    pub process: u32,
    /// Whether it says why attempts fail, and what scripts say.
    pub traces: bool,
    /// The time of day when the engine is made, as time since 1970 (UTC): what scripts write of it.
    pub time_of_day: Duration,
}

impl Default for EngineConfig {
    /// No users at all.
    fn default() -> EngineConfig {
        EngineConfig {
            users: Vec::new(),
            directory: Arc::new(Directory::default()),
            domain: "127.0.0.1".to_owned(),
            routes: Vec::new(),
            timers: Timers::default(),
            is_repeating: true,
            maximum_targets: 8,
            maximum_sessions: 1_000_000,
            registration: RegistrationPlan::default(),
            media_port: 49_172,
            media_ports: 1,
            pause_after_failure: Duration::from_millis(500),
            records_callees: true,
            process: 0,
            traces: false,
            time_of_day: Duration::ZERO,
        }
    }
}

/// Users by number: `first`, `first + step`, `first + 2·step` and so on, `count` of them. With `n`
/// workers, worker `w` has users `1 + w`, `1 + w + n` and so on of each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserRange {
    /// The first number.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// From one number to the next; at least 1.
    pub step: u32,
}

impl UserRange {
    /// All numbers of a range without gaps.
    pub fn new(first: u32, count: u32) -> UserRange {
        UserRange {
            first,
            count,
            step: 1,
        }
    }
}

/// The timers of RFC 3261 (section 17, table 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// T1: the estimate of the round trip.
    pub t1: Duration,
    /// T2: the longest interval between repetitions of anything but an INVITE.
    pub t2: Duration,
    /// Timers B and F, and how long a final response to an INVITE is repeated: 64·T1.
    pub give_up: Duration,
    /// How long an INVITE may have provisional responses alone before it is cancelled, counted from the
    /// last one other than 100: what Timer C is for a proxy (section 16.6 step 11). A script's own limit
    /// comes first, and may be longer.
    pub proceeding: Duration,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            give_up: Duration::from_secs(32),
            proceeding: Duration::from_secs(180),
        }
    }
}

/// How users register and stay registered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegistrationPlan {
    /// For how long to register.
    pub expires: Duration,
    /// After which part of the time that the registrar has given a user refreshes its binding: 0 to 1.
    /// `None`: bindings are left to expire.
    pub refresh_after: Option<f64>,
    /// How far the refreshes of users are spread, as a part of the same time: each comes up to so much
    /// earlier, so that a population that has registered at once does not refresh at once.
    pub spread: f64,
    /// From a refused or unanswered refresh to the next attempt.
    pub retry_after: Duration,
}

impl Default for RegistrationPlan {
    /// An hour, refreshed after half of it up to nine tenths.
    fn default() -> RegistrationPlan {
        RegistrationPlan {
            expires: Duration::from_secs(3600),
            refresh_after: Some(0.9),
            spread: 0.4,
            retry_after: Duration::from_secs(30),
        }
    }
}

/// A way that messages go: whatever the driver can send to by its number. Over UDP a socket and the peer
/// that it talks to; over TCP and TLS a connection; over SCTP an association and a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

/// A connection, as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The transport.
    pub transport: Transport,
    /// Our address: it is written into Via and Contact.
    pub local: SocketAddr,
    /// The next hop.
    pub remote: SocketAddr,
}
