//! Compressed messages (permessage-deflate, RFC 7692).

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};

/// What a sender leaves away at the end of a message (RFC 7692 section 7.2.1).
const END: [u8; 4] = [0, 0, 0xff, 0xff];

/// Undoes the compression of one direction. Whether its messages refer to those before does not matter: the
/// window is kept in any case.
pub(super) struct Inflater(Decompress);

impl Default for Inflater {
    fn default() -> Inflater {
        Inflater(Decompress::new(false))
    }
}

impl Inflater {
    /// About how much memory it takes: a window of 32 KiB and tables.
    pub(super) const HELD: usize = 48 << 10;

    /// A message of at most so many octets.
    pub(super) fn message(&mut self, octets: &[u8], longest: usize) -> Result<Bytes, &'static str> {
        const STEP: usize = 4096;
        let mut message = Vec::new();
        for mut part in [octets, &END] {
            loop {
                if message.len() > longest {
                    return Err("a compressed message of a WebSocket is too long");
                }
                message.reserve(STEP);
                let read = self.0.total_in();
                let status = self
                    .0
                    .decompress_vec(part, &mut message, FlushDecompress::Sync)
                    .map_err(|_| "a compressed message of a WebSocket is damaged")?;
                let read = (self.0.total_in() - read) as usize;
                part = part.get(read..).unwrap_or_default();
                if status == Status::StreamEnd {
                    // Whoever ends the stream begins anew with the next message.
                    self.0.reset(false);
                    return Ok(message.into());
                }
                // Room that is left over says that there is nothing more to come.
                if part.is_empty() && message.len() < message.capacity() {
                    break;
                }
                if read == 0 && message.len() < message.capacity() {
                    return Err("a compressed message of a WebSocket is damaged");
                }
            }
        }
        Ok(message.into())
    }
}
