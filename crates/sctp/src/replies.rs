//! Packets that answer something and belong to no association (any more): they need a place to
//! wait for the driver, and that place is bounded.

use std::collections::VecDeque;

use bytes::BytesMut;

use crate::packet::{
    Abort, Cause, CauseBuffer, Chunk, DoesNotFit, OperationError, PacketWriter, Protection,
    ShutdownComplete,
};
use crate::{PathAddress, Transmit};

/// Where a reply goes.
#[derive(Debug, Clone)]
pub(crate) struct ReplyAddress {
    pub(crate) to: PathAddress,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) verification_tag: u32,
    pub(crate) protection: Protection,
}

/// The replies that wait to be sent.
#[derive(Debug)]
pub(crate) struct Replies {
    queue: VecDeque<Transmit>,
    buffer: BytesMut,
    max: usize,
    max_packet: usize,
    /// Replies that were not given, because the queue was full.
    dropped: u64,
}

impl Replies {
    /// Room for `max` packets of at most `max_packet` bytes each.
    pub(crate) fn new(max: usize, max_packet: usize) -> Replies {
        Replies {
            queue: VecDeque::new(),
            buffer: BytesMut::new(),
            max,
            max_packet,
            dropped: 0,
        }
    }

    /// The next packet to send.
    pub(crate) fn pop(&mut self) -> Option<Transmit> {
        self.queue.pop_front()
    }

    /// How many were not given for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Takes back those after the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.queue.truncate(count);
    }

    /// The largest packet.
    pub(crate) fn max_packet(&self) -> usize {
        self.max_packet
    }

    /// Queues a packet whose chunks `write` writes.
    pub(crate) fn push(
        &mut self,
        address: ReplyAddress,
        write: impl FnOnce(&mut PacketWriter<'_>) -> Result<(), DoesNotFit>,
    ) {
        if self.queue.len() >= self.max {
            self.dropped += 1;
            return;
        }
        let mut writer = PacketWriter::new(
            &mut self.buffer,
            address.local_port,
            address.peer_port,
            address.verification_tag,
            self.max_packet,
        )
        .protected_by(address.protection);
        if write(&mut writer).is_err() {
            self.dropped += 1;
            return;
        }
        let packet = writer.finish();
        self.queue.push_back(Transmit {
            path: address.to,
            packet,
            // Nothing is known of the path, or will be: there may be no association.
            may_fragment: true,
        });
    }

    /// Queues an ABORT; `tag_reflected` is its T bit. Causes that do not fit are left out.
    pub(crate) fn abort(
        &mut self,
        address: ReplyAddress,
        tag_reflected: bool,
        causes: &CauseBuffer,
    ) {
        self.push(address, |writer| {
            let causes = causes.causes();
            writer
                .chunk(&Chunk::Abort(Abort {
                    tag_reflected,
                    causes,
                }))
                .or_else(|DoesNotFit| {
                    writer.chunk(&Chunk::Abort(Abort {
                        tag_reflected,
                        ..Abort::default()
                    }))
                })
        });
    }

    /// Queues an ABORT with one cause.
    pub(crate) fn abort_because(&mut self, address: ReplyAddress, cause: &Cause<'_>) {
        let mut causes = CauseBuffer::new();
        // A cause too long for its length field is left out: the ABORT stands without it.
        let _ = causes.push(cause);
        self.abort(address, false, &causes);
    }

    /// Queues an ERROR with one cause.
    pub(crate) fn error(&mut self, address: ReplyAddress, cause: &Cause<'_>) {
        let mut causes = CauseBuffer::new();
        if causes.push(cause).is_err() {
            return;
        }
        self.push(address, |writer| {
            writer.chunk(&Chunk::Error(OperationError {
                causes: causes.causes(),
            }))
        });
    }

    /// Queues a SHUTDOWN COMPLETE; `tag_reflected` is its T bit.
    pub(crate) fn shutdown_complete(&mut self, address: ReplyAddress, tag_reflected: bool) {
        self.push(address, |writer| {
            writer.chunk(&Chunk::ShutdownComplete(ShutdownComplete { tag_reflected }))
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::packet::Packet;

    fn address() -> ReplyAddress {
        ReplyAddress {
            to: PathAddress {
                local: None,
                remote: IpAddr::from([192, 0, 2, 1]),
                encapsulation_port: None,
            },
            local_port: 1,
            peer_port: 2,
            verification_tag: 3,
            protection: Protection::default(),
        }
    }

    #[test]
    fn keeps_no_more_than_its_bound() {
        let mut replies = Replies::new(2, 1400);
        for _ in 0..5 {
            replies.shutdown_complete(address(), true);
        }
        assert!(replies.pop().is_some());
        assert!(replies.pop().is_some());
        assert!(replies.pop().is_none());
        assert_eq!(replies.dropped(), 3);
    }

    #[test]
    fn aborts_without_causes_that_do_not_fit() {
        let mut replies = Replies::new(2, 100);
        replies.abort_because(address(), &Cause::UserInitiatedAbort(&[7; 200]));
        let packet = replies.pop().unwrap().packet;
        let packet = Packet::read(&packet).unwrap();
        assert_eq!(packet.header().verification_tag, 3);
        let Some(Ok(Chunk::Abort(abort))) = packet.chunks().next() else {
            panic!("an ABORT was written");
        };
        assert!(!abort.tag_reflected);
        assert!(abort.causes.as_bytes().is_empty());
    }
}
