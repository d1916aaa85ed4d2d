//! Messages in the frames of a WebSocket (RFC 6455 section 5), compressed ones too (RFC 7692).

mod inflate;

use std::io::Cursor;

use bytes::{Buf, Bytes, BytesMut};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::start_line::{LONGEST_LINE, begins_message};

use inflate::Inflater;

/// The longest message that is put together, and the longest frame.
const LONGEST_MESSAGE: usize = 256 * 1024;

/// One direction of a WebSocket.
#[derive(Default)]
pub(crate) struct WebSocket {
    /// The frames of a message that is not whole yet.
    parts: BytesMut,
    /// Whether that message is compressed.
    is_compressed: bool,
    /// What undoes compression, once there was some: a message may refer to those before it.
    inflater: Option<Inflater>,
}

impl WebSocket {
    /// How many octets it holds.
    pub(crate) fn held(&self) -> usize {
        let window = self.inflater.as_ref().map_or(0, |_| Inflater::HELD);
        self.parts.capacity() + window
    }

    /// Takes frames off the front until a message is whole. `None` when more is needed.
    ///
    /// # Errors
    ///
    /// When no frame is at the front, or one that is not understood.
    pub(crate) fn next(&mut self, received: &mut BytesMut) -> Result<Option<Bytes>, &'static str> {
        loop {
            let mut cursor = Cursor::new(&received[..]);
            let header = FrameHeader::parse(&mut cursor);
            let header_length = cursor.position() as usize;
            let (header, length) = match header {
                Ok(Some(header)) => header,
                Ok(None) => return Ok(None),
                Err(_) => return Err("no frame of a WebSocket"),
            };
            // The first bit tells that a message is compressed, in its first frame (RFC 7692 section 6).
            let begins_message =
                matches!(header.opcode, OpCode::Data(kind) if kind != Data::Continue);
            if header.rsv1 && !begins_message || header.rsv2 || header.rsv3 {
                return Err("a WebSocket with an unknown extension");
            }
            if length > LONGEST_MESSAGE as u64 {
                return Err("a frame of a WebSocket is too long");
            }
            let end = header_length + length as usize;
            if received.len() < end {
                return Ok(None);
            }
            let mut frame = received.split_to(end);
            frame.advance(header_length);
            if let Some(mask) = header.mask {
                unmask(&mut frame, mask);
            }
            // Control frames may come between those of a message.
            let OpCode::Data(kind) = header.opcode else {
                continue;
            };
            if kind != Data::Continue {
                self.parts = BytesMut::new();
                self.is_compressed = header.rsv1;
                if header.is_final {
                    return self.whole(frame).map(Some);
                }
            }
            if self.parts.len() + frame.len() > LONGEST_MESSAGE {
                return Err("a message of a WebSocket is too long");
            }
            self.parts.extend_from_slice(&frame);
            if header.is_final {
                let parts = std::mem::take(&mut self.parts);
                return self.whole(parts).map(Some);
            }
        }
    }

    /// The message that whole frames have.
    fn whole(&mut self, octets: BytesMut) -> Result<Bytes, &'static str> {
        match self.is_compressed {
            false => Ok(octets.freeze()),
            true => self
                .inflater
                .get_or_insert_default()
                .message(&octets, LONGEST_MESSAGE),
        }
    }

    /// Whether octets begin with a frame that has a SIP message: so frames are known when the capture does
    /// not have how the WebSocket began.
    pub(crate) fn seems_to_begin(octets: &[u8]) -> bool {
        let mut cursor = Cursor::new(octets);
        let Ok(Some((header, length))) = FrameHeader::parse(&mut cursor) else {
            return false;
        };
        let is_data = matches!(header.opcode, OpCode::Data(Data::Text | Data::Binary));
        let is_plain = !header.rsv1 && !header.rsv2 && !header.rsv3;
        if !is_data || !is_plain || length > LONGEST_MESSAGE as u64 {
            return false;
        }
        let start = (cursor.position() as usize).min(octets.len());
        let end = (start + length as usize)
            .min(octets.len())
            .min(start + LONGEST_LINE);
        let mut line = octets[start..end].to_vec();
        if let Some(mask) = header.mask {
            unmask(&mut line, mask);
        }
        begins_message(&line, true)
    }
}

/// Takes the mask off that a client put on (section 5.3).
fn unmask(octets: &mut [u8], mask: [u8; 4]) {
    for (octet, mask) in octets.iter_mut().zip(mask.iter().cycle()) {
        *octet ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n";

    /// A frame, masked as a client masks.
    fn frame(first: u8, octets: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![first, 0x80 | octets.len() as u8];
        frame.extend(mask);
        frame.extend(octets);
        unmask(&mut frame[6..], mask);
        frame
    }

    #[test]
    fn a_message_in_several_frames_with_a_ping_between() {
        let stream = [
            frame(0x01, &MESSAGE[..10]),
            frame(0x89, b"ping"),
            frame(0x00, &MESSAGE[10..20]),
            frame(0x80, &MESSAGE[20..]),
            frame(0x82, MESSAGE),
        ]
        .concat();
        for piece in 1..stream.len() {
            let mut web_socket = WebSocket::default();
            let mut received = BytesMut::new();
            let mut messages = Vec::new();
            for piece in stream.chunks(piece) {
                received.extend_from_slice(piece);
                while let Some(message) = web_socket.next(&mut received).unwrap() {
                    messages.push(message);
                }
            }
            assert_eq!(messages, [MESSAGE, MESSAGE], "{piece}");
        }
    }

    /// A message as a peer compresses it that goes on with the same window (RFC 7692 section 7.2.1).
    fn compressed(compress: &mut flate2::Compress, message: &[u8]) -> Vec<u8> {
        let mut octets = Vec::with_capacity(message.len() + 64);
        compress
            .compress_vec(message, &mut octets, flate2::FlushCompress::Sync)
            .expect("it compresses");
        assert!(octets.ends_with(&[0, 0, 0xff, 0xff]));
        octets.truncate(octets.len() - 4);
        octets
    }

    #[test]
    fn compressed_messages_are_read() {
        let mut compress = flate2::Compress::new(flate2::Compression::default(), false);
        let [first, second, third] = [(); 3].map(|()| compressed(&mut compress, MESSAGE));
        assert!(second.len() < first.len(), "it refers to the first one");
        let (head, tail) = third.split_at(2);
        let stream = [
            frame(0xc1, &first),
            frame(0xc1, &second),
            frame(0x81, MESSAGE),
            frame(0x41, head),
            frame(0x80, tail),
        ]
        .concat();
        let mut web_socket = WebSocket::default();
        let mut received = BytesMut::from(&stream[..]);
        for _ in 0..4 {
            assert_eq!(web_socket.next(&mut received).unwrap().unwrap(), MESSAGE);
        }
        assert_eq!(web_socket.next(&mut received), Ok(None));
    }

    #[test]
    fn what_grows_without_bound_is_refused() {
        let mut compress = flate2::Compress::new(flate2::Compression::best(), false);
        let bomb = compressed(&mut compress, &vec![b'a'; 2 * LONGEST_MESSAGE]);
        let mut inflater = Inflater::default();
        assert!(inflater.message(&bomb, LONGEST_MESSAGE).is_err());
    }

    #[test]
    fn frames_are_known_without_the_handshake() {
        assert!(WebSocket::seems_to_begin(&frame(0x81, MESSAGE)));
        assert!(!WebSocket::seems_to_begin(&frame(0x81, b"hello, world")));
        assert!(!WebSocket::seems_to_begin(MESSAGE));
    }

    #[test]
    fn what_is_no_frame_is_said() {
        let mut web_socket = WebSocket::default();
        // Not compressed, though it says so; compressed in the middle of a message.
        for octets in [frame(0xc1, MESSAGE), frame(0xc0, MESSAGE)] {
            let mut octets = BytesMut::from(&octets[..]);
            assert!(web_socket.next(&mut octets).is_err());
        }
        let mut reserved = BytesMut::from(&[0x83, 0][..]);
        assert!(web_socket.next(&mut reserved).is_err());
        let mut endless = BytesMut::from(&[0x82, 127, 0x7f, 0, 0, 0, 0, 0, 0, 0][..]);
        assert!(web_socket.next(&mut endless).is_err());
    }
}
