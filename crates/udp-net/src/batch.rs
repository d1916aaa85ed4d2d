//! Room for what one call to the kernel receives.

use std::collections::VecDeque;
use std::collections::vec_deque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use bytes::Bytes;

use crate::name::{NAME_BYTES, Name};
use crate::network_error::NetworkError;
use crate::receive_many::{Arrival, receive_many};
use crate::stamps::Stamps;

/// How many datagrams, or trains of them, one call receives at most.
pub(crate) const BATCH_SIZE: usize = 32;

/// The largest that the kernel writes into one buffer: a datagram, or a train of them that it
/// received as one (UDP_GRO), is at most 64 KiB.
const SLOT_BYTES: usize = 65_536;

/// From the beginning of one buffer to the next. It is no multiple of a page, so that the first octets of all
/// of them do not meet in the same few lines of the processor's caches.
const STRIDE: usize = SLOT_BYTES + 576;

/// A datagram that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub source: SocketAddr,
    /// The local address that it was sent to, where the socket is bound to one or the kernel tells: the source address of
    /// an answer when the socket is bound to a wildcard address.
    pub destination_ip: Option<IpAddr>,
    /// Its content.
    pub payload: Bytes,
    /// When it came: to the kernel, where the socket tells that
    /// ([`UdpConfig::arrival_times`](crate::UdpConfig::arrival_times)), else to this program. What an impairment has
    /// delayed has come when it was let go.
    pub received: Instant,
}

/// Receives datagrams many at a time; one belongs to each task that calls
/// [`UdpSocket::recv`](crate::UdpSocket::recv).
///
/// It holds 2 MiB of buffers, of which the system provides what has been written to.
#[derive(Debug)]
pub struct Batch {
    buffers: Vec<u8>,
    names: Vec<Name>,
    received: VecDeque<Received>,
    errors: VecDeque<NetworkError>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self {
            buffers: vec![0; BATCH_SIZE * STRIDE],
            names: vec![Name([0; NAME_BYTES]); BATCH_SIZE],
            received: VecDeque::with_capacity(BATCH_SIZE),
            errors: VecDeque::new(),
        }
    }

    /// How many datagrams are waiting to be taken.
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Whether all datagrams have been taken.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Takes the received datagrams, in the order of their arrival.
    pub fn drain(&mut self) -> vec_deque::Drain<'_, Received> {
        self.received.drain(..)
    }

    /// Takes the first of the received datagrams.
    pub fn pop(&mut self) -> Option<Received> {
        self.received.pop_front()
    }

    /// Takes the first of the errors that came back; see
    /// [`UdpConfig::network_errors`](crate::UdpConfig::network_errors).
    pub fn pop_error(&mut self) -> Option<NetworkError> {
        self.errors.pop_front()
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    pub(crate) fn push_error(&mut self, error: NetworkError) {
        self.errors.push_back(error);
    }

    pub(crate) fn push(&mut self, datagram: Received) {
        self.received.push_back(datagram);
    }

    /// Reads what has come to a socket, and hands each datagram to `deliver` together with this batch's queue. Tells how
    /// many slots of [`BATCH_SIZE`] have been filled. All of it was sent to the address of `only_ip` where the kernel tells of
    /// no other, and came `now` without `stamps`.
    ///
    /// # Errors
    /// The kernel's; `WouldBlock` where nothing has come.
    pub(crate) fn fill(
        &mut self,
        socket: BorrowedFd<'_>,
        only_ip: Option<IpAddr>,
        (stamps, now): (Option<&Stamps>, Instant),
        mut deliver: impl FnMut(&mut VecDeque<Received>, Received),
    ) -> io::Result<usize> {
        let mut arrivals = [Arrival::default(); BATCH_SIZE];
        let slots = self.buffers.chunks_exact_mut(STRIDE);
        let slots = slots.map(|slot| slot.get_mut(..SLOT_BYTES).unwrap_or_default());
        let reading = stamps.map(|stamps| (stamps, stamps.begin()));
        let filled = receive_many(socket, slots, &mut self.names, &mut arrivals)?;
        let clocks = reading.map(|(stamps, reading)| {
            if filled < BATCH_SIZE {
                stamps.note_empty(&reading);
            }
            reading.clocks()
        });
        let slots = self.buffers.chunks_exact(STRIDE);
        for ((slot, name), arrival) in slots.zip(&self.names).zip(&arrivals).take(filled) {
            let Arrival { length, ancillary } = *arrival;
            // A source of a family that nobody knows cannot be.
            let (Some(train), Some(source)) = (slot.get(..length), name.address()) else {
                continue;
            };
            let received = clocks
                .as_ref()
                .map_or(now, |clocks| clocks.instant(ancillary.stamp));
            for payload in segments(train, ancillary.segment.unwrap_or(length)) {
                let datagram = Received {
                    source,
                    destination_ip: ancillary.destination.or(only_ip),
                    // A copy of its own, so that a message kept for long keeps no buffer of
                    // others alive.
                    payload: Bytes::copy_from_slice(payload),
                    received,
                };
                deliver(&mut self.received, datagram);
            }
        }
        Ok(filled)
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

/// The datagrams of a train, each `stride` bytes long but the last. An empty datagram is one too.
fn segments(train: &[u8], stride: usize) -> impl Iterator<Item = &[u8]> {
    let empty = train.is_empty().then_some(train);
    empty.into_iter().chain(train.chunks(stride.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_is_split_at_its_stride() {
        let train: Vec<u8> = (0..10).collect();
        let parts: Vec<&[u8]> = segments(&train, 4).collect();
        assert_eq!(parts, [&[0, 1, 2, 3][..], &[4, 5, 6, 7], &[8, 9]]);
        assert_eq!(segments(&train, 10).count(), 1);
    }

    #[test]
    fn an_empty_datagram_is_delivered() {
        let parts: Vec<&[u8]> = segments(&[], 0).collect();
        assert_eq!(parts, [&[] as &[u8]]);
    }
}
