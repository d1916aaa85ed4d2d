//! The secrets of TLS sessions, as programs log them for whoever may look into their traffic
//! (the NSS key log format, RFC 9850).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The secrets of how many sessions are kept; those of more are left out.
const MOST_SESSIONS: usize = 1_000_000;

/// The secrets of TLS sessions, from the file that the environment variable `SSLKEYLOGFILE` names in many
/// programs, or that capture files bring. Clones share what is known until one learns more.
#[derive(Clone, Default)]
pub struct KeyLog {
    /// By the random number of the ClientHello.
    sessions: Arc<BTreeMap<[u8; 32], Secrets>>,
}

/// The secrets of a session; for TLS 1.3 those of the client and those of the server.
#[derive(Clone, Default)]
pub(super) struct Secrets {
    /// The master secret of TLS 1.2.
    pub(super) master: Option<Box<[u8]>>,
    /// The handshake traffic secrets of TLS 1.3.
    pub(super) handshake: [Option<Box<[u8]>>; 2],
    /// The first application traffic secrets of TLS 1.3.
    pub(super) application: [Option<Box<[u8]>>; 2],
}

impl KeyLog {
    /// Adds the lines of a key log, and returns how many of them had a secret that is of use. Others, such as
    /// comments, do not matter.
    pub fn add(&mut self, lines: &[u8]) -> usize {
        let sessions = Arc::make_mut(&mut self.sessions);
        let lines = lines.split(|&octet| octet == b'\n');
        lines.filter_map(|line| add_line(sessions, line)).count()
    }

    /// How many sessions have secrets in it.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(super) fn secrets(&self, client_random: &[u8; 32]) -> Option<&Secrets> {
        self.sessions.get(client_random)
    }
}

/// Secrets are nothing to print.
impl fmt::Debug for KeyLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("KeyLog")
            .field("sessions", &self.len())
            .finish_non_exhaustive()
    }
}

/// Adds the secret of one line: label, random number of the client, secret.
fn add_line(sessions: &mut BTreeMap<[u8; 32], Secrets>, line: &[u8]) -> Option<()> {
    let mut words = line.trim_ascii().split(|&octet| octet == b' ');
    let label = words.next()?;
    if !LABELS.contains(&label) {
        return None;
    }
    let client_random: [u8; 32] = hexadecimal(words.next()?)?.try_into().ok()?;
    let secret = hexadecimal(words.next()?)?.into_boxed_slice();
    if sessions.len() == MOST_SESSIONS && !sessions.contains_key(&client_random) {
        return None;
    }
    let secrets = sessions.entry(client_random).or_default();
    let place = match label {
        b"CLIENT_RANDOM" => &mut secrets.master,
        b"CLIENT_HANDSHAKE_TRAFFIC_SECRET" => &mut secrets.handshake[0],
        b"SERVER_HANDSHAKE_TRAFFIC_SECRET" => &mut secrets.handshake[1],
        b"CLIENT_TRAFFIC_SECRET_0" => &mut secrets.application[0],
        _ => &mut secrets.application[1],
    };
    *place = Some(secret);
    Some(())
}

/// The labels of secrets that are of use here.
const LABELS: [&[u8]; 5] = [
    b"CLIENT_RANDOM",
    b"CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    b"SERVER_HANDSHAKE_TRAFFIC_SECRET",
    b"CLIENT_TRAFFIC_SECRET_0",
    b"SERVER_TRAFFIC_SECRET_0",
];

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |octet: u8| Some(char::from(octet).to_digit(16)? as u8);
    // No secret is longer than the longest hash.
    if !digits.len().is_multiple_of(2) || digits.len() > 128 {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_log() {
        let random = "ab".repeat(32);
        let lines = format!(
            "# a comment\nCLIENT_RANDOM {random} 0102\r\nSERVER_TRAFFIC_SECRET_0 {random} FF\n\
             EXPORTER_SECRET {random} 00\nCLIENT_RANDOM abcd 00\nCLIENT_RANDOM {random} 0\nCLIENT_RANDOM\n"
        );
        let mut log = KeyLog::default();
        assert_eq!(log.add(lines.as_bytes()), 2);
        assert_eq!(log.len(), 1);
        let secrets = log.secrets(&[0xab; 32]).unwrap();
        assert_eq!(secrets.master.as_deref(), Some(&[1, 2][..]));
        assert_eq!(secrets.application[1].as_deref(), Some(&[255][..]));
        assert!(log.secrets(&[0; 32]).is_none());
    }
}
