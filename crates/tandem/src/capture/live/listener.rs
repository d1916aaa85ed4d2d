//! A thread that hears packets, so that the kernel never waits for the screen.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use packet_socket::{OpenError, PacketSocket};

use super::room::{Room, Taken};

/// Packets that may wait to be looked at, if they are so short that there is room for them.
const WAITING: usize = 65_536;

/// How long it takes at most until the thread sees that it is to end.
const PATIENCE: Duration = Duration::from_millis(100);

/// A packet.
#[derive(Debug)]
pub(super) struct Heard {
    /// When the kernel saw it.
    pub(super) time: SystemTime,
    /// It, as [`packet_socket::Packet`] has it.
    pub(super) octets: Bytes,
    _room: Taken,
}

/// Listens until it is dropped.
pub(super) struct Listener {
    packets: Receiver<io::Result<Heard>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Packets that the kernel dropped, and that found no room.
    dropped: [AtomicU64; 2],
}

impl Listener {
    /// Hears an interface. Packets take so many octets at most, from when they are heard until they are dropped: those that find
    /// no room are not kept.
    pub(super) fn start(interface: &str, most_octets: usize) -> Result<Listener, OpenError> {
        let socket = PacketSocket::open(interface)?;
        let (sender, packets) = sync_channel(WAITING);
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("listener".to_owned())
            .spawn(move || listen(socket, &sender, &Room::new(most_octets), &theirs))?;
        Ok(Listener {
            packets,
            shared,
            thread: Some(thread),
        })
    }

    /// The next packet that has been heard, if there is one.
    pub(super) fn next(&self) -> io::Result<Option<Heard>> {
        match self.packets.try_recv() {
            Ok(heard) => heard.map(Some),
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
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was told already.
            let _ = thread.join();
        }
    }
}

fn listen(
    mut socket: PacketSocket,
    sender: &SyncSender<io::Result<Heard>>,
    room: &Arc<Room>,
    shared: &Shared,
) {
    let drop_one = || {
        shared.dropped[1].fetch_add(1, Ordering::Relaxed);
    };
    while !shared.stop.load(Ordering::Relaxed) {
        let heard = match socket.receive(PATIENCE) {
            Ok(None) => continue,
            Ok(Some(packet)) => {
                let Some(room) = room.take(packet.octets.len() + size_of::<Heard>()) else {
                    drop_one();
                    continue;
                };
                Ok(Heard {
                    time: packet.time,
                    octets: Bytes::copy_from_slice(packet.octets),
                    _room: room,
                })
            }
            Err(error) => Err(error),
        };
        let is_last = heard.is_err();
        match sender.try_send(heard) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => drop_one(),
            Err(TrySendError::Disconnected(_)) => return,
        }
        if is_last {
            return;
        }
        shared.dropped[0].store(socket.dropped(), Ordering::Relaxed);
    }
}
