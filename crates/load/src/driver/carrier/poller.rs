//! Waiting for sockets outside of any runtime: epoll, with a time limit finer than a millisecond.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};

/// How many sockets one call tells of.
const EVENTS: usize = 256;

/// The token of the descriptor by which others wake the thread that waits.
const WAKE: u64 = u64::MAX;

/// What a socket is watched for, beyond what has come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Nothing.
    Read,
    /// Room to write.
    ReadAndWrite,
}

/// A socket that has something to say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) token: u32,
    pub(super) readable: bool,
    pub(super) writable: bool,
}

/// Ends a wait from another thread.
#[derive(Clone, Debug)]
pub(crate) struct PollerWaker(Arc<OwnedFd>);

impl PollerWaker {
    pub(crate) fn wake(&self) {
        // It can only fail where so many wait to be heard already that one is.
        rustix::io::write(&self.0, &1_u64.to_ne_bytes()).ok();
    }
}

/// Watches sockets, each under a token.
pub(super) struct Poller {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    events: Vec<epoll::Event>,
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller")
            .field("epoll", &self.epoll)
            .finish_non_exhaustive()
    }
}

impl Poller {
    pub(super) fn new() -> io::Result<Poller> {
        let poller = Poller {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            wake: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
            events: Vec::with_capacity(EVENTS),
        };
        let wake = EventData::new_u64(WAKE);
        epoll::add(&poller.epoll, &poller.wake, wake, EventFlags::IN)?;
        Ok(poller)
    }

    /// What ends a wait from another thread.
    pub(super) fn waker(&self) -> PollerWaker {
        PollerWaker(self.wake.clone())
    }

    pub(super) fn add(&self, socket: impl AsFd, token: u32, watch: Watch) -> io::Result<()> {
        let data = EventData::new_u64(token.into());
        Ok(epoll::add(&self.epoll, socket, data, watch.flags())?)
    }

    pub(super) fn change(&self, socket: impl AsFd, token: u32, watch: Watch) -> io::Result<()> {
        let data = EventData::new_u64(token.into());
        Ok(epoll::modify(&self.epoll, socket, data, watch.flags())?)
    }

    /// Waits until a socket is ready, the time is up, or another thread says so, and gives the sockets that are
    /// ready.
    pub(super) fn wait(&mut self, until: Option<Instant>, ready: &mut Vec<Ready>) {
        ready.clear();
        self.events.clear();
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        // A signal that interrupts it is one more reason to look around.
        epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            timeout.as_ref(),
        )
        .ok();
        for event in &self.events {
            let (data, flags) = (event.data.u64(), event.flags);
            match u32::try_from(data) {
                Ok(token) => ready.push(Ready {
                    token,
                    readable: flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR),
                    writable: flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR),
                }),
                Err(_) => {
                    rustix::io::read(&self.wake, &mut [0; 8]).ok();
                }
            }
        }
    }
}

/// Waits until a socket takes something to send, but no longer than so long.
pub(super) fn wait_for_room(socket: impl AsFd, limit: Duration) {
    let timeout = Timespec {
        tv_sec: limit.as_secs().cast_signed(),
        tv_nsec: limit.subsec_nanos().into(),
    };
    let mut sockets = [PollFd::new(&socket, PollFlags::OUT)];
    rustix::event::poll(&mut sockets, Some(&timeout)).ok();
}

impl Watch {
    fn flags(self) -> EventFlags {
        match self {
            Watch::Read => EventFlags::IN,
            Watch::ReadAndWrite => EventFlags::IN | EventFlags::OUT,
        }
    }
}
