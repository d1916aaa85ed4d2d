//! dcSCTP, the engine of WebRTC's data channels, in Rust.

use std::collections::VecDeque;
use std::time::Duration;

use dcsctp::api::{
    DcSctpSocket, Options, PpId, SendOptions, SocketEvent, SocketState, SocketTime, StreamId,
    ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS as DTLS,
    ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_NONE as NO_METHOD,
};
use sctp::{Extensions, PrPolicy};

use crate::engine::{Client, How, Message, PORT, Peer, PeerEvent, Route};

/// A socket.
pub(crate) struct Dcsctp {
    socket: Box<dyn DcSctpSocket>,
    packets: VecDeque<Vec<u8>>,
    events: VecDeque<PeerEvent>,
}

impl Dcsctp {
    fn advance(&mut self, now: Duration) {
        self.socket.advance_time(SocketTime::zero() + now);
    }

    fn take(&mut self) {
        while let Some(event) = self.socket.poll_event() {
            let streams = |streams: Vec<StreamId>| streams.into_iter().map(|it| it.0).collect();
            match event {
                SocketEvent::SendPacket(packet) => self.packets.push_back(packet),
                SocketEvent::OnIncomingStreamReset(ids) => {
                    self.events
                        .push_back(PeerEvent::IncomingReset(streams(ids)));
                }
                SocketEvent::OnStreamsResetPerformed(ids) => {
                    self.events
                        .push_back(PeerEvent::OutgoingReset(streams(ids)));
                }
                other => self
                    .events
                    .push_back(PeerEvent::Other(format!("{other:?}"))),
            }
        }
    }
}

impl Peer for Dcsctp {
    const EXTENSIONS: Extensions = {
        let mut extensions = Extensions::NONE;
        extensions.partial_reliability = true;
        extensions.re_configuration = true;
        extensions.interleaving = true;
        extensions.zero_checksum = true;
        extensions
    };

    fn start(extensions: Extensions, streams: u16) -> Option<Dcsctp> {
        let options = Options {
            local_port: PORT,
            remote_port: PORT,
            announced_maximum_outgoing_streams: streams,
            rto_max: Duration::from_secs(1),
            max_retransmissions: None,
            enable_partial_reliability: extensions.partial_reliability,
            enable_message_interleaving: extensions.interleaving,
            zero_checksum_alternate_error_detection_method: if extensions.zero_checksum {
                DTLS
            } else {
                NO_METHOD
            },
            ..Options::default()
        };
        Some(Dcsctp {
            socket: dcsctp::new_socket("", &options),
            packets: VecDeque::new(),
            events: VecDeque::new(),
        })
    }

    fn open(&mut self, client: Client) {
        if client == Client::Peer {
            self.socket.connect();
        }
    }

    fn handle_packet(&mut self, now: Duration, _: Route, packet: &[u8]) {
        self.advance(now);
        self.socket.handle_input(packet);
    }

    fn poll_transmit(&mut self, now: Duration) -> Option<(Route, Vec<u8>)> {
        if self.packets.is_empty() {
            self.advance(now);
            self.take();
        }
        Some((None, self.packets.pop_front()?))
    }

    fn next_timeout(&self) -> Option<Duration> {
        let timeout = self.socket.poll_timeout();
        (timeout != SocketTime::infinite_future()).then(|| timeout - SocketTime::zero())
    }

    fn handle_timeout(&mut self, now: Duration) {
        self.advance(now);
    }

    fn is_up(&self) -> bool {
        self.socket.state() == SocketState::Connected
    }

    fn has_agreed_on(&mut self, extensions: Extensions) -> bool {
        let metrics = self.socket.get_metrics().expect("it is up");
        metrics.uses_message_interleaving == extensions.interleaving
            && metrics.uses_zero_checksum == extensions.zero_checksum
    }

    fn send(&mut self, message: &Message, how: How) {
        let mut options = SendOptions {
            unordered: how.unordered,
            ..SendOptions::default()
        };
        match how.policy {
            PrPolicy::Reliable => {}
            PrPolicy::Timed(life_time) => options.lifetime = Some(life_time),
            PrPolicy::LimitedRetransmissions(count) => {
                options.max_retransmissions = Some(u16::try_from(count).unwrap());
            }
            other => panic!("{other:?} is none of its policies"),
        }
        let stream = StreamId(message.stream);
        let message = dcsctp::api::Message::new(stream, PpId(0), message.payload.clone());
        self.socket.send(message, &options).unwrap();
    }

    fn receive(&mut self) -> Option<Message> {
        let message = self.socket.get_next_message()?;
        Some(Message {
            stream: message.stream_id.0,
            payload: message.payload,
        })
    }

    fn reset_outgoing(&mut self, streams: &[u16]) {
        let streams: Vec<StreamId> = streams.iter().map(|id| StreamId(*id)).collect();
        self.socket.reset_streams(&streams).unwrap();
    }

    fn poll_event(&mut self) -> Option<PeerEvent> {
        self.take();
        self.events.pop_front()
    }
}
