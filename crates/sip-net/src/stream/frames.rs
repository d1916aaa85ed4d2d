//! Where messages of a WebSocket begin and end, told from the octets as they pass by: a message that
//! does not come to its end is nothing that the WebSocket itself speaks of.

use std::io::Cursor;

use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::OpCode;

/// How far the frames have come (RFC 6455 section 5.2).
#[derive(Debug)]
pub(super) struct Frames {
    place: Place,
    /// Whether a message has begun of which more frames are to come.
    is_message_open: bool,
}

#[derive(Debug)]
enum Place {
    /// In the handshake by HTTP: so much of the empty line at its end has come.
    Handshake(usize),
    /// In what is before the octets of a frame.
    Header(Vec<u8>),
    /// In the octets of a frame: so many are to come.
    Payload(u64),
}

/// What ends the handshake.
const EMPTY_LINE: &[u8] = b"\r\n\r\n";

impl Frames {
    /// Before the handshake.
    pub(super) fn new() -> Frames {
        Frames {
            place: Place::Handshake(0),
            is_message_open: false,
        }
    }

    /// Whether what has come ends within a message, or a frame.
    pub(super) fn is_partial(&self) -> bool {
        match &self.place {
            Place::Handshake(_) => false,
            Place::Header(octets) => self.is_message_open || !octets.is_empty(),
            Place::Payload(_) => true,
        }
    }

    /// More has come.
    pub(super) fn pass(&mut self, mut octets: &[u8]) {
        while let [first, rest @ ..] = octets {
            match &mut self.place {
                Place::Handshake(come) => {
                    octets = rest;
                    if EMPTY_LINE.get(*come) == Some(first) {
                        *come += 1;
                    } else {
                        *come = usize::from(EMPTY_LINE.first() == Some(first));
                    }
                    if *come == EMPTY_LINE.len() {
                        self.place = Place::Header(Vec::new());
                    }
                }
                Place::Header(header) => {
                    octets = rest;
                    header.push(*first);
                    let length = match FrameHeader::parse(&mut Cursor::new(header)) {
                        Ok(None) => continue,
                        Ok(Some((header, length))) => {
                            // Control frames come between those of a message (section 5.4).
                            if let OpCode::Data(_) = header.opcode {
                                self.is_message_open = !header.is_final;
                            }
                            length
                        }
                        // The WebSocket ends the connection.
                        Err(_) => u64::MAX,
                    };
                    self.place = match length {
                        0 => Place::Header(Vec::new()),
                        length => Place::Payload(length),
                    };
                }
                Place::Payload(left) => {
                    let come = (octets.len() as u64).min(*left);
                    *left -= come;
                    // No more than there are.
                    octets = octets.get(come as usize..).unwrap_or_default();
                    if *left == 0 {
                        self.place = Place::Header(Vec::new());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(octets: &[u8]) -> bool {
        let mut frames = Frames::new();
        frames.pass(b"GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n");
        frames.pass(octets);
        frames.is_partial()
    }

    #[test]
    fn whole_messages_leave_nothing() {
        let mut frames = Frames::new();
        frames.pass(b"HTTP/1.1 101 Whatever\r\n");
        assert!(!frames.is_partial());
        assert!(!after(b""));
        assert!(!after(b"\x81\x05Hello"));
        assert!(!after(b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"));
        assert!(!after(b"\x89\x00\x81\x00"));
        assert!(!after(b"\x01\x03Hel\x80\x02lo"));
    }

    #[test]
    fn a_part_of_a_frame_or_message_is_seen() {
        assert!(after(b"\x81"));
        assert!(after(b"\x81\x05Hell"));
        assert!(after(b"\x81\x85\x37\xfa\x21"));
        assert!(after(b"\x81\x05Hello\x81"));
        assert!(after(b"\x01\x03Hel"));
        assert!(after(b"\x01\x03Hel\x89\x00"));
        assert!(after(b"\x01\x03Hel\x89\x01x\x00\x00"));
    }

    #[test]
    fn long_frames_end_where_they_say() {
        for (length, header) in [
            (200_usize, &b"\x82\x7e\x00\xc8"[..]),
            (70_000, b"\x82\x7f\x00\x00\x00\x00\x00\x01\x11\x70"),
        ] {
            let mut octets = header.to_vec();
            octets.resize(header.len() + length - 1, b'x');
            assert!(after(&octets));
            octets.push(b'x');
            assert!(!after(&octets));
        }
        assert!(after(b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff."));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn how_octets_are_cut_does_not_matter(
            octets in prop::collection::vec(any::<u8>(), 0..300),
            at in any::<prop::sample::Index>(),
        ) {
            let at = at.index(octets.len() + 1);
            let mut frames = Frames::new();
            frames.pass(EMPTY_LINE);
            frames.pass(&octets[..at]);
            frames.pass(&octets[at..]);
            prop_assert_eq!(frames.is_partial(), after(&octets));
        }
    }
}
