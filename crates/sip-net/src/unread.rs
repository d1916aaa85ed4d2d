//! Datagrams that are handed over as they came: whoever refuses most of what comes has no time to have it read.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sip::{Name, Scan};

/// Which workers want to have INVITEs, and the ACKs that answer what they say to these, unread.
#[derive(Debug)]
pub(crate) struct Unread(Vec<AtomicBool>);

impl Unread {
    /// None of so many workers.
    pub(crate) fn new(workers: usize) -> Unread {
        Unread((0..workers).map(|_| AtomicBool::new(false)).collect())
    }

    /// From now on a worker wants to, or does not any more.
    pub(crate) fn set(&self, worker: usize, is_wanted: bool) {
        if let Some(wants) = self.0.get(worker) {
            wants.store(is_wanted, Relaxed);
        }
    }

    /// The worker that wants to have a datagram unread; `owner_of_call` tells whose a Call-ID is.
    pub(crate) fn owner_of(
        &self,
        payload: &[u8],
        owner_of_call: impl FnOnce(Option<&str>) -> usize,
    ) -> Option<usize> {
        let wants = |worker: &AtomicBool| worker.load(Relaxed);
        let is_meant = payload.starts_with(b"INVITE ") || payload.starts_with(b"ACK ");
        if !is_meant || !self.0.iter().any(wants) {
            return None;
        }
        let owner = match self.0.len() {
            1 => 0,
            _ => owner_of_call(Some(call_id(payload)?)),
        };
        self.0.get(owner).filter(|owner| wants(owner))?;
        Some(owner)
    }
}

/// The Call-ID of a message, as [`sip::Message::call_id`] gives it.
fn call_id(payload: &[u8]) -> Option<&str> {
    let (_, mut fields) = Scan::begin(payload).ok()?;
    while let Some(field) = fields.next_field().ok()? {
        if let Some(Name::CallId) = field.name() {
            return std::str::from_utf8(field.value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVITE: &[u8] = b"INVITE sip:a@b SIP/2.0\r\nSubject: x\r\ni: 7\r\nCSeq: 1 INVITE\r\n\r\n";

    #[test]
    fn a_worker_gets_invites_and_acks_unread_while_it_wants_to() {
        let unread = Unread::new(2);
        let owner_of = |payload: &[u8]| {
            unread.owner_of(payload, |call_id| {
                assert_eq!(call_id, Some("7"));
                1
            })
        };
        assert_eq!(owner_of(INVITE), None);
        unread.set(0, true);
        assert_eq!(owner_of(INVITE), None);
        unread.set(1, true);
        assert_eq!(owner_of(INVITE), Some(1));
        let ack = [b"ACK", &INVITE[6..]].concat();
        assert_eq!(owner_of(&ack), Some(1));
        for other in [
            &b"BYE sip:a@b SIP/2.0\r\ni: 7\r\n\r\n"[..],
            b"INVITE ",
            b"INVITE x SIP/2.0\r\n\r\n",
            b"",
        ] {
            assert_eq!(owner_of(other), None);
        }
        unread.set(1, false);
        unread.set(7, true);
        assert_eq!(owner_of(INVITE), None);
    }
}
