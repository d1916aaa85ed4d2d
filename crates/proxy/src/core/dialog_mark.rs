//! The mark in our Record-Route URIs, by which later requests of a dialog show that it began through us.
//!
//! A request that comes with a tag in To and with a Route that names us looks like one within a dialog; anybody can write
//! such a one. The mark is what nobody else can write. It needs no memory here: it comes back in the Route of each request
//! of the dialog.
//!
//! # What it binds
//!
//! The two sides of a dialog have different marks. The UAS takes its route set from the request (RFC 3261 section
//! 12.1.1), and so its mark is written there. The UAC takes its own from the response (section 12.1.2), in which the
//! mark of the UAS gives way to one for the UAC (section 16.7 step 8). Each is good for requests of its side alone:
//!
//! | | UAS | UAC |
//! |---|---|---|
//! | Call-ID, and the tag of the other side | yes | yes |
//! | its own tag | no: it chooses it later | yes |
//! | the user of ours whom its From names, if any | yes: by To of the request | yes |
//! | where its requests go: the remote target, and what leads there beyond us (the next Route, or the flow that our Route names) | yes: Contact of the request | yes: Contact of the response |
//! | when it was written | yes | yes |
//! | whether the dialog is early | no: its route set stays | yes: ends with the call |
//!
//! Of a remote target user, host, port and `maddr` count. It is the only part of all that which changes during a dialog
//! (section 12.2): `refreshed_targets` remembers the new one.
//!
//! # How
//!
//! A mark is 32 hexadecimal digits: 4 bits that say whose it is, 20 bits for the minute, 40 bits of a keyed hash of the
//! remote target, and 64 bits of a keyed hash of all else and of these. The remote target stands by itself, so that it
//! can be compared with one that has taken its place, and since a response does not tell that of the UAS. The hash is
//! SipHash-2-4, which is made for this: short texts, and a key that strangers have not got.
//!
//! A mark that never ended would let everybody who has once called through us send requests for ever. The route set of a
//! dialog never changes: that end has to be far away.

use std::hash::Hasher;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sip::{Host, Uri};
use siphasher::sip::SipHasher24;

use super::binding::AddressOfRecord;
use super::keys::Keys;
use super::read_uri::{CALL, ReadUri};
use crate::text::Digits;

/// Writes and reads marks under one key.
#[derive(Clone)]
pub(crate) struct DialogMarks {
    key: SipHasher24,
    now: Minute,
}

/// One side of a dialog, as its requests say who sends them to whom.
#[derive(Clone, Copy)]
pub(crate) struct Party<'a> {
    /// Has taken in what the marks of both sides bind.
    hasher: SipHasher24,
    /// Its own tag.
    tag: &'a [u8],
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) stage: Stage,
    minute: Minute,
    pub(crate) target: RemoteTarget,
    hash: u64,
}

/// Whose a mark is, and since when it is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is for the UAS of a request that may begin a dialog.
    Uas,
    /// It is for the UAS of a request within a dialog of ours.
    UasWithin,
    /// It is for the UAC, who has had a 2xx.
    Uac,
    /// It is for the UAC of an early dialog, and good while we know of the INVITE.
    UacEarly,
    /// It is for the UAC of an early dialog whose INVITE we do not remember, and good for a short time.
    UacEarlyUnknown,
}

/// Where requests of a side are for, as a keyed hash of 40 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemoteTarget(u64);

/// What leads a request on from us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// Its Request-URI.
    #[default]
    RequestUri,
    /// The flow whose token our last Route has; a hash of that.
    Along(u64),
    /// The next Route, which is not ours.
    Route(RemoteTarget),
}

/// Minutes since 1970, the lower 20 bits of their number: which one of nearly two years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Minute(u32);

/// A mark as it is written, or what takes the place of one that nobody is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkText([u8; MARK_LENGTH]);

/// How many octets a mark has.
pub(crate) const MARK_LENGTH: usize = 32;

/// The longest time for which a mark can be good: where minutes are told from those of the years before.
pub(crate) const LONGEST_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long one is good for an early dialog that nobody remembers: as long as most people let it ring, and longer than an
/// INVITE without a provisional response is waited for.
pub(crate) const EARLY_LIFETIME: Duration = Duration::from_secs(600);

/// How many minutes the clock of another server with our key may be ahead.
const AHEAD: u32 = 60;

const MINUTE_BITS: u32 = 20;
const TARGET_BITS: u32 = 40;

/// What is hashed for: no hash for one purpose is one for another.
#[derive(Clone, Copy)]
enum Purpose {
    Mark,
    RemoteTarget,
    Token,
    Name,
    WayBack,
}

impl DialogMarks {
    pub(crate) fn new(keys: &Keys) -> DialogMarks {
        let derived = keys.derive("dialog marks");
        let mut key = [0; 16];
        for (place, octet) in key.iter_mut().zip(derived) {
            *place = octet;
        }
        DialogMarks {
            key: SipHasher24::new_with_key(&key),
            now: Minute::default(),
        }
    }

    /// Takes notice of the time of day.
    pub(crate) fn set_time(&mut self, time: SystemTime) {
        let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.now = Minute::of(since_1970);
    }

    /// A side of a dialog: with this tag, the tag of the other side, and the user of ours as whom it speaks.
    pub(crate) fn party<'a>(
        &self,
        call_id: &[u8],
        tag: &'a [u8],
        peer: &[u8],
        user: Option<&AddressOfRecord>,
    ) -> Party<'a> {
        let mut hasher = self.hasher(Purpose::Mark);
        add(&mut hasher, call_id);
        add(&mut hasher, peer);
        // No user has an empty name.
        add(
            &mut hasher,
            user.map_or("", AddressOfRecord::as_str).as_bytes(),
        );
        Party { hasher, tag }
    }

    /// A mark, as it is written now.
    pub(crate) fn mark(
        &self,
        party: &Party<'_>,
        stage: Stage,
        target: RemoteTarget,
        next_hop: NextHop,
    ) -> Mark {
        let mut mark = Mark {
            stage,
            minute: self.now,
            target,
            hash: 0,
        };
        mark.hash = party.hash(&mark, next_hop);
        mark
    }

    /// Whether a mark was written within so long a time.
    pub(crate) fn is_within(&self, mark: &Mark, lifetime: Duration) -> bool {
        self.now.is_within(lifetime, mark.minute)
    }

    /// Where a URI leads that is a remote target or a Route.
    pub(crate) fn remote_target(&self, uri: &str) -> RemoteTarget {
        let mut hasher = self.hasher(Purpose::RemoteTarget);
        match Uri::parse(uri) {
            Ok(Uri::Sip(uri)) => {
                let uri = ReadUri::from(uri);
                let user = uri.user().unwrap_or_default();
                match user.contains('%') {
                    true => add(&mut hasher, &uri.user_unescaped().unwrap_or_default()),
                    false => add(&mut hasher, user.as_bytes()),
                }
                match uri.host() {
                    Host::Name(name) => add_name(&mut hasher, name),
                    Host::Address(address) => match address {
                        std::net::IpAddr::V4(address) => add(&mut hasher, &address.octets()),
                        std::net::IpAddr::V6(address) => add(&mut hasher, &address.octets()),
                    },
                }
                let default = if uri.is_secure() { 5061 } else { 5060 };
                hasher.write_u16(uri.port().unwrap_or(default));
                add_name(&mut hasher, uri.maddr.unwrap_or_default());
            }
            _ => add(&mut hasher, uri.as_bytes()),
        }
        RemoteTarget(hasher.finish() >> (u64::BITS - TARGET_BITS))
    }

    /// What leads on from a URI of ours that is the last: its flow, where it names one.
    pub(crate) fn along(&self, uri: &[u8]) -> NextHop {
        match user(uri) {
            b"" => NextHop::RequestUri,
            token => self.along_flow(token),
        }
    }

    /// The flow with this token.
    pub(crate) fn along_flow(&self, token: &[u8]) -> NextHop {
        let mut hasher = self.hasher(Purpose::Token);
        add(&mut hasher, token);
        NextHop::Along(hasher.finish())
    }

    /// A name for a call, or for a side of a dialog, in tables.
    pub(crate) fn name(&self, parts: &[&[u8]]) -> u64 {
        self.hash(Purpose::Name, parts)
    }

    /// What shows that a way back was given out for a request with these parts.
    pub(crate) fn way_back(&self, parts: &[&[u8]]) -> u64 {
        self.hash(Purpose::WayBack, parts)
    }

    fn hash(&self, purpose: Purpose, parts: &[&[u8]]) -> u64 {
        let mut hasher = self.hasher(purpose);
        for part in parts {
            add(&mut hasher, part);
        }
        hasher.finish()
    }

    fn hasher(&self, purpose: Purpose) -> SipHasher24 {
        let mut hasher = self.key;
        hasher.write_u8(purpose as u8);
        hasher
    }
}

impl Party<'_> {
    /// Whether a mark was written for this side, and for requests that we send on in this way.
    pub(crate) fn has(&self, mark: &Mark, next_hop: NextHop) -> bool {
        self.hash(mark, next_hop) == mark.hash
    }

    fn hash(&self, mark: &Mark, next_hop: NextHop) -> u64 {
        let mut hasher = self.hasher;
        hasher.write_u64(mark.head());
        let (kind, value) = match next_hop {
            NextHop::RequestUri => (0, 0),
            NextHop::Along(token) => (1, token),
            NextHop::Route(RemoteTarget(target)) => (2, target),
        };
        hasher.write_u8(kind);
        hasher.write_u64(value);
        if !mark.stage.is_of_uas() {
            add(&mut hasher, self.tag);
        }
        hasher.finish()
    }
}

impl Mark {
    /// A mark that is written as we do, whoever has written it. The digits may have become upper case.
    pub(crate) fn read(written: &[u8]) -> Option<Mark> {
        let (head, hash) = written.split_at_checked(MARK_LENGTH / 2)?;
        let (head, hash) = (number(head)?, number(hash)?);
        Some(Mark {
            stage: Stage::of(head >> (MINUTE_BITS + TARGET_BITS))?,
            minute: Minute((head >> TARGET_BITS) as u32 & Minute::MASK),
            target: RemoteTarget(head & ((1 << TARGET_BITS) - 1)),
            hash,
        })
    }

    /// As it is written.
    pub(crate) fn text(&self) -> MarkText {
        let mut octets = [0; MARK_LENGTH];
        let (head, hash) = octets.split_at_mut(MARK_LENGTH / 2);
        head.copy_from_slice(Digits::hexadecimal(self.head()).as_str().as_bytes());
        hash.copy_from_slice(Digits::hexadecimal(self.hash).as_str().as_bytes());
        MarkText(octets)
    }

    /// All but the hash.
    fn head(&self) -> u64 {
        let stage = (self.stage as u64 + 1) << (MINUTE_BITS + TARGET_BITS);
        stage | u64::from(self.minute.0) << TARGET_BITS | self.target.0
    }
}

impl Stage {
    /// Whether a mark is the UAS's.
    pub(crate) fn is_of_uas(self) -> bool {
        matches!(self, Stage::Uas | Stage::UasWithin)
    }

    fn of(number: u64) -> Option<Stage> {
        let all = [
            Stage::Uas,
            Stage::UasWithin,
            Stage::Uac,
            Stage::UacEarly,
            Stage::UacEarlyUnknown,
        ];
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        all.get(at).copied()
    }
}

impl MarkText {
    /// What stands in the place of a mark and is none.
    pub(crate) const VOID: MarkText = MarkText([b'0'; MARK_LENGTH]);

    pub(crate) fn as_str(&self) -> &str {
        // They are digits.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Minute {
    const MASK: u32 = (1 << MINUTE_BITS) - 1;

    fn of(since_1970: Duration) -> Minute {
        // Which one of about a million.
        Minute((since_1970.as_secs() / 60) as u32 & Minute::MASK)
    }

    /// Whether another minute was so long ago at most. The minute that has begun counts whole.
    fn is_within(self, lifetime: Duration, other: Minute) -> bool {
        let lifetime = lifetime.min(LONGEST_LIFETIME).as_secs().div_ceil(60);
        let age = self.0.wrapping_add(AHEAD).wrapping_sub(other.0) & Minute::MASK;
        u64::from(age) <= lifetime + u64::from(AHEAD)
    }
}

/// Where in a Record-Route value of ours the mark stands: at the end of the URI.
pub(crate) fn place_of_mark(value: &[u8]) -> Option<std::ops::Range<usize>> {
    let end = memchr::memrchr(b'>', value)?;
    let start = end.checked_sub(MARK_LENGTH)?;
    let name = value.get(..start)?.strip_suffix(b"=")?;
    name.ends_with(CALL.as_bytes()).then_some(start..end)
}

/// The user part of a URI of ours, be it in angle brackets.
fn user(uri: &[u8]) -> &[u8] {
    let start = memchr::memchr(b':', uri).map_or(0, |colon| colon + 1);
    let end = memchr::memchr(b'@', uri).unwrap_or(0);
    uri.get(start..end).unwrap_or_default()
}

/// A text of any length takes part in a hash.
fn add(hasher: &mut SipHasher24, text: &[u8]) {
    hasher.write_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
    hasher.write(text);
}

/// A host name does, in which case makes no difference.
fn add_name(hasher: &mut SipHasher24, name: &str) {
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.bytes().any(|octet| octet.is_ascii_uppercase()) {
        true => add(hasher, name.to_ascii_lowercase().as_bytes()),
        false => add(hasher, name.as_bytes()),
    }
}

/// A number of 64 bits in hexadecimal digits.
fn number(digits: &[u8]) -> Option<u64> {
    let digit = |octet: &u8| char::from(*octet).to_digit(16);
    let add = |number: u64, octet| Some(number << 4 | u64::from(digit(octet)?));
    match digits.len() == MARK_LENGTH / 2 {
        true => digits.iter().try_fold(0, add),
        false => None,
    }
}

impl AsRef<[u8]> for MarkText {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for DialogMarks {
    /// The key is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DialogMarks")
    }
}

impl std::fmt::Debug for Party<'_> {
    /// So is what its marks are made of.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Party")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    const NOW: Duration = Duration::from_secs(1_700_000_000);
    const TARGET: &str = "sip:bob@192.0.2.20";

    fn marks(seed: u8, since_1970: Duration) -> DialogMarks {
        let mut marks = DialogMarks::new(&Keys::from_bytes([seed; 32]));
        marks.set_time(UNIX_EPOCH + since_1970);
        marks
    }

    fn user_named(text: &str) -> AddressOfRecord {
        AddressOfRecord::from_stored(text).expect("an address of record")
    }

    #[test]
    fn a_mark_is_good_for_what_it_binds_and_for_nothing_else() {
        let (one, other) = (
            user_named("alice@example.com"),
            user_named("bob@example.com"),
        );
        let ours = marks(1, NOW);
        let target = ours.remote_target(TARGET);
        let next = ours.along(b"<sip:token@192.0.2.1;lr");
        assert!(matches!(next, NextHop::Along(_)));
        for stage in [
            Stage::Uas,
            Stage::UasWithin,
            Stage::Uac,
            Stage::UacEarly,
            Stage::UacEarlyUnknown,
        ] {
            let party = ours.party(b"call", b"own", b"peer", Some(&one));
            let mark = ours.mark(&party, stage, target, next);
            let text = mark.text();
            assert_eq!(Mark::read(text.as_ref()), Some(mark));
            let upper = text.as_str().to_ascii_uppercase();
            assert_eq!(Mark::read(upper.as_bytes()), Some(mark));
            assert!(party.has(&mark, next));
            // The UAS chooses its tag later.
            let with_tag = ours.party(b"call", b"other", b"peer", Some(&one));
            assert_eq!(with_tag.has(&mark, next), stage.is_of_uas());
            for party in [
                ours.party(b"another", b"own", b"peer", Some(&one)),
                ours.party(b"call", b"own", b"other", Some(&one)),
                ours.party(b"call", b"peer", b"own", Some(&one)),
                ours.party(b"call", b"own", b"peer", Some(&other)),
                ours.party(b"call", b"own", b"peer", None),
                ours.party(b"cal", b"own", b"lpeer", Some(&one)),
                marks(2, NOW).party(b"call", b"own", b"peer", Some(&one)),
            ] {
                assert!(!party.has(&mark, next), "{stage:?}");
            }
            for other in [
                NextHop::RequestUri,
                NextHop::Route(target),
                ours.along(b"<sip:another@192.0.2.1;lr"),
            ] {
                assert!(!party.has(&mark, other), "{stage:?} {other:?}");
            }
            // Whoever changes one digit spoils it.
            for at in 0..MARK_LENGTH {
                let mut spoiled = *text
                    .as_str()
                    .as_bytes()
                    .first_chunk::<MARK_LENGTH>()
                    .expect("32");
                spoiled[at] = if spoiled[at] == b'3' { b'4' } else { b'3' };
                let read = Mark::read(&spoiled);
                assert!(read.is_none_or(|mark| !party.has(&mark, next)), "{at}");
            }
            for other in [
                "",
                "+",
                "ä",
                &text.as_str()[1..],
                &format!("0{}", text.as_str()),
            ] {
                assert_eq!(Mark::read(other.as_bytes()), None, "{other}");
            }
        }
        assert_eq!(Mark::read(MarkText::VOID.as_ref()), None);
    }

    #[test]
    fn of_a_remote_target_user_host_port_and_maddr_count() {
        let marks = marks(1, NOW);
        let target = |uri: &str| marks.remote_target(uri);
        for same in [
            "sip:bob@192.0.2.20:5060",
            "sip:b%6fb@192.0.2.20",
            "sip:bob@192.0.2.20;transport=tcp;ob",
        ] {
            assert_eq!(target(same), target(TARGET), "{same}");
        }
        assert_eq!(target("sip:a@Host.Example."), target("sip:a@host.example"));
        assert_eq!(target("sip:[2001:db8::1]"), target("sip:[2001:db8:0::1]"));
        for other in [
            "sip:alice@192.0.2.20",
            "sip:192.0.2.20",
            "sip:bob@192.0.2.21",
            "sip:bob@192.0.2.20:5061",
            "sip:bob@192.0.2.20;maddr=192.0.2.21",
            "sip:bob@host.example",
            "sips:bob@192.0.2.20",
            "tel:+15551234",
            "",
        ] {
            assert_ne!(target(other), target(TARGET), "{other}");
        }
    }

    #[test]
    fn the_place_of_a_mark_is_found_as_it_is_written() {
        let text = MarkText::VOID;
        let value = format!("<sip:192.0.2.1;lr;call={}>", text.as_str());
        let place = place_of_mark(value.as_bytes()).expect("a mark");
        assert_eq!(&value[place], text.as_str());
        for none in [
            "",
            ">",
            "<sip:192.0.2.1;lr>",
            &value[..value.len() - 1],
            &value.replace("=0", "="),
        ] {
            assert_eq!(place_of_mark(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn a_mark_ends() {
        // The number of the minute begins anew in between.
        for began in [NOW, Duration::from_secs(60 * ((1 << MINUTE_BITS) - 30))] {
            let at = |time| {
                let marks = marks(1, time);
                let party = marks.party(b"call", b"own", b"peer", None);
                let target = marks.remote_target(TARGET);
                marks.mark(&party, Stage::Uac, target, NextHop::RequestUri)
            };
            let mark = at(began);
            let is = |now, lifetime| marks(1, now).is_within(&mark, lifetime);
            assert!(is(began + WEEK - HOUR, WEEK));
            assert!(!is(began + WEEK + 2 * HOUR, WEEK));
            assert!(!is(began + 10 * WEEK, WEEK));
            // Nobody has forgotten a call in the minute in which it began.
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
