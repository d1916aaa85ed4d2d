//! Steering a run from elsewhere: SIPp's remote control.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::UdpSocket;

use super::screen::{Key, key_of_character};

/// A UDP port of this host, whose datagrams are keys, or commands: `p`, `q`, `cset rate 50`.
pub(super) struct RemoteControl(UdpSocket);

impl RemoteControl {
    /// Listens on loopback alone: whoever can send there steers the run.
    pub(super) async fn open(port: u16) -> io::Result<RemoteControl> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let socket = UdpSocket::bind(address).await.map_err(|error| {
            io::Error::new(error.kind(), format!("--control-port {port}: {error}"))
        })?;
        Ok(RemoteControl(socket))
    }

    /// What the next datagram that is understood asks for.
    pub(super) async fn key(&self) -> Key {
        let mut octets = [0; 512];
        loop {
            match self.0.recv(&mut octets).await {
                Ok(length) => {
                    let text = octets.get(..length).unwrap_or_default();
                    if let Some(key) = std::str::from_utf8(text).ok().and_then(key_of) {
                        return key;
                    }
                }
                // What the network says of a datagram sent earlier: we send none.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }
}

/// A key by its character, or a command behind `c`.
fn key_of(text: &str) -> Option<Key> {
    let text = text.trim_end_matches(['\0', '\r', '\n']);
    if let Some(command) = text.strip_prefix('c') {
        let words: Vec<&str> = command.split_ascii_whitespace().collect();
        let ["set", "rate", rate] = words.as_slice() else {
            return None;
        };
        let rate: f64 = rate.parse().ok()?;
        return (rate.is_finite() && rate >= 0.0).then_some(Key::SetRate(rate));
    }
    let mut characters = text.chars();
    let first = characters.next()?;
    characters
        .as_str()
        .is_empty()
        .then(|| key_of_character(first))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_keys_or_commands() {
        for (text, key) in [
            ("p", Some(Key::Pause)),
            ("q\n", Some(Key::Quit)),
            ("+", Some(Key::Rate(1))),
            ("cset rate 50.5\n", Some(Key::SetRate(50.5))),
            ("cset rate -1", None),
            ("cset rate NaN", None),
            ("cset users 5", None),
            ("pq", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(key_of(text), key, "{text}");
        }
    }

    #[tokio::test]
    async fn what_is_not_understood_is_passed_over() {
        let control = RemoteControl::open(0).await.unwrap();
        let to = control.0.local_addr().unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for datagram in [&b"\xff"[..], b"", b"cset", b"cset rate 7"] {
            sender.send_to(datagram, to).unwrap();
        }
        assert_eq!(control.key().await, Key::SetRate(7.0));
    }
}
