//! M3UA (RFC 4666) as a capture shows it: messages, states of ASPs and ASs, requests and their answers.

mod association;
mod latest;
mod states;
#[cfg(test)]
mod tests;
mod traffic;
mod transactions;

use std::collections::BTreeMap;

use ahash::RandomState;
use hashbrown::HashMap;
use m3ua::Variant;
use m3ua::message::{Kind, Message};

use crate::association_name::{AssociationEnd, AssociationName};
use crate::{Event, m3ua_text};

pub use association::M3uaAssociation;
pub use states::{SignallingState, StateChange};
pub use traffic::{UserMessageKind, UserMessages};
pub use transactions::{M3uaTransactions, UnansweredRequest};

use traffic::Traffic;

/// Messages that are kept to be drawn, of all associations.
const MOST_ARROWS: usize = 100_000;

/// M3UA of a capture.
#[derive(Debug)]
pub struct M3uaView {
    associations: Vec<M3uaAssociation>,
    /// The place of an association, and which of its ends is its `source`.
    by_name: HashMap<AssociationName, (usize, usize), RandomState>,
    by_sctp: HashMap<usize, usize, RandomState>,
    most: usize,
    variant: Variant,
    keeps_arrows: bool,
    arrows: usize,
    kinds: BTreeMap<Kind, u64>,
    traffic: Traffic,
    transactions: BTreeMap<Kind, M3uaTransactions>,
    malformed: u64,
    unfollowed: u64,
    repeated_elsewhere: u64,
}

impl M3uaView {
    /// At most so many associations are followed.
    pub(crate) fn new(hasher: RandomState, most: usize, variant: Variant, draws: bool) -> M3uaView {
        M3uaView {
            associations: Vec::new(),
            by_name: HashMap::with_hasher(hasher.clone()),
            by_sctp: HashMap::with_hasher(hasher),
            most,
            variant,
            keeps_arrows: draws,
            arrows: 0,
            kinds: BTreeMap::new(),
            traffic: Traffic::default(),
            transactions: BTreeMap::new(),
            malformed: 0,
            unfollowed: 0,
            repeated_elsewhere: 0,
        }
    }

    /// The associations with M3UA, in the order of their first messages: the first ones.
    pub fn associations(&self) -> &[M3uaAssociation] {
        &self.associations
    }

    /// Messages by class and type.
    pub fn messages(&self) -> &BTreeMap<Kind, u64> {
        &self.kinds
    }

    /// DATA messages by destination and user.
    pub fn user_messages(
        &self,
    ) -> impl ExactSizeIterator<Item = (&UserMessageKind, &UserMessages)> {
        self.traffic.rows()
    }

    /// DATA messages beyond the destinations and users that are told apart.
    pub fn other_user_messages(&self) -> UserMessages {
        self.traffic.others()
    }

    /// What became of requests, by their kind.
    pub fn transactions(&self) -> BTreeMap<Kind, M3uaTransactions> {
        let mut transactions = self.transactions.clone();
        for association in &self.associations {
            association.count_unanswered(&mut transactions);
        }
        transactions
    }

    /// How point codes are written.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Messages that cannot be read.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Messages of associations beyond those that are followed: they are in the counts, and in nothing else.
    pub fn unfollowed(&self) -> u64 {
        self.unfollowed
    }

    /// Messages of an association that another file has too: it is followed in one file only.
    pub fn repeated_elsewhere(&self) -> u64 {
        self.repeated_elsewhere
    }

    /// Whether there was anything of M3UA.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.malformed == 0
    }

    /// Takes a message; `sctp` is the place of its association in the view of SCTP.
    pub(crate) fn observe(
        &mut self,
        event: &Event<'_>,
        sender: AssociationEnd,
        octets: &[u8],
        sctp: Option<usize>,
    ) {
        let place = self.place(event, sender, sctp);
        let association = place.and_then(|(at, _)| self.associations.get_mut(at));
        if let Some(association) = &association
            && association.file != event.file
        {
            self.repeated_elsewhere += 1;
            return;
        }
        let Ok(message) = m3ua_text::read(octets) else {
            self.malformed += 1;
            return;
        };
        *self.kinds.entry(message.kind()).or_default() += 1;
        if let Message::Data(data) = &message {
            self.traffic.add(&data.protocol_data, self.variant);
        }
        let (Some(association), Some((_, source))) = (association, place) else {
            self.unfollowed += 1;
            return;
        };
        let by_source = sender.end == source;
        association.observe(
            event,
            &message,
            by_source,
            self.variant,
            &mut self.transactions,
        );
        if self.keeps_arrows && self.arrows < MOST_ARROWS {
            self.arrows += usize::from(association.keep(event, &message, self.variant));
        }
    }

    /// An association of SCTP has ended with this packet.
    pub(crate) fn end(&mut self, sctp: usize, event: &Event<'_>) {
        let at = self.by_sctp.get(&sctp).copied();
        if let Some(association) = at.and_then(|at| self.associations.get_mut(at)) {
            association.end_at(event.time, event.packet);
        }
    }

    /// The place of the association, and which end is its `source`; a new one where there is room.
    fn place(
        &mut self,
        event: &Event<'_>,
        sender: AssociationEnd,
        sctp: Option<usize>,
    ) -> Option<(usize, usize)> {
        if let Some(place) = self.by_name.get(&sender.association) {
            return Some(*place);
        }
        if self.associations.len() >= self.most {
            return None;
        }
        let at = self.associations.len();
        self.associations.push(M3uaAssociation::new(event, sctp));
        self.by_name.insert(sender.association, (at, sender.end));
        if let Some(sctp) = sctp {
            self.by_sctp.insert(sctp, at);
        }
        Some((at, sender.end))
    }
}
