//! Reads arbitrary bytes as a capture file, once from a source that gives all at once and once from one
//! that gives little at a time: what is seen must be the same, reading must end, and what waits for its
//! other parts must keep within bounds so narrow that inputs of a fuzzer reach them.

use std::io::{self, Read};

use capture::{KeyLog, Limits, Reader, Settings};

const LIMITS: Limits = Limits {
    fragmented_packets: 2,
    fragment_octets: 1000,
    connections: 2,
    connection_octets: 1500,
    associations: 2,
    user_message_octets: 400,
};

/// Secrets for ClientHellos whose random number is all ones.
const KEYS: &[u8] = b"\
CLIENT_RANDOM 0101010101010101010101010101010101010101010101010101010101010101 00
CLIENT_HANDSHAKE_TRAFFIC_SECRET 0101010101010101010101010101010101010101010101010101010101010101 01
SERVER_HANDSHAKE_TRAFFIC_SECRET 0101010101010101010101010101010101010101010101010101010101010101 02
CLIENT_TRAFFIC_SECRET_0 0101010101010101010101010101010101010101010101010101010101010101 03
";

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    // The first byte says how little is given at a time.
    let Some((&piece, file)) = input.split_first() else {
        return;
    };
    let at_once = read(file, file);
    let little = Little {
        rest: file,
        piece: usize::from(piece).max(1),
    };
    assert_eq!(at_once, read(little, file));
}

/// All that is seen, as text.
fn read(source: impl Read, file: &[u8]) -> Vec<String> {
    let mut keys = KeyLog::default();
    keys.add(KEYS);
    let settings = Settings {
        keys,
        limits: LIMITS,
        ..Settings::default()
    };
    let mut seen = Vec::new();
    let mut reader = match Reader::open_with(source, 0, &settings) {
        Ok(reader) => reader,
        Err(error) => return vec![error.to_string()],
    };
    let mut steps = 0;
    while reader
        .step(&mut |what| seen.push(format!("{what:?}")))
        .expect("reading from memory does not fail")
    {
        steps += 1;
        assert!(steps <= file.len(), "each step takes something away");
    }
    assert!(reader.counts().octets <= file.len() as u64);
    seen.push(format!("{:?}", reader.counts()));
    seen
}

/// A source that gives little at a time.
struct Little<'a> {
    rest: &'a [u8],
    piece: usize,
}

impl Read for Little<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.piece.min(buffer.len());
        self.rest.by_ref().take(length as u64).read(buffer)
    }
}
