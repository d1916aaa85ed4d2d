//! What is remembered of INVITEs whose responses have marks: whether they can have early dialogs (RFC 3261 section 12.1), and
//! who their callers are.
//!
//! The marks of early dialogs are good until a final response has refused the call. After a 2xx they are good for as
//! long as its transaction lasts: a PRACK or an UPDATE may cross it. So long further 2xx responses may come, too, when
//! nothing else is known of the INVITE.

use std::collections::BTreeMap;

use sip::transaction::ClientId;

/// The calls, by a name of their INVITE.
#[derive(Debug, Default)]
pub(crate) struct EarlyDialogs {
    /// How many INVITEs with early dialogs there are of each: one that comes by us twice is two.
    names: BTreeMap<u64, u32>,
    /// Those that were answered, by the transaction that has brought the 2xx.
    answered: BTreeMap<ClientId, Answered>,
}

/// An INVITE that was answered.
#[derive(Debug)]
struct Answered {
    /// Its name, where it has early dialogs.
    early: Option<u64>,
    /// A name of its caller.
    caller: u64,
}

impl EarlyDialogs {
    /// Takes notice of an INVITE whose caller has had a provisional response.
    pub(crate) fn begin(&mut self, name: u64) {
        *self.names.entry(name).or_default() += 1;
    }

    /// It has failed.
    pub(crate) fn end(&mut self, name: u64) {
        if let Some(count) = self.names.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.names.remove(&name);
            }
        }
    }

    /// An INVITE of this caller has been answered in this transaction. Its early dialogs, where it has any under this name,
    /// end with that.
    pub(crate) fn answer(&mut self, client: ClientId, early: Option<u64>, caller: u64) {
        let known = self.answered.entry(client).or_insert(Answered {
            early: None,
            caller,
        });
        if early.is_some() {
            known.early = early;
        }
    }

    /// Who has sent the INVITE that was answered in a transaction.
    pub(crate) fn caller(&self, client: ClientId) -> Option<u64> {
        self.answered.get(&client).map(|answered| answered.caller)
    }

    /// Takes notice that a transaction has ended.
    pub(crate) fn forget(&mut self, client: ClientId) {
        let answered = self.answered.remove(&client);
        if let Some(name) = answered.and_then(|answered| answered.early) {
            self.end(name);
        }
    }

    /// Whether a call can still have early dialogs.
    pub(crate) fn has(&self, name: u64) -> bool {
        self.names.contains_key(&name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;
    use sip::transaction::{TransactionConfig, Transactions};
    use sip::{Message, Method, Name, Target, Transport};

    use super::*;

    fn client() -> ClientId {
        let rng = ChaCha12Rng::seed_from_u64(1);
        let mut transactions = Transactions::new(TransactionConfig::default(), rng);
        let request = Message::request(Method::Invite, "sip:bob@192.0.2.20")
            .with(Name::Via, "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1")
            .with(Name::CallId, "1")
            .with(Name::CSeq, "1 INVITE");
        let to = Target::Address(Transport::Udp, ([192, 0, 2, 20], 5060).into());
        let sent = transactions.send_request_to(Instant::now(), request, to, None);
        sent.expect("there is room")
    }

    #[test]
    fn a_call_is_early_until_its_last_invite_has_failed_or_the_transaction_of_its_answer_ends() {
        let client = client();
        let mut calls = EarlyDialogs::default();
        calls.begin(1);
        calls.begin(1);
        calls.end(1);
        assert!(calls.has(1) && !calls.has(2));
        assert_eq!(calls.caller(client), None);
        calls.answer(client, Some(1), 7);
        // Another 2xx in the same transaction: its caller is the first one's.
        calls.answer(client, None, 8);
        assert_eq!(calls.caller(client), Some(7));
        assert!(calls.has(1));
        calls.forget(client);
        assert!(!calls.has(1) && calls.caller(client).is_none());
        assert!(calls.names.is_empty() && calls.answered.is_empty());
    }
}
