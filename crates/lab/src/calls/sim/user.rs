//! What callers and callees have in common: a user agent at an address, and its transactions.

use std::net::SocketAddr;
use std::time::Instant;

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::transaction::{TransactionConfig, TransactionEvent, Transactions};
use sip::user_agent::UserAgent;
use sip::{Flow, Message, Transmit, Transport};

/// A host of users.
pub(super) struct User {
    pub(super) address: SocketAddr,
    pub(super) agent: UserAgent,
    pub(super) transactions: Transactions,
}

impl User {
    pub(super) fn new(record: &str, address: SocketAddr, mut rng: ChaCha12Rng) -> User {
        let agent_rng = ChaCha12Rng::from_rng(&mut rng);
        User {
            address,
            agent: UserAgent::new(record, Transport::Udp, address, agent_rng),
            transactions: Transactions::new(TransactionConfig::default(), rng),
        }
    }
}

/// What a host of users does: with what its transactions tell, and at times of its own.
pub(super) trait Behaviour {
    fn user(&self) -> &User;

    fn user_mut(&mut self) -> &mut User;

    fn handle_event(&mut self, now: Instant, event: TransactionEvent);

    /// Does what is due.
    fn handle_own_timeout(&mut self, now: Instant);

    /// When that is.
    fn next_own_timeout(&self) -> Option<Instant>;

    fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        let transactions = &mut self.user_mut().transactions;
        transactions.handle_message(now, flow, message);
        self.handle_events(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.user_mut().transactions.handle_timeout(now);
        self.handle_events(now);
        self.handle_own_timeout(now);
    }

    fn handle_events(&mut self, now: Instant) {
        while let Some(event) = self.user_mut().transactions.poll_event() {
            self.handle_event(now, event);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let transactions = self.user().transactions.next_timeout();
        let own = self.next_own_timeout();
        own.into_iter().chain(transactions).min()
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.user_mut().transactions.poll_transmit()
    }
}
