//! Keys of SRTP by a DTLS handshake between the media (RFC 5763, RFC 5764), by the crate `dimpl`.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use dimpl::crypto::rust_crypto;
use dimpl::{Config, Dtls, DtlsCertificate, Error, Output, SrtpProfile};
use media::srtp::{MasterKey, Suite};

use crate::negotiation::Fingerprint;

/// Octets of the largest certificate that the other side can show: it comes in no more than 30 datagrams of 2,048 octets, and
/// `dimpl` panics where there is no room for it.
const MAX_OUTPUT: usize = 64 << 10;

/// Our certificate: of this phone and this run, and signed by nobody. Its fingerprint is in the signalling. All calls have one: who
/// knows it from a call before is to know us again (RFC 5763 sections 6.1 and 8.4). Anonymous calls should have one each, but the
/// phone makes none: its calls show the address of record.
#[derive(Clone)]
pub(crate) struct Certificate(DtlsCertificate);

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Certificate({:?})", self.fingerprint())
    }
}

impl Certificate {
    /// A new one, with a key of its own. `None` when the system has no randomness for it.
    pub(crate) fn generate() -> Option<Certificate> {
        let key = rcgen::KeyPair::generate().ok()?;
        // No name says who the user is (RFC 5763 section 6.1).
        let params = rcgen::CertificateParams::new(Vec::new()).ok()?;
        let certificate = params.self_signed(&key).ok()?;
        Some(Certificate(DtlsCertificate {
            certificate: certificate.der().to_vec(),
            private_key: key.serialize_der(),
        }))
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.0.certificate)
    }
}

/// The keys of both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) send: MasterKey,
    pub(crate) receive: MasterKey,
}

/// A handshake.
pub(crate) struct Handshake {
    dtls: Dtls,
    is_client: bool,
    fingerprints: Vec<Fingerprint>,
    buffer: Vec<u8>,
    transmits: Vec<Vec<u8>>,
    due: Option<Instant>,
    is_verified: bool,
    keys: Option<Keys>,
    has_failed: bool,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Handshake({:?})", self.dtls)
    }
}

impl Handshake {
    /// Begins as client, or waits for the other side to.
    pub(crate) fn new(
        now: Instant,
        certificate: &Certificate,
        fingerprints: Vec<Fingerprint>,
        is_client: bool,
    ) -> Option<Handshake> {
        let config = Config::builder()
            .with_crypto_provider(rust_crypto::default_provider())
            .build()
            .ok()?;
        let mut dtls = Dtls::new_auto(Arc::new(config), certificate.0.clone(), now);
        dtls.set_active(is_client);
        let mut handshake = Handshake {
            dtls,
            is_client,
            fingerprints,
            buffer: vec![0; MAX_OUTPUT],
            transmits: Vec::new(),
            due: None,
            is_verified: false,
            keys: None,
            has_failed: false,
        };
        handshake.handle_timeout(now);
        Some(handshake)
    }

    /// A datagram came. Anybody may have sent it: one that is no answer to ours ends no handshake, and none ends a call that has
    /// keys. A handshake that cannot go on is ended by its timers.
    pub(crate) fn handle(&mut self, octets: &[u8]) {
        if !self.has_failed
            && let Err(error) = self.dtls.handle_packet(octets)
        {
            let is_harmless =
                matches!(error, Error::UnexpectedMessage(_) | Error::ReceiveQueueFull);
            self.has_failed = self.keys.is_none() && !is_harmless;
        }
        self.drain();
    }

    /// Time has passed: what was not answered is sent again.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if !self.has_failed && self.due.is_none_or(|due| due <= now) {
            self.has_failed = self.dtls.handle_timeout(now).is_err();
            self.drain();
        }
    }

    /// The datagrams that are to be sent.
    pub(crate) fn take_transmits(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.transmits)
    }

    /// The keys, once both sides have them and the other side has shown that it is the one of the signalling.
    pub(crate) fn keys(&self) -> Option<&Keys> {
        self.keys
            .as_ref()
            .filter(|_| self.is_verified && !self.has_failed)
    }

    /// It will not come to keys: the media have to be torn down (RFC 5763 section 5).
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn drain(&mut self) {
        let mut is_connected = false;
        loop {
            let mut keys = None;
            let needed = match self.dtls.poll_output(&mut self.buffer) {
                Output::Packet(octets) => {
                    self.transmits.push(octets.to_vec());
                    continue;
                }
                Output::BufferTooSmall { needed } => needed,
                Output::Timeout(due) => {
                    self.due = Some(due);
                    // The other side did not ask for keys of SRTP (RFC 5764 section 4.1).
                    self.has_failed |= is_connected && self.keys.is_none();
                    return;
                }
                Output::Connected => {
                    is_connected = true;
                    continue;
                }
                Output::PeerCert(certificate) => {
                    let mut fingerprints = self.fingerprints.iter();
                    self.is_verified = fingerprints.any(|one| one.fits(certificate));
                    self.has_failed |= !self.is_verified;
                    continue;
                }
                Output::KeyingMaterial(material, profile) => {
                    keys = split(&material, profile, self.is_client);
                    0
                }
                // What else there is has no use for us; the farewell ends no call.
                _ => continue,
            };
            if needed > 0 {
                self.buffer.resize(needed, 0);
            } else {
                self.has_failed |= keys.is_none();
                self.keys = keys;
            }
        }
    }
}

/// The keys of the client and of the server, then their salts (RFC 5764 section 4.2).
fn split(material: &[u8], profile: SrtpProfile, is_client: bool) -> Option<Keys> {
    let suite = match profile {
        SrtpProfile::AES128_CM_SHA1_80 => Suite::AesCm128HmacSha1_80,
        SrtpProfile::AEAD_AES_128_GCM => Suite::AeadAes128Gcm,
        SrtpProfile::AEAD_AES_256_GCM => Suite::AeadAes256Gcm,
        _ => return None,
    };
    let key_octets = suite.key_octets();
    let salt_octets = suite.key_and_salt_octets() - key_octets;
    let (client_key, rest) = material.split_at_checked(key_octets)?;
    let (server_key, rest) = rest.split_at_checked(key_octets)?;
    let (client_salt, rest) = rest.split_at_checked(salt_octets)?;
    let (server_salt, _) = rest.split_at_checked(salt_octets)?;
    let client = MasterKey::new(suite, &[client_key, client_salt].concat())?;
    let server = MasterKey::new(suite, &[server_key, server_salt].concat())?;
    Some(match is_client {
        true => Keys {
            send: client,
            receive: server,
        },
        false => Keys {
            send: server,
            receive: client,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Carries datagrams both ways until nothing more comes; each third one of the first ones is lost.
    fn carry(ends: &mut [Handshake; 2], start: Instant, loses: bool) {
        let mut count = 0;
        for tick in 0..1_500 {
            let now = start + Duration::from_millis(20) * tick;
            for (from, to) in [(0, 1), (1, 0)] {
                ends[from].handle_timeout(now);
                for octets in ends[from].take_transmits() {
                    count += 1;
                    if !(loses && count % 3 == 0 && count < 20) {
                        ends[to].handle(&octets);
                    }
                }
            }
        }
    }

    fn ends(start: Instant, expected_of_client: Option<Fingerprint>) -> [Handshake; 2] {
        let certificates = [(); 2].map(|()| Certificate::generate().unwrap());
        let prints = certificates.clone().map(|one| one.fingerprint());
        let [client, server] = prints;
        let client = expected_of_client.unwrap_or(client);
        [
            Handshake::new(start, &certificates[0], vec![server], true).unwrap(),
            Handshake::new(start, &certificates[1], vec![client], false).unwrap(),
        ]
    }

    #[test]
    fn both_ends_have_the_same_keys() {
        for loses in [false, true] {
            let start = Instant::now();
            let mut ends = ends(start, None);
            carry(&mut ends, start, loses);
            let [client, server] = ends;
            let (client, server) = (client.keys().unwrap(), server.keys().unwrap());
            assert_eq!(client.send, server.receive);
            assert_eq!(client.receive, server.send);
            assert_ne!(client.send, client.receive);
            assert_eq!(client.send.suite(), Suite::AeadAes256Gcm);
        }
    }

    #[test]
    fn a_certificate_that_was_not_signalled_gets_no_keys() {
        let start = Instant::now();
        let other = Certificate::generate().unwrap().fingerprint();
        let mut ends = ends(start, Some(other));
        carry(&mut ends, start, false);
        let [_, server] = ends;
        assert!(server.has_failed() && server.keys().is_none());
    }

    #[test]
    fn what_strangers_send_ends_neither_a_handshake_nor_a_call() {
        let start = Instant::now();
        let mut ends = ends(start, None);
        for end in &mut ends {
            end.handle(&[20; 40]);
        }
        carry(&mut ends, start, false);
        for end in &mut ends {
            // An alert that nothing authenticates.
            end.handle(&[21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40]);
            assert!(end.keys().is_some() && !end.has_failed());
        }
    }

    #[test]
    fn a_large_certificate_is_read() {
        let start = Instant::now();
        let key = rcgen::KeyPair::generate().unwrap();
        let names: Vec<String> = (0..200).map(|one| format!("{one}.example.org")).collect();
        let params = rcgen::CertificateParams::new(names).unwrap();
        let large = Certificate(DtlsCertificate {
            certificate: params.self_signed(&key).unwrap().der().to_vec(),
            private_key: key.serialize_der(),
        });
        assert!(large.0.certificate.len() > 2_048);
        let small = Certificate::generate().unwrap();
        let (of_large, of_small) = (large.fingerprint(), small.fingerprint());
        let mut ends = [
            Handshake::new(start, &large, vec![of_small], true).unwrap(),
            Handshake::new(start, &small, vec![of_large], false).unwrap(),
        ];
        carry(&mut ends, start, false);
        assert!(ends.iter().all(|end| end.keys().is_some()));
    }

    #[test]
    fn anything_may_come() {
        let start = Instant::now();
        for first in [20, 21, 22, 23, 25, 26, 44, 63_u8] {
            let mut ends = ends(start, None);
            ends[1].handle(&[first; 40]);
            ends[1].handle(&[first, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]);
            assert!(ends[1].keys().is_none());
        }
    }
}
