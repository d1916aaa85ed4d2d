//! A capture written to anything, packet by packet.

use crate::Record;
use crate::blocks::{LinkType, append_interface, append_packet, append_section_header};
use crate::headers::append_ip_packet;
use std::io::{self, Write};

/// Writes a capture, each packet by one call of `write_all`: what it writes to should have a
/// buffer of its own.
#[derive(Debug)]
pub struct CaptureWriter<W> {
    to: W,
    buffer: Vec<u8>,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a capture; `interface` is the name by which Wireshark shows where it was taken.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn new(mut to: W, interface: &str) -> io::Result<CaptureWriter<W>> {
        let mut buffer = Vec::new();
        append_prelude(interface, &mut buffer);
        to.write_all(&buffer)?;
        Ok(CaptureWriter { to, buffer })
    }

    /// Writes one packet.
    ///
    /// # Errors
    ///
    /// Those of writing, and [`io::ErrorKind::InvalidInput`] for a packet that is too long for IP.
    pub fn record(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.record_with_comment(record, "")
    }

    /// Writes one packet with a comment, which Wireshark shows beside it; an empty one is none.
    ///
    /// # Errors
    ///
    /// Those of [`CaptureWriter::record`].
    pub fn record_with_comment(&mut self, record: &Record<'_>, comment: &str) -> io::Result<()> {
        self.buffer.clear();
        if !append_record(record, comment, &mut self.buffer) {
            let text = "the packet is too long for IP";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.to.write_all(&self.buffer)
    }

    /// Flushes what it writes to, and gives it back.
    ///
    /// # Errors
    ///
    /// Those of flushing.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// The name of what writes captures.
pub(crate) const APPLICATION: &str = concat!("tandem ", env!("CARGO_PKG_VERSION"));

/// What a capture begins with.
pub(crate) fn append_prelude(interface: &str, out: &mut Vec<u8>) {
    append_section_header(APPLICATION, out);
    append_interface(interface, LinkType::Raw, out);
}

/// One packet of a capture. False, and nothing is appended, when it is too long for IP.
pub(crate) fn append_record(record: &Record<'_>, comment: &str, out: &mut Vec<u8>) -> bool {
    append_packet(record.time, record.direction, comment, out, |out| {
        append_ip_packet(record, out)
    })
}
