//! The State Cookie (RFC 9260 sections 5.1.3 to 5.1.5): all that is needed to make an association,
//! signed and given to the peer to keep.
//!
//! It is as short as it can be, for it goes to whoever asks. What the packet that brings it back
//! says anyway is signed but not carried: the SCTP ports, our verification tag, and the peer's
//! address, unless it has several and may come from another one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use bytes::Buf;
use hmac::{Hmac, KeyInit, Mac};
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sha2::Sha256;

use super::authentication::{Declaration, Declarations};
use super::capabilities::Capabilities;
use crate::packet::Tsn;
use crate::{Extensions, PathAddress};

/// Half of an HMAC-SHA-256, the least that RFC 2104 section 5 recommends: cookies are to be small.
const MAC_LENGTH: usize = 16;

/// How often the secret key changes (section 5.1.3: hourly).
const KEY_LIFETIME: Duration = Duration::from_secs(3600);

/// What the first byte says beside the number of the key.
mod flags {
    pub(super) const KEY_NUMBER: u8 = 0x07;
    /// Which fields there are. A cookie with more in it gets another version.
    pub(super) const VERSION: u8 = 0x18;
    pub(super) const LIFE: u8 = 0x20;
    pub(super) const TIE_TAGS: u8 = 0x40;
    pub(super) const ADDRESSES: u8 = 0x80;
}

/// The versions of the cookies that we sign and read, as the first byte says them: that of an association
/// without extensions, and that of one with some, which are said in a byte of their own.
const PLAIN: u8 = 0x08;
const EXTENDED: u8 = 0x10;

/// What the byte of the extensions says beside them: there is an Adaptation Code Point.
const ADAPTATION: u8 = 0x80;

/// The creation time is carried modulo this, in microseconds: 12 days, where the key that signed it
/// counts for twice its lifetime, four days at most.
const TIME_MODULUS: u64 = 1 << 40;

/// What a cookie says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cookie {
    /// When it was made, on the clock of [`CookieSigner::time`].
    pub(crate) created: Duration,
    /// For how long it is valid, when that is not Valid.Cookie.Life.
    pub(crate) life: Option<Duration>,
    /// The tag that we gave ourselves in the INIT ACK.
    pub(crate) local_tag: u32,
    /// The Initiate Tag of the peer's INIT.
    pub(crate) peer_tag: u32,
    /// Our first TSN.
    pub(crate) local_initial_tsn: Tsn,
    /// The peer's first TSN.
    pub(crate) peer_initial_tsn: Tsn,
    /// The window that the peer advertised.
    pub(crate) peer_a_rwnd: u32,
    /// What was agreed on by INIT and INIT ACK.
    pub(crate) capabilities: Capabilities,
    /// What both have declared, if they have agreed on authentication.
    pub(crate) declarations: Option<Box<Declarations>>,
    /// Local-Tie-Tag and Peer's-Tie-Tag (section 5.2.2), 0 when there was no association.
    pub(crate) tie_tags: TieTags,
    /// Where the INIT came from, and the INIT ACK went.
    pub(crate) source: CookieSource,
    /// The peer's other addresses.
    pub(crate) other_addresses: Vec<IpAddr>,
}

/// The address of the peer that is proved when the cookie comes back (section 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CookieSource {
    pub(crate) remote: IpAddr,
    pub(crate) encapsulation_port: Option<u16>,
}

impl From<PathAddress> for CookieSource {
    fn from(address: PathAddress) -> CookieSource {
        CookieSource {
            remote: address.remote,
            encapsulation_port: address.encapsulation_port,
        }
    }
}

/// Random numbers that stand for the two verification tags of an association (section 5.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TieTags {
    pub(crate) local: u32,
    pub(crate) peer: u32,
}

/// What the packet says that brings a cookie back, or takes it away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CookieOrigin {
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    /// Our verification tag.
    pub(crate) local_tag: u32,
    pub(crate) from: CookieSource,
}

/// What is wrong with a cookie that came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CookieError {
    /// It is not ours, it was altered, its key is gone, or it came from elsewhere.
    NotAuthentic,
}

/// Signs cookies and checks signatures.
pub(crate) struct CookieSigner {
    began: Instant,
    /// Where the clock of the cookies began: how long we have been running is nobody's business
    /// (section 5.1.3).
    offset: Duration,
    /// How long a key signs: no cookie outlives the one after it.
    key_lifetime: Duration,
    current: SecretKey,
    previous: Option<SecretKey>,
}

struct SecretKey {
    number: u8,
    made: Instant,
    /// Keyed already: a clone of it is cheaper than keying anew.
    mac: Hmac<Sha256>,
}

impl CookieSigner {
    /// A signer with a fresh key, for cookies that live no longer than `longest_life`.
    pub(crate) fn new(now: Instant, longest_life: Duration, rng: &mut ChaCha12Rng) -> CookieSigner {
        CookieSigner {
            key_lifetime: KEY_LIFETIME.max(longest_life),
            began: now,
            offset: Duration::from_micros(rng.next_u64() % TIME_MODULUS),
            current: SecretKey::new(0, now, rng),
            previous: None,
        }
    }

    /// The time that goes into [`Cookie::created`].
    pub(crate) fn time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began) + self.offset
    }

    /// Signs a cookie that goes to and will come from these ports.
    pub(crate) fn sign(
        &mut self,
        now: Instant,
        cookie: &Cookie,
        local_port: u16,
        peer_port: u16,
        rng: &mut ChaCha12Rng,
    ) -> Vec<u8> {
        self.renew_key(now, rng);
        let mut bytes = write(cookie, self.current.number);
        let origin = CookieOrigin {
            local_port,
            peer_port,
            local_tag: cookie.local_tag,
            from: cookie.source,
        };
        let mac = self.current.sign(&bytes, origin).finalize().into_bytes();
        bytes.extend_from_slice(&mac[..MAC_LENGTH]);
        bytes
    }

    /// Checks the signature of a cookie that came back in a packet and reads it. Whether it is
    /// still fresh is another question ([`Self::staleness`]).
    pub(crate) fn verify(
        &self,
        now: Instant,
        bytes: &[u8],
        origin: CookieOrigin,
    ) -> Result<Cookie, CookieError> {
        let (fields, signature) = bytes
            .len()
            .checked_sub(MAC_LENGTH)
            .and_then(|length| bytes.split_at_checked(length))
            .ok_or(CookieError::NotAuthentic)?;
        let first = fields.first().ok_or(CookieError::NotAuthentic)?;
        let key = [Some(&self.current), self.previous.as_ref()]
            .into_iter()
            .flatten()
            // A key that nothing was signed with for long is still the current one.
            .filter(|key| now.saturating_duration_since(key.made) < 2 * self.key_lifetime)
            .find(|key| key.number == first & flags::KEY_NUMBER)
            .ok_or(CookieError::NotAuthentic)?;
        key.sign(fields, origin)
            .verify_truncated_left(signature)
            .map_err(|_| CookieError::NotAuthentic)?;
        read(fields, &origin)
            .filter(Cookie::is_sensible)
            .filter(|cookie| cookie.names(origin.from))
            .ok_or(CookieError::NotAuthentic)
    }

    /// How long ago a cookie expired; `None` when it is fresh. `life` is Valid.Cookie.Life.
    pub(crate) fn staleness(
        &self,
        now: Instant,
        cookie: &Cookie,
        life: Duration,
    ) -> Option<Duration> {
        let modulus = Duration::from_micros(TIME_MODULUS);
        let (now, created) = (self.time(now), cookie.created);
        // What of the time is less than a microsecond was not carried.
        let micros = now.as_micros() as u64 % TIME_MODULUS;
        let now =
            Duration::from_micros(micros) + Duration::from_nanos(now.subsec_nanos() as u64 % 1000);
        let age = now
            .checked_sub(created)
            .unwrap_or_else(|| (now + modulus).saturating_sub(created));
        age.checked_sub(cookie.life.unwrap_or(life))
            .filter(|staleness| !staleness.is_zero())
    }

    /// Changes the key when it is old. The one before is kept for the cookies that are out.
    fn renew_key(&mut self, now: Instant, rng: &mut ChaCha12Rng) {
        if now.saturating_duration_since(self.current.made) < self.key_lifetime {
            return;
        }
        let next = SecretKey::new((self.current.number + 1) & flags::KEY_NUMBER, now, rng);
        self.previous = Some(std::mem::replace(&mut self.current, next));
    }
}

impl Cookie {
    /// All addresses of the peer, the proved one first.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        std::iter::once(self.source.remote).chain(self.other_addresses.iter().copied())
    }

    /// Whether it may come back from there: from any of the peer's addresses. The encapsulation port
    /// may be another one, for a NAT may have forgotten the one of the INIT (RFC 6951 section 5.4: a
    /// port is learnt from each packet whose tag is right).
    fn names(&self, from: CookieSource) -> bool {
        self.addresses().any(|address| address == from.remote)
    }

    /// Whether an association can be made from it. We sign no other ones; should a fault of our own
    /// ever make us, it ends here.
    fn is_sensible(&self) -> bool {
        self.local_tag != 0
            && self.peer_tag != 0
            && self.capabilities.outbound_streams != 0
            && self.capabilities.inbound_streams != 0
    }
}

impl SecretKey {
    fn new(number: u8, now: Instant, rng: &mut ChaCha12Rng) -> SecretKey {
        let mut secret = [0; 64];
        rng.fill_bytes(&mut secret);
        SecretKey {
            number,
            made: now,
            mac: Hmac::new(&secret.into()),
        }
    }

    /// Signs the fields and what of the origin they do not carry.
    fn sign(&self, fields: &[u8], origin: CookieOrigin) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(fields);
        mac.update(&origin.local_port.to_be_bytes());
        mac.update(&origin.peer_port.to_be_bytes());
        mac.update(&origin.local_tag.to_be_bytes());
        let carries_addresses = fields
            .first()
            .is_some_and(|first| first & flags::ADDRESSES != 0);
        if !carries_addresses {
            match origin.from.remote {
                IpAddr::V4(address) => mac.update(&address.octets()),
                IpAddr::V6(address) => mac.update(&address.octets()),
            }
        }
        mac
    }
}

fn write(cookie: &Cookie, key_number: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    let Capabilities {
        outbound_streams,
        inbound_streams,
        extensions,
        adaptation_code_point,
    } = cookie.capabilities;
    let version = if extensions.is_empty() && adaptation_code_point.is_none() {
        PLAIN
    } else {
        EXTENDED
    };
    let mut first = key_number | version;
    if cookie.life.is_some() {
        first |= flags::LIFE;
    }
    if cookie.tie_tags != TieTags::default() {
        first |= flags::TIE_TAGS;
    }
    if !cookie.other_addresses.is_empty() {
        first |= flags::ADDRESSES;
    }
    bytes.push(first);
    let created = cookie.created.as_micros() as u64 % TIME_MODULUS;
    bytes.extend_from_slice(&created.to_be_bytes()[3..]);
    for field in [
        cookie.peer_tag,
        cookie.local_initial_tsn.0,
        cookie.peer_initial_tsn.0,
        cookie.peer_a_rwnd,
    ] {
        bytes.extend_from_slice(&field.to_be_bytes());
    }
    bytes.extend_from_slice(&outbound_streams.to_be_bytes());
    bytes.extend_from_slice(&inbound_streams.to_be_bytes());
    if version == EXTENDED {
        let adaptation = adaptation_code_point.map_or(0, |_| ADAPTATION);
        bytes.push(extensions.bits() | adaptation);
        bytes.extend(adaptation_code_point.into_iter().flat_map(u32::to_be_bytes));
    }
    if let Some(life) = cookie.life {
        bytes.extend_from_slice(&(life.as_millis() as u32).to_be_bytes());
    }
    if cookie.tie_tags != TieTags::default() {
        bytes.extend_from_slice(&cookie.tie_tags.local.to_be_bytes());
        bytes.extend_from_slice(&cookie.tie_tags.peer.to_be_bytes());
    }
    if !cookie.other_addresses.is_empty() {
        put_source(&mut bytes, cookie.source);
        bytes.push(cookie.other_addresses.len() as u8);
        for address in &cookie.other_addresses {
            put_address(&mut bytes, *address, 0);
        }
    }
    if let Some(declarations) = &cookie.declarations {
        declarations.local.write_to_cookie(&mut bytes);
        declarations.peer.write_to_cookie(&mut bytes);
    }
    bytes
}

fn read(fields: &[u8], origin: &CookieOrigin) -> Option<Cookie> {
    let (&first, mut rest) = fields.split_first()?;
    let is_extended = match first & flags::VERSION {
        PLAIN => false,
        EXTENDED => true,
        _ => return None,
    };
    let created = Duration::from_micros(rest.try_get_uint(5).ok()?);
    let peer_tag = rest.try_get_u32().ok()?;
    let local_initial_tsn = Tsn(rest.try_get_u32().ok()?);
    let peer_initial_tsn = Tsn(rest.try_get_u32().ok()?);
    let peer_a_rwnd = rest.try_get_u32().ok()?;
    let outbound_streams = rest.try_get_u16().ok()?;
    let inbound_streams = rest.try_get_u16().ok()?;
    let extended = if is_extended {
        rest.try_get_u8().ok()?
    } else {
        0
    };
    let adaptation_code_point = match extended & ADAPTATION {
        0 => None,
        _ => Some(rest.try_get_u32().ok()?),
    };
    let capabilities = Capabilities {
        outbound_streams,
        inbound_streams,
        extensions: Extensions::from_bits(extended),
        adaptation_code_point,
    };
    let life = match first & flags::LIFE {
        0 => None,
        _ => Some(rest.try_get_u32().ok()?),
    };
    let tie_tags = match first & flags::TIE_TAGS {
        0 => TieTags::default(),
        _ => TieTags {
            local: rest.try_get_u32().ok()?,
            peer: rest.try_get_u32().ok()?,
        },
    };
    let mut source = origin.from;
    let mut other_addresses = Vec::new();
    if first & flags::ADDRESSES != 0 {
        source = take_source(&mut rest)?;
        for _ in 0..rest.try_get_u8().ok()? {
            let (address, _) = take_address(&mut rest)?;
            other_addresses.push(address);
        }
    }
    let declarations = match capabilities.extensions.authentication {
        false => None,
        true => Some(Box::new(Declarations {
            local: Declaration::take_from_cookie(&mut rest)?,
            peer: Declaration::take_from_cookie(&mut rest)?,
        })),
    };
    rest.is_empty().then_some(Cookie {
        created,
        life: life.map(|life| Duration::from_millis(life.into())),
        local_tag: origin.local_tag,
        peer_tag,
        local_initial_tsn,
        peer_initial_tsn,
        peer_a_rwnd,
        capabilities,
        declarations,
        tie_tags,
        source,
        other_addresses,
    })
}

/// What the byte before an address says.
const IPV6: u8 = 1;
const ENCAPSULATED: u8 = 2;

fn put_source(bytes: &mut Vec<u8>, source: CookieSource) {
    match source.encapsulation_port {
        None => put_address(bytes, source.remote, 0),
        Some(port) => {
            put_address(bytes, source.remote, ENCAPSULATED);
            bytes.extend_from_slice(&port.to_be_bytes());
        }
    }
}

fn put_address(bytes: &mut Vec<u8>, address: IpAddr, kind: u8) {
    match address {
        IpAddr::V4(address) => {
            bytes.push(kind);
            bytes.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes.push(kind | IPV6);
            bytes.extend_from_slice(&address.octets());
        }
    }
}

fn take_source(rest: &mut &[u8]) -> Option<CookieSource> {
    let (remote, kind) = take_address(rest)?;
    let encapsulation_port = match kind & ENCAPSULATED {
        0 => None,
        _ => Some(rest.try_get_u16().ok()?),
    };
    Some(CookieSource {
        remote,
        encapsulation_port,
    })
}

fn take_address(rest: &mut &[u8]) -> Option<(IpAddr, u8)> {
    let kind = rest.try_get_u8().ok()?;
    let address = match kind & IPV6 {
        0 => Ipv4Addr::from_bits(rest.try_get_u32().ok()?).into(),
        _ => Ipv6Addr::from_bits(rest.try_get_u128().ok()?).into(),
    };
    Some((address, kind))
}

#[cfg(test)]
mod tests;
