//! A method in one octet.

use sip::Method;

/// A method, in one octet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum MethodCode {
    Invite,
    Ack,
    Bye,
    Cancel,
    Register,
    Options,
    Prack,
    Update,
    Info,
    Message,
    Refer,
    Subscribe,
    Notify,
    Publish,
    Other,
}

impl MethodCode {
    /// All, in their order.
    pub(crate) const ALL: [MethodCode; 15] = [
        MethodCode::Invite,
        MethodCode::Ack,
        MethodCode::Bye,
        MethodCode::Cancel,
        MethodCode::Register,
        MethodCode::Options,
        MethodCode::Prack,
        MethodCode::Update,
        MethodCode::Info,
        MethodCode::Message,
        MethodCode::Refer,
        MethodCode::Subscribe,
        MethodCode::Notify,
        MethodCode::Publish,
        MethodCode::Other,
    ];

    pub(crate) fn of(method: &Method) -> MethodCode {
        match method {
            Method::Invite => MethodCode::Invite,
            Method::Ack => MethodCode::Ack,
            Method::Bye => MethodCode::Bye,
            Method::Cancel => MethodCode::Cancel,
            Method::Register => MethodCode::Register,
            Method::Options => MethodCode::Options,
            Method::Prack => MethodCode::Prack,
            Method::Update => MethodCode::Update,
            Method::Info => MethodCode::Info,
            Method::Message => MethodCode::Message,
            Method::Refer => MethodCode::Refer,
            Method::Subscribe => MethodCode::Subscribe,
            Method::Notify => MethodCode::Notify,
            Method::Publish => MethodCode::Publish,
            Method::Other(_) => MethodCode::Other,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            MethodCode::Invite => "INVITE",
            MethodCode::Ack => "ACK",
            MethodCode::Bye => "BYE",
            MethodCode::Cancel => "CANCEL",
            MethodCode::Register => "REGISTER",
            MethodCode::Options => "OPTIONS",
            MethodCode::Prack => "PRACK",
            MethodCode::Update => "UPDATE",
            MethodCode::Info => "INFO",
            MethodCode::Message => "MESSAGE",
            MethodCode::Refer => "REFER",
            MethodCode::Subscribe => "SUBSCRIBE",
            MethodCode::Notify => "NOTIFY",
            MethodCode::Publish => "PUBLISH",
            MethodCode::Other => "other",
        }
    }
}
