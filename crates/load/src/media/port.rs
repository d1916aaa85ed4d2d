//! A thread with a pair of sockets: the media of many calls on the network.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use udp_net::{DatagramSlice, PlainBatch, PlainSocket};

use super::{
    CallId, Clip, Epoch, Law, Media, MediaCounters, MediaReport, Mode, OutgoingPacket, PACKET_TIME,
    PacketBatch, Recording, Remote, SrtpKeys, describe,
};

/// How often a pair of ports is looked for, of which the first is even.
const PORT_TRIES: usize = 64;

/// How many batches are read from a socket before others have their turn: more than a turn of sending that
/// comes late can bring, so that what is late is late and not lost.
const MAX_BATCHES: usize = 64;

/// How the media of calls are carried.
#[derive(Clone, Debug)]
pub struct MediaConfig {
    /// The local address, which descriptions tell: no wildcard.
    pub address: IpAddr,
    /// The port of RTP, which is even; RTCP has the next one. 0 lets the system choose.
    pub port: u16,
    /// The codec that is offered.
    pub codec: Law,
    /// What calls play.
    pub clip: Clip,
    /// Calls at a time; further ones have no media.
    pub max_calls: usize,
    /// Whether reports (RTCP) are sent.
    pub reports: bool,
    /// Octets of the kernel's buffers to ask for.
    pub buffer: usize,
    /// Where random numbers come from.
    pub seed: u64,
}

impl MediaConfig {
    /// A tone in PCMU on a port of the system's choice, for up to 65,536 calls.
    pub fn new(address: IpAddr) -> MediaConfig {
        MediaConfig {
            address,
            port: 0,
            codec: Law::default(),
            clip: Clip::tone(440),
            max_calls: 65_536,
            reports: true,
            buffer: 16 << 20,
            seed: rand::random(),
        }
    }
}

/// The media of many calls on a pair of ports. Dropping it ends its thread.
#[derive(Debug)]
pub struct MediaPort {
    shared: Arc<Shared>,
    address: SocketAddr,
    codec: Law,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    media: Mutex<Media>,
    is_over: AtomicBool,
}

impl MediaPort {
    /// Binds the ports and starts the thread.
    ///
    /// # Errors
    ///
    /// When no pair of ports can be bound, or there can be no thread.
    pub fn open(config: MediaConfig) -> io::Result<MediaPort> {
        let (rtp, rtcp) = bind_pair(&config)?;
        let address = rtp.local_addr();
        let epoch = Epoch::new(Instant::now(), SystemTime::now());
        let rng = ChaCha12Rng::seed_from_u64(config.seed);
        let mut media = Media::new(config.address, config.clip, config.max_calls, epoch, rng);
        media.set_reports(config.reports);
        let shared = Arc::new(Shared {
            media: Mutex::new(media),
            is_over: AtomicBool::new(false),
        });
        let thread = thread::Builder::new().name("media".into()).spawn({
            let shared = Arc::clone(&shared);
            move || carry(&shared, &rtp, &rtcp)
        })?;
        Ok(MediaPort {
            shared,
            address,
            codec: config.codec,
            thread: Some(thread),
        })
    }

    /// Where RTP comes to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes room for a call; `None` when there are as many as there may be.
    pub fn reserve(&self) -> Option<CallId> {
        self.media().reserve()
    }

    /// The source that a call sends as, for descriptions that others write.
    pub fn ssrc(&self, call: CallId) -> Option<u32> {
        self.media().ssrc(call)
    }

    /// The description of a call's media, an offer or the answer to one of ours.
    pub fn describe(&self, call: CallId) -> String {
        let ssrc = self.ssrc(call).unwrap_or_default();
        let (ip, port) = (self.address.ip(), self.address.port());
        describe(ip, port, self.codec, ssrc, u64::from(ssrc))
    }

    /// The description that answers an offer: in the codec that was offered.
    pub fn describe_answer(&self, call: CallId, offer: &Remote) -> String {
        let ssrc = self.ssrc(call).unwrap_or_default();
        let (ip, port) = (self.address.ip(), self.address.port());
        describe(ip, port, offer.codec, ssrc, u64::from(ssrc))
    }

    /// Media of a call begin; with keys they are protected.
    pub fn start(&self, call: CallId, mode: Mode, remote: Remote, keys: Option<SrtpKeys>) {
        let mut media = self.media();
        media.start(Instant::now(), call, mode, remote, keys);
    }

    /// A call whose media have begun plays a recording.
    pub fn play(&self, call: CallId, recording: Arc<Recording>) {
        self.media().play(Instant::now(), call, recording);
    }

    /// A recording is played no further until it is resumed.
    pub fn pause(&self, call: CallId) {
        self.media().pause(Instant::now(), call);
    }

    /// A recording is played on.
    pub fn resume(&self, call: CallId) {
        self.media().resume(Instant::now(), call);
    }

    /// The call says goodbye and plays nothing more, but hears what is under way until it is stopped.
    pub fn stop_sending(&self, call: CallId) {
        let mut media = self.media();
        media.stop_sending(Instant::now(), call);
    }

    /// The call is over: what its media did.
    pub fn stop(&self, call: CallId) -> MediaReport {
        let mut media = self.media();
        media.stop(Instant::now(), call)
    }

    /// What is going on.
    pub fn counters(&self) -> MediaCounters {
        self.media().counters()
    }

    fn media(&self) -> MutexGuard<'_, Media> {
        self.shared.lock()
    }
}

impl Drop for MediaPort {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Media> {
        self.media.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An even port and the next one (RFC 3550 section 11).
fn bind_pair(config: &MediaConfig) -> io::Result<(PlainSocket, PlainSocket)> {
    let bind = |port| {
        let address = SocketAddr::new(config.address, port);
        PlainSocket::bind(address, false, config.buffer)
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let rtp = bind(config.port)?;
        let port = rtp.local_addr().port();
        let next = port.checked_add(1).filter(|_| port % 2 == 0);
        let pair = match next {
            Some(next) => bind(next).map(|rtcp| (rtp, rtcp)),
            None if config.port == 0 => Err(io::ErrorKind::AddrInUse.into()),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{port} is not a port for RTP: an even port is expected"),
            )),
        };
        match pair {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && config.port == 0
                    && tries < PORT_TRIES => {}
            pair => return pair,
        }
    }
}

/// Reads, waits and writes until the port is dropped.
fn carry(shared: &Shared, rtp: &PlainSocket, rtcp: &PlainSocket) {
    let mut incoming = PlainBatch::new();
    let mut batch = PacketBatch::default();
    while !shared.is_over.load(Ordering::Relaxed) {
        let due = {
            let mut media = shared.lock();
            media.handle_timeout(Instant::now());
            media.take_output(&mut batch);
            media.next_timeout()
        };
        send(rtp, &batch, batch.media());
        send(rtcp, &batch, batch.control());
        // A call that begins meanwhile sends nothing for as long as this.
        let wait = due.map_or(PACKET_TIME, |due| {
            due.saturating_duration_since(Instant::now())
                .min(PACKET_TIME)
        });
        let [has_media, has_control] = readable(rtp, rtcp, wait);
        if has_media {
            receive(shared, rtp, &mut incoming);
        }
        if has_control {
            receive(shared, rtcp, &mut incoming);
        }
    }
    let mut media = shared.lock();
    media.say_goodbyes(Instant::now());
    media.take_output(&mut batch);
    // What was sent back counts as sent, and on one port with RTP goodbyes leave by it.
    send(rtp, &batch, batch.media());
    send(rtcp, &batch, batch.control());
}

fn receive(shared: &Shared, socket: &PlainSocket, batch: &mut PlainBatch) {
    for _ in 0..MAX_BATCHES {
        match socket.receive(batch) {
            Ok(count) => {
                let now = Instant::now();
                let mut media = shared.lock();
                for (from, octets) in batch.datagrams() {
                    media.handle_packet(now, from, octets);
                }
                if count < udp_net::PLAIN_BATCH {
                    return;
                }
            }
            // Nothing more, or what the network says of a packet sent earlier.
            Err(_) => return,
        }
    }
}

/// What the kernel does not take is lost, as on the network.
fn send(socket: &PlainSocket, batch: &PacketBatch, packets: &[OutgoingPacket]) {
    for packets in packets.chunks(udp_net::PLAIN_BATCH) {
        let slices: Vec<DatagramSlice> = packets
            .iter()
            .map(|packet| DatagramSlice {
                start: packet.start,
                length: packet.length,
                destination: packet.destination,
            })
            .collect();
        let mut rest = slices.as_slice();
        while !rest.is_empty() {
            let sent = match socket.send(batch.octets(), rest) {
                Ok(sent) => sent.max(1),
                Err(error) => {
                    tracing::debug!(%error, "a media packet was not sent");
                    1
                }
            };
            rest = rest.get(sent..).unwrap_or_default();
        }
    }
}

/// Waits until one of the sockets has something, or so long.
fn readable(rtp: &PlainSocket, rtcp: &PlainSocket, wait: Duration) -> [bool; 2] {
    let mut sockets =
        [rtp, rtcp].map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
    let limit = Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: i64::from(wait.subsec_nanos()),
    };
    match poll(&mut sockets, Some(&limit)) {
        Ok(_) => sockets.map(|socket| !socket.revents().is_empty()),
        // Interrupted: looking costs little.
        Err(_) => [true; 2],
    }
}
