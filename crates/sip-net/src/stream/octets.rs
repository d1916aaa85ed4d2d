//! Octets to and from a peer, in the clear or through TLS, without waiting.

use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::CipherSuite;
use rustls::pki_types::CertificateDer;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::frames::Frames;

/// A TCP connection, with TLS in it or not.
///
/// Nothing waits: where the kernel has nothing to read or no room to write, the error is
/// [`WouldBlock`](io::ErrorKind::WouldBlock), and [`Octets::blocked_on`] says what to wait for.
#[derive(Debug)]
pub(super) struct Octets {
    socket: Arc<TcpStream>,
    tls: Option<Box<rustls::Connection>>,
    blocked_on: Interest,
    /// All that was read so far.
    received: u64,
    /// Where that ends, where it is a WebSocket.
    frames: Option<Box<Frames>>,
    /// What may still be read before others get their turn.
    allowance: usize,
}

impl Octets {
    /// A connection in the clear.
    pub(super) fn plain(socket: Arc<TcpStream>) -> Octets {
        Octets {
            socket,
            tls: None,
            blocked_on: Interest::READABLE,
            received: 0,
            frames: None,
            allowance: ALLOWANCE,
        }
    }

    /// A connection in which TLS has been negotiated. Dropping the future gives it up.
    ///
    /// # Errors
    /// Those of the connection; `InvalidData` where the peer is not believed or breaks the rules.
    /// The peer is told why.
    pub(super) async fn negotiate(
        socket: Arc<TcpStream>,
        mut session: rustls::Connection,
    ) -> io::Result<Octets> {
        session.set_buffer_limit(Some(TLS_BUFFER));
        let mut octets = Octets {
            tls: Some(Box::new(session)),
            ..Octets::plain(socket.clone())
        };
        loop {
            match octets.advance_handshake() {
                Ok(true) => return Ok(octets),
                // A peer that sends without a pause does not keep all others waiting.
                Ok(false) => tokio::task::yield_now().await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.ready(octets.blocked_on).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The certificates that the peer showed in TLS, its own first.
    pub(super) fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        let tls = self.tls.as_deref();
        tls.and_then(|tls| tls.peer_certificates())
            .unwrap_or_default()
    }

    /// What TLS has agreed on.
    pub(super) fn cipher_suite(&self) -> Option<CipherSuite> {
        let suite = self.tls.as_deref()?.negotiated_cipher_suite()?;
        Some(suite.suite())
    }

    pub(super) fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// What the last operation that would have blocked waits for.
    pub(super) fn blocked_on(&self) -> Interest {
        self.blocked_on
    }

    /// How many octets were read so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// What comes is a WebSocket, from its handshake on.
    pub(super) fn follow_frames(&mut self) {
        self.frames = Some(Box::new(Frames::new()));
    }

    /// Whether what was read so far ends within a message of a WebSocket.
    pub(super) fn is_partial(&self) -> bool {
        self.frames
            .as_ref()
            .is_some_and(|frames| frames.is_partial())
    }

    /// Begins a turn, in which so much can be read and no more: a peer that sends without a pause
    /// does not keep all others waiting.
    pub(super) fn begin_turn(&mut self) {
        self.allowance = ALLOWANCE;
    }

    /// Whether the turn has ended before the octets had.
    pub(super) fn is_turn_over(&self) -> bool {
        self.allowance == 0
    }

    /// Whether TLS has something that the kernel did not take yet.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Tells the peer that nothing more comes, where TLS has a way to tell it.
    pub(super) fn send_close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
    }

    /// Does what can be done of the handshake; tells whether it is finished.
    fn advance_handshake(&mut self) -> io::Result<bool> {
        self.flush()?;
        if self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking()) {
            return Ok(true);
        }
        match self.pull() {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads records into TLS. 0 means that the peer has closed the connection.
    fn pull(&mut self) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return Ok(0);
        };
        let length = match tls.read_tls(&mut Kernel(&self.socket)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.blocked_on = Interest::READABLE;
                return Err(error);
            }
            read => read?,
        };
        if let Err(error) = tls.process_new_packets() {
            // The alert that says why; the connection ends whether or not it goes out.
            let _ = self.flush();
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(length)
    }

    fn read_through_tls(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(tls) = &mut self.tls else {
                return Ok(0);
            };
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Closed without a word: messages have lengths, so that one cut short is noticed.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if self.allowance == 0 {
                return Err(self.turn_over());
            }
            // Records may have no message in them, or nothing at all.
            let length = self.pull()?;
            self.allowance = self.allowance.saturating_sub(length);
        }
    }

    fn turn_over(&mut self) -> io::Error {
        self.blocked_on = Interest::READABLE;
        io::ErrorKind::WouldBlock.into()
    }
}

impl Read for Octets {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.allowance == 0 {
            return Err(self.turn_over());
        }
        let read = if self.tls.is_some() {
            self.read_through_tls(buffer)
        } else if self.frames.is_some() {
            Kernel(&self.socket).read(buffer)
        } else {
            read_plain(&self.socket, buffer)
        };
        match &read {
            Ok(length) => {
                self.received += *length as u64;
                if let Some(frames) = &mut self.frames {
                    frames.pass(buffer.get(..*length).unwrap_or_default());
                }
                self.allowance = self.allowance.saturating_sub(*length);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.blocked_on = Interest::READABLE;
            }
            Err(_) => {}
        }
        read
    }
}

impl Write for Octets {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buffer)])
    }

    /// TLS takes what has room in its buffer, which the kernel need not have taken yet.
    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            let written = self.socket.try_write_vectored(buffers);
            if written.as_ref().is_err_and(would_block) {
                self.blocked_on = Interest::WRITABLE;
            }
            return written;
        };
        let mut length = tls.writer().write_vectored(buffers)?;
        if length == 0 {
            self.flush()?;
            if let Some(tls) = &mut self.tls {
                length = tls.writer().write_vectored(buffers)?;
            }
        }
        match self.flush() {
            Err(error) if !would_block(&error) => Err(error),
            Err(error) if length == 0 => Err(error),
            _ => Ok(length),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        while tls.wants_write() {
            match tls.write_tls(&mut Kernel(&self.socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) => {
                    self.blocked_on = Interest::WRITABLE;
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// The kernel's side of a connection.
struct Kernel<'a>(&'a TcpStream);

impl Read for Kernel<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

/// One read of octets that nobody keeps back: TLS and the WebSocket do, and have to be asked again whether
/// or not more has come.
fn read_plain(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let room = buffer.len();
    let mut last = None;
    let read = socket.try_io(Interest::READABLE, || {
        let length = (&*SockRef::from(socket)).read(buffer)?;
        if (1..room).contains(&length) {
            // Nothing is left: tokio is told what another call would say. That the peer has closed the
            // connection it does not forget.
            last = Some(length);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(length)
    });
    last.map_or(read, Ok)
}

impl Write for Kernel<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.try_write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lends room for one read. What is to stay is taken from there at once, so that neither idle connections nor messages that
/// are kept hold more memory than what was received.
pub(super) fn with_room_to_read<T>(read: impl FnOnce(&mut [u8]) -> T) -> T {
    READ_BUFFER.with_borrow_mut(|room| read(room))
}

pub(super) fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// The most that one call to the kernel reads.
const READ_BYTES: usize = 64 * 1024;

/// The most that is read in one turn.
const ALLOWANCE: usize = READ_BYTES;

/// What waits inside TLS for a peer that does not read.
const TLS_BUFFER: usize = 64 * 1024;

thread_local! {
    /// What the kernel writes into, for all connections of a thread.
    static READ_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}
