//! The ciphers that there are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A cipher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encryption {
    /// In the clear.
    #[default]
    None,
    /// AES with a key of 256 bits in Galois/Counter Mode.
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    /// ChaCha20 and Poly1305.
    #[serde(rename = "chacha20-poly1305")]
    ChaCha20Poly1305,
    /// DES in Cipher Feedback Mode, what Adnan 2012 measured. Insecure: its key of 56 bits is found by
    /// trying all of them, and nothing tells whether a packet was changed.
    DesCfb,
}

impl Encryption {
    /// All of them.
    pub const ALL: [Encryption; 4] = [
        Encryption::None,
        Encryption::Aes256Gcm,
        Encryption::ChaCha20Poly1305,
        Encryption::DesCfb,
    ];

    /// Whether it protects anything today.
    pub fn is_secure(self) -> bool {
        match self {
            Encryption::Aes256Gcm | Encryption::ChaCha20Poly1305 => true,
            Encryption::None | Encryption::DesCfb => false,
        }
    }

    /// Octets by which a packet grows.
    pub fn overhead(self) -> usize {
        match self {
            Encryption::None | Encryption::DesCfb => 0,
            Encryption::Aes256Gcm | Encryption::ChaCha20Poly1305 => TAG_OCTETS,
        }
    }

    /// Its name with a warning where one is due.
    pub fn label(self) -> String {
        match self {
            Encryption::DesCfb => format!("{self} (insecure)"),
            _ => self.to_string(),
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Encryption::None => 0,
            Encryption::Aes256Gcm => 1,
            Encryption::ChaCha20Poly1305 => 2,
            Encryption::DesCfb => 3,
        }
    }

    pub(crate) fn of(code: u8) -> Option<Encryption> {
        Encryption::ALL
            .into_iter()
            .find(|encryption| encryption.code() == code)
    }
}

impl fmt::Display for Encryption {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Encryption::None => "none",
            Encryption::Aes256Gcm => "aes-256-gcm",
            Encryption::ChaCha20Poly1305 => "chacha20-poly1305",
            Encryption::DesCfb => "des-cfb",
        })
    }
}

impl FromStr for Encryption {
    type Err = String;

    fn from_str(text: &str) -> Result<Encryption, String> {
        let found = Encryption::ALL
            .into_iter()
            .find(|one| one.to_string() == text);
        found.ok_or_else(|| {
            let names = Encryption::ALL.map(|one| one.to_string()).join(", ");
            format!("\"{text}\" is not an encryption: use one of {names}")
        })
    }
}

/// Octets of an authentication tag.
pub(crate) const TAG_OCTETS: usize = 16;
