//! Room for what one call to the kernel receives.

use std::collections::VecDeque;
use std::collections::vec_deque;
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use quinn_udp::{BATCH_SIZE, RecvMeta};

use crate::network_error::NetworkError;

/// The largest that the kernel writes into one buffer: a datagram, or a train of them that it
/// received as one (UDP_GRO), is at most 64 KiB.
const SLOT_BYTES: usize = 65_536;

/// A datagram that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub source: SocketAddr,
    /// The local address that it was sent to, where the kernel tells: the source address of an
    /// answer when the socket is bound to a wildcard address.
    pub destination_ip: Option<IpAddr>,
    /// Its content.
    pub payload: Bytes,
}

/// Receives datagrams many at a time; one belongs to each task that calls
/// [`UdpSocket::recv`](crate::UdpSocket::recv).
///
/// It holds 2 MiB of buffers, of which the system provides what has been written to.
#[derive(Debug)]
pub struct Batch {
    buffers: Vec<u8>,
    received: VecDeque<Received>,
    errors: VecDeque<NetworkError>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self {
            buffers: vec![0; BATCH_SIZE * SLOT_BYTES],
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

    /// Lets `receive` fill the buffers, and hands each datagram to `deliver` together with this
    /// batch's queue.
    pub(crate) fn fill<E>(
        &mut self,
        receive: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> Result<usize, E>,
        mut deliver: impl FnMut(&mut VecDeque<Received>, Received),
    ) -> Result<(), E> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slots = self.buffers.chunks_exact_mut(SLOT_BYTES);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(slots.next().unwrap_or_default()));
        let filled = receive(&mut slices, &mut metas)?;
        for (slot, meta) in slices.iter().zip(&metas).take(filled) {
            let train = &slot[..meta.len.min(slot.len())];
            for payload in segments(train, meta.stride) {
                let datagram = Received {
                    source: meta.addr,
                    destination_ip: meta.dst_ip,
                    // A copy of its own, so that a message kept for long keeps no buffer of
                    // others alive.
                    payload: Bytes::copy_from_slice(payload),
                };
                deliver(&mut self.received, datagram);
            }
        }
        Ok(())
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
