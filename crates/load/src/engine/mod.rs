//! The engine: emulated users by the hundred thousand, without I/O.
//!
//! An [`Engine`] is the core of one worker. It has users, sessions [scripts](crate::script) for them, and
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
//!     engine.begin(now, due, NewSession { script: call, user, peer });          // Err: counted as not begun
//!     // 4. what is to be sent
//!     while let Some(outgoing) = engine.poll_transmit(&mut buffer) { … }
//!     // 5. what has ended
//!     while let Some(record) = engine.poll_record() { statistics.record(&record); }
//!     // 6. wait for messages, the next arrival, or
//!     engine.next_timeout();
//! }
//! ```
//!
//! *Users* are numbers. An engine has those of its [`UserRange`]s; user *i* calls user *n + i*, and the
//! peer may be another engine's. Whose messages those are that come is written in them: the Call-ID of
//! what this engine has begun and the tag of what it has answered hold the number of the session, so that
//! neither is looked up in a table.
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

mod actions;
mod authentication;
mod buffers;
mod call_ids;
mod commands;
mod config;
mod connections;
mod counters;
mod directory;
mod distribution;
mod ending;
mod failover;
mod fingerprints;
mod forks;
mod identity;
mod media;
mod own_responses;
mod received;
mod recently_ended;
mod redirection;
mod render;
mod requests;
mod responses;
mod script_responses;
mod scripts;
mod sending;
mod session;
mod sessions;
mod step_counts;
mod steps;
mod text;
mod time;
mod timeouts;
mod transmit_queue;
mod trigger;
mod users;
mod writing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ahash::RandomState;
use rand::Rng;
use rand_chacha::ChaCha12Rng;

use crate::record::{Failure, Outcome, Party, Record};
use crate::script::{Kind, Script, ScriptId};
use crate::trace::Trace;

pub use commands::{Command, NoSuchCall};
pub use config::{Connection, ConnectionId, EngineConfig, RegistrationPlan, Timers, UserRange};
pub use counters::Counters;
pub use directory::{Directory, Listed};
pub use media::{CallMedia, LocalMedia};
pub use step_counts::StepCount;
pub use transmit_queue::Transmit;

use buffers::Buffers;
use connections::Connections;
use fingerprints::Fingerprints;
use identity::{Identity, NOBODY};
use media::Media;
use received::Received;
use recently_ended::RecentlyEnded;
use scripts::Scripts;
use session::State;
use sessions::Sessions;
use step_counts::StepCounts;
use time::{Clock, Moment, Time};
use transmit_queue::TransmitQueue;
use trigger::Trigger;
use users::{Repeat, Users};

/// The core of a worker: its users and their sessions.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    clock: Clock,
    rng: ChaCha12Rng,
    identity: Identity,
    fingerprints: Fingerprints,
    scripts: Scripts,
    connections: Connections,
    users: Users,
    sessions: Sessions,
    recently_ended: RecentlyEnded,
    media: Media,
    transmits: TransmitQueue,
    records: VecDeque<Record>,
    traces: VecDeque<Trace>,
    commands: VecDeque<Command>,
    step_counts: StepCounts,
    buffers: Buffers,
    counters: Counters,
}

/// A step that could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed(Failure);

/// An attempt that is to be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewSession {
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
    /// There are as many sessions as [`EngineConfig::maximum_sessions`] allows.
    #[error("the maximum number of calls is in progress")]
    Full,
    /// The user is not one of this engine's.
    #[error("no such user")]
    NoSuchUser,
    /// The user has not had a connection yet.
    #[error("the user has no connection")]
    NotConnected,
    /// A registration of this user is under way.
    #[error("the user is registering already")]
    Busy,
    /// There is no such script, or it waits for a request.
    #[error("no such scenario, or one that waits for a request")]
    NoScript,
}

/// How many due sessions, and users, are handled before messages are sent.
const DUE_AT_ONCE: usize = 256;

/// How much is remembered of sessions that are over, as a multiple of how many there may be.
const ENDED_PER_SESSION: usize = 2;

impl Engine {
    /// An engine of these users, none of whom has a connection yet. `now` is what its times are counted
    /// from.
    pub fn new(config: EngineConfig, mut rng: ChaCha12Rng, now: Instant) -> Engine {
        let identity = Identity::new(rng.next_u64());
        let mut keys = || {
            let mut seed = || rng.next_u64();
            RandomState::with_seeds(seed(), seed(), seed(), seed())
        };
        let users = Users::new(&config.users, &config.directory, keys());
        let most_ended = config.maximum_sessions.saturating_mul(ENDED_PER_SESSION);
        Engine {
            clock: Clock::new(now),
            identity,
            users,
            recently_ended: RecentlyEnded::new(most_ended, keys()),
            fingerprints: Fingerprints::new(keys()),
            scripts: Scripts::new(),
            connections: Connections::default(),
            sessions: Sessions::new(),
            media: Media::default(),
            transmits: TransmitQueue::default(),
            records: VecDeque::new(),
            traces: VecDeque::new(),
            commands: VecDeque::new(),
            step_counts: StepCounts::default(),
            buffers: Buffers::default(),
            counters: Counters::default(),
            config,
            rng,
        }
    }

    /// Adds a script. One that waits for a request answers requests with this method from now on, unless
    /// one added before does; the first one that sends a REGISTER is what users register with.
    pub fn add_script(&mut self, script: Arc<Script>) -> ScriptId {
        self.step_counts.add_script(script.lines().len());
        self.scripts.add(&script)
    }

    /// Has the media of calls carried from now on.
    pub fn set_media(&mut self, media: Box<dyn CallMedia>) {
        self.media = Media::carried_by(media);
    }

    /// Says what a connection is, or that it is another one now (opened again after it was lost).
    pub fn set_connection(&mut self, id: ConnectionId, connection: Connection) {
        self.connections.set(id, connection);
    }

    /// Gives a user of this engine a connection. Users without one cannot begin anything. Returns
    /// whether there is such a user.
    pub fn assign(&mut self, user: u32, connection: ConnectionId) -> bool {
        let place = self.users.place(user);
        match place.and_then(|place| self.users.get_mut(place)) {
            Some(user) => {
                user.assign(connection);
                true
            }
            None => false,
        }
    }

    /// Takes in a message. It came at `received`, where what it ends is measured to; what it gives rise
    /// to begins `now`.
    pub fn handle_message(
        &mut self,
        now: Instant,
        received: Instant,
        connection: ConnectionId,
        octets: &[u8],
    ) {
        let moment = Moment {
            now: self.clock.time(now),
            received: self.clock.time(received),
        };
        self.counters.received += 1;
        self.counters.received_octets += octets.len() as u64;
        let message = match Received::read(octets) {
            Ok(message) if !message.is_command && self.connections.get(connection).is_some() => {
                message
            }
            _ => {
                self.counters.malformed += 1;
                return;
            }
        };
        match (message.status(), message.method()) {
            (Some(status), _) => self.handle_response(moment, &message, status, connection),
            (None, Some(method)) => self.handle_request(moment, &message, method, connection),
            (None, None) => {}
        }
        self.let_return(moment.now);
    }

    /// Takes in that a connection is lost, which only those of reliable transports can be: what waits for an
    /// answer on it fails (RFC 3261 section 8.1.3.1), and so does what its users begin until it is
    /// [set](Engine::set_connection) again, but where it has an [alternative](Engine::set_alternative) that is open.
    /// Calls that are held go on.
    pub fn handle_connection_lost(&mut self, now: Instant, connection: ConnectionId) {
        let now = self.clock.time(now);
        self.connections.lose(connection);
        for index in self.sessions.waiting_on(connection) {
            let Some(session) = self.sessions.get_mut(index) else {
                continue;
            };
            let is_invite = session.invite_client.is_pending();
            for client in [&mut session.invite_client, &mut session.non_invite_client] {
                if client.is_pending() {
                    client.abandon();
                }
            }
            if let Some(script) = self.script_of(index) {
                let trigger = Trigger::at(now);
                if !self.fail_over_lost(&script, index, is_invite, &trigger) {
                    let outcome = Outcome::Failed(Failure::ConnectionLost);
                    self.finish(&script, index, outcome, &trigger);
                }
                self.end_turn(&script, index, now);
            }
        }
        self.let_return(now);
    }

    /// Does what is due; where that is much a part of it, so that what it has to say is sent meanwhile: then
    /// [`next_timeout`](Engine::next_timeout) says that there is more.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.clock.time(now);
        for _ in 0..DUE_AT_ONCE {
            let Some(index) = self.sessions.pop_due(now) else {
                break;
            };
            self.handle_due_session(index, now);
        }
        for _ in 0..DUE_AT_ONCE {
            let Some(place) = self.users.pop_due(now) else {
                break;
            };
            self.handle_due_user(place, now);
        }
        self.let_return(now);
    }

    /// When [`handle_timeout`](Engine::handle_timeout) is to be called next. It may be earlier than
    /// anything is due, never later.
    pub fn next_timeout(&self) -> Option<Instant> {
        let next = [self.sessions.next_timeout(), self.users.next_timeout()];
        let next = next.into_iter().flatten().min();
        next.and_then(|next| self.clock.instant(next))
    }

    /// Begins an attempt that was due at `due`.
    ///
    /// # Errors
    ///
    /// When it cannot be begun; there is no record then.
    pub fn begin(
        &mut self,
        now: Instant,
        due: Instant,
        session: NewSession,
    ) -> Result<(), NotBegun> {
        let (now, due) = (self.clock.time(now), self.clock.time(due));
        let place = self.users.place(session.user).ok_or(NotBegun::NoSuchUser)?;
        self.start(now, due, session.script, place, session.peer, Cause::Asked)?;
        Ok(())
    }

    /// Begins to register a user, who is kept registered from then on ([`RegistrationPlan`]). A user who
    /// is registered refreshes the binding at once.
    ///
    /// # Errors
    ///
    /// When it cannot be begun, or no script for registrations has been added.
    pub fn register(&mut self, now: Instant, due: Instant, user: u32) -> Result<(), NotBegun> {
        let (now, due) = (self.clock.time(now), self.clock.time(due));
        let place = self.users.place(user).ok_or(NotBegun::NoSuchUser)?;
        if let Some(user) = self.users.get_mut(place) {
            user.is_kept_registered = true;
        }
        self.begin_registration(now, due, place, false)
    }

    /// Removes a user's binding (RFC 3261 section 10.2.2), who is not kept registered from then on.
    ///
    /// # Errors
    ///
    /// As for [`register`](Engine::register).
    pub fn unregister(&mut self, now: Instant, due: Instant, user: u32) -> Result<(), NotBegun> {
        let (now, due) = (self.clock.time(now), self.clock.time(due));
        let place = self.users.place(user).ok_or(NotBegun::NoSuchUser)?;
        if let Some(user) = self.users.get_mut(place) {
            user.is_kept_registered = false;
            user.refresh_at = Time::NEVER;
        }
        self.begin_registration(now, due, place, true)
    }

    /// Lets a user do this now, and again each time it has ended: at once after it was completed, after
    /// [`EngineConfig::pause_after_failure`] where it failed or could not be begun.
    ///
    /// # Errors
    ///
    /// When there is no such user or script. That there is no connection yet is not one.
    pub fn call_repeatedly(&mut self, now: Instant, session: NewSession) -> Result<(), NotBegun> {
        let place = self.users.place(session.user).ok_or(NotBegun::NoSuchUser)?;
        self.scripts
            .sending(session.script)
            .ok_or(NotBegun::NoScript)?;
        let (script, peer) = (session.script, session.peer);
        self.users.repeat(place, Repeat { script, peer });
        self.let_return(self.clock.time(now));
        Ok(())
    }

    /// How many more attempts users who come back may begin; `None`: as many as they like.
    pub fn limit_repeating(&mut self, attempts: Option<u64>) {
        self.users.limit_repeating(attempts);
    }

    /// Lets no user come back any more. What is under way goes on.
    pub fn stop_repeating(&mut self) {
        self.users.stop_repeating();
    }

    /// Ends everything that is under way and leaves a record of each, as unfinished. Peers are told: calls are
    /// hung up, cancelled or refused, and [`sessions`](Engine::sessions) counts those that still wait for what peers say
    /// to that.
    pub fn end_all(&mut self, now: Instant) {
        let now = self.clock.time(now);
        self.stop_repeating();
        for index in 0..self.sessions.places() {
            if let Some(script) = self.script_of(index) {
                self.finish(&script, index, Outcome::Unfinished, &Trigger::at(now));
                self.end_turn(&script, index, now);
            }
        }
    }

    /// Appends the next message that is to be sent to a buffer.
    pub fn poll_transmit(&mut self, into: &mut Vec<u8>) -> Option<Transmit> {
        self.transmits.poll(into)
    }

    /// The record of the next attempt that has ended.
    pub fn poll_record(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    /// What is to be written down next, where [`EngineConfig::traces`] asks for it.
    pub fn poll_trace(&mut self) -> Option<Trace> {
        self.traces.pop_front()
    }

    /// What became of the [lines](crate::script::Script::lines) of each script, in the order in which they were added.
    pub fn step_counts(&self) -> &[Vec<StepCount>] {
        self.step_counts.all()
    }

    /// Attempts under way that our users have begun, registrations apart: what a limit of calls is about.
    pub fn in_flight(&self) -> usize {
        self.sessions.in_flight()
    }

    /// Sessions under way of any kind, those included that only wait for their transactions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Users whose registration stands.
    pub fn registered_users(&self) -> u32 {
        self.users.registered()
    }

    /// Whether a user's registration stands.
    pub fn is_registered(&self, user: u32) -> bool {
        let place = self.users.place(user);
        place
            .and_then(|place| self.users.get(place))
            .is_some_and(|user| user.is_registered)
    }

    /// Users of this engine.
    pub fn users(&self) -> u32 {
        self.users.len()
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The script of a session.
    fn script_of(&self, index: u32) -> Option<Arc<Script>> {
        let session = self.sessions.get(index)?;
        self.scripts.get(ScriptId(session.script)).map(Arc::clone)
    }

    fn begin_registration(
        &mut self,
        now: Time,
        due: Time,
        place: u32,
        is_unregistering: bool,
    ) -> Result<(), NotBegun> {
        let script = self.scripts.registration().ok_or(NotBegun::NoScript)?;
        let cause = Cause::Upkeep { is_unregistering };
        self.start(now, due, script, place, 0, cause)
    }

    /// Begins a session for the user at a place.
    fn start(
        &mut self,
        now: Time,
        due: Time,
        script_id: ScriptId,
        place: u32,
        peer: u32,
        cause: Cause,
    ) -> Result<(), NotBegun> {
        let script = self.scripts.sending(script_id).map(Arc::clone);
        let script = script.ok_or(NotBegun::NoScript)?;
        let index = self.allocate(now, due, (script_id, &script), place, peer, cause)?;
        self.advance(&script, index, &Trigger::at(now));
        self.end_turn(&script, index, now);
        Ok(())
    }

    /// A session for the user at a place, whose script has not begun.
    fn allocate(
        &mut self,
        now: Time,
        due: Time,
        (script_id, script): (ScriptId, &Script),
        place: u32,
        peer: u32,
        cause: Cause,
    ) -> Result<u32, NotBegun> {
        let is_registration = *script.kind() == Kind::Registration;
        let user = self.users.get(place).ok_or(NotBegun::NoSuchUser)?;
        let own = user.connection().ok_or(NotBegun::NotConnected)?;
        // Where it has been lost the first request cannot be sent, which is the peer's doing: the attempt fails.
        let connection = self.connections.way(own).ok_or(NotBegun::NotConnected)?;
        if is_registration && user.registering != NOBODY {
            return Err(NotBegun::Busy);
        }
        if self.sessions.len() >= self.config.maximum_sessions {
            return Err(NotBegun::Full);
        }
        let is_refresh = is_registration && user.is_registered;
        let user_number = self.users.number(place);
        let number = self.sessions.next_number();
        let index = self.sessions.allocate();
        self.counters.begun += 1;
        let Some(session) = self.sessions.fresh(index) else {
            return Err(NotBegun::Full);
        };
        session.state = State::Running;
        session.party = Party::Caller;
        session.script = script_id.0;
        session.user = place;
        session.user_number = user_number;
        session.peer_number = peer;
        session.connection = connection;
        self.counters.failovers += u64::from(connection != own);
        session.number = number;
        session.times.due = due;
        session.times.begun = now;
        session.notes.is_repeating = cause == Cause::Return;
        session.notes.is_refresh = is_refresh;
        session.notes.is_unregistering = cause
            == Cause::Upkeep {
                is_unregistering: true,
            };
        session.dialog.prepare(&mut self.buffers);
        if !matches!(cause, Cause::Upkeep { .. }) {
            self.sessions.enter_flight(index);
        }
        self.join_connection(index);
        if is_registration && let Some(user) = self.users.get_mut(place) {
            user.registering = index;
        }
        if *script.kind() == Kind::Call {
            self.media.begin(index, Party::Caller);
        }
        Ok(index)
    }

    /// Notes which connection a session is on, where that is one that can be lost.
    fn join_connection(&mut self, index: u32) {
        let connection = self.sessions.get(index).map(|session| session.connection);
        if connection.is_some_and(|connection| !self.connections.is_unreliable(connection)) {
            self.sessions.join_connection(index);
        }
    }
}

/// Why a session is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Somebody has asked for this attempt.
    Asked,
    /// The next call of a user who repeats it.
    Return,
    /// A user is to be registered, to stay so, or no longer.
    Upkeep {
        /// Whether the binding is removed.
        is_unregistering: bool,
    },
}
