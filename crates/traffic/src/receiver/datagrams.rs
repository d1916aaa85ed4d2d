//! A thread that reads a UDP socket: arrivals are timed as they come, whatever else the program does.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use udp_net::{DatagramSlice, PLAIN_BATCH, PlainBatch, PlainSocket};

use super::{ActiveRun, Registry};
use crate::clock;
use crate::header::{Header, Kind};

/// How long the thread may take to see that it is over.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Reads datagrams until it is dropped.
#[derive(Debug)]
pub(super) struct DatagramThread {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DatagramThread {
    pub(super) fn start(
        socket: Arc<PlainSocket>,
        registry: Arc<Registry>,
    ) -> std::io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("datagrams".into()).spawn({
            let is_over = Arc::clone(&is_over);
            move || carry(&socket, &registry, &is_over)
        })?;
        Ok(DatagramThread {
            is_over,
            thread: Some(thread),
        })
    }
}

impl Drop for DatagramThread {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn carry(socket: &PlainSocket, registry: &Registry, is_over: &AtomicBool) {
    let mut batch = PlainBatch::new();
    let mut packet = Vec::new();
    let mut echo = Vec::new();
    let mut slices: Vec<DatagramSlice> = Vec::with_capacity(PLAIN_BATCH);
    while !is_over.load(Ordering::Relaxed) {
        // Whatever went wrong, reading tells.
        let mut waiting = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
        if poll(&mut waiting, Some(&LOOK)) == Ok(0) {
            continue;
        }
        if socket.receive(&mut batch).is_err() {
            continue;
        }
        let arrived = clock::now();
        let mut known: Option<Arc<ActiveRun>> = None;
        echo.clear();
        slices.clear();
        for (from, octets) in batch.datagrams() {
            let Some(run) = find(&mut known, registry, from, octets) else {
                continue;
            };
            packet.clear();
            packet.extend_from_slice(octets);
            let start = echo.len();
            run.reception()
                .handle(arrived, clock::now, &mut packet, &mut echo);
            if echo.len() > start {
                slices.push(DatagramSlice {
                    start,
                    length: echo.len() - start,
                    destination: from,
                });
            }
        }
        send(socket, &echo, &slices);
    }
}

/// The run that a datagram belongs to, if the host has announced it; datagrams of one run come together.
fn find<'a>(
    known: &'a mut Option<Arc<ActiveRun>>,
    registry: &Registry,
    from: SocketAddr,
    octets: &[u8],
) -> Option<&'a ActiveRun> {
    let header = Header::read(octets).filter(|header| header.kind == Kind::Data)?;
    let is_known = known.as_ref().is_some_and(|run| {
        run.order.experiment == header.experiment && run.order.run == header.run
    });
    if !is_known {
        *known = registry.find(header.experiment, header.run);
    }
    known
        .as_deref()
        .filter(|run| run.socket.is_some() && run.from == from.ip().to_canonical())
}

/// What the kernel does not take is lost, as on the network.
fn send(socket: &PlainSocket, octets: &[u8], slices: &[DatagramSlice]) {
    let mut rest = slices;
    while !rest.is_empty() {
        let sent = socket.send(octets, rest).unwrap_or(1).max(1);
        rest = rest.get(sent..).unwrap_or_default();
    }
}
