//! SRTP of a call (RFC 3711), with keys of its session descriptions (RFC 4568).

use std::borrow::Cow;

use media::sdes::Crypto;
use media::srtp::{MasterKey, Protector, SrtpError, Unprotector};
use sip::sdp::SessionDescription;

use super::remote::audio_of;

/// Lines of `a=crypto` that are looked at.
const MAX_LINES: usize = 32;

/// Keys of each direction whose state is kept when others take their place; beyond, the oldest are forgotten.
const MAX_CONTEXTS: usize = 32;

/// The keys of both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrtpKeys {
    /// Of what we send: it is in our description.
    pub send: MasterKey,
    /// Of what comes: it is in the other side's.
    pub receive: MasterKey,
}

impl SrtpKeys {
    /// The keys on which two descriptions agree, of which the other one answers the offer. `None` where they do not: the media
    /// are sent as they are then, if their profile lets them.
    ///
    /// The answer has the tag and the suite of a line of the offer (RFC 4568 section 5.1.2). Scenarios of SIPp give its one
    /// line the tag 1 whatever was chosen: then the suite alone counts, as with SIPp.
    pub fn agreed(ours: &[Crypto], theirs: &[Crypto]) -> Option<SrtpKeys> {
        let pairs = || {
            let with = |ours| theirs.iter().map(move |theirs: &Crypto| (ours, theirs));
            ours.iter().flat_map(with)
        };
        let has_suite =
            |(ours, theirs): &(&Crypto, &Crypto)| ours.key.suite() == theirs.key.suite();
        let has_tag = |(ours, theirs): &(&Crypto, &Crypto)| ours.tag == theirs.tag;
        let exact = pairs().find(|pair| has_suite(pair) && has_tag(pair));
        let (ours, theirs) = exact.or_else(|| pairs().find(has_suite))?;
        Some(SrtpKeys {
            send: ours.key.clone(),
            receive: theirs.key.clone(),
        })
    }
}

/// The lines of `a=crypto` that we support, of the audio of a description that [`Remote`](super::Remote) reads.
pub fn crypto_of(description: &[u8]) -> Vec<Crypto> {
    let Ok(description) = SessionDescription::read(description) else {
        return Vec::new();
    };
    let audio = audio_of(&description).map(|(section, _)| section);
    let attributes = audio.into_iter().flat_map(|section| section.attributes());
    attributes
        .filter(|attribute| attribute.name == "crypto")
        .take(MAX_LINES)
        .filter_map(|attribute| Crypto::read(attribute.text()?))
        .collect()
}

/// Protects what a call sends, and checks what comes.
#[derive(Debug)]
pub(super) struct Protection {
    keys: SrtpKeys,
    protector: Protector,
    unprotector: Unprotector,
    /// The packet that is being made.
    packet: Vec<u8>,
}

/// The state of keys that a call does not use now. A key that is used again goes on where it was: indices that begin anew
/// would encrypt other packets with the same key stream (RFC 3711 section 9.1).
#[derive(Debug, Default)]
pub(super) struct Contexts {
    protectors: Vec<(MasterKey, Protector)>,
    unprotectors: Vec<(MasterKey, Unprotector)>,
}

impl Contexts {
    /// Keys are in use no more.
    pub(super) fn keep(&mut self, protection: Protection) {
        let SrtpKeys { send, receive } = protection.keys;
        keep(&mut self.protectors, send, protection.protector);
        keep(&mut self.unprotectors, receive, protection.unprotector);
    }

    /// Keys are in use from now on.
    pub(super) fn protection(&mut self, keys: SrtpKeys) -> Protection {
        let protector = take(&mut self.protectors, &keys.send);
        let unprotector = take(&mut self.unprotectors, &keys.receive);
        Protection {
            protector: protector.unwrap_or_else(|| Protector::new(&keys.send)),
            unprotector: unprotector.unwrap_or_else(|| Unprotector::new(&keys.receive)),
            keys,
            packet: Vec::new(),
        }
    }
}

fn keep<T>(contexts: &mut Vec<(MasterKey, T)>, key: MasterKey, context: T) {
    if contexts.len() >= MAX_CONTEXTS {
        contexts.remove(0);
    }
    contexts.push((key, context));
}

fn take<T>(contexts: &mut Vec<(MasterKey, T)>, key: &MasterKey) -> Option<T> {
    let at = contexts.iter().position(|(kept, _)| kept == key)?;
    Some(contexts.remove(at).1)
}

impl Protection {
    pub(super) fn keys(&self) -> &SrtpKeys {
        &self.keys
    }

    /// Appends what `write` writes, as a packet of SRTP; nothing where it may not be sent (RFC 3711 section 9.2).
    pub(super) fn seal_rtp<T>(
        &mut self,
        into: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        self.seal(into, write, Protector::protect_rtp)
    }

    /// The same for SRTCP.
    pub(super) fn seal_rtcp<T>(
        &mut self,
        into: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        self.seal(into, write, Protector::protect_rtcp)
    }

    fn seal<T>(
        &mut self,
        into: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> T,
        protect: impl FnOnce(&mut Protector, &mut Vec<u8>) -> Result<(), SrtpError>,
    ) -> T {
        self.packet.clear();
        let written = write(&mut self.packet);
        if protect(&mut self.protector, &mut self.packet).is_ok() {
            into.extend_from_slice(&self.packet);
        }
        written
    }

    /// The packet of RTP in a packet of SRTP.
    pub(super) fn open_rtp(&mut self, octets: &[u8]) -> Result<Cow<'static, [u8]>, SrtpError> {
        let mut packet = octets.to_vec();
        self.unprotector.unprotect_rtp(&mut packet)?;
        Ok(packet.into())
    }

    /// The packet of RTCP in a packet of SRTCP.
    pub(super) fn open_rtcp(&mut self, octets: &[u8]) -> Result<Cow<'static, [u8]>, SrtpError> {
        let mut packet = octets.to_vec();
        self.unprotector.unprotect_rtcp(&mut packet)?;
        Ok(packet.into())
    }
}

#[cfg(test)]
mod tests {
    use media::srtp::Suite;

    use super::*;

    fn line(tag: u32, suite: Suite, octet: u8) -> Crypto {
        let key = MasterKey::new(suite, &vec![octet; suite.key_and_salt_octets()]);
        Crypto {
            tag,
            key: key.unwrap(),
        }
    }

    #[test]
    fn an_answer_takes_one_of_the_lines_that_were_offered() {
        const LONG: Suite = Suite::AesCm128HmacSha1_80;
        const SHORT: Suite = Suite::AesCm128HmacSha1_32;
        let offer = [line(1, LONG, 1), line(2, SHORT, 2), line(3, LONG, 3)];
        for (answer, chosen) in [
            (line(1, LONG, 9), Some(0)),
            (line(2, SHORT, 9), Some(1)),
            (line(3, LONG, 9), Some(2)),
            // SIPp's way to choose the second one.
            (line(1, SHORT, 9), Some(1)),
            (line(1, Suite::AeadAes128Gcm, 9), None),
        ] {
            let answer = [answer];
            let keys = chosen.map(|at: usize| SrtpKeys {
                send: offer[at].key.clone(),
                receive: answer[0].key.clone(),
            });
            assert_eq!(SrtpKeys::agreed(&offer, &answer), keys);
            let theirs = SrtpKeys::agreed(&answer, &offer);
            let turned = keys.map(|keys| SrtpKeys {
                send: keys.receive,
                receive: keys.send,
            });
            assert_eq!(theirs, turned);
        }
        assert_eq!(SrtpKeys::agreed(&offer, &[]), None);
    }

    /// RFC 3711 section 9.1: no index of a key twice, whatever other keys there were.
    #[test]
    fn keys_that_are_used_again_go_on() {
        let [one, other] = [1, 2].map(|octet| line(1, Suite::AesCm128HmacSha1_80, octet).key);
        let keys = |send: &MasterKey, receive: &MasterKey| SrtpKeys {
            send: send.clone(),
            receive: receive.clone(),
        };
        let mut contexts = Contexts::default();
        let mut protection = contexts.protection(keys(&one, &other));
        let seal = |protection: &mut Protection, sequence: u16| {
            let mut sealed = Vec::new();
            protection.seal_rtp(&mut sealed, |octets| {
                octets.extend([0x80, 0]);
                octets.extend(sequence.to_be_bytes());
                octets.extend([0; 8]);
                octets.extend([0x55; 20]);
            });
            sealed
        };
        let first = seal(&mut protection, 7);
        for sequence in [30_000, 60_000] {
            seal(&mut protection, sequence);
        }
        // The other side's key alone changes, then there is none of ours, then another one.
        for between in [Some(keys(&one, &one)), None, Some(keys(&other, &one))] {
            contexts.keep(protection);
            if let Some(between) = between {
                let between = contexts.protection(between);
                contexts.keep(between);
            }
            protection = contexts.protection(keys(&one, &other));
        }
        // The number has begun again.
        assert_ne!(seal(&mut protection, 7), first);
        for octet in 0..100 {
            let key = line(1, Suite::AesCm128HmacSha1_80, octet).key;
            let protection = contexts.protection(keys(&key, &key));
            contexts.keep(protection);
        }
        assert_eq!(contexts.protectors.len(), MAX_CONTEXTS);
    }

    #[test]
    fn lines_of_the_audio_alone_count() {
        let key = "inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";
        let description = format!(
            "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
             m=video 5000 RTP/SAVP 96\r\na=crypto:7 AES_CM_128_HMAC_SHA1_80 {key}\r\n\
             m=audio 4000 RTP/SAVP 0\r\na=crypto:1 NULL_HMAC_SHA1_80 {key}\r\n\
             a=crypto:2 AES_CM_128_HMAC_SHA1_32 {key}\r\n\
             a=crypto:3 AES_CM_128_HMAC_SHA1_80 {key} UNENCRYPTED_SRTP\r\n"
        );
        let lines = crypto_of(description.as_bytes());
        let lines: Vec<_> = lines.iter().map(|one| (one.tag, one.key.suite())).collect();
        assert_eq!(lines, [(2, Suite::AesCm128HmacSha1_32)]);
        // Media go to the audio whose profile is known: its lines count.
        let feedback = format!(
            "m=audio 6000 RTP/SAVPF 0\r\na=crypto:9 AES_CM_128_HMAC_SHA1_80 {key}\r\nm=audio 4000"
        );
        let description = description.replace("m=audio 4000", &feedback);
        let lines = crypto_of(description.as_bytes());
        assert_eq!(lines.iter().map(|one| one.tag).collect::<Vec<_>>(), [2]);
        assert!(crypto_of(b"hello").is_empty());
    }
}
