//! The emulated users, without I/O: messages and times in, messages out.

mod callees;
mod callers;
mod registration;
mod user;
mod waits;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ahash::RandomState;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::transaction::{TransactionConfig, TransactionKey};
use sip::{Flow, Message, Transmit};

pub use callees::Callees;
pub use callers::Callers;

use user::User;

use crate::statistics::RegistrationResults;

/// The users of a side: user `first` uses the first flow, the next user the next one.
#[derive(Clone, Debug)]
pub struct Population {
    /// Number of the first user, which is the user part of its address of record (`user1`).
    pub first: u32,
    /// The way of each user to the proxy. A user who has none neither registers nor calls.
    pub flows: Vec<Option<Flow>>,
    /// The proxy and registrar; its address is the domain of the users' addresses of record.
    pub proxy: SocketAddr,
}

impl Population {
    /// The users that have a way to the proxy, in the order of their numbers, each with random numbers of
    /// its own.
    fn users(&self, rng: &mut ChaCha12Rng) -> Vec<User> {
        (self.first..)
            .zip(&self.flows)
            .filter_map(|(number, flow)| {
                let rng = ChaCha12Rng::from_rng(rng);
                flow.map(|flow| User::new(number, flow, self.proxy, rng))
            })
            .collect()
    }

    /// How many users there are, with a way to the proxy or without.
    fn count(&self) -> u32 {
        self.flows.len() as u32
    }
}

/// How the callers call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPlan {
    /// When a call begins.
    pub pace: Pace,
    /// When calling ends.
    pub stop: Stop,
    /// From the ACK to the BYE.
    pub hold: Duration,
    /// Calls that an open loop may have under way at a time.
    pub in_flight: usize,
    /// A call without a final response for so long is cancelled and has failed.
    pub answer_within: Duration,
}

impl Default for CallPlan {
    /// One call after the other for ten seconds, without a pause; a caller waits for an answer as long
    /// as a callee repeats one, 64·T1 (RFC 3261 section 13.3.1.4).
    fn default() -> CallPlan {
        CallPlan {
            pace: Pace::Closed,
            stop: Stop::After(Duration::from_secs(10)),
            hold: Duration::ZERO,
            in_flight: 1_000,
            answer_within: Duration::from_secs(32),
        }
    }
}

/// When a call begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each caller begins its next call as soon as its last one has ended (after a failure: half a
    /// second later, so that a proxy that refuses everything is not hammered).
    Closed,
    /// So many begin per second, at even intervals, callers taking turns, whether or not earlier calls
    /// have ended.
    Open {
        /// Calls per second of all callers together.
        calls_per_second: f64,
    },
}

/// When calling ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After a time; calls then under way remain unfinished.
    After(Duration),
    /// When so many calls have ended.
    Calls(u64),
}

/// One side of the load: what the driver does with callers and callees alike.
pub trait Side {
    /// Begins to register every user and keeps them registered.
    fn register(&mut self, now: Instant);

    /// Takes in a message. It came at `received`, where what it ends is measured to; what it gives rise
    /// to begins `now`, so that a message's wait for its turn is in no measurement.
    fn handle_message(&mut self, now: Instant, received: Instant, flow: Flow, message: Message);

    /// Takes in that a message of a transaction could not be sent.
    fn handle_send_failure(&mut self, now: Instant, transaction: TransactionKey);

    /// Does what is due.
    fn handle_timeout(&mut self, now: Instant);

    /// When [`handle_timeout`](Side::handle_timeout) is to be called next.
    fn next_timeout(&self) -> Option<Instant>;

    /// The next message to send.
    fn poll_transmit(&mut self) -> Option<Transmit>;

    /// What became of the registrations.
    fn registrations(&self) -> &RegistrationResults;

    /// Users whose registration stands.
    fn registered_users(&self) -> u32;

    /// Messages sent again: requests and responses, by the transaction layer and, for a 2xx to an
    /// INVITE and the ACK to it, by the users themselves.
    fn retransmissions(&self) -> u64;

    /// Whether the registration of every user stands.
    fn is_registered(&self) -> bool {
        self.registered_users() == self.registrations().users
    }
}

/// The time of what happens: what a message ends is measured to when it came, what it gives rise to begins
/// now.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Instant,
    received: Instant,
}

impl Moment {
    /// Of something that is no message.
    fn at(now: Instant) -> Moment {
        Moment { now, received: now }
    }

    /// From when a request was sent to when this came.
    fn since(self, sent: Instant) -> Duration {
        self.received.saturating_duration_since(sent)
    }
}

/// RFC 3261's timers, and room for the transactions of a fast closed loop, which over UDP linger for 32 s
/// after their end (Timers D, J and K, and M of RFC 6026).
fn transaction_config() -> TransactionConfig {
    TransactionConfig {
        max_transactions: 4_000_000,
        ..TransactionConfig::default()
    }
}

/// A hasher whose keys a peer cannot guess and a seed repeats.
fn hasher(rng: &mut impl Rng) -> RandomState {
    RandomState::with_seeds(
        rng.next_u64(),
        rng.next_u64(),
        rng.next_u64(),
        rng.next_u64(),
    )
}
