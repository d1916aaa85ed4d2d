//! Responses that refuse a request, and the rules about which of them may be sent.

use std::borrow::Cow;

use sip::{Message, Name};

/// Why a request is refused, and what the refusal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) status: u16,
    pub(crate) reason: Cow<'static, str>,
    field: Option<(Name<'static>, String)>,
    /// Further fields, by their names.
    fields: Vec<(Box<str>, Box<str>)>,
}

/// Nobody is known by this name here.
pub(crate) const NOT_FOUND: Rejection = Rejection::new(404, "Not Found");

/// For a CANCEL of what is not there (RFC 3261 section 9.2).
pub(crate) const NO_TRANSACTION: Rejection = Rejection::new(481, "Call/Transaction Does Not Exist");

/// The methods that this element answers itself (RFC 3261 section 20.5).
pub(crate) const ALLOWED_METHODS: &str = "ACK, CANCEL, OPTIONS, REGISTER";

impl Rejection {
    pub(crate) const fn new(status: u16, reason: &'static str) -> Rejection {
        Rejection {
            status,
            reason: Cow::Borrowed(reason),
            field: None,
            fields: Vec::new(),
        }
    }

    /// One with these words and these fields.
    pub(crate) fn worded(
        status: u16,
        reason: Cow<'static, str>,
        fields: Vec<(Box<str>, Box<str>)>,
    ) -> Rejection {
        Rejection {
            status,
            reason,
            field: None,
            fields,
        }
    }

    /// 405 with the methods that are taken instead (RFC 3261 section 8.2.1).
    pub(crate) fn method_not_allowed() -> Rejection {
        Rejection::new(405, "Method Not Allowed").with(Name::Allow, ALLOWED_METHODS)
    }

    /// 420 with the extensions that were asked for in vain (RFC 3261 sections 8.2.2.3 and 16.3).
    pub(crate) fn bad_extension(unsupported: String) -> Rejection {
        Rejection::new(420, "Bad Extension").with(Name::Unsupported, unsupported)
    }

    /// 423 with the shortest interval that is taken (RFC 3261 section 10.3 step 7).
    pub(crate) fn interval_too_brief(minimum_seconds: u64) -> Rejection {
        Rejection::new(423, "Interval Too Brief")
            .with(Name::MinExpires, minimum_seconds.to_string())
    }

    /// 503: as much is waiting as may wait. The client may come back after so many seconds (RFC 3261 section 21.5.4).
    pub(crate) fn overloaded(retry_after: String) -> Rejection {
        Rejection::new(503, "Service Unavailable").with(Name::RetryAfter, retry_after)
    }

    /// The response.
    pub(crate) fn response(&self, request: &Message) -> Message {
        let mut response = Message::response_to(request, self.status, &self.reason);
        if let Some((name, value)) = &self.field {
            response.push_back(*name, value);
        }
        for (name, value) in &self.fields {
            response.push_back(Name::parse(name), &**value);
        }
        response
    }

    /// The same with another field in the response, which takes the place of the one there was.
    pub(crate) fn with(mut self, name: Name<'static>, value: impl Into<String>) -> Rejection {
        self.field = Some((name, value.into()));
        self
    }
}
