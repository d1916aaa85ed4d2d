//! Keeps users registered (RFC 3261 section 10.2).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ahash::RandomState;
use sip::Message;
use sip::transaction::{ClientId, Transactions};

use super::Moment;
use super::user::User;
use super::waits::Waits;
use crate::statistics::RegistrationResults;

/// Lifetime asked for.
const EXPIRES: Duration = Duration::from_secs(3600);

/// From a failed attempt to the next.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The registrations of a side's users.
#[derive(Debug)]
pub(super) struct Registrations {
    is_registered: Vec<bool>,
    pending: HashMap<ClientId, Attempt, RandomState>,
    /// Users not registered yet, and users to try again after a failure.
    beginning: Waits<usize>,
    retries: Waits<usize>,
    refreshes: Waits<usize>,
    results: RegistrationResults,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    user: usize,
    sent: Instant,
}

impl Registrations {
    /// Registrations of these users, none begun; `population` counts those too that cannot register.
    pub(super) fn new(users: &[User], population: u32, hasher: RandomState) -> Registrations {
        Registrations {
            is_registered: vec![false; users.len()],
            pending: HashMap::with_hasher(hasher),
            beginning: Waits::new(Duration::ZERO),
            retries: Waits::new(RETRY_AFTER),
            refreshes: Waits::new(EXPIRES / 2),
            results: RegistrationResults {
                users: population,
                ..RegistrationResults::default()
            },
        }
    }

    /// Begins to register everyone.
    pub(super) fn start(&mut self, now: Instant) {
        for user in 0..self.is_registered.len() {
            self.beginning.push(now, user);
        }
    }

    /// Sends the requests that are due.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        users: &mut [User],
        transactions: &mut Transactions,
    ) {
        while let Some(user) = self.pop_due(now) {
            self.send(now, user, &mut users[user], transactions);
        }
    }

    /// When something is due next.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        [&self.beginning, &self.retries, &self.refreshes]
            .into_iter()
            .filter_map(Waits::next_timeout)
            .min()
    }

    /// Takes in the end of a transaction: its final response, or none where it timed out or could not be
    /// sent. Tells whether the transaction was a registration at all.
    pub(super) fn handle_outcome(
        &mut self,
        moment: Moment,
        transaction: ClientId,
        response: Option<&Message>,
    ) -> bool {
        let is_provisional = response
            .and_then(Message::status)
            .is_some_and(|status| status < 200);
        if is_provisional {
            return self.pending.contains_key(&transaction);
        }
        let Some(Attempt { user, sent }) = self.pending.remove(&transaction) else {
            return false;
        };
        let succeeded = response
            .and_then(Message::status)
            .is_some_and(|status| status < 300);
        self.is_registered[user] = succeeded;
        if succeeded {
            self.results.succeeded += 1;
            self.results.delay.record(moment.since(sent));
            self.refreshes.push(moment.now, user);
        } else {
            self.results.failed += 1;
            self.retries.push(moment.now, user);
        }
        true
    }

    /// Users whose registration stands.
    pub(super) fn registered(&self) -> u32 {
        self.is_registered.iter().filter(|is| **is).count() as u32
    }

    /// What became of the attempts.
    pub(super) fn results(&self) -> &RegistrationResults {
        &self.results
    }

    fn send(
        &mut self,
        now: Instant,
        index: usize,
        user: &mut User,
        transactions: &mut Transactions,
    ) {
        let mut request = user.register(EXPIRES.as_secs() as u32);
        user.push_via(&mut request, &transactions.new_branch());
        self.results.attempted += 1;
        match transactions.send_request(now, request, user.target()) {
            Ok(transaction) => {
                self.pending.insert(
                    transaction,
                    Attempt {
                        user: index,
                        sent: now,
                    },
                );
            }
            Err(_) => {
                self.results.failed += 1;
                self.retries.push(now, index);
            }
        }
    }

    fn pop_due(&mut self, now: Instant) -> Option<usize> {
        self.beginning
            .pop_due(now)
            .or_else(|| self.retries.pop_due(now))
            .or_else(|| self.refreshes.pop_due(now))
    }
}
