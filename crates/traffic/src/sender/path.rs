//! The way of packets to the receiver, and of its words back.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sctp_net::{Association, Endpoint, SendError, SendInfo};
use tokio::runtime::Handle;
use udp_net::{DatagramSlice, PLAIN_BATCH, PlainBatch, PlainSocket};

use crate::clock::{self, Timestamp};
use crate::composer::Echoes;
use crate::control::{Frames, ReceiverMessage, SenderMessage, decode, encode};
use crate::header::{Header, Kind, MAX_PACKET_OCTETS};

/// What one call to the kernel may bring.
const READ_OCTETS: usize = 256 * 1024;

/// How many words of the receiver wait to be heard; it says nothing unasked.
const MAX_WORDS: usize = 4;

/// How long a thread may take to see that it is over, or a socket to have room again.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// A connected sender.
pub(super) struct Path {
    data: Data,
    shared: Arc<Shared>,
    words: Receiver<anyhow::Result<ReceiverMessage>>,
}

enum Data {
    Udp {
        socket: Arc<PlainSocket>,
        peer: SocketAddr,
        conversation: TcpStream,
    },
    Tcp(TcpStream),
    Sctp {
        association: Association,
        endpoint: Endpoint,
        runtime: Handle,
    },
}

/// What those who read share with the one who sends.
struct Shared {
    echoes: Mutex<Option<Echoes>>,
    is_over: AtomicBool,
}

impl Shared {
    fn echoes(&self) -> MutexGuard<'_, Option<Echoes>> {
        self.echoes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn echo(&self, packet: &mut [u8]) {
        if let Some(echoes) = self.echoes().as_mut() {
            echoes.handle(clock::now, packet);
        }
    }
}

impl Path {
    /// Packets by UDP, words by a connection beside it.
    pub(super) fn udp(
        socket: PlainSocket,
        peer: SocketAddr,
        conversation: TcpStream,
    ) -> anyhow::Result<Path> {
        let socket = Arc::new(socket);
        let (shared, words) = listen(&conversation)?;
        thread::Builder::new().name("echoes".into()).spawn({
            let (socket, shared) = (Arc::clone(&socket), Arc::clone(&shared));
            move || read_datagrams(&socket, peer, &shared)
        })?;
        Ok(Path {
            data: Data::Udp {
                socket,
                peer,
                conversation,
            },
            shared,
            words,
        })
    }

    /// Packets and words by one connection.
    pub(super) fn tcp(stream: TcpStream) -> anyhow::Result<Path> {
        let (shared, words) = listen(&stream)?;
        Ok(Path {
            data: Data::Tcp(stream),
            shared,
            words,
        })
    }

    /// Packets and words by one association. Must be called within a runtime.
    pub(super) fn sctp(association: Association, endpoint: Endpoint) -> Path {
        let (shared, sender, words) = ears();
        tokio::spawn(read_messages(
            association.clone(),
            Arc::clone(&shared),
            sender,
        ));
        Path {
            data: Data::Sctp {
                association,
                endpoint,
                runtime: Handle::current(),
            },
            shared,
            words,
        }
    }

    /// Sends packets that lie one behind the other and end at `ends`. Waits until the transport takes them,
    /// but not for datagrams beyond the deadline. Returns how many were refused.
    pub(super) fn send(
        &mut self,
        octets: &[u8],
        ends: &[usize],
        deadline: Timestamp,
    ) -> anyhow::Result<u64> {
        match &mut self.data {
            Data::Udp { socket, peer, .. } => {
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let slices: Vec<DatagramSlice> = starts
                    .zip(ends)
                    .map(|(start, end)| DatagramSlice {
                        start,
                        length: end - start,
                        destination: *peer,
                    })
                    .collect();
                Ok(send_datagrams(socket, octets, &slices, deadline))
            }
            Data::Tcp(stream) => {
                stream.write_all(octets).context("the connection broke")?;
                Ok(0)
            }
            Data::Sctp {
                association,
                runtime,
                ..
            } => {
                let starts = std::iter::once(0).chain(ends.iter().copied());
                for (start, end) in starts.zip(ends) {
                    let packet = octets.get(start..*end).unwrap_or_default();
                    send_message(association, runtime, Bytes::copy_from_slice(packet))?;
                }
                Ok(0)
            }
        }
    }

    /// Says a word, and waits for the answer.
    pub(super) fn ask(
        &mut self,
        message: &SenderMessage,
        limit: Duration,
    ) -> anyhow::Result<ReceiverMessage> {
        let word = encode(message)?;
        match &mut self.data {
            Data::Udp { conversation, .. } => conversation.write_all(&word)?,
            Data::Tcp(stream) => stream.write_all(&word)?,
            Data::Sctp {
                association,
                runtime,
                ..
            } => send_message(association, runtime, word.into())?,
        }
        match self.words.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                bail!("the receiver does not answer within {} s", limit.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => bail!("the receiver has gone"),
        }
    }

    /// From now on these echoes are taken.
    pub(super) fn expect_echoes(&self, echoes: Echoes) {
        *self.shared.echoes() = Some(echoes);
    }

    /// How many came back, and the median round trip in milliseconds.
    pub(super) fn echoed(&self) -> (u64, Option<f64>) {
        let echoes = self.shared.echoes();
        let summary = echoes
            .as_ref()
            .map(|echoes| echoes.round_trips().milliseconds());
        summary.map_or((0, None), |summary| (summary.count, summary.p50))
    }

    /// Waits until so many echoes have come, or none for a while. A look counts for the time that it should take, and
    /// no more: a program that was stopped in between has not heard that nothing came.
    pub(super) fn settle(&self, expected: u64, quiet_time: Duration) {
        const LOOK: Duration = Duration::from_millis(2);
        let mut seen = self.echoed().0;
        let mut quiet = Duration::ZERO;
        while seen < expected && quiet < quiet_time {
            thread::sleep(LOOK);
            quiet += LOOK;
            let now = self.echoed().0;
            if now > seen {
                seen = now;
                quiet = Duration::ZERO;
            }
        }
    }

    /// Takes the echoes of the run that is over.
    pub(super) fn take_echoes(&self) -> Option<Echoes> {
        self.shared.echoes().take()
    }

    /// Ends in good order.
    pub(super) async fn close(self) {
        if let Data::Sctp {
            association,
            endpoint,
            ..
        } = &self.data
        {
            association.shutdown().await;
            endpoint.close().await;
        }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Data::Udp {
            conversation: stream,
            ..
        }
        | Data::Tcp(stream) = &self.data
        {
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

type Ears = (
    Arc<Shared>,
    SyncSender<anyhow::Result<ReceiverMessage>>,
    Receiver<anyhow::Result<ReceiverMessage>>,
);

fn ears() -> Ears {
    let shared = Arc::new(Shared {
        echoes: Mutex::new(None),
        is_over: AtomicBool::new(false),
    });
    let (sender, words) = sync_channel(MAX_WORDS);
    (shared, sender, words)
}

/// Starts a thread that reads a connection.
fn listen(
    stream: &TcpStream,
) -> anyhow::Result<(Arc<Shared>, Receiver<anyhow::Result<ReceiverMessage>>)> {
    let (shared, sender, words) = ears();
    let mut stream = stream.try_clone()?;
    thread::Builder::new().name("words".into()).spawn({
        let shared = Arc::clone(&shared);
        move || {
            // The end of the connection is the end of the words.
            if let Err(error) = read_stream(&mut stream, &shared, &sender)
                && !shared.is_over.load(Ordering::Relaxed)
            {
                sender.try_send(Err(error)).ok();
            }
        }
    })?;
    Ok((shared, words))
}

fn read_stream(
    stream: &mut TcpStream,
    shared: &Shared,
    words: &SyncSender<anyhow::Result<ReceiverMessage>>,
) -> anyhow::Result<()> {
    let mut frames = Frames::default();
    let mut buffer = vec![0; READ_OCTETS];
    loop {
        let count = stream.read(&mut buffer).context("the connection broke")?;
        if count == 0 {
            return Ok(());
        }
        frames.push(buffer.get(..count).unwrap_or_default());
        while let Some(mut packet) = frames.next_packet()? {
            hear(&mut packet, shared, words);
        }
    }
}

fn hear(packet: &mut [u8], shared: &Shared, words: &SyncSender<anyhow::Result<ReceiverMessage>>) {
    match Header::read(packet).map(|header| header.kind) {
        Some(Kind::Control) => {
            words.try_send(decode(packet)).ok();
        }
        _ => shared.echo(packet),
    }
}

async fn read_messages(
    association: Association,
    shared: Arc<Shared>,
    words: SyncSender<anyhow::Result<ReceiverMessage>>,
) {
    let mut parts = BytesMut::new();
    while let Some(message) = association.receive().await {
        parts.extend_from_slice(&message.payload);
        if message.end_of_record {
            hear(&mut parts, &shared, &words);
            parts.clear();
        } else if parts.len() > MAX_PACKET_OCTETS {
            words
                .try_send(Err(anyhow::anyhow!("the receiver says too much")))
                .ok();
            return;
        }
    }
}

fn read_datagrams(socket: &PlainSocket, peer: SocketAddr, shared: &Shared) {
    let mut batch = PlainBatch::new();
    let mut packet = Vec::new();
    while !shared.is_over.load(Ordering::Relaxed) {
        let mut waiting = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
        if poll(&mut waiting, Some(&LOOK)) == Ok(0) || socket.receive(&mut batch).is_err() {
            continue;
        }
        for (from, octets) in batch.datagrams() {
            if from == peer {
                packet.clear();
                packet.extend_from_slice(octets);
                shared.echo(&mut packet);
            }
        }
    }
}

fn send_datagrams(
    socket: &PlainSocket,
    octets: &[u8],
    slices: &[DatagramSlice],
    deadline: Timestamp,
) -> u64 {
    let mut refused = 0;
    let mut rest = slices;
    while let [_, after_one @ ..] = rest {
        match socket.send(octets, &rest[..rest.len().min(PLAIN_BATCH)]) {
            Ok(sent) => rest = rest.get(sent.max(1)..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && clock::now() < deadline => {
                let mut room = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::OUT)];
                poll(&mut room, Some(&LOOK)).ok();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::debug!(%error, "a packet was refused");
                refused += 1;
                rest = after_one;
            }
        }
    }
    refused
}

fn send_message(association: &Association, runtime: &Handle, message: Bytes) -> anyhow::Result<()> {
    let info = SendInfo::default();
    match association.try_send(info, message.clone()) {
        Ok(()) => Ok(()),
        Err(SendError::BufferFull) => runtime
            .block_on(association.send(info, message))
            .context("the association was lost"),
        Err(error) => Err(error).context("the association was lost"),
    }
}
