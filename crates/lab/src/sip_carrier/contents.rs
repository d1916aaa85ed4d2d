//! What is in a packet, in words and numbers.

use report::ArrowKind;
use sctp::packet::{Chunk, Packet as SctpPacket};
use sip::Message;

use super::packet::Packet;

/// What is in a packet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contents {
    /// Chunks and messages, such as `COOKIE ECHO, DATA: REGISTER`.
    pub(crate) text: String,
    pub(crate) kind: ArrowKind,
    /// Whole SIP messages.
    pub(crate) messages: usize,
    /// Whether it only watches the path (RFC 9260 section 8.3).
    pub(crate) is_heartbeat: bool,
}

impl Contents {
    /// Those of a packet; nothing of a TCP segment, whose messages may begin and end anywhere.
    pub(crate) fn of(packet: &Packet) -> Contents {
        let mut contents = Contents {
            text: String::new(),
            kind: ArrowKind::Transport,
            messages: 0,
            is_heartbeat: false,
        };
        match packet {
            Packet::Udp { payload, .. } => {
                let name = contents.message(payload.clone());
                contents.add(name);
            }
            Packet::Sctp(packet) => {
                let Ok(packet) = SctpPacket::read(packet) else {
                    return contents;
                };
                for chunk in packet.chunks().flatten() {
                    contents.is_heartbeat |=
                        matches!(chunk, Chunk::Heartbeat(_) | Chunk::HeartbeatAck(_));
                    let name = match chunk {
                        Chunk::Data(data) => {
                            let name = contents.message(data.user_data.to_vec().into());
                            format!("DATA: {name}")
                        }
                        other => name_of(&other).to_owned(),
                    };
                    contents.add(name);
                }
            }
            Packet::Tcp(_) => contents.add("segment".to_owned()),
        }
        contents
    }

    fn add(&mut self, name: String) {
        if !self.text.is_empty() {
            self.text.push_str(", ");
        }
        self.text.push_str(&name);
    }

    /// Counts a SIP message, and returns its name.
    fn message(&mut self, payload: bytes::Bytes) -> String {
        let Ok(message) = Message::read(payload) else {
            return "?".to_owned();
        };
        self.messages += 1;
        let (kind, name) = match (message.method(), message.status()) {
            (Some(method), _) => (ArrowKind::Request, method.to_string()),
            (None, status) => {
                let status = status.unwrap_or_default();
                let kind = match status {
                    0..300 => ArrowKind::Good,
                    _ => ArrowKind::Bad,
                };
                (
                    kind,
                    format!("{status} {}", message.reason().unwrap_or_default()),
                )
            }
        };
        self.kind = kind;
        name
    }
}

fn name_of(chunk: &Chunk<'_>) -> &'static str {
    match chunk {
        Chunk::Init(_) => "INIT",
        Chunk::InitAck(_) => "INIT ACK",
        Chunk::CookieEcho(_) => "COOKIE ECHO",
        Chunk::CookieAck => "COOKIE ACK",
        Chunk::Sack(_) => "SACK",
        Chunk::Heartbeat(_) => "HEARTBEAT",
        Chunk::HeartbeatAck(_) => "HEARTBEAT ACK",
        Chunk::Shutdown(_) => "SHUTDOWN",
        Chunk::ShutdownAck => "SHUTDOWN ACK",
        Chunk::ShutdownComplete(_) => "SHUTDOWN COMPLETE",
        Chunk::Abort(_) => "ABORT",
        _ => "another chunk",
    }
}
