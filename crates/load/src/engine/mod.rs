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
//!     engine.begin(now, due, Work { script: call, user, peer });          // Err: counted as not begun
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
mod answering;
mod answers;
mod authentication;
mod buffers;
mod call_ids;
mod config;
mod connections;
mod counters;
mod ending;
mod failover;
mod forks;
mod identity;
mod listed;
mod media;
mod received;
mod recently_ended;
mod redirection;
mod render;
mod requests;
mod responses;
mod sending;
mod session;
mod sessions;
mod steps;
mod time;
mod timeouts;
mod transmit_queue;
mod users;
mod wheel;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ahash::RandomState;
use hashbrown::HashMap;
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::Method;

use crate::record::{Failure, Outcome, Party, Record};
use crate::script::{First, Kind, Script, ScriptId, Template, builtin};

pub use config::{
    Connection, ConnectionId, Directory, EngineConfig, Listed, RegistrationPlan, Timers, UserRange,
};
pub use counters::Counters;
pub use media::{CallMedia, LocalMedia};

use buffers::Buffers;
use call_ids::CallIds;
use connections::Connections;
use identity::Identity;
use received::Received;
use recently_ended::RecentlyEnded;
use session::{NOBODY, State};
use sessions::Sessions;
use steps::Trigger;
use time::{Clock, Moment, Time};
use transmit_queue::TransmitQueue;
use users::{Repeat, Users};
use wheel::Wheel;

/// The core of a worker: its users and what they do.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    clock: Clock,
    rng: ChaCha12Rng,
    hasher: RandomState,
    identity: Identity,
    /// A copy of each script of this engine's own, whose count of owners no other engine touches.
    scripts: Vec<Arc<Script>>,
    /// Which script begins with a request of a method.
    waiting: Vec<(Method, ScriptId)>,
    registering: Option<ScriptId>,
    own: Arc<Own>,
    /// The users of the list by name.
    listed: HashMap<Box<[u8]>, u32, RandomState>,
    connections: Connections,
    users: Users,
    sessions: Sessions,
    /// Sessions that are found by their Call-ID.
    by_call_id: CallIds,
    wheel: Wheel,
    recently_ended: RecentlyEnded,
    buffers: Buffers,
    scratch: Vec<u8>,
    transmits: TransmitQueue,
    records: VecDeque<Record>,
    media: Option<Box<dyn CallMedia>>,
    /// Users who are to begin something again.
    returning: VecDeque<u32>,
    repetitions_left: Option<u64>,
    in_flight: usize,
    begun: u64,
    counters: Counters,
}

/// Templates of the engine's own: how it ends a call that its script does not care for any more.
#[derive(Debug)]
struct Own {
    ack: Option<Template>,
    bye: Option<Template>,
}

/// A step that could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed(Failure);

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

/// A message that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Which way.
    pub connection: ConnectionId,
    /// How many octets were appended to the buffer.
    pub length: usize,
}

/// How many sessions, and users, of whom something is due have their turn before messages are sent.
const DUE_AT_ONCE: usize = 256;

/// How much is remembered of sessions that are over, as a multiple of how many there may be.
const ENDED_PER_SESSION: usize = 2;

impl Engine {
    /// An engine of these users, none of whom has a connection yet. `now` is what its times are counted
    /// from.
    pub fn new(config: EngineConfig, mut rng: ChaCha12Rng, now: Instant) -> Engine {
        let identity = Identity::new(rng.next_u64());
        let mut hasher = || {
            let mut seed = || rng.next_u64();
            RandomState::with_seeds(seed(), seed(), seed(), seed())
        };
        let recently_ended = config.maximum_sessions.saturating_mul(ENDED_PER_SESSION);
        let mut listed = HashMap::with_hasher(hasher());
        for (user, number) in config.directory.listed.iter().zip(1_u32..) {
            listed.insert(user.name.as_bytes().into(), number);
        }
        Engine {
            identity,
            listed,
            clock: Clock::new(now),
            recently_ended: RecentlyEnded::new(recently_ended, hasher()),
            hasher: hasher(),
            users: Users::new(&config.users),
            own: Arc::new(Own {
                ack: Template::parse(OWN_ACK).ok(),
                bye: Template::parse(builtin::BYE_OF_EITHER).ok(),
            }),
            scripts: Vec::new(),
            waiting: Vec::new(),
            registering: None,
            connections: Connections::default(),
            sessions: Sessions::default(),
            by_call_id: CallIds::default(),
            wheel: Wheel::new(),
            buffers: Buffers::default(),
            scratch: Vec::new(),
            transmits: TransmitQueue::default(),
            records: VecDeque::new(),
            media: None,
            returning: VecDeque::new(),
            repetitions_left: None,
            in_flight: 0,
            begun: 0,
            counters: Counters::default(),
            config,
            rng,
        }
    }

    /// Adds a script. One that waits for a request answers requests with this method from now on, unless
    /// one added before does; the first one that sends a REGISTER is what users register with.
    pub fn add_script(&mut self, script: Arc<Script>) -> ScriptId {
        let id = ScriptId(u16::try_from(self.scripts.len()).unwrap_or(u16::MAX));
        match script.first() {
            First::Waits(method) => self.waiting.push((method.clone(), id)),
            First::Sends if *script.kind() == Kind::Registration => {
                self.registering.get_or_insert(id);
            }
            First::Sends => {}
        }
        self.scripts.push(Arc::new((*script).clone()));
        id
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
            Ok(message) if self.connections.get(connection).is_some() => message,
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
        for index in self.waiting_on(connection) {
            let Some(session) = self.sessions.get_mut(index) else {
                continue;
            };
            let is_invite = session.invite.is_pending();
            for client in [&mut session.invite, &mut session.other] {
                if client.is_pending() {
                    client.timers.stop();
                    client.state = session::ClientState::Idle;
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
            let Some(index) = self.wheel.pop_due(now) else {
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
        let next = if self.returning.is_empty() {
            [self.wheel.next_timeout(), self.users.next_timeout()]
                .into_iter()
                .flatten()
                .min()
        } else {
            Some(Time::START)
        };
        next.and_then(|next| self.clock.instant(next))
    }

    /// Begins an attempt that was due at `due`.
    ///
    /// # Errors
    ///
    /// When it cannot be begun; there is no record then.
    pub fn begin(&mut self, now: Instant, due: Instant, work: Work) -> Result<(), NotBegun> {
        let (now, due) = (self.clock.time(now), self.clock.time(due));
        let place = self.users.place(work.user).ok_or(NotBegun::NoSuchUser)?;
        self.start(now, due, work.script, place, work.peer, Cause::Asked)?;
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
    pub fn call_repeatedly(&mut self, now: Instant, work: Work) -> Result<(), NotBegun> {
        let place = self.users.place(work.user).ok_or(NotBegun::NoSuchUser)?;
        let script = self.script(work.script).ok_or(NotBegun::NoScript)?;
        if *script.first() != First::Sends {
            return Err(NotBegun::NoScript);
        }
        if let Some(user) = self.users.get_mut(place) {
            user.repeats = Some(Repeat {
                script: work.script,
                peer: work.peer,
            });
        }
        self.returning.push_back(place);
        self.let_return(self.clock.time(now));
        Ok(())
    }

    /// How many more attempts users who come back may begin; `None`: as many as they like.
    pub fn limit_repeating(&mut self, attempts: Option<u64>) {
        self.repetitions_left = attempts;
    }

    /// Lets no user come back any more. What is under way goes on.
    pub fn stop_repeating(&mut self) {
        self.users.stop_repeating();
        self.returning.clear();
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

    /// What became of the next attempt that has ended.
    pub fn poll_record(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    /// Attempts under way that our users have begun, registrations apart: what a limit of calls is about.
    pub fn in_flight(&self) -> usize {
        self.in_flight
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

    /// What has been counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn script(&self, id: ScriptId) -> Option<Arc<Script>> {
        self.scripts.get(usize::from(id.0)).map(Arc::clone)
    }

    fn script_of(&self, index: u32) -> Option<Arc<Script>> {
        self.script(ScriptId(self.sessions.get(index)?.script))
    }

    /// The number of the user of a name; 0 where there is none.
    fn number_of(&self, name: Option<&[u8]>) -> u32 {
        let Some(name) = name else {
            return 0;
        };
        let listed = self.listed.get(name).copied();
        let number = listed.or_else(|| self.config.directory.number(name));
        number.unwrap_or(0)
    }

    fn begin_registration(
        &mut self,
        now: Time,
        due: Time,
        place: u32,
        is_unregistering: bool,
    ) -> Result<(), NotBegun> {
        let script = self.registering.ok_or(NotBegun::NoScript)?;
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
        let script = self.script(script_id).ok_or(NotBegun::NoScript)?;
        if *script.first() != First::Sends {
            return Err(NotBegun::NoScript);
        }
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
        let index = self.sessions.allocate();
        self.begun += 1;
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
        session.number = self.begun;
        session.times.due = due;
        session.times.begun = now;
        session.notes.is_repeating = cause == Cause::Return;
        session.notes.is_refresh = is_refresh;
        session.notes.is_unregistering = cause
            == Cause::Upkeep {
                is_unregistering: true,
            };
        session.notes.is_in_flight = !matches!(cause, Cause::Upkeep { .. });
        session.dialog.prepare(&mut self.buffers);
        self.in_flight += usize::from(session.notes.is_in_flight);
        self.list(index);
        if is_registration && let Some(user) = self.users.get_mut(place) {
            user.registering = index;
        }
        self.begin_media(&script, index, Party::Caller);
        self.advance(&script, index, &Trigger::at(now));
        self.end_turn(&script, index, now);
        Ok(())
    }
}

/// Why a session is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Somebody has asked for this attempt.
    Asked,
    /// A user who calls again and again comes back.
    Return,
    /// A user is to be registered, to stay so, or no longer.
    Upkeep {
        /// Whether the binding is removed.
        is_unregistering: bool,
    },
}

/// The ACK to a 2xx that the script does not wait for any more.
const OWN_ACK: &str = "\
ACK {target} SIP/2.0
Via: SIP/2.0/{transport} {local_address};branch={branch}
Max-Forwards: 70
{routes}
From: {local_party}
To: {remote_party}
Call-ID: {call_id}
CSeq: {cseq} ACK
Content-Length: 0

";
