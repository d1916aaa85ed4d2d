//! What the store knows of one address of record, as one run of octets: a hundred thousand users are
//! kept in little more than what their phones have sent.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use bytes::Buf;

use crate::core::{Binding, BindingParts, Bindings, Standing, Update, UpdateError, flow_octets};
use crate::octets::{push_number, take_number};

/// An address of record, the number of its last entry in the database, and its bindings.
///
/// Numbers are written seven bits an octet, texts after their length; instants are milliseconds since
/// the table's epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record(Box<[u8]>);

impl Record {
    /// Makes a record of what [`write`] has written.
    pub(super) fn new(written: &[u8]) -> Record {
        Record(written.into())
    }

    /// The address of record.
    pub(super) fn address(&self) -> &str {
        text(&mut &*self.0).unwrap_or_default()
    }

    /// Whether it is that of this address of record.
    pub(super) fn is_of(&self, address: &str) -> bool {
        octets_of_text(&mut &*self.0) == Some(address.as_bytes())
    }

    /// The number given to [`write`].
    pub(super) fn number(&self) -> u64 {
        self.header().map_or(0, |(header, _)| header.number)
    }

    /// How many bindings there are.
    pub(super) fn count(&self) -> usize {
        self.header().map_or(0, |(header, _)| header.count)
    }

    /// Whether a binding has expired.
    pub(super) fn has_expired(&self, now: Instant, epoch: Instant) -> bool {
        let first = self.header().and_then(|(header, _)| header.first_expiry);
        first.is_some_and(|first| instant(epoch, first) <= now)
    }

    /// The bindings.
    pub(super) fn bindings(&self, epoch: Instant) -> Vec<Binding> {
        let Some((header, mut rest)) = self.header() else {
            return Vec::new();
        };
        // What was written here can be read: it never came from outside.
        (0..header.count)
            .map_while(|_| read_binding(&mut rest, |expiry| instant(epoch, expiry)))
            .collect()
    }

    /// The bindings, to be handed on.
    pub(super) fn shared_bindings(&self, epoch: Instant) -> Bindings {
        let only = self.header().filter(|(header, _)| header.count == 1);
        let only =
            only.and_then(|(_, mut rest)| read_binding(&mut rest, |expiry| instant(epoch, expiry)));
        match only {
            // Most have one: it needs no list before.
            Some(binding) => Bindings::from([binding]),
            None => self.bindings(epoch).into(),
        }
    }

    /// What the bindings become by an update, as [`Update::apply`] says.
    pub(super) fn updated(&self, update: &Update, epoch: Instant) -> Result<Bindings, UpdateError> {
        match self.refreshed(update, epoch) {
            Some(bindings) => Ok(bindings),
            None => update.apply_to(self.bindings(epoch)).map(Bindings::from),
        }
    }

    /// The only binding, refreshed, where that is all that an update does: most do.
    fn refreshed(&self, update: &Update, epoch: Instant) -> Option<Bindings> {
        let (header, mut rest) = self.header()?;
        if header.count != 1 {
            return None;
        }
        // In the order of `Binding::write`.
        let [contact, _, call_id, ..] = read_texts(&mut rest)?;
        let _q = take_number(&mut rest)?;
        let expires = instant(epoch, take_number(&mut rest)?);
        let _lifetime = take_number(&mut rest)?;
        let cseq = u32::try_from(take_number(&mut rest)?).ok()?;
        let has_reg_id = take_number(&mut rest)? != 0;
        update.refresh(&Standing {
            contact,
            call_id,
            cseq,
            has_reg_id,
            expires,
        })
    }

    /// The length in octets.
    pub(super) fn octets(&self) -> usize {
        self.0.len()
    }

    /// Becomes the record that [`write`] has written, without asking for memory where both have one length.
    pub(super) fn become_written(&mut self, written: &[u8]) {
        if self.0.len() == written.len() {
            self.0.copy_from_slice(written);
        } else {
            *self = Record::new(written);
        }
    }

    /// The octets, as [`write`] has written them.
    pub(super) fn as_written(&self) -> &[u8] {
        &self.0
    }

    fn header(&self) -> Option<(Header, &[u8])> {
        let mut rest = &*self.0;
        octets_of_text(&mut rest)?;
        let mut number = [0; 8];
        number[..NUMBER_LENGTH].copy_from_slice(rest.split_off(..NUMBER_LENGTH)?);
        let count = usize::try_from(take_number(&mut rest)?).ok()?;
        let first_expiry = if count > 0 {
            Some(take_number(&mut rest)?)
        } else {
            None
        };
        let header = Header {
            number: u64::from_le_bytes(number),
            count,
            first_expiry,
        };
        Some((header, rest))
    }
}

/// The number of an entry changes with every refresh; the length of a record does not.
const NUMBER_LENGTH: usize = 6;

/// Writes a record in place of what is in `octets`. A binding never ends earlier than it says, and less
/// than a millisecond later.
pub(super) fn write(
    octets: &mut Vec<u8>,
    address: &str,
    number: u64,
    bindings: &[Binding],
    epoch: Instant,
) {
    octets.clear();
    put_text(octets, address);
    octets.extend_from_slice(&number.to_le_bytes()[..NUMBER_LENGTH]);
    push_number(octets, bindings.len() as u64);
    if let Some(first) = bindings.iter().map(Binding::expires).min() {
        push_number(octets, milliseconds_since(epoch, first));
    }
    for binding in bindings {
        binding.write(octets, milliseconds_since(epoch, binding.expires()));
    }
}

struct Header {
    number: u64,
    count: usize,
    /// Of all bindings the first to expire.
    first_expiry: Option<u64>,
}

/// Appends a text.
pub(super) fn put_text(octets: &mut Vec<u8>, text: &str) {
    push_number(octets, text.len() as u64);
    octets.extend_from_slice(text.as_bytes());
}

/// Rounded up. What was before the epoch is at the epoch.
fn milliseconds_since(epoch: Instant, instant: Instant) -> u64 {
    let nanoseconds = instant.saturating_duration_since(epoch).as_nanos();
    u64::try_from(nanoseconds.div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn instant(epoch: Instant, milliseconds: u64) -> Instant {
    epoch
        .checked_add(Duration::from_millis(milliseconds))
        .unwrap_or(epoch)
}

/// Reads what [`put_text`] has written.
pub(super) fn text<'a>(octets: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(octets_of_text(octets)?).ok()
}

fn octets_of_text<'a>(octets: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(octets)?).ok()?;
    octets.split_off(..length)
}

/// Reads what [`Binding::write`] has written. `instant`: when it ends, by the number that says it.
pub(super) fn read_binding(
    octets: &mut &[u8],
    instant: impl FnOnce(u64) -> Instant,
) -> Option<Binding> {
    let texts = read_texts(octets)?;
    let mut all = [""; TEXTS];
    for (text, octets) in all.iter_mut().zip(texts) {
        *text = std::str::from_utf8(octets).ok()?;
    }
    let [contact, parameters, call_id, path, user_agent] = all;
    let parts = BindingParts {
        contact,
        parameters,
        call_id,
        path,
        user_agent,
        q: u16::try_from(take_number(octets)?).ok()?,
        expires: instant(take_number(octets)?),
        lifetime: Duration::from_secs(take_number(octets)?),
        cseq: u32::try_from(take_number(octets)?).ok()?,
        reg_id: NonZeroU32::new(u32::try_from(take_number(octets)?).ok()?),
        gruus: take_number(octets)?,
        flow: {
            let length = octets.try_get_u8().ok()?;
            flow_octets::read(octets.split_off(..usize::from(length))?)
        },
    };
    Some(Binding::new(&parts))
}

/// How many texts a binding has.
const TEXTS: usize = 5;

/// The texts of a binding as octets.
fn read_texts<'a>(octets: &mut &'a [u8]) -> Option<[&'a [u8]; TEXTS]> {
    let mut texts = [&b""[..]; TEXTS];
    for text in &mut texts {
        *text = octets_of_text(octets)?;
    }
    Some(texts)
}

#[cfg(test)]
mod tests {
    use sip::{ConnectionId, Flow, Transport};

    use super::*;

    fn binding(contact: &str, expires: Instant, flow: Option<Flow>) -> Binding {
        Binding::new(&BindingParts {
            contact,
            parameters: ";a=\"\u{fc}\"",
            q: 1000,
            expires,
            lifetime: Duration::from_secs(u32::MAX.into()),
            call_id: "x@y",
            cseq: u32::MAX,
            reg_id: NonZeroU32::new(7),
            gruus: u64::MAX,
            flow,
            path: "<sip:p.example.com;lr>",
            user_agent: "",
        })
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let epoch = Instant::now();
        let after = |milliseconds| epoch + Duration::from_millis(milliseconds);
        let flow = Flow {
            transport: Transport::Wss,
            local: "[2001:db8::1]:5060".parse().expect("an address"),
            remote: "192.0.2.1:65535".parse().expect("an address"),
            connection: ConnectionId(u64::MAX),
            stream: u16::MAX,
        };
        let bindings = [
            binding("sip:a@192.0.2.1", after(7_200_000), Some(flow)),
            binding("", after(5), None),
        ];
        let mut octets = Vec::new();
        let mut record = |number, bindings: &[Binding]| {
            write(&mut octets, "bob@example.com", number, bindings, epoch);
            Record::new(&octets)
        };
        let other = record(300, &[]);
        let only = record(300, &bindings[..1]);
        let record = record(300, &bindings);
        assert_eq!(record.address(), "bob@example.com");
        assert!(record.is_of("bob@example.com") && !record.is_of("bob@example.co"));
        assert_eq!((record.number(), record.count()), (300, 2));
        assert_eq!(record.bindings(epoch), bindings);
        assert_eq!(*record.shared_bindings(epoch), bindings);
        assert_eq!(*only.shared_bindings(epoch), bindings[..1]);
        assert!(!record.has_expired(after(4), epoch) && record.has_expired(after(5), epoch));

        let mut other = other;
        assert_eq!((other.count(), other.bindings(epoch)), (0, vec![]));
        assert!(!other.has_expired(after(u64::from(u32::MAX)), epoch));
        for _ in 0..2 {
            other.become_written(record.as_written());
            assert_eq!(other, record);
        }
    }

    #[test]
    fn a_binding_ends_when_it_says_or_less_than_a_millisecond_later() {
        let epoch = Instant::now();
        let expires = epoch + Duration::from_nanos(1_000_001);
        let mut octets = Vec::new();
        write(&mut octets, "a", 0, &[binding("a", expires, None)], epoch);
        let read = Record::new(&octets).bindings(epoch).remove(0).expires();
        assert_eq!(read, epoch + Duration::from_millis(2));
    }
}
