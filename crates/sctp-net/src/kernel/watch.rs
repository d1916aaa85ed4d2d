//! Waits for many sockets at once, and is woken for those only that are ready.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Weak};
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable, BoxFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use sctp::AssociationId;

use super::register::register;
use super::socket::Socket;

/// The owner of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// How many endpoints had been opened before the one that it is of.
    pub(super) endpoint: u64,
    /// The association that has it to itself.
    pub(super) association: Option<AssociationId>,
}

/// A socket that may be read or written to, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) owner: Owner,
    pub(super) direction: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// The sockets that are waited for.
#[derive(Default)]
pub(super) struct Watches {
    pending: FuturesUnordered<Abortable<BoxFuture<'static, Ready>>>,
}

impl Watches {
    /// Waits for the next one; for ever when there is none.
    pub(super) async fn next(&mut self) -> Ready {
        loop {
            match self.pending.next().await {
                Some(Ok(ready)) => return ready,
                // Its socket is closed.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

/// A socket that is waited for.
#[derive(Debug)]
pub(super) struct Watched {
    io: Arc<AsyncFd<Socket>>,
    owner: Owner,
    reading: Option<AbortHandle>,
    writing: Option<AbortHandle>,
}

impl Watched {
    pub(super) fn new(socket: Socket, owner: Owner) -> io::Result<Self> {
        Ok(Self {
            io: Arc::new(register(socket)?),
            owner,
            reading: None,
            writing: None,
        })
    }

    pub(super) fn socket(&self) -> &Socket {
        self.io.get_ref()
    }

    /// Tries to read; after `WouldBlock` it can be waited for.
    pub(super) fn try_read<T>(&self, read: impl FnOnce(&Socket) -> io::Result<T>) -> io::Result<T> {
        self.io.try_io(Interest::READABLE, read)
    }

    /// Tries to write; after `WouldBlock` it can be waited for.
    pub(super) fn try_write<T>(
        &self,
        write: impl FnOnce(&Socket) -> io::Result<T>,
    ) -> io::Result<T> {
        self.io.try_io(Interest::WRITABLE, write)
    }

    /// Has `watches` report once that it is ready, unless that is pending already.
    pub(super) fn watch(&mut self, watches: &Watches, direction: Direction) {
        let waits = match direction {
            Direction::Read => &mut self.reading,
            Direction::Write => &mut self.writing,
        };
        if waits.is_some() {
            return;
        }
        let (handle, registration) = AbortHandle::new_pair();
        *waits = Some(handle);
        let ready = Ready {
            owner: self.owner,
            direction,
        };
        // Waiting does not keep the socket open.
        let waiting = wait(Arc::downgrade(&self.io), ready).boxed();
        watches.pending.push(Abortable::new(waiting, registration));
    }

    /// What was waited for has come.
    pub(super) fn seen(&mut self, direction: Direction) {
        match direction {
            Direction::Read => self.reading = None,
            Direction::Write => self.writing = None,
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        for waits in [&self.reading, &self.writing].into_iter().flatten() {
            waits.abort();
        }
    }
}

async fn wait(io: Weak<AsyncFd<Socket>>, ready: Ready) -> Ready {
    poll_fn(|context| {
        let Some(io) = io.upgrade() else {
            return Poll::Ready(());
        };
        // An error is told by the call that follows.
        match ready.direction {
            Direction::Read => io.poll_read_ready(context).map(drop),
            Direction::Write => io.poll_write_ready(context).map(drop),
        }
    })
    .await;
    ready
}
