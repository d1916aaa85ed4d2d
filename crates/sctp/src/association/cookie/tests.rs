//! Cookies that are signed, altered, moved and old.

use rand::SeedableRng;

use super::*;
use crate::AssociationConfig;
use crate::packet::ChunkType;

const LIFE: Duration = Duration::from_secs(60);

struct Signing {
    now: Instant,
    rng: ChaCha12Rng,
    signer: CookieSigner,
}

impl Signing {
    fn new() -> Signing {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let now = Instant::now();
        Signing {
            now,
            signer: CookieSigner::new(now, 2 * LIFE, &mut rng),
            rng,
        }
    }

    fn cookie(&self) -> Cookie {
        Cookie {
            created: Duration::from_micros(
                self.signer.time(self.now).as_micros() as u64 % TIME_MODULUS,
            ),
            life: None,
            local_tag: 1,
            peer_tag: 2,
            local_initial_tsn: Tsn(3),
            peer_initial_tsn: Tsn(4),
            peer_a_rwnd: 5,
            capabilities: Capabilities {
                outbound_streams: 6,
                inbound_streams: 7,
                extensions: Extensions::NONE,
                adaptation_code_point: None,
            },
            declarations: None,
            tie_tags: TieTags::default(),
            source: origin().from,
            other_addresses: Vec::new(),
        }
    }

    fn sign(&mut self, cookie: &Cookie) -> Vec<u8> {
        self.signer
            .sign(self.now, cookie, 5060, 5061, &mut self.rng)
    }
}

fn origin() -> CookieOrigin {
    CookieOrigin {
        local_port: 5060,
        peer_port: 5061,
        local_tag: 1,
        from: CookieSource {
            remote: IpAddr::from([192, 0, 2, 1]),
            encapsulation_port: Some(9899),
        },
    }
}

/// A cookie with everything in it that may be.
fn full(signing: &Signing) -> Cookie {
    Cookie {
        life: Some(Duration::from_millis(61_234)),
        capabilities: Capabilities {
            extensions: Extensions::ALL,
            adaptation_code_point: Some(10),
            ..signing.cookie().capabilities
        },
        declarations: Some(Box::new(Declarations {
            local: declaration(1),
            peer: declaration(2),
        })),
        tie_tags: TieTags { local: 8, peer: 9 },
        other_addresses: vec![
            IpAddr::from([192, 0, 2, 7]),
            "2001:db8::7".parse().expect("an address"),
        ],
        ..signing.cookie()
    }
}

fn declaration(seed: u64) -> Declaration {
    let config = AssociationConfig::default()
        .extensions(Extensions::ALL)
        .auth_chunks(vec![ChunkType::DATA]);
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    Declaration::offered(&config, &mut rng).expect("it is offered")
}

#[test]
fn reads_what_it_signed() {
    let mut signing = Signing::new();
    let cookie = signing.cookie();
    let bytes = signing.sign(&cookie);
    assert_eq!(bytes.len(), 42);
    assert_eq!(
        signing.signer.verify(signing.now, &bytes, origin()),
        Ok(cookie)
    );
    let cookie = full(&signing);
    let bytes = signing.sign(&cookie);
    assert_eq!(
        signing.signer.verify(signing.now, &bytes, origin()),
        Ok(cookie)
    );
}

#[test]
fn refuses_any_altered_byte_and_any_length() {
    let mut signing = Signing::new();
    for cookie in [signing.cookie(), full(&signing)] {
        let bytes = signing.sign(&cookie);
        for index in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[index] ^= 1;
            let verified = signing.signer.verify(signing.now, &altered, origin());
            assert!(verified.is_err(), "byte {index}");
        }
        for length in 0..bytes.len() {
            assert!(
                signing
                    .signer
                    .verify(signing.now, &bytes[..length], origin())
                    .is_err()
            );
        }
    }
}

fn from(address: &str, port: Option<u16>) -> CookieSource {
    CookieSource {
        remote: address.parse().expect("an address"),
        encapsulation_port: port,
    }
}

#[test]
fn comes_back_with_the_same_tag_and_ports_only() {
    let mut signing = Signing::new();
    for cookie in [signing.cookie(), full(&signing)] {
        let bytes = signing.sign(&cookie);
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
                local_tag: 2,
                ..origin()
            },
        ] {
            assert!(
                signing
                    .signer
                    .verify(signing.now, &bytes, elsewhere)
                    .is_err()
            );
        }
    }
}

#[test]
fn comes_back_from_one_of_the_peers_addresses_only() {
    let mut signing = Signing::new();
    let single = signing.cookie();
    let single = signing.sign(&single);
    let several = full(&signing);
    let several = signing.sign(&several);
    let accepts = |bytes: &[u8], from| {
        let origin = CookieOrigin { from, ..origin() };
        signing.signer.verify(signing.now, bytes, origin).is_ok()
    };
    let elsewhere = from("192.0.2.2", Some(9899));
    assert!(!accepts(&single, elsewhere));
    assert!(!accepts(&several, elsewhere));
    // A NAT may have changed the port.
    for other_port in [from("192.0.2.1", Some(9898)), from("192.0.2.1", None)] {
        assert!(accepts(&single, other_port));
        assert!(accepts(&several, other_port));
    }
    for listed in [
        from("192.0.2.7", Some(9899)),
        from("192.0.2.7", Some(1234)),
        from("2001:db8::7", None),
    ] {
        assert!(!accepts(&single, listed));
        assert!(accepts(&several, listed));
    }
}

#[test]
fn nonsense_is_refused_though_it_is_signed() {
    let mut signing = Signing::new();
    let sensible = full(&signing);
    for nonsense in [
        Cookie {
            peer_tag: 0,
            ..sensible.clone()
        },
        Cookie {
            capabilities: Capabilities {
                outbound_streams: 0,
                ..sensible.capabilities
            },
            ..sensible.clone()
        },
        Cookie {
            capabilities: Capabilities {
                inbound_streams: 0,
                ..sensible.capabilities
            },
            ..sensible.clone()
        },
    ] {
        let bytes = signing.sign(&nonsense);
        assert!(
            signing
                .signer
                .verify(signing.now, &bytes, origin())
                .is_err()
        );
    }
    // Fields that end too early or too late, or count wrongly, under a signature that is right.
    let fields = write(&sensible, signing.signer.current.number);
    let with_signature = |fields: &[u8]| {
        let mac = signing.signer.current.sign(fields, origin());
        [fields, &mac.finalize().into_bytes()[..MAC_LENGTH]].concat()
    };
    assert!(
        signing
            .signer
            .verify(signing.now, &with_signature(&fields), origin())
            .is_ok()
    );
    for length in 1..fields.len() {
        let bytes = with_signature(&fields[..length]);
        assert!(
            signing
                .signer
                .verify(signing.now, &bytes, origin())
                .is_err()
        );
    }
    let long = [&fields[..], &[0]].concat();
    let verified = signing
        .signer
        .verify(signing.now, &with_signature(&long), origin());
    assert!(verified.is_err());
    for first in 0..=u8::MAX {
        let mut changed = fields.clone();
        changed[0] = first;
        let verified = signing
            .signer
            .verify(signing.now, &with_signature(&changed), origin());
        assert!(verified.is_err() || first == fields[0]);
    }
}

#[test]
fn another_version_is_refused_though_it_is_signed() {
    let signing = Signing::new();
    for cookie in [signing.cookie(), full(&signing)] {
        let fields = write(&cookie, signing.signer.current.number);
        for version in [0x00, 0x08, 0x10, 0x18] {
            let mut changed = fields.clone();
            changed[0] = fields[0] & !flags::VERSION | version;
            let mac = signing.signer.current.sign(&changed, origin());
            changed.extend_from_slice(&mac.finalize().into_bytes()[..MAC_LENGTH]);
            let verified = signing.signer.verify(signing.now, &changed, origin());
            assert_eq!(verified.is_ok(), version == fields[0] & flags::VERSION);
        }
    }
}

#[test]
fn tells_how_stale_a_cookie_is_across_the_end_of_its_clock() {
    let mut signing = Signing::new();
    for offset in [
        Duration::ZERO,
        Duration::from_micros(TIME_MODULUS) - Duration::from_secs(30),
    ] {
        signing.signer.offset = offset;
        let cookie = signing.cookie();
        let at = |seconds| signing.now + Duration::from_secs(seconds);
        let staleness = |cookie: &Cookie, now| signing.signer.staleness(now, cookie, LIFE);
        assert_eq!(staleness(&cookie, at(60)), None);
        assert_eq!(staleness(&cookie, at(62)), Some(Duration::from_secs(2)));
        let longer = Cookie {
            life: Some(Duration::from_secs(61)),
            ..cookie.clone()
        };
        assert_eq!(staleness(&longer, at(62)), Some(Duration::from_secs(1)));
    }
}

#[test]
fn changes_its_key_and_accepts_the_one_before() {
    let mut signing = Signing::new();
    let cookie = signing.cookie();
    let old = signing.sign(&cookie);
    signing.now += KEY_LIFETIME;
    let new = signing.sign(&cookie);
    assert_ne!(old, new);
    assert!(signing.signer.verify(signing.now, &old, origin()).is_ok());
    assert!(signing.signer.verify(signing.now, &new, origin()).is_ok());
    signing.now += KEY_LIFETIME;
    signing.sign(&cookie);
    assert!(signing.signer.verify(signing.now, &old, origin()).is_err());
}

#[test]
fn a_cookie_is_not_fresh_again_when_its_clock_has_gone_round() {
    let mut signing = Signing::new();
    let cookie = signing.cookie();
    let old = signing.sign(&cookie);
    // Nobody asked for a cookie since, so the key has not changed.
    signing.now += Duration::from_micros(TIME_MODULUS);
    let staleness = signing.signer.staleness(signing.now, &cookie, LIFE);
    assert_eq!(staleness, None, "by the time it carries");
    assert!(signing.signer.verify(signing.now, &old, origin()).is_err());
}
