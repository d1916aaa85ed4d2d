//! Other traffic beside the calls: UDP datagrams at a rate between two other addresses, as the published
//! experiments had a second pair of hosts fill a part of the link.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use udp_net::{PLAIN_BATCH, Piece, PlainBatch, PlainSocket};

/// Traffic that is to go on beside the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// The address that it leaves from, one of this host; port 0 lets the system choose.
    pub from: SocketAddr,
    /// Where it goes. Where that is an address of this host it is received, too.
    pub to: SocketAddr,
    /// Bits of payload a second.
    pub bits_per_second: u64,
    /// Octets of payload in a datagram.
    pub payload: usize,
}

impl Background {
    /// Octets in a datagram that iperf chooses: what an Ethernet frame holds, less some for headers.
    pub const PAYLOAD: usize = 1470;
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundTotal {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that the system did not send.
    pub not_sent: u64,
    /// Datagrams received, where they were received here.
    pub received: Option<u64>,
    /// How long it went on.
    pub time: Duration,
}

/// Octets of the kernel's buffers to ask for.
const BUFFER: usize = 4 << 20;

/// From one burst to the next.
const TICK: Duration = Duration::from_millis(1);

/// What is owed for longer is not made up for: the rate is a part of the link, not a total.
const LONGEST_DEBT: Duration = Duration::from_millis(50);

/// From the last datagram sent to the last one received, at most.
const PATIENCE: Duration = Duration::from_millis(200);

/// Traffic under way; it ends with this.
#[derive(Debug)]
pub(super) struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    is_received: bool,
    started: Instant,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    sent: AtomicU64,
    not_sent: AtomicU64,
    received: AtomicU64,
}

impl Running {
    /// Opens the sockets and begins.
    pub(super) fn start(background: Background) -> io::Result<Running> {
        let shared = Arc::new(Shared::default());
        let receiver = match PlainSocket::bind(background.to, false, BUFFER) {
            Ok(receiver) => Some(receiver),
            // Another host's: somebody there receives it, or nobody.
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => None,
            Err(error) => return Err(error),
        };
        let sender = PlainSocket::bind(background.from, false, BUFFER)?;
        let to = match &receiver {
            Some(receiver) => receiver.local_addr(),
            None => background.to,
        };
        let is_received = receiver.is_some();
        let background = Background { to, ..background };
        let sending = shared.clone();
        let mut threads = vec![spawn("load-background", move || {
            send(&sender, background, &sending);
        })?];
        if let Some(receiver) = receiver {
            let receiving = shared.clone();
            threads.push(spawn("load-receiver", move || {
                receive(&receiver, &receiving)
            })?);
        }
        Ok(Running {
            shared,
            threads,
            is_received,
            started: Instant::now(),
        })
    }

    /// What became of it so far.
    pub(super) fn total(&self) -> BackgroundTotal {
        BackgroundTotal {
            sent: self.shared.sent.load(Relaxed),
            not_sent: self.shared.not_sent.load(Relaxed),
            received: self.is_received.then(|| self.shared.received.load(Relaxed)),
            time: self.started.elapsed(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

fn send(socket: &PlainSocket, background: Background, shared: &Shared) {
    let payload = background.payload.max(1);
    let octets = vec![0x55; payload];
    let piece = Piece {
        start: 0,
        length: payload,
        destination: background.to,
    };
    let pieces = [piece; PLAIN_BATCH];
    let per_second = background.bits_per_second as f64 / 8.0 / payload as f64;
    let mut owed = 0.0;
    let mut last = Instant::now();
    while !shared.is_over.load(Relaxed) {
        let now = Instant::now();
        let passed = now.saturating_duration_since(last).min(LONGEST_DEBT);
        last = now;
        owed += per_second * passed.as_secs_f64();
        while owed >= 1.0 {
            let count = (owed as usize).min(PLAIN_BATCH);
            let sent = socket.send(&octets, &pieces[..count]).unwrap_or(0);
            shared.sent.fetch_add(sent as u64, Relaxed);
            owed -= count as f64;
            if sent < count {
                // The link is full: that is what a link's queue drops, too.
                shared.not_sent.fetch_add((count - sent) as u64, Relaxed);
                break;
            }
        }
        thread::sleep(TICK);
    }
}

fn receive(socket: &PlainSocket, shared: &Shared) {
    let mut batch = PlainBatch::new();
    let mut over_since = None;
    loop {
        match socket.receive(&mut batch) {
            Ok(count) => {
                shared.received.fetch_add(count as u64, Relaxed);
            }
            Err(_) => thread::sleep(TICK),
        }
        if shared.is_over.load(Relaxed) {
            let since = *over_since.get_or_insert_with(Instant::now);
            let is_all = shared.received.load(Relaxed) >= shared.sent.load(Relaxed);
            if is_all || since.elapsed() >= PATIENCE {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_at_its_rate_and_is_received() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let running = Running::start(Background {
            from: here,
            to: here,
            bits_per_second: 8_000_000,
            payload: 1000,
        })
        .unwrap();
        // 1000 datagrams a second: never more than that, and some of them on any machine.
        let deadline = Instant::now() + Duration::from_secs(20);
        while running.total().received.unwrap() < 50 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let total = running.total();
        assert!(total.received.unwrap() >= 50, "{total:?}");
        let most = 1000.0 * total.time.as_secs_f64() + PLAIN_BATCH as f64;
        assert!((total.sent as f64) <= most, "{total:?}");
    }
}
