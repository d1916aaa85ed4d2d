//! Which branch each client transaction of ours belongs to.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use sip::transaction::{ClientId, ServerId};

use crate::core::branch_name::BranchName;

/// The branches by the client transactions that forward their requests. There are as many as there are calls in half a
/// minute: each is found without a search, and takes three words.
#[derive(Debug, Default)]
pub(crate) struct BranchNames {
    /// By the places of the transactions.
    places: Vec<Option<Slot>>,
    /// Those of transactions that have ended while their last events still wait, and whose places have been taken.
    displaced: BTreeMap<ClientId, BranchName>,
    length: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    server: ServerId,
    client: ClientId,
    /// One more than the branch's.
    index: NonZeroU32,
}

impl Slot {
    fn new(client: ClientId, (server, index): BranchName) -> Option<Slot> {
        let index = u32::try_from(index + 1).ok().and_then(NonZeroU32::new)?;
        Some(Slot {
            server,
            client,
            index,
        })
    }

    fn name(&self) -> BranchName {
        (self.server, self.index.get() as usize - 1)
    }
}

impl BranchNames {
    /// How many transactions belong to a branch.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The branch that a transaction belongs to.
    pub(crate) fn get(&self, client: ClientId) -> Option<BranchName> {
        match self.places.get(client.place()) {
            Some(Some(place)) if place.client == client => Some(place.name()),
            _ => self.displaced.get(&client).copied(),
        }
    }

    /// Lets a transaction belong to a branch.
    pub(crate) fn insert(&mut self, client: ClientId, name: BranchName) {
        self.remove(client);
        let at = client.place();
        if at >= self.places.len() {
            self.places.resize(at + 1, None);
        }
        let before = std::mem::replace(&mut self.places[at], Slot::new(client, name));
        self.displaced
            .extend(before.map(|place| (place.client, place.name())));
        self.length += usize::from(self.places[at].is_some());
    }

    /// Lets a transaction belong to no branch. Returns that to which it has belonged.
    pub(crate) fn remove(&mut self, client: ClientId) -> Option<BranchName> {
        let name = match self.places.get_mut(client.place()) {
            Some(place) if place.is_some_and(|place| place.client == client) => {
                place.take().map(|place| place.name())
            }
            _ => self.displaced.remove(&client),
        };
        self.length -= usize::from(name.is_some());
        name
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;
    use sip::transaction::{TransactionConfig, TransactionEvent, Transactions};
    use sip::{ConnectionId, Flow, Message, Method, Name, Target, Transport};

    use super::*;

    fn transactions() -> Transactions {
        Transactions::new(TransactionConfig::default(), ChaCha12Rng::seed_from_u64(1))
    }

    fn request(branch: &str) -> Message {
        Message::request(Method::Options, "sip:bob@example.com")
            .with(
                Name::Via,
                format!("SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{branch}"),
            )
            .with(Name::From, "<sip:a@b>;tag=1")
            .with(Name::To, "<sip:b@b>")
            .with(Name::CallId, "1")
            .with(Name::CSeq, "1 OPTIONS")
    }

    fn server(transactions: &mut Transactions) -> ServerId {
        let flow = Flow {
            transport: Transport::Udp,
            local: "192.0.2.1:5060".parse().expect("an address"),
            remote: "192.0.2.9:5060".parse().expect("an address"),
            connection: ConnectionId(7),
            stream: 0,
        };
        transactions.handle_message(Instant::now(), flow, request("1"));
        match transactions.poll_event() {
            Some(TransactionEvent::Request { transaction, .. }) => transaction,
            other => panic!("{other:?}"),
        }
    }

    fn client(transactions: &mut Transactions, branch: &str) -> ClientId {
        let remote = "192.0.2.7:5060".parse().expect("an address");
        let target = Target::Address(Transport::Udp, remote);
        let sent = transactions.send_request(Instant::now(), request(branch), target);
        sent.expect("there is room")
    }

    #[test]
    fn each_transaction_has_its_branch_until_it_is_taken() {
        let mut transactions = transactions();
        let server = server(&mut transactions);
        let first = client(&mut transactions, "1");
        let second = client(&mut transactions, "2");
        let mut names = BranchNames::default();
        assert_eq!((names.get(first), names.remove(second)), (None, None));
        names.insert(second, (server, 1));
        names.insert(first, (server, 0));
        names.insert(first, (server, 2));
        assert_eq!(names.get(first), Some((server, 2)));
        assert_eq!(names.get(second), Some((server, 1)));
        assert_eq!(names.len(), 2);
        assert_eq!(names.remove(first), Some((server, 2)));
        assert_eq!((names.get(first), names.remove(first)), (None, None));
        assert_eq!(names.len(), 1);
    }

    /// It may be heard of only when its place has another.
    #[test]
    fn the_end_of_a_transaction_may_be_heard_of_late() {
        let mut transactions = transactions();
        let server = server(&mut transactions);
        let ended = client(&mut transactions, "1");
        let mut names = BranchNames::default();
        names.insert(ended, (server, 1));
        transactions.abandon(Instant::now(), ended);
        let next = client(&mut transactions, "2");
        assert_eq!(next.place(), ended.place());
        assert_eq!(names.get(next), None);
        names.insert(next, (server, 2));
        assert_eq!(names.len(), 2);
        assert_eq!(names.get(ended), Some((server, 1)));
        assert_eq!(names.remove(ended), Some((server, 1)));
        assert_eq!(names.get(ended), None);
        assert_eq!(names.remove(next), Some((server, 2)));
        assert_eq!(names.len(), 0);
    }
}
