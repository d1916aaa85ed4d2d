//! Datagrams that are handed over as they came: whoever refuses most of what comes has no time to have it read, and most
//! REGISTERs are so much alike that they need not be read as others are.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sip::{Name, Scan, plain_call_id};

/// Who wants to have which requests unread.
#[derive(Debug)]
pub(crate) struct Unread {
    /// All workers want to have REGISTERs so.
    registers: AtomicBool,
    /// Which workers want to have INVITEs so, and the ACKs that answer what they say to these.
    invites: Vec<AtomicBool>,
}

impl Unread {
    /// Nobody of so many workers.
    pub(crate) fn new(workers: usize) -> Unread {
        Unread {
            registers: AtomicBool::new(false),
            invites: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// From now on a worker wants to have INVITEs and ACKs so, or does not any more.
    pub(crate) fn set(&self, worker: usize, is_wanted: bool) {
        if let Some(wants) = self.invites.get(worker) {
            wants.store(is_wanted, Relaxed);
        }
    }

    /// From now on all workers want to have REGISTERs so.
    pub(crate) fn set_registers(&self) {
        self.registers.store(true, Relaxed);
    }

    /// The worker that wants to have a datagram unread; `owner_of_call` tells whose a Call-ID is.
    pub(crate) fn owner_of(
        &self,
        payload: &[u8],
        owner_of_call: impl FnOnce(Option<&str>) -> usize,
    ) -> Option<usize> {
        let wants = |worker: &AtomicBool| worker.load(Relaxed);
        let owner = || match self.invites.len() {
            1 => Some(0),
            _ => {
                let call_id = plain_call_id(payload).or_else(|| call_id(payload));
                Some(owner_of_call(Some(call_id?)))
            }
        };
        if payload.starts_with(b"REGISTER ") && wants(&self.registers) {
            return owner();
        }
        let is_meant = payload.starts_with(b"INVITE ") || payload.starts_with(b"ACK ");
        if !is_meant || !self.invites.iter().any(wants) {
            return None;
        }
        let owner = owner()?;
        self.invites.get(owner).filter(|owner| wants(owner))?;
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

    #[test]
    fn registers_go_to_their_owners_unread_once_that_is_wanted() {
        let unread = Unread::new(2);
        let owner_of = |payload: &[u8]| {
            unread.owner_of(payload, |call_id| {
                assert_eq!(call_id, Some("7"));
                1
            })
        };
        let short = b"REGISTER sip:a@b SIP/2.0\r\nSubject: x\r\ni: 7\r\nCSeq: 1 REGISTER\r\n\r\n";
        let long = b"REGISTER sip:a@b SIP/2.0\r\nCSeq: 1 REGISTER\r\nCall-ID: 7 \r\n\r\n";
        assert_eq!(owner_of(long), None);
        unread.set_registers();
        assert_eq!((owner_of(short), owner_of(long)), (Some(1), Some(1)));
        assert_eq!(owner_of(INVITE), None);
        // Whose it is nobody can say.
        assert_eq!(
            owner_of(b"REGISTER sip:a@b SIP/2.0\r\nCSeq: 1 REGISTER\r\n\r\n"),
            None
        );
    }
}
