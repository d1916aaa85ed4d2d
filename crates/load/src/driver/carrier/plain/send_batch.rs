//! Messages of an engine that are sent together.

use std::net::SocketAddr;

use udp_net::DatagramSlice;

use super::super::Traffic;
use crate::engine::Transmit;

/// Octets and messages that are collected before they are sent.
const MAX_OCTETS: usize = 128 * 1024;
const MAX_MESSAGES: usize = 256;

/// Messages one behind the other in one buffer.
#[derive(Debug)]
pub(super) struct SendBatch {
    octets: Vec<u8>,
    /// The socket of each slice.
    tokens: Vec<u32>,
    slices: Vec<DatagramSlice>,
}

/// Consecutive messages that leave by one socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct SocketRange {
    pub(super) token: u32,
    start: usize,
    pub(super) end: usize,
}

impl SocketRange {
    /// How many messages these are.
    pub(super) fn len(&self) -> u64 {
        (self.end - self.start) as u64
    }
}

impl SendBatch {
    pub(super) fn new() -> SendBatch {
        SendBatch {
            octets: Vec::new(),
            tokens: Vec::new(),
            slices: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.octets.clear();
        self.tokens.clear();
        self.slices.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.octets.len() >= MAX_OCTETS || self.slices.len() >= MAX_MESSAGES
    }

    /// Lets the engine write its next message behind the others.
    pub(super) fn write(&mut self, traffic: &mut impl Traffic) -> Option<Transmit> {
        traffic.poll_transmit(&mut self.octets)
    }

    /// Says where the message goes that was written last.
    pub(super) fn address(&mut self, transmit: Transmit, token: u32, destination: SocketAddr) {
        self.tokens.push(token);
        self.slices.push(DatagramSlice {
            start: self.octets.len() - transmit.length,
            length: transmit.length,
            destination,
        });
    }

    /// Takes back the message that was written last.
    pub(super) fn discard(&mut self, length: usize) {
        self.octets.truncate(self.octets.len() - length);
    }

    /// The messages from `next` on that leave by the same socket.
    pub(super) fn socket_range(&self, next: usize) -> Option<SocketRange> {
        let token = *self.tokens.get(next)?;
        let same = self.tokens[next..]
            .iter()
            .take_while(|other| **other == token);
        Some(SocketRange {
            token,
            start: next,
            end: next + same.count(),
        })
    }

    /// A range as datagrams: slices of a buffer.
    pub(super) fn datagrams(&self, range: SocketRange) -> (&[u8], &[DatagramSlice]) {
        (&self.octets, &self.slices[range.start..range.end])
    }

    /// A range as a stream.
    pub(super) fn octets(&self, range: SocketRange) -> &[u8] {
        let slices = &self.slices[range.start..range.end];
        match slices {
            [first, .., last] => &self.octets[first.start..last.start + last.length],
            [alone] => &self.octets[alone.start..alone.start + alone.length],
            [] => &[],
        }
    }
}
