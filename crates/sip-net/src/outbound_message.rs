//! A message on its way out.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use sip::Peer;
use sip::transaction::TransactionKey;

use crate::budget::Room;
use crate::incoming::SendError;

/// A message on its way out.
#[derive(Debug)]
pub(crate) struct OutboundMessage {
    pub(crate) payload: Bytes,
    /// Where it goes.
    pub(crate) remote: SocketAddr,
    /// Over UDP, the local address from which it is to leave, where the flow names one.
    pub(crate) source_ip: Option<IpAddr>,
    /// The SCTP stream that the target's flow names.
    pub(crate) stream: u16,
    pub(crate) call_id_hash: u32,
    pub(crate) transaction: Option<OwnedTransaction>,
    /// Where to send it when the connection turns out to be gone (RFC 3261 section 18.2.2).
    pub(crate) fallback: Option<Fallback>,
    /// The [response fallback](crate::response_fallback) has been tried: nothing else is left.
    pub(crate) is_response_fallback: bool,
    /// Its share of the bounds on what waits to be sent, while it does.
    pub(crate) room: Option<Room>,
}

/// Another way for a message whose connection is gone.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    pub(crate) address: SocketAddr,
    /// The expected peer, where it is known.
    pub(crate) peer: Option<Arc<Peer>>,
}

/// A transaction, and the worker that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnedTransaction {
    pub(crate) worker: usize,
    pub(crate) key: TransactionKey,
}

/// A message that was not sent, and why.
#[derive(Debug)]
pub(crate) struct SendFailure {
    pub(crate) message: Box<OutboundMessage>,
    pub(crate) error: SendError,
}

impl OutboundMessage {
    /// A message of no transaction, such as a keep-alive.
    pub(crate) fn new(payload: Bytes, remote: SocketAddr) -> OutboundMessage {
        OutboundMessage {
            payload,
            remote,
            source_ip: None,
            stream: 0,
            call_id_hash: 0,
            transaction: None,
            fallback: None,
            is_response_fallback: false,
            room: None,
        }
    }

    pub(crate) fn failed(self, error: SendError) -> SendFailure {
        let message = Box::new(self);
        SendFailure { message, error }
    }

    pub(crate) fn is_response(&self) -> bool {
        self.payload.starts_with(STATUS_LINE)
    }

    pub(crate) fn is_final_response(&self) -> bool {
        self.payload
            .strip_prefix(STATUS_LINE)
            .is_some_and(|rest| !rest.starts_with(b"1"))
    }
}

/// How the first line of a response begins (RFC 3261 section 7.2).
const STATUS_LINE: &[u8] = b"SIP/2.0 ";
