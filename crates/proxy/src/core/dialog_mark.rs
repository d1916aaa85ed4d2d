//! The mark in our Record-Route URIs, by which later requests of a dialog show that it began through us.
//!
//! A request that comes with a tag in To and with a Route that names us looks like one within a dialog;
//! anybody can write such a one. The mark is a keyed hash of the Call-ID and of the hour in which it was written: it
//! needs no memory here, it comes back in the Route of each request of the dialog, and nobody else can write it. The
//! hash is SipHash-2-4, which is made for this: short texts, and a key that strangers have not got.
//!
//! A mark that never ended would let everybody who has once called through us send requests anywhere for ever. So
//! the hour stands in it, and it ends when no call can be that old any more. The route set of a dialog never changes
//! (RFC 3261 section 12.2): that end has to be far away.

use std::hash::Hasher;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sip::{Message, Name};
use siphasher::sip::SipHasher24;

use super::keys::Keys;
use crate::text::{Digits, push_hex};

/// Writes and reads marks under one key.
#[derive(Clone)]
pub(crate) struct DialogMarks {
    key: SipHasher24,
    hour: Hour,
}

/// What marks the requests with one Call-ID.
#[derive(Clone, Copy)]
pub(crate) struct DialogMark {
    /// Has taken in the Call-ID.
    hasher: SipHasher24,
    now: Hour,
}

/// Hours since 1970, the lower 16 bits of their number: which one of 7 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hour(u16);

/// The parameter of our Record-Route URIs that has the mark.
pub(crate) const CALL: &str = "call";

/// The longest time for which a mark can be good: where hours are told from those of the years before.
pub(crate) const LONGEST_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// How many hours the clock of another server with our key may be ahead.
const AHEAD: u16 = 1;

/// How many digits the hour has, and the hash.
const HOUR_DIGITS: usize = 4;
const HASH_DIGITS: usize = 16;

/// How many octets a mark has.
pub(crate) const MARK_LENGTH: usize = HOUR_DIGITS + HASH_DIGITS;

impl DialogMarks {
    pub(crate) fn new(keys: &Keys) -> DialogMarks {
        let derived = keys.derive("dialog marks");
        let mut key = [0; 16];
        for (place, octet) in key.iter_mut().zip(derived) {
            *place = octet;
        }
        DialogMarks {
            key: SipHasher24::new_with_key(&key),
            hour: Hour::default(),
        }
    }

    /// Takes notice of the time of day.
    pub(crate) fn set_time(&mut self, time: SystemTime) {
        let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.hour = Hour::of(since_1970);
    }

    /// The mark of the dialogs that a request may begin or belong to.
    pub(crate) fn of(&self, request: &Message) -> DialogMark {
        let mut hasher = self.key;
        hasher.write(request.header_bytes(Name::CallId).unwrap_or_default());
        DialogMark {
            hasher,
            now: self.hour,
        }
    }
}

impl DialogMark {
    /// Whether a parameter has this mark, in upper or lower case, and was written within so long a time.
    pub(crate) fn is(&self, written: &[u8], lifetime: Duration) -> bool {
        let Some((hour, hash)) = written.split_at_checked(HOUR_DIGITS) else {
            return false;
        };
        let Some(hour) = Hour::read(hour) else {
            return false;
        };
        hash.len() == HASH_DIGITS && self.now.is_within(lifetime, hour) && {
            let ours = Digits::hexadecimal(self.hash(hour));
            ours.as_str().as_bytes().eq_ignore_ascii_case(hash)
        }
    }

    /// Appends the value of the parameter, as it is written now.
    pub(crate) fn push_to(&self, text: &mut String) {
        // The upper digits are zeros.
        let digits = Digits::hexadecimal(self.now.0.into());
        let hour = digits.as_str().get(HASH_DIGITS - HOUR_DIGITS..);
        text.push_str(hour.unwrap_or_default());
        push_hex(text, self.hash(self.now));
    }

    fn hash(&self, hour: Hour) -> u64 {
        let mut hasher = self.hasher;
        // Of a length of its own, behind what has any.
        hasher.write(&hour.0.to_be_bytes());
        hasher.finish()
    }
}

impl Hour {
    fn of(since_1970: Duration) -> Hour {
        // Which one of 65,536.
        Hour((since_1970.as_secs() / 3600) as u16)
    }

    /// The hour whose number is written in hexadecimal digits.
    fn read(digits: &[u8]) -> Option<Hour> {
        let digit = |octet: &u8| char::from(*octet).to_digit(16);
        let number = digits
            .iter()
            .try_fold(0, |number: u32, octet| Some(number << 4 | digit(octet)?));
        number.and_then(|number| u16::try_from(number).ok().map(Hour))
    }

    /// Whether another hour was so long ago at most. The hour that has begun counts whole.
    fn is_within(self, lifetime: Duration, other: Hour) -> bool {
        let lifetime = lifetime.min(LONGEST_LIFETIME).as_secs().div_ceil(3600);
        let age = self.0.wrapping_add(AHEAD).wrapping_sub(other.0);
        u64::from(age) <= lifetime + u64::from(AHEAD)
    }
}

impl std::fmt::Debug for DialogMarks {
    /// The key is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DialogMarks")
    }
}

impl std::fmt::Debug for DialogMark {
    /// So is what it is made of.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DialogMark")
    }
}

#[cfg(test)]
mod tests {
    use sip::Method;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

    fn request(call: &str) -> Message {
        Message::request(Method::Bye, "sip:a@192.0.2.1").with(Name::CallId, call)
    }

    fn marks(seed: u8, since_1970: Duration) -> DialogMarks {
        let mut marks = DialogMarks::new(&Keys::from_bytes([seed; 32]));
        marks.set_time(UNIX_EPOCH + since_1970);
        marks
    }

    fn written(mark: DialogMark) -> String {
        let mut text = String::new();
        mark.push_to(&mut text);
        text
    }

    #[test]
    fn a_mark_is_known_again_by_who_has_the_key_and_for_its_call() {
        let now = Duration::from_secs(1_700_000_000);
        let mark = marks(1, now).of(&request("one@192.0.2.9"));
        let text = written(mark);
        assert_eq!(text.len(), 20);
        assert!(mark.is(text.as_bytes(), WEEK));
        assert!(mark.is(text.to_ascii_uppercase().as_bytes(), WEEK));
        let is = |seed, call| {
            marks(seed, now)
                .of(&request(call))
                .is(text.as_bytes(), WEEK)
        };
        assert!(is(1, "one@192.0.2.9"));
        assert!(!is(2, "one@192.0.2.9"));
        assert!(!is(1, "two@192.0.2.9"));
        for other in [
            "",
            "+",
            "ä",
            "aaaä",
            &text[1..],
            &format!("0{text}"),
            &text[4..],
            &format!("+{}", &text[1..]),
        ] {
            assert!(!mark.is(other.as_bytes(), WEEK), "{other}");
        }
        // Whoever makes a mark younger spoils it.
        let younger = format!("{:04x}{}", mark.now.0 + 1, &text[4..]);
        assert!(!mark.is(younger.as_bytes(), WEEK));
    }

    #[test]
    fn a_mark_ends() {
        // The number of the hour begins anew in between.
        for began in [Duration::from_secs(1_700_000_000), 65_530 * HOUR] {
            let text = written(marks(1, began).of(&request("one")));
            let is = |now: Duration, lifetime| {
                marks(1, now)
                    .of(&request("one"))
                    .is(text.as_bytes(), lifetime)
            };
            assert!(is(began + WEEK - HOUR, WEEK));
            assert!(!is(began + WEEK + 2 * HOUR, WEEK));
            assert!(!is(began + 10 * WEEK, WEEK));
            // Nobody has forgotten a call in the hour in which it began.
            assert!(is(began, Duration::ZERO));
            assert!(!is(began + 2 * HOUR, Duration::ZERO));
            // That of a server whose clock is ahead, but not of one that lives in the future.
            assert!(is(began.saturating_sub(HOUR), WEEK));
            assert!(!is(began.saturating_sub(3 * HOUR), WEEK));
            assert!(is(began + LONGEST_LIFETIME - HOUR, Duration::MAX));
            assert!(!is(began + LONGEST_LIFETIME + 2 * HOUR, Duration::MAX));
        }
    }
}
