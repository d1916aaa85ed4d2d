//! A slow network that loses packets, between two programs that speak UDP on loopback.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Passes the datagrams of one client on to a port, and those from there back. What it has no time for waits in the
/// buffers of its sockets, and is lost where these are full.
pub(super) struct Relay {
    port: u16,
    is_over: Arc<AtomicBool>,
}

/// One direction.
struct Direction {
    from: UdpSocket,
    to: UdpSocket,
    bytes_per_second: u32,
    loss: f64,
}

impl Relay {
    /// One to a port, with this rate and loss in each direction.
    pub(super) fn start(destination: u16, bytes_per_second: u32, loss: f64) -> Relay {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            let timeout = Duration::from_millis(100);
            socket.set_read_timeout(Some(timeout)).expect("a timeout");
            socket
        };
        let (front, back) = (socket(), socket());
        back.connect(("127.0.0.1", destination)).expect("a peer");
        let relay = Relay {
            port: front.local_addr().expect("bound").port(),
            is_over: Arc::default(),
        };
        let clone = |socket: &UdpSocket| socket.try_clone().expect("a descriptor");
        let client = Arc::new(Mutex::new(None));
        for (from, to) in [(clone(&front), clone(&back)), (back, front)] {
            let direction = Direction {
                from,
                to,
                bytes_per_second,
                loss,
            };
            let (is_over, client) = (Arc::clone(&relay.is_over), Arc::clone(&client));
            thread::spawn(move || direction.run(&is_over, &client));
        }
        relay
    }

    /// Where the client sends to.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Direction {
    fn run(&self, is_over: &AtomicBool, client: &Mutex<Option<SocketAddr>>) {
        let is_back = self.from.peer_addr().is_ok();
        let mut buffer = [0; 65_536];
        let mut random = 1_u64;
        while !is_over.load(Ordering::Relaxed) {
            let received = match is_back {
                true => self.from.recv(&mut buffer),
                false => self.from.recv_from(&mut buffer).map(|(length, source)| {
                    *client.lock().expect("no panic inside") = Some(source);
                    length
                }),
            };
            let Ok(length) = received else {
                // Nothing has come for a while, or the other side is not there.
                continue;
            };
            // Knuth's MMIX: the same losses in each run.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if ((random >> 11) as f64) < self.loss * (1_u64 << 53) as f64 {
                continue;
            }
            thread::sleep(Duration::from_secs_f64(
                length as f64 / f64::from(self.bytes_per_second),
            ));
            let _: io::Result<usize> = match *client.lock().expect("no panic inside") {
                Some(client) if is_back => self.to.send_to(&buffer[..length], client),
                _ => self.to.send(&buffer[..length]),
            };
        }
    }
}
