//! What an engine has written and is to be sent next.

use std::net::SocketAddr;

use udp_net::{Coupled, Coupling, Piece};

use super::super::Traffic;
use crate::engine::Outgoing;

/// Octets and messages that are collected before they are sent.
const MAX_OCTETS: usize = 128 * 1024;
const MAX_MESSAGES: usize = 256;

/// Messages one behind the other in one buffer.
#[derive(Debug)]
pub(super) struct Outbox {
    octets: Vec<u8>,
    /// The socket and the run of each piece.
    whose: Vec<(u32, u32)>,
    pieces: Vec<Piece>,
    coupling: Coupling,
    /// The same in the order in which datagrams leave.
    ordered: Vec<(u32, u32)>,
    ordered_pieces: Vec<Piece>,
}

/// Consecutive messages that leave by one socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) token: u32,
    start: usize,
    pub(super) end: usize,
}

impl Run {
    /// How many messages these are.
    pub(super) fn len(&self) -> u64 {
        (self.end - self.start) as u64
    }
}

impl Outbox {
    pub(super) fn new() -> Outbox {
        Outbox {
            octets: Vec::new(),
            whose: Vec::new(),
            pieces: Vec::new(),
            coupling: Coupling::new(),
            ordered: Vec::new(),
            ordered_pieces: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.octets.clear();
        self.whose.clear();
        self.pieces.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.octets.len() >= MAX_OCTETS || self.pieces.len() >= MAX_MESSAGES
    }

    /// Whether there are messages that could leave together.
    pub(super) fn has_several(&self) -> bool {
        self.pieces.len() > 1
    }

    /// Lets the engine write its next message behind the others.
    pub(super) fn write(&mut self, traffic: &mut impl Traffic) -> Option<Outgoing> {
        traffic.poll_transmit(&mut self.octets)
    }

    /// Says where the message goes that was written last.
    pub(super) fn address(&mut self, outgoing: Outgoing, token: u32, destination: SocketAddr) {
        self.whose.push((token, outgoing.run));
        self.pieces.push(Piece {
            start: self.octets.len() - outgoing.length,
            length: outgoing.length,
            destination,
        });
    }

    /// Puts datagrams next to each other that may pass the kernel as one.
    pub(super) fn order_datagrams(&mut self) {
        let datagrams = self.whose.iter().zip(&self.pieces);
        let datagrams = datagrams.map(|((token, run), piece)| Coupled {
            socket: *token,
            call: *run,
            length: piece.length,
            destination: piece.destination,
        });
        let order = self.coupling.order(datagrams);
        self.ordered.clear();
        self.ordered_pieces.clear();
        for at in order {
            let at = *at as usize;
            self.ordered.push(self.whose[at]);
            self.ordered_pieces.push(self.pieces[at]);
        }
        std::mem::swap(&mut self.whose, &mut self.ordered);
        std::mem::swap(&mut self.pieces, &mut self.ordered_pieces);
    }

    /// Takes back the message that was written last.
    pub(super) fn discard(&mut self, length: usize) {
        self.octets.truncate(self.octets.len() - length);
    }

    /// The messages from `next` on that leave by the same socket.
    pub(super) fn run(&self, next: usize) -> Option<Run> {
        let (token, _) = *self.whose.get(next)?;
        let same = self.whose[next..]
            .iter()
            .take_while(|(other, _)| *other == token);
        Some(Run {
            token,
            start: next,
            end: next + same.count(),
        })
    }

    /// A run as datagrams: pieces of a buffer.
    pub(super) fn datagrams(&self, run: Run) -> (&[u8], &[Piece]) {
        (&self.octets, &self.pieces[run.start..run.end])
    }

    /// A run as a stream.
    pub(super) fn octets(&self, run: Run) -> &[u8] {
        let pieces = &self.pieces[run.start..run.end];
        match pieces {
            [first, .., last] => &self.octets[first.start..last.start + last.length],
            [alone] => &self.octets[alone.start..alone.start + alone.length],
            [] => &[],
        }
    }
}
