//! Opening records of TLS 1.2 with AES in CBC mode (RFC 5246 section 6.2.3.2).

use aes::cipher::{BlockCipherDecrypt, KeyInit};
use ring::hmac;

/// Octets of a block of AES, and of the initialisation vector that each record begins with.
const BLOCK: usize = 16;

/// The keys of one direction.
pub(super) struct Cbc {
    aes: Aes,
    mac: hmac::Key,
    /// Whether the MAC is of what is encrypted, and behind it (RFC 7366); else of the content, and encrypted with it.
    encrypts_then_macs: bool,
}

enum Aes {
    Of128(aes::Aes128),
    Of256(aes::Aes256),
}

impl Cbc {
    /// `None` where the key is none of 128 or 256 bits.
    pub(super) fn new(
        key: &[u8],
        mac: hmac::Algorithm,
        mac_key: &[u8],
        encrypts_then_macs: bool,
    ) -> Option<Cbc> {
        let aes = match key.len() {
            16 => Aes::Of128(aes::Aes128::new_from_slice(key).ok()?),
            32 => Aes::Of256(aes::Aes256::new_from_slice(key).ok()?),
            _ => return None,
        };
        Some(Cbc {
            aes,
            mac: hmac::Key::new(mac, mac_key),
            encrypts_then_macs,
        })
    }

    /// The content of the record with this sequence number.
    pub(super) fn open(&self, sequence: u64, header: [u8; 5], body: &[u8]) -> Option<Vec<u8>> {
        let [kind, major, minor, ..] = header;
        let verify = |octets: &[u8], mac: &[u8]| {
            let length = u16::try_from(octets.len()).ok()?;
            let all = [
                &sequence.to_be_bytes()[..],
                &[kind, major, minor],
                &length.to_be_bytes(),
                octets,
            ];
            hmac::verify(&self.mac, &all.concat(), mac).ok()
        };
        let mac_length = self.mac.algorithm().digest_algorithm().output_len();
        let before_mac = |octets: &[u8]| octets.len().checked_sub(mac_length);
        if self.encrypts_then_macs {
            let (encrypted, mac) = body.split_at_checked(before_mac(body)?)?;
            verify(encrypted, mac)?;
            self.decrypt(encrypted)
        } else {
            let mut content = self.decrypt(body)?;
            let mac = content.split_off(before_mac(&content)?);
            verify(&content, &mac)?;
            Some(content)
        }
    }

    /// What is behind the initialisation vector, without its padding: so many octets as each of them says, and one more.
    fn decrypt(&self, encrypted: &[u8]) -> Option<Vec<u8>> {
        let (vector, encrypted) = encrypted.split_first_chunk::<BLOCK>()?;
        let (blocks, rest) = encrypted.as_chunks::<BLOCK>();
        if !rest.is_empty() {
            return None;
        }
        let mut content = Vec::with_capacity(encrypted.len());
        let mut before = vector;
        for block in blocks {
            let mut opened = (*block).into();
            match &self.aes {
                Aes::Of128(aes) => aes.decrypt_block(&mut opened),
                Aes::Of256(aes) => aes.decrypt_block(&mut opened),
            }
            content.extend(opened.iter().zip(before).map(|(one, other)| one ^ other));
            before = block;
        }
        let padding = usize::from(*content.last()?);
        let end = content.len().checked_sub(padding + 1)?;
        let is_padding = |octet: &u8| usize::from(*octet) == padding;
        content[end..].iter().all(is_padding).then(|| {
            content.truncate(end);
            content
        })
    }
}
