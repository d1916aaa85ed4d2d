//! A request that has come, and where it is for.

use std::time::Instant;

use sip::transaction::ServerId;
use sip::{Flow, Message};

use super::binding::AddressOfRecord;
use super::hook::ForwardTo;
use super::loop_detection::Fingerprint;
use super::target::Target;

/// A request that has begun a server transaction, and has been classified.
#[derive(Debug)]
pub(crate) struct IncomingRequest {
    pub(crate) server: ServerId,
    pub(crate) arrival: Flow,
    pub(crate) received: Instant,
    /// Without the Route values that led it here.
    pub(crate) request: Message,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) class: RequestClass,
    /// Its sender has got a 100.
    pub(crate) is_trying: bool,
    /// What shows its sender that we know the password too, where it has proved that it does.
    pub(crate) confirmation: Option<String>,
    /// The name in the credentials by which its sender has proved who it is.
    pub(crate) user: Option<Box<str>>,
    /// A hook has changed its Request-URI: it is to be classified anew.
    pub(crate) is_retargeted: bool,
    /// Where a hook sends it.
    pub(crate) forward_to: Option<ForwardTo>,
}

/// Where a request is for, and what is known of it by the way that it came.
#[derive(Debug)]
pub(crate) struct RequestClass {
    pub(crate) addressee: Addressee,
    /// It belongs to a dialog that has begun through us: it has a tag in To, and the mark of its side in a Route.
    pub(crate) is_in_dialog: bool,
}

/// Where a request is for.
#[derive(Debug)]
pub(crate) enum Addressee {
    Registrar,
    /// This element itself.
    Element,
    /// A user in a domain of ours.
    User(AddressOfRecord),
    /// Whoever the Route or the Request-URI says.
    Requested(Target),
    /// Whoever a static route says.
    Routed,
}
