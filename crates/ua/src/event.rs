//! What happens, for the user.

use bytes::Bytes;

/// An account of a user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountId(pub u32);

/// A call of a user agent; none is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallNumber(pub u64);

/// A text that was sent; none is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextNumber(pub u64);

/// There is no such call, or it is not at a point where this could be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such call, or it is not ready for this")]
pub struct UnknownCall;

/// How an account is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationState {
    /// For so many seconds; it is renewed before.
    Registered {
        /// Seconds.
        expires: u32,
        /// How many flows of the account are registered (RFC 5626).
        flows: usize,
    },
    /// One of its flows has failed, and is tried again after a while (RFC 5626 section 4.5).
    FlowFailed {
        /// Its place among the account's outbound proxies.
        flow: usize,
        /// How many are still registered.
        flows: usize,
    },
    /// No more.
    Unregistered,
    /// It was refused, or nobody answered; it is tried again after a while.
    Failed {
        /// The status code; 408 when nobody answered, 503 when the server cannot be reached.
        status: u16,
        /// The server's words.
        reason: String,
    },
}

/// Why a call is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// We hung up, refused it or gave it up.
    Local,
    /// The other side hung up or gave up.
    Remote,
    /// It was refused, or failed, with this status.
    Refused {
        /// The status code.
        status: u16,
        /// The other side's words.
        reason: String,
    },
    /// Another call took its place (RFC 3891).
    Replaced,
    /// The other side was not heard of in time: no ACK, or no refresh of the session (RFC 4028 section 10).
    Timeout,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UaEvent {
    /// An account is registered otherwise than before.
    Registration {
        /// Which one.
        account: AccountId,
        /// How.
        state: RegistrationState,
    },
    /// Where a user is registered, as was [asked](crate::Ua::fetch_bindings).
    Bindings {
        /// Which one.
        account: AccountId,
        /// The URIs.
        contacts: Vec<String>,
    },
    /// Where a user is registered, as was [asked](crate::Ua::fetch_bindings), is not known: that was refused, or nobody answered.
    BindingsFailed {
        /// Which one.
        account: AccountId,
        /// The status code; 408 when nobody answered, 503 when the server cannot be reached.
        status: u16,
        /// The server's words.
        reason: String,
    },
    /// A call came. It is to be answered, refused, or let ring.
    Incoming {
        /// Its number.
        call: CallNumber,
        /// Whom it is for.
        account: AccountId,
        /// The URI of the caller.
        from: String,
        /// The caller's name, if it was told.
        display_name: Option<String>,
        /// The caller's offer; empty when the offer is to come with the answer.
        offer: Bytes,
        /// The call whose place it is to take (RFC 3891).
        replaces: Option<CallNumber>,
        /// Whether it came over TLS, and so our answer goes over it.
        is_secure: bool,
    },
    /// A provisional response to our call. With a session description there is sound before the answer.
    Progress {
        /// Which one.
        call: CallNumber,
        /// The status code.
        status: u16,
        /// The other side's words.
        reason: String,
        /// The answer to our offer, if it is there.
        description: Bytes,
    },
    /// Our call was answered.
    Answered {
        /// Which one.
        call: CallNumber,
        /// The answer to our offer; empty when it came with a provisional response before. If we made no offer, it is one, and
        /// to be [answered](crate::Ua::acknowledge).
        description: Bytes,
    },
    /// The other side knows that we have answered its call.
    Established {
        /// Which one.
        call: CallNumber,
        /// The answer to the offer that was in our answer, else empty.
        description: Bytes,
    },
    /// The other side offers another session: it is to be [answered](crate::Ua::answer_offer).
    Offer {
        /// Which call.
        call: CallNumber,
        /// The offer; empty when the other side wants one of ours.
        description: Bytes,
    },
    /// Our offer of another session was accepted.
    OfferAccepted {
        /// Which call.
        call: CallNumber,
        /// The answer.
        description: Bytes,
    },
    /// Our offer of another session was refused: all stays as it was.
    OfferRefused {
        /// Which call.
        call: CallNumber,
        /// The status code.
        status: u16,
    },
    /// A call is over. Nothing more comes of it.
    Ended {
        /// Which one.
        call: CallNumber,
        /// Why.
        reason: EndReason,
    },
    /// The other side pressed a key and told so by INFO.
    Key {
        /// Which call.
        call: CallNumber,
        /// The key's sign.
        key: char,
    },
    /// The other side asks us to call somebody else: it is to be [accepted](crate::Ua::accept_transfer) or
    /// [refused](crate::Ua::refuse_transfer).
    TransferRequested {
        /// Which call.
        call: CallNumber,
        /// The URI to call, without headers.
        target: String,
        /// The dialog whose place the new call is to take (RFC 3891), if any.
        replaces: Option<String>,
    },
    /// How the other side gets on with the call that we asked for.
    TransferProgress {
        /// Which call.
        call: CallNumber,
        /// The status code of the call to the third.
        status: u16,
    },
    /// A text came (RFC 3428).
    Text {
        /// Whom it is for.
        account: AccountId,
        /// The URI of the sender.
        from: String,
        /// What it is.
        content_type: String,
        /// The text.
        body: Bytes,
    },
    /// What became of a text of ours.
    TextSent {
        /// Which one.
        text: TextNumber,
        /// The status code.
        status: u16,
    },
    /// Messages wait in the user's mailbox, or none do (RFC 3842).
    MessagesWaiting {
        /// Whose.
        account: AccountId,
        /// Whether there are any.
        waiting: bool,
    },
}
