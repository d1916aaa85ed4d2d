//! A thread that hears packets, so that the kernel never waits for the screen.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use packet_socket::{OpenError, PacketSocket};

use super::room::{Room, Taken};

/// Packets that may wait to be looked at, if they are so short that there is room for them.
const WAITING: usize = 65_536;

/// How long it takes at most until the thread sees that it is to end.
const TIMEOUT: Duration = Duration::from_millis(100);

/// How long it takes at most to read what the kernel has at the end.
const LONGEST_END: Duration = Duration::from_secs(5);

/// A packet.
#[derive(Debug)]
pub(super) struct CapturedPacket {
    /// When the kernel saw it.
    pub(super) time: SystemTime,
    /// It, as [`packet_socket::Packet`] has it, or a datagram of HEP.
    pub(super) octets: Bytes,
    _room: Taken,
}

/// Listens until it is stopped, or dropped.
pub(super) struct Listener {
    packets: Receiver<io::Result<CapturedPacket>>,
    shared: Arc<Shared>,
    /// Where HEP is sent to.
    pub(super) address: Option<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// When it is to end, once it is.
    stop: OnceLock<(SystemTime, Instant)>,
    /// Packets that the kernel dropped, and that found no room.
    dropped: [AtomicU64; 2],
}

impl Listener {
    /// Captures from an interface. Packets take so many octets at most, from when they are captured until they are dropped: those that find
    /// no room are not kept.
    pub(super) fn on_interface(interface: &str, most_octets: usize) -> Result<Listener, OpenError> {
        let socket = PacketSocket::open(interface)?;
        Ok(Listener::start(Source::Interface(socket), most_octets)?)
    }

    /// Takes datagrams of HEP that are sent to an address, with the same bound.
    pub(super) fn on_hep(address: SocketAddr, most_octets: usize) -> io::Result<Listener> {
        let socket = UdpSocket::bind(address)?;
        let buffer = vec![0; LONGEST_DATAGRAM];
        Listener::start(Source::Hep { socket, buffer }, most_octets)
    }

    fn start(source: Source, most_octets: usize) -> io::Result<Listener> {
        let address = match &source {
            Source::Interface(_) => None,
            Source::Hep { socket, .. } => Some(socket.local_addr()?),
        };
        let (sender, packets) = sync_channel(WAITING);
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("listener".to_owned())
            .spawn(move || listen(source, &sender, &Room::new(most_octets), &theirs))?;
        Ok(Listener {
            packets,
            shared,
            address,
            thread: Some(thread),
        })
    }

    /// Hears nothing more but what the kernel has already, for which [`next`](Listener::next) then waits.
    pub(super) fn stop(&self) {
        self.shared
            .stop
            .get_or_init(|| (SystemTime::now(), Instant::now()));
    }

    /// Whether nothing more is captured; some of what was may still be taken.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The next packet that has been captured, if there is one.
    pub(super) fn next(&self) -> io::Result<Option<CapturedPacket>> {
        let next = match self.shared.stop.get() {
            Some(_) => self.packets.recv().map_err(TryRecvError::from),
            None => self.packets.try_recv(),
        };
        match next {
            Ok(captured) => captured.map(Some),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Ok(None),
        }
    }

    /// Packets that were there and could not be looked at.
    pub(super) fn dropped(&self) -> u64 {
        let counts = self.shared.dropped.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there was told already.
            let _ = thread.join();
        }
    }
}

/// Where packets come from.
enum Source {
    Interface(PacketSocket),
    Hep { socket: UdpSocket, buffer: Vec<u8> },
}

/// What UDP carries at most.
const LONGEST_DATAGRAM: usize = 65_535;

impl Source {
    /// Waits for a packet, and tells when it came.
    fn receive(&mut self, timeout: Duration) -> io::Result<Option<(SystemTime, &[u8])>> {
        match self {
            Source::Interface(socket) => {
                let packet = socket.receive(timeout)?;
                Ok(packet.map(|packet| (packet.time, packet.octets)))
            }
            Source::Hep { socket, buffer } => {
                socket.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
                match socket.recv(buffer) {
                    Ok(length) => Ok(Some((SystemTime::now(), &buffer[..length]))),
                    Err(error) => match error.kind() {
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                            Ok(None)
                        }
                        _ => Err(error),
                    },
                }
            }
        }
    }

    /// Packets that the kernel dropped, as far as it tells.
    fn dropped(&self) -> u64 {
        match self {
            Source::Interface(socket) => socket.dropped(),
            Source::Hep { .. } => 0,
        }
    }
}

fn listen(
    mut source: Source,
    sender: &SyncSender<io::Result<CapturedPacket>>,
    room: &Arc<Room>,
    shared: &Shared,
) {
    let drop_one = || {
        shared.dropped[1].fetch_add(1, Ordering::Relaxed);
    };
    loop {
        let timeout = shared.stop.get().map_or(TIMEOUT, |_| Duration::ZERO);
        let received = source.receive(timeout);
        let end = shared.stop.get();
        let captured = match received {
            Ok(None) if timeout.is_zero() => return,
            Ok(None) => continue,
            // On a busy link there would always be one more; where the clock was set back they all seem old.
            Ok(Some((time, _)))
                if end
                    .is_some_and(|(stopped, at)| time > *stopped || at.elapsed() > LONGEST_END) =>
            {
                return;
            }
            Ok(Some((time, octets))) => {
                let Some(room) = room.take(octets.len() + size_of::<CapturedPacket>()) else {
                    drop_one();
                    continue;
                };
                Ok(CapturedPacket {
                    time,
                    octets: Bytes::copy_from_slice(octets),
                    _room: room,
                })
            }
            Err(error) => Err(error),
        };
        let is_last = captured.is_err();
        match sender.try_send(captured) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => drop_one(),
            Err(TrySendError::Disconnected(_)) => return,
        }
        if is_last {
            return;
        }
        shared.dropped[0].store(source.dropped(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use test_support::{Namespace, wait_until};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Hears a loopback interface of its own, on which there is a socket.
    fn on_loopback() -> Option<(Listener, UdpSocket)> {
        Namespace::new()?.enter();
        let listener = Listener::on_interface("lo", 1 << 20).expect("root may");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        Some((listener, socket))
    }

    #[test]
    fn what_the_kernel_has_at_the_end_is_heard() {
        const SENT: usize = 2_000;
        let Some((listener, socket)) = on_loopback() else {
            return;
        };
        let address = socket.local_addr().expect("bound");
        // The kernel notes the time of packets only from a while after a socket has asked for it.
        assert!(wait_until(LIMIT, || {
            socket.send_to(b"first", address).expect("it is sent");
            listener.next().expect("it can be read").is_some()
        }));
        for _ in 0..SENT {
            socket.send_to(b"hello", address).expect("it is sent");
        }
        listener.stop();
        let next = || listener.next().expect("it can be read");
        let all = std::iter::from_fn(next).filter(|captured| captured.octets.ends_with(b"hello"));
        assert_eq!(all.count(), SENT);
        assert_eq!(listener.dropped(), 0);
    }

    #[test]
    fn a_busy_link_does_not_hold_up_the_end() {
        let Some((listener, socket)) = on_loopback() else {
            return;
        };
        let address = socket.local_addr().expect("bound");
        let has_ended = AtomicBool::new(false);
        let is_over = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    // Whether it is sent is seen below.
                    socket.send_to(b"hello", address).ok();
                }
            });
            let captured = || matches!(listener.next(), Ok(Some(_)));
            let is_busy = wait_until(LIMIT, captured);
            listener.stop();
            let end = Instant::now() + LIMIT;
            while captured() && Instant::now() < end {}
            has_ended.store(true, Ordering::Relaxed);
            is_busy && Instant::now() < end
        });
        assert!(is_over);
    }

    #[test]
    fn datagrams_of_hep_are_heard() {
        let listener = Listener::on_hep("127.0.0.1:0".parse().expect("an address"), 1 << 20);
        let listener = listener.expect("a port");
        let address = listener.address.expect("bound");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.send_to(b"HEP3", address).expect("it is sent");
        assert!(wait_until(LIMIT, || {
            let heard = listener.next().expect("it can be read");
            heard.is_some_and(|captured| *captured.octets == *b"HEP3")
        }));
    }
}
