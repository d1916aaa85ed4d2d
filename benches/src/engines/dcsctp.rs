//! dcSCTP, the engine of WebRTC's data channels, in Rust.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::ensure;
use dcsctp::api::{
    BatchSendError, DcSctpSocket, Message, Options, PpId, SendError, SendOptions, SocketEvent,
    SocketState, SocketTime, StreamId,
};

use super::{BUFFER_BYTES, Extension, PACKET_BYTES, SEND_BUFFER_BYTES, STREAMS, Transfer};

/// A socket.
pub(crate) struct Engine {
    socket: Box<dyn DcSctpSocket>,
    created: Instant,
    packets: VecDeque<Vec<u8>>,
}

/// The settings of a comparison: the defaults, with the buffers and packets that both sides have.
fn options() -> Options {
    Options {
        mtu: PACKET_BYTES,
        max_receiver_window_buffer_size: BUFFER_BYTES,
        max_send_buffer_size: SEND_BUFFER_BYTES,
        per_stream_send_queue_limit: SEND_BUFFER_BYTES,
        announced_maximum_incoming_streams: STREAMS,
        announced_maximum_outgoing_streams: STREAMS,
        ..Options::default()
    }
}

impl Engine {
    pub(crate) fn new(now: Instant) -> Engine {
        Engine::with(now, &options())
    }

    fn with(now: Instant, options: &Options) -> Engine {
        Engine {
            socket: dcsctp::new_socket("", options),
            created: now,
            packets: VecDeque::new(),
        }
    }

    /// Begins an association.
    pub(crate) fn connect(&mut self) {
        self.socket.connect();
    }

    /// Begins to shut down.
    pub(crate) fn shut_down(&mut self) {
        self.socket.shutdown();
    }

    /// Whether there is no association.
    pub(crate) fn is_closed(&self) -> bool {
        self.socket.state() == SocketState::Closed
    }

    fn advance(&mut self, now: Instant) {
        self.socket
            .advance_time(SocketTime::zero() + now.saturating_duration_since(self.created));
    }
}

impl super::Engine for Engine {
    type Packet = Vec<u8>;

    const EXTENSIONS: &'static [Extension] = &[Extension::Interleaving];

    fn pair(now: Instant, transfer: &Transfer) -> anyhow::Result<(Self, Self)> {
        let options = Options {
            enable_message_interleaving: transfer.extension == Some(Extension::Interleaving),
            ..options()
        };
        let mut client = Engine::with(now, &options);
        client.connect();
        Ok((client, Engine::with(now, &options)))
    }

    fn is_up(&self) -> bool {
        self.socket.state() == SocketState::Connected
    }

    fn send(
        &mut self,
        _: Instant,
        payload: &[u8],
        unordered: bool,
        streams: impl Iterator<Item = u16>,
    ) -> anyhow::Result<u64> {
        let options = SendOptions {
            unordered,
            ..SendOptions::default()
        };
        // All at once, for it can bundle them then.
        let messages: Vec<Message> = streams
            .map(|stream| Message::new(StreamId(stream), PpId(0), payload.to_vec()))
            .collect();
        let count = messages.len();
        let refused = match self.socket.send_many(messages, &options) {
            Ok(()) => 0,
            Err(BatchSendError(errors)) => {
                ensure!(
                    errors
                        .iter()
                        .all(|(_, error)| matches!(error, SendError::ResourceExhaustion)),
                    "dcSCTP takes no message: {errors:?}"
                );
                errors.len()
            }
        };
        Ok((count - refused) as u64)
    }

    fn handle_packet(&mut self, now: Instant, packet: Vec<u8>) {
        self.advance(now);
        self.socket.handle_input(&packet);
    }

    fn transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.packets.is_empty() {
            self.advance(now);
            while let Some(event) = self.socket.poll_event() {
                if let SocketEvent::SendPacket(packet) = event {
                    self.packets.push_back(packet);
                }
            }
        }
        self.packets.pop_front()
    }

    fn receive(&mut self, _: Instant) -> (u64, u64) {
        let (mut messages, mut bytes) = (0, 0);
        while let Some(message) = self.socket.get_next_message() {
            messages += 1;
            bytes += message.payload.len() as u64;
        }
        (messages, bytes)
    }

    fn next_timeout(&self) -> Option<Instant> {
        let timeout = self.socket.poll_timeout();
        if timeout == SocketTime::infinite_future() {
            return None;
        }
        let since_created: Duration = timeout - SocketTime::zero();
        Some(self.created + since_created)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }
}
