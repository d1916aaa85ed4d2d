//! The socket: datagrams in, datagrams out.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::batch::{BATCH_SIZE, Batch, Received};
use crate::datagram::Datagram;
use crate::impairment::{Impaired, Impairment};
use crate::network_error::{hear_network_errors, next_network_error};
use crate::options::{
    allow_fragmentation, forbid_fragmentation, leave_unrequested_out, leave_unstamped,
};
use crate::pending::{Tried, send_past_errors};
use crate::port_holder::port_holder;
use crate::registration::watch;
use crate::send_many::send_many;
use crate::stamps::Stamps;
use crate::statistics::{Counters, UdpStatistics, bytes_on_wire};

/// How a socket is set up. The default has no impairment and asks the kernel for large buffers.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// A bad network inside the socket; none by default.
    pub impairment: Option<Impairment>,
    /// Bytes of the kernel's receive buffer to ask for. The kernel may grant less.
    pub receive_buffer: usize,
    /// Bytes of the kernel's send buffer to ask for. The kernel may grant less.
    pub send_buffer: usize,
    /// Whether the IP layer may fragment datagrams that are larger than the path takes. False
    /// suits a protocol that looks for the path MTU itself; such a datagram is then refused or
    /// lost. True suits one that does not, such as SIP, whose messages are as large as they are.
    pub allow_fragmentation: bool,
    /// Whether consecutive datagrams of one size and destination may go to the kernel as one (GSO).
    /// That saves much of the cost of bulk transfers. Where a device does not cut such a train
    /// itself (loopback), a capture shows it as one datagram, which analysers take for malformed.
    pub segmentation_offload: bool,
    /// Whether what the network reports about datagrams sent earlier is put into the batch, to be
    /// taken by [`Batch::pop_error`]. False by default. The kernel then fails calls that have to do with other datagrams:
    /// they are repeated, and one that it fails again and again counts as sent and is lost.
    pub network_errors: bool,
    /// Whether several sockets may be bound to one address, if all of them ask for it
    /// (`SO_REUSEPORT`): each datagram then goes to one of them. False by default.
    pub reuse_port: bool,
    /// Whether the kernel is asked when each datagram came, so that [`Received::received`] counts the time too that it
    /// has waited in the socket (`SO_TIMESTAMPNS`). False by default.
    pub arrival_times: bool,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self {
            impairment: None,
            receive_buffer: 4 << 20,
            send_buffer: 4 << 20,
            allow_fragmentation: false,
            segmentation_offload: true,
            network_errors: false,
            reuse_port: false,
            arrival_times: false,
        }
    }
}

/// What became of a datagram given to [`UdpSocket::try_send`].
#[derive(Debug)]
pub enum SendOutcome {
    /// It is on its way (or an impairment lost it there).
    Sent,
    /// The kernel's send buffer is full: try again after [`UdpSocket::writable`].
    Blocked,
    /// The kernel refused it, for instance because there is no route or it is too large.
    Failed(io::Error),
}

/// How far [`UdpSocket::flush`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// The queue is empty.
    All,
    /// The kernel's send buffer is full: go on after [`UdpSocket::writable`].
    Blocked,
}

/// Datagrams that are sent together. Consecutive ones of one size to one destination share a
/// system call where the kernel segments them itself.
///
/// The queue does not limit itself: whoever fills it flushes it before it grows.
#[derive(Debug, Default)]
pub struct SendQueue {
    datagrams: VecDeque<Datagram>,
    gathered: Vec<u8>,
    /// What was refused because it was larger than the interface takes.
    too_large: VecDeque<Datagram>,
}

impl SendQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a datagram.
    pub fn push(&mut self, datagram: Datagram) {
        self.datagrams.push_back(datagram);
    }

    /// Takes a datagram that was refused because it is larger than the interface takes. Of many
    /// only the first are kept until they are taken.
    pub fn pop_too_large(&mut self) -> Option<Datagram> {
        self.too_large.pop_front()
    }

    /// How many datagrams are waiting.
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Whether nothing is waiting.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }
}

impl Extend<Datagram> for SendQueue {
    fn extend<I: IntoIterator<Item = Datagram>>(&mut self, datagrams: I) {
        self.datagrams.extend(datagrams);
    }
}

/// A UDP socket on tokio; see the crate's documentation.
#[derive(Debug)]
pub struct UdpSocket {
    /// Registered for reading alone: every packet that has left makes room in the send buffer, and the
    /// thread would be woken for each.
    io: AsyncFd<Socket>,
    state: UdpSocketState,
    local_addr: SocketAddr,
    counters: Counters,
    impaired: Option<Impaired>,
    /// Tells the task in `recv` that the next datagram to release changed.
    rescheduled: Notify,
    /// How many datagrams may go to the kernel as one. It can turn out that a device takes no trains.
    longest_train: AtomicUsize,
    network_errors: bool,
    allow_fragmentation: bool,
    /// Where the kernel tells when datagrams came.
    stamps: Option<Stamps>,
}

/// The kernel fails this many receive calls in a row before `recv` gives up on the socket.
const MAX_RECEIVE_ERRORS: usize = 1000;

/// How many errors of the network are taken before datagrams are looked at again.
const MAX_NETWORK_ERRORS: usize = 32;

/// How many datagrams that were too large wait to be taken from a queue.
const MAX_TOO_LARGE: usize = 32;

/// The largest train of datagrams given to the kernel at once: what fits into a UDP/IPv4 packet.
const MAX_TRAIN_BYTES: usize = 65_507;

/// How long a released datagram waits when the kernel's send buffer is full.
const RELEASE_RETRY: Duration = Duration::from_millis(1);

impl UdpSocket {
    /// Binds a socket to `address`; port 0 lets the kernel choose one. A socket bound to an IPv6
    /// address, the wildcard included, carries IPv6 only.
    ///
    /// # Errors
    ///
    /// The kernel's, with the address in its text, and the program that has the port if it is in use; and when it is not
    /// called within a tokio runtime.
    pub fn bind(address: SocketAddr, config: UdpConfig) -> io::Result<Self> {
        tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        Self::open(address, config).map_err(|error| {
            let holder = match error.kind() {
                io::ErrorKind::AddrInUse => port_holder(address.port()),
                _ => None,
            };
            let text = match holder {
                Some(holder) => format!("UDP {address} is in use by {holder}"),
                None => format!("UDP {address}: {error}"),
            };
            io::Error::new(error.kind(), text)
        })
    }

    /// The address that the socket is bound to, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// What the socket has counted until now.
    pub fn statistics(&self) -> UdpStatistics {
        self.counters.snapshot()
    }

    /// Waits until datagrams have arrived and puts them into `batch`; returns at once when the
    /// batch still holds some. It also releases the datagrams that an impairment delays, incoming
    /// and outgoing: someone must wait here for them to leave. Dropping the future loses nothing.
    ///
    /// Errors that belong to a datagram sent earlier (such as an ICMP error) are counted and
    /// do not end the wait.
    ///
    /// # Errors
    ///
    /// When the socket itself has failed for good.
    pub async fn recv(&self, batch: &mut Batch) -> io::Result<()> {
        let mut errors = 0;
        loop {
            let next_release = self.release(batch);
            if !batch.is_empty() || batch.has_errors() {
                return Ok(());
            }
            tokio::select! {
                ready = self.io.ready(self.interest()) => if ready?.ready().is_error() {
                    self.receive_network_errors(batch);
                    // What the receive call says next may be one of them.
                    errors = 0;
                },
                () = wait_until(next_release) => continue,
                () = self.rescheduled.notified() => continue,
            }
            match self.receive(batch) {
                Ok(()) => errors = 0,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.counters.receive_error();
                    tracing::debug!(local = %self.local_addr, %error, "receiving failed");
                    errors += 1;
                    if errors == MAX_RECEIVE_ERRORS {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Sends one datagram without waiting.
    pub fn try_send(&self, datagram: &Datagram) -> SendOutcome {
        if let Some(impaired) = &self.impaired {
            let mut ready = VecDeque::new();
            self.offer(impaired, datagram.clone(), Instant::now(), &mut ready);
            self.send_or_hold(impaired, &mut ready, &mut Vec::new());
            return SendOutcome::Sent;
        }
        match self.put_on_wire(datagram, &datagram.payload, None) {
            Ok(()) => {
                self.count_sent(std::iter::once(datagram));
                SendOutcome::Sent
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => SendOutcome::Blocked,
            Err(error) => {
                self.counters.send_error();
                SendOutcome::Failed(error)
            }
        }
    }

    /// Sends datagrams without waiting, as many as it can in one call to the kernel. Tells how many
    /// are on their way, and what became of the next one; `Sent` where there is none.
    pub fn try_send_all(&self, datagrams: &[Datagram]) -> (usize, SendOutcome) {
        let mut count = 0;
        while let [next, ..] = &datagrams[count..] {
            if self.impaired.is_some() {
                self.try_send(next);
                count += 1;
                continue;
            }
            match self.put_many_on_wire(&datagrams[count..]) {
                Ok(sent) => {
                    self.count_sent(datagrams[count..count + sent].iter());
                    count += sent;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return (count, SendOutcome::Blocked);
                }
                Err(error) => {
                    self.counters.send_error();
                    return (count, SendOutcome::Failed(error));
                }
            }
        }
        (count, SendOutcome::Sent)
    }

    /// Sends one datagram without waiting, which IP may fragment whatever the socket's setting is.
    pub fn try_send_in_fragments(&self, datagram: &Datagram) -> SendOutcome {
        if self.allow_fragmentation {
            return self.try_send(datagram);
        }
        let ipv6 = self.local_addr.is_ipv6();
        if let Err(error) = allow_fragmentation(self.as_fd(), ipv6) {
            return SendOutcome::Failed(error);
        }
        let outcome = self.try_send(datagram);
        match forbid_fragmentation(self.as_fd(), ipv6) {
            Ok(()) => outcome,
            Err(error) => SendOutcome::Failed(error),
        }
    }

    /// Sends what is in `queue` until it is empty or the kernel's buffer is full. What the kernel
    /// refuses is counted and dropped, as a network might.
    pub fn flush(&self, queue: &mut SendQueue) -> Flushed {
        let Some(impaired) = &self.impaired else {
            return self.send_queue(queue);
        };
        let now = Instant::now();
        let mut ready = VecDeque::with_capacity(queue.datagrams.len());
        for datagram in queue.datagrams.drain(..) {
            self.offer(impaired, datagram, now, &mut ready);
        }
        self.send_or_hold(impaired, &mut ready, &mut queue.gathered);
        Flushed::All
    }

    /// Waits until no outgoing datagram is held back by an impairment any more: what was sent last
    /// before the socket is closed then leaves too.
    pub async fn drained(&self) {
        let Some(impaired) = &self.impaired else {
            return;
        };
        loop {
            self.release_outbound(impaired, Instant::now());
            let Some(due) = impaired.next_due_outbound() else {
                return;
            };
            wait_until(Some(due)).await;
        }
    }

    /// Lets further sockets be bound to this one's address, if they ask for it
    /// ([`UdpConfig::reuse_port`]). Bound without that, it has found the address free.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn share_address(&self) -> io::Result<()> {
        self.io.get_ref().set_reuse_port(true)
    }

    /// Waits until the kernel's send buffer may have room: that is to be found out by sending.
    pub async fn writable(&self) {
        // Seldom waited for, so that it is registered each time. The system knows a registration by its
        // descriptor, and this one's is taken.
        let copy = self.io.get_ref().try_clone();
        let room = copy.and_then(|copy| watch(copy, Interest::WRITABLE));
        let is_writable = match &room {
            Ok(room) => room.writable().await.map(drop),
            Err(_) => Err(io::ErrorKind::Other.into()),
        };
        // A process that has as many descriptors as it may is no reason to give a socket up: buffers empty
        // themselves in the time of a few packets.
        if is_writable.is_err() {
            tokio::time::sleep(RELEASE_RETRY).await;
        }
    }

    fn open(address: SocketAddr, config: UdpConfig) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // The kernel caps these silently; what it grants is enough to work.
        socket.set_recv_buffer_size(config.receive_buffer).ok();
        socket.set_send_buffer_size(config.send_buffer).ok();
        socket.set_reuse_port(config.reuse_port)?;
        socket.bind(&address.into())?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // quinn-udp has asked for more.
        leave_unrequested_out(socket.as_fd(), address)?;
        if config.allow_fragmentation {
            allow_fragmentation(socket.as_fd(), address.is_ipv6())?;
        }
        if config.network_errors {
            hear_network_errors(socket.as_fd(), address.is_ipv6())?;
        }
        let longest_train = match config.segmentation_offload {
            true => state.max_gso_segments(),
            false => 1,
        };
        // What came before nobody has asked has no stamp.
        let stamps = config.arrival_times.then(|| Stamps::ask(socket.as_fd()));
        if stamps.is_none() {
            // quinn-udp has asked for them.
            leave_unstamped(socket.as_fd())?;
        }
        socket.set_nonblocking(true)?;
        let local_addr = socket.local_addr()?.as_socket();
        Ok(Self {
            local_addr: local_addr.ok_or(io::ErrorKind::AddrNotAvailable)?,
            io: watch(socket, Interest::READABLE)?,
            state,
            counters: Counters::default(),
            impaired: config.impairment.map(Impaired::new),
            rescheduled: Notify::new(),
            longest_train: AtomicUsize::new(longest_train),
            network_errors: config.network_errors,
            allow_fragmentation: config.allow_fragmentation,
            stamps,
        })
    }

    /// The address that all datagrams come to, and leave from, where the socket is bound to one.
    fn only_ip(&self) -> Option<IpAddr> {
        Some(self.local_addr.ip()).filter(|ip| !ip.is_unspecified())
    }

    /// What `recv` waits for.
    fn interest(&self) -> Interest {
        if self.network_errors {
            Interest::READABLE | Interest::ERROR
        } else {
            Interest::READABLE
        }
    }

    fn receive_network_errors(&self, batch: &mut Batch) {
        for _ in 0..MAX_NETWORK_ERRORS {
            let next = |socket: &Socket| next_network_error(socket.as_fd());
            let Ok(error) = self.io.try_io(Interest::ERROR, next) else {
                return;
            };
            self.counters.receive_error();
            if let Some(mut error) = error {
                error.source_ip = error.source_ip.or(self.only_ip());
                batch.push_error(error);
            }
        }
    }

    /// One receive call; datagrams that the inbound link delays go to its queue.
    fn receive(&self, batch: &mut Batch) -> io::Result<()> {
        let now = Instant::now();
        let mut has_received = false;
        let read = self.io.try_io(Interest::READABLE, |socket| {
            let deliver = |received: &mut VecDeque<Received>, datagram: Received| {
                let bytes = bytes_on_wire(&datagram.source, datagram.payload.len());
                self.counters.received(1, bytes);
                match &self.impaired {
                    None => received.push_back(datagram),
                    Some(impaired) => {
                        impaired.offer_inbound(now, datagram, bytes, &self.counters, received)
                    }
                }
            };
            let when = (self.stamps.as_ref(), now);
            let filled = batch.fill(socket.as_fd(), self.only_ip(), when, deliver)?;
            has_received = true;
            match filled < BATCH_SIZE {
                // Nothing is left: tokio is told what another call would say.
                true => Err(io::ErrorKind::WouldBlock.into()),
                false => Ok(()),
            }
        });
        match has_received {
            true => Ok(()),
            false => read,
        }
    }

    /// Delivers and sends the delayed datagrams that are due; returns when the next one is.
    fn release(&self, batch: &mut Batch) -> Option<Instant> {
        let impaired = self.impaired.as_ref()?;
        let now = Instant::now();
        while let Some(datagram) = impaired.due_inbound(now) {
            batch.push(Received {
                received: now,
                ..datagram
            });
        }
        self.release_outbound(impaired, now);
        impaired.next_due()
    }

    fn release_outbound(&self, impaired: &Impaired, now: Instant) {
        let mut ready = VecDeque::new();
        while let Some(datagram) = impaired.due_outbound(now) {
            ready.push_back(datagram);
        }
        if !ready.is_empty() {
            self.send_or_hold(impaired, &mut ready, &mut Vec::new());
        }
    }

    /// Puts a datagram on the impaired wire; what arrives at once goes to `ready`.
    fn offer(
        &self,
        impaired: &Impaired,
        datagram: Datagram,
        now: Instant,
        ready: &mut VecDeque<Datagram>,
    ) {
        let bytes = bytes_on_wire(&datagram.destination, datagram.payload.len());
        self.counters.sent(1, bytes);
        if impaired.offer_outbound(now, datagram, bytes, &self.counters, ready) {
            self.rescheduled.notify_one();
        }
    }

    /// Sends what has passed the link; what the kernel has no room for waits in the delay queue.
    fn send_or_hold(
        &self,
        impaired: &Impaired,
        ready: &mut VecDeque<Datagram>,
        gathered: &mut Vec<u8>,
    ) {
        if self.send_all(ready, gathered, |_, _| ()) == Flushed::All {
            return;
        }
        let again = Instant::now() + RELEASE_RETRY;
        for datagram in ready.drain(..) {
            impaired.hold_outbound(again, datagram, &self.counters);
        }
        self.rescheduled.notify_one();
    }

    /// Sends what has not passed a link, and so is not counted yet.
    fn send_queue(&self, queue: &mut SendQueue) -> Flushed {
        let too_large = &mut queue.too_large;
        let datagrams = &mut queue.datagrams;
        self.send_all(datagrams, &mut queue.gathered, |train, sent| match sent {
            Ok(()) => self.count_sent(train.iter()),
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                if let [alone] = train
                    && too_large.len() < MAX_TOO_LARGE
                {
                    too_large.push_back(alone.clone());
                }
            }
            Err(_) => {}
        })
    }

    /// Sends train by train; `tell` hears what became of each, or of several at once that are no train.
    fn send_all(
        &self,
        datagrams: &mut VecDeque<Datagram>,
        gathered: &mut Vec<u8>,
        mut tell: impl FnMut(&[Datagram], &io::Result<()>),
    ) -> Flushed {
        let longest = self.longest_train.load(Ordering::Relaxed);
        if longest < 2 {
            return self.send_one_by_one(datagrams, tell);
        }
        let mut train_refused = false;
        send_trains(datagrams, longest, |train| {
            let sent = self.put_train_on_wire(train, gathered);
            match (&sent, train) {
                (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => {}
                (Err(error), [alone]) => {
                    train_refused = false;
                    self.refused(alone, error);
                }
                (Err(error), _) => train_refused = is_about_trains(error),
                // The kernel takes it alone, but not in a train.
                (Ok(()), [_]) if train_refused => self.send_no_more_trains(),
                (Ok(()), _) => {}
            }
            tell(train, &sent);
            sent
        })
    }

    /// Sends datagrams that cannot go in trains, many with one call; `tell` hears what became of each.
    fn send_one_by_one(
        &self,
        datagrams: &mut VecDeque<Datagram>,
        mut tell: impl FnMut(&[Datagram], &io::Result<()>),
    ) -> Flushed {
        loop {
            let waiting = &*datagrams.make_contiguous();
            let sent = match waiting {
                [] => return Flushed::All,
                [alone] => self.put_on_wire(alone, &alone.payload, None).map(|()| 1),
                _ => self.put_many_on_wire(waiting),
            };
            let (gone, outcome) = match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Blocked,
                Err(error) => {
                    self.refused(&waiting[0], &error);
                    (1, Err(error))
                }
                Ok(sent) => (sent, Ok(())),
            };
            tell(&waiting[..gone], &outcome);
            datagrams.drain(..gone);
        }
    }

    fn send_no_more_trains(&self) {
        if self.longest_train.swap(1, Ordering::Relaxed) > 1 {
            tracing::info!(local = %self.local_addr, "no segmentation offload on this device");
        }
    }

    fn refused(&self, datagram: &Datagram, error: &io::Error) {
        self.counters.send_error();
        tracing::debug!(
            local = %self.local_addr,
            destination = %datagram.destination,
            bytes = datagram.payload.len(),
            %error,
            "sending failed"
        );
    }

    fn count_sent<'a>(&self, datagrams: impl Iterator<Item = &'a Datagram>) {
        let (packets, bytes) = datagrams.fold((0, 0), |(packets, bytes), datagram| {
            let size = bytes_on_wire(&datagram.destination, datagram.payload.len());
            (packets + 1, bytes + size)
        });
        self.counters.sent(packets, bytes);
    }

    /// Datagrams of which [`train_length`] says that they can go as one.
    fn put_train_on_wire(&self, train: &[Datagram], gathered: &mut Vec<u8>) -> io::Result<()> {
        match train {
            [] => Ok(()),
            [alone] => self.put_on_wire(alone, &alone.payload, None),
            [first, ..] => {
                gathered.clear();
                for datagram in train {
                    gathered.extend_from_slice(&datagram.payload);
                }
                self.put_on_wire(first, gathered, Some(first.payload.len()))
            }
        }
    }

    /// One call to the kernel for several datagrams, tried like that for one.
    fn put_many_on_wire(&self, datagrams: &[Datagram]) -> io::Result<usize> {
        // The errors of others stop the first of them.
        self.put(|| send_many(self.as_fd(), datagrams), 1)
    }

    /// One call to the kernel.
    fn put_on_wire(
        &self,
        datagram: &Datagram,
        contents: &[u8],
        segment_size: Option<usize>,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: datagram.destination,
            ecn: None,
            contents,
            segment_size,
            src_ip: datagram.source_ip,
        };
        let socket = self.io.get_ref();
        let send = || self.state.try_send(UdpSockRef::from(socket), &transmit);
        self.put(send, ())
    }

    /// Sends past the errors of earlier datagrams where those are heard. What they stop for good is lost on its way, which
    /// its sender has to expect of any datagram: `lost` is what it is told.
    fn put<T>(&self, mut send: impl FnMut() -> io::Result<T>, lost: T) -> io::Result<T> {
        if !self.network_errors {
            return send();
        }
        match send_past_errors(send) {
            Tried::Done(result) => result,
            Tried::Lost => {
                self.counters.send_error();
                tracing::debug!(local = %self.local_addr, "errors of others have stopped a datagram");
                Ok(lost)
            }
        }
    }
}

/// For options of the socket; its data is this type's.
impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get_ref().as_fd()
    }
}

/// What the kernel says where a device does not cut trains, among other things: an address that is
/// not ours any more, or a destination that cannot be, gets the same answer without any train.
fn is_about_trains(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO))
}

/// Hands the queue to `put` train by train, until it is empty or `put` would block; what that
/// refuses for other reasons is dropped.
fn send_trains(
    datagrams: &mut VecDeque<Datagram>,
    longest: usize,
    mut put: impl FnMut(&[Datagram]) -> io::Result<()>,
) -> Flushed {
    // What is left of a train that was refused: the kernel may take its datagrams one by one.
    let mut one_by_one = 0_usize;
    while !datagrams.is_empty() {
        let length = match one_by_one {
            0 => train_length(datagrams, longest),
            _ => 1,
        };
        match put(&datagrams.make_contiguous()[..length]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Blocked,
            Err(_) if length > 1 => one_by_one = length,
            Ok(()) | Err(_) => {
                datagrams.drain(..length);
                one_by_one = one_by_one.saturating_sub(1);
            }
        }
    }
    Flushed::All
}

/// How many datagrams at the front of the queue the kernel can take as one train: same
/// destination, same source, same size, of which only the last may be smaller.
fn train_length(datagrams: &VecDeque<Datagram>, max_segments: usize) -> usize {
    let Some(first) = datagrams.front() else {
        return 0;
    };
    let size = first.payload.len();
    if size == 0 || max_segments < 2 {
        return 1;
    }
    let mut bytes = size;
    let mut length = 1;
    for datagram in datagrams.iter().skip(1).take(max_segments - 1) {
        let next = datagram.payload.len();
        let fits = next > 0 && next <= size && bytes + next <= MAX_TRAIN_BYTES;
        let alike =
            datagram.destination == first.destination && datagram.source_ip == first.source_ip;
        if !fits || !alike {
            break;
        }
        bytes += next;
        length += 1;
        if next < size {
            break;
        }
    }
    length
}

async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn queue(payloads: &[&'static [u8]]) -> VecDeque<Datagram> {
        let datagram = |payload: &&'static [u8]| Datagram {
            destination: SocketAddr::from(([192, 0, 2, 1], 9)),
            source_ip: None,
            payload: Bytes::from_static(payload),
        };
        payloads.iter().map(datagram).collect()
    }

    fn payloads(datagrams: &[Datagram]) -> Vec<Bytes> {
        let payload = |datagram: &Datagram| datagram.payload.clone();
        datagrams.iter().map(payload).collect()
    }

    #[test]
    fn a_train_refused_goes_one_by_one_and_what_finds_no_room_stays() {
        let all: [&[u8]; 5] = [b"1a", b"1b", b"1c", b"1d", b"2xy"];
        let mut datagrams = queue(&all);
        let mut sent = Vec::new();
        let flushed = send_trains(&mut datagrams, 64, |train| {
            if train.len() > 1 {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            if sent.len() == 2 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            sent.extend(payloads(train));
            Ok(())
        });
        assert_eq!(flushed, Flushed::Blocked);
        assert_eq!(sent, all[..2]);
        assert_eq!(payloads(datagrams.make_contiguous()), all[2..]);

        // What is refused alone too is dropped.
        let mut lengths = Vec::new();
        let flushed = send_trains(&mut datagrams, 64, |train| {
            lengths.push(train.len());
            Err(io::ErrorKind::PermissionDenied.into())
        });
        assert_eq!(flushed, Flushed::All);
        assert_eq!(lengths, [2, 1, 1, 1]);
        assert!(datagrams.is_empty());
    }

    #[tokio::test]
    async fn a_destination_that_cannot_be_does_not_end_trains() {
        let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), UdpConfig::default()).unwrap();
        let longest = socket.longest_train.load(Ordering::Relaxed);
        assert!(longest > 1, "the kernel has no segmentation offload");
        // Anybody can make us answer to port 0: it may be the source port of a datagram.
        let nowhere = |payload| Datagram {
            destination: SocketAddr::from(([127, 0, 0, 1], 0)),
            source_ip: None,
            payload: Bytes::from_static(payload),
        };
        assert!(matches!(
            socket.try_send(&nowhere(b"one")),
            SendOutcome::Failed(_)
        ));
        let mut queue = SendQueue::new();
        queue.extend([nowhere(b"1a"), nowhere(b"1b"), nowhere(b"1c")]);
        assert_eq!(socket.flush(&mut queue), Flushed::All);
        assert_eq!(socket.statistics().send_errors, 4);
        assert_eq!(socket.longest_train.load(Ordering::Relaxed), longest);
    }

    #[test]
    fn trains_follow_each_other() {
        let mut datagrams = queue(&[b"1a", b"1b", b"2xy", b"2zw", b"2"]);
        let mut lengths = Vec::new();
        let flushed = send_trains(&mut datagrams, 64, |train| {
            lengths.push(train.len());
            Ok(())
        });
        assert_eq!(flushed, Flushed::All);
        assert_eq!(lengths, [2, 3]);
    }
}
