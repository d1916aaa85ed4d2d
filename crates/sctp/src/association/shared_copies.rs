//! Copies of the small user messages of a packet, several of them in one piece of memory.
//!
//! A small message that is kept as a slice of its packet holds many times its size; memory of its
//! own costs more time than everything else that is done with it. So a piece of memory is shared by
//! as many as leave the bound on what a message may hold untouched.

use bytes::{Bytes, BytesMut};

/// What a message may hold of memory, as a multiple of its size.
pub(crate) const MAX_HELD_TO_PAYLOAD: usize = 8;

/// Where the small messages of the packet that is being handled are copied to.
#[derive(Debug, Default)]
pub(crate) struct SharedCopies {
    /// What is left of the present piece of memory.
    room: BytesMut,
    /// The size of all of it.
    size: usize,
}

impl SharedCopies {
    /// Copies a message that `rest` bytes of its packet follow.
    pub(crate) fn copy(&mut self, payload: &[u8], rest: usize) -> Bytes {
        let most = payload.len().saturating_mul(MAX_HELD_TO_PAYLOAD);
        if self.size > most || self.room.capacity() < payload.len() {
            if rest < payload.len() {
                return Bytes::copy_from_slice(payload);
            }
            self.size = most.min(payload.len() + rest);
            self.room = BytesMut::with_capacity(self.size);
        }
        self.room.extend_from_slice(payload);
        self.room.split().freeze()
    }

    /// No more messages of this packet will come: what is left over need not be held any longer.
    pub(crate) fn end_packet(&mut self) {
        if self.size > 0 {
            *self = SharedCopies::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies messages of these sizes that come one after another in a packet; tells how many
    /// pieces of memory they are in.
    fn pieces(sizes: &[usize]) -> usize {
        let mut copies = SharedCopies::default();
        let mut rest: usize = sizes.iter().sum();
        let mut pieces = 0;
        let mut end = std::ptr::null();
        for (number, size) in sizes.iter().enumerate() {
            rest -= size;
            let payload = vec![number as u8; *size];
            let copy = copies.copy(&payload, rest);
            assert_eq!(copy, payload);
            pieces += usize::from(copy.as_ptr() != end);
            end = copy.as_ptr_range().end;
        }
        pieces
    }

    #[test]
    fn shares_memory_among_as_many_as_the_bound_allows() {
        assert_eq!(pieces(&[64; 8]), 1);
        assert_eq!(pieces(&[64; 16]), 2);
        assert_eq!(pieces(&[100, 100, 100]), 1);
    }

    #[test]
    fn holds_no_more_for_a_message_than_the_bound() {
        let mut copies = SharedCopies::default();
        copies.copy(&[0; 100], 1000);
        assert_eq!(copies.size, 800);
        copies.copy(&[0; 99], 800);
        assert_eq!(copies.size, 792, "a smaller one must not hold so much");
        copies.copy(&[0; 150], 600);
        assert_eq!(copies.size, 792, "a larger one may");
        copies.end_packet();
        assert_eq!(copies.size, 0);
        assert_eq!(copies.room.capacity(), 0);
    }

    #[test]
    fn takes_no_more_than_can_come() {
        let mut copies = SharedCopies::default();
        copies.copy(&[0; 100], 99);
        assert_eq!(copies.size, 0, "nothing of its size follows");
        copies.copy(&[0; 100], 150);
        assert_eq!(copies.size, 250);
    }
}
