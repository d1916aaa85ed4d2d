//! Keys in session descriptions: `a=crypto` (RFC 4568).

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use crate::srtp::{MasterKey, Suite};

/// A line of `a=crypto` with what we support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crypto {
    /// The line's number; an answer repeats it (RFC 4568 section 5.1.2).
    pub tag: u32,
    /// The key of the side that wrote the line.
    pub key: MasterKey,
}

impl Crypto {
    /// Reads the value of a line. `None` when it is not valid, or has something that we do not support: another suite, several
    /// keys, or one of the session parameters that change what is protected (RFC 4568 sections 6.1 and 6.3).
    pub fn read(value: &str) -> Option<Crypto> {
        let mut words = value.split_ascii_whitespace();
        let tag = words.next()?;
        let suite = Suite::named(words.next()?)?;
        let key = words.next()?;
        // A number of one to nine digits (RFC 4568 section 9.1).
        let is_tag = tag.len() <= 9 && tag.bytes().all(|digit| digit.is_ascii_digit());
        let tag = tag.parse().ok().filter(|_| is_tag)?;
        words.all(is_harmless).then_some(())?;
        let key = read_key(suite, key)?;
        Some(Crypto { tag, key })
    }

    /// The value of a line.
    pub fn write(&self) -> String {
        let suite = self.key.suite().name();
        let key = STANDARD.encode(self.key.key_and_salt());
        format!("{} {suite} inline:{key}", self.tag)
    }
}

/// Parameters that may be passed over: the hint of a window's size (RFC 4568 section 6.3.6), and those that say so (section
/// 6.3.7). A key derivation rate of zero is what we do.
fn is_harmless(parameter: &str) -> bool {
    let window = parameter.strip_prefix("WSH=");
    parameter.starts_with('-')
        || parameter == "KDR=0"
        || window.is_some_and(|size| size.parse::<u32>().is_ok_and(|size| size >= 64))
}

/// `inline:KEY[|LIFETIME][|MKI:LENGTH]` (RFC 4568 section 9.2).
fn read_key(suite: Suite, text: &str) -> Option<MasterKey> {
    let mut parts = text.strip_prefix("inline:")?.split('|');
    let key = parts.next()?;
    // The padding is not told apart from none (RFC 4568 section 6.1).
    let octets = STANDARD_NO_PAD.decode(key.trim_end_matches('=')).ok()?;
    let mut key = MasterKey::new(suite, &octets)?;
    let mut parts = parts.peekable();
    if let Some(lifetime) = parts.next_if(|part| !part.contains(':')) {
        key = key.with_lifetime(read_lifetime(lifetime)?);
    }
    if let Some(mki) = parts.next() {
        key = key.with_mki(read_mki(mki)?)?;
    }
    parts.next().is_none().then_some(key)
}

fn read_lifetime(text: &str) -> Option<u64> {
    let packets = match text.strip_prefix("2^") {
        Some(exponent) => 1_u64.checked_shl(exponent.parse().ok()?)?,
        None => text.parse().ok()?,
    };
    (packets > 0).then_some(packets)
}

/// The identifier as it is in packets: a number of so many octets.
fn read_mki(text: &str) -> Option<Vec<u8>> {
    let (value, length) = text.split_once(':')?;
    let length: usize = length.parse().ok()?;
    let value = value.parse::<u128>().ok()?.to_be_bytes();
    let used = value.iter().skip_while(|octet| **octet == 0).count();
    // The field may be longer than the number, which has to fit into 128 bits.
    if used > length || !(1..=128).contains(&length) {
        return None;
    }
    let mut mki = vec![0; length.saturating_sub(value.len())];
    mki.extend(value.iter().skip(value.len().saturating_sub(length)));
    Some(mki)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::srtp::{Protector, Unprotector};

    const KEY: &str = "inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";

    #[test]
    fn the_line_of_the_example_is_read() {
        // RFC 4568 section 7.1.5, without the order of error correction.
        let line = format!("1 AES_CM_128_HMAC_SHA1_80 {KEY}|2^20|1:4");
        let crypto = Crypto::read(&line).unwrap();
        assert_eq!(crypto.tag, 1);
        assert_eq!(crypto.key.suite(), Suite::AesCm128HmacSha1_80);
        assert_eq!(
            crypto.key.key_and_salt(),
            b"YS___semctl () {\t220;}\n}\nunles"
        );
        // The identifier is in each packet.
        let mut octets = [0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 1, 2].to_vec();
        Protector::new(&crypto.key)
            .protect_rtp(&mut octets)
            .unwrap();
        assert_eq!(octets.len(), 14 + 4 + 10);
        assert_eq!(octets[14..18], [0, 0, 0, 1]);
        Unprotector::new(&crypto.key)
            .unprotect_rtp(&mut octets)
            .unwrap();
    }

    #[test]
    fn what_was_written_is_read() {
        for suite in Suite::ALL {
            let octets: Vec<u8> = (0..suite.key_and_salt_octets() as u8).collect();
            let crypto = Crypto {
                tag: 7,
                key: MasterKey::new(suite, &octets).unwrap(),
            };
            assert_eq!(Crypto::read(&crypto.write()), Some(crypto));
        }
    }

    #[test]
    fn what_is_not_supported_is_not_taken() {
        let suite = "AES_CM_128_HMAC_SHA1_80";
        for good in ["", " WSH=64", " -SOMETHING=1", " KDR=0"] {
            assert!(
                Crypto::read(&format!("1 {suite} {KEY}{good}")).is_some(),
                "{good}"
            );
        }
        for bad in [
            format!("1 F8_128_HMAC_SHA1_80 {KEY}"),
            format!("1 AEAD_AES_128_GCM {KEY}"),
            format!("x {suite} {KEY}"),
            format!("1234567890 {suite} {KEY}"),
            format!("1 {suite} {KEY} UNENCRYPTED_SRTP"),
            format!("1 {suite} {KEY} UNAUTHENTICATED_SRTP"),
            format!("1 {suite} {KEY} UNENCRYPTED_SRTCP"),
            format!("1 {suite} {KEY} FEC_ORDER=FEC_SRTP"),
            format!("1 {suite} {KEY} KDR=1"),
            format!("1 {suite} {KEY} SOMETHING"),
            format!("1 {suite} {KEY}|1:4;{KEY}|2:4"),
            format!("1 {suite} {KEY}|2^20|1"),
            format!("1 {suite} {KEY}|2^20|1:129"),
            format!("1 {suite} {KEY}|2^20|256:1"),
            format!("1 {suite} {KEY}|2^99"),
            format!("1 {suite} {KEY}|0"),
            format!("1 {suite} uri:https://example.org/key"),
            format!("1 {suite}"),
            String::new(),
        ] {
            assert_eq!(Crypto::read(&bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn anything_may_come(text in "[0-9]{1,3} AES_CM_128_HMAC_SHA1_(80|32) inline:[A-Za-z0-9+/=]{38,42}(\\|[0-9^:|]{0,8})?( [A-Z_=0-9-]{0,9})?") {
            if let Some(crypto) = Crypto::read(&text) {
                Protector::new(&crypto.key);
            }
        }
    }
}
