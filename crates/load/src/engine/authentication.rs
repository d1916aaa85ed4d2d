//! Authentication: challenges and credentials (RFC 3261 section 22, RFC 7616).

use std::io::Write;

use sip::digest::{Algorithm, Authorization, Challenge, Credentials};

use super::received::Received;

/// How many challenges are remembered for a user: one of the registrar and one of each proxy on the way.
const MAXIMUM_CHALLENGES: usize = 4;

/// A challenge that can be answered: it is answered again for as long as the server takes the nonce.
#[derive(Clone, Debug)]
pub(super) struct Challenged {
    realm: Box<str>,
    nonce: Box<str>,
    opaque: Option<Box<str>>,
    algorithm: Algorithm,
    offers_auth: bool,
    is_proxy: bool,
    /// Requests sent with this nonce.
    count: u32,
    username: Box<str>,
    credentials: Credentials,
}

/// A challenge that has been understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Understood {
    /// The hash of the realm and of who asks; never 0.
    pub(super) realm: u32,
    /// The password may have been right, but the nonce was too old.
    pub(super) is_stale: bool,
}

/// Takes in the challenges of a 401 or 407: of each realm the first one that we understand (RFC 8760
/// section 2.4). Earlier challenges of the same realm are forgotten.
pub(super) fn learn(
    known: &mut Vec<Challenged>,
    response: &Received<'_>,
    username: &str,
    password: &str,
) -> Vec<Understood> {
    let mut understood: Vec<Understood> = Vec::new();
    for (name, is_proxy) in [("WWW-Authenticate", false), ("Proxy-Authenticate", true)] {
        response.each_named(name, |value| {
            let Ok(challenge) = Challenge::parse(value) else {
                return;
            };
            let realm = realm_hash(&challenge.realm, is_proxy);
            if understood.iter().any(|other| other.realm == realm) {
                return;
            }
            known.retain(|other| other.realm[..] != *challenge.realm || other.is_proxy != is_proxy);
            if known.len() >= MAXIMUM_CHALLENGES {
                known.remove(0);
            }
            understood.push(Understood {
                realm,
                is_stale: challenge.is_stale,
            });
            known.push(Challenged::new(&challenge, is_proxy, username, password));
        });
    }
    understood
}

/// Whether a request has credentials that a name and a password prove.
pub(super) fn proves(request: &Received<'_>, username: &[u8], password: &[u8]) -> bool {
    let Some(method) = request.method() else {
        return false;
    };
    let username = String::from_utf8_lossy(username);
    let mut is_proved = false;
    for name in ["Authorization", "Proxy-Authorization"] {
        request.each_named(name, |value| {
            if let Ok(authorization) = Authorization::parse(value) {
                let credentials = Credentials::new(&username, &authorization.realm, password);
                is_proved |= authorization.username == username
                    && authorization.is_proved_by(&credentials, method.as_str());
            }
        });
    }
    is_proved
}

/// FNV-1a: only ever compared within a run.
fn realm_hash(realm: &str, is_proxy: bool) -> u32 {
    let octets = realm.bytes().chain([u8::from(is_proxy)]);
    let hash = octets.fold(0x811c_9dc5_u32, |hash, octet| {
        (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}

impl Challenged {
    fn new(
        challenge: &Challenge<'_>,
        is_proxy: bool,
        username: &str,
        password: &str,
    ) -> Challenged {
        let a1 = [
            username.as_bytes(),
            challenge.realm.as_bytes(),
            password.as_bytes(),
        ];
        let hash = challenge.algorithm.hash(&a1);
        let mut credentials = Credentials::default();
        match challenge.algorithm {
            Algorithm::Md5 => credentials.md5 = hash.as_bytes().try_into().ok(),
            Algorithm::Sha256 => credentials.sha256 = hash.as_bytes().try_into().ok(),
            Algorithm::Sha512_256 => credentials.sha512_256 = hash.as_bytes().try_into().ok(),
        }
        Challenged {
            realm: (&*challenge.realm).into(),
            nonce: (&*challenge.nonce).into(),
            opaque: challenge.opaque.as_deref().map(Into::into),
            algorithm: challenge.algorithm,
            offers_auth: challenge.offers_auth,
            is_proxy,
            count: 0,
            username: username.into(),
            credentials,
        }
    }

    /// Writes the header field that answers the challenge for a request, line end included.
    pub(super) fn write(&mut self, method: &str, uri: &str, cnonce: u64, out: &mut Vec<u8>) {
        self.count = self.count.wrapping_add(1);
        let challenge = Challenge {
            realm: (&*self.realm).into(),
            nonce: (&*self.nonce).into(),
            algorithm: self.algorithm,
            opaque: self.opaque.as_deref().map(Into::into),
            is_stale: false,
            offers_auth: self.offers_auth,
        };
        let cnonce = format!("{cnonce:016x}");
        let authorization = challenge.authorize_with(
            &self.username,
            &self.credentials,
            method,
            uri,
            self.count,
            &cnonce,
        );
        let name = if self.is_proxy {
            "Proxy-Authorization"
        } else {
            "Authorization"
        };
        // Writing to memory does not fail.
        let _ = write!(out, "{name}: {authorization}\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(challenges: &str) -> String {
        format!(
            "SIP/2.0 401 Unauthorized\r\nVia: SIP/2.0/UDP a\r\nFrom: <sip:a>\r\nTo: <sip:b>\r\n\
             Call-ID: 1\r\nCSeq: 1 REGISTER\r\n{challenges}\r\n"
        )
    }

    #[test]
    fn of_each_realm_the_first_challenge_that_is_understood_is_answered() {
        let text = response(
            "WWW-Authenticate: Digest realm=\"r\", nonce=\"0\", algorithm=SHA-1, qop=\"auth\"\r\n\
             WWW-Authenticate: Digest realm=\"r\", nonce=\"1\", algorithm=SHA-256, qop=\"auth\"\r\n\
             WWW-Authenticate: Digest realm=\"r\", nonce=\"2\", algorithm=MD5, qop=\"auth\"\r\n\
             Proxy-Authenticate: Digest realm=\"r\", nonce=\"3\", stale=true\r\n",
        );
        let received = Received::read(text.as_bytes()).unwrap();
        let mut known = Vec::new();
        let understood = learn(&mut known, &received, "alice", "secret");
        assert_eq!(understood.len(), 2);
        assert_eq!(
            [false, true],
            [understood[0].is_stale, understood[1].is_stale]
        );
        assert_ne!(understood[0].realm, understood[1].realm);
        let mut lines = Vec::new();
        for challenged in &mut known {
            challenged.write("REGISTER", "sip:r", 7, &mut lines);
        }
        let lines = String::from_utf8(lines).unwrap();
        let values: Vec<_> = lines
            .lines()
            .map(|line| line.split_once(": ").unwrap())
            .collect();
        assert_eq!(
            [values[0].0, values[1].0],
            ["Authorization", "Proxy-Authorization"]
        );
        for (_, value) in values {
            let authorization = Authorization::parse(value.as_bytes()).unwrap();
            let credentials = Credentials::new("alice", "r", b"secret");
            assert!(authorization.is_proved_by(&credentials, "REGISTER"));
        }
    }

    #[test]
    fn a_nonce_is_counted_and_replaced() {
        let challenge = |nonce| {
            response(&format!(
                "WWW-Authenticate: Digest realm=\"r\", nonce=\"{nonce}\", qop=\"auth\"\r\n"
            ))
        };
        let mut known = Vec::new();
        for nonce in ["1", "2"] {
            let text = challenge(nonce);
            learn(
                &mut known,
                &Received::read(text.as_bytes()).unwrap(),
                "a",
                "b",
            );
        }
        assert_eq!(known.len(), 1);
        let mut lines = Vec::new();
        known[0].write("BYE", "sip:r", 7, &mut lines);
        known[0].write("BYE", "sip:r", 8, &mut lines);
        let lines = String::from_utf8(lines).unwrap();
        assert!(lines.contains("nonce=\"2\"") && !lines.contains("nonce=\"1\""));
        assert!(
            lines.contains("nc=00000001") && lines.contains("nc=00000002"),
            "{lines}"
        );
    }
}
