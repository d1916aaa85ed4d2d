//! Cuts arbitrary bytes into SIP messages as if they had come over a stream, once in one piece and
//! once in many small ones: the frames must be the same.

use bytes::BytesMut;
use sip::{Frame, FramingError, FramingLimits, Message, StreamReader};

/// Small enough to be reached by the inputs of a fuzzer.
const LIMITS: FramingLimits = FramingLimits {
    header_bytes: 512,
    body_bytes: 256,
};

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    // The first byte says how small the pieces are.
    let Some((&piece, stream)) = input.split_first() else {
        return;
    };
    let in_one_piece = frames(stream, stream.len().max(1));
    let in_small_pieces = frames(stream, usize::from(piece).max(1));
    assert_eq!(in_one_piece, in_small_pieces);
}

/// All frames, and the error that ends the stream.
fn frames(stream: &[u8], piece: usize) -> (Vec<Frame>, Option<FramingError>) {
    let mut reader = StreamReader::new(LIMITS);
    let mut received = BytesMut::new();
    let mut frames = Vec::new();
    for octets in stream.chunks(piece) {
        received.extend_from_slice(octets);
        loop {
            let before = received.len();
            match reader.next(&mut received) {
                Ok(Some(frame)) => {
                    assert!(received.len() < before, "a frame takes something away");
                    look_at(&frame);
                    frames.push(frame);
                }
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(received.len() <= LIMITS.header_bytes + LIMITS.body_bytes);
    }
    (frames, None)
}

/// The reader of messages finds the same end of the message as the reader of streams.
fn look_at(frame: &Frame) {
    if let Frame::Message(octets) = frame {
        assert!(octets.len() <= LIMITS.header_bytes + LIMITS.body_bytes);
        if let Ok(message) = Message::read(octets.clone()) {
            assert!(octets.ends_with(&message.to_bytes()));
        }
    }
}
