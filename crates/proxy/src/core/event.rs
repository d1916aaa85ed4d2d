//! What the core tells for the log: one event for a registration, a few for a call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sip::{Flow, Message, Transport};

use super::binding::AddressOfRecord;
use super::routing::MemberState;

/// Something that an operator wants to read about.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A binding was made or refreshed.
    Registered {
        /// Whose.
        address: AddressOfRecord,
        /// The contact URI.
        contact: String,
        /// The flow that the REGISTER came over.
        flow: Flow,
        /// The interval that the registrar granted.
        expires: Duration,
    },
    /// A binding was removed by its user agent.
    Unregistered {
        /// Whose.
        address: AddressOfRecord,
        /// The contact URI, or `*` for all.
        contact: String,
        /// The flow that the REGISTER came over.
        flow: Flow,
    },
    /// Somebody has given a wrong password, or a name that nobody has.
    AuthenticationFailed {
        /// Where the name should belong to.
        realm: String,
        /// The name that was given.
        username: String,
        /// The flow that the request came over.
        flow: Flow,
    },
    /// An INVITE outside of a dialog was taken on.
    CallStarted(Arc<Call>),
    /// A callee has answered it with a 2xx.
    CallAnswered(Answered),
    /// It was refused, cancelled or not answered.
    CallFailed {
        /// Which call.
        call: Arc<Call>,
        /// The status of the final response.
        status: u16,
        /// Its reason phrase.
        reason: String,
        /// Who has ended it.
        by: EndedBy,
    },
    /// A next hop did not serve a request. Those that serve are not reported.
    NextHop {
        /// Over which transport it was tried.
        transport: Transport,
        /// Its address.
        remote: SocketAddr,
        /// How it failed.
        outcome: HopOutcome,
    },
    /// A member of a group has gone up or down.
    Member {
        /// The group.
        group: Arc<str>,
        /// The member.
        uri: Arc<str>,
        /// Its new state.
        state: MemberState,
    },
    /// A script has something for the record of a call, whose INVITE may not have been taken on yet.
    CallTagged {
        /// The Call-ID.
        call_id: Box<str>,
        /// The tag in From of the INVITE.
        from_tag: Box<str>,
        /// What it is.
        name: Box<str>,
        /// Its value.
        value: Box<str>,
    },
    /// A script has something to say.
    PluginLog {
        /// The name of the plugin.
        plugin: Arc<str>,
        /// How much it matters.
        level: LogLevel,
        /// What it says.
        text: Box<str>,
    },
    /// A script has failed.
    PluginFailed {
        /// The name of the plugin.
        plugin: Arc<str>,
        /// The function that has failed.
        hook: &'static str,
        /// File, line and reason.
        error: Box<str>,
    },
    /// A BYE was answered with a 2xx, or with a 481: there the dialog had ended already.
    CallEnded {
        /// The Call-ID.
        call_id: String,
        /// The tag in From: who has ended it.
        from_tag: String,
        /// The tag in To.
        to_tag: String,
    },
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// To whoever looks for a mistake.
    Debug,
    /// To whoever wants to know what happens.
    Info,
    /// To whoever sees to it that all goes well.
    Warn,
    /// Something is wrong.
    Error,
}

/// A call that a callee has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Which call.
    pub call: Arc<Call>,
    /// The status of the response.
    pub status: u16,
    /// The tag in its To: with the caller's it names the dialog that this answer has made.
    pub to_tag: String,
    /// The next hop that it came from.
    pub hop: Option<(Transport, SocketAddr)>,
}

/// Who has ended a call, or what was to become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// Who has called.
    Caller,
    /// Who was called: the answer came from there.
    Callee,
    /// We: the answer is ours, or was brought by a CANCEL of ours.
    Proxy,
}

/// What became of a request at a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopOutcome {
    /// It has answered.
    Answered,
    /// It has not answered in time.
    Silent,
    /// It has answered 503 (RFC 3261 section 21.5.4).
    Unavailable {
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The transport has failed (RFC 3261 section 18.4).
    Unreachable,
}

/// The names of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The Call-ID.
    pub call_id: String,
    /// The URI in From.
    pub caller: String,
    /// The URI that was called.
    pub callee: String,
    /// The tag in From, which tells the caller from the callee within the dialog.
    pub from_tag: String,
    /// The way that the INVITE came.
    pub arrival: Flow,
}

impl Call {
    /// The call that an INVITE begins; `None` where it is part of one that has begun.
    pub(crate) fn of(request: &Message, arrival: Flow) -> Option<Call> {
        if request.to()?.tag().is_some() {
            return None;
        }
        let from = request.from()?;
        Some(Call {
            call_id: request.call_id().unwrap_or_default().to_owned(),
            caller: from.uri().to_owned(),
            from_tag: from.tag().unwrap_or_default().to_owned(),
            arrival,
            callee: request.request_uri().unwrap_or_default().to_owned(),
        })
    }
}
