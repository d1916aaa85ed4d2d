//! What stands between two phones and loses packets of sound on their way to the one that is called, the same ones in
//! each call with the same seed.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use media::rtp;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

/// A way to a phone. It ends when this is dropped.
pub(crate) struct LossyLink {
    /// Where the phone is called through it.
    pub(crate) address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The two sides of a link.
struct Link {
    /// Signalling of both sides.
    signalling: UdpSocket,
    /// Sound for the one that is called.
    sound: UdpSocket,
    called: SocketAddr,
    caller: Option<SocketAddr>,
    /// Where the one that is called takes sound.
    sound_to: Option<SocketAddr>,
    /// The part of the packets that is lost, from 0 to 1.
    loss: f64,
    rng: ChaCha12Rng,
}

impl LossyLink {
    /// A way to the phone at an address of UDP on loopback.
    pub(crate) fn to(called: SocketAddr, loss: f64, seed: u64) -> LossyLink {
        let bind = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let nonblocking = socket.set_read_timeout(Some(Duration::from_millis(1)));
            nonblocking.expect("a socket that has time-outs");
            socket
        };
        let link = Link {
            signalling: bind(),
            sound: bind(),
            called,
            caller: None,
            sound_to: None,
            loss,
            rng: ChaCha12Rng::seed_from_u64(seed),
        };
        let address = link.signalling.local_addr().expect("an address");
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || link.carry(&ends));
        LossyLink {
            address,
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for LossyLink {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Link {
    fn carry(mut self, is_over: &AtomicBool) {
        let mut buffer = [0; 4_096];
        while !is_over.load(Ordering::Relaxed) {
            if let Ok((length, from)) = self.signalling.recv_from(&mut buffer) {
                self.pass_on(&buffer[..length], from);
            }
            if let Ok((length, _)) = self.sound.recv_from(&mut buffer) {
                self.pass_on_sound(&buffer[..length]);
            }
        }
    }

    fn pass_on(&mut self, message: &[u8], from: SocketAddr) {
        let to = if from == self.called {
            let Some(caller) = self.caller else {
                return;
            };
            caller
        } else {
            self.caller = Some(from);
            self.called
        };
        let message = match from == self.called {
            true => self.with_our_port(message),
            false => message.to_vec(),
        };
        self.signalling.send_to(&message, to).ok();
    }

    /// Has the caller send its sound to us. A description is behind the header, its address before its port.
    fn with_our_port(&mut self, message: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(message);
        let Some((header, description)) = text.split_once("\r\n\r\n") else {
            return message.to_vec();
        };
        let ours = self.sound.local_addr().expect("an address");
        let mut rewritten = String::new();
        let mut ip = None;
        for line in description.lines() {
            if let Some(address) = line.strip_prefix("c=IN IP4 ") {
                ip = address.parse().ok();
                rewritten.push_str(&format!("c=IN IP4 {}\r\n", ours.ip()));
                continue;
            }
            let port = line
                .strip_prefix("m=audio ")
                .and_then(|rest| rest.split_once(' '));
            if let (Some((port, rest)), Some(ip)) = (port, ip) {
                let port = port.parse().expect("a port");
                self.sound_to = Some(SocketAddr::new(ip, port));
                rewritten.push_str(&format!("m=audio {} {rest}\r\n", ours.port()));
                continue;
            }
            rewritten.push_str(&format!("{line}\r\n"));
        }
        let fields = header.lines().map(|field| {
            match field.to_ascii_lowercase().starts_with("content-length:") {
                true => format!("Content-Length: {}\r\n", rewritten.len()),
                false => format!("{field}\r\n"),
            }
        });
        let header: String = fields.collect();
        format!("{header}\r\n{rewritten}").into_bytes()
    }

    fn pass_on_sound(&mut self, packet: &[u8]) {
        let is_lost = !rtp::is_rtcp(packet) && self.rng.random_bool(self.loss);
        if let (false, Some(to)) = (is_lost, self.sound_to) {
            self.sound.send_to(packet, to).ok();
        }
    }
}
