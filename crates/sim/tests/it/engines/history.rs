//! The history of one side, taken from the log of its user.

use crate::engines::host::{EngineHost, Entry};
use sctp::{AssociationId, CannotStartCause, Event, LostCause, ReceivedMessage};
use std::collections::BTreeSet;

/// All associations of a host, through all its lives, in the order in which it heard of them.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) associations: Vec<AssociationHistory>,
    life: usize,
    /// Those before belong to earlier lives, which used the same names.
    first_of_this_life: usize,
}

/// The history of one association, as its user saw it.
pub(crate) struct AssociationHistory {
    pub(crate) id: AssociationId,
    /// The numbers of the messages that the engine took, in order.
    pub(crate) sent: Vec<u32>,
    /// Those of which it said that they cannot be delivered, or perhaps were not.
    pub(crate) failed: BTreeSet<u32>,
    /// What came: a list up to the restart of the peer, if any, one after it, and so on.
    pub(crate) received: Vec<Vec<ReceivedMessage>>,
    pub(crate) end: Option<End>,
    /// The host died while there was the association.
    pub(crate) is_forgotten: bool,
    /// How often the host had died before.
    pub(crate) life: usize,
    /// The host died later.
    is_of_earlier_life: bool,
}

/// How an association ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum End {
    Complete,
    CannotStart(CannotStartCause),
    Lost(LostCause),
}

impl History {
    pub(crate) fn of(host: &EngineHost) -> History {
        let mut history = History::default();
        for (_, entry) in host.log() {
            match entry {
                Entry::Restarted => history.end_life(),
                Entry::Sent(id, number) => history.of_association(*id).sent.push(*number),
                Entry::Received(id, message) => {
                    if let Some(segment) = history.of_association(*id).received.last_mut() {
                        segment.push(message.clone());
                    }
                }
                Entry::Event(event) => history.take(event),
                Entry::Asked(..) => {}
            }
        }
        history
    }

    /// The numbers of all messages that were sent, in order.
    pub(crate) fn sent(&self) -> impl Iterator<Item = u32> {
        self.associations
            .iter()
            .flat_map(|told| told.sent.iter().copied())
    }

    /// All messages that came.
    pub(crate) fn received(&self) -> impl Iterator<Item = &ReceivedMessage> {
        let segments = self.associations.iter().flat_map(|told| &told.received);
        segments.flatten()
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::CommunicationUp { id, .. } => {
                self.of_association(*id);
            }
            Event::Restart { id, .. } => self.of_association(*id).received.push(Vec::new()),
            Event::SendFailed { id, info, .. } => {
                let is_new = self.of_association(*id).failed.insert(info.ppid);
                assert!(is_new, "message {} failed twice", info.ppid);
            }
            Event::ShutdownComplete { id } => self.end(*id, End::Complete),
            Event::CommunicationLost { id, cause, .. } => self.end(*id, End::Lost(cause.clone())),
            Event::CannotStart { id, cause } => self.end(*id, End::CannotStart(cause.clone())),
            _ => {}
        }
    }

    fn end(&mut self, id: AssociationId, end: End) {
        let before = self.of_association(id).end.replace(end.clone());
        assert_eq!(before, None, "it had ended before it ended with {end:?}");
    }

    fn end_life(&mut self) {
        for told in &mut self.associations {
            told.is_forgotten |= told.end.is_none();
            told.is_of_earlier_life = true;
        }
        self.life += 1;
        self.first_of_this_life = self.associations.len();
    }

    fn of_association(&mut self, id: AssociationId) -> &mut AssociationHistory {
        let life = &self.associations[self.first_of_this_life..];
        let index = match life.iter().position(|told| told.id == id) {
            Some(position) => self.first_of_this_life + position,
            None => {
                self.associations.push(AssociationHistory {
                    id,
                    sent: Vec::new(),
                    failed: BTreeSet::new(),
                    received: vec![Vec::new()],
                    end: None,
                    is_forgotten: false,
                    life: self.life,
                    is_of_earlier_life: false,
                });
                self.associations.len() - 1
            }
        };
        &mut self.associations[index]
    }
}

impl AssociationHistory {
    /// Whether the peer died, and called again.
    pub(crate) fn has_restarted(&self) -> bool {
        self.received.len() > 1
    }

    /// Whether messages may have come that the user never saw.
    pub(crate) fn threw_something_away(&self) -> bool {
        let aborted = matches!(
            self.end,
            Some(
                End::Lost(LostCause::AbortedLocally)
                    | End::CannotStart(CannotStartCause::AbortedLocally)
            )
        );
        aborted || self.is_of_earlier_life || self.has_restarted()
    }
}
