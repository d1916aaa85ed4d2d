//! The mark in our Record-Route URIs, by which later requests of a dialog show that it began through us.
//!
//! A request that comes with a tag in To and with a Route that names us looks like one within a dialog;
//! anybody can write such a one. The mark is a keyed hash of the Call-ID: it needs no memory here, it
//! comes back in the Route of each request of the dialog, and nobody else can write it. The hash is
//! SipHash-2-4, which is made for this: short texts, and a key that strangers have not got.

use std::hash::Hasher;

use sip::Message;
use siphasher::sip::SipHasher24;

use super::keys::Keys;
use crate::text::push_hex;

/// Writes and reads marks under one key.
#[derive(Clone)]
pub(crate) struct DialogMarks {
    key: SipHasher24,
}

/// A mark: the same in all requests with one Call-ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialogMark(u64);

/// The parameter of our Record-Route URIs that has the mark.
pub(crate) const CALL: &str = "call";

impl DialogMarks {
    pub(crate) fn new(keys: &Keys) -> DialogMarks {
        let derived = keys.derive("dialog marks");
        let mut key = [0; 16];
        for (place, octet) in key.iter_mut().zip(derived) {
            *place = octet;
        }
        DialogMarks {
            key: SipHasher24::new_with_key(&key),
        }
    }

    /// The mark of the dialogs that a request may begin or belong to.
    pub(crate) fn of(&self, request: &Message) -> DialogMark {
        let mut hasher = self.key;
        hasher.write(request.call_id().unwrap_or_default().as_bytes());
        DialogMark(hasher.finish())
    }
}

impl DialogMark {
    /// Whether a parameter has this mark, in upper or lower case.
    pub(crate) fn is(self, written: &str) -> bool {
        written.len() == 16 && u64::from_str_radix(written, 16) == Ok(self.0)
    }

    /// Appends the value of the parameter.
    pub(crate) fn push_to(self, text: &mut String) {
        push_hex(text, self.0);
    }
}

impl std::fmt::Debug for DialogMarks {
    /// The key is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DialogMarks")
    }
}

#[cfg(test)]
mod tests {
    use sip::{Method, Name};

    use super::*;

    fn request(call: &str) -> Message {
        Message::request(Method::Bye, "sip:a@192.0.2.1").with(Name::CallId, call)
    }

    #[test]
    fn a_mark_is_known_again_by_who_has_the_key_and_for_its_call() {
        let marks = |seed: u8| DialogMarks::new(&Keys::from_bytes([seed; 32]));
        let mark = marks(1).of(&request("one@192.0.2.9"));
        let mut written = String::new();
        mark.push_to(&mut written);
        assert!(mark.is(&written) && mark.is(&written.to_ascii_uppercase()));
        assert!(marks(1).of(&request("one@192.0.2.9")).is(&written));
        assert!(!marks(2).of(&request("one@192.0.2.9")).is(&written));
        assert!(!marks(1).of(&request("two@192.0.2.9")).is(&written));
        for other in ["", "+", &written[1..], &format!("0{written}")] {
            assert!(!mark.is(other), "{other}");
        }
    }
}
