//! One connection of a stream transport: messages or octets in, messages out, without waiting.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Buf;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tungstenite::WebSocket;

use super::octets::{Octets, with_room_to_read, would_block};
use super::received::Received;
use super::websocket::{self, CloseCode};
use crate::outbound_message::OutboundMessage;

/// The octets of a connection, for its task and the threads that send by it. The lock is held while octets move and never while
/// something is waited for.
#[derive(Debug)]
pub(super) struct Link {
    socket: Arc<TcpStream>,
    wire: Mutex<Wire>,
}

/// What is inside TCP.
#[derive(Debug)]
enum Wire {
    /// Messages end to end, found by Content-Length (RFC 3261 section 18.3).
    Stream(Octets),
    /// A message in each message of a WebSocket (RFC 7118 section 5).
    WebSocket {
        socket: Box<WebSocket<Octets>>,
        is_unwritten: bool,
        /// What the peer is to be told of the rule that it has broken.
        complaint: Option<CloseCode>,
    },
}

/// How much of the messages that were to be written is on its way.
#[derive(Debug)]
pub(super) enum Written {
    Octets(usize),
    Messages(usize),
}

impl Link {
    /// A connection whose messages are end to end.
    pub(super) fn stream(octets: Octets) -> Link {
        Link::new(octets.socket().clone(), Wire::Stream(octets))
    }

    /// A connection that is a WebSocket.
    pub(super) fn websocket(socket: WebSocket<Octets>) -> Link {
        let wire = Wire::WebSocket {
            is_unwritten: false,
            complaint: None,
            socket: Box::new(socket),
        };
        let socket = match &wire {
            Wire::WebSocket { socket, .. } => socket.get_ref().socket().clone(),
            Wire::Stream(octets) => octets.socket().clone(),
        };
        Link::new(socket, wire)
    }

    fn new(socket: Arc<TcpStream>, wire: Wire) -> Link {
        Link {
            socket,
            wire: Mutex::new(wire),
        }
    }

    pub(super) fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Whether messages are found by their lengths, not by those of the WebSocket.
    pub(super) fn is_stream(&self) -> bool {
        matches!(*self.lock(), Wire::Stream(_))
    }

    /// One read into this room.
    ///
    /// # Errors
    /// `WouldBlock` where nothing has come; `InvalidData` where the peer breaks the rules.
    pub(super) fn read(&self, room: &mut [u8]) -> io::Result<Received> {
        let mut wire = self.lock();
        let received = match &mut *wire {
            Wire::Stream(octets) => {
                octets.begin_turn();
                octets.read(room).map(|length| match length {
                    0 => Received::End,
                    length => Received::Octets(length),
                })
            }
            Wire::WebSocket {
                socket, complaint, ..
            } => {
                socket.get_mut().begin_turn();
                websocket::read(socket).map_err(|(error, code)| {
                    *complaint = code;
                    error
                })
            }
        };
        // What there is no room for is left to the writer, and an error comes again.
        let _ = wire.flush();
        received
    }

    /// Whether the last read ended because others have to get their turn.
    pub(super) fn is_turn_over(&self) -> bool {
        self.lock().octets().is_turn_over()
    }

    /// Whether what was read so far ends within a message of a WebSocket.
    pub(super) fn is_partial(&self) -> bool {
        self.lock().octets().is_partial()
    }

    /// How many octets were read so far.
    pub(super) fn received(&self) -> u64 {
        self.lock().octets().received()
    }

    /// Writes as much as there is room for; of the first message `skip` octets are gone already.
    ///
    /// # Errors
    /// `WouldBlock` where there is no room.
    pub(super) fn write(
        &self,
        pending: &VecDeque<OutboundMessage>,
        skip: usize,
    ) -> io::Result<Written> {
        match &mut *self.lock() {
            Wire::Stream(octets) => {
                let mut slices = [IoSlice::new(&[]); WRITE_BATCH];
                let mut skip = skip;
                for (slice, message) in slices.iter_mut().zip(pending) {
                    let mut payload = &message.payload[..];
                    payload.advance(skip);
                    skip = 0;
                    *slice = IoSlice::new(payload);
                }
                let count = pending.len().min(WRITE_BATCH);
                octets.write_vectored(&slices[..count]).map(Written::Octets)
            }
            Wire::WebSocket {
                socket,
                is_unwritten,
                ..
            } => {
                let payloads = pending.iter().map(|message| &message.payload);
                let written = websocket::write(socket, payloads)?;
                *is_unwritten = true;
                Ok(Written::Messages(written))
            }
        }
    }

    /// Whether something was taken that the kernel did not take yet.
    pub(super) fn wants_write(&self) -> bool {
        match &*self.lock() {
            Wire::Stream(octets) => octets.wants_write(),
            Wire::WebSocket {
                socket,
                is_unwritten,
                ..
            } => *is_unwritten || socket.get_ref().wants_write(),
        }
    }

    /// Hands to the kernel what was taken.
    ///
    /// # Errors
    /// `WouldBlock` where it has no room.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.lock().flush()
    }

    /// Prepares a ping where the transport has one.
    pub(super) fn ping(&self) {
        if let Wire::WebSocket {
            socket,
            is_unwritten,
            ..
        } = &mut *self.lock()
        {
            websocket::ping(socket);
            *is_unwritten = true;
        }
    }

    /// Whether a peer that sends no more can still be answered: a WebSocket ends for both.
    pub(super) fn can_be_half_closed(&self) -> bool {
        self.is_stream()
    }

    /// Tells the peer that nothing more comes, and sends that as far as it takes it. Dropping the
    /// future loses nothing.
    pub(super) async fn close(&self, code: CloseCode) -> io::Result<()> {
        match &mut *self.lock() {
            Wire::Stream(octets) => octets.send_close(),
            Wire::WebSocket {
                socket,
                is_unwritten,
                complaint,
            } => {
                websocket::close(socket, complaint.unwrap_or(code));
                socket.get_mut().send_close();
                *is_unwritten = true;
            }
        }
        loop {
            match self.flush() {
                Err(error) if would_block(&error) => {
                    self.socket.ready(Interest::WRITABLE).await?;
                }
                flushed => {
                    flushed?;
                    break;
                }
            }
        }
        SockRef::from(&*self.socket).shutdown(Shutdown::Write)
    }

    /// Reads and throws away until the peer closes the connection.
    pub(super) async fn discard(&self) {
        discard(&self.socket).await;
    }

    fn lock(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wire {
    fn octets(&self) -> &Octets {
        match self {
            Wire::Stream(octets) => octets,
            Wire::WebSocket { socket, .. } => socket.get_ref(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Stream(octets) => octets.flush(),
            Wire::WebSocket {
                socket,
                is_unwritten,
                ..
            } => {
                let flushed = websocket::flush(socket);
                *is_unwritten = flushed.as_ref().is_err_and(would_block);
                flushed
            }
        }
    }
}

/// Closes a connection whose handshake has failed so that the peer learns why: closing it with octets
/// unread would reset it, and with it what the peer has not read yet.
pub(super) async fn end(socket: &Arc<TcpStream>) {
    if SockRef::from(&**socket).shutdown(Shutdown::Write).is_ok() {
        discard(socket).await;
    }
}

async fn discard(socket: &Arc<TcpStream>) {
    let mut thrown_away = Octets::plain(socket.clone());
    while socket.readable().await.is_ok() {
        thrown_away.begin_turn();
        match with_room_to_read(|room| thrown_away.read(room)) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if would_block(&error) => {}
            Err(_) => return,
        }
        tokio::task::coop::consume_budget().await;
    }
}

/// How many messages one call to the kernel writes.
pub(super) const WRITE_BATCH: usize = 128;
