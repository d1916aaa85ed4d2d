//! The State Cookie (RFC 9260 sections 5.1.3 to 5.1.5): all that is needed to make an association,
//! signed and given to the peer to keep.
//!
//! Addresses and ports are signed but not carried: whoever brings the cookie back must come from
//! where the INIT came from, so the packet itself says them.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sha2::Sha256;

use crate::PathAddress;
use crate::packet::Tsn;

/// Half of an HMAC-SHA-256, the least that RFC 2104 section 5 recommends: cookies are to be small.
const MAC_LENGTH: usize = 16;

/// Key number, then the fields of [`Cookie`] in their order.
const FIELDS_LENGTH: usize = 1 + 8 + 4 + 5 * 4 + 2 * 2 + 2 * 4;

/// Bytes of a signed cookie.
pub(crate) const COOKIE_LENGTH: usize = FIELDS_LENGTH + MAC_LENGTH;

/// How often the secret key changes (section 5.1.3: hourly).
const KEY_LIFETIME: Duration = Duration::from_secs(3600);

/// What a cookie says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cookie {
    /// When it was made, after the beginning of its endpoint.
    pub(crate) created: Duration,
    /// For how long it is valid.
    pub(crate) life: Duration,
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
    /// Streams that we may send on.
    pub(crate) outbound_streams: u16,
    /// Streams that the peer may send on.
    pub(crate) inbound_streams: u16,
    /// Local-Tie-Tag and Peer's-Tie-Tag (section 5.2.2), 0 when there was no association.
    pub(crate) tie_tags: TieTags,
}

/// Random numbers that stand for the two verification tags of an association (section 5.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TieTags {
    pub(crate) local: u32,
    pub(crate) peer: u32,
}

/// Where a cookie's packets come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CookieOrigin {
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) from: PathAddress,
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
    current: Key,
    previous: Option<Key>,
}

struct Key {
    number: u8,
    made: Instant,
    /// Keyed already: a clone of it is cheaper than keying anew.
    mac: Hmac<Sha256>,
}

impl CookieSigner {
    /// A signer with a fresh key.
    pub(crate) fn new(now: Instant, rng: &mut ChaCha12Rng) -> CookieSigner {
        CookieSigner {
            began: now,
            current: Key::new(0, now, rng),
            previous: None,
        }
    }

    /// The time that goes into [`Cookie::created`].
    pub(crate) fn time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// Signs a cookie.
    pub(crate) fn sign(
        &mut self,
        now: Instant,
        cookie: &Cookie,
        origin: CookieOrigin,
        rng: &mut ChaCha12Rng,
    ) -> [u8; COOKIE_LENGTH] {
        self.renew_key(now, cookie.life, rng);
        let mut bytes = [0; COOKIE_LENGTH];
        let mut rest = bytes.as_mut_slice();
        put(&mut rest, &[self.current.number]);
        put(
            &mut rest,
            &(cookie.created.as_micros() as u64).to_be_bytes(),
        );
        put(&mut rest, &(cookie.life.as_millis() as u32).to_be_bytes());
        put(&mut rest, &cookie.local_tag.to_be_bytes());
        put(&mut rest, &cookie.peer_tag.to_be_bytes());
        put(&mut rest, &cookie.local_initial_tsn.0.to_be_bytes());
        put(&mut rest, &cookie.peer_initial_tsn.0.to_be_bytes());
        put(&mut rest, &cookie.peer_a_rwnd.to_be_bytes());
        put(&mut rest, &cookie.outbound_streams.to_be_bytes());
        put(&mut rest, &cookie.inbound_streams.to_be_bytes());
        put(&mut rest, &cookie.tie_tags.local.to_be_bytes());
        put(&mut rest, &cookie.tie_tags.peer.to_be_bytes());
        let (fields, signature) = bytes.split_at_mut(FIELDS_LENGTH);
        let mac = self.current.sign(fields, origin).finalize().into_bytes();
        signature.copy_from_slice(&mac[..MAC_LENGTH]);
        bytes
    }

    /// Checks the signature of a cookie that came back from `origin` and reads it. Whether it is
    /// still fresh is another question ([`Self::staleness`]).
    pub(crate) fn verify(&self, bytes: &[u8], origin: CookieOrigin) -> Result<Cookie, CookieError> {
        let (fields, signature) = bytes
            .split_at_checked(FIELDS_LENGTH)
            .filter(|(_, signature)| signature.len() == MAC_LENGTH)
            .ok_or(CookieError::NotAuthentic)?;
        let number = fields.first().copied();
        let key = [Some(&self.current), self.previous.as_ref()]
            .into_iter()
            .flatten()
            .find(|key| Some(key.number) == number)
            .ok_or(CookieError::NotAuthentic)?;
        key.sign(fields, origin)
            .verify_truncated_left(signature)
            .map_err(|_| CookieError::NotAuthentic)?;
        read(fields).ok_or(CookieError::NotAuthentic)
    }

    /// How long ago a cookie expired; `None` when it is fresh.
    pub(crate) fn staleness(&self, now: Instant, cookie: &Cookie) -> Option<Duration> {
        let expired = cookie.created.saturating_add(cookie.life);
        self.time(now)
            .checked_sub(expired)
            .filter(|staleness| !staleness.is_zero())
    }

    /// Changes the key when it is old. The one before is kept for the cookies that are out.
    fn renew_key(&mut self, now: Instant, life: Duration, rng: &mut ChaCha12Rng) {
        if now.saturating_duration_since(self.current.made) < KEY_LIFETIME.max(life) {
            return;
        }
        let next = Key::new(self.current.number.wrapping_add(1), now, rng);
        self.previous = Some(std::mem::replace(&mut self.current, next));
    }
}

impl Key {
    fn new(number: u8, now: Instant, rng: &mut ChaCha12Rng) -> Key {
        let mut secret = [0; 64];
        rng.fill_bytes(&mut secret);
        Key {
            number,
            made: now,
            mac: Hmac::new(&secret.into()),
        }
    }

    fn sign(&self, fields: &[u8], origin: CookieOrigin) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(fields);
        mac.update(&origin.local_port.to_be_bytes());
        mac.update(&origin.peer_port.to_be_bytes());
        match origin.from.encapsulation_port {
            Some(port) => {
                mac.update(&[1]);
                mac.update(&port.to_be_bytes());
            }
            None => mac.update(&[0]),
        }
        match origin.from.remote {
            IpAddr::V4(address) => mac.update(&address.octets()),
            IpAddr::V6(address) => mac.update(&address.octets()),
        }
        mac
    }
}

fn put(rest: &mut &mut [u8], field: &[u8]) {
    if let Some((place, after)) = std::mem::take(rest).split_at_mut_checked(field.len()) {
        place.copy_from_slice(field);
        *rest = after;
    }
}

fn read(fields: &[u8]) -> Option<Cookie> {
    let mut rest = fields.get(1..)?;
    let created = Duration::from_micros(u64::from_be_bytes(take(&mut rest)?));
    let life = Duration::from_millis(u32::from_be_bytes(take(&mut rest)?).into());
    Some(Cookie {
        created,
        life,
        local_tag: u32::from_be_bytes(take(&mut rest)?),
        peer_tag: u32::from_be_bytes(take(&mut rest)?),
        local_initial_tsn: Tsn(u32::from_be_bytes(take(&mut rest)?)),
        peer_initial_tsn: Tsn(u32::from_be_bytes(take(&mut rest)?)),
        peer_a_rwnd: u32::from_be_bytes(take(&mut rest)?),
        outbound_streams: u16::from_be_bytes(take(&mut rest)?),
        inbound_streams: u16::from_be_bytes(take(&mut rest)?),
        tie_tags: TieTags {
            local: u32::from_be_bytes(take(&mut rest)?),
            peer: u32::from_be_bytes(take(&mut rest)?),
        },
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*field)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn cookie(created: Duration) -> Cookie {
        Cookie {
            created,
            life: Duration::from_secs(60),
            local_tag: 1,
            peer_tag: 2,
            local_initial_tsn: Tsn(3),
            peer_initial_tsn: Tsn(4),
            peer_a_rwnd: 5,
            outbound_streams: 6,
            inbound_streams: 7,
            tie_tags: TieTags { local: 8, peer: 9 },
        }
    }

    fn origin() -> CookieOrigin {
        CookieOrigin {
            local_port: 5060,
            peer_port: 5061,
            from: PathAddress {
                local: None,
                remote: IpAddr::from([192, 0, 2, 1]),
                encapsulation_port: Some(9899),
            },
        }
    }

    #[test]
    fn reads_what_it_signed() {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let now = Instant::now();
        let mut signer = CookieSigner::new(now, &mut rng);
        let cookie = cookie(Duration::from_micros(123_456));
        let bytes = signer.sign(now, &cookie, origin(), &mut rng);
        assert_eq!(signer.verify(&bytes, origin()), Ok(cookie));
    }

    #[test]
    fn refuses_any_altered_byte_any_length_and_any_other_origin() {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let now = Instant::now();
        let mut signer = CookieSigner::new(now, &mut rng);
        let bytes = signer.sign(now, &cookie(Duration::ZERO), origin(), &mut rng);
        for index in 0..bytes.len() {
            let mut altered = bytes;
            altered[index] ^= 1;
            assert!(signer.verify(&altered, origin()).is_err(), "byte {index}");
        }
        for length in 0..bytes.len() {
            assert!(signer.verify(&bytes[..length], origin()).is_err());
        }
        let with_port = |encapsulation_port| PathAddress {
            encapsulation_port,
            ..origin().from
        };
        for elsewhere in [
            CookieOrigin {
                peer_port: 5062,
                ..origin()
            },
            CookieOrigin {
                local_port: 5062,
                ..origin()
            },
            CookieOrigin {
                from: with_port(Some(9898)),
                ..origin()
            },
            CookieOrigin {
                from: with_port(None),
                ..origin()
            },
            CookieOrigin {
                from: PathAddress {
                    remote: IpAddr::from([192, 0, 2, 2]),
                    ..origin().from
                },
                ..origin()
            },
        ] {
            assert!(signer.verify(&bytes, elsewhere).is_err());
        }
    }

    #[test]
    fn tells_how_stale_a_cookie_is() {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let now = Instant::now();
        let signer = CookieSigner::new(now, &mut rng);
        let cookie = cookie(Duration::from_secs(1));
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(signer.staleness(at(61), &cookie), None);
        assert_eq!(
            signer.staleness(at(63), &cookie),
            Some(Duration::from_secs(2))
        );
    }

    #[test]
    fn changes_its_key_and_accepts_the_one_before() {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let now = Instant::now();
        let mut signer = CookieSigner::new(now, &mut rng);
        let old = signer.sign(now, &cookie(Duration::ZERO), origin(), &mut rng);
        let new = signer.sign(
            now + KEY_LIFETIME,
            &cookie(Duration::ZERO),
            origin(),
            &mut rng,
        );
        assert_ne!(old, new);
        assert!(signer.verify(&old, origin()).is_ok());
        assert!(signer.verify(&new, origin()).is_ok());
        signer.sign(
            now + 2 * KEY_LIFETIME,
            &cookie(Duration::ZERO),
            origin(),
            &mut rng,
        );
        assert!(signer.verify(&old, origin()).is_err());
    }
}
