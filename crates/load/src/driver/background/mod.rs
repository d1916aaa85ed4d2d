//! Other traffic beside the calls: UDP datagrams at a rate between two other addresses, as the published
//! experiments had a second pair of hosts fill a part of the link.
//!
//! It goes on as long as there are users. What is counted are the datagrams of a run: each names in its first
//! octets the run that it belongs to, so that none that is under way between two of them is taken for lost.

mod count;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use udp_net::{DatagramSlice, PLAIN_BATCH, PlainBatch, PlainSocket};

pub use count::{BackgroundSummary, BackgroundTotal};
use count::{Count, MARK};

/// Traffic that is to go on beside the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// The address that it leaves from, one of this host; port 0 lets the system choose.
    pub from: SocketAddr,
    /// Where it goes. Where that is an address of this host it is received, too. Port 0 lets the system choose
    /// one here, and is the discard port elsewhere (9; RFC 863).
    pub to: SocketAddr,
    /// Bits of payload a second.
    pub bits_per_second: u64,
    /// Octets of payload in a datagram, four at least.
    pub payload: usize,
}

impl Background {
    /// Octets in a datagram that iperf chooses: what an Ethernet frame holds, less some for headers.
    pub const PAYLOAD: usize = 1470;

    /// The port of other hosts that throws away what comes (RFC 863).
    const DISCARD: u16 = 9;
}

/// Octets of the kernel's buffers to ask for.
const BUFFER: usize = 4 << 20;

/// From one burst to the next.
const TICK: Duration = Duration::from_millis(1);

/// From the last datagram sent to the last one received, at most.
const COUNT_TIMEOUT: Duration = Duration::from_millis(200);

/// Traffic under way; it ends with this.
#[derive(Debug)]
pub(super) struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    is_received: bool,
    #[cfg(test)]
    to: SocketAddr,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    count: Mutex<Count>,
}

impl Shared {
    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Opens the sockets and begins. Nothing is counted yet.
    pub(super) fn start(background: Background) -> io::Result<Running> {
        let receiver = match PlainSocket::bind(background.to, false, BUFFER) {
            Ok(receiver) => Some(receiver),
            // Another host's: somebody there receives it, or nobody.
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => None,
            Err(error) => return Err(error),
        };
        let sender = PlainSocket::bind(background.from, false, BUFFER)?;
        let mut to = background.to;
        match &receiver {
            Some(receiver) => to = receiver.local_addr(),
            None if to.port() == 0 => to.set_port(Background::DISCARD),
            None => {}
        }
        let is_received = receiver.is_some();
        let background = Background { to, ..background };
        let shared = Arc::new(Shared::default());
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
            #[cfg(test)]
            to,
        })
    }

    /// A run begins: from now on datagrams count.
    pub(super) fn begin(&self) {
        self.shared.count().begin(Instant::now());
    }

    /// The run is over: what is sent from now on is none of its datagrams.
    pub(super) fn end(&self) {
        self.shared.count().end(Instant::now());
    }

    /// What became of the datagrams of the run that is over, when the last of them has come or is late.
    pub(super) async fn total(&self) -> BackgroundTotal {
        let asked = Instant::now();
        loop {
            let total = self.shared.count().total(self.is_received);
            let is_all = total.lost().is_none_or(|lost| lost == 0);
            if is_all || asked.elapsed() >= COUNT_TIMEOUT {
                return total;
            }
            tokio::time::sleep(TICK).await;
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
    let payload = background.payload.max(MARK);
    let mut octets = vec![0x55; payload];
    let slice = DatagramSlice {
        start: 0,
        length: payload,
        destination: background.to,
    };
    let slices = [slice; PLAIN_BATCH];
    let per_second = background.bits_per_second as f64 / 8.0 / payload as f64;
    while !shared.is_over.load(Relaxed) {
        let mut owed = shared.count().owed(Instant::now(), per_second);
        while owed > 0 {
            // No run may begin or end between the mark and the count.
            let mut count = shared.count();
            octets[..MARK].copy_from_slice(&count.mark());
            let wanted = owed.min(PLAIN_BATCH);
            match socket.send(&octets, &slices[..wanted]) {
                Ok(sent) if sent == wanted => {
                    count.sent(sent, payload);
                    owed -= sent;
                }
                // The link is full: that is what a link's queue drops, too.
                Ok(sent) => {
                    count.sent(sent, payload);
                    count.not_sent(owed - sent, None);
                    owed = 0;
                }
                Err(error) => {
                    count.not_sent(owed, Some(&error));
                    owed = 0;
                }
            }
        }
        thread::sleep(TICK);
    }
}

fn receive(socket: &PlainSocket, shared: &Shared) {
    let mut batch = PlainBatch::new();
    while !shared.is_over.load(Relaxed) {
        match socket.receive(&mut batch) {
            Ok(_) => {
                let mut count = shared.count();
                for (_, octets) in batch.datagrams() {
                    count.received(octets);
                }
            }
            Err(_) => thread::sleep(TICK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until something is so of the datagrams of the run.
    fn wait_until(running: &Running, is_so: impl Fn(&BackgroundTotal) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so(&running.shared.count().total(running.is_received)) {
            assert!(Instant::now() < deadline, "{:?}", running.shared.count());
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[tokio::test]
    async fn it_goes_at_its_rate_and_is_received() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let running = Running::start(Background {
            from: here,
            to: here,
            bits_per_second: 8_000_000,
            payload: 1000,
        })
        .unwrap();
        for _ in 0..2 {
            running.begin();
            // 1000 datagrams a second: never more than that, and some of them on any machine.
            wait_until(&running, |total| total.received >= Some(50));
            running.end();
            let total = running.total().await;
            let received = total.received.unwrap();
            assert!((50..=total.sent).contains(&received), "{total:?}");
            // What is owed from the time before, or was about to be sent, is twice that of 50 ms at most.
            let most = 1000.0 * (total.time.as_secs_f64() + 0.1) + 1.0;
            assert!((total.sent as f64) <= most, "{total:?}");
            assert_eq!(total.error, None);
        }
    }

    /// Datagrams from a loopback address have no way to another host, whatever the network is.
    #[tokio::test]
    async fn what_cannot_be_sent_is_told() {
        let running = Running::start(Background {
            from: SocketAddr::from(([127, 0, 0, 1], 0)),
            to: SocketAddr::from(([192, 0, 2, 1], 0)),
            bits_per_second: 8_000_000,
            payload: 1000,
        })
        .unwrap();
        assert_eq!(running.to.port(), Background::DISCARD);
        running.begin();
        wait_until(&running, |total| total.not_sent >= 10);
        running.end();
        let total = running.total().await;
        assert_eq!((total.sent, total.received), (0, None), "{total:?}");
        assert!(total.error.is_some(), "{total:?}");
    }
}
