//! The transactions that await a response over a connection: they are told when it is gone (RFC 3261 section 18.4).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sip::transaction::TransactionKey;

use crate::outbound_message::OwnedTransaction;

/// The client transactions whose messages went over a connection last. Whether they have been answered
/// is not known here, and does not matter: one that has been ignores a failure.
#[derive(Debug, Default)]
pub(crate) struct AwaitingResponse {
    transactions: VecDeque<(Instant, OwnedTransaction)>,
}

/// How long a transaction without any response lives: 64*T1 (Timers B and F, RFC 3261 sections 17.1.1.2
/// and 17.1.2.2).
const LIFETIME: Duration = Duration::from_secs(32);

/// How many are remembered. On a connection that has more of them in its last 32 seconds the earlier ones
/// are left to their timers.
const MAXIMUM: usize = 1024;

impl AwaitingResponse {
    /// A message was sent, for this transaction if any.
    pub(crate) fn sent(&mut self, now: Instant, transaction: Option<OwnedTransaction>) {
        let Some(transaction) = transaction.filter(is_client) else {
            return;
        };
        self.forget(now);
        if self.transactions.len() == MAXIMUM {
            self.transactions.pop_front();
        }
        self.transactions.push_back((now, transaction));
    }

    /// Takes those that may be waiting yet.
    pub(crate) fn take(&mut self, now: Instant) -> impl Iterator<Item = OwnedTransaction> + use<> {
        self.forget(now);
        let transactions = std::mem::take(&mut self.transactions);
        transactions.into_iter().map(|(_, transaction)| transaction)
    }

    fn forget(&mut self, now: Instant) {
        while self
            .transactions
            .front()
            .is_some_and(|(sent, _)| now.saturating_duration_since(*sent) > LIFETIME)
        {
            self.transactions.pop_front();
        }
    }
}

fn is_client(transaction: &OwnedTransaction) -> bool {
    matches!(transaction.key, TransactionKey::Client(_))
}

#[cfg(test)]
mod tests {
    use sip::Message;
    use sip::transaction::{TransactionConfig, Transactions};

    use super::*;

    /// So many transactions.
    fn transactions(number: usize) -> Vec<OwnedTransaction> {
        let rng = rand::SeedableRng::seed_from_u64(1);
        let mut layer = Transactions::new(TransactionConfig::default(), rng);
        let target = sip::Target::Address(sip::Transport::Tcp, ([127, 0, 0, 1], 5060).into());
        (0..number)
            .map(|number| {
                let request = format!(
                    "OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/TCP a;branch=z9hG4bK{number}\r\n\
                     Call-ID: a\r\nCSeq: 1 OPTIONS\r\n\r\n"
                );
                let request = Message::read(request.into()).expect("a message");
                let client = layer
                    .send_request(Instant::now(), request, target)
                    .expect("room");
                OwnedTransaction {
                    worker: 0,
                    key: TransactionKey::Client(client),
                }
            })
            .collect()
    }

    #[test]
    fn transactions_of_the_last_32_seconds_are_reported_once() {
        let all = transactions(3);
        let began = Instant::now();
        let mut awaiting = AwaitingResponse::default();
        for (seconds, transaction) in [0, 1, 2].into_iter().zip(&all) {
            awaiting.sent(began + Duration::from_secs(seconds), Some(*transaction));
        }
        awaiting.sent(began, None);
        let later = began + Duration::from_millis(32_500);
        let reported: Vec<OwnedTransaction> = awaiting.take(later).collect();
        assert_eq!(reported, all[1..]);
        assert_eq!(awaiting.take(later).count(), 0);
    }

    #[test]
    fn their_number_is_bounded() {
        let all = transactions(MAXIMUM + 5);
        let mut awaiting = AwaitingResponse::default();
        let now = Instant::now();
        for transaction in &all {
            awaiting.sent(now, Some(*transaction));
        }
        let reported: Vec<OwnedTransaction> = awaiting.take(now).collect();
        assert_eq!(reported, all[5..]);
    }
}
