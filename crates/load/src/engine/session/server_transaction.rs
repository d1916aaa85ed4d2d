//! Requests of the peer and their transactions (RFC 3261 section 17.2).

use std::ops::Range;
use std::time::Duration;

use super::timers::TransactionTimers;
use crate::engine::buffers::Buffers;
use crate::engine::time::Time;
use crate::engine::transmit_queue::TransmitQueue;

/// A request of the peer and its transaction.
#[derive(Debug, Default)]
pub(in crate::engine) struct ServerTransaction {
    pub(in crate::engine) state: ServerState,
    pub(in crate::engine) cseq: u32,
    /// The fingerprint of its branch, sender and method.
    pub(in crate::engine) branch: u64,
    /// Our last response.
    response: Vec<u8>,
    /// Where that response was written, while it has not been copied.
    written: Option<Range<usize>>,
    /// Of a final response to an INVITE: Timers G and H, or the retransmissions of section 13.3.1.4 and their end.
    pub(in crate::engine) timers: TransactionTimers,
    /// Whether a script has said more in that response than can be made of the request once more.
    pub(in crate::engine) says_more: bool,
}

/// Where a server transaction stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) enum ServerState {
    /// There is none.
    #[default]
    Idle,
    /// No final response yet.
    Proceeding,
    /// A final response was sent, to an INVITE one that has no ACK.
    Answered(u16),
    /// The ACK came.
    Acknowledged(u16),
}

impl ServerTransaction {
    /// Begins the transaction of a request.
    pub(in crate::engine) fn begin(&mut self, cseq: u32, branch: u64) {
        self.state = ServerState::Proceeding;
        self.cseq = cseq;
        self.branch = branch;
        self.response.clear();
        self.written = None;
        self.timers.stop();
        self.says_more = false;
    }

    /// Whether there is one, and it belongs to a request with this branch (section 17.2.3).
    pub(in crate::engine) fn has_branch(&self, branch: u64) -> bool {
        self.state != ServerState::Idle && self.branch == branch
    }

    /// Whether there is one, and it belongs to a request with this sequence number.
    pub(in crate::engine) fn has_cseq(&self, cseq: u32) -> bool {
        self.state != ServerState::Idle && self.cseq == cseq
    }

    /// Whether an INVITE was accepted, and no ACK has come.
    pub(in crate::engine) fn is_accepted(&self) -> bool {
        matches!(self.state, ServerState::Answered(200..300))
    }

    /// Whether no response of any kind was sent.
    pub(in crate::engine) fn is_silent(&self) -> bool {
        self.state == ServerState::Proceeding && self.response.is_empty()
    }

    /// A response was written there.
    pub(in crate::engine) fn note_response(&mut self, written: Range<usize>) {
        self.written = Some(written);
    }

    /// A final response to an INVITE was sent: without `t1` it is not retransmitted, without `timeout` the ACK is waited
    /// for without end.
    pub(in crate::engine) fn answer_invite(
        &mut self,
        status: u16,
        now: Time,
        t1: Option<Duration>,
        timeout: Option<Duration>,
    ) {
        self.state = ServerState::Answered(status);
        self.timers.start(now, t1, timeout);
    }

    /// The ACK has come.
    pub(in crate::engine) fn acknowledge(&mut self, status: u16, buffers: &mut Buffers) {
        self.state = ServerState::Acknowledged(status);
        self.timers.stop();
        buffers.give_back(&mut self.response);
    }

    /// Whether an INVITE that comes again says nothing new: it has been accepted, and its 2xx is retransmitted until the ACK
    /// comes anyway (RFC 6026 section 8.7), or the ACK has come (RFC 3261 section 17.2.1), or the call is over, to which no
    /// 2xx is to bring anybody back. Of a call that goes on, a 2xx that nothing retransmits answers each INVITE that comes
    /// again, or a loss would be for good.
    pub(in crate::engine) fn absorbs_retransmission(&self, is_over: bool) -> bool {
        match self.state {
            ServerState::Acknowledged(_) => true,
            ServerState::Answered(200..300) => is_over || self.timers.is_retransmitting(),
            ServerState::Idle | ServerState::Proceeding | ServerState::Answered(_) => false,
        }
    }

    /// The last response, where one is kept.
    pub(in crate::engine) fn response(&self) -> &[u8] {
        &self.response
    }

    /// The last response, copied or not.
    pub(in crate::engine) fn last_response<'a>(&'a self, transmits: &'a TransmitQueue) -> &'a [u8] {
        match &self.written {
            Some(written) => transmits.written(written.clone()),
            None => &self.response,
        }
    }

    /// Copies a response that was written: it may have to be sent again.
    pub(in crate::engine) fn keep_response(
        &mut self,
        transmits: &TransmitQueue,
        buffers: &mut Buffers,
    ) {
        if let Some(written) = self.written.take() {
            buffers.keep(&mut self.response, transmits.written(written));
        }
    }

    pub(super) fn reset(&mut self, buffers: &mut Buffers) {
        self.state = ServerState::Idle;
        self.timers.stop();
        buffers.give_back(&mut self.response);
        self.written = None;
        self.says_more = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invite_that_comes_again_is_absorbed_while_its_2xx_is_retransmitted() {
        let second = Duration::from_secs(1);
        let mut server = ServerTransaction::default();
        assert!(!server.has_branch(0) && !server.has_cseq(0));
        server.begin(7, 9);
        assert!(server.has_branch(9) && server.has_cseq(7) && server.is_silent());
        assert!(!server.absorbs_retransmission(false));
        server.answer_invite(200, Time::START, Some(second), Some(second));
        assert!(server.is_accepted() && server.absorbs_retransmission(false));
        server.timers.stop_retransmitting();
        assert!(!server.absorbs_retransmission(false) && server.absorbs_retransmission(true));
        server.acknowledge(200, &mut Buffers::default());
        assert!(server.absorbs_retransmission(false) && !server.is_accepted());
        server.begin(8, 10);
        server.answer_invite(486, Time::START, Some(second), Some(second));
        assert!(!server.absorbs_retransmission(true));
    }

    #[test]
    fn a_response_is_kept_from_where_it_was_written() {
        let (mut buffers, mut transmits) = (Buffers::default(), TransmitQueue::default());
        let mut server = ServerTransaction::default();
        server.begin(1, 1);
        transmits.buffer().extend_from_slice(b"response");
        server.note_response(0..8);
        assert_eq!(server.last_response(&transmits), b"response");
        assert!(server.response().is_empty());
        server.keep_response(&transmits, &mut buffers);
        transmits.discard(0);
        assert_eq!(server.response(), b"response");
        server.begin(2, 2);
        assert!(server.is_silent());
    }
}
