//! Other generators that commands are exchanged with, over TCP (SIPp's third party call control): each command ends with the
//! octet 27.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::carrier::Waker;
use super::command_writer::CommandWriter;
use crate::engine::Command;

/// Where the other generators are, and where they find this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TwinPlan {
    /// Where this one listens.
    pub listen: Option<SocketAddr>,
    /// The others by their names, where they have some, which are connected to.
    pub connect: Vec<(Option<String>, SocketAddr)>,
}

/// What ends a command.
const END: u8 = 27;

/// The longest command.
const LONGEST: usize = 64 * 1024;

/// Connections that others may have open here at a time.
const MOST_CONNECTIONS: usize = 64;

/// Commands that have come and wait for the worker. What comes beyond waits in the network.
const MOST_WAITING: usize = 1_000;

/// How long an other is tried that does not listen yet, how long at a time, and after which pause again.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const CONNECT_ONCE: Duration = Duration::from_secs(1);
const CONNECT_AGAIN: Duration = Duration::from_millis(100);

/// How long an other may take to make room for a command.
const WRITE_WITHIN: Duration = Duration::from_secs(2);

/// How often a listener looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// The connections with other generators.
pub(super) struct Twins {
    /// Those that are connected to, by their names.
    connected: HashMap<Option<String>, Connected>,
    shared: Arc<Shared>,
    commands: Receiver<Vec<u8>>,
}

/// One that is connected to when the first command is for it.
struct Connected {
    address: SocketAddr,
    writer: Option<CommandWriter>,
}

/// What the threads that read and write have in common.
struct Shared {
    /// By the connection whose first command has come last: the way back to a generator without a name.
    accepted: Mutex<Option<CommandWriter>>,
    /// Why an other cannot be told anything any more.
    failure: Mutex<Option<io::Error>>,
    connections: AtomicUsize,
    is_over: AtomicBool,
    sender: SyncSender<Vec<u8>>,
    waker: Waker,
}

impl Twins {
    /// Listens, if that is planned.
    pub(super) fn open(plan: &TwinPlan, waker: Waker) -> io::Result<Twins> {
        let (sender, commands) = sync_channel(MOST_WAITING);
        let shared = Arc::new(Shared {
            accepted: Mutex::new(None),
            failure: Mutex::new(None),
            connections: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            sender,
            waker,
        });
        if let Some(address) = plan.listen {
            let listener = TcpListener::bind(address).map_err(|error| {
                io::Error::new(error.kind(), format!("TCP {address} for commands: {error}"))
            })?;
            listener.set_nonblocking(true)?;
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("twins".to_owned())
                .spawn(move || accept(&listener, &shared))?;
        }
        let connected = plan.connect.iter().map(|(name, address)| {
            let connected = Connected {
                address: *address,
                writer: None,
            };
            (name.clone(), connected)
        });
        Ok(Twins {
            connected: connected.collect(),
            shared,
            commands,
        })
    }

    /// The next command that has come.
    pub(super) fn poll(&self) -> Option<Vec<u8>> {
        self.commands.try_recv().ok()
    }

    /// Sends a command, to one or to all, over a connection that is opened for the first one. Nothing is waited for: what
    /// cannot be written is told by [`check`](Twins::check).
    pub(super) fn send(&mut self, command: &Command) -> io::Result<()> {
        let mut octets = command.octets.clone();
        octets.push(END);
        let name = command.to.as_deref();
        let is_meant = |known: &Option<String>| name.is_none() || known.as_deref() == name;
        if !self.connected.keys().any(is_meant) {
            return self.answer(name, octets);
        }
        for (known, other) in &mut self.connected {
            if !is_meant(known) {
                continue;
            }
            let writer = match other.writer.take() {
                Some(writer) => writer,
                None => self.shared.connect(other.address)?,
            };
            other.writer.insert(writer).send(octets.clone())?;
        }
        Ok(())
    }

    /// Tells why an other could not be told a command.
    pub(super) fn check(&self) -> io::Result<()> {
        match locked(&self.shared.failure).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Sends by the connection that has come.
    fn answer(&self, name: Option<&str>, octets: Vec<u8>) -> io::Result<()> {
        if let Some(name) = name {
            return Err(io::Error::new(
                ErrorKind::NotFound,
                format!("there is no generator \"{name}\" to send a command to"),
            ));
        }
        // The calls of one that is not there, or does not read, are told nothing.
        let mut accepted = locked(&self.shared.accepted);
        if accepted
            .as_ref()
            .is_some_and(|writer| writer.send(octets).is_err())
        {
            *accepted = None;
        }
        Ok(())
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let accepted = locked(&self.shared.accepted).take();
        let connected = self.connected.values_mut();
        let writers = connected.filter_map(|connected| connected.writer.take());
        for writer in writers.chain(accepted) {
            writer.finish();
        }
    }
}

impl Shared {
    /// Writes to another generator, which may be about to start.
    fn connect(self: &Arc<Shared>, address: SocketAddr) -> io::Result<CommandWriter> {
        let (opener, failing) = (Arc::clone(self), Arc::clone(self));
        let failed = move |error: io::Error| {
            let text = format!("cannot send a command to {address}: {error}");
            *locked(&failing.failure) = Some(io::Error::new(error.kind(), text));
            failing.waker.wake();
        };
        CommandWriter::start(move || opener.connected(address), failed)
    }

    /// A connection to another generator, once it listens.
    fn connected(self: &Arc<Shared>, address: SocketAddr) -> io::Result<TcpStream> {
        let by = Instant::now() + CONNECT_WITHIN;
        let stream = loop {
            match TcpStream::connect_timeout(&address, CONNECT_ONCE) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() >= by || self.is_over.load(Ordering::Relaxed) => {
                    return Err(error);
                }
                Err(_) => thread::sleep(CONNECT_AGAIN),
            }
        };
        self.read_from(stream.try_clone()?, false)?;
        Ok(stream)
    }

    /// Reads commands from a connection, in a thread.
    fn read_from(self: &Arc<Shared>, stream: TcpStream, is_accepted: bool) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_WITHIN))?;
        let shared = Arc::clone(self);
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let thread = thread::Builder::new().name("twin".to_owned());
        thread.spawn(move || {
            shared.read(stream, is_accepted);
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        })?;
        Ok(())
    }

    /// Reads until the other end closes, or sends what is no command.
    fn read(&self, mut stream: TcpStream, is_accepted: bool) {
        let mut splitter = Splitter::default();
        let mut octets = [0; 4096];
        // Who connects and says nothing is no generator.
        let mut may_be_way_back = is_accepted;
        while let Ok(count @ 1..) = stream.read(&mut octets) {
            for command in splitter.push(octets.get(..count).unwrap_or_default()) {
                if std::mem::take(&mut may_be_way_back)
                    && let Ok(way_back) = stream.try_clone()
                    && let Ok(writer) = CommandWriter::start(|| Ok(way_back), |_| ())
                {
                    *locked(&self.accepted) = Some(writer);
                }
                if self.sender.send(command).is_err() {
                    return;
                }
            }
            self.waker.wake();
            if splitter.is_too_long() {
                stream.shutdown(std::net::Shutdown::Both).ok();
                return;
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes connections.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.is_over.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(LOOK);
            continue;
        };
        if shared.connections.load(Ordering::Relaxed) >= MOST_CONNECTIONS
            || stream.set_nonblocking(false).is_err()
        {
            continue;
        }
        // Where no thread can be had the connection is closed.
        shared.read_from(stream, true).ok();
    }
}

/// Cuts commands out of a stream.
#[derive(Default)]
struct Splitter {
    begun: Vec<u8>,
}

impl Splitter {
    fn push(&mut self, octets: &[u8]) -> Vec<Vec<u8>> {
        let mut commands = Vec::new();
        let mut rest = octets;
        while let Some(end) = memchr::memchr(END, rest) {
            let (command, after) = rest.split_at(end);
            self.begun.extend_from_slice(command);
            commands.push(std::mem::take(&mut self.begun));
            rest = after.get(1..).unwrap_or_default();
        }
        self.begun.extend_from_slice(rest);
        commands.retain(|command| command.len() <= LONGEST);
        commands
    }

    fn is_too_long(&self) -> bool {
        self.begun.len() > LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_end_with_their_octet() {
        let mut splitter = Splitter::default();
        assert!(splitter.push(b"Call-").is_empty());
        assert_eq!(
            splitter.push(b"ID: 1\x1bCall-ID: 2\x1bCa"),
            [&b"Call-ID: 1"[..], b"Call-ID: 2"]
        );
        assert_eq!(splitter.push(b"\x1b"), [b"Ca"]);
        assert!(!splitter.is_too_long());
        splitter.push(&vec![b'x'; LONGEST + 1]);
        assert!(splitter.is_too_long());
        assert!(splitter.push(b"\x1b").is_empty());
    }
}
