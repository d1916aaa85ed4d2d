//! Datagrams that are handed over unparsed: the worker of a call parses its messages itself, right before it processes them,
//! and an overloaded one need not parse all.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sip::{begins_with_start_line, peek_call_id};

/// Whether datagrams are to be handed over unread.
#[derive(Debug, Default)]
pub(crate) struct Unread(AtomicBool);

impl Unread {
    /// From now on they are.
    pub(crate) fn set(&self) {
        self.0.store(true, Relaxed);
    }

    /// The worker, of so many, that a datagram goes to unparsed; `worker_of_call` finds the one of a Call-ID. `None` where
    /// there is no Call-ID, or no start line.
    pub(crate) fn worker_of(
        &self,
        payload: &[u8],
        workers: usize,
        worker_of_call: impl FnOnce(&str) -> usize,
    ) -> Option<usize> {
        if !self.0.load(Relaxed) || !begins_with_start_line(payload) {
            return None;
        }
        match workers {
            1 => Some(0),
            _ => peek_call_id(payload).map(worker_of_call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVITE: &[u8] =
        b"INVITE sip:a@b SIP/2.0\r\nSubject: x\r\nCall-ID: 7\r\nCSeq: 1 INVITE\r\n\r\n";

    fn worker(unread: &Unread, payload: &[u8], workers: usize) -> Option<usize> {
        unread.worker_of(payload, workers, |call_id| {
            assert_eq!(call_id, "7");
            1
        })
    }

    #[test]
    fn who_serves_the_call_gets_it_unread_once_that_is_wanted() {
        let unread = Unread::default();
        assert_eq!(worker(&unread, INVITE, 2), None);
        unread.set();
        assert_eq!(worker(&unread, INVITE, 2), Some(1));
        assert_eq!(worker(&unread, INVITE, 1), Some(0));
        let response = b"SIP/2.0 200 OK\r\nCall-ID: 7 \r\n\r\n";
        assert_eq!(worker(&unread, response, 2), Some(1));
    }

    #[test]
    fn a_message_without_a_call_id_is_read_where_there_are_several_workers() {
        let unread = Unread::default();
        unread.set();
        for compact in [
            &b"BYE sip:a@b SIP/2.0\r\ni: 7\r\n\r\n"[..],
            b"BYE sip:a@b SIP/2.0\r\nCall-ID:\r\n 7\r\n\r\n",
        ] {
            assert_eq!(worker(&unread, compact, 2), Some(1));
        }
        let other = b"BYE sip:a@b SIP/2.0\r\n\r\n";
        assert_eq!(worker(&unread, other, 2), None);
        assert_eq!(worker(&unread, other, 1), Some(0));
    }

    #[test]
    fn what_begins_as_no_message_does_is_told_apart() {
        let unread = Unread::default();
        unread.set();
        for other in [&b"INVITE "[..], b"", b"x\r\nCall-ID: 7\r\n\r\n"] {
            assert_eq!(worker(&unread, other, 2), None);
            assert_eq!(worker(&unread, other, 1), None);
        }
    }
}
