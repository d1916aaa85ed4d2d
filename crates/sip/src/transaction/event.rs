//! What the transaction layer tells its user.

use crate::{Flow, Message};

use super::{ClientId, ServerId, TransactionKey};

/// Something that the transaction user (a proxy or user agent core) is to know.
#[derive(Debug)]
pub enum TransactionEvent {
    /// A request other than ACK that begins a server transaction, `received` and `rport` in its
    /// topmost Via. It is to be answered by [`respond`](super::Transactions::respond): an INVITE
    /// waits for that as long as it takes, any other request until its client has given up.
    Request {
        /// The transaction that waits for the answer.
        transaction: ServerId,
        /// Where the request came from.
        flow: Flow,
        /// The request.
        request: Message,
        /// For a CANCEL: the INVITE transaction that it is about, which may have had its final
        /// response already; `None` asks for a 481 (RFC 3261 section 9.2).
        cancels: Option<ServerId>,
    },
    /// A request other than ACK for which there is no room. No transaction was made; an answer can
    /// be sent [statelessly](super::Transactions::respond_stateless).
    Overloaded {
        /// Where the request came from.
        flow: Flow,
        /// The request.
        request: Message,
    },
    /// An ACK that is the user's: for a 2xx, or for nothing that is known here.
    Ack {
        /// Where the ACK came from.
        flow: Flow,
        /// The ACK.
        request: Message,
    },
    /// A response: each provisional one, the first final one, and each 2xx to an INVITE, those of
    /// other branches of a fork and retransmitted ones included (RFC 6026 section 7.2).
    Response {
        /// The transaction whose request is answered.
        transaction: ClientId,
        /// Where the response came from.
        flow: Flow,
        /// The response, our Via still on top.
        response: Message,
    },
    /// A response that matches no transaction. It must not be forwarded (RFC 6026 section 7.3).
    StrayResponse {
        /// Where the response came from.
        flow: Flow,
        /// The response.
        response: Message,
    },
    /// No final response came in time: Timer B or F. The transaction has ended.
    Timeout {
        /// The transaction.
        transaction: ClientId,
    },
    /// No ACK came for the final non-2xx response to an INVITE: Timer H. The transaction has ended.
    AckTimeout {
        /// The transaction.
        transaction: ServerId,
    },
    /// The transport could not send. A client transaction has ended with that (RFC 3261 section
    /// 17.1.4); a server transaction stays as it is (RFC 6026 section 8.8).
    SendFailed {
        /// The transaction.
        transaction: TransactionKey,
    },
    /// A transaction has ended, for whatever reason; this is the last that is heard of it.
    Terminated {
        /// The transaction.
        transaction: TransactionKey,
    },
}
