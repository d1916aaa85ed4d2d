//! One association or connection, and its user: what is to be sent, and what was.

use crate::message::{self, Framing, Stamp};
use crate::{Load, Message, TcpId};
use bytes::Bytes;
use sctp::AssociationId;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What a flow goes over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Carrier {
    /// The association of the endpoint on this port.
    Sctp(u16, AssociationId),
    Tcp(TcpId),
}

/// A message with what stands in it.
#[derive(Clone, Debug)]
pub(super) struct OutgoingMessage {
    pub(super) stream: u16,
    pub(super) unordered: bool,
    pub(super) payload: Bytes,
}

#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) carrier: Carrier,
    pub(super) is_incoming: bool,
    pub(super) is_up: bool,
    pub(super) is_over: bool,
    /// The transport has no room.
    pub(super) is_blocked: bool,
    load: Load,
    /// When the next message of a paced load is due.
    due: Option<Instant>,
    /// Made and not taken by the transport.
    queue: VecDeque<OutgoingMessage>,
    /// What the transport has not taken of a framed message.
    pub(super) rest: VecDeque<u8>,
    next_number: u64,
    pub(super) framing: Framing,
    pub(super) received: u64,
    pub(super) up_at: Option<Instant>,
}

impl Flow {
    pub(super) fn new(carrier: Carrier, is_incoming: bool) -> Flow {
        Flow {
            carrier,
            is_incoming,
            is_up: false,
            is_over: false,
            is_blocked: false,
            load: Load::None,
            due: None,
            queue: VecDeque::new(),
            rest: VecDeque::new(),
            next_number: 0,
            framing: Framing::default(),
            received: 0,
            up_at: None,
        }
    }

    pub(super) fn set_load(&mut self, now: Instant, load: Load) {
        self.load = load;
        self.due = matches!(load, Load::Paced { .. }).then_some(now);
    }

    pub(super) fn push(&mut self, start: Instant, sent: Instant, message: Message) {
        let stamp = Stamp {
            number: self.next_number,
            sent: sent - start,
        };
        self.next_number += 1;
        self.queue.push_back(OutgoingMessage {
            stream: message.stream,
            unordered: message.unordered,
            payload: message::write(stamp, message.bytes),
        });
    }

    /// When the load next makes a message by itself.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_over)
    }

    /// Makes the messages that are due. Those of the time before the flow was up wait.
    pub(super) fn make_due(&mut self, start: Instant, now: Instant) {
        while let Load::Paced { interval, .. } = self.load
            && let Some(due) = self.due.filter(|due| *due <= now)
            && let Some(message) = self.load.message(self.next_number)
        {
            self.push(start, due, message);
            self.load.count();
            let next = due + interval.max(LEAST_INTERVAL);
            self.due = (self.load != Load::None).then_some(next);
        }
    }

    /// The next message that the transport may have.
    pub(super) fn next(&mut self, start: Instant, now: Instant) -> Option<&OutgoingMessage> {
        if self.queue.is_empty() && !matches!(self.load, Load::Paced { .. }) {
            let message = self.load.message(self.next_number)?;
            self.push(start, now, message);
            self.load.count();
        }
        self.queue.front()
    }

    /// The transport has taken it.
    pub(super) fn taken(&mut self) {
        self.queue.pop_front();
    }

    /// Nothing is left for the transport to take.
    pub(super) fn is_idle(&self) -> bool {
        self.load == Load::None && self.queue.is_empty() && self.rest.is_empty()
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn sent(&self) -> u64 {
        self.next_number - self.queue.len() as u64
    }
}

/// Two messages at one time would let the clock stand still.
const LEAST_INTERVAL: Duration = Duration::from_micros(1);
