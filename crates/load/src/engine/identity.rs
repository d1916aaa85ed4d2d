//! Call-IDs, tags and branches that lead to the session of a message without a table.
//!
//! All of them hold the number of the session and the engine's own random number, so that they are unique and
//! not to be guessed (RFC 3261 sections 8.1.1.4, 8.1.1.7 and 19.3), and nobody has to look them up.

use std::fmt;

use sip::MAGIC_COOKIE;

use crate::record::CallId;

/// No user, no session.
pub(super) const NOBODY: u32 = u32::MAX;

/// The place of a session, and how many sessions had this place before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SessionId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl SessionId {
    /// Both in one number.
    pub(super) fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    fn from_number(number: u64) -> SessionId {
        SessionId {
            index: number as u32,
            generation: (number >> 32) as u32,
        }
    }
}

/// The owner of a Call-ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A session's.
    Session(SessionId),
    /// A user's series of registrations.
    User(u32),
}

/// An engine's own number, and how it looks in messages.
#[derive(Debug)]
pub(super) struct Identity {
    engine: u64,
    /// A dot and the digits.
    suffix: [u8; 17],
}

impl Identity {
    pub(super) fn new(engine: u64) -> Identity {
        let mut suffix = [b'.'; 17];
        for (at, place) in suffix.iter_mut().skip(1).enumerate() {
            *place = digit(engine >> (60 - 4 * at));
        }
        Identity { engine, suffix }
    }

    /// The Call-ID of a session.
    pub(super) fn write_call_id(&self, session: SessionId, out: &mut Vec<u8>) {
        out.push(b'c');
        write_hexadecimal(session.number(), out);
        out.extend_from_slice(&self.suffix);
    }

    /// The Call-ID of a user's registrations.
    pub(super) fn write_registration_call_id(&self, user: u32, out: &mut Vec<u8>) {
        out.push(b'r');
        write_hexadecimal(user.into(), out);
        out.extend_from_slice(&self.suffix);
    }

    /// The tag of a session.
    pub(super) fn write_tag(&self, session: SessionId, out: &mut Vec<u8>) {
        out.push(b't');
        write_hexadecimal(session.number(), out);
        out.extend_from_slice(&self.suffix);
    }

    /// The branch of a session's transaction.
    pub(super) fn write_branch(&self, session: SessionId, transaction: u16, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC_COOKIE.as_bytes());
        write_hexadecimal(transaction.into(), out);
        out.push(b'.');
        write_hexadecimal(session.number(), out);
        out.extend_from_slice(&self.suffix);
    }

    /// The session of a branch and the number of the transaction, if this engine has written it.
    pub(super) fn transaction(&self, branch: &[u8]) -> Option<(SessionId, u16)> {
        let numbers = branch
            .strip_prefix(MAGIC_COOKIE.as_bytes())?
            .strip_suffix(&self.suffix)?;
        let dot = memchr::memchr(b'.', numbers)?;
        let (transaction, session) = (numbers.get(..dot)?, numbers.get(dot + 1..)?);
        let transaction = u16::try_from(parse_hexadecimal(transaction)?).ok()?;
        Some((
            SessionId::from_number(parse_hexadecimal(session)?),
            transaction,
        ))
    }

    /// The owner of a Call-ID, if this engine has written it.
    pub(super) fn owner(&self, call_id: &[u8]) -> Option<Owner> {
        let (&letter, rest) = call_id.split_first()?;
        let number = self.number(rest)?;
        match letter {
            b'c' => Some(Owner::Session(SessionId::from_number(number))),
            b'r' => u32::try_from(number).ok().map(Owner::User),
            _ => None,
        }
    }

    /// The session of a tag, if this engine has written it.
    pub(super) fn tagged(&self, tag: &[u8]) -> Option<SessionId> {
        let (&letter, rest) = tag.split_first()?;
        let number = self.number(rest)?;
        (letter == b't').then(|| SessionId::from_number(number))
    }

    fn number(&self, text: &[u8]) -> Option<u64> {
        parse_hexadecimal(text.strip_suffix(&self.suffix)?)
    }

    /// The Call-ID of a session, for its record.
    pub(super) fn call_id(&self, session: SessionId) -> CallId {
        CallId::Ours {
            engine: self.engine,
            number: session.number(),
            is_registration: false,
        }
    }

    /// The Call-ID of a user's registrations, for their records.
    pub(super) fn registration_call_id(&self, user: u32) -> CallId {
        CallId::Ours {
            engine: self.engine,
            number: user.into(),
            is_registration: true,
        }
    }
}

impl CallId {
    /// Reads a Call-ID. The numbers are taken out of one that an engine has written, this one or another;
    /// what is not UTF-8 is replaced.
    pub fn read(call_id: &[u8]) -> CallId {
        let ours = || {
            let (&letter, rest) = call_id.split_first()?;
            let dot = rest.iter().position(|&octet| octet == b'.')?;
            let (number, engine) = (rest.get(..dot)?, rest.get(dot + 1..)?);
            let is_registration = match letter {
                b'c' => false,
                b'r' => true,
                _ => return None,
            };
            let is_full = engine.len() == 16;
            Some(CallId::Ours {
                engine: hexadecimal(engine).filter(|_| is_full)?,
                number: parse_hexadecimal(number)?,
                is_registration,
            })
        };
        ours().unwrap_or_else(|| CallId::Other(String::from_utf8_lossy(call_id).into()))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallId::Ours {
                engine,
                number,
                is_registration,
            } => {
                let letter = if *is_registration { 'r' } else { 'c' };
                write!(f, "{letter}{number:x}.{engine:016x}")
            }
            CallId::Other(text) => f.write_str(text),
        }
    }
}

fn digit(value: u64) -> u8 {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    DIGITS[(value & 0xf) as usize]
}

/// Writes a number in as few hexadecimal digits as it has.
fn write_hexadecimal(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 16];
    let mut rest = number;
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = digit(rest);
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Reads a number as it is written: without leading zeros, in lower case.
fn parse_hexadecimal(text: &[u8]) -> Option<u64> {
    let is_canonical = text.len() == 1 || text.first() != Some(&b'0');
    hexadecimal(text).filter(|_| is_canonical)
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    text.iter().try_fold(0, |number, &octet| {
        let value = match octet {
            b'0'..=b'9' => octet - b'0',
            b'a'..=b'f' => octet - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(value))
    })
}

/// Writes a number in decimal digits.
pub(super) fn write_decimal(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut rest = number;
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: SessionId = SessionId {
        index: 0x1f,
        generation: 7,
    };

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn what_is_written_is_found_again() {
        let identity = Identity::new(0x0123_4567_89ab_cdef);
        let call_id = written(|out| identity.write_call_id(RUN, out));
        assert_eq!(call_id, b"c70000001f.0123456789abcdef");
        assert_eq!(identity.owner(&call_id), Some(Owner::Session(RUN)));
        assert_eq!(CallId::read(&call_id), identity.call_id(RUN));
        assert_eq!(CallId::read(&call_id).to_string().as_bytes(), call_id);
        let call_id = written(|out| identity.write_registration_call_id(0, out));
        assert_eq!(identity.owner(&call_id), Some(Owner::User(0)));
        assert_eq!(CallId::read(&call_id), identity.registration_call_id(0));
        let tag = written(|out| identity.write_tag(RUN, out));
        assert_eq!(identity.tagged(&tag), Some(RUN));
        let branch = written(|out| identity.write_branch(RUN, 3, out));
        assert_eq!(branch, b"z9hG4bK3.70000001f.0123456789abcdef");
        assert_eq!(identity.transaction(&branch), Some((RUN, 3)));
        assert_eq!(identity.transaction(&branch[1..]), None);
        assert_eq!(identity.transaction(b"z9hG4bK.0123456789abcdef"), None);
    }

    #[test]
    fn what_others_have_written_is_not_ours() {
        let identity = Identity::new(1);
        let others = Identity::new(2);
        let call_id = written(|out| others.write_call_id(RUN, out));
        assert_eq!(identity.owner(&call_id), None);
        assert_eq!(CallId::read(&call_id), others.call_id(RUN));
        for text in [
            "",
            "c",
            "c.0000000000000001",
            "c01.0000000000000001",
            "cg.0000000000000001",
            "x1.0000000000000001",
            "c11111111111111111.0000000000000001",
        ] {
            assert_eq!(identity.owner(text.as_bytes()), None, "{text}");
            assert_eq!(CallId::read(text.as_bytes()), CallId::Other(text.into()));
        }
        assert_eq!(CallId::read(b"\xff").to_string(), "\u{fffd}");
    }

    #[test]
    fn numbers_have_no_zeros_in_front() {
        assert_eq!(written(|out| write_decimal(0, out)), b"0");
        assert_eq!(
            written(|out| write_decimal(u64::MAX, out)),
            b"18446744073709551615"
        );
        assert_eq!(written(|out| write_hexadecimal(0, out)), b"0");
        assert_eq!(
            written(|out| write_hexadecimal(u64::MAX, out)),
            b"ffffffffffffffff"
        );
    }
}
