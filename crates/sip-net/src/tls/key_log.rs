//! The secrets of connections, written for debugging.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::error::TlsError;

/// A file in the format of the environment variable `SSLKEYLOGFILE`
/// (draft-ietf-tls-keylogfile): a line a secret.
#[derive(Debug)]
pub(super) struct KeyLogFile {
    file: Mutex<File>,
}

impl KeyLogFile {
    /// Opens the file, which nobody but its owner can read where it is new.
    pub(super) fn open(path: &Path) -> Result<KeyLogFile, TlsError> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| TlsError::file(path, error))?;
        Ok(KeyLogFile {
            file: Mutex::new(file),
        })
    }
}

impl rustls::KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line =
            String::with_capacity(label.len() + 2 * (client_random.len() + secret.len()));
        line.push_str(label);
        for octets in [client_random, secret] {
            line.push(' ');
            for octet in octets {
                // Writing into a string does not fail.
                let _ = write!(line, "{octet:02x}");
            }
        }
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::warn!(%error, "the key log cannot be written");
        }
    }
}
