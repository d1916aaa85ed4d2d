//! SRTP and SRTCP (RFC 3711), with AES in counter mode and HMAC-SHA1 or AES in Galois/Counter Mode (RFC 7714).
//!
//! [`Protector`] encrypts and authenticates the packets of one direction, [`Unprotector`] checks and decrypts those of the
//! other one. Each has its own master key (RFC 4568 section 6.1). Key derivation happens once (a rate of zero, RFC 3711
//! section 4.3.1), no packet is sent without encryption or authentication, and one that comes without is dropped.

mod cipher;
mod index;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use cipher::SessionKeys;
pub use cipher::{MAX_KEY_AND_SALT_OCTETS, Suite};
use index::{ReplayWindow, RtpIndex};

use crate::rtp;

/// Octets of the word behind an RTCP packet: whether it is encrypted, and its index (RFC 3711 section 3.4).
const INDEX_OCTETS: usize = 4;
/// The bit that says that an RTCP packet is encrypted.
const ENCRYPTED: u32 = 1 << 31;
/// RTCP packets that one key protects (RFC 3711 section 9.2).
const MAX_RTCP_PACKETS: u64 = 1 << 31;
/// Packets that one key protects (RFC 3711 section 9.2).
const MAX_PACKETS: u64 = 1 << 48;
/// Authenticated sources whose state is kept. A peer that begins more often under one key is not heard any more.
const MAX_SOURCES: usize = 256;
/// Octets up to the source of an RTCP packet; they are authenticated and not encrypted (RFC 3711 section 3.4).
const RTCP_HEADER_OCTETS: usize = 8;
/// The longest master key identifier (RFC 4568 section 6.1).
const MAX_MKI_OCTETS: usize = 128;

/// The secret of one direction.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey {
    suite: Suite,
    key_and_salt: Vec<u8>,
    mki: Vec<u8>,
    lifetime: u64,
}

/// The text is no secret.
impl fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MasterKey")
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

impl MasterKey {
    /// The key and salt of a suite, one behind the other. `None` when they do not have its length.
    pub fn new(suite: Suite, key_and_salt: &[u8]) -> Option<MasterKey> {
        (key_and_salt.len() == suite.key_and_salt_octets()).then(|| MasterKey {
            suite,
            key_and_salt: key_and_salt.to_vec(),
            mki: Vec::new(),
            lifetime: MAX_PACKETS,
        })
    }

    /// Each packet under this key names it by this identifier (RFC 3711 section 3.1). `None` when it is too long.
    pub fn with_mki(mut self, mki: Vec<u8>) -> Option<MasterKey> {
        self.mki = mki;
        (self.mki.len() <= MAX_MKI_OCTETS).then_some(self)
    }

    /// So many packets, of RTP or of RTCP, may be protected by it (RFC 4568 section 6.1).
    pub fn with_lifetime(mut self, packets: u64) -> MasterKey {
        self.lifetime = packets.min(MAX_PACKETS);
        self
    }

    /// The suite.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The key with its salt behind it.
    pub fn key_and_salt(&self) -> &[u8] {
        &self.key_and_salt
    }
}

/// Why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SrtpError {
    /// It is no RTP or RTCP packet, or shorter than what protects it.
    #[error("no packet of SRTP")]
    Malformed,
    /// It was changed, or protected by another key.
    #[error("not authentic")]
    NotAuthentic,
    /// It has come before, or is too old to tell (RFC 3711 section 3.3.2).
    #[error("replayed")]
    Replayed,
    /// The key has protected as many packets as it may (RFC 3711 section 9.2).
    #[error("the key is worn out")]
    KeyExpired,
    /// Too many sources under one key.
    #[error("too many sources")]
    TooManySources,
}

/// Protects the packets that are sent.
#[derive(Debug)]
pub struct Protector {
    keys: SessionKeys,
    mki: Vec<u8>,
    lifetime: u64,
    sources: BTreeMap<u32, RtpIndex>,
    packets: u64,
    /// RTCP packets so far; the index of the last one (RFC 3711 section 3.4).
    reports: u64,
}

impl Protector {
    /// Protects packets from now on.
    pub fn new(key: &MasterKey) -> Protector {
        Protector {
            keys: SessionKeys::derive(key.suite, &key.key_and_salt),
            mki: key.mki.clone(),
            lifetime: key.lifetime,
            sources: BTreeMap::new(),
            packets: 0,
            reports: 0,
        }
    }

    /// Makes an SRTP packet of an RTP packet. Packets of a source have ascending sequence numbers.
    ///
    /// # Errors
    ///
    /// It is no RTP packet, or may not be sent any more.
    pub fn protect_rtp(&mut self, packet: &mut Vec<u8>) -> Result<(), SrtpError> {
        let header = rtp::header_octets(packet).ok_or(SrtpError::Malformed)?;
        let (ssrc, sequence) = rtp::source_and_sequence(packet).ok_or(SrtpError::Malformed)?;
        if self.packets >= self.lifetime {
            return Err(SrtpError::KeyExpired);
        }
        if !self.sources.contains_key(&ssrc) && self.sources.len() >= MAX_SOURCES {
            return Err(SrtpError::TooManySources);
        }
        let source = self
            .sources
            .entry(ssrc)
            .or_insert_with(|| RtpIndex::starting_at(sequence));
        let index = source.estimate(sequence);
        source.accept(index);
        self.packets += 1;
        self.keys.seal_rtp(packet, header, ssrc, index, &self.mki);
        Ok(())
    }

    /// Makes an SRTCP packet of a compound packet.
    ///
    /// # Errors
    ///
    /// It is no RTCP packet, or may not be sent any more.
    pub fn protect_rtcp(&mut self, packet: &mut Vec<u8>) -> Result<(), SrtpError> {
        let ssrc = rtcp_source(packet).ok_or(SrtpError::Malformed)?;
        if self.reports >= self.lifetime.min(MAX_RTCP_PACKETS - 1) {
            return Err(SrtpError::KeyExpired);
        }
        // The first one has index 1 (RFC 3711 section 3.4).
        self.reports += 1;
        let word = ENCRYPTED | self.reports as u32;
        self.keys.seal_rtcp(packet, ssrc, word, &self.mki);
        Ok(())
    }
}

/// Checks the packets that come.
#[derive(Debug)]
pub struct Unprotector {
    keys: SessionKeys,
    mki: Vec<u8>,
    lifetime: u64,
    /// Sources of which an authentic packet has come: strangers leave no state behind (RFC 4568 section 6.4.1).
    sources: BTreeMap<u32, Source>,
    packets: u64,
    reports: u64,
}

#[derive(Debug)]
struct Source {
    /// `None` when only reports have come.
    rtp: Option<(RtpIndex, ReplayWindow)>,
    rtcp: ReplayWindow,
}

impl Unprotector {
    /// Checks packets from now on.
    pub fn new(key: &MasterKey) -> Unprotector {
        Unprotector {
            keys: SessionKeys::derive(key.suite, &key.key_and_salt),
            mki: key.mki.clone(),
            lifetime: key.lifetime,
            sources: BTreeMap::new(),
            packets: 0,
            reports: 0,
        }
    }

    /// Makes an RTP packet of an SRTP packet; one that is dropped is left as it was, or in part decrypted.
    ///
    /// # Errors
    ///
    /// Why it is dropped.
    pub fn unprotect_rtp(&mut self, packet: &mut Vec<u8>) -> Result<(), SrtpError> {
        let header = rtp::header_octets(packet).ok_or(SrtpError::Malformed)?;
        let (ssrc, sequence) = rtp::source_and_sequence(packet).ok_or(SrtpError::Malformed)?;
        if self.packets >= self.lifetime {
            return Err(SrtpError::KeyExpired);
        }
        let known = self.sources.get(&ssrc);
        if known.is_none() && self.sources.len() >= MAX_SOURCES {
            return Err(SrtpError::TooManySources);
        }
        let known = known.and_then(|source| source.rtp.as_ref());
        let index = match known {
            Some((index, window)) => {
                let index = index.estimate(sequence);
                if !window.is_new(index) {
                    return Err(SrtpError::Replayed);
                }
                index
            }
            None => u64::from(sequence),
        };
        self.keys.open_rtp(packet, header, ssrc, index, &self.mki)?;
        self.packets += 1;
        let source = self.sources.entry(ssrc).or_insert_with(Source::new);
        let begun = || (RtpIndex::starting_at(sequence), ReplayWindow::default());
        let (last, window) = source.rtp.get_or_insert_with(begun);
        last.accept(index);
        window.accept(index);
        Ok(())
    }

    /// Makes a compound packet of an SRTCP packet; one that is dropped is left as it was, or in part decrypted.
    ///
    /// # Errors
    ///
    /// Why it is dropped.
    pub fn unprotect_rtcp(&mut self, packet: &mut Vec<u8>) -> Result<(), SrtpError> {
        let ssrc = rtcp_source(packet).ok_or(SrtpError::Malformed)?;
        if self.reports >= self.lifetime.min(MAX_RTCP_PACKETS) {
            return Err(SrtpError::KeyExpired);
        }
        let known = self.sources.get(&ssrc);
        if known.is_none() && self.sources.len() >= MAX_SOURCES {
            return Err(SrtpError::TooManySources);
        }
        let word = self.keys.rtcp_index_word(packet, &self.mki)?;
        // RFC 4568 section 6: the bit must not say that a packet is not encrypted.
        if word & ENCRYPTED == 0 {
            return Err(SrtpError::Malformed);
        }
        let index = u64::from(word & !ENCRYPTED);
        if known.is_some_and(|source| !source.rtcp.is_new(index)) {
            return Err(SrtpError::Replayed);
        }
        self.keys.open_rtcp(packet, ssrc, word, &self.mki)?;
        self.reports += 1;
        let source = self.sources.entry(ssrc).or_insert_with(Source::new);
        source.rtcp.accept(index);
        Ok(())
    }
}

impl Source {
    fn new() -> Source {
        Source {
            rtp: None,
            rtcp: ReplayWindow::default(),
        }
    }
}

/// The source of the first packet of a compound packet.
fn rtcp_source(packet: &[u8]) -> Option<u32> {
    let header = packet.first_chunk::<RTCP_HEADER_OCTETS>()?;
    let [first, _, _, _, ssrc @ ..] = *header;
    (first & 0xc0 == rtp::VERSION_BITS && rtp::is_rtcp(packet)).then(|| u32::from_be_bytes(ssrc))
}
