//! Methods: what a request asks for.

use std::fmt;

/// A method (RFC 3261 section 7.1, and the extensions registered with IANA). Methods are compared
/// with case: `invite` is an unknown method, not an INVITE.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// INVITE (RFC 3261 section 13).
    Invite,
    /// ACK (RFC 3261 sections 13.2.2.4 and 17.1.1.3).
    Ack,
    /// BYE (RFC 3261 section 15).
    Bye,
    /// CANCEL (RFC 3261 section 9).
    Cancel,
    /// REGISTER (RFC 3261 section 10).
    Register,
    /// OPTIONS (RFC 3261 section 11).
    Options,
    /// PRACK (RFC 3262).
    Prack,
    /// UPDATE (RFC 3311).
    Update,
    /// INFO (RFC 6086).
    Info,
    /// MESSAGE (RFC 3428).
    Message,
    /// REFER (RFC 3515).
    Refer,
    /// SUBSCRIBE (RFC 6665).
    Subscribe,
    /// NOTIFY (RFC 6665).
    Notify,
    /// PUBLISH (RFC 3903).
    Publish,
    /// Any other: its name as written.
    Other(Box<str>),
}

impl Method {
    /// The method that a name means. Any text is taken: whether it is a token is for validation to say.
    pub fn from_name(name: &str) -> Method {
        Method::known(name.as_bytes()).unwrap_or_else(|| Method::Other(name.into()))
    }

    /// As [`from_name`](Method::from_name), of octets that may not be text.
    pub(crate) fn from_octets(name: &[u8]) -> Option<Method> {
        Method::known(name).or_else(|| std::str::from_utf8(name).ok().map(Method::from_name))
    }

    pub(crate) fn known(name: &[u8]) -> Option<Method> {
        Some(match name {
            b"INVITE" => Method::Invite,
            b"ACK" => Method::Ack,
            b"BYE" => Method::Bye,
            b"CANCEL" => Method::Cancel,
            b"REGISTER" => Method::Register,
            b"OPTIONS" => Method::Options,
            b"PRACK" => Method::Prack,
            b"UPDATE" => Method::Update,
            b"INFO" => Method::Info,
            b"MESSAGE" => Method::Message,
            b"REFER" => Method::Refer,
            b"SUBSCRIBE" => Method::Subscribe,
            b"NOTIFY" => Method::Notify,
            b"PUBLISH" => Method::Publish,
            _ => return None,
        })
    }

    /// The name as it is written in a request line.
    pub fn as_str(&self) -> &str {
        match self {
            Method::Invite => "INVITE",
            Method::Ack => "ACK",
            Method::Bye => "BYE",
            Method::Cancel => "CANCEL",
            Method::Register => "REGISTER",
            Method::Options => "OPTIONS",
            Method::Prack => "PRACK",
            Method::Update => "UPDATE",
            Method::Info => "INFO",
            Method::Message => "MESSAGE",
            Method::Refer => "REFER",
            Method::Subscribe => "SUBSCRIBE",
            Method::Notify => "NOTIFY",
            Method::Publish => "PUBLISH",
            Method::Other(name) => name,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_methods_agree() {
        for name in [
            "INVITE",
            "ACK",
            "BYE",
            "CANCEL",
            "REGISTER",
            "OPTIONS",
            "PRACK",
            "UPDATE",
            "INFO",
            "MESSAGE",
            "REFER",
            "SUBSCRIBE",
            "NOTIFY",
            "PUBLISH",
        ] {
            let method = Method::from_name(name);
            assert!(!matches!(method, Method::Other(_)), "{name} is known");
            assert_eq!(method.as_str(), name);
        }
    }

    #[test]
    fn methods_are_compared_with_case() {
        assert_eq!(Method::from_name("invite"), Method::Other("invite".into()));
        assert_ne!(Method::from_name("invite"), Method::Invite);
    }
}
