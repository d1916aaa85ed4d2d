//! The engine: emulated users by the hundred thousand, without I/O.
//!
//! An [`Engine`] is the core of one worker. It has users, runs [scripts](crate::script) for them, and
//! knows what RFC 3261 demands of user agents. It owns no socket, no clock and no thread: times and
//! octets come in, octets and [records](crate::record) go out.
//!
//! # How it is used
//!
//! ```text
//! let mut engine = Engine::new(config, rng, now);
//! let call     = engine.add_script(Arc::new(builtin::call(&plan)?));      // begun by begin()
//! let answer   = engine.add_script(Arc::new(builtin::answer(&plan)?));    // begun by an INVITE
//! let register = engine.add_script(Arc::new(builtin::register()?));       // begun by register()
//! engine.set_connection(ConnectionId(0), Connection { transport, local, remote });
//! engine.assign(user, ConnectionId(0));                                   // each user, once
//!
//! loop {
//!     // 1. what has come: one call for each message, with the connection it came by
//!     engine.handle_message(now, received, connection, octets);
//!     // 2. what is due
//!     engine.handle_timeout(now);
//!     // 3. what the schedule wants: an arrival that was due at `due`
//!     engine.begin(now, due, Work { script: call, user, peer });          // Err: counted as not begun
//!     // 4. what is to be sent, either copied …
//!     while let Some(outgoing) = engine.poll_transmit(&mut buffer) { … }
//!     //    … or where it stands, in one piece
//!     for (connection, octets) in engine.transmits() { … }  engine.clear_transmits();
//!     // 5. what has ended
//!     while let Some(record) = engine.poll_record() { statistics.record(&record); }
//!     // 6. wait for messages, the next arrival, or
//!     engine.next_timeout();
//! }
//! ```
//!
//! *Users* are numbers. An engine has those of its [`UserRange`]s; user *i* calls user *n + i*, and the
//! peer may be another engine's. Whose messages those are that come is written in them: the Call-ID of
//! what this engine has begun and the tag of what it has answered hold the number of the run, so that
//! neither is looked up in a table. [`Engine::owns`] tells a driver with several workers whose message it
//! has.
//!
//! *Connections* are numbers that the driver gives. A user's requests go by the user's connection, an
//! answer goes by the connection by which the request came. An engine never looks at where a message came
//! from, and never chooses where one goes: over UDP there is a number for each peer of a socket.
//!
//! *Scripts* that begin with [waiting](crate::script::First::Waits) are begun by requests: the first one
//! added for a method answers it, whatever user it is for. A request that no script waits for is answered
//! as a user agent would that has no such method, or no such call.
//!
//! *Callers that come back*: [`Engine::call_repeatedly`] begins a user's next call when the last has
//! ended, after half a second where it has failed; [`Engine::stop_repeating`] ends that.
//!
//! *Registrations*: [`Engine::register`] begins one; the engine refreshes it by its
//! [`RegistrationPlan`] until [`Engine::unregister`], and every REGISTER leaves a record.
//!
//! Nothing that comes from the network can break an engine: a message that cannot be read is counted and
//! dropped, one that belongs to nothing is answered and counted, and every table has a bound.

mod config;
mod counters;

use std::sync::Arc;
use std::time::Instant;

use rand_chacha::ChaCha12Rng;

use crate::record::Record;
use crate::script::{Script, ScriptId};

pub use config::{
    Connection, ConnectionId, Directory, EngineConfig, Listed, RegistrationPlan, Timers, UserRange,
};
pub use counters::Counters;

/// The core of a worker: its users and what they do.
#[derive(Debug)]
pub struct Engine {
    counters: Counters,
}

/// An attempt that is to be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// What is done.
    pub script: ScriptId,
    /// The number of the user who does it: one of this engine's.
    pub user: u32,
    /// The number of the user at the other end, where there is one.
    pub peer: u32,
}

/// Why an attempt was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    /// There are as many runs as [`EngineConfig::maximum_runs`] allows.
    #[error("as many calls are under way as are allowed")]
    Full,
    /// The user is not one of this engine's.
    #[error("no such user")]
    NoSuchUser,
    /// The user has no connection, or it has been lost.
    #[error("the user has no connection")]
    NotConnected,
    /// A registration of this user is under way.
    #[error("the user is registering already")]
    Busy,
    /// There is no such script, or it waits for a request.
    #[error("no such scenario, or one that waits for a request")]
    NoScript,
}

/// A message that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Which way.
    pub connection: ConnectionId,
    /// How many octets were appended to the buffer.
    pub length: usize,
}

impl Engine {
    /// An engine of these users, none of whom has a connection yet. `now` is what its times are counted
    /// from.
    pub fn new(_config: EngineConfig, _rng: ChaCha12Rng, _now: Instant) -> Engine {
        Engine {
            counters: Counters::default(),
        }
    }

    /// Adds a script. One that waits for a request answers requests with this method from now on, unless
    /// one added before does.
    pub fn add_script(&mut self, _script: Arc<Script>) -> ScriptId {
        ScriptId(0)
    }

    /// Says what a connection is, or that it is another one now (opened again after it was lost).
    pub fn set_connection(&mut self, _id: ConnectionId, _connection: Connection) {}

    /// Gives a user of this engine a connection. Users without one cannot begin anything. Returns
    /// whether there is such a user.
    pub fn assign(&mut self, _user: u32, _connection: ConnectionId) -> bool {
        false
    }

    /// Takes in a message. It came at `received`, where what it ends is measured to; what it gives rise
    /// to begins `now`.
    pub fn handle_message(
        &mut self,
        _now: Instant,
        _received: Instant,
        _connection: ConnectionId,
        _octets: &[u8],
    ) {
    }

    /// Takes in that a connection is lost: what waits for an answer on it fails (RFC 3261 section
    /// 8.1.3.1), and its users begin nothing more until it is [set](Engine::set_connection) again. Calls
    /// that are held go on.
    pub fn handle_connection_lost(&mut self, _now: Instant, _connection: ConnectionId) {}

    /// Does what is due.
    pub fn handle_timeout(&mut self, _now: Instant) {}

    /// When [`handle_timeout`](Engine::handle_timeout) is to be called next. It may be earlier than
    /// anything is due, never later.
    pub fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Begins an attempt that was due at `due`.
    ///
    /// # Errors
    ///
    /// When it cannot be begun; there is no record then.
    pub fn begin(&mut self, _now: Instant, _due: Instant, _work: Work) -> Result<(), NotBegun> {
        Err(NotBegun::NoScript)
    }

    /// Begins to register a user, who is kept registered from then on ([`RegistrationPlan`]). A user who
    /// is registered refreshes the binding at once.
    ///
    /// # Errors
    ///
    /// When it cannot be begun, or no script for registrations has been added.
    pub fn register(&mut self, _now: Instant, _due: Instant, _user: u32) -> Result<(), NotBegun> {
        Err(NotBegun::NoScript)
    }

    /// Removes a user's binding (RFC 3261 section 10.2.2), who is not kept registered from then on.
    ///
    /// # Errors
    ///
    /// As for [`register`](Engine::register).
    pub fn unregister(&mut self, _now: Instant, _due: Instant, _user: u32) -> Result<(), NotBegun> {
        Err(NotBegun::NoScript)
    }

    /// Lets a user do this now, and again each time it has ended: at once after it was completed, after
    /// [`EngineConfig::pause_after_failure`] where it failed or could not be begun.
    ///
    /// # Errors
    ///
    /// When there is no such user or script. That there is no connection yet is not one.
    pub fn call_repeatedly(&mut self, _now: Instant, _work: Work) -> Result<(), NotBegun> {
        Err(NotBegun::NoScript)
    }

    /// How many more attempts users who come back may begin; `None`: as many as they like.
    pub fn limit_repeating(&mut self, _attempts: Option<u64>) {}

    /// Lets no user come back any more. What is under way goes on.
    pub fn stop_repeating(&mut self) {}

    /// Forgets everything that is under way and leaves a record of each, as unfinished. Nothing is sent.
    pub fn abandon(&mut self, _now: Instant) {}

    /// Appends the next message that is to be sent to a buffer.
    pub fn poll_transmit(&mut self, _into: &mut Vec<u8>) -> Option<Outgoing> {
        None
    }

    /// All messages that are to be sent, in their order, where they stand; they stand one behind the other
    /// in one piece of memory.
    pub fn transmits(&self) -> impl Iterator<Item = (ConnectionId, &[u8])> {
        std::iter::empty()
    }

    /// Forgets the messages that are to be sent, because they have been.
    pub fn clear_transmits(&mut self) {}

    /// What became of the next attempt that has ended.
    pub fn poll_record(&mut self) -> Option<Record> {
        None
    }

    /// Whether a message is about a run, a registration or a call of this engine: by the Call-ID, or the
    /// tag of To. A request that begins something new is nobody's.
    pub fn owns(&self, _octets: &[u8]) -> bool {
        false
    }

    /// Attempts under way that our users have begun, registrations apart: what a limit of calls is about.
    pub fn in_flight(&self) -> usize {
        0
    }

    /// Runs under way of any kind.
    pub fn runs(&self) -> usize {
        0
    }

    /// Users whose registration stands.
    pub fn registered_users(&self) -> u32 {
        0
    }

    /// What has been counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
